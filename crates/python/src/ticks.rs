//! Ticks built of the events of several sources, by the core's rules: what `Worker(sources=…)` gives.
//!
//! ```text
//!   add(tick, data_id, data) ─▶ Builder ─▶ poll() ─▶ (tick, [(data_id, data), …])     whole ticks only
//! ```
//!
//! Parts are Python objects that this only holds. What it lets go of is freed after its lock is.

use crate::wait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::core::assembly::building::{BuildConfig, Builder, Built, Sources};
use skyhaul::core::hint::Hint;
use skyhaul::core::placement::Nanos;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        nanos(self.begun.elapsed())
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
