//! # The module `skyhaul._native`
//!
//! The parts that Python cannot do at network rates: receiving and sending streams, and the memory of heaps. The Python
//! code of the package (`python/skyhaul/`) adds items, arrays and item groups; users import that, never this module.
//!
//! ```text
//!   skyhaul.spead (Python: descriptors, items, NumPy)  ─▶  skyhaul._native (this crate)  ─▶  skyhaul::spead
//! ```
//!
//! Every call that waits, sends or copies lets other Python threads run meanwhile. The only shared state is guarded by
//! the objects themselves, so the module works without the GIL (free-threaded Python).
//!
//! | module | content |
//! |---|---|
//! | `address` | addresses, and names of hosts |
//! | `balancer`, `events` | EJFAT's control plane; workers of a balancer, and the events that they receive |
//! | `buffer` | memory shared with Python, without a copy, and functions compiled for it; the only `unsafe` |
//! | `descriptor` | descriptors and bit-packed values |
//! | `heap`, `receive` | received heaps, and the streams they come from |
//! | `chunk` | heaps placed into arrays, and the chunks that own these |
//! | `place` | rules and compiled functions that place heaps |
//! | `placed` | streams that fill chunks which Python opens |
//! | `config` | settings of receiving streams |
//! | `ending` | streams, which end before the interpreter |
//! | `errors` | exceptions of the package |
//! | `event_sender` | events to a balancer or a receiver |
//! | `send` | heaps to be sent, streams, tickets |
//! | `process` | objects that a forked process cannot use, and what all of a process shares: references that any thread may drop, memory that streams fill, memory for arrays |
//! | `rdma` | regions that peers write and read over UDP, and connections to regions of others |
//! | `own_socket` | datagrams from a socket of the program |
//! | `inproc` | queues of packets inside the process |
//! | `recording` | recordings on disks, chunk by chunk, and their heaps by number |
//! | `samples` | samples of recordings and files, decoded |
//! | `wait` | timeouts, Ctrl-C |
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what Python gives is made anew for each call, and handed over"
)]

mod address;
mod balancer;
mod buffer;
mod chunk;
mod config;
mod descriptor;
mod ending;
mod errors;
mod event_sender;
mod events;
mod frame_sender;
mod heap;
mod inproc;
mod own_socket;
mod place;
mod placed;
mod process;
mod rdma;
mod receive;
mod recording;
mod samples;
mod send;
mod wait;

use pyo3::prelude::*;

/// The Python module.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::balancer::BalancerClient;
    #[pymodule_export]
    use crate::buffer::Bytes;
    #[pymodule_export]
    use crate::buffer::ChunkMemory;
    #[pymodule_export]
    use crate::buffer::RegionMemory;
    #[pymodule_export]
    use crate::chunk::Chunk;
    #[pymodule_export]
    use crate::chunk::ChunkStream;
    #[pymodule_export]
    use crate::config::ReceiveConfig;
    #[pymodule_export]
    use crate::descriptor::{pack_bits, read_descriptor, unpack_bits, write_descriptor};
    #[pymodule_export]
    use crate::errors::{Cancelled, Damaged, Empty, Full, Stopped};
    #[pymodule_export]
    use crate::event_sender::EventSender;
    #[pymodule_export]
    use crate::events::TickBuilder;
    #[pymodule_export]
    use crate::events::{EventPayload, EventStream};
    #[pymodule_export]
    use crate::frame_sender::FrameSender;
    #[pymodule_export]
    use crate::heap::Heap;
    #[pymodule_export]
    use crate::inproc::InprocQueue;
    #[pymodule_export]
    use crate::place::{OpenChunk, PlaceFunction};
    #[pymodule_export]
    use crate::placed::PlacedStream;
    #[pymodule_export]
    use crate::process::Owner;
    #[pymodule_export]
    use crate::rdma::{RdmaClient, RdmaServer, RdmaStop};
    #[pymodule_export]
    use crate::receive::ReceiveStream;
    #[pymodule_export]
    use crate::recording::RecordedHeaps;
    #[pymodule_export]
    use crate::recording::{ChunkReader, Gaps, Recording, list_scans};
    #[pymodule_export]
    use crate::samples::{FrameMaker, Samples, most_array_bytes, scattered_files};
    #[pymodule_export]
    use crate::send::{Batch, SendHeap, SendStream, Settings, Ticket, Wake};

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Streams end before the interpreter does.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let end = wrap_pyfunction!(crate::ending::end_streams, module)?;
        module.py().import("atexit")?.call_method1("register", (end,))?;
        // Computed now, before several threads need it.
        let _ = skyhaul::io::copy::cache_bytes();
        crate::process::watch_forks()?;
        Ok(())
    }
}
