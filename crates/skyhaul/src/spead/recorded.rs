//! The items of recorded heaps, from anywhere in a recording: numbered heaps are rows, each item a column.
//!
//! ```text
//!   index    heaps of each chunk ─▶ rows: 0 ‥ 4095 in chunk 0, 4096 ‥ 8190 in chunk 1, …      nothing is read for that
//!   chunk    verified once ─▶ heads only ─▶ table: where each heap is ─▶ its items, into the caller's memory
//! ```
//!
//! The rows are the heaps in order of arrival. Those of a lost or damaged chunk remain rows if the index says how many
//! there were; nothing in them is valid. A heap belongs to the chunk in which it begins, and is read from all that it is in.
//!
//! An item is read as its [`Field`] says, if the last descriptor of it, up to and including its own heap, says the same. As in
//! an item group, a value before the first descriptor has no meaning, and a chunk that cannot be read changes none.
//!
//! Memory: tables of the chunks used last, of [`TABLES`] bytes together, or one. A table has a few dozen bytes for each heap.
//!
//! Limits: chunks that are in no index are read once to count their heaps.

mod field;
mod read;

pub use field::{Field, FieldError, Form};
pub use read::State;

use crate::recording::{Gap, HeapsOf, OpenPiece, Pieces, Recording};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::Family;
use skyhaul_core::wire::spead::table::{StoredHeap, Table};
use skyhaul_core::wire::spead::{BugCompat, Descriptor, Flavour, Head, SpeadFamily, id};
use skyhaul_io::lock::lock;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

/// Most memory for tables, bytes, unless a single one is larger.
pub const TABLES: usize = 64 << 20;
/// Most tables, each with open files.
const MAX_TABLES: usize = 64;
/// Bytes of the shortest packet: header, counter, offset, length.
const MIN_PACKET_BYTES: u64 = 32;

/// Why heaps cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapsError {
    /// The datastream does not consist of heaps.
    #[error("it is not a recording of SPEAD but of {0}")]
    NotHeaps(String),
    /// The type of an item changes among the rows.
    #[error(
        "the descriptor of {name:?} changes with heap {counter} (row {row}){}",
        Hint("read the rows before it, or from it on")
    )]
    Changed {
        /// Name of the item.
        name: String,
        /// The first row with another descriptor.
        row: u64,
        /// Counter of that heap.
        counter: u64,
    },
    /// Memory of the wrong size, or rows that do not exist.
    #[error("{0}")]
    Wrong(String),
}

/// What is known of a chunk.
#[derive(Debug, Default)]
struct Slot {
    /// Heaps that begin in it.
    rows: u64,
    /// It begins with the rest of a heap; not known where the index tells how many heaps begin in it.
    continues: OnceLock<bool>,
    held: Mutex<Held>,
}

/// An item's name and id: by either, a descriptor is one of it.
type Name = (u64, String);

/// The recorded heaps of a datastream.
#[derive(Debug)]
pub struct Heaps {
    pieces: Pieces<Slot>,
    /// The first row of each piece, and one past the last.
    starts: Vec<u64>,
    verify: bool,
    compat: BugCompat,
    /// Pieces whose tables are held, and bytes of these; the one used last is the last.
    recent: Mutex<VecDeque<(usize, usize)>>,
    /// By item: the descriptor in force at the ends of pieces.
    in_force: Mutex<HashMap<Name, Memo<Option<Arc<Descriptor>>>>>,
    /// By item: the last row that carried it, at the ends of pieces.
    carried: Mutex<HashMap<Name, Memo<Option<u64>>>>,
}

impl Heaps {
    /// The heaps of a recording's datastream, by its index in `datastreams`. With `verify`, each chunk is verified before its
    /// first heap is used.
    ///
    /// # Errors
    /// [`HeapsError::NotHeaps`].
    pub fn of_recording(
        recording: &Recording,
        datastream: usize,
        verify: bool,
        compat: BugCompat,
    ) -> Result<Self, HeapsError> {
        let about = recording.about(datastream);
        let format = about.as_ref().and_then(|about| about.info.format.get("format")?.as_str());
        if format != Some(SpeadFamily.name()) {
            return Err(HeapsError::NotHeaps(format.unwrap_or("an unknown format").to_owned()));
        }
        let mut heaps = Self {
            pieces: Pieces::of_recording(recording, datastream),
            starts: Vec::new(),
            verify,
            compat,
            recent: Mutex::default(),
            in_force: Mutex::default(),
            carried: Mutex::default(),
        };
        heaps.count_rows();
        Ok(heaps)
    }

    /// Number the heaps: by the index, or where it does not tell, by reading the heads.
    fn count_rows(&mut self) {
        // The chunk before, if its heads were read.
        let mut before: Option<(usize, Table)> = None;
        for piece in 0..self.pieces.all().len() {
            let rows = match self.told(piece) {
                Some(told) => told.count,
                None => self.counted(piece, &mut before),
            };
            self.pieces.known_mut(piece).rows = rows;
        }
        let mut sum = 0u64;
        let rows = self.pieces.all().iter().map(|piece| piece.known.rows);
        self.starts.push(0);
        self.starts.extend(rows.map(|rows| {
            sum = sum.saturating_add(rows);
            sum
        }));
    }

    /// Count the heaps of a chunk that the index does not describe.
    fn counted(&self, piece: usize, before: &mut Option<(usize, Table)>) -> u64 {
        let Some(raw) = self.heads(piece) else { return 0 };
        if before.as_ref().is_none_or(|(at, _)| Some(*at) != piece.checked_sub(1)) {
            *before = piece.checked_sub(1).and_then(|at| Some((at, self.heads(at)?.table)));
        }
        let last = before.take().filter(|(at, _)| self.number(piece) == self.number(*at).map(|n| n + 1));
        let continues = last.is_some_and(|(_, table)| raw.first.is_some_and(|first| first.continues(&table)));
        let _ = self.pieces.all()[piece].known.continues.set(continues);
        let rows = raw.table.len() - usize::from(continues && !raw.table.is_empty());
        *before = Some((piece, raw.table));
        rows as u64
    }

    /// The index's description of a chunk, if it can be true.
    fn told(&self, piece: usize) -> Option<&HeapsOf> {
        let record = self.pieces.all()[piece].entry.as_ref()?.record.as_ref()?;
        record.meta.heaps.as_ref().filter(|heaps| heaps.count <= record.bytes / MIN_PACKET_BYTES)
    }

    fn number(&self, piece: usize) -> Option<u32> {
        self.pieces.all().get(piece)?.entry.as_ref().map(|entry| entry.number)
    }

    /// Number of heaps.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// The rows with which the chunks begin.
    #[must_use]
    pub fn piece_rows(&self) -> &[u64] {
        &self.starts[..self.pieces.all().len()]
    }

    /// Chunks that are missing, damaged or unproven by the index, and those found while reading.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.pieces.gaps()
    }

    /// The counters of heaps; `None` where a chunk cannot be read and the index does not list them. Chunks are read only where
    /// the index omits some.
    ///
    /// # Errors
    /// [`HeapsError::Wrong`]: there are no such rows.
    pub fn counters(&self, rows: Range<u64>) -> Result<Vec<Option<u64>>, HeapsError> {
        let mut counters = Vec::new();
        for (piece, within) in self.parts(rows)? {
            let (skip, count) = (within.start, within.end - within.start);
            match self.told(piece).and_then(HeapsOf::all_counters) {
                Some(told) => counters.extend(told.skip(skip).take(count).map(Some)),
                None => {
                    let chunk = self.chunk(piece);
                    let counter = |n| Some(chunk.as_ref()?.heap(n)?.counter);
                    counters.extend(within.map(counter));
                }
            }
        }
        Ok(counters)
    }

    /// Whether heaps are there without a gap, in chunks that can be read.
    ///
    /// # Errors
    /// [`HeapsError::Wrong`]: there are no such rows.
    pub fn complete(&self, rows: Range<u64>) -> Result<Vec<bool>, HeapsError> {
        let mut complete = Vec::new();
        for (piece, within) in self.parts(rows)? {
            let chunk = self.chunk(piece);
            let heap =
                |n| chunk.as_ref().and_then(|chunk| chunk.heap(n)).is_some_and(|heap| heap.is_complete());
            complete.extend(within.map(heap));
        }
        Ok(complete)
    }

    /// The pieces that rows lie in, with their heaps in each.
    fn parts(&self, rows: Range<u64>) -> Result<Vec<(usize, Range<usize>)>, HeapsError> {
        if rows.start > rows.end || rows.end > self.rows() {
            let text = format!("heaps {} to {}: there are {}", rows.start, rows.end, self.rows());
            return Err(HeapsError::Wrong(text));
        }
        let (mut parts, mut at) = (Vec::new(), rows.start);
        while at < rows.end {
            let piece = self.piece_of(at);
            let (begin, end) = (self.starts[piece], self.starts[piece + 1].min(rows.end));
            parts.push((piece, (at - begin) as usize..(end - begin) as usize));
            at = end;
        }
        Ok(parts)
    }

    /// The piece of a row that exists.
    fn piece_of(&self, row: u64) -> usize {
        self.starts.partition_point(|&start| start <= row) - 1
    }

    /// Whether a piece may hold a heap with this item.
    fn may_carry(&self, piece: usize, id: u64) -> bool {
        let rows = self.pieces.all()[piece].known.rows;
        rows > 0 && self.told(piece).is_none_or(|told| told.may_carry(id))
    }

    /// The table of a chunk, made now or earlier; `None` if it cannot be read: then it is in the gaps.
    fn chunk(&self, piece: usize) -> Option<Arc<Chunk>> {
        let slot = &self.pieces.all()[piece].known;
        let chunk = {
            let mut held = lock(&slot.held);
            if matches!(*held, Held::Unread) {
                *held = self.read_chunk(piece).map_or(Held::Unusable, |chunk| Held::Here(Arc::new(chunk)));
            }
            match &*held {
                Held::Here(chunk) => chunk.clone(),
                Held::Unread | Held::Unusable => return None,
            }
        };
        self.keep(piece, chunk.bytes());
        Some(chunk)
    }

    /// Hold a table, and let go of those that were not used for the longest time.
    fn keep(&self, piece: usize, bytes: usize) {
        let mut recent = lock(&self.recent);
        if recent.back().is_some_and(|(last, _)| *last == piece) {
            return;
        }
        recent.retain(|(other, _)| *other != piece);
        recent.push_back((piece, bytes));
        let mut sum: usize = recent.iter().map(|(_, bytes)| bytes).sum();
        while recent.len() > 1
            && (sum > TABLES || recent.len() > MAX_TABLES)
            && let Some((oldest, bytes)) = recent.pop_front()
        {
            sum -= bytes;
            // A thread that is reading it keeps it, and makes it the last again.
            if let Ok(mut held) = self.pieces.all()[oldest].known.held.try_lock()
                && matches!(*held, Held::Here(_))
            {
                *held = Held::Unread;
            }
        }
    }
}

/// Values that hold for runs of pieces: the first of each, with the last and the value.
#[derive(Debug)]
pub(super) struct Memo<T>(BTreeMap<usize, (usize, T)>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Memo<T> {
    /// The value at the end of a piece, if it is known.
    pub(super) fn at(&self, piece: usize) -> Option<T> {
        let (_, (last, value)) = self.0.range(..=piece).next_back()?;
        (*last >= piece).then(|| value.clone())
    }

    /// The same value holds from the end of piece `first` to that of `last`.
    pub(super) fn put(&mut self, first: usize, last: usize, value: T) {
        // It is joined with the run that it was found in.
        if let Some((_, (end, _))) = self.0.range_mut(..=first).next_back()
            && *end >= first
        {
            *end = last.max(*end);
            return;
        }
        self.0.insert(first, (last, value));
    }
}

/// Bytes read at once where heads are near each other, and where they are not.
pub(super) const NEAR: usize = 64 << 10;
pub(super) const FAR: usize = 4 << 10;

/// The table of a piece.
#[derive(Debug, Default)]
pub(super) enum Held {
    #[default]
    Unread,
    Here(std::sync::Arc<Chunk>),
    /// The chunk cannot be read.
    Unusable,
}

/// The heaps that begin in a chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) table: Table,
    /// Heaps of the table that began before the chunk: none, or one.
    pub(super) before: usize,
    /// The files that its heaps are in: its own, and those in which the last one goes on.
    pub(super) files: Vec<OpenPiece>,
    /// The descriptors that its heaps brought, each with its heap; equal ones only once.
    pub(super) described: Vec<(usize, Descriptor)>,
}

impl Chunk {
    /// The `n`th heap that begins in it.
    pub(super) fn heap(&self, n: usize) -> Option<StoredHeap<'_>> {
        self.table.heap(self.before + n)
    }

    pub(super) fn heaps(&self) -> usize {
        self.table.len() - self.before
    }

    pub(super) fn bytes(&self) -> usize {
        let texts =
            |d: &Descriptor| d.name.len() + d.description.len() + d.numpy.as_ref().map_or(0, String::len);
        let described = self.described.iter().map(|(_, d)| texts(d) + size_of::<(usize, Descriptor)>());
        self.table.bytes() + described.sum::<usize>()
    }
}

/// The head of the first packet of a chunk.
#[derive(Clone, Debug)]
pub(super) struct First(pub(super) Vec<u8>);

impl First {
    /// Whether it belongs to the last heap of a table.
    pub(super) fn continues(&self, table: &Table) -> bool {
        matches!(Head::peek(&self.0), Ok(Some(head)) if table.is_continued_by(&head))
    }
}

/// Whether a heap may have an item, by its pointers alone.
pub(super) fn points_at(flavour: Flavour, pointers: &[u64], id: u64) -> bool {
    pointers.iter().any(|&pointer| flavour.parts(pointer).id == id)
}

/// What the heads of a chunk say by themselves.
struct Heads {
    table: Table,
    first: Option<First>,
    file: OpenPiece,
}

impl Heaps {
    /// Read the heads of a chunk, after verifying it; `None` if that fails: then it is in the gaps.
    fn heads(&self, piece: usize) -> Option<Heads> {
        let of = &self.pieces.all()[piece];
        let file = self.pieces.open(of, self.verify)?;
        let (mut table, mut first) = (Table::default(), None);
        let read = each_head(&file, |head, octets, at| {
            first.get_or_insert_with(|| First(octets.to_vec()));
            table.add(head, 0, at);
        });
        if let Err(why) = read {
            self.pieces.note_unproven(of, format!("its packets are not valid: {why}"));
            return None;
        }
        Some(Heads { table, first, file })
    }

    /// Whether a chunk begins with the rest of a heap; `None` if its heaps are not those of its record.
    fn continues(&self, piece: usize, heads: &Heads) -> Option<bool> {
        if let Some(&continues) = self.pieces.all()[piece].known.continues.get() {
            return Some(continues);
        }
        let (found, told) = (heads.table.len() as u64, self.told(piece)?.count);
        match found.checked_sub(told) {
            Some(more @ (0 | 1)) => Some(more == 1),
            _ => {
                let text = format!("its packets are of {found} heaps, but its index record says {told}");
                self.pieces.note_unproven(&self.pieces.all()[piece], text);
                None
            }
        }
    }

    /// Make the table of a chunk.
    fn read_chunk(&self, piece: usize) -> Option<Chunk> {
        let heads = self.heads(piece)?;
        let before = usize::from(self.continues(piece, &heads)?);
        let mut chunk = Chunk { table: heads.table, before, files: vec![heads.file], described: Vec::new() };
        self.go_on(piece, &mut chunk);
        chunk.table.shrink();
        if self.may_carry(piece, id::DESCRIPTOR) {
            chunk.described = self.describe(&chunk);
        }
        Some(chunk)
    }

    /// Add the packets of the last heap that are in the next chunks.
    fn go_on(&self, piece: usize, chunk: &mut Chunk) {
        let mut last = piece;
        while chunk.heaps() > 0
            && self.number(last + 1).is_some_and(|next| Some(next) == self.number(last).map(|n| n + 1))
        {
            let heap = chunk.table.heap(chunk.table.len() - 1);
            // The size tells; without one, only the next chunk does.
            if heap.is_some_and(|heap| heap.size.is_some() && heap.is_complete()) {
                return;
            }
            // Most often the next chunk begins with a heap of its own, which is seen by its first head.
            let next = last + 1;
            if !self.peeked(next, &chunk.table) {
                return;
            }
            let Some(heads) = self.heads(next) else { return };
            if self.continues(next, &heads) != Some(true) {
                return;
            }
            let (file, mut is_all) = (chunk.files.len() as u32, true);
            let Heads { file: open, .. } = heads;
            let _ = each_head(&open, |head, _, at| {
                is_all &= chunk.table.is_continued_by(head);
                if is_all {
                    chunk.table.add(head, file, at);
                }
            });
            chunk.files.push(open);
            if !is_all {
                return;
            }
            last = next;
        }
    }

    /// Whether a piece may begin with a packet of the last heap of a table; it is not verified for that.
    fn peeked(&self, piece: usize, table: &Table) -> bool {
        let pieces: &Pieces<Slot> = &self.pieces;
        let Ok(open) = pieces.open_unverified(&pieces.all()[piece]) else { return true };
        let mut octets = vec![0; FAR];
        let Ok(read) = open.read(0, &mut octets) else { return true };
        // A head that is longer, or that is damaged, may be one.
        !matches!(Head::peek(&octets[..read]), Ok(Some(head)) if !table.is_continued_by(&head))
    }
}

/// Call `each` with every head of a chunk, its bytes, and where its payload is.
fn each_head(file: &OpenPiece, mut each: impl FnMut(&Head<'_>, &[u8], u64)) -> Result<(), String> {
    let (mut octets, mut begin, mut at, mut want) = (Vec::new(), 0, 0u64, NEAR);
    while at < file.bytes {
        let have = usize::try_from(at - begin).ok().and_then(|skip| octets.get(skip..)).unwrap_or_default();
        let Some(head) = Head::peek(have).map_err(|why| format!("byte {at}: {}", why.name()))? else {
            let known = have.len();
            if known as u64 >= file.bytes - at || known >= Head::LONGEST {
                return Err("the file ends within a packet".to_owned());
            }
            octets.resize(want.max(2 * known), 0);
            let read = file.read(at, &mut octets).map_err(|error| error.to_string())?;
            if read <= known {
                return Err("it was truncated while it was read".to_owned());
            }
            octets.truncate(read);
            begin = at;
            continue;
        };
        let bytes = head.bytes();
        if bytes > file.bytes - at {
            return Err("the file ends within a packet".to_owned());
        }
        each(&head, &have[..head.start], at + head.start as u64);
        want = if bytes < NEAR as u64 / 4 { NEAR } else { FAR };
        at += bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_as_they_are_found() {
        let mut memo = Memo::default();
        memo.put(3, 5, 'a');
        memo.put(5, 9, 'a');
        memo.put(12, 12, 'b');
        assert_eq!((2..=13).map(|piece| memo.at(piece)).collect::<Vec<_>>(), {
            let mut told = vec![None; 12];
            told[1..=7].fill(Some('a'));
            told[10] = Some('b');
            told
        });
        assert_eq!(memo.0.len(), 2);
    }
}
