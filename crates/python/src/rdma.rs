//! RDMA over UDP or TCP: regions that peers write and read, and connections to regions of others.
//!
//! ```text
//!   peers ─▶ RdmaService (a thread) ─▶ RegionMemory ◀─ arrays
//!                     └─ messages ─▶ queue ─▶ get (Python)
//!   arrays ─▶ RdmaClient (the caller's thread) ─▶ a region of another host
//! ```
//!
//! No thread here calls Python.

use crate::address;
use crate::buffer::{RegionMemory, Sent, SharedMut};
use crate::ending::{self, Threaded};
use crate::errors::{Cancelled, Empty, Stopped, system};
use crate::recording::json;
use crate::send::{bits_per_second, is_main_thread};
use crate::wait::{self, whole};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::io::copy;
use skyhaul::io::fault::Faults;
use skyhaul::io::memory::remote::RemoteMemory;
use skyhaul::io::quantity::Size;
use skyhaul::rdma::{
    ClientRead, ClientWrite, RdmaAddress, RdmaClient as Client, RdmaClientOptions, RdmaService, RegionSpec,
    ServeOptions, ServedMessage,
};
use skyhaul::receive::keyed::GetError;
use skyhaul::spead::receive::chunk::ChunkBytes;
use skyhaul::stop::StopFlag;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Of an address without a scheme.
const SCHEME: &str = "rdma+udp://";
/// Writes of more bytes, or of longer, can be interrupted; so can all Reads.
const LONG_BYTES: u64 = 64 << 20;
const LONG_SECONDS: f64 = 0.1;

/// A range: first, behind the last.
type Range = (u64, u64);
/// Index of the region, connection, numbers, whether the ranges are of the region, valid, missing, complete, immediate data.
type RawMessage = (usize, u64, Range, bool, Vec<Range>, Vec<Range>, bool, Option<u64>);

fn wrong(text: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(text.to_string())
}

/// ValueError for wrong arguments, OSError for all else.
fn failed(error: io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidInput => wrong(error),
        io::ErrorKind::Interrupted => Cancelled::new_err(error.to_string()),
        _ => system(error),
    }
}

/// An address of a server, or of a region there; a host's name is looked up.
fn rdma_address(text: &str, buffer: Option<u64>) -> PyResult<RdmaAddress> {
    let text = if text.contains("://") { text.to_owned() } else { format!("{SCHEME}{text}") };
    let mut at: RdmaAddress = match text.parse() {
        Ok(at) => at,
        Err(why) => match address::named(&text)? {
            Some(numeric) => numeric.parse().map_err(wrong)?,
            None => return Err(wrong(why)),
        },
    };
    at.endpoint.rcvbuf = buffer.map(Size::from_bytes).or(at.endpoint.rcvbuf);
    Ok(at)
}

fn faults(given: Option<&str>) -> PyResult<Option<Faults>> {
    given.map(|text| text.parse().map_err(wrong)).transpose()
}

fn pairs(ranges: &[std::ops::Range<u64>]) -> Vec<Range> {
    ranges.iter().map(|range| (range.start, range.end)).collect()
}

fn raw(message: &ServedMessage) -> RawMessage {
    let ServedMessage { region, connection, messages, in_region, valid, missing, is_complete, immediate } =
        message;
    let numbers = (messages.start, messages.end);
    (*region, *connection, numbers, *in_region, pairs(valid), pairs(missing), *is_complete, *immediate)
}

/// Do `work`, which may be `long`, so that Ctrl-C ends it: on the main thread, where Python handles signals, another thread does it.
fn interruptibly<T: Send>(
    py: Python<'_>,
    long: bool,
    stop: &StopFlag,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> PyResult<T> {
    if !long || !is_main_thread() {
        return py.detach(work).map_err(failed);
    }
    let done = std::thread::scope(|scope| {
        let (done, when) = std::sync::mpsc::channel();
        scope.spawn(move || done.send(work()));
        let step = move |wait: Duration| match when.recv_timeout(wait) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(io::Error::other("the operation has failed"))),
        };
        let outcome = wait::in_slices(py, None, step);
        if outcome.is_err() {
            stop.stop();
        }
        // The thread ends soon, and needs no interpreter.
        outcome
    })?;
    done.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into())).map_err(failed)
}

impl ending::Stream for RdmaService {
    fn end(&self, py: Python<'_>) {
        // An error was told to those who asked.
        py.detach(|| drop(self.stop()));
    }
}

impl ending::Stream for Client {
    fn end(&self, py: Python<'_>) {
        // As above.
        py.detach(|| drop(self.close()));
    }
}

/// Regions that peers may write and read.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct RdmaServer(Threaded<RdmaService>);

#[pymethods]
impl RdmaServer {
    /// See `skyhaul.rdma.Server`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (listen, regions, *, connections = None, duration = None, queue = 65536, faults = None,
        packet = None, crc = None, buffer = None))]
    fn new(
        py: Python<'_>,
        listen: &str,
        regions: Vec<String>,
        #[pyo3(from_py_with = whole)] connections: Option<u64>,
        duration: Option<f64>,
        #[pyo3(from_py_with = whole)] queue: usize,
        faults: Option<&str>,
        #[pyo3(from_py_with = whole)] packet: Option<u16>,
        crc: Option<bool>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
    ) -> PyResult<Self> {
        if queue == 0 {
            return Err(wrong(format!("queue is 0{}", Hint("1 or more"))));
        }
        let spec = |text: String| text.parse::<RegionSpec>().map_err(|why| wrong(format!("{text:?}: {why}")));
        let options = ServeOptions {
            duration: wait::duration(duration)?,
            connections,
            faults: self::faults(faults)?,
            datagram_bytes: packet,
            crc,
            ..ServeOptions::new(
                rdma_address(listen, buffer)?,
                regions.into_iter().map(spec).collect::<PyResult<_>>()?,
            )
        };
        let service = py.detach(|| RdmaService::start(options, queue)).map_err(failed)?;
        Ok(Self(Threaded::new(service)?))
    }

    /// Its address, with the port that the system chose.
    #[getter]
    fn address(&self) -> PyResult<String> {
        Ok(RdmaAddress { region: None, ..self.0.get()?.address("") }.to_string())
    }

    /// Its regions: name, read, write, memory.
    fn regions(&self) -> PyResult<Vec<(String, bool, bool, RegionMemory)>> {
        let told = |(spec, memory): &(RegionSpec, Arc<RemoteMemory>)| {
            (spec.name.clone(), spec.rights.read, spec.rights.write, RegionMemory::new(memory.clone()))
        };
        Ok(self.0.get()?.regions().iter().map(told).collect())
    }

    /// Put bytes into a region, for peers to read.
    fn place(
        &self,
        py: Python<'_>,
        region: usize,
        #[pyo3(from_py_with = whole)] offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (bytes, service) = (Sent::of(data)?, self.0.get()?);
        let (spec, memory) = service.regions().get(region).ok_or_else(|| PyIndexError::new_err(region))?;
        let length = bytes.as_ref().len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > memory.length()) {
            let text = format!(
                "{length} bytes from byte {offset} on do not fit region {} of {}{}",
                spec.name,
                memory.length(),
                Hint("serve a larger one")
            );
            return Err(wrong(text));
        }
        py.detach(|| memory.place(offset, bytes.as_ref()));
        Ok(())
    }

    /// The next message. Raises Empty after `timeout` seconds, Stopped when the server has ended and no message is left.
    #[pyo3(signature = (timeout = None))]
    fn get(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<RawMessage> {
        let service = self.0.get()?;
        let mut found = service.try_get();
        if matches!(found, Err(GetError::Empty)) && timeout != Some(0.0) {
            let step = |wait: Duration| match service.get(Some(wait)) {
                Err(GetError::Empty) => None,
                other => Some(other),
            };
            found = wait::in_slices(py, wait::seconds(timeout)?, step)?.unwrap_or(Err(GetError::Empty));
        }
        match found {
            Ok(message) => Ok(raw(&message)),
            Err(GetError::Empty) => Err(Empty::new_err("no message within the timeout")),
            Err(GetError::Stopped) => {
                // One that failed says why.
                py.detach(|| service.report()).map_err(failed)?;
                ending::linger();
                Err(Stopped::new_err("the server has ended, and no message is left"))
            }
        }
    }

    /// A file descriptor that is readable while a message is queued, or the server has ended. The server owns it.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.get()?.ready_fd()?.as_raw_fd())
    }

    /// Messages for which the queue had no room.
    #[getter]
    fn not_queued(&self) -> PyResult<u64> {
        Ok(self.0.get()?.not_queued())
    }

    /// What it did so far, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let service = self.0.get()?;
        json(&py.detach(|| service.report()).map_err(failed)?)
    }

    /// Close the connections, and end; the last report as JSON. Queued messages can still be taken.
    fn stop(&self, py: Python<'_>) -> PyResult<String> {
        let service = self.0.get()?;
        json(&py.detach(|| service.stop()).map_err(failed)?)
    }

    /// Whether this is a copy in a forked process, where every call raises RuntimeError.
    #[getter]
    fn forked(&self) -> bool {
        !self.0.is_here()
    }
}

/// Ends an operation of another thread.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct RdmaStop(StopFlag);

#[pymethods]
impl RdmaStop {
    #[new]
    fn new() -> Self {
        Self(StopFlag::default())
    }

    /// End it: it raises Cancelled.
    fn set(&self) {
        self.0.stop();
    }
}

/// A connection to a region.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct RdmaClient {
    client: Threaded<Client>,
    /// Where it is connected.
    #[pyo3(get)]
    address: String,
    /// Length of the region in bytes.
    #[pyo3(get)]
    nbytes: u64,
}

#[pymethods]
impl RdmaClient {
    /// See `skyhaul.rdma.connect`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (to, *, faults = None, arrival_faults = None, packet = None, crc = None, buffer = None,
        stop = None))]
    fn new(
        py: Python<'_>,
        to: &str,
        faults: Option<&str>,
        arrival_faults: Option<&str>,
        #[pyo3(from_py_with = whole)] packet: Option<u16>,
        crc: Option<bool>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
        stop: Option<&RdmaStop>,
    ) -> PyResult<Self> {
        let options = RdmaClientOptions {
            to: rdma_address(to, buffer)?,
            arriving: self::faults(arrival_faults)?,
            leaving: self::faults(faults)?,
            datagram_bytes: packet,
            crc,
        };
        let (address, stop) = (options.to.to_string(), flag(stop));
        let client = interruptibly(py, true, &stop, || Client::connect(options, &stop))?;
        let nbytes = client.region_bytes();
        Ok(Self { client: Threaded::new(client)?, address, nbytes })
    }

    /// What may be done: read, write.
    #[getter]
    fn rights(&self) -> PyResult<(bool, bool)> {
        let rights = self.client.get()?.rights();
        Ok((rights.read, rights.write))
    }

    /// Write the bytes of an object, which are not copied: first number, number behind the last, bytes, seconds, seconds by which the
    /// schedule slipped.
    #[expect(clippy::too_many_arguments, reason = "each is an argument in Python")]
    #[pyo3(signature = (data, offset, message, immediate, rate, stop = None))]
    fn write(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole)] offset: u64,
        #[pyo3(from_py_with = whole)] message: Option<u64>,
        immediate: bool,
        rate: f64,
        stop: Option<&RdmaStop>,
    ) -> PyResult<(u64, u64, u64, f64, f64)> {
        let (bytes, client, rate) = (Arc::new(Sent::of(data)?), self.client.get()?, bits_per_second(rate)?);
        let length = (*bytes).as_ref().len() as u64;
        let how = ClientWrite { offset, message_bytes: message.unwrap_or(length.max(1)), immediate, rate };
        if how.message_bytes > u64::from(u32::MAX) {
            let text =
                format!("a message of {} bytes{}", how.message_bytes, Hint("message=: less than 4 GiB"));
            return Err(wrong(text));
        }
        let is_long = length > LONG_BYTES || (rate > 0 && length as f64 * 8.0 / rate as f64 > LONG_SECONDS);
        let stop = flag(stop);
        let written = interruptibly(py, is_long, &stop, || client.write(bytes, &how, &stop))?;
        if stop.is_set() && written.bytes < length {
            let text = format!("cancelled after {} of {length} bytes", written.bytes);
            return Err(Cancelled::new_err(text));
        }
        let numbers = written.messages;
        Ok((numbers.start, numbers.end, written.bytes, written.seconds, written.slipped_seconds))
    }

    /// Read as many bytes as fit into a writable object, from byte `start` of the region on: ranges that are missing, requests, seconds.
    /// What is missing is zero.
    #[pyo3(signature = (memory, start, deadline, stop = None))]
    fn read(
        &self,
        py: Python<'_>,
        memory: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole)] start: u64,
        deadline: f64,
        stop: Option<&RdmaStop>,
    ) -> PyResult<(Vec<Range>, u64, f64)> {
        let (mut memory, client) = (SharedMut::of(memory)?, self.client.get()?);
        let deadline = wait::duration(Some(deadline))?.unwrap_or(Duration::MAX);
        let Some(end) = start.checked_add(memory.size() as u64) else {
            return Err(wrong(format!("the range from {start} on has no end")));
        };
        memory.lend()?;
        let stop = flag(stop);
        let into = &mut memory;
        let report = interruptibly(py, true, &stop, || {
            let report = client.read(start..end, &ClientRead::new(deadline), &stop, &mut |at, bytes| {
                into.place(at as usize, bytes);
                Ok(())
            })?;
            // What was never asked for was not taken either.
            for (from, until) in &report.missing {
                into.fill((from - start) as usize, (until - from) as usize, 0);
            }
            copy::fence();
            Ok(report)
        })?;
        memory.give_back();
        if report.interrupted {
            return Err(Cancelled::new_err(format!("cancelled after {} bytes", report.bytes)));
        }
        Ok((report.missing, report.requests, report.seconds))
    }

    /// What was done so far, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.client.get()?;
        json(&py.detach(|| client.report()).map_err(failed)?)
    }

    /// Close the connection; the last report as JSON.
    fn close(&self, py: Python<'_>) -> PyResult<String> {
        let client = self.client.get()?;
        json(&py.detach(|| client.close()).map_err(failed)?)
    }

    /// Whether this is a copy in a forked process, where every call raises RuntimeError.
    #[getter]
    fn forked(&self) -> bool {
        !self.client.is_here()
    }
}

fn flag(stop: Option<&RdmaStop>) -> StopFlag {
    stop.map(|stop| stop.0.clone()).unwrap_or_default()
}
