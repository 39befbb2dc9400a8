//! The VSI-S port of a station: what the NASA Field System and m5copy connect to.
//!
//! ```text
//!   connection ─▶ address list, limits ─▶ lines ─▶ VsiDialogue (skyhaul_core::vsi) ─▶ answers
//!                                                     │ ▲
//!                                              action ▼ │ outcome, view
//!                                                  VsiStation ─▶ StationService
//! ```
//!
//! VSI-S has no authentication: who may connect is a list of addresses, this host alone unless the configuration gives others.
//!
//! Limits: [`MAX_CONNECTIONS`] connections, [`MAX_PER_ADDRESS`] from one address: then the oldest that never sent a request is
//! closed; a connection has [`FIRST_REQUEST_TIMEOUT`] for its first request and [`IDLE_TIMEOUT`] between requests, and
//! [`WRITE_TIMEOUT`] to take an answer. A line has at most [`skyhaul_core::vsi::MAX_LINE_BYTES`].

mod adapter;
mod connection;
mod inspect;
mod sending;
mod shared;
#[cfg(test)]
mod tests;

pub use adapter::StationAdapter;
pub use shared::{
    FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT, LINE_PAUSE, MAX_CONNECTIONS, MAX_PER_ADDRESS, VsiStation,
    WRITE_TIMEOUT,
};

use crate::http::Connections;
use connection::serve;
use shared::{Shared, duration, now};
use skyhaul::io::lock::lock;
use skyhaul_core::balance::AllowList;
use skyhaul_core::vsi::VsiDialogue;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// The port of the field.
pub const DEFAULT_PORT: u16 = 2620;
/// Time for actions that run when the service stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Where a [`VsiServer`] listens, and to whom.
#[derive(Clone, Debug)]
pub struct VsiOptions {
    /// Its address.
    pub listen: SocketAddr,
    /// Who may connect.
    pub allow: AllowList,
}

/// Counts of a [`VsiServer`] since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VsiServerCounts {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were refused: by the list of addresses, or because there were too many.
    pub refused: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Parts of lines that are no requests.
    pub rejected: u64,
}

/// A running VSI-S port. It stops when dropped.
#[derive(Debug)]
pub struct VsiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl VsiServer {
    /// Opens the port and serves.
    ///
    /// # Errors
    /// The port cannot be opened, or a thread not started.
    pub fn start<S: VsiStation>(station: Arc<S>, options: VsiOptions) -> io::Result<Self> {
        let listen = options.listen;
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("listen on {listen}: {error}"));
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("station-vsi")
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let shared = Arc::new(Shared {
            runtimes: Mutex::default(),
            connections: Connections::with(MAX_CONNECTIONS, MAX_PER_ADDRESS),
            not_allowed: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            next_connection: AtomicU64::new(1),
        });
        let (stop, stopped) = watch::channel(false);
        let of_thread = Arc::clone(&shared);
        let run = move || {
            runtime.block_on(accept(&listener, &station, &of_thread, &options.allow, stopped));
            // A disk that hangs does not hold the end of the service up.
            runtime.shutdown_timeout(Duration::ZERO);
        };
        let thread = std::thread::Builder::new().name("station-vsi".into()).spawn(run)?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The address on which it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its counts.
    #[must_use]
    pub fn counts(&self) -> VsiServerCounts {
        let (open, full, _) = self.shared.connections.counts();
        VsiServerCounts {
            connections: open as u64,
            refused: full + self.shared.not_allowed.load(Ordering::Relaxed),
            requests: self.shared.requests.load(Ordering::Relaxed),
            rejected: self.shared.rejected.load(Ordering::Relaxed),
        }
    }

    /// Adds an error that waits for `error?`, and sets the pending bit of `status?`.
    pub fn add_error(&self, number: u32, message: &str) {
        lock(&self.shared.runtimes).errors.add(number, message, now());
    }
}

impl Drop for VsiServer {
    fn drop(&mut self) {
        // If the service has ended, nobody needs the signal.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves connections until it is told to stop.
async fn accept<S: VsiStation>(
    listener: &TcpListener,
    station: &Arc<S>,
    shared: &Arc<Shared>,
    allow: &AllowList,
    mut stopped: watch::Receiver<bool>,
) {
    let mut serving = tokio::task::JoinSet::new();
    let connections = &shared.connections;
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = serving.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors: some become free when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !allow.admits(from.ip()) {
            shared.not_allowed.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let Some(permit) = shared.connections.enter(from.ip()) else { continue };
        let (station, shared, mut stopped) = (Arc::clone(station), Arc::clone(shared), stopped.clone());
        serving.spawn(async move {
            let id = shared.next_connection.fetch_add(1, Ordering::Relaxed);
            let mut dialogue = VsiDialogue::new(id);
            tokio::select! {
                () = serve(stream, &mut dialogue, &*station, &shared, &permit) => {}
                () = permit.closed() => {}
                _ = stopped.changed() => {}
            }
            let stops = dialogue.close(&mut lock(&shared.runtimes));
            for action in stops {
                let deadline = duration(action.deadline());
                // It is carried out without being waited for, too.
                let _ = timeout(deadline, station.carry_out(action)).await;
            }
        });
        connections.catch_up(&mut serving).await;
    }
    let all_end = async { while serving.join_next().await.is_some() {} };
    let _ = timeout(SHUTDOWN_GRACE, all_end).await;
}
