//! Events to a load balancer, or to a receiver directly.
//!
//! ```text
//!   Event ─ tick ─▶ Stream ─▶ sockets ─▶ data address      balancer and reassembly header, or the latter alone
//!                     │ last tick
//!                   Syncs ──────────▶ sync address         once a second: tick, ticks per second
//! ```
//!
//! An [`EventSender`] gives events their ticks, spreads them over several sockets (so several source ports), and reports
//! its ticks to the balancer. Events are sent like all [objects](super::objects): in trains, at an exact rate, without a copy.
//!
//! ```
//! use skyhaul::send::events::{Event, EventSender, EventSenderOptions, Target};
//! let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let to = Target::read(&format!("udp://{}", receiver.local_addr()?), false)?;
//! let sender = EventSender::open(&to, EventSenderOptions::default())?;
//! assert_eq!(sender.send(&Event::from(7, vec![1, 2, 3]), Some(99))?, 23);
//! let mut packet = [0; 100];
//! assert_eq!(receiver.recv(&mut packet)?, 20 + 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: an event has 1 byte to 4 GiB − 1. All sources of a tick must use the same slot rule.

mod event;
mod syncs;

pub use event::{Event, EventConfig, EventDivision, Ticks};
pub use syncs::{SyncCounts, SyncOptions, Syncs, Target, TargetError};

use super::objects::{ObjectOptions, Order, Ticket};
use super::{Outlet, SendError};
use event::unix_micros;
use skyhaul_core::wire::Addressing;
use skyhaul_io::fault::Faults;
use skyhaul_io::lock::lock;
use skyhaul_io::udp::send::SendOptions;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Events that are sent.
pub type EventStream = super::objects::Stream<Event>;

/// How an [`EventSender`] sends.
#[derive(Clone, Debug)]
pub struct EventSenderOptions {
    /// Packets, rate and queue. To a balancer, events get the default [`Addressing`] if none is set; to a receiver none.
    pub config: EventConfig,
    /// The ticks of events without one of their own.
    pub ticks: Ticks,
    /// Sockets, each with a port of its own, which take events in turn.
    pub sockets: usize,
    /// How packets are passed to the kernel.
    pub socket: SendOptions,
    /// Events per second, at equal intervals; `None`: as the rate allows.
    pub events_per_second: Option<f64>,
    /// Messages to the balancer, if the target has an address for them.
    pub syncs: SyncOptions,
    /// Time from the first message to the first event.
    pub warm_up: Duration,
    /// Faults to inject.
    pub faults: Option<Faults>,
}

impl Default for EventSenderOptions {
    fn default() -> Self {
        Self {
            config: EventConfig::default(),
            ticks: Ticks::default(),
            sockets: 1,
            socket: SendOptions::default(),
            events_per_second: None,
            syncs: SyncOptions::default(),
            warm_up: Duration::from_secs(1),
            faults: None,
        }
    }
}

/// Sends events to one target.
#[derive(Debug)]
pub struct EventSender {
    stream: Arc<EventStream>,
    ticks: Mutex<Ticks>,
    /// Events so far, which go to the sockets in turn.
    turn: AtomicU64,
    sockets: u64,
    events_per_second: Option<f64>,
    syncs: Option<Syncs>,
    /// When the first event may go.
    ready: Instant,
}

impl EventSender {
    /// Open the sockets, and begin to tell the balancer.
    ///
    /// # Errors
    /// A socket cannot be opened, or the settings are invalid.
    pub fn open(to: &Target, options: EventSenderOptions) -> Result<Self, SendError> {
        let EventSenderOptions { mut config, ticks, sockets, socket, events_per_second, .. } = options;
        let addressing = &mut config.division.addressing;
        *addressing = to.is_balancer.then(|| addressing.unwrap_or_else(Addressing::default));
        let outlet = Outlet::udp(&to.endpoints(sockets), &socket)?;
        let outlet = if let Some(faults) = &options.faults { outlet.with_faults(faults) } else { outlet };
        let sockets = outlet.substreams() as u64;
        let stream = Arc::new(EventStream::new(outlet, config)?);
        let syncs = to.sync.as_ref().map(|to| Syncs::start(to, &options.syncs, ticks)).transpose()?;
        let wait = if syncs.is_some() { options.warm_up } else { Duration::ZERO };
        let now = Instant::now();
        let ready = now.checked_add(wait).unwrap_or(now);
        let (ticks, turn) = (Mutex::new(ticks), AtomicU64::new(0));
        Ok(Self { stream, ticks, turn, sockets, events_per_second, syncs, ready })
    }

    /// What sends, for progress, cancelling and counts.
    #[must_use]
    pub fn stream(&self) -> &Arc<EventStream> {
        &self.stream
    }

    /// Time until the first event may go: the balancer is to know of the ticks before.
    #[must_use]
    pub fn warming(&self) -> Duration {
        self.ready.saturating_duration_since(Instant::now())
    }

    /// Ticks for so many events.
    #[must_use]
    pub fn take_ticks(&self, events: usize) -> Vec<u64> {
        let now = unix_micros();
        let mut ticks = lock(&self.ticks);
        (0..events).map(|_| ticks.take(now)).collect()
    }

    /// Send an event in this thread, with this tick or the next of the sender's own; the bytes of its packets.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(&self, event: &Event, tick: Option<u64>) -> Result<u64, SendError> {
        let tick = tick.unwrap_or_else(|| self.take_tick());
        self.send_all(&[(event, tick)])
    }

    /// Send events in this thread, each with its tick; the bytes of all packets. If one cannot be sent, none is.
    ///
    /// # Errors
    /// See [`SendError`]; part of the data may have been sent.
    pub fn send_all(&self, events: &[(&Event, u64)]) -> Result<u64, SendError> {
        std::thread::sleep(self.warming());
        let all: Vec<(&Event, ObjectOptions)> = events
            .iter()
            .map(|&(event, tick)| Ok((event, self.options(event, tick)?)))
            .collect::<Result<_, SendError>>()?;
        let sent = self.stream.send_all(&all, Order::Serial)?;
        self.tell(events.iter().map(|(_, tick)| *tick));
        Ok(sent)
    }

    /// Have the stream's own thread send an event, in the order of the calls; its tick.
    ///
    /// # Errors
    /// [`SendError::Full`], with nothing queued; or the event cannot be sent. Then it takes none of the sender's ticks:
    /// sources that count alike would send parts of different events from there on.
    pub fn queue(&self, event: Event, given: Option<u64>) -> Result<(u64, Ticket), SendError> {
        std::thread::sleep(self.warming());
        let now = unix_micros();
        let mut ticks = lock(&self.ticks);
        let tick = given.unwrap_or_else(|| ticks.peek(now));
        let options = self.options(&event, tick)?;
        let ticket = self.stream.queue(vec![(Arc::new(event), options)], Order::Serial)?;
        if given.is_none() {
            ticks.take(now);
        }
        drop(ticks);
        self.tell(std::iter::once(tick));
        Ok((tick, ticket))
    }

    /// Messages to the balancer so far.
    #[must_use]
    pub fn syncs(&self) -> Option<SyncCounts> {
        self.syncs.as_ref().map(Syncs::counts)
    }

    fn take_tick(&self) -> u64 {
        lock(&self.ticks).take(unix_micros())
    }

    fn options(&self, event: &Event, tick: u64) -> Result<ObjectOptions, SendError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let rate = match self.events_per_second {
            None => None,
            Some(rate) => {
                let bits = event.wire_bytes(self.stream.config().division)? as f64 * 8.0;
                let limit = self.stream.rate();
                let own = (bits * rate).max(1.0) as u64;
                Some(if limit == 0 { own } else { own.min(limit) })
            }
        };
        Ok(ObjectOptions { counter: Some(tick), substream: (turn % self.sockets) as usize, rate })
    }

    fn tell(&self, ticks: impl Iterator<Item = u64>) {
        if let (Some(syncs), Some(last)) = (&self.syncs, ticks.last()) {
            syncs.at(last);
        }
    }
}

#[cfg(test)]
mod tests;
