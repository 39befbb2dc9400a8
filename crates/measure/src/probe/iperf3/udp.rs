//! The datagrams of a test: one thread and one connected socket for each stream.
//!
//! Senders are the engine of everything that is sent ([`skyhaul::send`]), with a source that numbers and stamps datagrams;
//! receivers read trains, as every receiver does.

mod receive;
mod send;

use super::datagram::Metered;
use super::params::Params;
use crate::probe::series::Series;
use skyhaul::panics::reason;
use skyhaul_io::host::thread::{Usage, own_usage};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Readings at the boundaries of intervals that are kept.
const READINGS: usize = 2048;
/// After the end, receivers go on until nothing came for so long.
const QUIET: Duration = Duration::from_millis(60);
/// But not for longer than this.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// A connected socket, and whether this end sends on it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: UdpSocket,
    pub(super) sends: bool,
}

/// What the threads share.
struct Shared {
    begin: Instant,
    stop: AtomicBool,
    /// Bytes that senders have not yet taken on.
    left: Option<AtomicU64>,
    /// When it ends by itself.
    limit: Option<Duration>,
    omit: Duration,
    params: Params,
    streams: Vec<State>,
}

/// One stream while it runs.
struct State {
    sends: bool,
    local: SocketAddr,
    remote: SocketAddr,
    counts: Mutex<Metered>,
    omitted: Mutex<Option<Metered>>,
    ended: AtomicBool,
}

/// What a thread knows at its end.
#[derive(Clone, Debug, Default)]
struct Ended {
    last: Duration,
    usage: Usage,
    error: Option<String>,
}

/// All counts of all streams at one moment.
type Reading = (f64, Vec<Metered>);

/// Streams on their threads.
pub(super) struct UdpRun {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Ended>>,
    readings: Series<Reading>,
    due: Duration,
    interval: Duration,
}

/// One stream at its end.
#[derive(Clone, Debug)]
pub(super) struct UdpStream {
    pub(super) sends: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Everything, the omitted time included.
    pub(super) all: Metered,
    pub(super) omitted: Metered,
    /// Seconds without the omitted time.
    pub(super) seconds: f64,
    pub(super) usage: Usage,
    pub(super) error: Option<String>,
    /// Seconds, and counts until then.
    pub(super) readings: Vec<(f64, Metered)>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.limit.is_some_and(|limit| self.begin.elapsed() >= limit)
    }

    /// Take on up to `packets` datagrams of `block` bytes.
    fn claim(&self, packets: u64, block: u64) -> u64 {
        let Some(left) = &self.left else { return packets };
        let most = |left: u64| packets.min(left.div_ceil(block));
        let took = left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(most(left) * block)));
        most(took.unwrap_or(0))
    }

    fn run(&self, n: usize, socket: UdpSocket) -> Ended {
        let state = &self.streams[n];
        let before = own_usage();
        let result = if state.sends {
            self.send(state, socket).map(|()| self.begin.elapsed())
        } else {
            self.receive(state, socket)
        };
        let after = own_usage();
        state.ended.store(true, Relaxed);
        let (last, error) = match result {
            Ok(last) => (last, None),
            Err(error) => (self.begin.elapsed(), Some(error.to_string())),
        };
        Ended {
            last,
            usage: Usage {
                user: after.user.saturating_sub(before.user),
                system: after.system.saturating_sub(before.system),
                ..after
            },
            error,
        }
    }
}

impl State {
    fn publish(&self, counts: Metered) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    fn counts(&self) -> Metered {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At the end of the omitted time.
    fn mark(&self) {
        *self.omitted.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.counts());
    }
}

impl UdpRun {
    /// Start a thread for each stream. Only a client ends by itself after `params.time`.
    pub(super) fn start(
        streams: Vec<Stream>,
        params: &Params,
        client: bool,
        interval: Duration,
    ) -> io::Result<Self> {
        let nowhere = SocketAddr::from(([0; 4], 0));
        let (mut states, mut sockets) = (Vec::new(), Vec::new());
        for Stream { socket, sends } in streams {
            states.push(State {
                sends,
                local: socket.local_addr().unwrap_or(nowhere),
                remote: socket.peer_addr().unwrap_or(nowhere),
                counts: Mutex::default(),
                omitted: Mutex::default(),
                ended: AtomicBool::new(false),
            });
            sockets.push(socket);
        }
        let timed = client && params.amount().is_none() && !params.time.is_zero();
        let shared = Arc::new(Shared {
            begin: Instant::now(),
            stop: AtomicBool::new(false),
            left: params.amount().map(AtomicU64::new),
            limit: timed.then(|| params.time + params.omit),
            omit: params.omit,
            params: params.clone(),
            streams: states,
        });
        let (readings, threads) = (Series::new(READINGS), Vec::new());
        let mut run = Self { shared, threads, readings, due: Duration::ZERO, interval };
        for (n, socket) in sockets.into_iter().enumerate() {
            let shared = run.shared.clone();
            let thread = std::thread::Builder::new().name(format!("udp stream {n}"));
            run.threads.push(thread.spawn(move || shared.run(n, socket))?);
        }
        run.tick();
        Ok(run)
    }

    /// To be called several times in an interval: ends the omitted time, and reads counts when due.
    pub(super) fn tick(&mut self) {
        let now = self.shared.begin.elapsed();
        if !self.shared.omit.is_zero() && now >= self.shared.omit {
            let unmarked =
                |state: &&State| state.omitted.lock().unwrap_or_else(PoisonError::into_inner).is_none();
            self.shared.streams.iter().filter(unmarked).for_each(State::mark);
        }
        if now >= self.due {
            self.readings.push(self.reading(now));
            self.due += self.interval.max(Duration::from_millis(10));
        }
    }

    fn reading(&self, now: Duration) -> Reading {
        (now.as_secs_f64(), self.shared.streams.iter().map(State::counts).collect())
    }

    /// Bytes moved so far: sent, received.
    pub(super) fn moved(&self) -> (u64, u64) {
        let sum = |sends| {
            let of = self.shared.streams.iter().filter(|state| state.sends == sends);
            of.map(|state| state.counts().bytes).sum()
        };
        (sum(true), sum(false))
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.shared.begin.elapsed()
    }

    /// Whether everything that was to be moved was.
    pub(super) fn is_done(&self) -> bool {
        if self.shared.limit.is_some_and(|limit| self.shared.begin.elapsed() >= limit) {
            return true;
        }
        let mut senders = self.shared.streams.iter().filter(|state| state.sends).peekable();
        let sent = senders.peek().is_some() && senders.all(|state| state.ended.load(Relaxed));
        sent || self.shared.params.amount().is_some_and(|amount| self.moved().1 >= amount)
    }

    pub(super) fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
    }

    /// Wait until all streams have ended.
    pub(super) fn finish(mut self) -> Vec<UdpStream> {
        let threads = std::mem::take(&mut self.threads);
        let ended: Vec<Ended> = threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|panic| Ended {
                    error: Some(format!("the thread of this stream stopped: {}", reason(&*panic))),
                    ..Ended::default()
                })
            })
            .collect();
        let now = ended.iter().map(|ended| ended.last).max().unwrap_or_default();
        let last = self.reading(now);
        self.readings.finish(last);
        let readings = std::mem::replace(&mut self.readings, Series::new(2)).into_values();
        let of = |(n, (state, ended)): (usize, (&State, Ended))| UdpStream {
            sends: state.sends,
            local: state.local,
            remote: state.remote,
            all: state.counts(),
            omitted: state.omitted.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default(),
            seconds: ended.last.saturating_sub(self.shared.omit).as_secs_f64(),
            usage: ended.usage,
            error: ended.error,
            readings: readings.iter().map(|(at, counts)| (*at, counts[n])).collect(),
        };
        self.shared.streams.iter().zip(ended).enumerate().map(of).collect()
    }
}

impl Drop for UdpRun {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
