//! Settings of a stream of events.

use crate::send::objects::{ObjectConfig, Waiting};
use crate::send::{Outlet, Pacing, SendError};
use skyhaul_core::wire::{Addressing, EventPackets, EventShape};
use skyhaul_io::udp::send::TRAIN_BYTES;
use std::time::Duration;

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
        let wrong = |text: &str| Err(SendError::Config(text.to_owned()));
        let EventDivision { packet_bytes, addressing, version } = self.division;
        // An event of one byte shows whether any can be sent.
        let shape = EventShape { event_bytes: 1, packet_bytes, addressing, version, ..EventShape::default() };
        EventPackets::new(&shape).map_err(|error| SendError::Config(error.to_string()))?;
        if outlet.substreams() == 0 {
            return wrong("no destination; hint: give at least one");
        }
        if matches!(outlet, Outlet::Tcp(_)) {
            return wrong("events go over UDP; hint: use a udp:// address");
        }
        if outlet.is_udp() && packet_bytes > TRAIN_BYTES {
            return Err(SendError::Config(format!(
                "packets of {packet_bytes} bytes are too large for UDP; hint: use at most {TRAIN_BYTES}, or an MTU of 9000"
            )));
        }
        self.pacing.check(outlet)
    }
}
