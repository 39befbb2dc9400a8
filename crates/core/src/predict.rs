//! What theory allows on a path, for comparison with measurements.
//!
//! Each formula is a function of plain numbers in SI units: bits per second, seconds, bytes, probabilities per packet.
//! They are models, bounds within a factor of 2 to 4, not forecasts; their names give the source.
//!
//! ```
//! use skyhaul_core::predict::{MAX_WINDOW, Path, mss};
//!
//! let path = Path { rate: 100e9, rtt: 0.1, mss: mss(9000, false) };
//! assert_eq!(path.bdp(), 1.25e9);                                    // bytes in flight
//! assert_eq!(path.flows_needed(MAX_WINDOW), 2.0);                    // one window is not enough
//! assert_eq!(path.reno_recovery().round(), 6985.0);                  // seconds to forget one loss
//! assert_eq!(path.cubic_recovery().round(), 47.0);
//! assert_eq!(format!("{:.1e}", path.cubic_budget().loss), "1.5e-8"); // may be lost
//! ```
//!
//! Limits: one bottleneck, long flows, loss independent of the sender. Limits of a host are not included.

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
    pub bytes: f64,
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

    /// Duration and bytes of slow start, which doubles the window in each round trip: `rtt × log₂(W / IW)`, in which
    /// twice the bandwidth-delay product is sent. HyStart (RFC 9406) may leave it earlier; the rest then grows by the
    /// congestion control's own law.
    #[must_use]
    pub fn slow_start(&self) -> SlowStart {
        let doublings = (self.segments() / INITIAL_WINDOW).log2().max(0.0);
        SlowStart { seconds: self.rtt * doublings, bytes: 2.0 * self.bdp() }
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

/// What is left of the window after a loss: CUBIC (RFC 9438, 4.6).
pub const CUBIC_BETA: f64 = 0.7;
/// How fast CUBIC's window grows, segments/s³ (RFC 9438, 5).
pub const CUBIC_C: f64 = 0.4;
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

/// A token bucket that drops packets without tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// Tokens per second, bit/s.
    pub rate: f64,
    /// Tokens that it can hold, bytes.
    pub burst: f64,
}

impl Policer {
    /// The fraction lost in a run of this many seconds, if the bucket was full at its beginning.
    #[must_use]
    pub fn loss(&self, offered: f64, seconds: f64) -> f64 {
        (1.0 - (self.rate * seconds + 8.0 * self.burst) / (offered * seconds)).max(0.0)
    }
}

/// A copy that was measured.
///
/// Predicts the duration of a copy of files from two small trial copies.
///
/// ```text
///   seconds = fixed + files × file + 8 × bytes / rate
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
    pub bytes: f64,
    /// Time from the request until all data are durable, s.
    pub seconds: f64,
}

impl FilesCopied {
    /// The time that its bytes do not explain at this rate, s.
    fn besides(&self, rate: f64) -> f64 {
        self.seconds - 8.0 * self.bytes / rate
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
        let quickest = |bytes: f64, seconds: f64| if seconds > 0.0 { 8.0 * bytes / seconds } else { 0.0 };
        let (files, bytes) = (many.files - few.files, many.bytes - few.bytes);
        let rate = rate
            .max(quickest(many.bytes, many.seconds))
            .max(quickest(bytes, many.seconds - few.seconds))
            .max(1.0);
        let bare = many.besides(rate).max(0.0);
        let file = if files > 0.0 { ((bare - few.besides(rate).max(0.0)) / files).max(0.0) } else { 0.0 };
        // If necessary, all of the time is attributed to the files, and nothing is fixed.
        let file = if many.files > 0.0 { file.min(bare / many.files) } else { file };
        Self { fixed: bare - many.files * file, file, rate }
    }

    /// Predicted duration for this many files and bytes, s.
    #[must_use]
    pub fn seconds(&self, files: f64, bytes: f64) -> f64 {
        self.fixed + files * self.file + 8.0 * bytes / self.rate
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
        assert_eq!(path(100.0, 85.0, 9000).flows_needed(MAX_WINDOW), 1.0);
        assert_eq!(path(400.0, 100.0, 9000).flows_needed(MAX_WINDOW), 5.0);
    }

    #[test]
    fn bytes_in_flight() {
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
        assert_eq!(path(100.0, 100.0, 9000).slow_start().bytes, 2.5e9);
        assert_eq!(path(0.001, 1.0, 9000).slow_start().seconds, 0.0, "the first window fills it");
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
    fn a_policer_lets_its_bucket_pass_first() {
        let policer = Policer { rate: 400e6, burst: 1e6 };
        assert_eq!(policer.loss(1e9, 0.01), 0.0);
        assert!((policer.loss(1e9, 1000.0) - 0.6).abs() < 1e-4);
    }

    fn copied(files: f64, bytes: f64, seconds: f64) -> FilesCopied {
        FilesCopied { files, bytes, seconds }
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
    fn one_copy_alone_is_all_fixed_but_its_bytes() {
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
                is_about(cost.seconds(many.files, many.bytes), many.seconds),
                "{few:?} {many:?} {cost:?}"
            );
            assert!(cost.fixed >= 0.0 && cost.file >= 0.0 && cost.rate >= 1e9, "{cost:?}");
        }
        let nothing = FilesCost::of(&FilesCopied::default(), &FilesCopied::default(), 0.0);
        assert_eq!(nothing.seconds(5.0, 0.0), 0.0);
    }
}
