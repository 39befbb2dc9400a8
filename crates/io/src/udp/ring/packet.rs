//! A packet in the ring, from the kernel's headers.

use crate::frame::{Datagram, NoDatagram, datagram};
use skyhaul_core::placement::Nanos;
use std::net::{SocketAddr, SocketAddrV6};

/// Size of the header with the segment length of a train (`virtio_net_hdr`), directly before the packet.
pub(super) const OFFLOAD: usize = 10;

/// One packet from its `tpacket3_hdr`, checked.
pub(super) struct Packet<'a> {
    pub(super) datagram: Datagram<'a>,
    /// Length of each packet of a train; 0 for a single one.
    pub(super) segment: usize,
    pub(super) time: Nanos,
    pub(super) losing: bool,
    pub(super) interface: u32,
}

impl<'a> Packet<'a> {
    #[inline]
    pub(super) fn read(head: &'a [u8]) -> Result<Self, NoDatagram> {
        let (captured, length, status) = (word(head, 12), word(head, 16), word(head, 20) as u32);
        // Where the link header begins, and the IP header.
        let (start, ip) = (word(head, 24) & 0xFFFF, word(head, 24) >> 16);
        let link = ip.checked_sub(start).ok_or(NoDatagram::Malformed)?;
        let bytes = head.get(ip..start + captured).ok_or(NoDatagram::Malformed)?;
        let datagram = datagram(bytes, length.saturating_sub(link))?;
        let offload = start.checked_sub(OFFLOAD).and_then(|at| head.get(at..start)).unwrap_or_default();
        // virtio_net_hdr: flags, kind, header length, segment length, all in native byte order.
        let segment = offload.get(4..6).map_or(0, |b| usize::from(u16::from_ne_bytes([b[0], b[1]])));
        let train = offload.get(1).is_some_and(|kind| kind & 0x7F != 0);
        // The sender's device computes it later (CSUMNOTREADY), or our device has verified it (CSUM_VALID).
        let trusted = libc::TP_STATUS_CSUMNOTREADY | libc::TP_STATUS_CSUM_VALID;
        if status & trusted == 0 && !datagram.is_sound() {
            return Err(NoDatagram::Malformed);
        }
        let time = Nanos(word(head, 4) as u64 * 1_000_000_000 + word(head, 8) as u64);
        let losing = status & libc::TP_STATUS_LOSING != 0;
        // The sockaddr_ll of the packet follows its header of 48 bytes.
        let interface = word(head, 48 + 4) as u32;
        Ok(Self { datagram, segment: if train { segment } else { 0 }, time, losing, interface })
    }

    /// Link-local senders have a scope, as with a socket.
    pub(super) fn sender(&self) -> SocketAddr {
        match self.datagram.source {
            SocketAddr::V6(a) if a.ip().is_unicast_link_local() => {
                SocketAddrV6::new(*a.ip(), a.port(), 0, self.interface).into()
            }
            other => other,
        }
    }
}

/// The 32-bit number at `at`; zero beyond the end.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b) as usize)
}
