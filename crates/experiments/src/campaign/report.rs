//! The results of experiments, as data for text, JSON and pages.

use super::figure::{Figure, Text};
use serde::{Deserialize, Serialize};
use skyhaul_measure::lab::LabReport;
use std::collections::BTreeMap;

/// All experiments.
#[derive(Debug, Serialize)]
pub struct CampaignReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// The command that was typed.
    pub command: String,
    /// Processors, memory and kernel.
    pub machine: String,
    /// Whether less of everything was measured.
    pub quick: bool,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// Experiments that were done.
    pub made: usize,
    /// Those that this machine cannot run.
    pub skipped: usize,
    /// Those that failed.
    pub failed: usize,
    /// Predictions that were compared.
    pub claims: usize,
    /// Predictions that did not hold.
    pub broken: usize,
    /// In the order of the page.
    pub experiments: Vec<ExperimentReport>,
}

impl CampaignReport {
    /// Counts the experiments that were made so far.
    #[must_use]
    pub fn new(command: String, machine: String, quick: bool, experiments: Vec<ExperimentReport>) -> Self {
        let count = |state| experiments.iter().filter(|made| made.state == state).count();
        Self {
            version: skyhaul::report::VERSION,
            command,
            machine,
            quick,
            interrupted: false,
            made: count(State::Done),
            skipped: count(State::Skipped),
            failed: count(State::Failed),
            claims: experiments.iter().map(|made| made.claims().0).sum(),
            broken: experiments.iter().map(|made| made.claims().1).sum(),
            experiments,
        }
    }
}

/// How an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has a figure.
    Done,
    /// This machine lacks what it needs.
    Skipped,
    /// An error ended it.
    Failed,
}

impl State {
    /// The state as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// An experiment and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentReport {
    /// Name, for `--only` and of its files.
    pub name: Text,
    /// Heading.
    pub title: Text,
    /// The lab's path; empty: loopback, or a disk.
    pub path: Text,
    /// What is called, in words.
    pub call: Text,
    /// What it shows.
    pub shows: Text,
    /// What theory predicts.
    pub theory: Text,
    /// Whether less of everything was measured.
    pub quick: bool,
    /// How it ended.
    pub state: State,
    /// Why it was skipped, or failed.
    pub why: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Its results.
    pub figure: Option<Figure>,
    /// Each path of the lab that it used.
    pub labs: Vec<LabTraffic>,
    /// What the lab could not keep up with: the figures are then those of this machine, too.
    pub notes: Vec<String>,
}

impl ExperimentReport {
    /// Returns the number of predictions that were compared, and of those that did not hold.
    #[must_use]
    pub fn claims(&self) -> (usize, usize) {
        let all = || self.figure.iter().flat_map(|figure| &figure.claims);
        (all().count(), all().filter(|claim| !claim.held()).count())
    }

    /// Where it was made.
    #[must_use]
    pub fn place(&self) -> &str {
        if self.path.is_empty() { "this machine" } else { &self.path }
    }
}

/// What a lab's router did on the way there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabTraffic {
    /// The path, as text.
    pub path: String,
    /// Packets that reached the router.
    pub packets: u64,
    /// By cause.
    pub lost: BTreeMap<String, u64>,
    /// 99 of 100 packets left no later than this after they were due.
    pub late_us: f64,
}

impl From<&LabReport> for LabTraffic {
    fn from(of: &LabReport) -> Self {
        Self {
            path: of.path.clone(),
            packets: of.forward.packets,
            lost: of.forward.lost.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect(),
            late_us: of.forward.lateness.p99_ns as f64 / 1e3,
        }
    }
}
