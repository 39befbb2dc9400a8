//! Receiving SPEAD: heaps from any number of readers.
//!
//! ```text
//!   UDP, TCP, bytes,   ┌ reader thread ┐ trains, pieces   ┌ Stream ──────────────────────────┐        ┌ you ┐
//!   captures, queues ─▶│ one each      │ ────────────────▶│ heaps by counter, each in memory │ ─ring─▶│ get │
//!                      └───────────────┘ one copy         │ of its own; ends by rule or time │        └─────┘
//!                                                         └──────────────────────────────────┘
//! ```
//!
//! ```
//! use skyhaul::inproc::InprocQueue;
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
//! assert_eq!((heap.number, heap.payload()), (7, &b"data"[..]));
//! assert_eq!(stream.get(None).unwrap_err(), GetError::Stopped);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ends
//!
//! A *heap* ends when it is complete, when as many began after it as the window holds, at its timeout, or with its stream.
//! A *stream* ends with a stop item, when all readers have ended, when nothing arrived for the idle timeout, at its
//! deadline, at a limit, or by [`Stream::stop`]. So neither a lost packet nor a lost stop item makes a caller wait for
//! ever, and invalid packets end nothing. All losses are counted: see [`Stats`].
//!
//! # Limits
//!
//! Memory: that of the heaps ([`StreamConfig::memory`]), some hundred bytes for each entry of ring and window, and what
//! `remember` and `senders` allow. A heap that states more than [`KeyedConfig::largest`] is rejected before it gets any.
//! The clock is read every 16 trains; a timeout may be 20 ms late. Readers handle timeouts; for a stream without one,
//! [`Stream::get`] does.

pub mod chunk;
mod heap;
pub mod placed;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::receive::keyed::{
    Counts, Ended, Full, GetError, KeyedBy, Missing, ReaderStats, Stats, StopRule, StreamConfig,
    TcpReaderOptions,
};
pub use heap::Heap;
pub use skyhaul_core::assembly::{Cause, KeyedConfig};
pub use skyhaul_io::memory::heap::{HeapBytes, HeapMemory};

use crate::receive::keyed::ObjectStream;
use skyhaul_core::wire::spead::SpeadWire;

/// Heaps from any number of readers. Clones are handles of one stream; when the last is dropped, the stream stops.
pub type Stream = ObjectStream<SpeadWire>;
