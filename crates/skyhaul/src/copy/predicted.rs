//! What is predicted of a copy, from parts that were measured.

use super::bounds::Bounds;
use super::message::Trial;
use super::options::Tuning;
use serde::{Deserialize, Serialize};

/// A part, as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Bits a second.
    pub bits_per_second: f64,
    /// CPU seconds for 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
}

/// What is predicted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes of all files.
    pub bytes: Option<u64>,
    /// Reading the source.
    pub read: Part,
    /// The network with these flows.
    pub network: Part,
    /// Writing the destination.
    pub write: Part,
    /// Round trip in seconds.
    pub rtt_seconds: f64,
    /// Windows of all flows a round trip, in bits a second.
    pub window_bits_per_second: Option<f64>,
    /// All at once, in small.
    pub trial: Trial,
    /// Predicted.
    pub bits_per_second: f64,
    /// What bounds it.
    pub bound: Option<Bounds>,
    /// Predicted for all bytes.
    pub seconds: Option<f64>,
    /// Afterwards: what it was.
    pub measured_bits_per_second: Option<f64>,
    /// Afterwards: measured to predicted.
    pub ratio: Option<f64>,
}

impl Plan {
    /// Enter what the copy reached.
    pub(super) fn compare(&mut self, bits_per_second: f64, _seconds: f64) {
        self.measured_bits_per_second = Some(bits_per_second);
        self.ratio = (self.bits_per_second > 0.0).then(|| bits_per_second / self.bits_per_second);
    }

    /// What the trial reached is predicted, or the slowest part if nothing could be tried.
    pub(super) fn conclude(&mut self, tuning: &Tuning) {
        let mut parts = vec![
            (self.read.bits_per_second, Bounds::SourceDisk),
            (self.network.bits_per_second, Bounds::Network),
            (self.write.bits_per_second, Bounds::DestinationDisk),
        ];
        if let Some(limit) = tuning.limit {
            parts.push((limit as f64, Bounds::Limit));
        }
        if let Some(window) = tuning.window
            && self.rtt_seconds > 0.0
        {
            let rate = window as f64 * 8.0 * tuning.flows as f64 / self.rtt_seconds;
            self.window_bits_per_second = Some(rate);
            parts.push((rate, Bounds::Network));
        }
        let slowest = parts.into_iter().filter(|(rate, _)| *rate > 0.0).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((mut rate, bound)) = slowest else { return };
        let mut delay = 0.0;
        if self.trial.bits_per_second > 0.0 {
            (rate, delay) = (self.trial.bits_per_second, self.trial.delay_seconds);
        } else {
            self.bound = Some(bound);
        }
        let seconds = self.bytes.map(|bytes| bytes as f64 * 8.0 / rate + delay);
        self.seconds = seconds;
        // As the end will count it.
        self.bits_per_second = match self.bytes.zip(seconds) {
            Some((bytes, seconds)) if bytes > 0 && seconds > 0.0 => bytes as f64 * 8.0 / seconds,
            _ => rate,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_part_is_predicted_if_nothing_was_tried() {
        let rate = |gbps: f64| Part { bits_per_second: gbps * 1e9, cpu_seconds_per_gb: 0.1 };
        let mut plan = Plan { bytes: Some(10_000_000_000), ..Plan::default() };
        (plan.read, plan.network, plan.write) = (rate(40.0), rate(90.0), rate(20.0));
        plan.conclude(&Tuning::default());
        assert_eq!(
            (plan.bits_per_second, plan.bound, plan.seconds),
            (20e9, Some(Bounds::DestinationDisk), Some(4.0))
        );
        plan.rtt_seconds = 0.1;
        // 4 windows of 1 MiB in 100 ms.
        let tuning = Tuning { window: Some(1 << 20), ..Tuning::default() };
        plan.conclude(&tuning);
        assert_eq!((plan.bits_per_second.round(), plan.bound), (335_544_320.0, Some(Bounds::Network)));
        plan.conclude(&Tuning { limit: Some(1_000_000), ..tuning });
        assert_eq!(plan.bound, Some(Bounds::Limit));
        plan.compare(900_000.0, 1.0);
        assert_eq!(plan.ratio, Some(0.9));
    }
    #[test]
    fn what_was_tried_is_predicted_with_its_delay() {
        let rate = |gbps: f64| Part { bits_per_second: gbps * 1e9, cpu_seconds_per_gb: 0.1 };
        let mut plan =
            Plan { bytes: Some(5_000_000_000), bound: Some(Bounds::SourceDisk), ..Plan::default() };
        (plan.read, plan.network, plan.write) = (rate(20.0), rate(60.0), rate(25.0));
        plan.trial = Trial { bits_per_second: 10e9, delay_seconds: 1.0, ..Trial::default() };
        plan.conclude(&Tuning::default());
        assert_eq!(
            (plan.seconds, plan.bits_per_second, plan.bound),
            (Some(5.0), 8e9, Some(Bounds::SourceDisk))
        );
    }
}
