//! What becomes of heaps: counted, checked, written to a file, recorded.

use super::receive::Asked;
use super::received::HeapCounts;
use skyhaul::core::pattern;
use skyhaul::spead::receive::Heap;
use skyhaul::spead::record::HeapRecorder;
use skyhaul::wire::spead::id;
use std::io::Write;
use std::time::Instant;

/// Where heaps go.
pub(super) enum Outlet {
    Nowhere,
    /// Their data, one after the other.
    File(Box<dyn Write + Send>),
    Disks(Box<HeapRecorder>),
}

/// What is done with heaps.
pub(super) struct Consumer {
    pub(super) outlet: Outlet,
    pub(super) verify: bool,
    /// Heaps still wanted.
    pub(super) left: u64,
    fill: bool,
    pub(super) counts: HeapCounts,
    pub(super) bytes: u64,
    pub(super) wrong: u64,
    /// When the first packet that was taken was seen, in steps of the looks for an end.
    pub(super) came: Option<Instant>,
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
}

impl Consumer {
    pub(super) fn new(args: &Asked<'_>, outlet: Outlet) -> Self {
        Self {
            outlet,
            verify: args.verify,
            left: args.common.spead.heaps.unwrap_or(u64::MAX),
            fill: args.common.spead.incomplete,
            counts: HeapCounts::default(),
            bytes: 0,
            wrong: 0,
            came: None,
            first: None,
            last: None,
        }
    }

    pub(super) fn take(&mut self, heaps: impl Iterator<Item = Heap>) -> std::io::Result<()> {
        let now = Instant::now();
        for heap in heaps {
            if self.left == 0 {
                break;
            }
            if let Outlet::Disks(recorder) = &mut self.outlet {
                recorder.take(&heap);
            }
            if !is_data(&heap) {
                continue;
            }
            self.left -= 1;
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.bytes += heap.received;
            if heap.complete {
                self.counts.complete += 1;
            } else {
                self.counts.incomplete += 1;
                self.counts.missing_bytes += heap.missing.iter().map(|gap| gap.end - gap.start).sum::<u64>();
            }
            if self.verify && !is_pattern(&heap) {
                self.wrong += 1;
            }
            if let Outlet::File(output) = &mut self.outlet
                && (heap.complete || self.fill)
            {
                write_data(output, &heap)?;
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.outlet {
            Outlet::File(output) => output.flush(),
            Outlet::Nowhere | Outlet::Disks(_) => Ok(()),
        }
    }

    /// Time passes.
    pub(super) fn tick(&mut self) {
        if let Outlet::Disks(recorder) = &mut self.outlet {
            recorder.tick();
        }
    }
}

/// Descriptors, stream control and the padding of trials are no data. A heap whose first packet is lost tells no items,
/// and is counted and written as data that it most likely was.
fn is_data(heap: &Heap) -> bool {
    let parts = heap.pointers().iter().map(|&pointer| heap.flavour().parts(pointer));
    let mut addressed = { parts }.filter(|item| !item.immediate).peekable();
    !heap.complete && addressed.peek().is_none() || addressed.any(|item| item.id > id::DTYPE)
}

/// Write the data of a heap: all of its payload, but for descriptors, which spead2 sends in the same heap, and padding.
fn write_data(output: &mut dyn Write, heap: &Heap) -> std::io::Result<()> {
    let mut items = heap.pointers().iter().map(|&pointer| heap.flavour().parts(pointer));
    if items.all(|item| item.immediate || item.id > id::DTYPE) {
        return output.write_all(heap.payload());
    }
    let data = heap.items().into_iter().filter(|item| item.id > id::DTYPE);
    { data }.try_for_each(|item| output.write_all(heap.item_bytes(&item)))
}

/// Whether all that came of it is the pattern of its counter.
fn is_pattern(heap: &Heap) -> bool {
    let payload = heap.payload();
    // A heap of nothing but empty items has one byte, which is padding.
    if payload.len() == 1 && heap.items().iter().all(|item| item.id <= id::DTYPE || item.range.is_empty()) {
        return true;
    }
    let ends = heap.missing.iter().map(|gap| (gap.start, gap.end)).chain([(payload.len() as u64, 0)]);
    let mut at = 0;
    ends.into_iter().all(|(end, next)| {
        let part = payload.get(at as usize..end as usize).unwrap_or_default();
        let right = pattern::first_error(heap.number, at, part).is_none();
        at = next;
        right
    })
}
