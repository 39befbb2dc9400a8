//! The values of an item in many heaps.

use super::{Chunk, FAR, NEAR};
use super::{Field, Form, Heaps, HeapsError};
use crate::recording::OpenPiece;
use skyhaul_core::wire::spead::RawItem;
use skyhaul_core::wire::spead::table::StoredHeap;
use skyhaul_io::lock::lock;
use std::ops::Range;

/// What is known of an item in a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The heap cannot be read, it is incomplete and shows no such item, or the item has no descriptor there.
    #[default]
    Unknown = 0,
    /// The heap carried it, and all of it is there.
    Valid = 1,
    /// The heap is complete, and does not carry it.
    Absent = 2,
    /// The heap carried it, and a part is missing, or its bytes do not match its descriptor.
    Partial = 3,
}

/// Bytes of a file near the place that was read last.
#[derive(Default)]
struct Window {
    file: u32,
    at: u64,
    octets: Vec<u8>,
}

impl Window {
    /// Read from a file; `false` if it was truncated or cannot be read.
    fn read(&mut self, files: &[OpenPiece], file: u32, at: u64, to: &mut [u8]) -> bool {
        let Some(open) = files.get(file as usize) else { return false };
        if to.len() >= FAR {
            return open.read(at, to).is_ok_and(|read| read == to.len());
        }
        let end = self.at + self.octets.len() as u64;
        if file != self.file || at < self.at || at + to.len() as u64 > end {
            // The larger, the nearer the values are to each other.
            let is_near = file == self.file && at >= self.at && at < end.saturating_add(FAR as u64);
            self.octets.resize(if is_near { NEAR } else { FAR }, 0);
            let Ok(read) = open.read(at, &mut self.octets) else {
                self.octets.clear();
                return false;
            };
            self.octets.truncate(read);
            (self.file, self.at) = (file, at);
        }
        let from = (at - self.at) as usize;
        let found = self.octets.get(from..from + to.len());
        found.map(|found| to.copy_from_slice(found)).is_some()
    }
}

impl Chunk {
    /// The bytes of a range of a heap that is there; `false` if they cannot be read.
    pub(super) fn read(&self, heap: &StoredHeap<'_>, range: Range<u64>, to: &mut [u8]) -> bool {
        self.gather(heap, range, to, &mut Window::default(), |_| {}).is_some()
    }

    /// The bytes of a range of a heap, as far as they are there: how many, and which are missing. `None`: they cannot be
    /// read.
    fn gather(
        &self,
        heap: &StoredHeap<'_>,
        range: Range<u64>,
        to: &mut [u8],
        window: &mut Window,
        mut missing: impl FnMut(Range<u64>),
    ) -> Option<u64> {
        let (mut next, mut present) = (range.start, 0);
        let first = heap.parts.partition_point(|part| part.end() <= range.start);
        for part in heap.parts[first..].iter().take_while(|part| part.offset < range.end) {
            let (from, end) = (part.offset.max(range.start), part.end().min(range.end));
            if from > next {
                missing(next - range.start..from - range.start);
            }
            let place = (from - range.start) as usize..(end - range.start) as usize;
            if !window.read(&self.files, part.file, part.at + (from - part.offset), to.get_mut(place)?) {
                return None;
            }
            (next, present) = (end, present + (end - from));
        }
        if next < range.end {
            missing(next - range.start..range.end - range.start);
        }
        Some(present)
    }
}

/// What reads values: memory for one that is unpacked.
struct Reading<'a> {
    field: &'a Field,
    window: Window,
    wire: Vec<u8>,
}

impl Reading<'_> {
    /// The value of a heap, its state, and bytes that are there.
    fn value(&mut self, chunk: &Chunk, heap: &StoredHeap<'_>, to: &mut [u8]) -> (State, u64) {
        let (field, whole) = (self.field, 0..self.field.wire());
        let Some(item) = heap.item(field.id()) else {
            field.blank(to, &whole);
            return (if heap.is_complete() { State::Absent } else { State::Unknown }, 0);
        };
        if item.immediate {
            if field.immediate(heap.flavour, item.value, to) {
                return (State::Valid, field.wire());
            }
            field.blank(to, &whole);
            return (State::Partial, 0);
        }
        self.addressed(chunk, heap, &item, to).unwrap_or_else(|| {
            field.blank(to, &whole);
            (State::Partial, 0)
        })
    }

    fn addressed(
        &mut self,
        chunk: &Chunk,
        heap: &StoredHeap<'_>,
        item: &RawItem,
        to: &mut [u8],
    ) -> Option<(State, u64)> {
        let (field, needed) = (self.field, self.field.wire());
        let range = item.range.start..item.range.start.checked_add(needed)?;
        if range.end > item.range.end {
            return None;
        }
        let mut holes: Vec<Range<u64>> = Vec::new();
        let hole = |range| holes.push(range);
        let present = match field.form() {
            Form::Octets(_) => chunk.gather(heap, range, to, &mut self.window, hole)?,
            Form::Bits { format, elements } => {
                self.wire.resize(usize::try_from(needed).ok()?, 0);
                let present = chunk.gather(heap, range, &mut self.wire, &mut self.window, hole)?;
                format.unpack(&self.wire, *elements, to).ok()?;
                present
            }
        };
        holes.iter().for_each(|hole| field.blank(to, hole));
        Some((if holes.is_empty() { State::Valid } else { State::Partial }, present))
    }
}

impl Heaps {
    /// Read the values of an item in these rows, one after another, into `out`; for each row its state, and how many of the
    /// bytes sent are there. Elements that are missing become the field's fill.
    ///
    /// # Errors
    /// [`HeapsError::Wrong`]: there are no such rows, or `out`, `states` or `present` have another length.
    /// [`HeapsError::Changed`]: another descriptor of the item is in force in one of these rows.
    pub fn read(
        &self,
        rows: Range<u64>,
        field: &Field,
        out: &mut [u8],
        states: &mut [State],
        present: &mut [u64],
    ) -> Result<(), HeapsError> {
        let count = usize::try_from(rows.end.saturating_sub(rows.start)).unwrap_or(usize::MAX);
        if states.len() != count
            || present.len() != count
            || Some(out.len()) != count.checked_mul(field.bytes())
        {
            let text = format!("{} bytes for {count} values of {}", out.len(), field.bytes());
            return Err(HeapsError::Wrong(text));
        }
        let mut reading = Reading { field, window: Window::default(), wire: Vec::new() };
        let values = out.chunks_exact_mut(field.bytes());
        let mut cells = values.zip(states.iter_mut().zip(present));
        for (piece, within) in self.parts(rows)? {
            let chunk = self.chunk(piece);
            reading.window = Window::default();
            let mut described = None;
            for (n, (value, (state, present))) in within.zip(&mut cells) {
                let Some((chunk, heap)) = chunk.as_ref().and_then(|chunk| Some((chunk, chunk.heap(n)?)))
                else {
                    field.blank(value, &(0..field.wire()));
                    continue;
                };
                if self.is_described(piece, n, field, chunk, &mut described)? {
                    (*state, *present) = reading.value(chunk, &heap, value);
                } else {
                    field.blank(value, &(0..field.wire()));
                }
            }
        }
        Ok(())
    }

    /// Whether the field's descriptor is in force at a heap. `described` is what is known from the heap before it in the chunk:
    /// whether there was one, and where the next one is.
    fn is_described(
        &self,
        piece: usize,
        n: usize,
        field: &Field,
        chunk: &Chunk,
        described: &mut Option<(bool, usize)>,
    ) -> Result<bool, HeapsError> {
        if let Some((is_known, until)) = *described
            && n < until
        {
            return Ok(is_known);
        }
        let mut concerned = chunk.described.iter().filter(|(_, d)| field.is_named_by(d));
        let until = concerned.clone().find(|(at, _)| *at > n).map_or(usize::MAX, |(at, _)| *at);
        let here = concerned.rfind(|(at, _)| *at <= n);
        let (at, is_known, is_same) = match here {
            Some((at, d)) => (*at, true, field.is_described_by(d)),
            None => {
                let before = piece.checked_sub(1).and_then(|before| self.described_by(before, field));
                let is_same = before.as_ref().is_none_or(|d| field.is_described_by(d));
                (n, before.is_some() || field.is_given(), is_same)
            }
        };
        if !is_same {
            let counter = chunk.heap(at).map_or(0, |heap| heap.counter);
            let (name, row) = (field.name().to_owned(), self.starts[piece] + at as u64);
            return Err(HeapsError::Changed { name, row, counter });
        }
        *described = Some((is_known, until));
        Ok(is_known)
    }

    /// The last row before `row` whose heap carried all of an item.
    ///
    /// # Errors
    /// As in [`read`](Self::read).
    pub fn carrier_before(&self, row: u64, field: &Field) -> Result<Option<u64>, HeapsError> {
        let Some(last) = row.checked_sub(1) else { return Ok(None) };
        self.parts(row..row)?;
        let piece = self.piece_of(last);
        if let Some(found) = self.last_in(piece, (row - self.starts[piece]) as usize, field)? {
            return Ok(Some(found));
        }
        let Some(before) = piece.checked_sub(1) else { return Ok(None) };
        let name = (field.id(), field.name().to_owned());
        let (mut found, mut at) = (None, before);
        loop {
            let memos = lock(&self.carried);
            if let Some(known) = memos.get(&name).and_then(|memo| memo.at(at)) {
                found = known;
                break;
            }
            drop(memos);
            if self.may_carry(at, field.id()) {
                found = self.last_in(at, usize::MAX, field)?;
            }
            match at.checked_sub(1) {
                Some(next) if found.is_none() => at = next,
                _ => break,
            }
        }
        let mut memos = lock(&self.carried);
        memos.entry(name).or_default().put(at, before, found);
        Ok(found)
    }

    /// The last row of a piece, before its heap number `end`, that carried all of an item.
    fn last_in(&self, piece: usize, end: usize, field: &Field) -> Result<Option<u64>, HeapsError> {
        let Some(chunk) = self.chunk(piece) else { return Ok(None) };
        for n in (0..chunk.heaps().min(end)).rev() {
            let Some(heap) = chunk.heap(n) else { continue };
            let Some(item) = heap.item(field.id()) else { continue };
            let range = item.range.start..item.range.start.saturating_add(field.wire());
            let is_here =
                item.immediate || (range.end <= item.range.end && heap.received(range) == field.wire());
            if is_here && self.is_described(piece, n, field, &chunk, &mut None)? {
                return Ok(Some(self.starts[piece] + n as u64));
            }
        }
        Ok(None)
    }
}
