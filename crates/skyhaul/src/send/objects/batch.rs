//! Objects that are sent again and again: divided into packets once.

use super::object::{Division, Object, ObjectConfig};
use super::options::ObjectOptions;
use super::part::{Entry, Sequence};
use crate::send::SendError;
use std::ops::Range;
use std::sync::Arc;

/// Prepared objects, or some of them. Cloning and slicing cost nothing. What their bytes are may change between two
/// sends, their lengths may not.
pub struct Batch<O: Object> {
    all: Arc<Prepared<O>>,
    range: Range<usize>,
}

struct Prepared<O: Object> {
    division: Division<O>,
    objects: Vec<(Arc<O>, ObjectOptions, O::Plan)>,
    /// The highest number of a destination.
    substream: usize,
}

impl<O: Object> Clone for Batch<O> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), range: self.range.clone() }
    }
}

impl<O: Object> std::fmt::Debug for Batch<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch of {}", self.len())
    }
}

impl<O: Object> Batch<O> {
    /// Prepare objects for streams that divide as this configuration says.
    ///
    /// # Errors
    /// An object cannot be divided in this way.
    pub fn new(objects: Vec<(Arc<O>, ObjectOptions)>, config: &O::Config) -> Result<Self, SendError> {
        let division = config.division();
        let mut prepared = Vec::with_capacity(objects.len());
        let mut substream = 0;
        for (object, options) in objects {
            let plan = object.plan(division, 0)?;
            substream = substream.max(options.substream);
            prepared.push((object, options, plan));
        }
        let range = 0..prepared.len();
        Ok(Self { all: Arc::new(Prepared { division, objects: prepared, substream }), range })
    }

    /// Objects of this batch, as a batch.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let within = range.start <= range.end && range.end <= self.len();
        let range = within.then(|| self.range.start + range.start..self.range.start + range.end)?;
        Some(Self { all: self.all.clone(), range })
    }

    /// How many objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = (&Arc<O>, &ObjectOptions)> {
        self.all.objects[self.range.clone()].iter().map(|(object, options, _)| (object, options))
    }

    /// How many have no number of their own.
    pub(super) fn unnumbered(&self) -> usize {
        self.objects().filter(|(_, options)| options.counter.is_none()).count()
    }

    pub(super) fn check(&self, division: Division<O>, substreams: usize) -> Result<(), SendError> {
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
    pub(super) fn entry(&self, n: usize, job: usize, sequence: Sequence) -> Entry<'_, O> {
        let (object, options, plan) = &self.all.objects[self.range.start + n];
        Entry {
            object,
            options: *options,
            plan: Some(plan),
            job,
            last: n + 1 == self.len(),
            sequence: (n == 0).then_some(sequence),
        }
    }
}
