//! Sending on what arrives, as it arrives.
//!
//! ```text
//!   receive thread ── Tap ──▶ bounded queue ──▶ target thread ──▶ UDP or TCP
//!                     runs of frames that lie side by side in a block, as Views: no copy
//! ```
//!
//! A target never costs the recording a frame: its queue is bounded, and what does not fit is dropped *for that
//! target*, whole frames, counted. A [`View`](skyhaul_io::memory::View) keeps its block from being reused until it is
//! sent, so a queue grows only while a quarter of the pool is free, and is dropped when less than an eighth is.
//!
//! Frames are sent once each, in the order in which they were placed. What the recording strips from the front
//! (the VTP sequence number) is put back for UDP; TCP carries plain concatenated frames, as VTP has it.
//!
//! A [`Tap`] is the engine's end: it runs on the receiving thread, gathers frames into runs, and never waits.
//!
//! Receivers tell streams apart by their sender, so each stream leaves by a socket of its own.

mod target;

pub use crate::mirror::target::TargetReport;

use crate::mirror::target::{Outlets, Run, Shared};
use crate::receive::StreamInfo;
use skyhaul_core::wire::{Keep, Numbering, Place, StreamFormat};
use skyhaul_io::address::Endpoint;
use skyhaul_io::copy;
use skyhaul_io::lock::lock;
use skyhaul_io::memory::{Block, Pool};
use skyhaul_io::source::Train;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
        // Before any is connected to: one that cannot be would be tried for ever.
        targets.iter().try_for_each(Endpoint::check_destination)?;
        let mut mirror = Mirror::default();
        for endpoint in targets {
            let shared = Arc::new(Shared::new(endpoint.to_string()));
            let outlets = Outlets::open(endpoint)?;
            let of_thread = shared.clone();
            let thread =
                std::thread::Builder::new().name("mirror".into()).spawn(move || work(&of_thread, outlets))?;
            let _ = shared.thread.set(thread.thread().clone());
            mirror.targets.push(shared);
            mirror.threads.push(thread);
        }
        Ok(mirror)
    }

    /// An engine's end of it; `None` if there is no target.
    #[must_use]
    pub fn tap(&self) -> Option<Tap> {
        (!self.targets.is_empty()).then(|| Tap::new(self.targets.clone()))
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
                error: lock(&c.error).clone(),
            }
        };
        self.targets.iter().map(report).collect()
    }

    /// Send what is queued (for half a minute at most, and to a target that takes nothing not at all), then end.
    pub fn finish(&mut self) -> Vec<TargetReport> {
        for shared in &self.targets {
            shared.ended.store(true, Ordering::Release);
            shared.wake();
        }
        for (thread, shared) in self.threads.drain(..).zip(&self.targets) {
            if thread.join().is_err() {
                shared.counters.note(&io::Error::other("a fault in this program ended sending to it"));
            }
            // What a thread that died left behind was not sent.
            while let Some(run) = shared.queue.pop() {
                shared.counters.dropped.fetch_add(run.frames(), Ordering::Relaxed);
            }
        }
        self.report()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.finish();
    }
}

/// How long a target may take what is queued when the receiver has stopped, as long as it takes something.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Runs sent together.
const TOGETHER: usize = 64;

/// A target's thread: send what is queued; when the receiver has ended, what is left, for a while.
fn work(shared: &Shared, mut outlets: Outlets) {
    let mut until: Option<Instant> = None;
    let mut runs: Vec<Run> = Vec::with_capacity(TOGETHER);
    let mut next: Option<Run> = None;
    loop {
        if until.is_none() && shared.ended.load(Ordering::Acquire) {
            until = Some(Instant::now() + LINGER_TIMEOUT);
        }
        runs.extend(next.take());
        while runs.len() < TOGETHER
            && let Some(run) = shared.queue.pop()
        {
            if runs.first().is_some_and(|first| first.stream != run.stream) {
                next = Some(run);
                break;
            }
            runs.push(run);
        }
        match until {
            // Nothing was pushed after the end.
            Some(_) if runs.is_empty() => return outlets.finish(&shared.counters),
            None if runs.is_empty() => shared.sleep(),
            Some(end) if Instant::now() >= end => {
                let frames = runs.iter().map(Run::frames).sum();
                shared.counters.drop_frames(frames);
            }
            _ => outlets.send(&runs, &shared.counters),
        }
        runs.clear();
    }
}

/// Longest run handed on at once: about one train.
const RUN_BYTES: usize = 256 << 10;

/// Runs that may always wait, and the part of the pool that must be free for more: a slow target uses memory that the
/// recording does not need, and no other.
const ALWAYS: usize = 256;
const FREE_PART: usize = 4;
/// The part of the pool that what waits for targets is given up for.
const RESERVE: usize = 8;
/// Runs that wait for a target that is behind.
const BEHIND: usize = 16;

/// How the sequence number is put back that the recording strips.
fn put_back(format: &StreamFormat) -> Option<Numbering> {
    let stripped = format.keep == Keep::StripNetwork && format.place == Place::Sequence;
    format.numbering().filter(|_| stripped)
}

/// What an engine knows of a stream it mirrors.
#[derive(Clone, Copy, Debug)]
struct Mirrored {
    stream: u32,
    unit: u32,
    network: Option<Numbering>,
}

/// An engine's end of a [`Mirror`]: gathers frames into runs.
#[derive(Debug)]
pub struct Tap {
    targets: Vec<Arc<Shared>>,
    streams: Vec<Mirrored>,
    pending: Option<Pending>,
    /// Where copies lie, of packets that are placed elsewhere and of frames in too many pieces, and how much of it they take.
    spare: Option<(Block, usize)>,
}

#[derive(Debug)]
struct Pending {
    block: usize,
    end: usize,
    run: Run,
}

impl Tap {
    fn new(targets: Vec<Arc<Shared>>) -> Self {
        Self { targets, streams: Vec::new(), pending: None, spare: None }
    }

    /// A stream's frames may follow.
    pub(crate) fn stream_began(&mut self, info: &StreamInfo) {
        let network = put_back(&info.format);
        self.streams.push(Mirrored { stream: info.id, unit: info.unit_bytes, network });
    }

    /// No more frames of a stream follow.
    pub(crate) fn stream_ended(&mut self, info: &StreamInfo) {
        self.flush();
        self.streams.retain(|mirrored| mirrored.stream != info.id);
    }

    /// Frames were written at `range` of `block`; `base` is the number of the frame that begins the block.
    #[inline]
    pub(crate) fn frames(&mut self, stream: u32, block: &mut Block, range: Range<usize>, base: u64) {
        if !self.goes_on(stream, block, &range) {
            self.begin(stream, block, range, base);
        }
    }

    /// Whether the gathered run goes on with `range` of `block`: then it is part of it now.
    #[inline]
    fn goes_on(&mut self, stream: u32, block: &mut Block, range: &Range<usize>) -> bool {
        let Some(p) = &mut self.pending else { return false };
        let goes_on = p.run.stream == stream
            && p.block == block.index()
            && p.end == range.start
            && p.run.view.len() < RUN_BYTES
            && block.extend(&mut p.run.view, range.end - range.start);
        if goes_on {
            p.end = range.end;
        }
        goes_on
    }

    /// Packets whose payloads are placed elsewhere, sent on as they came: this copies them. `sender` tells streams apart.
    pub(crate) fn packets(&mut self, sender: u32, train: &Train<'_>, pool: &Pool) {
        let stride = if train.stride == 0 { train.bytes.len() } else { train.stride.min(train.bytes.len()) };
        let Some(tail) = train.bytes.len().checked_rem(stride) else { return };
        let (whole, last) = train.bytes.split_at(train.bytes.len() - tail);
        for (packets, unit) in [(whole, stride), (last, tail)] {
            let unit = u32::try_from(unit).unwrap_or(u32::MAX);
            self.copied(Mirrored { stream: sender, unit, network: None }, 0, packets, pool);
        }
    }

    /// Frames that lie side by side, the first of them with this number, are sent on from a copy.
    fn copied(&mut self, mirrored: Mirrored, number: u64, bytes: &[u8], pool: &Pool) {
        if bytes.is_empty() {
            return;
        }
        let full = self.spare.as_ref().is_none_or(|(block, used)| block.len() - used < bytes.len());
        if full {
            self.flush();
            self.spare = pool.take().map(|block| (block, 0));
        }
        let Some((mut block, used)) = self.spare.take().filter(|(block, _)| block.len() >= bytes.len())
        else {
            return self.drop_frames(mirrored.unit, bytes.len());
        };
        let range = used..used + bytes.len();
        block.place(used, bytes);
        let follows = self.pending.as_ref().is_some_and(|Pending { run, .. }| {
            let is_next = run.number.wrapping_add(run.frames()) == number;
            run.unit == mirrored.unit && (mirrored.network.is_none() || is_next)
        });
        let goes_on = follows && self.goes_on(mirrored.stream, &mut block, &range);
        if !goes_on && !self.begin_run(mirrored, &mut block, range.clone(), number) {
            self.drop_frames(mirrored.unit, range.len());
        }
        self.spare = Some((block, range.end));
    }

    fn begin(&mut self, stream: u32, block: &mut Block, range: Range<usize>, base: u64) {
        let Some(&mirrored) = self.streams.iter().find(|s| s.stream == stream) else { return };
        let number = base.wrapping_add((range.start / mirrored.unit.max(1) as usize) as u64);
        if !self.begin_run(mirrored, block, range.clone(), number) {
            // Short frames with gaps between them can be more separate pieces than a block can show.
            let pool = block.pool().clone();
            self.copied(mirrored, number, &block[range], &pool);
        }
    }

    /// Begins a run; returns whether the block can show it.
    fn begin_run(&mut self, mirrored: Mirrored, block: &mut Block, range: Range<usize>, number: u64) -> bool {
        let Mirrored { stream, unit, network } = mirrored;
        self.flush();
        let pool = block.pool();
        // Memory that is still being prepared is not short.
        if pool.is_touched() && pool.free() < pool.blocks() / RESERVE {
            self.relieve();
        }
        let Some(view) = block.view(range.clone()) else { return false };
        let run = Run { stream, view, unit, number, network };
        self.pending = Some(Pending { block: block.index(), end: range.end, run });
        true
    }

    /// The recording has these bytes; the targets do not get them.
    fn drop_frames(&self, unit: u32, bytes: usize) {
        let frames = (bytes / unit.max(1) as usize) as u64;
        self.targets.iter().for_each(|target| target.counters.drop_frames(frames));
    }

    /// Memory runs short: it is the recording's. What waits for a target that is behind is dropped.
    #[cold]
    fn relieve(&mut self) {
        for target in self.targets.iter().filter(|target| target.queue.len() > BEHIND) {
            while let Some(run) = target.queue.pop() {
                target.counters.drop_frames(run.frames());
            }
        }
    }

    /// Hand the gathered run to every target.
    pub(crate) fn flush(&mut self) {
        let Some(Pending { run, .. }) = self.pending.take() else { return };
        // Another thread reads them from here on.
        copy::fence();
        let frames = run.frames();
        let pool = run.view.pool();
        let scarce = pool.is_touched() && pool.free() < pool.blocks() / FREE_PART;
        for target in &self.targets {
            let copy = Run { view: run.view.clone(), ..run };
            let full = scarce && target.queue.len() >= ALWAYS;
            if full || target.queue.push(copy).is_err() {
                target.counters.drop_frames(frames);
            }
            target.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::Order;
    use skyhaul_io::memory::PoolOptions;
    use std::sync::atomic::Ordering;

    const UNIT: usize = 1000;

    /// A tap to a target whose thread takes nothing.
    fn tap() -> (Tap, Arc<Shared>) {
        let target = Arc::new(Shared::new("nobody".into()));
        let streams = vec![Mirrored { stream: 1, unit: UNIT as u32, network: None }];
        (Tap { targets: vec![target.clone()], streams, pending: None, spare: None }, target)
    }

    /// Hand on more runs than may always wait; what became of them: those that wait, and frames dropped.
    fn more_than_always(blocks: &mut [Block], tap: &mut Tap, target: &Shared) -> (usize, u64) {
        for n in 0..ALWAYS + 50 {
            let at = n / blocks.len() * UNIT;
            let of = n % blocks.len();
            tap.frames(1, &mut blocks[of], at..at + UNIT, 0);
        }
        tap.flush();
        (target.queue.len(), target.counters.dropped.load(Ordering::Relaxed))
    }

    #[test]
    fn nothing_is_dropped_for_memory_that_is_still_being_prepared() {
        // So much that it takes a while; a try in which all of it came meanwhile says nothing.
        let options = PoolOptions { total_bytes: 512 << 20, block_bytes: 1 << 20, shared: false };
        let tried = (0..100).find_map(|_| {
            let pool = Pool::new(&options).unwrap();
            let mut blocks: Vec<Block> = (0..8).map(|_| pool.take().unwrap()).collect();
            let (mut tap, target) = tap();
            let found = more_than_always(&mut blocks, &mut tap, &target);
            let scarce = pool.free() < pool.blocks() / RESERVE;
            (scarce && !pool.is_touched()).then_some(found)
        });
        assert_eq!(tried, Some((ALWAYS + 50, 0)), "a large pool is not there at once");
    }

    #[test]
    fn what_waits_for_a_target_is_given_up_where_memory_is_short() {
        let options = PoolOptions { total_bytes: 16 << 20, block_bytes: 1 << 20, shared: false };
        let pool = Pool::new(&options).unwrap();
        pool.wait_until_touched().unwrap();
        let mut blocks: Vec<Block> = (0..8).map(|_| pool.take().unwrap()).collect();
        let (mut tap, target) = tap();
        assert_eq!(more_than_always(&mut blocks, &mut tap, &target), (ALWAYS + 50, 0), "half of it is free");

        // Less than a quarter is: no more than may always wait.
        blocks.extend((0..5).map(|_| pool.take().unwrap()));
        let (mut tap, target) = self::tap();
        assert_eq!(more_than_always(&mut blocks, &mut tap, &target), (ALWAYS, 50));

        // Less than an eighth: it is given up.
        blocks.extend((0..2).map(|_| pool.take().unwrap()));
        let (mut tap, target) = self::tap();
        let (waiting, dropped) = more_than_always(&mut blocks, &mut tap, &target);
        assert!(waiting <= BEHIND + 1, "{waiting} wait");
        assert_eq!(waiting as u64 + dropped, (ALWAYS + 50) as u64);
    }

    #[test]
    fn frames_in_more_pieces_than_a_block_can_show_are_sent_on_with_their_numbers() {
        let options = PoolOptions { total_bytes: 8 << 20, block_bytes: 1 << 20, shared: false };
        let pool = Pool::new(&options).unwrap();
        pool.wait_until_touched().unwrap();
        for network in [None, Some(Numbering::whole(Order::Little))] {
            let mut block = pool.take().unwrap();
            let places = block.len() / UNIT;
            for n in 0..places {
                block[n * UNIT..(n + 1) * UNIT].fill(n as u8);
            }
            let (mut tap, target) = tap();
            tap.streams[0].network = network;
            // The second thread of two has vanished.
            let sent: Vec<usize> = (0..places).step_by(2).collect();
            for n in &sent {
                tap.frames(1, &mut block, n * UNIT..(n + 1) * UNIT, 7000);
            }
            tap.flush();
            let runs: Vec<Run> = std::iter::from_fn(|| target.queue.pop()).collect();
            let frames: Vec<(u64, u8)> = runs
                .iter()
                .flat_map(|run| run.numbered().map(|(number, frame)| (number, frame[0])))
                .collect();
            assert_eq!(target.counters.dropped.load(Ordering::Relaxed), 0);
            let (numbers, contents): (Vec<u64>, Vec<u8>) = frames.into_iter().unzip();
            assert_eq!(contents, sent.iter().map(|n| *n as u8).collect::<Vec<_>>());
            if network.is_some() {
                assert_eq!(numbers, sent.iter().map(|n| 7000 + *n as u64).collect::<Vec<_>>());
            }
        }
    }
}
