//! Divides a heap into packets by arithmetic: packet `n` is made without those before it, and nothing is stored.
//!
//! ```text
//!   pointers          ┌ 1 counter ┬ 2 size ┬ 3 offset ┬ 4 length ┬ the heap's own ┐
//!   packet 0   header │           │        │          │          │ p p p p p p p  │ payload
//!   packet 1   header │           │        │          │          │ p p            │ payload payload
//!   packet 2   header │           │        │          │          │ payload payload payload p
//! ```
//!
//! Rules, found by comparison with spead2 4.5.1, whose packets [`Split::Full`] reproduces byte by byte:
//!
//! * A packet has at most the given size, rounded down to a multiple of 8. The minimum is 56 bytes: 8 of header, 32 of
//!   the four pointers, a pointer, 8 of payload.
//! * Every packet has payload. So the pointers go into as few packets as possible, with at least 8 bytes of payload in
//!   each; the rest of the payload follows in packets without pointers.
//! * If the payload is too short for that, dummy zeros follow it, with a NULL pointer to them, so that the previous item
//!   does not grow. (If one packet has both payload and dummies, spead2 puts the zeros first and so corrupts the item;
//!   here they come last.)
//! * Repeated pointers are all in every packet, with room for one more.
//!
//! [`Split::Even`] makes datagrams equal, so that the kernel's segmentation (GSO) takes them in one call: a heap of 4 KiB
//! in packets of at most 1472 is 1472 + 1472 + 1312 in full packets, and any train ends with the heap; evenly it is 1416
//! three times, and trains continue over the next heaps. It uses the same number of packets, divides payload and pointers
//! evenly, and pads the last packet with immediate NULL pointers, which have no effect, to the length of the others. If
//! the packets cannot be equal (padding is 8 bytes, so an even number of packets cannot share an odd payload), they are
//! full: a train then ends with the heap either way. They may also be full if pointers alone fill packets.

pub use crate::packetize::Part;

use super::{Flavour, id};
use crate::hint::Hint;
use crate::packetize::Divided;
use std::fmt;
use std::ops::Range;

/// Maximum number of pointers that follow them: the header counts items in 16 bits.
const MOST_POINTERS: u64 = u16::MAX as u64 - 4;

/// How a heap is divided: a few numbers. The pointers are not stored, but passed to [`packet`](Self::packet) again, so a
/// plan is small and cheap to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Pointers of counter and size, as in every packet.
    counter_and_size: [[u8; 8]; 2],
    flavour: Flavour,
    /// Bytes of the heap's own payload, and including dummies.
    payload: u64,
    total: u64,
    /// Bytes of a full packet, including its head.
    packet: u64,
    /// The heap's pointers; one more with the NULL that points to dummies.
    pointers: u64,
    null: bool,
    repeat: bool,
    /// Number of packets with pointers, and the pointers and payload in each of them but the last.
    leading: u64,
    leading_pointers: u64,
    leading_payload: u64,
    /// Maximum bytes of payload in the last packet with pointers.
    turn_payload: u64,
    count: u64,
    /// Immediate NULL pointers in the last packet.
    padding: u64,
}

impl Plan {
    /// Divide a heap.
    ///
    /// # Errors
    /// See [`PacketError`].
    #[inline]
    pub fn new(shape: &HeapShape<'_>) -> Result<Plan, PacketError> {
        let full = Plan::of(shape, shape.packet_bytes as u64 & !7)?;
        match shape.split {
            Split::Full => Ok(full),
            Split::Even => Ok(full.even(shape)),
        }
    }

    /// Divide a heap into packets with `payload` bytes of payload each, and less in the last, regardless of the length
    /// of their heads: all pointers are in the first, or in each. `packet_bytes` and `split` of the shape are ignored.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn with_payload(shape: &HeapShape<'_>, payload: u64) -> Result<Plan, PacketError> {
        if payload == 0 {
            return Err(PacketError::TooSmall { packet_bytes: 0 });
        }
        let (own, most) = (shape.pointers.len() as u64, shape.flavour.max_value());
        let null = shape.payload_bytes == 0;
        let (pointers, total) = (own + u64::from(null), shape.payload_bytes.max(1));
        if pointers > MOST_POINTERS {
            return Err(PacketError::TooManyPointers { pointers: shape.pointers.len() });
        }
        if total > most {
            return Err(PacketError::TooLarge { bytes: total, most });
        }
        // A longer one means a heap of one packet.
        let payload = payload.min(total);
        Ok(Plan {
            counter_and_size: [
                shape.flavour.immediate(id::HEAP_COUNTER, shape.counter).to_be_bytes(),
                shape.flavour.immediate(id::HEAP_SIZE, total).to_be_bytes(),
            ],
            flavour: shape.flavour,
            payload: shape.payload_bytes,
            total,
            packet: OWN as u64 + payload,
            pointers,
            null,
            repeat: shape.repeat_pointers,
            leading: 1,
            leading_pointers: MOST_POINTERS,
            leading_payload: 0,
            turn_payload: payload,
            count: total.div_ceil(payload),
            padding: 0,
        })
    }

    /// The same plan for a heap with another counter.
    #[inline]
    #[must_use]
    pub fn with_counter(mut self, counter: u64) -> Plan {
        self.counter_and_size[0] = self.flavour.immediate(id::HEAP_COUNTER, counter).to_be_bytes();
        self
    }

    /// Divide into packets of at most `packet` bytes, which is not rounded to a multiple of 8.
    #[inline]
    fn of(shape: &HeapShape<'_>, packet: u64) -> Result<Plan, PacketError> {
        let packet_bytes = shape.packet_bytes;
        let Some(room) = packet.checked_sub(OWN as u64 + 16) else {
            return Err(PacketError::TooSmall { packet_bytes });
        };
        let (flavour, repeat) = (shape.flavour, shape.repeat_pointers);
        // Maximum number of pointers of a packet, and the payload that fits beside these.
        let most = (room / 8 + 1).min(MOST_POINTERS);
        let beside = if most == MOST_POINTERS { 8 } else { 8 + room % 8 };
        let mut pointers = shape.pointers.len() as u64;
        if repeat && pointers + 1 > most {
            let needed = if pointers < MOST_POINTERS { OWN + 8 * (pointers as usize + 2) } else { 0 };
            return Err(PacketError::CannotRepeat { packet_bytes, needed });
        }
        let leading = |pointers: u64| if pointers <= most { 1 } else { pointers.div_ceil(most) };
        // Calculated with the NULL pointer, so that the result does not depend on itself.
        let least = (leading(pointers + 1) - 1) * beside + 1;
        let null = shape.payload_bytes < least;
        pointers += u64::from(null);
        let (packets, total) = (leading(pointers), shape.payload_bytes.max(if null { least } else { 0 }));
        if total > flavour.max_value() {
            return Err(PacketError::TooLarge { bytes: total, most: flavour.max_value() });
        }
        let turn_pointers = pointers - (packets - 1) * most;
        let turn_payload = packet - OWN as u64 - 8 * turn_pointers;
        let rest = (total - (packets - 1) * beside).saturating_sub(turn_payload);
        let each = if repeat { turn_payload } else { packet - OWN as u64 };
        Ok(Plan {
            counter_and_size: [
                flavour.immediate(id::HEAP_COUNTER, shape.counter).to_be_bytes(),
                flavour.immediate(id::HEAP_SIZE, total).to_be_bytes(),
            ],
            flavour,
            payload: shape.payload_bytes,
            total,
            packet,
            pointers,
            null,
            repeat,
            leading: packets,
            leading_pointers: most,
            leading_payload: beside,
            turn_payload,
            count: packets + if rest == 0 { 0 } else { rest.div_ceil(each) },
            padding: 0,
        })
    }

    /// Divide into the same number of packets of one length; unchanged if there is no such length.
    fn even(self, shape: &HeapShape<'_>) -> Plan {
        let count = self.count;
        if count == 1 {
            return self;
        }
        // All packets have the same length modulo 8, because pointers and padding have 8 bytes. If the payload is whole
        // words, its parts are too, and receivers copy them faster.
        let up = |bytes: u64| match self.total % 8 {
            0 => Some(bytes.next_multiple_of(8)),
            odd => (bytes..bytes + 8).find(|up| count * up % 8 == odd),
        };
        let same = |packet: u64| {
            let plan = Plan::of(shape, packet).ok().filter(|_| packet <= self.packet);
            plan.filter(|plan| plan.count == count && plan.total == self.total)
        };
        // The length if everything is divided evenly, which is possible unless pointers fill packets.
        let least = self.bytes_on_wire().div_ceil(count);
        let Some(first) = up(least) else { return self };
        let found = same(first).or_else(|| {
            // Find the shortest packets that do not increase their number.
            let (mut low, mut high) = (first, self.packet);
            while low < high {
                let middle = low.midpoint(high);
                if same(middle).is_some() { high = middle } else { low = middle + 1 }
            }
            up(low).and_then(same)
        });
        found.and_then(Plan::padded).unwrap_or(self)
    }

    /// Pad the last packet to the length of the others, if NULL pointers can do that.
    fn padded(self) -> Option<Plan> {
        let last = self.pointers_of(self.count - 1);
        let short = self.packet - self.bytes_of(self.count - 1);
        let padding = short / 8;
        let fits = short.is_multiple_of(8) && last.end - last.start + padding <= MOST_POINTERS;
        fits.then_some(Plan { padding, ..self })
    }

    /// Number of packets.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of the longest head.
    #[inline]
    #[must_use]
    pub fn head_bytes_max(&self) -> usize {
        let most = self.pointers.min(self.leading_pointers) + self.padding;
        OWN + 8 * most as usize
    }

    /// Bytes of all packets together.
    #[inline]
    #[must_use]
    pub fn bytes_on_wire(&self) -> u64 {
        let pointers = if self.repeat { self.pointers * self.count } else { self.pointers };
        self.count * OWN as u64 + 8 * (pointers + self.padding) + self.total
    }

    /// Bytes of the heap as stated in the packets: the payload, and dummies if there are any.
    #[inline]
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        self.total
    }

    /// Bytes of every packet except the last, which may be shorter: see [`equal`](Self::equal).
    #[inline]
    #[must_use]
    pub fn packet_bytes(&self) -> u64 {
        if self.count == 1 { self.bytes_on_wire() } else { self.bytes_of(0) }
    }

    /// Whether all packets have the same length.
    #[must_use]
    pub fn equal(&self) -> bool {
        self.bytes_on_wire() == self.count * self.packet_bytes()
    }

    /// Bytes of packet `n`.
    #[inline]
    #[must_use]
    pub fn bytes_of(&self, n: u64) -> u64 {
        let (pointers, payload) = (self.pointers_of(n), self.payload_of(n));
        let padding = if n + 1 == self.count { self.padding } else { 0 };
        OWN as u64 + 8 * (pointers.end - pointers.start + padding) + (payload.end - payload.start)
    }

    /// The pointers of packet `n`.
    #[inline]
    fn pointers_of(&self, n: u64) -> Range<u64> {
        if self.repeat {
            return 0..self.pointers;
        }
        if n >= self.leading {
            return 0..0;
        }
        let from = n * self.leading_pointers;
        from..self.pointers.min(from + self.leading_pointers)
    }

    /// The payload of packet `n`, including dummies.
    #[inline]
    fn payload_of(&self, n: u64) -> Range<u64> {
        let turn = self.leading - 1;
        if n < turn {
            return n * self.leading_payload..(n + 1) * self.leading_payload;
        }
        let (first, beyond) = (turn * self.leading_payload, n - turn);
        let each = if self.repeat { self.turn_payload } else { self.packet - OWN as u64 };
        let from = if beyond == 0 { first } else { first + self.turn_payload + (beyond - 1) * each };
        let bytes = if beyond == 0 { self.turn_payload } else { each };
        from.min(self.total)..self.total.min(from.saturating_add(bytes))
    }

    /// Write the head of packet `n` (less than [`count`](Self::count)) to the front of `head`, which has room for
    /// [`head_bytes_max`](Self::head_bytes_max). `pointers` are those of the shape.
    ///
    /// # Panics
    /// If `head` is too small, `n` is too large, or `pointers` are fewer.
    #[inline]
    pub fn packet(&self, pointers: &[u64], n: u64, head: &mut [u8]) -> Part {
        assert!(n < self.count, "a heap of {} packets has no packet {n}", self.count);
        let (own, payload) = (self.pointers_of(n), self.payload_of(n));
        let padding = if n + 1 == self.count { self.padding } else { 0 };
        let items = 4 + own.end - own.start + padding;
        let head = &mut head[..Self::head_bytes(items)];
        let width = self.flavour.address_bits / 8;
        let number = (items as u16).to_be_bytes();
        let (words, _) = head.as_chunks_mut::<8>();
        words[0] = [0x53, 4, 8 - width, width, 0, 0, number[0], number[1]];
        words[1..3].copy_from_slice(&self.counter_and_size);
        words[3] = self.flavour.immediate(id::HEAP_OFFSET, payload.start).to_be_bytes();
        words[4] = self.flavour.immediate(id::PAYLOAD_LENGTH, payload.end - payload.start).to_be_bytes();
        // The NULL that points to dummies is the last pointer, and not in `pointers`.
        let given = self.pointers - u64::from(self.null);
        let (from, to) = (own.start as usize, own.end.min(given) as usize);
        let (write, rest) = words[5..].split_at_mut(to.saturating_sub(from));
        if !write.is_empty() {
            write.iter_mut().zip(&pointers[from..to]).for_each(|(word, p)| *word = p.to_be_bytes());
        }
        let mut rest = rest.iter_mut();
        if own.end > given
            && let Some(word) = rest.next()
        {
            *word = self.flavour.addressed(id::NULL, self.payload).to_be_bytes();
        }
        rest.for_each(|word| *word = [0x80, 0, 0, 0, 0, 0, 0, 0]);
        let real = payload.start.min(self.payload)..payload.end.min(self.payload);
        let dummy = (payload.end - payload.start) - (real.end - real.start);
        Part { head: head.len(), payload: real, dummy: dummy as usize }
    }

    /// Bytes of a head with `items` pointers.
    #[inline]
    fn head_bytes(items: u64) -> usize {
        8 + 8 * items as usize
    }
}

/// Why a heap cannot be sent as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The packet size cannot carry anything.
    TooSmall {
        /// The packet size in bytes.
        packet_bytes: usize,
    },
    /// The pointers cannot be repeated: they do not all fit into one packet.
    CannotRepeat {
        /// The requested packet size in bytes.
        packet_bytes: usize,
        /// The minimum that suffices; 0 if none does.
        needed: usize,
    },
    /// More pointers than one packet can have, in packets of a given payload.
    TooManyPointers {
        /// The heap's pointers.
        pointers: usize,
    },
    /// More bytes of payload than the flavour can address.
    TooLarge {
        /// Bytes of payload, with dummies.
        bytes: u64,
        /// Bytes the flavour can address.
        most: u64,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::TooSmall { packet_bytes } => write!(
                f,
                "cannot divide a heap into packets of {packet_bytes} bytes{}",
                Hint("a packet size of at least 56")
            ),
            PacketError::CannotRepeat { packet_bytes, needed: 0 } => write!(
                f,
                "cannot repeat the pointers of a heap in packets of {packet_bytes} bytes: too many for any packet size{}",
                Hint("do not repeat them")
            ),
            PacketError::CannotRepeat { packet_bytes, needed } => write!(
                f,
                "cannot repeat the pointers of a heap in packets of {packet_bytes} bytes{}",
                Hint(format_args!("a packet size of at least {needed}, or do not repeat them"))
            ),
            PacketError::TooManyPointers { pointers } => write!(
                f,
                "cannot put {pointers} pointers into the first packet of a heap, as packets of a fixed payload require{}",
                Hint("set the packet size instead")
            ),
            PacketError::TooLarge { bytes, most } => write!(
                f,
                "cannot send a heap of {bytes} bytes in a flavour that addresses {most}{}",
                Hint("use a flavour with more address bits, or smaller heaps")
            ),
        }
    }
}

impl std::error::Error for PacketError {}

/// The packets of a heap, with its pointers; up to [`INLINE`](Self::INLINE) of them need no allocation.
#[derive(Clone, Debug)]
pub struct HeapPackets {
    plan: Plan,
    inline: [u64; Self::INLINE],
    used: usize,
    /// Used instead of `inline` if there are more pointers.
    many: Vec<u64>,
}

impl HeapPackets {
    /// Pointers stored without an allocation.
    pub const INLINE: usize = 12;

    /// Divide a heap.
    ///
    /// # Errors
    /// See [`PacketError`].
    #[inline]
    // By value, as it is agreed; it is small.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(shape: HeapShape<'_>) -> Result<HeapPackets, PacketError> {
        let plan = Plan::new(&shape)?;
        let (mut inline, used) = ([0; Self::INLINE], shape.pointers.len());
        let many = match inline.get_mut(..used) {
            Some(inline) => {
                inline.copy_from_slice(shape.pointers);
                Vec::new()
            }
            None => shape.pointers.to_vec(),
        };
        Ok(HeapPackets { plan, inline, used, many })
    }

    /// Write the head of packet `n`: see [`Plan::packet`].
    ///
    /// # Panics
    /// If `head` is too small or `n` is too large.
    #[inline]
    pub fn packet(&self, n: u64, head: &mut [u8]) -> Part {
        let pointers = self.inline.get(..self.used).unwrap_or(&self.many);
        self.plan.packet(pointers, n, head)
    }
}

impl std::ops::Deref for HeapPackets {
    type Target = Plan;

    #[inline]
    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Divided for HeapPackets {
    fn count(&self) -> u64 {
        Plan::count(self)
    }

    fn head_bytes_max(&self) -> usize {
        Plan::head_bytes_max(self)
    }

    fn bytes_of(&self, n: u64) -> u64 {
        Plan::bytes_of(self, n)
    }

    fn bytes_on_wire(&self) -> u64 {
        Plan::bytes_on_wire(self)
    }

    fn packet(&self, n: u64, head: &mut [u8]) -> Part {
        HeapPackets::packet(self, n, head)
    }
}

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
const OWN: usize = 40;

#[cfg(test)]
mod tests;
