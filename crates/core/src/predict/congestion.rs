//! Laws of congestion control: what a loss costs, and how much loss a rate allows.

use super::Path;

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

impl Path {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::mss;

    fn path(gbps: f64, ms: f64, mtu: u32) -> Path {
        Path { rate: gbps * 1e9, rtt: ms / 1e3, mss: mss(mtu, false) }
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
}
