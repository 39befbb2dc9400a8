//! The interface of a family of formats for everything off the data path.
//!
//! A family is a folder beside this file, with its tables, layout and the work off the data path, and a line in the
//! [registry](super::families).
//!
//! ```text
//!   first packets ──Family::shape, learn──▶ StreamFormat { what all streams have, own: Particulars }
//!                                               │ visit: the concrete layout, chosen once
//!                                               ▼
//!                                          L: Layout, compiled with whatever is built of it
//! ```
//! A [`Family`] is known from its name, the [`Particulars`] of a stream only after its first packets.

pub use super::Same;
use super::frame::{Ahead, FrameTime, Frames, Objects, Packets, Quirk, Thread};
use super::fuzzing::parser::Parser;
use super::header::{Field, Order};
use super::inspect::Reader;
use super::layout::{Keep, LayoutRule, Place};
use super::stamps::{Numbering, Stamps};
use super::trial::{Draw, Trial};
use super::written::Generator;
use crate::placement::rule::{BadRule, RuleWake};
use crate::placement::{Layout, Reject};
use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::{fmt, hash};

/// A family of formats. Object safe: all work off the data path goes through the [registry](super::FAMILIES).
pub trait Family: Sync {
    /// Its name in options and reports.
    fn name(&self) -> &'static str;

    /// Its full name.
    fn title(&self) -> &'static str;

    /// Other names; case and punctuation are ignored.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// The kind of its objects.
    fn objects(&self) -> Objects {
        Objects::Frames
    }

    /// Whether its packets carry a magic number; such a family is tried first.
    fn has_magic(&self) -> bool {
        false
    }

    /// The shape of a single packet; `None` if it is not of this family.
    fn shape(&self, packet: &[u8]) -> Option<Shape>;

    /// Whether more packets would hardly change what [`learn`](Self::learn) finds.
    fn settled(&self, _seen: &Seen<'_>) -> bool {
        true
    }

    /// The format of a stream, from its packets of one shape.
    ///
    /// # Errors
    /// The reason for which they are not a stream of this family that can be placed as requested.
    fn learn(&self, seen: &Seen<'_>) -> Result<StreamFormat, Reject>;

    /// Restores a stream from the numbers in an index; `None` if the family keeps none.
    fn recall(&self, _number: &dyn Fn(&str) -> Option<u64>) -> Option<Recalled> {
        None
    }

    /// Frames in files and TCP streams, if it has any.
    fn frames(&self) -> Option<&'static dyn Frames> {
        None
    }

    /// Packets of variable length in files and TCP streams, if it has any.
    fn packets(&self) -> Option<&'static dyn Packets> {
        None
    }

    /// Show the fields of the packet in `reader`. The shape is `None` if the packet does not look like this family.
    fn inspect(&self, reader: &mut Reader<'_>, shape: Option<Shape>);

    /// The times in the headers of its frames, if it has frames.
    fn stamps(&self) -> Option<&'static dyn Stamps> {
        None
    }

    /// Generates streams of this family.
    fn generator(&self) -> Option<&'static dyn Generator> {
        None
    }

    /// Run its parsers on arbitrary bytes, and check their results. `choice` selects what a packet does not state.
    #[doc(hidden)]
    fn fuzz(&self, choice: u8, packet: &[u8]);

    /// Seed packets for [`fuzz`](Self::fuzz).
    #[doc(hidden)]
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// Further parsers to be fuzzed separately.
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

/// A family of the registry. Two are equal if their names are.
#[derive(Clone, Copy)]
pub struct FamilyRef(&'static dyn Family);

impl FamilyRef {
    /// A reference to this family.
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

/// A format requested by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Detect it.
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

    /// The family, if one was requested.
    #[must_use]
    pub fn family(self) -> Option<FamilyRef> {
        match self {
            Format::Auto => None,
            Format::Of(family) => Some(family),
        }
    }

    /// The kind of its objects, if known.
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

/// Data of one stream that are specific to its family. Not on the data path: not called for each packet.
pub trait Particulars: Any + Same + fmt::Debug + Send + Sync {
    /// The format and its transport header.
    fn title(&self, stream: &StreamFormat) -> String {
        let family = stream.family;
        if stream.sequence.is_some() { format!("{family} with sequence numbers") } else { family.to_string() }
    }

    /// The version of the format, if there are several.
    fn version(&self) -> Option<String> {
        None
    }

    /// Further details, reported after the size of its frames.
    fn details(&self, _stream: &StreamFormat) -> Vec<String> {
        Vec::new()
    }

    /// Names and numbers for an index, from which it can be [recalled](super::Family::recall).
    fn numbers(&self) -> Vec<(&'static str, Option<u64>)> {
        Vec::new()
    }

    /// The sequence number before the frame.
    fn numbering(&self, stream: &StreamFormat) -> Option<Numbering> {
        stream.sequence.map(Numbering::whole)
    }

    /// Whether objects may end early without loss: if frames are placed by time and the frame rate is unknown, the last
    /// object of a second has any length.
    fn short_objects(&self, _stream: &StreamFormat) -> bool {
        false
    }

    /// Frames of one thread in a number of seconds, if seconds have no whole number of frames. Then no rate is learned.
    fn rate(&self) -> Option<(u64, u64)> {
        None
    }

    /// The same stream after a restart by which other packets are the first parts of frames, if that can be.
    fn rephased(&self) -> Option<Arc<dyn Particulars>> {
        None
    }

    /// The header field with the thread, if there are several threads.
    fn thread_field(&self) -> Option<&'static Field> {
        None
    }

    /// When the samples of `frame` were taken; `None` if it does not state that.
    fn frame_time(&self, _stream: &StreamFormat, _frame: &[u8]) -> Option<FrameTime> {
        None
    }

    /// Whether `frame` begins with a header of this stream; fill does not.
    fn has_header(&self, _stream: &StreamFormat, _frame: &[u8]) -> bool {
        false
    }

    /// The header of a lost frame, predicted from another, and its length.
    fn predicted(&self, _ahead: &Ahead<'_>) -> Option<([u8; 32], usize)> {
        None
    }
}

/// Particulars of a known family.
pub trait Known: Particulars + Sized {
    /// The family.
    const FAMILY: FamilyRef;
}

/// A family of frames in the registry, with the layout compiled for its streams.
pub trait Framed: Known {
    /// The layout type of such streams.
    type Layout: Layout + fmt::Debug + Send + Sync + 'static;

    /// The layout of this stream.
    ///
    /// # Errors
    /// As [`StreamFormat::visit`].
    fn layout(&self, stream: &StreamFormat) -> Result<Self::Layout, Reject>;

    /// The placement rule of this stream, in so many slots.
    ///
    /// # Errors
    /// As [`StreamFormat::rule`].
    fn rule(&self, _stream: &StreamFormat, _slots: u32, _wake: RuleWake) -> Result<LayoutRule, BadRule> {
        Err(BadRule("there is none for this format"))
    }
}

/// The family's part of a stream [recalled](super::Family::recall) from an index.
#[derive(Debug)]
pub struct Recalled {
    /// Bytes of a frame's header.
    pub header_bytes: usize,
    /// Packets that a frame is cut into.
    pub parts: usize,
    /// The particulars.
    pub own: Arc<dyn Particulars>,
}

/// Everything known of one sender's stream.
#[derive(Clone, Debug)]
pub struct StreamFormat {
    /// Its family.
    pub family: FamilyRef,
    /// Which bytes of a datagram are kept.
    pub keep: Keep,
    /// How packets are placed; never [`Place::Auto`].
    pub place: Place,
    /// Maximum size of an object, bytes.
    pub object_bytes: u64,
    /// Bytes of the network format before each frame.
    pub network_bytes: usize,
    /// Byte order of the sequence number before each frame, if there is one.
    pub sequence: Option<Order>,
    /// Bytes of a datagram; 0 if they differ.
    pub packet_bytes: usize,
    /// Bytes of a frame, or of the part of one in a packet; 0 if there are no frames.
    pub frame_bytes: usize,
    /// Bytes of the frame's header.
    pub header_bytes: usize,
    /// Packets that a frame is cut into; the first has its header.
    pub parts: usize,
    /// The threads in the order of their ranks; a single one with number 0 if the format has none.
    pub threads: Vec<Thread>,
    /// Frames of one thread in a second.
    pub frames_per_second: Option<u32>,
    /// Station, if the header states it.
    pub station: Option<String>,
    /// Deviations from the standard.
    pub quirks: Vec<Quirk>,
    /// A Unix time within 500 days of the data, to complete dates.
    pub near: i64,
    /// The data that only its family has.
    pub own: Arc<dyn Particulars>,
}

/// Known properties of a stream, and how to place it.
#[derive(Clone, Debug)]
pub struct LearnOptions {
    /// The format, or [`Format::Auto`].
    pub format: Format,
    /// Which bytes of a datagram to keep.
    pub keep: Keep,
    /// How to place.
    pub place: Place,
    /// Frames of one thread per second; overrides the headers.
    pub frames_per_second: Option<u32>,
    /// The threads of a VDIF stream, in the order in which an object stores them.
    pub threads: Option<Vec<u16>>,
    /// Maximum size of an object, bytes.
    pub object_bytes: u64,
    /// A Unix time within 500 days of the data, to complete Mark 5B dates; usually now.
    pub near: i64,
}

/// Bytes kept of a packet.
pub(super) const HEAD: usize = 64;

/// The first bytes of an observed packet.
#[derive(Clone, Debug)]
pub struct Sample {
    pub(super) length: usize,
    pub(super) head: [u8; HEAD],
    pub(super) shape: Option<Shape>,
}

/// The shape of a single packet. Packets of the same shape vote for the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its family.
    pub family: FamilyRef,
    /// Bytes of the network format before the frame.
    pub network: usize,
    /// Bytes of the frame; 0 if packets of one stream differ.
    pub length: usize,
    /// Other properties that packets of one stream share, encoded by the family.
    pub variant: u8,
}

/// The packets of one shape from which a family learns.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Known properties, and how to place.
    pub options: &'a LearnOptions,
    /// Their common shape.
    pub shape: Shape,
    /// Their heads, in order of arrival.
    pub samples: &'a [&'a Sample],
}
