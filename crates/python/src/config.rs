//! What a receiving stream is told, as keywords.

use crate::wait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::assembly::heaps::HeapsConfig;
use skyhaul::core::placement::Nanos;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::spead::receive::{Full, Key, StopRule, StreamConfig};
use std::time::Duration;

/// Every limit of a stream.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct ReceiveConfig(pub(crate) StreamConfig);

#[pymethods]
impl ReceiveConfig {
    /// All limits are fixed here. See the stub for what each means.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (*, window = 16, substreams = 1, in_order = false, unsized_heaps = true, largest = 1 << 30,
        heap_timeout = Some(1.0), key = "counter", stop = None, idle_timeout = None, deadline = None, heap_limit = None,
        byte_limit = None, start_at = None, incomplete = false, ring = 4096, full = "auto", memory = None,
        remember = 4096, remember_for = 1.0, runs = 1024, senders = 65536, cpus = Vec::new(), name = "spead".to_owned(),
        explicit_start = false))]
    fn new(
        window: usize,
        substreams: u64,
        in_order: bool,
        unsized_heaps: bool,
        largest: u64,
        heap_timeout: Option<f64>,
        key: &str,
        stop: Option<StopChoice>,
        idle_timeout: Option<f64>,
        deadline: Option<f64>,
        heap_limit: Option<u64>,
        byte_limit: Option<u64>,
        start_at: Option<u64>,
        incomplete: bool,
        ring: usize,
        full: &str,
        memory: Option<u64>,
        remember: usize,
        remember_for: f64,
        runs: u32,
        senders: usize,
        cpus: Vec<usize>,
        name: String,
        explicit_start: bool,
    ) -> PyResult<Self> {
        let heaps = HeapsConfig {
            window,
            substreams,
            in_order,
            unsized_heaps,
            largest,
            timeout: wait::seconds(heap_timeout)?.map(nanos),
            remember,
            remember_for: wait::seconds(Some(remember_for))?.map_or(Nanos(u64::MAX), nanos),
            runs,
        };
        heaps.check().map_err(|why| PyValueError::new_err(format!("{why}; hint: change that argument")))?;
        if ring == 0 {
            return Err(PyValueError::new_err("a ring of 0 heaps; hint: ring=1 or more"));
        }
        let config = StreamConfig {
            heaps,
            key: key_of(key)?,
            stop: stop.unwrap_or(StopChoice(StopRule::First)).0,
            idle_timeout: wait::seconds(idle_timeout)?,
            deadline: wait::seconds(deadline)?,
            heap_limit,
            byte_limit,
            start_at,
            incomplete,
            ring,
            full: full_of(full)?,
            memory: memory.map_or_else(HeapMemory::default, HeapMemory::new),
            senders,
            cpus,
            name,
            explicit_start,
            ..StreamConfig::default()
        };
        Ok(Self(config))
    }
}

/// "never", "first", or how many senders must have sent a stop item.
struct StopChoice(StopRule);

impl<'py> FromPyObject<'_, 'py> for StopChoice {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(count) = given.extract::<usize>() {
            return Ok(Self(if count == 0 { StopRule::Never } else { StopRule::All(count) }));
        }
        match given.extract::<&str>() {
            Ok("never") => Ok(Self(StopRule::Never)),
            Ok("first") => Ok(Self(StopRule::First)),
            _ => Err(unknown("stop", &given.to_string(), "'never', 'first', or a number of senders")),
        }
    }
}

fn key_of(word: &str) -> PyResult<Key> {
    match word {
        "counter" => Ok(Key::Counter),
        "sender" => Ok(Key::SenderAndCounter),
        _ => Err(unknown("key", word, "'counter' or 'sender'")),
    }
}

fn full_of(word: &str) -> PyResult<Full> {
    match word {
        "auto" => Ok(Full::Auto),
        "wait" => Ok(Full::Wait),
        "refuse" => Ok(Full::Refuse),
        _ => Err(unknown("full", word, "'auto', 'wait' or 'refuse'")),
    }
}

pub(crate) fn unknown(argument: &str, given: &str, right: &str) -> PyErr {
    PyValueError::new_err(format!("{argument} is {given:?}; hint: {right}"))
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
