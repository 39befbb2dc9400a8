//! The packets that are sent together, each as references to its bytes.
//!
//! ```text
//!   pieces    │ arena: head │ chunk 3 of object 0, bytes 0..1392 │ arena: head, few bytes │ …
//!   packets   └────────────── 0 ───────────────┘└───────────── 1 ─────────────
//! ```
//!
//! A burst is written twice: as numbers, with the heads written into the arena, and then as the slices of a system
//! call. Numbers need no borrowing, so all their memory is used again, and a packet costs no allocation. Few bytes of
//! payload are copied behind their head: a slice more costs the kernel more than that.

use super::object::{Chunks, Division, Object, ObjectConfig, ObjectOptions};
use crate::send::{Limits, SendError};
use skyhaul_core::hint::Hint;
use skyhaul_io::gathered::Extent;
use skyhaul_io::udp::send::{TRAIN_BYTES, TRAIN_PACKETS};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Below this, bytes are copied behind their head.
const SMALL_BYTES: u64 = 256;
/// Memory for heads and copied bytes.
const ARENA_BYTES: usize = 512 << 10;
/// Most packets in a burst.
const MAX_PACKETS: usize = 512;

/// Bytes of a packet.
#[derive(Clone, Copy)]
enum Piece {
    Arena { at: usize, bytes: usize },
    Chunk { entry: usize, chunk: usize, at: u64, bytes: u64 },
}

#[derive(Clone, Copy)]
struct Packet {
    first: usize,
    end: usize,
    bytes: usize,
    substream: usize,
    job: usize,
}

/// The packets of some system calls.
pub(super) struct Burst {
    arena: Vec<u8>,
    used: usize,
    pieces: Vec<Piece>,
    packets: Vec<Packet>,
    train: Train,
    rate: Option<u64>,
    /// Bytes of the packets.
    pub(super) bytes: u64,
    /// Objects whose last packet is here, and their payload.
    pub(super) objects: u64,
    pub(super) payload_bytes: u64,
    /// Jobs whose last packet is here, with the bytes of all their packets; and all jobs with packets here.
    pub(super) jobs: Vec<(usize, u64)>,
    pub(super) touched: Range<usize>,
    /// Whole packets (of one that goes out in pieces, the last piece).
    pub(super) whole: u64,
}

/// The train at the end of a burst.
#[derive(Clone, Copy, Default)]
struct Train {
    /// Trains so far, this one included.
    number: usize,
    packets: usize,
    bytes: u64,
    stride: u64,
    closed: bool,
}

impl Train {
    /// With a packet more.
    #[inline]
    fn with(self, bytes: u64) -> Self {
        let longer = self.bytes + bytes > TRAIN_BYTES as u64 || bytes > self.stride;
        if self.number == 0 || self.closed || longer || self.packets == TRAIN_PACKETS {
            return Train { number: self.number + 1, packets: 1, bytes, stride: bytes, closed: false };
        }
        let closed = bytes < self.stride;
        Train { packets: self.packets + 1, bytes: self.bytes + bytes, closed, ..self }
    }
}

impl Burst {
    pub(super) fn new() -> Self {
        Self {
            arena: vec![0; ARENA_BYTES],
            used: 0,
            pieces: Vec::with_capacity(2 * MAX_PACKETS),
            packets: Vec::with_capacity(MAX_PACKETS),
            train: Train::default(),
            rate: None,
            bytes: 0,
            objects: 0,
            payload_bytes: 0,
            jobs: Vec::new(),
            touched: 0..0,
            whole: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.packets.clear();
        self.jobs.clear();
        (self.used, self.bytes, self.objects, self.payload_bytes, self.whole) = (0, 0, 0, 0, 0);
        (self.train, self.touched) = (Train::default(), 0..0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Leave out the packets of a job that failed.
    pub(super) fn remove(&mut self, job: usize) {
        self.packets.retain(|packet| packet.job != job);
        self.jobs.retain(|&(done, _)| done != job);
    }

    pub(super) fn touch(&mut self, job: usize) {
        if self.touched.is_empty() {
            self.touched = job..job + 1;
        }
        self.touched.end = self.touched.end.max(job + 1);
    }

    /// Whether the part's next packet goes into this burst too.
    #[inline]
    pub(super) fn has_room<O: Object>(&mut self, part: &Part<'_, O>, limits: Limits) -> bool {
        let bytes = part.next_bytes();
        // At worst each piece is just short enough to be copied; dummies are fewer than 16 bytes.
        let pieces = (part.object.chunks().chunks.len() - part.chunk + 1) as u64;
        let copied = bytes.min(pieces * SMALL_BYTES) + 16;
        let arena = self.used + copied as usize + O::head_bytes_max(&part.plan);
        let train = self.train.with(bytes);
        if self.is_empty() {
            if arena > self.arena.len() {
                self.arena.resize(arena, 0);
            }
            self.rate = part.rate;
        } else {
            let full = self.bytes >= limits.bytes || (!limits.stream && self.bytes + bytes > limits.bytes);
            if full
                || self.packets.len() == MAX_PACKETS
                || arena > self.arena.len()
                || train.number > limits.trains
                || part.rate != self.rate
            {
                return false;
            }
        }
        self.train = train;
        true
    }

    /// Put the part's next packet here, or a piece of it; its bytes.
    #[inline]
    pub(super) fn put<O: Object>(
        &mut self,
        part: &mut Part<'_, O>,
        limits: Limits,
    ) -> Result<u64, SendError> {
        let (first, mut bytes) = (self.pieces.len(), 0);
        let (mut payload, dummy) = match part.rest.take() {
            Some(rest) => rest,
            None => {
                let made = part.object.packet(&part.plan, part.next, &mut self.arena[self.used..]);
                self.arena_piece(first, made.head);
                bytes += made.head as u64;
                (made.payload, made.dummy)
            }
        };
        let room = limits.bytes.saturating_sub(self.bytes).max(SMALL_BYTES);
        let end = payload.end;
        if limits.stream && payload.end - payload.start > room {
            payload.end = payload.start + room;
            part.rest = Some((payload.end..end, dummy));
        }
        bytes += payload.end - payload.start;
        self.put_payload(part, payload, first)?;
        if part.rest.is_none() {
            if dummy > 0 {
                self.arena[self.used..self.used + dummy].fill(0);
                self.arena_piece(first, dummy);
                bytes += dummy as u64;
            }
            part.next += 1;
            self.whole += 1;
        }
        self.bytes += bytes;
        self.packets.push(Packet {
            first,
            end: self.pieces.len(),
            bytes: bytes as usize,
            substream: part.substream,
            job: part.job,
        });
        Ok(bytes)
    }

    /// The next `bytes` of the arena belong to the packet that begins with piece `first`.
    #[inline]
    fn arena_piece(&mut self, first: usize, bytes: usize) {
        let own = self.pieces.len() > first;
        match self.pieces.last_mut() {
            Some(Piece::Arena { bytes: before, .. }) if own => *before += bytes,
            _ => self.pieces.push(Piece::Arena { at: self.used, bytes }),
        }
        self.used += bytes;
    }

    #[inline]
    fn put_payload<O: Object>(
        &mut self,
        part: &mut Part<'_, O>,
        mut payload: Range<u64>,
        first: usize,
    ) -> Result<(), SendError> {
        let chunks = part.object.chunks();
        while payload.start < payload.end {
            let Some(chunk) = chunks.chunks.get(part.chunk) else { return Err(SendError::Changed) };
            let at = payload.start - chunk.start;
            if at >= chunk.bytes {
                part.chunk += 1;
                continue;
            }
            let bytes = (chunk.bytes - at).min(payload.end - payload.start);
            if bytes <= SMALL_BYTES {
                let from = chunks.get(part.chunk, at, bytes).ok_or(SendError::Changed)?;
                self.arena[self.used..self.used + from.len()].copy_from_slice(from);
                self.arena_piece(first, from.len());
            } else {
                self.pieces.push(Piece::Chunk { entry: part.entry, chunk: part.chunk, at, bytes });
            }
            payload.start += bytes;
        }
        Ok(())
    }

    /// The destinations of the packets, from the lowest to behind the highest.
    pub(super) fn substreams(&self) -> Range<usize> {
        let all = || self.packets.iter().map(|packet| packet.substream);
        all().min().unwrap_or(0)..all().max().map_or(0, |n| n + 1)
    }

    /// The packets for this destination as slices, put into `slices` and `extents`. If an object has become
    /// shorter: its job.
    #[inline]
    pub(super) fn gather<'a, 'h: 'a, O: Object>(
        &'a self,
        entries: &'h dyn Fn(usize) -> Entry<'h, O>,
        substream: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize> {
        let mut last: Option<(usize, &'a Chunks)> = None;
        for packet in &self.packets {
            if packet.substream != substream {
                continue;
            }
            extents.push(Extent { first: slices.len(), bytes: packet.bytes });
            for piece in &self.pieces[packet.first..packet.end] {
                slices.push(match *piece {
                    Piece::Arena { at, bytes } => IoSlice::new(&self.arena[at..at + bytes]),
                    Piece::Chunk { entry, chunk, at, bytes } => {
                        let chunks = match last {
                            Some((n, chunks)) if n == entry => chunks,
                            _ => entries(entry).object.chunks(),
                        };
                        last = Some((entry, chunks));
                        IoSlice::new(chunks.get(chunk, at, bytes).ok_or(packet.job)?)
                    }
                });
            }
        }
        Ok(())
    }
}

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
            return Err(SendError::Config(format!(
                "the batch was prepared for other packets{}",
                Hint("prepare it with the stream's own config()")
            )));
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

/// Numbers of objects, as they are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) next: u64,
    pub(super) step: u64,
}

impl Sequence {
    pub(super) fn take(&mut self) -> u64 {
        let now = self.next;
        self.next = now.wrapping_add(self.step);
        now
    }
}

/// An object of a run.
pub(super) struct Entry<'h, O: Object> {
    pub(super) object: &'h O,
    pub(super) options: ObjectOptions,
    /// How it is divided, where that is known.
    pub(super) plan: Option<&'h O::Plan>,
    /// The job it belongs to, whether it is its last object, and the numbers of a job that begins here.
    pub(super) job: usize,
    pub(super) last: bool,
    pub(super) sequence: Option<Sequence>,
}

/// An object that is begun.
pub(super) struct Part<'h, O: Object> {
    pub(super) entry: usize,
    pub(super) object: &'h O,
    pub(super) plan: O::Plan,
    pub(super) next: u64,
    /// Of a packet that goes out in pieces: payload and dummies to come.
    pub(super) rest: Option<(Range<u64>, usize)>,
    /// The chunk that the next payload begins in, or one before.
    pub(super) chunk: usize,
    pub(super) substream: usize,
    pub(super) rate: Option<u64>,
    pub(super) job: usize,
    pub(super) last: bool,
}

impl<O: Object> Part<'_, O> {
    pub(super) fn is_finished(&self) -> bool {
        self.next == O::count(&self.plan)
    }

    /// Bytes of the next packet, or of what is left of it.
    #[inline]
    pub(super) fn next_bytes(&self) -> u64 {
        match &self.rest {
            Some((payload, dummy)) => payload.end - payload.start + *dummy as u64,
            None => O::bytes_of(&self.plan, self.next),
        }
    }
}
