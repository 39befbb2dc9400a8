//! A file without a name, for measurements: nothing is left of it, however the process ends. Also the space of any file:
//! its size, and its holes.
//!
//! It is created with `O_TMPFILE`; on a file system without that, a named file is created and its name removed
//! immediately.

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

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

/// Give a file its size, and unless it is `sparse` all of its space, so that a full disk is found at the start.
///
/// # Errors
/// A system error: `StorageFull`.
pub fn set_size(file: &File, size: u64, sparse: bool) -> io::Result<()> {
    let now = file.metadata()?.len();
    if now != size {
        file.set_len(size)?;
    }
    if sparse || size == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Make a range read as zeros without space on the disk; `false` if the file system cannot.
pub(super) fn punch(file: &File, range: std::ops::Range<u64>) -> io::Result<bool> {
    use rustix::fs::FallocateFlags;
    if range.is_empty() {
        return Ok(true);
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, range.start, range.end - range.start) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The next range of `file` from `from` on that is not a hole; `None` if only holes follow. On a file system without
/// support for holes, everything is data.
///
/// # Errors
/// A system error.
pub fn next_data(file: &File, from: u64, size: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok((from < size).then_some(from..size)),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size);
    Ok(Some(start..end.max(start + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Tree;
    use std::path::Path;

    #[test]
    fn holes_are_found() {
        use std::os::unix::fs::FileExt;
        let directory = tempfile::tempdir().unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        let (file, _) = tree.write(Path::new("f"), false).unwrap();
        set_size(&file, 10 << 20, true).unwrap();
        file.write_at(&[1; 4096], 4 << 20).unwrap();
        file.sync_all().unwrap();
        let size = 10 << 20;
        let first = next_data(&file, 0, size).unwrap().unwrap();
        // A file system without holes reports everything as data.
        assert!(first == (4 << 20..(4 << 20) + 4096) || first.contains(&(4 << 20)), "{first:?}");
        if first.start > 0 {
            assert_eq!(next_data(&file, first.end, size).unwrap(), None);
        }
    }
}
