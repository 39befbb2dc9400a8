//! Reads a range of a region, in pieces, each by its deadline.

mod handover;

use super::address::RdmaAddress;
use super::connecting::{RemoteRegion, close, connect, or_close};
use super::driver::{Attempt, Driver, DriverOptions, HANDSHAKE, MAX_OUTSTANDING, profile};
use super::memory::Memory;
use super::report::{RdmaReadReport, pairs, total};
use super::write::refused;
use crate::report::VERSION;
use crate::stop::StopFlag;
use handover::Handover;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{ClosedBy, MemorySlice, RdmaEvent, RemoteAddress, RemoteRead};
use skyhaul_io::fault::Faults;
use skyhaul_io::host::thread;
use skyhaul_io::memory::remote::RemoteMemory;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest Read in bytes: what a server of this house serves.
pub const MAX_READ_BYTES: u64 = 16 << 20;
/// Bytes of all Reads at a time.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes from the first Read that is under way to the last that is over and waits for it in memory: this, or what is under way if that is
/// more.
const AHEAD_BYTES: u64 = 32 << 20;
/// Requests of a Read until its deadline, if all are needed.
const REQUESTS: u64 = 8;
/// Time for a peer to confirm the end when some of its bytes are missing: the call ends at most 50 ms after its deadline.
const CLOSING: Duration = Duration::from_millis(25);
/// Longest wait of a turn.
const TURN: Duration = Duration::from_millis(20);
const TURN_BYTES: u64 = 64 << 10;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRead {
    /// Each Read ends by then, complete or not. [`read()`] also connects within this time, and within 5 s.
    pub deadline: Duration,
    /// Bytes of a Read, 1 to [`MAX_READ_BYTES`]; the last may be shorter.
    pub message_bytes: u64,
    /// Reads at a time, 1 to [`MAX_OUTSTANDING`], of at most 256 MiB together; fewer if the peer serves fewer.
    pub outstanding: usize,
}

impl ClientRead {
    /// Reads of 1 MiB, eight at a time.
    #[must_use]
    pub fn new(deadline: Duration) -> ClientRead {
        ClientRead { deadline, message_bytes: 1 << 20, outstanding: 8 }
    }

    fn check(&self) -> io::Result<()> {
        let wrong = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let ClientRead { message_bytes, outstanding, .. } = *self;
        if !(1..=MAX_READ_BYTES).contains(&message_bytes) {
            return wrong(format!(
                "a Read of {message_bytes} bytes: expected 1 to {MAX_READ_BYTES}{}",
                Hint("use --message 1MiB")
            ));
        }
        if !(1..=MAX_OUTSTANDING).contains(&outstanding) {
            return wrong(format!("{outstanding} Reads at a time: expected 1 to {MAX_OUTSTANDING}"));
        }
        if self.window() > MAX_BYTES {
            return wrong(format!(
                "{outstanding} Reads of {message_bytes} bytes: expected at most {MAX_BYTES} bytes at a time{}",
                Hint("use a smaller --message, or fewer --outstanding")
            ));
        }
        Ok(())
    }

    /// Bytes of all Reads at a time.
    fn window(&self) -> u64 {
        self.message_bytes * self.outstanding as u64
    }
}

/// How to read.
#[derive(Clone, Debug)]
pub struct RdmaReadOptions {
    /// The region.
    pub from: RdmaAddress,
    /// The range of it; `None`: all.
    pub range: Option<Range<u64>>,
    /// In which Reads.
    pub how: ClientRead,
    /// On what arrives.
    pub faults: Option<Faults>,
    /// Longest datagram. `None`: as the path carries, at most 8972 bytes.
    pub datagram_bytes: Option<u16>,
    /// Whether to ask for a CRC on every datagram or frame; `None`: on frames over TCP.
    pub crc: Option<bool>,
}

/// How far a reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadProgress {
    /// Wall seconds.
    pub seconds: f64,
    /// Bytes of the range that are over, whether they arrived or not.
    pub done: u64,
    /// Bytes of the range.
    pub of: u64,
    /// Bits per second since the last one.
    pub bits_per_second: f64,
}

/// A Read under way.
struct Piece {
    range: Range<u64>,
    /// The part of the buffer.
    place: usize,
    began: Instant,
}

/// Reads a range. Its bytes go to `take` piece by piece, in order, with the offset from the range's start; they are zero where nothing
/// arrived.
///
/// # Errors
/// The region cannot be reached within the deadline, or read, the range does not lie in it, `take` or the socket fails, or the sums of the report are wrong.
pub fn read(
    options: &RdmaReadOptions,
    stop: &StopFlag,
    take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    progress: &mut dyn FnMut(&ReadProgress),
) -> io::Result<RdmaReadReport> {
    options.how.check()?;
    let patience = options.how.deadline.min(HANDSHAKE);
    let attempt = Attempt::new(stop, patience);
    let mut driver = Driver::open(&DriverOptions {
        arriving: options.faults,
        ..DriverOptions::of_client(&options.from, options.datagram_bytes, options.crc, &attempt)?
    })?;
    let region = connect(&mut driver, &options.from, &attempt)?;
    let range = checked(&options.from, options.range.clone(), &region);
    let range = or_close(range, &mut driver, region.connection, patience)?;
    let memory = or_close(sink(&range, &options.how), &mut driver, region.connection, patience)?;
    let memory = driver.add(Memory::Remote(memory));
    let job = ReadJob { region, memory, range, how: options.how };
    let done = job.run(&mut driver, stop, take, progress);
    let (mut report, ended) = or_close(done, &mut driver, region.connection, patience)?;
    let closed_by = match ended {
        Some(by) => by,
        // The time of a peer that left something out is over.
        None if report.missing_bytes > 0 && !report.interrupted => {
            close(&mut driver, region.connection, patience.min(CLOSING))?
        }
        None => close(&mut driver, region.connection, patience)?,
    };
    report.version = VERSION;
    report.from = options.from.to_string();
    report.profile = profile(&options.from.endpoint).name().to_owned();
    report.closed_by = closed_by.name().to_owned();
    report.datagrams = driver.ledger()?;
    Ok(report)
}

/// Memory into which the pieces of a range arrive.
///
/// # Errors
/// There is too little, or `how` is out of bounds.
pub(super) fn sink(range: &Range<u64>, how: &ClientRead) -> io::Result<Arc<RemoteMemory>> {
    how.check()?;
    RemoteMemory::new((range.end - range.start).min(how.window())).map(Arc::new)
}

/// A range to be read over a connection.
pub(super) struct ReadJob {
    pub(super) region: RemoteRegion,
    /// That of [`sink`].
    pub(super) memory: u32,
    pub(super) range: Range<u64>,
    pub(super) how: ClientRead,
}

impl ReadJob {
    /// Reads it; also returns why the connection ended, if it did. The report says nothing of the connection.
    pub(super) fn run(
        self,
        driver: &mut Driver,
        stop: &StopFlag,
        take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
        progress: &mut dyn FnMut(&ReadProgress),
    ) -> io::Result<(RdmaReadReport, Option<ClosedBy>)> {
        let (cpu, began, range) = (thread::cpu_time(), Instant::now(), self.range.clone());
        let (waited, slept) = (thread::own_wait(), thread::own_usage().voluntary_switches);
        let silences = driver.endpoint.counts().silences;
        let mut reader = Reader {
            next: range.start,
            pieces: BTreeMap::new(),
            free: (0..self.how.outstanding).rev().collect(),
            report: RdmaReadReport {
                region_bytes: self.region.bytes,
                range: (range.start, range.end),
                ..RdmaReadReport::default()
            },
            missing: Vec::new(),
            handover: Handover::new(range.start),
            waits: None,
            job: self,
        };
        let ended = reader.run(driver, stop, take, progress)?;
        let Reader { mut report, mut missing, .. } = reader;
        report.silences = driver.endpoint.counts().silences - silences;
        report.seconds = began.elapsed().as_secs_f64();
        report.cpu_seconds = (thread::cpu_time() - cpu).as_secs_f64();
        report.cpu_wait_seconds = thread::own_wait().saturating_sub(waited).as_secs_f64();
        report.voluntary_switches = thread::own_usage().voluntary_switches - slept;
        missing.sort_by_key(|range| range.start);
        report.missing = pairs(&joined(&missing));
        report.missing_bytes = total(&missing);
        report.bits_per_second = report.bytes as f64 * 8.0 / report.seconds.max(1e-9);
        let (asked, told) = (range.end - range.start, report.bytes + report.missing_bytes);
        if asked != told {
            return Err(io::Error::other(format!("{asked} bytes were asked for, and {told} were reported")));
        }
        Ok((report, ended))
    }
}

/// The range to read.
pub(super) fn checked(
    from: &RdmaAddress,
    range: Option<Range<u64>>,
    region: &RemoteRegion,
) -> io::Result<Range<u64>> {
    let wrong = |kind, text: String| Err(io::Error::new(kind, text));
    if !region.rights.read {
        let text = format!("{from} may not be read{}", Hint("serve it with :read"));
        return wrong(io::ErrorKind::PermissionDenied, text);
    }
    let range = range.unwrap_or(0..region.bytes);
    if range.is_empty() || range.end > region.bytes {
        let text = format!(
            "the range {}..{} does not lie in the region of {} bytes{}",
            range.start,
            range.end,
            region.bytes,
            Hint("write it as FIRST..BEHIND, like 0..1MiB")
        );
        return wrong(io::ErrorKind::InvalidInput, text);
    }
    Ok(range)
}

/// Ascending ranges, with neighbours as one.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range.clone()),
        }
    }
    all
}

struct Reader {
    job: ReadJob,
    /// The first byte that was not asked for.
    next: u64,
    pieces: BTreeMap<u64, Piece>,
    /// Parts of the buffer without a Read.
    free: Vec<usize>,
    report: RdmaReadReport,
    missing: Vec<Range<u64>>,
    handover: Handover,
    /// No Read is under way since then, as the connection takes none.
    waits: Option<Instant>,
}

impl Reader {
    /// Returns why the connection ended, if it did.
    fn run(
        &mut self,
        driver: &mut Driver,
        stop: &StopFlag,
        take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
        progress: &mut dyn FnMut(&ReadProgress),
    ) -> io::Result<Option<ClosedBy>> {
        let (began, mut shown) = (Instant::now(), (Instant::now(), 0));
        let mut ended = None;
        loop {
            self.report.interrupted = stop.is_set() && self.next < self.job.range.end;
            while ended.is_none() && !stop.is_set() && self.may_ask() && self.may_post(driver) {
                self.ask(driver)?;
            }
            if self.pieces.is_empty() && ended.is_none() && !stop.is_set() && self.may_ask() {
                // Answers to Reads that have ended are still on their way (TCP): the next piece waits as long as any other.
                if self.waits.get_or_insert_with(Instant::now).elapsed() < self.job.how.deadline {
                    driver.send(TURN_BYTES);
                    driver.receive(TURN)?;
                    while let Some(event) = driver.endpoint.poll_event() {
                        if let RdmaEvent::Closed { by, .. } = event {
                            ended = Some(by);
                        }
                    }
                    continue;
                }
            }
            if stop.is_set() {
                // Those under way are given up: their deadline may be far.
                let pieces = std::mem::take(&mut self.pieces);
                self.report.interrupted |= !pieces.is_empty();
                for (read, piece) in pieces {
                    // One that has ended meanwhile is not waited for either.
                    let _ = driver.endpoint.end_read(self.job.region.connection, read);
                    self.missing.push(piece.range);
                }
            }
            let is_ready = self.handover.is_ready();
            if self.pieces.is_empty() && !is_ready {
                break;
            }
            driver.send(TURN_BYTES);
            driver.receive(if is_ready { Duration::ZERO } else { TURN })?;
            while let Some(event) = driver.endpoint.poll_event() {
                match event {
                    RdmaEvent::ReadDone { read, missing, asked, .. } => {
                        self.done(driver, read, &missing, asked);
                    }
                    RdmaEvent::Closed { by, .. } => ended = Some(by),
                    _ => {}
                }
            }
            self.handover.take(self.job.range.start, take)?;
            if shown.0.elapsed() >= PROGRESS_INTERVAL {
                let bits = (self.report.bytes - shown.1) as f64 * 8.0 / shown.0.elapsed().as_secs_f64();
                shown = (Instant::now(), self.report.bytes);
                progress(&ReadProgress {
                    seconds: began.elapsed().as_secs_f64(),
                    done: self.report.bytes + total(&self.missing),
                    of: self.job.range.end - self.job.range.start,
                    bits_per_second: bits,
                });
            }
        }
        // What was never asked for is missing too.
        if self.next < self.job.range.end {
            self.missing.push(self.next..self.job.range.end);
        }
        Ok(ended)
    }

    /// Whether the connection takes one more Read: the peer may serve fewer at a time, and in a stream, answers that come too late must be
    /// over first.
    fn may_post(&mut self, driver: &Driver) -> bool {
        let may = driver.endpoint.may_read(self.job.region.connection);
        if may {
            self.waits = None;
        }
        may
    }

    fn may_ask(&self) -> bool {
        let ahead = AHEAD_BYTES.max(self.job.how.window());
        self.next < self.job.range.end && self.next - self.handover.taken < ahead && !self.free.is_empty()
    }

    fn ask(&mut self, driver: &mut Driver) -> io::Result<()> {
        let Some(place) = self.free.pop() else { return Ok(()) };
        let ClientRead { deadline, message_bytes, .. } = self.job.how;
        let range = self.next..self.job.range.end.min(self.next + message_bytes);
        let (now, after) = (driver.now(), Nanos::from(deadline));
        let read = RemoteRead {
            sink: MemorySlice {
                memory: self.job.memory,
                start: place as u64 * message_bytes,
                length: range.end - range.start,
            },
            from: RemoteAddress { stag: self.job.region.stag, offset: range.start },
            deadline: now.plus(after),
            ask_again: Some(Nanos((after.0 / REQUESTS).max(1_000_000))),
        };
        let connection = self.job.region.connection;
        let posted = driver.with(|endpoint, context| endpoint.read(connection, read, context));
        let number = posted.map_err(|why| refused(&format!("read from byte {}", range.start), why))?;
        self.next = range.end;
        self.report.reads += 1;
        self.pieces.insert(number, Piece { range, place, began: Instant::now() });
        Ok(())
    }

    fn done(&mut self, driver: &Driver, read: u64, missing: &[Range<u64>], asked: u32) {
        let Some(piece) = self.pieces.remove(&read) else { return };
        let length = piece.range.end - piece.range.start;
        self.report.requests += u64::from(asked);
        self.report.complete += u64::from(missing.is_empty());
        self.report.bytes += length - total(missing);
        self.report.longest_seconds = self.report.longest_seconds.max(piece.began.elapsed().as_secs_f64());
        let mut bytes = self.handover.memory(length);
        if let Some(memory) = driver.memory(self.job.memory) {
            memory.copy(piece.place as u64 * self.job.how.message_bytes, &mut bytes);
        }
        for hole in missing {
            // What lay there is of an earlier piece.
            bytes[hole.start as usize..hole.end as usize].fill(0);
            self.missing.push(piece.range.start + hole.start..piece.range.start + hole.end);
        }
        self.free.push(piece.place);
        self.handover.put(piece.range.start, bytes);
    }
}
