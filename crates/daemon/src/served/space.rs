//! The space of what is served.

use skyhaul::io::disk::{capacity_bytes, device, free_bytes};
use std::io;
use std::path::Path;

/// Space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Equal for directories on one file system.
    pub(crate) device: u64,
    pub(crate) total_bytes: u64,
    pub(crate) used_bytes: u64,
}

impl Space {
    /// That of the file system with this directory.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let (total_bytes, free) = (capacity_bytes(path)?, free_bytes(path)?);
        Ok(Self { device: device(path)?, total_bytes, used_bytes: total_bytes.saturating_sub(free) })
    }
}
