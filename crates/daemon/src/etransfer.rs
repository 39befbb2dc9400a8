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

use crate::http::{Connections, Permit};
use shared::{Counters, Shared, add};
use site::Site;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use transfer::Transfers;

/// Time for calls to end when the service stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
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
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl EtransferServer {
    /// Opens both ports and serves. `disks` are those of the recordings.
    ///
    /// # Errors
    /// A port cannot be opened, a directory cannot be used, or a thread cannot be started.
    pub fn start(options: EtransferOptions, disks: &[PathBuf]) -> io::Result<Self> {
        let site = Arc::new(Site::open(&options, disks)?);
        let (command, address) = listener(options.listen)?;
        let (channel, data) = listener(options.data)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .thread_name("etransfer")
            .enable_all()
            .build()?;
        let (command, channel) = {
            let _inside = runtime.enter();
            (TcpListener::from_std(command)?, TcpListener::from_std(channel)?)
        };
        let shared = Arc::new(Shared {
            site,
            transfers: Transfers::default(),
            allow: options.allow,
            send_to: options.send_to,
            data,
            times: options.times,
            commands: Connections::with(MAX_CONNECTIONS, MAX_PER_ADDRESS),
            channels: Connections::with(MAX_CONNECTIONS, MAX_PER_ADDRESS),
            counters: Counters::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let of_thread = Arc::clone(&shared);
        let run = move || {
            runtime.block_on(async {
                tokio::join!(
                    accept(&command, &of_thread, Channel::Command, stopped.clone()),
                    accept(&channel, &of_thread, Channel::Data, stopped.clone()),
                );
            });
            // A disk that hangs does not hold the end of the service up.
            runtime.shutdown_timeout(Duration::ZERO);
        };
        let thread = std::thread::Builder::new().name("etransfer".into()).spawn(run)?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
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
        let Shared { commands, channels, counters, .. } = &*self.shared;
        let ((open, full, _), (data_open, data_full, _)) = (commands.counts(), channels.counts());
        EtransferCounts {
            connections: (open + data_open) as u64,
            refused: full + data_full + of(&counters.not_allowed),
            requests: of(&counters.requests),
            rejected: of(&counters.rejected),
            uploads: of(&counters.uploads),
            downloads: of(&counters.downloads),
            received_bytes: of(&counters.received_bytes),
            sent_bytes: of(&counters.sent_bytes),
        }
    }
}

impl Drop for EtransferServer {
    fn drop(&mut self) {
        // If the service has ended, nobody needs the signal.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listener(at: SocketAddr) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("listen on {at}: {error}"));
    let listener = std::net::TcpListener::bind(at).map_err(failed)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Command,
    Data,
}

/// Serves connections until `stopped` is set.
async fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    channel: Channel,
    mut stopped: watch::Receiver<bool>,
) {
    let connections = match channel {
        Channel::Command => &shared.commands,
        Channel::Data => &shared.channels,
    };
    let mut serving = tokio::task::JoinSet::new();
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
        if !shared.allow.admits(from.ip()) {
            add(&shared.counters.not_allowed, 1);
            continue;
        }
        let Some(permit) = connections.enter(from.ip()) else { continue };
        let (shared, mut stopped) = (Arc::clone(shared), stopped.clone());
        serving.spawn(async move {
            tokio::select! {
                () = serve(stream, &shared, channel, &permit) => {}
                () = permit.closed() => {}
                _ = stopped.changed() => {}
            }
        });
        connections.catch_up(&mut serving).await;
    }
    let all_end = async { while serving.join_next().await.is_some() {} };
    let _ = timeout(SHUTDOWN_GRACE, all_end).await;
}

async fn serve(stream: TcpStream, shared: &Arc<Shared>, channel: Channel, permit: &Permit) {
    let _ = stream.set_nodelay(true);
    match channel {
        Channel::Command => session::serve(stream, shared, permit).await,
        Channel::Data => channel::serve(stream, shared, permit).await,
    }
}
