//! An experiment, as it is declared.

use super::bench::Context;
use super::figure::Figure;
use super::page::{Made, State};
use anyhow::Result;

/// What is measured, how, and what is expected of it.
pub(super) struct Experiment {
    /// For `--only`, and its files.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The lab's path; empty: loopback, or a disk.
    pub(super) path: &'static str,
    /// What is called, in words.
    pub(super) call: &'static str,
    pub(super) shows: &'static str,
    /// What theory predicts.
    pub(super) theory: &'static str,
    pub(super) how: How,
}

pub(super) enum How {
    Made(fn(&mut Context<'_>) -> Result<Figure>),
    /// What is missing for it on one machine.
    Absent(&'static str),
}

impl Experiment {
    /// Before anything was measured.
    pub(super) fn begin(&self, quick: bool) -> Made {
        Made {
            name: self.name.into(),
            title: self.title.into(),
            path: self.path.into(),
            call: self.call.into(),
            shows: self.shows.into(),
            theory: self.theory.into(),
            quick,
            state: State::Skipped,
            why: None,
            seconds: 0.0,
            figure: None,
            labs: Vec::new(),
            notes: Vec::new(),
        }
    }
}
