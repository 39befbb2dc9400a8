//! Recording heaps: in order of arrival, as packets one behind the other.
//!
//! ```text
//!   table ── Heap ──▶ HeapRecorder ── Chunk ──▶ Writer ──▶ disks
//!
//!   chunk 12   │ head 7 │ payload │ head 8 │ payload, up to a gap │ head 8 │ payload behind it │ head 9 │ payload …
//! ```
//!
//! A heap that has come whole is one packet; of one that has not, each range that came is a packet of its own. So a chunk
//! holds what came and nothing else, its heads prove it without an index, and whoever reads SPEAD reads the chunks one after
//! the other. A heap lies in one chunk if it fits; a larger one goes on in the next chunks, as further packets.
//!
//! The index says of each chunk which heaps begin in it, and what is missing in them ([`HeapsOf`]).
//!
//! Heaps are copied once more on their way, from the memory in which they were put together to that of the chunk: what is
//! missing, and how many item pointers a heap has, is known at its end only.
//!
//! Limits: when the disks take less than comes, heaps wait in the table's ring and memory, and the table counts what has no
//! room there.

use crate::awake::Awake;
use crate::frames;
use crate::receive::{ObjectSink, Received};
use crate::recording::{Chunk, ChunkMeta, DatastreamId, DatastreamInfo, HeapsOf, Refusal, Writer};
use crate::spead::receive::Heap;
use skyhaul_core::wire::Known;
use skyhaul_core::wire::spead::SpeadStream;
use skyhaul_core::wire::spead::stored::NewHead;
use skyhaul_io::memory::{Block, Pool};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a heap waits for memory that disks hold; then it is lost, and counted. A disk that hangs is given up before.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same behind a wait in vain, until memory comes: whoever gives heaps is not held up by each of them.
const IMPATIENCE: Duration = Duration::from_millis(10);
/// A piece of a heap that is smaller than this part of a block does not begin in its rest.
const LEAST_PART: usize = 4;

/// Writes heaps to disks.
#[derive(Debug)]
pub struct HeapRecorder {
    writer: Arc<Writer>,
    pool: Pool,
    flush: Duration,
    /// In the index since a heap came, or from the beginning.
    datastream: Option<DatastreamId>,
    /// Its flavour and sender are, too.
    described: bool,
    /// Number of the next chunk.
    next: u32,
    open: Option<Open>,
    /// Heaps for which the disks gave no memory back.
    lost: Arc<AtomicU64>,
    /// The last wait for memory was in vain.
    in_vain: bool,
    /// A pause of this program makes no disk slow.
    clock: Awake,
    head: Vec<u8>,
}

/// The chunk that is being filled.
#[derive(Debug)]
struct Open {
    block: Block,
    used: usize,
    begun: Instant,
    received_at: Option<i64>,
    heaps: HeapsOf,
}

impl HeapRecorder {
    /// A recorder of heaps, in chunks of one block of `pool`; one that is not full is written after `flush`.
    #[must_use]
    pub fn new(writer: Arc<Writer>, pool: Pool, flush: Duration) -> Self {
        Self {
            writer,
            pool,
            flush,
            datastream: None,
            described: false,
            next: 0,
            open: None,
            lost: Arc::default(),
            in_vain: false,
            clock: Awake::start(),
            head: Vec::new(),
        }
    }

    /// Be in the index from now on, so that readers may follow before a heap has come.
    #[must_use]
    pub fn announced(mut self) -> Self {
        self.datastream();
        self
    }

    fn datastream(&mut self) -> DatastreamId {
        let Self { writer, pool, .. } = self;
        let title = SpeadStream::FAMILY.title();
        *self.datastream.get_or_insert_with(|| writer.add_datastream(&info(title, None, pool.block_bytes())))
    }

    /// Heaps for which the disks gave no memory back, as they are counted.
    #[must_use]
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// Record a heap. Waits while all memory for chunks is on its way to the disks.
    pub fn take(&mut self, heap: &Heap) {
        self.look_at_clock();
        if !self.described {
            self.described = true;
            let bits = heap.flavour().address_bits();
            let (flavour, sender) = (format!("SPEAD-64-{bits}"), Some(heap.sender.to_string()));
            let info = info(&flavour, sender, self.pool.block_bytes());
            let datastream = self.datastream();
            self.writer.update_datastream(datastream, &info);
        }
        let came: Vec<_> = heap.present().collect();
        let pointers = heap.pointers();
        let heads = came.len().max(1) * NewHead::bytes(0) + 8 * pointers.len();
        let needed = came.iter().map(Range::len).sum::<usize>() + heads;
        let block = self.pool.block_bytes();
        if needed > self.room() && (needed <= block || self.room() < block / LEAST_PART) {
            self.seal();
        }
        if !self.begin() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Some(open) = &mut self.open {
            open.heaps.add(heap.number, &heap.missing);
        }
        let mut pointers = pointers;
        let nothing = std::iter::once(0..0).filter(|_| came.is_empty());
        for part in came.iter().cloned().chain(nothing) {
            if !self.part(heap, part, &mut pointers) {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Write a range of a heap, as one packet where the chunk has room for it. False if there is no memory.
    fn part(&mut self, heap: &Heap, part: Range<usize>, pointers: &mut &[u64]) -> bool {
        let mut at = part.start;
        loop {
            let least = NewHead::bytes(pointers.len().min(1)) + usize::from(at < part.end);
            if self.room() < least {
                self.seal();
                if !self.begin() {
                    return false;
                }
            }
            let Some(open) = &mut self.open else { return false };
            let room = open.block.len() - open.used - NewHead::bytes(0);
            let count = pointers.len().min(room / 8).min(NewHead::MOST);
            let (these, left) = pointers.split_at(count);
            // All pointers come before payload: so a packet with payload is the last that has any.
            let length = if left.is_empty() { (part.end - at).min(room - 8 * count) } else { 0 };
            self.head.clear();
            let head = NewHead {
                flavour: heap.flavour(),
                counter: heap.number,
                // A heap without payload is whole as soon as its size is known.
                size: heap.size.filter(|_| left.is_empty()),
                offset: at as u64,
                length: length as u64,
                pointers: these,
            };
            head.write(&mut self.head);
            open.block.place(open.used, &self.head);
            open.used += self.head.len();
            open.block.place(open.used, &heap.payload()[at..at + length]);
            open.used += length;
            *pointers = left;
            at += length;
            if left.is_empty() && at == part.end {
                return true;
            }
        }
    }

    /// Bytes left in the open chunk.
    fn room(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.block.len() - open.used)
    }

    /// Have a chunk open. False if there is no memory for one, and none comes free.
    fn begin(&mut self) -> bool {
        let begun = Instant::now();
        let patience = if self.in_vain { IMPATIENCE } else { PATIENCE };
        while self.open.is_none() {
            let Some(block) = self.pool.take() else {
                self.in_vain = begun.elapsed() >= patience;
                if self.in_vain {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
                self.look_at_clock();
                continue;
            };
            self.in_vain = false;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let received_at = i64::try_from(now.as_nanos()).ok();
            let heaps = HeapsOf::default();
            self.open = Some(Open { block, used: 0, begun: Instant::now(), received_at, heaps });
        }
        true
    }

    /// Give the open chunk to the disks, if there is one.
    fn seal(&mut self) {
        let Some(Open { block, used, received_at, heaps, .. }) = self.open.take() else { return };
        if used == 0 {
            return;
        }
        skyhaul_io::copy::fence();
        let meta = ChunkMeta {
            object: heaps.first().unwrap_or_default(),
            units: u32::try_from(heaps.count).unwrap_or(u32::MAX),
            received_at,
            heaps: Some(heaps),
            ..ChunkMeta::default()
        };
        let (datastream, number) = (self.datastream(), self.next);
        self.next += 1;
        let chunk = Chunk { datastream, number, block, range: 0..used, meta, finish: None };
        if let Err(refused) = self.writer.submit(chunk)
            && refused.reason != Refusal::NoDisk
        {
            self.writer.note("refused", &refused.to_string());
        }
    }

    /// Before anything is given to the disks, which are judged then.
    fn look_at_clock(&mut self) {
        if let Some(pause) = self.clock.turn() {
            self.writer.paused(pause);
        }
    }
}

impl ObjectSink for HeapRecorder {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        match object.object.downcast_ref::<Heap>() {
            Some(heap) => self.take(heap),
            None => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(())
    }

    /// Heaps that are in memory for long go to the disks.
    fn tick(&mut self) {
        self.look_at_clock();
        if self.open.as_ref().is_some_and(|open| open.begun.elapsed() >= self.flush) {
            self.seal();
        }
    }

    fn finished(&mut self) -> io::Result<()> {
        self.seal();
        Ok(())
    }
}

/// What the index says of the stream.
fn info(describe: &str, sender: Option<String>, chunk_bytes: usize) -> DatastreamInfo {
    let format = frames::described_packets(SpeadStream::FAMILY, describe);
    DatastreamInfo { sender, chunk_bytes: chunk_bytes as u64, format, ..DatastreamInfo::default() }
}

#[cfg(test)]
mod tests;
