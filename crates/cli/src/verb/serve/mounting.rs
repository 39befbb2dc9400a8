//! Scans as files while the station runs: `[station.mount]`.
//!
//! The mount has a thread of its own. Its first look at the disks, a disk that hangs and a client that keeps a file open delay neither
//! recordings nor the end of the service by more than the time limit of the mount.

use crate::print::counted;
use crate::verb::mount::tell;
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
    pub(super) fn start(config: MountConfig) -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let (of_thread, timeout) = (Arc::clone(&is_ending), config.options.timeout);
        let run = move || run(config, &of_thread);
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

/// Mounts the scans and reports events until the service ends.
fn run(config: MountConfig, is_ending: &AtomicBool) {
    let (point, timeout) = (config.point.clone(), config.options.timeout);
    let mount = match ScanMount::new(&config.point, config.options) {
        Ok(mount) => mount,
        Err(error) => {
            say!("scans are not mounted: {error}");
            return;
        }
    };
    say!("scans on {}: {}", point.display(), counted(mount.report().files, "file"));
    let mut gaps = 0;
    while mount.is_mounted() && !is_ending.load(Ordering::Relaxed) {
        match mount.events.recv_timeout(POLL_INTERVAL) {
            Ok(event) => tell(&event, &mut gaps),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if !is_ending.load(Ordering::Relaxed) {
        say!("scans on {}: unmounted by another program; restart the service to mount them", point.display());
    }
    let mut is_told = false;
    let unmounted = mount.unmount(timeout, |event| {
        if !std::mem::replace(&mut is_told, true) {
            tell(event, &mut gaps);
        }
        true
    });
    if let Err(error) = unmounted {
        say!("scans on {}: {error}", point.display());
    }
}
