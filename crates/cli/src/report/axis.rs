//! From values to pixels, with round ticks.
//!
//! Limits: a value that is not a number is drawn at the axis' beginning, one outside at its end.

use super::words::short;

/// From values to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
    log: bool,
}

impl Axis {
    /// Values `low` to `high` on pixels `from` to `to`.
    pub(crate) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, from, to, log: false }
    }

    /// The same, logarithmic; values below the smallest positive one are drawn there.
    pub(crate) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        Self { low, high, from, to, log: true }
    }

    /// Its pixel.
    pub(crate) fn at(&self, value: f64) -> f64 {
        if !value.is_finite() {
            return self.from;
        }
        let value = value.clamp(self.low, self.high);
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// Round values to write at the axis: about `most` of them.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { self.linear_ticks(most) }
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let step = nice((self.high - self.low) / most.max(1) as f64);
        let first = (self.low / step).ceil();
        (0..=most + 1)
            .map(|i| (first + i as f64) * step)
            .take_while(|v| *v <= self.high + step * 1e-6)
            .collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let each = (decades / most.max(1) as f64).ceil().max(1.0) as i32;
        let steps: &[f64] = if decades * 3.0 <= most as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .step_by(each as usize)
            .flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)))
            .filter(|v| *v >= self.low * 0.999_999 && *v <= self.high * 1.000_001)
            .collect()
    }
}

/// The smallest of 1, 2, 5 × 10ⁿ that is at least `value`.
pub(crate) fn nice(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|d| value <= d * power * 1.000_001).unwrap_or(10.0);
    digit * power
}

/// What an axis shows, before the values are known.
pub(crate) struct Scale {
    pub(super) title: String,
    log: bool,
    low: Option<f64>,
    high: Option<f64>,
    least: f64,
    pub(super) words: Box<dyn Fn(f64) -> String>,
}

impl Scale {
    /// From 0, or from the least value if that is negative, to a little above the highest.
    pub(crate) fn linear(title: impl Into<String>) -> Self {
        Self { title: title.into(), log: false, low: None, high: None, least: 0.0, words: Box::new(short) }
    }

    /// Logarithmic, a little wider than the positive values.
    pub(crate) fn log(title: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(title) }
    }

    /// Begin at this value.
    pub(crate) fn from(mut self, low: f64) -> Self {
        self.low = Some(low);
        self
    }

    /// End at this value.
    pub(crate) fn to(mut self, high: f64) -> Self {
        self.high = Some(high);
        self
    }

    /// Reach at least to this value.
    pub(crate) fn at_least(mut self, least: f64) -> Self {
        self.least = least;
        self
    }

    /// How values are written at the ticks.
    pub(crate) fn words(mut self, words: impl Fn(f64) -> String + 'static) -> Self {
        self.words = Box::new(words);
        self
    }

    /// The axis for these values, on pixels `from` to `to`.
    pub(crate) fn axis(&self, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let shown = values.filter(|v| v.is_finite() && (!self.log || *v > 0.0));
        let (least, most) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let most = if most.is_finite() { most.max(self.least) } else { self.least };
        if self.log {
            let least = if least.is_finite() { least } else { 1.0 };
            Axis::log(self.low.unwrap_or(least / 1.25), self.high.unwrap_or(most * 1.25), from, to)
        } else {
            let least = if least < 0.0 { least } else { 0.0 };
            let margin = (most - least) * 0.05;
            let low = if least < 0.0 { least - margin } else { 0.0 };
            Axis::linear(self.low.unwrap_or(low), self.high.unwrap_or(most + margin), from, to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(Axis::linear(0.0, 4.3, 0.0, 100.0).ticks(5), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Axis::log(3.0, 2000.0, 0.0, 100.0).ticks(4), [10.0, 100.0, 1000.0]);
        for (low, high) in [(f64::NAN, f64::NAN), (0.0, 0.0), (5.0, 1.0), (0.0, f64::INFINITY), (0.0, 1e300)]
        {
            for axis in [Axis::linear(low, high, 0.0, 9.0), Axis::log(low, high, 0.0, 9.0)] {
                assert!(axis.ticks(6).len() < 40);
                assert!(axis.at(f64::NAN).is_finite() && axis.at(1e308).is_finite());
            }
        }
    }
}
