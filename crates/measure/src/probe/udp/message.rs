//! What the two ends of a UDP test say on the control connection.
//!
//! ```text
//!   client                                        server
//!     ── ask "udp": Request ───────────────────────▶
//!     ◀─────────────────────── Opened { ports, … } ──     then both meet on UDP
//!     ── Point ────────────────────────────────────▶      for each point:
//!     ◀──────────────────────────────────── Ready ──
//!     ═════════════════ data ══════════════════════▶      and the other way
//!     ── Sent ─────────────────────────────────────▶
//!     ◀──────────────────────────────────── Sent ───
//!     ◀────────────────────────────────── Report ───
//!     ── End ──────────────────────────────────────▶
//! ```

use super::plan::{MAX_DATAGRAM, UdpPoint};
use super::report::EndReport;
use crate::probe::TestDirection;
use serde::{Deserialize, Serialize};

/// What a client asks for before its turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRequest {
    /// Flows: pairs of ports.
    pub flows: u16,
    /// Seconds that it takes, about.
    pub seconds: f64,
    /// Highest rate that it asks the server to send or receive, in bits per second of payload; none: unlimited.
    pub rate: Option<f64>,
    /// Let the kernel join packets that arrive together, which costs less CPU time and loses their single times.
    pub join: bool,
}

/// What the server opened for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSession {
    /// Number of the test in its datagrams.
    pub test: u64,
    /// With which the client shows in a datagram that it is the one on the control connection.
    pub cookie: String,
    /// UDP ports of the flows.
    pub ports: Vec<u16>,
    /// The other end.
    pub host: HostSummary,
}

/// A host in a few words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Its processors, memory and kernel.
    pub machine: String,
    /// The interface on which it is.
    pub interface: String,
    /// Octets of receive and send buffer that the kernel granted.
    pub buffers: (u64, u64),
    /// Largest datagram towards the peer that is not cut, as far as the host knows.
    pub largest_datagram: u64,
}

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UdpCommand {
    /// Measure a point.
    Point {
        /// Its number.
        run: u32,
        /// What to send.
        point: UdpPoint,
        /// Which way.
        direction: TestDirection,
        /// Packets to report one by one.
        samples: u32,
        /// Milliseconds without arrival after which nothing more is awaited.
        settle_ms: u32,
        /// Report them as text, a third as long.
        #[serde(default)]
        packed: bool,
    },
    /// So many packets were sent in each flow.
    Sent {
        /// Of this point.
        run: u32,
        /// Of each flow.
        packets: Vec<u64>,
    },
    /// Send no more in this point, and report what there is.
    Stop,
    /// Nothing more.
    End,
}

/// From the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UdpReply {
    /// It receives.
    Ready {
        /// This point.
        run: u32,
    },
    /// So many packets were sent in each flow.
    Sent {
        /// Of this point.
        run: u32,
        /// Of each flow.
        packets: Vec<u64>,
    },
    /// The end of a point.
    Report {
        /// This point.
        run: u32,
        /// What the server did in it.
        report: Box<EndReport>,
        /// If that was asked for, the packets of each flow that was received, taken out of the report.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        packed: Vec<String>,
    },
    /// The point is not measured.
    Failed {
        /// Why.
        why: String,
    },
}

/// Any bytes as messages of a test; for the fuzzer. A point that is taken can be planned, whatever its numbers are.
pub fn fuzz(input: &[u8]) {
    let _ = serde_json::from_slice::<UdpRequest>(input);
    let _ = serde_json::from_slice::<UdpSession>(input);
    let _ = serde_json::from_slice::<UdpReply>(input);
    if let Ok(UdpCommand::Point { point, .. }) = serde_json::from_slice(input)
        && point.check().is_ok()
    {
        assert!(point.size <= MAX_DATAGRAM && point.takes().as_nanos() <= u128::from(point.longest_ns));
        assert!(point.rate().is_none_or(|rate| rate > 0.0));
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Groups of a number of 64 bits.
const GROUPS: u32 = 13;

type Sample = (u64, i64, i64);

/// As text.
pub(super) fn pack(samples: &[Sample]) -> String {
    let mut text = String::with_capacity(samples.len() * 10);
    let mut before = (0u64, 0i64, 0i64);
    for &(number, at, way) in samples {
        for difference in [
            number.wrapping_sub(before.0).cast_signed(),
            at.wrapping_sub(before.1),
            way.wrapping_sub(before.2),
        ] {
            // Small ones of either sign are short.
            let mut rest = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
            loop {
                let more = rest >> 5 != 0;
                let group = (rest & 31) as usize | if more { 32 } else { 0 };
                text.push(char::from(DIGITS[group]));
                rest >>= 5;
                if !more {
                    break;
                }
            }
        }
        before = (number, at, way);
    }
    text
}

/// From text; `None` if it is none.
pub(super) fn unpack(text: &str) -> Option<Vec<Sample>> {
    let mut groups = text.bytes();
    let (mut samples, mut before) = (Vec::new(), (0u64, 0i64, 0i64));
    while let Some(first) = groups.next() {
        let number = before.0.wrapping_add_signed(value(first, &mut groups)?);
        let next = groups.next()?;
        let at = before.1.wrapping_add(value(next, &mut groups)?);
        let next = groups.next()?;
        let way = before.2.wrapping_add(value(next, &mut groups)?);
        before = (number, at, way);
        samples.push(before);
    }
    Some(samples)
}

fn value(first: u8, more: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let (mut digit, mut all) = (first, 0u64);
    for place in 0..GROUPS {
        let group = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        all |= u64::from(group & 31) << (5 * place);
        if group & 32 == 0 {
            return Some((all >> 1).cast_signed() ^ -((all & 1).cast_signed()));
        }
        digit = more.next()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn even_packets_take_ten_characters_each() {
        let samples: Vec<Sample> =
            (0..1000).map(|n| (n, n as i64 * 147_200, 15_000_000 + (n % 7) as i64 * 900)).collect();
        let text = pack(&samples);
        assert!(text.len() < 10_000, "{}", text.len());
        assert_eq!(unpack(&text), Some(samples));
        assert_eq!(unpack(""), Some(Vec::new()));
        for wrong in ["A", "AA", "AAAA", "gggggggggggggg", "A A", "é"] {
            assert_eq!(unpack(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_are_read_back(samples in proptest::collection::vec(any::<Sample>(), 0..50)) {
            prop_assert_eq!(unpack(&pack(&samples)), Some(samples));
        }

        #[test]
        fn any_text_is_samples_or_none(text in "[A-Za-z0-9_é-]{0,60}") {
            let _ = unpack(&text);
        }
    }
}
