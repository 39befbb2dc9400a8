//! An append-only file that is locked as long as its writer lives.
//!
//! Space is taken ahead of need, so that a full disk can still say what is on it. The lock (`flock`) goes with
//! the process, however it ends: [`is_locked`] tells a reader whether the writer is still there. After a kill the
//! kernel takes some milliseconds to end the writes that were in a ring, and gives up the lock after that.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

/// Taken at a time, ahead of what is needed.
const AHEAD: u64 = 256 << 10;

/// An append-only file.
#[derive(Debug)]
pub struct Log {
    file: Arc<File>,
    length: u64,
    allocated: u64,
}

impl Log {
    /// A new file; `existing` opens one that is there, to append to it.
    ///
    /// # Errors
    /// The file exists (or does not, or is not a regular file), another process is writing it (`WouldBlock`), or a system error.
    pub fn open(path: &Path, existing: bool) -> io::Result<Log> {
        let mut options = File::options();
        options.append(true).read(true);
        if existing {
            super::read::only_regular(std::fs::metadata(path)?.file_type())?;
        }
        let file = if existing { options.open(path) } else { options.create_new(true).open(path) }?;
        // `is_locked` holds the lock for a moment, too: ask more than once.
        let locked = (0..20).any(|attempt| {
            if attempt > 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            super::lock(&file, FlockOperation::NonBlockingLockExclusive)
        });
        if !locked {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is being written by another process", path.display()),
            ));
        }
        let length = file.metadata()?.len();
        Ok(Log { file: Arc::new(file), length, allocated: length })
    }

    /// Make room on the disk for `bytes` more.
    ///
    /// # Errors
    /// No space is left.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if self.length + bytes <= self.allocated {
            return Ok(());
        }
        let more = bytes.max(AHEAD);
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, more) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                self.allocated = self.length + more;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Append; durable only after the file is synced.
    ///
    /// # Errors
    /// A system error; part of the bytes may have been written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self.file).write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Bytes in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The file, for [`Disk::sync_file`](super::Disk::sync_file).
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Wait until all of it is durable, and give back the space that was taken ahead.
    ///
    /// # Errors
    /// A system error.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.allocated > self.length {
            self.file.set_len(self.length)?;
            self.allocated = self.length;
        }
        self.file.sync_data()
    }
}

/// Whether a living process writes the log at `path`. A file that is not there is not written.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = super::read::open_regular(path) else { return false };
    !super::lock(&file, FlockOperation::NonBlockingLockShared)
}
