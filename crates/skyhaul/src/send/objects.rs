//! Objects as packets: heaps and events go out from where their bytes lie, in trains, at an exact rate.
//!
//! ```text
//!   Object          heads are written into a small buffer,
//!   Object  ─▶ Run ─▶ batch ─ due? ─▶ Outlet: UDP (trains across objects), TCP, in-process queue, bytes
//!   Object    serial, or round robin         payload is gathered in place
//! ```
//!
//! A [`Stream`] has one [`Outlet`](super::Outlet), one rate and one order, and any number of destinations (*substreams*).
//! [`Stream::send`] works in the caller's thread; [`Stream::queue`] hands objects to a thread of the stream and gives a
//! [`Ticket`]. Whatever waits (for its time, for room in a queue or connection) ends at once on
//! [`cancel`](Stream::cancel). What an object is, its [`Object`] implementation says: the compiler makes a sender for each kind.
//!
//! Limits: an object's bytes must keep their lengths while it is sent (their content may change between two sends). An
//! error of a socket ends the objects that were in the same system calls.
//!
//! What a sender asks of an object, and which packet is next:
//!
//! ```text
//!   Config ─ division ─┐
//!   Object ─ number  ──┴▶ Plan: packets by arithmetic ─ packet n ─▶ head, and which part of the object's chunks
//!
//!   entries   object 0, object 1, object 2, …
//!   parts     objects in progress: one, or in a round robin all   ─▶ a packet of the one whose turn it is ─▶ Burst
//! ```

mod burst;
mod queue;
mod stream;

pub use burst::Batch;
pub use queue::Ticket;
pub use stream::Stream;

use super::{Limits, Next, Outlet, Pacing, SendError, SendStats, Source};
use burst::{Burst, Entry, InProgress, Sequence};
use skyhaul_core::packetize::Part;
use skyhaul_core::pattern;
use skyhaul_io::gathered::Extent;
use skyhaul_io::udp::send::Sent;
use std::fmt::Debug;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How a stream of objects sends.
pub trait ObjectConfig: Clone + Debug + Send + Sync + 'static {
    /// How objects are divided into packets.
    type Division: Copy + PartialEq + Debug + Send + Sync;

    /// How objects are divided into packets.
    fn division(&self) -> Self::Division;

    /// Its rate.
    fn pacing(&self) -> Pacing;

    /// Its queue.
    fn waiting(&self) -> Waiting;

    /// Check that such packets can be sent there.
    ///
    /// # Errors
    /// [`SendError::Config`], with what would do.
    fn check(&self, outlet: &Outlet) -> Result<(), SendError>;
}

/// What waits in a stream's queue, and who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Maximum number of objects queued or being sent.
    pub most: usize,
    /// How long dropping the stream waits for queued objects.
    pub linger: Duration,
    /// CPU for the stream's own thread.
    pub cpu: Option<usize>,
}

/// An object that is sent as packets.
pub trait Object: Debug + Send + Sync + Sized + 'static {
    /// How a stream of them sends.
    type Config: ObjectConfig;
    /// One of them divided into packets: a few numbers.
    type Plan: Clone + Send + Sync;

    /// Check that it can be sent, so that nothing is sent of several objects of which one cannot.
    ///
    /// # Errors
    /// [`SendError::Packets`].
    fn check(&self, division: Division<Self>) -> Result<(), SendError>;

    /// Divide it.
    ///
    /// # Errors
    /// [`SendError::Packets`].
    fn plan(&self, division: Division<Self>, number: u64) -> Result<Self::Plan, SendError>;

    /// The same plan for another number.
    fn with_number(plan: &Self::Plan, number: u64) -> Self::Plan;

    /// Number of packets, at least 1.
    fn count(plan: &Self::Plan) -> u64;

    /// Bytes of packet `n`.
    fn bytes_of(plan: &Self::Plan, n: u64) -> u64;

    /// Bytes of the longest head.
    fn head_bytes_max(plan: &Self::Plan) -> usize;

    /// Write the head of packet `n` to the front of `head`, which has room for the longest.
    fn packet(&self, plan: &Self::Plan, n: u64, head: &mut [u8]) -> Part;

    /// Its bytes.
    fn chunks(&self) -> &Chunks;
}

/// How objects of this kind are divided.
pub type Division<O> = <<O as Object>::Config as ObjectConfig>::Division;

/// Settings of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Its number: the counter of a heap, truncated to the flavour's bits; the tick of an event. `None`: the next of the
    /// stream's sequence.
    pub counter: Option<u64>,
    /// Its destination.
    pub substream: usize,
    /// Bits per second for this object; `None`: the stream's.
    pub rate: Option<u64>,
}

/// The order in which the packets of several objects are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One object after another.
    #[default]
    Serial,
    /// A packet of each object in turn; objects with fewer packets end earlier.
    RoundRobin,
}

/// Bytes of an object, or of a part of one.
#[derive(Clone)]
pub enum Payload {
    /// Owned.
    Own(Vec<u8>),
    /// In the program.
    Static(&'static [u8]),
    /// Shared memory of another owner.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Payload {
    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Own(bytes) => bytes,
            Payload::Static(bytes) => bytes,
            Payload::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload::Own(bytes)
    }
}

impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Self {
        Payload::Static(bytes)
    }
}

impl<T: AsRef<[u8]> + Send + Sync + 'static> From<Arc<T>> for Payload {
    fn from(bytes: Arc<T>) -> Self {
        Payload::Shared(bytes)
    }
}

impl From<Arc<dyn AsRef<[u8]> + Send + Sync>> for Payload {
    fn from(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        Payload::Shared(bytes)
    }
}

/// A run of an object's bytes.
#[derive(Clone, Debug)]
struct Chunk {
    /// Where it begins in the payload.
    start: u64,
    /// Its length when it was added.
    bytes: u64,
    payload: Payload,
}

/// The bytes of an object: chunks, one after another.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    chunks: Vec<Chunk>,
    bytes: u64,
}

impl Chunks {
    /// Bytes of all of them.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Add a chunk.
    pub fn push(&mut self, payload: Payload) {
        let bytes = payload.bytes().len() as u64;
        if bytes > 0 {
            self.chunks.push(Chunk { start: self.bytes, bytes, payload });
            self.bytes += bytes;
        }
    }

    /// Add bytes that verify themselves: the pattern of `object`, from byte to byte of it.
    pub fn push_pattern(&mut self, object: u64, part: Range<u64>) {
        for at in (part.start..part.end).step_by(pattern::LONGEST) {
            let bytes = (part.end - at).min(pattern::LONGEST as u64) as usize;
            self.push(Payload::Static(pattern::slice(object, at, bytes)));
        }
    }

    /// The chunks' bytes as they are now, for tests and custom transports.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(|chunk| chunk.payload.bytes())
    }

    /// Bytes `at..at + length` of a chunk; `None` if it is shorter now than when it was added.
    #[inline]
    fn get(&self, chunk: usize, at: u64, length: u64) -> Option<&[u8]> {
        let bytes = self.chunks.get(chunk)?.payload.bytes();
        bytes.get(at as usize..(at + length) as usize)
    }
}

/// A run, and the memory for its packets.
struct Objects<'r, 'h, O: Object> {
    run: Run<'h, O>,
    burst: &'r mut Burst,
    /// Called for each job that ended, with the bytes of its packets or the error.
    done: &'r mut dyn FnMut(usize, Result<u64, SendError>),
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

/// Objects that are sent together.
struct Run<'h, O: Object> {
    entries: &'h dyn Fn(usize) -> Entry<'h, O>,
    count: usize,
    division: Division<O>,
    sequence: Sequence,
    /// Objects loaded so far.
    loaded: usize,
    parts: Vec<InProgress<'h, O>>,
    /// Round robin: the parts that have packets left, and whose turn it is.
    ring: Option<Vec<usize>>,
    turn: usize,
    /// The job of the last packet, and the bytes of its packets so far.
    job: (usize, u64),
}

impl<'h, O: Object> Run<'h, O> {
    /// `count` objects, which were [checked](Object::check).
    fn new(
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
        self.parts.push(InProgress {
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
    fn next_rate(&mut self) -> Result<Option<Option<u64>>, SendError> {
        Ok(self.current()?.map(|part| self.parts[part].rate))
    }

    /// Whether a packet is begun and not at its end.
    fn is_mid_packet(&self) -> bool {
        self.parts.iter().any(|part| part.rest.is_some())
    }

    /// Leave out what is left of this job, which failed.
    fn skip(&mut self, job: usize) {
        if self.ring.is_some() {
            (self.ring, self.parts, self.loaded) = (None, Vec::new(), self.count);
        }
        self.parts.retain(|part| part.job != job);
        while self.loaded < self.count && (self.entries)(self.loaded).job == job {
            self.loaded += 1;
        }
    }

    /// Fill `burst` with the next packets; it stays empty at the end.
    fn fill(&mut self, burst: &mut Burst, limits: Limits) -> Result<(), SendError> {
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
