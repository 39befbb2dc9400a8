//! SPEAD streams: heaps in from many readers, heaps out to many destinations.
//!
//! ```text
//!   sending                                                                receiving
//!   Heap ─▶ packets ─▶ trains ─▶ UDP, TCP, bytes, InprocQueue ─▶ readers ─▶ heaps by counter ─▶ get()
//!   items where they lie         (one Outlet to a stream)        (any number)  into their own memory
//! ```
//!
//! The wire format is [`skyhaul_core::wire::spead`]; here are the threads, the waiting and the limits around it.
//! [`recorded`] reads the items of recorded heaps, from anywhere in a recording. [`inproc`](crate::inproc) joins a sender and a receiver of one process.

pub mod receive;
pub mod recorded;
pub mod send;
