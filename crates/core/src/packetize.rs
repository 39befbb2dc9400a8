//! The inverse of placement: packet *n* is made from its number alone.
//!
//! ```text
//!   n ──▶ head   ▐ sequence number ▐ frame header ▐      written into a small buffer
//!         body   ▐ payload ▐                              referenced where it is
//! ```
//!
//! No state is kept from packet to packet, so deliberate loss, duplication and reordering, resuming, and sending from
//! several threads only change which numbers are requested. The body is never copied: a sender gathers head and body in
//! one system call.

use std::ops::Range;

/// Maximum length of a head in bytes: 8 of sequence number and 32 of VDIF header, with room.
pub const HEAD: usize = 64;

/// Makes packets from their numbers. Pure: the same number always gives the same packet.
pub trait Packetize {
    /// Write the head of packet `n`, and return its length and the body that follows it.
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]);
    /// Length of a packet in bytes, head and body; if lengths differ, that of the first.
    fn packet_bytes(&self) -> usize;
}

/// A packet of an object: its head has been written, its payload is sent from where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the head.
    pub head: usize,
    /// The range of the object's payload.
    pub payload: Range<u64>,
    /// Zeros to send after it.
    pub dummy: usize,
}

impl Part {
    /// Bytes of the packet.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.head as u64 + (self.payload.end - self.payload.start) + self.dummy as u64
    }
}

/// One object (heap, event) divided into packets by arithmetic: nothing is stored for each packet.
pub trait Divided {
    /// Number of packets, at least 1.
    fn count(&self) -> u64;
    /// Bytes of the longest head.
    fn head_bytes_max(&self) -> usize;
    /// Bytes of packet `n`.
    fn bytes_of(&self, n: u64) -> u64;
    /// Bytes of all packets together.
    fn bytes_on_wire(&self) -> u64;
    /// Write the head of packet `n` to the front of `head`.
    ///
    /// # Panics
    /// If `head` is shorter than [`head_bytes_max`](Self::head_bytes_max) or `n` is not less than
    /// [`count`](Self::count).
    fn packet(&self, n: u64, head: &mut [u8]) -> Part;

    /// Packet `n` in one piece, from the bytes of the object, for senders of few packets that do not gather.
    ///
    /// # Panics
    /// If `n` is not less than [`count`](Self::count), or the object is shorter than what it was divided for.
    fn datagram(&self, n: u64, object: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; self.head_bytes_max()];
        let part = self.packet(n, &mut packet);
        packet.truncate(part.head);
        packet.extend_from_slice(&object[part.payload.start as usize..part.payload.end as usize]);
        packet.resize(packet.len() + part.dummy, 0);
        packet
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// All packets of an object whose payload counts up; checks the properties of each.
    pub(crate) fn packets(object: &impl Divided) -> Vec<Vec<u8>> {
        let mut head = vec![0xEE; object.head_bytes_max()];
        let parts: Vec<Part> = (0..object.count()).map(|n| object.packet(n, &mut head)).collect();
        let end = parts.iter().map(|part| part.payload.end).max().unwrap_or(0);
        let octets: Vec<u8> = (0..end).map(|at| at as u8).collect();
        let one = |n| {
            let part = object.packet(n, &mut head);
            let mut packet = head[..part.head].to_vec();
            packet.extend(part.payload.clone().map(|at| at as u8));
            packet.resize(packet.len() + part.dummy, 0);
            assert_eq!((packet.len() as u64, part.bytes()), (object.bytes_of(n), object.bytes_of(n)));
            assert_eq!(packet, object.datagram(n, &octets));
            packet
        };
        let all: Vec<Vec<u8>> = (0..object.count()).map(one).collect();
        assert_eq!(object.bytes_on_wire(), all.iter().map(|packet| packet.len() as u64).sum::<u64>());
        all
    }
}
