//! Reports as data, used for text, `--json`, plots and tests.
//!
//! Losses are reported by place. Every packet sent is either in a counter of one of these layers or in `placed`; the
//! first layer whose count falls short is the place of the loss:
//!
//! ```text
//!   sent ─▶ interface ─▶ socket ─▶ stream.packets ─▶ stream.placed ─▶ recorded ─▶ acknowledged
//!           interface_*  socket_drops  rejects{}          lost            disk failures
//! ```
//!
//! Units are in the names: bytes, seconds; rates are bits per second of datagram payload.

pub mod compare;
mod distribution;

pub use distribution::Distribution;

use crate::irregular::IrregularSummary;
use crate::ledger::{FrameLedger, differs};
use crate::mirror::TargetReport;
use crate::receive::objects::ObjectReport;
use crate::receive::{ObjectCounts, Others, StreamInfo, StreamReport, Tally};
use crate::recording::Event;
use serde::{Deserialize, Serialize};
use skyhaul_core::assembly::building::BuildCounts;
use skyhaul_core::placement::Rejects;
use skyhaul_io::source::SourceStats;
use std::collections::BTreeMap;

/// Version of the JSON reports; increases when a field changes its meaning or is removed.
pub const VERSION: u32 = 2;

/// Rejected packets: reason and count, only reasons that occurred.
pub type RejectCounts = BTreeMap<String, u64>;

/// Counts by name.
#[must_use]
pub fn reject_counts(rejects: &Rejects) -> RejectCounts {
    rejects.iter().map(|(why, n)| (why.name().to_string(), n)).collect()
}

/// One sender's stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Number in order of appearance.
    pub id: u32,
    /// Address of the sender.
    pub sender: String,
    /// Where it was received.
    pub listen: String,
    /// Description of its format.
    pub format: String,
    /// Bytes kept of each packet.
    pub frame_bytes: u32,
    /// VDIF threads in it.
    pub threads: Vec<u16>,
    /// Frames per second of each thread, if known.
    pub frames_per_second: Option<u32>,
    /// Packets in which a frame comes: 2 for a FILA10G, else 1. If more than 1, `placed`, `lost` and all that follows from them count
    /// packets, not frames.
    #[serde(default = "one")]
    pub packets_per_frame: u32,
    /// Packets received.
    pub packets: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Frames in their place.
    pub placed: u64,
    /// Frames of the stream's span that did not arrive in time.
    pub lost: u64,
    /// `lost` is a lower bound: frames may be missing at ends of seconds, and how many a second has is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost_is_lower_bound: bool,
    /// Frames that were forwarded when they were placed, and refused later: they are among `rejects`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forwarded_then_refused: u64,
    /// `lost` of all frames in the stream's span.
    pub loss_fraction: f64,
    /// Why packets were refused.
    pub rejects: RejectCounts,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// How far behind, in packets.
    pub reorder_extent: Distribution,
    /// Nanoseconds between the kernel's arrival times of consecutive trains: the stream's jitter.
    pub arrival_gaps_ns: Distribution,
    /// Lengths of runs of lost frames.
    pub loss_runs: Distribution,
    /// Lost frames as ranges (first, behind the last) of the stream's own numbers.
    pub loss_map: Vec<(u64, u64)>,
    /// Ranges left out of the map because there were too many.
    pub loss_map_left_out: u64,
    /// Restarts of the sender's counter.
    pub restarts: u32,
    /// Time of the first frame: UNIX second, frame in the second.
    pub first_time: Option<(i64, u32)>,
    /// Time of the last frame.
    pub last_time: Option<(i64, u32)>,
    /// Deviations of its headers from the standard.
    pub quirks: Vec<String>,
    /// Irregularities of its times, threads, station and frame rate, and its times against the host's clock.
    #[serde(default)]
    pub irregular: IrregularSummary,
}

impl StreamSummary {
    /// From a stream's report.
    #[must_use]
    pub fn new(info: &StreamInfo, report: &StreamReport) -> Self {
        let lost = report.sequence.lost;
        let span = report.placed + lost;
        Self {
            id: info.id,
            sender: info.sender.to_string(),
            listen: info.listen.clone(),
            format: info.format.describe(),
            frame_bytes: info.unit_bytes,
            threads: info.format.threads.iter().map(|t| t.id).collect(),
            frames_per_second: report.frames_per_second,
            packets_per_frame: info.format.parts.max(1) as u32,
            packets: report.packets,
            bytes: report.bytes,
            placed: report.placed,
            lost,
            lost_is_lower_bound: report.has_open_gaps,
            forwarded_then_refused: report.forwarded_then_refused,
            loss_fraction: if span == 0 { 0.0 } else { lost as f64 / span as f64 },
            rejects: reject_counts(&report.rejects),
            reordered: report.sequence.reordered,
            reorder_extent: (&report.sequence.extent).into(),
            arrival_gaps_ns: (&report.arrival_gaps).into(),
            loss_runs: (&report.sequence.runs).into(),
            loss_map: report.loss_map.iter().map(|r| (r.start, r.end)).collect(),
            loss_map_left_out: report.loss_map_left_out,
            restarts: report.epochs,
            first_time: report.first_time.map(|t| (t.unix_seconds, t.frame)),
            last_time: report.last_time.map(|t| (t.unix_seconds, t.frame)),
            quirks: info.format.quirks.iter().map(ToString::to_string).collect(),
            irregular: report.watched.into(),
        }
    }
}

/// Streams that gave way to richer ones and are not listed one by one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OtherStreams {
    /// How many.
    pub streams: u64,
    /// Packets that came.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Frames in their place.
    pub placed: u64,
    /// Frames lost.
    pub lost: u64,
    /// `lost` is a lower bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost_is_lower_bound: bool,
    /// Frames that were forwarded, and refused later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forwarded_then_refused: u64,
    /// Why packets were refused.
    pub rejects: RejectCounts,
}

impl OtherStreams {
    fn add(&mut self, others: &Others) {
        self.streams += others.streams;
        self.packets += others.packets;
        self.bytes += others.bytes;
        self.placed += others.placed;
        self.lost += others.lost;
        self.lost_is_lower_bound |= others.has_open_gaps;
        self.forwarded_then_refused += others.forwarded_then_refused;
        add_counts(&mut self.rejects, &others.rejects);
    }
}

fn one() -> u32 {
    1
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn add_counts(all: &mut RejectCounts, more: &Rejects) {
    for (why, n) in reject_counts(more) {
        *all.entry(why).or_default() += n;
    }
}

/// CPU time, in total and per byte.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Seconds of the receiving (or sending) threads.
    pub path_seconds: f64,
    /// Seconds of the whole process, user and system.
    pub process_seconds: f64,
    /// `path_seconds` per 10⁹ bytes of datagram payload.
    pub path_seconds_per_gb: f64,
    /// `process_seconds` per 10⁹ bytes of datagram payload.
    pub process_seconds_per_gb: f64,
    /// Joules of the processor package per 10⁹ bytes, where the machine has a counter.
    pub joules_per_gb: Option<f64>,
}

/// Report of a receiver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReceiveReport {
    /// [`VERSION`].
    pub version: u32,
    /// Wall seconds from the first packet to the last.
    pub seconds: f64,
    /// Bits per second of datagram payload over `seconds`.
    pub bits_per_second: f64,
    /// Every socket.
    pub sources: Vec<SourceReport>,
    /// Every stream, except those in `other_streams`.
    pub streams: Vec<StreamSummary>,
    /// Streams that gave way to richer ones and are not listed one by one.
    #[serde(default)]
    pub other_streams: OtherStreams,
    /// Packets of senders that were not a stream.
    pub strangers: u64,
    /// Rejections of those, by reason.
    pub stranger_rejects: RejectCounts,
    /// Destinations to which frames were forwarded.
    pub forward: Vec<TargetReport>,
    /// Frames, heaps and events whose payload was not the pattern.
    pub pattern_errors: Option<u64>,
    /// Why it ended; empty while it runs.
    #[serde(default)]
    pub ended: String,
    /// Objects with keys by what they are, `heaps` and `events`, where any were received or asked for.
    #[serde(default)]
    pub objects: BTreeMap<String, ObjectCounts>,
    /// How the payload of heaps and events was copied, where any were received or asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyChoice>,
    /// Bytes of payload of heaps and events.
    #[serde(default)]
    pub payload_bytes: u64,
    /// Every non-zero counter of their tables, except rejected packets.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Packets received, of any kind.
    #[serde(default)]
    pub packets: u64,
    /// Bytes in them: datagram payload.
    #[serde(default)]
    pub wire_bytes: u64,
    /// Packets rejected, of any kind, by reason.
    #[serde(default)]
    pub rejects: RejectCounts,
    /// Missing privileges and failed sinks, with remedies.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Events for the operator: pauses, rejected senders, delayed memory.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Errors that ended a receiving thread: what it would have received after that is missing.
    #[serde(default)]
    pub errors: Vec<String>,
    /// What became of the frames of all streams: received and never received.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Sums of this report that do not hold, as text: none, unless this program counts wrongly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbalanced: Vec<String>,
    /// Ticks, if they were built from the events of several sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub building: Option<BuildReport>,
    /// The worker's session, if it joined a balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<SessionReport>,
    /// CPU time.
    pub cpu: Cpu,
    /// Every 0.1 s or more: seconds since start, bytes received so far, frames lost so far.
    pub timeline: Vec<(f64, u64, u64)>,
}

/// A choice between copying past the caches and into them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyChoice {
    /// What is done, in words.
    pub chosen: String,
    /// Memory used again after at most this many bytes of others is taken to be in a cache, and copied to there.
    pub warm_bytes: u64,
    /// Reason.
    pub because: String,
}

impl CopyChoice {
    /// The choice of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let limit = skyhaul_io::copy::warm_limit();
        Self { chosen: limit.chosen(), warm_bytes: limit.bytes, because: limit.because.clone() }
    }
}

impl ReceiveReport {
    /// Take in one engine's counters.
    pub fn add(&mut self, tally: &Tally) {
        self.strangers += tally.packets;
        self.packets += tally.packets + tally.others.packets;
        self.wire_bytes += tally.others.bytes;
        add_counts(&mut self.rejects, &tally.rejects);
        add_counts(&mut self.rejects, &tally.others.rejects);
        for (_, report) in &tally.streams {
            self.packets += report.packets;
            self.wire_bytes += report.bytes;
            add_counts(&mut self.rejects, &report.rejects);
        }
        add_counts(&mut self.stranger_rejects, &tally.rejects);
        self.other_streams.add(&tally.others);
        self.streams.extend(tally.streams.iter().map(|(info, report)| StreamSummary::new(info, report)));
        self.streams.sort_by_key(|s| s.id);
    }

    /// Take in the account of heaps and events.
    pub(crate) fn add_objects(&mut self, all: ObjectReport) {
        let ObjectReport { objects, total, counters, ended, failure } = all;
        let (counts, wrong) = (objects.values(), objects.values().map(|counts| counts.wrong).sum::<u64>());
        self.payload_bytes += counts.map(|counts| counts.payload_bytes).sum::<u64>();
        self.pattern_errors = self.pattern_errors.map(|errors| errors + wrong);
        self.packets += total.packets;
        self.wire_bytes += total.bytes;
        add_counts(&mut self.rejects, &total.rejects);
        self.objects = objects.into_iter().map(|(name, counts)| (name.to_owned(), counts)).collect();
        if self.forward.is_empty() {
            self.objects.values_mut().for_each(ObjectCounts::none_forwarded);
        }
        self.counters = counters;
        self.ended = ended.unwrap_or_default().to_owned();
        self.errors.extend(failure.map(|failure| format!("write: {failure}")));
    }

    /// Count together, at the end: the ledger, and every sum that does not hold.
    pub(crate) fn balance(&mut self) {
        (self.ledger.received, self.ledger.never_received) = (self.placed(), self.lost());
        self.ledger.is_lower_bound = self.lost_is_lower_bound();
        self.ledger.packets_per_frame = self.streams.iter().map(|s| s.packets_per_frame).max().unwrap_or(0);
        let line = |whose: &str, packets: u64, placed: u64, rejects: &RejectCounts| {
            let fates = rejects.values().fold(placed, |sum, n| sum.saturating_add(*n));
            differs(whose, ("packets", packets), ("placed + rejected", fates))
        };
        let of_stream =
            |s: &StreamSummary| line(&format!("stream {}", s.id), s.packets, s.placed, &s.rejects);
        let others = &self.other_streams;
        let rest = line("other streams", others.packets, others.placed, &others.rejects);
        let mut wrong: Vec<String> = self.streams.iter().filter_map(of_stream).chain(rest).collect();
        // Heaps and events are forwarded packet by packet, before their tables judge them.
        let frames = self.streams.iter().map(|s| s.forwarded_then_refused).sum::<u64>();
        let frames = self.placed().saturating_add(frames).saturating_add(others.forwarded_then_refused);
        let taken = self.objects.values().fold(frames, |sum, counts| sum.saturating_add(counts.forwarded));
        wrong.extend(self.forward.iter().filter_map(|target| {
            let dropped = target.dropped_queue.saturating_add(target.dropped_refused);
            let fates = ("packets forwarded or dropped", target.frames.saturating_add(dropped));
            differs(&target.target, fates, ("placed, or forwarded and refused later", taken))
        }));
        self.unbalanced.extend(wrong);
        // A thread that ended by an error may have left a packet half placed.
        debug_assert!(self.unbalanced.is_empty() || !self.errors.is_empty(), "{:?}", self.unbalanced);
    }

    /// Sum over all streams.
    #[must_use]
    pub fn placed(&self) -> u64 {
        self.streams.iter().map(|s| s.placed).sum::<u64>() + self.other_streams.placed
    }

    /// Sum over all streams.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.streams.iter().map(|s| s.lost).sum::<u64>() + self.other_streams.lost
    }

    /// Packets that were forwarded and then refused: frames after they were placed, packets of heaps and events when they arrived. Sum
    /// over all streams.
    #[must_use]
    pub fn forwarded_then_refused(&self) -> u64 {
        let listed: u64 = self.streams.iter().map(|s| s.forwarded_then_refused).sum();
        let of_objects: u64 = self.objects.values().map(|counts| counts.forwarded_then_refused).sum();
        listed + of_objects + self.other_streams.forwarded_then_refused
    }

    /// Whether more frames of a stream may be lost than [`lost`](Self::lost) counts.
    #[must_use]
    pub fn lost_is_lower_bound(&self) -> bool {
        self.streams.iter().any(|s| s.lost_is_lower_bound) || self.other_streams.lost_is_lower_bound
    }

    /// Whether everything that reached this host was received correctly; for heaps and events, also whether all that were
    /// sent arrived, as far as known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let taken = self.kernel_drops() == 0 && self.no_buffer() == 0 && self.cut_short() == 0;
        let right = self.pattern_errors.unwrap_or(0) == 0 && self.errors.is_empty();
        let built = self.building.is_none_or(|ticks| ticks.partial == 0);
        let right = right && self.unbalanced.is_empty();
        taken && right && built && self.ended != "nothing" && !self.is_refused() && self.objects_are_whole()
    }

    /// Whether packets came and none of them was accepted: nothing was received.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let unread: u64 = self.sources.iter().map(|s| s.truncated + s.malformed + s.fragments).sum();
        self.packets + unread > 0 && self.placed() == 0 && self.rejects.values().sum::<u64>() >= self.packets
    }

    fn objects_are_whole(&self) -> bool {
        let lost: u64 =
            self.objects.values().map(|n| n.incomplete + n.missing.unwrap_or(0) + n.ring_full).sum();
        let rejected = |why| self.rejects.get(why).copied().unwrap_or(0);
        // They were part of what is not there, or contradicted what is.
        let outside = rejected("outside") + rejected("wrong_size");
        self.objects.is_empty() || lost + outside + self.repeated() + self.left_at_the_end() == 0
    }

    /// Whole heaps that were refused for others with their counters.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.counters.get("repeated_heaps").copied().unwrap_or(0)
    }

    /// Finished heaps and events that waited for room at the end; behind a limit nobody wanted them.
    #[must_use]
    pub fn left_at_the_end(&self) -> u64 {
        let left = self.counters.get("stopped").copied().unwrap_or(0);
        if matches!(self.ended.as_str(), "limit" | "reader gone") { 0 } else { left }
    }

    /// Packets for which there was no memory.
    #[must_use]
    pub fn no_buffer(&self) -> u64 {
        self.rejects.get("no_buffer").copied().unwrap_or_default()
    }

    /// Captures that end within a record, or have an invalid record.
    #[must_use]
    pub fn cut_short(&self) -> u64 {
        self.sources.iter().map(|s| s.cut_short).sum()
    }

    /// Packets dropped by the kernel because this program was too slow.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        self.sources.iter().map(|s| s.socket_drops).sum()
    }
}

/// Ticks, and events that are in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildReport {
    /// Ticks with the whole events of all sources.
    pub whole: u64,
    /// Ticks that lacked some.
    pub partial: u64,
    /// Of these, ticks that ended before their time, because too much was held.
    pub crowded: u64,
    /// Events whose tick had ended.
    pub late: u64,
    /// Events that were there already.
    pub doubled: u64,
    /// Events of sources that are not built.
    pub other_sources: u64,
    /// Events that were not whole, and so are in no tick.
    pub incomplete: u64,
}

impl BuildReport {
    /// From the counts of a builder, and the events that it was not given.
    #[must_use]
    pub fn new(counts: BuildCounts, incomplete: u64) -> Self {
        let BuildCounts { whole, partial, crowded, late, doubled, other_sources } = counts;
        Self { whole, partial, crowded, late, doubled, other_sources, incomplete }
    }
}

/// What became of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    /// The control plane, `host:port`.
    pub control_plane: String,
    /// The balancer that it registered with.
    pub balancer: String,
    /// Its name.
    pub name: String,
    /// The last session; empty if it has none.
    pub session: String,
    /// Where the balancer sends to.
    pub address: String,
    /// Its first port.
    pub port: u16,
    /// How many ports it has.
    pub ports: u16,
    /// How often it registered: more than once if the control plane forgot it.
    pub registrations: u64,
    /// States that were reported, and that could not be.
    pub reports: u64,
    /// States that could not be reported.
    pub reports_failed: u64,
    /// How often the control plane was away.
    pub times_away: u64,
    /// For how many seconds in all.
    pub seconds_away: f64,
    /// Whether it says that it is ready.
    pub is_ready: bool,
    /// The last fill level, 0 to 1.
    pub fill: f64,
    /// The last control signal, thousandths of its share.
    pub signal: f64,
    /// Events that arrived, those included for which it had no room (an estimate if packets were dropped).
    pub events: u64,
    /// Events that were taken.
    pub taken: u64,
    /// Whether it deregistered in the end.
    pub has_left: bool,
    /// Whether an operator ended its session.
    #[serde(default)]
    pub removed: bool,
    /// Seconds from when it said that it is not ready to its end.
    pub seconds_leaving: f64,
    /// The last error of the control plane.
    #[serde(default)]
    pub error: Option<String>,
}

/// One socket, capture or connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SourceReport {
    /// Its address.
    pub listen: String,
    /// How it receives, and why so.
    pub tier: String,
    /// Reason for that tier.
    pub because: String,
    /// Packets delivered.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Trains they came in.
    pub trains: u64,
    /// Dropped by the kernel because this program was too slow; a train that reached the socket in one piece counts as
    /// one.
    pub socket_drops: u64,
    /// Truncated because they were longer than expected.
    pub truncated: u64,
    /// Malformed packets.
    pub malformed: u64,
    /// In IP fragments that could not be joined.
    pub fragments: u64,
    /// Records of a capture that held several packets and were cut into them.
    pub cut_trains: u64,
    /// A capture that ends within a record, or has an invalid record: the rest was not read.
    pub cut_short: u64,
    /// Kernel buffer requested, bytes.
    pub buffer_asked: u64,
    /// Kernel buffer granted, bytes.
    pub buffer_granted: u64,
    /// Interface whose counters follow.
    pub interface: String,
    /// Packets the interface received meanwhile (all traffic).
    pub interface_packets: u64,
    /// Packets the interface dropped or missed meanwhile.
    pub interface_drops: u64,
    /// Remedies.
    pub remedies: Vec<String>,
}

impl SourceReport {
    /// From a source's counters.
    #[must_use]
    pub fn new(listen: String, stats: SourceStats) -> Self {
        let seen = stats.interface.as_ref().map(|watch| watch.difference()).unwrap_or_default();
        Self {
            listen,
            tier: stats.tier.into(),
            because: stats.because,
            packets: stats.packets,
            bytes: stats.bytes,
            trains: stats.trains,
            socket_drops: stats.socket_drops,
            truncated: stats.truncated,
            malformed: stats.malformed,
            fragments: stats.fragments,
            cut_trains: stats.cut_trains,
            cut_short: stats.cut_short,
            buffer_asked: stats.buffer.map_or(0, |b| b.asked),
            buffer_granted: stats.buffer.map_or(0, |b| b.granted),
            interface: stats.interface.as_ref().map(|watch| watch.name.clone()).unwrap_or_default(),
            interface_packets: seen.packets,
            interface_drops: seen.dropped + seen.fifo,
            remedies: stats.remedies,
        }
    }
}
