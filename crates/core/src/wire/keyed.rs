//! Families whose objects have keys: heaps, events, messages.
//!
//! Their packets come in any order, from any port, and each says of which object it is a part. So a receiver reads the whole
//! head of a packet at once, and asks it whatever else it needs.
//!
//! ```text
//!   packet ──read──▶ Head ──placement──▶ Placement           where its payload belongs
//!                      ├── sequel ─────▶ Following           which packets go on where it ends: looked up once
//!                      └── keep ───────▶ Kept                what its object remembers of it: item pointers, nothing
//! ```

use super::family::Known;
use crate::placement::{Key, Placement, Reject};
use std::{fmt, ops::Range};

/// How the packets of such a family are read. Nothing is known of a stream beforehand: every packet says all.
pub trait Keyed: fmt::Debug + Send + Sync + 'static {
    /// All that a packet says about itself, read in one pass.
    type Head<'a>: Head<'a>;
    /// What an object keeps of the heads of its packets.
    type Kept: fmt::Debug + Send;

    /// The octets with which every packet begins; empty where there are none.
    const MAGIC: &'static [u8];
    /// Octets of the longest head.
    const LONGEST_HEAD: usize;
    /// Each sender counts its objects by itself. Otherwise a source does, whatever addresses and ports its packets come from
    /// and go to.
    const COUNTED_BY_SENDER: bool = true;

    /// The head of a datagram, which is exactly one packet.
    ///
    /// # Errors
    /// Why it is not a packet of this family, or not a whole one.
    fn read(packet: &[u8]) -> Result<Self::Head<'_>, Reject>;

    /// The head of the packet at the front of a stream of bytes; its payload need not be there yet. `None`: the head is not
    /// all there.
    ///
    /// # Errors
    /// Why it is not a packet of this family. Where packets do not tell their length, none is.
    fn peek(stream: &[u8]) -> Result<Option<Self::Head<'_>>, Reject>;

    /// Octets that [`peek`](Self::peek) looks at, of what is no packet: what a search for the next one costs.
    fn examined(_stream: &[u8]) -> usize {
        0
    }

    /// Which octets of an object are data: the payload has `bytes` of them, and came whole or not.
    fn data(_kept: &Self::Kept, _bytes: u64, _is_whole: bool) -> Data {
        Data::All
    }

    /// What objects with such heads are, in a word or two.
    fn describe(kept: &Self::Kept) -> String;

    /// Octets of the heads of an object that is stored in so many parts, about; 0 where objects have no form on disks.
    fn heads_bytes(_kept: &Self::Kept, _parts: usize) -> usize {
        0
    }

    /// Write the head of a packet that holds as much of what is `left` as there is room for. `None`: there is room for
    /// nothing.
    fn store(_kept: &Self::Kept, _left: &Left, _to: &mut Vec<u8>) -> Option<Stored> {
        None
    }

    /// The packet of a part of an object, as simulated senders send it; `form` chooses what all packets of a stream share.
    /// `None`: there is no such form, or no such packet in it.
    #[doc(hidden)]
    fn packet(form: u8, part: &Part<'_>) -> Option<Vec<u8>>;

    /// What an object keeps before it has any payload.
    fn begin(head: &Self::Head<'_>) -> Self::Kept;

    /// A packet of the object came. Returns how many of its items are more than an object may have.
    ///
    /// # Errors
    /// It does not belong to this object after all.
    fn keep(kept: &mut Self::Kept, head: &Self::Head<'_>) -> Result<u64, Reject>;

    /// The same of a part of the object that was put together elsewhere.
    ///
    /// # Errors
    /// They do not belong together after all.
    fn join(into: &mut Self::Kept, from: &Self::Kept) -> Result<u64, Reject>;
}

/// Which octets of an object's payload are data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// None: it says something of the stream.
    None,
    /// All.
    All,
    /// These, ascending; the others describe them, or are padding.
    Parts(Vec<Range<u64>>),
}

/// A part of an object, of which a packet is to be made.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// What the packet itself says of its source, where it says that.
    pub own: u16,
    /// The object's number; a packet tells as many of its bits as it can.
    pub number: u64,
    /// Octets of the whole object, if this packet tells them.
    pub size: Option<u64>,
    /// Where its payload belongs.
    pub offset: u64,
    /// Its payload.
    pub payload: &'a [u8],
    /// It tells what is in the object.
    pub items: bool,
    /// It says something of the stream.
    pub control: Option<Control>,
}

/// What a packet may say of its stream.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// It begins anew.
    Start,
    /// It ends.
    Stop,
}

/// What is left of an object to be stored, and for how much there is room.
#[derive(Clone, Debug)]
pub struct Left {
    /// The object's number.
    pub number: u64,
    /// Octets of the whole object, where they are known.
    pub size: Option<u64>,
    /// Octets of its payload: a range that came, less what is stored of it.
    pub payload: Range<usize>,
    /// Items of its that are stored.
    pub items: usize,
    /// Octets that there is room for.
    pub room: usize,
}

/// What a stored packet holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Items of the object that are stored now.
    pub items: usize,
    /// Octets of payload that follow the head.
    pub payload: usize,
    /// Nothing is left of what was to be stored.
    pub is_all: bool,
}

/// What a packet of a keyed family says about itself.
pub trait Head<'a>: Copy {
    /// Recognises the packets that go on with its object.
    type Following: Following;

    /// Where its payload belongs, of the objects of sender number `source`.
    fn placement(&self, source: u64) -> Placement;

    /// How packets look that go on with this object where this one, which is `packet`, ends. `None`: no packet does.
    fn following(&self, packet: &'a [u8]) -> Option<Self::Following>;

    /// Whether it says something of the stream, and so need not count as the others do.
    fn is_control(&self) -> bool {
        false
    }

    /// Whether it says that the stream begins anew.
    fn is_start(&self) -> bool {
        false
    }

    /// Whether it ends the stream.
    fn is_stop(&self) -> bool {
        false
    }
}

/// Tells the packets that go on with an object, one after the other. To see that is cheaper than to read them.
pub trait Following {
    /// Whether `packet` is the `n`th after the first, which must be as long.
    fn is(&self, n: u64, packet: &[u8]) -> bool;
}

/// A family of keyed objects in the [registry](super::families).
pub trait KnownKeyed: Known {
    /// How its packets are read.
    type Wire: Keyed;
}

/// Something to be built for a keyed family: the compiler makes a copy of it for each.
pub trait VisitKeyed {
    /// What is built.
    type Out;

    /// Build it for this family.
    fn visit<W: Keyed>(self) -> Self::Out;
}

/// Which of the sources that use the same numbers: a sender's number, and what the packet itself says.
#[inline]
#[must_use]
pub fn source_of(sender: u64, own: u16) -> u64 {
    sender << 16 | u64::from(own)
}

/// What the packet itself said of its source.
#[must_use]
pub fn own_source(key: Key) -> u16 {
    key.source as u16
}
