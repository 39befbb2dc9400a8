//! Arguments of `report`.

use super::limits::GENERAL;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use skyhaul::core::hint::Hint;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    #[command(subcommand)]
    pub(crate) what: ReportWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReportWhat {
    /// Compare two reports of the same kind, figure by figure
    Diff(DiffArgs),
}

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// Reference report, as printed by `--json`, or a directory of `--report`
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) a: PathBuf,
    /// Report of the same kind to compare with it
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) b: PathBuf,
    /// Relative difference that is tolerated
    #[arg(long, default_value = "5%", value_name = "PART", value_parser = part)]
    pub(crate) tolerance: f64,
    /// When to exit with status 1
    #[arg(long, value_enum, default_value = "never")]
    pub(crate) fail_on: FailOn,
    /// Show all figures, not only those that differ
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the comparison to this file as a page (HTML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) page: Option<PathBuf>,
    /// Print the comparison as one JSON object on standard output
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
}

/// What makes a comparison fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Nothing
    Never,
    /// A figure is worse, or missing from B
    Worse,
    /// A figure differs, or only one report has it
    Any,
}

fn part(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value / whole),
        _ => Err(format!(
            "expected a fraction, such as 5% or 0.05{}",
            Hint("with 0%, every difference beyond the spread counts")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_per_cent_or_a_fraction() {
        assert_eq!((part("5%"), part("0.05"), part("0 %")), (Ok(0.05), Ok(0.05), Ok(0.0)));
        assert!(["", "x", "-1%", "inf", "nan%"].iter().all(|text| part(text).is_err()));
    }
}
