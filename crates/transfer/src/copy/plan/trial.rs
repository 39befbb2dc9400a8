//! One trial: bytes from a source to a sink for some seconds, on the threads of a copy. Its parts:
//!
//! | trial | at the sender | at the receiver |
//! |---|---|---|
//! | network | memory ─▶ flows | flows ─▶ nothing |
//! | disk | files ─▶ nothing | memory ─▶ files without a name |
//! | all | files ─▶ flows | flows ─▶ files without a name |
//!
//! Parts that were measured alone do not say what they reach together where they share a disk or a CPU, and a disk that is
//! read and written at the same time does less than half of either: so a plan measures all of them together, too.
//!
//! Limits: three to ten seconds, 60 round trips. A disk that becomes slower only after that is not recognised.

mod rate;

use self::rate::{Point, seen};
use super::super::control::SessionState;
use super::super::destination::Destination;
use super::super::flow_reader::{Filled, FlowReader};
use super::super::flows::{ReceiverShared, WriteOrder};
use super::super::message::{Trial, TrialResult, Tried};
use super::super::options::{Account, Tuning};
use super::super::range::RangeHead;
use super::super::reader::{Job, SenderEvent, SenderShared};
use super::super::session::LocalEnd;
use super::super::target::Refusal;
use skyhaul::peer::DataStream;
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::{Ended, Queue, Scratch};
use skyhaul_io::host::thread::process_cpu_time;
use skyhaul_io::memory::Block;
use skyhaul_io::tcp::info::TcpInfo;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Duration of a trial: flows reach their speed in some tens of round trips.
const MIN_SPAN: Duration = Duration::from_secs(3);
const MAX_SPAN: Duration = Duration::from_secs(10);
const SPAN_ROUND_TRIPS: f64 = 60.0;
/// A range that is still under way then is cut off after this.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Time for a receiver beyond that of its sender.
const RECEIVER_EXTRA_TIME: Duration = Duration::from_secs(7);
/// As often as in a copy.
const SYNC_INTERVAL: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Most bytes of a file without a name; then it is written from its beginning again.
const MAX_SCRATCH_BYTES: u64 = 4 << 30;
/// Duration of the measurement of a single part.
const PART_SPAN: Duration = Duration::from_secs(1);
/// Fewest bytes written to measure a disk: many more than are copied would delay the copy.
const MIN_DISK_BYTES: u64 = 64 << 20;
/// No more files than this are read.
const MAX_FILES: usize = 100_000;

/// The duration of a trial on a path with this round-trip time.
pub(super) fn span_of(rtt: f64) -> Duration {
    Duration::from_secs_f64((rtt * SPAN_ROUND_TRIPS).clamp(MIN_SPAN.as_secs_f64(), MAX_SPAN.as_secs_f64()))
}

/// Where the bytes of a trial come from.
enum Source<'a> {
    Memory,
    /// Files longer than the number, from these roots.
    Files(&'a LocalEnd<'a>, u64),
}

/// Runs this end of a trial: that of the sender, or that of the receiver. A trial of a disk needs no flows.
///
/// # Errors
/// The destination cannot be written or has no room, or a file cannot be read.
pub(in crate::copy) fn run(
    trial: Trial,
    is_sender: bool,
    here: &LocalEnd<'_>,
    flows: Vec<DataStream>,
    tuning: &Tuning,
    account: Account,
) -> io::Result<Tried> {
    match (trial, is_sender) {
        (Trial::Network, true) => {
            let tuning = Tuning { limit: None, ..tuning.clone() };
            send(flows, &Source::Memory, &tuning, PART_SPAN, account)
        }
        (Trial::Network, false) => Ok(discard(flows)),
        (Trial::Disk(_), true) => send(Vec::new(), &Source::Files(here, 0), tuning, PART_SPAN, account),
        (Trial::Disk(bytes), false) => {
            let bytes = bytes.clamp(MIN_DISK_BYTES, MAX_SCRATCH_BYTES);
            receive(Vec::new(), here.into, bytes, tuning, PART_SPAN, account)
        }
        (Trial::All { longer, span }, true) => {
            send(flows, &Source::Files(here, longer), tuning, span.min(MAX_SPAN), account)
        }
        (Trial::All { span, .. }, false) => {
            receive(flows, here.into, MAX_SCRATCH_BYTES, tuning, span.min(MAX_SPAN), account)
        }
    }
}

/// Sends for a time; without flows, only reads.
fn send(
    flows: Vec<DataStream>,
    source: &Source<'_>,
    tuning: &Tuning,
    span: Duration,
    account: Account,
) -> io::Result<Tried> {
    let count = flows.len();
    let handles = flows.iter().map(|flow| flow.socket().try_clone()).collect::<io::Result<Vec<_>>>()?;
    let shared = &SenderShared::new(tuning, count, account)?;
    let ask = || match source {
        Source::Memory => u64::MAX,
        Source::Files(LocalEnd { manifest, .. }, longer) => {
            let files = manifest.entries.iter().enumerate().filter(|(_, entry)| entry.size() > *longer);
            let jobs = files.take(MAX_FILES).map(|(file, entry)| {
                let ranges = entry.size().div_ceil(tuning.range);
                shared.todo.push(Job { file, ranges: [(0, ranges)].into() });
                ranges
            });
            jobs.sum()
        }
    };
    let mut left = ask();
    let (begun, cpu, running) = (Instant::now(), process_cpu_time(), AtomicUsize::new(count));
    std::thread::scope(|scope| {
        for stream in flows {
            let running = &running;
            scope.spawn(move || {
                let _ = shared.send(stream).map_err(|error| shared.watch.fail(error));
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        if count == 0 {
            scope.spawn(|| shared.discard());
        }
        scope.spawn(|| match source {
            Source::Memory => shared.repeat(),
            Source::Files(LocalEnd { roots, manifest, .. }, _) => {
                let _ = shared.read(roots, manifest).map_err(|error| shared.watch.fail(error));
            }
        });
        while left > 0 && begun.elapsed() < span && !shared.watch.is_over() {
            std::thread::sleep(POLL_INTERVAL);
            while let Some(event) = shared.events.try_pop() {
                match event {
                    SenderEvent::Range { .. } => left -= 1,
                    SenderEvent::Lost { error, .. } => shared.watch.fail(io::Error::other(error)),
                    SenderEvent::Found { .. } => {}
                }
            }
            // All of them again, until the flows have their speed.
            if left == 0 {
                left = ask();
            }
        }
        shared.watch.end();
        let end = Instant::now() + DRAIN_TIME;
        while running.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Cuts off what a slow path has not taken by now.
        handles.iter().for_each(|handle| drop(handle.shutdown(Shutdown::Both)));
    });
    // A flow that was cut off failed as it should.
    if let Some(error) = shared.watch.failure().filter(|_| count == 0) {
        return Err(error);
    }
    Ok(Tried { side: shared.watch.side(begun, cpu, count), ..Tried::default() })
}

/// Receives into files without a name until the flows end; without flows, writes about `bytes` from memory.
fn receive(
    flows: Vec<DataStream>,
    into: &[Destination],
    bytes: u64,
    tuning: &Tuning,
    span: Duration,
    account: Account,
) -> io::Result<Tried> {
    let count = flows.len();
    let handles = flows.iter().map(|flow| flow.socket().try_clone()).collect::<io::Result<Vec<_>>>()?;
    // A copy must touch its memory, too.
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let receiving = ReceiverShared::new(tuning, count, account)?;
    let mut writer = Writer::new(&receiving, into, bytes, handles)?;
    let (shared, running) = (&receiving, AtomicUsize::new(count.max(1)));
    let wrote = std::thread::scope(|scope| {
        let running = &running;
        for stream in flows {
            scope.spawn(move || {
                // A flow that is cut off ends the trial for itself.
                let _ = land(shared, stream);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        if count == 0 {
            scope.spawn(move || {
                generate(shared, bytes, span);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let wrote = writer.run(begun, span + RECEIVER_EXTRA_TIME, running);
        shared.watch.end();
        wrote
    });
    wrote.map_err(|error| {
        into.first().map_or_else(|| io::Error::other(error.to_string()), |one| one.failed(&error))
    })?;
    let mut side = receiving.watch.side(begun, cpu, count);
    if count == 0 {
        side.seconds = writer.durable;
    }
    let trial = TrialResult {
        cpu_seconds_per_gb: side.cpu_seconds / (side.bytes as f64 / 1e9).max(1e-9),
        ..seen(&writer.points, writer.durable, span)
    };
    Ok(Tried { trial, side })
}

/// Receives on all flows until the other end closes them, and keeps nothing.
fn discard(flows: Vec<DataStream>) -> Tried {
    const MEMORY_BYTES: usize = 64 << 20;
    const READ_BYTES: usize = 256 << 10;
    let (state, count) = (SessionState::default(), flows.len());
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    std::thread::scope(|scope| {
        for mut from in flows {
            let state = &state;
            scope.spawn(move || {
                // As much memory as ranges are read into, so that it is as cold; of many flows, together.
                let pieces = (MEMORY_BYTES / count / READ_BYTES).clamp(1, 32);
                let mut bytes = vec![0; pieces * READ_BYTES];
                let _ = from.socket().set_read_timeout(Some(PART_SPAN * 4));
                for piece in (0..pieces).cycle() {
                    let piece = &mut bytes[piece * READ_BYTES..(piece + 1) * READ_BYTES];
                    match from.read(piece) {
                        Ok(n) if n > 0 && begun.elapsed() < PART_SPAN * 4 => {
                            // Checksums are part of the cost.
                            std::hint::black_box(crc32c::crc32c(&piece[..n]));
                            state.count(n as u64, false);
                        }
                        _ => return,
                    }
                }
            });
        }
    });
    let mut side = state.side(begun, cpu, count);
    // The other end prepares its memory before it sends.
    let seconds = state.seconds(None);
    if seconds > 0.0 {
        side.seconds = seconds;
    }
    Tried { side, ..Tried::default() }
}

/// Ranges of noise to the writer, about `bytes` within a time.
fn generate(shared: &ReceiverShared, bytes: u64, span: Duration) {
    let (begun, mut state, mut given) = (Instant::now(), 7, 0);
    let blocks: Vec<Block> = std::iter::from_fn(|| shared.empty.try_pop()).collect();
    for mut block in blocks {
        skyhaul_core::pattern::noise(&mut state, &mut block);
        shared.empty.push(block);
    }
    while given < bytes && begun.elapsed() < span {
        let Some(block) = shared.watch.wait(&shared.empty, &shared.watch.for_disk) else { return };
        let length = block.len();
        given += length as u64;
        shared.watch.count(length as u64, false);
        shared.orders.push(WriteOrder::Range { file: 0, range: 0, block, length, crc: 0 });
    }
}

/// The ranges of a flow into memory, and to the writer.
fn land(shared: &ReceiverShared, stream: DataStream) -> io::Result<()> {
    let mut stream = FlowReader::new(stream)?;
    let mut octets = [0; RangeHead::LEN];
    while let Filled::Whole = shared.fill(&mut stream, &mut octets, true)? {
        let head = RangeHead::parse(&octets).map_err(Refusal::Head)?;
        if head.is_hole() {
            shared.watch.count(u64::from(head.length), true);
            continue;
        }
        let length = head.payload();
        if length > shared.pool.block_bytes() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the peer sent a range longer than agreed",
            ));
        }
        let Some(mut block) = shared.watch.wait(&shared.empty, &shared.watch.for_disk) else { break };
        match shared.payload(&mut stream, &mut block, length)? {
            Some((crc, true)) => {
                shared.watch.count(length as u64, false);
                shared.orders.push(WriteOrder::Range { file: 0, range: 0, block, length, crc });
            }
            Some(_) => shared.empty.push(block),
            None => break,
        }
    }
    Ok(())
}

/// A file without a name.
struct Target {
    file: Scratch,
    size: u64,
    at: u64,
    fresh: bool,
    syncing: bool,
    synced: Instant,
}

struct Writer<'a> {
    shared: &'a ReceiverShared,
    queue: Queue,
    targets: Vec<Target>,
    turn: usize,
    flows: Vec<TcpStream>,
    points: Vec<Point>,
    /// When all of it was durable.
    durable: f64,
}

/// Tags from here on are syncs of the target with the rest as its number.
const SYNC_TAG: u64 = 1 << 63;

impl<'a> Writer<'a> {
    fn new(
        shared: &'a ReceiverShared,
        into: &[Destination],
        bytes: u64,
        flows: Vec<TcpStream>,
    ) -> io::Result<Self> {
        let each = bytes.div_ceil(into.len().max(1) as u64).next_multiple_of(shared.tuning.range.max(1));
        let tuning = &shared.tuning;
        let mut targets = Vec::new();
        for one in into {
            let (file, size) = one.scratch(tuning, each.min(MAX_SCRATCH_BYTES))?;
            if size == 0 {
                continue;
            }
            targets.push(Target { file, size, at: 0, fresh: false, syncing: false, synced: Instant::now() });
        }
        if targets.is_empty() {
            let text = format!("no space for a trial{}", Hint("free some space at the destination"));
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        let queue = Queue::new(&tuning.disk(), Some(&shared.pool))?;
        Ok(Self { shared, queue, targets, turn: 0, flows, points: Vec::new(), durable: 0.0 })
    }

    fn run(&mut self, begun: Instant, longest: Duration, running: &AtomicUsize) -> io::Result<()> {
        let (mut bytes, mut ended) = (0, Vec::new());
        while begun.elapsed() < longest {
            // Before looking for orders: a flow that ended has given its last.
            let open = running.load(Ordering::Relaxed) > 0;
            self.note(begun, bytes);
            if self.queue.in_flight() == 0 {
                match self.shared.orders.pop(POLL_INTERVAL) {
                    Some(order) => self.write(order),
                    None if !open => break,
                    None => continue,
                }
            }
            while self.queue.has_room()
                && let Some(order) = self.shared.orders.try_pop()
            {
                self.write(order);
            }
            self.sync(SYNC_INTERVAL);
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            for end in ended.drain(..) {
                bytes += self.settle(end)?;
            }
            std::iter::from_fn(|| self.shared.pool.take()).for_each(|block| self.shared.empty.push(block));
        }
        self.sync(Duration::ZERO);
        while self.queue.in_flight() > 0 && begun.elapsed() < longest {
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            ended.drain(..).try_for_each(|end| self.settle(end).map(drop))?;
        }
        self.note(begun, bytes);
        self.durable = begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Notes the bytes received and written by now, if they changed.
    fn note(&mut self, begun: Instant, written: u64) {
        let at = begun.elapsed().as_secs_f64();
        let last = self.points.last();
        if last.is_some_and(|last| last.written == written && at - last.at < POLL_INTERVAL.as_secs_f64()) {
            return;
        }
        // A flow that ended has its last number.
        let came =
            self.flows.iter().filter_map(|flow| TcpInfo::of(flow).ok()).map(|info| info.bytes_received);
        let came = if self.flows.is_empty() { written } else { came.sum() };
        self.points.push(Point { at, came, written });
    }

    fn write(&mut self, order: WriteOrder) {
        let WriteOrder::Range { block, length, .. } = order else { return };
        let at = self.turn % self.targets.len();
        self.turn += 1;
        let target = &mut self.targets[at];
        if target.at + self.shared.tuning.range > target.size {
            target.at = 0;
        }
        let direct = target.file.is_direct();
        self.queue.write(at as u64, target.file.file(), target.at, block.into_view(0..length), direct);
        target.at += self.shared.tuning.range;
        target.fresh = true;
    }

    /// Make durable what was written since a time.
    fn sync(&mut self, since: Duration) {
        for (at, target) in self.targets.iter_mut().enumerate() {
            if target.fresh && !target.syncing && target.synced.elapsed() >= since {
                (target.fresh, target.syncing) = (false, true);
                self.queue.sync(SYNC_TAG | at as u64, target.file.file());
            }
        }
    }

    /// Bytes that a request wrote.
    fn settle(&mut self, end: Ended) -> io::Result<u64> {
        let written = end.result? as u64;
        if end.tag & SYNC_TAG != 0 {
            let target = &mut self.targets[(end.tag & !SYNC_TAG) as usize];
            (target.syncing, target.synced) = (false, Instant::now());
            return Ok(0);
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_tried_for_longer() {
        assert_eq!(
            (span_of(0.001), span_of(0.1), span_of(1.0)),
            (MIN_SPAN, Duration::from_secs(6), MAX_SPAN)
        );
    }
}
