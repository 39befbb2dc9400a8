//! The VSI-S port of a station: what the NASA Field System and m5copy connect to. With the commands of a Mark 6 it is a port of its own.
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
//! closed, or, where all have sent requests, the oldest of the address that holds most; a connection has [`FIRST_REQUEST_TIMEOUT`] for its first request and [`IDLE_TIMEOUT`] between requests, and
//! [`WRITE_TIMEOUT`] to take an answer. A line has at most [`skyhaul_core::vsi::MAX_LINE_BYTES`].

mod adapter;
mod arrivals;
mod connection;
mod inputs;
mod inspect;
mod refusals;
mod sending;
mod shared;
#[cfg(test)]
mod tests;

pub use adapter::StationAdapter;
pub use arrivals::ArrivalOptions;
pub(crate) use arrivals::Arrivals;
pub use shared::{
    FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT, LINE_PAUSE, MAX_CONNECTIONS, MAX_PER_ADDRESS, VsiStation,
    WRITE_TIMEOUT,
};

use crate::tcp_service::{Admitted, Connections, ServiceThreads, TcpPort, TcpService};
use connection::serve;
use shared::{Shared, now};
use skyhaul::io::lock::lock;
use skyhaul_core::balance::AllowList;
use skyhaul_core::vsi::{VsiDialect, VsiDialogue};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The port of the field.
pub const DEFAULT_PORT: u16 = 2620;
/// The port of a Mark 6.
pub const DEFAULT_MARK6_PORT: u16 = 14242;
/// Threads that wait for something else than a socket.
const MAX_BLOCKING_THREADS: usize = 512;

/// Where a [`VsiServer`] listens, and to whom.
#[derive(Clone, Debug)]
pub struct VsiOptions {
    /// Its address.
    pub listen: SocketAddr,
    /// Who may connect.
    pub allow: AllowList,
    /// Whose commands it understands.
    pub dialect: VsiDialect,
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
    service: TcpService,
}

impl VsiServer {
    /// Opens the port and serves.
    ///
    /// # Errors
    /// The port cannot be opened, or a thread not started.
    pub fn start<S: VsiStation>(station: Arc<S>, options: VsiOptions) -> io::Result<Self> {
        let connections = Connections::shared(options.allow, MAX_CONNECTIONS, MAX_PER_ADDRESS);
        let port = TcpPort::open(options.listen, Arc::clone(&connections))?;
        let address = port.address();
        let shared = Arc::new(Shared {
            runtimes: Mutex::default(),
            connections,
            requests: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            dialect: options.dialect,
            next_connection: AtomicU64::new(1),
        });
        let of_service = Arc::clone(&shared);
        let name = match options.dialect {
            VsiDialect::FlexBuff => "station-vsi",
            VsiDialect::Mark6 => "station-mark6",
        };
        // A disk that hangs does not hold the end of the service up.
        let threads = ServiceThreads { name, blocking: MAX_BLOCKING_THREADS, ends_work: false };
        let service = TcpService::start(threads, move |stopped| async move {
            port.serve(stopped, |admitted| converse(admitted, Arc::clone(&station), Arc::clone(&of_service)))
                .await;
        })?;
        Ok(Self { address, shared, service })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.service.is_running()
    }

    /// The address on which it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its counts.
    #[must_use]
    pub fn counts(&self) -> VsiServerCounts {
        let counts = self.shared.connections.counts();
        VsiServerCounts {
            connections: counts.open,
            refused: counts.refused,
            requests: self.shared.requests.load(Ordering::Relaxed),
            rejected: self.shared.rejected.load(Ordering::Relaxed),
        }
    }

    /// Adds an error that waits for `error?`, and sets the pending bit of `status?`.
    pub fn add_error(&self, number: u32, message: &str) {
        lock(&self.shared.runtimes).errors.add(number, message, now());
    }
}

/// Serves a connection until it ends, is closed for another, or the service stops; then ends what it controlled.
async fn converse<S: VsiStation>(admitted: Admitted, station: Arc<S>, shared: Arc<Shared>) {
    let Admitted { stream, permit, mut stopped, .. } = admitted;
    let mut dialogue =
        VsiDialogue::of(shared.dialect, shared.next_connection.fetch_add(1, Ordering::Relaxed));
    tokio::select! {
        () = serve(stream, &mut dialogue, &station, &shared, &permit) => {}
        () = permit.closed() => {}
        _ = stopped.changed() => {}
    }
    let stops = {
        let (view, mut runtimes) = (station.view(), lock(&shared.runtimes));
        // What failed before its client asked is not forgotten with the runtime.
        runtimes.notice(&view, now());
        dialogue.close(&mut runtimes)
    };
    for action in stops {
        let settles = action.settles();
        // It is carried out without being waited for, too.
        let outcome = connection::carry_out(&station, &shared, action).await;
        if let Some((id, outcome)) = settles.zip(outcome) {
            let view = station.view();
            lock(&shared.runtimes).settle(id, &outcome, &view, now());
        }
    }
}
