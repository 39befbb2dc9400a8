//! Options of a disk's writer, and the means in use.

use super::Faults;

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// io_uring, or plain calls if that is not permitted.
    #[default]
    Auto,
    /// io_uring only.
    Uring,
    /// Plain `pwrite` calls only.
    Plain,
}

/// How a disk is written to.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Which system calls.
    pub engine: Engine,
    /// Try `O_DIRECT`.
    pub direct: bool,
    /// Bytes of one write; a multiple of 4096.
    pub write_bytes: usize,
    /// Maximum number of writes in flight.
    pub depth: usize,
    /// Faults to inject, for tests.
    pub faults: Faults,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { engine: Engine::Auto, direct: true, write_bytes: 4 << 20, depth: 8, faults: Faults::default() }
    }
}

/// The means in use, and why better ones are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Means {
    /// `io_uring` or `pwrite`.
    pub engine: &'static str,
    /// Past the page cache.
    pub direct: bool,
    /// The pool is registered with the kernel, which saves a page table walk for each write.
    pub registered: bool,
    /// What was refused, with the remedy.
    pub notes: Vec<String>,
}
