//! Notifications for systemd (`sd_notify(3)`). Without a service manager, nothing is sent.
//!
//! ```text
//!   READY=1        sockets are open: units ordered after this one may start
//!   STATUS=        inputs, and what is being recorded
//!   WATCHDOG=1     the state of the station answered, every third of WatchdogSec
//!   STOPPING=1     recordings are being ended
//! ```

use crate::print::counted;
use sd_notify::NotifyState;
use skyhaul::core::station::{RecordingStatus, StationSnapshot};
use std::time::{Duration, Instant};

/// How often the status is compared with what was told last.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The service manager that started this process, if any.
pub(super) struct ServiceManager {
    /// Time between two signs of life, if it waits for them.
    watchdog: Option<Duration>,
    told: String,
    next: Instant,
    next_sign: Instant,
}

impl ServiceManager {
    /// Tells it that the service is ready.
    pub(super) fn ready() -> Self {
        let now = Instant::now();
        // A manager that does not listen changes nothing.
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        Self { watchdog, told: String::new(), next: now, next_sign: now }
    }

    /// Tells it what is being recorded, and that the service is alive. `snapshot` must answer for that: a station whose state cannot
    /// be read is not alive.
    pub(super) fn tick(&mut self, snapshot: impl FnOnce() -> StationSnapshot) {
        let now = Instant::now();
        let is_sign = self.watchdog.is_some() && now >= self.next_sign;
        if now < self.next && !is_sign {
            return;
        }
        self.next = now + STATUS_INTERVAL;
        let status = status_of(&snapshot().recordings);
        if status != self.told {
            let _ = sd_notify::notify(&[NotifyState::Status(&status)]);
            self.told = status;
        }
        if let Some(interval) = self.watchdog.filter(|_| is_sign) {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            self.next_sign = now + interval;
        }
    }

    /// Tells it that the service ends.
    pub(super) fn stopping(&self) {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }
}

/// More recordings than this are counted, not named.
const MAX_NAMED: usize = 8;

fn status_of(recordings: &[RecordingStatus]) -> String {
    let names: Vec<&str> = recordings.iter().map(|recording| recording.name.as_str()).collect();
    match names.as_slice() {
        [] => "idle".to_owned(),
        [name] => format!("recording {name}"),
        names if names.len() > MAX_NAMED => counted(names.len() as u64, "recording"),
        names => format!("{}: {}", counted(names.len() as u64, "recording"), names.join(", ")),
    }
}
