//! How heaps are divided into packets.

use skyhaul_core::wire::spead::packets::Split;

/// Packet size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSize {
    /// Maximum packet size in bytes (datagram payload), rounded down to a multiple of 8; at least 56.
    Packet(usize),
    /// Exact number of bytes of heap payload in every packet but the last, however many pointers it carries.
    Payload(usize),
    /// A heap is one packet: for TCP, bytes and in-process queues.
    Heap,
}

/// How heaps are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub(super) packet: PacketSize,
    pub(super) split: Split,
}
