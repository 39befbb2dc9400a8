//! Counters as Prometheus reads them: the text format 0.0.4.
//!
//! ```
//! use skyhaul::metrics::{Kind, Metric};
//! let mut lost = Metric::new("skyhaul_lost_packets_total", Kind::Counter, "Packets that were lost.");
//! lost.add(&[("path", &"a \"b\"")], 3);
//! assert!(lost.text().ends_with("skyhaul_lost_packets_total{path=\"a \\\"b\\\"\"} 3\n"));
//! ```
//!
//! Limits: counters, gauges, and histograms with fixed bounds.

use skyhaul_core::measure::Histogram;
use std::fmt::{Display, Write as _};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises; its name ends in `_total`.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Values counted by their size; its lines are those of [`Metric::add_histogram`].
    Histogram,
}

/// One metric with its lines.
#[derive(Clone, Debug)]
pub struct Metric {
    name: String,
    text: String,
}

impl Metric {
    /// One without values.
    #[must_use]
    pub fn new(name: &str, kind: Kind, help: &str) -> Self {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        Self { name: name.to_owned(), text: format!("# HELP {name} {help}\n# TYPE {name} {kind}\n") }
    }

    /// Add a value with its labels.
    pub fn add(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.line("", labels, value);
    }

    /// Adds a histogram with its labels: its values below each of the `bounds` (`_bucket`, with `le`), their sum and their number. Bounds and sum are
    /// divided by `per`: 1e9 makes seconds of nanoseconds. With bounds that are powers of two the counts are exact, as no bucket of a
    /// [`Histogram`] extends over one; with others, a bucket that does so counts as above it.
    pub fn add_histogram(
        &mut self,
        labels: &[(&str, &dyn Display)],
        histogram: &Histogram,
        (bounds, per): (&[u64], f64),
    ) {
        let mut buckets = histogram.buckets().peekable();
        let mut below = 0u64;
        for bound in bounds {
            while let Some((_, count)) = buckets.next_if(|(values, _)| values.end <= *bound) {
                below = below.saturating_add(count);
            }
            let shown = *bound as f64 / per;
            self.line("_bucket", &[labels, &[("le", &shown)]].concat(), below);
        }
        self.line("_bucket", &[labels, &[("le", &"+Inf")]].concat(), histogram.count());
        self.line("_sum", labels, histogram.sum() as f64 / per);
        self.line("_count", labels, histogram.count());
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (n, (name, value)) in labels.iter().enumerate() {
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{name}=\"{value}\"", if n == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Its lines.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_histogram_has_a_line_for_each_bound_its_sum_and_its_number() {
        let mut histogram = Histogram::default();
        [1, 1023, 1024, 4_000_000].iter().for_each(|value| histogram.record(*value));
        let mut metric = Metric::new("t_seconds", Kind::Histogram, "Time.");
        metric.add_histogram(&[("method", &"GET")], &histogram, (&[1 << 10, 1 << 20], 1e3));
        let expected = "# HELP t_seconds Time.\n# TYPE t_seconds histogram\n\
            t_seconds_bucket{method=\"GET\",le=\"1.024\"} 2\n\
            t_seconds_bucket{method=\"GET\",le=\"1048.576\"} 3\n\
            t_seconds_bucket{method=\"GET\",le=\"+Inf\"} 4\n\
            t_seconds_sum{method=\"GET\"} 4002.048\n\
            t_seconds_count{method=\"GET\"} 4\n";
        assert_eq!(metric.text(), expected);
    }

    proptest! {
        #[test]
        fn powers_of_two_divide_values_exactly(values in proptest::collection::vec((any::<u64>(), 0u32..64), 0..100)) {
            let mut histogram = Histogram::default();
            let values: Vec<u64> = values.into_iter().map(|(value, shift)| value >> shift).collect();
            values.iter().for_each(|value| histogram.record(*value));
            let bounds: Vec<u64> = (0..64).map(|power| 1 << power).collect();
            let mut metric = Metric::new("t", Kind::Histogram, "");
            metric.add_histogram(&[], &histogram, (&bounds, 1.0));
            let counts: Vec<usize> = metric.text().lines().filter(|line| line.starts_with("t_bucket"))
                .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
            let expected = bounds.iter().map(|bound| values.iter().filter(|value| *value < bound).count());
            prop_assert_eq!(counts, expected.chain([values.len()]).collect::<Vec<_>>());
        }
    }
}
