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

pub(super) mod account;
pub(super) mod ahead;
pub(super) mod follow;
pub(super) mod piece;
pub(super) mod pieces;
pub(super) mod range;
pub(super) mod unit;

use crate::recording::contents::Gap;
use crate::recording::open::Recording;
use crate::recording::plan::{self, Step};
use crate::recording::read::account::Account;
use crate::recording::read::ahead::ReadAhead;
use crate::recording::read::piece::{Held, Piece, PieceSender, ReadOptions};
use skyhaul_io::disk::read_buffers;
use skyhaul_io::memory::ALIGN;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
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
