//! A copy in small, before it: these files, on these flows, onto this disk, all at once, into files without a name.
//!
//! ```text
//!   reader ─▶ flow ═══▶ flow ─▶ writer, fdatasync several times a second ─▶ a file without a name
//!      the threads, checksums and system calls of a copy, but no names and no journal
//!
//!   bytes │          ╱ ◀─ counted: the second half, when memory on the way is full and flows have their speed
//!         │      ╱
//!         │ _╱            what came before it is a delay that the copy will have, too
//!         └────┴─────┴── s
//! ```
//!
//! Parts measured one by one do not say what they reach together where they share a disk or a processor, and a disk that is
//! read and written at once does less than half of either.
//!
//! Limits: three seconds. A disk that is faster for longer than that, and then slower, is not known as one.

use super::files::Refusal;
use super::head::RangeHead;
use super::manifest::{Manifest, Root};
use super::message::{Trial, Tried};
use super::options::Tuning;
use super::reading::{Job, Reading, Told};
use super::receiver::Into;
use super::receiving::{Filled, Order, Receiving};
use skyhaul_io::disk::{DiskOptions, Ended, Queue, Scratch, free_bytes};
use skyhaul_io::host::thread::process_cpu_time;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long it sends.
const SPAN: Duration = Duration::from_secs(3);
/// A range that is still under way then is cut off after this.
const GRACE: Duration = Duration::from_secs(1);
/// A receiver whose sender does not end.
const LONGEST: Duration = Duration::from_secs(10);
/// As often as in a copy.
const EVERY: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);
/// Most bytes of a file without a name; then it is written from its beginning again.
const MOST: u64 = 4 << 30;
/// No more files than this are read.
const FILES: usize = 100_000;

/// Send files for a moment.
pub(super) fn give(
    flows: Vec<TcpStream>,
    roots: &[Root],
    manifest: &Manifest,
    tuning: &Tuning,
) -> io::Result<Tried> {
    let count = flows.len();
    let handles = flows.iter().map(TcpStream::try_clone).collect::<io::Result<Vec<_>>>()?;
    let reading = Reading::new(tuning, count)?;
    let mut left = 0;
    let files = manifest.entries.iter().enumerate().filter(|(_, entry)| entry.size() > 0);
    for (file, entry) in files.take(FILES) {
        let ranges = entry.size().div_ceil(tuning.range);
        left += ranges;
        reading.todo.push(Job { file, ranges: [(0, ranges)].into() });
    }
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
        while left > 0 && begun.elapsed() < SPAN && !shared.watch.is_over() {
            std::thread::sleep(LOOK);
            while let Some(told) = shared.told.try_pop() {
                match told {
                    Told::Range { .. } => left -= 1,
                    Told::Lost { error, .. } => shared.watch.fail(io::Error::other(error)),
                }
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
    Ok(Tried { side, all: Some(manifest.bytes()), ..Tried::default() })
}

/// Receive until the flows end.
pub(super) fn take(flows: Vec<TcpStream>, into: &[Into], tuning: &Tuning) -> io::Result<Tried> {
    let count = flows.len();
    // A copy must touch its memory, too.
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let receiving = Receiving::new(tuning, count)?;
    let mut writer = Writer::new(&receiving, into)?;
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
        let wrote = writer.run(begun, &running);
        shared.watch.end();
        wrote
    });
    wrote?;
    let side = receiving.watch.side(begun, cpu, count);
    let trial = Trial {
        cpu_seconds_per_gb: side.cpu_seconds / (side.bytes as f64 / 1e9).max(1e-9),
        ..seen(&writer.points, writer.durable)
    };
    Ok(Tried { trial, side, all: None })
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
    /// Seconds, and bytes written by then.
    points: Vec<(f64, u64)>,
    /// When all of it was durable.
    durable: f64,
}

/// Tags from here on are syncs of the target with the rest as its number.
const SYNC: u64 = 1 << 63;

impl<'a> Writer<'a> {
    fn new(shared: &'a Receiving, into: &[Into]) -> io::Result<Self> {
        let tuning = &shared.tuning;
        let options = DiskOptions {
            engine: tuning.engine,
            direct: tuning.direct,
            depth: tuning.depth,
            faults: tuning.faults.clone(),
            ..DiskOptions::default()
        };
        let mut targets = Vec::new();
        for one in into {
            let path = one.tree.path().join(&one.path);
            let size = (free_bytes(&path)? / 4).min(MOST) / tuning.range * tuning.range;
            if size == 0 {
                continue;
            }
            let mut file = Scratch::create(&path)?;
            file.allocate(size)?;
            file.set_direct(tuning.direct)?;
            targets.push(Target { file, size, at: 0, fresh: false, syncing: false, synced: Instant::now() });
        }
        if targets.is_empty() {
            let text = "no room to try; hint: free some space at the destination";
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        let queue = Queue::new(&options, Some(&shared.pool))?;
        Ok(Self { shared, queue, targets, turn: 0, points: Vec::new(), durable: 0.0 })
    }

    fn run(&mut self, begun: Instant, running: &AtomicUsize) -> io::Result<()> {
        let (mut bytes, mut ended) = (0, Vec::new());
        while begun.elapsed() < LONGEST {
            // Before looking for orders: a flow that ended has given its last.
            let open = running.load(Ordering::Relaxed) > 0;
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
                self.points.push((begun.elapsed().as_secs_f64(), bytes));
            }
            std::iter::from_fn(|| self.shared.pool.take()).for_each(|block| self.shared.empty.push(block));
        }
        self.sync(Duration::ZERO);
        while self.queue.in_flight() > 0 && begun.elapsed() < LONGEST {
            self.queue.wait(LOOK, &mut ended)?;
            ended.drain(..).try_for_each(|end| self.settle(end).map(drop))?;
        }
        self.durable = begun.elapsed().as_secs_f64();
        Ok(())
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

/// The rate, from bytes at the times by which they were written; at `durable` all of them were.
fn seen(points: &[(f64, u64)], durable: f64) -> Trial {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Trial::default() };
    let whole =
        Trial { bytes: last.1, bits_per_second: last.1 as f64 * 8.0 / durable.max(1e-9), ..Trial::default() };
    // All that there was came before the time was over: what it took is what it takes.
    if last.0 < SPAN.as_secs_f64() * 0.9 {
        return whole;
    }
    // What is written when nothing more is read is faster.
    let end = points.iter().rev().find(|point| point.0 <= SPAN.as_secs_f64()).unwrap_or(first);
    let half = (first.0 + end.0) / 2.0;
    let middle = points.iter().find(|point| point.0 >= half).unwrap_or(first);
    if end.0 - middle.0 < 0.1 || end.1 <= middle.1 {
        return whole;
    }
    let rate = (end.1 - middle.1) as f64 / (end.0 - middle.0);
    let before = (end.0 - end.1 as f64 / rate).max(0.0);
    let after = (durable - last.0).max(0.0);
    Trial { bytes: last.1, bits_per_second: rate * 8.0, delay_seconds: before + after, ..Trial::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_counts_and_what_was_late_is_a_delay() {
        // Nothing for half a second, then 100 MB/s; the last sync takes 0.1 s.
        let points: Vec<(f64, u64)> = (0..25)
            .map(|n| (0.6 + f64::from(n) * 0.1, (n + 1) * 10_000_000))
            .map(|(at, bytes)| (at, bytes as u64))
            .collect();
        let trial = seen(&points, 3.1);
        assert!((trial.bits_per_second - 8e8).abs() < 1e3, "{trial:?}");
        assert!((trial.delay_seconds - 0.6).abs() < 0.01, "{trial:?}");
    }

    #[test]
    fn files_that_end_before_it_took_what_they_take() {
        let trial = seen(&[(0.1, 1_000_000), (0.2, 2_000_000)], 0.5);
        assert_eq!((trial.bytes, trial.bits_per_second, trial.delay_seconds), (2_000_000, 32e6, 0.0));
        assert_eq!(seen(&[], 1.0), Trial::default());
    }

    #[test]
    fn a_burst_into_memory_is_not_its_rate() {
        // 64 MB at once, then 10 MB/s: what a full cache of the disk does.
        let points: Vec<(f64, u64)> =
            (0..30).map(|n| (f64::from(n) * 0.1, 64_000_000 + n as u64 * 1_000_000)).collect();
        let trial = seen(&points, 2.9);
        assert!((trial.bits_per_second - 8e7).abs() < 1e3 && trial.delay_seconds < 1e-9, "{trial:?}");
    }
}
