//! What a campaign tells: each experiment, how it ended, and all of them together.

use super::figure::{Figure, Text};
use serde::{Deserialize, Serialize};
use skyhaul_measure::lab::LabReport;
use std::collections::BTreeMap;

/// All experiments.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// [`skyhaul::report::VERSION`].
    pub(super) version: u32,
    pub(super) command: String,
    pub(super) machine: String,
    pub(super) quick: bool,
    pub(super) interrupted: bool,
    pub(super) made: usize,
    pub(super) skipped: usize,
    pub(super) failed: usize,
    /// Predictions that were compared, and those of them that did not hold.
    pub(super) claims: usize,
    pub(super) broken: usize,
    pub(super) experiments: Vec<Made>,
}

impl Told {
    /// What was made so far.
    pub(super) fn new(command: String, machine: String, quick: bool, experiments: Vec<Made>) -> Self {
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
pub(super) enum State {
    Done,
    Skipped,
    Failed,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// An experiment and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) name: Text,
    pub(super) title: Text,
    pub(super) path: Text,
    pub(super) call: Text,
    pub(super) shows: Text,
    pub(super) theory: Text,
    pub(super) quick: bool,
    pub(super) state: State,
    /// Why it was skipped, or failed.
    pub(super) why: Option<String>,
    pub(super) seconds: f64,
    pub(super) figure: Option<Figure>,
    /// Each path of the lab that it used.
    pub(super) labs: Vec<Passed>,
    /// What the lab could not keep up with: the figures are then those of this machine, too.
    pub(super) notes: Vec<String>,
}

impl Made {
    /// Predictions that were compared, and those of them that did not hold.
    pub(super) fn claims(&self) -> (usize, usize) {
        let all = || self.figure.iter().flat_map(|figure| &figure.claims);
        (all().count(), all().filter(|claim| !claim.held()).count())
    }

    /// Where it was made.
    pub(super) fn place(&self) -> &str {
        if self.path.is_empty() { "this machine" } else { &self.path }
    }
}

/// What a lab's router did on the way there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Passed {
    pub(super) path: String,
    pub(super) packets: u64,
    /// By cause.
    pub(super) lost: BTreeMap<String, u64>,
    /// 99 of 100 packets left no later than this after they were due.
    pub(super) late_us: f64,
}

impl From<&LabReport> for Passed {
    fn from(of: &LabReport) -> Self {
        Self {
            path: of.path.clone(),
            packets: of.forward.packets,
            lost: of.forward.lost.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect(),
            late_us: of.forward.lateness.p99_ns as f64 / 1e3,
        }
    }
}
