//! A block device that fails when it is told to: a file of a FUSE file system which this process serves, as the store of
//! a loop device, with a real file system on it.
//!
//! ```text
//!   recorder ─▶ ext4 ─▶ /dev/loopN ─▶ <mount>/store (FUSE) ─▶ /dev/fuse ─▶ the thread here: bytes, EIO, or silence
//! ```
//!
//! What comes out above is what a broken disk gives: the kernel's own errors, from every call that meets them, a file
//! system that stops trusting its disk, and calls that do not return. One that is [slow](Device::slow) has the rate of a real disk:
//! it serves one request at a time, in order of arrival, each for as long as its bytes take. Needs root; it is gone when the process ends.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags};

/// Bytes of the device: of memory, as far as they are written.
const BYTES: usize = 256 << 20;
const MOST_WRITE: u32 = 1 << 20;
/// Time that a disk with a rate makes up for, because a sleep takes longer than it should.
const OVERSLEPT: Duration = Duration::from_millis(50);

/// How the device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As it should.
    Good,
    /// Every write and sync is an input/output error.
    Errors,
    /// Not at all, until the mode changes.
    Hangs,
}

/// What the thread and the test share.
struct Shared {
    mode: Mutex<Mode>,
    changed: Condvar,
    /// Bytes per second of reads and writes together; 0: as fast as memory.
    rate: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    /// Whether the kernel keeps nothing of it in memory: what is asked of the device comes here.
    is_direct: bool,
}

impl Shared {
    fn new(is_direct: bool) -> Arc<Self> {
        let [rate, read_bytes, written_bytes] = Default::default();
        let (mode, changed) = (Mutex::new(Mode::Good), Condvar::new());
        Arc::new(Self { mode, changed, rate, read_bytes, written_bytes, is_direct })
    }

    /// Takes as long for a request as its bytes take at the rate; `free` is when the disk was done with the one before.
    fn work(&self, operation: u32, bytes: u64, free: &mut Instant) {
        let counter = match operation {
            op::READ => &self.read_bytes,
            op::WRITE => &self.written_bytes,
            _ => return,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        let now = Instant::now();
        if rate == 0 {
            *free = now;
            return;
        }
        let begin = (*free).max(now.checked_sub(OVERSLEPT).unwrap_or(now));
        *free = begin + Duration::from_secs_f64(bytes as f64 / rate as f64);
        std::thread::sleep(free.saturating_duration_since(now));
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.changed.notify_all();
    }

    /// The mode, as soon as it is one that answers.
    fn answering(&self) -> Mode {
        let mut mode = self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        while *mode == Mode::Hangs {
            mode = self.changed.wait(mode).unwrap_or_else(PoisonError::into_inner);
        }
        *mode
    }
}

/// Something mounted, unmounted when it is dropped.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    pub(crate) fn new(what: &Path, options: &[&str], at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(options).arg(what).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }

    pub(crate) fn remount(&self, options: &str) -> bool {
        let mount = Command::new("mount").args(["-o", options]).arg(&self.0).status();
        mount.is_ok_and(|status| status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The device, with a file system on it that is mounted where it was asked for. Unmounted in this order when dropped.
pub(crate) struct Device {
    shared: Arc<Shared>,
    /// The file system on the device.
    pub(crate) disk: Option<Mounted>,
    store: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Device {
    /// A file system on a device of its own, mounted at `at`; or why there is none here.
    pub(crate) fn new(at: &Path) -> Result<Self, String> {
        Self::of(at, BYTES, Shared::new(false))
    }

    /// The same with this size, and a rate when it gets one: [`Device::limit`].
    pub(crate) fn slow(at: &Path, bytes: usize) -> Result<Self, String> {
        Self::of(at, bytes, Shared::new(true))
    }

    fn of(at: &Path, bytes: usize, shared: Arc<Shared>) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("a failing disk needs root (sudo)".into());
        }
        let fuse = File::options().read(true).write(true).open("/dev/fuse");
        let fuse = fuse.map_err(|e| format!("/dev/fuse: {e} (modprobe fuse)"))?;
        let store = at.with_extension("store");
        std::fs::create_dir(&store).unwrap();
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("skyhaul-test", &store, "fuse", flags, Some(data.as_c_str()))
            .map_err(|e| format!("mount -t fuse: {e}"))?;
        let of_thread = shared.clone();
        let thread = Some(std::thread::spawn(move || serve(fuse, bytes, &of_thread)));
        let mut device = Self { shared, disk: None, store, thread };
        let file = device.store.join("store");
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&file).output();
        if !made.is_ok_and(|made| made.status.success()) {
            return Err("mkfs.ext4 does not work here (apt-get install e2fsprogs)".into());
        }
        let options = ["-t", "ext4", "-o", "loop,errors=remount-ro"];
        device.disk = Mounted::new(&file, &options, at);
        if device.disk.is_none() {
            return Err("no loop device can be mounted here (modprobe loop)".into());
        }
        Ok(device)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.shared.set(mode);
    }

    /// Gives it a rate, bytes per second of reads and writes together.
    pub(crate) fn limit(&self, rate: u64) {
        self.shared.rate.store(rate, Ordering::Relaxed);
    }

    /// Bytes that were read from it and written to it.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.shared.read_bytes.load(Ordering::Relaxed), self.shared.written_bytes.load(Ordering::Relaxed))
    }

    /// Lets it hang until what is returned is dropped, also by a test that fails: who waits for a process that waits for
    /// the device would wait for ever.
    pub(crate) fn hang(&self) -> Hanging<'_> {
        self.set(Mode::Hangs);
        Hanging(self)
    }

    /// Mounts the file system again: the kernel then has nothing of it in memory.
    pub(crate) fn mount_again(&mut self) {
        let Some(disk) = self.disk.take() else { return };
        let at = disk.0.clone();
        drop(disk);
        self.forget();
        self.disk = Mounted::new(&self.store.join("store"), &["-t", "ext4", "-o", "loop"], &at);
        assert!(self.disk.is_some(), "it cannot be mounted again");
    }

    /// Let the kernel forget what it has of the device in memory: the next read comes here.
    pub(crate) fn forget(&self) {
        let store = File::open(self.store.join("store")).unwrap();
        store.sync_all().unwrap();
        rustix::fs::fadvise(&store, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// A device that hangs.
pub(crate) struct Hanging<'a>(&'a Device);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.set(Mode::Good);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.set(Mode::Good);
        self.disk = None;
        let _ = rustix::mount::unmount(&self.store, UnmountFlags::DETACH);
        // The thread ends when the loop device has let go of the store.
        if let Some(thread) = self.thread.take().filter(|thread| {
            (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                thread.is_finished()
            })
        }) {
            let _ = thread.join();
        }
    }
}

/// The kernel's protocol, as far as one file needs it (`linux/fuse.h`).
mod op {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// The directory's and the file's numbers.
const ROOT: u64 = 1;
const STORE: u64 = 2;
/// Of a request: length, operation, number, node, user, group, process, two unused.
const HEAD: usize = 40;

/// Answer until it is unmounted.
fn serve(mut fuse: File, size: usize, shared: &Shared) {
    // Memory that this thread asks for must not wait for pages that the kernel writes to this device: it would wait for itself, with all
    // that wait for memory (PR_SET_IO_FLUSHER).
    rustix::process::configure_io_flusher_behavior(true).unwrap();
    let mut bytes = vec![0u8; size];
    let mut request = vec![0u8; MOST_WRITE as usize + 4096];
    let mut free = Instant::now();
    loop {
        let length = match fuse.read(&mut request) {
            Ok(length) => length,
            // Interrupted, or the request was, before it was read.
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::NotFound) => continue,
            Err(_) => return,
        };
        let request = &request[..length];
        let operation = word(request, 4);
        if matches!(operation, op::FORGET | op::BATCH_FORGET | op::INTERRUPT) {
            continue;
        }
        let mode = shared.answering();
        // The length of a read and of a write.
        let length = if request.len() >= HEAD + 20 { word(request, HEAD + 16) } else { 0 };
        shared.work(operation, u64::from(length), &mut free);
        let (error, body) = match answer(operation, request, &mut bytes, (mode, shared.is_direct)) {
            Ok(body) => (0, body),
            Err(error) => (-error.raw_os_error(), Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend((16 + body.len() as u32).to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        // A request that was given up meanwhile has nobody to answer to.
        let _ = fuse.write(&reply);
    }
}

fn word(from: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(from[at..at + 4].try_into().unwrap())
}

fn long(from: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(from[at..at + 8].try_into().unwrap())
}

fn answer(
    operation: u32,
    request: &[u8],
    bytes: &mut [u8],
    (mode, is_direct): (Mode, bool),
) -> Result<Vec<u8>, rustix::io::Errno> {
    use rustix::io::Errno;
    let broken = mode == Mode::Errors;
    let (node, body) = (long(request, 16), &request[HEAD..]);
    match operation {
        op::INIT => {
            let mut out = Vec::new();
            [7, 31, 0, 0].iter().for_each(|n: &u32| out.extend(n.to_ne_bytes()));
            // Requests in the background, and the number at which it is congested.
            out.extend([16u16.to_ne_bytes(), 12u16.to_ne_bytes()].concat());
            [MOST_WRITE, 1, 0].iter().for_each(|n| out.extend(n.to_ne_bytes()));
            out.resize(64, 0);
            Ok(out)
        }
        op::LOOKUP if body.starts_with(b"store\0") => {
            let mut out = Vec::new();
            // Node, generation, and how long both may be believed: for ever.
            [STORE, 0, 1 << 30, 1 << 30, 0].iter().for_each(|n| out.extend(n.to_ne_bytes()));
            out.extend(attributes(STORE, bytes.len()));
            Ok(out)
        }
        op::LOOKUP => Err(Errno::NOENT),
        op::GETATTR | op::SETATTR => {
            Ok([(1u64 << 30).to_ne_bytes().as_slice(), &[0; 8], &attributes(node, bytes.len())].concat())
        }
        // Handle, and FOPEN_DIRECT_IO.
        op::OPEN => Ok([0u64.to_ne_bytes(), u64::from(is_direct).to_ne_bytes()].concat()),
        op::READ => {
            let (at, length) = (long(body, 8) as usize, word(body, 16) as usize);
            let from = at.min(bytes.len());
            Ok(bytes[from..(from + length).min(bytes.len())].to_vec())
        }
        op::WRITE | op::FSYNC if broken => Err(Errno::IO),
        op::WRITE => {
            let (at, length) = (long(body, 8) as usize, word(body, 16) as usize);
            let to = bytes.get_mut(at..at + length).ok_or(Errno::NOSPC)?;
            to.copy_from_slice(&body[40..40 + length]);
            Ok([(length as u32).to_ne_bytes(), [0; 4]].concat())
        }
        op::FSYNC | op::FLUSH | op::RELEASE => Ok(Vec::new()),
        op::STATFS => Ok(vec![0; 80]),
        _ => Err(Errno::NOSYS),
    }
}

/// `fuse_attr`: number, size, blocks, three times and their nanoseconds, mode, links, owner, device, block size.
fn attributes(node: u64, bytes: usize) -> Vec<u8> {
    let (size, mode) = if node == ROOT { (0, 0o040_755) } else { (bytes as u64, 0o100_600) };
    let mut out = Vec::new();
    [node, size, size / 512, 0, 0, 0].iter().for_each(|n: &u64| out.extend(n.to_ne_bytes()));
    [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].iter().for_each(|n: &u32| out.extend(n.to_ne_bytes()));
    out
}
