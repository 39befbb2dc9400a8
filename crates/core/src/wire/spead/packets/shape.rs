//! What is to be known of a heap to divide it, and how it may be divided.

use super::super::Flavour;

/// How a heap is divided into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Split {
    /// Every packet as full as allowed, as spead2 does.
    #[default]
    Full,
    /// As many packets as in full ones, of one length.
    Even,
}

/// What is to be known of a heap to divide it.
#[derive(Clone, Copy, Debug)]
pub struct HeapShape<'a> {
    /// How pointers divide.
    pub flavour: Flavour,
    /// The heap's counter; cut to the flavour's bits of value.
    pub counter: u64,
    /// The heap's own pointers in this machine's byte order ([`Flavour::immediate`], [`Flavour::addressed`]).
    pub pointers: &'a [u64],
    /// Octets of its payload.
    pub payload_bytes: u64,
    /// Octets of the largest packet. For UDP the caller keeps it within 65507; a whole heap as one packet (TCP) needs
    /// [`whole`](Self::whole).
    pub packet_bytes: usize,
    /// Whether all pointers stand in every packet, so that any packet of a heap tells its items.
    pub repeat_pointers: bool,
    /// How to divide it.
    pub split: Split,
}

impl HeapShape<'_> {
    /// A packet size with which this heap is one packet (if its pointers are at most 65530).
    #[must_use]
    pub fn whole(&self) -> usize {
        let pointers = 8 * (self.pointers.len() as u64 + 1);
        let bytes = (OWN as u64 + pointers).saturating_add(self.payload_bytes).saturating_add(15);
        usize::try_from(bytes & !7).unwrap_or(usize::MAX & !7)
    }
}

/// Header, and pointers of counter, size, offset and length.
pub(super) const OWN: usize = 40;
