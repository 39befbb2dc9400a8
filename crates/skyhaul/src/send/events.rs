//! Events to a load balancer, or to a receiver directly.
//!
//! ```text
//!   Event ─ tick ─▶ Stream ─▶ sockets ─▶ data address      balancer and reassembly header, or the latter alone
//!                     │ last tick
//!                   Syncs ──────────▶ sync address         once a second: tick, ticks per second
//! ```
//!
//! An [`EventSender`] gives events their ticks, spreads them over several sockets (so several source ports), and tells the
//! balancer where its ticks are. Sending itself is that of all [objects](super::objects): trains, an exact rate, nothing
//! copied.
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
mod sender;
mod syncs;

pub use event::Event;
pub use event::Ticks;
pub use event::{EventConfig, EventDivision};
pub use sender::{EventSender, EventSenderOptions};
pub use syncs::{SyncCounts, SyncOptions, Syncs};
pub use syncs::{Target, TargetError};

/// Events that are sent.
pub type EventStream = super::objects::Stream<Event>;

#[cfg(test)]
mod tests;
