//! Streams that put heaps into chunks which Python opens while they arrive, as in spead2.
//!
//! ```text
//!   reader: first packet ─▶ place function ─▶ chunk 7 ── open ──────▶ payload straight into its buffers
//!                                               └─ not open: wanted ─▶ run() of a Python thread, which moves the window
//!                                                    the reader waits ◀─ proceed()
//! ```
//!
//! Limits: those of [`place`](crate::place). A function is asked once for each heap, whatever it answers.

use crate::address::{endpoint, tcp_options, udp};
use crate::buffer::{Packets, duplicate};
use crate::config::ReceiveConfig;
use crate::ending::Threaded;
use crate::errors::not_adopted;
use crate::inproc::InprocQueue;
use crate::place::{OpenChunk, PlaceFunction};
use crate::placer::{Desk, Placer, Wanted};
use crate::process::Here;
use crate::receive::{account, not_added, stopped};
use crate::wait::whole;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::UdpOptions;
use skyhaul::spead::receive::chunk::Presence;
use skyhaul::spead::receive::placed;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    #[pyo3(signature = (address, *, interface = None, buffer = None))]
    fn add_udp(
        &self,
        py: Python<'_>,
        address: &str,
        interface: Option<String>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
    ) -> PyResult<String> {
        let (at, options) = udp(address, interface, None, buffer, false, false)?;
        let stream = self.stream.get()?;
        let added = py.detach(|| stream.add_udp(&at, &options));
        Ok(added.map_err(|error| not_added(stream.ended(), error))?.to_string())
    }

    /// As `ReceiveStream.add_udp_fd`.
    fn add_udp_fd(&self, py: Python<'_>, #[pyo3(from_py_with = whole)] fd: i32) -> PyResult<String> {
        let (stream, socket) = (self.stream.get()?, duplicate(fd)?);
        let added = py.detach(|| stream.add_udp_socket(socket, &UdpOptions::default()));
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
