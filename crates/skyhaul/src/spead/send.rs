//! Sending heaps: their bytes go out from where they lie, in trains, at an exact rate.
//!
//! ```text
//!   items ─▶ Heap ─┐
//!   items ─▶ Heap ─┼▶ Stream ─▶ Outlet: UDP (trains across heaps), TCP, in-process queue, bytes
//!   items ─▶ Heap ─┘  serial, or round robin
//! ```
//!
//! A [`Stream`] is that of all [objects](crate::send::objects): one [`Outlet`], one rate and one order, and any number of
//! destinations (*substreams*).
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

mod config;
mod heap;

pub use crate::send::objects::{ObjectOptions as HeapOptions, Order, Payload, Ticket};
pub use crate::send::{Deliver, Outlet, SendError, SendStats};
pub use config::SendConfig;
pub use config::{Division, PacketSize};
pub use heap::{Heap, HeapError};
pub use skyhaul_core::wire::spead::packets::Split;

/// Sends heaps.
pub type Stream = crate::send::objects::Stream<Heap>;
/// Heaps that are sent again and again: divided into packets once.
pub type Batch = crate::send::objects::Batch<Heap>;

#[cfg(test)]
mod tests;
