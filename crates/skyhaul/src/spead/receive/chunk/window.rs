//! Chunks being filled, free chunks, and which stream may advance.
//!
//! ```text
//!            ┌─────── window ───────┐
//!   ready ◀──│ 40 │ 41 │ 43 │       │◀── a heap of 44: 40 is delivered
//!            └──────────────────────┘
//!   older: too old                   far beyond: stray, followed only if others agree
//! ```

use super::rule::Place;
use skyhaul_core::placement::Reject;
use skyhaul_io::copy;
use skyhaul_io::memory::heap::HeapBytes;
use std::any::Any;
use std::collections::VecDeque;

/// Memory of a chunk, provided by the user. Streams write it and never read it, because others may hold it, too.
pub trait ChunkBytes: Send {
    /// Its length in bytes.
    fn size(&self) -> usize;
    /// Its bytes, if nobody else can write to it.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
    /// Copy bytes to offset `at`, past the cache if that pays. Returns whether they fit. Called for every packet.
    fn place(&mut self, at: usize, bytes: &[u8]) -> bool;
    /// To get back the original object.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// [`ChunkBytes::place`] for memory that is not shared.
fn place(to: &mut [u8], at: usize, bytes: &[u8]) -> bool {
    let to = at.checked_add(bytes.len()).and_then(|end| to.get_mut(at..end));
    to.is_some_and(|to| {
        copy::place(to, bytes);
        true
    })
}

impl ChunkBytes for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
    fn place(&mut self, at: usize, bytes: &[u8]) -> bool {
        place(self, at, bytes)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ChunkBytes for HeapBytes {
    fn size(&self) -> usize {
        self.len()
    }
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
    fn place(&mut self, at: usize, bytes: &[u8]) -> bool {
        place(self, at, bytes)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Memory in which heaps are placed side by side.
pub struct Chunk {
    /// Its number.
    pub id: u64,
    /// The heaps. Where one is not present, the previous content.
    pub data: Box<dyn ChunkBytes>,
    /// A byte for each heap: 1 if it is complete.
    pub present: Vec<u8>,
    /// Data that the rule wrote for each heap.
    pub extra: Vec<u8>,
    /// The stream's or group's number, as configured.
    pub stream: u64,
    /// Number of complete heaps.
    pub heaps: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Chunk { id, data, heaps, bytes, .. } = self;
        let size = data.size();
        write!(f, "Chunk {{ id: {id}, size: {size}, heaps: {heaps}, bytes: {bytes} }}")
    }
}

impl Chunk {
    /// A chunk of this memory, for `heaps` heaps, with `extra` bytes for the rule.
    #[must_use]
    pub fn new(data: impl ChunkBytes + 'static, heaps: usize, extra: usize) -> Chunk {
        Chunk {
            id: 0,
            data: Box::new(data),
            present: vec![0; heaps],
            extra: vec![0; extra],
            stream: 0,
            heaps: 0,
            bytes: 0,
        }
    }
}

/// Which streams of a group wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// None: the stream that is ahead moves the window, and later heaps of other streams for older chunks are too old.
    #[default]
    Lossy,
    /// The stream that is ahead waits until the others have passed the oldest chunk (at most 10 s for each heap, so that a
    /// silent stream does not stop the others for ever).
    Lossless,
}

/// Number of chunks filled at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkWindow {
    /// This number.
    Count(usize),
    /// As many as fit into this number of bytes, at least one.
    Bytes(u64),
}

/// Counters of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts {
    /// Chunks delivered.
    pub chunks: u64,
    /// Heaps of chunks that had left the window. Counted with the packet that has a heap's first byte.
    pub too_old_heaps: u64,
    /// Heaps that the rule rejected, or that do not fit into their place; counted likewise.
    pub rejected_heaps: u64,
    /// Heaps that the rule's filter excludes; counted likewise.
    pub unwanted_heaps: u64,
    /// Heaps far beyond the window that did not move it.
    pub stray_heaps: u64,
    /// Times a heap found no free chunk, or had to wait for another stream.
    pub waits: u64,
    /// User-defined counters.
    pub user: Vec<(String, u64)>,
}

/// See [the module](self).
pub(super) struct Window {
    live: VecDeque<Live>,
    free: Vec<Chunk>,
    pub(super) ready: VecDeque<Chunk>,
    size: ChunkWindow,
    eviction: Eviction,
    newest: Option<u64>,
    /// The newest chunk of each stream.
    positions: Vec<Position>,
    ahead: u64,
    strays: u32,
    next: u64,
    stream: u64,
    pub(super) counts: ChunkCounts,
    pub(super) user: Vec<u64>,
}

struct Live {
    chunk: Chunk,
    /// Never reused.
    serial: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    None,
    At(u64),
    Ended,
}

/// Number of consecutive heaps that must agree before the window jumps far.
const CONFIRM: u32 = 8;

impl Window {
    pub(super) fn new(
        size: ChunkWindow,
        eviction: Eviction,
        streams: usize,
        ahead: u64,
        stream: u64,
    ) -> Self {
        Self {
            live: VecDeque::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            size,
            eviction,
            newest: None,
            positions: vec![Position::None; streams],
            ahead,
            strays: 0,
            next: 0,
            stream,
            counts: ChunkCounts::default(),
            user: Vec::new(),
        }
    }

    /// Add a chunk to fill.
    pub(super) fn add_free(&mut self, mut chunk: Chunk) {
        chunk.present.fill(0);
        (chunk.heaps, chunk.bytes, chunk.stream) = (0, 0, self.stream);
        self.free.push(chunk);
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    fn most(&self) -> u64 {
        match self.size {
            ChunkWindow::Count(count) => count.max(1) as u64,
            ChunkWindow::Bytes(bytes) => {
                let chunk = self.free.last().or(self.live.back().map(|live| &live.chunk));
                chunk.map_or(1, |chunk| (bytes / chunk.data.size().max(1) as u64).max(1))
            }
        }
    }

    /// The chunk for a heap of `bytes`, opened if necessary; checks the whole place.
    pub(super) fn open(&mut self, stream: usize, place: &Place, bytes: u64) -> Result<u64, Reject> {
        let id = u64::try_from(place.chunk).map_err(|_| Reject::BadField)?;
        if let Some(newest) = self.newest {
            if id.saturating_add(self.most()) <= newest {
                return Err(Reject::Late);
            }
            if id > newest.saturating_add(self.ahead) {
                self.strays += 1;
                if self.strays < CONFIRM {
                    return Err(Reject::Stray);
                }
            }
        }
        let at = match self.live.iter().position(|live| live.chunk.id == id) {
            Some(at) => at,
            None => self.begin(stream, id)?,
        };
        let live = &mut self.live[at];
        let end = place.offset.checked_add(bytes).ok_or(Reject::Outside)?;
        let extra = usize::try_from(place.extra_at).ok();
        let extra = extra.and_then(|at| live.chunk.extra.get_mut(at..at.checked_add(place.extra_bytes)?));
        let (Some(extra), true, true) =
            (extra, end <= live.chunk.data.size() as u64, place.index < live.chunk.present.len() as u64)
        else {
            return Err(Reject::Outside);
        };
        extra.copy_from_slice(&place.extra[..place.extra_bytes]);
        self.strays = 0;
        self.positions[stream] = match self.positions[stream] {
            Position::At(before) => Position::At(before.max(id)),
            _ => Position::At(id),
        };
        Ok(live.serial)
    }

    /// Open a new chunk in the window; chunks that are then too old leave it.
    fn begin(&mut self, stream: usize, id: u64) -> Result<usize, Reject> {
        let newest = self.newest.map_or(id, |newest| newest.max(id));
        let most = self.most();
        let leaves = |live: &Live| live.chunk.id.saturating_add(most) <= newest;
        if self.eviction == Eviction::Lossless {
            let passed = |of: usize, chunk: u64| match self.positions[of] {
                Position::None => of == stream,
                Position::At(at) => of == stream || at > chunk,
                Position::Ended => true,
            };
            let held = self.live.iter().filter(|live| leaves(live));
            for chunk in held.map(|live| live.chunk.id) {
                if !(0..self.positions.len()).all(|of| passed(of, chunk)) {
                    self.counts.waits += 1;
                    return Err(Reject::NoBuffer);
                }
            }
        }
        while self.live.front().is_some_and(leaves) {
            self.hand_on();
        }
        self.newest = Some(newest);
        let Some(mut chunk) = self.free.pop() else {
            self.counts.waits += 1;
            return Err(Reject::NoBuffer);
        };
        chunk.id = id;
        let at = self.live.iter().position(|live| live.chunk.id > id).unwrap_or(self.live.len());
        self.live.insert(at, Live { chunk, serial: self.next });
        self.next += 1;
        Ok(at)
    }

    /// The oldest chunk leaves the window.
    fn hand_on(&mut self) {
        if let Some(live) = self.live.pop_front() {
            self.counts.chunks += 1;
            self.ready.push_back(live.chunk);
        }
    }

    fn find(&mut self, serial: u64) -> Option<&mut Chunk> {
        self.live.iter_mut().find(|live| live.serial == serial).map(|live| &mut live.chunk)
    }

    /// Write to a chunk that is still in the window.
    pub(super) fn write(&mut self, serial: u64, at: u64, bytes: &[u8]) -> Result<(), Reject> {
        let chunk = self.find(serial).ok_or(Reject::Late)?;
        let start = usize::try_from(at).map_err(|_| Reject::Outside)?;
        if chunk.data.place(start, bytes) { Ok(()) } else { Err(Reject::Outside) }
    }

    /// A heap is complete.
    pub(super) fn complete(&mut self, serial: u64, index: u64, bytes: u64) {
        let Some(chunk) = self.find(serial) else { return };
        let present = usize::try_from(index).ok().and_then(|index| chunk.present.get_mut(index));
        if let Some(present @ 0) = present {
            *present = 1;
            chunk.heaps += 1;
            chunk.bytes += bytes;
        }
    }

    /// A stream has ended; with the last one, all chunks leave the window.
    pub(super) fn end(&mut self, stream: usize) {
        self.positions[stream] = Position::Ended;
        if self.positions.iter().all(|&position| position == Position::Ended) {
            while !self.live.is_empty() {
                self.hand_on();
            }
        }
    }
}
