//! The directory of a demo: one demo at a time in it, and nothing of others removed from it.

use anyhow::{Result, bail};
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
            say!("another demo runs in {}: this one is in {}", names[0].display(), path.display());
        }
        return Ok(Place { path: path.clone(), _lock: lock });
    }
    bail!("another demo runs in {}\nhint: name another place with --directory DIR", names[0].display());
}

/// Remove the scans of a demo from a disk, and the disk if nothing else is on it.
pub(super) fn clear(disk: &Path, scan: &str) {
    let entries = fs::read_dir(disk).into_iter().flatten().flatten();
    // Attempts at other rates have a letter behind the name.
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(scan));
    own.for_each(|entry| drop(fs::remove_dir_all(entry.path())));
    let _ = fs::remove_dir(disk);
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
        assert!(why.contains("another demo runs in") && why.contains("hint: "), "{why}");
        drop(first);
        assert_eq!(take(None, &name).unwrap().path, PathBuf::from(&name));
    }

    #[test]
    fn what_is_not_of_the_demo_stays() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk1");
        for scan in ["demo_sk_no0001", "demo_sk_no0001a", "exp_st_no0007"] {
            fs::create_dir_all(disk.join(scan)).unwrap();
            fs::write(disk.join(scan).join("chunk"), "").unwrap();
        }
        clear(&disk, "demo_sk_no0001");
        assert!(disk.join("exp_st_no0007/chunk").exists() && !disk.join("demo_sk_no0001a").exists());
        fs::remove_dir_all(disk.join("exp_st_no0007")).unwrap();
        clear(&disk, "demo_sk_no0001");
        assert!(!disk.exists());
    }
}
