//! Findings, with their severity.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Findings that are kept; more are counted only.
pub(in crate::recording) const MOST_FINDINGS: usize = 1000;

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every chunk verified, nothing missing.
    Whole,
    /// Every chunk verified; data that never arrived are marked as missing.
    Holes,
    /// Every chunk verified, but its frames are not those of a regular stream: their times do not follow their places, or
    /// threads, stations or frame rates change.
    Irregular,
    /// Something cannot be verified: no record, no known end, or an absent disk.
    Unproven,
    /// Recorded data are missing or have changed, or were lost during the recording.
    Damaged,
}

impl Verdict {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Whole => "whole",
            Verdict::Holes => "holes",
            Verdict::Irregular => "irregular",
            Verdict::Unproven => "unproven",
            Verdict::Damaged => "damaged",
        }
    }
}

/// A problem (or, with verdict `whole` or `holes`, a note).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its severity.
    pub verdict: Verdict,
    /// The file it is about, if it is about one.
    pub path: Option<PathBuf>,
    /// Its description.
    pub text: String,
}

/// Findings as they are made: the first 1000, and how many there are.
#[derive(Clone, Debug, Default)]
pub(in crate::recording) struct Findings {
    pub(in crate::recording) all: Vec<Finding>,
    pub(in crate::recording) total: u64,
    pub(in crate::recording) worst: Option<Verdict>,
}

impl Findings {
    pub(in crate::recording) fn add(
        &mut self,
        verdict: Verdict,
        path: Option<&PathBuf>,
        text: impl Into<String>,
    ) {
        self.worst = self.worst.max(Some(verdict));
        self.total += 1;
        if self.all.len() < MOST_FINDINGS {
            self.all.push(Finding { verdict, path: path.cloned(), text: text.into() });
        }
    }
}

impl From<&[Finding]> for Findings {
    fn from(found: &[Finding]) -> Findings {
        let mut findings = Findings::default();
        found.iter().for_each(|one| findings.add(one.verdict, one.path.as_ref(), one.text.clone()));
        findings
    }
}
