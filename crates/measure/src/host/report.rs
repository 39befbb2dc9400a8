//! What the checks found, as data.

use super::check::{Check, Gain, SOURCES, Severity};
use super::checks;
use super::facts::Facts;
use super::found::HostSetting;
use super::found::{CheckResult, CheckVerdict, NotJudged};
use super::target::HostTarget;
use super::view::HostView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckLine {
    /// Its name.
    pub id: String,
    /// What is checked.
    pub title: String,
    /// What it concludes.
    pub verdict: CheckVerdict,
    /// The impact of leaving it.
    pub severity: Severity,
    /// What a fix improves.
    pub gain: Gain,
    /// What is there.
    pub value: String,
    /// What is wanted.
    pub wanted: String,
    /// What else was seen; why nothing could be judged.
    pub evidence: Vec<String>,
    /// Why it matters.
    pub why: String,
    /// Commands that fix it now.
    pub fix_now: Vec<String>,
    /// Commands that make the fix permanent.
    pub fix_persistent: Vec<String>,
    /// What `--apply` writes.
    pub settings: Vec<HostSetting>,
    /// Who recommends it.
    pub sources: Vec<String>,
    /// Kernels to which it applies.
    pub kernels: String,
}

/// A run during which counters were watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedRun {
    /// Command and arguments.
    pub command: Vec<String>,
    /// How long it ran.
    pub seconds: f64,
    /// How it ended: its status, or the signal; none if it could not be told.
    pub ended: String,
    /// Counters that rose, by how much.
    pub rose: BTreeMap<String, u64>,
}

impl WatchedRun {
    /// What rose between two readings.
    #[must_use]
    pub fn new(command: Vec<String>, seconds: f64, ended: String, before: &Facts, after: &Facts) -> Self {
        let rose = after.each("count/", "").filter_map(|(name, value)| {
            let full = format!("count/{name}");
            let by = value.parse::<u64>().ok()?.checked_sub(before.number(&full).unwrap_or(0))?;
            (by > 0).then(|| (name.to_owned(), by))
        });
        let rose = rose.collect();
        Self { command, seconds, ended, rose }
    }
}

/// What was found on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Name of the host.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// The interface of the data.
    pub interface: String,
    /// What the host is wanted for.
    pub target: HostTarget,
    /// The run during which its counters were watched, if there was one.
    pub watched: Option<WatchedRun>,
    /// Checks by verdict.
    pub counts: BTreeMap<CheckVerdict, usize>,
    /// All of them, in the order of the table.
    pub checks: Vec<CheckLine>,
}

impl HostReport {
    /// Judge a host by the checks that `only` selects: a letter is a group, a letter and a number one check, nothing all.
    #[must_use]
    pub fn new(view: &HostView<'_>, only: &[String]) -> Self {
        let checks: Vec<CheckLine> =
            checks::all().filter(|check| selects(only, check.id)).map(|check| line(check, view)).collect();
        let mut counts = BTreeMap::new();
        for line in &checks {
            *counts.entry(line.verdict).or_default() += 1;
        }
        let facts = view.facts;
        Self {
            host: facts.host.clone(),
            kernel: facts.kernel.clone(),
            interface: facts.interface.clone(),
            target: view.target.clone(),
            watched: None,
            counts,
            checks,
        }
    }

    /// How many checks conclude this.
    #[must_use]
    pub fn count(&self, verdict: CheckVerdict) -> usize {
        self.counts.get(&verdict).copied().unwrap_or(0)
    }

    /// The checks that conclude this, the gravest first.
    #[must_use]
    pub fn of(&self, verdict: CheckVerdict) -> Vec<&CheckLine> {
        let mut lines: Vec<&CheckLine> = self.checks.iter().filter(|line| line.verdict == verdict).collect();
        lines.sort_by_key(|line| line.severity);
        lines
    }
}

fn selects(only: &[String], id: &str) -> bool {
    only.is_empty()
        || only.iter().any(|wanted| wanted == id || (wanted.len() == 1 && id.starts_with(wanted.as_str())))
}

/// Whether `--only` may say this.
///
/// # Errors
/// It names no check and no group.
pub fn selection(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    if checks::all().any(|check| selects(std::slice::from_ref(&upper), check.id)) {
        Ok(upper)
    } else {
        Err(format!("'{text}' is not a check; hint: give a group (A, B, C or D) or a check such as C14"))
    }
}

/// One line of the report.
fn line(check: &Check, view: &HostView<'_>) -> CheckLine {
    let examined = if check.kernels.include(view.facts.kernel_version()) {
        (check.examine)(view)
    } else {
        Err(NotJudged::NotApplicable(format!("for Linux {}", check.kernels)))
    };
    let found = examined.unwrap_or_else(|gap| {
        let (verdict, why) = match gap {
            NotJudged::Unknown(why) => (CheckVerdict::Unknown, why),
            NotJudged::NotApplicable(why) => (CheckVerdict::NotApplicable, why),
        };
        CheckResult { verdict, ..CheckResult::info("", "") }.shows(why)
    });
    let sources = check.sources.chars();
    let named = sources.filter_map(|letter| SOURCES.iter().find(|(of, _)| *of == letter));
    CheckLine {
        id: check.id.to_owned(),
        title: check.title.to_owned(),
        verdict: found.verdict,
        severity: check.severity,
        gain: check.gain,
        fix_now: found.fix.now(),
        fix_persistent: found.fix.persistent(),
        settings: found.fix.settings,
        value: found.value,
        wanted: found.wanted,
        evidence: found.evidence,
        why: check.why.to_owned(),
        sources: named.map(|(_, name)| (*name).to_owned()).collect(),
        kernels: check.kernels.to_string(),
    }
}
