//! Events to a balancer or a receiver.

use crate::address::{any_endpoint, endpoint};
use crate::buffer::Sent;
use crate::ending::Threaded;
use crate::errors::failed;
use crate::process::Here;
use crate::send::{Ticket, Wake, bits_per_second, interruptibly};
use crate::wait::{self, whole};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::io::quantity::Size;
use skyhaul::send::events::{
    Event, EventConfig, EventDivision, EventSender as Sender, EventSenderOptions, SyncOptions, Target, Ticks,
};
use skyhaul::send::{Pacing, SendError, Sending};
use skyhaul::wire::{Addressing, BalancerUri, BalancerVersion, PortRule, SlotRule};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Sends events.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct EventSender {
    open: Here<Mutex<Option<Arc<Threaded<Sender>>>>>,
    /// Where it sends, without the token of a URI.
    #[pyo3(get)]
    to: String,
}

#[pymethods]
impl EventSender {
    /// See `skyhaul.ejfat.Sender`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword of its own in Python")]
    #[pyo3(signature = (to, *, mtu, rate, events_per_second, first_tick, tick_step, lb_version, slot, entropy,
        re_version, sockets, buffer, ipv6, sync, sync_period, sync_source, warm_up, max_events, linger))]
    fn new(
        py: Python<'_>,
        to: &str,
        #[pyo3(from_py_with = whole)] mtu: usize,
        rate: f64,
        events_per_second: Option<f64>,
        #[pyo3(from_py_with = whole)] first_tick: Option<u64>,
        #[pyo3(from_py_with = whole)] tick_step: u64,
        #[pyo3(from_py_with = whole)] lb_version: u8,
        slot: &str,
        entropy: Entropy,
        #[pyo3(from_py_with = whole)] re_version: u8,
        #[pyo3(from_py_with = whole)] sockets: usize,
        #[pyo3(from_py_with = whole)] buffer: Option<u64>,
        ipv6: bool,
        sync: Option<&str>,
        sync_period: f64,
        #[pyo3(from_py_with = whole)] sync_source: u32,
        warm_up: f64,
        #[pyo3(from_py_with = whole)] max_events: usize,
        linger: f64,
    ) -> PyResult<Self> {
        let mut target = target(to, ipv6)?;
        if let Some(sync) = sync {
            target.sync = Some(endpoint("udp", sync)?);
        }
        if tick_step == 0 || sync_period <= 0.0 || max_events == 0 || sockets == 0 {
            return Err(PyValueError::new_err(format!(
                "tick_step, sync_period, max_events and sockets are greater than 0{}",
                Hint("leave them out")
            )));
        }
        let mut options = EventSenderOptions { sockets, ..EventSenderOptions::default() };
        options.ticks = first_tick.map_or(Ticks::default(), |next| Ticks::Counted { next, step: tick_step });
        options.events_per_second = rate_of_events(events_per_second)?;
        options.socket.buffer = buffer.map_or(options.socket.buffer, Size::from_bytes);
        options.syncs = SyncOptions { period: time(sync_period)?, source: sync_source };
        options.warm_up = time(warm_up)?;
        let division = EventDivision {
            packet_bytes: mtu.saturating_sub(target.overhead()),
            addressing: Some(Addressing {
                version: version(lb_version)?,
                slot: slot_rule(slot)?,
                port: entropy.0,
            }),
            version: re_version,
        };
        let mut config = EventConfig { division, ..EventConfig::default() };
        config.pacing = Pacing { rate: bits_per_second(rate)?, ..Pacing::default() };
        config.waiting.most = max_events;
        config.waiting.linger = time(linger)?;
        options.config = config;
        let sender = py.detach(|| Sender::open(&target, options)).map_err(failed)?;
        let open = Here::new("sender", Mutex::new(Some(Arc::new(Threaded::new(sender)?))));
        Ok(Self { open, to: target.to_string() })
    }

    /// Send the bytes of an object as an event, which are not copied; the tick when it is sent.
    #[pyo3(signature = (data, tick = None, data_id = 0))]
    fn send(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole)] tick: Option<u64>,
        #[pyo3(from_py_with = whole)] data_id: u16,
    ) -> PyResult<u64> {
        let event = Event::from(data_id, Arc::new(Sent::of(data)?));
        let held = self.held()?;
        let sender = held.get()?;
        warm(py, sender)?;
        let tick = tick.unwrap_or_else(|| sender.take_ticks(1)[0]);
        let rate = sender.stream().rate();
        let slow = rate > 0 && event.bytes() as f64 * 8.0 / rate as f64 > LONG_SECONDS;
        interruptibly(
            py,
            slow,
            sender,
            |sender| Sending::cancel(&**sender.stream()),
            |sender| sender.send(&event, Some(tick)),
        )?;
        Ok(tick)
    }

    /// Queue an event for the sender's thread, which sets `done` when it is sent or has failed: tick and ticket.
    #[pyo3(signature = (data, tick = None, data_id = 0, done = None))]
    fn queue(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole)] tick: Option<u64>,
        #[pyo3(from_py_with = whole)] data_id: u16,
        done: Option<&Wake>,
    ) -> PyResult<(u64, Ticket)> {
        let event = Event::from(data_id, Arc::new(Sent::of(data)?));
        let held = self.held()?;
        let sender = held.get()?;
        let wake = done.map(|done| done.0.get().cloned()).transpose()?;
        let (tick, ticket) = py.detach(|| sender.queue(event, tick)).map_err(failed)?;
        if let Some(wake) = wake {
            // No failure is known; the ticket shows the result in any case.
            ticket.on_done(move || drop(wake.set()));
        }
        Ok((tick, Ticket::new(ticket)))
    }

    /// Seconds until the first event may go.
    fn warming(&self) -> PyResult<f64> {
        Ok(self.held()?.get()?.warming().as_secs_f64())
    }

    /// Bits per second from now on, 0 for as fast as possible.
    fn set_rate(&self, rate: f64) -> PyResult<()> {
        let rate = bits_per_second(rate)?;
        self.held()?.get()?.stream().set_rate(rate);
        Ok(())
    }

    /// Wait until all queued events are sent; False after the timeout.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let held = self.held()?;
        let sender = held.get()?;
        let step = |wait: Duration| sender.stream().flush(Some(wait)).then_some(());
        Ok(wait::in_slices(py, wait::seconds(timeout)?, step)?.is_some())
    }

    /// Cancel all events that are queued or being sent.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(held) = self.lock()?.clone() {
            let sender = held.get()?;
            py.detach(|| Sending::cancel(&**sender.stream()));
        }
        Ok(())
    }

    /// Whether this is a copy in a forked process, where every call raises RuntimeError.
    #[getter]
    fn forked(&self) -> bool {
        !self.open.is_here()
    }

    /// Send what is queued, then close.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(held) = self.lock()?.take() else { return Ok(()) };
        let sender = held.get()?;
        let step = |wait: Duration| sender.stream().flush(Some(wait)).then_some(());
        if let Err(interrupted) = wait::in_slices(py, None, step) {
            Sending::cancel(&**sender.stream());
            return Err(interrupted);
        }
        Ok(())
    }

    /// Counters so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let held = self.held()?;
        let sender = held.get()?;
        let (stats, syncs) = py.detach(|| (sender.stream().stats(), sender.syncs().unwrap_or_default()));
        let all = PyDict::new(py);
        all.set_item("events", stats.objects)?;
        all.set_item("packets", stats.packets)?;
        all.set_item("payload_bytes", stats.payload_bytes)?;
        all.set_item("wire_bytes", stats.wire_bytes)?;
        all.set_item("cancelled", stats.cancelled)?;
        all.set_item("failed", stats.failed)?;
        all.set_item("refused", stats.refused)?;
        all.set_item("unreachable", stats.unreachable)?;
        all.set_item("slipped_seconds", stats.slipped_seconds)?;
        all.set_item("cpu_seconds", stats.cpu_seconds)?;
        all.set_item("waiting", stats.waiting)?;
        all.set_item("syncs", syncs.sent)?;
        all.set_item("syncs_failed", syncs.failed + syncs.unreachable)?;
        Ok(all)
    }
}

/// Sends that may take longer than this can be interrupted.
const LONG_SECONDS: f64 = 0.1;

impl EventSender {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Arc<Threaded<Sender>>>>> {
        Ok(lock(self.open.get()?))
    }

    fn held(&self) -> PyResult<Arc<Threaded<Sender>>> {
        self.lock()?.clone().ok_or_else(|| failed(SendError::Closed))
    }
}

/// Wait until the balancer knows of the ticks; Ctrl-C ends it.
fn warm(py: Python<'_>, sender: &Sender) -> PyResult<()> {
    let left = sender.warming();
    if left.is_zero() {
        return Ok(());
    }
    let step = |wait: Duration| {
        std::thread::sleep(wait);
        None::<()>
    };
    wait::in_slices(py, Some(left), step).map(drop)
}

/// A balancer's URI, or a receiver's address.
fn target(to: &str, ipv6: bool) -> PyResult<Target> {
    let read = match BalancerUri::is_meant(to) || to.contains('@') {
        true => Target::read(to, ipv6),
        false => Target::direct(any_endpoint("udp", to)?),
    };
    read.map_err(|error| wrong(&error))
}

fn wrong(error: &dyn std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn time(seconds: f64) -> PyResult<Duration> {
    Ok(wait::duration(Some(seconds))?.unwrap_or(Duration::MAX))
}

fn rate_of_events(given: Option<f64>) -> PyResult<Option<f64>> {
    match given {
        Some(rate) if !(rate > 0.0 && rate < 1e12) => Err(PyValueError::new_err(format!(
            "events_per_second is {rate}{}",
            Hint("a number greater than 0, or None for as fast as the rate allows")
        ))),
        given => Ok(given),
    }
}

fn version(given: u8) -> PyResult<BalancerVersion> {
    match given {
        2 => Ok(BalancerVersion::V2),
        3 => Ok(BalancerVersion::V3),
        _ => Err(PyValueError::new_err(format!("lb_version is {given}{}", Hint("2 or 3")))),
    }
}

fn slot_rule(given: &str) -> PyResult<SlotRule> {
    match given {
        "tick" => Ok(SlotRule::Tick),
        "spread" => Ok(SlotRule::Spread),
        _ => Err(PyValueError::new_err(format!("slot is {given:?}{}", Hint("'tick' or 'spread'")))),
    }
}

/// A number, "source" or "event".
struct Entropy(PortRule);

impl<'py> FromPyObject<'_, 'py> for Entropy {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<&str>() {
            Ok("source") => Ok(Self(PortRule::Source)),
            Ok("event") => Ok(Self(PortRule::Event)),
            Ok(word) => Err(PyValueError::new_err(format!(
                "entropy is {word:?}{}",
                Hint("'event', 'source' or a number from 0 to 65535")
            ))),
            Err(_) => Ok(Self(PortRule::Fixed(whole(&given)?))),
        }
    }
}
