//! What a path did, as data for text, JSON and tests.
//!
//! The log: a line of JSON for the fate of every copy of every packet, in the order in which they left or were lost.
//!
//! ```text
//!   {"dir":"fwd","n":17,"copy":0,"at":1203004,"octets":1514,"fate":"sent","due":16203004,"sent":16203911,"late":false,
//!    "damage":"","proto":17,"from":40001,"to":5001,"head":"00000000000000110000018ff2a0c1d2"}
//! ```
//!
//! `head` holds the first 16 bytes of the payload of TCP or UDP; times are nanoseconds since the lab began.
//!
//! Limits: what the writer cannot keep up with is counted, and the run fails.

use serde::Serialize;
use skyhaul_core::measure::Histogram;
use skyhaul_core::units::display_rate;
use skyhaul_io::fault::path::{Cause, Counts, Direction};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::{fmt, io};

/// One direction, as the forwarder counted it.
#[derive(Clone, Debug)]
pub(super) struct DirectionCounts {
    pub(super) counts: Counts,
    pub(super) frames: u64,
    pub(super) unjudged: u64,
    pub(super) sent_frames: u64,
    pub(super) waiting: u64,
    pub(super) most_waiting_octets: u64,
    pub(super) missed: u64,
    pub(super) lateness: Histogram,
    pub(super) no_room: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
}

/// What the forwarder counted.
#[derive(Clone, Debug)]
pub(super) struct ForwardReport {
    pub(super) seconds: f64,
    pub(super) cpu: f64,
    pub(super) directions: [DirectionCounts; 2],
    pub(super) unlogged: u64,
    pub(super) memory: u64,
}

/// What a path did.
#[derive(Clone, Debug, Serialize)]
pub struct LabReport {
    /// The path, as it was understood.
    pub path: String,
    /// How long it stood.
    pub seconds: f64,
    /// CPU seconds of the thread that forwarded: if they are close to wall time, the CPU was the limit.
    pub cpu_seconds: f64,
    /// From the near end to the far one.
    pub forward: DirectionReport,
    /// Back.
    pub reverse: DirectionReport,
    /// Records that the log has not.
    pub unlogged: u64,
    /// Bytes of memory that frames took.
    pub memory_bytes: u64,
    /// Whether the forwarder had real-time priority.
    pub real_time: bool,
    /// Why it did not do what it should; empty if it did.
    pub failures: Vec<String>,
}

/// What one direction did.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// Packets that came, each of a train by itself.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Packets that left, duplicates too.
    pub sent: u64,
    /// Bytes of their frames.
    pub sent_bytes: u64,
    /// Packets lost, by cause.
    pub lost: BTreeMap<&'static str, u64>,
    /// Held back by `reorder=`.
    pub late: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// With a flipped bit.
    pub corrupted: u64,
    /// Cut short.
    pub truncated: u64,
    /// Bytes that waited for the rate, at most.
    pub most_queued_bytes: u64,
    /// Bytes that waited for anything, at most.
    pub most_waiting_bytes: u64,
    /// Packets that still waited at the end.
    pub waiting: u64,
    /// Frames of neighbours and groups, which no path judges.
    pub unjudged: u64,
    /// Frames that came: packets and trains.
    pub frames: u64,
    /// Frames that left.
    pub sent_frames: u64,
    /// How long after they were due packets left.
    pub lateness: Lateness,
}

/// How long after they were due packets left, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lateness {
    /// Half of them were no later.
    pub median_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
    /// Later than the tolerance.
    pub missed: u64,
}

impl LabReport {
    pub(super) fn new(path: String, real_time: bool, of: &ForwardReport, lost_by_kernel: u64) -> Self {
        let [forward, reverse] = &of.directions;
        let sum = |count: fn(&DirectionCounts) -> u64| of.directions.iter().map(count).sum::<u64>();
        let sent = sum(|one| one.counts.sent);
        let (missed, failed) = (sum(|one| one.missed), sum(|one| one.failed));
        let (dropped, no_room) = (sum(|one| one.dropped), sum(|one| one.no_room));
        let mut failures = Vec::new();
        let mut note = |count: u64, said: &str| {
            if count > 0 {
                failures.push(format!("{count} {said}"));
            }
        };
        // Single ones come of other work on this machine; more than one in a hundred is too much to keep up with.
        note(if missed * 100 > sent { missed } else { 0 }, "packets left later than the tolerance");
        note(dropped, "frames arrived faster than the forwarder could handle");
        note(no_room, "frames exceeded the memory; raise --memory");
        note(failed, "frames were refused by the kernel");
        note(lost_by_kernel, "packets were dropped by the kernel between the ends and the router");
        note(of.unlogged, "records are missing from the log");
        let (seconds, cpu_seconds, unlogged, memory_bytes) = (of.seconds, of.cpu, of.unlogged, of.memory);
        let (forward, reverse) = (direction(forward), direction(reverse));
        Self { path, seconds, cpu_seconds, forward, reverse, unlogged, memory_bytes, real_time, failures }
    }

    /// Whether the path did what it should.
    #[must_use]
    pub fn held(&self) -> bool {
        self.failures.is_empty()
    }
}

fn direction(of: &DirectionCounts) -> DirectionReport {
    let counts = &of.counts;
    let lost = Cause::ALL.iter().map(|cause| (cause.name(), counts.lost[*cause as usize]));
    DirectionReport {
        packets: counts.offered,
        bytes: counts.offered_octets,
        sent: counts.sent - of.waiting.min(counts.sent),
        sent_bytes: counts.sent_octets,
        lost: lost.filter(|(_, count)| *count > 0).collect(),
        late: counts.late,
        duplicated: counts.duplicated,
        corrupted: counts.corrupted,
        truncated: counts.truncated,
        most_queued_bytes: counts.most_waiting,
        most_waiting_bytes: of.most_waiting_octets,
        waiting: of.waiting,
        unjudged: of.unjudged,
        frames: of.frames,
        sent_frames: of.sent_frames,
        lateness: Lateness {
            median_ns: of.lateness.quantile(0.5),
            p99_ns: of.lateness.quantile(0.99),
            max_ns: of.lateness.max(),
            missed: of.missed,
        },
    }
}

impl fmt::Display for LabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.cpu_seconds * 100.0 / self.seconds.max(1e-9);
        writeln!(f, "path {} for {:.1} s, {share:.0} % of a CPU", self.path, self.seconds)?;
        for (direction, of) in Direction::BOTH.iter().zip([&self.forward, &self.reverse]) {
            let rate = display_rate(of.bytes as f64 * 8.0 / self.seconds.max(1e-9));
            write!(f, "{}  {} packets, {} bytes ({rate})", direction.name(), of.packets, of.bytes)?;
            for (cause, count) in &of.lost {
                write!(f, ", {count} {cause}")?;
            }
            for (what, count) in [
                ("late", of.late),
                ("duplicated", of.duplicated),
                ("corrupted", of.corrupted),
                ("truncated", of.truncated),
                ("still waiting", of.waiting),
            ] {
                if count > 0 {
                    write!(f, ", {count} {what}")?;
                }
            }
            let us = |ns: u64| ns as f64 / 1e3;
            writeln!(
                f,
                "\n     queue at most {} bytes; {} frames in, {} out; left {:.0} us late (median), {:.0} us (99 %), {:.0} us (most)",
                of.most_queued_bytes,
                of.frames,
                of.sent_frames,
                us(of.lateness.median_ns),
                us(of.lateness.p99_ns),
                us(of.lateness.max_ns)
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        Ok(())
    }
}

/// Records that are handed to the writer at a time, and such batches that may wait.
const BATCH: usize = 4096;
const WAITING: usize = 64;

/// What is known of a copy of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) direction: Direction,
    pub(super) number: u64,
    pub(super) copy: u8,
    pub(super) at: u64,
    pub(super) octets: u32,
    pub(super) lost: Option<Cause>,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) late: bool,
    pub(super) flipped: bool,
    pub(super) cut: bool,
    pub(super) protocol: u8,
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) head: [u8; 16],
}

impl Record {
    fn write(&self, text: &mut String) {
        let Record { number, copy, at, octets, due, sent, late, protocol, from, to, .. } = self;
        let (direction, fate) = (self.direction.name(), self.lost.map_or("sent", Cause::name));
        let damage = match (self.flipped, self.cut) {
            (false, false) => "",
            (true, false) => "bit",
            (false, true) => "cut",
            (true, true) => "bit,cut",
        };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{{\"dir\":\"{direction}\",\"n\":{number},\"copy\":{copy},\"at\":{at},\"octets\":{octets},\"fate\":\"{fate}\",\
             \"due\":{due},\"sent\":{sent},\"late\":{late},\"damage\":\"{damage}\",\"proto\":{protocol},\"from\":{from},\
             \"to\":{to},\"head\":\""
        );
        for octet in self.head {
            let _ = write!(text, "{octet:02x}");
        }
        text.push_str("\"}\n");
    }
}

/// Writes records on a thread of its own.
#[derive(Debug)]
pub(super) struct Log {
    batch: Vec<Record>,
    send: SyncSender<Vec<Record>>,
    back: Receiver<Vec<Record>>,
    writer: JoinHandle<io::Result<()>>,
    missing: u64,
}

impl Log {
    /// Begin a file.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path).map_err(|error| skyhaul_io::file::failed("create", path, &error))?;
        let (send, records) = sync_channel::<Vec<Record>>(WAITING);
        let (give_back, back) = sync_channel(WAITING);
        let writer = std::thread::Builder::new().name("lab-log".into()).spawn(move || {
            let (mut file, mut text) = (BufWriter::with_capacity(1 << 20, file), String::new());
            for mut batch in records {
                text.clear();
                batch.drain(..).for_each(|record| record.write(&mut text));
                file.write_all(text.as_bytes())?;
                let _ = give_back.try_send(batch);
            }
            file.flush()
        })?;
        Ok(Self { batch: Vec::with_capacity(BATCH), send, back, writer, missing: 0 })
    }

    pub(super) fn note(&mut self, record: Record) {
        self.batch.push(record);
        if self.batch.len() >= BATCH {
            let next = self.back.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
            let full = std::mem::replace(&mut self.batch, next);
            if let Err(refused) = self.send.try_send(full) {
                let (std::sync::mpsc::TrySendError::Full(mut batch)
                | std::sync::mpsc::TrySendError::Disconnected(mut batch)) = refused;
                self.missing += batch.len() as u64;
                batch.clear();
            }
        }
    }

    /// Write the rest; returns the number of records that are missing.
    ///
    /// # Errors
    /// The file could not be written.
    pub(super) fn finish(self) -> io::Result<u64> {
        let rest = self.batch.len() as u64;
        let missing = self.missing + if self.send.send(self.batch).is_err() { rest } else { 0 };
        drop(self.send);
        self.writer.join().map_err(|_| io::Error::other("the thread that writes the log failed"))??;
        Ok(missing)
    }
}
