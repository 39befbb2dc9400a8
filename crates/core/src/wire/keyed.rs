//! Families whose objects have keys: heaps, events, messages.
//!
//! Their packets arrive in any order, from any port, and each states the object that it is part of. So a receiver reads
//! the whole head of a packet in one pass, and takes everything else from it.
//!
//! ```text
//!   packet ──read──▶ Head ──placement──▶ Placement           where its payload belongs
//!                      ├── following ──▶ recogniser          of packets that continue where it ends: looked up once
//!                      ├── continues ──▶ Head                of one that does, with another head: the same
//!                      └── keep ───────▶ Kept                what its object keeps of it: item pointers, or nothing
//! ```

use super::family::Known;
use crate::placement::{Key, Placement, Reject};
use std::fmt;
use std::ops::Range;

/// How the packets of such a family are read. Every packet is self-contained: nothing is learned of a stream first.
pub trait Keyed: fmt::Debug + Send + Sync + 'static {
    /// The head of a packet, read in one pass.
    type Head<'a>: Copy;
    /// The data that an object keeps from the heads of its packets.
    type Kept: fmt::Debug + Send;

    /// The bytes with which every packet begins; empty if there are none.
    const MAGIC: &'static [u8];
    /// Maximum length of a head in bytes.
    const LONGEST_HEAD: usize;
    /// Each sender counts its own objects. If `false`, each source does, regardless of the addresses and ports of its
    /// packets.
    const COUNTED_BY_SENDER: bool = true;
    /// Every packet states the size of its object, so packets that state different sizes of one contradict each other.
    const STATES_SIZE: bool = false;
    /// Whether there are rules by which a program places its objects: [`HeapLayout`](super::spead::HeapLayout).
    const IS_PLACED: bool = false;
    /// Maximum size of an object in bytes, unless the user sets another.
    const LARGEST: u64 = 256 << 20;

    /// Read the head of a datagram, which is exactly one packet.
    ///
    /// # Errors
    /// The reason for which it is not a complete packet of this family.
    fn read(packet: &[u8]) -> Result<Self::Head<'_>, Reject>;

    /// Read the head of the first packet of a byte stream; its payload may be missing. `None`: the head is incomplete.
    ///
    /// # Errors
    /// The reason for which it is not a packet of this family. If packets do not state their length, always an error.
    fn peek(stream: &[u8]) -> Result<Option<Self::Head<'_>>, Reject>;

    /// Where the payload of a packet belongs, among the objects of sender number `sender`.
    fn placement(head: &Self::Head<'_>, sender: u64) -> Placement;

    /// Recogniser of the packets that continue the object of `packet`, whose head this is: called with `n` and the `n`th
    /// packet after it, of the same length. That is cheaper than parsing each. `None`: no packet can continue it.
    fn following<'a>(head: &Self::Head<'a>, packet: &'a [u8]) -> Option<impl Fn(u64, &[u8]) -> bool>;

    /// The head of `packet`, if its payload continues that of `first`'s object at `end`, and the object keeps nothing of it: such a
    /// packet needs no look-up of its own, although its head differs from the one before. A datagram that is refused for its head
    /// alone has none.
    #[inline]
    fn continues<'a>(_first: &Self::Head<'_>, _end: u64, _packet: &'a [u8]) -> Option<Self::Head<'a>> {
        None
    }

    /// Whether a packet describes or controls the stream, so that its counter may be out of sequence.
    fn is_control(_head: &Self::Head<'_>) -> bool {
        false
    }

    /// Whether a packet marks a start of the stream.
    fn is_start(_head: &Self::Head<'_>) -> bool {
        false
    }

    /// Whether a packet ends the stream.
    fn is_stop(_head: &Self::Head<'_>) -> bool {
        false
    }

    /// Bytes that [`peek`](Self::peek) examines before it rejects: the cost of a search for the next packet.
    fn examined(_stream: &[u8]) -> usize {
        0
    }

    /// Which bytes of an object are data. The payload is `bytes` long, and is complete or not.
    fn data(_kept: &Self::Kept, _bytes: u64, _is_whole: bool) -> Data {
        Data::All
    }

    /// Items that begin beyond the end of their object, whose payload is `bytes` long.
    fn items_outside(_kept: &Self::Kept, _bytes: u64) -> u64 {
        0
    }

    /// A description of objects with such heads, in a word or two.
    fn describe(kept: &Self::Kept) -> String;

    /// Approximate size of the heads of an object stored in `parts` parts; 0 if objects of this family cannot be stored.
    fn heads_bytes(_kept: &Self::Kept, _parts: usize) -> usize {
        0
    }

    /// Name the items of an object, for families whose objects have any. One may be named repeatedly.
    fn items(_kept: &Self::Kept, _each: &mut dyn FnMut(u64)) {}

    /// Write the head of a packet that holds as much of what is `left` as fits. `None`: nothing fits.
    fn store(_kept: &Self::Kept, _left: &Left, _to: &mut Vec<u8>) -> Option<Stored> {
        None
    }

    /// The head of a packet of a part of an object, as simulated senders send it; `form` selects what all packets of a
    /// stream share. `None` if the family has no such form, or no such packet in it.
    #[doc(hidden)]
    fn head(_form: u8, _part: &Part<'_>) -> Option<Vec<u8>> {
        None
    }

    /// The whole packet.
    #[doc(hidden)]
    fn packet(form: u8, part: &Part<'_>) -> Option<Vec<u8>> {
        let mut packet = Self::head(form, part)?;
        packet.extend_from_slice(part.payload);
        Some(packet)
    }

    /// The data kept of an object that begins with this head.
    fn begin(head: &Self::Head<'_>) -> Self::Kept;

    /// Add a packet of the object. Returns how many of its items exceed the limit of an object.
    ///
    /// # Errors
    /// If the packet does not belong to this object.
    fn keep(kept: &mut Self::Kept, head: &Self::Head<'_>) -> Result<u64, Reject>;

    /// Add a part of the object that was assembled elsewhere.
    ///
    /// # Errors
    /// If the parts do not belong to one object.
    fn join(into: &mut Self::Kept, from: &Self::Kept) -> Result<u64, Reject>;
}

/// Which bytes of an object's payload are data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// None: it describes or controls the stream.
    None,
    /// All.
    All,
    /// These, ascending; the others are descriptors or padding.
    Parts(Vec<Range<u64>>),
}

/// A part of an object to make a packet of.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// The source that the packet states, if packets state one.
    pub own: u16,
    /// The object's number, truncated to the bits that a packet can state.
    pub number: u64,
    /// Bytes of the whole object, if this packet states them.
    pub size: Option<u64>,
    /// Where its payload belongs.
    pub offset: u64,
    /// Its payload.
    pub payload: &'a [u8],
    /// Whether it lists the object's items.
    pub items: bool,
    /// What it states of the stream.
    pub control: Option<Control>,
}

/// What a packet may state of its stream.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The stream begins again.
    Start,
    /// The stream ends.
    Stop,
}

/// The part of an object that is still to be stored, and the room for it.
#[derive(Clone, Debug)]
pub struct Left {
    /// The object's number.
    pub number: u64,
    /// Its source, if its packets state it.
    pub source: u16,
    /// Bytes of the whole object, if known.
    pub size: Option<u64>,
    /// Bytes of its payload: a received range, less the part already stored.
    pub payload: Range<usize>,
    /// Items of the object already stored.
    pub items: usize,
    /// Bytes of room.
    pub room: usize,
}

/// The content of a stored packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Items of the object that are stored now.
    pub items: usize,
    /// Bytes of payload that follow the head.
    pub payload: usize,
    /// Nothing is left to be stored.
    pub is_all: bool,
}

/// A family of keyed objects in the [registry](super::families).
pub trait KnownKeyed: Known {
    /// How its packets are read.
    type Wire: Keyed;
}

/// Builds something generic over a keyed family; the compiler instantiates it for each.
pub trait VisitKeyed {
    /// The result.
    type Out;

    /// Build it for this family.
    fn visit<W: Keyed>(self) -> Self::Out;
}

/// The source of a key, from a sender's number and the source that the packet states.
#[inline]
#[must_use]
pub fn source_of(sender: u64, own: u16) -> u64 {
    sender << 16 | u64::from(own)
}

/// The source that the packet stated.
#[inline]
#[must_use]
pub fn own_source(key: Key) -> u16 {
    key.source as u16
}

/// Returns the length of the packet at the front of a record. `None`: there is no packet of this family.
///
/// Several packets in one record: trains captured before the card segmented them (GSO), or after the kernel had merged
/// them (GRO).
///
/// ```text
///   record   │ head │ payload │ head │ payload │ head │ pay │      each packet states its length
/// ```
pub type PacketEnd = fn(&[u8]) -> Option<usize>;

/// The length according to this family.
pub fn end_of<W: Keyed>(bytes: &[u8]) -> Option<usize> {
    let place = W::placement(&W::peek(bytes).ok()??, 0);
    usize::try_from(place.length).ok()?.checked_add(place.start as usize)
}

/// The packets of `record`, if it consists of several packets that all begin with the same four bytes. `None`: it is one
/// packet, or has other content.
#[must_use]
pub fn packets(record: &[u8], end: PacketEnd) -> Option<impl Iterator<Item = &[u8]>> {
    let split = move |bytes| split(bytes, end);
    let (first, mut rest) = split(record)?;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (packet, behind) = split(rest)?;
        if packet.get(..4) != first.get(..4) {
            return None;
        }
        rest = behind;
    }
    let mut rest = record;
    Some(std::iter::from_fn(move || {
        let (packet, behind) = split(rest)?;
        rest = behind;
        Some(packet)
    }))
}

/// The packet at the front, and the rest.
fn split(bytes: &[u8], end: PacketEnd) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(end(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::spead::{Flavour, SpeadWire};
    use proptest::prelude::*;

    fn packet(bits: u8, payload: u64) -> Vec<u8> {
        let flavour = Flavour::new(bits).unwrap();
        let mut packet = vec![0x53, 4, 8 - bits / 8, bits / 8, 0, 0, 0, 3];
        for (id, value) in [(1, 7), (3, 0), (4, payload)] {
            packet.extend(flavour.immediate(id, value).to_be_bytes());
        }
        packet.resize(packet.len() + payload as usize, 0x53);
        packet
    }

    fn cut(record: &[u8]) -> Option<Vec<Vec<u8>>> {
        packets(record, end_of::<SpeadWire>).map(|packets| packets.map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a_train_is_cut_and_nothing_else_is() {
        let (long, short) = (packet(48, 100), packet(48, 3));
        let train = [&long[..], &long, &short].concat();
        assert_eq!(cut(&train), Some(vec![long.clone(), long.clone(), short]));
        let other = packet(40, 5);
        let mut wrong = train.clone();
        wrong[long.len()] = 0x54;
        for record in [&long[..], &[], &[&train[..], &[0]].concat(), &train[..train.len() - 1], &wrong] {
            assert_eq!(cut(record), None);
        }
        assert_eq!(cut(&[&long[..], &other].concat()), None, "another flavour");
        assert_eq!(cut(&[&long[..], &[0; 30]].concat()), None, "padding");
    }

    proptest! {
        #[test]
        fn what_was_put_together_comes_apart(width in 1u8..8, lengths in proptest::collection::vec(0u64..60, 2..9)) {
            let packets: Vec<_> = lengths.iter().map(|&length| packet(width * 8, length)).collect();
            prop_assert_eq!(cut(&packets.concat()), Some(packets));
        }

        #[test]
        fn pieces_are_the_record(record in proptest::collection::vec(any::<u8>(), 0..90)) {
            if let Some(pieces) = cut(&record) {
                prop_assert_eq!(pieces.concat(), record);
            }
        }
    }
}
