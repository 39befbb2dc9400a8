//! Puts heaps into chunks that Python opens: where each goes, and what is marked of it.
//!
//! Limits: the readers of a stream wait for at most [`ASKED`] heaps whose chunk is not open.

use crate::buffer::Answer;
use crate::place::{Asker, Open, PlaceFunction, lock};
use skyhaul::io::copy;
use skyhaul::spead::receive::chunk::{ChunkBytes, HeapHead, Presence};
use skyhaul::spead::receive::placed::Placing;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Heaps of which readers wait for the chunk. One for each reader, and some of readers that have ended.
const ASKED: usize = 64;

/// Where readers and the Python thread meet.
#[derive(Default)]
pub(crate) struct Desk {
    shelf: Mutex<Shelf>,
    wanted: Condvar,
    /// Older chunks are finished.
    oldest: AtomicI64,
}

#[derive(Default)]
struct Shelf {
    open: Vec<(i64, Open)>,
    /// Chunks that readers wait for.
    wanted: VecDeque<i64>,
    /// Bytes of data, marks and notes of the chunk opened last.
    shape: Option<[usize; 3]>,
    ended: bool,
}

/// What a reader waits for.
pub(crate) enum Wanted {
    Chunk(i64),
    Nothing,
    End,
}

impl Desk {
    /// What readers wait for; waits for it, `most` at most.
    pub(crate) fn wanted(&self, most: Duration) -> Wanted {
        let is_idle = |shelf: &mut Shelf| shelf.wanted.is_empty() && !shelf.ended;
        let waited = self.wanted.wait_timeout_while(lock(&self.shelf), most, is_idle);
        let (shelf, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match shelf.wanted.front() {
            _ if shelf.ended => Wanted::End,
            Some(&chunk) => Wanted::Chunk(chunk),
            None => Wanted::Nothing,
        }
    }

    /// This chunk is open, or there is none: the window is past it. Chunks before `oldest` are finished.
    pub(crate) fn open(&self, id: i64, chunk: Option<Open>, oldest: i64) {
        let mut shelf = lock(&self.shelf);
        // If there is none, the window is past it and all older ones.
        let oldest = if chunk.is_some() { oldest } else { oldest.max(id.saturating_add(1)) };
        self.oldest.fetch_max(oldest, Ordering::Relaxed);
        shelf.wanted.retain(|wanted| *wanted != id);
        shelf.open.retain(|(other, chunk)| *other >= oldest && *other != id && lock(chunk).is_some());
        if let Some(chunk) = chunk {
            if let Some(buffers) = &*lock(&chunk) {
                let notes = buffers.extra.as_ref().map_or(0, ChunkBytes::size);
                shelf.shape = Some([buffers.data.size(), buffers.present.size(), notes]);
            }
            shelf.open.push((id, chunk));
        }
    }
}

/// Places heaps, on the threads of readers.
pub(crate) struct Placer {
    asker: Asker,
    /// Statistics that the function adds for a heap, and in total; of some, the maximum.
    batch: Vec<u64>,
    counted: Arc<[AtomicU64]>,
    largest: Vec<bool>,
    extra: Vec<u8>,
    presence: Presence,
    desk: Arc<Desk>,
    /// Answers of the function for heaps whose chunk is not open yet, with their notes.
    asked: VecDeque<((SocketAddr, u64), Answer, Vec<u8>)>,
}

/// Where a heap goes.
pub(crate) enum Spot {
    Nowhere,
    In { id: i64, chunk: Open, index: usize, at: usize, bytes: u64 },
}

impl Placing for Placer {
    type Place = Spot;

    fn place(&mut self, heap: &HeapHead<'_>) -> Option<Spot> {
        let key = (heap.sender, heap.head.counter);
        let answer = match self.asked.iter().position(|(asked, ..)| *asked == key) {
            Some(at) => {
                let (_, answer, extra) = self.asked.remove(at)?;
                self.extra[..extra.len()].copy_from_slice(&extra);
                answer
            }
            None => self.ask(heap),
        };
        if answer.chunk < 0 || answer.extra_bytes > self.extra.len() {
            self.count_last(1);
            return Some(Spot::Nowhere);
        }
        if answer.chunk < self.desk.oldest.load(Ordering::Relaxed) {
            self.count_last(2);
            return Some(Spot::Nowhere);
        }
        let mut shelf = lock(&self.desk.shelf);
        let open = shelf.open.iter().find(|(id, chunk)| *id == answer.chunk && lock(chunk).is_some());
        if let Some((_, chunk)) = open.cloned() {
            drop(shelf);
            return Some(self.begin(heap, &answer, chunk));
        }
        // A heap that would not fit into a chunk like the last one moves nothing.
        if shelf.shape.is_some_and(|shape| !self.fits(heap.size, &answer, shape)) {
            drop(shelf);
            self.count_last(1);
            return Some(Spot::Nowhere);
        }
        if !shelf.wanted.contains(&answer.chunk) {
            // Before others see the chunks that are finished then.
            copy::fence();
            shelf.wanted.push_back(answer.chunk);
            self.desk.wanted.notify_all();
        }
        drop(shelf);
        if self.asked.len() == ASKED {
            self.asked.pop_front();
        }
        let extra = self.extra[..answer.extra_bytes].to_vec();
        self.asked.push_back((key, answer, extra));
        None
    }

    fn write(&mut self, spot: &Spot, offset: u64, payload: &[u8]) {
        let Spot::In { id, chunk, index, at, bytes } = spot else { return };
        if *id < self.desk.oldest.load(Ordering::Relaxed) {
            return;
        }
        let mut chunk = lock(chunk);
        let Some(chunk) = chunk.as_mut() else { return };
        // Checked when it began: it is within the chunk.
        chunk.data.place(at + offset as usize, payload);
        let marks = self.presence.packets(offset, payload.len() as u64, *bytes);
        chunk.present.fill(index + marks.start as usize, (marks.end - marks.start) as usize, 1);
    }

    fn ended(&mut self, spot: Spot, is_complete: bool) {
        let Spot::In { id, chunk, index, .. } = spot else { return };
        if !is_complete {
            return;
        }
        let mut chunk = lock(&chunk);
        match chunk.as_mut() {
            Some(chunk) if id >= self.desk.oldest.load(Ordering::Relaxed) => {
                chunk.present.fill(index, usize::from(self.presence.is_of_heaps()), 1);
            }
            _ => self.count_last(2),
        }
    }

    fn finished(&mut self) {
        copy::fence();
        lock(&self.desk.shelf).ended = true;
        self.desk.wanted.notify_all();
    }
}

impl Placer {
    /// `extra`: bytes of notes of a heap. `largest` and `counted`: the statistics.
    pub(crate) fn new(
        function: &PlaceFunction,
        largest: Vec<bool>,
        counted: Arc<[AtomicU64]>,
        extra: usize,
        presence: Presence,
        desk: Arc<Desk>,
    ) -> Self {
        Self {
            asker: function.asker(),
            batch: vec![0; largest.len()],
            counted,
            largest,
            // Room for at least one byte, in case a function writes a note although none is allowed.
            extra: vec![0; extra.max(1)],
            presence,
            desk,
            asked: VecDeque::new(),
        }
    }

    /// Count a heap in the last statistic (rejected heaps), or the one before it (heaps that are too old).
    fn count_last(&self, from_end: usize) {
        self.counted[self.counted.len() - from_end].fetch_add(1, Ordering::Relaxed);
    }

    fn ask(&mut self, heap: &HeapHead<'_>) -> Answer {
        let answer = self.asker.ask(heap, &mut self.batch, &mut self.extra);
        for ((added, counted), largest) in self.batch.iter_mut().zip(&*self.counted).zip(&self.largest) {
            match std::mem::take(added) {
                0 => {}
                added if *largest => drop(counted.fetch_max(added, Ordering::Relaxed)),
                added => drop(counted.fetch_add(added, Ordering::Relaxed)),
            }
        }
        answer
    }

    /// Whether a heap of `bytes` has its place within a chunk of this many bytes of data, marks and notes.
    fn fits(&self, bytes: u64, answer: &Answer, [data, present, notes]: [usize; 3]) -> bool {
        let within = |start: usize, count: u64, size: usize| {
            usize::try_from(count)
                .ok()
                .and_then(|count| start.checked_add(count))
                .is_some_and(|end| end <= size)
        };
        within(answer.offset, bytes, data)
            && within(answer.index, self.presence.marks(bytes), present)
            && (answer.extra_bytes == 0 || within(answer.extra_at, answer.extra_bytes as u64, notes))
    }

    /// Give a heap its place, and write its notes, if all of it fits.
    fn begin(&self, heap: &HeapHead<'_>, answer: &Answer, open: Open) -> Spot {
        let mut chunk = lock(&open);
        let Some(buffers) = chunk.as_mut() else {
            self.count_last(2);
            return Spot::Nowhere;
        };
        let notes = buffers.extra.as_ref().map_or(0, ChunkBytes::size);
        if !self.fits(heap.size, answer, [buffers.data.size(), buffers.present.size(), notes]) {
            self.count_last(1);
            return Spot::Nowhere;
        }
        if let Some(extra) = buffers.extra.as_mut() {
            extra.place(answer.extra_at, &self.extra[..answer.extra_bytes]);
        }
        drop(chunk);
        let (id, index, at) = (answer.chunk, answer.index, answer.offset);
        Spot::In { id, chunk: open, index, at, bytes: heap.size }
    }
}
