//! An event to send, its tick, and the configuration of its packets.

use crate::send::objects::{Chunks, Object, ObjectConfig, Payload, Waiting};
use crate::send::{Outlet, Pacing, SendError};
use skyhaul_core::hint::Hint;
use skyhaul_core::packetize::{Divided, Part};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::{Addressing, EventError, EventPackets, EventShape};
use skyhaul_io::udp::send::TRAIN_BYTES;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    pub(super) fn wire_bytes(&self, division: EventDivision) -> Result<u64, SendError> {
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
pub(super) fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since).0
}

/// Microseconds since 1970.
pub(super) fn unix_micros() -> u64 {
    unix_nanos() / 1000
}
