//! What a host is wanted for: rate, distance, direction, flows. What follows from them is one function each.

use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_io::quantity::{Rate, Size, Span};
use std::fmt;
use std::str::FromStr;

/// The largest window that TCP can announce: 65535 scaled by 2^14.
pub const MAX_WINDOW_BYTES: u64 = 65535 << 14;
/// The largest value of the limits of socket buffers.
pub const MAX_BUFFER_BYTES: u64 = i32::MAX as u64;
/// What stands on the wire around an IP packet in Ethernet: preamble, header, checksum, gap.
const ETHERNET: u64 = 38;
/// How long a receiver may be away, which its buffer must bridge: a tenth of a second.
const STALL_MS: u64 = 100;

/// Which way data go, and what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostRole {
    /// It sends files or streams.
    Send,
    /// It receives them.
    Receive,
    /// Both.
    #[default]
    Both,
    /// It receives UDP and writes it to disks.
    Record,
    /// It measures paths: jitter matters more than rate.
    Measure,
}

impl FromStr for HostRole {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Send, Self::Receive, Self::Both, Self::Record, Self::Measure];
        let found = all.into_iter().find(|role| role.to_string() == text);
        found.ok_or_else(|| {
            format!("'{text}' is not a role{}", Hint("use send, receive, both, record or measure"))
        })
    }
}

impl fmt::Display for HostRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Both => "both",
            Self::Record => "record",
            Self::Measure => "measure",
        })
    }
}

/// What the host is wanted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTarget {
    /// Bits per second, all flows together.
    pub rate: u64,
    /// Round trip in nanoseconds.
    pub rtt: u64,
    /// Which way data go.
    pub role: HostRole,
    /// Flows at once.
    pub flows: u64,
    /// The MTU that the path carries, if known.
    pub mtu: Option<u64>,
    /// What was not given, and therefore assumed.
    pub assumed: Vec<String>,
}

impl HostTarget {
    /// What is wanted, with what was not given: the rate of the link, or 10 Gb/s; 10 ms; one flow.
    #[must_use]
    pub fn new(
        rate: Option<Rate>,
        rtt: Option<Span>,
        role: HostRole,
        flows: Option<u64>,
        link: Option<u64>,
    ) -> Self {
        let mut assumed = Vec::new();
        let rate = rate.map(Rate::bits_per_second).unwrap_or_else(|| {
            let (rate, of) = link.map_or((10_000_000_000, ""), |link| (link, ", the rate of the link"));
            assumed.push(format!("--rate {}{of}", Rate::from_bits_per_second(rate)));
            rate
        });
        let rtt = rtt.map(Span::nanos).unwrap_or_else(|| {
            assumed.push("--rtt 10ms".to_owned());
            10_000_000
        });
        Self { rate: rate.max(1), rtt, role, flows: flows.unwrap_or(1).max(1), mtu: None, assumed }
    }

    /// Bytes on the way: rate times round trip.
    #[must_use]
    pub fn bdp(&self) -> u64 {
        let bytes = u128::from(self.rate) * u128::from(self.rtt) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The buffer of one flow: twice its share of what is on the way, since the kernel counts its own overhead and recovery
    /// needs room; never more than TCP can announce.
    #[must_use]
    pub fn window(&self) -> u64 {
        (self.bdp() / self.flows).saturating_mul(2).min(MAX_WINDOW_BYTES)
    }

    /// The buffer of a UDP socket that bridges a receiver's absence.
    #[must_use]
    pub fn udp_buffer(&self) -> u64 {
        (self.rate / 8_000).saturating_mul(STALL_MS).min(MAX_BUFFER_BYTES)
    }

    /// Nanoseconds that one packet of `mtu` bytes takes at the rate.
    #[must_use]
    pub fn packet_ns(&self, mtu: u64) -> f64 {
        mtu.saturating_add(ETHERNET) as f64 * 8e9 / self.rate as f64
    }

    /// Whether it sends.
    #[must_use]
    pub fn sends(&self) -> bool {
        matches!(self.role, HostRole::Send | HostRole::Both | HostRole::Measure)
    }

    /// Whether it receives.
    #[must_use]
    pub fn receives(&self) -> bool {
        self.role != HostRole::Send
    }

    /// Whether it measures.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.role == HostRole::Measure
    }

    /// Whether this is at least so many Gb/s.
    #[must_use]
    pub fn at_least_gbps(&self, gbps: u64) -> bool {
        self.rate >= gbps.saturating_mul(1_000_000_000)
    }
}

impl fmt::Display for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, rtt) = (Rate::from_bits_per_second(self.rate), Span::from_nanos(self.rtt));
        write!(f, "{rate} over {rtt}, role {}, {} flow(s): ", self.role, self.flows)?;
        write!(f, "{} in flight", size(self.bdp()))
    }
}

/// A size for people: rounded to three digits, in units of 1024.
#[must_use]
pub(crate) fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >= 1 << shift) {
        Some((name, shift)) if bytes.is_multiple_of(1 << shift) => format!("{}{name}", bytes >> shift),
        Some((name, shift)) => {
            let value = bytes as f64 / f64::from(1 << shift);
            let digits = if value >= 100.0 { 0 } else { 1 };
            format!("{value:.digits$}{name}")
        }
        None => Size::from_bytes(bytes).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(rate: &str, rtt: &str, flows: u64) -> HostTarget {
        HostTarget::new(
            Some(rate.parse().unwrap()),
            Some(rtt.parse().unwrap()),
            HostRole::Both,
            Some(flows),
            None,
        )
    }

    #[test]
    fn buffers_follow_from_rate_and_distance() {
        assert_eq!(target("100Gbps", "10ms", 1).bdp(), 125_000_000);
        assert_eq!(target("100Gbps", "10ms", 4).window(), 62_500_000);
        assert_eq!(target("400Gbps", "100ms", 1).window(), MAX_WINDOW_BYTES);
        assert_eq!(target("10Gbps", "1ms", 1).udp_buffer(), 125_000_000);
        assert_eq!(target("400Gbps", "1ms", 1).udp_buffer(), MAX_BUFFER_BYTES);
        assert!((target("100Gbps", "1ms", 1).packet_ns(9000) - 723.0).abs() < 1.0);
    }

    #[test]
    fn what_is_assumed_is_said() {
        let of_link = HostTarget::new(None, None, HostRole::Send, None, Some(25_000_000_000));
        assert_eq!(of_link.assumed, ["--rate 25Gbps, the rate of the link", "--rtt 10ms"]);
        assert!(of_link.sends() && !of_link.receives());
        assert!("sned".parse::<HostRole>().unwrap_err().contains("hint: use send,"));
        assert_eq!("record".parse(), Ok(HostRole::Record));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([512, 4096, 125_000_000, 4 << 20].map(size), ["512B", "4KiB", "119MiB", "4MiB"]);
    }
}
