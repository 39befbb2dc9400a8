//! The confusion matrix of the diagnosis over simulated measurements.

use super::{play, tcp};
use skyhaul_core::diagnose::{self, Cause, Finding};
use std::{collections::BTreeMap, fmt::Write, ops::Range};

/// How often which cause was named first.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// By the true cause: the names that were given, `unknown` among them.
    pub named: BTreeMap<Cause, BTreeMap<&'static str, u64>>,
    /// Paths without a fault,
    pub clean: u64,
    /// and what was named there.
    pub alarms: BTreeMap<&'static str, u64>,
}

/// What is found of a measurement with this fault, or of one without.
fn found(cause: Option<Cause>, seed: u64) -> Vec<Finding> {
    match cause {
        Some(cause) if tcp::LIMITS.contains(&cause) => diagnose::tcp::diagnose(&tcp::play(Some(cause), seed)),
        Some(cause) => diagnose::diagnose(&play(&[cause], seed)).findings,
        None => {
            let mut all = diagnose::diagnose(&play(&[], seed)).findings;
            all.extend(diagnose::tcp::diagnose(&tcp::play(None, seed)));
            all
        }
    }
}

impl Matrix {
    /// Play each cause with these seeds, and so many clean paths.
    #[must_use]
    pub fn play(seeds: Range<u64>, clean: u64) -> Matrix {
        let mut matrix = Matrix { clean, ..Matrix::default() };
        for (number, cause) in (0u64..).zip(Cause::ALL) {
            for seed in seeds.clone() {
                let findings = found(Some(cause), seed * 31 + number * 1_000_003);
                let name = findings.first().map_or("unknown", |finding| finding.cause.name());
                *matrix.named.entry(cause).or_default().entry(name).or_insert(0) += 1;
            }
        }
        for seed in 0..clean {
            for finding in found(None, 77_000_000 + seeds.start * 1000 + seed) {
                *matrix.alarms.entry(finding.cause.name()).or_insert(0) += 1;
            }
        }
        matrix
    }

    /// The part of this cause's measurements of which it was named.
    #[must_use]
    pub fn right(&self, cause: Cause) -> f64 {
        let Some(named) = self.named.get(&cause) else { return 0.0 };
        let all: u64 = named.values().sum();
        named.get(cause.name()).copied().unwrap_or(0) as f64 / all.max(1) as f64
    }

    /// The mean of all causes.
    #[must_use]
    pub fn right_in_all(&self) -> f64 {
        self.named.keys().map(|&cause| self.right(cause)).sum::<f64>() / self.named.len().max(1) as f64
    }

    /// A table for the documentation.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = "| cause | named right | named otherwise |\n|---|---|---|\n".to_owned();
        for (&cause, named) in &self.named {
            let others = named.iter().filter(|(name, _)| **name != cause.name());
            let others: Vec<String> = others.map(|(name, count)| format!("{name} {count}")).collect();
            let right = self.right(cause) * 100.0;
            let _ = writeln!(text, "| {} | {right:.0} % | {} |", cause.name(), others.join(", "));
        }
        let alarms: u64 = self.alarms.values().sum();
        let all = self.right_in_all() * 100.0;
        let _ = writeln!(
            text,
            "\nAll causes: {all:.1} % right. {alarms} causes named on {} clean paths.",
            self.clean
        );
        text
    }
}
