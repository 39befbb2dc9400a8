//! What is known of a stream, what sinks get of it, and what is reported of it.
//!
//! Apart from the stream at work, so that who only tells of streams (sinks, reports, admission) need not know that.

use skyhaul_core::assembly::Cause;
use skyhaul_core::measure::{Histogram, SequenceMeter};
use skyhaul_core::placement::{Geometry, Grain, Nanos, Rejects};
use skyhaul_core::wire::{FrameTime, StreamFormat};
use skyhaul_io::memory::Block;
use std::net::SocketAddr;
use std::ops::Range;

/// What is known of a stream from its start.
#[derive(Debug)]
pub struct StreamInfo {
    /// Numbers the streams of a receiver in order of appearance.
    pub id: u32,
    /// Who sends it.
    pub sender: SocketAddr,
    /// Where it is received.
    pub listen: String,
    /// What it is.
    pub format: StreamFormat,
    /// Bytes that are kept of each packet.
    pub unit_bytes: u32,
}

impl StreamInfo {
    /// Bytes that are kept of each packet.
    pub(super) fn unit_of(geometry: Geometry) -> u32 {
        match geometry.grain {
            Grain::Units(unit) => unit,
            Grain::Bytes(_) => 1,
        }
    }
}

/// A part of a stream that nothing more will be added to.
#[derive(Debug)]
pub struct Part {
    /// Holds its bytes.
    pub block: Block,
    /// Its bytes in the block.
    pub range: Range<usize>,
    /// What did not come, in units (frames) from the start of `range`.
    pub missing: Vec<Range<u32>>,
    /// Frames of which nothing came between the part before and this one.
    pub gap: u64,
    /// Object number as the packets said it.
    pub object: u64,
    /// Counts the restarts of the sender's counter.
    pub epoch: u32,
    /// Why it was retired.
    pub cause: Cause,
    /// Time of its first frame that came.
    pub first_time: Option<FrameTime>,
    /// Time of its last frame that came.
    pub last_time: Option<FrameTime>,
    /// Frames per second, where they are known by now.
    pub frames_per_second: Option<u32>,
}

impl Part {
    /// Frames in the part, present or not.
    #[must_use]
    pub fn units(&self, unit_bytes: u32) -> u32 {
        ((self.range.end - self.range.start) / unit_bytes.max(1) as usize) as u32
    }
}

/// What happened to a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamReport {
    /// Packets that came, whatever became of them.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames in their place.
    pub placed: u64,
    /// Why packets were refused.
    pub rejects: Rejects,
    /// Frames in retired parts, missing or not.
    pub retired: u64,
    /// Loss, reordering.
    pub sequence: SequenceMeter,
    /// Frames lost, as ranges of the stream's own numbers, oldest first; the last entries may be left out.
    pub loss_map: Vec<Range<u64>>,
    /// How many ranges of the loss map were left out.
    pub loss_map_left_out: u64,
    /// Restarts of the sender's counter.
    pub epochs: u32,
    /// First frame's time.
    pub first_time: Option<FrameTime>,
    /// Last frame's time.
    pub last_time: Option<FrameTime>,
    /// Frames per second, given or learned.
    pub frames_per_second: Option<u32>,
    /// When the last packet came.
    pub last_arrival: Nanos,
    /// Nanoseconds between the kernel's arrival times of trains that follow each other.
    pub arrival_gaps: Histogram,
}

impl StreamReport {
    /// A copy, with the loss map only if it is to be `whole`.
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
