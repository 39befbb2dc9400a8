//! Streams that put heaps into chunks which Python opens while they arrive, as in spead2.
//!
//! ```text
//!   reader: first packet ─▶ place function ─▶ chunk 7 ── open ──────▶ payload straight into its buffers
//!                                               └─ not open: wanted ─▶ run() of a Python thread, which moves the window
//!                                                    the reader waits ◀─ proceed()
//! ```
//!
//! Limits: those of [`place`](crate::place). A function is asked once for each heap, whatever it answers; the readers of a
//! stream wait for at most [`ASKED`] heaps whose chunk is not open.

use crate::address::{self, endpoint, tcp_options, udp};
use crate::buffer::{Answer, Packets, SharedMut, duplicate};
use crate::config::ReceiveConfig;
use crate::ending::Threaded;
use crate::errors::not_adopted;
use crate::inproc::InprocQueue;
use crate::place::{Asker, Buffers, Open, OpenChunk, PlaceFunction};
use crate::process::Here;
use crate::receive::{account, not_added, stopped};
use crate::wait::whole;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::core::hint::Hint;
use skyhaul::io::copy;
use skyhaul::io::lock::lock;
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::UdpOptions;
use skyhaul::spead::receive::batch::BatchHold;
use skyhaul::spead::receive::chunk::{ChunkBytes, HeapHead, Presence};
use skyhaul::spead::receive::placed::{self, Placing};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Maximum delay of a signal, for example Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);

/// A stream whose heaps are placed by a compiled function into chunks that Python opens.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct PlacedStream {
    stream: Threaded<placed::PlacedStream<Placer>>,
    desk: Here<Arc<Desk>>,
    counted: Arc<[AtomicU64]>,
}

#[pymethods]
impl PlacedStream {
    /// `largest` tells for each statistic whether it is a maximum; the last two count heaps that are too old, and
    /// rejected ones. `extra`: bytes of notes of a heap. `payload`: that of a packet if presence is marked by packet, else 0.
    #[new]
    #[pyo3(signature = (config, function, largest, extra, payload))]
    fn new(
        config: &ReceiveConfig,
        function: &PlaceFunction,
        largest: Vec<bool>,
        extra: usize,
        payload: u64,
    ) -> PyResult<Self> {
        if largest.len() < 2 {
            return Err(PyValueError::new_err(format!(
                "largest lacks the statistics of rejected heaps{}",
                Hint("they are the last two")
            )));
        }
        let counted: Arc<[AtomicU64]> = largest.iter().map(|_| AtomicU64::new(0)).collect();
        let desk = Arc::<Desk>::default();
        let presence = Presence::of_packets(payload);
        let placer = Placer::new(function, largest, counted.clone(), extra, presence, desk.clone());
        let stream = Threaded::new(placed::PlacedStream::new(&config.0, placer))?;
        Ok(Self { stream, desk: Here::new("stream", desk), counted })
    }

    /// As `ReceiveStream.add_udp`.
    #[pyo3(signature = (address, *, interface = None, buffer = None, tier = "auto"))]
    fn add_udp(
        &self,
        py: Python<'_>,
        address: &str,
        interface: Option<String>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
        tier: &str,
    ) -> PyResult<String> {
        let (at, mut options) = udp(address, interface, None, buffer, false, false)?;
        options.tier = address::tier(tier)?;
        let stream = self.stream.get()?;
        let added = py.detach(|| stream.add_udp(&at, &options));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_udp_fd`.
    #[pyo3(signature = (fd, *, tier = "auto"))]
    fn add_udp_fd(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole)] fd: i32,
        tier: &str,
    ) -> PyResult<String> {
        let options = UdpOptions { tier: address::tier(tier)?, ..UdpOptions::default() };
        let (stream, socket) = (self.stream.get()?, duplicate(fd)?);
        let added = py.detach(|| stream.add_udp_socket(socket, &options));
        let added = added.map_err(|error| not_adopted(fd, "a bound UDP socket", error));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_tcp`.
    #[pyo3(signature = (address, *, connections = None, buffer = None))]
    fn add_tcp(
        &self,
        py: Python<'_>,
        address: &str,
        connections: Option<u64>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
    ) -> PyResult<String> {
        let mut at = endpoint("tcp", address)?;
        at.rcvbuf = buffer.map(Size::from_bytes).or(at.rcvbuf);
        let options = tcp_options(connections, true, 10.0)?;
        let stream = self.stream.get()?;
        let added = py.detach(|| stream.add_tcp(&at, &options));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_tcp_fd`.
    #[pyo3(signature = (fd, *, connections = None))]
    fn add_tcp_fd(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole)] fd: i32,
        connections: Option<u64>,
    ) -> PyResult<String> {
        let (stream, socket) = (self.stream.get()?, duplicate(fd)?);
        let options = tcp_options(connections, true, 10.0)?;
        let added = py.detach(|| stream.add_tcp_socket(socket, &options));
        let added =
            added.map_err(|error| not_adopted(fd, "a TCP socket that listens or is connected", error));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_bytes`.
    fn add_bytes(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (stream, data) = (self.stream.get()?, Packets::of(data)?);
        py.detach(|| stream.add_bytes(data)).map_err(|error| not_added(stream.ended(), error))
    }

    /// As `ReceiveStream.add_pcap`.
    #[pyo3(signature = (path, port = None))]
    fn add_pcap(
        &self,
        py: Python<'_>,
        path: std::path::PathBuf,
        #[pyo3(from_py_with = whole)] port: Option<u16>,
    ) -> PyResult<()> {
        let stream = self.stream.get()?;
        py.detach(|| stream.add_pcap(&path, port)).map_err(|error| not_added(stream.ended(), error))
    }

    /// As `ReceiveStream.add_inproc`.
    fn add_inproc(&self, py: Python<'_>, queue: &InprocQueue) -> PyResult<()> {
        let (stream, queue) = (self.stream.get()?, queue.0.get()?.clone());
        py.detach(|| stream.add_inproc(queue)).map_err(|error| not_added(stream.ended(), error))
    }

    /// Start the readers, with `explicit_start`.
    fn start(&self) -> PyResult<()> {
        self.stream.get()?.start();
        Ok(())
    }

    /// End the stream: readers stop, heaps under construction are given up.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.stream.get()?;
        py.detach(|| stream.stop());
        Ok(())
    }

    /// Whether this is a copy in a forked process, where every call raises RuntimeError.
    #[getter]
    fn forked(&self) -> bool {
        !self.stream.is_here()
    }

    /// Every counter of the stream; in `readers`, those of each reader.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stream = self.stream.get()?;
        let stats = py.detach(|| stream.stats());
        account(py, &stats)
    }

    /// The statistics of the function so far.
    fn counts(&self) -> Vec<u64> {
        self.counted.iter().map(|counted| counted.load(Ordering::Relaxed)).collect()
    }

    /// Wait until a reader needs a chunk that is not open; returns its number, or None after `timeout` seconds. Raises
    /// Stopped at the end.
    fn run(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<i64>> {
        let desk = self.desk.get()?;
        let slices = (timeout / SLICE.as_secs_f64()).ceil().max(1.0) as u64;
        for _ in 0..slices {
            match py.detach(|| desk.wanted(SLICE)) {
                Wanted::Chunk(chunk) => return Ok(Some(chunk)),
                Wanted::End => return Err(stopped()),
                Wanted::Nothing => py.check_signals()?,
            }
        }
        Ok(None)
    }

    /// Supply that chunk, or None if the window is past it. Chunks before `oldest` are finished.
    fn proceed(&self, py: Python<'_>, id: i64, chunk: Option<&OpenChunk>, oldest: i64) -> PyResult<()> {
        let (desk, stream) = (self.desk.get()?, self.stream.get()?);
        let chunk = chunk.map(|chunk| chunk.0.get().cloned()).transpose()?;
        py.detach(|| {
            desk.open(id, chunk, oldest);
            stream.opened();
        });
        Ok(())
    }
}

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
        shelf.open.retain(|(other, chunk)| *other >= oldest && *other != id && !chunk.is_closed());
        if let Some(chunk) = chunk {
            shelf.shape = Some(chunk.shape);
            shelf.open.push((id, chunk));
        }
    }
}

/// The chunk that readers write to, without a lock until the end of a batch.
struct Current {
    id: i64,
    buffers: BatchHold<Option<Box<Buffers>>>,
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
    current: Option<Current>,
    /// Answers of the function for heaps whose chunk is not open yet, with their notes.
    asked: VecDeque<((SocketAddr, u64), Answer, Vec<u8>)>,
}

/// Where a heap goes.
pub(crate) enum Spot {
    Nowhere,
    In { id: i64, index: usize, at: usize, bytes: u64 },
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
        if let Some(spot) = self.begin(heap, &answer) {
            return Some(spot);
        }
        let mut shelf = lock(&self.desk.shelf);
        // A heap that would not fit into a chunk like the last one moves nothing.
        if shelf.shape.is_some_and(|shape| !fits(self.presence, heap.size, &answer, shape)) {
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

    fn write(&mut self, spot: &Spot, offset: u64, payloads: &[u8], stride: usize, each: usize) {
        let &Spot::In { id, index, at, bytes } = spot else { return };
        if id < self.desk.oldest.load(Ordering::Relaxed) {
            return;
        }
        let length = if payloads.len() == each { each } else { payloads.len().div_ceil(stride) * each };
        let marks = self.presence.packets(offset, length as u64, bytes);
        self.with(id, |chunk, _| {
            // Checked when it began: it is within the chunk.
            chunk.data.place_run(at + offset as usize, payloads, stride, each);
            chunk.present.fill(index + marks.start as usize, (marks.end - marks.start) as usize, 1);
        });
    }

    fn ended(&mut self, spot: Spot, is_complete: bool) {
        let Spot::In { id, index, .. } = spot else { return };
        if !is_complete {
            return;
        }
        let marks = usize::from(self.presence.is_of_heaps());
        let is_open = id >= self.desk.oldest.load(Ordering::Relaxed)
            && self.with(id, |chunk, _| chunk.present.fill(index, marks, 1)).is_some();
        if !is_open {
            self.count_last(2);
        }
    }

    fn released(&mut self) {
        if let Some(current) = &mut self.current {
            current.buffers.put();
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
            current: None,
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

    /// Use the buffers of this chunk, and the notes of a heap. `None` if it is not open.
    fn with<T>(&mut self, id: i64, used: impl FnOnce(&mut Buffers, &[u8]) -> T) -> Option<T> {
        if self.current.as_ref().is_none_or(|current| current.id != id) {
            // At most one at a time: two streams that wait for each other's would never end.
            self.current = None;
            let shelf = lock(&self.desk.shelf);
            let chunk = &shelf.open.iter().find(|(open, _)| *open == id)?.1;
            self.current = Some(Current { id, buffers: BatchHold::new(chunk.buffers.clone()) });
        }
        let current = self.current.as_mut()?;
        current.buffers.with(|open| open.as_mut().map(|buffers| used(buffers, &self.extra)))
    }

    /// Give a heap its place, and write its notes, if all of it fits. `None` if the chunk is not open.
    fn begin(&mut self, heap: &HeapHead<'_>, answer: &Answer) -> Option<Spot> {
        let presence = self.presence;
        let fitted = self.with(answer.chunk, |buffers, notes| {
            let extra = buffers.extra.as_ref().map_or(0, SharedMut::len);
            let shape = [buffers.data.len(), buffers.present.len(), extra];
            let fits = fits(presence, heap.size, answer, shape);
            if let Some(extra) = buffers.extra.as_mut().filter(|_| fits) {
                extra.place(answer.extra_at, &notes[..answer.extra_bytes]);
            }
            fits
        })?;
        if !fitted {
            self.count_last(1);
            return Some(Spot::Nowhere);
        }
        Some(Spot::In { id: answer.chunk, index: answer.index, at: answer.offset, bytes: heap.size })
    }
}

/// Whether a heap of `bytes` has its place within a chunk of this many bytes of data, marks and notes.
fn fits(presence: Presence, bytes: u64, answer: &Answer, [data, present, notes]: [usize; 3]) -> bool {
    let within = |start: usize, count: u64, size: usize| {
        usize::try_from(count).ok().and_then(|count| start.checked_add(count)).is_some_and(|end| end <= size)
    };
    within(answer.offset, bytes, data)
        && within(answer.index, presence.marks(bytes), present)
        && (answer.extra_bytes == 0 || within(answer.extra_at, answer.extra_bytes as u64, notes))
}
