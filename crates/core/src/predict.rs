//! What theory allows on a path, for comparison with measurements.
//!
//! Each formula is a function of plain numbers in SI units: bits per second, seconds, bytes, probabilities per packet.
//! They are models, bounds within a factor of 2 to 4, not forecasts; their names give the source.
//!
//! ```
//! use skyhaul_core::predict::{MAX_WINDOW, Path, mss};
//!
//! let path = Path { rate: 100e9, rtt: 0.1, mss: mss(9000, false) };
//! assert_eq!(path.bdp(), 1.25e9);                                    // octets in flight
//! assert_eq!(path.flows_needed(MAX_WINDOW), 2.0);                    // one window is not enough
//! assert_eq!(path.reno_recovery().round(), 6985.0);                  // seconds to forget one loss
//! assert_eq!(path.cubic_recovery().round(), 47.0);
//! assert_eq!(format!("{:.1e}", path.cubic_budget().loss), "1.5e-8"); // may be lost
//! ```
//!
//! Limits: one bottleneck, long flows, loss independent of the sender. Limits of a host are not included: see
//! [`host_ceiling`] for what to measure there.

mod congestion;
mod datagrams;
mod files;

pub use congestion::{
    BBR_CWND_GAIN, BBR_PROBE_RTT, BBR_PROBE_RTT_EVERY, BBR_STARTUP_GAIN, CUBIC_BETA, CUBIC_C, LossBudget,
    RENO_BETA, bbr_rate, bottleneck_buffer, cubic_rate, mathis_rate, pacing_rate, pftk_rate,
};
pub use datagrams::{Framing, Policer, Queue, predicted_loss};
pub use files::{FilesCopied, FilesCost};

/// The largest window of a TCP connection, bytes: 65 535 scaled by 2¹⁴ (RFC 7323, 2.3).
pub const MAX_WINDOW: f64 = (65_535u64 << 14) as f64;

/// Segments of the first window (RFC 6928).
pub const INITIAL_WINDOW: f64 = 10.0;

/// A path as a TCP flow sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Rate of the path, or the wanted rate, bit/s.
    pub rate: f64,
    /// Round-trip time without queues, s.
    pub rtt: f64,
    /// Payload of a segment, bytes.
    pub mss: f64,
}

/// The start of a flow, before congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStart {
    /// Time until the flow fills the path, s.
    pub seconds: f64,
    /// Bytes sent until then.
    pub octets: f64,
}

/// Payload of a TCP segment with time stamps, bytes: the MTU less 20 (IPv6: 40), 20 and 12.
#[must_use]
pub fn mss(mtu: u32, ipv6: bool) -> f64 {
    f64::from(mtu) - if ipv6 { 72.0 } else { 52.0 }
}

/// The maximum rate with one window, bit/s: `8 × window / rtt`. The window is the smallest of [`MAX_WINDOW`], the send
/// buffer, and the usable part of the receive buffer.
#[must_use]
pub fn window_rate(window: f64, rtt: f64) -> f64 {
    8.0 * window / rtt
}

/// The rate of one core that copies and calls the kernel, bit/s: a call with `octets` bytes takes `octets / copy_rate`
/// (bytes per second) plus `call` seconds. Both are measured on the host.
#[must_use]
pub fn host_ceiling(octets: f64, copy_rate: f64, call: f64) -> f64 {
    8.0 * octets / (octets / copy_rate + call)
}

impl Path {
    /// The bandwidth-delay product, bytes: the data that must be in flight to fill the path.
    #[must_use]
    pub fn bdp(&self) -> f64 {
        self.rate * self.rtt / 8.0
    }

    /// The same in segments: W of the formulas of TCP.
    #[must_use]
    pub fn segments(&self) -> f64 {
        self.bdp() / self.mss
    }

    /// Number of flows with this window that fill the path.
    #[must_use]
    pub fn flows_needed(&self, window: f64) -> f64 {
        (self.bdp() / window).ceil().max(1.0)
    }

    /// The longest round trip at which one flow with this window fills the rate, s.
    #[must_use]
    pub fn longest_rtt(&self, window: f64) -> f64 {
        8.0 * window / self.rate
    }

    /// Duration and bytes of slow start, which doubles the window in each round trip: `rtt × log₂(W / IW)`, in which
    /// twice the bandwidth-delay product is sent. HyStart (RFC 9406) may leave it earlier; the rest then grows by the
    /// congestion control's own law.
    #[must_use]
    pub fn slow_start(&self) -> SlowStart {
        let doublings = (self.segments() / INITIAL_WINDOW).log2().max(0.0);
        SlowStart { seconds: self.rtt * doublings, octets: 2.0 * self.bdp() }
    }

    /// Mean rate of a transfer of this many bytes that begins with slow start and then runs at the path's rate, bit/s.
    #[must_use]
    pub fn transfer_rate(&self, octets: f64) -> f64 {
        let start = self.slow_start();
        let seconds = if octets >= start.octets {
            start.seconds + 8.0 * (octets - start.octets) / self.rate
        } else {
            // It ends within slow start, after the rounds that the sum of doubled windows needs.
            self.rtt * (1.0 + octets / (INITIAL_WINDOW * self.mss)).log2()
        };
        (8.0 * octets / seconds).min(self.rate)
    }

    /// The size from which on a transfer reaches this fraction (0 to 1) of the path's rate, bytes.
    #[must_use]
    pub fn octets_for(&self, part: f64) -> f64 {
        let start = self.slow_start();
        let lag = self.rate * start.seconds / 8.0 - start.octets;
        (part * lag / (1.0 - part)).max(start.octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(gbps: f64, ms: f64, mtu: u32) -> Path {
        Path { rate: gbps * 1e9, rtt: ms / 1e3, mss: mss(mtu, false) }
    }

    #[test]
    fn segments_leave_room_for_their_headers() {
        assert_eq!((mss(1500, false), mss(9000, false), mss(9000, true)), (1448.0, 8948.0, 8928.0));
    }

    #[test]
    fn one_window_limits_one_flow() {
        assert_eq!(MAX_WINDOW, 1_073_725_440.0);
        for (ms, gbps) in [(100.0, 85.9), (150.0, 57.3), (200.0, 42.9), (300.0, 28.6)] {
            assert!((window_rate(MAX_WINDOW, ms / 1e3) / 1e9 - gbps).abs() < 0.06, "{ms} ms");
        }
        assert_eq!((path(100.0, 1.0, 9000).longest_rtt(MAX_WINDOW) * 1e3).round(), 86.0);
        assert_eq!((path(400.0, 1.0, 9000).longest_rtt(MAX_WINDOW) * 1e3).round(), 21.0);
        assert_eq!(path(100.0, 85.0, 9000).flows_needed(MAX_WINDOW), 1.0);
        assert_eq!(path(400.0, 100.0, 9000).flows_needed(MAX_WINDOW), 5.0);
    }

    #[test]
    fn octets_in_flight() {
        let table = [(10.0, 10.0, 12.5), (10.0, 100.0, 125.0), (100.0, 1.0, 12.5), (100.0, 10.0, 125.0)];
        let far = [(100.0, 100.0, 1250.0), (400.0, 10.0, 500.0), (400.0, 100.0, 5000.0)];
        for (gbps, ms, megabytes) in table.into_iter().chain(far) {
            assert!((path(gbps, ms, 9000).bdp() / 1e6 - megabytes).abs() < 1e-6);
        }
    }

    #[test]
    fn slow_start_takes_its_rounds() {
        let of = |mtu| (path(100.0, 100.0, mtu).slow_start().seconds * 100.0).round() / 100.0;
        assert_eq!((of(9000), of(1500)), (1.38, 1.64));
        assert_eq!(path(100.0, 100.0, 9000).slow_start().octets, 2.5e9);
        assert_eq!(path(0.001, 1.0, 9000).slow_start().seconds, 0.0, "the first window fills it");
    }

    #[test]
    fn large_files_reach_the_rate() {
        let path = path(100.0, 100.0, 9000);
        let size = path.octets_for(0.8);
        assert!((path.transfer_rate(size) / 80e9 - 1.0).abs() < 1e-9, "{size:e}");
        assert!(path.transfer_rate(size / 4.0) < 60e9 && path.transfer_rate(size * 100.0) > 99e9);
        // Ten segments need one round trip.
        assert!((path.transfer_rate(10.0 * path.mss) - 80.0 * path.mss / 0.1).abs() < 1.0);
    }

    #[test]
    fn a_core_copies_and_calls() {
        assert_eq!(host_ceiling(1e6, 10e9, 0.0).round(), 80e9);
        assert_eq!(host_ceiling(1000.0, f64::INFINITY, 1e-6), 8e9);
    }
}
