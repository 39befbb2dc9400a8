//! What the threads of a server share: what it permits, what happened, and which test waits for streams.

use super::control::Cookie;
use super::report::Iperf3Report;
use super::room::Room;
use serde::{Deserialize, Serialize};
use skyhaul_io::quantity::Rate;
use std::collections::HashMap;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A stream that came.
#[derive(Debug)]
pub(super) enum Arrival {
    /// With the number of the connection: cookies may arrive in another order than connections.
    Tcp(u64, TcpStream),
    Udp(UdpSocket),
}

/// What a server permits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Tests at once; further clients are told that the server is busy.
    pub tests: usize,
    /// Tests of one address (of IPv6, one /64) at once.
    pub per_peer: usize,
    /// Streams of all tests together, each with a thread; one address may have three quarters of them.
    pub streams: usize,
    /// Memory of all tests together, bytes: blocks, buffers that are asked for, and what is kept of intervals. One address may have
    /// three quarters of it.
    pub memory: u64,
    /// Connections that have not said their cookie.
    pub guests: usize,
    /// Longest test, the omitted time included.
    pub longest: Duration,
    /// Highest rate of all streams of a test that a client may ask for; 0: any.
    pub rate: Rate,
    /// A test in which nothing moves for so long is ended.
    pub idle: Duration,
    /// Length of intervals in reports.
    pub interval: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            tests: 16,
            per_peer: 12,
            streams: 512,
            memory: 1 << 30,
            guests: 256,
            longest: Duration::from_secs(24 * 3600),
            rate: Rate::default(),
            idle: Duration::from_secs(120),
            interval: Duration::from_secs(1),
        }
    }
}

/// What happened at a server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Tests begun.
    pub tests: u64,
    /// Tests that came to their end.
    pub done: u64,
    /// Tests that did not.
    pub failed: u64,
    /// Clients sent away because there were too many.
    pub denied: u64,
    /// Tests refused because their streams or buffers are more than is left.
    #[serde(default)]
    pub no_room: u64,
    /// Connections that said something else than a cookie, or left before.
    pub garbage: u64,
    /// Connections that had to make room before they had said anything.
    pub pushed_out: u64,
    /// Connections that said nothing in time.
    pub silent: u64,
    /// Streams that no test was waiting for.
    pub late_streams: u64,
    /// Datagrams that were not the first words of anybody who is waited for.
    pub stray_datagrams: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) tests: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) no_room: AtomicU64,
    pub(super) garbage: AtomicU64,
    pub(super) pushed_out: AtomicU64,
    pub(super) silent: AtomicU64,
    pub(super) late_streams: AtomicU64,
    pub(super) stray_datagrams: AtomicU64,
}

/// Tests that run, by their cookies; with the way to hand them streams, as long as they wait for some.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) sessions: HashMap<Cookie, Option<SyncSender<Arrival>>>,
    /// Of each host, the test that waits for datagrams.
    pub(super) udp: HashMap<IpAddr, Cookie>,
}

/// What all threads of a server share.
pub(super) struct Common {
    pub(super) options: ServerOptions,
    pub(super) counters: Counters,
    pub(super) stop: AtomicBool,
    pub(super) report: Box<dyn Fn(Iperf3Report) + Send + Sync>,
    pub(super) desk: Mutex<Desk>,
    pub(super) freed: Condvar,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) room: Arc<Room>,
}

impl Common {
    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// From here on, streams with this cookie go to `give`; if they are datagrams, those of `udp`, once no other test of
    /// that host waits for some.
    pub(super) fn open(
        &self,
        cookie: Cookie,
        give: SyncSender<Arrival>,
        udp: Option<IpAddr>,
        patience: Duration,
    ) -> bool {
        let mut desk = self.desk();
        if let Some(host) = udp {
            let taken = |desk: &mut Desk| desk.udp.contains_key(&host) && !self.is_stopped();
            desk = self
                .freed
                .wait_timeout_while(desk, patience, taken)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if desk.udp.contains_key(&host) {
                return false;
            }
            desk.udp.insert(host, cookie);
        }
        desk.sessions.insert(cookie, Some(give));
        true
    }

    /// It waits for no more streams.
    pub(super) fn close(&self, cookie: &Cookie) {
        let mut desk = self.desk();
        desk.udp.retain(|_, waiting| waiting != cookie);
        if let Some(give) = desk.sessions.get_mut(cookie) {
            *give = None;
        }
        drop(desk);
        self.freed.notify_all();
    }
}
