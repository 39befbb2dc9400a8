//! Requests to an engine, and their results.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::{Block, View};

/// A request to an engine. It owns the memory and file that the kernel uses.
#[derive(Debug)]
pub(super) enum Work {
    /// Write `bytes` from the start of `view`: the view, or also the rest of its last page with arbitrary content
    /// (`O_DIRECT` writes whole pages, and the file is truncated afterwards).
    Write {
        file: Arc<File>,
        view: View,
        bytes: usize,
        offset: u64,
    },
    /// Read into the first `bytes` bytes of `block`.
    Read {
        file: Arc<File>,
        block: Block,
        bytes: usize,
        offset: u64,
    },
    Sync {
        file: Arc<File>,
    },
}

impl Work {
    /// Bytes to read or write.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::Write { bytes, .. } | Work::Read { bytes, .. } => *bytes,
            Work::Sync { .. } => 0,
        }
    }
}

/// A finished request.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) id: u64,
    pub(super) result: io::Result<usize>,
    pub(super) time: Duration,
    pub(super) work: Work,
}
