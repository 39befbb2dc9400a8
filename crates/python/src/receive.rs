//! Receiving streams.

use crate::address::{self, endpoint, tcp_options, udp};
use crate::buffer::{Packets, duplicate};
use crate::config::ReceiveConfig;
use crate::ending::{self, Threaded};
use crate::errors::{Empty, Stopped, about_file, not_adopted, system};
use crate::heap::Heap;
use crate::inproc::InprocQueue;
use crate::recording::{Gaps, Recording};
use crate::wait::{self, whole};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::UdpOptions;
use skyhaul::spead::receive::{self, GetError, Stats, Stream, StreamCounts, StreamEnd};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A stream of heaps, from any number of readers.
#[pyclass(frozen, subclass, module = "skyhaul._native")]
pub(crate) struct ReceiveStream {
    stream: Threaded<Stream>,
    /// Returns memory for a payload of so many bytes.
    allocator: Option<Py<PyAny>>,
    /// Maximum number of queued heaps.
    #[pyo3(get)]
    capacity: usize,
    /// Its name in threads, errors and statistics.
    #[pyo3(get)]
    name: String,
}

#[pymethods]
impl ReceiveStream {
    /// The arguments are those of `ReceiveConfig`.
    #[new]
    #[pyo3(signature = (*, allocator = None, **config))]
    fn new(
        py: Python<'_>,
        allocator: Option<Py<PyAny>>,
        config: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = py.get_type::<ReceiveConfig>().call((), config)?.cast_into::<ReceiveConfig>()?;
        let config = &config.get().0;
        let stream = Threaded::new(Stream::new(config))?;
        Ok(Self { stream, allocator, capacity: config.ring, name: config.name.clone() })
    }

    /// Listen on a UDP address, or join a multicast group. Returns the address, with the port chosen by the system if
    /// that was 0. `feedback`: report to senders with the rate "auto". `tier`: who receives.
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (address, *, interface = None, source = None, buffer = None, reuse_port = false,
        feedback = false, tier = "auto"))]
    fn add_udp(
        &self,
        py: Python<'_>,
        address: &str,
        interface: Option<String>,
        source: Option<&str>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
        reuse_port: bool,
        feedback: bool,
        tier: &str,
    ) -> PyResult<String> {
        let (at, mut options) = udp(address, interface, source, buffer, reuse_port, feedback)?;
        options.tier = address::tier(tier)?;
        let stream = self.stream.get()?;
        let add = || match feedback {
            true => stream.add_udp_answering(&at, &options),
            false => stream.add_udp(&at, &options),
        };
        Ok(added(stream, py.detach(add))?.to_string())
    }

    /// Receive from a bound UDP socket. The descriptor is duplicated, so the socket may be closed.
    #[pyo3(signature = (fd, *, feedback = false, tier = "auto"))]
    fn add_udp_fd(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole)] fd: i32,
        feedback: bool,
        tier: &str,
    ) -> PyResult<String> {
        let stream = self.stream.get()?;
        let options = UdpOptions { tier: address::tier(tier)?, ..UdpOptions::default() };
        let socket = duplicate(fd)?;
        let add = || match feedback {
            true => stream.add_udp_socket_answering(socket, &options),
            false => stream.add_udp_socket(socket, &options),
        };
        let done = py.detach(add).map_err(|error| not_adopted(fd, "a bound UDP socket", error));
        Ok(added(stream, done)?.to_string())
    }

    /// Listen on a TCP address. `connections`: accept this many, and end when they are closed; without it, any number is
    /// accepted, and the reader ends with the last open one, or, with `end_with_last=False`, never.
    #[pyo3(signature = (address, *, connections = None, end_with_last = true, keepalive = 10.0, buffer = None))]
    fn add_tcp(
        &self,
        py: Python<'_>,
        address: &str,
        connections: Option<u64>,
        end_with_last: bool,
        keepalive: f64,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
    ) -> PyResult<String> {
        let mut at = endpoint("tcp", address)?;
        at.rcvbuf = buffer.map(Size::from_bytes).or(at.rcvbuf);
        let options = tcp_options(connections, end_with_last, keepalive)?;
        let stream = self.stream.get()?;
        Ok(added(stream, py.detach(|| stream.add_tcp(&at, &options)))?.to_string())
    }

    /// Accept connections of a listening TCP socket, or receive from a connected one. The descriptor is duplicated.
    #[pyo3(signature = (fd, *, connections = None, end_with_last = true, keepalive = 10.0))]
    fn add_tcp_fd(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole)] fd: i32,
        connections: Option<u64>,
        end_with_last: bool,
        keepalive: f64,
    ) -> PyResult<String> {
        let (stream, socket) = (self.stream.get()?, duplicate(fd)?);
        let options = tcp_options(connections, end_with_last, keepalive)?;
        let done = py.detach(|| stream.add_tcp_socket(socket, &options));
        let done = done.map_err(|error| not_adopted(fd, "a TCP socket that listens or is connected", error));
        Ok(added(stream, done)?.to_string())
    }

    /// Read consecutive packets in memory. `bytes` are kept until they are read; other, mutable objects are copied.
    fn add_bytes(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (stream, data) = (self.stream.get()?, Packets::of(data)?);
        added(stream, py.detach(|| stream.add_bytes(data)))
    }

    /// Read the UDP packets of a capture file, or those to one port.
    #[pyo3(signature = (path, port = None))]
    fn add_pcap(
        &self,
        py: Python<'_>,
        path: std::path::PathBuf,
        #[pyo3(from_py_with = whole)] port: Option<u16>,
    ) -> PyResult<()> {
        let stream = self.stream.get()?;
        let done = py.detach(|| stream.add_pcap(&path, port));
        match done {
            Err(error) if stream.ended().is_none() => Err(about_file(&path, error)),
            done => added(stream, done),
        }
    }

    /// Read a datastream of a recording, by its index in `streams`. Missing parts are in the returned `Gaps`.
    #[pyo3(signature = (recording, stream = 0, missing = "raise", verify = true, follow = false))]
    fn add_recording(
        &self,
        py: Python<'_>,
        recording: &Recording,
        stream: usize,
        missing: &str,
        verify: bool,
        follow: bool,
    ) -> PyResult<Gaps> {
        let (into, name) = (self.stream.get()?, recording.name_of(stream));
        let reader = recording.open(stream, missing, verify, follow)?;
        let gaps = Gaps(reader.account());
        added(into, py.detach(|| into.add_recording(&name, reader)))?;
        Ok(gaps)
    }

    /// Receive the packets of a queue, until it is closed.
    fn add_inproc(&self, py: Python<'_>, queue: &InprocQueue) -> PyResult<()> {
        let (stream, queue) = (self.stream.get()?, queue.0.get()?.clone());
        added(stream, py.detach(|| stream.add_inproc(queue)))
    }

    /// Start the readers, with `explicit_start`.
    fn start(&self) -> PyResult<()> {
        self.stream.get()?.start();
        Ok(())
    }

    /// End the stream. Queued heaps can still be taken.
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

    /// The next heap. Raises Empty after `timeout` seconds, Stopped when the stream has ended and no heap is left.
    #[pyo3(signature = (timeout = None))]
    fn get(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Heap> {
        self.next(py, timeout)?.map_err(|why| match why {
            GetError::Stopped => stopped(),
            GetError::Empty => Empty::new_err("no heap within the timeout"),
        })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Heap>> {
        Ok(self.next(py, None)?.ok())
    }

    /// At least one heap, as `get`, and more if they are queued: up to `most`, of about `bytes` together. With an allocator, one.
    #[pyo3(signature = (most, timeout = None, bytes = 1 << 20))]
    fn get_many(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = whole)] most: usize,
        timeout: Option<f64>,
        #[pyo3(from_py_with = whole)] bytes: usize,
    ) -> PyResult<Vec<Py<Heap>>> {
        let first = self.get(py, timeout)?;
        let fit = (bytes / first.bytes().max(1)).min(most);
        let mut heaps = vec![Py::new(py, first)?];
        // An allocator may raise, and the heaps that were taken before would be lost with its own.
        if fit > 1 && self.allocator.is_none() {
            let mut more = Vec::new();
            self.stream.get()?.get_many(&mut more, fit - 1);
            for heap in more {
                heaps.push(Py::new(py, Heap::new(heap))?);
            }
        }
        Ok(heaps)
    }

    /// A file descriptor that is readable while a heap is queued, or the stream has ended. The stream owns it.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.stream.get()?.ready_fd()?.as_raw_fd())
    }

    /// Number of queued heaps.
    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        let stream = self.stream.get()?;
        Ok(py.detach(|| stream.stats().waiting))
    }

    /// Every counter of the stream; in `readers`, those of each reader.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stream = self.stream.get()?;
        let stats = py.detach(|| stream.stats());
        account(py, &stats)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.waiting(py) {
            Ok(waiting) => format!("<stream {}, {waiting} heaps queued>", self.name),
            Err(_) => format!("<stream {} of another process>", self.name),
        }
    }
}

impl ReceiveStream {
    /// The next heap. A queued one is taken without releasing the GIL, for the price of an uncontended lock.
    #[inline]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Result<Heap, GetError>> {
        let stream = self.stream.get()?;
        let found = stream.try_get();
        if !matches!(found, Err(GetError::Empty)) || timeout == Some(0.0) {
            return found.map_or_else(|why| Ok(Err(why)), |heap| self.object(py, heap).map(Ok));
        }
        let step = |wait: Duration| match stream.get(Some(wait)) {
            Err(GetError::Empty) => None,
            other => Some(other),
        };
        let found = wait::in_slices(py, wait::seconds(timeout)?, step)?;
        match found.unwrap_or(Err(GetError::Empty)) {
            Ok(heap) => self.object(py, heap).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }

    /// A heap as Python has it.
    fn object(&self, py: Python<'_>, heap: receive::Heap) -> PyResult<Heap> {
        match &self.allocator {
            None => Ok(Heap::new(heap)),
            Some(allocator) => Heap::allocated(py, heap, allocator),
        }
    }
}

/// The result of adding a reader.
fn added<T>(stream: &Stream, added: io::Result<T>) -> PyResult<T> {
    added.map_err(|error| not_added(stream.ended(), error))
}

/// The error of adding a reader; a stream that has ended accepts none.
pub(crate) fn not_added(ended: Option<StreamEnd>, error: io::Error) -> PyErr {
    match ended {
        Some(why) if error.kind() == io::ErrorKind::NotConnected => {
            ending::linger();
            Stopped::new_err(format!("{error} (it ended: {})", why.name()))
        }
        _ => system(error),
    }
}

pub(crate) fn stopped() -> PyErr {
    ending::linger();
    Stopped::new_err("the stream has ended, and no heap is left")
}

/// Every counter by name.
pub(crate) fn account<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let all = counts(py, &stats.total)?;
    all.set_item("kernel_drops", stats.kernel_drops())?;
    all.set_item("missing_heaps", stats.missing.known())?;
    all.set_item("unknown_senders", stats.missing.unknown_senders)?;
    all.set_item("live_heaps", stats.live)?;
    all.set_item("waiting_heaps", stats.waiting)?;
    all.set_item("memory_used", stats.memory_used)?;
    all.set_item("memory_refused", stats.memory_refused)?;
    all.set_item("ended", stats.ended.map(|why| why.name()))?;
    let mut readers = Vec::new();
    for reader in &stats.readers {
        let one = counts(py, &reader.counts)?;
        one.set_item("name", &reader.name)?;
        one.set_item("kernel_drops", reader.source.socket_drops)?;
        one.set_item("malformed", reader.source.malformed)?;
        one.set_item("fragments", reader.source.fragments)?;
        one.set_item("truncated", reader.source.truncated)?;
        one.set_item("buffer_asked", reader.source.buffer.map(|buffer| buffer.asked))?;
        one.set_item("buffer_granted", reader.source.buffer.map(|buffer| buffer.granted))?;
        one.set_item("tier", reader.source.tier)?;
        one.set_item("remedies", &reader.source.remedies)?;
        one.set_item("cpu_seconds", reader.cpu.as_secs_f64())?;
        one.set_item("error", &reader.error)?;
        one.set_item("ended", reader.ended)?;
        readers.push(one);
    }
    all.set_item("readers", readers)?;
    Ok(all)
}

fn counts<'py>(py: Python<'py>, counts: &StreamCounts) -> PyResult<Bound<'py, PyDict>> {
    let (all, rejected, retired) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
    for (name, value) in counts.named() {
        if let Some(reason) = name.strip_prefix("reject_") {
            rejected.set_item(reason, value)?;
        } else if let Some(cause) = name.strip_prefix("retired_") {
            retired.set_item(cause, value)?;
        } else {
            all.set_item(name, value)?;
        }
    }
    all.set_item("rejected", rejected)?;
    all.set_item("retired", retired)?;
    Ok(all)
}
