//! Sending streams.

mod heap;
mod settings;
mod ticket;

pub(crate) use crate::send::ticket::{interruptibly, is_main_thread};
pub(crate) use heap::{Batch, SendHeap, bits_per_second};
pub(crate) use settings::Settings;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
pub(crate) use ticket::{Ticket, Wake};

use crate::address::{endpoint, one_receiver, route};
use crate::buffer::duplicate;
use crate::ending::Threaded;
use crate::errors::{failed, not_adopted, system};
use crate::inproc::InprocQueue;
use crate::own_socket::Datagrams;
use crate::process::Here;
use crate::wait::{self, whole};
use heap::{fits, options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use skyhaul::control::Progress;
use skyhaul::io::quantity::Size;
use skyhaul::io::tcp::{TcpSendOptions, TcpSender};
use skyhaul::io::udp::send::SendOptions;
use skyhaul::spead::send::{Order, Outlet, SendError, SendStats, Stream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A stream that heaps are sent on.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct SendStream {
    open: Here<Open>,
    /// Whether a send can take long regardless of its size.
    may_block: bool,
    /// Number of destinations.
    #[pyo3(get)]
    substreams: usize,
}

/// State locked by calls and by the stream's thread.
struct Open {
    stream: Mutex<Option<Arc<Threaded<Stream>>>>,
    bytes: Option<Arc<Mutex<Vec<u8>>>>,
    /// Its final state, once it is closed.
    last: Mutex<Option<Last>>,
}

/// The final state of a closed stream.
#[derive(Clone)]
struct Last {
    stats: SendStats,
    rate: u64,
    progress: Vec<Progress>,
}

/// State of one destination: rate, phase, reports, packets lost, and a description.
type Told = (u64, &'static str, u64, u64, String);

fn order(round_robin: bool) -> Order {
    if round_robin { Order::RoundRobin } else { Order::Serial }
}

#[pymethods]
impl SendStream {
    /// Send over UDP, to one or several addresses.
    #[staticmethod]
    #[pyo3(signature = (targets, config, *, interface = None, source = None, ttl = None, buffer = None))]
    fn udp(
        py: Python<'_>,
        targets: Vec<String>,
        config: &Settings,
        interface: Option<String>,
        source: Option<&str>,
        #[pyo3(from_py_with = whole)] ttl: Option<u8>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
    ) -> PyResult<Self> {
        let mut to = Vec::new();
        for target in &targets {
            let mut at = endpoint("udp", target)?;
            route(&mut at, interface.clone(), source)?;
            at.ttl = ttl.or(at.ttl);
            at.sndbuf = buffer.map(Size::from_bytes).or(at.sndbuf);
            if config.is_auto() {
                one_receiver(&at, "give a rate")?;
            }
            to.push(at);
        }
        let outlet = py.detach(|| Outlet::udp(&to, &SendOptions::default())).map_err(system)?;
        Self::open(outlet, None, config, false)
    }

    /// Send over a TCP connection.
    #[staticmethod]
    #[pyo3(signature = (target, config, *, timeout = 10.0, interface = None, source = None, buffer = None))]
    fn tcp(
        py: Python<'_>,
        target: &str,
        config: &Settings,
        timeout: f64,
        interface: Option<String>,
        source: Option<&str>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
    ) -> PyResult<Self> {
        let mut at = endpoint("tcp", target)?;
        route(&mut at, interface, source)?;
        at.sndbuf = buffer.map(Size::from_bytes).or(at.sndbuf);
        let mut how = TcpSendOptions::default();
        how.patience = wait::duration(Some(timeout))?.unwrap_or(how.patience);
        let outlet = py.detach(|| Outlet::tcp(&at, &how)).map_err(system)?;
        Self::open(outlet, None, config, true)
    }

    /// Send over UDP from an unconnected socket of the program, with a system call for each packet. The descriptor is
    /// duplicated.
    #[staticmethod]
    fn udp_fd(
        #[pyo3(from_py_with = whole)] fd: i32,
        targets: Vec<String>,
        config: &Settings,
    ) -> PyResult<Self> {
        let to =
            targets.iter().map(|target| Ok(endpoint("udp", target)?.address)).collect::<PyResult<_>>()?;
        let outlet = Outlet::Custom(Box::new(
            Datagrams::new(duplicate(fd)?, to).map_err(|error| not_adopted(fd, "a UDP socket", error))?,
        ));
        Self::open(outlet, None, config, true)
    }

    /// Send over a connected socket of the program. The descriptor is duplicated.
    #[staticmethod]
    fn tcp_fd(#[pyo3(from_py_with = whole)] fd: i32, config: &Settings) -> PyResult<Self> {
        let adopted = |error| not_adopted(fd, "a connected TCP socket", error);
        let tcp =
            TcpSender::from_stream(duplicate(fd)?.into(), &TcpSendOptions::default()).map_err(adopted)?;
        Self::open(Outlet::Tcp(Box::new(tcp)), None, config, true)
    }

    /// Send to queues of this process.
    #[staticmethod]
    fn inproc(queues: Vec<Bound<'_, InprocQueue>>, config: &Settings) -> PyResult<Self> {
        let queues = queues.iter().map(|queue| queue.get().0.get().cloned()).collect::<PyResult<_>>()?;
        Self::open(Outlet::Inproc(queues), None, config, true)
    }

    /// Send to memory.
    #[staticmethod]
    fn bytes(config: &Settings) -> PyResult<Self> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        Self::open(Outlet::Bytes(bytes.clone()), Some(bytes), config, false)
    }

    /// The bytes sent to memory so far.
    fn taken<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.open.get()?.bytes.as_ref();
        let bytes = bytes.map(|bytes| lock(bytes));
        Ok(PyBytes::new(py, bytes.as_ref().map_or(&[], |bytes| bytes.as_slice())))
    }

    /// Send one heap; returns its bytes on the wire when it is sent.
    #[pyo3(signature = (heap, counter = None, substream = 0, rate = None))]
    fn send(
        &self,
        py: Python<'_>,
        heap: &SendHeap,
        #[pyo3(from_py_with = whole)] counter: Option<u64>,
        #[pyo3(from_py_with = whole)] substream: usize,
        rate: Option<f64>,
    ) -> PyResult<u64> {
        let (heap, options) = (heap.now(), options(counter, substream, rate)?);
        fits(&heap, counter)?;
        let bytes = heap.payload_bytes();
        self.interruptibly(py, bytes, options.rate, |stream| stream.send(&heap, &options))
    }

    /// Send several heaps, consecutively or a packet of each in turn.
    #[pyo3(signature = (batch, round_robin = false))]
    fn send_heaps(&self, py: Python<'_>, batch: &Batch, round_robin: bool) -> PyResult<u64> {
        let heaps = batch.now();
        let bytes = heaps.iter().map(|(heap, _)| heap.payload_bytes()).sum();
        let slowest = heaps.iter().filter_map(|(_, options)| options.rate).filter(|&rate| rate > 0).min();
        self.interruptibly(py, bytes, slowest, |stream| {
            let heaps: Vec<_> = heaps.iter().map(|(heap, options)| (&**heap, *options)).collect();
            stream.send_all(&heaps, order(round_robin))
        })
    }

    /// Queue heaps for the stream's thread, which sets `done` when all are sent or have failed.
    #[pyo3(signature = (batch, round_robin = false, done = None))]
    fn queue(
        &self,
        py: Python<'_>,
        batch: &Batch,
        round_robin: bool,
        done: Option<&Wake>,
    ) -> PyResult<Ticket> {
        let (heaps, held) = (batch.now(), self.stream()?);
        let stream = held.get()?;
        let wake = done.map(|done| done.0.get().cloned()).transpose()?;
        let ticket = py.detach(|| stream.queue(heaps, order(round_robin))).map_err(failed)?;
        if let Some(wake) = wake {
            // No failure is known; the ticket shows the result in any case.
            ticket.on_done(move || drop(wake.set()));
        }
        Ok(Ticket::new(ticket))
    }

    /// Set the counters of heaps without an explicit one.
    fn set_counter_sequence(
        &self,
        #[pyo3(from_py_with = whole)] first: u64,
        #[pyo3(from_py_with = whole)] step: u64,
    ) -> PyResult<()> {
        self.stream()?.get()?.set_counter_sequence(first, step);
        Ok(())
    }

    /// Bits per second from now on, 0 for as fast as possible.
    fn set_rate(&self, rate: f64) -> PyResult<()> {
        let (held, rate) = (self.stream()?, bits_per_second(rate)?);
        let stream = held.get()?;
        if stream.config().auto.is_some() {
            return Err(PyValueError::new_err(format!(
                "set the rate of a stream with the rate 'auto'{}",
                Hint("make the stream with a number as its rate")
            )));
        }
        stream.set_rate(rate);
        Ok(())
    }

    /// Bits per second now.
    fn rate(&self) -> PyResult<u64> {
        self.tell(|stream| stream.rate(), |last| last.rate)
    }

    /// With the rate "auto": for each destination (rate, phase, reports, packets lost, description). Empty before the
    /// first packet.
    fn progress(&self, py: Python<'_>) -> PyResult<Vec<Told>> {
        let all = py.detach(|| self.tell(Stream::progress, |last| last.progress))?;
        let told = |one: Progress| {
            let words = one.to_string();
            (one.rate, one.phase.name(), one.stats.reports, one.stats.lost, words)
        };
        Ok(all.into_iter().map(told).collect())
    }

    /// Wait until all queued heaps are sent; False after the timeout.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let held = self.stream()?;
        let stream = held.get()?;
        let step = |wait: Duration| stream.flush(Some(wait)).then_some(());
        Ok(wait::in_slices(py, wait::seconds(timeout)?, step)?.is_some())
    }

    /// Cancel all heaps that are queued or being sent.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(held) = self.held()? {
            let stream = held.get()?;
            py.detach(|| stream.cancel());
        }
        Ok(())
    }

    /// Whether this is a copy in a forked process, where every call raises RuntimeError.
    #[getter]
    fn forked(&self) -> bool {
        !self.open.is_here()
    }

    /// Send what is queued, then close. Sends in progress on other threads are completed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.get()?;
        let Some(held) = open.lock().take() else { return Ok(()) };
        let stream = held.get()?;
        let step = |wait: Duration| stream.flush(Some(wait)).then_some(());
        if let Err(interrupted) = wait::in_slices(py, None, step) {
            stream.cancel();
            return Err(interrupted);
        }
        if let Some(stream) = Arc::into_inner(held).and_then(Threaded::into_inner) {
            let (rate, progress) = (stream.rate(), stream.progress());
            let stats = py.detach(|| stream.close(None)).map_err(failed)?;
            *lock(&open.last) = Some(Last { stats, rate, progress });
        }
        Ok(())
    }

    /// Counters so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.tell(Stream::stats, |last| last.stats))?;
        let all = PyDict::new(py);
        all.set_item("heaps", stats.objects)?;
        all.set_item("packets", stats.packets)?;
        all.set_item("payload_bytes", stats.payload_bytes)?;
        all.set_item("wire_bytes", stats.wire_bytes)?;
        all.set_item("cancelled", stats.cancelled)?;
        all.set_item("failed", stats.failed)?;
        all.set_item("refused", stats.refused)?;
        all.set_item("unreachable", stats.unreachable)?;
        all.set_item("calls", stats.calls)?;
        all.set_item("slipped_seconds", stats.slipped_seconds)?;
        all.set_item("cpu_seconds", stats.cpu_seconds)?;
        all.set_item("waiting", stats.waiting)?;
        Ok(all)
    }
}

/// Sends that may take longer than this can be interrupted.
const LONG_SECONDS: f64 = 0.1;

impl Open {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Threaded<Stream>>>> {
        lock(&self.stream)
    }
}

impl SendStream {
    /// The stream; `None` once it is closed.
    fn held(&self) -> PyResult<Option<Arc<Threaded<Stream>>>> {
        Ok(self.open.get()?.lock().clone())
    }

    fn stream(&self) -> PyResult<Arc<Threaded<Stream>>> {
        self.held()?.ok_or_else(|| failed(SendError::Closed))
    }

    /// A property of the stream, or its value at the time of closing.
    fn tell<T>(&self, now: impl FnOnce(&Stream) -> T, then: impl FnOnce(Last) -> T) -> PyResult<T> {
        let open = self.open.get()?;
        if let Some(held) = self.held()? {
            return held.get().map(now);
        }
        let last = lock(&open.last).clone();
        last.map(then).ok_or_else(|| failed(SendError::Closed))
    }

    fn open(
        outlet: Outlet,
        bytes: Option<Arc<Mutex<Vec<u8>>>>,
        config: &Settings,
        may_block: bool,
    ) -> PyResult<Self> {
        let substreams = outlet.substreams();
        let stream = Stream::new(outlet, config.0.clone()).map_err(failed)?;
        let stream = Mutex::new(Some(Arc::new(Threaded::new(stream)?)));
        let open = Here::new("stream", Open { stream, bytes, last: Mutex::default() });
        Ok(Self { open, may_block, substreams })
    }

    /// Do `work`, which sends `bytes` bytes, so that Ctrl-C ends it.
    fn interruptibly(
        &self,
        py: Python<'_>,
        bytes: u64,
        rate: Option<u64>,
        work: impl FnOnce(&Stream) -> Result<u64, SendError> + Send,
    ) -> PyResult<u64> {
        let held = self.stream()?;
        let stream = held.get()?;
        // Receivers may lower the rate to the minimum meanwhile.
        let own = || stream.config().auto.map_or_else(|| stream.rate(), |auto| auto.least);
        let rate = rate.filter(|&rate| rate > 0).unwrap_or_else(own);
        let slow = rate > 0 && bytes as f64 * 8.0 / rate as f64 > LONG_SECONDS;
        interruptibly(py, slow || self.may_block, stream, Stream::cancel, work)
    }
}
