//! A share of one processor: a program's performance on half a processor shows what it would do at twice the rate.
//!
//! ```text
//!   control group   ██░░██░░██░░██░░   runs for its share of each period, then waits for the next
//!   competing load  █░█░██░░█░█░       a busy thread of the same priority has the other half
//! ```
//!
//! A control group needs a privilege (root, or a session to which the controller was delegated). Periods are as short as
//! the kernel allows, 4 ms for shares from 25 % on: packets that arrive while the program waits must fit its socket's
//! buffer. The kernel enforces the share only at its ticks, so a wait may be one or two ticks longer; excess time is
//! subtracted from the next periods.
//!
//! Without that privilege, half a processor is still possible: one busy thread competes with the program on the same
//! processor with the same priority. A program with two busy threads then gets two thirds.
//!
//! Limits: the program must stay on that CPU ([`super::program`] ensures it).

use super::thread;
use crate::address::system_text;
use crate::quantity::Share;
use skyhaul_core::hint::Hint;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// A limit for a program. It ends when this is dropped.
#[derive(Debug)]
pub struct Limit {
    share: Share,
    cpu: usize,
    by: By,
}

#[derive(Debug)]
enum By {
    /// All of the processor.
    Nothing,
    Group(Cgroup),
    Load(Option<Load>),
}

impl Limit {
    /// A share of processor `cpu`, by the best means available. It applies from [`begin`](Self::begin) on.
    ///
    /// # Errors
    /// If no control group can be made, and the share is not a half.
    pub fn new(share: Share, cpu: usize) -> io::Result<Self> {
        Self::by(share, cpu, Cgroup::new)
    }

    /// No limit.
    #[must_use]
    pub fn none() -> Self {
        Self { share: Share::WHOLE, cpu: 0, by: By::Nothing }
    }

    fn by(share: Share, cpu: usize, group: impl Fn() -> io::Result<Cgroup>) -> io::Result<Self> {
        let by = if share.percent() == 100 {
            By::Nothing
        } else {
            match group() {
                Ok(group) => By::Group(group),
                Err(_) if share.percent() == 50 => By::Load(None),
                Err(why) => {
                    let text = format!(
                        "limit a program to {share} of a processor: {why}{}",
                        Hint("run as root; for 50% no privilege is needed")
                    );
                    return Err(io::Error::new(why.kind(), text));
                }
            }
        };
        Ok(Self { share, cpu, by })
    }

    /// Apply the limit from here on.
    ///
    /// # Errors
    /// If the kernel rejects the share or the CPU.
    pub fn begin(&mut self) -> io::Result<()> {
        match &mut self.by {
            By::Nothing => Ok(()),
            By::Group(group) => group.allow(self.share),
            By::Load(load) => {
                *load = Some(Load::start(self.cpu)?);
                Ok(())
            }
        }
    }

    /// The file to which a process writes `0` to enter the control group, if there is one.
    pub(super) fn entrance(&self) -> io::Result<Option<File>> {
        match &self.by {
            By::Group(group) => group.entrance().map(Some),
            By::Nothing | By::Load(_) => Ok(None),
        }
    }

    /// Whether the kernel enforces the share, regardless of the number of threads.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !matches!(self.by, By::Load(_))
    }

    /// A description of the means.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.by {
            By::Nothing => "no limit".into(),
            By::Group(group) => group.describe(self.share),
            By::Load(_) => "a competing load: one busy thread of the same priority on the same CPU".into(),
        }
    }
}

/// A busy thread.
#[derive(Debug)]
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(cpu: usize) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let ends = stop.clone();
        let thread = std::thread::Builder::new().name("competing-load".into()).spawn(move || {
            let pinned = thread::pin(cpu);
            let runs = pinned.is_ok();
            let _ = tell.send(pinned);
            while runs && !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })?;
        let load = Self { stop, thread: Some(thread) };
        told.recv().map_err(|_| io::Error::other("the competing load ended early"))??;
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shortest period, µs: packets that arrive during a wait are in the socket's buffer.
const PERIOD: u64 = 4000;
/// Minimum quota and period of the kernel, µs.
const LEAST: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A directory of the hierarchy in which a group may be possible.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    version: Version,
    path: PathBuf,
}

/// A control group, removed when this is dropped.
///
/// A control group with a share of a processor, in either version of Linux's control groups.
///
/// | | version 2 | version 1 |
/// |---|---|---|
/// | share | `cpu.max`: quota and period, µs | `cpu.cfs_quota_us`, `cpu.cfs_period_us` |
/// | members | `cgroup.procs` | `cgroup.procs` |
/// | location | beside the group of this process, because a group with processes cannot contain limited groups; or at the root | in the group of this process, or at the root |
///
/// (Linux, `Documentation/admin-guide/cgroup-v2.rst`, "CPU"; `Documentation/scheduler/sched-bwc.rst`.)
#[derive(Debug)]
struct Cgroup {
    version: Version,
    path: PathBuf,
}

impl Cgroup {
    /// A group without a limit yet.
    ///
    /// # Errors
    /// If this process may not make one anywhere.
    fn new() -> io::Result<Self> {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut last =
            io::Error::new(io::ErrorKind::Unsupported, "this system has no control groups for processors");
        for parent in parents(&text("/proc/self/mounts"), &text("/proc/self/cgroup")) {
            match Self::within(&parent) {
                Ok(group) => return Ok(group),
                Err(error) => {
                    let text =
                        format!("make a control group in {}: {}", parent.path.display(), system_text(&error));
                    last = io::Error::new(error.kind(), text);
                }
            }
        }
        Err(last)
    }

    fn within(parent: &Parent) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if parent.version == Version::Two {
            let given = parent.path.join("cgroup.subtree_control");
            if !fs::read_to_string(&given)?.split_whitespace().any(|name| name == "cpu") {
                fs::write(&given, "+cpu")?;
            }
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.path.join(format!("skyhaul-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        // A failure from here on removes the directory.
        let group = Self { version: parent.version, path };
        group.entrance()?;
        fs::OpenOptions::new().write(true).open(group.path.join(group.quota_file()))?;
        Ok(group)
    }

    fn quota_file(&self) -> &'static str {
        match self.version {
            Version::One => "cpu.cfs_quota_us",
            Version::Two => "cpu.max",
        }
    }

    /// The file to which a process writes `0` to enter the group.
    fn entrance(&self) -> io::Result<File> {
        fs::OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))
    }

    /// Limit all members together to this share.
    fn allow(&self, share: Share) -> io::Result<()> {
        let (quota, period) = quota(share);
        let write = |name: &str, text: String| {
            let path = self.path.join(name);
            fs::write(&path, text).map_err(|error| crate::file::failed("write", &path, &error))
        };
        match self.version {
            Version::One => {
                write("cpu.cfs_period_us", period.to_string())?;
                write("cpu.cfs_quota_us", quota.to_string())
            }
            Version::Two => write("cpu.max", format!("{quota} {period}")),
        }
    }

    fn describe(&self, share: Share) -> String {
        let (quota, period) = quota(share);
        let version = if self.version == Version::Two { "v2" } else { "v1" };
        let milli = |micros: u64| micros as f64 / 1000.0;
        format!("a control group ({version}): {} of every {} ms", milli(quota), milli(period))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel counts a killed process as a member for a moment longer.
        for _ in 0..100 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}

/// Quota and period of a share, µs.
fn quota(share: Share) -> (u64, u64) {
    let percent = u64::from(share.percent());
    let period = PERIOD.max((LEAST * 100).div_ceil(percent));
    (period * percent / 100, period)
}

/// Candidates for the location of a group, best first, from `/proc/self/mounts` and `/proc/self/cgroup`.
fn parents(mounts: &str, own: &str) -> Vec<Parent> {
    let mut all = Vec::new();
    for wanted in [Version::Two, Version::One] {
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let &[_, at, kind, options, ..] = &fields[..] else { continue };
            let version = match kind {
                "cgroup2" => Version::Two,
                "cgroup" if options.split(',').any(|option| option == "cpu") => Version::One,
                _ => continue,
            };
            if version != wanted {
                continue;
            }
            let mount = Path::new(at);
            let own = mount.join(own_group(own, version).trim_start_matches('/'));
            // In version 2, the group of this process cannot contain limited groups; its siblings can.
            let near = if version == Version::Two && own != mount { own.parent() } else { Some(&*own) };
            for path in near.into_iter().chain([mount]) {
                let parent = Parent { version, path: path.to_path_buf() };
                if !all.contains(&parent) {
                    all.push(parent);
                }
            }
        }
    }
    all
}

/// The group of this process: a line is `number:controllers:path`, without number and controllers in version 2.
fn own_group(text: &str, version: Version) -> &str {
    let of = |line: &'_ str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let right = match version {
            Version::One => controllers.split(',').any(|name| name == "cpu"),
            Version::Two => controllers.is_empty(),
        };
        right.then_some(path.len())
    };
    let found = text.lines().find_map(|line| of(line).map(|length| &line[line.len() - length..]));
    found.unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn nowhere() -> io::Result<Cgroup> {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "make a control group: Permission denied"))
    }

    #[test]
    fn without_control_groups_there_is_half_a_processor_or_a_hint() {
        let limit = Limit::by("50%".parse().unwrap(), 0, nowhere).unwrap();
        assert!(!limit.is_exact() && limit.describe().contains("competing load"), "{limit:?}");
        let said = Limit::by("30%".parse().unwrap(), 0, nowhere).unwrap_err().to_string();
        assert!(said.contains("30% of a processor") && said.contains("; hint: run as root"), "{said}");
        assert!(Limit::by("100%".parse().unwrap(), 0, nowhere).unwrap().is_exact());
    }

    #[test]
    fn a_load_competes_from_its_beginning_to_its_end() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
        let mut limit = Limit::by("50%".parse().unwrap(), cpu, nowhere).unwrap();
        let before = thread::process_cpu_time();
        limit.begin().unwrap();
        let begun = Instant::now();
        while thread::process_cpu_time() - before < Duration::from_millis(5) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is busy");
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(limit);
        let said = Load::start(usize::MAX).unwrap_err().to_string();
        assert!(said.contains("hint: "), "{said}");
    }

    fn parent(version: Version, path: &str) -> Parent {
        Parent { version, path: path.into() }
    }

    #[test]
    fn quotas_are_short_and_such_as_the_kernel_takes() {
        for percent in 1..=99 {
            let (quota, period) = quota(format!("{percent}%").parse().unwrap());
            assert!(quota >= LEAST && (PERIOD..=100_000).contains(&period), "{percent}: {quota} {period}");
            let share = quota as f64 / period as f64 * 100.0;
            assert!((share - f64::from(percent)).abs() < 0.1, "{percent}: {share}");
        }
        assert_eq!(quota("50%".parse().unwrap()), (2000, 4000));
        assert_eq!(quota("10%".parse().unwrap()), (1000, 10_000));
    }

    #[test]
    fn places_in_both_versions_best_first() {
        let mounts = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nproc /proc proc rw 0 0\n";
        let own = "3:cpuset:/x\n2:cpu,cpuacct:/a:b\n0::/user.slice/app.slice/shell.scope\n";
        assert_eq!(
            parents(mounts, own),
            [
                parent(Version::Two, "/sys/fs/cgroup/unified/user.slice/app.slice"),
                parent(Version::Two, "/sys/fs/cgroup/unified"),
                parent(Version::One, "/sys/fs/cgroup/cpu,cpuacct/a:b"),
                parent(Version::One, "/sys/fs/cgroup/cpu,cpuacct"),
            ]
        );
        assert_eq!(
            parents("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/\n"),
            [parent(Version::Two, "/sys/fs/cgroup")]
        );
        assert!(parents("", "").is_empty());
    }

    #[test]
    fn a_group_goes_when_it_is_dropped() {
        let group = match Cgroup::new() {
            Ok(group) => group,
            Err(why) => return println!("SKIPPED: {why} (run as root)"),
        };
        group.allow("50%".parse().unwrap()).unwrap();
        let path = group.path.clone();
        assert!(path.is_dir(), "{}", path.display());
        drop(group);
        assert!(!path.exists(), "{}", path.display());
    }
}
