//! The frames of a file as packets: byte for byte, or with new times.
//!
//! ```text
//!   as it is    [number] ▐ frame, where it lies in the file ▐
//!   new times   [number][header: old time + constant] ▐ payload, where it lies ▐
//! ```
//!
//! The number of a packet is its position in the stream, so that a receiver sees what is missing in the file. A file whose
//! frames have no order in time gets none, unless it is asked for.

use super::clock::{OwnPace, SentTimes};
use super::sender::{Sequence, Supply, SupplyError};
use super::{HEAD, Packetize};
use skyhaul_core::wire::{Format, Move, Numbered, Numbering, Order, PREFIX, Positions, first_second, vtp};
use skyhaul_io::file::MappedFile;
use std::path::Path;
use std::time::Duration;

/// How a file is sent.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The format of the file.
    pub format: Format,
    /// Frames of one thread in a second, if the user states it.
    pub frames_per_second: Option<u32>,
    /// The rate to assume if neither user nor file states it and a further pass needs it.
    pub assumed_rate: Option<u32>,
    /// The sequence number before each frame. A format that prescribes one, or has none, is sent so whatever is asked for.
    pub sequence: Sequence,
    /// Send no sequence number if it would not show what is missing.
    pub only_true_numbers: bool,
    /// How often to send the file. Each pass after the first has new times, behind those of the one before.
    pub passes: u64,
    /// Give the frames new times, from this Unix second on.
    pub restamp: Option<i64>,
    /// Send at the pace of the frames' times, and wait no longer than this for a gap.
    pub max_wait: Option<Duration>,
    /// A Unix time within 500 days of the data.
    pub near: i64,
}

/// The frames of a file.
#[derive(Debug)]
pub struct FileSupply {
    file: MappedFile,
    timeline: Positions,
    options: FileOptions,
    /// How packets are numbered, and whether by their position.
    numbering: Option<Numbering>,
    by_position: bool,
    parts: usize,
    /// Order of the numbers that the file itself has.
    own_numbers: Option<Order>,
    /// Seconds to add to the times of the first pass.
    seconds: i64,
    /// Passes whose times the headers can say.
    passes: u64,
    notes: Vec<String>,
    name: String,
}

impl FileSupply {
    /// The frames of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or its format cannot be sent.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, SupplyError> {
        let name = path.display().to_string();
        let file = MappedFile::open(path)?;
        let wrong = |why| SupplyError::Frames { path: name.clone(), why };
        let place = |fps| Positions::of(&file, options.format, fps, options.near).map_err(wrong);
        let mut timeline = place(options.frames_per_second)?;
        let mut notes = Vec::new();
        if let Some((stated, highest)) = timeline.clock().disproved() {
            let instead = match timeline.clock().fps() {
                Some(fps) => format!("{fps} as the ends of seconds show"),
                None => "an unknown rate".to_owned(),
            };
            notes.push(format!(
                "the headers state {stated} frames/s, but one has frame number {highest}: sent with {instead}"
            ));
        }
        if options.passes > 1 && timeline.clock().fps().is_none() {
            let Some(rate) = options.assumed_rate else {
                return Err(SupplyError::RateUnknown { path: name });
            };
            timeline = place(Some(rate))?;
            notes.push(format!(
                "the file does not give its frame rate; assuming {rate} frames/s (set it with --frame-rate)"
            ));
        }
        let seconds = options
            .restamp
            .map_or(0, |start| start.saturating_sub(begin_second(&file, &timeline, options.near)));
        let mut supply = Self {
            numbering: None,
            by_position: timeline.placer().is_in_order(),
            parts: 1,
            own_numbers: (timeline.prefix() > 0).then(|| vtp::likely_order(&file)),
            seconds,
            passes: options.passes,
            notes,
            name,
            options,
            timeline,
            file,
        };
        supply.number();
        supply.limit_passes()?;
        supply.note_pace();
        Ok(supply)
    }

    fn number(&mut self) {
        let sequence = self.options.sequence;
        let asked = sequence.order.map(Numbering::whole);
        self.numbering = match self.timeline.stamps().numbered() {
            Numbered::Never => None,
            Numbered::InParts(parts, numbering) => {
                self.parts = parts;
                Some(numbering)
            }
            Numbered::ByChoice if self.own_numbers.is_some() => None,
            Numbered::ByChoice if !self.by_position && asked.is_some() && self.options.only_true_numbers => {
                let text = "the frames are not in the order of their times: sent without sequence numbers";
                self.notes.push(text.to_owned());
                return;
            }
            Numbered::ByChoice => asked,
        };
        if self.numbering.is_some() && !self.by_position {
            let text = "the frames are not in the order of their times: sequence numbers count packets, and show no gap";
            self.notes.push(text.to_owned());
        } else if self.numbering.is_some() && !self.timeline.clock().is_certain() {
            let text = "the frame rate is unknown: sequence numbers do not show frames that are missing at the end of a \
                        second (set it with --frame-rate)";
            self.notes.push(text.to_owned());
        }
    }

    fn note_pace(&mut self) {
        if self.options.max_wait.is_some() && self.timeline.clock().pace().is_none() {
            let text = "the frame rate is unknown: sent as fast as possible (set --frame-rate, or --rate)";
            self.notes.push(text.to_owned());
        }
    }

    /// Find out in how many passes the headers can say the time.
    fn limit_passes(&mut self) -> Result<(), SupplyError> {
        let ends = [0, self.timeline.frames() - 1];
        let fits = |pass: u64| {
            let by = self.moved(pass);
            ends.iter().all(|&index| {
                let Some(frame) = self.frame(index) else { return false };
                self.timeline.stamps().time(frame, self.options.near, None).is_none()
                    || self.timeline.stamps().moved(frame, &by).is_some()
            })
        };
        if !fits(0) {
            return Err(SupplyError::Restamp { path: self.name.clone() });
        }
        let (mut low, mut high) = (0, self.passes - 1);
        while low < high {
            let middle = high - (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        self.passes = low + 1;
        Ok(())
    }

    /// How the frames of this pass are moved; nothing for a pass that is sent as it is.
    fn moved(&self, pass: u64) -> Move {
        self.timeline.moved(pass, self.seconds, self.options.restamp)
    }

    /// A frame, without what the network format has before it.
    fn frame(&self, index: usize) -> Option<&[u8]> {
        let place = self.timeline.frame(index)?;
        self.file.get(place.bytes.start + self.timeline.prefix()..place.bytes.end)
    }

    /// Pass, frame in it, and part of the frame of packet `n`.
    fn split(&self, n: u64) -> (u64, usize, usize) {
        let (frames, parts) = (self.timeline.frames() as u64, self.parts as u64);
        let (frame, part) = (n / parts, (n % parts) as usize);
        (frame / frames, (frame % frames) as usize, part)
    }

    fn position(&self, pass: u64, index: usize, part: usize) -> u64 {
        let position = self.timeline.frame(index).map_or(0, |place| place.position);
        let before = pass.saturating_mul(self.timeline.pass_length());
        before.saturating_add(position).saturating_mul(self.parts as u64).saturating_add(part as u64)
    }

    /// Write the header with its new time, and what the file has before it; how many bytes that took, 0 for a frame that is
    /// sent as it is.
    fn header(&self, pass: u64, unit: &[u8], out: &mut [u8]) -> usize {
        if pass == 0 && self.seconds == 0 {
            return 0;
        }
        let prefix = self.timeline.prefix();
        let by = self.moved(pass);
        let Some((header, length)) =
            unit.get(prefix..).and_then(|frame| self.timeline.stamps().moved(frame, &by))
        else {
            return 0;
        };
        if let (Some(order), Some(own)) = (self.own_numbers, unit.first_chunk::<PREFIX>()) {
            out[..PREFIX].copy_from_slice(&Numbering::whole(order).advanced(*own, by.packets));
        }
        out[prefix..prefix + length].copy_from_slice(&header[..length]);
        prefix + length
    }
}

/// Frames from which the second of the first one is taken.
const FIRST_FRAMES: usize = 64;

/// Unix second with which the frames begin.
fn begin_second(file: &[u8], timeline: &Positions, near: i64) -> i64 {
    let fps = timeline.clock().fps();
    let time = |index: usize| {
        let place = timeline.frame(index)?;
        timeline.stamps().time(file.get(place.bytes.start + timeline.prefix()..place.bytes.end)?, near, fps)
    };
    let times = (0..timeline.frames()).filter_map(time).take(FIRST_FRAMES);
    first_second(&times.map(|time| time.unix_seconds).collect::<Vec<_>>()).unwrap_or(0)
}

impl Packetize for FileSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let (pass, index, part) = self.split(n);
        let Some(place) = self.timeline.frame(index) else { return (0, &[]) };
        let number = match self.numbering {
            Some(numbering) => {
                let number = if self.by_position { self.position(pass, index, part) } else { n };
                let number = self.options.sequence.first.wrapping_add(number);
                head[..PREFIX].copy_from_slice(&numbering.write(number));
                PREFIX
            }
            None => 0,
        };
        let unit = &self.file[place.bytes];
        // The parts are of one size; the header is in the first.
        let size = unit.len() / self.parts;
        let header = if part == 0 { self.header(pass, unit, &mut head[number..]) } else { 0 };
        (number + header, &unit[part * size + header..(part + 1) * size])
    }

    fn packet_bytes(&self) -> usize {
        let unit = self.timeline.frame(0).map_or(0, |place| place.bytes.len());
        unit / self.parts + if self.numbering.is_some() { PREFIX } else { 0 }
    }
}

impl Supply for FileSupply {
    fn available(&mut self, _: u64) -> (u64, bool) {
        let frames = (self.timeline.frames() as u64).saturating_mul(self.passes);
        (frames.saturating_mul(self.parts as u64), false)
    }

    fn describe(&self) -> String {
        let frames = self.timeline.frames();
        match self.passes {
            1 => format!("{} ({frames} frames)", self.name),
            passes => format!("{} ({frames} frames, {passes} times)", self.name),
        }
    }

    fn pace(&self) -> Option<OwnPace> {
        let (packets, seconds) = self.timeline.clock().pace()?;
        let parts = self.parts as u64;
        // Frames of different lengths: as long as they are on average.
        let head = if self.numbering.is_some() { PREFIX as u64 } else { 0 };
        let packet_bytes = self.file.len() as u64 / (self.timeline.frames() as u64 * parts) + head;
        let packets = packets.saturating_mul(parts);
        Some(OwnPace { packets, seconds, packet_bytes, max_wait: self.options.max_wait? })
    }

    fn place(&self, n: u64) -> (u64, u64) {
        let (pass, index, part) = self.split(n);
        let behind = (self.timeline.run_end(index) - index) as u64 * self.parts as u64;
        (self.position(pass, index, part), n.saturating_add(behind) - part as u64)
    }

    fn times(&self) -> Option<SentTimes> {
        let (placer, clock) = (self.timeline.placer(), self.timeline.clock());
        let (gaps, longest_gap) = placer.gaps();
        let pass_seconds = clock
            .pace()
            .filter(|_| self.passes > 1)
            .map(|(packets, seconds)| self.timeline.pass_length() as f64 * seconds as f64 / packets as f64);
        Some(SentTimes {
            restamped: self.seconds != 0 || self.passes > 1,
            moved_seconds: self.seconds,
            pass_seconds,
            frames_per_second: clock.fps(),
            gaps,
            missing: placer.missing(),
            longest_gap,
            untimed: placer.untimed(),
            returns: placer.returns(),
            ..SentTimes::default()
        })
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn failure(&self) -> Option<String> {
        let asked = self.options.passes;
        (self.passes < asked).then(|| {
            format!("sent {} of {asked} times: the headers cannot give the times of the others", self.passes)
        })
    }
}
