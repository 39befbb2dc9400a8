//! The results of the checks, as data; and two snapshots compared: of one host before and after, or of two hosts.
//!
//! Interfaces are compared whatever their names are. Counters, and what changes from one moment to the next, are left out.

use super::check::{Check, Gain, HostView, SOURCES, Severity};
use super::checks;
use super::facts::{Fact, Facts, VERSION};
use super::found::{CheckResult, CheckVerdict, HostSetting, NotJudged};
use super::target::HostTarget;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

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
        Err(format!("'{text}' is not a check{}", Hint("give a group (A, B, C or D) or a check such as C14")))
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

/// Octets of a snapshot, at most: a host of a thousand processors has a tenth of it.
const MAX_SNAPSHOT_BYTES: u64 = 32 << 20;
/// What stands for the interface of the data.
const INTERFACE: &str = "{interface}";

/// One fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactChange {
    /// Its name, with `{interface}` for that of the data.
    pub name: String,
    /// In the first; none if it is not there.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// One check that concludes something else, or sees another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckChange {
    /// Its name.
    pub id: String,
    /// What is checked.
    pub title: String,
    /// Verdict and value in the first.
    pub a: (CheckVerdict, String),
    /// In the second.
    pub b: (CheckVerdict, String),
}

/// What differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotDiff {
    /// Host, kernel and interface of the first.
    pub a: String,
    /// Of the second.
    pub b: String,
    /// Checks that differ.
    pub checks: Vec<CheckChange>,
    /// Facts that differ.
    pub facts: Vec<FactChange>,
}

impl SnapshotDiff {
    /// Compare two snapshots, judged for the same use.
    #[must_use]
    pub fn new(a: &Facts, b: &Facts, target: &HostTarget, only: &[String]) -> Self {
        let report = |facts: &Facts| {
            HostReport::new(&HostView { facts, before: None, peer: None, target }, only).checks
        };
        let checks = report(a)
            .into_iter()
            .zip(report(b))
            .filter(|(a, b)| (a.verdict, &a.value) != (b.verdict, &b.value));
        let checks = checks
            .map(|(a, b)| CheckChange {
                id: a.id,
                title: a.title,
                a: (a.verdict, a.value),
                b: (b.verdict, b.value),
            })
            .collect();
        let (of_a, of_b) = (settled(a), settled(b));
        let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
        let changed = names.into_iter().filter(|name| of_a.get(*name) != of_b.get(*name));
        let facts = changed
            .map(|name| FactChange {
                name: name.clone(),
                a: of_a.get(name).cloned(),
                b: of_b.get(name).cloned(),
            })
            .collect();
        let title = |of: &Facts| format!("{}, Linux {}, interface {}", of.host, of.kernel, of.interface);
        Self { a: title(a), b: title(b), checks, facts }
    }
}

/// What does not change from one moment to the next, under names without that of the interface.
fn settled(facts: &Facts) -> BTreeMap<String, String> {
    let moving = |name: &str| {
        name.starts_with("count/")
            || name.ends_with("_error_us")
            || name.ends_with("/rtt_us")
            || name.ends_with("#free")
            || name.ends_with("/temperature")
            || name.ends_with("nf_conntrack_count")
            || name == "memory/bandwidth"
    };
    let text = |fact: &Fact| match fact {
        Fact::Text(text) => {
            let named = |word| if word == facts.interface { INTERFACE } else { word };
            text.split(' ').map(named).collect::<Vec<_>>().join(" ")
        }
        Fact::Unreadable { unreadable } => format!("unreadable: {unreadable}"),
    };
    let renamed = |name: &str| {
        let parts = name.split('/').map(|part| if part == facts.interface { INTERFACE } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let all = facts.facts.iter().filter(|(name, _)| !moving(name));
    all.map(|(name, fact)| (renamed(name), text(fact))).collect()
}

/// Read a snapshot that was saved.
///
/// # Errors
/// It cannot be read, is none, or is of another version; each with a hint.
pub fn load(path: &Path) -> io::Result<Facts> {
    let text = skyhaul_io::file::read_small(path, MAX_SNAPSHOT_BYTES as usize)?;
    read(&text).map_err(|why| {
        let hint = "`skyhaul host --save FILE` writes one";
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a host snapshot: {why}{}", path.display(), Hint(format_args!("{hint}"))),
        )
    })
}

/// Read the octets of a snapshot.
///
/// # Errors
/// Why it is none.
pub fn read(octets: &[u8]) -> Result<Facts, String> {
    if octets.len() as u64 > MAX_SNAPSHOT_BYTES {
        return Err(format!("larger than {} MiB", MAX_SNAPSHOT_BYTES >> 20));
    }
    let facts: Facts = serde_json::from_slice(octets).map_err(|error| error.to_string())?;
    if facts.version == VERSION {
        Ok(facts)
    } else {
        Err(format!("version {}, expected {VERSION}", facts.version))
    }
}

/// Write a snapshot.
///
/// # Errors
/// It cannot be written; with a hint.
pub fn save(facts: &Facts, path: &Path) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(facts).map_err(io::Error::other)?;
    skyhaul_io::file::replace(path, text)
}
