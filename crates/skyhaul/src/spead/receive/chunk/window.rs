//! The window of chunks being filled: its options, what `present` marks, and which stream may advance.
//!
//! ```text
//!            ┌─────── window ───────┐
//!   ready ◀──│ 40 │ 41 │ 43 │       │◀── a heap of 44: 40 is delivered
//!            └──────────────────────┘
//!   older: too old                   far beyond: stray, followed only if others agree
//! ```

use super::rule::{ChunkRule, HeapPlace};
use crate::receive::keyed::{Run, lock};
use skyhaul_core::placement::Reject;
use skyhaul_io::copy;
use skyhaul_io::memory::heap::HeapBytes;
use std::any::Any;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};

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
    /// Copy payloads of `each` bytes, which begin every `stride` bytes of `bytes`, side by side to offset `at`. Returns whether
    /// they fit; if they do not, some may have been copied.
    fn place_run(&mut self, at: usize, bytes: &[u8], stride: usize, each: usize) -> bool {
        let mut payloads = bytes.chunks(stride.max(1)).enumerate();
        payloads.all(|(n, payload)| self.place(at + n * each, &payload[..each.min(payload.len())]))
    }
    /// To get back the original object.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// [`ChunkBytes::place`] for memory that is not shared.
fn place(to: &mut [u8], at: usize, bytes: &[u8]) -> bool {
    place_run(to, at, bytes, bytes.len(), bytes.len())
}

/// [`ChunkBytes::place_run`] for memory that is not shared.
fn place_run(to: &mut [u8], at: usize, bytes: &[u8], stride: usize, each: usize) -> bool {
    let length = if bytes.len() == each { each } else { bytes.len().div_ceil(stride) * each };
    let to = at.checked_add(length).and_then(|end| to.get_mut(at..end));
    to.is_some_and(|to| {
        match bytes.len() == each {
            true => copy::place(to, bytes),
            false => copy::place_run(to, bytes, stride, each),
        }
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
    fn place_run(&mut self, at: usize, bytes: &[u8], stride: usize, each: usize) -> bool {
        place_run(self, at, bytes, stride, each)
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
    fn place_run(&mut self, at: usize, bytes: &[u8], stride: usize, each: usize) -> bool {
        place_run(self, at, bytes, stride, each)
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
    /// A byte for each heap: 1 if it is complete. Or one for each packet: 1 if it arrived
    /// ([`ChunkConfig::packet_presence`]).
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

/// The place of a heap in a chunk of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    serial: u64,
    index: u64,
    at: u64,
    /// Size of the heap.
    pub(super) bytes: u64,
}

/// See [the module](self).
pub(super) struct Window {
    live: VecDeque<Live>,
    free: Vec<Chunk>,
    /// Chunks that the user has added since.
    added: Arc<Mutex<Vec<Chunk>>>,
    pub(super) ready: VecDeque<Chunk>,
    size: ChunkWindow,
    eviction: Eviction,
    newest: Option<u64>,
    /// The newest chunk of each stream.
    positions: Vec<Position>,
    ahead: u64,
    /// Heaps far beyond the window, one behind the other. The packets of each ask for it, and it counts once.
    strays: Vec<(SocketAddr, u64)>,
    next: u64,
    presence: Presence,
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
const CONFIRMING_HEAPS: usize = 8;

impl Window {
    pub(super) fn new(config: &ChunkConfig, streams: usize, added: Arc<Mutex<Vec<Chunk>>>) -> Self {
        let &ChunkConfig { window: size, eviction, ahead, packet_presence, .. } = config;
        Self {
            live: VecDeque::new(),
            free: Vec::new(),
            added,
            ready: VecDeque::new(),
            size,
            eviction,
            newest: None,
            positions: vec![Position::None; streams],
            ahead,
            strays: Vec::with_capacity(CONFIRMING_HEAPS),
            next: 0,
            presence: Presence::of_packets(packet_presence),
            counts: ChunkCounts::default(),
            user: Vec::new(),
        }
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

    /// The place of a heap of `bytes`, known by its sender and number; its chunk is opened if necessary. Checks the whole place.
    pub(super) fn open(
        &mut self,
        stream: usize,
        heap: (SocketAddr, u64),
        place: &HeapPlace,
        bytes: u64,
    ) -> Result<Spot, Reject> {
        let id = u64::try_from(place.chunk).map_err(|_| Reject::BadField)?;
        let there = self.live.iter().position(|live| live.chunk.id == id);
        if there.is_none() {
            self.free.append(&mut lock(&self.added));
        }
        // A heap that has no place moves nothing.
        let like = there.map(|at| &self.live[at].chunk).or(self.free.last());
        if like
            .or(self.live.back().map(|live| &live.chunk))
            .is_some_and(|like| !self.fits(like, place, bytes))
        {
            return Err(Reject::Outside);
        }
        if let Some(newest) = self.newest {
            if id.saturating_add(self.most()) <= newest {
                return Err(Reject::Late);
            }
            if id > newest.saturating_add(self.ahead) && self.is_stray(heap) {
                return Err(Reject::Stray);
            }
        }
        let at = match there {
            Some(at) => at,
            None => self.begin(stream, id)?,
        };
        if !self.fits(&self.live[at].chunk, place, bytes) {
            return Err(Reject::Outside);
        }
        let live = &mut self.live[at];
        let serial = live.serial;
        let extra = usize::try_from(place.extra_at).ok();
        let extra = extra.and_then(|at| live.chunk.extra.get_mut(at..at.checked_add(place.extra_bytes)?));
        extra.ok_or(Reject::Outside)?.copy_from_slice(&place.extra[..place.extra_bytes]);
        self.strays.clear();
        self.positions[stream] = match self.positions[stream] {
            Position::At(before) => Position::At(before.max(id)),
            _ => Position::At(id),
        };
        Ok(Spot { serial, index: place.index, at: place.offset, bytes })
    }

    /// Whether a heap far beyond the window does not move it yet.
    fn is_stray(&mut self, heap: (SocketAddr, u64)) -> bool {
        if self.strays.len() < CONFIRMING_HEAPS && !self.strays.contains(&heap) {
            self.strays.push(heap);
        }
        self.strays.len() < CONFIRMING_HEAPS
    }

    /// Whether a heap of `bytes` has a place there.
    fn fits(&self, chunk: &Chunk, place: &HeapPlace, bytes: u64) -> bool {
        let marks = place.index.checked_add(self.presence.marks(bytes));
        let extra = place.extra_at.checked_add(place.extra_bytes as u64);
        place.offset.checked_add(bytes).is_some_and(|end| end <= chunk.data.size() as u64)
            && marks.is_some_and(|end| end <= chunk.present.len() as u64)
            && extra.is_some_and(|end| end <= chunk.extra.len() as u64)
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

    /// Write to a chunk that is still in the window, at this offset in a heap.
    pub(super) fn write(&mut self, heap: &Spot, offset: u64, run: &Run<'_>) -> Result<(), Reject> {
        let presence = self.presence;
        let chunk = self.find(heap.serial).ok_or(Reject::Late)?;
        let start = heap.at.saturating_add(offset);
        run.place(|before, series| {
            let to = usize::try_from(start.saturating_add(before)).map_err(|_| Reject::Outside)?;
            let is_placed = chunk.data.place_run(to, series.bytes, series.stride, series.payload);
            is_placed.then_some(()).ok_or(Reject::Outside)
        })?;
        let marks = presence.packets(offset, run.length(), heap.bytes);
        let marks = heap.index + marks.start..heap.index + marks.end;
        if let Some(present) = chunk.present.get_mut(marks.start as usize..marks.end as usize) {
            present.fill(1);
        }
        Ok(())
    }

    /// A heap is complete.
    pub(super) fn complete(&mut self, heap: &Spot) {
        let marks_heaps = self.presence.is_of_heaps();
        let Some(chunk) = self.find(heap.serial) else { return };
        let present = usize::try_from(heap.index).ok().and_then(|index| chunk.present.get_mut(index));
        match present {
            Some(present @ 0) if marks_heaps => *present = 1,
            Some(_) if !marks_heaps => {}
            _ => return,
        }
        chunk.heaps += 1;
        chunk.bytes += heap.bytes;
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

/// How chunks are filled.
#[derive(Clone, Debug)]
pub struct ChunkConfig {
    /// Where heaps are placed.
    pub rule: ChunkRule,
    /// Number of chunks filled at a time.
    pub window: ChunkWindow,
    /// A heap this many chunks beyond the newest does not move the window by itself.
    pub ahead: u64,
    /// Whether the streams of a group wait for each other.
    pub eviction: Eviction,
    /// Copied into every chunk.
    pub stream: u64,
    /// Payload bytes of a packet: `present` has a byte for each packet, and a rule's index is that of the heap's first.
    /// 0: it has a byte for each heap.
    pub packet_presence: u64,
}

impl ChunkConfig {
    /// A window of 2, 1024 chunks ahead, and streams that do not wait.
    #[must_use]
    pub fn new(rule: ChunkRule) -> Self {
        Self {
            rule,
            window: ChunkWindow::Count(2),
            ahead: 1024,
            eviction: Eviction::Lossy,
            stream: 0,
            packet_presence: 0,
        }
    }
}

/// What `present` marks: complete heaps, or the packets of a heap that arrived.
///
/// ```text
///   heap of 2500 bytes in packets of 1000        │ 1000 │ 1000 │ 500 │
///   marks, from the heap's index on                 1      0     1      the second packet is missing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Payload bytes of a packet; 0: a mark stands for a heap.
    unit: u64,
}

impl Presence {
    /// A mark for each packet with this payload; with 0, for each heap.
    #[must_use]
    pub fn of_packets(payload: u64) -> Self {
        Self { unit: payload }
    }

    /// Whether a mark stands for a heap.
    #[must_use]
    pub fn is_of_heaps(self) -> bool {
        self.unit == 0
    }

    /// Marks of a heap of `bytes`.
    #[must_use]
    pub fn marks(self, bytes: u64) -> u64 {
        if self.unit == 0 { 1 } else { bytes.div_ceil(self.unit) }
    }

    /// The packets of a heap of `bytes` that end with this part of it: a packet may come in several parts (TCP), in order.
    #[must_use]
    pub fn packets(self, offset: u64, length: u64, bytes: u64) -> Range<u64> {
        if self.unit == 0 || length == 0 {
            return 0..0;
        }
        let end = offset + length;
        let first = offset / self.unit;
        first..if end == bytes { bytes.div_ceil(self.unit) } else { (end / self.unit).max(first) }
    }
}

#[cfg(test)]
mod tests;
