//! Feedback from a receiver to a sender, so that the sender can find the highest rate at which nothing is lost.
//!
//! A sender that uses it puts *marks* among its data, about every 10 ms, from the same socket. A mark states how much was
//! sent before it. The receiver answers each with a *report* of how much had arrived when the mark arrived. The mark
//! takes the same path and queues as the data, so the two counts are of the same packets: no packet under way is mistaken
//! for a loss, and no loss is detected only when a heap times out.
//!
//! ```text
//!   sender    data data data MARK data data data MARK ▶     sent before it: 700 packets
//!   receiver  ◀ REPORT                                      of these came: 698; lost since the start: 2
//! ```
//!
//! All counts are since the session began, so a lost mark or report only costs one measurement. Both are datagrams of
//! [`LEN`] bytes, big-endian, distinguished from SPEAD by their first bytes, with a CRC-32C (RFC 3720, B.4) at the end.
//! A receiver only answers marks, with as many bytes as it received, to the address they came from: it cannot be used to
//! flood another host.
//!
//! **Threat model.** A session is 64 random bits, chosen by the sender and echoed. An attacker who does not see the
//! sender's packets cannot guess it, and so cannot steer the sender. One who sees them (on the path, or in the multicast
//! group) can forge reports: there is no shared secret. The worst effect is that the sender falls to its minimum rate, or
//! rises to its maximum.
//!
//! ```
//! use skyhaul_core::wire::feedback::{Mark, Message, read};
//! let mark = Mark { session: 7, packets: 700, bytes: 1_000_000, ..Mark::default() };
//! let Ok(Message::Mark(read)) = read(&mark.octets()) else { panic!() };
//! assert_eq!((read.session, read.packets, read.bytes), (7, 700, 1_000_000));
//! ```
//!
//! Limits: unicast UDP, one receiver for each sender. Packets that a mark overtakes are counted one report later.

use super::crc32c::crc32c;
use crate::placement::Reject;

crate::header! {
    /// The first half of a mark; zeros follow, so that a report is not longer than its mark.
    Mark [64] {
        be u32 @ 0 { /** [`MAGIC`]. Filled in by [`octets`](Mark::octets). */ magic }
        be u8 @ 4 { /** [`VERSION`]. Filled in by [`octets`](Mark::octets). */ version }
        be u8 @ 5 { /** 1. Filled in by [`octets`](Mark::octets). */ kind }
        be u16 @ 6 { /** Zero. */ flags }
        be u64 @ 8 { /** Random number of the sender's session; every report echoes it. */ session }
        be u32 @ 16 { /** Number of this mark. */ sequence }
        be u32 @ 20 { /** Time to the next mark, microseconds; what the receiver may expect. */ interval }
        be u64 @ 24 { /** When it was sent, nanoseconds of the sender's clock. */ time }
        be u64 @ 32 { /** Data packets sent before it in this session. */ packets }
        be u64 @ 40 { /** Octets in them (datagram payload). */ bytes }
        be u64 @ 48 { /** Zero. */ reserved_a }
        be u64 @ 56 { /** Zero. */ reserved_b }
    }
}

crate::header! {
    /// The first half of a report: the mark it answers, and how much of the data before that mark had arrived.
    Echo [64] {
        be u32 @ 0 { /** [`MAGIC`]. Filled in by [`octets`](Report::octets). */ magic }
        be u8 @ 4 { /** [`VERSION`]. Filled in by [`octets`](Report::octets). */ version }
        be u8 @ 5 { /** 2. Filled in by [`octets`](Report::octets). */ kind }
        be u16 @ 6 { /** Zero. */ flags }
        be u64 @ 8 { /** The mark's. */ session }
        be u32 @ 16 { /** Number of this report. */ sequence }
        be u32 @ 20 { /** The mark's. */ mark }
        be u64 @ 24 { /** The mark's, nanoseconds of the sender's clock. */ mark_time }
        be u64 @ 32 { /** The mark's: packets sent before it. */ mark_packets }
        be u64 @ 40 { /** Packets that came before it. */ packets }
        be u64 @ 48 { /** Octets that came before it (datagram payload). */ bytes }
        be u64 @ 56 { /** When the mark came, nanoseconds of the receiver's clock. */ arrived }
    }
}

crate::header! {
    /// The second half of a report: the receiver's losses by cause, and its fill levels. All counts are since its start.
    State [64] {
        be u64 @ 0 { /** The mark's: octets sent before it. */ mark_bytes }
        be u64 @ 8 { /** When this report was sent, nanoseconds of the receiver's clock. */ time }
        be u64 @ 16 { /** Zero. */ reserved_b }
        be u64 @ 24 { /** Arrivals the kernel threw away at the socket; one is a packet, or with GRO a train. */ kernel_drops }
        be u64 @ 32 { /** Packets that came and were refused for want of memory. */ no_memory }
        be u64 @ 40 { /** Packets, or finished heaps, that were refused since the reader does not take heaps fast enough. */ ring_full }
        be u16 @ 48 { /** How full the socket's buffer is, of 1000. */ socket_fill }
        be u16 @ 50 { /** How full the ring of finished heaps is, of 1000. */ ring_fill }
        be u64 @ 52 { /** Zero. */ reserved }
        be u32 @ 60 { /** CRC-32C of all octets before. Filled in by [`octets`](Report::octets). */ checksum }
    }
}

/// Bytes of a mark, and of a report.
pub const LEN: usize = 128;
/// Magic number of both: not SPEAD's 0x53, and not text.
pub const MAGIC: u32 = 0xF5A4_5B0C;
/// The version written and read.
pub const VERSION: u8 = 1;
const MARK: u8 = 1;
const REPORT: u8 = 2;
const CHECKED: usize = LEN - 4;

/// A whole report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The mark it answers, and what had arrived.
    pub echo: Echo,
    /// Losses by cause, and fill levels.
    pub state: State,
}

/// A datagram of this channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// From a sender: what it has sent up to this point.
    Mark(Mark),
    /// From a receiver: what arrived.
    Report(Report),
}

/// Whether a datagram belongs to this channel, by its length and first bytes. One comparison for data packets.
#[inline]
#[must_use]
pub fn is_feedback(datagram: &[u8]) -> bool {
    datagram.len() == LEN && datagram.starts_with(&MAGIC.to_be_bytes())
}

/// Read a datagram of this channel.
///
/// # Errors
/// [`Reject::BadMagic`], [`Reject::WrongSize`], [`Reject::BadChecksum`], [`Reject::BadVersion`], and
/// [`Reject::BadField`] for an unknown kind or a fill of more than 1000.
pub fn read(datagram: &[u8]) -> Result<Message, Reject> {
    if !datagram.starts_with(&MAGIC.to_be_bytes()) {
        return Err(Reject::BadMagic);
    }
    let whole: &[u8; LEN] = datagram.try_into().map_err(|_| Reject::WrongSize)?;
    let (echo, rest) = Echo::read(whole).ok_or(Reject::WrongSize)?;
    let (state, _) = State::read(rest).ok_or(Reject::WrongSize)?;
    if state.checksum != crc32c(&whole[..CHECKED]) {
        return Err(Reject::BadChecksum);
    }
    if echo.version != VERSION {
        return Err(Reject::BadVersion);
    }
    match echo.kind {
        MARK => Mark::read(whole).map(|(mark, _)| Message::Mark(mark)).ok_or(Reject::WrongSize),
        REPORT if state.socket_fill <= 1000 && state.ring_fill <= 1000 => {
            Ok(Message::Report(Report { echo, state }))
        }
        _ => Err(Reject::BadField),
    }
}

impl Mark {
    /// The datagram, with magic, version, kind, padding and checksum.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let head = Mark { magic: MAGIC, version: VERSION, kind: MARK, ..*self }.write();
        sealed(head, State::default().write())
    }
}

impl Report {
    /// The datagram, with magic, version, kind and checksum.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let echo = Echo { magic: MAGIC, version: VERSION, kind: REPORT, ..self.echo };
        sealed(echo.write(), self.state.write())
    }
}

fn sealed(head: [u8; 64], tail: [u8; 64]) -> [u8; LEN] {
    let mut octets = [0; LEN];
    octets[..64].copy_from_slice(&head);
    octets[64..].copy_from_slice(&tail);
    let checksum = crc32c(&octets[..CHECKED]);
    octets[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;
    use proptest::prelude::*;

    #[test]
    fn tables_round_trip() {
        round_trip!(Mark, Echo, State);
    }

    fn mark() -> Mark {
        Mark {
            magic: MAGIC,
            version: VERSION,
            kind: MARK,
            session: 0x0123_4567_89AB_CDEF,
            sequence: 3,
            interval: 10_000,
            time: 5_000_000_000,
            packets: 700,
            bytes: 1_030_400,
            ..Mark::default()
        }
    }

    fn report() -> Report {
        let m = mark();
        Report {
            echo: Echo {
                magic: MAGIC,
                version: VERSION,
                kind: REPORT,
                session: m.session,
                mark: m.sequence,
                mark_time: m.time,
                mark_packets: m.packets,
                packets: 698,
                bytes: 1_027_456,
                arrived: 77,
                ..Echo::default()
            },
            state: State { mark_bytes: m.bytes, time: 78, socket_fill: 1000, ..State::default() },
        }
    }

    fn resealed(mut octets: [u8; LEN]) -> [u8; LEN] {
        let checksum = crc32c(&octets[..CHECKED]);
        octets[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        octets
    }

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn octets_are_where_the_tables_say() {
        let octets = mark().octets();
        assert_eq!(octets[..6], [0xF5, 0xA4, 0x5B, 0x0C, 1, 1]);
        assert_eq!(octets[8..20], [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF, 0, 0, 0, 3]);
        assert_eq!(octets[32..40], 700u64.to_be_bytes());
        assert!(octets[64..CHECKED].iter().all(|&octet| octet == 0));
        let octets = report().octets();
        assert_eq!((octets.len(), octets[5]), (LEN, 2));
        assert_eq!(octets[40..48], 698u64.to_be_bytes());
        assert_eq!(octets[112..114], 1000u16.to_be_bytes());
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&mark().octets()), Ok(Message::Mark(mark())));
        let Ok(Message::Report(got)) = read(&report().octets()) else { panic!("no report") };
        let checksum = got.state.checksum;
        assert_eq!(got, Report { state: State { checksum, ..report().state }, ..report() });
        assert!(is_feedback(&mark().octets()) && is_feedback(&report().octets()));
        assert!(!is_feedback(&[0x53; LEN]) && !is_feedback(&mark().octets()[..LEN - 1]));
    }

    #[test]
    fn each_refusal() {
        let good = report().octets();
        assert_eq!(read(&[]), Err(Reject::BadMagic));
        assert_eq!(read(&[0x53; LEN]), Err(Reject::BadMagic));
        assert_eq!(read(&good[..LEN - 1]), Err(Reject::WrongSize));
        assert_eq!(read(&[&good[..], &[0]].concat()), Err(Reject::WrongSize));
        for at in 4..LEN {
            let mut bad = good;
            bad[at] ^= 0x10;
            assert_eq!(read(&bad), Err(Reject::BadChecksum), "octet {at}");
        }
        let with = |at: usize, value: u8| {
            let mut octets = good;
            octets[at] = value;
            read(&resealed(octets))
        };
        assert_eq!(with(4, 2), Err(Reject::BadVersion));
        assert_eq!(with(5, 3), Err(Reject::BadField));
        assert_eq!(with(112, 0xFF), Err(Reject::BadField));
        assert_eq!(with(114, 0xFF), Err(Reject::BadField));
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..200), magic: bool, seal: bool) {
            let mut raw = raw;
            if magic && raw.len() >= 4 {
                raw[..4].copy_from_slice(&MAGIC.to_be_bytes());
            }
            if seal {
                raw.resize(LEN, 1);
                let mut whole = [0; LEN];
                whole.copy_from_slice(&raw);
                raw = resealed(whole).to_vec();
            }
            match read(&raw) {
                Ok(Message::Mark(mark)) => prop_assert_eq!(mark.octets()[..64].to_vec(), raw[..64].to_vec()),
                Ok(Message::Report(report)) => prop_assert_eq!(report.octets().to_vec(), raw),
                Err(_) => {}
            }
        }
    }
}
