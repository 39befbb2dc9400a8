//! The datagrams of udpmon, protocol 7: each begins with the same C structure.
//!
//! ```text
//!   requester                                  responder (UDP port 14233)
//!     ── ZeroStats: limits of the histogram ────▶
//!     ◀───────────────────────── Ok, or InUse ───
//!     ══ Data 0, Data 1, … at the spacing ══════▶  counts, times, histograms
//!     ── GetStats, GetHistogram, GetSnmp, … ────▶
//!     ◀─────── counts; C structures in pieces ───
//!     ── TestEnd ───────────────────────────────▶
//! ```
//!
//! Integers have the byte order of the host for which udpmon was built. Commands are below 256, so the first word shows
//! the order; the version word does not, because the requester leaves it 0 in its first message.
//!
//! ```
//! use skyhaul_core::wire::header::Order;
//! use skyhaul_core::wire::udpmon::{Command, Message};
//! let message = Message::new(Order::Big, Command::Data, 7);
//! let octets = message.octets();
//! assert_eq!(octets[..4], [0, 0, 0, 4]);
//! let read = Message::read(&octets[..64])?; // as much as fits into a short packet
//! assert_eq!((read.order, read.command(), read.head.frame), (Order::Big, Some(Command::Data), 7));
//! # Ok::<(), skyhaul_core::placement::Reject>(())
//! ```
//!
//! Limits: only the layout of 64-bit builds (208 bytes); [`structs`] has the raw C structures of these builds.

pub mod structs;

use super::header::{Field, Order};
use crate::placement::Reject;

/// UDP port of a responder.
pub const PORT: u16 = 14233;
/// The version spoken.
pub const VERSION: u32 = 7;
/// Bytes of the whole structure.
pub const LEN: usize = 208;
/// Bytes at the head of a data packet, at least.
pub const SHORT: usize = 24;
/// Maximum size in bytes of a piece of a large reply, which stays below the MTU. Records come in pieces of 1416.
pub const PIECE: usize = 1416;
const HEAD: usize = 64;

crate::header! {
    /// The first 64 bytes.
    Head [64] {
        le u32 @ 0 { /** [`Command`]. */ command }
        le u32 @ 4 { /** [`VERSION`], in answers. */ version }
        le u64 @ 8 { /** Number of the packet, from 0. */ frame }
        le u64 @ 16 { /** When it was sent: 0.1 µs in data packets, µs in requests for a response. */ send_time }
        le u64 @ 24 { /** When a response was sent, µs. */ response_time }
        le u32 @ 32 { /** Octets that are wanted back; at the beginning, octets of records to keep. */ response_length }
        le u32 @ 36 { /** Acknowledge after so many packets; 0: never. */ acknowledge }
        le u32 @ 40 { /** Lower end of the histogram, 0.1 µs; later, the number of a histogram. */ low }
        le u32 @ 44 { /** Width of a bin, 0.1 µs. */ width }
        le u32 @ 48 { /** Where the wanted piece begins: in octets, of records in words of 8. */ index }
        le u32 @ 52 { /** 1: keep records of lost packets only. */ lost_only }
        le u32 @ 56 { /** Packets before the first that is recorded. */ skip }
        le u32 @ 60 { /** Packets received. */ received }
    }
}

crate::header! {
    /// The next 24 bytes; names and counts of five interrupts follow.
    Tail [24] {
        le u32 @ 0 { /** Packets lost. */ lost }
        le u32 @ 4 { /** Packets out of order. */ disordered }
        le u64 @ 8 { /** From the first packet to the last, 0.1 µs. */ first_to_last }
        le u32 @ 16 { /** 1: use time stamps of the network card. */ hardware_stamps }
        le u32 @ 20 { /** Padding. */ padding }
    }
}

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Command {
    /// Begin a test: set counts to 0.
    ZeroStats = 0x01,
    /// Give the counts.
    GetStats = 0x02,
    /// A packet of the test.
    Data = 0x04,
    /// Send a response of the length wanted.
    Request = 0x08,
    /// That response.
    Response = 0x09,
    /// Give a piece of a histogram.
    GetHistogram = 0x10,
    /// Done.
    Ok = 0x20,
    /// Another test runs.
    InUse = 0x21,
    /// End the test.
    TestEnd = 0x22,
    /// Packets have arrived.
    Acknowledge = 0x23,
    /// Give a piece of the records.
    GetRecords = 0x40,
    /// Give a piece of the counters of interfaces and protocols.
    GetSnmp = 0x43,
    /// Request a piece of the CPU load.
    GetCpu = 0x44,
    /// Give the counters of the network card.
    GetNic = 0x45,
    /// Set counts to 0 within a test.
    Start = 0x80,
}

const COMMANDS: [Command; 15] = {
    use Command::*;
    [
        ZeroStats,
        GetStats,
        Data,
        Request,
        Response,
        GetHistogram,
        Ok,
        InUse,
        TestEnd,
        Acknowledge,
        GetRecords,
        GetSnmp,
        GetCpu,
        GetNic,
        Start,
    ]
};

/// A datagram's structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Byte order of its integers.
    pub order: Order,
    /// Its first part; fields beyond the end of a short packet are 0.
    pub head: Head,
    /// Its second part; 0 in a short packet.
    pub tail: Tail,
}

impl Message {
    /// One with a command and a number.
    #[must_use]
    pub fn new(order: Order, command: Command, frame: u64) -> Self {
        let head = Head { command: command as u32, version: VERSION, frame, ..Head::default() };
        Self { order, head, tail: Tail::default() }
    }

    /// Its command; `None` if this version has no such command.
    #[must_use]
    pub fn command(&self) -> Option<Command> {
        COMMANDS.into_iter().find(|command| *command as u32 == self.head.command)
    }

    /// Read a datagram: at least [`SHORT`] bytes.
    ///
    /// # Errors
    /// It is too short, or its first word is not a command in either byte order.
    pub fn read(datagram: &[u8]) -> Result<Self, Reject> {
        let Some(first) = datagram.first_chunk::<4>() else { return Err(Reject::Truncated) };
        let order = match first {
            [1..=255, 0, 0, 0] => Order::Little,
            [0, 0, 0, 1..=255] => Order::Big,
            _ => return Err(Reject::BadMagic),
        };
        Self::read_in(order, datagram)
    }

    /// The same in a byte order that is known: the answers of udpmon to [`Command::GetStats`] have any first words.
    ///
    /// # Errors
    /// It is too short.
    pub fn read_in(order: Order, datagram: &[u8]) -> Result<Self, Reject> {
        if datagram.len() < SHORT {
            return Err(Reject::Truncated);
        }
        let mut octets = [0; LEN];
        let length = datagram.len().min(LEN);
        octets[..length].copy_from_slice(&datagram[..length]);
        turn(&mut octets, order);
        let (head, rest) = Head::read(&octets).ok_or(Reject::Truncated)?;
        let (tail, _) = Tail::read(rest).ok_or(Reject::Truncated)?;
        Ok(Self { order, head, tail })
    }

    /// Its bytes.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..HEAD].copy_from_slice(&self.head.write());
        octets[HEAD..HEAD + Tail::LEN].copy_from_slice(&self.tail.write());
        turn(&mut octets, self.order);
        octets
    }
}

/// Turn the words of the tables between this byte order and that of the tables.
fn turn(octets: &mut [u8; LEN], order: Order) {
    if order == Order::Little {
        return;
    }
    let mut word = |base: usize, field: &Field| octets[base + field.byte..][..field.width].reverse();
    Head::FIELDS.iter().for_each(|field| word(0, field));
    Tail::FIELDS.iter().for_each(|field| word(HEAD, field));
}

/// Whether any datagram is read without a panic, and written as it was read.
#[doc(hidden)]
pub fn fuzz(datagram: &[u8]) {
    structs::fuzz(datagram);
    let Ok(message) = Message::read(datagram) else { return };
    let octets = message.octets();
    assert_eq!(Message::read(&octets), Ok(message));
    let same = datagram.len().min(HEAD + Tail::LEN);
    assert_eq!(octets[..same], datagram[..same]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As a requester built on x86-64 begins a test, by hand from the structure: bins of 1 µs, no records.
    const ZERO: [u8; 64] = [
        1, 0, 0, 0, 0, 0, 0, 0, // cmd, protocol_version (left 0)
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, // frame_num, send_time, resp_time
        0, 0, 0, 0, 0, 0, 0, 0, // resp_len, send_ack
        0, 0, 0, 0, 10, 0, 0, 0, // low_lim, bin_width
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // data_index, log_lost, n_to_skip, num_recv
    ];

    #[test]
    fn the_first_word_tells_the_byte_order() {
        let mut first = [0; LEN];
        first[..64].copy_from_slice(&ZERO);
        let message = Message::read(&first).unwrap();
        assert_eq!((message.order, message.command()), (Order::Little, Some(Command::ZeroStats)));
        assert_eq!((message.head.version, message.head.width), (0, 10));
        let answer = Message { order: Order::Big, ..Message::new(Order::Big, Command::Ok, 0) };
        let octets = answer.octets();
        assert_eq!((octets[3], octets[7]), (0x20, 7));
        assert_eq!(Message::read(&octets), Ok(answer));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(Message::read(&[]), Err(Reject::Truncated));
        assert_eq!(Message::read(&ZERO[..23]), Err(Reject::Truncated));
        for first in [[0; 4], [1, 0, 0, 1], [4, 1, 0, 0], [0, 0, 1, 4]] {
            let mut octets = ZERO;
            octets[..4].copy_from_slice(&first);
            assert_eq!(Message::read(&octets), Err(Reject::BadMagic), "{first:?}");
        }
        let mut octets = ZERO;
        octets[0] = 0x77;
        assert_eq!(Message::read(&octets).unwrap().command(), None);
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_and_written_the_same(mut octets in proptest::collection::vec(any::<u8>(), 0..300), kind: u8) {
            if octets.len() > 4 {
                octets[..4].copy_from_slice(&if kind & 1 == 0 { [kind, 0, 0, 0] } else { [0, 0, 0, kind] });
            }
            fuzz(&octets);
        }
    }
}
