//! Where a payload belongs, or why it does not.
//!
//! Every packet of every format Skyhaul carries says where its bytes go. A [`Layout`] reads that from the
//! packet's own headers and answers with a [`Placement`]; nothing is remembered from packet to packet, so the
//! order of arrival does not matter.
//!
//! ```text
//!   packet  ┌ network header ┬ frame ───────────────────────┐
//!                            ▲start          length         ▲
//!   object  ┌────────┬───────┴──────────────────────────────┴────┬──────┐
//!           0        offset                                             size
//! ```

/// Nanoseconds on whatever clock the caller uses. The core never reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// Time from `earlier` to `self`, zero if the clock stepped back.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self` later by `other`, without wrapping.
    #[must_use]
    pub fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

/// What makes an object that object and no other: heap, event, message, or block of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which of several sources that use the same numbers; 0 where there is one.
    pub source: u64,
    /// Its number: heap counter, tick, or place in the stream. In an ordered stream it ascends with the stream's time.
    pub number: u64,
}

impl Key {
    /// The key of the object with this number, of the one source there is.
    #[must_use]
    pub fn of(number: u64) -> Key {
        Key { source: 0, number }
    }
}

/// Where one payload belongs: said by the packet, never remembered by the receiver.
///
/// A packet that is marked as the last of its object says its size: `offset + length`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The object it is part of.
    pub key: Key,
    /// First byte of its place in the object.
    pub offset: u64,
    /// First byte in the packet that belongs into the object.
    pub start: u32,
    /// How many bytes belong there. May be 0 for a keyed object: such a part only begins it, or says its size.
    pub length: u64,
    /// Size of the whole object in bytes, where the packet says it.
    pub size: Option<u64>,
    /// Bits of the object's number, so that numbers that come round are not taken for old ones; 0: they never do.
    pub number_bits: u8,
}

impl Placement {
    /// Whether `next` goes on in the same object where what is put together so far, this one first, ends.
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
    /// Largest object in bytes.
    pub object_bytes: u64,
    /// Smallest part that is tracked on its own.
    pub grain: Grain,
}

/// How finely an object's parts are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// All parts are of this many bytes (frames): one bit each.
    Units(u32),
    /// Any byte range, at most this many separate runs at a time.
    Bytes(u32),
}

/// Reads a packet's own account of where it belongs. Pure: the same packet always gets the same answer.
pub trait Layout {
    /// The place of `packet` (the datagram's payload), or why it has none.
    ///
    /// # Errors
    /// The named reason, to be counted by the caller.
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject>;

    /// How this stream divides into objects.
    fn geometry(&self) -> Geometry;

    /// How many grains (frames) lie between the start of object `from` and the start of object `to` in stream order,
    /// where the layout knows. Used to count objects of which nothing arrived.
    fn units_between(&self, from: u64, to: u64) -> Option<u64>;
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
            /// How many reasons there are.
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
    /// Shorter than its headers, or than the length they claim.
    Truncated = "truncated",
    /// Not the length that this stream's packets have, or of another size of its object than those before it told.
    WrongSize = "wrong_size",
    /// A sync word or magic number that is not this format's.
    BadMagic = "bad_magic",
    /// A version or variant of the format that cannot be read.
    BadVersion = "bad_version",
    /// A field with a value that the format forbids (BCD digit, frame number, epoch, length).
    BadField = "bad_field",
    /// A checksum that does not match its header.
    BadChecksum = "bad_checksum",
    /// A thread (VDIF) or channel that is not part of this stream.
    UnknownThread = "unknown_thread",
    /// Half of a frame whose other half does not fit it.
    Unpaired = "unpaired",
    /// Its object was retired before it came.
    Late = "late",
    /// These bytes are already there.
    Duplicate = "duplicate",
    /// Partly over bytes that are already there.
    Overlap = "overlap",
    /// Beyond the end of its object, or of any object.
    Outside = "outside",
    /// Much further ahead (or back) than the stream is; followed only if the packets after it agree.
    Stray = "stray",
    /// No free block to put it into.
    NoBuffer = "no_buffer",
    /// In more separate pieces than are tracked.
    Fragmented = "fragmented",
    /// Not the part that comes next in its object, where only parts in order are accepted.
    OutOfOrder = "out_of_order",
    /// The first of an object of which it does not tell the size, where the size must be told.
    Unsized = "unsized",
    /// Of a time before the start that was asked for.
    BeforeStart = "before_start",
    /// Of a time after the stop that was asked for.
    AfterStop = "after_stop",
    /// Of a set (a frame of each thread, the halves of a frame) that was under way when the stream began or ended.
    PartialSet = "partial_set",
    /// From one sender more than this receiver may follow.
    TooManyStreams = "too_many_streams",
    /// Its sender, or its station, is none of those that are allowed.
    NotAllowed = "not_allowed",
    /// Its sender sent too few packets to be known as a stream.
    Unproven = "unproven",
    /// A heap or an event where frames are received.
    NotFrames = "not_frames",
    /// From a sender whose packets are of no format that was asked for.
    Unrecognised = "unrecognised",
}

/// One counter for each [`Reject`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejects([u64; Reject::COUNT]);

impl Rejects {
    /// Count one.
    pub fn add(&mut self, reason: Reject) {
        self.add_many(reason, 1);
    }

    /// Count `n` packets.
    #[inline]
    pub fn add_many(&mut self, reason: Reject, n: u64) {
        self.0[reason as usize] += n;
    }

    /// How often `reason` was counted.
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

    /// All that were counted at least once.
    pub fn iter(&self) -> impl Iterator<Item = (Reject, u64)> + '_ {
        Reject::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
