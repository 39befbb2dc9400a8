//! Messages of a UDP test on the control connection.
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
//!
//! Both ends meet on UDP, and exchange times beside the data, in small datagrams:
//!
//! ```text
//!   client                                       server
//!     ── Knock { test, cookie of the test } ──────▶   the control connection gave out this cookie
//!     ◀───────────── Cookie { of this address } ──    as long as the knock: nothing is amplified
//!     ── Echo { that cookie } ───────────────────▶    somebody does receive there
//!     ◀──────────────────────────── Ready ────────    from here on, data may come
//!     ── Ping { t1 } ────────────────────────────▶
//!     ◀──────────────────── Pong { t1, t2, t3 } ──
//! ```
//!
//! All have [`LEN`] bytes, big-endian, with a CRC-32C at the end.

use super::point::{EndReport, MAX_DATAGRAM, UdpPoint};
use crate::probe::TestDirection;
use serde::{Deserialize, Serialize};
use skyhaul_core::placement::Reject;

/// The request of a client, before its turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRequest {
    /// Flows: pairs of ports.
    pub flows: u16,
    /// Seconds that it takes, about.
    pub seconds: f64,
    /// Highest rate that the server is to send or receive, in bits per second of payload; none: unlimited.
    pub rate: Option<f64>,
    /// Let the kernel join packets that arrive together, which costs less CPU time and loses their single times.
    pub join: bool,
}

/// The session that the server opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSession {
    /// Number of the test in its datagrams.
    pub test: u64,
    /// Proves, in a datagram, that its sender is the client on the control connection.
    pub cookie: String,
    /// UDP ports of the flows.
    pub ports: Vec<u16>,
    /// The other end.
    pub host: HostSummary,
}

/// A summary of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Its CPUs, memory and kernel.
    pub machine: String,
    /// The interface on which it is.
    pub interface: String,
    /// Bytes of receive and send buffer that the kernel granted.
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
        /// Milliseconds without an arrival after which the point ends.
        settle_ms: u32,
        /// Report them as text, a third as long.
        #[serde(default)]
        packed: bool,
    },
    /// The number of packets sent in each flow.
    Sent {
        /// Of this point.
        run: u32,
        /// Of each flow.
        packets: Vec<u64>,
    },
    /// Stop sending in this point, and report.
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
    /// The number of packets sent in each flow.
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
        /// The server's report.
        report: Box<EndReport>,
        /// If that was asked for, the packets of each flow that was received, taken out of the report.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        packed: Vec<String>,
    },
    /// The point cannot be measured.
    Failed {
        /// The reason.
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

/// Reads the text; `None` if it is invalid.
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

skyhaul_core::header! {
    /// The datagram.
    Table [64] {
        be u32 @ 0 { /** [`MAGIC`]. */ magic }
        be u8 @ 4 { /** 1. */ version }
        be u8 @ 5 { /** A [`Kind`]. */ kind }
        be u16 @ 6 { /** Flow, from 0. */ flow }
        be u64 @ 8 { /** The test's number. */ test }
        be u64 @ 16 { /** First half of a cookie; in times, t1. */ first }
        be u64 @ 24 { /** Second half of a cookie; in times, t2. */ second }
        be u64 @ 32 { /** In times, t3. */ third }
        be u64 @ 40 { /** Number of the exchange. */ number }
        be u64 @ 48 { /** Zero. */ reserved }
        be u32 @ 56 { /** Zero. */ reserved_b }
        be u32 @ 60 { /** CRC-32C of all octets before. */ checksum }
    }
}

/// Bytes of each datagram.
pub(super) const LEN: usize = 64;
/// Magic number: neither that of test data, nor text.
const MAGIC: u32 = 0xF5A4_5B1D;
const VERSION: u8 = 1;
const CHECKED: usize = LEN - 4;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// A client is here: cookie of the test.
    Knock([u8; 16]),
    /// Send this back to show that you receive here.
    Cookie([u8; 16]),
    /// Here it is.
    Echo([u8; 16]),
    /// Data may be sent, both ways.
    Ready,
    /// What time is it: t1 of the client, in nanoseconds.
    Ping {
        /// Number of the exchange.
        number: u64,
        /// When it was sent.
        sent: u64,
    },
    /// It was t2 when the ping came, and t3 when this was sent.
    Pong {
        /// Number of the exchange.
        number: u64,
        /// t1, sent back.
        sent: u64,
        /// t2.
        came: u64,
        /// t3.
        back: u64,
    },
}

/// A datagram of this kind: of which test and flow, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlDatagram {
    /// The test.
    pub test: u64,
    /// The flow.
    pub flow: u16,
    /// What it says.
    pub meeting: Handshake,
}

/// Whether this is a control datagram; one or two comparisons for data.
#[inline]
#[must_use]
pub(super) fn is_control(datagram: &[u8]) -> bool {
    datagram.len() == LEN && datagram.starts_with(&MAGIC.to_be_bytes())
}

impl ControlDatagram {
    /// The datagram.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let cookie = |cookie: [u8; 16]| {
            let both = u128::from_be_bytes(cookie);
            ((both >> 64) as u64, both as u64)
        };
        let mut table =
            Table { magic: MAGIC, version: VERSION, test: self.test, flow: self.flow, ..Table::default() };
        (table.kind, table.first, table.second) = match self.meeting {
            Handshake::Knock(bytes) => (1, cookie(bytes).0, cookie(bytes).1),
            Handshake::Cookie(bytes) => (2, cookie(bytes).0, cookie(bytes).1),
            Handshake::Echo(bytes) => (3, cookie(bytes).0, cookie(bytes).1),
            Handshake::Ready => (4, 0, 0),
            Handshake::Ping { number, sent } => {
                table.number = number;
                (5, sent, 0)
            }
            Handshake::Pong { number, sent, came, back } => {
                (table.number, table.third) = (number, back);
                (6, sent, came)
            }
        };
        let mut octets = table.write();
        let checksum = crc32c::crc32c(&octets[..CHECKED]);
        octets[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        octets
    }

    /// Read a datagram.
    ///
    /// # Errors
    /// [`Reject::WrongSize`], [`Reject::BadMagic`], [`Reject::BadChecksum`], [`Reject::BadVersion`], [`Reject::BadField`].
    pub fn read(datagram: &[u8]) -> Result<Self, Reject> {
        if datagram.len() != LEN {
            return Err(Reject::WrongSize);
        }
        let (table, _) = Table::read(datagram).ok_or(Reject::WrongSize)?;
        if table.magic != MAGIC {
            return Err(Reject::BadMagic);
        }
        if table.checksum != crc32c::crc32c(&datagram[..CHECKED]) {
            return Err(Reject::BadChecksum);
        }
        if table.version != VERSION {
            return Err(Reject::BadVersion);
        }
        let cookie = (u128::from(table.first) << 64 | u128::from(table.second)).to_be_bytes();
        let (number, sent) = (table.number, table.first);
        let meeting = match table.kind {
            1 => Handshake::Knock(cookie),
            2 => Handshake::Cookie(cookie),
            3 => Handshake::Echo(cookie),
            4 => Handshake::Ready,
            5 => Handshake::Ping { number, sent },
            6 => Handshake::Pong { number, sent, came: table.second, back: table.third },
            _ => return Err(Reject::BadField),
        };
        Ok(Self { test: table.test, flow: table.flow, meeting })
    }
}

/// Any octets; for the fuzzer.
pub fn fuzz_datagram(input: &[u8]) {
    assert!(is_control(input) || ControlDatagram::read(input).is_err());
    if let Ok(small) = ControlDatagram::read(input) {
        assert_eq!(ControlDatagram::read(&small.octets()), Ok(small));
    }
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

    #[test]
    fn each_is_read_back_and_no_damaged_one_is_read() {
        for meeting in [
            Handshake::Knock([7; 16]),
            Handshake::Cookie([8; 16]),
            Handshake::Echo([9; 16]),
            Handshake::Ready,
            Handshake::Ping { number: 3, sent: u64::MAX },
            Handshake::Pong { number: 3, sent: 1, came: 2, back: 3 },
        ] {
            let small = ControlDatagram { test: 5, flow: 2, meeting };
            let octets = small.octets();
            assert_eq!(ControlDatagram::read(&octets), Ok(small));
            assert!(is_control(&octets));
            for bit in 0..LEN * 8 {
                let mut damaged = octets;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(ControlDatagram::read(&damaged).is_err(), "{meeting:?} {bit}");
                fuzz_datagram(&damaged);
            }
            fuzz_datagram(&octets);
        }
        assert_eq!(ControlDatagram::read(&[0; 63]), Err(Reject::WrongSize));
        assert_eq!(ControlDatagram::read(&[0; 64]), Err(Reject::BadMagic));
        let mut other = ControlDatagram { test: 5, flow: 2, meeting: Handshake::Ready }.octets();
        for (at, reject) in [(4, Reject::BadVersion), (5, Reject::BadField)] {
            let before = std::mem::replace(&mut other[at], 99);
            let checksum = crc32c::crc32c(&other[..CHECKED]);
            other[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(ControlDatagram::read(&other), Err(reject));
            other[at] = before;
        }
    }
}
