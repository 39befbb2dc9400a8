//! A rate over time, in bounded memory.

use std::time::Duration;

/// How often the rate is noted, at first.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Most values of a series; then two become one.
const VALUES: usize = 600;

/// Bytes done at regular times; twice the interval when there would be too many.
pub(super) struct Series {
    /// Seconds.
    pub(super) interval: f64,
    /// Bytes done until the end of each interval.
    bytes: Vec<u64>,
    last: (f64, u64),
}

impl Default for Series {
    fn default() -> Self {
        Self { interval: TICK.as_secs_f64(), bytes: Vec::new(), last: (0.0, 0) }
    }
}

impl Series {
    /// `bytes` were done after `seconds`; between two notes the rate is taken as even.
    pub(super) fn note(&mut self, seconds: f64, bytes: u64) {
        let (from, before) = self.last;
        loop {
            let end = (self.bytes.len() + 1) as f64 * self.interval;
            if end > seconds {
                break;
            }
            let part = if seconds > from { ((end - from) / (seconds - from)).clamp(0.0, 1.0) } else { 1.0 };
            self.bytes.push(before + ((bytes.saturating_sub(before)) as f64 * part) as u64);
            if self.bytes.len() > VALUES {
                self.bytes = self.bytes.chunks_exact(2).map(|two| two[1]).collect();
                self.interval *= 2.0;
            }
        }
        self.last = (seconds, bytes);
    }

    /// Bytes a second of each interval.
    pub(super) fn rates(&self) -> Vec<f64> {
        let before = std::iter::once(&0).chain(&self.bytes);
        before
            .zip(&self.bytes)
            .map(|(before, after)| after.saturating_sub(*before) as f64 / self.interval)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_rate_is_even_however_it_is_noted() {
        let mut series = Series::default();
        for second in [0.03, 0.25, 0.26, 0.9, 1.0] {
            series.note(second, (second * 1e9) as u64);
        }
        let rates = series.rates();
        assert_eq!(rates.len(), 10);
        assert!(rates.iter().all(|rate| (rate / 1e9 - 1.0).abs() < 1e-6), "{rates:?}");
    }

    #[test]
    fn hours_take_no_more_memory_than_minutes() {
        let mut series = Series::default();
        for second in 0..100_000u32 {
            series.note(f64::from(second), u64::from(second) * 7);
        }
        let rates = series.rates();
        assert!(rates.len() <= VALUES + 1 && series.interval > 100.0);
        assert!(rates[1..].iter().all(|rate| (rate - 7.0).abs() < 0.1), "{rates:?}");
    }
}
