//! The confusion matrix of the diagnosis over simulated measurements.

use super::{LIMITS, play, play_flow};
use skyhaul_core::diagnose::{self, Cause, Finding};
use std::{collections::BTreeMap, fmt::Write, ops::Range};

/// Causes of one place of a simulated path, of which it can have one.
pub const ONE_PLACE: [(Cause, Cause); 3] = [
    (Cause::Policer, Cause::PacketRate),
    (Cause::FullQueue, Cause::Microburst),
    (Cause::SocketBuffer, Cause::UdpMemory),
];

/// Two causes at once, and how often both were named, wherever in the list.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// By the two causes: measurements, those of which both were named, and those of which at least one was.
    pub named: BTreeMap<(Cause, Cause), [u64; 3]>,
}

impl Pairs {
    /// Play every two causes of datagrams with these seeds.
    #[must_use]
    pub fn play(seeds: Range<u64>) -> Pairs {
        let causes: Vec<Cause> = Cause::ALL.into_iter().filter(|cause| !LIMITS.contains(cause)).collect();
        let mut pairs = Pairs::default();
        let two = causes.iter().enumerate().flat_map(|(n, &a)| causes[n + 1..].iter().map(move |&b| (a, b)));
        let two = two.filter(|pair| !ONE_PLACE.contains(pair));
        for (number, (a, b)) in (0u64..).zip(two) {
            let counts = pairs.named.entry((a, b)).or_default();
            for seed in seeds.clone() {
                let findings = diagnose::diagnose(&play(&[a, b], seed * 53 + number * 2_000_003)).findings;
                let named = |cause| u64::from(findings.iter().any(|finding| finding.cause == cause));
                counts[0] += 1;
                counts[1] += named(a) & named(b);
                counts[2] += named(a) | named(b);
            }
        }
        pairs
    }

    /// The part of all measurements of which both were named, and of which one was.
    #[must_use]
    pub fn right(&self) -> (f64, f64) {
        let sum = |n: usize| self.named.values().map(|counts| counts[n]).sum::<u64>() as f64;
        (sum(1) / sum(0).max(1.0), sum(2) / sum(0).max(1.0))
    }

    /// A table for the documentation: each cause with every other.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text =
            "| cause | with another, both named | of which less than 80 % |\n|---|---|---|\n".to_owned();
        for cause in Cause::ALL {
            let (mut sum, mut less) = ([0; 2], Vec::new());
            for (&(a, b), counts) in self.named.iter().filter(|((a, b), _)| [*a, *b].contains(&cause)) {
                let other = if a == cause { b } else { a };
                sum = [sum[0] + counts[0], sum[1] + counts[1]];
                if counts[1] * 10 < counts[0] * 8 {
                    less.push(format!("{} {}", other.name(), counts[1] * 100 / counts[0].max(1)));
                }
            }
            if sum[0] > 0 {
                let right = sum[1] as f64 / sum[0] as f64 * 100.0;
                let _ = writeln!(text, "| {} | {right:.0} % | {} |", cause.name(), less.join(", "));
            }
        }
        let (both, one) = self.right();
        let (both, one, pairs) = (both * 100.0, one * 100.0, self.named.len());
        let _ = writeln!(text, "\n{pairs} pairs: both named in {both:.1} %, at least one in {one:.1} %.");
        text
    }
}

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
        Some(cause) if LIMITS.contains(&cause) => diagnose::tcp::diagnose(&play_flow(Some(cause), seed)),
        Some(cause) => diagnose::diagnose(&play(&[cause], seed)).findings,
        None => {
            let mut all = diagnose::diagnose(&play(&[], seed)).findings;
            all.extend(diagnose::tcp::diagnose(&play_flow(None, seed)));
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
