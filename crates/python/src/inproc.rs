//! Queues of packets inside the process.

use crate::buffer::Packets;
use crate::process::Here;
use crate::wait::{self, whole};
use pyo3::prelude::*;
use skyhaul::inproc;
use std::time::Duration;

/// A bounded queue of packets between streams of this process.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct InprocQueue(pub(crate) Here<inproc::InprocQueue>);

#[pymethods]
impl InprocQueue {
    /// A queue that holds up to `limit` bytes of packets.
    #[new]
    #[pyo3(signature = (limit = 64 << 20))]
    fn new(#[pyo3(from_py_with = whole)] limit: usize) -> Self {
        Self::of(inproc::InprocQueue::new(limit))
    }

    /// Queue one packet; False if there was no room within the timeout.
    #[pyo3(signature = (packet, timeout = None))]
    fn push(&self, py: Python<'_>, packet: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<bool> {
        let (queue, packet) = (self.0.get()?, Packets::of(packet)?);
        let step = |wait: Duration| match queue.push(packet.as_ref(), wait) {
            Ok(false) => None,
            done => Some(done),
        };
        match wait::in_slices(py, wait::seconds(timeout)?, step)? {
            Some(done) => Ok(done?),
            None => Ok(false),
        }
    }

    /// The same queue; packets pushed to it come from sender `number`.
    fn as_sender(&self, number: u16) -> PyResult<Self> {
        Ok(Self::of(self.0.get()?.as_sender(number)))
    }

    /// Close the queue; queued packets can still be received.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.close();
        Ok(())
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.0.get()?.is_closed())
    }

    /// Number of queued packets.
    #[getter]
    fn waiting(&self) -> PyResult<usize> {
        Ok(self.0.get()?.waiting())
    }
}

impl InprocQueue {
    fn of(queue: inproc::InprocQueue) -> Self {
        Self(Here::new("queue", queue))
    }
}
