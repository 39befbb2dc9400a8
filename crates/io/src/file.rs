//! A file's bytes, as memory: for sending a file from where the kernel keeps it.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A whole file, mapped for reading.
///
/// Limits: the bytes are those of the file as it is; a file that another program cuts short meanwhile ends this
/// process with `SIGBUS` when the part that is gone is read. Recordings and captures are never cut.
#[derive(Debug)]
pub struct MappedFile {
    start: *const u8,
    len: usize,
}

// SAFETY: the mapping is only read, and stays until the value is dropped.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Map the file at `path`.
    ///
    /// # Errors
    /// What opening or mapping it answers, with the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let failing = |e: io::Error| io::Error::new(e.kind(), format!("open {}: {e}", path.display()));
        let file = File::open(path).map_err(failing)?;
        let len = usize::try_from(file.metadata().map_err(failing)?.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(Self { start: std::ptr::NonNull::dangling().as_ptr(), len });
        }
        // SAFETY: a new mapping at an address of the kernel's choice; it touches no memory of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
        let start = start.map_err(|e| failing(e.into()))?;
        Ok(Self { start: start.cast(), len })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes long and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: exactly what `open` mapped; nobody holds a slice of it any more.
            let _ = unsafe { munmap(self.start.cast_mut().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"frame").unwrap();
        assert_eq!(&*MappedFile::open(&path).unwrap(), b"frame");
        std::fs::write(&path, b"").unwrap();
        assert!(MappedFile::open(&path).unwrap().is_empty());
        assert!(MappedFile::open(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
