//! An append-only file that is locked while its writer lives.
//!
//! Space is allocated in advance, so that the index of a full disk can still be completed. The kernel releases the lock
//! (`flock`) when the process ends in any way: [`is_locked`] shows a reader whether the writer lives. After a kill the
//! kernel takes some milliseconds to end the writes in a ring before it releases the lock.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

use super::Faults;

/// Bytes allocated in advance at a time.
const AHEAD: u64 = 256 << 10;

/// An append-only file.
#[derive(Debug)]
pub struct Log {
    file: Arc<File>,
    length: u64,
    allocated: u64,
    /// Why nothing more is appended.
    failed: Option<String>,
}

impl Log {
    /// Create a file, or with `existing` open one to append to it.
    ///
    /// # Errors
    /// If the file exists (or, with `existing`, does not, or is not a regular file), if another process is writing it
    /// (`WouldBlock`), or a system error.
    pub fn open(path: &Path, existing: bool) -> io::Result<Log> {
        let mut options = File::options();
        options.append(true).read(true);
        if existing {
            super::read::only_regular(std::fs::metadata(path)?.file_type())?;
        }
        let file = if existing { options.open(path) } else { options.create_new(true).open(path) }?;
        // `is_locked` holds the lock for a moment too: try more than once.
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
        Ok(Log { file: Arc::new(file), length, allocated: length, failed: None })
    }

    /// Allocate space on the disk for `bytes` more.
    ///
    /// # Errors
    /// If no space is left.
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

    /// Append `bytes`; they are durable only after the file is synced.
    ///
    /// # Errors
    /// A system error; part of the bytes may have been written.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append_on(&Faults::default(), bytes)
    }

    /// The same on a disk with faults.
    ///
    /// # Errors
    /// As [`append`](Self::append), or that of a fault.
    pub fn append_on(&mut self, faults: &Faults, bytes: &[u8]) -> io::Result<()> {
        self.is_sound()?;
        faults.writes(&self.file, self.length, bytes.len())?;
        (&*self.file).write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The file, for [`Disk::sync_file`](super::Disk::sync_file).
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Wait until the file is durable, and free the space allocated in advance.
    ///
    /// # Errors
    /// A system error.
    pub fn finish(&mut self) -> io::Result<()> {
        self.finish_on(&Faults::default())
    }

    /// The same on a disk with faults.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), or that of a fault.
    pub fn finish_on(&mut self, faults: &Faults) -> io::Result<()> {
        self.is_sound()?;
        if self.allocated > self.length {
            self.file.set_len(self.length)?;
            self.allocated = self.length;
        }
        let synced = faults.sync_data(&self.file);
        if let Err(error) = &synced {
            self.fail(error);
        }
        synced
    }

    /// Notes that a sync of the file failed: lines appended since the last success may be lost, even if a later sync
    /// succeeds. Nothing more can be appended or finished.
    pub fn fail(&mut self, error: &io::Error) {
        self.failed.get_or_insert_with(|| error.to_string());
    }

    fn is_sound(&self) -> io::Result<()> {
        match &self.failed {
            Some(why) => Err(io::Error::other(format!("an earlier sync of it failed: {why}"))),
            None => Ok(()),
        }
    }
}

/// Whether a process is writing the log at `path`; `false` if the file does not exist.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = super::read::open_regular(path) else { return false };
    !super::lock(&file, FlockOperation::NonBlockingLockShared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_believed_after_a_failed_sync() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Log::open(&directory.path().join("log"), false).unwrap();
        log.append(b"first\n").unwrap();
        log.fail(&io::Error::other("input/output error"));
        assert!(log.append(b"second\n").unwrap_err().to_string().contains("input/output error"));
        assert!(log.finish().is_err() && log.finish().is_err());
    }
}
