//! A range of rows, by several workers.
//!
//! A [`RowDecoder`] turns the frames of all threads into rows.

use super::frames::{Scratch, Seen};
use super::timing::unit_of;
use super::{Samples, SamplesError};
use crate::recording::OpenPiece;
use skyhaul_core::samples::{Decoder, Tracks};
use skyhaul_io::copy;
use skyhaul_io::samples::{Target, Vectored, decode, decode_rows, place, turn};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of frames that a worker reads at once.
const BLOCK_BYTES: usize = 512 << 10;
/// Places by which frames in a file may be out of order.
const MAX_DISORDER_FRAMES: u64 = 128;
/// A worker decodes at least so many elementary samples: a fifth of a millisecond. To start its thread takes some ten microseconds,
/// and far more where the CPUs are busy.
const MIN_SAMPLES_PER_WORKER: usize = 1 << 20;

/// The frames of a range, and which of them are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The frames, as numbers from the first of the datastream on.
    pub frames: Range<u64>,
    /// For each frame, for each thread, whether its samples are valid, all of them. The others are missing; if only some
    /// channels are marked as invalid, these are.
    pub valid: Vec<bool>,
    /// Frames with valid samples in this range, those with invalid channels included.
    pub placed: u64,
}

impl Read {
    /// Whether every frame is valid.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.valid.iter().all(|&valid| valid)
    }
}

/// Which frames are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those with valid samples.
    Valid,
    /// All.
    All,
}

/// The share of a worker.
struct Share<'a, T> {
    /// Its frames, and the row of the datastream with which it begins.
    frames: Range<i64>,
    row: u64,
    out: &'a mut [T],
    valid: &'a mut [bool],
    placed: &'a AtomicU64,
}

impl Samples {
    /// Decode the rows from `row` on, as many as `out` holds. Rows before the first frame or after the last are missing.
    ///
    /// # Errors
    /// [`SamplesError::Options`]: `out` is no whole number of rows, or its type does not hold these samples;
    /// [`SamplesError::Disproved`]: frame numbers show that the rate is wrong.
    pub fn read<T: Vectored>(&self, row: u64, out: &mut [T]) -> Result<Read, SamplesError> {
        let width = self.row();
        if !out.len().is_multiple_of(width) {
            return Err(SamplesError::Options(format!("{} samples are not rows of {width}", out.len())));
        }
        let target = Target::of(size_of_val(out));
        if RowDecoder::<T>::new(self, target).is_none() {
            let bits = size_of::<T>() * 8;
            return Err(SamplesError::Options(format!("{} do not fit into {bits} bits", self.coding)));
        }
        let rows = (out.len() / width) as u64;
        let past = row.checked_add(rows).filter(|&past| i64::try_from(past).is_ok());
        let past = past.ok_or_else(|| SamplesError::Options(format!("row {row} cannot exist")))?;
        let frames = row / self.frame_rows..past.div_ceil(self.frame_rows).max(row / self.frame_rows);
        let count = (frames.end - frames.start) as usize;
        let mut valid = vec![false; count * self.threads.len()];
        let workers = self.workers_for(out.len(), count);
        let placed = AtomicU64::new(0);
        let shares = self.shares(row, &frames, workers, (out, &mut valid, &placed));
        let mut shares = shares.into_iter();
        let mine = shares.next();
        std::thread::scope(|scope| {
            for share in shares {
                scope.spawn(move || self.work(share, target));
            }
            mine.into_iter().for_each(|share| self.work(share, target));
        });
        match self.frames.disproof() {
            Some(frame) => {
                Err(SamplesError::Disproved { fps: self.frames_per_second, frame, given: self.given_rate })
            }
            None => Ok(Read { frames, valid, placed: placed.into_inner() }),
        }
    }

    /// Which frames from `frames.start` to before `frames.end` are there, without decoding them.
    #[must_use]
    pub fn validity(&self, frames: Range<u64>) -> Read {
        let threads = self.threads.len();
        let count = frames.end.saturating_sub(frames.start) as usize;
        let mut valid = vec![false; count * threads];
        let block = self.block_frames();
        let mut scratch = self.kept.take();
        let mut placed = 0;
        let first = self.extent.0.saturating_add_unsigned(frames.start);
        for (n, valid) in (0..).zip(valid.chunks_mut(block * threads)) {
            let from = first.saturating_add_unsigned(n * block as u64);
            let to = from.saturating_add_unsigned((valid.len() / threads) as u64);
            self.gather(from..to, Wanted::Valid, &mut scratch);
            placed += scratch.placed();
            for (valid, place) in valid.iter_mut().zip(&scratch.places) {
                let unit = place.and_then(|place| scratch.units.get(place..));
                *valid = unit.is_some_and(|unit| self.is_whole(unit));
            }
        }
        self.kept.put(scratch);
        Read { frames, valid, placed }
    }

    /// Whether every channel of a frame is valid.
    pub(super) fn is_whole(&self, unit: &[u8]) -> bool {
        self.frames.invalid_channels(unit, self.channels).next().is_none()
    }

    /// Replace the samples of invalid channels of a frame by missing ones; whether there are none.
    fn drop_invalid<T: Vectored>(&self, unit: &[u8], rank: usize, rows: &mut [T]) -> bool {
        let (width, each) = (self.row(), self.each());
        let components = each / self.channels as usize;
        let mut whole = true;
        for channel in self.frames.invalid_channels(unit, self.channels) {
            whole = false;
            let at = rank * each + channel as usize * components;
            rows.chunks_exact_mut(width).for_each(|row| row[at..at + components].fill(T::MISSING));
        }
        whole
    }

    pub(super) fn workers_for(&self, samples: usize, frames: usize) -> usize {
        self.workers.min(samples / MIN_SAMPLES_PER_WORKER).min(frames).max(1)
    }

    /// Divide a range among workers, at frames.
    fn shares<'a, T>(
        &self,
        row: u64,
        frames: &Range<u64>,
        workers: usize,
        (mut out, mut valid, placed): (&'a mut [T], &'a mut [bool], &'a AtomicU64),
    ) -> Vec<Share<'a, T>> {
        let (width, count) = (self.row(), frames.end - frames.start);
        let past = row + (out.len() / width) as u64;
        let mut shares = Vec::with_capacity(workers);
        let mut from = frames.start;
        for worker in 1..=workers as u64 {
            let to = frames.start + count * worker / workers as u64;
            let begin = row.max(from * self.frame_rows);
            let end = past.min(to * self.frame_rows);
            let mine = out.split_off_mut(..end.saturating_sub(begin) as usize * width).unwrap_or_default();
            let my_valid =
                valid.split_off_mut(..(to - from) as usize * self.threads.len()).unwrap_or_default();
            let number = |frame: u64| self.extent.0.saturating_add_unsigned(frame);
            let frames = number(from)..number(to);
            shares.push(Share { frames, row: begin, out: mine, valid: my_valid, placed });
            from = to;
        }
        shares
    }

    pub(super) fn block_frames(&self) -> usize {
        (BLOCK_BYTES / (self.frames.unit * self.threads.len())).max(1)
    }

    /// Decode the rows of a share.
    fn work<T: Vectored>(&self, share: Share<'_, T>, target: Target) {
        let Some(mut decoder) = RowDecoder::<T>::new(self, target) else { return };
        let Share { frames, mut row, mut out, mut valid, placed } = share;
        let (threads, width, block) = (self.threads.len(), self.row(), self.block_frames());
        let mut scratch = self.kept.take();
        let mut from = frames.start;
        while from < frames.end {
            let to = from.saturating_add_unsigned(block as u64).min(frames.end);
            self.gather(from..to, Wanted::Valid, &mut scratch);
            placed.fetch_add(scratch.placed(), Ordering::Relaxed);
            let mut payloads = Vec::with_capacity(threads);
            for places in scratch.places.chunks_exact(threads) {
                payloads.clear();
                payloads.extend(places.iter().map(|place| {
                    let unit = scratch.units.get((*place)?..)?.get(..self.frames.unit)?;
                    Some(self.frames.payload(unit))
                }));
                let skip = row % self.frame_rows;
                let rows = (self.frame_rows - skip) as usize;
                let length = (rows * width).min(out.len());
                let rows_out = out.split_off_mut(..length).unwrap_or_default();
                decoder.rows(&payloads, self.frame_rows as usize, skip as usize, rows_out);
                row += (length / width) as u64;
                let frame_valid = valid.split_off_mut(..threads).unwrap_or_default();
                for (rank, (valid, place)) in frame_valid.iter_mut().zip(places).enumerate() {
                    let unit = place.and_then(|place| scratch.units.get(place..));
                    *valid = unit.is_some_and(|unit| self.drop_invalid(unit, rank, rows_out));
                }
            }
            from = to;
        }
        self.kept.put(scratch);
    }

    /// Read the frames of a range of numbers, and find the place of each.
    pub(super) fn gather(&self, frames: Range<i64>, wanted: Wanted, scratch: &mut Scratch) {
        let count = frames.end.abs_diff(frames.start) as usize;
        scratch.places.clear();
        scratch.places.resize(count * self.threads.len(), None);
        (scratch.used, scratch.missing) = (0, scratch.places.len());
        for number in self.pieces_of(frames.start, frames.end) {
            let piece = &self.pieces.all()[number];
            if !self.ordered && !self.may_hold(number, &frames) {
                continue;
            }
            if scratch.open.as_ref().is_none_or(|(open, _)| *open != number) {
                scratch.open = self.pieces.open(piece, self.verify).map(|open| (number, open));
            }
            let Some((_, open)) = scratch.open.take() else { continue };
            let first = self.first_of(number);
            let unit_of = |wanted| {
                first.map_or(0, |first| unit_of(&self.frames, &open, wanted, self.format.group(), first))
            };
            let (from, to) = (unit_of(frames.start), unit_of(frames.end));
            let unit = self.frames.unit as u64;
            // What is damaged does not count as read.
            let from = open.begin(from * unit, to * unit).map_or(from, |byte| byte.div_ceil(unit));
            // Data that claim one time too often are not read for ever.
            let most = 4 * (count * self.format.group().max(self.threads.len())) as u64;
            self.look_at(&open, from..to.min(from.saturating_add(most)), &frames, wanted, scratch);
            // What is not where it belongs may be near, where no recorder has put frames in order.
            if scratch.missing > 0 && piece.times.0.is_none() {
                let all = open.bytes / self.frames.unit as u64;
                self.look_at(&open, from.saturating_sub(MAX_DISORDER_FRAMES)..from, &frames, wanted, scratch);
                self.look_at(
                    &open,
                    to..to.saturating_add(MAX_DISORDER_FRAMES).min(all),
                    &frames,
                    wanted,
                    scratch,
                );
            }
            scratch.open = Some((number, open));
        }
    }

    /// Read these units of a piece, those in damaged parts excepted.
    fn look_at(
        &self,
        open: &OpenPiece,
        units: Range<u64>,
        frames: &Range<i64>,
        wanted: Wanted,
        scratch: &mut Scratch,
    ) {
        let unit = self.frames.unit as u64;
        let mut at = units.start.saturating_mul(unit);
        while let Some(run) = open.run(at..units.end.saturating_mul(unit)) {
            self.look_at_run(open, run.start.div_ceil(unit)..run.end / unit, frames, wanted, scratch);
            at = run.end;
        }
    }

    /// Read these units of a piece, and find the place of those in the range of numbers.
    fn look_at_run(
        &self,
        open: &OpenPiece,
        units: Range<u64>,
        frames: &Range<i64>,
        wanted: Wanted,
        scratch: &mut Scratch,
    ) {
        let (unit, threads, used) = (self.frames.unit, self.threads.len(), scratch.used);
        let length = units.end.saturating_sub(units.start) as usize * unit;
        scratch.units.resize((used + length).max(scratch.units.len()), 0);
        let Ok(read) = open.read(units.start * unit as u64, &mut scratch.units[used..used + length]) else {
            return;
        };
        let mut before = None;
        for (n, octets) in scratch.units[used..used + read].chunks_exact(unit).enumerate() {
            let Some(Seen { number, rank, valid }) = self.frames.see(octets) else {
                if let Some(time) = self.frames.beyond(octets)
                    && let Some(before) = before.replace(time)
                {
                    self.frames.disprove(before, time);
                }
                continue;
            };
            if !frames.contains(&number) || (wanted == Wanted::Valid && !valid) {
                continue;
            }
            let place = &mut scratch.places[number.abs_diff(frames.start) as usize * threads + rank];
            // Of duplicates, the first counts.
            if place.is_none() {
                *place = Some(used + n * unit);
                scratch.missing -= 1;
                self.frames.count_used(rank);
            }
        }
        scratch.used += read / unit * unit;
    }
}

/// Bytes of columns that are turned at once: they stay in the fastest cache.
const COLUMN_BYTES: usize = 16 << 10;

/// Decodes frames into rows.
pub(super) struct RowDecoder<'a, T> {
    decoder: Decoder<T>,
    threads: usize,
    /// Elementary samples of a thread in a row, and as they are written.
    each: usize,
    written: usize,
    /// Bits of a thread in a row, as they are written.
    row_bits: usize,
    tracks: Option<&'a Tracks>,
    target: Target,
    columns: Vec<T>,
    /// Rows on their way past the cache.
    rows: Vec<T>,
    picked: Vec<u8>,
    /// Rows of a frame of which only some are wanted.
    whole: Vec<T>,
}

impl<'a, T: Vectored> RowDecoder<'a, T> {
    /// `None`: `T` does not hold these samples.
    pub(super) fn new(samples: &'a Samples, target: Target) -> Option<Self> {
        let tracks = samples.tracks.as_ref();
        let bits = samples.coding.bits();
        Some(Self {
            decoder: Decoder::new(samples.coding)?,
            threads: samples.threads.len(),
            each: samples.each(),
            written: tracks.map_or(samples.each(), |tracks| (tracks.picked().max(bits) / bits) as usize),
            row_bits: tracks.map_or(samples.each() * bits as usize, |tracks| tracks.recorded() as usize),
            tracks,
            target,
            columns: Vec::new(),
            rows: Vec::new(),
            picked: Vec::new(),
            whole: Vec::new(),
        })
    }

    /// Decode some rows of a frame: from row `skip` on, as many as `out` holds. `payloads` are those of all threads.
    pub(super) fn rows(&mut self, payloads: &[Option<&[u8]>], frame_rows: usize, skip: usize, out: &mut [T]) {
        if payloads.iter().all(Option::is_none) {
            return out.fill(T::MISSING);
        }
        // Eight rows are whole bytes.
        let row = self.threads * self.each;
        let rows = out.len() / row;
        let (begin, end) = (skip / 8 * 8, (skip + rows).next_multiple_of(8).min(frame_rows));
        let part = begin * self.row_bits / 8..end * self.row_bits / 8;
        let payloads: Vec<Option<&[u8]>> =
            payloads.iter().map(|payload| payload.and_then(|payload| payload.get(part.clone()))).collect();
        if end - begin == rows {
            return self.frame(&payloads, out);
        }
        let mut whole = std::mem::take(&mut self.whole);
        whole.resize((end - begin) * row, T::MISSING);
        self.frame(&payloads, &mut whole);
        out.copy_from_slice(&whole[(skip - begin) * row..][..out.len()]);
        self.whole = whole;
    }

    /// Decode whole payloads.
    fn frame(&mut self, payloads: &[Option<&[u8]>], out: &mut [T]) {
        if let (Some(tracks), [Some(payload)]) = (self.tracks, payloads) {
            let mut picked = std::mem::take(&mut self.picked);
            tracks.pick(payload, &mut picked);
            self.padded(&picked, out);
            self.picked = picked;
        } else if let [Some(payload)] = payloads {
            decode(&self.decoder, payload, out, self.target);
        } else {
            self.turned(payloads, out);
        }
    }

    /// Rows of one thread with unused samples at their end.
    fn padded(&mut self, octets: &[u8], out: &mut [T]) {
        if self.written == self.each {
            return decode(&self.decoder, octets, out, self.target);
        }
        let rows = self.block(self.written);
        let octets_of = self.decoder.coding().octets_of(rows * self.written);
        for (octets, out) in octets.chunks(octets_of).zip(out.chunks_mut(rows * self.each)) {
            self.columns.resize(self.decoder.coding().samples_in(octets.len()), T::MISSING);
            decode(&self.decoder, octets, &mut self.columns, Target::Warm);
            for (row, written) in out.chunks_exact_mut(self.each).zip(self.columns.chunks_exact(self.written))
            {
                row.copy_from_slice(&written[..self.each]);
            }
        }
    }

    /// Rows of several threads.
    fn turned(&mut self, payloads: &[Option<&[u8]>], out: &mut [T]) {
        let row = self.each * self.threads;
        // Where a register fits, this is all.
        let done = decode_rows(&self.decoder, payloads, self.each, out, self.target);
        let rows = self.block(row);
        let mut parts = Vec::with_capacity(self.threads);
        let mut warm = std::mem::take(&mut self.rows);
        for (block, out) in out[done * row..].chunks_mut(rows * row).enumerate() {
            let from = self.octets(done + block * rows);
            let part = from..from + self.octets(out.len() / row);
            parts.clear();
            parts
                .extend(payloads.iter().map(|payload| payload.and_then(|payload| payload.get(part.clone()))));
            if self.target == Target::Warm {
                self.block_of_rows(&parts, out);
            } else {
                warm.resize(out.len(), T::MISSING);
                self.block_of_rows(&parts, &mut warm);
                place(out, &warm);
            }
        }
        self.rows = warm;
        copy::fence();
    }

    /// Some rows of several threads, to memory in the cache.
    fn block_of_rows(&mut self, payloads: &[Option<&[u8]>], out: &mut [T]) {
        let row = self.each * self.threads;
        let done = decode_rows(&self.decoder, payloads, self.each, out, Target::Warm);
        let (from, out) = (self.octets(done), &mut out[done * row..]);
        if out.is_empty() {
            return;
        }
        self.columns.resize(out.len(), T::MISSING);
        for (payload, column) in payloads.iter().zip(self.columns.chunks_exact_mut(out.len() / self.threads))
        {
            match payload {
                Some(octets) => decode(&self.decoder, &octets[from..], column, Target::Warm),
                None => column.fill(T::MISSING),
            }
        }
        turn(&self.columns, self.threads, self.each, out);
    }

    /// Bytes of a thread's part of so many rows.
    fn octets(&self, rows: usize) -> usize {
        self.decoder.coding().octets_of(rows * self.each)
    }

    /// Rows of so many elementary samples that are decoded at once: whole bytes of each thread.
    fn block(&self, row: usize) -> usize {
        (COLUMN_BYTES / size_of::<T>() / row).next_multiple_of(8)
    }
}
