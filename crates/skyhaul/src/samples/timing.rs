//! Where in the pieces a frame lies, found by headers alone.
//!
//! Pieces and the frames in them ascend in time. So the piece is found by bisection over the first frames of the pieces,
//! and the place in it by bisection over its frames, beginning with the place at which the frame lies if none is missing
//! before it. Only the headers looked at are read.

use super::frames::{FrameReader, HEAD};
use super::{First, Samples};
use crate::recording::{OpenPiece, Pieces};
use skyhaul_core::wire::{RateWatch, StreamFormat};

/// Frames that are looked at one after another for one with a time.
const PROBES: u64 = 64;
/// Most headers read to measure the rate.
const MOST_MEASURED: u64 = 2_000_000;

/// The number of the first frame with a time, from unit `from` to `end`, and its unit.
pub(super) fn next_number(
    frames: &FrameReader,
    piece: &OpenPiece,
    from: u64,
    end: u64,
) -> Option<(u64, i64)> {
    let (mut head, size, mut unit) = ([0; HEAD], frames.unit as u64, from);
    for _ in 0..PROBES {
        if unit >= end {
            break;
        }
        match piece.read(unit * size, &mut head) {
            Ok(read) => {
                if let Some(number) = frames.number(&head[..read]) {
                    return Some((unit, number));
                }
                unit += 1;
            }
            // Behind what is damaged.
            Err(_) => unit = piece.begin((unit + 1) * size, end * size)?.div_ceil(size),
        }
    }
    None
}

/// The number of the last frame with a time, among the last units of a piece.
pub(super) fn last_number(frames: &FrameReader, piece: &OpenPiece) -> Option<i64> {
    let end = piece.bytes / frames.unit as u64;
    let from = end.saturating_sub(PROBES);
    let number = |unit| next_number(frames, piece, unit, unit + 1).map(|(_, number)| number);
    (from..end).filter_map(number).max()
}

/// The first unit of a piece whose frame has at least this number; of damaged ones, any may be given. `first`: the number of
/// its first frame, if that is known.
pub(super) fn unit_of(
    frames: &FrameReader,
    piece: &OpenPiece,
    number: i64,
    threads: usize,
    first: Option<i64>,
) -> u64 {
    let end = piece.bytes / frames.unit as u64;
    let Some((unit, first)) = first.map(|first| (0, first)).or_else(|| next_number(frames, piece, 0, end))
    else {
        return 0;
    };
    if number <= first {
        return unit;
    }
    let (mut low, mut high) = (0, end);
    // Where it is, if nothing is missing before it.
    let ahead = number.abs_diff(first).saturating_mul(threads as u64).saturating_add(unit);
    let mut guess = (ahead < end).then_some(ahead);
    while low < high {
        let middle = guess.take().unwrap_or(low.midpoint(high));
        match next_number(frames, piece, middle, high) {
            Some((unit, found)) if found < number => low = unit + 1,
            _ if middle > low => {
                // Most often the frame before is the last one of the previous number.
                let before = next_number(frames, piece, middle - 1, middle);
                if before.is_some_and(|(_, found)| found < number) {
                    return middle;
                }
                high = middle;
            }
            _ => high = middle,
        }
    }
    low
}

/// Frames per second, from the ends of seconds.
pub(super) fn measured_rate(pieces: &Pieces<First>, format: &StreamFormat) -> Option<u32> {
    let mut watch = RateWatch::default();
    let unit = format.unit_bytes() as u64;
    let (mut head, mut left) = ([0; HEAD], MOST_MEASURED);
    for piece in pieces.all() {
        let Ok(open) = pieces.open_unverified(piece) else { continue };
        for n in 0..open.bytes / unit.max(1) {
            left = left.checked_sub(1)?;
            let Ok(read) = open.read(n * unit, &mut head) else { break };
            let time = format.frame_time(&head[..read]);
            if let Some(rate) = time.and_then(|time| watch.observe(time)) {
                return Some(rate);
            }
        }
    }
    None
}

impl Samples {
    /// Number of the first frame of a piece.
    pub(super) fn first_of(&self, piece: usize) -> Option<i64> {
        let piece = self.pieces.all().get(piece)?;
        *piece.known.get_or_init(|| {
            if let Some((second, frame)) = piece.times.0 {
                return second.checked_mul(i64::from(self.frames_per_second))?.checked_add(i64::from(frame));
            }
            let open = self.pieces.open_unverified(piece).ok()?;
            let end = open.bytes / self.frames.unit as u64;
            next_number(&self.frames, &open, 0, end).map(|(_, number)| number)
        })
    }

    /// The pieces in which frames from `from` to before `to` may lie.
    pub(super) fn pieces_of(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        let all = self.pieces.all().len();
        // A piece without a time is like the next one that has a time.
        let first_from = |piece: usize| (piece..all).find_map(|piece| self.first_of(piece));
        let partition = |number: i64| {
            let (mut low, mut high) = (0, all);
            while low < high {
                let middle = low.midpoint(high);
                if first_from(middle).is_some_and(|first| first < number) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        // A frame may be in the last piece that begins before it, and a disordered one in its neighbours.
        let disordered = |piece: Option<usize>| {
            piece.and_then(|piece| self.pieces.all().get(piece)).is_some_and(|piece| piece.times.0.is_none())
        };
        // A set of threads may be divided among two pieces, which then begin with frames of one number.
        let begin = partition(from).saturating_sub(1);
        let end = partition(to);
        let begin = if disordered(begin.checked_sub(1)) { begin - 1 } else { begin };
        let end = if disordered(Some(end)) { (end + 1).min(all) } else { end };
        begin..end.max(begin)
    }
}
