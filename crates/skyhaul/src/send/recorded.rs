//! The frames of a recording, read one segment after the other and placed by their times.
//!
//! The first segment tells rate and threads; each further frame is placed as it is read. A frame whose time jumps waits for those
//! behind it, which confirm or deny the jump: up to [`MAX_AHEAD`] of them, and [`MAX_AHEAD_BYTES`].

use super::clock::{OwnPace, SentTimes};
use super::sender::Sequence;
use crate::frames;
use crate::recording::{Datastream, Reader};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::{
    ClockFinder, FamilyRef, FrameClock, MAX_AHEAD, Move, Numbered, Numbering, Placer, Stamps, first_second,
};
use skyhaul_io::lock::lock;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const AS_THEY_ARE: Hint<&str> = Hint("send them without --restamp");

/// Bytes read ahead at once.
pub(super) const SEGMENT: usize = 4 << 20;
/// Bytes of frames that wait for those behind them; of larger frames, fewer wait.
const MAX_AHEAD_BYTES: usize = 16 << 20;

/// How recorded frames are sent.
#[derive(Clone, Debug)]
pub struct RecordedOptions {
    /// Bytes of a frame, with what the recording keeps before it.
    pub unit: u32,
    /// The family of the frames, and where in a unit one begins; `None` if the recording does not say.
    pub family: Option<(FamilyRef, usize)>,
    /// Frames of one thread in a second, if that is known.
    pub frames_per_second: Option<u32>,
    /// The sequence number before each unit; none where the recording has kept one.
    pub sequence: Sequence,
    /// Send no sequence number if it would not show what is missing.
    pub only_true_numbers: bool,
    /// Give the frames new times, from this Unix second on.
    pub restamp: Option<i64>,
    /// Send at the pace of the frames' times, and wait no longer than this for a gap.
    pub max_wait: Option<Duration>,
    /// The recording is being made.
    pub follow: bool,
    /// A Unix time within 500 days of the data.
    pub near: i64,
}

impl RecordedOptions {
    /// The frames of this datastream, as its index describes them: as they are, without sequence numbers, as fast as the
    /// sender sends.
    #[must_use]
    pub fn of(datastream: &Datastream) -> Self {
        let Datastream { info, .. } = datastream;
        let number = |name| info.format.get(name).and_then(serde_json::Value::as_i64);
        let header_at = number("header_at").and_then(|at| usize::try_from(at).ok());
        Self {
            unit: info.unit_bytes,
            family: frames::family(datastream).zip(header_at),
            frames_per_second: info.frames_per_second,
            sequence: Sequence { order: None, first: 0 },
            only_true_numbers: true,
            restamp: None,
            max_wait: None,
            follow: false,
            near: number("near").unwrap_or_default(),
        }
    }
}

/// Frames from which rate and threads of a recording are learned while it is being made.
const FIRST_FRAMES: usize = 64;

/// What is known of the frames, also to the thread that sends them.
#[derive(Debug)]
pub(super) struct Told {
    clock: Option<FrameClock>,
    by_position: bool,
    /// Packets of a frame.
    parts: u64,
    max_wait: Option<Duration>,
    notes: Vec<String>,
    placed: Arc<Mutex<Option<Placer>>>,
}

impl Told {
    pub(super) fn by_position(&self) -> bool {
        self.by_position
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    pub(super) fn pace(&self, packet_bytes: u64) -> Option<OwnPace> {
        let (packets, seconds) = self.clock.as_ref()?.pace()?;
        let packets = packets.saturating_mul(self.parts);
        Some(OwnPace { packets, seconds, packet_bytes, max_wait: self.max_wait? })
    }

    pub(super) fn times(&self, moved: Option<i64>) -> SentTimes {
        let placer = lock(&self.placed);
        let (gaps, longest_gap) = placer.as_ref().map_or((0, 0), Placer::gaps);
        let of = |count: fn(&Placer) -> u64| placer.as_ref().map_or(0, count);
        SentTimes {
            restamped: moved.is_some(),
            moved_seconds: moved.unwrap_or_default(),
            frames_per_second: self.clock.as_ref().and_then(FrameClock::fps),
            gaps,
            missing: of(Placer::missing),
            longest_gap,
            untimed: of(Placer::untimed),
            returns: of(Placer::returns),
            ..SentTimes::default()
        }
    }
}

/// New times for recorded frames.
#[derive(Clone)]
pub(super) struct Restamp {
    stamps: &'static dyn Stamps,
    at: usize,
    by: Move,
}

impl std::fmt::Debug for Restamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restamp").field("by", &self.by).finish_non_exhaustive()
    }
}

impl Restamp {
    pub(super) fn seconds(&self) -> i64 {
        self.by.seconds
    }

    /// Write the header with its new time, and what the recording keeps before it; 0 for a frame that is sent as it is.
    pub(super) fn header(&self, unit: &[u8], out: &mut [u8]) -> usize {
        let moved = unit.get(self.at..).and_then(|frame| self.stamps.moved(frame, &self.by));
        let Some((header, length)) = moved else { return 0 };
        out[..self.at].copy_from_slice(&unit[..self.at]);
        out[self.at..self.at + length].copy_from_slice(&header[..length]);
        self.at + length
    }
}

/// Frames, and the runs that they form: the first packet of each, and its position.
pub(super) type Placed = (Vec<u8>, Vec<(usize, u64)>);

/// Reads whole frames and places them.
pub(super) struct RecordedFrames {
    options: RecordedOptions,
    stamps: Option<(&'static dyn Stamps, usize)>,
    /// Packets that a frame is cut into, and how these are numbered if the format prescribes it.
    parts: usize,
    numbering: Option<Numbering>,
    placer: Option<Placer>,
    by_position: bool,
    notes: Vec<String>,
    placed: Arc<Mutex<Option<Placer>>>,
    /// What was read and not given: the first segment, later the frames that wait for those behind them; and how many of them the
    /// placer has.
    ahead: Vec<u8>,
    waiting: usize,
    /// There is no more behind that.
    ended: bool,
    first: bool,
    last: Option<u64>,
    restamp: Option<Restamp>,
    /// Why the first segment could not be read.
    error: Option<io::Error>,
}

impl RecordedFrames {
    pub(super) fn begin(reader: &mut Reader, options: RecordedOptions) -> io::Result<Self> {
        let stamps = options.family.and_then(|(family, at)| Some((family.stamps()?, at)));
        let (parts, numbering) = match stamps.map(|(stamps, _)| stamps.numbered()) {
            Some(Numbered::InParts(parts, numbering)) => (parts.max(1), Some(numbering)),
            _ => (1, None),
        };
        // Parts with something before each are no whole frames in a row.
        let stamps = stamps.filter(|(_, at)| parts == 1 || *at == 0);
        let mut frames = Self {
            stamps,
            parts,
            numbering,
            placer: None,
            by_position: false,
            notes: Vec::new(),
            placed: Arc::default(),
            ahead: Vec::new(),
            waiting: 0,
            ended: false,
            first: true,
            last: None,
            restamp: None,
            error: None,
            options,
        };
        // One that is being made gives its first frames only after a while.
        let first = if frames.options.follow { FIRST_FRAMES * frames.frame() } else { usize::MAX };
        let first = first.min(frames.whole());
        // A recording that cannot be read is an error of sending: the report has it, beside what was sent.
        frames.error = frames.read(reader, first).err();
        frames.learn()?;
        Ok(frames)
    }

    pub(super) fn unit(&self) -> usize {
        self.options.unit.max(1) as usize
    }

    /// Bytes of a whole frame.
    fn frame(&self) -> usize {
        self.unit() * self.parts
    }

    fn whole(&self) -> usize {
        (SEGMENT / self.frame()).max(1) * self.frame()
    }

    /// How packets are numbered.
    pub(super) fn numbering(&self) -> Option<Numbering> {
        let order = self.sequence().order?;
        Some(self.numbering.unwrap_or(Numbering::whole(order)))
    }

    fn read(&mut self, reader: &mut Reader, bytes: usize) -> io::Result<()> {
        let read = reader.take(bytes as u64).read_to_end(&mut self.ahead)?;
        self.ended = read < bytes;
        Ok(())
    }

    pub(super) fn sequence(&self) -> Sequence {
        let Sequence { order, first } = self.options.sequence;
        let of_family =
            self.options.family.and_then(|(family, _)| family.stamps()).map(|stamps| stamps.numbered());
        let kept = self.options.family.is_some_and(|(_, at)| at > 0) || of_family == Some(Numbered::Never);
        let untrue = self.stamps.is_some() && !self.by_position && self.options.only_true_numbers;
        Sequence { order: order.filter(|_| !kept && !untrue), first }
    }

    pub(super) fn told(&mut self) -> Told {
        Told {
            clock: self.placer.as_ref().map(|placer| placer.clock().clone()),
            by_position: self.by_position,
            parts: self.parts as u64,
            max_wait: self.options.max_wait,
            notes: std::mem::take(&mut self.notes),
            placed: self.placed.clone(),
        }
    }

    pub(super) fn restamp(&self) -> Option<Restamp> {
        self.restamp.clone()
    }

    fn learn(&mut self) -> io::Result<()> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let Some((stamps, at)) = self.stamps else {
            return match self.options.restamp {
                Some(_) => Err(invalid(format!("these frames cannot have new times{AS_THEY_ARE}"))),
                None => Ok(()),
            };
        };
        let near = self.options.near;
        let frames: Vec<&[u8]> =
            self.ahead.chunks_exact(self.frame()).filter_map(|unit| unit.get(at..)).collect();
        let conclude = |fps| {
            let mut seen = ClockFinder::new(stamps, near);
            frames.iter().for_each(|frame| seen.frame(frame));
            seen.conclude(fps, &frames)
        };
        let clock = match conclude(self.options.frames_per_second) {
            Ok(clock) => clock,
            Err(why) => {
                self.notes.push(format!("{why}: not used"));
                conclude(None).map_err(|why| invalid(why.to_string()))?
            }
        };
        let mut trial = Placer::new(clock.clone());
        frames.iter().for_each(|frame| trial.add(frame));
        trial.finish();
        while trial.poll().is_some() {}
        self.by_position = trial.is_in_order();
        if let Some(start) = self.options.restamp {
            let times = frames.iter().filter_map(|frame| stamps.time(frame, near, clock.fps()));
            let first = first_second(&times.map(|time| time.unix_seconds).collect::<Vec<_>>());
            let seconds = first.map_or(0, |first| start.saturating_sub(first));
            let by = Move { seconds, begin: Some(start), fps: clock.fps(), ..Move::default() };
            let timed = frames.iter().find(|frame| stamps.time(frame, near, clock.fps()).is_some());
            if timed.is_some_and(|frame| stamps.moved(frame, &by).is_none()) {
                return Err(invalid(format!("the headers cannot give the new times{AS_THEY_ARE}")));
            }
            self.restamp = Some(Restamp { stamps, at, by });
        }
        self.note(&clock);
        self.placer = Some(Placer::new(clock).with_ahead((MAX_AHEAD_BYTES / self.frame()).min(MAX_AHEAD)));
        Ok(())
    }

    fn note(&mut self, clock: &FrameClock) {
        let numbered = self.options.sequence.order.is_some();
        if numbered && !self.by_position {
            let text = match self.options.only_true_numbers {
                true => "the frames are not in the order of their times: sent without sequence numbers",
                false => {
                    "the frames are not in the order of their times: sequence numbers count packets, and show no gap"
                }
            };
            self.notes.push(text.to_owned());
        } else if numbered && clock.fps().is_none() {
            let text = "the frame rate is unknown: sequence numbers do not show frames that are missing at the end of a \
                        second (set it with --frame-rate)";
            self.notes.push(text.to_owned());
        }
        if self.options.max_wait.is_some() && clock.pace().is_none() {
            let text = "the frame rate is unknown: sent as fast as possible (set --frame-rate, or --rate)";
            self.notes.push(text.to_owned());
        }
    }

    /// The next frames, and the runs that they form; nothing at the end.
    pub(super) fn next(&mut self, reader: &mut Reader) -> io::Result<Placed> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let unit = self.frame();
        let positions = loop {
            if !std::mem::take(&mut self.first) && !self.ended {
                let whole = self.whole();
                self.read(reader, whole)?;
            }
            let Some(positions) = self.place() else {
                return Ok((std::mem::take(&mut self.ahead), Vec::new()));
            };
            if self.ended || !positions.is_empty() {
                break positions;
            }
        };
        let rest = if self.ended { Vec::new() } else { self.ahead.split_off(positions.len() * unit) };
        let bytes = std::mem::replace(&mut self.ahead, rest);
        Ok((bytes, self.runs(&positions)))
    }

    /// The positions of the next frames, if frames are placed; none if they depend on frames that were not read.
    fn place(&mut self) -> Option<Vec<i64>> {
        let unit = self.frame();
        let (_, at) = self.stamps?;
        let placer = self.placer.as_mut()?;
        for frame in self.ahead.chunks_exact(unit).skip(self.waiting) {
            placer.add(frame.get(at..).unwrap_or_default());
            self.waiting += 1;
        }
        if self.ended {
            placer.finish();
        }
        let positions: Vec<i64> = std::iter::from_fn(|| placer.poll()).collect();
        self.waiting -= positions.len();
        *lock(&self.placed) = Some(placer.clone());
        Some(positions)
    }

    /// The runs that frames with these positions form.
    fn runs(&mut self, positions: &[i64]) -> Vec<(usize, u64)> {
        let mut runs: Vec<(usize, u64)> = Vec::new();
        for (n, &position) in positions.iter().enumerate() {
            let behind = self.last.map_or(0, |last| last + 1);
            let position = u64::try_from(position).unwrap_or(behind);
            if n == 0 || self.last.is_none() || position != behind {
                runs.push((n * self.parts, position * self.parts as u64));
            }
            self.last = Some(position);
        }
        runs
    }
}
