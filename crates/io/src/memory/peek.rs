//! Reading chunks out of another process's pool.
//!
//! A shared pool begins with a table of the content of each block, guarded by a sequence lock: an odd sequence means
//! "being written". A reader opens `/proc/<pid>/fd/<n>` (the kernel permits only the same user), maps it read only,
//! copies a block and then checks that the sequence is unchanged. The writer's cost is two stores per chunk; a slow,
//! stopped or killed reader does not affect it.
//!
//! ```text
//!   ┌ head ┬ entry 0 ┬ entry 1 ┬ …  (padded) ┬ block 0 ┬ block 1 ┬ …
//!            sequence · stream · number · start · length
//! ```
//!
//! The copy races with a writer that reuses the block, so the caller must verify the bytes with a checksum; the sequence
//! makes the race rare, the checksum makes it harmless.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::SealFlags;

use super::mapping::Mapping;

const MAGIC: u64 = u64::from_le_bytes(*b"skyhaul1");
const ENTRY_WORDS: usize = 8;
const HEAD_WORDS: usize = 8;
const PADDING: usize = 2 << 20;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The stream it is part of, as a number known to both sides.
    pub stream: u64,
    /// The chunk's number in the stream.
    pub number: u64,
    /// First byte of the chunk in the block.
    pub start: u64,
    /// Bytes of the chunk.
    pub length: u64,
}

/// The table at the beginning of a shared pool.
#[derive(Debug)]
pub(super) struct Table {
    id: u64,
}

/// Word `word` of the table; entries follow the head.
fn word(mapping: &Mapping, word: usize) -> &AtomicU64 {
    assert!((word + 1) * 8 <= mapping.len());
    let at = mapping.base().wrapping_add(word * 8).cast::<u64>();
    // SAFETY: aligned to 8 in a mapping that begins a page, inside it as just checked, and reached only through atomics,
    // in every process. Where it is mapped read-only it is only loaded, and relaxed, which such memory allows.
    unsafe { AtomicU64::from_ptr(at) }
}

/// A word that may be written concurrently; ordered before all later reads.
fn load(word: &AtomicU64) -> u64 {
    let value = word.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    value
}

fn entry(mapping: &Mapping, index: usize, field: usize) -> &AtomicU64 {
    word(mapping, HEAD_WORDS + index * ENTRY_WORDS + field)
}

impl Table {
    /// Bytes before the first block, for `count` blocks.
    pub(super) fn bytes(count: u32) -> usize {
        ((HEAD_WORDS + count as usize * ENTRY_WORDS) * 8).next_multiple_of(PADDING)
    }

    pub(super) fn create(mapping: &Mapping, count: u32, block_bytes: usize, first: usize) -> Table {
        let id = random_id();
        let head = [MAGIC, id, u64::from(count), block_bytes as u64, first as u64];
        for index in 0..count as usize {
            entry(mapping, index, 0).store(1, Ordering::Relaxed);
        }
        for (at, value) in head.into_iter().enumerate() {
            word(mapping, at).store(value, Ordering::Release);
        }
        Table { id }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Mark block `index` as being written.
    pub(super) fn invalidate(&self, mapping: &Mapping, index: u32) {
        let sequence = entry(mapping, index as usize, 0);
        sequence.store(sequence.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // Before every later store, non-temporal ones too.
        fence(Ordering::SeqCst);
    }

    /// Mark block `index` as complete, with content `label`.
    pub(super) fn publish(&self, mapping: &Mapping, index: u32, label: Label) {
        let index = index as usize;
        let sequence = entry(mapping, index, 0);
        let odd = sequence.load(Ordering::Relaxed) | 1;
        sequence.store(odd, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for (at, value) in [label.stream, label.number, label.start, label.length].into_iter().enumerate() {
            entry(mapping, index, at + 1).store(value, Ordering::Relaxed);
        }
        sequence.store(odd.wrapping_add(1), Ordering::Release);
    }
}

/// A random number that identifies the pool.
fn random_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the system's randomness.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Another process's pool, to read from.
#[derive(Debug)]
pub struct Peek {
    mapping: Mapping,
    blocks: usize,
    block_bytes: usize,
    first: usize,
}

impl Peek {
    /// Open pool `id` behind file descriptor `fd` of process `pid`.
    ///
    /// # Errors
    /// If the process or its descriptor does not exist, belongs to another user, or is not that pool.
    pub fn open(pid: u32, fd: i32, id: u64) -> io::Result<Peek> {
        let file: OwnedFd = File::open(format!("/proc/{pid}/fd/{fd}"))?.into();
        let foreign = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("descriptor {fd} of process {pid} is not a pool"),
            )
        };
        // A file that shrinks would kill the reader (SIGBUS), so only sealed files are mapped.
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| foreign())?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(foreign());
        }
        let len = usize::try_from(rustix::fs::fstat(&file)?.st_size).map_err(|_| foreign())?;
        if len < PADDING {
            return Err(foreign());
        }
        let mapping = Mapping::read_only(file, len)?;
        let [magic, found, blocks, block_bytes, first] = [0, 1, 2, 3, 4].map(|at| load(word(&mapping, at)));
        let whole = blocks.checked_mul(block_bytes).and_then(|bytes| bytes.checked_add(first));
        let table =
            blocks.checked_mul(ENTRY_WORDS as u64 * 8).and_then(|b| b.checked_add(HEAD_WORDS as u64 * 8));
        if magic != MAGIC
            || found != id
            || whole.is_none_or(|end| end > len as u64)
            || table.is_none_or(|end| end > first)
        {
            return Err(foreign());
        }
        let (blocks, block_bytes, first) = (blocks as usize, block_bytes as usize, first as usize);
        Ok(Peek { mapping, blocks, block_bytes, first })
    }

    /// Copy chunk `number` of `stream` into `out` (which is replaced), if it is still in memory; returns whether it was.
    /// The caller verifies the checksum. At most one block is copied.
    pub fn read(&self, stream: u64, number: u64, out: &mut Vec<u8>) -> bool {
        (0..self.blocks).any(|index| self.read_block(index, stream, number, out))
    }

    fn read_block(&self, index: usize, stream: u64, number: u64, out: &mut Vec<u8>) -> bool {
        let sequence = entry(&self.mapping, index, 0);
        let before = load(sequence);
        if before & 1 == 1 {
            return false;
        }
        let [found_stream, found_number, start, length] =
            [1, 2, 3, 4].map(|field| entry(&self.mapping, index, field).load(Ordering::Relaxed));
        let block = self.block_bytes as u64;
        if (found_stream, found_number) != (stream, number) || start > block || length > block - start {
            return false;
        }
        out.clear();
        out.reserve_exact(length as usize);
        self.copy(self.first + index * self.block_bytes + start as usize, length as usize, out);
        fence(Ordering::SeqCst);
        sequence.load(Ordering::Relaxed) == before
    }

    /// Append `length` bytes from byte `start` of the mapping to `out`. Another process, or this one, may write them
    /// meanwhile, so they are read as atomics of eight bytes.
    fn copy(&self, start: usize, length: usize, out: &mut Vec<u8>) {
        let (end, words) = (start + length, start.next_multiple_of(8)..(start + length) / 8 * 8);
        let within = |at: usize| word(&self.mapping, at / 8).load(Ordering::Relaxed).to_ne_bytes();
        if words.start >= words.end {
            out.extend((start..end).map(|at| within(at)[at % 8]));
            return;
        }
        out.extend((start..words.start).map(|at| within(at)[at % 8]));
        words.clone().step_by(8).for_each(|at| out.extend_from_slice(&within(at)));
        out.extend((words.end..end).map(|at| within(at)[at % 8]));
    }
}
