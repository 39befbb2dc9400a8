//! A link that several senders share, and what the control law makes of it.
//!
//! ```text
//!   sender 0 ─┐   marks among the packets       ┌─▶ socket buffer ─▶ receiver 0 ─┐
//!   sender 1 ─┼─▶ queue (finite) ─▶ capacity(t) ┼─▶ socket buffer ─▶ receiver 1 ─┤ stalls, limited speed
//!   load    ──┘                    delay, loss  └─▶ nobody                       │
//!      ▲───────────────────────── reports, some of them lost ◀───────────────────┘
//! ```
//!
//! Time goes in steps; in one step all packets of one sender are one segment, so that a minute of eight senders at
//! 100 Gb/s is played in a moment. What the queue has no room for is taken from all in proportion to what they brought.
//!
//! Limits: packets of one size for a sender; nothing overtakes.

mod motion;

use skyhaul_core::control::ControlConfig;
use skyhaul_core::placement::Nanos;

/// One step of time.
pub const STEP: Nanos = Nanos(250_000);
/// One row of the timeline.
pub const ROW: Nanos = Nanos(50_000_000);

/// Traffic that obeys nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bits per second while it is on.
    pub rate: f64,
    /// From when.
    pub from: Nanos,
    /// On for so long, then off for so long; 0: always on.
    pub period: Nanos,
}

/// A controlled sender and its receiver.
#[derive(Clone, Debug)]
pub struct Peer {
    /// When it begins.
    pub from: Nanos,
    /// When it ends.
    pub until: Nanos,
    /// Bytes of a packet.
    pub packet: u64,
    /// Bytes of the receiver's socket buffer.
    pub buffer: u64,
    /// Bits per second the receiver can take out of it.
    pub speed: f64,
    /// Bits per second the sender's program has at most.
    pub supply: f64,
    /// Time from the link to the receiver, and the same back to the sender.
    pub delay: Nanos,
    /// Its law.
    pub control: ControlConfig,
}

/// A shared link, from now on.
#[derive(Clone, Debug)]
pub struct Link {
    /// Replays it.
    pub seed: u64,
    /// Bits per second, from these times on; the first is at 0.
    pub capacity: Vec<(Nanos, f64)>,
    /// The queue, as the time the first capacity takes to empty it.
    pub queue: Nanos,
    /// Part of the packets that are lost for no reason, from a time on, to a time.
    pub loss: (f64, Nanos, Nanos),
    /// Part of the reports that are lost.
    pub deaf: f64,
    /// No report arrives between these times.
    pub silent: (Nanos, Nanos),
    /// Receivers do not run for this long, about so often.
    pub stall: (Nanos, Nanos),
    /// Other traffic.
    pub load: Option<Load>,
    /// Who shares it.
    pub peers: Vec<Peer>,
    /// Until when.
    pub end: Nanos,
}

/// What one sender had done at a moment. Counts are since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct At {
    /// The rate the law gives.
    pub rate: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Falls for loss, for a queue, for a receiver.
    pub falls: [u64; 3],
}

/// A moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// When.
    pub time: Nanos,
    /// Bits per second of the link that other traffic leaves.
    pub room: f64,
    /// Milliseconds of queue.
    pub queue: f64,
    /// Each sender.
    pub peers: Vec<At>,
}

impl Link {
    fn capacity_at(&self, now: Nanos) -> f64 {
        self.capacity.iter().rev().find(|(from, _)| *from <= now).map_or(0.0, |(_, bits)| *bits)
    }

    fn load_at(&self, now: Nanos) -> f64 {
        let Some(load) = self.load.filter(|load| load.from <= now) else { return 0.0 };
        let on = load.period.0 == 0 || (now.since(load.from).0 / load.period.0).is_multiple_of(2);
        if on { load.rate } else { 0.0 }
    }

    fn queue_bytes(&self) -> u64 {
        let first = self.capacity.first().map_or(0.0, |(_, bits)| *bits);
        let largest = self.peers.iter().map(|peer| peer.packet).max().unwrap_or(1500);
        // The smallest there is: some packets of each port.
        ((first * self.queue.0 as f64 / 8e9) as u64).max(8 * largest * self.peers.len() as u64)
    }

    fn loss_at(&self, now: Nanos) -> f64 {
        let (part, from, until) = self.loss;
        if (from..until).contains(&now) { part } else { 0.0 }
    }
}
