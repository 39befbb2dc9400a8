//! A comparison as it is told: its words and numbers, on a terminal and on a page.

use serde::Serialize;
use serde_json::Value;
use skyhaul::report::compare::{Comparison, Figure, Verdict};
use std::path::Path;

/// A comparison and where it comes from.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    pub(super) command: &'a str,
    pub(super) a: &'a Path,
    pub(super) b: &'a Path,
    pub(super) worse: usize,
    pub(super) better: usize,
    pub(super) different: usize,
    #[serde(flatten)]
    pub(super) comparison: &'a Comparison,
}

/// A number with as many digits as tell something.
pub(super) fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        Some(number) if number.abs() >= 1000.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.4}"),
        None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

pub(super) fn ratio(figure: &Figure) -> String {
    figure.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}"))
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Different => "different",
        Verdict::Within => "within",
        Verdict::Same => "same",
    }
}

pub(super) fn conclusion(told: &Told<'_>) -> String {
    format!(
        "{} figures compared: {} worse, {} better, {} different; {} within their spread or {:.3} %, {} the same",
        told.comparison.figures.len(),
        told.worse,
        told.better,
        told.different,
        told.comparison.count(Verdict::Within),
        told.comparison.tolerance * 100.0,
        told.comparison.count(Verdict::Same),
    )
}
