//! Where a payload belongs, or why it is rejected.
//!
//! Every packet of every format says where its bytes go. A [`Layout`] reads that from the packet's headers and returns a
//! [`Placement`]; no state is kept from packet to packet, so the order of arrival does not matter.
//!
//! ```text
//!   packet  ┌ network header ┬ frame ───────────────────────┐
//!                            ▲start          length         ▲
//!   object  ┌────────┬───────┴──────────────────────────────┴────┬──────┐
//!           0        offset                                             size
//! ```

pub mod rule;

/// Nanoseconds on whatever clock the caller uses. The core never reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// Time from `earlier` to `self`, zero if the clock stepped back.
    #[inline]
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self` later by `other`, without wrapping.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

/// Saturates at `u64::MAX`, 584 years.
impl From<core::time::Duration> for Nanos {
    #[inline]
    fn from(duration: core::time::Duration) -> Self {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Identifies an object: heap, event, message, or block of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The source, where several use the same numbers; 0 if there is only one.
    pub source: u64,
    /// Its number: heap counter, tick, or place in the stream. In an ordered stream it ascends with the stream's time.
    pub number: u64,
}

impl Key {
    /// The key of the object with this number where there is only one source.
    #[inline]
    #[must_use]
    pub fn of(number: u64) -> Key {
        Key { source: 0, number }
    }
}

/// Where one payload belongs, read from its packet alone.
///
/// A packet that is marked as the last of its object gives the size: `offset + length`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The object it is part of.
    pub key: Key,
    /// First byte of its place in the object.
    pub offset: u64,
    /// First byte of the payload in the packet.
    pub start: u32,
    /// Length of the payload. May be 0 for a keyed object: such a part only begins it, or states its size.
    pub length: u64,
    /// Size of the whole object in bytes, if the packet states it.
    pub size: Option<u64>,
    /// Bits of the object's number, so that a reused number is not mistaken for the old object; 0: it never wraps
    /// around.
    pub number_bits: u8,
}

impl Placement {
    /// Whether `next` continues the same object at `end`, where the parts joined so far, this one first, end.
    #[inline]
    #[must_use]
    pub fn goes_on(&self, next: &Placement, end: u64) -> bool {
        next.key == self.key
            && next.offset == end
            && (next.start, next.length, next.size) == (self.start, self.length, self.size)
    }
}

/// How a stream divides into objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Maximum size of an object in bytes.
    pub object_bytes: u64,
    /// Smallest part that is tracked on its own.
    pub grain: Grain,
}

/// How finely an object's parts are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// All parts are of this many bytes (frames): one bit each.
    Units(u32),
    /// Any byte range, with at most this many separate runs at a time.
    Bytes(u32),
}

/// Reads from a packet where it belongs. Pure: the same packet always gets the same result.
pub trait Layout {
    /// The place of `packet` (the datagram's payload).
    ///
    /// # Errors
    /// The reason for which the packet is rejected; the caller counts it.
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject>;

    /// How this stream divides into objects.
    fn geometry(&self) -> Geometry;

    /// Number of grains (frames) from the start of object `from` to the start of object `to` in stream order, if the
    /// layout knows it. Used to count objects that are missing entirely.
    fn units_between(&self, from: u64, to: u64) -> Option<u64>;
}

/// Declares an enum whose variants have names in reports and metrics: `Lost = "lost"`.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $enum:ident { $( $(#[$doc:meta])* $name:ident = $text:literal ),+ $(,)? }) => {
        $(#[$meta])*
        pub enum $enum { $( $(#[$doc])* $name ),+ }

        impl $enum {
            /// Every variant, in order of its number.
            pub const ALL: [$enum; [$( $text ),+].len()] = [$( $enum::$name ),+];

            /// Its name in reports and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( $enum::$name => $text ),+ }
            }
        }
    };
}

macro_rules! rejects {
    ($( $(#[$doc:meta])* $name:ident = $text:literal ),+ $(,)?) => {
        /// Why a packet was not placed. Each reason is a counter in every report, and each has a test.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reject { $( $(#[$doc])* $name ),+ }

        impl Reject {
            /// Every reason, in order of its number.
            pub const ALL: &'static [Reject] = &[$( Reject::$name ),+];
            /// Number of reasons.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name in reports and metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Reject::$name => $text ),+ }
            }
        }
    };
}

rejects! {
    /// Shorter than its headers, or than the length they state.
    Truncated = "truncated",
    /// Its length is not that of this stream's packets, or it states another size of its object than earlier packets.
    WrongSize = "wrong_size",
    /// A sync word or magic number that is not this format's.
    BadMagic = "bad_magic",
    /// An unsupported version or variant of the format.
    BadVersion = "bad_version",
    /// A field with a value that the format forbids (BCD digit, frame number, epoch, length).
    BadField = "bad_field",
    /// A checksum that does not match its header.
    BadChecksum = "bad_checksum",
    /// A thread (VDIF) or channel that is not part of this stream.
    UnknownThread = "unknown_thread",
    /// Half of a frame whose other half does not match.
    Unpaired = "unpaired",
    /// Its object was retired before it arrived.
    Late = "late",
    /// These bytes have already arrived.
    Duplicate = "duplicate",
    /// Overlaps bytes that have already arrived.
    Overlap = "overlap",
    /// Beyond the end of its object, or of any object.
    Outside = "outside",
    /// Far ahead of (or behind) the stream; followed only if the next packets agree.
    Stray = "stray",
    /// No free block.
    NoBuffer = "no_buffer",
    /// Would leave its object in more separate pieces than are tracked.
    Fragmented = "fragmented",
    /// Not the next part of its object, where parts are accepted in order only.
    OutOfOrder = "out_of_order",
    /// The first of its object and without a size, where the size is required.
    Unsized = "unsized",
    /// Before the requested start time.
    BeforeStart = "before_start",
    /// After the requested stop time.
    AfterStop = "after_stop",
    /// Part of a set (a frame of each thread, the halves of a frame) that was incomplete when the stream began or
    /// ended.
    PartialSet = "partial_set",
    /// From a sender beyond the number that this receiver may follow.
    TooManyStreams = "too_many_streams",
    /// Its sender, its station or its heap is not allowed.
    NotAllowed = "not_allowed",
    /// Its sender sent too few packets to be recognised as a stream.
    Unproven = "unproven",
    /// A heap or an event where frames are received.
    NotFrames = "not_frames",
    /// From a sender whose packets are not of a requested format.
    Unrecognised = "unrecognised",
}

/// One counter for each [`Reject`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejects([u64; Reject::COUNT]);

impl Rejects {
    /// Count one.
    #[inline]
    pub fn add(&mut self, reason: Reject) {
        self.add_many(reason, 1);
    }

    /// Count `n` packets.
    #[inline]
    pub fn add_many(&mut self, reason: Reject, n: u64) {
        self.0[reason as usize] += n;
    }

    /// The count of `reason`.
    #[must_use]
    pub fn get(&self, reason: Reject) -> u64 {
        self.0[reason as usize]
    }

    /// Add all of `other`'s counts.
    pub fn merge(&mut self, other: &Rejects) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// The reasons counted at least once, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reject, u64)> + '_ {
        Reject::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
