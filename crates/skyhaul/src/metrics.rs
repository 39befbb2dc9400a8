//! Counters as Prometheus reads them: the text format 0.0.4.
//!
//! ```
//! use skyhaul::metrics::{Kind, Metric};
//! let mut lost = Metric::new("skyhaul_lost_packets_total", Kind::Counter, "Packets that were lost.");
//! lost.add(&[("path", &"a \"b\"")], 3);
//! assert!(lost.text().ends_with("skyhaul_lost_packets_total{path=\"a \\\"b\\\"\"} 3\n"));
//! ```
//!
//! Limits: counters and gauges.

use std::fmt::{Display, Write as _};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises; its name ends in `_total`.
    Counter,
    /// It rises and falls.
    Gauge,
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
        };
        Self { name: name.to_owned(), text: format!("# HELP {name} {help}\n# TYPE {name} {kind}\n") }
    }

    /// Add a value with its labels.
    pub fn add(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.text.push_str(&self.name);
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
