//! Reading files past the page cache, so that reading a recording does not push out what others need.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::memory::{ALIGN, Block, Pool, PoolOptions};

/// A file opened for fast reading.
#[derive(Debug)]
pub struct Source {
    file: File,
    direct: bool,
    length: u64,
}

impl Source {
    /// Open `path`, with `O_DIRECT` where the file system allows it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Source> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let (file, direct) = match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(file) => (file, true),
            Err(rustix::io::Errno::INVAL) => (rustix::fs::open(path, flags, Mode::empty())?, false),
            Err(error) => return Err(error.into()),
        };
        let file = File::from(file);
        let length = file.metadata()?.len();
        Ok(Source { file, direct, length })
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

    /// Fill `block` from byte `offset` (a multiple of 4096) on; less than a block only at the end of the file.
    ///
    /// # Errors
    /// The system's; an unaligned offset is `InvalidInput`.
    pub fn read(&self, offset: u64, block: &mut Block) -> io::Result<usize> {
        if !offset.is_multiple_of(ALIGN as u64) {
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
            // The end of a file comes as a short read; O_DIRECT cannot go on from an odd place.
            if self.direct && !filled.is_multiple_of(ALIGN) {
                break;
            }
        }
        Ok(filled)
    }
}

/// `count` buffers of `bytes` each to read into.
///
/// # Errors
/// As [`Pool::new`].
pub fn read_buffers(count: usize, bytes: usize) -> io::Result<Pool> {
    let block_bytes = bytes.next_multiple_of(ALIGN);
    Pool::new(&PoolOptions { total_bytes: (count * block_bytes) as u64, block_bytes, shared: false })
}
