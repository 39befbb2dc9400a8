//! Files mapped into memory, for sending without a copy; small files, read to a bound; files written whole or not at all; and
//! errors with hints for paths.
//!
//! Small files named by the user: settings, tokens, certificates, plans, reports.
//!
//! Such a name may be anything: a FIFO, on which `open` waits for a writer, or a device that never ends. So the number
//! of bytes is limited, and nothing waits for ever. Pipes are permitted, because shells make them:
//! `--token-file <(pass sky)`.

use crate::address::system_text;
use crate::say::escaped_name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use skyhaul_core::hint::Hint;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{ErrorKind, Read, Write};
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    let hint = hint.map(|hint| Hint(hint).to_string()).unwrap_or_default();
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
                "open {}: not a regular file{}",
                path.display(),
                Hint("write its contents to a file first")
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

/// Maximum size in bytes of a file with settings, a plan or a certificate.
pub const SETTINGS: usize = 1 << 20;
/// Maximum size in bytes of a file with a token or a URI.
pub const TOKEN: usize = 4096;
/// How long the writer of a pipe may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the bytes of the file at `path`, at most `most`.
///
/// # Errors
/// The file cannot be read, is longer, is a pipe without a writer, or its writer takes longer than half a minute. The
/// error names the path.
pub fn read_small(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let failing = |error: io::Error| failed("read", path, &error);
    let refused =
        |text: String| io::Error::new(ErrorKind::InvalidInput, format!("read {}: {text}", path.display()));
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failing)?;
    let kind = file.metadata().map_err(failing)?.file_type();
    if kind.is_dir() {
        return Err(failing(io::Error::from_raw_os_error(libc::EISDIR)));
    }
    let (mut bytes, until) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let mut part = (&file).take((most + 1 - bytes.len()) as u64);
        match part.read_to_end(&mut bytes) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !waited(&file, until).map_err(failing)? {
                    let seconds = PATIENCE.as_secs();
                    let text =
                        format!("nothing was written to it in {seconds} s{}", Hint("name a regular file"));
                    return Err(refused(text));
                }
            }
            Err(error) => return Err(failing(error)),
        }
    }
    if bytes.len() > most {
        return Err(refused(format!("it has more than {most} bytes{}", Hint("name another file"))));
    }
    // An ordinary `open` would wait for a writer.
    if bytes.is_empty() && kind.is_fifo() {
        return Err(refused(format!("it is a pipe without a writer{}", Hint("name a regular file"))));
    }
    Ok(bytes)
}

/// The same, as text.
///
/// # Errors
/// As [`read_small`]; or it is not UTF-8.
pub fn read_small_text(path: &Path, most: usize) -> io::Result<String> {
    String::from_utf8(read_small(path, most)?).map_err(|_| {
        let text = format!("read {}: it is not text (UTF-8){}", path.display(), Hint("name another file"));
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

/// Waits until there is something to read or the writer is gone; `false` on timeout.
fn waited(file: &File, until: Instant) -> io::Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the file at `path`: readers see the old contents or the new ones, never a part, and a full disk leaves the old file
/// as it was. Permissions of an existing file stay; what a symbolic link names is replaced, not the link. A device or FIFO is
/// written to.
///
/// It survives the end of this process, but is not synchronised: after a power cut, the old contents may be back.
///
/// # Errors
/// The file cannot be written; the error names the path.
pub fn replace(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    replace_by(path, |file| file.write_all(contents.as_ref()))
}

fn replace_by(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let failing = |error: io::Error| failed("write", path, &error);
    let old = std::fs::metadata(path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        let mut file = OpenOptions::new().write(true).open(path).map_err(failing)?;
        return write(&mut file).map_err(failing);
    }
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = beside(&target);
    let mut file = match File::create(&new) {
        // The directory takes no new file, but the file may be written to.
        Err(error) if old.is_some() && is_closed_directory(&error) => {
            let mut file = File::create(&target).map_err(failing)?;
            return write(&mut file).map_err(failing);
        }
        file => file.map_err(failing)?,
    };
    let written = write(&mut file)
        .and_then(|()| old.map_or(Ok(()), |old| file.set_permissions(old.permissions())))
        .and_then(|()| std::fs::rename(&new, &target));
    written.map_err(|error| {
        // If it cannot be removed, the first error is the one to report.
        let _ = std::fs::remove_file(&new);
        failing(error)
    })
}

fn is_closed_directory(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Where the new contents of `path` are until they are whole.
fn beside(path: &Path) -> PathBuf {
    /// Bytes of a name that leave room for the rest.
    const NAME_BYTES: usize = 200;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.char_indices().take_while(|&(at, _)| at < NAME_BYTES).map(|(_, c)| c).collect();
    path.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

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

    fn said(path: &Path) -> String {
        read_small(path, 10).unwrap_err().to_string()
    }

    #[test]
    fn whatever_is_named_is_read_to_a_bound_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        for length in [0, 10] {
            std::fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(read_small_text(&path, 10).unwrap().len(), length);
        }
        std::fs::write(&path, [b'x'; 11]).unwrap();
        assert!(said(&path).contains("it has more than 10 bytes"), "{}", said(&path));
        std::fs::write(&path, [0xFF]).unwrap();
        assert!(read_small_text(&path, 10).unwrap_err().to_string().contains("not text"));
        assert_eq!(read_small(Path::new("/dev/null"), 10).unwrap(), b"");
        assert!(said(Path::new("/dev/zero")).contains("it has more than 10 bytes"));
        assert!(said(directory.path()).contains("directory"));
        assert!(said(&directory.path().join("none")).contains("hint: check the name"));
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_one_without_a_writer_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(said(&path).contains("a pipe without a writer"), "{}", said(&path));
        // As from a shell: the other end is open, and its data arrive later.
        let (reader, mut writer) = io::pipe().unwrap();
        let name = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let late = std::thread::spawn(move || {
            for part in [b"abc", b"def"] {
                std::thread::sleep(Duration::from_millis(50));
                writer.write_all(part).unwrap();
            }
        });
        assert_eq!(read_small(Path::new(&name), 10).unwrap(), b"abcdef");
        late.join().unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        let path = directory.path().join("report.html");
        replace(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let full = replace_by(&path, |file| {
            file.write_all(b"ne")?;
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        });
        let text = full.unwrap_err().to_string();
        assert!(text.contains("report.html") && text.contains("free some space"), "{text}");
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"old".to_vec(), 1));
        replace(&path, "new").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"new".to_vec(), 1));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let long = directory.path().join("ä".repeat(127));
        replace(&long, "long").unwrap();
        assert_eq!(std::fs::read(&long).unwrap(), b"long");
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("f"), directory.path().join("link"));
        replace(&file, "old").unwrap();
        std::os::unix::fs::symlink("f", &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        replace(Path::new("/dev/null"), "gone").unwrap();
        let text = replace(Path::new("/dev/full"), "x").unwrap_err().to_string();
        assert!(text.starts_with("write /dev/full: No space left"), "{text}");
        let none = replace(&directory.path().join("none/f"), "x").unwrap_err().to_string();
        assert!(none.contains("mkdir -p"), "{none}");
    }
}
