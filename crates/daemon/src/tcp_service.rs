//! The TCP ports of a service: opened, limited, served by threads of their own, and closed in order. HTTP, VSI-S and etransfer are such
//! services; each brings its own way to serve a connection.
//!
//! ```text
//!   connection ─▶ address list ─▶ room in the table? ─▶ task of its own ─▶ ends │ closed for another │ the service stops
//!                     └───────────────┴─ no: closed, counted
//! ```
//!
//! When no descriptor is free, accepting pauses until connections have ended. When the service stops, connections have [`SHUTDOWN_GRACE`] to end.

use skyhaul::admission::{ConnectionTable, TableFull};
use skyhaul::io::lock::lock;
use skyhaul::metrics::{Kind, Metric};
use skyhaul_core::balance::AllowList;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Time for connections to end when the service stops.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// Pause of accepting when it fails.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of connections that have been told to close and are still open.
pub(crate) const MAX_CLOSING: usize = 64;

/// The threads of a service. It stops when dropped.
#[derive(Debug)]
pub(crate) struct TcpService {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of a service are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceThreads {
    /// Their name.
    pub(crate) name: &'static str,
    /// Maximum number of those that wait for disks and the like.
    pub(crate) blocking: usize,
    /// Whether the end of the service waits for these; a disk that hangs holds it up then.
    pub(crate) ends_work: bool,
}

impl TcpService {
    /// Serves these ports with what `serve` makes of them, until it is dropped.
    pub(crate) fn start<F: Future<Output = ()>>(
        threads: ServiceThreads,
        serve: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(threads.blocking)
            .thread_name(threads.name)
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let run = move || {
            runtime.block_on(async move { serve(stopped).await });
            if !threads.ends_work {
                runtime.shutdown_timeout(Duration::ZERO);
            }
        };
        let thread = std::thread::Builder::new().name(threads.name.into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for TcpService {
    /// Waits for running calls, and stops.
    fn drop(&mut self) {
        // If the service has ended, nobody needs the signal.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A port that is open, and who may connect to it.
#[derive(Debug)]
pub(crate) struct TcpPort {
    listener: std::net::TcpListener,
    address: SocketAddr,
    connections: Arc<Connections>,
}

/// A connection that was admitted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) permit: Permit,
    /// Set when the service stops.
    pub(crate) stopped: watch::Receiver<bool>,
}

impl TcpPort {
    /// Opens it.
    pub(crate) fn open(listen: SocketAddr, connections: Arc<Connections>) -> io::Result<Self> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("listen on {listen}: {error}"));
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, connections })
    }

    /// Its address, with the actual port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Serves connections, each with a task of its own, until the service stops.
    pub(crate) async fn serve<F: Future<Output = ()> + Send + 'static>(
        self,
        mut stopped: watch::Receiver<bool>,
        serve: impl Fn(Admitted) -> F,
    ) {
        // It fails only where no runtime is.
        let Ok(listener) = TcpListener::from_std(self.listener) else { return };
        let mut serving = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                _ = stopped.changed() => break,
                Some(_) = serving.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of file descriptors: some become free when connections end.
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(permit) = self.connections.enter(peer.ip()) else { continue };
            let _ = stream.set_nodelay(true);
            serving.spawn(serve(Admitted { stream, peer, permit, stopped: stopped.clone() }));
            self.connections.catch_up(&mut serving).await;
        }
        let all_end = async { while serving.join_next().await.is_some() {} };
        let _ = timeout(SHUTDOWN_GRACE, all_end).await;
    }
}

/// The open connections of a service, within its limits.
#[derive(Debug)]
pub(crate) struct Connections {
    total: usize,
    allow: AllowList,
    inner: Mutex<Open>,
    refused: AtomicU64,
    displaced: AtomicU64,
    silent: AtomicU64,
    failed_handshakes: AtomicU64,
}

#[derive(Debug)]
struct Open {
    table: ConnectionTable<Arc<Notify>>,
    /// Connections in the table, and those that have been told to close.
    count: usize,
}

/// Counts of the connections of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionCounts {
    /// Those that are open.
    pub(crate) open: u64,
    /// Those that were refused: by the list of addresses, or because there were too many.
    pub(crate) refused: u64,
    /// Those that were closed for others.
    pub(crate) displaced: u64,
    /// Those that were closed because no request came in time.
    pub(crate) silent: u64,
    /// Those that ended before the TLS handshake was complete, for whatever reason.
    pub(crate) failed_handshakes: u64,
}

/// The admission of an open connection. It counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    id: u64,
    connections: Arc<Connections>,
    close: Arc<Notify>,
}

impl Connections {
    /// So many in total, and of one address, from anyone.
    pub(crate) fn with(total: usize, per_address: usize) -> Arc<Connections> {
        Connections::only(AllowList::anyone(), total, per_address)
    }

    /// The same, from addresses of a list alone.
    pub(crate) fn only(allow: AllowList, total: usize, per_address: usize) -> Arc<Connections> {
        Connections::of(allow, ConnectionTable::new(total, per_address), total)
    }

    /// The same, where a request proves nothing: if places run short, each address has a share.
    pub(crate) fn shared(allow: AllowList, total: usize, per_address: usize) -> Arc<Connections> {
        Connections::of(allow, ConnectionTable::shared(total, per_address), total)
    }

    fn of(allow: AllowList, table: ConnectionTable<Arc<Notify>>, total: usize) -> Arc<Connections> {
        let inner = Mutex::new(Open { table, count: 0 });
        let (refused, displaced, silent, failed_handshakes) = Default::default();
        Arc::new(Connections { total, allow, inner, refused, displaced, silent, failed_handshakes })
    }

    /// Admits a connection from this address if it may connect, and there is room or another can be closed for it.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Permit> {
        let mut open = self.locked();
        let room = if self.allow.admits(from) { open.table.displaced(from) } else { Err(TableFull) };
        match room {
            Ok(None) => {}
            Ok(Some(id)) => {
                open.table.remove(id).inspect(|close| close.notify_one());
                self.displaced.fetch_add(1, Ordering::Relaxed);
            }
            Err(TableFull) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        }
        let close = Arc::new(Notify::new());
        open.count += 1;
        let id = open.table.insert(from, Arc::clone(&close));
        Some(Permit { id, connections: Arc::clone(self), close })
    }

    /// Whether too many connections are closing to accept more at the moment.
    fn is_behind(&self) -> bool {
        self.locked().count >= self.total + MAX_CLOSING
    }

    /// Waits while too many connections are closing to accept more.
    async fn catch_up(&self, serving: &mut JoinSet<()>) {
        while self.is_behind() {
            tokio::select! {
                _ = serving.join_next() => {}
                () = sleep(Duration::from_millis(1)) => {}
            }
        }
    }

    /// Notes that a connection was closed because no request came in time.
    pub(crate) fn note_silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a connection ended before its TLS handshake was complete.
    pub(crate) fn note_failed_handshake(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ConnectionCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionCounts {
            open: self.locked().count as u64,
            refused: of(&self.refused),
            displaced: of(&self.displaced),
            silent: of(&self.silent),
            failed_handshakes: of(&self.failed_handshakes),
        }
    }

    /// The same for `/metrics`; `metric` gives names their prefix.
    pub(crate) fn metrics(&self, metric: impl Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        let counts = self.counts();
        let single = |name: &str, kind, help: &str, value: u64| {
            let mut metric = metric(name, kind, help);
            metric.add(&[], value);
            metric
        };
        let total = |name: &str, help: &str, value| single(name, Kind::Counter, help, value);
        vec![
            single("connections", Kind::Gauge, "Open connections.", counts.open),
            total("connections_refused_total", "Connections refused because of the limits.", counts.refused),
            total(
                "connections_displaced_total",
                "Connections without a valid token that were closed for newer ones.",
                counts.displaced,
            ),
            total(
                "connections_silent_total",
                "Connections closed because no request came in time.",
                counts.silent,
            ),
            total(
                "handshakes_failed_total",
                "Connections that ended before the TLS handshake was complete.",
                counts.failed_handshakes,
            ),
        ]
    }

    fn locked(&self) -> MutexGuard<'_, Open> {
        lock(&self.inner)
    }
}

impl Permit {
    /// Sets whether the last request showed a right, such as a valid token.
    pub(crate) fn prove(&self, proven: bool) {
        self.connections.locked().table.prove(self.id, proven);
    }

    /// Waits until the connection is to be closed for another.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.locked();
        open.table.remove(self.id);
        open.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpStream as Client;

    fn enter(all: &Arc<Connections>, last: u8) -> Option<Permit> {
        all.enter([10, 0, 0, last].into())
    }

    #[test]
    fn a_displaced_connection_counts_until_it_is_closed() {
        let all = Connections::with(4, 2);
        let proven: Vec<Permit> = (0..4).map(|n| enter(&all, n / 2).unwrap()).collect();
        proven.iter().for_each(|permit| permit.prove(true));
        assert!(enter(&all, 0).is_none() && enter(&all, 7).is_none());
        proven[1].prove(false);
        let new = enter(&all, 7).unwrap();
        let open = |permit: &Permit| all.locked().table.get(permit.id).is_some();
        assert!(!open(&proven[1]) && open(&proven[0]) && open(&new));
        assert_eq!(
            all.counts(),
            ConnectionCounts { open: 5, refused: 2, displaced: 1, ..Default::default() }
        );
        drop((proven, new));
        assert_eq!(all.counts().open, 0);
    }

    #[test]
    fn who_is_not_on_the_list_is_refused_and_counted_and_displaces_nobody() {
        let all = Connections::only(AllowList::of(&["10.0.0.0/30".parse().unwrap()]), 1, 1);
        let first = enter(&all, 1).unwrap();
        assert!(enter(&all, 4).is_none() && all.enter([127, 0, 0, 1].into()).is_none());
        assert_eq!(all.counts(), ConnectionCounts { open: 1, refused: 2, ..Default::default() });
        assert!(enter(&all, 2).is_some() && all.counts().displaced == 1);
        drop(first);
    }

    #[test]
    fn work_that_hangs_holds_the_end_up_only_where_it_is_waited_for() {
        let connections = Connections::with(4, 4);
        let port = TcpPort::open("127.0.0.1:0".parse().unwrap(), Arc::clone(&connections)).unwrap();
        let address = port.address();
        let (free, freed) = std::sync::mpsc::channel::<()>();
        let freed = Arc::new(Mutex::new(freed));
        let hangs = move |admitted: Admitted| {
            let freed = Arc::clone(&freed);
            async move {
                let _held = admitted;
                let _ = tokio::task::spawn_blocking(move || lock(&freed).recv()).await;
            }
        };
        let threads = ServiceThreads { name: "test", blocking: 2, ends_work: false };
        let service =
            TcpService::start(threads, |stopped| async move { port.serve(stopped, hangs).await }).unwrap();
        let mut client = Client::connect(address).unwrap();
        while connections.counts().open == 0 {
            std::thread::yield_now();
        }
        assert!(service.is_running());
        // It ends though nobody has freed the thread; the client sees the end of its connection.
        drop(service);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        while connections.counts().open > 0 {
            std::thread::yield_now();
        }
        drop(free);
    }
}
