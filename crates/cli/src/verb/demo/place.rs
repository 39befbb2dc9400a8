//! Where a demo writes.

use anyhow::{Result, bail};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::failed;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Names that are tried if no directory is asked for.
const TRIED: u32 = 20;

/// A directory, which other demos leave alone as long as this lives.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    _lock: File,
}

/// The directory that is asked for, or `name`, or the next of `name-2`, `name-3`, … in which no demo runs.
///
/// # Errors
/// It cannot be made, or a demo runs in it.
pub(super) fn take(asked: Option<&Path>, name: &str) -> Result<Place> {
    let numbered = |n| PathBuf::from(if n == 1 { name.to_owned() } else { format!("{name}-{n}") });
    let names: Vec<PathBuf> = match asked {
        Some(path) => vec![path.to_owned()],
        None => (1..=TRIED).map(numbered).collect(),
    };
    for path in &names {
        fs::create_dir_all(path).map_err(|error| failed("create", path, &error))?;
        let lock = File::open(path).map_err(|error| failed("open", path, &error))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => continue,
            // Without locks on this file system, two demos disturb each other, as they would without this one.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        if *path != names[0] {
            say!("another demo is running in {}: using {}", names[0].display(), path.display());
        }
        return Ok(Place { path: path.clone(), _lock: lock });
    }
    bail!(
        "another demo is running in {}{}",
        names[0].display(),
        Hint("choose another directory with --directory DIR")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_demos_do_not_share_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("demo").display().to_string();
        let (first, second) = (take(None, &name).unwrap(), take(None, &name).unwrap());
        assert_eq!(second.path, PathBuf::from(format!("{name}-2")));
        let why = take(Some(&first.path), "demo").unwrap_err().to_string();
        assert!(why.contains("another demo is running in") && why.contains("hint: "), "{why}");
        drop(first);
        assert_eq!(take(None, &name).unwrap().path, PathBuf::from(&name));
    }
}
