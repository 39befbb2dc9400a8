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

mod attribute;
mod engine;
mod failing;
mod names;
mod requests;
mod scratch;
pub mod tree;
mod turn;
mod writer;

pub use attribute::{attribute, remove_attribute, set_attribute};
pub use engine::{DiskOptions, Engine, Means, Waker};
pub use failing::{FailingDisk, Faults};
pub use requests::{Ended, Queue};
pub use scratch::{Scratch, device_bytes, next_data, set_size};
pub use tree::Tree;
pub use turn::{DiskTurn, TurnCounts, WriteClaim, read_at_in_turn, turn_counts, while_waiting};
pub use writer::{Disk, Done, Log, is_locked};

use crate::memory::{ALIGN, Block, Pool, PoolOptions};
use rustix::fs::{
    Access, CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, access, stat, statfs,
};
use rustix::io::Errno;
use skyhaul_core::hint::Hint;
use std::fs::{File, FileType};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes available to an ordinary user on the file system of `path`.
///
/// # Errors
/// A system error: the path is gone, or the disk does not respond.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Size of the file system of `path`, bytes.
///
/// # Errors
/// A system error: the path is gone, or the disk does not respond.
pub fn capacity_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
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

/// Give a finished file or directory its name; an existing one is never replaced.
///
/// # Errors
/// A system error; [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is something of that name.
pub fn publish(part: &Path, name: &Path) -> io::Result<()> {
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
    engine::Ring::new(2, None).is_ok()
}

/// A file opened for fast reading.
///
/// Reading files past the page cache, so that reading a recording does not evict the pages of other programs.
///
/// The content of a disk is untrusted: opening a FIFO, a device or a socket in place of a file might block, or have side
/// effects. [`open_regular`] opens regular files only, and never waits.
#[derive(Debug)]
pub struct Source {
    file: File,
    direct: bool,
    /// Only multiples of 4096 can be read from.
    aligned: bool,
    length: u64,
}

impl Source {
    /// Open `path`, with `O_DIRECT` if the file system allows it.
    ///
    /// # Errors
    /// As [`open_regular`].
    pub fn open(path: &Path) -> io::Result<Source> {
        let (file, direct) = match open_with(path, OFlags::DIRECT) {
            Ok(file) => (file, true),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (open_regular(path)?, false),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        Ok(Source { file, direct, aligned: true, length })
    }

    /// Open `path` to read from byte `offset` on: without `O_DIRECT` unless it is a multiple of 4096.
    ///
    /// # Errors
    /// As [`open_regular`].
    pub fn open_at(path: &Path, offset: u64) -> io::Result<Source> {
        if offset.is_multiple_of(ALIGN as u64) {
            return Source::open(path);
        }
        let file = open_regular(path)?;
        let length = file.metadata()?.len();
        Ok(Source { file, direct: false, aligned: false, length })
    }

    /// Bytes in the file when it was opened.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it was empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Fill `block` from byte `offset` on, in turn with recordings to the same disk: a multiple of 4096, unless the file was [opened](Self::open_at) for another. Returns less than a block only at the end of the file.
    ///
    /// # Errors
    /// A system error; `InvalidInput` if the offset is not aligned.
    pub fn read(&self, offset: u64, block: &mut Block) -> io::Result<usize> {
        self.read_up_to(offset, block.len(), block)
    }

    /// The same for the first `bytes` bytes of `block`: with `O_DIRECT`, at most the rest of a page is read behind them.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Panics
    /// If `block` is shorter.
    pub fn read_up_to(&self, offset: u64, bytes: usize, block: &mut Block) -> io::Result<usize> {
        if self.aligned && !offset.is_multiple_of(ALIGN as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let most = bytes.next_multiple_of(ALIGN);
        let into = &mut block[..most];
        let mut filled = 0;
        while filled < most {
            match read_at_in_turn(&self.file, &mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // A short read is the end of the file; O_DIRECT cannot continue at an unaligned offset.
            if self.direct && !filled.is_multiple_of(ALIGN) {
                break;
            }
        }
        Ok(filled)
    }
}

/// Open the regular file at `path` (or the target of its links) for reading, without blocking.
///
/// # Errors
/// A system error; `InvalidInput`, naming the file type, if it is not a regular file, which is then not opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

fn open_with(path: &Path, more: OFlags) -> io::Result<File> {
    // Checked before opening, because opening a device may have side effects; and after, because the name may refer to
    // another file by then.
    only_regular(std::fs::metadata(path)?.file_type())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    only_regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Check that a file type is that of a regular file.
///
/// # Errors
/// `InvalidInput`, naming the file type.
pub fn only_regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_symlink() {
        "a link"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// `count` buffers of `bytes` each to read into.
///
/// # Errors
/// As [`Pool::new`].
pub fn read_buffers(count: usize, bytes: usize) -> io::Result<Pool> {
    let block_bytes = bytes.next_multiple_of(ALIGN);
    let pool =
        Pool::new(&PoolOptions { total_bytes: (count * block_bytes) as u64, block_bytes, shared: false })?;
    pool.wait_until_touched()?;
    Ok(pool)
}

/// Kernel file systems, which are not disks, by their number in `statfs`.
const PSEUDO: [(u64, &str); 14] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x27_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0xcafe_4a11, "bpf"),
    (0x6265_6570, "configfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x1980_0202, "mqueue"),
    (0x6e73_6673, "nsfs"),
];

/// Identity of a directory, equal for two names of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// The directory at `path`, which must exist, be on a disk file system, and be writable. Nothing is created there.
    ///
    /// # Errors
    /// The reason why the directory cannot be recorded to, and a hint.
    pub fn for_recordings(path: &Path) -> io::Result<Self> {
        Self::writable(path, "record to")
    }

    /// As [`for_recordings`](Self::for_recordings); `purpose` begins the text of an error: "record to", "measure".
    ///
    /// # Errors
    /// The reason why nothing can be written there, and a hint.
    pub fn writable(path: &Path, purpose: &str) -> io::Result<Self> {
        let told =
            |kind, text: String| Err(io::Error::new(kind, format!("{purpose} {}: {text}", path.display())));
        let found = match stat(path) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                let hint = format!(
                    "check that the disk is mounted with findmnt; or create the directory: mkdir -p {}",
                    path.display()
                );
                return told(io::ErrorKind::NotFound, format!("no such directory{}", Hint(hint)));
            }
            Err(error) => {
                let error = io::Error::from(error);
                return told(
                    error.kind(),
                    format!(
                        "{}{}",
                        crate::address::system_text(&error),
                        Hint(format_args!("see `namei -l {}`", path.display()))
                    ),
                );
            }
        };
        if rustix::fs::FileType::from_raw_mode(found.st_mode) != rustix::fs::FileType::Directory {
            return told(
                io::ErrorKind::NotADirectory,
                format!("not a directory{}", Hint("name the directory where the disk is mounted")),
            );
        }
        let kind = statfs(path).map(|of| of.f_type as u64 & 0xffff_ffff);
        if let Some((_, name)) = kind.ok().and_then(|kind| PSEUDO.iter().find(|(number, _)| *number == kind))
        {
            let text = format!(
                "not a disk: {name} is a kernel file system{}",
                Hint("name a directory on a disk; `findmnt --real` lists the disks")
            );
            return told(io::ErrorKind::Unsupported, text);
        }
        match access(path, Access::WRITE_OK | Access::EXEC_OK) {
            Err(Errno::ROFS) => {
                let hint =
                    Hint("check with `dmesg` whether the disk failed; as root: mount -o remount,rw ...");
                return told(
                    io::ErrorKind::ReadOnlyFilesystem,
                    format!("the file system is read-only{hint}"),
                );
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                let text = format!(
                    "no permission to write{}",
                    Hint(format_args!("check its permissions: ls -ld {}", path.display()))
                );
                return told(io::ErrorKind::PermissionDenied, text);
            }
            _ => {}
        }
        Ok(Self { device: found.st_dev, inode: found.st_ino })
    }
}

#[cfg(test)]
mod tests;
