//! What theory allows where a flow was measured: the figures beside it.
//!
//! They are models, bounds within a factor of 2 to 4: see [`skyhaul_core::predict`].

use super::flow::Direction;
use super::report::FlowReport;
use serde::{Deserialize, Serialize};
use skyhaul_core::predict::{MAX_WINDOW, Path, cubic_rate, mathis_rate, window_rate};

/// Predictions for a path with the round trip, the segments and the losses of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The rate that is asked about: the wanted one, or the measured one. Bits per second.
    pub bits_per_second: f64,
    /// Bytes under way at that rate.
    pub in_flight: f64,
    /// The most that the largest window of TCP (1 073 725 440 bytes) lets through, in bits per second.
    pub largest_window: f64,
    /// The most that the buffers that were granted let through, in bits per second.
    pub granted_window: f64,
    /// Flows that fill that rate with the largest window.
    pub flows_needed: f64,
    /// Seconds of slow start.
    pub slow_start_seconds: f64,
    /// Bytes sent until its end.
    pub slow_start_bytes: f64,
    /// Bits per second of Reno at the losses that were seen (Mathis); none: nothing was lost.
    pub reno: Option<f64>,
    /// The same of CUBIC (RFC 9438).
    pub cubic: Option<f64>,
    /// Seconds until Reno has forgotten one loss.
    pub reno_recovery_seconds: f64,
    /// The same of CUBIC.
    pub cubic_recovery_seconds: f64,
    /// Part of the segments that may be lost with Reno.
    pub reno_loss_budget: f64,
    /// The same with CUBIC.
    pub cubic_loss_budget: f64,
}

impl Expected {
    /// For a flow that sent; `wanted` is the rate that it is to reach, or the one that was measured is taken. `None` if no round
    /// trip was measured.
    #[must_use]
    pub fn of(flow: &FlowReport, wanted: Option<f64>) -> Option<Self> {
        let rtt = flow.counts.rtt_least;
        let rate = wanted.unwrap_or(flow.bits_per_second);
        if flow.direction != Direction::Send || rtt <= 0.0 || rate <= 0.0 || flow.segment_bytes == 0 {
            return None;
        }
        let mss = f64::from(flow.segment_bytes);
        let path = Path { rate, rtt, mss };
        let lost = flow.counts.retransmits.saturating_sub(flow.counts.doubled);
        let loss = f64::from(lost) / f64::from(flow.counts.segments.max(1));
        let slow_start = path.slow_start();
        let window = (flow.send_buffer as f64).min(flow.counts.peer_window_most as f64).min(MAX_WINDOW);
        Some(Self {
            bits_per_second: rate,
            in_flight: path.bdp(),
            largest_window: window_rate(MAX_WINDOW, rtt),
            granted_window: window_rate(window, rtt),
            flows_needed: path.flows_needed(MAX_WINDOW),
            slow_start_seconds: slow_start.seconds,
            slow_start_bytes: slow_start.octets,
            reno: (loss > 0.0).then(|| mathis_rate(mss, rtt, loss)),
            cubic: (loss > 0.0).then(|| cubic_rate(mss, rtt, loss)),
            reno_recovery_seconds: path.reno_recovery(),
            cubic_recovery_seconds: path.cubic_recovery(),
            reno_loss_budget: path.reno_budget().loss,
            cubic_loss_budget: path.cubic_budget().loss,
        })
    }
}
