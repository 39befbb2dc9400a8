//! Objects as packets: heaps and events go out from where their bytes lie, in trains, at an exact rate.
//!
//! ```text
//!   Object          heads are written into a small buffer,
//!   Object  ─▶ Run ─▶ batch ─ due? ─▶ Outlet: UDP (trains across objects), TCP, in-process queue, bytes
//!   Object    serial, or round robin         payload is gathered in place
//! ```
//!
//! A [`Stream`] has one [`Outlet`](super::Outlet), one rate and one order, and any number of destinations (*substreams*).
//! [`Stream::send`] works in the caller's thread; [`Stream::queue`] hands objects to a thread of the stream and gives a
//! [`Ticket`]. Whatever waits (for its time, for room in a queue or connection) ends immediately on
//! [`cancel`](Stream::cancel). A type becomes sendable by implementing [`Object`]: the compiler makes a sender for each type.
//!
//! Limits: an object's bytes must keep their lengths while it is sent (their content may change between two sends). An
//! error of a socket ends the objects that were in the same system calls.

mod burst;
mod object;
mod queue;
mod run;
mod stream;

pub use burst::Batch;
pub use object::{Chunks, Payload};
pub use object::{Division, Object, ObjectConfig, Waiting};
pub use object::{ObjectOptions, Order};
pub use queue::Ticket;
pub use stream::Stream;
