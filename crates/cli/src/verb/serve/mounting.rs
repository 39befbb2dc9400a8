//! Scans as files while the station runs: `[station.mount]`.
//!
//! The mount has a thread of its own. Its first look at the disks, a disk that hangs and a client that keeps a file open delay neither
//! recordings nor the end of the service by more than the time limit of the mount. A mount that fails is tried again, and the station shows it
//! until it stands.

use crate::print::counted;
use crate::verb::mount::tell;
use skyhaul_daemon::station::MountSigns;
use skyhaul_mount::{MountOptions, ScanMount};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The pause before a further attempt to mount: twice as long each time, up to the second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How long the end may take besides the time limit of readers.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Where scans are mounted, and how.
#[derive(Debug)]
pub(super) struct MountConfig {
    pub(super) point: PathBuf,
    pub(super) options: MountOptions,
}

/// Mounted scans; they are unmounted when this is dropped.
pub(super) struct StationMount {
    is_ending: Arc<AtomicBool>,
    timeout: Duration,
    thread: Option<JoinHandle<()>>,
}

impl StationMount {
    /// Begins to mount.
    pub(super) fn start(config: MountConfig, signs: MountSigns) -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let (of_thread, timeout) = (Arc::clone(&is_ending), config.options.timeout);
        let run = move || run(&config, &signs, &of_thread);
        let thread = Some(std::thread::Builder::new().name("station-mount".into()).spawn(run)?);
        Ok(Self { is_ending, timeout, thread })
    }
}

impl Drop for StationMount {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let until = Instant::now() + self.timeout + END_TIMEOUT;
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        // The kernel ends what is left of it with this process.
    }
}

/// Mounts the scans until the service ends: again, after a pause, if that fails or another program unmounts them.
fn run(config: &MountConfig, signs: &MountSigns, is_ending: &AtomicBool) {
    let mut pause = FIRST_PAUSE;
    while !is_ending.load(Ordering::Relaxed) {
        let begun = Instant::now();
        match ScanMount::new(&config.point, config.options.clone()) {
            Ok(mount) => serve(mount, config, signs, is_ending),
            Err(error) => {
                if signs.failed(&error.to_string()) {
                    say!("scans are not mounted, which is tried again: {error}");
                }
            }
        }
        // One that has lasted is mounted again soon.
        if begun.elapsed() >= MAX_PAUSE {
            pause = FIRST_PAUSE;
        }
        let until = Instant::now() + pause;
        while !is_ending.load(Ordering::Relaxed) && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Reports events of a mount until the service ends, or another program unmounts it.
fn serve(mount: ScanMount, config: &MountConfig, signs: &MountSigns, is_ending: &AtomicBool) {
    let (point, files) = (config.point.display(), mount.report().files);
    say!("scans on {point}: {}", counted(files, "file"));
    signs.mounted(files);
    let mut gaps = 0;
    while mount.is_mounted() && !is_ending.load(Ordering::Relaxed) {
        match mount.events.recv_timeout(POLL_INTERVAL) {
            Ok(event) => tell(&event, &mut gaps),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if !is_ending.load(Ordering::Relaxed) {
        say!("scans on {point}: unmounted by another program; they are mounted again");
        signs.failed("unmounted by another program");
    }
    let mut is_told = false;
    let unmounted = mount.unmount(config.options.timeout, |event| {
        if !std::mem::replace(&mut is_told, true) {
            tell(event, &mut gaps);
        }
        true
    });
    if let Err(error) = unmounted {
        say!("scans on {point}: {error}");
    }
}
