//! Sending on what arrives, as it arrives.
//!
//! ```text
//!   receive thread ── Tap ──▶ bounded queue ──▶ target thread ──▶ UDP or TCP
//!                     runs of frames that lie side by side in a block, as Views: no copy
//! ```
//!
//! A target never costs the recording a frame: its queue is bounded, and what does not fit is dropped *for that
//! target*, whole frames, counted. A [`View`] keeps its block from being reused until it is sent, so a queue grows
//! only while a quarter of the pool is free.
//!
//! Frames are sent once each, in the order in which they were placed. What the recording strips from the front
//! (the VTP sequence number) is put back for UDP; TCP carries plain concatenated frames, as VTP has it.

use crate::receive::StreamInfo;
use crossbeam_queue::ArrayQueue;
use skyhaul_core::wire::{Format, Keep, Order, Place, StreamFormat, fila10g, vtp};
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::memory::{Block, View};
use skyhaul_io::tcp::{TcpSendOptions, TcpSender};
use skyhaul_io::udp::send::{SendOptions, Sent, UdpSender};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest run handed on at once: about one train.
const RUN_BYTES: usize = 256 << 10;
/// Runs that may wait for one target, whatever memory there is.
const QUEUE: usize = 65_536;
/// Runs that may always wait, and the part of the pool that must be free for more: a slow target uses memory that the
/// recording does not need, and no other.
const ALWAYS: usize = 256;
const FREE_PART: usize = 4;

/// Frames that lie side by side in a block.
#[derive(Debug)]
struct Run {
    view: View,
    unit: u32,
    /// Sequence number of the first frame.
    number: u64,
    /// How it stands in front of each frame, where that was stripped.
    network: Option<Network>,
}

/// A network header that is put back.
#[derive(Clone, Copy, Debug)]
enum Network {
    Vtp(Order),
    Fila10g,
}

impl Network {
    fn of(format: &StreamFormat) -> Option<Self> {
        let stripped = format.keep == Keep::StripNetwork && format.place == Place::Sequence;
        match format.format {
            Format::Fila10g if stripped => Some(Network::Fila10g),
            Format::Vdif | Format::Mark5b if stripped => format.sequence.map(Network::Vtp),
            _ => None,
        }
    }

    fn header(self, number: u64) -> [u8; 8] {
        match self {
            Network::Vtp(order) => vtp::write(number, order),
            Network::Fila10g => fila10g::Fila10g { counter: number as u32, ..Default::default() }.write(),
        }
    }
}

/// A target's counters.
#[derive(Debug, Default)]
struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
    error: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Shared {
    queue: ArrayQueue<Run>,
    asleep: AtomicBool,
    ended: AtomicBool,
    counters: Counters,
    name: String,
    thread: std::sync::OnceLock<std::thread::Thread>,
}

impl Shared {
    fn wake(&self) {
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
    /// TCP connections made; more than one means that it broke.
    pub connections: u64,
    /// The last error, if any.
    pub error: Option<String>,
}

/// All targets of a receiver.
#[derive(Debug, Default)]
pub struct Mirror {
    targets: Vec<Arc<Shared>>,
    threads: Vec<JoinHandle<()>>,
}

impl Mirror {
    /// Open every target. UDP targets are opened now; TCP targets are connected by their thread, and again
    /// whenever the connection breaks.
    ///
    /// # Errors
    /// A socket that cannot be opened, or a thread that cannot be started.
    pub fn open(targets: &[Endpoint]) -> io::Result<Self> {
        let mut mirror = Mirror::default();
        for endpoint in targets {
            let shared = Arc::new(Shared {
                queue: ArrayQueue::new(QUEUE),
                asleep: AtomicBool::new(false),
                ended: AtomicBool::new(false),
                counters: Counters::default(),
                name: endpoint.to_string(),
                thread: std::sync::OnceLock::new(),
            });
            let outlet = Outlet::open(endpoint)?;
            let of_thread = shared.clone();
            let thread =
                std::thread::Builder::new().name("mirror".into()).spawn(move || work(&of_thread, outlet))?;
            let _ = shared.thread.set(thread.thread().clone());
            mirror.targets.push(shared);
            mirror.threads.push(thread);
        }
        Ok(mirror)
    }

    /// An engine's end of it; `None` if there is no target.
    #[must_use]
    pub fn tap(&self) -> Option<Tap> {
        (!self.targets.is_empty()).then(|| Tap {
            targets: self.targets.clone(),
            streams: Vec::new(),
            pending: None,
        })
    }

    /// What became of the frames so far.
    #[must_use]
    pub fn report(&self) -> Vec<TargetReport> {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let report = |shared: &Arc<Shared>| {
            let c = &shared.counters;
            TargetReport {
                target: shared.name.clone(),
                frames: get(&c.frames),
                bytes: get(&c.bytes),
                dropped_queue: get(&c.dropped),
                dropped_refused: get(&c.refused),
                connections: get(&c.connections),
                error: c.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            }
        };
        self.targets.iter().map(report).collect()
    }

    /// Send what is queued (at most for two seconds a target), then end.
    pub fn finish(&mut self) -> Vec<TargetReport> {
        for shared in &self.targets {
            shared.ended.store(true, Ordering::Release);
            shared.wake();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.report()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What an engine knows of a stream it mirrors.
#[derive(Clone, Copy, Debug)]
struct Mirrored {
    stream: u32,
    unit: u32,
    network: Option<Network>,
}

/// An engine's end of a [`Mirror`]: gathers frames into runs.
#[derive(Debug)]
pub struct Tap {
    targets: Vec<Arc<Shared>>,
    streams: Vec<Mirrored>,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    stream: u32,
    block: usize,
    end: usize,
    run: Run,
}

impl Tap {
    /// A stream's frames may follow.
    pub(crate) fn stream_began(&mut self, info: &StreamInfo) {
        let network = Network::of(&info.format);
        self.streams.push(Mirrored { stream: info.id, unit: info.unit_bytes, network });
    }

    /// A frame was written at `range` of `block`; `base` is the number of the frame that begins the block.
    #[inline]
    pub(crate) fn frame(&mut self, stream: u32, block: &Block, range: Range<usize>, base: u64) {
        if let Some(p) = &mut self.pending
            && p.stream == stream
            && p.block == block.index()
            && p.end == range.start
            && p.run.view.len() < RUN_BYTES
        {
            p.run.view.extend(range.end - range.start);
            p.end = range.end;
            return;
        }
        self.begin(stream, block, range, base);
    }

    fn begin(&mut self, stream: u32, block: &Block, range: Range<usize>, base: u64) {
        self.flush();
        let Some(&Mirrored { unit, network, .. }) = self.streams.iter().find(|s| s.stream == stream) else {
            return;
        };
        let number = base.wrapping_add((range.start / unit.max(1) as usize) as u64);
        let run = Run { view: block.view(range.clone()), unit, number, network };
        self.pending = Some(Pending { stream, block: block.index(), end: range.end, run });
    }

    /// Hand the gathered run to every target.
    pub(crate) fn flush(&mut self) {
        let Some(Pending { run, .. }) = self.pending.take() else { return };
        let frames = run.frames();
        let pool = run.view.pool();
        let scarce = pool.free() < pool.blocks() / FREE_PART;
        for target in &self.targets {
            let copy = Run { view: run.view.clone(), ..run };
            let full = scarce && target.queue.len() >= ALWAYS;
            if full || target.queue.push(copy).is_err() {
                target.counters.dropped.fetch_add(frames, Ordering::Relaxed);
            }
            target.wake();
        }
    }
}

/// How frames leave.
enum Outlet {
    Udp(Box<UdpSender>),
    Tcp { endpoint: Endpoint, sender: Option<Box<TcpSender>>, retry_at: Instant },
}

/// How long a broken TCP target is left alone before the next attempt.
const RETRY: Duration = Duration::from_millis(500);
/// How long a target may take what is queued when the receiver has stopped.
const LINGER: Duration = Duration::from_secs(2);
/// How long a TCP target may take nothing before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Frames handed to the system at once.
const BATCH: usize = 64;

impl Outlet {
    fn open(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint.transport {
            Transport::Udp => Ok(Outlet::Udp(Box::new(UdpSender::open(endpoint, &SendOptions::default())?))),
            Transport::Tcp => {
                Ok(Outlet::Tcp { endpoint: endpoint.clone(), sender: None, retry_at: Instant::now() })
            }
        }
    }

    /// Send a run; what the system does not take is counted.
    fn send(&mut self, run: &Run, counters: &Counters) {
        match self {
            Outlet::Udp(sender) => {
                let outcome = run.packets(|packets| sender.try_send_train(packets));
                counters.enter(run, outcome);
            }
            Outlet::Tcp { endpoint, sender, retry_at } => {
                if sender.is_none() && Instant::now() >= *retry_at {
                    *retry_at = Instant::now() + RETRY;
                    match TcpSender::open(
                        endpoint,
                        &TcpSendOptions { patience: PATIENCE, ..TcpSendOptions::default() },
                    ) {
                        Ok(connected) => {
                            counters.connections.fetch_add(1, Ordering::Relaxed);
                            *sender = Some(Box::new(connected));
                        }
                        Err(e) => counters.note(&e),
                    }
                }
                let Some(connected) = sender else {
                    counters.refused.fetch_add(run.frames(), Ordering::Relaxed);
                    return;
                };
                let outcome = run.frames_alone(|frames| connected.send(frames));
                if outcome.is_err() {
                    *sender = None;
                }
                counters.enter(run, outcome);
            }
        }
    }
}

impl Outlet {
    /// What is on its way still arrives.
    fn finish(self, counters: &Counters) {
        if let Outlet::Tcp { sender: Some(sender), .. } = self
            && let Err(e) = sender.finish()
        {
            counters.note(&e);
        }
    }
}

impl Run {
    fn frames(&self) -> u64 {
        (self.view.len() / self.unit.max(1) as usize) as u64
    }

    /// The run as packets of sequence number and frame, [`BATCH`] at a time.
    fn packets(&self, mut send: impl FnMut(&[[IoSlice<'_>; 2]]) -> io::Result<Sent>) -> io::Result<Sent> {
        let mut all = Sent::default();
        let mut number = self.number;
        for part in self.view.chunks(self.unit.max(1) as usize * BATCH) {
            let mut heads = [[0; 8]; BATCH];
            let head = self.network.map_or(0, |_| 8);
            for head in &mut heads {
                if let Some(network) = self.network {
                    *head = network.header(number);
                }
                number = number.wrapping_add(1);
            }
            let mut slices = [[IoSlice::new(&[]); 2]; BATCH];
            let mut n = 0;
            for ((slice, frame), bytes) in
                slices.iter_mut().zip(part.chunks(self.unit.max(1) as usize)).zip(&heads)
            {
                *slice = [IoSlice::new(&bytes[..head]), IoSlice::new(frame)];
                n += 1;
            }
            add(&mut all, send(&slices[..n])?);
        }
        Ok(all)
    }

    /// The run as bare frames.
    fn frames_alone(
        &self,
        mut send: impl FnMut(&[[IoSlice<'_>; 1]]) -> io::Result<Sent>,
    ) -> io::Result<Sent> {
        let mut all = Sent::default();
        for part in self.view.chunks(self.unit.max(1) as usize * BATCH) {
            let mut slices = [[IoSlice::new(&[])]; BATCH];
            let mut n = 0;
            for (slice, frame) in slices.iter_mut().zip(part.chunks(self.unit.max(1) as usize)) {
                *slice = [IoSlice::new(frame)];
                n += 1;
            }
            add(&mut all, send(&slices[..n])?);
        }
        Ok(all)
    }
}

fn add(all: &mut Sent, more: Sent) {
    all.packets += more.packets;
    all.bytes += more.bytes;
    all.refused += more.refused;
}

/// A target's thread: send what is queued; when the receiver has ended, what is left, for a while.
fn work(shared: &Shared, mut outlet: Outlet) {
    let mut until: Option<Instant> = None;
    loop {
        if let Some(run) = shared.queue.pop() {
            match until {
                Some(end) if Instant::now() >= end => {
                    shared.counters.dropped.fetch_add(run.frames(), Ordering::Relaxed);
                }
                _ => outlet.send(&run, &shared.counters),
            }
            continue;
        }
        if shared.ended.load(Ordering::Acquire) {
            if shared.queue.is_empty() {
                return outlet.finish(&shared.counters);
            }
            until.get_or_insert(Instant::now() + LINGER);
            continue;
        }
        shared.asleep.store(true, Ordering::Release);
        if shared.queue.is_empty() && !shared.ended.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        shared.asleep.store(false, Ordering::Release);
    }
}

impl Counters {
    fn note(&self, error: &io::Error) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }

    fn enter(&self, run: &Run, outcome: io::Result<Sent>) {
        match outcome {
            Ok(sent) => {
                self.frames.fetch_add(sent.packets as u64, Ordering::Relaxed);
                self.bytes.fetch_add(sent.bytes as u64, Ordering::Relaxed);
                self.refused.fetch_add(sent.refused as u64, Ordering::Relaxed);
            }
            Err(e) => {
                self.refused.fetch_add(run.frames(), Ordering::Relaxed);
                self.note(&e);
            }
        }
    }
}
