//! The head of a packet: all that a receiver needs to place its payload, read in one pass over the item pointers.
//!
//! ```text
//!   ┌ 8 octets ┬ pointers, 8 octets each ─────────────────────┬ payload ────────────┐
//!   │  header  │ counter │ size │ offset │ length │ items …   │                     │
//!   0          8                                              ▲ start       length  ▲ end of the packet
//! ```
//!
//! A datagram is exactly one packet ([`Head::read`]); in TCP and in files packets follow each other with nothing
//! between them ([`Head::peek`], then `start + length` octets).
//!
//! The pass has no branch that depends on a pointer: every pointer's value is stored under its id, and ids that do not
//! matter share one place. (Asking first for the usual order of the four was measured, and was slower.) Nothing is
//! allocated. It is inlined by force: a head that is returned through memory is copied by wide loads across narrow
//! stores, and such a load waits until everything stored before it, the last payload too, has left the store buffer: a
//! sixth of the receiver's time with packets of 1472 octets. A length of 0 is legal here, for a heap of immediate items only; spead2 never sends it and takes it.

use super::{Control, Flavour, Spead, id};
use crate::placement::{Key, Placement, Reject};

/// What a packet says about itself (§8.1, §8.2). Where an item occurs more than once, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// How its pointers divide.
    pub flavour: Flavour,
    /// Which heap it belongs to.
    pub counter: u64,
    /// Octets of the heap's payload, where the packet tells.
    pub size: Option<u64>,
    /// Where its payload belongs in the heap.
    pub offset: u64,
    /// Octets of its payload.
    pub length: u64,
    /// All its pointers as they lie in it, 8 octets each; see [`kept`](Self::kept).
    pub pointers: &'a [u8],
    /// Octets from the packet's start to its payload.
    pub start: usize,
    /// Immediate stream control: 0 start, 1 descriptors again, 2 stop, 3 descriptors changed. Stop if any says so.
    pub control: Option<u64>,
    /// Whether any pointer may be of interest to the heap; `false`: [`kept`](Self::kept) gives none.
    pub has_items: bool,
}

impl<'a> Head<'a> {
    /// Octets of the longest head there can be: a longer one is no SPEAD.
    pub const LONGEST: usize = Spead::LEN + 8 * u16::MAX as usize;

    /// The head of a datagram, which is exactly one packet.
    ///
    /// # Errors
    /// [`Reject::Truncated`] where header, pointers or payload are not all there, [`Reject::WrongSize`] where more is
    /// there, [`Reject::BadMagic`], [`Reject::BadVersion`] (also for widths that do not make 8), [`Reject::BadField`]
    /// without heap counter, heap offset and payload length, [`Reject::Outside`] where the payload passes the end of
    /// the heap.
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

    /// The head of the packet at the front of `stream`, whose payload need not be there yet: the packet has
    /// [`bytes`](Self::bytes) octets. `None`: the head is not all there; no more than [`LONGEST`](Self::LONGEST)
    /// octets are ever needed.
    ///
    /// # Errors
    /// As [`read`](Self::read), but for lengths. What can be refused from the octets that are there is refused.
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
        scan(flavour, pointers).map(Some)
    }

    /// How packets look that go on with this heap where this one, which is `packet`, ends. `None`: no packet does.
    #[inline(always)]
    #[must_use]
    pub fn sequel(&self, packet: &'a [u8]) -> Option<Sequel<'a>> {
        if self.length == 0 || self.control.is_some() {
            return None;
        }
        let bits = u32::from(self.flavour.address_bits);
        let mut offsets = self
            .raw_pointers()
            .enumerate()
            .filter(|(_, pointer)| pointer >> bits == 1 << (63 - bits) | id::HEAP_OFFSET);
        let (at, _) = offsets.next()?;
        // The last of several counts, which is of no use to look for.
        if offsets.next().is_some() {
            return None;
        }
        let most = ((u64::MAX >> (64 - bits)) - self.offset) / self.length;
        let octets = packet.get(..self.start)?;
        Some(Sequel { octets, at: at + 1, length: self.length, most: most.saturating_sub(1) })
    }

    /// Where its payload belongs, of the heaps of sender number `source`.
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

    /// Octets of the whole packet.
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

    /// Its pointers, in order, in this machine's byte order.
    #[inline]
    pub fn raw_pointers(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.pointers
            .chunks_exact(8)
            .map(|octets| octets.first_chunk().map_or(0, |octets| u64::from_be_bytes(*octets)))
    }

    /// The pointers that its heap keeps: what is left without counter, size, offset, length and padding.
    #[inline]
    pub fn kept(&self) -> impl Iterator<Item = u64> + 'a {
        let flavour = self.flavour;
        self.raw_pointers().filter(move |&pointer| flavour.keeps(pointer))
    }
}

/// What tells the packets that go on with a heap one after the other: their heads are equal but for the offset, which grows
/// by the length. To see that is cheaper than to read them. See [`Head::sequel`].
#[derive(Clone, Copy, Debug)]
pub struct Sequel<'a> {
    /// Header and pointers of the first.
    octets: &'a [u8],
    /// Which word of it is the offset's pointer.
    at: usize,
    length: u64,
    /// So many more, and their offsets still have room in a pointer.
    most: u64,
}

impl Sequel<'_> {
    /// Whether `packet` is the `n`th after the first, which must be as long.
    #[inline(always)]
    #[must_use]
    pub fn is(&self, n: u64, packet: &[u8]) -> bool {
        let Some(octets) = packet.get(..self.octets.len()) else { return false };
        if n > self.most {
            return false;
        }
        let mut differs = 0;
        for (at, (word, first)) in
            octets.as_chunks::<8>().0.iter().zip(self.octets.as_chunks::<8>().0).enumerate()
        {
            let (word, first) = (u64::from_be_bytes(*word), u64::from_be_bytes(*first));
            let grown = if at == self.at { n * self.length } else { 0 };
            differs |= word ^ (first + grown);
        }
        differs == 0
    }
}

/// The flavour a header announces.
#[inline(always)]
fn flavour(header: [u8; 8]) -> Result<Flavour, Reject> {
    let [magic, version, item, address, ..] = header;
    if magic != 0x53 {
        return Err(Reject::BadMagic);
    }
    // Widths of 1 to 7 that make 8: no other flavour has pointers of 64 bits.
    if version != 4 || !(1..=7).contains(&address) || item != 8 - address {
        return Err(Reject::BadVersion);
    }
    Ok(Flavour { address_bits: address * 8 })
}

/// One pass over the pointers.
#[inline(always)]
fn scan(flavour: Flavour, pointers: &[u8]) -> Result<Head<'_>, Reject> {
    const COUNTER: usize = id::HEAP_COUNTER as usize;
    const SIZE: usize = id::HEAP_SIZE as usize;
    const OFFSET: usize = id::HEAP_OFFSET as usize;
    const LENGTH: usize = id::PAYLOAD_LENGTH as usize;
    const CONTROL: usize = id::STREAM_CONTROL as usize;
    /// Where everything else goes.
    const OTHER: usize = 7;
    const NEEDED: u32 = 1 << COUNTER | 1 << OFFSET | 1 << LENGTH;

    let bits = u32::from(flavour.address_bits);
    let mask = u64::MAX >> (64 - bits);
    let immediate = 1 << (63 - bits);
    let stop = Control::Stop.pointer(flavour);
    let (mut values, mut seen, mut stops) = ([0u64; 8], 0u32, false);
    for octets in pointers.chunks_exact(8) {
        let Some(octets) = octets.first_chunk() else { break };
        let pointer = u64::from_be_bytes(*octets);
        // Addressed items get a high bit by this and so land among the others.
        let at = ((pointer >> bits) ^ immediate).min(OTHER as u64) as usize & OTHER;
        values[at] = pointer & mask;
        seen |= 1 << at;
        stops |= pointer == stop;
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
    let has_items = seen & !(NEEDED | 1 << SIZE | 1) != 0;
    Ok(Head { flavour, counter, size, offset, length, pointers, start, control, has_items })
}

#[cfg(test)]
mod tests;
