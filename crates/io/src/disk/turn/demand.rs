//! What recorders need of a disk, told to the other processes of this host by files in memory.
//!
//! ```text
//!   /dev/shm/skyhaul-demand-<file system>-<process>   version │ recordings │ pending bytes │ memory percent │ time
//! ```
//!
//! Each recorder writes a file of its own, when its demand changes and four times a second, and removes it at the end. Readers take the
//! sum of all that were written less than [`STALE`] ago, so a recorder that was killed holds nobody back for longer.
//!
//! A file counts only if it belongs to root, to this user, or to the owner of what is read: another user of the host could otherwise hold
//! readers back. Nothing else depends on it: without `/dev/shm`, recordings come first within their own process.

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, geteuid, getpid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use skyhaul_core::disk_turns::WriteDemand;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "/dev/shm";
const VERSION: u64 = 1;
/// Words of a file.
const WORDS: usize = 5;
/// Age from which on a file does not count.
const STALE: Duration = Duration::from_secs(2);
/// How often files are looked for.
const LIST_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of files that are read.
const MAX_FILES: usize = 64;

/// Milliseconds since this host was started, the same for all processes.
fn millis() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.cast_unsigned().saturating_mul(1000) + time.tv_nsec.cast_unsigned() / 1_000_000
}

fn prefix(device: u64) -> String {
    format!("skyhaul-demand-{device:x}-")
}

/// The file of this process for a file system.
#[derive(Debug)]
pub(super) struct Announced {
    path: PathBuf,
    file: File,
    said: Option<(WriteDemand, Instant)>,
}

impl Announced {
    /// Makes it; `None` where that is not possible.
    pub(super) fn new(device: u64) -> Option<Self> {
        remove_left_over(&prefix(device));
        let process = getpid().as_raw_nonzero();
        let path = Path::new(DIRECTORY).join(format!("{}{process}", prefix(device)));
        // One that an earlier process of this number left behind may belong to another user.
        let _ = rustix::fs::unlink(&path);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644)).ok()?;
        Some(Self { path, file: file.into(), said: None })
    }

    /// Writes it if it has changed, or is older than `interval`. How much is pending matters less than whether anything is.
    pub(super) fn say(&mut self, demand: WriteDemand, interval: Duration) {
        let key = |of: &WriteDemand| (of.recordings, of.pending_bytes > 0, of.memory_percent / 5);
        if self.said.as_ref().is_some_and(|(said, at)| key(said) == key(&demand) && at.elapsed() < interval) {
            return;
        }
        self.said = Some((demand, Instant::now()));
        let WriteDemand { recordings, pending_bytes, memory_percent } = demand;
        let words = [VERSION, recordings.into(), pending_bytes, memory_percent.into(), millis()];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // What is not heard gets old.
        let _ = self.file.write_all_at(&bytes, 0);
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// Removes files of processes that have ended.
fn remove_left_over(prefix: &str) {
    for (path, process) in files(prefix) {
        let has_ended = Pid::from_raw(process)
            .is_some_and(|process| test_kill_process(process) == Err(rustix::io::Errno::SRCH));
        if has_ended {
            let _ = rustix::fs::unlink(&path);
        }
    }
}

/// The files for a file system, with their processes.
fn files(prefix: &str) -> Vec<(PathBuf, i32)> {
    let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| {
        let process = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((entry.path(), process))
    };
    entries.filter_map(of).take(MAX_FILES).collect()
}

/// What the recorders of other processes need of a file system.
#[derive(Debug, Default)]
pub(super) struct OtherDemand {
    listed: Option<Instant>,
    looked: Option<Instant>,
    files: Vec<File>,
    demand: WriteDemand,
}

impl OtherDemand {
    /// What was seen last.
    pub(super) fn demand(&self) -> WriteDemand {
        self.demand
    }

    /// Looks, unless that was done less than `interval` ago.
    pub(super) fn look(&mut self, device: u64, owner: u32, interval: Duration) {
        let is_recent = |at: Option<Instant>, time| at.is_some_and(|at| at.elapsed() < time);
        if !is_recent(self.listed, LIST_INTERVAL) {
            (self.listed, self.looked) = (Some(Instant::now()), None);
            let own = getpid().as_raw_nonzero().get();
            let listed = files(&prefix(device)).into_iter().filter(|(_, process)| *process != own);
            self.files = listed.filter_map(|(path, _)| opened(&path, owner)).collect();
        }
        if self.files.is_empty() {
            self.demand = WriteDemand::default();
        } else if !is_recent(self.looked, interval) {
            self.looked = Some(Instant::now());
            let read = self.files.iter().filter_map(read);
            self.demand = read.fold(WriteDemand::default(), WriteDemand::plus);
        }
    }
}

/// A file, if it may be believed.
fn opened(path: &Path, owner: u32) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, Mode::empty()).ok()?.into();
    let status = file.metadata().ok()?;
    let user = status.uid();
    let is_believed = status.is_file() && (user == 0 || user == geteuid().as_raw() || user == owner);
    is_believed.then_some(file)
}

fn read(file: &File) -> Option<WriteDemand> {
    let mut bytes = [0; WORDS * 8];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or_default();
    let [version, recordings, pending_bytes, memory_percent, at] = [next(), next(), next(), next(), next()];
    let age = millis().saturating_sub(at);
    let is_fresh = version == VERSION && u128::from(age) < STALE.as_millis();
    is_fresh.then(|| WriteDemand {
        recordings: u32::try_from(recordings).unwrap_or(u32::MAX),
        pending_bytes,
        memory_percent: u8::try_from(memory_percent).unwrap_or(u8::MAX).min(100),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that no file system here has.
    fn unused() -> u64 {
        u64::from(std::process::id()) << 24 | 0xabc
    }

    #[test]
    fn other_processes_hear_of_a_demand_while_it_is_fresh() {
        let Some(mut announced) = Announced::new(unused()) else {
            // Some containers have no /dev/shm, or a read-only one; recordings then come first within their own process only.
            return println!("SKIPPED: /dev/shm cannot be written to (mount -t tmpfs tmpfs /dev/shm)");
        };
        let demand = WriteDemand { recordings: 2, pending_bytes: 5, memory_percent: 40 };
        announced.say(demand, Duration::ZERO);
        let path = announced.path.clone();
        assert_eq!(read(&opened(&path, 0).unwrap()), Some(demand));
        // Its own is not among those of others.
        let mut others = OtherDemand::default();
        others.look(unused(), 0, Duration::ZERO);
        assert_eq!(others.demand(), WriteDemand::default());
        // One that nobody renews, and one of another version, do not count.
        for (at, word) in [(4, millis() - 2001), (0, VERSION + 1)] {
            announced.said = None;
            announced.say(demand, Duration::ZERO);
            announced.file.write_all_at(&u64::to_ne_bytes(word), at * 8).unwrap();
            assert_eq!(read(&opened(&path, 0).unwrap()), None);
        }
        drop(announced);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_not_followed_and_what_ended_is_removed() {
        let device = unused() + 1;
        let (link, dead) = (format!("{}1", prefix(device)), format!("{}{}", prefix(device), i32::MAX - 1));
        let at = |name: &str| Path::new(DIRECTORY).join(name);
        if std::os::unix::fs::symlink("/proc/self/status", at(&link)).is_err() {
            // Some containers have no /dev/shm, or a read-only one; recordings then come first within their own process only.
            return println!("SKIPPED: /dev/shm cannot be written to (mount -t tmpfs tmpfs /dev/shm)");
        }
        std::fs::write(at(&dead), "").unwrap();
        assert!(opened(&at(&link), 0).is_none());
        drop(Announced::new(device));
        assert!(!at(&dead).exists());
        std::fs::remove_file(at(&link)).unwrap();
    }
}
