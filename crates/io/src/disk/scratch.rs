//! A file without a name, for measurements: nothing is left of it, however the process ends.
//!
//! It is created with `O_TMPFILE`; on a file system without that, a named file is created and its name removed
//! immediately.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

/// A file without a name on the disk of a directory.
#[derive(Clone, Debug)]
pub struct Scratch {
    file: Arc<File>,
    direct: bool,
}

impl Scratch {
    /// Make it.
    ///
    /// # Errors
    /// A system error: no permission, a read-only file system.
    pub fn create(directory: &Path) -> io::Result<Scratch> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let fd = match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
            // Old kernels return the second error, because they take it for a directory opened for writing.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
                let name = directory.join(format!(".skyhaul-scratch-{}", std::process::id()));
                let fd = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
                rustix::fs::unlink(&name)?;
                fd
            }
            other => other?,
        };
        Ok(Scratch { file: Arc::new(File::from(fd)), direct: false })
    }

    /// The file, for a [`Queue`](super::Queue).
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Whether it bypasses the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Bypass the page cache from here on, or do not. Returns whether it does: some file systems refuse.
    ///
    /// # Errors
    /// A system error.
    pub fn set_direct(&mut self, direct: bool) -> io::Result<bool> {
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        let wanted = if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
        self.direct = match rustix::fs::fcntl_setfl(&self.file, wanted) {
            Ok(()) => direct,
            Err(rustix::io::Errno::INVAL) if direct => false,
            Err(error) => return Err(error.into()),
        };
        Ok(self.direct)
    }

    /// Allocates space on the disk, so that a lack of room is found before anything is written.
    ///
    /// # Errors
    /// If there is no room.
    pub fn allocate(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes data that are still in memory to the disk, and drops the file from the page cache, so that the next
    /// reader reads from the disk.
    ///
    /// # Errors
    /// A system error.
    pub fn forget(&self) -> io::Result<()> {
        self.file.sync_data()?;
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)?;
        Ok(())
    }
}

/// Bytes that this process has read from and written to disks, as counted by the kernel, excluding those served by the
/// page cache. `None` if the kernel does not count.
#[must_use]
pub fn device_bytes() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    Some((field("read_bytes:")?, field("write_bytes:")?))
}
