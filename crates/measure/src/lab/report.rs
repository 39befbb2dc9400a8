//! What a path did, as data for text, JSON and tests.

use serde::Serialize;
use skyhaul_core::measure::Histogram;
use skyhaul_io::fault::path::{Cause, Counts, Direction};
use std::collections::BTreeMap;
use std::fmt;

/// One direction, as the forwarder counted it.
#[derive(Clone, Debug)]
pub(super) struct Direct {
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
    pub(super) directions: [Direct; 2],
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
    /// CPU seconds of the thread that forwarded: near those of the clock, it was all that a processor can do.
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
        let sum = |count: fn(&Direct) -> u64| of.directions.iter().map(count).sum::<u64>();
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
        note(dropped, "frames came too fast for the forwarder");
        note(no_room, "frames found no room: --memory");
        note(failed, "frames were refused by the kernel");
        note(lost_by_kernel, "packets were dropped by the kernel between the ends and the router");
        note(of.unlogged, "records are missing in the log");
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

fn direction(of: &Direct) -> DirectionReport {
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
        writeln!(f, "path {} for {:.1} s, {share:.0} % of a processor", self.path, self.seconds)?;
        for (direction, of) in Direction::BOTH.iter().zip([&self.forward, &self.reverse]) {
            let mbps = of.bytes as f64 * 8e-6 / self.seconds.max(1e-9);
            write!(f, "{}  {} packets, {} bytes ({mbps:.1} Mb/s)", direction.name(), of.packets, of.bytes)?;
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
