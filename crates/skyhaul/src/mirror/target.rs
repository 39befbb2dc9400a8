//! A target of forwarding: its queue, its counters, and the thread that sends to it.

use crate::send::Outlet;
use crossbeam_queue::ArrayQueue;
use skyhaul_core::wire::{Numbering, PREFIX};
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::lock::lock;
use skyhaul_io::memory::View;
use skyhaul_io::tcp::TcpSendOptions;
use skyhaul_io::udp::send::{SendOptions, Sent};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Runs that may wait for one target, whatever memory there is.
const MAX_QUEUED_RUNS: usize = 65_536;

/// Frames that lie side by side in a block.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) stream: u32,
    pub(super) view: View,
    pub(super) unit: u32,
    /// Sequence number of the first frame.
    pub(super) number: u64,
    /// How it stands in front of each frame, where that was stripped.
    pub(super) network: Option<Numbering>,
}

impl Run {
    pub(super) fn frames(&self) -> u64 {
        (self.view.len() / self.unit.max(1) as usize) as u64
    }

    /// Its frames, each with its number.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.view
            .chunks(self.unit.max(1) as usize)
            .enumerate()
            .map(|(i, frame)| (self.number.wrapping_add(i as u64), frame))
    }
}

/// A target's counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) frames: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) error: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn connected(&self, tcp: bool) {
        self.connections.fetch_add(u64::from(tcp), Ordering::Relaxed);
    }

    pub(super) fn drop_frames(&self, frames: u64) {
        self.dropped.fetch_add(frames, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, frames: u64) {
        self.refused.fetch_add(frames, Ordering::Relaxed);
    }

    pub(super) fn note(&self, error: &io::Error) {
        *lock(&self.error) = Some(error.to_string());
    }

    /// Of `frames`, these were sent before the outcome.
    pub(super) fn enter(&self, frames: u64, sent: Sent, outcome: io::Result<()>) {
        self.frames.fetch_add(sent.packets as u64, Ordering::Relaxed);
        self.bytes.fetch_add(sent.bytes as u64, Ordering::Relaxed);
        self.refuse(sent.refused as u64);
        if let Err(e) = outcome {
            self.refuse(frames.saturating_sub((sent.packets + sent.refused) as u64));
            self.note(&e);
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: ArrayQueue<Run>,
    asleep: AtomicBool,
    pub(super) ended: AtomicBool,
    pub(super) counters: Counters,
    pub(super) name: String,
    pub(super) thread: OnceLock<Thread>,
}

impl Shared {
    pub(super) fn new(name: String) -> Self {
        Self {
            queue: ArrayQueue::new(MAX_QUEUED_RUNS),
            asleep: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            counters: Counters::default(),
            name,
            thread: OnceLock::new(),
        }
    }

    /// Until there is something to do, or for a moment.
    pub(super) fn sleep(&self) {
        self.asleep.store(true, Ordering::Release);
        if self.queue.is_empty() && !self.ended.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        self.asleep.store(false, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        if self.asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// What became of the frames for one target.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct TargetReport {
    /// Its address.
    pub target: String,
    /// Frames sent.
    pub frames: u64,
    /// Bytes sent, network headers of our own included.
    pub bytes: u64,
    /// Frames not sent because the target was slower than the stream.
    pub dropped_queue: u64,
    /// Frames not sent because the system refused them (buffer full, no route).
    pub dropped_refused: u64,
    /// TCP connections made: one for each stream; more mean that one broke.
    pub connections: u64,
    /// The last error, if any.
    pub error: Option<String>,
}

/// Most sockets for one target.
const MAX_SOCKETS: u32 = 256;
/// How long a target that cannot be reached is left alone before the next attempt.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long a TCP target may take nothing before its connection is given up.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);
/// Frames handed to the system at once.
const BATCH_FRAMES: usize = 64;

/// A socket or connection of its own.
fn open(endpoint: &Endpoint) -> io::Result<Outlet> {
    match endpoint.transport {
        Transport::Udp => Outlet::udp(std::slice::from_ref(endpoint), &SendOptions::default()),
        Transport::Tcp => {
            Outlet::tcp(endpoint, &TcpSendOptions { patience: SEND_TIMEOUT, ..TcpSendOptions::default() })
        }
    }
}

/// All sockets of a target.
pub(super) struct Outlets {
    endpoint: Endpoint,
    open: HashMap<u32, Outlet>,
    /// No attempt to open another before then.
    retry_at: Instant,
}

impl Outlets {
    /// UDP: the first socket, so that a wrong address is told at once. TCP connects when there is something to send.
    pub(super) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let mut open = HashMap::new();
        if endpoint.transport == Transport::Udp {
            open.insert(0, self::open(endpoint)?);
        }
        Ok(Self { endpoint: endpoint.clone(), open, retry_at: Instant::now() })
    }

    /// Send runs of one stream; what the system does not take is counted.
    pub(super) fn send(&mut self, runs: &[Run], counters: &Counters) {
        let Some(first) = runs.first() else { return };
        let frames = runs.iter().map(Run::frames).sum();
        let key = first.stream % MAX_SOCKETS;
        if !self.open.contains_key(&key) && Instant::now() >= self.retry_at {
            self.connect(key, counters);
        }
        let Some(outlet) = self.open.get_mut(&key) else { return counters.refuse(frames) };
        let mut sent = Sent::default();
        let outcome = send(outlet, runs, &mut sent);
        if outcome.is_err() && !outlet.is_udp() {
            self.open.remove(&key);
            self.retry_at = Instant::now() + RETRY_DELAY;
        }
        counters.enter(frames, sent, outcome);
    }

    fn connect(&mut self, key: u32, counters: &Counters) {
        match open(&self.endpoint) {
            Ok(outlet) => {
                counters.connected(!outlet.is_udp());
                self.open.insert(key, outlet);
            }
            Err(e) => {
                self.retry_at = Instant::now() + RETRY_DELAY;
                counters.note(&e);
            }
        }
    }

    /// What is on its way still arrives.
    pub(super) fn finish(self, counters: &Counters) {
        for outlet in self.open.into_values() {
            if let Err(e) = outlet.finish() {
                counters.note(&e);
            }
        }
    }
}

/// Send all frames of some runs, [`BATCH_FRAMES`] at a time: where packets come out of order, runs are short, and a system call for
/// each would cost more than the frames. Over UDP, the number that was stripped stands before each frame again. What is sent is added to
/// `all`, that before an error, too.
fn send(outlet: &mut Outlet, runs: &[Run], all: &mut Sent) -> io::Result<()> {
    let number = outlet.is_udp();
    let mut frames = runs.iter().flat_map(|run| run.numbered().map(|(n, frame)| (run.network, n, frame)));
    loop {
        let mut heads = [([0; 8], 0); BATCH_FRAMES];
        let mut bodies = [&[][..]; BATCH_FRAMES];
        let mut count = 0;
        for ((head, body), (network, n, frame)) in heads.iter_mut().zip(&mut bodies).zip(&mut frames) {
            if let Some(network) = network.filter(|_| number) {
                *head = (network.write(n), PREFIX);
            }
            *body = frame;
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let mut slices = [IoSlice::new(&[]); 2 * BATCH_FRAMES];
        let mut extents = [Extent::default(); BATCH_FRAMES];
        for (n, ((head, length), body)) in heads.iter().zip(&bodies[..count]).enumerate() {
            (slices[2 * n], slices[2 * n + 1]) = (IoSlice::new(&head[..*length]), IoSlice::new(body));
            extents[n] = Extent { first: 2 * n, bytes: length + body.len() };
        }
        let sent = outlet.send_now(Gathered::new(&slices[..2 * count], &extents[..count]))?;
        all.packets += sent.packets;
        all.bytes += sent.bytes;
        all.refused += sent.refused;
    }
}
