//! The thread on which a client of the store waits for it, for callers without an asynchronous runtime.

use std::future::Future;
use std::io;
use std::sync::mpsc;
use tokio::runtime::{Builder, Runtime};

/// A runtime that may be dropped while calls are in progress.
#[derive(Debug)]
pub(super) struct StoreRuntime(Option<Runtime>);

impl StoreRuntime {
    pub(super) fn start() -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("fleet-store").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a task beside the caller.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(task);
        }
    }

    /// Waits for a task; `None` if it was given up.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (give, take) = mpsc::sync_channel(1);
        self.spawn(async move {
            // The caller waits for it.
            let _ = give.send(task.await);
        });
        take.recv().ok()
    }
}

impl Drop for StoreRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
