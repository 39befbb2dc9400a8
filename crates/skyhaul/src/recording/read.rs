//! A datastream as one stream of bytes, read ahead by a thread of its own.
//!
//! ```text
//!   chunk files, in order, over all disks ─▶ thread: O_DIRECT reads, checksums ─▶ few buffers ─▶ Read
//! ```
//!
//! Missing chunks are skipped (the index says which; `check` counts them); a chunk that cannot be read, or does
//! not have its checksum, ends the stream with an error that names the file.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use skyhaul_io::disk::{Source, read_buffers};
use skyhaul_io::memory::{Block, Pool};

use super::follow::Follower;
use super::open::{ChunkEntry, Recording};
use super::record::ChunkRecord;

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Hold every chunk that has an index record against its checksum.
    pub verify: bool,
    /// Wait for chunks that are still to be recorded, until the recorder ends.
    pub follow: bool,
    /// Also read files that no index knows (all files, if there is no index).
    pub unacknowledged: bool,
    /// Bytes of one read.
    pub read_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, follow: false, unacknowledged: false, read_bytes: 4 << 20 }
    }
}

/// Pieces read ahead of the consumer.
const AHEAD: usize = 4;

/// Bytes of a chunk.
#[derive(Debug)]
pub struct Piece {
    /// The chunk's number.
    pub number: u32,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Disk(Block, usize),
    Memory(Vec<u8>),
}

impl Piece {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Disk(block, length) => &block[..*length],
            Data::Memory(bytes) => bytes,
        }
    }
}

/// The chunks to read, in order.
pub(super) enum Feed {
    /// All that there are.
    Fixed(std::vec::IntoIter<ChunkEntry>),
    /// As they come.
    Follow(Box<Follower>),
}

/// Reads a datastream: as `Read`, or piece by piece without a copy.
#[derive(Debug)]
pub struct Reader {
    pieces: Option<Receiver<io::Result<Piece>>>,
    thread: Option<JoinHandle<()>>,
    current: Option<(Piece, usize)>,
    from_memory: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Reader {
    pub(super) fn new(recording: &Recording, datastream: usize, options: &ReadOptions) -> io::Result<Reader> {
        let Some(stream) = recording.datastreams.get(datastream) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no datastream {datastream}")));
        };
        let feed = if options.follow {
            Feed::Follow(Box::new(Follower::new(recording, &stream.name)))
        } else {
            let all = options.unacknowledged || recording.indexes.is_empty();
            let chunks =
                stream.chunks.values().filter(|chunk| all && chunk.bytes.is_some() || chunk.record.is_some());
            Feed::Fixed(chunks.cloned().collect::<Vec<_>>().into_iter())
        };
        let buffers = read_buffers(AHEAD + 3, options.read_bytes)?;
        let (sender, pieces) = sync_channel(AHEAD);
        let from_memory = std::sync::Arc::default();
        let feeder = Feeder {
            buffers,
            sender,
            verify: options.verify,
            from_memory: std::sync::Arc::clone(&from_memory),
        };
        let thread = std::thread::Builder::new().name("read-ahead".into()).spawn(move || feeder.run(feed))?;
        Ok(Reader { pieces: Some(pieces), thread: Some(thread), current: None, from_memory })
    }

    /// The next bytes in order, or `None` at the end.
    ///
    /// # Errors
    /// A chunk cannot be read or does not have its checksum.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let Some(pieces) = &self.pieces else { return Ok(None) };
            match pieces.recv() {
                // A follower asks with nothing whether somebody still listens.
                Ok(Ok(piece)) if piece.bytes().is_empty() => {}
                Ok(Ok(piece)) => return Ok(Some(piece)),
                Ok(Err(error)) => {
                    self.pieces = None;
                    return Err(error);
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// Chunks that came from the recorder's memory and not from a disk.
    #[must_use]
    pub fn chunks_from_memory(&self) -> u64 {
        self.from_memory.load(std::sync::atomic::Ordering::Relaxed)
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
        (self.pieces, self.current) = (None, None);
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

/// The thread that reads ahead.
struct Feeder {
    buffers: Pool,
    sender: SyncSender<io::Result<Piece>>,
    verify: bool,
    from_memory: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

/// The consumer is gone.
struct Gone;

impl Feeder {
    fn run(self, mut feed: Feed) {
        loop {
            let chunk = match &mut feed {
                Feed::Fixed(chunks) => chunks.next(),
                Feed::Follow(follower) => follower.next(|| self.is_wanted()),
            };
            let Some(chunk) = chunk else { return };
            let memory = match (&mut feed, &chunk.record) {
                (Feed::Follow(follower), Some(record)) => follower.recall(record),
                _ => None,
            };
            let sent = match memory {
                Some(bytes) => {
                    self.from_memory.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    self.send(Ok(Piece { number: chunk.number, data: Data::Memory(bytes) }))
                }
                None => self.read_chunk(&chunk),
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// Whether the consumer is still there: asked while there is nothing to send, by an empty piece.
    fn is_wanted(&self) -> bool {
        use std::sync::mpsc::TrySendError;
        let nothing = Piece { number: 0, data: Data::Memory(Vec::new()) };
        !matches!(self.sender.try_send(Ok(nothing)), Err(TrySendError::Disconnected(_)))
    }

    fn send(&self, piece: io::Result<Piece>) -> Result<(), Gone> {
        self.sender.send(piece).map_err(|_| Gone)
    }

    fn read_chunk(&self, chunk: &ChunkEntry) -> Result<(), Gone> {
        let fail = |error: io::Error| {
            let _ =
                self.send(Err(io::Error::new(error.kind(), format!("{}: {error}", chunk.path.display()))));
            Err(Gone)
        };
        let source = match Source::open(&chunk.path) {
            Ok(source) => source,
            Err(error) => return fail(error),
        };
        let (mut at, mut crc) = (0, 0);
        while at < source.len() {
            // There are more buffers than pieces that can be under way.
            let Some(mut block) = self.buffers.take() else { return fail(io::ErrorKind::OutOfMemory.into()) };
            let length = match source.read(at, &mut block) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) => return fail(error),
            };
            if self.verify && chunk.record.is_some() {
                crc = crc32c::crc32c_append(crc, &block[..length]);
            }
            at += length as u64;
            self.send(Ok(Piece { number: chunk.number, data: Data::Disk(block, length) }))?;
        }
        match &chunk.record {
            Some(record) if self.verify => prove(record, at, crc).or_else(fail),
            _ => Ok(()),
        }
    }
}

fn prove(record: &ChunkRecord, bytes: u64, crc: u32) -> io::Result<()> {
    let text = if bytes != record.bytes {
        format!("it has {bytes} bytes, its index record says {}", record.bytes)
    } else if crc != record.crc32c {
        format!("its CRC-32C is {crc:08x}, its index record says {:08x}", record.crc32c)
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}
