//! Datagrams on the wire: the capacity that they use, and the loss if there is too little.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
