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

/// Maximum length of a head in bytes: 8 of sequence number and 32 of VDIF header, with room.
pub const HEAD: usize = 64;

/// Makes packets from their numbers. Pure: the same number always gives the same packet.
pub trait Packetize {
    /// Write the head of packet `n`, and return its length and the body that follows it.
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]);
    /// Length of a packet in bytes, head and body; if lengths differ, that of the first.
    fn packet_bytes(&self) -> usize;
}
