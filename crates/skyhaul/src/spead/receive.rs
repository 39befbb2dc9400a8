//! Receiving SPEAD: heaps out of any number of readers.
//!
//! ```text
//!   UDP, TCP, bytes,   ┌ reader thread ┐ trains, pieces   ┌ Stream ──────────────────────────┐        ┌ you ┐
//!   captures, queues ─▶│ one each      │ ────────────────▶│ heaps by counter, each in memory │ ─ring─▶│ get │
//!                      └───────────────┘ one copy         │ of its own; ends by rule or time │        └─────┘
//!                                                         └──────────────────────────────────┘
//! ```
//!
//! ```
//! use skyhaul::spead::inproc::InprocQueue;
//! use skyhaul::spead::receive::{GetError, Stream, StreamConfig};
//! use std::time::Duration;
//! // Heap 7 of flavour SPEAD-64-48: one packet, four bytes.
//! let mut packet = b"\x53\x04\x02\x06\0\0\0\x04".to_vec();
//! for (id, value) in [(1u64, 7u64), (2, 4), (3, 0), (4, 4)] {
//!     packet.extend((1 << 63 | id << 48 | value).to_be_bytes());
//! }
//! packet.extend(b"data");
//!
//! let stream = Stream::new(&StreamConfig::default());
//! let queue = InprocQueue::default();
//! stream.add_inproc(queue.clone())?;
//! queue.push(&packet, Duration::ZERO)?;
//! queue.close();
//! let heap = stream.get(Some(Duration::from_secs(5)))?;
//! assert_eq!((heap.counter, heap.payload()), (7, &b"data"[..]));
//! assert_eq!(stream.get(None).unwrap_err(), GetError::Stopped);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What ends
//!
//! A *heap* ends when it is complete, when so many began after it as the window holds, when its time is over, or with its
//! stream. A *stream* ends by a stop item, when all readers have come to their end, when nothing came for the idle
//! timeout, at its deadline, at a limit, or by [`Stream::stop`]. So neither a lost packet nor a lost stop item makes
//! anybody wait for ever; garbage ends nothing. Nothing is lost without being counted: see [`Stats`].
//!
//! # Limits
//!
//! Memory: that of the heaps ([`StreamConfig::memory`]), some hundred bytes for each entry of ring and window, and what
//! `remember` and `senders` say. A heap that claims more than [`KeyedConfig::largest`] is refused before it gets any.
//! The clock is looked at every 16 trains; a timeout may come 20 ms late. The time is kept by the readers: a stream
//! without one is looked after by [`Stream::get`].

pub mod chunk;
mod config;
mod core;
mod goal;
mod heap;
mod held;
mod inlet;
mod own;
mod pieces;
mod reader;
mod recorded;
mod ring;
mod rows;
mod stats;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod train;

pub use config::{Full, KeyedBy, StopRule, StreamConfig, TcpReaderOptions};
pub use heap::Heap;
pub use ring::GetError;
pub use rows::Missing;
pub use skyhaul_core::assembly::{Cause, KeyedConfig};
pub use skyhaul_io::memory::heap::{HeapBytes, HeapMemory};
pub use stats::{Counts, Ended, ReaderStats, Stats};
pub use stream::Stream;
