//! Properties of this host: interfaces, counters, CPU time, scheduling.
//!
//! | module | content |
//! |---|---|
//! | [`cache`] | sizes of a CPU's caches |
//! | [`interface`] | which interface has an address, its counters |
//! | [`sockets`] | bytes queued at a port, and datagrams dropped there |
//! | [`stages`] | counters along the path of a packet (interface, IP, UDP, backlog, CPUs), and the kernel's tables of them |
//! | [`thread`] | CPU seconds used, affinity, real-time priority |
//! | [`machine`] | CPU, cores, memory and its bandwidth, kernel, the state of the clock, and energy if the CPU meters it |
//! | [`limit`] | a share of one processor: control groups, or a competing load |
//! | [`way`] | the way to an address: interface and neighbour |
//! | [`ethtool`] | what a network card and its driver say of themselves |
//! | [`tree`] | files of `/proc` and `/sys`, below a root |
//! | [`network`] | limits of an interface, queueing disciplines, a route, the firewall |
//! | [`descriptors`] | how many files this process may open |
//! | [`program`] | another program on one CPU, with such a share |
//! | [`server`] | the process that serves the other end of a Unix socket |
//!
//! Nothing here requires privileges: a request that the kernel refuses returns an error with the remedy.

pub mod cache;
pub mod descriptors;
pub mod errand;
pub mod ethtool;
pub mod interface;
pub mod limit;
pub mod machine;
pub mod network;
pub mod program;
pub mod server;
pub mod sockets;
pub mod stages;
pub mod thread;
pub mod tree;
pub mod way;
