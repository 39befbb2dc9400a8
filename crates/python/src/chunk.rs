//! Chunk streams: heaps placed side by side into Python's arrays, and the chunks that own these.
//!
//! ```text
//!   Chunk, of any subclass ─ add_free ─▶ stream: each heap copied into its data, once ─ get ─▶ the same object, with
//!                                                                                          number, present, extra
//! ```
//!
//! An array that is being filled belongs to one chunk only, from `add_free` until `get`. Python may read and write it
//! meanwhile, but may see incomplete heaps. `present` and `extra` are written by `get`, in the thread that calls it.

use crate::address::{self, endpoint, tcp_options, udp};
use crate::buffer::{Packets, SharedMut, duplicate};
use crate::config::ReceiveConfig;
use crate::ending::Threaded;
use crate::errors::{Empty, not_adopted};
use crate::inproc::InprocQueue;
use crate::place::{self, Counter, Note, Rule};
use crate::process::Hold;
use crate::receive::{account, not_added, stopped};
use crate::wait::{self, whole};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::UdpOptions;
use skyhaul::spead::receive::GetError;
use skyhaul::spead::receive::chunk::{self, ChunkConfig, ChunkGroup, ChunkWindow, Eviction};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Maximum number of streams, because each has threads.
const MOST_STREAMS: usize = 1024;

/// One or several streams whose heaps go into one sequence of chunks.
#[pyclass(frozen, subclass, module = "skyhaul._native")]
pub(crate) struct ChunkStream {
    group: Threaded<ChunkGroup>,
    /// Number of streams.
    #[pyo3(get)]
    streams: usize,
}

#[pymethods]
impl ChunkStream {
    /// `rule` places a heap: three expressions (chunk, index, offset), or a compiled function.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (config, rule, *, wanted = None, extra_at = None, extra = Vec::new(), counters = Vec::new(),
        max_chunks = 2, max_bytes = None, ahead = 1024, lossless = false, streams = 1, stream_id = 0,
        packet_presence = 0))]
    fn new(
        config: &ReceiveConfig,
        rule: Rule,
        wanted: Option<&str>,
        extra_at: Option<&str>,
        extra: Vec<Note>,
        counters: Vec<Counter>,
        #[pyo3(from_py_with = whole)] max_chunks: usize,
        #[pyo3(from_py_with = whole)] max_bytes: Option<u64>,
        #[pyo3(from_py_with = whole)] ahead: u64,
        lossless: bool,
        #[pyo3(from_py_with = whole)] streams: usize,
        #[pyo3(from_py_with = whole)] stream_id: u64,
        #[pyo3(from_py_with = whole)] packet_presence: u64,
    ) -> PyResult<Self> {
        if max_chunks == 0 || streams == 0 {
            return Err(PyValueError::new_err(format!(
                "max_chunks or streams is 0{}",
                Hint("both must be at least 1")
            )));
        }
        if streams > MOST_STREAMS {
            let text = format!(
                "{streams} streams in a group{}",
                Hint(format_args!("at most {MOST_STREAMS}, each has a thread"))
            );
            return Err(PyValueError::new_err(text));
        }
        let rule = place::rule(rule, wanted, extra_at, &extra, &counters)?;
        let chunks = ChunkConfig {
            window: max_bytes.map_or(ChunkWindow::Count(max_chunks), ChunkWindow::Bytes),
            ahead,
            eviction: if lossless { Eviction::Lossless } else { Eviction::Lossy },
            stream: stream_id,
            packet_presence,
            ..ChunkConfig::new(rule)
        };
        Ok(Self { group: Threaded::new(ChunkGroup::new(&config.0, &chunks, streams))?, streams })
    }

    /// As `ReceiveStream.add_udp`, for one of the streams.
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (address, *, interface = None, source = None, buffer = None, reuse_port = false,
        feedback = false, tier = "auto", stream = 0))]
    fn add_udp(
        &self,
        py: Python<'_>,
        address: &str,
        interface: Option<String>,
        source: Option<&str>,
        buffer: Option<u64>,
        reuse_port: bool,
        feedback: bool,
        tier: &str,
        #[pyo3(from_py_with = whole)] stream: usize,
    ) -> PyResult<String> {
        let (at, mut options) = udp(address, interface, source, buffer, reuse_port, feedback)?;
        options.tier = address::tier(tier)?;
        let stream = self.one(stream)?;
        let add = || match feedback {
            true => stream.add_udp_answering(&at, &options),
            false => stream.add_udp(&at, &options),
        };
        Ok(py.detach(add).map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_udp_fd`, for one of the streams.
    #[pyo3(signature = (fd, *, feedback = false, tier = "auto", stream = 0))]
    fn add_udp_fd(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole)] fd: i32,
        feedback: bool,
        tier: &str,
        #[pyo3(from_py_with = whole)] stream: usize,
    ) -> PyResult<String> {
        let options = UdpOptions { tier: address::tier(tier)?, ..UdpOptions::default() };
        let (socket, stream) = (duplicate(fd)?, self.one(stream)?);
        let add = || match feedback {
            true => stream.add_udp_socket_answering(socket, &options),
            false => stream.add_udp_socket(socket, &options),
        };
        let added = py.detach(add).map_err(|error| not_adopted(fd, "a bound UDP socket", error));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_tcp`, for one of the streams.
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (address, *, connections = None, end_with_last = true, keepalive = 10.0, buffer = None,
        stream = 0))]
    fn add_tcp(
        &self,
        py: Python<'_>,
        address: &str,
        connections: Option<u64>,
        end_with_last: bool,
        keepalive: f64,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
        #[pyo3(from_py_with = whole)] stream: usize,
    ) -> PyResult<String> {
        let mut at = endpoint("tcp", address)?;
        at.rcvbuf = buffer.map(Size::from_bytes).or(at.rcvbuf);
        let options = tcp_options(connections, end_with_last, keepalive)?;
        let stream = self.one(stream)?;
        let added = py.detach(|| stream.add_tcp(&at, &options));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// Read consecutive packets in memory.
    #[pyo3(signature = (data, *, stream = 0))]
    fn add_bytes(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole)] stream: usize,
    ) -> PyResult<()> {
        let (data, stream) = (Packets::of(data)?, self.one(stream)?);
        py.detach(|| stream.add_bytes(data)).map_err(|error| not_added(stream.ended(), error))
    }

    /// Receive the packets of a queue, until it is closed.
    #[pyo3(signature = (queue, *, stream = 0))]
    fn add_inproc(
        &self,
        py: Python<'_>,
        queue: &InprocQueue,
        #[pyo3(from_py_with = whole)] stream: usize,
    ) -> PyResult<()> {
        let (queue, stream) = (queue.0.get()?.clone(), self.one(stream)?);
        py.detach(|| stream.add_inproc(queue)).map_err(|error| not_added(stream.ended(), error))
    }

    /// Add a chunk to be filled: a new one, or one from `get` that is no longer used.
    fn add_free(&self, py: Python<'_>, chunk: &Bound<'_, Chunk>) -> PyResult<()> {
        // In a forked process the chunk stays its own.
        let group = self.group.get()?;
        let inner = Chunk::lend(chunk)?;
        py.detach(|| group.add_free(inner));
        Ok(())
    }

    /// The next chunk. Raises Empty after `timeout` seconds, Stopped when all streams have ended and no chunk is left.
    #[pyo3(signature = (timeout = None))]
    fn get(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<Chunk>> {
        let group = self.group.get()?;
        let step = |wait: Duration| match group.get(Some(wait)) {
            Err(GetError::Empty) => None,
            other => Some(other),
        };
        match wait::in_slices(py, wait::seconds(timeout)?, step)? {
            Some(Ok(chunk)) => Chunk::filled(py, chunk),
            Some(Err(_)) => Err(stopped()),
            None => Err(Empty::new_err("no chunk within the timeout")),
        }
    }

    /// A file descriptor that is readable while a chunk is queued, or all streams have ended. The stream owns it.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.group.get()?.ready_fd()?.as_raw_fd())
    }

    /// Start the readers, with `explicit_start`.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let group = self.group.get()?;
        py.detach(|| group.start());
        Ok(())
    }

    /// End all streams. Queued chunks can still be taken.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let group = self.group.get()?;
        py.detach(|| group.stop());
        Ok(())
    }

    /// Whether this is a copy in a forked process, where every call raises RuntimeError.
    #[getter]
    fn forked(&self) -> bool {
        !self.group.is_here()
    }

    /// Counters of the chunks; in `streams`, those of each stream.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // A reader that holds a stream's lock may be in a function that waits for the interpreter.
        let group = self.group.get()?;
        let (counts, streams) = py.detach(|| {
            let streams: Vec<_> = group.streams().iter().map(chunk::ChunkStream::stats).collect();
            (group.chunk_counts(), streams)
        });
        let all = PyDict::new(py);
        all.set_item("chunks", counts.chunks)?;
        all.set_item("too_old_heaps", counts.too_old_heaps)?;
        all.set_item("rejected_heaps", counts.rejected_heaps)?;
        all.set_item("unwanted_heaps", counts.unwanted_heaps)?;
        all.set_item("stray_heaps", counts.stray_heaps)?;
        all.set_item("waits", counts.waits)?;
        let own = PyDict::new(py);
        for (name, value) in counts.user {
            own.set_item(name, value)?;
        }
        all.set_item("counters", own)?;
        let streams: PyResult<Vec<_>> = streams.iter().map(|stats| account(py, stats)).collect();
        all.set_item("streams", streams?)?;
        Ok(all)
    }
}

impl ChunkStream {
    fn one(&self, number: usize) -> PyResult<&chunk::ChunkStream> {
        self.group.get()?.streams().get(number).ok_or_else(|| {
            PyIndexError::new_err(format!(
                "no stream {number} of {}{}",
                self.streams,
                Hint("number them from 0")
            ))
        })
    }
}

/// Maximum number of heaps and bytes of notes of a chunk.
const MOST_HEAPS: usize = 1 << 28;
const MOST_NOTES: usize = 1 << 30;

/// Memory into which heaps are placed: an array to fill, or a filled one.
#[pyclass(frozen, subclass, module = "skyhaul._native")]
pub(crate) struct Chunk(Mutex<State>);

#[derive(Default)]
struct State {
    /// Its memory, unless a stream has it.
    chunk: Option<chunk::Chunk>,
    /// Where `present` and `extra` go.
    notes: Option<[SharedMut; 2]>,
    id: u64,
    stream_id: u64,
    heaps: u64,
    bytes: u64,
}

#[pymethods]
impl Chunk {
    /// A chunk without memory, whatever the arguments are: they are those of `__init__` of a subclass.
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(_given: &Bound<'_, PyAny>, _named: Option<&Bound<'_, PyAny>>) -> Self {
        Self(Mutex::default())
    }

    /// Give it memory: the writable array `data`, a byte in `present` for each heap, and `extra` for notes.
    fn hold(
        &self,
        data: &Bound<'_, PyAny>,
        present: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (data, present, extra) = (SharedMut::of(data)?, SharedMut::of(present)?, SharedMut::of(extra)?);
        let (heaps, notes) = (present.len(), extra.len());
        if heaps > MOST_HEAPS || notes > MOST_NOTES {
            let text = format!(
                "a chunk for {heaps} heaps and {notes} bytes of notes{}",
                Hint(format_args!("at most {MOST_HEAPS} and {MOST_NOTES}"))
            );
            return Err(PyValueError::new_err(text));
        }
        let mut state = self.lock();
        if state.chunk.is_none() && state.notes.is_some() {
            return Err(PyValueError::new_err(format!(
                "a stream is filling this chunk{}",
                Hint("make another one")
            )));
        }
        let chunk = state.chunk.replace(chunk::Chunk::new(data, heaps, notes));
        let notes = state.notes.replace([present, extra]);
        // What it had before is released without the lock.
        drop(state);
        drop((chunk, notes));
        Ok(())
    }

    /// Its number.
    #[getter]
    fn id(&self) -> u64 {
        self.lock().id
    }

    /// The number of its stream or group.
    #[getter]
    fn stream_id(&self) -> u64 {
        self.lock().stream_id
    }

    /// Number of heaps present.
    #[getter]
    fn heaps(&self) -> u64 {
        self.lock().heaps
    }

    /// Their bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn __repr__(&self) -> String {
        let state = self.lock();
        format!("<chunk {}: {} heaps, {} bytes>", state.id, state.heaps, state.bytes)
    }
}

impl Chunk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid at every step.
        lock(&self.0)
    }

    /// A chunk from a stream; its loan ends.
    pub(crate) fn filled(py: Python<'_>, mut chunk: chunk::Chunk) -> PyResult<Py<Self>> {
        let mut memory = memory_of(&mut chunk)?;
        memory.give_back();
        let owner = memory.owner.take().ok_or_else(|| PyValueError::new_err("the chunk has no owner"))?;
        chunk.data = memory;
        let this = owner.clone_ref(py).into_bound(py).cast_into::<Self>()?;
        let mut state = this.get().lock();
        if let Some(notes) = &mut state.notes {
            for (to, from) in notes.iter_mut().zip([&chunk.present, &chunk.extra]) {
                to.numbers::<u8>(from.len())?.copy_from_slice(from);
                to.give_back();
            }
        }
        (state.id, state.stream_id) = (chunk.id, chunk.stream);
        (state.heaps, state.bytes) = (chunk.heaps, chunk.bytes);
        state.chunk = Some(chunk);
        drop(state);
        Ok(this.unbind())
    }

    /// Lend its memory, for a stream. On an error the chunk keeps it.
    pub(crate) fn lend(this: &Bound<'_, Self>) -> PyResult<chunk::Chunk> {
        let mut guard = this.get().lock();
        let state = &mut *guard;
        let (Some(mut chunk), Some(notes)) = (state.chunk.take(), &mut state.notes) else {
            return Err(PyValueError::new_err(format!(
                "this chunk has no memory, or was already given to a stream{}",
                Hint("pass the one that get() returned")
            )));
        };
        let mut memory = memory_of(&mut chunk)?;
        let lent = memory.lend().and_then(|()| notes.iter_mut().try_for_each(SharedMut::lend));
        if let Err(error) = lent {
            memory.give_back();
            notes.iter_mut().for_each(SharedMut::give_back);
            chunk.data = memory;
            state.chunk = Some(chunk);
            return Err(error);
        }
        memory.owner = Some(Hold::new(this.clone().into_any().unbind()));
        chunk.data = memory;
        Ok(chunk)
    }
}

/// Take its memory out.
fn memory_of(chunk: &mut chunk::Chunk) -> PyResult<Box<SharedMut>> {
    let empty: Box<dyn chunk::ChunkBytes> = Box::new(Vec::new());
    let memory = std::mem::replace(&mut chunk.data, empty).into_any();
    memory.downcast::<SharedMut>().map_err(|_| PyValueError::new_err("the chunk has foreign memory"))
}
