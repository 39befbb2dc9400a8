//! Takes frames from the parts of streams, on the thread that receives them.

use super::shared::Shared;
use crate::receive::{StreamInfo, StreamPart};
use skyhaul_core::placement::Nanos;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;

/// Sets of frames (one of each thread) taken a second of each stream.
const SETS_PER_SECOND: f64 = 8.0;
/// Sets taken from one part at most: parts of slow streams come seconds apart.
const MAX_SETS: f64 = 32.0;
/// Bytes taken from one part at most, and of one set.
const MAX_BYTES: usize = 1 << 20;
/// Streams that are followed.
const MAX_STREAMS: usize = 256;

/// Frames of a part.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) info: Arc<StreamInfo>,
    /// Frames of a thread in a second, if known.
    pub(super) rate: Option<u32>,
    /// Whole units, one behind the other.
    pub(super) units: Vec<u8>,
    /// Units of each set, in order.
    pub(super) sets: Vec<usize>,
    /// How long the part is, seconds of data; 0 without a rate.
    pub(super) seconds: f64,
    /// When the last packet of the part arrived, if its last frames are the last set.
    pub(super) arrived: Option<Nanos>,
    /// The stream is over: nothing was taken.
    pub(super) has_ended: bool,
}

/// Takes frames from parts of streams before they are handed on. It never waits.
#[derive(Debug)]
pub struct QualityTap {
    sender: SyncSender<Taken>,
    shared: Arc<Shared>,
    streams: HashMap<u32, Credit>,
}

/// How many sets may be taken of a stream.
#[derive(Debug)]
pub(super) struct Credit {
    pub(super) at: Instant,
    pub(super) sets: f64,
    /// Of a set that is too large, where the next part of it begins.
    pub(super) turn: usize,
}

impl QualityTap {
    pub(super) fn new(sender: SyncSender<Taken>, shared: Arc<Shared>) -> Self {
        Self { sender, shared, streams: HashMap::new() }
    }

    /// A part of a stream is finished.
    pub fn part(&mut self, info: &Arc<StreamInfo>, part: &StreamPart) {
        let now = Instant::now();
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&info.id) {
            return;
        }
        // The first part of a slow stream is seconds old when it is finished: that many sets may be taken of it.
        let first = || Credit { at: now, sets: 1.0 + seconds(info, part) * SETS_PER_SECOND, turn: 0 };
        let credit = self.streams.entry(info.id).or_insert_with(first);
        let passed = now.saturating_duration_since(credit.at).as_secs_f64();
        (credit.at, credit.sets) = (now, (credit.sets + passed * SETS_PER_SECOND).min(MAX_SETS));
        if credit.sets < 1.0 || info.format.header_at().is_none() {
            return;
        }
        let Some(taken) = take(info, part, credit) else { return };
        let sets = taken.sets.len();
        credit.sets -= sets as f64;
        match self.sender.try_send(taken) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.shared.left_out.fetch_add(sets as u64, Ordering::Relaxed);
            }
        }
    }

    /// A stream is over.
    pub fn stream_ended(&mut self, info: &Arc<StreamInfo>) {
        if self.streams.remove(&info.id).is_some() {
            let ended = Taken {
                info: Arc::clone(info),
                rate: None,
                units: Vec::new(),
                sets: Vec::new(),
                seconds: 0.0,
                arrived: None,
                has_ended: true,
            };
            // Without room, what is known of it stays until the end.
            let _ = self.sender.try_send(ended);
        }
    }
}

/// Copies whole sets, spread evenly over the part, the last of them at its end.
pub(super) fn take(info: &Arc<StreamInfo>, part: &StreamPart, credit: &mut Credit) -> Option<Taken> {
    let (unit, group) = (info.unit_bytes.max(1) as usize, info.format.group());
    let all = part.units(info.unit_bytes) as usize;
    // A part may begin within a set.
    let lead = (group - part.range.start / unit % group) % group;
    let groups = all.saturating_sub(lead) / group;
    // Of a very large set some threads at a time, in whole frames.
    let parts = info.format.parts.max(1);
    let most = (MAX_BYTES / unit / parts * parts).max(parts);
    let each = group.min(most);
    let wanted = (credit.sets as usize).min(groups).min((MAX_BYTES / (each * unit)).max(1));
    if groups == 0 || wanted == 0 {
        return None;
    }
    let first = if each < group { credit.turn.min(group - each) } else { 0 };
    credit.turn = if first + each >= group { 0 } else { first + each };
    let mut units = Vec::with_capacity(wanted * each * unit);
    let mut sets = Vec::with_capacity(wanted);
    let mut is_fresh = false;
    for n in 0..wanted {
        // The last one is the last of the part.
        let at = groups - 1 - (wanted - 1 - n) * groups / wanted;
        let range = lead + at * group + first..lead + at * group + first + each;
        if part.missing.iter().any(|hole| overlaps(hole, &range)) {
            continue;
        }
        let bytes = part.range.start + range.start * unit..part.range.start + range.end * unit;
        let Some(bytes) = part.block.get(bytes) else { continue };
        units.extend_from_slice(bytes);
        sets.push(each);
        is_fresh = range.end + group > all;
    }
    let arrived = part.arrived.filter(|_| is_fresh);
    let (info, rate) = (Arc::clone(info), part.frames_per_second);
    let seconds = seconds(&info, part);
    (!sets.is_empty()).then_some(Taken { info, rate, units, sets, seconds, arrived, has_ended: false })
}

/// How long a part is, seconds of data; 0 without a rate.
fn seconds(info: &StreamInfo, part: &StreamPart) -> f64 {
    let sets = part.units(info.unit_bytes) as f64 / info.format.group().max(1) as f64;
    part.frames_per_second.filter(|&rate| rate > 0).map_or(0.0, |rate| sets / f64::from(rate))
}

fn overlaps(hole: &Range<u32>, range: &Range<usize>) -> bool {
    (hole.start as usize) < range.end && range.start < hole.end as usize
}
