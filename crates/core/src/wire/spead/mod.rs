//! SPEAD: Streaming Protocol for Exchanging Astronomical Data (rev. 1, 2012), the SPEAD-64-XX flavours.
//!
//! Big-endian. A packet carries a piece of a heap and states its place in the heap.
//!
//! ```text
//!   0x53 'S' │ version 4 │ item pointer width │ heap address width │ reserved, 2 │ number of items, 2
//!   item pointer × n     │ mode, 1 bit │ item id │ value, or address in the heap │
//!   payload
//! ```
//!
//! The two widths are in bytes, and their sum is 8: SPEAD-64-48 has 2 and 6, SPEAD-64-40 has 3 and 5. Items are in any
//! order; heap counter, heap offset and payload length are required; if one is repeated, the last counts.
//!
//! | module | is |
//! |---|---|
//! | here | header, item pointer, flavour |
//! | [`bits`] | values in the formats of descriptors |
//! | [`descriptor`] | descriptors of items |
//! | [`head`] | the head of a packet, read in one pass; [`SpeadWire`] is its use by a receiver |
//! | [`items`] | from the pointers of a heap to its items |
//! | [`packets`] | from a heap to its packets |
//! | [`rules`] | the placement rule of the heaps of a sender |
//! | [`table`] | where the heaps of stored packets are |

pub mod bits;
pub mod descriptor;
mod family;
pub mod head;
mod inspect;
pub mod items;
mod keyed;
pub mod packets;
pub mod rules;
pub mod stored;
pub mod table;

pub use descriptor::{BugCompat, Descriptor, DescriptorError};
pub use family::{SpeadFamily, SpeadStream};
pub use head::{Head, Sequel};
pub use items::RawItem;
pub use keyed::{Items, SpeadWire};
pub use rules::{HeapLayout, HeapLearner, LearnedHeaps};

use crate::placement::Reject;

crate::header! {
    /// Packet header (§8.1).
    Spead [8] {
        be u8 @ 0 { /** 0x53, 'S'. */ magic }
        be u8 @ 1 { /** 4. */ version }
        be u8 @ 2 { /** Octets of mode and item id. */ item_width }
        be u8 @ 3 { /** Octets of value or address. */ address_width }
        be u16 @ 4 { /** To be ignored. */ reserved }
        be u16 @ 6 { /** Number of item pointers. */ items }
    }
}
crate::header! {
    /// Item pointer (§8.2), divided according to the flavour; see [`Item`].
    Pointer [8] {
        be u64 @ 0 { /** The value is here, not in the heap. */ immediate[63], /** Item id, then value or address. */ rest[62:0] }
    }
}

/// Item ids defined by the standard (§8.2).
pub mod id {
    /// Padding.
    pub const NULL: u64 = 0;
    /// Heap counter.
    pub const HEAP_COUNTER: u64 = 1;
    /// Bytes of the heap's payload.
    pub const HEAP_SIZE: u64 = 2;
    /// Where this packet's payload goes in the heap.
    pub const HEAP_OFFSET: u64 = 3;
    /// Bytes of this packet's payload.
    pub const PAYLOAD_LENGTH: u64 = 4;
    /// Descriptor of an item: itself a packet.
    pub const DESCRIPTOR: u64 = 5;
    /// 0 start, 1 descriptors again, 2 stop, 3 descriptors changed.
    pub const STREAM_CONTROL: u64 = 6;
    /// Name, in a descriptor.
    pub const NAME: u64 = 0x10;
    /// Description, in a descriptor.
    pub const DESCRIPTION: u64 = 0x11;
    /// Shape, in a descriptor.
    pub const SHAPE: u64 = 0x12;
    /// Type, in a descriptor.
    pub const TYPE: u64 = 0x13;
    /// Id, in a descriptor.
    pub const ID: u64 = 0x14;
    /// NumPy header, in a descriptor.
    pub const DTYPE: u64 = 0x15;
}

/// Values of an immediate stream control item (id 6); others are ignored (§8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// The stream begins.
    Start = 0,
    /// The descriptors of this heap were sent before.
    DescriptorsAgain = 1,
    /// The stream ends.
    Stop = 2,
    /// The descriptors of this heap replace earlier ones.
    DescriptorsChanged = 3,
}

impl Control {
    /// The meaning of a value.
    #[must_use]
    pub fn of(value: u64) -> Option<Control> {
        let all = [Control::Start, Control::DescriptorsAgain, Control::Stop, Control::DescriptorsChanged];
        all.into_iter().find(|control| *control as u64 == value)
    }

    /// Its pointer, in native byte order.
    #[inline]
    #[must_use]
    pub fn pointer(self, flavour: Flavour) -> u64 {
        flavour.immediate(id::STREAM_CONTROL, self as u64)
    }
}

/// How the 64 bits of an item pointer divide: SPEAD-64-XX, XX the bits of value or address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flavour {
    address_bits: u8,
}

impl Flavour {
    /// SPEAD-64-48, which most instruments use.
    pub const SPEAD_64_48: Flavour = Flavour { address_bits: 48 };

    /// The flavour with this many bits of value or address: a multiple of 8, 8 to 56.
    #[must_use]
    pub fn new(address_bits: u8) -> Option<Flavour> {
        (address_bits.is_multiple_of(8) && (8..=56).contains(&address_bits))
            .then_some(Flavour { address_bits })
    }

    /// Bits of value or address: 40 and 48 are in use.
    #[must_use]
    pub fn address_bits(self) -> u8 {
        self.address_bits
    }

    /// The largest value or address, which is also the maximum size of a heap in bytes.
    #[inline]
    #[must_use]
    pub fn max_value(self) -> u64 {
        u64::MAX >> (64 - self.address_bits)
    }

    /// The largest item id: 23 bits in SPEAD-64-40, 15 in SPEAD-64-48.
    #[inline]
    #[must_use]
    pub fn max_id(self) -> u64 {
        (1 << (63 - self.address_bits)) - 1
    }

    /// The pointer of an immediate item, in native byte order; id and value are truncated to their fields.
    #[inline]
    #[must_use]
    pub fn immediate(self, id: u64, value: u64) -> u64 {
        1 << 63 | self.addressed(id, value)
    }

    /// The pointer of an item that begins at `address` of the payload, likewise.
    #[inline]
    #[must_use]
    pub fn addressed(self, id: u64, address: u64) -> u64 {
        (id & self.max_id()) << self.address_bits | address & self.max_value()
    }

    /// The parts of a pointer in native byte order.
    #[inline]
    #[must_use]
    pub fn parts(self, pointer: u64) -> Item {
        let id = pointer >> self.address_bits & self.max_id();
        Item { immediate: pointer >> 63 == 1, id, value: pointer & self.max_value() }
    }

    /// Whether a heap keeps a pointer of one of its packets. Pointers about the packet (ids 1 to 4, in either mode) and
    /// immediate padding are not kept; an addressed NULL is, because the previous item ends there.
    #[inline]
    #[must_use]
    pub fn keeps(self, pointer: u64) -> bool {
        let id = pointer >> self.address_bits & self.max_id();
        id > id::PAYLOAD_LENGTH || (id == id::NULL && pointer >> 63 == 0)
    }

    /// The parts of an item pointer.
    #[inline(always)]
    #[must_use]
    pub fn item(self, pointer: Pointer) -> Item {
        let value = pointer.rest & (u64::MAX >> (64 - self.address_bits));
        Item { immediate: pointer.immediate == 1, id: pointer.rest >> self.address_bits, value }
    }

    /// The bytes of an item; id and value are truncated to their fields.
    #[must_use]
    pub fn write(self, item: Item) -> [u8; 8] {
        let value = item.value & (u64::MAX >> (64 - self.address_bits));
        Pointer { immediate: u64::from(item.immediate), rest: item.id << self.address_bits | value }.write()
    }
}

/// The parts of an item pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// `value` is the item's value; otherwise it is an address in the heap's payload.
    pub immediate: bool,
    /// Which item.
    pub id: u64,
    /// Value or address.
    pub value: u64,
}

/// Header, item pointers and payload of a packet; checked for lengths, but not for meaning.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Flavour.
    pub flavour: Flavour,
    pointers: &'a [u8],
    /// The bytes after the item pointers.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The parts of `packet`.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if header or items are incomplete, [`Reject::BadMagic`], [`Reject::BadVersion`] for versions
    /// other than 4 and for widths whose sum is not 8.
    #[inline]
    pub fn read(packet: &'a [u8]) -> Result<Packet<'a>, Reject> {
        let (header, rest) = Spead::read(packet).ok_or(Reject::Truncated)?;
        if header.magic != 0x53 {
            return Err(Reject::BadMagic);
        }
        if header.version != 4 || u16::from(header.item_width) + u16::from(header.address_width) != 8 {
            return Err(Reject::BadVersion);
        }
        let flavour = Flavour::new(header.address_width * 8).ok_or(Reject::BadVersion)?;
        let (pointers, payload) =
            rest.split_at_checked(usize::from(header.items) * Pointer::LEN).ok_or(Reject::Truncated)?;
        Ok(Packet { flavour, pointers, payload })
    }

    /// Its items, in order.
    #[inline]
    pub fn items(self) -> impl Iterator<Item = Item> + 'a {
        self.pointers
            .chunks_exact(Pointer::LEN)
            .filter_map(move |chunk| Some(self.flavour.item(Pointer::read(chunk)?.0)))
    }

    /// Whether it ends the stream: an immediate stream control of 2.
    #[must_use]
    pub fn is_stop(self) -> bool {
        self.items().any(|item| item == Item { immediate: true, id: id::STREAM_CONTROL, value: 2 })
    }
}

#[cfg(test)]
mod tests;
