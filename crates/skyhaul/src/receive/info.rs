//! Description of a stream, its finished parts, its report, and the counters of an engine.
//!
//! Separate from the stream itself, so that sinks, reports and admission do not depend on it.

use crate::irregular::IrregularSummary;
use skyhaul_core::assembly::{Cause, OrderedConfig};
use skyhaul_core::measure::{Histogram, SequenceMeter};
use skyhaul_core::placement::{Geometry, Grain, Nanos, Reject, Rejects};
use skyhaul_core::wire::{FrameTime, Irregular, StreamFormat};
use skyhaul_io::memory::Block;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Description of a stream, known from its start.
#[derive(Debug)]
pub struct StreamInfo {
    /// Numbers the streams of a receiver in order of appearance.
    pub id: u32,
    /// Its sender.
    pub sender: SocketAddr,
    /// Where it is received.
    pub listen: String,
    /// Its format.
    pub format: StreamFormat,
    /// Bytes kept of each packet.
    pub unit_bytes: u32,
}

impl StreamInfo {
    /// Bytes kept of each packet.
    pub(super) fn unit_of(geometry: Geometry) -> u32 {
        match geometry.grain {
            Grain::Units(unit) => unit,
            Grain::Bytes(_) => 1,
        }
    }
}

/// A finished part of a stream.
#[derive(Debug)]
pub struct StreamPart {
    /// Holds its bytes.
    pub block: Block,
    /// Its bytes in the block.
    pub range: Range<usize>,
    /// Missing units (frames), counted from the start of `range`.
    pub missing: Vec<Range<u32>>,
    /// Frames lost between the previous part and this one.
    pub gap: u64,
    /// More may be lost there: the gap goes across the end of a second, and the frame rate was not known before this part.
    pub gap_is_lower_bound: bool,
    /// Frames lost before earlier parts, or this one, beyond what their `gap` counts: the frame rate is known now.
    pub settled: u64,
    /// After this part, gaps of the stream remain whose frames cannot be counted.
    pub has_open_gaps: bool,
    /// Object number from the packets.
    pub object: u64,
    /// Counts the restarts of the sender's counter.
    pub epoch: u32,
    /// Why it was retired.
    pub cause: Cause,
    /// Time of its first frame that arrived.
    pub first_time: Option<FrameTime>,
    /// Time of its last frame that arrived.
    pub last_time: Option<FrameTime>,
    /// Frames per second, if known.
    pub frames_per_second: Option<u32>,
    /// When the kernel received the last packet of it (`CLOCK_REALTIME`), if that is known.
    pub arrived: Option<Nanos>,
}

impl StreamPart {
    /// Frames in the part, present or not.
    #[must_use]
    pub fn units(&self, unit_bytes: u32) -> u32 {
        ((self.range.end - self.range.start) / unit_bytes.max(1) as usize) as u32
    }
}

/// What was seen of a stream's frames, for its report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watched {
    /// How often it was irregular.
    pub irregular: Irregular,
    /// How often data were lost because their packets were refused, most of the stream or many in a row.
    pub refusals: u64,
    /// Data time less the host's clock, in nanoseconds: last, least, largest.
    pub offset: Option<(i128, i128, i128)>,
}

impl From<Watched> for IrregularSummary {
    fn from(watched: Watched) -> IrregularSummary {
        let seconds = |nanos: i128| nanos as f64 / 1e9;
        IrregularSummary {
            refusals: watched.refusals,
            clock_offset_seconds: watched.offset.map(|(last, ..)| seconds(last)),
            clock_offset_range: watched.offset.map(|(_, least, most)| (seconds(least), seconds(most))),
            ..watched.irregular.into()
        }
    }
}

/// Report of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamReport {
    /// Packets received, regardless of their fate.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames placed.
    pub placed: u64,
    /// Packets rejected, by reason.
    pub rejects: Rejects,
    /// Frames in retired parts, missing or not.
    pub retired: u64,
    /// Loss, reordering.
    pub sequence: SequenceMeter,
    /// More frames may be lost than are counted: see [`StreamPart::has_open_gaps`].
    pub has_open_gaps: bool,
    /// Frames that were forwarded when they were placed, and refused later ([`Reject::Stray`], [`Reject::PartialSet`]): they are among
    /// `rejects`, not among `placed`.
    pub forwarded_then_refused: u64,
    /// Frames lost, as ranges of the stream's own numbers, oldest first; the last entries may be omitted.
    pub loss_map: Vec<Range<u64>>,
    /// Ranges omitted from the loss map.
    pub loss_map_left_out: u64,
    /// Restarts of the sender's counter.
    pub epochs: u32,
    /// First frame's time.
    pub first_time: Option<FrameTime>,
    /// Last frame's time.
    pub last_time: Option<FrameTime>,
    /// Frames per second, given or learned.
    pub frames_per_second: Option<u32>,
    /// What its frames say of themselves.
    pub watched: Watched,
    /// Arrival of the last packet.
    pub last_arrival: Nanos,
    /// Nanoseconds between the kernel's arrival times of consecutive trains.
    pub arrival_gaps: Histogram,
}

impl StreamReport {
    /// A copy, with the loss map only if `whole`.
    pub(super) fn snapshot(&mut self, whole: bool) -> Self {
        let map = std::mem::take(&mut self.loss_map);
        let mut copy = self.clone();
        self.loss_map = map;
        if whole {
            copy.loss_map.clone_from(&self.loss_map);
        }
        copy
    }
}

/// Maximum number of ranges in a loss map: 16 bytes each.
const LOSS_MAP: usize = 65_536;

impl StreamReport {
    /// Counts lost frames, and enters their numbers into the loss map, as far as `left` ranges may be added to all of these.
    pub(super) fn lose(&mut self, frames: u64, numbers: Range<u64>, left: &AtomicU32) {
        self.sequence.lost_run(frames);
        if let Some(last) = self.loss_map.last_mut().filter(|last| last.end == numbers.start) {
            last.end = numbers.end;
            return;
        }
        self.map_loss(self.loss_map.len(), numbers, left);
    }

    /// The same of frames before others that were counted.
    pub(super) fn lose_earlier(&mut self, numbers: Range<u64>, left: &AtomicU32) {
        self.sequence.lost_run(numbers.end - numbers.start);
        let before = self.loss_map.iter().rposition(|range| range.start <= numbers.start);
        self.map_loss(before.map_or(0, |before| before + 1), numbers, left);
    }

    fn map_loss(&mut self, at: usize, numbers: Range<u64>, left: &AtomicU32) {
        let take = |left: u32| left.checked_sub(1);
        if self.loss_map.len() < LOSS_MAP
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        {
            self.loss_map.insert(at, numbers);
        } else {
            self.loss_map_left_out += 1;
        }
    }
}

/// All counters of an engine.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets of senders that are not a stream (yet), by reason.
    pub rejects: Rejects,
    /// Packets of senders that are not a stream.
    pub packets: u64,
    /// Packets held while their sender's format is learned.
    pub held: u64,
    /// Every stream so far, except those in `others`.
    pub streams: Vec<(Arc<StreamInfo>, StreamReport)>,
    /// Replaced streams that are no longer listed individually.
    pub others: Others,
}

impl Tally {
    /// Packets rejected for this reason.
    pub(super) fn rejected(&self, reason: Reject) -> u64 {
        let streams = self.streams.iter().map(|(_, stream)| stream.rejects.get(reason));
        self.rejects.get(reason) + self.others.rejects.get(reason) + streams.sum::<u64>()
    }
}

/// Streams that are no longer listed individually because there were too many; these were the poorest.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// How many.
    pub streams: u64,
    /// Packets received.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Frames placed.
    pub placed: u64,
    /// Frames lost.
    pub lost: u64,
    /// More may be lost than that.
    pub has_open_gaps: bool,
    /// Frames that were forwarded, and refused later.
    pub forwarded_then_refused: u64,
    /// Packets rejected, by reason.
    pub rejects: Rejects,
}

impl Others {
    fn add(&mut self, report: &StreamReport) {
        self.streams += 1;
        self.packets += report.packets;
        self.bytes += report.bytes;
        self.placed += report.placed;
        self.lost += report.sequence.lost;
        self.has_open_gaps |= report.has_open_gaps;
        self.forwarded_then_refused += report.forwarded_then_refused;
        self.rejects.merge(&report.rejects);
    }
}

/// Maximum number of replaced streams listed individually.
const MAX_LISTED_STREAMS: usize = 256;

/// Accounts of replaced streams; if there are very many, those of the richest.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) streams: Vec<(Arc<StreamInfo>, StreamReport)>,
    pub(super) others: Others,
}

impl Past {
    /// Keep one more. Returns how many ranges of loss maps were dropped for it.
    pub(super) fn keep(&mut self, info: Arc<StreamInfo>, report: StreamReport) -> u32 {
        self.streams.push((info, report));
        if self.streams.len() <= MAX_LISTED_STREAMS {
            return 0;
        }
        let poorest = self.streams.iter().enumerate().min_by_key(|(_, (_, report))| report.placed);
        let Some((at, _)) = poorest else { return 0 };
        let (_, report) = self.streams.swap_remove(at);
        self.others.add(&report);
        report.loss_map.len() as u32
    }
}

/// How far beyond the newest object another one may open.
pub(super) fn ahead(format: &StreamFormat, per_object: u64, config: OrderedConfig) -> u64 {
    config.ahead.max(if config.open_ended { stride(format, per_object) } else { 1 })
}

/// Maximum number of objects per second, if the frame rate is unknown.
fn stride(format: &StreamFormat, per_object: u64) -> u64 {
    const FRAMES: u64 = 1 << 24;
    FRAMES * format.threads.len().max(1) as u64 / per_object.max(1) + 2
}
