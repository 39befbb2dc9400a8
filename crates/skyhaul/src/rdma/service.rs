//! A server with a thread of its own, for programs that use the bytes as they come.

use super::address::{RdmaAddress, RegionSpec};
use super::message::ServedMessage;
use super::report::RdmaServeReport;
use super::serve::{RdmaServer, ServeOptions};
use crate::receive::keyed::{GetError, Ring};
use crate::stop::StopFlag;
use skyhaul_io::lock::lock;
use skyhaul_io::memory::remote::RemoteMemory;
use skyhaul_io::wake::Wake;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Asked = mpsc::Sender<io::Result<RdmaServeReport>>;

/// How a service has ended.
enum Run {
    Serving(JoinHandle<io::Result<RdmaServeReport>>),
    Ended(Result<Box<RdmaServeReport>, (io::ErrorKind, String)>),
}

/// A server with a thread of its own, whose messages are taken from a queue. Dropping it ends the server.
///
/// ```
/// use skyhaul::rdma::{RdmaService, ServeOptions};
/// use std::time::Duration;
/// let options = ServeOptions::new("rdma+udp://127.0.0.1:0".parse()?, vec!["vis:1MiB:write".parse()?]);
/// let service = RdmaService::start(options, 1024)?;
/// let (region, memory) = &service.regions()[0];
/// assert_eq!((region.name.as_str(), memory.length()), ("vis", 1 << 20));
/// assert!(service.get(Some(Duration::ZERO)).is_err(), "nobody has written");
/// assert_eq!(service.stop()?.complete, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RdmaService {
    local: SocketAddr,
    address: RdmaAddress,
    regions: Vec<(RegionSpec, Arc<RemoteMemory>)>,
    ring: Arc<Ring<ServedMessage>>,
    not_queued: Arc<AtomicU64>,
    stop: StopFlag,
    asks: Mutex<mpsc::Sender<Asked>>,
    /// Of the server, which may sleep.
    wake: Arc<Wake>,
    run: Mutex<Run>,
}

impl std::fmt::Debug for RdmaService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RdmaService").field("local", &self.local).finish_non_exhaustive()
    }
}

impl RdmaService {
    /// Binds, makes the memory of the regions, and serves. Up to `queue` messages wait to be taken; further ones are counted in
    /// [`not_queued`](Self::not_queued), since a server that waited would lose datagrams.
    ///
    /// # Errors
    /// Those of [`RdmaServer::open`], or no thread can be started.
    pub fn start(options: ServeOptions, queue: usize) -> io::Result<RdmaService> {
        let mut server = RdmaServer::open(options)?;
        server.list_messages();
        let (local, address, regions) = (server.local(), server.address(None), server.shared());
        let wake = server.wake();
        let (ring, not_queued, stop) =
            (Arc::new(Ring::new(queue)), Arc::<AtomicU64>::default(), StopFlag::default());
        let (asks, asked) = mpsc::channel::<Asked>();
        let run = {
            let (ring, not_queued, stop) = (ring.clone(), not_queued.clone(), stop.clone());
            move || {
                let pass = |messages: &mut VecDeque<ServedMessage>| {
                    ring.push(messages);
                    not_queued.fetch_add(messages.len() as u64, Ordering::Relaxed);
                };
                let mut each = |server: &mut RdmaServer| {
                    pass(&mut server.list_messages());
                    while let Ok(asked) = asked.try_recv() {
                        // Who asked may have gone.
                        let _ = asked.send(server.finish());
                    }
                };
                let ended = server.run_with(&stop, None, &mut each);
                pass(&mut server.list_messages());
                // The socket and the memory go first: who learns of the end may bind the same address.
                drop(server);
                ring.close();
                ended
            }
        };
        let run = std::thread::Builder::new().name("rdma-serve".into()).spawn(run)?;
        let run = Mutex::new(Run::Serving(run));
        Ok(RdmaService { local, address, regions, ring, not_queued, stop, asks: Mutex::new(asks), wake, run })
    }

    /// Its address, with the port that the system chose.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The same, as its peers write it, with this region.
    #[must_use]
    pub fn address(&self, region: &str) -> RdmaAddress {
        RdmaAddress { region: Some(region.to_owned()), ..self.address.clone() }
    }

    /// Its regions and their memory, in the order of the options. The memory outlives the service.
    #[must_use]
    pub fn regions(&self) -> &[(RegionSpec, Arc<RemoteMemory>)] {
        &self.regions
    }

    /// The next message; waits at most this long, without a limit if `None`.
    ///
    /// # Errors
    /// [`GetError::Empty`] after that, [`GetError::Stopped`] if the service has ended and all were taken.
    pub fn get(&self, wait: Option<Duration>) -> Result<ServedMessage, GetError> {
        self.ring.pop(wait.and_then(|wait| Instant::now().checked_add(wait)))
    }

    /// The next message if one is queued.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn try_get(&self) -> Result<ServedMessage, GetError> {
        self.ring.try_pop()
    }

    /// A descriptor that is readable while messages are queued, or the service has ended.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.ring.ready_fd()
    }

    /// Messages for which the queue had no room. Their bytes are in memory, and they are in the report.
    #[must_use]
    pub fn not_queued(&self) -> u64 {
        self.not_queued.load(Ordering::Relaxed)
    }

    /// The report as it is now, or the last one.
    ///
    /// # Errors
    /// The service failed, or the sums of the report are wrong.
    pub fn report(&self) -> io::Result<RdmaServeReport> {
        let (asked, answer) = mpsc::channel();
        // One that has ended answers no more: then its last is there.
        if lock(&self.asks).send(asked).is_ok()
            && self.wake.set().is_ok()
            && let Ok(report) = answer.recv()
        {
            return report;
        }
        self.join()
    }

    /// Closes the connections and ends; returns the last report. Queued messages can still be taken.
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn stop(&self) -> io::Result<RdmaServeReport> {
        self.stop.stop();
        self.join()
    }

    fn join(&self) -> io::Result<RdmaServeReport> {
        let mut run = lock(&self.run);
        let ended = match std::mem::replace(&mut *run, Run::Ended(Ok(Box::default()))) {
            Run::Serving(thread) => match thread.join() {
                Ok(report) => report.map(Box::new).map_err(|error| (error.kind(), error.to_string())),
                Err(_) => Err((io::ErrorKind::Other, "serve regions: the server has failed".to_owned())),
            },
            Run::Ended(ended) => ended,
        };
        let told = match &ended {
            Ok(report) => Ok((**report).clone()),
            Err((kind, text)) => Err(io::Error::new(*kind, text.clone())),
        };
        *run = Run::Ended(ended);
        told
    }
}

impl Drop for RdmaService {
    fn drop(&mut self) {
        // An error was told to those who asked.
        let _ = self.stop();
    }
}
