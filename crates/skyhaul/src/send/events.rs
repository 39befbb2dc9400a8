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

mod syncs;

pub use syncs::{SyncCounts, SyncOptions, Syncs, Target, TargetError};

use super::objects::{Chunks, Object, ObjectConfig, ObjectOptions, Order, Payload, Ticket, Waiting};
use super::{Outlet, Pacing, SendError};
use skyhaul_core::hint::Hint;
use skyhaul_core::packetize::{Divided, Part};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::{Addressing, EventError, EventPackets, EventShape};
use skyhaul_io::fault::Faults;
use skyhaul_io::lock::lock;
use skyhaul_io::udp::send::{SendOptions, TRAIN_BYTES};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Events that are sent.
pub type EventStream = super::objects::Stream<Event>;

/// An event of one source. Its tick is given when it is sent.
#[derive(Clone, Debug)]
pub struct Event {
    data_id: u16,
    chunks: Chunks,
}

impl Event {
    /// An event without bytes yet, of the source `data_id`.
    #[must_use]
    pub fn new(data_id: u16) -> Self {
        Self { data_id, chunks: Chunks::default() }
    }

    /// The event of these bytes.
    #[must_use]
    pub fn from(data_id: u16, payload: impl Into<Payload>) -> Self {
        let mut event = Self::new(data_id);
        event.push(payload.into());
        event
    }

    /// An event whose `bytes` verify themselves: the pattern of `tick`, with which it is to be sent (see
    /// [`skyhaul_core::pattern`]).
    #[must_use]
    pub fn pattern(data_id: u16, tick: u64, bytes: u64) -> Self {
        let mut event = Self::new(data_id);
        event.chunks.push_pattern(tick, 0..bytes);
        event
    }

    /// Add bytes.
    pub fn push(&mut self, payload: Payload) {
        self.chunks.push(payload);
    }

    /// Its source.
    #[must_use]
    pub fn data_id(&self) -> u16 {
        self.data_id
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    fn shape(&self, division: EventDivision, tick: u64) -> EventShape {
        let EventDivision { packet_bytes, addressing, version } = division;
        let (data_id, event_bytes) = (self.data_id, self.chunks.bytes());
        EventShape { tick, data_id, event_bytes, packet_bytes, addressing, version }
    }

    /// Bytes of its packets.
    fn wire_bytes(&self, division: EventDivision) -> Result<u64, SendError> {
        Ok(self.plan(division, 0)?.bytes_on_wire())
    }
}

impl Object for Event {
    type Config = EventConfig;
    type Plan = EventPackets;

    fn check(&self, division: EventDivision) -> Result<(), SendError> {
        self.plan(division, 0).map(|_| ())
    }

    #[inline]
    fn plan(&self, division: EventDivision, number: u64) -> Result<EventPackets, SendError> {
        Ok(EventPackets::new(&self.shape(division, number))?)
    }

    #[inline]
    fn with_number(plan: &EventPackets, number: u64) -> EventPackets {
        plan.with_tick(number)
    }

    #[inline]
    fn count(plan: &EventPackets) -> u64 {
        plan.count()
    }

    #[inline]
    fn bytes_of(plan: &EventPackets, n: u64) -> u64 {
        plan.bytes_of(n)
    }

    #[inline]
    fn head_bytes_max(plan: &EventPackets) -> usize {
        plan.head_bytes_max()
    }

    #[inline]
    fn packet(&self, plan: &EventPackets, n: u64, head: &mut [u8]) -> Part {
        plan.packet(n, head)
    }

    #[inline]
    fn chunks(&self) -> &Chunks {
        &self.chunks
    }
}

impl From<EventError> for SendError {
    fn from(error: EventError) -> Self {
        SendError::Packets(error.to_string())
    }
}

/// How events are divided into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDivision {
    /// Maximum bytes of a packet (datagram payload): the MTU less 28 with IPv4, less 48 with IPv6.
    pub packet_bytes: usize,
    /// The balancer's header; `None` to send to a receiver directly.
    pub addressing: Option<Addressing>,
    /// Version in the reassembly header.
    pub version: u8,
}

impl Default for EventDivision {
    /// For an MTU of 1500 with IPv4, to a receiver.
    fn default() -> Self {
        Self { packet_bytes: 1472, addressing: None, version: EventShape::default().version }
    }
}

/// How a stream sends events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventConfig {
    /// How events are divided into packets.
    pub division: EventDivision,
    /// The rate.
    pub pacing: Pacing,
    /// The queue of the stream's own thread.
    pub waiting: Waiting,
}

impl Default for EventConfig {
    fn default() -> Self {
        let waiting = Waiting { most: 64, linger: Duration::from_secs(10), cpu: None };
        Self { division: EventDivision::default(), pacing: Pacing::default(), waiting }
    }
}

impl ObjectConfig for EventConfig {
    type Division = EventDivision;

    fn division(&self) -> EventDivision {
        self.division
    }

    fn pacing(&self) -> Pacing {
        self.pacing
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }

    fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        let wrong = |text: &str, hint: &str| Err(SendError::Config(format!("{text}{}", Hint(hint))));
        let EventDivision { packet_bytes, addressing, version } = self.division;
        // An event of one byte shows whether any can be sent.
        let shape = EventShape { event_bytes: 1, packet_bytes, addressing, version, ..EventShape::default() };
        EventPackets::new(&shape).map_err(|error| SendError::Config(error.to_string()))?;
        if outlet.substreams() == 0 {
            return wrong("no destination", "give at least one");
        }
        if matches!(outlet, Outlet::Tcp(_)) {
            return wrong("events go over UDP", "use a udp:// address");
        }
        if outlet.is_udp() && packet_bytes > TRAIN_BYTES {
            return Err(SendError::Config(format!(
                "packets of {packet_bytes} bytes are too large for UDP{}",
                Hint(format_args!("use at most {TRAIN_BYTES}, or an MTU of 9000"))
            )));
        }
        self.pacing.check(outlet)
    }
}

/// Gives events their ticks, which always ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// The next one, and the step to the one after it.
    Counted {
        /// The next tick.
        next: u64,
        /// From one to the next.
        step: u64,
    },
    /// The clock's.
    Clock {
        /// The least tick that may follow.
        least: u64,
    },
}

impl Default for Ticks {
    fn default() -> Self {
        Ticks::Clock { least: 0 }
    }
}

impl Ticks {
    /// Ticks per second of the clock.
    pub const CLOCK_RATE: u32 = 1_000_000;

    /// The next tick, at `now` in microseconds since 1970. Two events of one microsecond get ticks in a row.
    pub fn take(&mut self, now: u64) -> u64 {
        match self {
            Ticks::Counted { next, step } => std::mem::replace(next, next.wrapping_add(*step)),
            Ticks::Clock { least } => {
                let tick = now.max(*least);
                *least = tick.saturating_add(1);
                tick
            }
        }
    }

    /// The next tick, which is not taken.
    #[must_use]
    pub fn peek(&self, now: u64) -> u64 {
        let mut copy = *self;
        copy.take(now)
    }
}

/// Nanoseconds since 1970.
fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since).0
}

/// Microseconds since 1970.
fn unix_micros() -> u64 {
    unix_nanos() / 1000
}

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
