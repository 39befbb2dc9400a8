//! Cuts the bytes of a file into frames, and fills chunks with them.
//!
//! ```text
//!   file       A0 A1 A2 A5 A6 │ A9 …        A3, A4 are missing, and A7, A8 after the chunk is full
//!   chunk      A0 A1 A2 A5 A6                missing [3, 5), left out (packed); the next chunk has a gap of 2
//! ```
//!
//! The position of a frame follows from its time ([`Placer`]); one whose time jumps waits for those behind it. Where frames of a chunk are out of order, their times say nothing of what is
//! missing: such a chunk counts what it has, and a check of the recording reports the times.

use crate::frames::FramesOf;
use crate::recording::index::record::{ChunkMeta, Datastream, DatastreamInfo};
use crate::recording::intake::error::IntakeError;
use crate::recording::report::DiskState;
use crate::recording::write::Writer;
use crate::recording::write::options::{Chunk, DatastreamId};
use skyhaul_core::wire::{ClockFinder, MAX_AHEAD, Placer, Stamps};
use skyhaul_io::disk::DiskTurn;
use skyhaul_io::memory::{Block, Pool};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a disk may take to write a chunk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of frames that wait for those behind them; of larger frames, fewer wait.
const MAX_AHEAD_BYTES: usize = 16 << 20;
const WRITE_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// A chunk that is being filled.
#[derive(Debug)]
struct Open {
    block: Block,
    used: usize,
    /// Frames in it.
    frames: u32,
    /// The same with those that are missing between them.
    units: u32,
    /// Units that are missing.
    holes: Vec<Range<u32>>,
    /// Frames that are marked as invalid.
    fill: Vec<Range<u32>>,
    is_disordered: bool,
    /// Frames that are missing before it.
    gap: u64,
    epoch: u64,
    first_time: Option<(i64, u32)>,
    last_time: Option<(i64, u32)>,
}

impl Open {
    fn add(&mut self, frame: &[u8], is_fill: bool, time: Option<(i64, u32)>) {
        self.block.place(self.used, frame);
        self.used += frame.len();
        if is_fill {
            extend(&mut self.fill, self.frames, 1);
        }
        if self.frames == 0 {
            self.first_time = time;
        }
        self.last_time = time;
        self.frames += 1;
        self.units += 1;
    }

    fn meta(&self, number: u32) -> ChunkMeta {
        let packed = !self.holes.is_empty() && !self.is_disordered;
        ChunkMeta {
            object: u64::from(number),
            epoch: self.epoch,
            units: if packed { self.units } else { self.frames },
            // A frame that is in a chunk from which others were left out is there.
            missing: if packed { self.holes.clone() } else { self.fill.clone() },
            gap: (!self.is_disordered).then_some(self.gap),
            packed,
            first_time: self.first_time,
            last_time: self.last_time,
            ..ChunkMeta::default()
        }
    }
}

/// Adds `count` numbers from `at` to ranges that end there or before.
fn extend(ranges: &mut Vec<Range<u32>>, at: u32, count: u32) {
    match ranges.last_mut() {
        Some(last) if last.end == at => last.end += count,
        _ => ranges.push(at..at + count),
    }
}

/// The frames of a file on their way into chunks.
pub(super) struct Cutting {
    writer: Writer,
    pool: Pool,
    datastream: DatastreamId,
    info: DatastreamInfo,
    reader: FramesOf,
    unit: usize,
    /// Bytes of a whole chunk.
    most: usize,
    /// The rate, from all frames.
    rate: ClockFinder,
    /// `None`: times say nothing of positions.
    placer: Option<Placer>,
    /// The position behind the last frame.
    end: Option<i64>,
    epoch: u64,
    /// Bytes of frames that wait for those behind them, and of the beginning of one; and how many frames the placer has of them.
    rest: Vec<u8>,
    waiting: usize,
    frames: u64,
    open: Option<Open>,
    /// Number of the next chunk.
    next: u32,
    /// A file on the same disk, to wait for its turn there.
    directory: Arc<File>,
}

impl std::fmt::Debug for Cutting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cutting")
            .field("frames", &self.frames)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Cutting {
    /// For frames as `info` says; `head` are the first bytes.
    pub(super) fn new(
        writer: Writer,
        pool: Pool,
        info: &DatastreamInfo,
        (directory, head): (Arc<File>, &[u8]),
    ) -> Result<Self, IntakeError> {
        let unit = info.unit_bytes as usize;
        let set = unit * info.lanes.max(1) as usize;
        // Whole sets of the frames with one time, if one fits.
        let each = if set <= pool.block_bytes() { set } else { unit };
        let most = pool.block_bytes() / each * each;
        let info = DatastreamInfo { units: (most / unit) as u32, ..info.clone() };
        let about = Datastream { datastream: 0, name: writer.scan().to_owned(), info: info.clone() };
        let unreadable = || IntakeError::NotFrames("the headers of its frames have no times".to_owned());
        let reader = FramesOf::datastream(&about, false).ok_or_else(unreadable)?;
        let stamps =
            crate::frames::family(&about).and_then(|family| family.stamps()).ok_or_else(unreadable)?;
        let near = info.format.get("near").and_then(serde_json::Value::as_i64).unwrap_or_default();
        let datastream = writer.add_datastream(&info);
        Ok(Self {
            placer: placer(stamps, near, head.chunks_exact(unit))
                .map(|placer| placer.with_ahead((MAX_AHEAD_BYTES / unit.max(1)).min(MAX_AHEAD))),
            rate: ClockFinder::new(stamps, near),
            writer,
            pool,
            datastream,
            info,
            reader,
            unit,
            most,
            end: None,
            epoch: 0,
            rest: Vec::new(),
            waiting: 0,
            frames: 0,
            open: None,
            next: 0,
            directory,
        })
    }

    /// The next bytes of the file.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), IntakeError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let done = self.place(&rest)?;
        rest.drain(..done);
        self.rest = rest;
        Ok(())
    }

    /// Takes the frames whose positions are known. Returns their bytes.
    fn place(&mut self, rest: &[u8]) -> Result<usize, IntakeError> {
        let unit = self.unit;
        for (n, frame) in rest.chunks_exact(unit).enumerate().skip(self.waiting) {
            self.waiting += 1;
            if let Some(placer) = &mut self.placer {
                placer.add(frame);
            }
            let first = n + 1 - self.waiting;
            self.take(&rest[first * unit..])?;
        }
        Ok((rest.len() / unit - self.waiting) * unit)
    }

    /// Takes those of the frames that wait, the first ones of `rest`, whose positions are known.
    fn take(&mut self, rest: &[u8]) -> Result<(), IntakeError> {
        let mut frames = rest.chunks_exact(self.unit);
        while self.waiting > 0 {
            let returns = self.placer.as_ref().map_or(0, Placer::returns);
            let at = match &mut self.placer {
                None => self.end.unwrap_or(0),
                Some(placer) => match placer.poll() {
                    Some(at) => at,
                    None => break,
                },
            };
            let is_return = self.placer.as_ref().is_some_and(|placer| placer.returns() > returns);
            self.waiting -= 1;
            frames.next().map_or(Ok(()), |frame| self.frame(frame, at, is_return))?;
        }
        Ok(())
    }

    /// That was all: gives the last chunk to the disk.
    pub(super) fn finish(mut self) -> Result<Writer, IntakeError> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.len().is_multiple_of(self.unit) {
            let (there, unit) = (rest.len() % self.unit, self.unit);
            let text = format!("it ends within a frame: after {there} of {unit} bytes");
            return Err(IntakeError::NotFrames(text));
        }
        self.placer.iter_mut().for_each(Placer::finish);
        self.take(&rest)?;
        self.seal()?;
        if self.info.frames_per_second.is_none()
            && let Ok(clock) = self.rate.conclude(None, &[])
            && clock.fps().is_some()
        {
            let info = DatastreamInfo { frames_per_second: clock.fps(), ..self.info };
            self.writer.update_datastream(self.datastream, &info);
        }
        Ok(self.writer)
    }

    /// The next frame, at this position.
    fn frame(&mut self, frame: &[u8], at: i64, is_return: bool) -> Result<(), IntakeError> {
        let seen = self.reader.see(frame);
        if let Some(why) = seen.illegal {
            let (number, at) = (self.frames, self.frames * self.unit as u64);
            return Err(IntakeError::NotFrames(format!("frame {number}, at byte {at}, is invalid: {why}")));
        }
        self.rate.frame(frame);
        let behind = self.end.unwrap_or(0);
        let skipped = if is_return || self.end.is_none() { 0 } else { at.saturating_sub(behind) };
        let (missing, is_late) = (u64::try_from(skipped).unwrap_or(0), skipped < 0);
        let most_units = (self.most / self.unit) as u64;
        let ends = |open: &Open| is_return || u64::from(open.units).saturating_add(missing) >= most_units;
        if self.open.as_ref().is_some_and(ends) {
            self.seal()?;
        }
        if is_return {
            self.epoch += 1;
            // As a recorder says it of a sender.
            self.writer
                .note("restart", &format!("the times of the file return at its frame {}", self.frames));
        }
        let mut open = match self.open.take() {
            Some(mut open) => {
                // No more than the limit above.
                let missing = u32::try_from(missing).unwrap_or(0);
                if missing > 0 {
                    extend(&mut open.holes, open.units, missing);
                    open.units += missing;
                }
                open
            }
            None => self.begin(missing)?,
        };
        open.is_disordered |= is_late || self.placer.as_ref().is_some_and(|placer| !placer.is_in_order());
        open.add(frame, seen.filled, seen.time);
        self.open = Some(open);
        self.frames += 1;
        self.end = Some(if is_return { at + 1 } else { self.end.map_or(at + 1, |end| end.max(at + 1)) });
        Ok(())
    }

    fn begin(&mut self, gap: u64) -> Result<Open, IntakeError> {
        let block = self.wait(|pool| pool.take())?;
        Ok(Open {
            block,
            used: 0,
            frames: 0,
            units: 0,
            holes: Vec::new(),
            fill: Vec::new(),
            is_disordered: false,
            gap,
            epoch: self.epoch,
            first_time: None,
            last_time: None,
        })
    }

    /// Gives the open chunk to the disk, when it is its turn there.
    fn seal(&mut self) -> Result<(), IntakeError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let mut turn = DiskTurn::ask(&self.directory, open.used as u64)?;
        turn.wait();
        skyhaul_io::copy::fence();
        let (number, meta) = (self.next, open.meta(self.next));
        self.next += 1;
        let (datastream, range) = (self.datastream, 0..open.used);
        let chunk = Chunk { datastream, number, block: open.block, range, meta, finish: None };
        if self.writer.submit(chunk).is_err() || self.writer.lost_bytes() > 0 {
            return Err(self.disk_error());
        }
        if turn.is_shared() {
            // What is recorded comes first: no more than this chunk is written in this turn.
            self.wait(|pool| (pool.free() == pool.blocks()).then_some(()))?;
        }
        Ok(())
    }

    /// What `ready` gives, when the disk has written enough for it.
    fn wait<T>(&self, ready: impl Fn(&Pool) -> Option<T>) -> Result<T, IntakeError> {
        let begun = Instant::now();
        loop {
            if let Some(ready) = ready(&self.pool) {
                return Ok(ready);
            }
            if self.writer.lost_bytes() > 0 {
                return Err(self.disk_error());
            }
            if begun.elapsed() >= WRITE_TIMEOUT {
                let text = "Connection timed out: the disk does not respond";
                return Err(IntakeError::Disk(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            std::thread::sleep(WRITE_LOOK_INTERVAL);
        }
    }

    /// Why the disk does not take a chunk.
    fn disk_error(&self) -> IntakeError {
        let status = self.writer.status().into_iter().next().unwrap_or_default();
        IntakeError::Disk(match status.state {
            DiskState::Full => io::ErrorKind::StorageFull.into(),
            _ => io::Error::other(status.error.unwrap_or_else(|| "the disk failed".to_owned())),
        })
    }
}

/// Places frames by the threads and the rate of the first ones.
fn placer<'a>(
    stamps: &'static dyn Stamps,
    near: i64,
    frames: impl Iterator<Item = &'a [u8]>,
) -> Option<Placer> {
    let frames: Vec<&[u8]> = frames.collect();
    let mut finder = ClockFinder::new(stamps, near);
    frames.iter().for_each(|frame| finder.frame(frame));
    // One thread after another: the times of one say nothing of those of the next.
    finder.conclude(None, &frames).ok().map(Placer::new).filter(Placer::is_in_order)
}
