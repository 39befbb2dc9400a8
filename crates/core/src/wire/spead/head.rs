//! The head of a packet: all that a receiver needs to place its payload, read in one pass over the item pointers.
//!
//! ```text
//!   ┌ 8 octets ┬ pointers, 8 octets each ─────────────────────┬ payload ────────────┐
//!   │  header  │ counter │ size │ offset │ length │ items …   │                     │
//!   0          8                                              ▲ start       length  ▲ end of the packet
//! ```
//!
//! A datagram is exactly one packet ([`Head::read`]); in TCP and in files packets follow each other with nothing
//! between them ([`Head::peek`], then `start + length` bytes).
//!
//! The pass has no branch that depends on a pointer: every pointer's value is stored under its id, and other ids share
//! one place. (Testing for the usual order of the four first was measured to be slower.) Nothing is allocated. Inlining
//! is forced: a head returned through memory is copied by wide loads across narrow stores, and such a load waits until
//! everything stored before it, including the last payload, has left the store buffer: a sixth of the receiver's time
//! with packets of 1472 bytes. A length of 0 is valid here, for a heap of immediate items only; spead2 never sends it,
//! but accepts it.

use super::{Control, Flavour, Spead, id};
use crate::placement::{Key, Placement, Reject};

/// The head of a packet (§8.1, §8.2). If an item is repeated, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// How its pointers divide.
    pub flavour: Flavour,
    /// Counter of its heap.
    pub counter: u64,
    /// Bytes of the heap's payload, if the packet states them.
    pub size: Option<u64>,
    /// Where its payload belongs in the heap.
    pub offset: u64,
    /// Bytes of its payload.
    pub length: u64,
    /// All its pointers as in the packet, 8 bytes each; see [`kept`](Self::kept).
    pub pointers: &'a [u8],
    /// Bytes from the packet's start to its payload.
    pub start: usize,
    /// Immediate stream control: 0 start, 1 descriptors again, 2 stop, 3 descriptors changed. If repeated, stop takes
    /// precedence.
    pub control: Option<u64>,
    /// Whether the heap may keep a pointer; if `false`, [`kept`](Self::kept) is empty.
    pub has_items: bool,
    /// Octets of pointers before the first that it may keep: mostly the four that every packet has.
    pub(super) own: usize,
    /// The packet as far as it was there to be read: all of a datagram; of a byte stream, at least the head.
    pub packet: &'a [u8],
}

impl<'a> Head<'a> {
    /// Maximum length of a SPEAD head in bytes.
    pub const LONGEST: usize = Spead::LEN + 8 * u16::MAX as usize;

    /// The head of a datagram, which is exactly one packet.
    ///
    /// # Errors
    /// [`Reject::Truncated`] if header, pointers or payload are incomplete, [`Reject::WrongSize`] if bytes are left
    /// over, [`Reject::BadMagic`], [`Reject::BadVersion`] (also for widths whose sum is not 8), [`Reject::BadField`]
    /// without heap counter, heap offset and payload length, [`Reject::Outside`] if the payload exceeds the heap.
    #[inline(always)]
    pub fn read(packet: &'a [u8]) -> Result<Head<'a>, Reject> {
        let Some(head) = Head::peek(packet)? else { return Err(Reject::Truncated) };
        let here = (packet.len() - head.start) as u64;
        if head.length == here {
            Ok(head)
        } else {
            Err(if head.length > here { Reject::Truncated } else { Reject::WrongSize })
        }
    }

    /// The head of the first packet of `stream`, whose payload may be missing: the packet has [`bytes`](Self::bytes)
    /// bytes. `None`: the head is incomplete; at most [`LONGEST`](Self::LONGEST) bytes are needed.
    ///
    /// # Errors
    /// As [`read`](Self::read), except for lengths. An incomplete head is rejected as soon as it is known to be invalid.
    #[inline(always)]
    pub fn peek(stream: &'a [u8]) -> Result<Option<Head<'a>>, Reject> {
        let Some((header, rest)) = stream.split_first_chunk::<8>() else {
            return match stream {
                [magic, ..] if *magic != 0x53 => Err(Reject::BadMagic),
                [_, version, ..] if *version != 4 => Err(Reject::BadVersion),
                _ => Ok(None),
            };
        };
        let flavour = flavour(*header)?;
        let pointers = usize::from(u16::from_be_bytes([header[6], header[7]])) * 8;
        let Some(pointers) = rest.get(..pointers) else { return Ok(None) };
        let head = scan(flavour, pointers)?;
        let there = usize::try_from(head.bytes()).map_or(stream.len(), |bytes| bytes.min(stream.len()));
        Ok(Some(Head { packet: &stream[..there], ..head }))
    }

    /// Recogniser of the packets that continue this heap after this one, which is `packet`. `None`: no packet can.
    #[inline(always)]
    #[must_use]
    pub fn sequel(&self, packet: &'a [u8]) -> Option<Sequel<'a>> {
        if self.length == 0 || self.control.is_some() {
            return None;
        }
        let bits = u32::from(self.flavour.address_bits);
        let mut found = None;
        for (at, pointer) in self.raw_pointers().enumerate() {
            // If repeated, the last counts; this rare case is not optimised.
            if pointer >> bits == 1 << (63 - bits) | id::HEAP_OFFSET && found.replace(at).is_some() {
                return None;
            }
        }
        let at = found?;
        let most = ((u64::MAX >> (64 - bits)) - self.offset) / self.length;
        let octets = packet.get(..self.start)?;
        Some(Sequel { octets, at: at + 1, length: self.length, most: most.saturating_sub(1) })
    }

    /// The head of the datagram `packet`, if its payload begins at `end` of the same heap, and it has nothing that the heap keeps: all
    /// packets but the first of most senders. `None` also if the first pointers differ, nearly always those of the heap counter.
    #[inline(always)]
    #[must_use]
    pub fn continued<'b>(&self, end: u64, packet: &'b [u8]) -> Option<Head<'b>> {
        const FIRST: std::ops::Range<usize> = Spead::LEN..Spead::LEN + 8;
        if self.control.is_some() || packet.get(FIRST)? != self.packet.get(FIRST)? {
            return None;
        }
        let next = Head::read(packet).ok()?;
        let is_same = next.flavour == self.flavour && next.counter == self.counter && next.size == self.size;
        let is_next = next.offset == end && next.length > 0;
        (is_same && is_next && next.control.is_none() && !next.has_items).then_some(next)
    }

    /// Where its payload belongs, among the heaps of sender number `source`.
    #[inline(always)]
    #[must_use]
    pub fn placement(&self, source: u64) -> Placement {
        Placement {
            key: Key { source, number: self.counter },
            offset: self.offset,
            start: self.start as u32,
            length: self.length,
            size: self.size,
            number_bits: self.flavour.address_bits,
        }
    }

    /// Bytes of the whole packet.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.start as u64 + self.length
    }

    /// Whether it ends the stream.
    #[inline]
    #[must_use]
    pub fn is_stop(&self) -> bool {
        self.control == Some(2)
    }

    /// Its pointers, in order, in native byte order.
    #[inline]
    pub fn raw_pointers(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        raw(self.pointers)
    }

    /// The pointers that its heap keeps: all but counter, size, offset, length and padding.
    #[inline]
    pub fn kept(&self) -> impl Iterator<Item = u64> + 'a {
        let flavour = self.flavour;
        self.others().filter(move |&pointer| flavour.keeps(pointer))
    }

    /// The pointers behind those that every packet has: [`kept`](Self::kept), and others.
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = u64> + 'a {
        raw(self.pointers.get(self.own..).unwrap_or_default())
    }
}

/// Pointers in native byte order.
#[inline(always)]
fn raw(pointers: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    pointers.as_chunks::<8>().0.iter().map(|octets| u64::from_be_bytes(*octets))
}

/// Recognises consecutive packets of a heap: their heads are equal except for the offset, which grows by the length. That
/// is cheaper than parsing them. See [`Head::sequel`].
#[derive(Clone, Copy, Debug)]
pub struct Sequel<'a> {
    /// Header and pointers of the first.
    octets: &'a [u8],
    /// Index of the word with the offset's pointer.
    at: usize,
    length: u64,
    /// Maximum number of further packets whose offsets fit a pointer.
    most: u64,
}

impl Sequel<'_> {
    /// Whether `packet` is the `n`th after the first; the caller checks that it has the same length.
    #[inline(always)]
    #[must_use]
    pub fn is(&self, n: u64, packet: &[u8]) -> bool {
        let Some(octets) = packet.get(..self.octets.len()) else { return false };
        if n > self.most {
            return false;
        }
        let (words, firsts) = (octets.as_chunks::<8>().0, self.octets.as_chunks::<8>().0);
        let offset = firsts.get(self.at).map_or(0, |first| u64::from_be_bytes(*first)) + n * self.length;
        let mut differs = 0;
        let firsts = &firsts[..words.len()];
        for (at, word) in words.iter().enumerate() {
            let first = if at == self.at { offset.to_be_bytes() } else { firsts[at] };
            differs |= u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(first);
        }
        differs == 0
    }
}

/// The flavour of a header.
#[inline(always)]
fn flavour(header: [u8; 8]) -> Result<Flavour, Reject> {
    let [magic, version, item, address, ..] = header;
    if magic != 0x53 {
        return Err(Reject::BadMagic);
    }
    // Widths of 1 to 7 with the sum 8: no other flavour has pointers of 64 bits.
    if version != 4 || !(1..=7).contains(&address) || item != 8 - address {
        return Err(Reject::BadVersion);
    }
    Ok(Flavour { address_bits: address * 8 })
}

/// One pass over the pointers. The caller has the packet.
#[inline(always)]
fn scan(flavour: Flavour, pointers: &[u8]) -> Result<Head<'_>, Reject> {
    const COUNTER: usize = id::HEAP_COUNTER as usize;
    const SIZE: usize = id::HEAP_SIZE as usize;
    const OFFSET: usize = id::HEAP_OFFSET as usize;
    const LENGTH: usize = id::PAYLOAD_LENGTH as usize;
    const CONTROL: usize = id::STREAM_CONTROL as usize;
    /// The place of all other ids.
    const OTHER: usize = 7;
    const NEEDED: u32 = 1 << COUNTER | 1 << OFFSET | 1 << LENGTH;
    const ITEMS: u32 = !(NEEDED | 1 << SIZE | 1);

    let bits = u32::from(flavour.address_bits);
    let mask = u64::MAX >> (64 - bits);
    let immediate = 1 << (63 - bits);
    let stop = Control::Stop.pointer(flavour);
    let (mut values, mut seen, mut stops, mut own) = ([0u64; 8], 0u32, false, 0);
    for pointer in raw(pointers) {
        // This sets a high bit for addressed items, which puts them among the others.
        let at = ((pointer >> bits) ^ immediate).min(OTHER as u64) as usize & OTHER;
        values[at] = pointer & mask;
        seen |= 1 << at;
        stops |= pointer == stop;
        // Counts as long as no other was seen.
        own += usize::from(seen & ITEMS == 0);
    }
    if seen & NEEDED != NEEDED {
        return Err(Reject::BadField);
    }
    let here = |at: usize| (seen >> at & 1 == 1).then_some(values[at]);
    let (size, offset, length) = (here(SIZE), values[OFFSET], values[LENGTH]);
    // Values have at most 56 bits: the sum does not overflow.
    if size.is_some_and(|size| offset + length > size) {
        return Err(Reject::Outside);
    }
    let control = if stops { Some(2) } else { here(CONTROL) };
    let start = Spead::LEN + pointers.len();
    let counter = values[COUNTER];
    let (has_items, own) = (seen & ITEMS != 0, 8 * own);
    Ok(Head { flavour, counter, size, offset, length, pointers, start, control, has_items, own, packet: &[] })
}

#[cfg(test)]
mod tests;
