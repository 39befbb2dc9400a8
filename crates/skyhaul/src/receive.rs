//! Receiving: packets of any number of senders into blocks of a fixed pool.
//!
//! ```text
//!   Source ─ train ─▶ Engine ─▶ Stream (one per sender)
//!                       │         ├ learning: holds the first packets until the format is clear
//!                       │         ├ running:  Layout ▶ Assembly ▶ non-temporal copy into the slot
//!                       │         └ rejected: unknown format; counted
//!                       ├──▶ Mirror   runs of frames, as they arrive, to other hosts
//!                       └──▶ Sink     finished parts of a stream, in stream order
//! ```
//!
//! One engine per receiving thread; senders stay with their socket, so engines share only the pool.

mod admission;
mod engine;
mod engine_reader;
mod filter;
mod joining;
pub mod keyed;
pub(crate) mod objects;
mod placing;
pub(crate) mod reader;
mod receiver;
mod strangers;
mod stream;
mod tables;
mod tcp;
mod watch;

pub use engine::{Engine, EngineOptions};
pub use filter::{Allow, DataTime, Gate, NoOrigin, Origin};
pub use objects::{Loaded, ObjectCounts, ObjectLoad, ObjectOptions, ObjectSink, Received, Storable};
pub use receiver::{LoadOfReceiver, Receiver, ReceiverOptions, Running};
pub(crate) use watch::moved;

use crate::frames::FramesOf;
use crate::irregular::IrregularSummary;
use skyhaul_core::assembly::Cause;
use skyhaul_core::measure::{Histogram, SequenceMeter};
use skyhaul_core::placement::{Geometry, Grain, Nanos, Reject, Rejects};
use skyhaul_core::wire::{FrameTime, Irregular, StreamFormat};
use skyhaul_io::memory::Block;
use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, channel};
use std::thread::JoinHandle;

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
    fn unit_of(geometry: Geometry) -> u32 {
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
    /// Data time less the host's clock, in nanoseconds: last, least, largest.
    pub offset: Option<(i128, i128, i128)>,
}

impl From<Watched> for IrregularSummary {
    fn from(watched: Watched) -> IrregularSummary {
        let seconds = |nanos: i128| nanos as f64 / 1e9;
        IrregularSummary {
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
    fn snapshot(&mut self, whole: bool) -> Self {
        let map = std::mem::take(&mut self.loss_map);
        let mut copy = self.clone();
        self.loss_map = map;
        if whole {
            copy.loss_map.clone_from(&self.loss_map);
        }
        copy
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
    fn rejected(&self, reason: Reject) -> u64 {
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
        self.rejects.merge(&report.rejects);
    }
}

/// Maximum number of replaced streams listed individually.
const MAX_LISTED_STREAMS: usize = 256;

/// Accounts of replaced streams; if there are very many, those of the richest.
#[derive(Debug, Default)]
struct Past {
    streams: Vec<(Arc<StreamInfo>, StreamReport)>,
    others: Others,
}

impl Past {
    /// Keep one more. Returns how many ranges of loss maps were dropped for it.
    fn keep(&mut self, info: Arc<StreamInfo>, report: StreamReport) -> u32 {
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

/// Results of a [`Collector`].
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Bytes written.
    pub bytes: u64,
    /// Frames that were checked.
    pub checked: u64,
    /// Frames that were invalid, or whose payload was not the pattern.
    pub wrong: u64,
    /// The error that ended the writing, if any.
    pub error: Option<String>,
    /// The reader of the output closed it, which is not an error.
    pub enough: bool,
}

/// Takes parts from the receiving threads and writes or checks them on a separate thread.
///
/// Queued parts stay in blocks of the pool: if it is too slow, the pool runs empty and the receiver counts packets
/// without a buffer. Gaps are not written.
#[derive(Debug)]
pub struct Collector {
    parts: Option<Sender<(Arc<StreamInfo>, StreamPart)>>,
    thread: JoinHandle<Collected>,
    wrong: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
}

impl Collector {
    /// Write to `output`, if there is one; check the pattern if `verify`.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(output: Option<Box<dyn Write + Send>>, verify: bool) -> io::Result<Self> {
        let (parts, queue) = channel();
        let wrong = Arc::new(AtomicU64::new(0));
        let closed = Arc::new(AtomicBool::new(false));
        let (count, close) = (wrong.clone(), closed.clone());
        let thread = std::thread::Builder::new().name("collect".into()).spawn(move || {
            Work { output, verify, readers: HashMap::new(), wrong: count, closed: close }.run(&queue)
        })?;
        Ok(Self { parts: Some(parts), thread, wrong, closed })
    }

    /// A sink for a receiving thread.
    #[must_use]
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(CollectSink { parts: self.parts.clone() })
    }

    /// Wrong frames so far.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Whether nothing more can be written.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Wait until everything is written and checked. The receiver must have ended.
    #[must_use]
    pub fn finish(mut self) -> Collected {
        self.parts = None;
        self.thread
            .join()
            .unwrap_or_else(|_| Collected { error: Some("the writer ended".into()), ..Collected::default() })
    }
}

struct CollectSink {
    parts: Option<Sender<(Arc<StreamInfo>, StreamPart)>>,
}

impl Sink for CollectSink {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}

    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        if let Some(parts) = &self.parts {
            // The collector outlives its sinks; otherwise the block would return to the pool.
            let _ = parts.send((stream.clone(), part));
        }
    }

    fn finished(&mut self) {
        self.parts = None;
    }
}

struct Work {
    output: Option<Box<dyn Write + Send>>,
    verify: bool,
    readers: HashMap<u32, Option<FramesOf>>,
    wrong: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self, queue: &mpsc::Receiver<(Arc<StreamInfo>, StreamPart)>) -> Collected {
        let mut done = Collected::default();
        while let Ok((stream, part)) = queue.recv() {
            if self.verify {
                self.check(&stream, &part, &mut done);
            }
            if let Some(output) = &mut self.output
                && let Err(e) = write(output, &stream, &part, &mut done)
            {
                self.give_up(&e, &mut done);
            }
        }
        if let Some(output) = &mut self.output
            && let Err(e) = output.flush()
        {
            self.give_up(&e, &mut done);
        }
        done
    }

    fn give_up(&mut self, error: &io::Error, done: &mut Collected) {
        self.output = None;
        self.closed.store(true, Ordering::Relaxed);
        match error.kind() {
            io::ErrorKind::BrokenPipe => done.enough = true,
            _ => done.error = Some(error.to_string()),
        }
    }

    fn check(&mut self, stream: &Arc<StreamInfo>, part: &StreamPart, done: &mut Collected) {
        let reader = self.readers.entry(stream.id).or_insert_with(|| FramesOf::stream(&stream.format, true));
        let Some(reader) = reader else { return };
        for bytes in present(stream, part) {
            for frame in bytes.chunks(stream.unit_bytes.max(1) as usize) {
                done.checked += 1;
                if reader.see(frame).illegal.is_some() {
                    done.wrong += 1;
                    self.wrong.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// The runs of a part that arrived.
fn present<'a>(stream: &StreamInfo, part: &'a StreamPart) -> impl Iterator<Item = &'a [u8]> {
    let unit = stream.unit_bytes as usize;
    let bytes = &part.block[part.range.clone()];
    let starts = std::iter::once(0).chain(part.missing.iter().map(move |m| m.end as usize * unit));
    let ends = part.missing.iter().map(move |m| m.start as usize * unit).chain(std::iter::once(bytes.len()));
    starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| &bytes[start..end])
}

fn write(
    output: &mut dyn Write,
    stream: &StreamInfo,
    part: &StreamPart,
    done: &mut Collected,
) -> io::Result<()> {
    for bytes in present(stream, part) {
        output.write_all(bytes)?;
        done.bytes += bytes.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

/// Consumer of finished parts. Called on the receiving thread: must not block.
pub trait Sink: Send {
    /// A stream's format is known; its parts follow.
    fn stream_began(&mut self, stream: &std::sync::Arc<StreamInfo>);
    /// Nothing more will be added to this part of `stream`.
    fn part(&mut self, stream: &std::sync::Arc<StreamInfo>, part: StreamPart);
    /// `stream` has ended: it was replaced by another sender.
    fn stream_ended(&mut self, _: &std::sync::Arc<StreamInfo>) {}
    /// The program did not run for this long.
    fn paused(&mut self, _: std::time::Duration) {}
    /// Something an operator should know of a stream. Returns whether it keeps the event: else the receiver does.
    fn event(&mut self, _: &crate::recording::Event) -> bool {
        false
    }
    /// The receiver has stopped; no more calls follow.
    fn finished(&mut self) {}
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn stream_began(&mut self, stream: &std::sync::Arc<StreamInfo>) {
        (**self).stream_began(stream);
    }
    fn part(&mut self, stream: &std::sync::Arc<StreamInfo>, part: StreamPart) {
        (**self).part(stream, part);
    }
    fn stream_ended(&mut self, stream: &std::sync::Arc<StreamInfo>) {
        (**self).stream_ended(stream);
    }
    fn paused(&mut self, time: std::time::Duration) {
        (**self).paused(time);
    }
    fn event(&mut self, event: &crate::recording::Event) -> bool {
        (**self).event(event)
    }
    fn finished(&mut self) {
        (**self).finished();
    }
}

/// A sink that discards everything and returns blocks immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn stream_began(&mut self, _: &std::sync::Arc<StreamInfo>) {}
    fn part(&mut self, _: &std::sync::Arc<StreamInfo>, _: StreamPart) {}
}
