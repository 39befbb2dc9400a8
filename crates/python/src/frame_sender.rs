//! Frames that Python makes, sent by a thread at an exact rate.

use crate::address::endpoint;
use crate::buffer::Packets;
use crate::errors::system;
use crate::process::Here;
use crate::recording::json;
use crate::wait;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::io::udp::send::SendMode;
use skyhaul::send::{Frames, Pacing, RecordingSupply, SendReport, Sender, SenderOptions, Sequence, Stop};
use skyhaul::wire::Order;
use std::io;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

/// Sends frames.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct FrameSender(Here<Mutex<Running>>);

struct Running {
    /// None once it is closed.
    frames: Option<Frames>,
    sender: Option<JoinHandle<SendReport>>,
    stop: Stop,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever did not close it does not want the rest.
        if self.sender.is_some() {
            self.stop.cancel();
        }
    }
}

#[pymethods]
impl FrameSender {
    /// Send frames of `frame_bytes` to `to`, at `rate` bits per second (0: as fast as possible), each after a sequence number
    /// in byte order `sequence` ("little", "big", None: without one).
    #[new]
    fn new(to: &str, frame_bytes: usize, rate: u64, sequence: Option<&str>, name: String) -> PyResult<Self> {
        let to = endpoint(if to.starts_with("tcp:") { "tcp" } else { "udp" }, to)?;
        let order = match sequence {
            None => None,
            Some("little") => Some(Order::Little),
            Some("big") => Some(Order::Big),
            Some(other) => {
                let text = format!("sequence={other:?}{}", Hint("\"little\", \"big\" or None"));
                return Err(PyValueError::new_err(text));
            }
        };
        let options = SenderOptions {
            to,
            mode: SendMode::default(),
            pacing: Pacing { rate, ..Pacing::default() },
            faults: None,
            packets: None,
            duration: None,
            cpu: None,
        };
        let (frames, supply) = RecordingSupply::given(frame_bytes, Sequence { order, first: 0 }, name);
        let (sender, stop) = (Sender::open(options, Box::new(supply)).map_err(system)?, Stop::default());
        let seen = stop.clone();
        let sender =
            std::thread::Builder::new().name("send-frames".into()).spawn(move || sender.run(&seen))?;
        let running = Running { frames: Some(frames), sender: Some(sender), stop };
        Ok(Self(Here::new("sender", Mutex::new(running))))
    }

    /// Queue whole frames; waits while there is no room for them.
    fn write(&self, py: Python<'_>, frames: &Bound<'_, PyAny>) -> PyResult<()> {
        let given = Packets::of(frames)?;
        let running = self.0.get()?;
        let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the sender is closed");
        let most = lock(running).frames.as_ref().ok_or_else(closed)?.most();
        for part in given.as_ref().chunks(most) {
            let step = |wait: Duration| {
                let given = lock(running).frames.as_ref().ok_or_else(closed).and_then(|to| to.give(part));
                match given {
                    Ok(false) => {
                        std::thread::sleep(wait.min(Duration::from_millis(1)));
                        None
                    }
                    done => Some(done.map(|_| ())),
                }
            };
            if let Some(done) = wait::in_slices(py, None, step)? {
                done.map_err(|error| self.why(error))?;
            }
        }
        Ok(())
    }

    /// Send the rest, or with `drop` what is on its way only; the report as JSON.
    fn close(&self, py: Python<'_>, drop: bool) -> PyResult<String> {
        let running = self.0.get()?;
        lock(running).frames = None;
        if drop {
            lock(running).stop.cancel();
        }
        let step = |wait: Duration| {
            let done = lock(running).sender.as_ref().is_none_or(JoinHandle::is_finished);
            if !done {
                std::thread::sleep(wait.min(Duration::from_millis(1)));
            }
            done.then_some(())
        };
        wait::in_slices(py, None, step)?;
        let Some(sender) = lock(running).sender.take() else { return Ok("{}".to_owned()) };
        let report = sender.join().map_err(|_| PyOSError::new_err("the sender has failed"))?;
        match &report.error {
            Some(error) if !drop => Err(system(io::Error::other(error.clone()))),
            _ => json(&report),
        }
    }
}

impl FrameSender {
    /// Why the sender takes nothing more: its own reason, if it has one.
    fn why(&self, error: io::Error) -> PyErr {
        let ended = self.0.get().ok().and_then(|running| {
            let mut running = lock(running);
            running.sender.take_if(|sender| sender.is_finished())
        });
        match ended.and_then(|sender| sender.join().ok()?.error) {
            Some(why) => system(io::Error::other(why)),
            None => system(error),
        }
    }
}
