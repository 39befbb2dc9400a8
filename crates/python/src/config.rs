//! Settings of a receiving stream, as keywords.

use crate::wait::{self, whole};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::assembly::{Counting, KeyedConfig};
use skyhaul::core::hint::Hint;
use skyhaul::core::placement::Nanos;
use skyhaul::io::host::thread::pin;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::spead::receive::{Full, KeyedBy, StopRule, StreamConfig};
use std::time::Duration;

/// Every limit of a stream.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct ReceiveConfig(pub(crate) StreamConfig);

#[pymethods]
impl ReceiveConfig {
    /// All limits are fixed here. The stub describes each.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (*, window = 16, substreams = 1, in_order = false, unsized_heaps = true, largest = 1 << 30,
        heap_timeout = Some(1.0), key = "counter", stop = None, idle_timeout = None, deadline = None, heap_limit = None,
        byte_limit = None, start_at = None, incomplete = false, ring = 4096, full = "auto", overflow = 0,
        memory = None,
        remember = 262144, remember_for = 1.0, runs = 1024, senders = 65536, cpus = Vec::new(), name = "spead".to_owned(),
        explicit_start = false, counting = "incomplete", incomplete_payload = true))]
    fn new(
        #[pyo3(from_py_with = whole)] window: usize,
        #[pyo3(from_py_with = whole)] substreams: u64,
        in_order: bool,
        unsized_heaps: bool,
        #[pyo3(from_py_with = whole)] largest: u64,
        heap_timeout: Option<f64>,
        key: &str,
        stop: Option<StopChoice>,
        idle_timeout: Option<f64>,
        deadline: Option<f64>,
        #[pyo3(from_py_with = whole)] heap_limit: Option<u64>,
        #[pyo3(from_py_with = whole)] byte_limit: Option<u64>,
        #[pyo3(from_py_with = whole)] start_at: Option<u64>,
        incomplete: bool,
        #[pyo3(from_py_with = whole)] ring: usize,
        full: &str,
        #[pyo3(from_py_with = whole)] overflow: u64,
        #[pyo3(from_py_with = whole)] memory: Option<u64>,
        #[pyo3(from_py_with = whole)] remember: usize,
        remember_for: f64,
        #[pyo3(from_py_with = whole)] runs: u32,
        #[pyo3(from_py_with = whole)] senders: usize,
        #[pyo3(from_py_with = whole)] cpus: Vec<usize>,
        name: String,
        explicit_start: bool,
        counting: &str,
        incomplete_payload: bool,
    ) -> PyResult<Self> {
        let heaps = KeyedConfig {
            window,
            counting: counting_of(counting)?,
            substreams,
            in_order,
            unsized_objects: unsized_heaps,
            largest,
            timeout: wait::duration(heap_timeout)?.map(nanos),
            remember,
            remember_for: wait::duration(Some(remember_for))?.map_or(Nanos(u64::MAX), nanos),
            runs,
            contest: None,
        };
        heaps
            .check()
            .map_err(|why| PyValueError::new_err(format!("{why}{}", Hint("change that argument"))))?;
        let none = [("ring", ring as u64), ("senders", senders as u64), ("largest", largest)];
        check(none.into_iter().chain(memory.map(|memory| ("memory", memory))), &name, &cpus)?;
        let config = StreamConfig {
            heaps,
            key: key_of(key)?,
            stop: stop.unwrap_or(StopChoice(StopRule::First)).0,
            idle_timeout: wait::duration(idle_timeout)?,
            deadline: wait::duration(deadline)?,
            heap_limit,
            byte_limit,
            start_at,
            incomplete,
            incomplete_payload,
            ring,
            full: full_of(full)?,
            overflow,
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

/// Reject settings with which a stream would receive nothing, or which would have no effect.
fn check<'a>(mut none: impl Iterator<Item = (&'a str, u64)>, name: &str, cpus: &[usize]) -> PyResult<()> {
    if let Some((name, _)) = none.find(|(_, n)| *n == 0) {
        return Err(PyValueError::new_err(format!(
            "{name} is 0: no heap could be received{}",
            Hint(format_args!("{name}=1 or more"))
        )));
    }
    if name.contains('\0') {
        return Err(PyValueError::new_err(format!(
            "name is {name:?}{}",
            Hint("a name of letters and digits")
        )));
    }
    if cpus.is_empty() { Ok(()) } else { bindable(cpus) }
}

/// Check that threads of this process can be bound to these processors, because a later failure would not be noticed.
pub(crate) fn bindable(cpus: &[usize]) -> PyResult<()> {
    let cpus = cpus.to_vec();
    // On a separate thread, which stays bound.
    let tried = std::thread::spawn(move || cpus.into_iter().try_for_each(pin)).join();
    match tried {
        Ok(bound) => bound.map_err(|error| PyValueError::new_err(error.to_string())),
        Err(_) => Err(PyValueError::new_err(format!(
            "bind a thread to a processor: it panicked{}",
            Hint("leave out cpus")
        ))),
    }
}

fn key_of(word: &str) -> PyResult<KeyedBy> {
    match word {
        "counter" => Ok(KeyedBy::Counter),
        "sender" => Ok(KeyedBy::SenderAndCounter),
        _ => Err(unknown("key", word, "'counter' or 'sender'")),
    }
}

fn counting_of(word: &str) -> PyResult<Counting> {
    match word {
        "incomplete" => Ok(Counting::Incomplete),
        "begun" => Ok(Counting::Begun),
        _ => Err(unknown("counting", word, "'incomplete' or 'begun'")),
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
    PyValueError::new_err(format!("{argument} is {given:?}{}", Hint(right)))
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
