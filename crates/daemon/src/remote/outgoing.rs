//! Files and recordings as bodies: large pieces, read by threads that wait for disks, sent by those of connections.
//!
//! ```text
//!   thread:      read 1 ─────▶ read 2 ──────▶ read 3        one piece is read while the one before it is sent
//!   connection:         send 1 ──────▶ send 2 ──────▶
//! ```
//!
//! No thread is held while a client is slow: each piece is a job of its own. The memory of all pieces has one limit; a body that finds none
//! takes smaller pieces, and then waits.

use axum::body::{Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use skyhaul::io::disk::read_at_in_turn;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::recording::{RangePiece, RangeReader};
use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Sleep, sleep};

/// Bytes of a piece, and of one when memory is short.
const PIECE_BYTES: [usize; 2] = [1 << 20, 64 << 10];
/// What is no longer than this is sent in one piece from memory of its own.
pub(crate) const MAX_AT_ONCE_BYTES: u64 = 64 << 10;
/// Pieces of a recording that may be held at a time: two that are sent, and one that was read ahead.
pub(crate) const HELD_PIECES: usize = 3;
/// How long a body waits before it asks for memory again.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Where bytes come from.
pub(crate) enum Source {
    File(Arc<File>),
    Recording(Box<RangeReader>),
}

/// A part of a body.
pub(crate) enum Part {
    Text(Bytes),
    /// Bytes of the object.
    Range(Range<u64>),
}

impl Part {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Range(range) => range.end - range.start,
        }
    }
}

/// Reads the parts of a body in order.
pub(crate) struct BodyReader {
    source: Source,
    parts: VecDeque<Part>,
    memory: HeapMemory,
    /// Where in a recording the next byte is.
    at: Option<u64>,
}

/// What a read gave.
enum Read {
    Bytes(Bytes),
    NoMemory,
    End,
}

impl BodyReader {
    pub(crate) fn new(source: Source, parts: VecDeque<Part>, memory: &HeapMemory) -> Self {
        Self { source, parts, memory: memory.clone(), at: None }
    }

    /// The next bytes, and it waits for memory; `None` at the end, or when `stop` is set.
    pub(crate) fn next_waiting(&mut self, stop: &AtomicBool) -> io::Result<Option<Bytes>> {
        while !stop.load(Ordering::Relaxed) {
            match self.next()? {
                Read::Bytes(bytes) => return Ok(Some(bytes)),
                Read::End => return Ok(None),
                Read::NoMemory => std::thread::sleep(MEMORY_POLL_INTERVAL),
            }
        }
        Ok(None)
    }

    fn next(&mut self) -> io::Result<Read> {
        loop {
            let range = match self.parts.front_mut() {
                None => return Ok(Read::End),
                Some(Part::Range(range)) if !range.is_empty() => range,
                Some(Part::Range(_)) => {
                    self.parts.pop_front();
                    continue;
                }
                Some(Part::Text(text)) => {
                    let text = std::mem::take(text);
                    self.parts.pop_front();
                    return Ok(Read::Bytes(text));
                }
            };
            let read = match &mut self.source {
                Source::File(file) => read_file(file, range, &self.memory)?,
                Source::Recording(reader) => read_recording(reader, range, &mut self.at)?,
            };
            if let Read::Bytes(bytes) = &read {
                range.start += bytes.len() as u64;
            }
            return Ok(read);
        }
    }
}

/// The error of a file that ends before its body does.
pub(crate) fn too_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
}

fn read_file(file: &File, range: &Range<u64>, memory: &HeapMemory) -> io::Result<Read> {
    let left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let Some(mut block) = PIECE_BYTES.iter().find_map(|most| memory.take(left.min(*most))) else {
        return Ok(Read::NoMemory);
    };
    let mut filled = 0;
    while filled < block.len() {
        match read_at_in_turn(file, &mut block[filled..], range.start + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if filled == 0 {
        return Err(too_short());
    }
    // The rest of the block has the bytes of another file.
    block.set_len(filled);
    Ok(Read::Bytes(Bytes::from_owner(block)))
}

fn read_recording(reader: &mut RangeReader, range: &Range<u64>, at: &mut Option<u64>) -> io::Result<Read> {
    if *at != Some(range.start) {
        reader.seek(range.start, range.end);
    }
    let piece = match reader.next_piece() {
        Ok(Some(piece)) => piece,
        Ok(None) => return Err(too_short()),
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            *at = Some(range.start);
            return Ok(Read::NoMemory);
        }
        Err(error) => return Err(error),
    };
    let bytes = match piece {
        RangePiece::Data(view) => Bytes::from_owner(view),
        RangePiece::Fill(bytes) => Bytes::from(bytes),
    };
    let end = range.start + bytes.len() as u64;
    // The next range may begin here and end elsewhere.
    *at = (end < range.end).then_some(end);
    Ok(Read::Bytes(bytes))
}

type Reading = JoinHandle<(BodyReader, io::Result<Read>)>;

enum State {
    Reading(Reading),
    /// For memory.
    Waiting(Pin<Box<Sleep>>, BodyReader),
    Over,
}

/// A body that is sent.
pub(crate) struct FileBody {
    state: State,
    left: u64,
    taken: Box<dyn Fn() + Send + Sync>,
}

impl FileBody {
    /// Of so many bytes. `taken` is called for each piece that is taken, and dropped with the body.
    pub(crate) fn new(reader: BodyReader, bytes: u64, taken: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: State::Reading(read(reader)), left: bytes, taken: Box::new(taken) }
    }
}

fn read(mut reader: BodyReader) -> Reading {
    spawn_blocking(move || {
        let read = reader.next();
        (reader, read)
    })
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Waiting(sleep, _) => {
                    ready!(sleep.as_mut().poll(context));
                    if let State::Waiting(_, reader) = std::mem::replace(&mut self.state, State::Over) {
                        self.state = State::Reading(read(reader));
                    }
                }
                State::Reading(reading) => {
                    let done = ready!(Pin::new(reading).poll(context));
                    self.state = State::Over;
                    let (reader, done) = done.map_err(io::Error::other)?;
                    match done {
                        Err(error) => return Poll::Ready(Some(Err(error))),
                        Ok(Read::End) => {}
                        Ok(Read::NoMemory) => {
                            self.state = State::Waiting(Box::pin(sleep(MEMORY_POLL_INTERVAL)), reader);
                        }
                        Ok(Read::Bytes(bytes)) => {
                            self.left = self.left.saturating_sub(bytes.len() as u64);
                            if self.left > 0 {
                                self.state = State::Reading(read(reader));
                            }
                            (self.taken)();
                            return Poll::Ready(Some(Ok(Frame::data(bytes))));
                        }
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
