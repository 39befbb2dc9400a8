//! A file system that simulates failures: kills at any operation, power cuts, and syncs that fail once.
//!
//! It works on real files. For every write that is not yet durable, it keeps the previous bytes:
//!
//! ```text
//!   write ─▶ old bytes kept ─▶ file        sync ─▶ they are forgotten: the write is durable
//!                 │                        sync that fails ─▶ some of them come back, and the next sync succeeds
//!                 └─ power cut ─▶ some of them come back
//! ```
//!
//! So code that trusts a second sync after a failed one gets wrong bytes in its file. A seed decides which writes are
//! lost.
//!
//! It is the same with names ([`names`](super::names)): after a sync of their directory that failed they are still seen, the next sync
//! succeeds, and a power cut takes them. A name that is made anew after the failure is durable with the next sync.
//!
//! Limits: files opened past the page cache keep no previous bytes unless they are read as whole pages; those of names.

use super::names::FreshNames;
use crate::lock::lock;
use rustix::io::Errno;
use skyhaul_core::hint::Hint;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Bytes that a write replaced.
#[derive(Debug)]
struct Old {
    offset: u64,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    random: u64,
    operations: u64,
    syncs: u64,
    /// From this operation on, no operation takes effect.
    killed_at: Option<u64>,
    /// Numbers of the syncs that fail, from 1 on.
    failing: BTreeSet<u64>,
    /// What is not durable, by device and inode.
    fresh: HashMap<(u64, u64), (File, Vec<Old>)>,
    names: FreshNames,
}

impl State {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Another operation that changes something.
    fn operation(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.killed_at {
            Some(at) if self.operations > at => Err(Errno::IO.into()),
            _ => Ok(()),
        }
    }

    /// Some of the writes to a file that are not durable never happened.
    fn lose(&mut self, of: (u64, u64)) {
        let Some((file, writes)) = self.fresh.remove(&of) else { return };
        // The last first: a later write may lie over an earlier one.
        let mut lost = false;
        for (at, old) in writes.iter().enumerate().rev() {
            // At least one, or nothing would be tested.
            let last = at == 0 && !lost;
            if last || self.next().is_multiple_of(2) {
                lost = true;
                let _ = file.write_all_at(&old.bytes, old.offset);
            }
        }
    }
}

/// Such a file system; clones are the same one.
#[derive(Clone, Debug)]
pub struct FailingDisk(Arc<Mutex<State>>);

impl PartialEq for FailingDisk {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl FailingDisk {
    /// A file system that does not fail yet; `seed` decides what is lost later.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { random: seed | 1, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Simulate a kill: `operations` more writes, syncs and renames take effect, and nothing after them.
    pub fn kill_after(&self, operations: u64) {
        let mut state = self.state();
        state.killed_at = Some(state.operations + operations);
    }

    /// The next sync but `n` fails, once, and writes since the one before it are lost.
    pub fn fail_sync_after(&self, n: u64) {
        let mut state = self.state();
        let at = state.syncs + n + 1;
        state.failing.insert(at);
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes it work again; data that are not durable stay, as after a kill.
    pub fn restart(&self) {
        let mut state = self.state();
        state.killed_at = None;
        state.failing.clear();
    }

    /// Loses some of the data that are not durable, and makes it work again.
    pub fn cut_power(&self) {
        let mut state = self.state();
        let mut files: Vec<(u64, u64)> = state.fresh.keys().copied().collect();
        files.sort_unstable();
        files.into_iter().for_each(|file| state.lose(file));
        let mut random = state.random;
        state.names.cut_power(&mut || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 63 == 0
        });
        drop(state);
        self.restart();
    }

    /// A change of names, lengths or permissions.
    pub(super) fn changes(&self) -> io::Result<()> {
        self.state().operation()
    }

    /// `bytes` at `offset` are about to be replaced.
    pub(super) fn writes(&self, file: &File, offset: u64, bytes: usize) -> io::Result<()> {
        let mut state = self.state();
        state.operation()?;
        let status = file.metadata()?;
        let mut old = vec![0; bytes];
        let mut filled = 0;
        // Data not yet written reads as zeros, as after a power failure.
        while filled < bytes {
            match file.read_at(&mut old[filled..], offset + filled as u64) {
                Ok(n) if n > 0 => filled += n,
                _ => break,
            }
        }
        let of = (status.dev(), status.ino());
        if let Some((_, writes)) = state.fresh.get_mut(&of) {
            writes.push(Old { offset, bytes: old });
        } else {
            // Opened again, because a clone would keep the lock of the file that is written.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let file = File::options().read(true).write(true).open(path)?;
            state.fresh.insert(of, (file, vec![Old { offset, bytes: old }]));
        }
        Ok(())
    }

    /// A file is about to be synced.
    pub(super) fn syncs(&self, file: &File) -> io::Result<()> {
        let status = file.metadata()?;
        let of = (status.dev(), status.ino());
        let mut state = self.state();
        state.operation()?;
        state.syncs += 1;
        let number = state.syncs;
        if state.failing.remove(&number) {
            state.lose(of);
            state.names.failed(of);
            return Err(Errno::IO.into());
        }
        state.fresh.remove(&of);
        state.names.durable(of);
        Ok(())
    }

    /// A name was made in a directory, or given to what had the second one there; it replaced another unless it is new.
    fn named(&self, directory: &File, names: (&OsStr, Option<&OsStr>), is_new: bool) -> io::Result<()> {
        self.state().names.named(directory, names, is_new)
    }
}

/// Faults of a disk.
///
/// Injected disk faults, so that every failure path can be tested and demonstrated.
///
/// Written as text: `slow=200,latency=50ms,open=3s,enospc=64MiB,eio=16MiB,eagain=3,esync=2`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Every write takes this many times as long as it would without the fault.
    pub slow: Option<f64>,
    /// Every write takes this much longer.
    pub latency: Option<Duration>,
    /// Making a scan's index takes this much longer: the file is there, and is not durable yet.
    pub open: Option<Duration>,
    /// After this many bytes: "no space left on device".
    pub enospc: Option<u64>,
    /// After this many bytes, every write fails with "input/output error".
    pub eio: Option<u64>,
    /// Every request is deferred this many times ("try again") before it is accepted.
    pub eagain: Option<u32>,
    /// A file system that can be killed, and whose syncs can fail.
    pub disk: Option<FailingDisk>,
}

impl Faults {
    /// Write all of `bytes` at `offset`.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.writes(file, offset, bytes.len())?;
        file.write_all_at(bytes, offset)
    }

    /// Makes the bytes of a file durable. If it fails, data written since the last success may be lost, even if a later
    /// call succeeds.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn sync_data(&self, file: &File) -> io::Result<()> {
        self.syncs(file)?;
        file.sync_data()
    }

    /// Make a file with its metadata durable, or a directory.
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_all(&self, file: &File) -> io::Result<()> {
        self.syncs(file)?;
        file.sync_all()
    }

    /// Cut or extend a file.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn set_len(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.changes()?;
        file.set_len(bytes)
    }

    /// Make a range of a file read as zeros, and free its space. Returns whether the file system can do that.
    ///
    /// # Errors
    /// A system error, or that of a fault.
    pub fn punch(&self, file: &File, range: Range<u64>) -> io::Result<bool> {
        self.changes()?;
        super::scratch::punch(file, range)
    }

    /// Before something is written elsewhere.
    pub(super) fn writes(&self, file: &File, offset: u64, bytes: usize) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.writes(file, offset, bytes))
    }

    /// Before the index of a scan that begins is made durable.
    pub fn opens(&self) {
        std::thread::sleep(self.open.unwrap_or_default());
    }

    /// Before a file is synced elsewhere.
    pub(super) fn syncs(&self, file: &File) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.syncs(file))
    }

    /// Before names, lengths or permissions are changed elsewhere.
    pub(super) fn changes(&self) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), FailingDisk::changes)
    }

    /// A name was made in a directory, or given to what had the second one there; it replaced another unless it is new.
    pub(super) fn named(
        &self,
        directory: &File,
        names: (&OsStr, Option<&OsStr>),
        is_new: bool,
    ) -> io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.named(directory, names, is_new))
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }

    /// The error for a write that ends at byte `total` of all bytes given to this disk.
    pub(super) fn error_at(&self, total: u64) -> Option<io::Error> {
        if self.eio.is_some_and(|limit| total > limit) {
            return Some(rustix::io::Errno::IO.into());
        }
        self.enospc.is_some_and(|limit| total > limit).then(|| rustix::io::Errno::NOSPC.into())
    }

    /// The error for a request that has been deferred this often.
    pub(super) fn puts_off(&self, times: u32) -> Option<io::Error> {
        self.eagain.is_some_and(|most| times < most).then(|| rustix::io::Errno::AGAIN.into())
    }

    /// The delay added to a write that took `time`.
    pub(super) fn delay(&self, time: Duration) -> Duration {
        let slow = self.slow.map_or(Duration::ZERO, |factor| time.mul_f64((factor - 1.0).clamp(0.0, 1e6)));
        slow + self.latency.unwrap_or_default()
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Faults::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part}: not of the form name=value{}", Hint(EXAMPLE)))?;
            let bad = || format!("{part}: {value} is not a valid value for {name}{}", Hint(EXAMPLE));
            match name {
                "slow" => {
                    let factor = value.trim_end_matches('x').parse::<f64>().map_err(|_| bad())?;
                    faults.slow = Some(factor).filter(|f| (1.0..=1e6).contains(f)).ok_or_else(bad)?.into();
                }
                "latency" => faults.latency = Some(duration(value).ok_or_else(bad)?),
                "open" => faults.open = Some(duration(value).ok_or_else(bad)?),
                "enospc" => faults.enospc = Some(bytes(value).ok_or_else(bad)?),
                "eio" => faults.eio = Some(bytes(value).ok_or_else(bad)?),
                "esync" => {
                    let number = value.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(bad)?;
                    faults.disk.get_or_insert_with(|| FailingDisk::new(number)).fail_sync_after(number - 1);
                }
                "eagain" => faults.eagain = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(format!("{name}: unknown{}", Hint(EXAMPLE))),
            }
        }
        Ok(faults)
    }
}

const EXAMPLE: &str = "use any of slow=200,latency=20ms,open=3s,enospc=1GiB,eio=1GiB,eagain=3,esync=2";

fn split(text: &str) -> (f64, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..end].parse().unwrap_or(-1.0), &text[end..])
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text);
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * scale).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let scale = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    let product = number * scale;
    (0.0..1e18).contains(&product).then_some(product as u64)
}

#[cfg(test)]
mod tests {
    use super::super::Faults;
    use super::*;

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_sync_that_fails_loses_what_it_was_for_and_the_next_one_succeeds() {
        let disk = FailingDisk::new(7);
        let faults = Faults { disk: Some(disk.clone()), ..Faults::default() };
        let file = file();
        faults.write_all_at(&file, b"durable", 0).unwrap();
        faults.sync_data(&file).unwrap();
        faults.write_all_at(&file, b"LOST", 0).unwrap();
        disk.fail_sync_after(0);
        assert!(faults.sync_data(&file).is_err());
        faults.sync_data(&file).unwrap();
        assert_eq!(content(&file), b"durable");
    }

    #[test]
    fn nothing_happens_after_a_kill_and_a_power_cut_loses_what_was_not_durable() {
        let disk = FailingDisk::new(7);
        let faults = Faults { disk: Some(disk.clone()), ..Faults::default() };
        let file = file();
        faults.write_all_at(&file, b"first", 0).unwrap();
        disk.kill_after(1);
        faults.write_all_at(&file, b"FI", 0).unwrap();
        assert!(faults.write_all_at(&file, b"xx", 0).is_err() && faults.sync_data(&file).is_err());
        assert_eq!(content(&file), b"FIrst");
        disk.cut_power();
        assert_ne!(content(&file), b"FIrst");
        faults.sync_data(&file).unwrap();
    }
}
