//! What a check found, or why it has nothing to judge.

use super::fix::Fix;
use serde::{Deserialize, Serialize};

/// What a check concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A counter rose: something was lost, or went wrong.
    Fail,
    /// A rule is broken.
    Warn,
    /// Sources disagree, or it is worth knowing.
    Info,
    /// As wanted.
    Pass,
    /// It could not be read.
    Unknown,
    /// It means nothing on this host.
    NotApplicable,
}

/// What examining gives.
pub type Examined = Result<Found, Gap>;

/// Why a check has nothing to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Something could not be read.
    Unknown(String),
    /// It means nothing on this host.
    NotApplicable(String),
}

/// It means nothing here.
pub(super) fn not_applicable<T>(why: impl Into<String>) -> Result<T, Gap> {
    Err(Gap::NotApplicable(why.into()))
}

/// It could not be read.
pub(super) fn unknown<T>(why: impl Into<String>) -> Result<T, Gap> {
    Err(Gap::Unknown(why.into()))
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub(super) verdict: Verdict,
    pub(super) value: String,
    pub(super) wanted: String,
    pub(super) evidence: Vec<String>,
    pub(super) fix: Fix,
}

impl Found {
    fn new(verdict: Verdict, value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self {
            verdict,
            value: value.into(),
            wanted: wanted.into(),
            evidence: Vec::new(),
            fix: Fix::default(),
        }
    }
    pub(super) fn pass(value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(Verdict::Pass, value, wanted)
    }
    pub(super) fn info(value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(Verdict::Info, value, wanted)
    }
    pub(super) fn warn(value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, value, wanted)
    }
    pub(super) fn fail(value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, value, wanted)
    }
    /// A rule: it holds, or it is a warning.
    pub(super) fn rule(holds: bool, value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::new(if holds { Verdict::Pass } else { Verdict::Warn }, value, wanted)
    }
    /// A rule that matters only sometimes: what breaks it otherwise is only worth knowing.
    pub(super) fn rule_if(
        matters: bool,
        holds: bool,
        value: impl Into<String>,
        wanted: impl Into<String>,
    ) -> Self {
        let mut found = Self::rule(holds, value, wanted);
        if !matters && !holds {
            found.verdict = Verdict::Info;
        }
        found
    }
    /// What else was seen.
    pub(super) fn shows(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }
    /// What else was seen, if it was.
    pub(super) fn shows_if(self, seen: bool, evidence: impl Into<String>) -> Self {
        if seen { self.shows(evidence) } else { self }
    }
    /// A setting that mends it at once; nothing if it is as wanted.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and text alike")]
    pub(super) fn set(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        if self.verdict != Verdict::Pass {
            self.fix.set(name.into(), value.to_string());
        }
        self
    }
    /// What to do, where no setting of ours does: now, and for every start. Empty is nothing.
    pub(super) fn advise(mut self, now: impl Into<String>, persistent: impl Into<String>) -> Self {
        if self.verdict != Verdict::Pass {
            self.fix.advise(now.into(), persistent.into());
        }
        self
    }
}
