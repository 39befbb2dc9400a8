//! Sending heaps: their bytes go out from where they lie, in trains, at an exact rate.
//!
//! ```text
//!   Heap            items: heads are written into a small buffer,
//!   Heap    ─▶ Run ─▶ batch ─ due? ─▶ Outlet: UDP (trains across heaps), TCP, in-process queue, bytes
//!   Heap      serial, or round robin         payload is gathered in place
//! ```
//!
//! A [`Stream`] has one [`Outlet`], one rate and one order, and any number of destinations (*substreams*).
//! [`Stream::send`] works in the caller's thread; [`Stream::queue`] hands heaps to a thread of the stream and gives a
//! [`Ticket`]. Whatever waits (for its time, for room in a queue or connection) ends at once on
//! [`cancel`](Stream::cancel).
//!
//! ```
//! use skyhaul::spead::send::{Heap, HeapOptions, Outlet, SendConfig, Stream};
//! use skyhaul::wire::spead::Flavour;
//! use std::sync::{Arc, Mutex};
//! let bytes = Arc::new(Mutex::new(Vec::new()));
//! let stream = Stream::new(Outlet::Bytes(bytes.clone()), SendConfig::default())?;
//! let mut heap = Heap::new(Flavour::new(48).expect("a flavour"));
//! heap.add_immediate(0x1000, 42)?;
//! heap.add_item(0x1001, b"samples".as_slice())?;
//! assert_eq!(stream.send(&heap, &HeapOptions::default())?, 8 + 6 * 8 + 7);
//! assert_eq!(bytes.lock().unwrap().len(), 63);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a heap's items must keep their lengths while it is sent (their content may change between two sends). An
//! error of a socket ends the heaps that were in the same system calls.

mod batch;
mod burst;
mod config;
mod heap;
mod part;
mod queue;
mod run;
mod shared;
mod source;
mod stream;

pub use crate::send::{Deliver, Outlet, SendError, SendStats};
pub use batch::Batch;
pub use config::{HeapOptions, Order, PacketSize, SendConfig};
pub use heap::{Heap, HeapError, Payload};
pub use queue::Ticket;
pub use skyhaul_core::wire::spead::packets::Split;
pub use stream::Stream;

#[cfg(test)]
mod tests;
