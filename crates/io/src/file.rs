//! Files mapped into memory, for sending without a copy; small files, read to a bound; and errors with hints for paths.

mod small;

pub use small::{SETTINGS, TOKEN, read_small, read_small_text};

use crate::address::system_text;
use crate::say::escaped_name;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// `error` with the operation that failed, the path, and the remedy if known. Operations that create something are
/// `create` and `write`.
#[must_use]
pub fn failed(operation: &str, path: &Path, error: &io::Error) -> io::Error {
    use io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
        StorageFull,
    };
    // The name may come from someone else, and must stay on one line.
    let shown = |path: &Path| escaped_name(&path.to_string_lossy()).into_owned();
    let makes = matches!(operation, "create" | "write");
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = match error.kind() {
        NotFound if makes && !parent.is_dir() => {
            Some(format!("create the directory first: mkdir -p {}", shown(parent)))
        }
        NotFound if makes => Some("no file can be created there: choose another directory".to_owned()),
        NotFound if path.as_os_str().is_empty() => Some("the path is empty".to_owned()),
        NotFound => Some(format!("check the name: `ls {}` lists the files", shown(parent))),
        PermissionDenied if makes => Some("choose a directory that you may write to".to_owned()),
        PermissionDenied => Some(format!("check its permissions: ls -ld {}", shown(path))),
        IsADirectory => Some("this is a directory: name a file".to_owned()),
        AlreadyExists | NotADirectory => {
            Some("a file is where a directory is needed: choose another path".to_owned())
        }
        ReadOnlyFilesystem => Some("choose a directory on another file system".to_owned()),
        StorageFull => Some("free some space, or choose another directory".to_owned()),
        _ => None,
    };
    let hint = hint.map(|hint| format!("; hint: {hint}")).unwrap_or_default();
    io::Error::new(error.kind(), format!("{operation} {}: {}{hint}", shown(path), system_text(error)))
}

/// A whole file, mapped for reading.
///
/// Limits: no other program may write to the file meanwhile, and if one truncates it, reading the missing part ends this
/// process with `SIGBUS`: Linux has no mapping that prevents this, and a copy of some hundred GB is no alternative.
/// Recordings and captures are not truncated, and a chunk file is complete when it gets its name, and not written again.
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
    /// If the file cannot be opened or mapped; the error names the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let failing = |e: io::Error| failed("open", path, &e);
        // Checked before opening, because opening a pipe waits for a writer.
        let kind = std::fs::metadata(path).map_err(failing)?.file_type();
        if kind.is_dir() {
            return Err(failing(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        if !kind.is_file() {
            let text = format!(
                "open {}: not a regular file; hint: write its contents to a file first",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
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
        // SAFETY: the mapping is `len` bytes long, lives as long as `self`, and this process writes to no file that it
        // maps; that no other does is asked of the user above.
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
    }

    #[test]
    fn what_is_no_file_is_told_with_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        for (path, hint) in [
            (dir.path().join("none"), "hint: check the name: `ls "),
            (dir.path().to_owned(), "hint: this is a directory"),
            ("/dev/null".into(), "hint: write its contents to a file"),
            ("".into(), "hint: the path is empty"),
        ] {
            let said = MappedFile::open(&path).unwrap_err().to_string();
            assert!(said.starts_with(&format!("open {}: ", path.display())), "{said}");
            assert!(said.contains(hint) && !said.contains("os error"), "{said}");
        }
    }

    #[test]
    fn what_cannot_be_made_is_told_with_the_next_step() {
        let said = |path: &str, code: i32| {
            failed("create", Path::new(path), &io::Error::from_raw_os_error(code)).to_string()
        };
        assert!(
            said("/no/such/file", libc::ENOENT)
                .ends_with("hint: create the directory first: mkdir -p /no/such")
        );
        assert!(
            said("/proc/x", libc::ENOENT)
                .ends_with("hint: no file can be created there: choose another directory")
        );
        assert!(said("x", libc::EEXIST).contains("hint: a file is where a directory is needed"));
        assert!(said("x", libc::EACCES).ends_with("hint: choose a directory that you may write to"));
        assert!(
            said("x", libc::EROFS).contains("another file system")
                && said("x", libc::ENOSPC).contains("free some space")
        );
        assert_eq!(said("x", libc::EIO), "create x: Input/output error");
    }
}
