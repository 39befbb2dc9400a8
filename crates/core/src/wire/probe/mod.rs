//! Test packets for measuring a path.
//!
//! ```text
//!   ┌ "SKYP" ┬ version, flags ┬ octets ┬ run ┬ flow ┬ place in train ┬ number ┬ time sent ┬ train, reserved ┬ CRC ┬ payload ─┐
//!   │ 4      │ 1 + 1          │ 2      │ 4   │ 2    │ 2              │ 8      │ 8, ns     │ 2 + 2           │ 4   │ any      │
//!   └────────┴────────────────┴────────┴─────┴──────┴────────────────┴────────┴───────────┴─────────────────┴─────┴──────────┘
//! ```
//!
//! Big-endian, 40 bytes. A *run* is one point of a measurement, and a *flow* is one of its streams, with its own
//! numbers from 0 on. Numbers and times have 64 bits and never wrap. The time is that of the sender's clock when it
//! passed the packet to the kernel. All packets of a train may have the same time, so each states its place in the
//! train.
//!
//! An incomplete packet, or one of another program, must never count as lost, late or duplicate, so the header states
//! the length of the packet and has a CRC-32C of the 36 bytes before it. The payload is not covered; its contents are
//! up to the sender.
//!
//! ```
//! use skyhaul_core::{placement::Reject, wire::probe::Probe};
//!
//! let mut packet = [0; 64];
//! let probe = Probe { run: 7, number: 41, sent: 1_000_000_000, ..Probe::of(packet.len()) };
//! probe.put(&mut packet);
//! assert_eq!(Probe::parse(&packet), Ok(probe));
//! packet[20] ^= 4;
//! assert_eq!(Probe::parse(&packet), Err(Reject::BadChecksum));
//! assert_eq!(Probe::parse(&packet[..60]), Err(Reject::BadChecksum));
//! ```

pub use super::crc32c::crc32c;

use crate::placement::Reject;

crate::header! {
    /// Header of a probe packet.
    Probe [40] {
        be u32 @ 0 { /** 0x534B5950, "SKYP". */ magic }
        be u8 @ 4 { /** 1. */ version }
        be u8 @ 5 {
            /** Zero; to be ignored. */ spare[7:3],
            /** It answers a packet that asked for it, with the number and time of that. */ reply[2],
            /** Asks to be sent back. */ ask[1],
            /** The last packet of its flow in this run. */ last[0]
        }
        be u16 @ 6 { /** Octets of the whole packet, this header included. */ octets }
        be u32 @ 8 { /** The run that it belongs to. */ run }
        be u16 @ 12 { /** The flow of the run. */ flow }
        be u16 @ 14 { /** Its place in its train, from 0. */ place }
        be u64 @ 16 { /** Its number in its flow, from 0. */ number }
        be u64 @ 24 { /** When it was sent: nanoseconds of the sender's clock. */ sent }
        be u16 @ 32 { /** Packets of its train that leave together; 0 or 1 for a single packet. */ train }
        be u16 @ 34 { /** Zero; to be ignored. */ reserved }
        be u32 @ 36 { /** CRC-32C of the octets before it. */ crc }
    }
}

/// "SKYP".
pub const MAGIC: u32 = 0x534B_5950;
/// The only version.
pub const VERSION: u8 = 1;

impl Probe {
    /// A header for a packet of this many bytes, to be completed. Packets cannot be longer than 65 535 bytes.
    #[must_use]
    pub fn of(octets: usize) -> Probe {
        Probe { magic: MAGIC, version: VERSION, octets: octets as u16, ..Probe::default() }
    }

    /// The header with its checksum, as it goes on the wire.
    #[inline]
    #[must_use]
    pub fn sealed(&self) -> [u8; Probe::LEN] {
        let mut header = self.write();
        let crc = crc32c(&header[..Probe::LEN - 4]);
        header[Probe::LEN - 4..].copy_from_slice(&crc.to_be_bytes());
        header
    }

    /// Write the header with its checksum to the front of `packet`; returns whether there was room.
    #[inline]
    pub fn put(&self, packet: &mut [u8]) -> bool {
        let front = packet.first_chunk_mut::<{ Probe::LEN }>();
        front.map(|front| *front = self.sealed()).is_some()
    }

    /// Reads the header of a complete packet. Its checksum is set to 0, so that it can be compared with the one sent.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if the packet is shorter than a header or than it states, [`Reject::BadMagic`],
    /// [`Reject::BadChecksum`], [`Reject::BadVersion`], [`Reject::WrongSize`] if it is longer than it states.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Probe, Reject> {
        let (probe, payload) = Probe::read(packet).ok_or(Reject::Truncated)?;
        if probe.magic != MAGIC {
            return Err(Reject::BadMagic);
        }
        if crc32c(&packet[..Probe::LEN - 4]) != probe.crc {
            return Err(Reject::BadChecksum);
        }
        if probe.version != VERSION {
            return Err(Reject::BadVersion);
        }
        match usize::from(probe.octets).cmp(&(Probe::LEN + payload.len())) {
            std::cmp::Ordering::Greater => Err(Reject::Truncated),
            std::cmp::Ordering::Less => Err(Reject::WrongSize),
            std::cmp::Ordering::Equal => Ok(Probe { crc: 0, ..probe }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;
    use proptest::prelude::*;

    #[test]
    fn the_table_round_trips() {
        round_trip!(Probe);
    }

    #[test]
    fn octets_are_where_the_figure_has_them() {
        let probe = Probe { last: 1, run: 0x0102_0304, flow: 5, place: 6, train: 7, ..Probe::of(64) };
        let sealed = Probe { number: 0x1112_1314_1516_1718, sent: 0x2122_2324_2526_2728, ..probe }.sealed();
        assert_eq!(sealed[..20], *b"SKYP\x01\x01\x00\x40\x01\x02\x03\x04\x00\x05\x00\x06\x11\x12\x13\x14");
        assert_eq!(sealed[24..36], *b"\x21\x22\x23\x24\x25\x26\x27\x28\x00\x07\x00\x00");
        assert!(!probe.put(&mut [0; 39]));
    }

    #[test]
    fn each_refusal() {
        let mut packet = vec![9; 100];
        assert!(Probe::of(100).put(&mut packet));
        let with = |probe: Probe, octets: usize| {
            let mut packet = [&probe.sealed()[..], &[0; 100]].concat();
            packet.truncate(octets);
            Probe::parse(&packet)
        };
        assert_eq!(with(Probe::of(100), 100), Ok(Probe::of(100)));
        assert_eq!(with(Probe::of(100), 39), Err(Reject::Truncated));
        assert_eq!(with(Probe::of(100), 99), Err(Reject::Truncated));
        assert_eq!(with(Probe::of(100), 101), Err(Reject::WrongSize));
        assert_eq!(with(Probe { magic: 1, ..Probe::of(100) }, 100), Err(Reject::BadMagic));
        assert_eq!(with(Probe { version: 2, ..Probe::of(100) }, 100), Err(Reject::BadVersion));
        let spare = Probe { spare: 3, reserved: 8, ..Probe::of(100) };
        assert_eq!(with(spare, 100), Ok(spare), "to be ignored");
    }

    proptest! {
        #[test]
        fn no_damaged_bit_of_the_header_passes(number: u64, sent: u64, bit in 0usize..320) {
            let mut packet = [0; 64];
            Probe { number, sent, ..Probe::of(64) }.put(&mut packet);
            packet[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Probe::parse(&packet).is_err());
        }
    }
}
