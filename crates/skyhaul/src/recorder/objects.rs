//! Recording heaps in order of arrival, as consecutive packets.
//!
//! ```text
//!   table ── object ──▶ ObjectRecorder ── Chunk ──▶ Writer ──▶ disks
//!
//!   chunk 12   │ head 7 │ payload │ head 8 │ payload, up to a gap │ head 8 │ payload after it │ head 9 │ payload …
//! ```
//!
//! A complete heap is one packet; of an incomplete one, each received range is a separate packet. So a chunk contains
//! exactly the received data, its heads verify it without an index, and programs that read the format can read
//! consecutive chunks. A heap is in one chunk if it fits; a larger one continues in the next chunks, as further packets.
//! Its family writes the heads ([`Keyed::store`](skyhaul_core::wire::keyed::Keyed::store)).
//!
//! The index lists for each chunk the heaps that begin in it, their missing ranges and their items ([`HeapsOf`]).
//!
//! Heaps are copied a second time, from their memory to that of the chunk: missing ranges and the number of item pointers
//! are known only at the end of a heap.
//!
//! Limits: if the disks are too slow, heaps queue in the table's ring and memory, and the table counts those without
//! room.

use crate::awake::Awake;
use crate::frames;
use crate::receive::{ObjectSink, Received};
use crate::recording::{Chunk, ChunkMeta, DatastreamId, DatastreamInfo, HeapsOf, Refusal, Writer};
use skyhaul_core::wire::FamilyRef;
use skyhaul_core::wire::keyed::Left;
use skyhaul_io::memory::{Block, Pool};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a heap waits for memory held by disks; then it is lost, and counted. A hanging disk is given up earlier.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same after an unsuccessful wait, until memory is free again, so that each further heap does not wait as long.
const IMPATIENCE: Duration = Duration::from_millis(10);
/// A piece of a heap does not begin in the rest of a block that is smaller than 1/4 of the block.
const LEAST_PART: usize = 4;

/// Writes heaps to disks: the objects of each family as a datastream.
#[derive(Debug)]
pub struct ObjectRecorder {
    means: Means,
    flush: Duration,
    streams: Vec<Recorded>,
    /// Heaps lost because the disks freed no memory.
    lost: Arc<AtomicU64>,
}

/// State shared by all datastreams.
#[derive(Debug)]
struct Means {
    writer: Arc<Writer>,
    pool: Pool,
    /// The last wait for memory was unsuccessful.
    in_vain: bool,
    /// Pauses of this program do not count as slowness of a disk.
    clock: Awake,
    head: Vec<u8>,
}

/// The objects of one family.
#[derive(Debug)]
struct Recorded {
    family: FamilyRef,
    datastream: DatastreamId,
    /// Its format and sender are in the index.
    described: bool,
    /// Number of the next chunk.
    next: u32,
    open: Option<Open>,
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

impl ObjectRecorder {
    /// A recorder of heaps, in chunks of one block of `pool`; one that is not full is written after `flush`.
    #[must_use]
    pub fn new(writer: Arc<Writer>, pool: Pool, flush: Duration) -> Self {
        let means = Means { writer, pool, in_vain: false, clock: Awake::start(), head: Vec::new() };
        Self { means, flush, streams: Vec::new(), lost: Arc::default() }
    }

    /// Add this family to the index now, so that readers may follow before the first object.
    #[must_use]
    pub fn announcing(mut self, family: FamilyRef) -> Self {
        self.stream(family);
        self
    }

    /// The counter of heaps lost because the disks freed no memory.
    #[must_use]
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// The index of its datastream.
    fn stream(&mut self, family: FamilyRef) -> usize {
        if let Some(at) = self.streams.iter().position(|stream| stream.family == family) {
            return at;
        }
        let info = self.means.info(family, family.title(), None);
        let datastream = self.means.writer.add_datastream(&info);
        self.streams.push(Recorded { family, datastream, described: false, next: 0, open: None });
        self.streams.len() - 1
    }
}

impl Means {
    /// The description of a datastream in the index.
    fn info(&self, family: FamilyRef, describe: &str, sender: Option<String>) -> DatastreamInfo {
        let (chunk_bytes, format) =
            (self.pool.block_bytes() as u64, frames::described_packets(family, describe));
        DatastreamInfo { sender, chunk_bytes, format, ..DatastreamInfo::default() }
    }

    /// Memory for a chunk; waits until some is free.
    fn block(&mut self) -> Option<Block> {
        let begun = Instant::now();
        let patience = if self.in_vain { IMPATIENCE } else { PATIENCE };
        loop {
            let block = self.pool.take();
            self.in_vain = block.is_none() && begun.elapsed() >= patience;
            if block.is_some() || self.in_vain {
                return block;
            }
            std::thread::sleep(Duration::from_millis(1));
            self.look_at_clock();
        }
    }

    /// Called before chunks are given to the disks, which are judged then.
    fn look_at_clock(&mut self) {
        if let Some(pause) = self.clock.turn() {
            self.writer.paused(pause);
        }
    }
}

impl Recorded {
    /// Record an object. Waits while all memory for chunks is being written; `false` if none becomes free.
    fn take(&mut self, object: &Received<'_>, means: &mut Means) -> bool {
        if !self.described {
            self.described = true;
            let sender = Some(object.sender.to_string());
            let info = means.info(self.family, &object.stored.describe(), sender);
            means.writer.update_datastream(self.datastream, &info);
        }
        let parts: Vec<_> = object.present().collect();
        let needed = parts.iter().map(ExactSizeIterator::len).sum::<usize>();
        let needed = needed + object.stored.heads_bytes(parts.len());
        let block = means.pool.block_bytes();
        if needed > self.room() && (needed <= block || self.room() < block / LEAST_PART) {
            self.seal(means);
        }
        if !self.begin(means) {
            return false;
        }
        if let Some(open) = &mut self.open {
            open.heaps.add(object.number, object.missing);
            object.stored.items(&mut |id| open.heaps.add_item(id));
        }
        let (number, source, size) = (object.number, object.source, object.size);
        let mut items = 0;
        let nothing = std::iter::once(0..0).filter(|_| parts.is_empty());
        for payload in parts.iter().cloned().chain(nothing) {
            let mut left = Left { number, source, size, payload, items, room: 0 };
            if !self.part(object, &mut left, means) {
                return false;
            }
            items = left.items;
        }
        true
    }

    /// Write a range of an object, as one packet if the chunk has room for it. Returns `false` if there is no memory.
    fn part(&mut self, object: &Received<'_>, left: &mut Left, means: &mut Means) -> bool {
        let mut is_fresh = false;
        loop {
            left.room = self.room();
            means.head.clear();
            let Some(stored) = object.stored.store(left, &mut means.head) else {
                self.seal(means);
                // What does not fit an empty chunk fits none.
                if is_fresh || !self.begin(means) {
                    return false;
                }
                is_fresh = true;
                continue;
            };
            let Some(open) = &mut self.open else { return false };
            open.block.place(open.used, &means.head);
            open.used += means.head.len();
            let end = left.payload.start + stored.payload;
            open.block.place(open.used, &object.payload[left.payload.start..end]);
            open.used += stored.payload;
            (left.payload.start, left.items) = (end, stored.items);
            if stored.is_all {
                return true;
            }
            is_fresh = false;
        }
    }

    /// Bytes left in the open chunk.
    fn room(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.block.len() - open.used)
    }

    /// Open a chunk. Returns `false` if no memory becomes free.
    fn begin(&mut self, means: &mut Means) -> bool {
        if self.open.is_none() {
            let Some(block) = means.block() else { return false };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let received_at = i64::try_from(now.as_nanos()).ok();
            let heaps = HeapsOf::default();
            self.open = Some(Open { block, used: 0, begun: Instant::now(), received_at, heaps });
        }
        true
    }

    /// Give the open chunk to the disks, if there is one.
    fn seal(&mut self, means: &Means) {
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
        let (datastream, number) = (self.datastream, self.next);
        self.next += 1;
        let chunk = Chunk { datastream, number, block, range: 0..used, meta, finish: None };
        if let Err(refused) = means.writer.submit(chunk)
            && refused.reason != Refusal::NoDisk
        {
            means.writer.note("refused", &refused.to_string());
        }
    }
}

impl ObjectSink for ObjectRecorder {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        self.means.look_at_clock();
        let at = self.stream(object.family);
        if !self.streams[at].take(object, &mut self.means) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Write heaps that have been in memory for long.
    fn tick(&mut self) {
        self.means.look_at_clock();
        for stream in &mut self.streams {
            if stream.open.as_ref().is_some_and(|open| open.begun.elapsed() >= self.flush) {
                stream.seal(&self.means);
            }
        }
    }

    fn finished(&mut self) -> io::Result<()> {
        self.streams.iter_mut().for_each(|stream| stream.seal(&self.means));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
