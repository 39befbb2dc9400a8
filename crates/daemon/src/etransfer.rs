//! The etransfer port of a station: what `etc` copies to and from.
//!
//! ```text
//!   command channel (4004) ─▶ address list, limits ─▶ lines ─▶ session ─▶ transfer, with a UUID
//!   data channel (8008)    ─▶ address list, limits ─▶ head with the UUID ─▶ bytes ─▶ upload, hidden ─▶ whole, synced: its name ─▶ `y`
//!                                                                     ◀─ bytes ◀─ file or recording
//! ```
//!
//! etransfer has no authentication: who may connect is a list of addresses, this host alone unless the configuration gives others. Paths are
//! those of this host, below the directories of the configuration; closed recordings are `/recordings/NAME`. Data are carried by TCP; UDT is
//! not offered. Threads that wait for disks read and write, in pieces of a megabyte.
//!
//! | module | contents |
//! |---|---|
//! | `site` | what is served: paths, lists, uploads, downloads |
//! | `transfer` | the transfers that were begun, by UUID |
//! | `session` | a command channel |
//! | `channel` | a data channel; sending to another server |
//!
//! Limits: [`MAX_CONNECTIONS`] of each channel, [`MAX_PER_ADDRESS`] from one address, one transfer for each command channel,
//! [`MAX_RECORDINGS`] recordings at a time; [`FIRST_REQUEST_TIMEOUT`], [`IDLE_TIMEOUT`] between requests, [`STALL_TIMEOUT`] without a byte of data,
//! [`DISK_TIMEOUT`] for a disk.

mod channel;
mod options;
mod session;
mod shared;
mod site;
#[cfg(test)]
mod tests;
mod transfer;

pub use options::{
    CONFIRM_TIMEOUT, DISK_TIMEOUT, EtransferDirectory, EtransferOptions, EtransferTimes,
    FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT, MAX_CONNECTIONS, MAX_PER_ADDRESS, MAX_RECORDINGS, MEMORY_BYTES,
    STALL_TIMEOUT, WRITE_TIMEOUT,
};

use crate::tcp_service::{Admitted, Connections, ServiceThreads, TcpPort, TcpService};
use shared::{Counters, Shared};
use site::Site;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use transfer::Transfers;

/// Maximum number of threads that wait for disks.
const MAX_BLOCKING_THREADS: usize = 320;

/// Counts of an [`EtransferServer`] since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtransferCounts {
    /// Channels that are open.
    pub connections: u64,
    /// Channels that were refused: by the list of addresses, or because there were too many.
    pub refused: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Malformed lines and heads.
    pub rejected: u64,
    /// Files that arrived whole.
    pub uploads: u64,
    /// Files that were sent and confirmed.
    pub downloads: u64,
    /// Bytes of data that arrived.
    pub received_bytes: u64,
    /// Bytes of data that were sent.
    pub sent_bytes: u64,
}

/// A running etransfer server. It stops when dropped.
pub struct EtransferServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    service: TcpService,
}

impl EtransferServer {
    /// Opens both ports and serves. `disks` are those of the recordings.
    ///
    /// # Errors
    /// A port cannot be opened, a directory cannot be used, or a thread cannot be started.
    pub fn start(options: EtransferOptions, disks: &[PathBuf]) -> io::Result<Self> {
        let site = Arc::new(Site::open(&options, disks)?);
        let open = |at| {
            let allow = options.allow.clone();
            TcpPort::open(at, Connections::shared(allow, MAX_CONNECTIONS, MAX_PER_ADDRESS))
        };
        let (command, channel) = (open(options.listen)?, open(options.data)?);
        let address = command.address();
        let shared = Arc::new(Shared {
            site,
            transfers: Transfers::default(),
            send_to: options.send_to,
            data: channel.address(),
            times: options.times,
            ports: [&command, &channel].map(|port| Arc::clone(port.connections())),
            counters: Counters::default(),
        });
        // A disk that hangs does not hold the end of the service up.
        let threads = ServiceThreads { name: "etransfer", blocking: MAX_BLOCKING_THREADS, ends_work: false };
        let of_service = Arc::clone(&shared);
        let service = TcpService::start(threads, move |stopped| async move {
            let serve = |channel| {
                let shared = Arc::clone(&of_service);
                move |admitted| serve(admitted, Arc::clone(&shared), channel)
            };
            tokio::join!(
                command.serve(stopped.clone(), serve(Channel::Command)),
                channel.serve(stopped, serve(Channel::Data)),
            );
        })?;
        Ok(Self { address, shared, service })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.service.is_running()
    }

    /// The address of the command channel, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the data channel, with the actual port.
    #[must_use]
    pub fn data_address(&self) -> SocketAddr {
        self.shared.data
    }

    /// Returns its counts.
    #[must_use]
    pub fn counts(&self) -> EtransferCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { ports, counters, .. } = &*self.shared;
        let [command, data] = ports.each_ref().map(|connections| connections.counts());
        EtransferCounts {
            connections: command.open + data.open,
            refused: command.refused + data.refused,
            requests: of(&counters.requests),
            rejected: of(&counters.rejected),
            uploads: of(&counters.uploads),
            downloads: of(&counters.downloads),
            received_bytes: of(&counters.received_bytes),
            sent_bytes: of(&counters.sent_bytes),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Command,
    Data,
}

/// Serves a connection until it ends, is closed for another, or the service stops.
async fn serve(admitted: Admitted, shared: Arc<Shared>, channel: Channel) {
    let Admitted { stream, permit, mut stopped, .. } = admitted;
    let served = async {
        match channel {
            Channel::Command => session::serve(stream, &shared, &permit).await,
            Channel::Data => channel::serve(stream, &shared, &permit).await,
        }
    };
    tokio::select! {
        () = served => {}
        () = permit.closed() => {}
        _ = stopped.changed() => {}
    }
}
