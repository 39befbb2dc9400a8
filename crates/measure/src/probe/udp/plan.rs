//! What is measured: one point is so many datagrams of one size, so far apart.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Octets of Ethernet, IP and UDP around a datagram on the wire: gap 12, preamble 8, header 14, checksum 4, then IPv4 20 or
/// IPv6 40, and UDP 8.
#[must_use]
pub const fn overhead(ipv6: bool) -> u64 {
    if ipv6 { 86 } else { 66 }
}

/// Shortest datagram: the header of a test packet.
pub const SHORTEST: u32 = skyhaul_core::wire::probe::Probe::LEN as u32;
/// Longest datagram.
pub const LONGEST: u32 = 65_507;
/// Most packets of one point and flow.
pub(super) const MOST: u64 = 1 << 40;
/// Longest train.
pub const TRAIN: u32 = 64;
/// Most flows of a test.
pub const FLOWS: u16 = 128;

/// How packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One by one, each in a system call of its own at its time, which the thread awaits without sleeping.
    #[default]
    Single,
    /// In trains of [`Point::train`] packets, each train in one system call at its time.
    Trains,
    /// One after the other without waiting: the kernel spaces them, where the interface has the `fq` discipline.
    Kernel,
}

/// Packets close together, then none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Packets in each.
    pub packets: u32,
    /// From the beginning of one to that of the next, in picoseconds.
    pub period_ps: u64,
}

/// One point of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Octets of each datagram's payload.
    pub size: u32,
    /// From the beginning of one packet to that of the next, in picoseconds; 0: as fast as possible.
    pub spacing_ps: u64,
    /// Packets of each flow.
    pub packets: u64,
    /// The point ends after this time even if fewer were sent, in nanoseconds.
    pub longest_ns: u64,
    /// How they are sent.
    pub mode: Mode,
    /// Packets of a train.
    pub train: u32,
    /// Bursts instead of an even stream.
    pub burst: Option<Burst>,
    /// No router may cut the packets: those that are too long for a link are lost.
    #[serde(default)]
    pub whole: bool,
    /// The other end sends every packet back: the time under way is that of a round trip, by one clock.
    #[serde(default)]
    pub ask: bool,
    /// Only this flow of the test sends; none: all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<u16>,
}

/// Which way the data of a point go, as the client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the server.
    #[default]
    Forward,
    /// From the server.
    Reverse,
    /// Both at once.
    Both,
}

impl Direction {
    /// Whether the client sends.
    #[must_use]
    pub fn forward(self) -> bool {
        self != Self::Reverse
    }

    /// Whether the server sends.
    #[must_use]
    pub fn reverse(self) -> bool {
        self != Self::Forward
    }
}

impl Point {
    /// Packets of this size and spacing for about `time`.
    #[must_use]
    pub fn even(size: u32, spacing_ps: u64, time: Duration) -> Self {
        let longest_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let packets = match spacing_ps {
            0 => MOST,
            spacing => (time.as_nanos() * 1000 / u128::from(spacing)).clamp(2, u128::from(MOST)) as u64,
        };
        Self {
            size,
            spacing_ps,
            packets,
            longest_ns,
            mode: Mode::Single,
            train: 1,
            burst: None,
            whole: false,
            ask: false,
            only: None,
        }
    }

    /// The same rate of payload for as long, in datagrams of another size.
    #[must_use]
    pub fn resized(&self, size: u32) -> Self {
        let (new, old) = (u128::from(size), u128::from(self.size.max(1)));
        let scaled = |value: u64, by: u128, of: u128| {
            u64::try_from(u128::from(value) * by / of.max(1)).unwrap_or(u64::MAX)
        };
        Self {
            size,
            spacing_ps: scaled(self.spacing_ps, new, old),
            packets: if self.spacing_ps == 0 {
                self.packets
            } else {
                scaled(self.packets, old, new).min(MOST)
            },
            ..*self
        }
    }

    /// How many of a test's flows send.
    #[must_use]
    pub fn flows(&self, of: u16) -> u16 {
        if self.only.is_some() { 1 } else { of }
    }

    /// Payload bits per second of one flow that are asked for; `None`: as many as possible.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let bits = f64::from(self.size) * 8.0;
        match (self.burst, self.spacing_ps) {
            (Some(burst), _) => Some(bits * f64::from(burst.packets) / (burst.period_ps as f64 / 1e12)),
            (None, 0) => None,
            (None, spacing) => Some(bits / (spacing as f64 / 1e12)),
        }
    }

    /// When packet `n` is due after the first, in picoseconds.
    #[must_use]
    pub fn due_ps(&self, n: u64) -> u128 {
        let spacing = u128::from(self.spacing_ps);
        match self.burst {
            None => u128::from(n) * spacing,
            Some(burst) => {
                let length = u64::from(burst.packets.max(1));
                u128::from(n / length) * u128::from(burst.period_ps) + u128::from(n % length) * spacing
            }
        }
    }

    /// Time it takes to send.
    #[must_use]
    pub fn takes(&self) -> Duration {
        let by_spacing = if self.spacing_ps == 0 && self.burst.is_none() {
            u128::MAX
        } else {
            self.due_ps(self.packets) / 1000
        };
        Duration::from_nanos(by_spacing.min(u128::from(self.longest_ns)) as u64)
    }

    /// Whether it can be measured.
    ///
    /// # Errors
    /// What is out of range.
    pub fn check(&self) -> Result<(), String> {
        fn within<T: PartialOrd + std::fmt::Display + Copy>(
            what: &str,
            value: T,
            range: RangeInclusive<T>,
        ) -> Result<(), String> {
            let (least, most) = (range.start(), range.end());
            if range.contains(&value) {
                Ok(())
            } else {
                Err(format!("{what} {value}: {least} to {most} are possible"))
            }
        }
        within("a datagram of", self.size, SHORTEST..=LONGEST)?;
        within("packets", self.packets, 1..=MOST)?;
        within("a train of", self.train, 1..=TRAIN)?;
        within("a time of nanoseconds", self.longest_ns, 1..=u64::from(u32::MAX) * 1_000_000)?;
        if let Some(burst) = self.burst {
            within("a burst of", burst.packets, 1..=1 << 24)?;
            within("a period of picoseconds", burst.period_ps, 1..=u64::MAX / 2)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_knows_its_rate_its_time_and_its_packets() {
        let point = Point::even(1472, 11_776_000, Duration::from_secs(1));
        assert!((point.rate().unwrap() - 1e9).abs() < 1.0);
        assert_eq!(point.packets, 84_918);
        assert!(point.takes() <= Duration::from_secs(1) && point.takes() > Duration::from_millis(999));
        assert_eq!(
            Point { spacing_ps: 723_200, ..point }.due_ps(1_000_000),
            723_200_000_000,
            "no rounding per packet"
        );
        let fast = Point::even(1472, 0, Duration::from_millis(50));
        assert_eq!((fast.rate(), fast.takes()), (None, Duration::from_millis(50)));
    }

    #[test]
    fn another_size_keeps_rate_and_time() {
        let point = Point::even(1472, 11_776_000, Duration::from_secs(1));
        let short = point.resized(1452);
        assert!((short.rate().unwrap() / point.rate().unwrap() - 1.0).abs() < 1e-6, "{short:?}");
        assert!(short.takes().abs_diff(point.takes()) < Duration::from_millis(1), "{short:?}");
        assert_eq!((short.size, point.resized(1472)), (1452, point));
    }

    #[test]
    fn bursts_are_close_together_and_far_apart() {
        let burst = Some(Burst { packets: 10, period_ps: 1_000_000_000 });
        let point = Point { burst, ..Point::even(1000, 1000, Duration::from_secs(1)) };
        assert_eq!([0, 9, 10, 25].map(|n| point.due_ps(n)), [0, 9_000, 1_000_000_000, 2_000_005_000]);
        assert!((point.rate().unwrap() - 80e6).abs() < 1.0);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_its_range() {
        let point = Point::even(1472, 1000, Duration::from_secs(1));
        point.check().unwrap();
        for (wrong, said) in [
            (Point { size: 3, ..point }, "a datagram of 3"),
            (Point { size: 65_508, ..point }, "65507 are possible"),
            (Point { packets: 0, ..point }, "packets 0"),
            (Point { train: 65, ..point }, "a train of 65"),
            (Point { longest_ns: u64::MAX, ..point }, "a time of nanoseconds"),
            (Point { burst: Some(Burst { packets: 0, period_ps: 1 }), ..point }, "a burst of 0"),
        ] {
            assert!(wrong.check().unwrap_err().contains(said), "{said}");
        }
    }
}
