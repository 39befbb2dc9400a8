//! The transfers that were begun on command channels, by the UUIDs with which data channels name them.

use super::site::{DownloadOrder, UploadOrder};
use skyhaul::auth::{hex, random};
use skyhaul::io::lock::lock;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// What a transfer is for.
pub(super) enum Order {
    Upload(UploadOrder),
    Download(DownloadOrder),
}

enum State {
    Ready(Order),
    Running,
    Ended(Result<(), String>),
}

/// A transfer of a command channel.
pub(super) struct Transfer {
    pub(super) uuid: String,
    state: Mutex<State>,
    /// Seen by threads that wait for disks.
    pub(super) is_stopped: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    running: watch::Sender<bool>,
}

/// A transfer while something is done for it. When this is dropped, it has ended.
pub(super) struct Running(pub(super) Arc<Transfer>);

impl Running {
    pub(super) fn end(self, result: Result<(), String>) {
        self.0.end(result);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Threads that wait for a disk learn that nobody waits for them.
        self.0.is_stopped.store(true, Ordering::Relaxed);
        self.0.end(Err("the data channel was closed".to_owned()));
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Transfers(Mutex<HashMap<String, Arc<Transfer>>>);

impl Transfers {
    /// Begins one. Nobody can guess its UUID: it is what allows a data channel.
    pub(super) fn begin(&self, order: Order) -> io::Result<Arc<Transfer>> {
        let transfer = Arc::new(Transfer {
            uuid: hex(&random::<16>()?),
            state: Mutex::new(State::Ready(order)),
            is_stopped: Arc::default(),
            stop: watch::channel(false).0,
            running: watch::channel(false).0,
        });
        lock(&self.0).insert(transfer.uuid.clone(), Arc::clone(&transfer));
        Ok(transfer)
    }

    pub(super) fn find(&self, uuid: &str) -> Option<Arc<Transfer>> {
        lock(&self.0).get(uuid).cloned()
    }

    /// Ends one, and what is done for it.
    pub(super) fn remove(&self, transfer: &Transfer) {
        lock(&self.0).remove(&transfer.uuid);
        transfer.stop();
        // Its place and its path are free if nothing runs.
        let mut state = lock(&transfer.state);
        if matches!(*state, State::Ready(_)) {
            *state = State::Ended(Ok(()));
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Transfer {
    /// Takes what is to be done, once, if it is what `is_expected` says.
    pub(super) fn take(self: &Arc<Self>, is_expected: impl Fn(&Order) -> bool) -> Option<(Order, Running)> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Running) {
            State::Ready(order) if is_expected(&order) && !self.is_stopped.load(Ordering::Relaxed) => {
                self.running.send_replace(true);
                Some((order, Running(Arc::clone(self))))
            }
            other => {
                *state = other;
                None
            }
        }
    }

    fn end(&self, result: Result<(), String>) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Running) {
            *state = State::Ended(result);
            self.running.send_replace(false);
        }
    }

    /// How it ended, if it has.
    pub(super) fn result(&self) -> Option<Result<(), String>> {
        match &*lock(&self.state) {
            State::Ended(result) => Some(result.clone()),
            State::Ready(_) | State::Running => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        *self.running.borrow()
    }

    /// Asks what runs to end.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.stop.send_replace(true);
    }

    /// Waits until it is asked to end.
    pub(super) async fn stopped(&self) {
        // The sender lives as long as this.
        let _ = self.stop.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    /// Waits until nothing runs.
    pub(super) async fn idle(&self) {
        let _ = self.running.subscribe().wait_for(|is_running| !*is_running).await;
    }
}
