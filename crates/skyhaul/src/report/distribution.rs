//! Histograms in reports.

use serde::{Deserialize, Serialize};
use skyhaul_core::measure::Histogram;

/// A histogram in a few numbers, and its buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Values counted.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of all values are at most this.
    pub p50: u64,
    /// 99 % of all values are at most this.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
    /// Buckets that hold anything, an eighth of a power of two wide: smallest value and count. The other numbers are exact
    /// to three digits.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&Histogram> for Distribution {
    fn from(h: &Histogram) -> Self {
        Self {
            count: h.count(),
            mean: h.mean(),
            p50: h.quantile(0.5),
            p99: h.quantile(0.99),
            max: h.max(),
            buckets: h.eighths().map(|(range, n)| (range.start, n)).collect(),
        }
    }
}
