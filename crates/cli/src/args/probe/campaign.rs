//! Arguments of `probe campaign`: a set of experiments with a page.

use super::super::applies::with;
use super::super::heading::DESTINATION;
use super::super::output::OutputArgs;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

const LONG: &str = "Make the experiments of a talk on data transfer nodes again: each as table, plot, JSON and section of a page, with \
what theory predicts beside what was measured.

They are made on paths emulated on this machine (as by `skyhaul lab`), on loopback, or on its disk. One that needs what is \
not here is skipped, with the reason; one that fails ends no other. Ctrl-C keeps those that are done. \
docs/guide/campaign.md lists them.";

#[derive(Args, Clone, Debug)]
#[command(long_about = LONG)]
pub(crate) struct CampaignArgs {
    /// Which experiments
    #[arg(value_enum, value_name = "SET")]
    pub(crate) set: CampaignSet,
    /// Only these: policing,window-limit
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Fewer and shorter points
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write index.html, report.json, and JSON and plot of each experiment into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) report: Option<PathBuf>,
    /// Keep the experiments that are already done in DIR, and make the others
    #[arg(long, add = with("report"), help_heading = DESTINATION)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A set of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CampaignSet {
    /// The figures of the talk "Data Transfer Nodes and Tuning"
    Talk,
}
