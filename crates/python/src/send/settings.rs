//! Settings of a sending stream: the keywords of Python, checked.

use super::heap::{bits_per_second, split_of};
use crate::config::{bindable, unknown};
use crate::wait::{self, whole};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::control::ControlConfig;
use skyhaul::core::hint::Hint;
use skyhaul::spead::send::{PacketSize, SendConfig};
use std::time::Duration;

/// Settings of a sending stream of any transport.
#[pyclass(frozen, module = "skyhaul._native", name = "SendConfig")]
pub(crate) struct Settings(pub(super) SendConfig);

impl Settings {
    /// Whether receivers control the rate.
    pub(super) fn is_auto(&self) -> bool {
        self.0.auto.is_some()
    }
}

#[pymethods]
impl Settings {
    /// `packet`: bytes of a packet, 0 for each heap as one packet; or `payload`: payload bytes of each packet. `rate`:
    /// bits per second, 0 for as fast as possible, "auto" for control by receivers with `feedback`: from `rate_start`,
    /// between the two `rate_bounds`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (*, packet = 1472, payload = None, rate = Rate::Given(0), rate_start = None,
        rate_bounds = None, burst = 65536, max_heaps = 4,
        split = "even", linger = 10.0, cpu = None), text_signature = "(*, packet=1472, payload=None, rate=0.0, \
        rate_start=None, rate_bounds=None, burst=65536, max_heaps=4, split='even', linger=10.0, cpu=None)")]
    fn new(
        #[pyo3(from_py_with = whole)] packet: usize,
        #[pyo3(from_py_with = whole)] payload: Option<usize>,
        rate: Rate,
        rate_start: Option<f64>,
        rate_bounds: Option<(f64, f64)>,
        #[pyo3(from_py_with = whole)] burst: usize,
        #[pyo3(from_py_with = whole)] max_heaps: usize,
        split: &str,
        linger: f64,
        #[pyo3(from_py_with = whole)] cpu: Option<usize>,
    ) -> PyResult<Self> {
        if max_heaps == 0 {
            return Err(PyValueError::new_err(format!(
                "max_heaps is 0: no heap could be queued{}",
                Hint("max_heaps=1 or more")
            )));
        }
        cpu.map_or(Ok(()), |cpu| bindable(&[cpu]))?;
        let size = match (payload, packet) {
            (Some(bytes), _) => PacketSize::Payload(bytes),
            (None, 0) => PacketSize::Heap,
            (None, bytes) => PacketSize::Packet(bytes),
        };
        let (rate, auto) = match rate {
            Rate::Auto => (0, Some(control(rate_start, rate_bounds)?)),
            Rate::Given(rate) if rate_start.is_none() && rate_bounds.is_none() => (rate, None),
            Rate::Given(_) => {
                let text = format!("rate_start and rate_bounds need the rate 'auto'{}", Hint("rate='auto'"));
                return Err(PyValueError::new_err(text));
            }
        };
        Ok(Self(SendConfig {
            packet: size,
            split: split_of(split)?,
            rate,
            auto,
            burst_bytes: burst,
            max_heaps,
            linger: wait::duration(Some(linger))?.unwrap_or(Duration::MAX),
            cpu,
            ..SendConfig::default()
        }))
    }
}

/// Start and bounds of the rate "auto"; the default start follows the bounds.
fn control(start: Option<f64>, bounds: Option<(f64, f64)>) -> PyResult<ControlConfig> {
    let usual = ControlConfig::default();
    let (least, most) = match bounds {
        Some((least, most)) => (bits_per_second(least)?, bits_per_second(most)?),
        None => (usual.least, usual.most),
    };
    let start = start.map(bits_per_second).transpose()?;
    let start = start.unwrap_or_else(|| usual.start.max(least).min(most));
    if least == 0 || !(least..=most).contains(&start) {
        return Err(PyValueError::new_err(format!(
            "the rate begins at {start} and stays from {least} to {most} bits per second{}",
            Hint("a least rate above 0, a start between the two")
        )));
    }
    Ok(ControlConfig { start, least, most, ..usual })
}

/// A number, or "auto".
enum Rate {
    Given(u64),
    Auto,
}

impl<'py> FromPyObject<'_, 'py> for Rate {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<&str>() {
            Ok("auto") => Ok(Self::Auto),
            Ok(word) => Err(unknown("rate", word, "bits per second, for example 8e9, or 'auto'")),
            Err(_) => Ok(Self::Given(bits_per_second(given.extract()?)?)),
        }
    }
}
