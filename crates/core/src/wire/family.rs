//! What a family of formats is to everything that is not on the data path: a folder beside this file, with its tables, its
//! layout and all cold work, and a line in the [registry](super::families).
//!
//! ```text
//!   first packets ──Family::shape, learn──▶ StreamFormat { what all streams have, own: Particulars }
//!                                               │ visit: the concrete layout, chosen once
//!                                               ▼
//!                                          L: Layout, compiled with whatever is built of it
//! ```
//!
//! A [`Family`] is known from its name, the [`Particulars`] of a stream when its first packets were seen.

pub use super::same::Same;
use super::{
    frame::{Ahead, FrameTime, Frames, Objects, Packets, Quirk, Thread},
    fuzzing::parser::Parser,
    generate::Generator,
    header::{Field, Order},
    inspect::reader::Reader,
    layout::{Keep, Place},
    numbering::Numbering,
    restamp::{RestampError, Restamper},
    trial::{Draw, Trial},
};
use crate::placement::{Layout, Reject};
use std::{any::Any, fmt, hash, ops::Deref, sync::Arc};

/// A family of formats. Object safe: all cold work goes through the [registry](super::FAMILIES).
pub trait Family: Sync {
    /// Its name, as it is typed and reported.
    fn name(&self) -> &'static str;

    /// Its name as the field writes it.
    fn title(&self) -> &'static str;

    /// Other names that are understood; case and punctuation do not count.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// What its packets are parts of.
    fn objects(&self) -> Objects {
        Objects::Frames
    }

    /// Whether its packets carry a magic number: such a family is asked before those that have none.
    fn has_magic(&self) -> bool {
        false
    }

    /// What a packet on its own looks like; `None` where it is not of this family.
    fn shape(&self, packet: &[u8]) -> Option<Shape>;

    /// Whether more packets would hardly change what [`learn`](Self::learn) finds.
    fn settled(&self, _seen: &Seen<'_>) -> bool {
        true
    }

    /// What the packets of one shape tell of their stream.
    ///
    /// # Errors
    /// Why they are no stream of this family that can be placed as was asked for.
    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject>;

    /// A stream again from the numbers that an index keeps of it; `None` where none are kept.
    fn recall(&self, _number: &dyn Fn(&str) -> Option<u64>) -> Option<Recalled> {
        None
    }

    /// Frames in files and in TCP, where it has them.
    fn frames(&self) -> Option<&'static dyn Frames> {
        None
    }

    /// Packets of different lengths in files and in TCP, where it has them.
    fn packets(&self) -> Option<&'static dyn Packets> {
        None
    }

    /// The fields of the packet in `reader`. The shape is `None` where the packet does not look like this family.
    fn inspect(&self, reader: &mut Reader<'_>, shape: Option<Shape>);

    /// The frames of a file, to be sent again with times that run on.
    ///
    /// # Errors
    /// See [`RestampError`].
    fn restamp(&self, file: &[u8], fps: Option<u32>) -> Result<Restamper, RestampError>;

    /// Makes streams of this family from nothing.
    fn generator(&self) -> Option<&'static dyn Generator> {
        None
    }

    /// Its parsers, given any octets, return, and what they return is true. `choice` chooses what a packet does not tell.
    #[doc(hidden)]
    fn fuzz(&self, choice: u8, packet: &[u8]);

    /// Packets for [`fuzz`](Self::fuzz) that reach deep.
    #[doc(hidden)]
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// Parsers of its own that are to be given any octets, each alone.
    #[doc(hidden)]
    fn parsers(&self) -> &'static [Parser] {
        &[]
    }

    /// Kinds of its streams that simulated senders send, where they are of frames.
    #[doc(hidden)]
    fn trials(&self) -> &'static [fn(Draw<'_>) -> Trial] {
        &[]
    }
}

/// A family of the registry. Two are the same if their names are.
#[derive(Clone, Copy)]
pub struct FamilyRef(&'static dyn Family);

impl FamilyRef {
    /// Of the family's own value.
    #[must_use]
    pub const fn new(family: &'static dyn Family) -> FamilyRef {
        FamilyRef(family)
    }
}

impl Deref for FamilyRef {
    type Target = dyn Family;

    fn deref(&self) -> &(dyn Family + 'static) {
        self.0
    }
}

impl PartialEq for FamilyRef {
    fn eq(&self, other: &FamilyRef) -> bool {
        self.name() == other.name()
    }
}

impl Eq for FamilyRef {}

impl hash::Hash for FamilyRef {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for FamilyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for FamilyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The format that a user asks for, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Whichever it turns out to be.
    #[default]
    Auto,
    /// Of this family.
    Of(FamilyRef),
}

impl Format {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.family().map_or("auto", |family| family.name())
    }

    /// The family, where one was asked for.
    #[must_use]
    pub fn family(self) -> Option<FamilyRef> {
        match self {
            Format::Auto => None,
            Format::Of(family) => Some(family),
        }
    }

    /// What its packets are parts of, where it is known.
    #[must_use]
    pub fn objects(self) -> Option<Objects> {
        self.family().map(|family| family.objects())
    }
}

impl From<FamilyRef> for Format {
    fn from(family: FamilyRef) -> Format {
        Format::Of(family)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a family knows of one stream beyond what all streams have, and what it does with that. Cold: nothing here is
/// asked for each packet.
pub trait Particulars: Any + Same + fmt::Debug + Send + Sync {
    /// The format and what carries it.
    fn title(&self, stream: &StreamFormat) -> String {
        let family = stream.family;
        if stream.sequence.is_some() { format!("{family} with sequence numbers") } else { family.to_string() }
    }

    /// Which version of the format it is, where there are several.
    fn version(&self) -> Option<String> {
        None
    }

    /// What more there is to say of it, behind the size of its frames.
    fn details(&self, _stream: &StreamFormat) -> Vec<String> {
        Vec::new()
    }

    /// What an index keeps of it, to [recall](super::Family::recall) it by: names and numbers.
    fn numbers(&self) -> Vec<(&'static str, Option<u64>)> {
        Vec::new()
    }

    /// How the packets are numbered before the frame.
    fn numbering(&self, stream: &StreamFormat) -> Option<Numbering> {
        stream.sequence.map(Numbering::whole)
    }

    /// Whether objects may end early without loss: placed by time with the frame rate unknown, the last object of a
    /// second is as long as it is.
    fn short_objects(&self, _stream: &StreamFormat) -> bool {
        false
    }

    /// Whether seconds have a whole number of frames, and all the same: where they have not, none is learned.
    fn has_whole_rate(&self) -> bool {
        true
    }

    /// The field of the frame's header that tells its thread, where there are threads to be told apart.
    fn thread_field(&self) -> Option<&'static Field> {
        None
    }

    /// When the samples of `frame` were taken; `None` where it does not tell.
    fn frame_time(&self, _stream: &StreamFormat, _frame: &[u8]) -> Option<FrameTime> {
        None
    }

    /// Whether `frame` begins with a header of this stream: fill does not.
    fn has_header(&self, _stream: &StreamFormat, _frame: &[u8]) -> bool {
        false
    }

    /// The header of a frame that was lost, as far as another tells it, and its length.
    fn predicted(&self, _ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        None
    }
}

/// What is known of a stream of this family.
pub trait Known: Particulars + Sized {
    /// The family.
    const FAMILY: FamilyRef;
}

/// A family of frames in the registry: the layout that is compiled for its streams.
pub trait Framed: Known {
    /// How the packets of such a stream are placed.
    type Layout: Layout + fmt::Debug + Send + Sync + 'static;

    /// The layout of this stream.
    ///
    /// # Errors
    /// As [`StreamFormat::visit`].
    fn layout(&self, stream: &StreamFormat) -> Result<Self::Layout, Reject>;
}

/// A family's part of a stream that is [recalled](super::Family::recall) from an index.
#[derive(Debug)]
pub struct Recalled {
    /// Octets of a frame's header.
    pub header_bytes: usize,
    /// Packets that a frame is cut into.
    pub parts: usize,
    /// The family's own.
    pub own: Arc<dyn Particulars>,
}

/// Everything known of one sender's stream.
#[derive(Clone, Debug)]
pub struct StreamFormat {
    /// Of which family it is.
    pub family: FamilyRef,
    /// Which octets of a datagram are kept.
    pub keep: Keep,
    /// How packets are placed; never [`Place::Auto`].
    pub place: Place,
    /// Room for an object, octets.
    pub object_bytes: u64,
    /// Octets of the network format before each frame.
    pub network_bytes: usize,
    /// Byte order of the sequence number before each frame, where there is one.
    pub sequence: Option<Order>,
    /// Octets of a datagram; 0 where they differ.
    pub packet_bytes: usize,
    /// Octets of a frame, or of the part of one that a packet has; 0 where there are none.
    pub frame_bytes: usize,
    /// Octets of the frame's header.
    pub header_bytes: usize,
    /// Packets that a frame is cut into; the first has its header.
    pub parts: usize,
    /// The threads in the order of their ranks; one without number where the format has none.
    pub threads: Vec<Thread>,
    /// Frames of one thread in a second.
    pub frames_per_second: Option<u32>,
    /// Station, where the header tells.
    pub station: Option<String>,
    /// What is odd about it.
    pub quirks: Vec<Quirk>,
    /// A Unix time not more than 500 days from the data, to complete dates.
    pub near: i64,
    /// What only its family has.
    pub own: Arc<dyn Particulars>,
}

/// What is known beforehand, and what is wanted.
#[derive(Clone, Debug)]
pub struct LearnOptions {
    /// The format, or [`Format::Auto`].
    pub format: Format,
    /// Which octets of a datagram to keep.
    pub keep: Keep,
    /// How to place.
    pub place: Place,
    /// Frames of one thread in a second, where known better than the headers tell.
    pub frames_per_second: Option<u32>,
    /// The threads of a VDIF stream, in the order in which they are to lie in an object.
    pub threads: Option<Vec<u16>>,
    /// Room for an object, octets.
    pub object_bytes: u64,
    /// A Unix time not more than 500 days from the data, to complete Mark 5B dates: usually now.
    pub near: i64,
}

impl Default for LearnOptions {
    /// Any format, frames kept whole, objects of 16 MiB, dates near 2026.
    fn default() -> LearnOptions {
        LearnOptions {
            format: Format::Auto,
            keep: Keep::StripNetwork,
            place: Place::Auto,
            frames_per_second: None,
            threads: None,
            object_bytes: 16 << 20,
            near: 1_767_225_600,
        }
    }
}

/// What is kept of a packet.
pub(super) const HEAD: usize = 64;

/// The head of an observed packet.
#[derive(Clone, Debug)]
pub struct Sample {
    pub(super) length: usize,
    pub(super) head: [u8; HEAD],
    pub(super) shape: Option<Shape>,
}

/// What a packet on its own looks like. Packets of the same shape vote for the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of which family it is.
    pub family: FamilyRef,
    /// Octets of the network format before the frame.
    pub network: usize,
    /// Octets of the frame; 0 where packets of one stream differ.
    pub length: usize,
    /// Tells apart what else packets of one stream share, in numbers of the family's own.
    pub variant: u8,
}

/// The packets of one shape, as a family is given them to learn from.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What was known beforehand, and what is wanted.
    pub options: &'a LearnOptions,
    /// What they all look like.
    pub shape: Shape,
    /// Their heads, in order of arrival.
    pub samples: &'a [&'a Sample],
}
