//! # Recordings as a file system
//!
//! Each datastream of each scan is one read-only file, whatever its chunks and disks are: recordings of Skyhaul, FlexBuff,
//! and Mark 6. Its bytes are those of `skyhaul cat`, from any offset, verified before they are given.
//!
//! ```text
//!   /mnt/scans/n26c3_mh_no0001 ── read(offset, size) ─▶ segments ─▶ units in memory ─▶ answer
//!        kernel (FUSE)              filesystem              └─▶ disks: threads of each disk ─▶ read, verify
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `options` | what is mounted and how, what happens meanwhile, what was served |
//! | `names`, `segments`, `reads` | pure: names and numbers of files; from a range to units; reads that wait, and the units in memory |
//! | `threads` | a thread of a scan as a file |
//! | `disks` | threads of each disk, which may hang |
//! | `served` | what is served: answers, loading, time limits |
//! | `watch` | scans found on the disks, and those that grow |
//! | `filesystem`, `point` | the kernel's requests; the mount point |
//!
//! Missing and damaged bytes are an input/output error, or fill (0x11223344): never other bytes. A disk that does not answer
//! is an error after a time limit, and immediately once it is known.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod disks;
mod filesystem;
mod names;
mod options;
mod point;
mod reads;
mod segments;
mod served;
mod threads;
mod watch;

pub use options::{MountEvent, MountOptions, MountReport};
pub use skyhaul::recording::ScanPattern;

use crate::filesystem::ScanFilesystem;
use crate::point::{Mounted, Unmounted};
use crate::served::Served;
use crate::watch::Watch;
use fuser::{BackgroundSession, MountOption, Session, SessionACL};
use skyhaul_core::hint::Hint;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Threads that take the kernel's requests; none of them waits for a disk.
const REQUEST_THREADS: usize = 2;
/// Memory without which a reader of several disks would wait for blocks.
const MIN_MEMORY_BYTES: u64 = 32 << 20;

/// Why recordings cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point cannot be used.
    #[error("mount at {}: {why}", .point.display())]
    Point {
        /// The mount point.
        point: PathBuf,
        /// The reason, with a hint.
        why: String,
    },
    /// A disk cannot be read.
    #[error(transparent)]
    Disk(io::Error),
    /// Threads or memory are lacking.
    #[error("prepare the mount: {0}")]
    Start(#[from] io::Error),
}

/// Recordings that are mounted, until this is dropped.
pub struct ScanMount {
    served: Arc<Served>,
    session: Option<BackgroundSession>,
    point: PathBuf,
    /// What happens meanwhile.
    pub events: Receiver<MountEvent>,
}

impl std::fmt::Debug for ScanMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanMount").field("point", &self.point).finish_non_exhaustive()
    }
}

impl ScanMount {
    /// Mount the recordings on some disks at `point`. A mount there whose process is gone is removed first.
    ///
    /// # Errors
    /// See [`MountError`].
    pub fn new(point: &Path, options: MountOptions) -> Result<Self, MountError> {
        let (to, events) = channel();
        if point::mounted(point) == Mounted::Abandoned {
            let refused =
                |error: io::Error| unusable(point, &format!("a mount that nobody serves any more: {error}"));
            point::detach(point).map_err(refused)?;
            let _ = to.send(MountEvent::Removed { point: point.to_owned() });
        }
        check(point, &options)?;
        let options = MountOptions { memory_bytes: options.memory_bytes.max(MIN_MEMORY_BYTES), ..options };
        let allow_other = options.allow_other;
        let served = Served::new(options, to)?;
        let mut watch = Watch::default();
        let ready = watch.pass(&served);
        if let Some((disk, error)) = ready {
            served.is_ending.store(true, Ordering::Relaxed);
            return Err(MountError::Disk(skyhaul_io::file::failed("read disk", &disk, &error)));
        }
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::FSName(point::SOURCE.to_owned()),
            MountOption::Subtype(point::SOURCE.to_owned()),
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::DefaultPermissions,
        ];
        config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(REQUEST_THREADS);
        config.clone_fd = true;
        let mounted = Session::new(ScanFilesystem::new(Arc::clone(&served)), point, &config);
        let session = mounted.and_then(Session::spawn).map_err(|error| {
            served.is_ending.store(true, Ordering::Relaxed);
            unusable(point, &refusal(&error, allow_other))
        })?;
        point::set_read_ahead(point, filesystem::MAX_READ_BYTES);
        let of_watch = Arc::clone(&served);
        std::thread::Builder::new().name("scan-watch".into()).spawn(move || watch.run(&of_watch))?;
        Ok(Self { served, session: Some(session), point: point.to_owned(), events })
    }

    /// Whether it is still mounted: somebody else may have unmounted it.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// What was served so far.
    #[must_use]
    pub fn report(&self) -> MountReport {
        let (tree, counters) = (self.served.tree(), &self.served.counters);
        let mut report = MountReport {
            files: tree.by_name.len() as u64,
            open: self.served.open.load(Ordering::Relaxed) as u64,
            reads: counters.reads.load(Ordering::Relaxed),
            read_bytes: counters.bytes.load(Ordering::Relaxed),
            errors: counters.errors.load(Ordering::Relaxed),
            gaps: counters.gaps.load(Ordering::Relaxed),
            ..MountReport::default()
        };
        for file in tree.by_name.values() {
            report.file_bytes = report.file_bytes.saturating_add(file.bytes());
            report.growing += u64::from(file.state().layout.is_growing);
        }
        report
    }

    /// Unmount. Files that are open can be read for at most `grace` longer; readers get an error after that. `told` hears that
    /// it waits for them, and ends the waiting by returning `false`.
    ///
    /// # Errors
    /// It cannot be unmounted.
    pub fn unmount(
        mut self,
        grace: Duration,
        mut told: impl FnMut(&MountEvent) -> bool,
    ) -> io::Result<MountReport> {
        let Some(session) = self.session.take() else { return Ok(self.report()) };
        let how = if session.guard.is_finished() { Unmounted::Whole } else { point::detach(&self.point)? };
        let until = Instant::now() + grace;
        if how == Unmounted::Lazily {
            let event = MountEvent::StillOpen { files: self.served.open.load(Ordering::Relaxed) as u64 };
            while !session.guard.is_finished() && Instant::now() < until && told(&event) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let report = self.report();
        // Its own end would unmount once more, and wait for readers.
        std::mem::forget(session);
        Ok(report)
    }
}

impl Drop for ScanMount {
    fn drop(&mut self) {
        self.served.is_ending.store(true, Ordering::Relaxed);
        if let Some(session) = self.session.take() {
            let _ = point::detach(&self.point);
            std::mem::forget(session);
        }
    }
}

fn unusable(point: &Path, why: &str) -> MountError {
    MountError::Point { point: point.to_owned(), why: why.to_owned() }
}

/// Whether recordings of these disks can be mounted at `point`.
fn check(point: &Path, options: &MountOptions) -> Result<(), MountError> {
    let shown = point.display();
    match point::mounted(point) {
        Mounted::Served => {
            let hint = Hint(format_args!("unmount it first: umount {shown}"));
            return Err(unusable(point, &format!("recordings are mounted there already{hint}")));
        }
        Mounted::Other if rustix::fs::statvfs(point).is_err() => {
            let hint = Hint(format_args!("see `findmnt {shown}`; then: umount -l {shown}"));
            return Err(unusable(
                point,
                &format!("another file system is mounted there, and does not answer{hint}"),
            ));
        }
        Mounted::Nothing | Mounted::Abandoned | Mounted::Other => {}
    }
    let real = std::fs::canonicalize(point).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("no such directory{}", Hint(format_args!("create it: mkdir -p {shown}")))
            }
            _ => error.to_string(),
        };
        unusable(point, &why)
    })?;
    if !real.is_dir() {
        return Err(unusable(point, &format!("not a directory{}", Hint("name an empty directory"))));
    }
    if std::fs::read_dir(&real).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(unusable(
            point,
            &format!("the directory is not empty{}", Hint("name an empty directory")),
        ));
    }
    for disk in &options.disks {
        let inside = std::fs::canonicalize(disk).is_ok_and(|disk| real.starts_with(disk));
        if inside {
            let hint = Hint("mount the recordings outside of their disks");
            return Err(unusable(
                point,
                &format!("it lies on {}, which is searched for scans{hint}", disk.display()),
            ));
        }
    }
    Ok(())
}

/// Why the kernel or the helper refuses to mount.
fn refusal(error: &io::Error, allow_other: bool) -> String {
    if !Path::new("/dev/fuse").exists() {
        return format!("this machine has no /dev/fuse{}", Hint("load the module: modprobe fuse"));
    }
    let text = error.to_string();
    if error.kind() == io::ErrorKind::NotFound {
        let hint = Hint("install it with `apt-get install fuse3`, or run as root");
        return format!("mounting without root needs fusermount3, which is not installed{hint}");
    }
    if allow_other && text.contains("user_allow_other") {
        return format!(
            "other users may not be allowed in{}",
            Hint("set user_allow_other in /etc/fuse.conf, run as root, or omit --allow-other")
        );
    }
    if error.kind() == io::ErrorKind::PermissionDenied {
        return format!(
            "{text}{}",
            Hint("check the permissions of /dev/fuse and of the directory, or run as root")
        );
    }
    text.trim().to_owned()
}
