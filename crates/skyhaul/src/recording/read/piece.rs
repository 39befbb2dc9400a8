//! What a reader delivers, and how: pieces of chunks in few buffers, and an account of gaps and filled frames.
//!
//! ```text
//!   read-ahead thread ── PieceSender ──▶ channel ──▶ Reader        a buffer returns when its piece is dropped
//!         └─ gaps, notes, frames filled and left out ──▶ Account   shared: complete as far as the thread has read
//! ```
//!
//! Where chunks are missing, frames marked invalid may take their place, so that a stream keeps its length and its time:
//!
//! ```text
//!   … A 17 B 17 │ A 18! B 18! A 19! B 19! … │ A 96 B 96 …      ! predicted from the frames before (or after) it
//! ```
//!
//! An index may claim anything, so fill is bounded by the largest possible chunks: see [`bounded`]. If frames cannot be predicted,
//! because the format is unknown or headers were stripped, the fill is 0x11223344 throughout.

use crate::frames;
use crate::recording::contents::Gap;
use crate::recording::index::record::Datastream;
use crate::recording::read::account::Account;
use crate::recording::verify::file::{Cutter, Seen, read_file};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::{FILL, Filler, Octets, StreamFormat};
use skyhaul_io::memory::{Block, Pool};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How a reader treats a missing, damaged or unverified chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// End the stream with an error there.
    #[default]
    Refuse,
    /// Skip it and continue.
    Skip,
    /// Deliver as many frames marked invalid in its place.
    Fill,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Deliver only verified chunks. Otherwise a damaged or unverified file is delivered as it is, and still reported as a
    /// gap.
    pub verify: bool,
    /// Wait for further chunks until the recorder ends.
    pub follow: bool,
    /// Treatment of gaps.
    pub missing: Missing,
    /// Bytes of one read.
    pub read_bytes: usize,
    /// If no chunk is longer than this, each is delivered as one piece.
    pub whole: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, follow: false, missing: Missing::Refuse, read_bytes: 4 << 20, whole: 0 }
    }
}

/// Unix second and frame number of a chunk's first and of its last frame, where they are known.
pub type Times = (Option<(i64, u32)>, Option<(i64, u32)>);

/// Bytes of a chunk.
#[derive(Debug)]
pub struct Piece {
    /// The chunk's number.
    pub number: u32,
    /// Generated in place of a missing chunk.
    pub filled: bool,
    /// The last piece of its chunk. (If a chunk is delivered while it is read, no piece may be marked.)
    pub last: bool,
    /// Start and end time of its chunk.
    pub times: Times,
    pub(in crate::recording) data: Data,
}

#[derive(Debug)]
pub(in crate::recording) enum Data {
    Disk(Block, usize),
    Memory {
        bytes: Vec<u8>,
        #[expect(dead_code, reason = "counts the piece as long as it lives")]
        held: Held,
    },
}

/// Counts the pieces that are in no buffer.
#[derive(Clone, Debug, Default)]
pub(in crate::recording) struct Held(Arc<()>);

impl Held {
    /// How many pieces hold it, besides its first owner.
    pub(in crate::recording) fn pieces(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl Piece {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Disk(block, length) => &block[..*length],
            Data::Memory { bytes, .. } => bytes,
        }
    }

    /// The bytes alone. A buffer of the reader stays in use until they are dropped.
    #[must_use]
    pub fn into_bytes(self) -> PieceBytes {
        PieceBytes(match self.data {
            Data::Disk(block, length) => Place::Buffer(block, length),
            Data::Memory { bytes, .. } => Place::Vec(bytes),
        })
    }
}

/// Bytes of a piece, where they are.
#[derive(Debug, Default)]
pub struct PieceBytes(Place);

#[derive(Debug)]
enum Place {
    Buffer(Block, usize),
    Vec(Vec<u8>),
}

impl Default for Place {
    fn default() -> Self {
        Self::Vec(Vec::new())
    }
}

impl PieceBytes {
    /// Number of buffers of the reader that owns this one; `None` if the bytes are in no buffer of a reader.
    #[must_use]
    pub fn buffers(&self) -> Option<usize> {
        match &self.0 {
            Place::Buffer(block, _) => Some(block.pool().blocks()),
            Place::Vec(_) => None,
        }
    }

    /// In no buffer of a reader: a copy, if they are in one.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Place::Buffer(block, length) => block[..length].to_vec(),
            Place::Vec(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for PieceBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Place::Vec(bytes))
    }
}

impl std::ops::Deref for PieceBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Buffer(block, length) => &block[..*length],
            Place::Vec(bytes) => bytes,
        }
    }
}

/// A gap that ended a stream ([`Missing::Refuse`]).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}{hint}", hint = Hint("`skyhaul check` lists all damage; reading can continue if gaps are skipped or filled"))]
pub struct Damaged(pub Gap);

/// Time between looks for a free buffer.
const BUFFER_POLL_INTERVAL: Duration = Duration::from_micros(300);

/// Pieces in no buffer that are ahead of the consumer.
const MAX_PIECES_IN_MEMORY: usize = 2;

/// Delivers pieces from the read-ahead thread: its buffers and its channel to the consumer.
#[derive(Debug)]
pub(super) struct PieceSender {
    pub(in crate::recording) buffers: Pool,
    /// Longer chunks are read twice.
    pub(in crate::recording) most_held: u64,
    pub(in crate::recording) channel: Sender<io::Result<Piece>>,
    pub(in crate::recording) options: ReadOptions,
    pub(in crate::recording) account: Account,
    pub(in crate::recording) from_memory: Arc<AtomicU64>,
    pub(in crate::recording) gone: Arc<AtomicBool>,
    /// Held by every piece that is in no buffer.
    pub(super) in_memory: Held,
}

/// The consumer was dropped, or received an error: there is nothing left to do.
pub(super) struct ConsumerGone;

pub(super) type Delivery = Result<(), ConsumerGone>;

/// A file that was read.
pub(super) struct Loaded {
    pub(in crate::recording) seen: Seen,
    /// Its bytes, where they are held.
    pub(in crate::recording) blocks: Vec<(Block, usize)>,
    pub(in crate::recording) held: bool,
}

impl PieceSender {
    pub(super) fn is_wanted(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    pub(in crate::recording) fn send(&self, piece: Piece) -> Delivery {
        self.channel.send(Ok(piece)).map_err(|_| ConsumerGone)
    }

    /// Bytes that are in no buffer: waits until the consumer has taken others.
    pub(super) fn in_memory(&self, number: u32, filled: bool, times: Times, bytes: Vec<u8>) -> Piece {
        while self.is_wanted() && self.in_memory.pieces() >= MAX_PIECES_IN_MEMORY {
            std::thread::sleep(BUFFER_POLL_INTERVAL);
        }
        let data = Data::Memory { bytes, held: self.in_memory.clone() };
        Piece { number, filled, last: true, times, data }
    }

    /// A buffer: waits until the consumer gives one back.
    pub(in crate::recording) fn buffer(&self) -> Option<Block> {
        while self.is_wanted() {
            if let Some(block) = self.buffers.take() {
                return Some(block);
            }
            std::thread::sleep(BUFFER_POLL_INTERVAL);
        }
        None
    }

    /// Read a file, and hold it if there is room.
    pub(in crate::recording) fn load(
        &self,
        place: (&Path, u64),
        most: u64,
        about: Option<&Datastream>,
    ) -> Loaded {
        let held = most <= self.most_held;
        let mut blocks = Vec::new();
        let seen = read_file(
            place,
            most,
            Cutter::of(about, false),
            || self.buffer(),
            |block, length| {
                if held {
                    blocks.push((block, length));
                }
            },
        );
        Loaded { seen, blocks, held }
    }
}

/// Bytes of fill in one piece.
const FILL_BYTES: usize = 4 << 20;

/// Maximum number of bytes kept for prediction, whatever an index says of threads and frames.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Longest file without a record that can be a chunk, in bytes.
pub(in crate::recording) const MAX_UNRECORDED_BYTES: u64 = 4 << 30;
/// Chunks that are filled in a row: terabytes, if they are of the usual size.
pub(super) const MAX_FILLED_CHUNKS: u32 = 10_000;

/// The `bytes` to fill in the place of `chunks`, if a stream of such chunks can have that many there.
///
/// # Errors
/// Why not: the index claims what no recorder wrote.
pub(in crate::recording) fn bounded(
    about: Option<&Datastream>,
    chunks: (u32, u32),
    bytes: u64,
) -> Result<u64, String> {
    let count = chunks.1.saturating_sub(chunks.0);
    if count > MAX_FILLED_CHUNKS {
        return Err(format!(
            "{count} chunks in a row are claimed, and at most {MAX_FILLED_CHUNKS} are filled"
        ));
    }
    let whole = about.map(|about| about.info.whole_chunk()).filter(|&bytes| bytes > 0);
    let longest = whole.unwrap_or(MAX_UNRECORDED_BYTES).min(MAX_UNRECORDED_BYTES);
    if bytes > u64::from(count).saturating_mul(longest) {
        return Err(format!("{bytes} bytes are claimed, and a chunk of this stream has at most {longest}"));
    }
    Ok(bytes)
}

/// Makes frames in place of missing chunks.
#[derive(Debug)]
pub(super) struct Filling {
    filler: Option<Filler>,
    unit: usize,
    /// The last frame of each thread, as they were given.
    last: Vec<u8>,
    group: usize,
}

impl Filling {
    pub(super) fn new(about: Option<&Datastream>) -> Filling {
        let bounded =
            |format: &StreamFormat| format.group().saturating_mul(format.packet_bytes) <= MAX_KEPT_BYTES;
        let format = about.and_then(frames::stream_format).filter(bounded);
        let unit = about.map_or(0, |about| about.info.unit_bytes as usize);
        let group = format.as_ref().map_or(1, StreamFormat::group);
        Filling { filler: format.map(Filler::new), unit, last: Vec::new(), group }
    }

    /// More is known of the stream by now: its frame rate.
    pub(super) fn know(&mut self, about: &Datastream) {
        let filler = Filling::new(Some(about)).filler;
        self.filler = filler.or(self.filler.take());
    }

    /// Bytes from which frames are predicted.
    pub(super) fn needed(&self) -> usize {
        if self.filler.is_some() { self.unit * self.group } else { 0 }
    }

    /// Remember the end of the delivered bytes: only the last [`Filling::needed`] count.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let needed = self.needed();
        self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(needed)..]);
        let surplus = self.last.len().saturating_sub(needed);
        self.last.drain(..surplus);
    }

    /// The last frames that were given, one of each thread; `None` if fewer were.
    pub(super) fn last(&self) -> Option<&[u8]> {
        Some(&self.last[..]).filter(|last| !last.is_empty() && last.len() == self.needed())
    }

    /// Fill the `missing` units of `bytes`.
    pub(super) fn among(&self, bytes: &mut [u8], missing: &[Range<u32>]) {
        match &self.filler {
            Some(filler) => drop(filler.fill(bytes, missing)),
            None => {
                for hole in missing {
                    let end = (hole.end as usize).saturating_mul(self.unit).min(bytes.len());
                    let hole = &mut bytes[(hole.start as usize).saturating_mul(self.unit).min(end)..end];
                    hole.iter_mut().zip(FILL.iter().cycle()).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// The last bytes that were given, at most as many as frames are predicted from.
    pub(super) fn before(&self) -> &[u8] {
        &self.last
    }

    /// Whether frames of known times can stand in a hole of so many bytes. If the frame rate is unknown, they can only between two frames of
    /// the same second; elsewhere their numbers would be those of times that do not exist.
    pub(super) fn can_number(&self, bytes: u64, behind: &Behind) -> bool {
        let Some(filler) = self.filler.as_ref().filter(|_| self.needed() > 0) else { return true };
        if filler.has_rate() {
            return self.last().is_some() || behind.bytes.len() >= self.needed();
        }
        let frames = bytes.saturating_add(behind.beyond) / self.needed() as u64;
        let next = behind.bytes.get(..self.unit).and_then(|unit| filler.second_of(unit));
        match self.last().and_then(|last| filler.second_of(last)) {
            Some(before) => next
                .is_some_and(|next| next.0 == before.0 && u64::from(before.1) + frames < u64::from(next.1)),
            None => next.is_some_and(|next| u64::from(next.1) >= frames),
        }
    }

    /// The next bytes of a hole; `left` of its bytes are still to come.
    pub(super) fn next(&mut self, left: u64, after: &Behind) -> Vec<u8> {
        let behind = &after.bytes[..];
        let needed = self.needed();
        let Some(filler) = self.filler.as_ref().filter(|_| needed > 0 && left >= self.unit as u64) else {
            return plain(left, self.unit);
        };
        if self.last.len() < needed {
            // Nothing is before it: the first frames are predicted from behind.
            let mut hole = FromBehind {
                first: vec![0; needed.min(usize::try_from(left).unwrap_or(usize::MAX))],
                length: usize::try_from(left.saturating_add(after.beyond))
                    .unwrap_or(usize::MAX)
                    .saturating_add(behind.len()),
                behind,
            };
            if hole.first.len() < needed || behind.len() < needed {
                return plain(left, self.unit);
            }
            filler.fill(&mut hole, &once(0..self.group as u32));
            let made = hole.first;
            self.keep(&made);
            return made;
        }
        let units = (FILL_BYTES / self.unit)
            .max(1)
            .min(usize::try_from(left / self.unit as u64).unwrap_or(usize::MAX));
        let mut made = self.last.clone();
        made.resize(needed + units * self.unit, 0);
        let end = behind.get(..self.unit).and_then(|unit| filler.second_of(unit));
        let bounded = end.filter(|_| !filler.has_rate()).map(|end| filler.within_second(end.1 + 1));
        let filler = bounded.as_ref().unwrap_or(filler);
        filler.fill(&mut made[..], &once(self.group as u32..(self.group + units) as u32));
        made.drain(..needed);
        let kept = made.clone();
        self.keep(&kept[kept.len().saturating_sub(needed)..]);
        made
    }
}

/// One range.
fn once(units: Range<u32>) -> [Range<u32>; 1] {
    [units]
}

/// Fill without prediction.
fn plain(left: u64, unit: usize) -> Vec<u8> {
    let most =
        FILL_BYTES.checked_div(unit).filter(|&units| units > 0).map_or(FILL_BYTES, |units| units * unit);
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(most);
    FILL.iter().copied().cycle().take(length).collect()
}

/// What is known behind a hole.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// The first bytes of the next chunk that has a file.
    pub(super) bytes: Vec<u8>,
    /// How many are missing between the hole and these.
    pub(super) beyond: u64,
}

/// A hole of which only the beginning is made, and the bytes after it.
struct FromBehind<'a> {
    first: Vec<u8>,
    length: usize,
    behind: &'a [u8],
}

impl Octets for FromBehind<'_> {
    fn length(&self) -> usize {
        self.length
    }
    fn read(&self, range: Range<usize>) -> &[u8] {
        let hole = self.length - self.behind.len();
        match range.start.checked_sub(hole) {
            Some(at) => self.behind.get(at..at + range.len()).unwrap_or_default(),
            None => &[],
        }
    }
    fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.first[range]
    }
}
