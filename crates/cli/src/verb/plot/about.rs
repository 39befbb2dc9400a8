//! What terminal and picture say of a survey, and the units of both.

use crate::print::count;
use skyhaul::samples::Samples;
use skyhaul::samples::survey::Survey;

/// What was looked at, in words.
pub(super) struct About {
    pub(super) name: String,
    pub(super) format: String,
    /// Beginning and end.
    pub(super) time: String,
    /// How much was looked at, and what is missing of it.
    pub(super) looked: String,
}

impl About {
    pub(super) fn new(name: String, samples: &Samples, survey: &Survey) -> Self {
        let (from, to) = survey.rows;
        let part = survey.looked as f64 / (to - from) as f64;
        let blocks = survey.columns.iter().map(|column| column.blocks).max().unwrap_or(0);
        let looked =
            if part >= 1.0 { "all of it".to_owned() } else { format!("{:.3} % of it", part * 100.0) };
        let missing = format!("{} of {} frames missing", count(survey.missing), count(survey.frames));
        Self {
            name,
            format: samples.format().describe(),
            time: format!("{} to {}", samples.time_of(from), samples.time_of(to)),
            looked: format!("{looked} looked at: {blocks} blocks of {} samples, {missing}", survey.block),
        }
    }
}

/// A frequency with its unit: divisor and name.
pub(super) fn hertz(highest: f64) -> (f64, &'static str) {
    [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")]
        .into_iter()
        .find(|(divisor, _)| highest >= *divisor)
        .unwrap_or((1.0, "Hz"))
}

/// Decibels; of nothing, far below all else.
pub(super) fn decibels(power: f64) -> f64 {
    10.0 * power.max(1e-30).log10()
}
