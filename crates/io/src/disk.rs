//! Writing chunk files at the full speed of a disk.
//!
//! One [`Disk`] belongs to one writer thread. It writes whole chunks from memory to new files, several pieces in flight,
//! with `O_DIRECT` (no page cache: measured 4 to 5 times the buffered rate), through io_uring or, if that is not
//! permitted, through `pwrite`. Both are tried at start, and the method in use is reported.
//!
//! ```text
//!   start(token, name, view)   create name.part · preallocate · queue pieces of 4 MiB
//!   poll(wait, &mut done)      … pieces written · cut to length · rename to name ──▶ Done::Written(token)
//!   sync(token)                fdatasync                                          ──▶ Done::Synced(token)
//!   close(token) / discard(token)
//! ```
//!
//! A file gets its final name only when it is complete, so a killed recorder leaves `.part` files, but no incomplete
//! chunk under a final name. Writing needs a `View`: the memory is not reused until the kernel has finished with it.
//!
//! Limits: data with an unaligned first byte, or on a file system without `O_DIRECT`, are written through the page cache.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags};

mod engine;
mod failing;
mod faults;
mod log;
mod place;
mod plain;
mod queue;
mod read;
mod requests;
mod scratch;
mod space;
pub mod tree;
mod uring;
mod waker;
mod work;
mod writer;

pub use engine::{DiskOptions, Engine, Means};
pub use failing::FailingDisk;
pub use faults::Faults;
pub use log::{Log, is_locked};
pub use place::Place;
pub use queue::{Ended, Queue};
pub use read::{Source, only_regular, open_regular, read_buffers};
pub use scratch::{Scratch, device_bytes};
pub use space::{next_data, set_size};
pub use tree::Tree;
pub use waker::Waker;
pub use writer::{Disk, Done};

/// Bytes available to an ordinary user on the file system of `path`.
///
/// # Errors
/// A system error: the path is gone, or the disk does not respond.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The number of the file system of `path`: equal for two directories on one disk.
///
/// # Errors
/// A system error: the path is gone.
pub fn device(path: &Path) -> io::Result<u64> {
    Ok(rustix::fs::stat(path)?.st_dev)
}

/// Open `directory`, so that files created and renamed in it can be made durable.
///
/// # Errors
/// A system error.
pub fn open_directory(directory: &Path) -> io::Result<Arc<File>> {
    let fd =
        rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Arc::new(File::from(fd)))
}

/// Make the name of `path` durable: that it was created, renamed or removed.
///
/// # Errors
/// A system error.
pub fn sync_name(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    open_directory(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// `<name>.part`, the name of a file until it is complete.
fn part_name(name: &Path) -> PathBuf {
    let mut part = name.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Give a finished file its name; an existing file is never replaced.
fn publish(part: &Path, name: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, part, CWD, name, RenameFlags::NOREPLACE) {
        // Not every file system supports the flag.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if name.exists() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(part, name)
        }
        other => Ok(other?),
    }
}

/// Create a file for `bytes` bytes; returns `true` if it bypasses the page cache.
fn create(part: &Path, bytes: u64, direct: bool) -> io::Result<(File, bool)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let opened = if direct {
        match rustix::fs::open(part, flags | OFlags::DIRECT, mode) {
            Err(rustix::io::Errno::INVAL) => None,
            other => Some(other?),
        }
    } else {
        None
    };
    let is_direct = opened.is_some();
    let file = match opened {
        Some(file) => file,
        None => rustix::fs::open(part, flags, mode)?,
    };
    if bytes == 0 {
        return Ok((File::from(file), is_direct));
    }
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(error) => {
            let _ = rustix::fs::unlink(part);
            return Err(error.into());
        }
    }
    Ok((File::from(file), is_direct))
}

fn lock(file: impl AsFd, operation: FlockOperation) -> bool {
    rustix::fs::flock(file, operation).is_ok()
}

/// Whether io_uring works on this machine.
#[must_use]
pub fn uring_works() -> bool {
    uring::Ring::new(2, None).is_ok()
}

#[cfg(test)]
mod tests;
