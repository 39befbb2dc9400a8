//! Reading files past the page cache, so that reading a recording does not evict the pages of other programs.
//!
//! The content of a disk is untrusted: opening a FIFO, a device or a socket in place of a file might block, or have side
//! effects. [`open_regular`] opens regular files only, and never waits.

use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::memory::{ALIGN, Block, Pool, PoolOptions};

/// A file opened for fast reading.
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

    /// Fill `block` from byte `offset` on: a multiple of 4096, unless the file was [opened](Self::open_at) for another. Returns less than a block only at the end of the file.
    ///
    /// # Errors
    /// A system error; `InvalidInput` if the offset is not aligned.
    pub fn read(&self, offset: u64, block: &mut Block) -> io::Result<usize> {
        if self.aligned && !offset.is_multiple_of(ALIGN as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut filled = 0;
        while filled < block.len() {
            match self.file.read_at(&mut block[filled..], offset + filled as u64) {
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
