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

    fn budget(&self, loss: f64) -> LossBudget {
        let loss = loss.min(1.0);
        LossBudget { loss, packets: 1.0 / loss, seconds: 8.0 * self.mss / (self.rate * loss) }
    }

    /// Time until Reno has its window back after one loss: W/2 rounds, `rate × rtt² / (16 × mss)`, s.
    #[must_use]
    pub fn reno_recovery(&self) -> f64 {
        self.segments() / 2.0 * self.rtt
    }

    /// Time until CUBIC has regained its window after one loss, K of RFC 9438, 4.2: `∛(W × (1 − β) / C)`, s. It depends
    /// on the round-trip time only through W; where Reno would be faster, CUBIC is as fast as Reno (4.3).
    #[must_use]
    pub fn cubic_recovery(&self) -> f64 {
        (self.segments() * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt()
    }

    /// The loss at which Reno keeps the rate: [`mathis_rate`] solved for the loss.
    #[must_use]
    pub fn reno_budget(&self) -> LossBudget {
        self.budget((MATHIS * self.mss * 8.0 / (self.rate * self.rtt)).powi(2))
    }

    /// The loss at which CUBIC keeps the rate: [`cubic_rate`] solved for the loss.
    #[must_use]
    pub fn cubic_budget(&self) -> LossBudget {
        let cubic = (CUBIC * self.mss * 8.0 / (self.rate * self.rtt.powf(0.25))).powf(4.0 / 3.0);
        self.budget(cubic.max(self.reno_budget().loss))
    }
}

/// What is left of the window after a loss: Reno (RFC 5681).
pub const RENO_BETA: f64 = 0.5;
/// What is left of the window after a loss: CUBIC (RFC 9438, 4.6).
pub const CUBIC_BETA: f64 = 0.7;
/// How fast CUBIC's window grows, segments/s³ (RFC 9438, 5).
pub const CUBIC_C: f64 = 0.4;
/// BBR, version 1: growth of the rate in start-up, 2 / ln 2.
pub const BBR_STARTUP_GAIN: f64 = 2.885;
/// BBR, version 1: limit of the data in flight, in bandwidth-delay products. The part above 1 is queue.
pub const BBR_CWND_GAIN: f64 = 2.0;
/// BBR, version 1: seconds for which it empties the path to see the round trip again,
pub const BBR_PROBE_RTT: f64 = 0.2;
/// and how often, s.
pub const BBR_PROBE_RTT_EVERY: f64 = 10.0;

/// How much a rate allows to be lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossBudget {
    /// Probability of a packet.
    pub loss: f64,
    /// One in this many packets.
    pub packets: f64,
    /// One per this many seconds.
    pub seconds: f64,
}

/// √(3/2): without a penalty for delayed acknowledgements.
const MATHIS: f64 = 1.22;
/// ∜(C × (3 + β) / (4 × (1 − β))): RFC 9438, figure 1.
const CUBIC: f64 = 1.054;

/// Reno's rate at this loss, bit/s (Mathis et al., 1997): `1.22 × 8 × mss / (rtt × √loss)`. ESnet's page has 1 for 1.22.
#[must_use]
pub fn mathis_rate(mss: f64, rtt: f64, loss: f64) -> f64 {
    MATHIS * mss * 8.0 / (rtt * loss.sqrt())
}

/// CUBIC's rate at this loss, bit/s (RFC 9438, 5.1): `1.054 × 8 × mss / (rtt^¼ × loss^¾)`; where Reno is faster, Reno's
/// (4.3).
#[must_use]
pub fn cubic_rate(mss: f64, rtt: f64, loss: f64) -> f64 {
    let cubic = CUBIC * mss * 8.0 / (rtt.powf(0.25) * loss.powf(0.75));
    cubic.max(mathis_rate(mss, rtt, loss))
}

/// Reno's rate at loss above 1 %, where timeouts of `rto` seconds count, bit/s (Padhye, Firoiu, Towsley and Kurose, 1998,
/// equation 30), with one acknowledgement for `acked` segments.
#[must_use]
pub fn pftk_rate(mss: f64, rtt: f64, rto: f64, acked: f64, loss: f64) -> f64 {
    let rounds = rtt * (2.0 * acked * loss / 3.0).sqrt();
    let timeouts =
        rto * (3.0 * (3.0 * acked * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    8.0 * mss / (rounds + timeouts)
}

/// Rate of BBR, version 1, at this loss, bit/s: that of the bottleneck, less the loss and the time in which it probes
/// the round-trip time. `None` beyond 15 %, where it no longer finds the bottleneck's rate.
#[must_use]
pub fn bbr_rate(bottleneck: f64, loss: f64) -> Option<f64> {
    let probing = BBR_PROBE_RTT / BBR_PROBE_RTT_EVERY;
    (loss <= 0.15).then_some(bottleneck * (1.0 - loss) * (1.0 - probing))
}

/// The queue that keeps a bottleneck busy through a loss, bytes: `(1 − β) / β` of the bandwidth-delay product, divided
/// by √flows if many flows are out of step (Appenzeller, Keslassy and McKeown, 2004).
#[must_use]
pub fn bottleneck_buffer(bdp: f64, beta: f64, flows: f64) -> f64 {
    (1.0 - beta) / beta * bdp / flows.max(1.0).sqrt()
}

/// The rate at which Linux paces a flow with a window of this many bytes, bit/s: 1.2 times the window per round trip,
/// twice the window in slow start (`tcp_pacing_ca_ratio`, `tcp_pacing_ss_ratio`).
#[must_use]
pub fn pacing_rate(window: f64, rtt: f64, slow_start: bool) -> f64 {
    8.0 * window / rtt * if slow_start { 2.0 } else { 1.2 }
}

/// The framing of a datagram on Ethernet.
///
/// ```text
///   gap 12 │ preamble 8 │ Ethernet 14 │ (VLAN 4) │ IPv4 20 or IPv6 40 │ UDP 8 │ payload │ CRC 4       66 octets with IPv4
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// With a VLAN tag.
    pub vlan: bool,
    /// Over IPv6.
    pub ipv6: bool,
}

impl Framing {
    /// Bytes of a datagram on the line in addition to its payload.
    #[must_use]
    pub fn overhead(self) -> f64 {
        66.0 + if self.vlan { 4.0 } else { 0.0 } + if self.ipv6 { 20.0 } else { 0.0 }
    }

    /// Bytes of the line that a datagram takes, if it is not cut into fragments. A frame has at least 64.
    #[must_use]
    pub fn wire_octets(self, payload: f64) -> f64 {
        (payload + self.overhead()).max(84.0)
    }

    /// Rate on the line for a rate of payload, bit/s.
    #[must_use]
    pub fn wire_rate(self, payload: f64, user_rate: f64) -> f64 {
        user_rate * self.wire_octets(payload) / payload
    }

    /// Time that a datagram takes on a line of this rate, s: the smallest possible spacing.
    #[must_use]
    pub fn line_spacing(self, payload: f64, line: f64) -> f64 {
        8.0 * self.wire_octets(payload) / line
    }

    /// The most datagrams per second.
    #[must_use]
    pub fn max_pps(self, payload: f64, line: f64) -> f64 {
        1.0 / self.line_spacing(payload, line)
    }

    /// The most payload, bit/s.
    #[must_use]
    pub fn max_user_rate(self, payload: f64, line: f64) -> f64 {
        line * payload / self.wire_octets(payload)
    }
}

/// The fraction that is lost if the offered load exceeds the lowest limit on the path (sender, policer or receiver):
/// `1 − ceiling / offered`. Both in the same unit: bit/s, or packets per second.
#[must_use]
pub fn predicted_loss(offered: f64, ceiling: f64) -> f64 {
    if offered <= ceiling { 0.0 } else { 1.0 - ceiling / offered }
}

/// A token bucket that drops packets without tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// Tokens per second, bit/s.
    pub rate: f64,
    /// Tokens that it can hold, bytes.
    pub burst: f64,
}

impl Policer {
    /// Time until the first loss at a constant rate, s; infinite at or below the policer's rate.
    #[must_use]
    pub fn first_loss(&self, offered: f64) -> f64 {
        if offered <= self.rate { f64::INFINITY } else { 8.0 * self.burst / (offered - self.rate) }
    }

    /// The fraction lost in a run of this many seconds, if the bucket was full at its beginning.
    #[must_use]
    pub fn loss(&self, offered: f64, seconds: f64) -> f64 {
        (1.0 - (self.rate * seconds + 8.0 * self.burst) / (offered * seconds)).max(0.0)
    }
}

/// A queue in front of a slower line: a shaper, or a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Its output rate, bit/s.
    pub rate: f64,
    /// Its size, bytes.
    pub buffer: f64,
}

impl Queue {
    /// How fast the delay grows while the input exceeds the output, seconds per second.
    #[must_use]
    pub fn slope(&self, offered: f64) -> f64 {
        (offered / self.rate - 1.0).max(0.0)
    }

    /// The delay of a full queue, s.
    #[must_use]
    pub fn most_delay(&self) -> f64 {
        8.0 * self.buffer / self.rate
    }

    /// Time until it is full, s.
    #[must_use]
    pub fn first_loss(&self, offered: f64) -> f64 {
        if offered <= self.rate { f64::INFINITY } else { 8.0 * self.buffer / (offered - self.rate) }
    }
}

/// A copy that was measured.
///
/// Predicts the duration of a copy of files from two small trial copies.
///
/// ```text
///   seconds = fixed + files × file + 8 × octets / rate
///             connecting,    names, messages,      what disks and
///             agreeing,      making and naming     path carry
///             the last sync  each file
/// ```
///
/// One of the two has few files, the other many: the difference gives the cost per file, and the rest is fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilesCopied {
    /// Files.
    pub files: f64,
    /// Bytes of all files.
    pub octets: f64,
    /// Time from the request until all data are durable, s.
    pub seconds: f64,
}

impl FilesCopied {
    /// The time that its bytes do not explain at this rate, s.
    fn besides(&self, rate: f64) -> f64 {
        self.seconds - 8.0 * self.octets / rate
    }
}

/// Cost of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilesCost {
    /// Fixed cost of a copy, s.
    pub fixed: f64,
    /// For each file, s.
    pub file: f64,
    /// Rate of the bytes, bit/s.
    pub rate: f64,
}

impl FilesCost {
    /// The costs that explain a copy of few files and one of many, if bytes are carried at `rate` bit/s or faster
    /// (faster if the copies were). They reproduce the duration of `many`.
    #[must_use]
    pub fn of(few: &FilesCopied, many: &FilesCopied, rate: f64) -> Self {
        let quickest = |octets: f64, seconds: f64| if seconds > 0.0 { 8.0 * octets / seconds } else { 0.0 };
        let (files, octets) = (many.files - few.files, many.octets - few.octets);
        let rate = rate
            .max(quickest(many.octets, many.seconds))
            .max(quickest(octets, many.seconds - few.seconds))
            .max(1.0);
        let bare = many.besides(rate).max(0.0);
        let file = if files > 0.0 { ((bare - few.besides(rate).max(0.0)) / files).max(0.0) } else { 0.0 };
        // If necessary, all of the time is attributed to the files, and nothing is fixed.
        let file = if many.files > 0.0 { file.min(bare / many.files) } else { file };
        Self { fixed: bare - many.files * file, file, rate }
    }

    /// Predicted duration for this many files and bytes, s.
    #[must_use]
    pub fn seconds(&self, files: f64, octets: f64) -> f64 {
        self.fixed + files * self.file + 8.0 * octets / self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::mss;

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

    fn near(value: f64, printed: f64) {
        assert!((value / printed - 1.0).abs() < 0.01, "{value} is not {printed}");
    }

    #[test]
    fn reno_needs_hours() {
        near(path(10.0, 100.0, 9000).reno_recovery(), 698.0);
        near(path(10.0, 100.0, 1500).reno_recovery(), 4316.0);
        near(path(100.0, 100.0, 9000).reno_recovery(), 6985.0);
        near(path(100.0, 100.0, 1500).reno_recovery(), 43_163.0);
        near(path(100.0, 200.0, 9000).reno_recovery() / 3600.0, 7.76);
    }

    #[test]
    fn cubic_needs_a_minute() {
        for (gbps, ms, mtu, seconds) in [
            (100.0, 100.0, 9000, 47.0),
            (100.0, 100.0, 1500, 86.5),
            (400.0, 100.0, 9000, 74.8),
            (400.0, 100.0, 1500, 137.0),
            (10.0, 10.0, 9000, 10.15),
        ] {
            near(path(gbps, ms, mtu).cubic_recovery(), seconds);
        }
    }

    #[test]
    fn the_case_that_esnet_published() {
        let (mss, rtt, loss) = (mss(9000, false), 0.09, 4.6e-5);
        near(mathis_rate(mss, rtt, loss), 143e6);
        near(mathis_rate(mss, rtt, loss) / MATHIS, 117e6);
        near(cubic_rate(mss, rtt, loss), 247e6);
        // Short paths: CUBIC is Reno.
        assert_eq!(cubic_rate(mss, 1e-4, 1e-4), mathis_rate(mss, 1e-4, 1e-4));
    }

    #[test]
    fn budgets_are_the_rates_solved_for_loss() {
        let far = path(100.0, 100.0, 9000);
        near(far.reno_budget().loss, 7.63e-11);
        near(far.cubic_budget().loss, 1.48e-8);
        near(mathis_rate(far.mss, far.rtt, far.reno_budget().loss), far.rate);
        near(cubic_rate(far.mss, far.rtt, far.cubic_budget().loss), far.rate);
        let budget = far.cubic_budget();
        near(budget.packets * budget.loss, 1.0);
        near(budget.seconds, budget.packets * far.mss * 8.0 / far.rate);
        assert_eq!(path(0.001, 0.01, 9000).reno_budget().loss, 1.0, "no loss is too much");
    }

    #[test]
    fn timeouts_take_their_part_above_a_percent() {
        // Without timeouts, it is the square-root law with b = 1.
        near(pftk_rate(1448.0, 0.1, 0.0, 1.0, 1e-4), mathis_rate(1448.0, 0.1, 1e-4));
        let (with, without) = (pftk_rate(1448.0, 0.1, 0.2, 1.0, 0.05), mathis_rate(1448.0, 0.1, 0.05));
        assert!(with < without * 0.85 && with > without * 0.5, "{with} of {without}");
    }

    #[test]
    fn buffers_bridge_a_loss() {
        near(bottleneck_buffer(1e6, CUBIC_BETA, 1.0), 0.4286e6);
        near(bottleneck_buffer(1e6, RENO_BETA, 1.0), 1e6);
        near(bottleneck_buffer(1e6, RENO_BETA, 100.0), 1e5);
        near(pacing_rate(1e6, 0.1, true) / pacing_rate(1e6, 0.1, false), 2.0 / 1.2);
    }

    #[test]
    fn bbr_does_not_ask_for_loss() {
        near(bbr_rate(10e9, 0.01).unwrap(), 9.70e9);
        assert_eq!(bbr_rate(10e9, 0.2), None);
    }

    #[test]
    fn lines_have_a_closest_spacing() {
        let plain = Framing::default();
        let of = |line: f64, payload: f64| (plain.line_spacing(payload, line) * 1e9).round();
        assert_eq!((of(100e9, 8972.0), of(100e9, 1472.0)), (723.0, 123.0));
        assert_eq!((of(400e9, 8972.0), of(400e9, 1472.0)), (181.0, 31.0));
        let millions = |payload| (plain.max_pps(payload, 100e9) / 1e4).round() / 100.0;
        assert_eq!((millions(8972.0), millions(1472.0)), (1.38, 8.13));
    }

    #[test]
    fn every_header_is_counted() {
        let octets = |vlan, ipv6| Framing { vlan, ipv6 }.wire_octets(1000.0);
        assert_eq!((octets(false, false), octets(true, false)), (1066.0, 1070.0));
        assert_eq!((octets(false, true), octets(true, true)), (1086.0, 1090.0));
        assert_eq!(Framing::default().wire_octets(1.0), 84.0, "64 of frame, 20 between frames");
        let wire = Framing::default().wire_rate(8972.0, Framing::default().max_user_rate(8972.0, 10e9));
        assert!((wire / 10e9 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_above_the_ceiling_is_lost() {
        assert_eq!((predicted_loss(8.0, 10.0), predicted_loss(10.0, 10.0)), (0.0, 0.0));
        assert!((predicted_loss(10.0, 7.5) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_policer_lets_its_bucket_pass_first() {
        let policer = Policer { rate: 400e6, burst: 1e6 };
        assert!((policer.first_loss(1e9) - 0.013_333).abs() < 1e-5);
        assert_eq!((policer.first_loss(4e8), policer.loss(1e9, 0.01)), (f64::INFINITY, 0.0));
        assert!((policer.loss(1e9, 1000.0) - predicted_loss(1e9, 400e6)).abs() < 1e-4);
    }

    #[test]
    fn a_queue_ramps_and_then_loses() {
        let queue = Queue { rate: 1e9, buffer: 2.5e6 };
        assert!((queue.slope(1.25e9) - 0.25).abs() < 1e-12);
        assert!((queue.most_delay() - 0.02).abs() < 1e-12);
        assert!((queue.first_loss(1.25e9) * queue.slope(1.25e9) - queue.most_delay()).abs() < 1e-12);
        assert_eq!((queue.slope(1e8), queue.first_loss(1e9)), (0.0, f64::INFINITY));
    }

    fn copied(files: f64, octets: f64, seconds: f64) -> FilesCopied {
        FilesCopied { files, octets, seconds }
    }

    fn is_about(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn two_copies_tell_fixed_cost_and_cost_of_a_file() {
        // 20 ms, 0.2 ms a file of 4 KiB, 8 Gb/s.
        let took = |files: f64| 0.02 + files * (0.2e-3 + 4096.0 / 1e9);
        let of = |files: f64| copied(files, files * 4096.0, took(files));
        let cost = FilesCost::of(&of(64.0), &of(1024.0), 8e9);
        assert!(is_about(cost.fixed, 0.02) && is_about(cost.file, 0.2e-3) && cost.rate == 8e9, "{cost:?}");
        assert!(is_about(cost.seconds(1e6, 4.096e9), took(1e6)));
        // Files of another size, with the same cost.
        assert!(is_about(cost.seconds(100.0, 1e9), 0.02 + 100.0 * 0.2e-3 + 1.0));
    }

    #[test]
    fn copies_that_were_faster_than_the_rate_say_how_fast() {
        let cost = FilesCost::of(&copied(1.0, 1e6, 0.011), &copied(4.0, 4e6, 0.014), 1e9);
        assert!(is_about(cost.rate, 8e9) && is_about(cost.seconds(4.0, 4e6), 0.014), "{cost:?}");
        assert!(is_about(cost.fixed, 0.01) && cost.file.abs() < 1e-12);
    }

    #[test]
    fn one_copy_alone_is_all_fixed_but_its_octets() {
        let one = copied(1.0, 1e9, 1.25);
        let cost = FilesCost::of(&one, &one, 8e9);
        assert_eq!((cost.fixed, cost.file, cost.rate), (0.25, 0.0, 8e9));
    }

    #[test]
    fn what_it_says_of_many_files_is_what_they_took() {
        let pairs = [
            (copied(10.0, 0.0, 0.5), copied(100.0, 0.0, 0.1)), // a first copy that was slow
            (copied(10.0, 1e6, 0.001), copied(1000.0, 1e8, 9.0)), // nothing is fixed
            (copied(1.0, 0.0, 0.1), copied(1.0, 0.0, 0.1)),
            (copied(2.0, 5e9, 0.1), copied(3.0, 1e9, 0.3)),
        ];
        for (few, many) in pairs {
            let cost = FilesCost::of(&few, &many, 1e9);
            assert!(
                is_about(cost.seconds(many.files, many.octets), many.seconds),
                "{few:?} {many:?} {cost:?}"
            );
            assert!(cost.fixed >= 0.0 && cost.file >= 0.0 && cost.rate >= 1e9, "{cost:?}");
        }
        let nothing = FilesCost::of(&FilesCopied::default(), &FilesCopied::default(), 0.0);
        assert_eq!(nothing.seconds(5.0, 0.0), 0.0);
    }
}
