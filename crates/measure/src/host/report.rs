//! What the checks found, as data.

use super::check::{Check, Gain, SOURCES, Severity};
use super::checks;
use super::facts::Facts;
use super::fix::Setting;
use super::found::{Found, Gap, Verdict};
use super::target::Target;
use super::view::View;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its name.
    pub id: String,
    /// What is checked.
    pub title: String,
    /// What it concludes.
    pub verdict: Verdict,
    /// What it costs to leave it.
    pub severity: Severity,
    /// What there is to gain.
    pub gain: Gain,
    /// What is there.
    pub value: String,
    /// What is wanted.
    pub wanted: String,
    /// What else was seen; why nothing could be judged.
    pub evidence: Vec<String>,
    /// Why it matters.
    pub why: String,
    /// Commands that mend it now.
    pub fix_now: Vec<String>,
    /// Commands that mend it for every start.
    pub fix_persistent: Vec<String>,
    /// What `--apply` writes.
    pub settings: Vec<Setting>,
    /// Who recommends it.
    pub sources: Vec<String>,
    /// Kernels that it is for.
    pub kernels: String,
}

/// A run during which counters were watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Command and arguments.
    pub command: Vec<String>,
    /// How long it ran.
    pub seconds: f64,
    /// How it ended: its status, or the signal; none if it could not be told.
    pub ended: String,
    /// Counters that rose, by how much.
    pub rose: BTreeMap<String, u64>,
}

impl Watched {
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
    pub target: Target,
    /// The run during which its counters were watched, if there was one.
    pub watched: Option<Watched>,
    /// Checks by verdict.
    pub counts: BTreeMap<Verdict, usize>,
    /// All of them, in the order of the table.
    pub checks: Vec<Line>,
}

impl HostReport {
    /// Judge a host by the checks that `only` selects: a letter is a group, a letter and a number one check, nothing all.
    #[must_use]
    pub fn new(view: &View<'_>, only: &[String]) -> Self {
        let checks: Vec<Line> =
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
    pub fn count(&self, verdict: Verdict) -> usize {
        self.counts.get(&verdict).copied().unwrap_or(0)
    }

    /// The checks that conclude this, the gravest first.
    #[must_use]
    pub fn of(&self, verdict: Verdict) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.checks.iter().filter(|line| line.verdict == verdict).collect();
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
        Err(format!("'{text}' is no check; hint: a group (A, B, C or D) or a check such as C14"))
    }
}

/// One line of the report.
fn line(check: &Check, view: &View<'_>) -> Line {
    let examined = if check.kernels.include(view.facts.kernel_version()) {
        (check.examine)(view)
    } else {
        Err(Gap::NotApplicable(format!("for Linux {}", check.kernels)))
    };
    let found = examined.unwrap_or_else(|gap| {
        let (verdict, why) = match gap {
            Gap::Unknown(why) => (Verdict::Unknown, why),
            Gap::NotApplicable(why) => (Verdict::NotApplicable, why),
        };
        Found { verdict, ..Found::info("", "") }.shows(why)
    });
    let sources = check.sources.chars();
    let named = sources.filter_map(|letter| SOURCES.iter().find(|(of, _)| *of == letter));
    Line {
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
