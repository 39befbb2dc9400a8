//! Recording: a receiver whose finished parts become chunk files.
//!
//! ```text
//!   Receiver ── Part ──▶ RecordSink ── Chunk ──▶ Writer ──▶ disks
//!                          numbers chunks in stream order, fills gaps
//! ```
//!
//! [`Recorder::open`] prepares everything, so that mistakes show early: it checks names and disks, binds sockets, and
//! makes directories and indexes. It takes a fraction of a second for any amount of memory: the first blocks are ready,
//! and the others follow while the recording runs ([`Pool::prepared`]). So the first packet after [`Recorder::start`] is
//! recorded.
//!
//! Frames that did not arrive are filled where they would lie in a chunk, or left out of it; each is counted once.

mod gaps;
mod objects;

use gaps::{LostFrames, fill, filler, pack};
pub use objects::ObjectRecorder;

use crate::ledger::{FrameLedger, differs};
use crate::quality::{Quality, QualityOptions, QualityReport, QualityTap, QualityView};
use crate::receive::{Receiver, ReceiverOptions, Running, Sink, StreamInfo, StreamPart, moved};
use crate::recording::{
    Chunk, ChunkMeta, DatastreamId, DatastreamInfo, DiskStatus, Event, Fill, RecordingReport, Refusal,
    SpaceReport, Verdict, Writer, WriterError, WriterOptions,
};
use crate::report::ReceiveReport;
use serde::{Deserialize, Serialize};
use skyhaul_core::wire::{FamilyRef, Filler, FrameTime, Objects, Place};
use skyhaul_io::memory::{Pool, PoolOptions};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Options of a recorder.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The receiver.
    pub receiver: ReceiverOptions,
    /// Disks and scan.
    pub writer: WriterOptions,
    /// Memory for packets.
    pub pool: PoolOptions,
    /// Fill gaps in chunks with frames marked invalid. Otherwise nothing is written for frames that did not arrive.
    pub fill: bool,
    /// Look at some frames of each stream while they are recorded; `None`: do not.
    pub quality: Option<QualityOptions>,
}

/// Why a recorder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// A disk or the scan's name.
    #[error(transparent)]
    Writer(#[from] WriterError),
    /// A socket, or the memory.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Everything is open; nothing runs yet.
#[derive(Debug)]
pub struct Recorder {
    receiver: Receiver,
    writer: Arc<Writer>,
    pool: Pool,
    fill: bool,
    flush: Duration,
    quality: Option<QualityOptions>,
    /// The family whose objects are recorded.
    family: Option<FamilyRef>,
}

/// A running recorder.
#[derive(Debug)]
pub struct RunningRecorder {
    running: Running,
    writer: Arc<Writer>,
    pool: Pool,
    heaps_lost: Arc<AtomicU64>,
    lost: Arc<LostFrames>,
    quality: Option<Quality>,
}

impl Recorder {
    /// Prepare everything: memory, disks, sockets, targets.
    ///
    /// # Errors
    /// The first failure.
    pub fn open(options: RecorderOptions) -> Result<Self, RecorderError> {
        options.writer.check()?;
        let mut receiver = options.receiver;
        let pool = receiver.pool(&options.pool)?;
        let asked = receiver.learn.format.family().filter(|_| receiver.objects.is_some());
        let family = asked.filter(|family| family.objects() != Objects::Frames);
        if let Some(objects) = &mut receiver.objects {
            objects.to_disks = true;
        }
        receiver.learn.object_bytes = pool.block_bytes() as u64;
        let flush = receiver.flush;
        let receiver = Receiver::open(receiver, pool.clone())?;
        let writer = Writer::create(&WriterOptions { pool: Some(pool.clone()), ..options.writer })?;
        let (fill, quality) = (options.fill, options.quality);
        Ok(Self { receiver, writer: Arc::new(writer), pool, fill, flush, quality, family })
    }

    /// The memory for packets.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The scan's name on disk.
    #[must_use]
    pub fn scan(&self) -> String {
        self.writer.scan().to_string()
    }

    /// The receiver, to add sources or read its addresses.
    pub fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Begin.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(self) -> io::Result<RunningRecorder> {
        let Self { receiver, writer, pool, fill, flush, quality, family } = self;
        let of_sinks = writer.clone();
        let mut recorder = ObjectRecorder::new(writer.clone(), pool.clone(), flush);
        if let Some(family) = family {
            recorder = recorder.announcing(family);
        }
        let heaps_lost = recorder.lost();
        let lost = Arc::<LostFrames>::default();
        let (of_sink, counts) = (pool.clone(), lost.clone());
        // An operator must know of a finding now, and a reader of the index later.
        let of_quality = writer.clone();
        let start = |options| Quality::start(options, move |event| of_quality.keep_event(event));
        let quality = quality.map(start).transpose()?;
        // One for each receiving thread; they end with these.
        let taps = quality.as_ref().map(Quality::taps);
        let sink = move |_| -> Box<dyn Sink> {
            let (writer, pool, lost) = (of_sinks.clone(), of_sink.clone(), counts.clone());
            let tap = taps.as_ref().map(|tap| tap());
            Box::new(RecordSink { writer, fill, pool, lost, tap, streams: HashMap::new() })
        };
        let running = receiver.start_with(sink, Box::new(recorder))?;
        Ok(RunningRecorder { running, writer, pool, heaps_lost, lost, quality })
    }
}

impl RunningRecorder {
    /// The receiving side.
    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Receive buffer granted by the kernel in bytes, the minimum of all sockets.
    #[must_use]
    pub fn socket_buffer(&self) -> u64 {
        self.running.socket_buffer()
    }

    /// The memory for packets.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Each disk as it is now.
    #[must_use]
    pub fn disks(&self) -> Vec<DiskStatus> {
        self.writer.status()
    }

    /// Free space, and how long it lasts.
    #[must_use]
    pub fn space(&self) -> SpaceReport {
        self.writer.space()
    }

    /// The fate of the frames so far.
    #[must_use]
    pub fn ledger(&self) -> FrameLedger {
        self.writer.ledger()
    }

    /// Bytes that were received and given up so far.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.writer.lost_bytes()
    }

    /// Events of the disks, from number `from` on.
    #[must_use]
    pub fn events_from(&self, from: usize) -> Vec<Event> {
        self.writer.events_from(from)
    }

    /// What the streams were found to be, if that is looked at; it may outlive the recorder.
    #[must_use]
    pub fn quality(&self) -> Option<QualityView> {
        self.quality.as_ref().map(Quality::view)
    }

    /// Read what the kernel holds, write everything, and report. Disks may take up to `deadline` for it.
    #[must_use]
    pub fn finish(self, deadline: Duration) -> RecordReport {
        let mut receive = self.running.finish();
        // All events are in one place, for operators and for readers of the index.
        receive.events.drain(..).for_each(|event| self.writer.keep_event(event));
        // Its last events, too.
        let quality = self.quality.map(Quality::finish);
        let recording = match Arc::try_unwrap(self.writer) {
            Ok(writer) => writer.finish(deadline),
            Err(shared) => {
                receive.notes.push("a receiving thread did not end".into());
                shared.report()
            }
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let heaps_not_recorded = count(&self.heaps_lost);
        let (frames_filled, frames_left_out) = (count(&self.lost.filled), count(&self.lost.left_out));
        RecordReport { receive, recording, heaps_not_recorded, frames_filled, frames_left_out, quality }
            .balanced()
    }
}

/// Streams that enter the index as soon as they are known; further ones with their first chunk.
const EAGER_STREAMS: usize = 64;

/// Makes chunks from the parts of one thread.
struct RecordSink {
    writer: Arc<Writer>,
    fill: bool,
    pool: Pool,
    lost: Arc<LostFrames>,
    tap: Option<QualityTap>,
    streams: HashMap<u32, Recorded>,
}

/// A stream that is being recorded.
struct Recorded {
    info: Arc<StreamInfo>,
    datastream: DatastreamId,
    /// Number of the next chunk.
    next: u32,
    filler: Arc<Filler>,
    frames_per_second: Option<u32>,
}

impl RecordSink {
    fn begin(&mut self, stream: &Arc<StreamInfo>) {
        let frames_per_second = stream.format.frames_per_second;
        let datastream = self.writer.add_datastream(&describe(stream, frames_per_second));
        let filler = filler(&stream.format, frames_per_second);
        let recorded = Recorded { info: stream.clone(), datastream, next: 0, filler, frames_per_second };
        self.streams.insert(stream.id, recorded);
    }
}

impl Sink for RecordSink {
    /// Readers may follow it from here on. If there are very many senders, a stream gets its directory only with its
    /// first chunk.
    fn stream_began(&mut self, stream: &Arc<StreamInfo>) {
        if self.streams.len() < EAGER_STREAMS {
            self.begin(stream);
        }
    }

    fn paused(&mut self, time: Duration) {
        self.writer.paused(time);
    }

    /// Written to the index immediately: it must be there if this program is killed.
    fn event(&mut self, event: &Event) -> bool {
        self.writer.keep_event(event.clone());
        true
    }

    fn stream_ended(&mut self, stream: &Arc<StreamInfo>) {
        self.streams.remove(&stream.id);
        if let Some(tap) = &mut self.tap {
            tap.stream_ended(stream);
        }
    }

    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        if let Some(tap) = &mut self.tap {
            tap.part(stream, &part);
        }
        if !self.streams.contains_key(&stream.id) {
            self.begin(stream);
        }
        let Some(recorded) = self.streams.get_mut(&stream.id) else { return };
        let writer = &self.writer;
        // The rate is known by now, or a thread joined.
        let has_rate =
            part.frames_per_second.is_some() && recorded.frames_per_second != part.frames_per_second;
        let has_changed = !Arc::ptr_eq(&recorded.info, stream);
        if has_rate || has_changed {
            recorded.info = stream.clone();
            // A rate that was wrong is not known any more.
            let before = recorded.frames_per_second.filter(|_| !has_changed);
            recorded.frames_per_second = part.frames_per_second.or(before);
            recorded.filler = filler(&stream.format, recorded.frames_per_second);
            writer.update_datastream(recorded.datastream, &describe(stream, recorded.frames_per_second));
        }
        let StreamPart { settled, has_open_gaps, .. } = part;
        let mut chunk = recorded.chunk(stream, part);
        // Without memory to pack it in, what did not arrive is filled all the same: whatever lay in its place must not be
        // written.
        if (!self.fill || recorded.cannot_fill(&mut chunk))
            && !chunk.meta.missing.is_empty()
            && let Some(block) = pack(&chunk, stream.unit_bytes as usize, &self.pool)
        {
            chunk.meta.packed = true;
            chunk.finish = None;
            (chunk.range, chunk.block) = (0..block.1, block.0);
        }
        self.lost.count(&chunk.meta, settled);
        writer.settle(recorded.datastream, settled, has_open_gaps);
        recorded.next += 1;
        if let Err(refused) = writer.submit(chunk)
            && refused.reason != Refusal::NoDisk
        {
            writer.note("refused", &refused.to_string());
        }
    }
}

/// The description of a stream for readers of the recording.
fn describe(stream: &StreamInfo, frames_per_second: Option<u32>) -> DatastreamInfo {
    let format = &stream.format;
    let suffix = if stream.id == 0 { String::new() } else { format!("_ds{}", stream.id) };
    DatastreamInfo {
        suffix,
        sender: Some(stream.sender.to_string()),
        unit_bytes: stream.unit_bytes,
        units: (format.object_bytes / u64::from(stream.unit_bytes.max(1))) as u32,
        frames_per_second,
        lanes: format.group() as u32,
        chunk_bytes: 0,
        numbered: format.place != Place::Time,
        format: crate::frames::described(format),
    }
}

impl Recorded {
    /// Whether the times of some lost frames are not known, because they are in a second whose number of frames is not: what
    /// could be written in their place is no frame.
    fn cannot_fill(&self, chunk: &mut Chunk) -> bool {
        let format = &self.info.format;
        let is_known = self.frames_per_second.is_some() || format.own.rate().is_some();
        if is_known || chunk.meta.missing.is_empty() {
            return false;
        }
        let unit = self.info.unit_bytes as usize;
        let range = chunk.range.clone();
        fill(&self.filler, unit, format.group(), &chunk.meta, &mut chunk.block, range).unpredicted > 0
    }

    fn chunk(&self, stream: &StreamInfo, part: StreamPart) -> Chunk {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let [first_time, last_time] = times(stream, &part);
        let meta = ChunkMeta {
            object: part.object,
            epoch: u64::from(part.epoch),
            units: part.units(stream.unit_bytes),
            missing: part.missing,
            gap: Some(part.gap),
            gap_is_lower_bound: part.gap_is_lower_bound,
            packed: false,
            first_time,
            last_time,
            received_at: i64::try_from(now.as_nanos()).ok(),
            heaps: None,
        };
        let (unit, group, filler) = (stream.unit_bytes as usize, stream.format.group(), self.filler.clone());
        let finish: Fill = Arc::new(move |meta, block, range| {
            fill(&filler, unit, group, meta, block, range);
        });
        Chunk {
            datastream: self.datastream,
            number: self.next,
            block: part.block,
            range: part.range,
            meta,
            finish: Some(finish),
        }
    }
}

/// Times of a chunk's first and last frame. The part has those of frames that arrived; missing frames may precede and
/// follow them.
fn times(stream: &StreamInfo, part: &StreamPart) -> [Option<(i64, u32)>; 2] {
    let units = part.units(stream.unit_bytes);
    let group = stream.format.group() as u64;
    let start = (part.range.start / stream.unit_bytes.max(1) as usize) as u64;
    let frame_of = |unit: u32| ((start + u64::from(unit)) / group.max(1)) as i64;
    let first = part.missing.first().filter(|m| m.start == 0).map_or(0, |m| m.end);
    let behind = part.missing.last().filter(|m| m.end == units).map_or(units, |m| m.start);
    let (first, last) = (first.min(units), behind.saturating_sub(1));
    let later = |time: FrameTime, frames: i64| {
        moved(time, frames, part.frames_per_second).map(|time| (time.unix_seconds, time.frame))
    };
    let first_time = part.first_time.and_then(|time| later(time, frame_of(0) - frame_of(first)));
    let to_end = frame_of(units.saturating_sub(1)) - frame_of(last);
    [first_time, part.last_time.and_then(|time| later(time, to_end))]
}

/// What was received and recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecordReport {
    /// What was received.
    #[serde(flatten)]
    pub receive: ReceiveReport,
    /// The report of the disks.
    pub recording: RecordingReport,
    /// Heaps lost because the disks freed no memory.
    #[serde(default)]
    pub heaps_not_recorded: u64,
    /// Lost frames that were filled on disk with frames marked invalid; packets, where the ledger counts packets.
    #[serde(default)]
    pub frames_filled: u64,
    /// Lost frames for which nothing was written: between chunks, or without fill. With `frames_filled` these are all lost
    /// frames.
    #[serde(default)]
    pub frames_left_out: u64,
    /// The quality of the streams, if it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityReport>,
}

impl RecordReport {
    /// Whether everything that the kernel delivered is safe on a disk, without errors.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.recording.is_whole()
            && self.receive.kernel_drops() == 0
            && self.no_buffer() == 0
            && self.heaps_not_recorded == 0
            && self.receive.errors.is_empty()
            && self.receive.unbalanced.is_empty()
    }

    /// Whether times, threads, stations or frame rates of a stream were not those of a regular one: as `check` judges what is
    /// on the disks.
    #[must_use]
    pub fn is_irregular(&self) -> bool {
        self.receive.streams.iter().any(|stream| stream.irregular.is_fault())
    }

    /// Its verdict, by the judgement of `check`, without reading what is on the disks.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if !self.is_whole() {
            return Verdict::Damaged;
        }
        let is_full = self.receive.is_whole() && self.receive.lost() == 0;
        let of_frames = if is_full { Verdict::Whole } else { Verdict::Holes };
        let (fewer_copies, _) = self.recording.with_fewer_copies();
        let of_frames = if fewer_copies > 0 { Verdict::FewerCopies } else { of_frames };
        let of_streams = self.receive.streams.iter().map(|stream| Verdict::from(&stream.irregular));
        of_streams.fold(of_frames, Verdict::max)
    }

    /// What was irregular in its streams, in words; empty if nothing was.
    #[must_use]
    pub fn irregular_words(&self) -> String {
        let words = self.receive.streams.iter().map(|stream| stream.irregular.words());
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// Whether anything at all was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recording.datastreams.iter().all(|stream| stream.acknowledged == 0)
    }

    /// Frames that were received and are on no disk.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.recording.ledger.discarded
    }

    /// The report with every sum that does not hold.
    fn balanced(mut self) -> Self {
        let mut wrong = self.recording.imbalance();
        // Heaps and events are counted by their tables, and their datastreams apart.
        let on_disks = &self.recording.ledger;
        let received = ("frames placed", self.receive.placed());
        wrong.extend(differs("all streams", received, ("frames given to the disks", on_disks.received)));
        let never = ("frames lost", self.receive.lost());
        wrong.extend(differs(
            "all streams",
            never,
            ("frames missing in and between chunks", on_disks.never_received),
        ));
        let filled = self.frames_filled.saturating_add(self.frames_left_out);
        wrong.extend(differs("all streams", never, ("frames filled or left out", filled)));
        // A thread that ended by an error took what it held with it: that is no fault of the sums, and reported.
        debug_assert!(wrong.is_empty() || !self.receive.errors.is_empty(), "{wrong:?}");
        self.receive.unbalanced.extend(wrong);
        // One ledger: that of the receiver has only its first level.
        self.receive.ledger.clone_from(&self.recording.ledger);
        self
    }

    /// Packets for which there was no memory.
    #[must_use]
    pub fn no_buffer(&self) -> u64 {
        self.receive.no_buffer()
    }
}
