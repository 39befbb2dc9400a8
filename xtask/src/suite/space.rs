//! Whether the disks have room for the tests: without it, hundreds fail towards the end, each in its own words.

use crate::workspace;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What tests write at one time, MiB: recordings, files that stand for disks. Measured with 2 processors: 2.6 GiB.
const TESTS: u64 = 4 << 10;
/// What is built in a fresh clone, MiB. Measured: 2.4 GiB.
const BUILD: u64 = 3 << 10;

/// # Errors
/// A disk that the tests write to has too little free space.
pub(super) fn check() -> Result<()> {
    let root = workspace::root();
    let build = if root.join("target/debug/deps").exists() { 0 } else { BUILD };
    let mut disks = BTreeMap::<String, (u64, u64, PathBuf)>::new();
    for (place, needed) in [(root, build), (std::env::temp_dir(), TESTS)] {
        let Some((disk, free)) = free(&place) else { continue };
        disks.entry(disk).or_insert((free, 0, place)).1 += needed;
    }
    for (free, needed, place) in disks.into_values() {
        let remedy = "delete what is not needed, or set TMPDIR to a directory on another disk";
        ensure!(
            free >= needed,
            "{} has {free} MiB free, and the tests need {needed} MiB: {remedy}",
            place.display()
        );
    }
    Ok(())
}

/// The disk of a directory, and what is free on it, MiB; `None` if `df` does not say.
fn free(place: &Path) -> Option<(String, u64)> {
    let output = Command::new("df").arg("-Pm").arg(place).env("LC_ALL", "C").output().ok()?;
    of_table(&String::from_utf8_lossy(&output.stdout))
}

/// POSIX: `Filesystem 1048576-blocks Used Available Capacity Mounted on`.
fn of_table(table: &str) -> Option<(String, u64)> {
    let line = table.lines().nth(1)?;
    Some((line.split_whitespace().next()?.to_owned(), line.split_whitespace().nth(3)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_read() {
        let table = "Filesystem 1048576-blocks Used Available Capacity Mounted on\n/dev/vda 258000 21000 70000 23% /\n";
        assert_eq!(of_table(table), Some(("/dev/vda".to_owned(), 70_000)));
        assert_eq!(of_table("df: /x: No such file or directory"), None);
        assert!(free(Path::new("/")).is_some());
    }
}
