//! What an engine is given to do, and how that ends.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::View;

/// A request to an engine. It owns what the kernel uses.
#[derive(Debug)]
pub(super) enum Work {
    /// `bytes` from the first of `view` on: the view, or with it the rest of its last page, whatever lies there
    /// (`O_DIRECT` writes whole pages, and the file is cut afterwards).
    Write {
        file: Arc<File>,
        view: View,
        bytes: usize,
        offset: u64,
    },
    Sync {
        file: Arc<File>,
    },
}

/// A request's end.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) id: u64,
    pub(super) result: io::Result<usize>,
    pub(super) time: Duration,
}
