//! The right to forward at a path: one process at a time has it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock beside the socket of a data plane, taken before any port is opened: a second one that was started by mistake would
/// otherwise take a part of the packets of ports that both have open. It is free when the process ends in any way.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    /// Take the right to forward at `socket`.
    ///
    /// # Errors
    /// Another process has it, or the file cannot be made: the error names it.
    pub fn take(socket: &Path) -> io::Result<Claim> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("lock {}: {error}", path.display()));
        loop {
            let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let text = format!("another data plane forwards at {} already", socket.display());
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The former one removed the file after it was opened here: the next one would not meet this lock.
            let is_it = |there: std::fs::Metadata| Ok::<_, io::Error>(there.ino() == file.metadata()?.ino());
            if std::fs::metadata(&path).and_then(is_it).unwrap_or(false) {
                return Ok(Claim { path, _file: file });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_it_is_free_again() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("plane");
        let first = Claim::take(&socket).unwrap();
        let second = Claim::take(&socket).unwrap_err();
        assert!(
            second.kind() == io::ErrorKind::AddrInUse && second.to_string().contains("already"),
            "{second}"
        );
        drop(first);
        drop(Claim::take(&socket).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
        let none = Claim::take(&directory.path().join("no/plane")).unwrap_err().to_string();
        assert!(none.starts_with("lock "), "{none}");
    }
}
