//! Descriptors: which one is in force at a heap, and which items there are.

use super::chunk::{Chunk, points_at};
use super::{Field, Heaps, HeapsError, Name};
use skyhaul_core::wire::spead::{Descriptor, id};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Chunks with descriptors that are read in each direction to find out which items there are.
const MOST_SEARCHED: usize = 8;

impl Heaps {
    /// The descriptors that the heaps of a chunk bring, in order; equal ones only once.
    pub(super) fn describe(&self, chunk: &Chunk) -> Vec<(usize, Descriptor)> {
        let mut found: Vec<(usize, Descriptor)> = Vec::new();
        for n in 0..chunk.heaps() {
            let Some(heap) = chunk.heap(n) else { continue };
            if !points_at(heap.flavour, heap.pointers, id::DESCRIPTOR) {
                continue;
            }
            for item in heap.items().into_iter().filter(|item| item.id == id::DESCRIPTOR && !item.immediate) {
                let length = item.range.end - item.range.start;
                if length > Descriptor::LONGEST as u64 || heap.received(item.range.clone()) < length {
                    continue;
                }
                let mut octets = vec![0; length as usize];
                if !chunk.read(&heap, item.range, &mut octets) {
                    continue;
                }
                let Ok(descriptor) = Descriptor::read(&octets, self.compat) else { continue };
                let same = |(_, other): &&(usize, Descriptor)| {
                    other.id == descriptor.id || other.name == descriptor.name
                };
                if found.iter().rev().find(same).is_none_or(|(_, last)| *last != descriptor) {
                    found.push((n, descriptor));
                }
            }
        }
        found
    }

    /// The descriptors of all items that the heaps of these rows may carry: those in force at the first of them, then those
    /// that come later; and the ids of items of the first chunk without a descriptor.
    ///
    /// Chunks with descriptors are read for this, at most eight before the rows and eight in them.
    ///
    /// # Errors
    /// [`HeapsError::Wrong`]: there are no such rows.
    pub fn descriptors(&self, rows: Range<u64>) -> Result<(Vec<Descriptor>, Vec<u64>), HeapsError> {
        let parts = self.parts(rows)?;
        let mut found: Vec<Descriptor> = Vec::new();
        let mut add = |descriptor: &Descriptor| {
            if !found.iter().any(|other| other.id == descriptor.id || other.name == descriptor.name) {
                found.push(descriptor.clone());
            }
        };
        let Some((first, within)) = parts.first() else { return Ok((found, Vec::new())) };
        let back = (0..=*first).rev().filter(|&piece| self.may_carry(piece, id::DESCRIPTOR));
        for piece in back.take(MOST_SEARCHED) {
            let chunk = self.chunk(piece);
            let described = chunk.iter().flat_map(|chunk| chunk.described.iter().rev());
            described.filter(|(n, _)| piece < *first || *n <= within.start).for_each(|(_, d)| add(d));
        }
        let forth = parts.iter().filter(|(piece, _)| self.may_carry(*piece, id::DESCRIPTOR));
        for (piece, within) in forth.take(MOST_SEARCHED) {
            let chunk = self.chunk(*piece);
            let described = chunk.iter().flat_map(|chunk| &chunk.described);
            described.filter(|(n, _)| within.contains(n)).for_each(|(_, d)| add(d));
        }
        let carried = self.carried_ids(*first).into_iter().filter(|id| *id > id::DTYPE);
        let unknown = carried.filter(|id| found.iter().all(|d| d.id != *id)).collect();
        Ok((found, unknown))
    }

    /// The ids of all items in a chunk.
    fn carried_ids(&self, piece: usize) -> BTreeSet<u64> {
        if let Some(items) = self.told(piece).and_then(|told| told.items.as_ref()) {
            return items.iter().copied().collect();
        }
        let Some(chunk) = self.chunk(piece) else { return BTreeSet::new() };
        let heaps = (0..chunk.heaps()).filter_map(|n| chunk.heap(n));
        heaps.flat_map(|heap| heap.pointers.iter().map(move |&p| heap.flavour.parts(p).id)).collect()
    }

    /// The descriptor of an item that is in force at the end of a piece.
    pub(super) fn described_by(&self, piece: usize, field: &Field) -> Option<Arc<Descriptor>> {
        let name: Name = (field.id(), field.name().to_owned());
        let known = |piece| {
            let memos = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
            memos.get(&name).and_then(|memo| memo.at(piece))
        };
        let (mut found, mut at) = (None, piece);
        loop {
            if let Some(known) = known(at) {
                found = known;
                break;
            }
            if self.may_carry(at, id::DESCRIPTOR)
                && let Some(chunk) = self.chunk(at)
                && let Some((_, last)) = chunk.described.iter().rev().find(|(_, d)| field.is_named_by(d))
            {
                found = Some(Arc::new(last.clone()));
                break;
            }
            let Some(before) = at.checked_sub(1) else { break };
            at = before;
        }
        let mut memos = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        memos.entry(name).or_default().put(at, piece, found.clone());
        found
    }
}
