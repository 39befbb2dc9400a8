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
//! | `stream`, `readers` | the user's side: make, add readers, get, stop |
//! | `state`, `hand_over` | what readers share: locks, clock, ring |
//! | `fed`, `own` | a reader, with its own thread or fed by a receiver; its private state |
//! | `train`, `tcp`, `connections`, `input`, `recorded` | packets of trains, of TCP connections, of memory, of recordings, before the table |
//! | `table`, `run`, `lock` | live objects under the stream's lock; limits, ends, senders |
//! | `store`, `object` | memory of payloads, and delivery of finished objects |
//! | `rows` | objects that are missing entirely |
//! | `ring`, `stats`, `config` | the queue to the user; counters; limits |
//!
//! Ends, limits and counters are described in [`spead::receive`](crate::spead::receive).

mod config;
mod connections;
mod fed;
mod hand_over;
mod input;
mod lock;
mod object;
mod own;
mod readers;
mod recorded;
mod ring;
mod rows;
mod run;
mod state;
mod stats;
mod store;
mod stream;
mod table;
mod tcp;
mod train;

pub use config::{Full, KeyedBy, StopRule, StreamConfig, TcpReaderOptions};
pub use object::Object;
pub use ring::GetError;
pub use rows::Missing;
pub use stats::{Counts, Ended, ReaderStats, Stats};
pub use stream::ObjectStream;

pub(crate) use fed::{Fed, FedReader};
pub(crate) use own::lock;
pub(crate) use readers::{Readers, reader_methods};
pub(crate) use ring::Ring;
pub(crate) use run::Sender;
pub(crate) use state::StreamState;
pub(crate) use store::{Finished, Opening, Store};
