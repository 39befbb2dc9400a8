//! Disk → network → disk: which part bounds a transfer.
//!
//! Predicted from the rates measured for disks alone and the rate given for the network, and measured with the parts at
//! work together: files read into a paced TCP connection on the loopback, and a paced connection written to files. Each
//! way is measured by itself, because on the two ends of a real transfer they are on different hosts.
//!
//! Limits: on the loopback this host does the network's work of both ends, so a result of [`TransferBottleneck::Host`] may be twice as
//! good between two hosts.
//!
//! ```text
//!   sending     files ─▶ disk thread ─▶ full ─▶ network thread ─ paced ─▶ loopback ─▶ discarded
//!                             ▲───────  empty ──────┘
//!   receiving   memory ─ paced ─▶ loopback ─▶ network thread ─▶ full ─▶ disk thread ─▶ files
//!                                                  ▲──────  empty ───────────┘
//! ```
//!
//! A disk without empty blocks waits for the network, a network without full ones (or the other way round) for the
//! disk. The times tell which part bounds.

use super::report::{
    CacheMode, DiskOperation, DiskPoint, MeasureOptions, TransferBottleneck, TransferBudget, TransferRate,
};
use skyhaul_core::placement::Nanos;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::{DiskOptions, Ended, Queue, Scratch};
use skyhaul_io::fifo::Fifo;
use skyhaul_io::host::thread::process_cpu_time;
use skyhaul_io::memory::{Block, Pool, PoolOptions};
use std::io;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The highest rate of the points of an operation, past the page cache if that was measured.
fn best(points: &[DiskPoint], operation: DiskOperation) -> Option<&DiskPoint> {
    let of = |mode: CacheMode| {
        points
            .iter()
            .filter(|point| point.operation == operation && point.mode == mode && point.bytes > 0)
            .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    };
    of(CacheMode::Direct).or_else(|| of(CacheMode::Buffered))
}

/// Predict from `points`, then measure both ways.
///
/// # Errors
/// If the loopback cannot be used.
pub(super) fn run(
    options: &MeasureOptions,
    rate: u64,
    points: &[DiskPoint],
    progress: &mut dyn FnMut(&str),
) -> io::Result<TransferBudget> {
    let network = rate as f64;
    let mut budget = TransferBudget { network_bits_per_second: network, ..TransferBudget::default() };
    let mut parts = vec![(network, TransferBottleneck::Network)];
    for (operation, bound) in
        [(DiskOperation::Read, TransferBottleneck::Read), (DiskOperation::Write, TransferBottleneck::Write)]
    {
        let Some(point) = best(points, operation) else { continue };
        let disk = point.bytes_per_second * 8.0;
        parts.push((disk, bound));
        let (predicted, of) = slowest(&[(network, TransferBottleneck::Network), (disk, bound)]);
        let waited = pipe(options, point, rate, progress)?;
        let piped = Some(TransferRate {
            predicted_bits_per_second: predicted,
            predicted_bound: of,
            measured_bits_per_second: waited.bits_per_second(),
            measured_bound: verdict(&waited, bound),
            seconds: waited.seconds,
            disk_waited: waited.disk,
            network_waited: waited.network,
            paced: waited.paced,
            cpu_seconds_per_gb: waited.cpu / (waited.bytes as f64 / 1e9).max(1e-9),
            error: waited.error.clone(),
        });
        if operation == DiskOperation::Read {
            (budget.read_bits_per_second, budget.sending) = (Some(disk), piped);
        } else {
            (budget.write_bits_per_second, budget.receiving) = (Some(disk), piped);
        }
    }
    let (through, bound) = slowest(&parts);
    (budget.through_bits_per_second, budget.bound) = (Some(through), Some(bound));
    Ok(budget)
}

fn slowest(parts: &[(f64, TransferBottleneck)]) -> (f64, TransferBottleneck) {
    parts
        .iter()
        .copied()
        .reduce(|a, b| if b.0 < a.0 { b } else { a })
        .unwrap_or((0.0, TransferBottleneck::Host))
}

/// The part that is never waiting is the one that bounds.
fn verdict(waited: &PipeWaits, disk: TransferBottleneck) -> TransferBottleneck {
    // Held to its rate most of the time, the network could not have been faster.
    if waited.network > waited.disk && waited.network > waited.paced {
        disk
    } else if waited.paced >= 0.1 {
        TransferBottleneck::Network
    } else {
        TransferBottleneck::Host
    }
}

/// How long each way is measured.
const SPAN: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long each part waited, as fractions of the time.
#[derive(Clone, Debug, Default)]
struct PipeWaits {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Disks, for the network.
    pub(super) disk: f64,
    /// The network, for disks.
    pub(super) network: f64,
    /// The network, for its own time to come.
    pub(super) paced: f64,
    pub(super) cpu: f64,
    pub(super) error: Option<String>,
}

impl PipeWaits {
    pub(super) fn bits_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    bytes: AtomicU64,
    disk: AtomicU64,
    network: AtomicU64,
    paced: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn failed(&self, error: &io::Error) {
        if let Ok(mut kept) = self.error.lock() {
            kept.get_or_insert(system_text(error));
        }
        self.over.store(true, Ordering::Relaxed);
    }

    /// The next of `lane`; the time it took is added to `waited`. None: nothing comes any more.
    fn wait<T>(&self, lane: &Fifo<T>, waited: &AtomicU64) -> Option<T> {
        let begun = Instant::now();
        let mut got = None;
        while got.is_none() && !self.is_over() {
            got = lane.pop(POLL_INTERVAL);
        }
        waited.fetch_add(Nanos::from(begun.elapsed()).0, Ordering::Relaxed);
        got
    }
}

/// The full and the empty blocks.
#[derive(Default)]
struct Blocks {
    full: Fifo<(Block, usize)>,
    empty: Fifo<Block>,
}

/// Measure the way of `like`'s operation: what was read is sent, what was received is written.
fn pipe(
    options: &MeasureOptions,
    like: &DiskPoint,
    rate: u64,
    progress: &mut dyn FnMut(&str),
) -> io::Result<PipeWaits> {
    let sending = like.operation == DiskOperation::Read;
    progress(if sending { "reading the disks into a network" } else { "writing the disks from a network" });
    let disks: Vec<_> =
        like.disks.iter().filter(|disk| disk.error.is_none()).map(|disk| &disk.path).collect();
    let (near, far) = connection()?;
    let block = like.block.max(64 << 10);
    let count = like.depth * 2 * disks.len().max(1);
    let memory = PoolOptions { total_bytes: (block * count) as u64, block_bytes: block, shared: false };
    let pool = Pool::new(&memory)?;
    pool.wait_until_touched()?;
    let blocks = Blocks::default();
    std::iter::from_fn(|| pool.take()).for_each(|block| blocks.empty.push(block));
    let parts = parts(options, like, &disks, &pool)?;
    let shared = Arc::new(Shared::default());
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    std::thread::scope(|scope| {
        let (blocks, shared) = (&blocks, &*shared);
        let disks = parts.len().max(1) as f64;
        for mut part in parts {
            scope.spawn(move || {
                let done = if sending { part.read(blocks, shared) } else { part.write(blocks, shared) };
                if let Err(error) = done {
                    shared.failed(&error);
                }
            });
        }
        scope.spawn(move || match sending {
            true => discard(far, shared),
            false => drop(generate(far, block, rate, shared)),
        });
        scope.spawn(move || {
            let done = if sending { send(near, rate, blocks, shared) } else { receive(near, blocks, shared) };
            if let Err(error) = done
                && !shared.is_over()
            {
                shared.failed(&error);
            }
        });
        while begun.elapsed() < SPAN && !shared.is_over() && !options.stop.is_set() {
            std::thread::sleep(POLL_INTERVAL);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let part = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64 / 1e9 / seconds;
        let waited = PipeWaits {
            bytes: shared.bytes.load(Ordering::Relaxed),
            seconds,
            disk: part(&shared.disk) / disks,
            network: part(&shared.network),
            paced: part(&shared.paced),
            cpu: (process_cpu_time() - cpu).as_secs_f64(),
            error: shared.error.lock().ok().and_then(|error| error.clone()),
        };
        shared.over.store(true, Ordering::Relaxed);
        Ok(waited)
    })
}

/// A file and a queue on each disk.
fn parts(
    options: &MeasureOptions,
    like: &DiskPoint,
    disks: &[&PathBuf],
    pool: &Pool,
) -> io::Result<Vec<DiskPipe>> {
    let sending = like.operation == DiskOperation::Read;
    let mut parts = Vec::new();
    for disk in disks {
        let disk_options = DiskOptions {
            engine: options.engine,
            depth: like.depth,
            faults: options.faults_of(disk),
            ..DiskOptions::default()
        };
        let queue = Queue::new(&disk_options, Some(pool))?;
        let mut file = Scratch::create(disk)?;
        if sending {
            fill(&file, like.size)?;
        } else {
            file.allocate(like.size)?;
        }
        file.set_direct(like.direct)?;
        parts.push(DiskPipe { queue, file, size: like.size, pool: pool.clone() });
    }
    Ok(parts)
}

/// Both ends of a connection of this host.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for end in [&near, &far] {
        end.set_read_timeout(Some(POLL_INTERVAL))?;
        end.set_write_timeout(Some(POLL_INTERVAL))?;
    }
    Ok((near, far))
}

fn fill(file: &Scratch, size: u64) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 20];
    skyhaul_core::pattern::noise(&mut 7, &mut bytes);
    let mut left = size;
    while left > 0 {
        let n = left.min(bytes.len() as u64) as usize;
        file.file().as_ref().write_all(&bytes[..n])?;
        left -= n as u64;
    }
    file.forget()
}

struct DiskPipe {
    queue: Queue,
    file: Scratch,
    size: u64,
    pool: Pool,
}

impl DiskPipe {
    /// Read the file, over and over, into empty blocks.
    fn read(&mut self, blocks: &Blocks, shared: &Shared) -> io::Result<()> {
        let (mut at, mut ended) = (0, Vec::new());
        while !shared.is_over() {
            let idle = self.queue.in_flight() == 0;
            while self.queue.has_room() {
                // Only a disk with nothing to do waits for a block.
                let taken = if idle && self.queue.in_flight() == 0 {
                    shared.wait(&blocks.empty, &shared.disk)
                } else {
                    blocks.empty.try_pop()
                };
                let Some(block) = taken else { break };
                let bytes = (self.size - at).min(block.len() as u64) as usize;
                self.queue.read(bytes as u64, self.file.file(), at, block, bytes);
                at = (at + bytes as u64) % self.size;
            }
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            for Ended { result, block, .. } in ended.drain(..) {
                let bytes = result?;
                if let Some(block) = block {
                    blocks.full.push((block, bytes));
                }
            }
        }
        Ok(())
    }

    /// Write full blocks, over and over the same place.
    fn write(&mut self, blocks: &Blocks, shared: &Shared) -> io::Result<()> {
        let (mut at, mut ended) = (0, Vec::new());
        while !shared.is_over() {
            let idle = self.queue.in_flight() == 0;
            while self.queue.has_room() {
                let taken = if idle && self.queue.in_flight() == 0 {
                    shared.wait(&blocks.full, &shared.disk)
                } else {
                    blocks.full.try_pop()
                };
                let Some((block, bytes)) = taken else { break };
                let view = block.into_view(0..bytes);
                let place = if at + bytes as u64 <= self.size { at } else { 0 };
                self.queue.write(bytes as u64, self.file.file(), place, view, self.file.is_direct());
                at = place + bytes as u64;
            }
            self.queue.wait(POLL_INTERVAL, &mut ended)?;
            for Ended { result, tag, .. } in ended.drain(..) {
                result?;
                shared.bytes.fetch_add(tag, Ordering::Relaxed);
            }
            // What was written is free again.
            std::iter::from_fn(|| self.pool.take()).for_each(|block| blocks.empty.push(block));
        }
        Ok(())
    }
}

/// Sleep until `bytes` may have been sent at `rate`.
fn pace(begun: Instant, bytes: u64, rate: u64, shared: &Shared) {
    let due = begun + Duration::from_secs_f64(bytes as f64 * 8.0 / rate.max(1) as f64);
    let from = Instant::now();
    while let Some(left) = due.checked_duration_since(Instant::now())
        && !left.is_zero()
        && !shared.is_over()
    {
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
    shared.paced.fetch_add(Nanos::from(from.elapsed()).0, Ordering::Relaxed);
}

fn all(stream: &mut TcpStream, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    while !bytes.is_empty() && !shared.is_over() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn send(mut to: TcpStream, rate: u64, blocks: &Blocks, shared: &Shared) -> io::Result<()> {
    let (begun, mut sent) = (Instant::now(), 0);
    while let Some((block, bytes)) = shared.wait(&blocks.full, &shared.network) {
        pace(begun, sent, rate, shared);
        all(&mut to, &block[..bytes], shared)?;
        sent += bytes as u64;
        shared.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        blocks.empty.push(block);
    }
    Ok(())
}

fn discard(mut from: TcpStream, shared: &Shared) {
    let mut bytes = vec![0; 1 << 20];
    while !shared.is_over() {
        match from.read(&mut bytes) {
            Ok(0) => return,
            Err(error) if !is_late(&error) => return,
            _ => {}
        }
    }
}

fn generate(mut to: TcpStream, block: usize, rate: u64, shared: &Shared) -> io::Result<()> {
    let mut bytes = vec![0; block];
    skyhaul_core::pattern::noise(&mut 7, &mut bytes);
    let (begun, mut sent) = (Instant::now(), 0);
    while !shared.is_over() {
        pace(begun, sent, rate, shared);
        all(&mut to, &bytes, shared)?;
        sent += bytes.len() as u64;
    }
    Ok(())
}

fn receive(mut from: TcpStream, blocks: &Blocks, shared: &Shared) -> io::Result<()> {
    while let Some(mut block) = shared.wait(&blocks.empty, &shared.network) {
        let mut at = 0;
        while at < block.len() && !shared.is_over() {
            match from.read(&mut block[at..]) {
                Ok(0) => return Ok(()),
                Ok(n) => at += n,
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if at == block.len() {
            blocks.full.push((block, at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_never_waits_bounds() {
        let of = |disk, network, paced| PipeWaits { disk, network, paced, ..PipeWaits::default() };
        assert_eq!(verdict(&of(0.02, 0.9, 0.0), TransferBottleneck::Read), TransferBottleneck::Read);
        assert_eq!(verdict(&of(0.9, 0.05, 0.8), TransferBottleneck::Read), TransferBottleneck::Network);
        assert_eq!(verdict(&of(0.8, 0.1, 0.0), TransferBottleneck::Write), TransferBottleneck::Host);
        assert_eq!(
            slowest(&[
                (9.0, TransferBottleneck::Network),
                (3.0, TransferBottleneck::Write),
                (5.0, TransferBottleneck::Read)
            ]),
            (3.0, TransferBottleneck::Write)
        );
    }
}
