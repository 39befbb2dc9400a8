//! From objects to packets: which is next.
//!
//! ```text
//!   entries   object 0, object 1, object 2, …
//!   parts     objects that are begun: one, or in a round robin all   ─▶ a packet of the one whose turn it is ─▶ Burst
//! ```
//!
//! A [`Run`] is what the engine sends.

use super::burst::{Burst, Entry, Part, Sequence};
use super::object::{Division, Object, Order};
use crate::send::{Limits, Next, SendError, SendStats, Source};
use skyhaul_io::gathered::Extent;
use skyhaul_io::udp::send::Sent;
use std::io::IoSlice;
use std::ops::Range;

/// Objects that are sent together.
pub(super) struct Run<'h, O: Object> {
    pub(super) entries: &'h dyn Fn(usize) -> Entry<'h, O>,
    count: usize,
    division: Division<O>,
    sequence: Sequence,
    /// Objects loaded so far.
    loaded: usize,
    parts: Vec<Part<'h, O>>,
    /// Round robin: the parts that have packets left, and whose turn it is.
    ring: Option<Vec<usize>>,
    turn: usize,
    /// The job of the last packet, and the bytes of its packets so far.
    job: (usize, u64),
}

impl<'h, O: Object> Run<'h, O> {
    /// `count` objects, which were [checked](Object::check).
    pub(super) fn new(
        count: usize,
        entries: &'h dyn Fn(usize) -> Entry<'h, O>,
        order: Order,
        division: Division<O>,
    ) -> Result<Self, SendError> {
        let sequence = Sequence { next: 0, step: 0 };
        let mut run = Self {
            entries,
            count,
            division,
            sequence,
            loaded: 0,
            parts: Vec::with_capacity(if order == Order::RoundRobin { count } else { 1 }),
            ring: None,
            turn: 0,
            job: (0, 0),
        };
        if order == Order::RoundRobin && count > 1 {
            while run.loaded < count {
                run.load()?;
            }
            run.ring = Some((0..count).collect());
        }
        Ok(run)
    }

    fn load(&mut self) -> Result<(), SendError> {
        let entry = (self.entries)(self.loaded);
        if let Some(sequence) = entry.sequence {
            self.sequence = sequence;
        }
        let counter = entry.options.counter.unwrap_or_else(|| self.sequence.take());
        let plan = match entry.plan {
            Some(plan) => O::with_number(plan, counter),
            None => entry.object.plan(self.division, counter)?,
        };
        self.parts.push(Part {
            entry: self.loaded,
            object: entry.object,
            plan,
            next: 0,
            rest: None,
            chunk: 0,
            substream: entry.options.substream,
            rate: entry.options.rate,
            job: entry.job,
            last: entry.last,
        });
        self.loaded += 1;
        Ok(())
    }

    /// The part whose turn it is.
    #[inline]
    fn current(&mut self) -> Result<Option<usize>, SendError> {
        if let Some(ring) = &self.ring {
            return Ok(ring.get(self.turn).copied());
        }
        if self.parts.is_empty() && self.loaded < self.count {
            self.load()?;
        }
        Ok((!self.parts.is_empty()).then_some(0))
    }

    /// The rate of the object that is next: `Some(None)` is the stream's.
    pub(super) fn next_rate(&mut self) -> Result<Option<Option<u64>>, SendError> {
        Ok(self.current()?.map(|part| self.parts[part].rate))
    }

    /// Whether a packet is begun and not at its end.
    pub(super) fn is_mid_packet(&self) -> bool {
        self.parts.iter().any(|part| part.rest.is_some())
    }

    /// Leave out what is left of this job, which failed.
    pub(super) fn skip(&mut self, job: usize) {
        if self.ring.is_some() {
            (self.ring, self.parts, self.loaded) = (None, Vec::new(), self.count);
        }
        self.parts.retain(|part| part.job != job);
        while self.loaded < self.count && (self.entries)(self.loaded).job == job {
            self.loaded += 1;
        }
    }

    /// Fill `burst` with the next packets; it stays empty at the end.
    pub(super) fn fill(&mut self, burst: &mut Burst, limits: Limits) -> Result<(), SendError> {
        burst.clear();
        while let Some(at) = self.current()? {
            let part = &mut self.parts[at];
            if !burst.has_room(part, limits) {
                break;
            }
            burst.touch(part.job);
            if self.job.0 != part.job {
                self.job = (part.job, 0);
            }
            self.job.1 += burst.put(part, limits)?;
            let finished = part.is_finished();
            if finished {
                burst.objects += 1;
                burst.payload_bytes += part.object.chunks().bytes();
            }
            self.step(burst, at, finished);
        }
        Ok(())
    }

    /// After a packet (or piece) of part `at`.
    #[inline]
    fn step(&mut self, burst: &mut Burst, at: usize, finished: bool) {
        let mut job_done = finished && self.parts[at].last;
        if let Some(ring) = &mut self.ring {
            // A packet that goes out in pieces keeps its turn.
            self.turn += usize::from(self.parts[at].rest.is_none());
            if self.turn == ring.len() {
                let parts = &self.parts;
                ring.retain(|&n| !parts[n].is_finished());
                self.turn = 0;
            }
            job_done = ring.is_empty();
        }
        if job_done {
            burst.jobs.push(self.job);
            self.job.1 = 0;
        }
        if finished && self.ring.is_none() {
            self.parts.clear();
        }
    }
}

/// A run, and the memory for its packets.
pub(super) struct Objects<'r, 'h, O: Object> {
    pub(super) run: Run<'h, O>,
    pub(super) burst: &'r mut Burst,
    /// Called for each job that ended, with the bytes of its packets or the error.
    pub(super) done: &'r mut dyn FnMut(usize, Result<u64, SendError>),
}

impl<O: Object> Source for Objects<'_, '_, O> {
    fn next(&mut self) -> Result<Next, SendError> {
        Ok(self.run.next_rate()?.map_or(Next::End, Next::Packets))
    }

    fn fill(&mut self, limits: Limits) -> Result<(), SendError> {
        self.run.fill(self.burst, limits)
    }

    fn packets(&self) -> usize {
        self.burst.packets()
    }

    fn substreams(&self) -> Range<usize> {
        self.burst.substreams()
    }

    fn gather<'a>(
        &'a mut self,
        substream: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize> {
        self.burst.gather(self.run.entries, substream, slices, extents)
    }

    fn jobs(&self) -> Range<usize> {
        self.burst.touched.clone()
    }

    fn is_mid_packet(&self) -> bool {
        self.run.is_mid_packet()
    }

    fn leave_out(&mut self, job: usize, error: SendError) {
        self.burst.remove(job);
        self.run.skip(job);
        (self.done)(job, Err(error));
    }

    fn sent(&mut self, _: Sent, stats: &mut SendStats) {
        stats.objects += self.burst.objects;
        stats.packets += self.burst.whole;
        stats.payload_bytes += self.burst.payload_bytes;
    }

    fn finish_batch(&mut self) {
        for &(job, bytes) in &self.burst.jobs {
            (self.done)(job, Ok(bytes));
        }
    }
}
