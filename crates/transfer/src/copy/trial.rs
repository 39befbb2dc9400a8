//! A copy in small, before it: these files, on these flows, onto this disk, all at once, into files without a name.
//!
//! ```text
//!   reader ─▶ flow ═══▶ flow ─▶ writer, fdatasync several times a second ─▶ a file without a name
//!      the threads, checksums and system calls of a copy, but no names and no journal
//! ```
//!
//! Parts measured one by one do not say what they reach together where they share a disk or a processor, and a disk that is
//! read and written at once does less than half of either.
//!
//! Limits: three to ten seconds, 60 round trips. A disk that is faster for longer than that, and then slower, is not known as one.

use super::budget::Account;
use super::destination::Into;
use super::files::Refusal;
use super::head::RangeHead;
use super::manifest::{Manifest, Root};
use super::message::{Trial, Tried};
use super::options::Tuning;
use super::reading::{Job, Reading, Told};
use super::receiving::{Filled, Order, Receiving};
use super::steady::{Point, seen};
use skyhaul_io::disk::{Ended, Queue, Scratch};
use skyhaul_io::host::thread::process_cpu_time;
use skyhaul_io::tcp::info::TcpInfo;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long it sends: flows reach their speed in some tens of round trips.
const SPAN: Duration = Duration::from_secs(3);
const LONGEST_SPAN: Duration = Duration::from_secs(10);
const TRIPS: f64 = 60.0;
/// A range that is still under way then is cut off after this.
const GRACE: Duration = Duration::from_secs(1);
/// Time for a receiver beyond that of its sender.
const MORE: Duration = Duration::from_secs(7);
/// As often as in a copy.
const EVERY: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);
/// Most bytes of a file without a name; then it is written from its beginning again.
const MOST: u64 = 4 << 30;
/// No more files than this are read.
const FILES: usize = 100_000;

/// How long to try on a path with this round trip.
pub(super) fn span_of(rtt: f64) -> Duration {
    Duration::from_secs_f64((rtt * TRIPS).clamp(SPAN.as_secs_f64(), LONGEST_SPAN.as_secs_f64()))
}

/// What a peer asks for, in milliseconds.
pub(super) fn span(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(LONGEST_SPAN)
}

/// Send files for a moment.
pub(super) fn give(
    flows: Vec<TcpStream>,
    roots: &[Root],
    manifest: &Manifest,
    tuning: &Tuning,
    (longer, span): (u64, Duration),
    account: Account,
) -> io::Result<Tried> {
    let count = flows.len();
    let handles = flows.iter().map(TcpStream::try_clone).collect::<io::Result<Vec<_>>>()?;
    let reading = Reading::new(tuning, count, account)?;
    let ask = || {
        let files = manifest.entries.iter().enumerate().filter(|(_, entry)| entry.size() > longer);
        let jobs = files.take(FILES).map(|(file, entry)| {
            let ranges = entry.size().div_ceil(tuning.range);
            reading.todo.push(Job { file, ranges: [(0, ranges)].into() });
            ranges
        });
        jobs.sum::<u64>()
    };
    let mut left = ask();
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let (shared, running) = (&reading, AtomicUsize::new(count));
    std::thread::scope(|scope| {
        for stream in flows {
            let running = &running;
            scope.spawn(move || {
                let _ = shared.send(stream).map_err(|error| shared.watch.fail(error));
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(move || shared.read(roots, manifest).map_err(|error| shared.watch.fail(error)));
        while left > 0 && begun.elapsed() < span && !shared.watch.is_over() {
            std::thread::sleep(LOOK);
            while let Some(told) = shared.told.try_pop() {
                match told {
                    Told::Range { .. } => left -= 1,
                    Told::Lost { error, .. } => shared.watch.fail(io::Error::other(error)),
                    Told::Found { .. } => {}
                }
            }
            // All of them again, until it has its speed.
            if left == 0 {
                left = ask();
            }
        }
        shared.watch.end();
        let end = Instant::now() + GRACE;
        while running.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        // What a slow path has not taken by now.
        handles.iter().for_each(|handle| drop(handle.shutdown(Shutdown::Both)));
    });
    // A flow that was cut off failed as it should.
    let side = reading.watch.side(begun, cpu, count);
    Ok(Tried { side, ..Tried::default() })
}

/// Receive until the flows end.
pub(super) fn take(
    flows: Vec<TcpStream>,
    into: &[Into],
    tuning: &Tuning,
    span: Duration,
    account: Account,
) -> io::Result<Tried> {
    let count = flows.len();
    let handles = flows.iter().map(TcpStream::try_clone).collect::<io::Result<Vec<_>>>()?;
    // A copy must touch its memory, too.
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let receiving = Receiving::new(tuning, count, account)?;
    let mut writer = Writer::new(&receiving, into, handles)?;
    let (shared, running) = (&receiving, AtomicUsize::new(count));
    let wrote = std::thread::scope(|scope| {
        for stream in flows {
            let running = &running;
            scope.spawn(move || {
                // A flow that is cut off ends the trial for itself.
                let _ = land(shared, stream);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let wrote = writer.run(begun, span + MORE, &running);
        shared.watch.end();
        wrote
    });
    wrote.map_err(|error| {
        into.first().map_or_else(|| io::Error::other(error.to_string()), |one| one.failed(&error))
    })?;
    let side = receiving.watch.side(begun, cpu, count);
    let trial = Trial {
        cpu_seconds_per_gb: side.cpu_seconds / (side.bytes as f64 / 1e9).max(1e-9),
        ..seen(&writer.points, writer.durable, span)
    };
    Ok(Tried { trial, side })
}

/// The ranges of a flow into memory, and to the writer.
fn land(shared: &Receiving, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut octets = [0; RangeHead::LEN];
    while let Filled::Whole = shared.fill(&mut stream, &mut octets, true)? {
        let head = RangeHead::parse(&octets).map_err(Refusal::Head)?;
        if head.is_hole() {
            shared.watch.count(u64::from(head.length), true);
            continue;
        }
        let length = head.payload();
        if length > shared.pool.block_bytes() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a range is longer than was agreed"));
        }
        let Some(mut block) = shared.watch.wait(&shared.empty, &shared.watch.for_disk) else { break };
        match shared.payload(&mut stream, &mut block, length)? {
            Some((crc, true)) => {
                shared.watch.count(length as u64, false);
                shared.orders.push(Order::Range { file: 0, range: 0, block, length, crc });
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
    shared: &'a Receiving,
    queue: Queue,
    targets: Vec<Target>,
    turn: usize,
    flows: Vec<TcpStream>,
    points: Vec<Point>,
    /// When all of it was durable.
    durable: f64,
}

/// Tags from here on are syncs of the target with the rest as its number.
const SYNC: u64 = 1 << 63;

impl<'a> Writer<'a> {
    fn new(shared: &'a Receiving, into: &[Into], flows: Vec<TcpStream>) -> io::Result<Self> {
        let tuning = &shared.tuning;
        let mut targets = Vec::new();
        for one in into {
            let (file, size) = one.scratch(tuning, MOST)?;
            if size == 0 {
                continue;
            }
            targets.push(Target { file, size, at: 0, fresh: false, syncing: false, synced: Instant::now() });
        }
        if targets.is_empty() {
            let text = "no room to try; hint: free some space at the destination";
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
                match self.shared.orders.pop(LOOK) {
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
            self.sync(EVERY);
            self.queue.wait(LOOK, &mut ended)?;
            for end in ended.drain(..) {
                bytes += self.settle(end)?;
            }
            std::iter::from_fn(|| self.shared.pool.take()).for_each(|block| self.shared.empty.push(block));
        }
        self.sync(Duration::ZERO);
        while self.queue.in_flight() > 0 && begun.elapsed() < longest {
            self.queue.wait(LOOK, &mut ended)?;
            ended.drain(..).try_for_each(|end| self.settle(end).map(drop))?;
        }
        self.note(begun, bytes);
        self.durable = begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// What came and what is written by now, if it changed.
    fn note(&mut self, begun: Instant, written: u64) {
        let at = begun.elapsed().as_secs_f64();
        let last = self.points.last();
        if last.is_some_and(|last| last.written == written && at - last.at < LOOK.as_secs_f64()) {
            return;
        }
        // A flow that ended has its last number.
        let came =
            self.flows.iter().filter_map(|flow| TcpInfo::of(flow).ok()).map(|info| info.bytes_received);
        self.points.push(Point { at, came: came.sum(), written });
    }

    fn write(&mut self, order: Order) {
        let Order::Range { block, length, .. } = order else { return };
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
                self.queue.sync(SYNC | at as u64, target.file.file());
            }
        }
    }

    /// Bytes that a request wrote.
    fn settle(&mut self, end: Ended) -> io::Result<u64> {
        let written = end.result? as u64;
        if end.tag & SYNC != 0 {
            let target = &mut self.targets[(end.tag & !SYNC) as usize];
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
            (SPAN, Duration::from_secs(6), LONGEST_SPAN)
        );
        assert_eq!((span(u64::MAX), span(3000)), (LONGEST_SPAN, SPAN));
    }
}
