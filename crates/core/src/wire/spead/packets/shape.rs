//! The properties of a heap that determine its packets, and the ways to divide it.

use super::super::Flavour;

/// How a heap is divided into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Split {
    /// Every packet as full as allowed, as spead2 does.
    #[default]
    Full,
    /// The same number of packets, of one length.
    Even,
}

/// The properties of a heap from which it is divided.
#[derive(Clone, Copy, Debug)]
pub struct HeapShape<'a> {
    /// How pointers divide.
    pub flavour: Flavour,
    /// The heap's counter; truncated to the flavour's bits of value.
    pub counter: u64,
    /// The heap's own pointers in native byte order ([`Flavour::immediate`], [`Flavour::addressed`]).
    pub pointers: &'a [u64],
    /// Bytes of its payload.
    pub payload_bytes: u64,
    /// Maximum size of a packet in bytes. For UDP the caller limits it to 65507; a heap as one packet (TCP) needs
    /// [`whole`](Self::whole).
    pub packet_bytes: usize,
    /// Whether all pointers are in every packet, so that any packet of a heap gives its items.
    pub repeat_pointers: bool,
    /// How to divide it.
    pub split: Split,
}

impl HeapShape<'_> {
    /// A packet size with which this heap is one packet (if it has at most 65530 pointers).
    #[must_use]
    pub fn whole(&self) -> usize {
        let pointers = 8 * (self.pointers.len() as u64 + 1);
        let bytes = (OWN as u64 + pointers).saturating_add(self.payload_bytes).saturating_add(15);
        usize::try_from(bytes & !7).unwrap_or(usize::MAX & !7)
    }
}

/// Header, and pointers of counter, size, offset and length.
pub(super) const OWN: usize = 40;
