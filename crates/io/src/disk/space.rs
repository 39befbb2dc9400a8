//! Room of a file on its disk: its size, its space, its holes.

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

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
