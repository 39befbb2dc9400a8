//! A file being written.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::memory::{ALIGN, View};

/// A file being written.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) file: Arc<File>,
    pub(super) name: PathBuf,
    pub(super) view: View,
    /// Bytes to write: those of the view, to the end of the last page if the file is `direct`.
    pub(super) bytes: usize,
    pub(super) direct: bool,
    /// First byte not yet passed to the engine.
    pub(super) next: usize,
    pub(super) in_flight: usize,
    pub(super) begun: Instant,
    pub(super) error: Option<io::Error>,
    pub(super) named: bool,
}

impl Making {
    /// All pieces are finished: truncate and rename the file, or return the error.
    pub(super) fn complete(&mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.view.len().is_multiple_of(ALIGN) {
            rustix::fs::ftruncate(&self.file, self.view.len() as u64)?;
        }
        super::publish(&super::part_name(&self.name), &self.name)?;
        self.named = true;
        Ok(())
    }
}
