//! Events of a load balancer's worker: a stream of whole events that registers, reports its state, and leaves.
//!
//! ```text
//!   packets ─▶ ObjectStream ─▶ ring ─▶ get (Python)
//!                   └─ load ─▶ Worker ─▶ control plane
//! ```
//!
//! Leaving takes some seconds, in which events still arrive: it runs on a thread of its own, and the stream ends after it.
//! No thread here calls Python.
//!
//! Ticks built of the events of several sources, by the core's rules: what `Worker(sources=…)` gives.
//!
//! ```text
//!   add(tick, data_id, data) ─▶ Builder ─▶ poll() ─▶ (tick, [(data_id, data), …])     whole ticks only
//! ```
//!
//! Parts are Python objects that this only holds. What it lets go of is freed after its lock is.

use crate::address::{self, endpoint};
use crate::balancer::{failed, plane};
use crate::buffer::{Bytes, Payload};
use crate::ending::{self, Threaded};
use crate::errors::{Empty, Stopped};
use crate::receive::account;
use crate::wait::{self, whole};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::core::assembly::building::{BuildConfig, Builder, Built, Sources};
use skyhaul::core::assembly::keyed::KeyedConfig;
use skyhaul::core::hint::Hint;
use skyhaul::core::placement::Nanos;
use skyhaul::io::address::Endpoint;
use skyhaul::io::lock::lock;
use skyhaul::io::memory::default_event_bytes;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::io::quantity::Size;
use skyhaul::io::udp::UdpOptions;
use skyhaul::receive::keyed::{GetError, Object, ObjectStream, StopRule, StreamConfig};
use skyhaul::report::SessionReport;
use skyhaul::wire::ejfat::EjfatWire;
use skyhaul_daemon::worker::{Worker, WorkerOptions, address_towards};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The payload of an event.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct EventPayload(Payload);

/// A stream of events, and its session.
pub(crate) struct Joined {
    stream: ObjectStream<EjfatWire>,
    session: Arc<Mutex<State>>,
}

enum State {
    At(Worker),
    Leaving(Option<JoinHandle<()>>, SessionReport),
    Gone(SessionReport),
}

impl Joined {
    /// Begin to leave: the stream ends when the last packets have come, or with `at_once` now.
    fn leave(&self, at_once: bool) {
        let mut state = lock(&self.session);
        let worker = match std::mem::replace(&mut *state, State::Gone(SessionReport::default())) {
            State::At(worker) => worker,
            other => {
                *state = other;
                return;
            }
        };
        let so_far = worker.report();
        *state = State::Leaving(None, so_far.clone());
        let (session, stream) = (self.session.clone(), self.stream.clone());
        let run = move || {
            let report = if at_once { worker.leave_at_once() } else { worker.leave() };
            // Who learns that the stream has ended may ask at once whether it has left.
            *lock(&session) = State::Gone(report);
            stream.stop();
        };
        match std::thread::Builder::new().name("leave".into()).spawn(run) {
            Ok(thread) => {
                if let State::Leaving(kept, _) = &mut *state {
                    *kept = Some(thread);
                }
            }
            // The worker was dropped with the closure: it has left at once.
            Err(_) => {
                *state = State::Gone(so_far);
                drop(state);
                self.stream.stop();
            }
        }
    }

    /// Wait until it has left.
    fn wait(&self) {
        let thread = match &mut *lock(&self.session) {
            State::Leaving(thread, _) => thread.take(),
            _ => None,
        };
        thread.map(JoinHandle::join);
    }

    fn report(&self) -> SessionReport {
        match &*lock(&self.session) {
            State::At(worker) => worker.report(),
            State::Leaving(_, report) | State::Gone(report) => report.clone(),
        }
    }
}

impl ending::Stream for Joined {
    fn end(&self, py: Python<'_>) {
        py.detach(|| {
            self.leave(true);
            self.stream.stop();
            self.wait();
        });
    }
}

/// Events of a worker, whole and each once.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct EventStream {
    joined: Threaded<Joined>,
    /// Maximum number of queued events.
    #[pyo3(get)]
    capacity: usize,
}

#[pymethods]
impl EventStream {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (uri = None, *, listen = "0.0.0.0:0", ports = 1, name = None, address = None, weight = 1.0,
        min_factor = 0.0, max_factor = 0.0, keep_label = false, timeout = 1.0, window = 64, largest = 0xFFFF_FFFF, ring = 1024,
        memory = None, buffer = None, drain = 10.0, period = 0.1, certificate = None, any_certificate = false,
        quiet = false))]
    fn new(
        py: Python<'_>,
        uri: Option<&str>,
        listen: &str,
        #[pyo3(from_py_with = whole)] ports: u16,
        name: Option<String>,
        address: Option<&str>,
        weight: f32,
        min_factor: f32,
        max_factor: f32,
        keep_label: bool,
        timeout: f64,
        #[pyo3(from_py_with = whole)] window: usize,
        #[pyo3(from_py_with = whole)] largest: u64,
        #[pyo3(from_py_with = whole)] ring: usize,
        #[pyo3(from_py_with = whole)] memory: Option<u64>,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
        drain: f64,
        period: f64,
        certificate: Option<PathBuf>,
        any_certificate: bool,
        quiet: bool,
    ) -> PyResult<Self> {
        let config = config(timeout, window, largest, ring, memory)?;
        let plane = plane(uri, certificate, any_certificate, Duration::from_secs(5))?;
        plane.balancer().map_err(|error| failed(&error))?;
        let first = endpoint("udp", listen)?;
        let stream = ObjectStream::<EjfatWire>::new(&config);
        let bound = py.detach(|| add(&stream, first, ports, buffer))?;
        let address = match address {
            Some(given) => address::host(given, bound.ip())?,
            None => address_towards(&plane, bound.ip())?,
        };
        let own = WorkerOptions::new(address, bound.port());
        let options = WorkerOptions {
            name: name.unwrap_or_else(|| own.name.clone()),
            ports,
            weight,
            min_factor,
            max_factor,
            keep_label,
            period: wait::duration(Some(period))?.unwrap_or(own.period).max(Duration::from_millis(10)),
            drain: wait::duration(Some(drain))?.unwrap_or(own.drain),
            say: if quiet { own.say.clone() } else { Arc::new(|text| skyhaul::io::say!("skyhaul: {text}")) },
            ended: {
                let stream = stream.clone();
                Arc::new(move || stream.stop())
            },
            ..own
        };
        let load = Box::new(stream.clone());
        let worker = py.detach(|| Worker::join(&plane, options, load)).map_err(|error| failed(&error))?;
        let joined = Joined { stream, session: Arc::new(Mutex::new(State::At(worker))) };
        Ok(Self { joined: Threaded::new(joined)?, capacity: ring })
    }

    /// The next whole event: tick, data id, payload. Raises Empty after `timeout` seconds, Stopped when the worker has left and
    /// no event is left.
    #[pyo3(signature = (timeout = None))]
    fn get(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<(u64, u16, Bytes)> {
        let stream = &self.joined.get()?.stream;
        let mut found = stream.try_get();
        if matches!(found, Err(GetError::Empty)) && timeout != Some(0.0) {
            let step = |wait: Duration| match stream.get(Some(wait)) {
                Err(GetError::Empty) => None,
                other => Some(other),
            };
            found = wait::in_slices(py, wait::seconds(timeout)?, step)?.unwrap_or(Err(GetError::Empty));
        }
        match found {
            Ok(event) => given(py, event),
            Err(GetError::Empty) => Err(Empty::new_err("no event within the timeout")),
            Err(GetError::Stopped) => {
                ending::linger();
                Err(Stopped::new_err("the worker has left, and no event is left"))
            }
        }
    }

    /// A file descriptor that is readable while an event is queued, or the stream has ended. The stream owns it.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.joined.get()?.stream.ready_fd()?.as_raw_fd())
    }

    /// Whether it wants events.
    fn set_ready(&self, ready: bool) -> PyResult<()> {
        if let State::At(worker) = &*lock(&self.joined.get()?.session) {
            worker.set_ready(ready);
        }
        Ok(())
    }

    /// Leave the balancer, at once or when the last packets have come; the stream ends then. Returns at once.
    #[pyo3(signature = (at_once = false))]
    fn leave(&self, at_once: bool) -> PyResult<()> {
        self.joined.get()?.leave(at_once);
        Ok(())
    }

    /// Leave now, and end the stream; returns when that is done.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let joined = self.joined.get()?;
        py.detach(|| {
            joined.leave(true);
            joined.wait();
            joined.stream.stop();
        });
        Ok(())
    }

    /// Whether this is a copy in a forked process.
    #[getter]
    fn forked(&self) -> bool {
        !self.joined.is_here()
    }

    /// Every counter of the stream.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let joined = self.joined.get()?;
        let stats = py.detach(|| joined.stream.stats());
        account(py, &stats)
    }

    /// The session as JSON.
    fn session(&self, py: Python<'_>) -> PyResult<String> {
        let joined = self.joined.get()?;
        let report = py.detach(|| joined.report());
        serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

fn config(
    timeout: f64,
    window: usize,
    largest: u64,
    ring: usize,
    memory: Option<u64>,
) -> PyResult<StreamConfig> {
    let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let heaps = KeyedConfig {
        window,
        largest,
        timeout: wait::duration(Some(timeout))?.map(nanos),
        ..KeyedConfig::default()
    };
    heaps.check().map_err(|why| PyValueError::new_err(format!("{why}{}", Hint("change that argument"))))?;
    if ring == 0 || memory == Some(0) || largest == 0 {
        return Err(PyValueError::new_err(format!(
            "ring, memory and largest are at least 1{}",
            Hint("leave them out")
        )));
    }
    Ok(StreamConfig {
        heaps,
        stop: StopRule::Never,
        shared: true,
        ring,
        memory: HeapMemory::new(memory.unwrap_or_else(default_event_bytes)),
        name: "events".to_owned(),
        ..StreamConfig::default()
    })
}

/// Listen on all ports. Returns the first address.
fn add(
    stream: &ObjectStream<EjfatWire>,
    first: Endpoint,
    ports: u16,
    buffer: Option<u64>,
) -> PyResult<std::net::SocketAddr> {
    let port = first.address.port();
    let exist = port != 0 && port.checked_add(ports.saturating_sub(1)).is_some();
    if !ports.is_power_of_two() || ports > 256 || !(ports == 1 || exist) {
        let text = format!(
            "{ports} ports from {port} on{}",
            Hint("1, 2, 4 … 256, and with more than one a port in listen")
        );
        return Err(PyValueError::new_err(text));
    }
    let mut bound = None;
    for n in 0..ports {
        let mut at = first.clone();
        at.address.set_port(port + n);
        at.rcvbuf = buffer.map(Size::from_bytes).or(at.rcvbuf);
        let local = stream.add_udp(&at, &UdpOptions::default())?;
        bound.get_or_insert(local);
    }
    bound.ok_or_else(|| PyValueError::new_err(format!("no port{}", Hint("ports=1"))))
}

fn given(py: Python<'_>, event: Object<EjfatWire>) -> PyResult<(u64, u16, Bytes)> {
    let (tick, source) = (event.number, event.source);
    let payload = Py::new(py, EventPayload(Payload::new(event.into_payload())))?;
    let bytes =
        Bytes { heap: payload.into_any(), payload: |payload| Ok(&payload.cast::<EventPayload>()?.get().0) };
    Ok((tick, source, bytes))
}

/// A tick, and what came of it by data id.
type Whole = (u64, Vec<(u16, Py<PyAny>)>);

/// Ticks of which some parts are there.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct TickBuilder {
    builder: Mutex<Builder<Py<PyAny>>>,
    begun: Instant,
}

#[pymethods]
impl TickBuilder {
    #[new]
    #[pyo3(signature = (sources, timeout, window))]
    fn new(
        #[pyo3(from_py_with = wait::whole)] sources: Vec<u16>,
        timeout: f64,
        #[pyo3(from_py_with = wait::whole)] window: usize,
    ) -> PyResult<Self> {
        let timeout = nanos(wait::duration(Some(timeout))?.unwrap_or_default());
        // Bytes are those of the stream's memory, which has a limit of its own.
        let config = BuildConfig { sources: Sources::Named(sources), timeout, window, bytes: u64::MAX };
        config
            .check()
            .map_err(|why| PyValueError::new_err(format!("{why}{}", Hint("change that argument"))))?;
        Ok(Self { builder: Mutex::new(Builder::new(config)), begun: Instant::now() })
    }

    /// A part of a tick. What is a part already, late or of another source is counted, and let go.
    fn add(&self, py: Python<'_>, tick: u64, data_id: u16, data: Py<PyAny>) {
        let _kept = data.clone_ref(py);
        self.lock().add(tick, data_id, 0, data, self.now());
    }

    /// The next tick that is whole. Those that ended without a part are counted, and let go.
    fn poll(&self) -> Option<Whole> {
        loop {
            let Built { number, parts, lacking } = {
                let mut builder = self.lock();
                builder.handle_timeout(self.now());
                builder.poll_built()?
            };
            if lacking == 0 {
                return Some((number, parts));
            }
        }
    }

    /// What became of ticks and of parts so far; `live` ticks are under construction.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counts, live) = {
            let mut builder = self.lock();
            // After the worker's end nobody polls: ticks that have waited for too long are counted here.
            builder.handle_timeout(self.now());
            (builder.counts(), builder.live())
        };
        let all = PyDict::new(py);
        for (name, count) in [
            ("whole", counts.whole),
            ("partial", counts.partial),
            ("crowded", counts.crowded),
            ("late", counts.late),
            ("doubled", counts.doubled),
            ("other_sources", counts.other_sources),
            ("live", live as u64),
        ] {
            all.set_item(name, count)?;
        }
        Ok(all)
    }
}

impl TickBuilder {
    fn lock(&self) -> MutexGuard<'_, Builder<Py<PyAny>>> {
        lock(&self.builder)
    }

    fn now(&self) -> Nanos {
        nanos(self.begun.elapsed())
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
