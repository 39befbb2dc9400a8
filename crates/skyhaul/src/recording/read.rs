//! A datastream as one stream of bytes, read ahead by a separate thread.
//!
//! ```text
//!   plan: chunks and gaps ─▶ thread: O_DIRECT reads, each chunk verified, then given ▶ few buffers ─▶ Read
//! ```
//!
//! A chunk is delivered only after it is verified: it stays in memory until its checksum is known. A chunk longer than
//! 512 MiB is read twice. Missing data, or data without a correct checksum under any name, are a [`Gap`]: an error,
//! skipped, or filled with frames marked invalid, as the caller chooses ([`Missing`](super::Missing)). Every gap is in
//! [`Reader::gaps`], and a stream without gaps is whole to its end.
//!
//! ```text
//!   read-ahead thread ── PieceSender ──▶ channel ──▶ Reader        a buffer returns when its piece is dropped
//!         └─ gaps, notes, frames filled and left out ──▶ Account   shared: complete as far as the thread has read
//! ```

pub(super) mod ahead;
pub(super) mod fill;
pub(super) mod follow;
pub(super) mod pieces;

use super::contents::{Finding, Gap, MAX_FINDINGS};
use super::index::record::Datastream;
use super::open::Recording;
use super::plan;
use super::plan::Step;
use super::verify::file::{Cutter, Seen, read_file};
use ahead::ReadAhead;
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::read_buffers;
use skyhaul_io::lock::lock;
use skyhaul_io::memory::{ALIGN, Block, Pool};
use std::io;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pieces read ahead of the consumer, besides those of the chunk being verified.
const PIECES_AHEAD: usize = 7;
/// Bytes of them, if each is a chunk.
const WHOLE_CHUNK_BYTES_AHEAD: usize = 64 << 20;
/// Longest chunk that is held in memory while it is verified, in bytes.
const MAX_HELD_BYTES: u64 = 512 << 20;
/// Polling interval of an unlimited wait.
const WAIT_INTERVAL: Duration = Duration::from_secs(3600);

/// The next result of a reader.
#[derive(Debug)]
pub enum Next {
    /// Bytes.
    Piece(Piece),
    /// Nothing arrived in the given time.
    NotYet,
    /// The end.
    End,
}

/// Reads a datastream: as `Read`, or piece by piece without a copy.
#[derive(Debug)]
pub struct Reader {
    pieces: Option<Receiver<io::Result<Piece>>>,
    thread: Option<JoinHandle<()>>,
    current: Option<(Piece, usize)>,
    account: Account,
    from_memory: Arc<AtomicU64>,
    gone: Arc<AtomicBool>,
}

impl Recording {
    /// The datastream with this place in `datastreams`, as a stream of bytes in chunk order.
    ///
    /// # Errors
    /// The datastream does not exist, or there is no memory to read into.
    pub fn reader(&self, datastream: usize, options: &ReadOptions) -> std::io::Result<Reader> {
        Reader::new(self, datastream, options)
    }
}

impl Reader {
    fn new(recording: &Recording, datastream: usize, options: &ReadOptions) -> io::Result<Reader> {
        Self::holding(MAX_HELD_BYTES, recording, datastream, options)
    }

    /// One that holds chunks of at most so many bytes while they are verified.
    pub(super) fn holding(
        most_held: u64,
        recording: &Recording,
        datastream: usize,
        options: &ReadOptions,
    ) -> io::Result<Reader> {
        let Some(stream) = recording.datastreams.get(datastream) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no datastream {datastream}")));
        };
        let about = recording.about(datastream);
        let steps = plan::steps(recording, stream, 0);
        // A record may claim any length: what is there bounds what is held.
        let lengths = steps.iter().filter_map(|step| match step {
            Step::Chunk { entry, .. } => {
                Some(entry.record.as_ref().map_or(u64::MAX, |record| record.bytes).min(entry.bytes?))
            }
            Step::Gap(_) | Step::Foreign(_) => None,
        });
        let nominal = about.as_ref().filter(|_| options.follow).map(|about| about.info.whole_chunk());
        let longest =
            lengths.filter(|&bytes| bytes <= most_held).max().max(nominal).unwrap_or(0).min(most_held);
        let is_whole = longest <= options.whole;
        let at_once = if is_whole { longest as usize } else { options.read_bytes };
        // Small chunks need no large buffers, and large buffers are few.
        let piece = at_once.clamp(ALIGN, 1 << 30).min((longest as usize).max(1)).next_multiple_of(ALIGN);
        let held = (longest as usize).div_ceil(piece);
        let ahead =
            if is_whole { (WHOLE_CHUNK_BYTES_AHEAD / piece).clamp(3, PIECES_AHEAD) } else { PIECES_AHEAD };
        let buffers = read_buffers(held + ahead, piece)?;
        let (to, pieces) = channel();
        let (account, from_memory, gone) = (Account::default(), Arc::default(), Arc::default());
        let sender = PieceSender {
            most_held: (held * piece) as u64,
            buffers,
            channel: to,
            options: *options,
            account: account.clone(),
            from_memory: Arc::clone(&from_memory),
            gone: Arc::clone(&gone),
            in_memory: Held::default(),
        };
        let ahead = ReadAhead::new(sender, recording.clone(), stream.name.clone(), about, steps);
        let thread = std::thread::Builder::new().name("read-ahead".into()).spawn(move || ahead.run())?;
        Ok(Reader { pieces: Some(pieces), thread: Some(thread), current: None, account, from_memory, gone })
    }

    /// The next bytes in order, or `None` at the end.
    ///
    /// # Errors
    /// [`Damaged`](super::Damaged) at the first gap, with [`Missing::Refuse`](super::Missing::Refuse).
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            match self.next_within(WAIT_INTERVAL)? {
                Next::Piece(piece) => return Ok(Some(piece)),
                Next::End => return Ok(None),
                Next::NotYet => {}
            }
        }
    }

    /// The next bytes in order, if they are available within `wait`.
    ///
    /// # Errors
    /// As [`Reader::next_piece`].
    pub fn next_within(&mut self, wait: Duration) -> io::Result<Next> {
        let Some(pieces) = &self.pieces else { return Ok(Next::End) };
        match pieces.recv_timeout(wait) {
            Ok(Ok(piece)) => Ok(Next::Piece(piece)),
            Ok(Err(error)) => {
                self.pieces = None;
                Err(error)
            }
            Err(RecvTimeoutError::Timeout) => Ok(Next::NotYet),
            Err(RecvTimeoutError::Disconnected) => self.ended(),
        }
    }

    /// The thread has ended: a stream that it did not finish must not look whole.
    fn ended(&mut self) -> io::Result<Next> {
        self.pieces = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(io::Error::other("the read-ahead thread panicked")),
            _ => Ok(Next::End),
        }
    }

    /// The account of gaps, which stays up to date while the stream is read elsewhere.
    #[must_use]
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// The gaps encountered so far; after the end, all of them. A stream without gaps was whole.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.account.gaps_from(0)
    }

    /// Chunks read from the recorder's memory and not from a disk.
    #[must_use]
    pub fn chunks_from_memory(&self) -> u64 {
        self.from_memory.load(Ordering::Relaxed)
    }
}

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((piece, at)) = &mut self.current {
                let left = &piece.bytes()[*at..];
                if !left.is_empty() || to.is_empty() {
                    let n = left.len().min(to.len());
                    to[..n].copy_from_slice(&left[..n]);
                    *at += n;
                    return Ok(n);
                }
            }
            self.current = self.next_piece()?.map(|piece| (piece, 0));
            if self.current.is_none() {
                return Ok(0);
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The thread ends when it finds nobody to give to.
        self.gone.store(true, Ordering::Release);
        (self.pieces, self.current) = (None, None);
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

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

/// Gaps, counts and notes of a reader.
#[derive(Debug, Default)]
struct Encountered {
    gaps: Vec<Gap>,
    gaps_total: u64,
    frames_filled: u64,
    frames_left_out: u64,
    notes: Vec<Finding>,
}

/// The gaps and counts of a reader, up to date for every holder of a clone.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Mutex<Encountered>>);

impl Account {
    fn met(&self) -> MutexGuard<'_, Encountered> {
        lock(&self.0)
    }

    /// The gaps encountered, from number `from` on (the first 100 000).
    #[must_use]
    pub fn gaps_from(&self, from: usize) -> Vec<Gap> {
        self.met().gaps.get(from..).unwrap_or_default().to_vec()
    }

    /// Number of gaps encountered.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.met().gaps_total
    }

    /// Frames marked invalid that were made in the place of missing ones.
    #[must_use]
    pub fn frames_filled(&self) -> u64 {
        self.met().frames_filled
    }

    /// Missing frames for which nothing is delivered, as far as their number is known.
    #[must_use]
    pub fn frames_left_out(&self) -> u64 {
        self.met().frames_left_out
    }

    fn add_frames(&self, filled: u64, left_out: u64) {
        let mut met = self.met();
        met.frames_filled = met.frames_filled.saturating_add(filled);
        met.frames_left_out = met.frames_left_out.saturating_add(left_out);
    }

    /// Findings without consequences: chunks under another name, files that are too long.
    #[must_use]
    pub fn notes_from(&self, from: usize) -> Vec<Finding> {
        self.met().notes.get(from..).unwrap_or_default().to_vec()
    }

    pub(in crate::recording) fn add(&self, gap: Gap) {
        let mut met = self.met();
        met.gaps_total += 1;
        if met.gaps.len() < MAX_GAPS {
            met.gaps.push(gap);
        }
    }

    pub(in crate::recording) fn note(&self, finding: Finding) {
        let mut met = self.met();
        if met.notes.len() < MAX_FINDINGS {
            met.notes.push(finding);
        }
    }
}

/// A gap that ended a stream ([`Missing::Refuse`]).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}{hint}", hint = Hint("`skyhaul check` lists all damage; reading can continue if gaps are skipped or filled"))]
pub struct Damaged(pub Gap);

/// Maximum number of gaps kept; further ones are only counted.
const MAX_GAPS: usize = 100_000;

/// Time between looks for a free buffer.
const BUFFER_POLL_INTERVAL: Duration = Duration::from_micros(300);

/// Pieces in no buffer that are ahead of the consumer.
const MAX_PIECES_IN_MEMORY: usize = 2;

/// Delivers pieces from the read-ahead thread: its buffers and its channel to the consumer.
#[derive(Debug)]
struct PieceSender {
    pub(in crate::recording) buffers: Pool,
    /// Longer chunks are read twice.
    pub(in crate::recording) most_held: u64,
    pub(in crate::recording) channel: Sender<io::Result<Piece>>,
    pub(in crate::recording) options: ReadOptions,
    pub(in crate::recording) account: Account,
    pub(in crate::recording) from_memory: Arc<AtomicU64>,
    pub(in crate::recording) gone: Arc<AtomicBool>,
    /// Held by every piece that is in no buffer.
    in_memory: Held,
}

/// The consumer was dropped, or received an error: there is nothing left to do.
struct ConsumerGone;

type Delivery = Result<(), ConsumerGone>;

/// A file that was read.
struct Loaded {
    pub(in crate::recording) seen: Seen,
    /// Its bytes, where they are held.
    pub(in crate::recording) blocks: Vec<(Block, usize)>,
    pub(in crate::recording) held: bool,
}

impl PieceSender {
    fn is_wanted(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    pub(in crate::recording) fn send(&self, piece: Piece) -> Delivery {
        self.channel.send(Ok(piece)).map_err(|_| ConsumerGone)
    }

    /// Bytes that are in no buffer: waits until the consumer has taken others.
    fn in_memory(&self, number: u32, filled: bool, times: Times, bytes: Vec<u8>) -> Piece {
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
