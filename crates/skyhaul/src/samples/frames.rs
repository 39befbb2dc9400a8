//! The header of a frame (time, thread, validity), and buffers that are reused.

use crate::recording::OpenPiece;
use skyhaul_core::samples::Coded;
use skyhaul_core::wire::{Expected, FILL, Field, FrameTime, Frames, StreamFormat};
use skyhaul_io::lock::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes that hold the header of any frame, and what precedes it.
pub(super) const HEAD: usize = 128;

/// Frames of one recording that are next to each other are seldom further apart.
pub(super) const NEAR_SECONDS: i64 = 3600;
/// Frame numbers of neighbours differ by no more.
const NEIGHBOURS: u32 = 4096;

/// Words by which fill without a header is known: those of the longest header.
const FILL_WORDS: usize = 8;

/// Seconds that are added to the clock of a thread.
fn shift(format: &StreamFormat, thread: u16) -> i64 {
    format.threads.iter().find(|known| known.id == thread).map_or(0, |known| known.shift)
}

/// Reads the headers of one stream.
pub(super) struct FrameReader {
    format: StreamFormat,
    frames: &'static dyn Frames,
    expected: Expected,
    /// How all its frames are written.
    coded: Coded,
    /// Bytes of a unit before the frame.
    at: usize,
    pub(super) unit: usize,
    fps: i64,
    /// Rank of each thread that is wanted.
    ranks: Vec<Option<u16>>,
    /// By rank: the thread's clock is wrong, and its times are repaired.
    shifted: Vec<bool>,
    repaired: AtomicU64,
    /// One more than a frame number that shows that the rate is wrong; 0 without one.
    disproof: AtomicU32,
}

impl std::fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameReader").field("coded", &self.coded).field("unit", &self.unit).finish()
    }
}

/// A frame that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its number since 1970.
    pub(super) number: i64,
    /// Rank of its thread.
    pub(super) rank: usize,
    /// Whether its samples are valid.
    pub(super) valid: bool,
}

/// A whole unit, as a reader of these threads sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A frame of a wanted thread.
    Wanted(Seen),
    /// A valid frame of another thread, or with a number that no second has.
    Other,
    /// What stands for a frame that is missing, with or without a header.
    Fill,
}

impl FrameReader {
    /// `None` if frames of this stream hold no header.
    pub(super) fn new(format: &StreamFormat, coded: Coded, fps: u32, threads: &[u16]) -> Option<Self> {
        let at = format.header_at()?;
        let highest = threads.iter().copied().max().unwrap_or_default();
        let mut ranks = vec![None; usize::from(highest) + 1];
        for (rank, &thread) in (0..).zip(threads) {
            ranks[usize::from(thread)] = Some(rank);
        }
        Some(Self {
            frames: format.family.frames()?,
            expected: Expected {
                frame_bytes: format.frame_bytes,
                near: format.near,
                fps: Some(fps),
                pattern: false,
            },
            coded,
            at,
            unit: format.unit_bytes(),
            fps: i64::from(fps),
            ranks,
            shifted: threads.iter().map(|thread| shift(format, *thread) != 0).collect(),
            repaired: AtomicU64::new(0),
            disproof: AtomicU32::new(0),
            format: format.clone(),
        })
    }

    /// The number of the frame whose unit begins with `head`, if that is a header.
    pub(super) fn number(&self, head: &[u8]) -> Option<i64> {
        if !self.format.own.has_header(&self.format, head.get(self.at..)?) {
            return None;
        }
        let time = self.format.frame_time(head)?;
        time.unix_seconds.checked_mul(self.fps)?.checked_add(i64::from(time.frame))
    }

    /// Whether frames with these numbers may be neighbours, with some lost between them.
    pub(super) fn are_near(&self, one: i64, other: i64) -> bool {
        one.abs_diff(other) <= (self.fps * NEAR_SECONDS).unsigned_abs()
    }

    /// A frame of this thread is used, with its time repaired where the thread's clock is wrong.
    pub(super) fn count_used(&self, rank: usize) {
        if self.shifted.get(rank) == Some(&true) {
            self.repaired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Frames that were used with a repaired time.
    pub(super) fn repaired(&self) -> u64 {
        self.repaired.load(Ordering::Relaxed)
    }

    /// A unit that cannot be used is one of this stream but for its frame number, which the rate does not allow.
    pub(super) fn beyond(&self, unit: &[u8]) -> Option<FrameTime> {
        let time = self.format.frame_time(unit).filter(|time| i64::from(time.frame) >= self.fps)?;
        let frame = unit.get(self.at..)?;
        let legal = self.frames.coded(frame)? == self.coded;
        (legal && self.frames.see(frame, &self.expected).illegal.is_none()).then_some(time)
    }

    /// Two such frames that are neighbours disprove the rate; one alone may be damaged.
    pub(super) fn disprove(&self, one: FrameTime, other: FrameTime) {
        if one.unix_seconds == other.unix_seconds && one.frame.abs_diff(other.frame) <= NEIGHBOURS {
            self.disproof.fetch_max(one.frame.max(other.frame).saturating_add(1), Ordering::Relaxed);
        }
    }

    /// A frame number that shows that the rate is wrong.
    pub(super) fn disproof(&self) -> Option<u32> {
        self.disproof.load(Ordering::Relaxed).checked_sub(1)
    }

    /// A whole unit; `None` if it is no frame of this stream, or of a thread that is not wanted.
    pub(super) fn see(&self, unit: &[u8]) -> Option<Seen> {
        match self.unit(unit) {
            Some(Unit::Wanted(seen)) => Some(seen),
            _ => None,
        }
    }

    /// What a whole unit is; `None` if it is no frame of this stream.
    pub(super) fn unit(&self, unit: &[u8]) -> Option<Unit> {
        let frame = unit.get(self.at..)?;
        // Fill without a header has no place of its own.
        if frame.chunks_exact(FILL.len()).take(FILL_WORDS).all(|word| word == FILL) {
            return Some(Unit::Fill);
        }
        let coded = self.frames.coded(frame)?;
        let seen = self.frames.see(frame, &self.expected);
        if seen.illegal.is_some() {
            return None;
        }
        let time = self.format.frame_time(unit)?;
        let rank = self.ranks.get(usize::from(time.thread)).copied().flatten();
        // Another thread may be written in another way.
        if rank.is_some() && coded != self.coded {
            return None;
        }
        let Some(rank) = rank.filter(|_| i64::from(time.frame) < self.fps) else {
            return Some(if seen.filled { Unit::Fill } else { Unit::Other });
        };
        let number = time.unix_seconds.checked_mul(self.fps)?.checked_add(i64::from(time.frame))?;
        Some(Unit::Wanted(Seen { number, rank: usize::from(rank), valid: !seen.filled }))
    }

    /// The channels of a unit that its header marks as invalid, of so many.
    pub(super) fn invalid_channels(&self, unit: &[u8], channels: u32) -> impl Iterator<Item = u32> {
        let frame = unit.get(self.at..).unwrap_or_default();
        let asked = if self.coded.by_channel { channels } else { 0 };
        (0..asked).filter(move |&channel| !self.frames.channel_is_valid(frame, channel))
    }

    /// The fields of a unit's header, each with the bytes before its table.
    pub(super) fn fields(&self, unit: &[u8]) -> Vec<(usize, &'static Field)> {
        let tables = self.frames.tables(unit.get(self.at..).unwrap_or_default());
        tables
            .into_iter()
            .flat_map(|(at, fields)| fields.iter().map(move |field| (self.at + at, field)))
            .collect()
    }

    /// Whether the header of a unit says that its samples are valid.
    pub(super) fn is_valid(&self, unit: &[u8]) -> bool {
        self.see(unit).is_some_and(|seen| seen.valid)
    }

    /// The payload of a unit.
    pub(super) fn payload<'a>(&self, unit: &'a [u8]) -> &'a [u8] {
        unit.get(self.at + self.coded.header..).unwrap_or_default()
    }
}

/// So many are kept for the next reads.
const MAX_BUFFERS: usize = 16;

/// What a worker needs while it reads.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Whole units, as read, and how many bytes of it are in use.
    pub(super) units: Vec<u8>,
    pub(super) used: usize,
    /// For each frame, for each thread: where in `units` it is.
    pub(super) places: Vec<Option<usize>>,
    /// How many of these are nowhere.
    pub(super) missing: usize,
    /// The piece that was read last, by its number.
    pub(super) open: Option<(usize, OpenPiece)>,
}

impl Scratch {
    /// Frames that have a place.
    pub(super) fn placed(&self) -> u64 {
        (self.places.len() - self.missing) as u64
    }
}

/// What earlier reads have left.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<Scratch>>);

impl Kept {
    pub(super) fn take(&self) -> Scratch {
        lock(&self.0).pop().unwrap_or_default()
    }

    pub(super) fn put(&self, scratch: Scratch) {
        let mut kept = lock(&self.0);
        if kept.len() < MAX_BUFFERS {
            kept.push(scratch);
        }
    }
}
