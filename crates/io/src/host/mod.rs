//! What this host is and does: its interfaces, counters, CPU time, and what a thread may ask of it.
//!
//! | module | answers |
//! |---|---|
//! | [`interface`] | which interface has an address, what passed through it |
//! | [`counters`] | the kernel's UDP counters: what was lost above the interface |
//! | [`sockets`] | what waits at a port, and what was dropped there |
//! | [`thread`] | CPU seconds used, affinity, real-time priority |
//! | [`machine`] | CPU, cores, memory, kernel, and energy where the CPU meters it |
//! | [`limit`] | a share of one processor: control groups, or a load that competes |
//! | [`program`] | another program on one CPU, with such a share |
//!
//! Everything here is a question or a request that may be refused; nothing needs privilege to be asked. A refusal
//! names the remedy.

pub mod counters;
pub mod interface;
pub mod limit;
pub mod machine;
pub mod program;
pub mod sockets;
pub mod thread;
