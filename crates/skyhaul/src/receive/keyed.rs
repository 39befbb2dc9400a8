//! Objects with keys (heaps, events) from any number of readers: one table for many sources.
//!
//! ```text
//!   UDP, TCP, bytes,   ┌ reader thread ┐ trains, pieces   ┌ stream ───────────────────────────┐        ┌ you ┐
//!   captures, queues ─▶│ one each      │ ────────────────▶│ live objects by key, each in its  │ ─ring─▶│ get │
//!                      └───────────────┘ one copy         │ own memory, or in a chunk         │        └─────┘
//!                                                         └───────────────────────────────────┘
//! ```
//!
//! | file | content |
//! |---|---|
//! | `config`, `stats` | limits; counters, and heaps that are missing entirely |
//! | `stream` | the user's side: make, add readers, get, stop; a reader as a consumer of packets |
//! | `sink` | a reader as an engine sees it |
//! | `input`, `tcp` | what a reader with a thread of its own reads: trains, memory, recordings; TCP |
//! | `placing`, `log` | heaps that a program in the kernel places, and what its log says of them |
//! | `train` | from a train to the table, and from the table to the ring |
//! | `table` | heaps under construction, ends and senders, under the stream's lock |
//! | `run` | payloads of consecutive packets |
//! | `store` | the memory they are copied to, finished objects |
//! | `ring` | finished objects for the user |
//! | `state` | what readers share, and what each has for itself: locks, clock, timeouts |
//!
//! The way of a packet, step by step: `docs/internals/spead-receive.md`. Ends, limits and counters:
//! [`spead::receive`](crate::spead::receive).

mod config;
mod input;
mod kernel;
mod log;
mod placing;
mod ring;
mod run;
mod sink;
mod state;
mod stats;
mod store;
mod stream;
mod table;
mod tcp;
mod train;

pub use config::{Full, KeyedBy, StopRule, StreamConfig, TcpReaderOptions};
pub use ring::GetError;
pub use stats::{Missing, ReaderStats, Stats, StreamCounts, StreamEnd};
pub use store::Object;
pub use stream::ObjectStream;

pub(crate) use placing::{CopiedOut, HeapPlacing, PlacedAt, PlacingPlan, SenderClaim};
pub(crate) use ring::Ring;
pub(crate) use sink::{PollTrains, TrainSink};
pub(crate) use state::StreamState;
pub(crate) use store::{Opening, Run, Sender, SharedQueue, Store, lock};
pub(crate) use stream::{Readers, StreamReader, reader_methods};
