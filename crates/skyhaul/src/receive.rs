//! Receiving: packets of any number of senders into blocks of a fixed pool.
//!
//! ```text
//!   Source ─ train ─▶ Engine ─▶ Stream (one per sender)
//!                       │         ├ learning: holds the first packets until the format is clear
//!                       │         ├ running:  Layout ▶ Assembly ▶ non-temporal copy into the slot
//!                       │         └ rejected: unknown format; counted
//!                       ├──▶ Mirror   runs of frames, as they arrive, to other hosts
//!                       └──▶ Sink     finished parts of a stream, in stream order
//! ```
//!
//! One engine per receiving thread; senders stay with their socket, so engines share only the pool.

mod admission;
mod engine;
mod engine_reader;
mod filter;
mod info;
mod joining;
pub mod keyed;
mod newcomers;
pub(crate) mod objects;
mod placing;
pub(crate) mod reader;
mod receiver;
mod sets;
mod sinks;
mod strangers;
mod stream;
mod tables;
mod tcp;
#[cfg(test)]
mod tests;
mod times;
mod watch;

pub use engine::{Engine, EngineOptions};
pub use filter::{Allow, NoOrigin, Origin};
pub use filter::{DataTime, Gate};
pub use info::Watched;
pub use info::{StreamInfo, StreamPart, StreamReport};
pub(crate) use times::moved;

pub use info::{Others, Tally};
pub use objects::{Loaded, ObjectCounts, ObjectLoad, ObjectOptions, ObjectSink, Received, Storable};
pub use receiver::ReceiverOptions;
pub use receiver::{LoadOfReceiver, Receiver, Running};
pub use sinks::{Collected, Collector};

/// Consumer of finished parts. Called on the receiving thread: must not block.
pub trait Sink: Send {
    /// A stream's format is known; its parts follow.
    fn stream_began(&mut self, stream: &std::sync::Arc<StreamInfo>);
    /// Nothing more will be added to this part of `stream`.
    fn part(&mut self, stream: &std::sync::Arc<StreamInfo>, part: StreamPart);
    /// `stream` has ended: it was replaced by another sender.
    fn stream_ended(&mut self, _: &std::sync::Arc<StreamInfo>) {}
    /// The program did not run for this long.
    fn paused(&mut self, _: std::time::Duration) {}
    /// Something an operator should know of a stream. Returns whether it keeps the event: else the receiver does.
    fn event(&mut self, _: &crate::recording::Event) -> bool {
        false
    }
    /// The receiver has stopped; no more calls follow.
    fn finished(&mut self) {}
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn stream_began(&mut self, stream: &std::sync::Arc<StreamInfo>) {
        (**self).stream_began(stream);
    }
    fn part(&mut self, stream: &std::sync::Arc<StreamInfo>, part: StreamPart) {
        (**self).part(stream, part);
    }
    fn stream_ended(&mut self, stream: &std::sync::Arc<StreamInfo>) {
        (**self).stream_ended(stream);
    }
    fn paused(&mut self, time: std::time::Duration) {
        (**self).paused(time);
    }
    fn event(&mut self, event: &crate::recording::Event) -> bool {
        (**self).event(event)
    }
    fn finished(&mut self) {
        (**self).finished();
    }
}

/// A sink that discards everything and returns blocks immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn stream_began(&mut self, _: &std::sync::Arc<StreamInfo>) {}
    fn part(&mut self, _: &std::sync::Arc<StreamInfo>, _: StreamPart) {}
}
