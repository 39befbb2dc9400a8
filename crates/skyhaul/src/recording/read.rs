//! A datastream as one stream of bytes, read ahead by a separate thread.
//!
//! ```text
//!   plan: chunks and gaps ─▶ thread: O_DIRECT reads, each chunk verified, then given ▶ few buffers ─▶ Read
//! ```
//!
//! Nothing is delivered before it is verified: a chunk stays in memory until its checksum is known. A chunk longer than
//! 512 MiB is read twice. Missing data, or data without a correct checksum under any name, are a [`Gap`]: an error,
//! skipped, or filled with frames marked invalid, as the caller chooses ([`Missing`]). Every gap is in [`Reader::gaps`],
//! and a stream without gaps is whole to its end.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use skyhaul_io::disk::read_buffers;
use skyhaul_io::memory::{ALIGN, Block};

use super::feed::Feeder;
use super::finding::{Finding, MOST_FINDINGS};
use super::gap::Gap;
use super::open::Recording;
use super::plan::{self, Step};

/// What to do about a missing, damaged or unverified chunk.
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
    /// What to do about gaps.
    pub missing: Missing,
    /// Bytes of one read.
    pub read_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, follow: false, missing: Missing::Refuse, read_bytes: 4 << 20 }
    }
}

/// Pieces read ahead of the consumer, besides those of the chunk being verified.
const AHEAD: usize = 7;
/// Longest chunk that is held in memory while it is verified, in bytes.
const MOST_HELD: u64 = 512 << 20;
/// Polling interval of an unlimited wait.
const LONG: Duration = Duration::from_secs(3600);
/// Maximum number of gaps kept; further ones are only counted.
const MOST_GAPS: usize = 100_000;

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
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) enum Data {
    Disk(Block, usize),
    Memory {
        bytes: Vec<u8>,
        #[expect(dead_code, reason = "counts the piece as long as it lives")]
        held: Held,
    },
}

/// Counts the pieces that are in no buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<()>);

impl Held {
    /// How many pieces hold it, besides its first owner.
    pub(super) fn pieces(&self) -> usize {
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
}

/// What a reader has next.
#[derive(Debug)]
pub enum Next {
    /// Bytes.
    Piece(Piece),
    /// Nothing arrived in the given time.
    NotYet,
    /// The end.
    End,
}

/// What a reader encountered besides data.
#[derive(Debug, Default)]
struct Met {
    gaps: Vec<Gap>,
    gaps_total: u64,
    notes: Vec<Finding>,
}

/// What a reader encounters, available at once to every holder of this.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Mutex<Met>>);

impl Account {
    fn met(&self) -> MutexGuard<'_, Met> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Findings without consequences: chunks under another name, files that are too long.
    #[must_use]
    pub fn notes_from(&self, from: usize) -> Vec<Finding> {
        self.met().notes.get(from..).unwrap_or_default().to_vec()
    }

    pub(super) fn add(&self, gap: Gap) {
        let mut met = self.met();
        met.gaps_total += 1;
        if met.gaps.len() < MOST_GAPS {
            met.gaps.push(gap);
        }
    }

    pub(super) fn note(&self, finding: Finding) {
        let mut met = self.met();
        if met.notes.len() < MOST_FINDINGS {
            met.notes.push(finding);
        }
    }
}

/// A gap that ended a stream ([`Missing::Refuse`]).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}\nhint: `skyhaul check` lists all damage; reading can continue if gaps are skipped or filled")]
pub struct Damaged(pub Gap);

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

impl Reader {
    pub(super) fn new(recording: &Recording, datastream: usize, options: &ReadOptions) -> io::Result<Reader> {
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
            lengths.filter(|&bytes| bytes <= MOST_HELD).max().max(nominal).unwrap_or(0).min(MOST_HELD);
        // Small chunks need no large buffers.
        let piece =
            options.read_bytes.clamp(ALIGN, 1 << 30).min((longest as usize).max(1)).next_multiple_of(ALIGN);
        let held = (longest as usize).div_ceil(piece);
        let buffers = read_buffers(held + AHEAD, piece)?;
        let (sender, pieces) = channel();
        let (account, from_memory, gone) = (Account::default(), Arc::default(), Arc::default());
        let feeder = Feeder {
            most_held: (held * piece) as u64,
            buffers,
            sender,
            options: *options,
            account: account.clone(),
            from_memory: Arc::clone(&from_memory),
            gone: Arc::clone(&gone),
            in_memory: Held::default(),
        };
        let feed = feeder.feed(recording.clone(), stream.name.clone(), about, steps);
        let thread = std::thread::Builder::new().name("read-ahead".into()).spawn(move || feed.run())?;
        Ok(Reader { pieces: Some(pieces), thread: Some(thread), current: None, account, from_memory, gone })
    }

    /// The next bytes in order, or `None` at the end.
    ///
    /// # Errors
    /// [`Damaged`] at the first gap, with [`Missing::Refuse`].
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            match self.next_within(LONG)? {
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

    /// What is encountered, now and later, even while the stream is read elsewhere.
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
