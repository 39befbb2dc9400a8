//! Heaps that are sent again and again: divided into packets once.

use super::config::{HeapOptions, SendConfig};
use super::heap::Heap;
use super::part::{Entry, Sequence};
use super::run::Division;
use crate::send::SendError;
use skyhaul_core::wire::spead::packets::Plan;
use std::ops::Range;
use std::sync::Arc;

/// Prepared heaps, or some of them. Cloning and slicing cost nothing. What their items show may change between two
/// sends, their lengths may not.
#[derive(Clone)]
pub struct Batch {
    all: Arc<Prepared>,
    range: Range<usize>,
}

struct Prepared {
    division: Division,
    heaps: Vec<(Arc<Heap>, HeapOptions, Plan)>,
    /// The highest number of a destination.
    substream: usize,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch of {} heaps", self.len())
    }
}

impl Batch {
    /// Prepare heaps for streams with this packet size and split.
    ///
    /// # Errors
    /// A heap cannot be divided in this way.
    pub fn new(heaps: Vec<(Arc<Heap>, HeapOptions)>, config: &SendConfig) -> Result<Self, SendError> {
        let division = Division { packet: config.packet, split: config.split };
        let mut prepared = Vec::with_capacity(heaps.len());
        let mut substream = 0;
        for (heap, options) in heaps {
            let plan = division.plan(&heap, 0)?;
            substream = substream.max(options.substream);
            prepared.push((heap, options, plan));
        }
        let range = 0..prepared.len();
        Ok(Self { all: Arc::new(Prepared { division, heaps: prepared, substream }), range })
    }

    /// Heaps of this batch, as a batch.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let within = range.start <= range.end && range.end <= self.len();
        let range = within.then(|| self.range.start + range.start..self.range.start + range.end)?;
        Some(Self { all: self.all.clone(), range })
    }

    /// How many heaps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The heaps.
    pub fn heaps(&self) -> impl Iterator<Item = (&Arc<Heap>, &HeapOptions)> {
        self.all.heaps[self.range.clone()].iter().map(|(heap, options, _)| (heap, options))
    }

    /// How many have no counter of their own.
    pub(super) fn unnumbered(&self) -> usize {
        self.heaps().filter(|(_, options)| options.counter.is_none()).count()
    }

    pub(super) fn check(&self, division: Division, substreams: usize) -> Result<(), SendError> {
        if self.all.division != division {
            return Err(SendError::Config(
                "the batch was prepared for other packets; hint: prepare it with the stream's own config()"
                    .into(),
            ));
        }
        if self.all.substream >= substreams {
            return Err(SendError::NoSubstream { asked: self.all.substream, have: substreams });
        }
        Ok(())
    }

    #[inline]
    pub(super) fn entry(&self, n: usize, job: usize, sequence: Sequence) -> Entry<'_> {
        let (heap, options, plan) = &self.all.heaps[self.range.start + n];
        Entry {
            heap,
            options: *options,
            plan: Some(plan),
            job,
            last: n + 1 == self.len(),
            sequence: (n == 0).then_some(sequence),
        }
    }
}
