//! Sends a recording in a loop, with times that continue.
//!
//! The frames of a file are used in place; frame *i* of each thread in loop *n* gets the time that follows loop *n* − 1.
//! Payloads are not copied: a sender gathers `[sequence number | new header] + payload`.
//!
//! ```text
//!   file       A0 B0 A1 B1           frames in the second 0, 1 of threads A, B
//!   loop 0     A0 B0 A1 B1
//!   loop 1     A2 B2 A3 B3           then the second rolls over at the frame rate
//! ```
//!
//! Times are counted, not copied: gaps in the file close, and a thread with a wrong clock is corrected.

use super::{frame::step, numbering::Numbering};
use crate::placement::Reject;
use std::{fmt, ops::Range};

/// Why the frames of a file cannot be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestampError {
    /// The file has no frame.
    Empty,
    /// The frame that starts at this octet cannot be read.
    Broken {
        /// Octet of the file.
        at: usize,
        /// What is wrong with it.
        reason: Reject,
    },
    /// Neither the headers nor the file give the frames per second; it must be specified.
    RateUnknown,
    /// A rate outside the range of the header.
    BadRate,
    /// Files of this format have no frames.
    NoFrames(&'static str),
}

impl fmt::Display for RestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestampError::Empty => f.write_str("no frame in the file"),
            RestampError::Broken { at, reason } => {
                write!(f, "frame at octet {at} cannot be read: {}", reason.name())
            }
            RestampError::RateUnknown => {
                f.write_str("the headers do not state the frames per second: specify them")
            }
            RestampError::BadRate => {
                f.write_str("frames per second must be 1 to 16777216 (65536 for mark5b)")
            }
            RestampError::NoFrames(family) => write!(f, "{family} has no frames of fixed time"),
        }
    }
}

impl std::error::Error for RestampError {}

/// One frame of a file.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where in the file its payload lies.
    pub payload: Range<usize>,
    /// How many frames of its thread precede it.
    pub number: u32,
}

/// The new time of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Stamped {
    /// Frames of all threads in the previous loops.
    pub packets: i64,
    /// Second, in the header's own count.
    pub second: u64,
    /// Frame in the second.
    pub frame: u32,
    /// Frames of one thread in a second.
    pub fps: u32,
}

/// The headers of a file's frames, to be written with new times.
pub trait Stamps: fmt::Debug + Send + Sync {
    /// The second of this time in the header's own count; `None` for times that it cannot represent.
    fn starting_at(&mut self, unix_seconds: i64) -> Option<u64>;
    /// The header of frame `index` at this time, and its length.
    fn header(&self, index: usize, at: &Stamped) -> Option<([u8; 32], usize)>;
}

/// Gives each frame of a file its time in each loop.
#[derive(Debug)]
pub struct Restamper {
    frames: Vec<Frame>,
    fps: u32,
    /// Frames of one thread in a loop.
    length: u64,
    /// Second (in the header's own count) and frame with which the first loop starts.
    start: (u64, u32),
    stamps: Box<dyn Stamps>,
    parts: usize,
    numbering: Option<Numbering>,
}

impl Restamper {
    /// A restamper for frames with known headers. The first loop starts with this second (in the headers' own count) and
    /// frame; there is at least one frame, and `length` of each thread in a loop.
    #[must_use]
    pub fn new(
        frames: Vec<Frame>,
        fps: u32,
        length: u64,
        start: (u64, u32),
        stamps: Box<dyn Stamps>,
    ) -> Restamper {
        Restamper { frames, fps, length, start, stamps, parts: 1, numbering: None }
    }

    /// Cut each frame into `parts` packets of one size, numbered in this way.
    #[must_use]
    pub fn in_parts(self, parts: usize, numbering: Numbering) -> Restamper {
        Restamper { parts: parts.max(1), numbering: Some(numbering), ..self }
    }

    /// Packets that a frame is cut into.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// How the packets are numbered, if the format prescribes it.
    #[must_use]
    pub fn numbering(&self) -> Option<Numbering> {
        self.numbering
    }

    /// Let the first loop start with this second, at frame 0. No change for times that the format cannot represent.
    #[must_use]
    pub fn starting_at(mut self, unix_seconds: i64) -> Restamper {
        if let Some(second) = self.stamps.starting_at(unix_seconds) {
            self.start = (second, 0);
        }
        self
    }

    /// Frames of one thread in a second.
    #[must_use]
    pub fn frames_per_second(&self) -> u32 {
        self.fps
    }

    /// Frames (of all threads) in a loop; at least 1.
    #[must_use]
    pub fn frames_per_loop(&self) -> usize {
        self.frames.len()
    }

    /// Seconds that a loop lasts, as frames of one thread over frames per second.
    #[must_use]
    pub fn loop_length(&self) -> (u64, u32) {
        (self.length, self.fps)
    }

    /// Where the payload of frame `index` is in the file; empty beyond the last.
    #[must_use]
    pub fn payload(&self, index: usize) -> Range<usize> {
        self.frames.get(index).map_or(0..0, |frame| frame.payload.clone())
    }

    /// Write the header of frame `index` in this loop to the front of `out`, and return its length: 0 beyond the last
    /// frame, or if `out` is shorter than the header (at most 32 octets).
    pub fn header(&self, iteration: u64, index: usize, out: &mut [u8]) -> usize {
        let Some(frame) = self.frames.get(index) else { return 0 };
        let steps = iteration.wrapping_mul(self.length).wrapping_add(u64::from(frame.number)) as i64;
        let Some((second, number)) = step(self.start.0, self.start.1, steps, Some(self.fps)) else {
            return 0;
        };
        let packets = iteration.wrapping_mul(self.frames.len() as u64) as i64;
        let at = Stamped { packets, second, frame: number, fps: self.fps };
        let Some((octets, length)) = self.stamps.header(index, &at) else { return 0 };
        match out.get_mut(..length) {
            Some(out) => {
                out.copy_from_slice(&octets[..length]);
                length
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        Format, Known,
        mark5b::{self, Mark5b, Mark5bStream},
        spead::SpeadStream,
        vdif::{self, Extended, Header, Vdif, VdifStream, extended::Words},
    };

    fn of_file(file: &[u8], format: Format, fps: Option<u32>) -> Result<Restamper, RestampError> {
        format.restamp(file, fps)
    }

    fn file(extended: Extended, frames: u32, threads: u32) -> Vec<u8> {
        let mut file = Vec::new();
        for n in 0..frames * threads {
            let shape = Vdif::shape(5000, 1, 2, false, extended == Extended::Legacy).unwrap();
            let vdif =
                Vdif { thread: n % threads, ..shape.at(1_767_225_600 + 99, 1598 + n / threads).unwrap() };
            let (octets, length) = Header { vdif, extended }.write();
            file.extend(&octets[..length]);
            file.resize(file.len() + 5000, n as u8);
        }
        file
    }

    /// Every frame of some loops, put together again.
    fn sent(file: &[u8], restamper: &Restamper, loops: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for (iteration, index) in
            (0..loops).flat_map(|n| (0..restamper.frames_per_loop()).map(move |i| (n, i)))
        {
            let mut header = [0; 32];
            let length = restamper.header(iteration, index, &mut header);
            out.extend(&header[..length]);
            out.extend(&file[restamper.payload(index)]);
        }
        out
    }

    #[test]
    fn vdif_runs_on_across_the_second() {
        let vlba = Extended::vlba(32_000_000, false).unwrap();
        let file = file(vlba, 2, 8);
        let restamper = of_file(&file, Format::Auto, None).unwrap();
        assert_eq!(
            (restamper.frames_per_second(), restamper.frames_per_loop(), restamper.loop_length()),
            (1600, 16, (2, 1600))
        );
        let out = sent(&file, &restamper, 3);
        assert_eq!(out[..file.len()], file, "the first loop is the file itself");
        let times: Vec<_> =
            vdif::frames(&out).map(|f| f.unwrap().1.vdif).map(|v| (v.thread, v.seconds, v.frame)).collect();
        assert_eq!(times[15], (7, 99, 1599));
        assert_eq!(times[16], (0, 100, 0));
        assert_eq!(times[47], (7, 100, 3));
        let later = restamper.starting_at(1_782_864_000 + 5);
        let (_, first) = vdif::frames(&sent(&file, &later, 1)).next().unwrap().unwrap();
        assert_eq!((first.vdif.unix_seconds(), first.vdif.frame, first.vdif.epoch), (1_782_864_005, 0, 53));
    }

    #[test]
    fn a_wrong_clock_is_set_right_and_a_sequence_number_goes_on() {
        let r2dbe = Extended::read(&Words { edv: 2, word6: 40, ..Words::default() }.write()).unwrap();
        let mut file = file(r2dbe, 2, 2);
        file[5032..5036].copy_from_slice(&7u32.to_le_bytes());
        let out = sent(&file, &of_file(&file, VdifStream::FAMILY.into(), Some(1600)).unwrap(), 2);
        let headers: Vec<_> = vdif::frames(&out).map(|f| f.unwrap().1).collect();
        assert_eq!(
            headers.iter().map(|h| h.vdif.seconds).collect::<Vec<_>>(),
            [99, 99, 99, 99, 100, 100, 100, 100]
        );
        assert_eq!((headers[0].extended.psn(), headers[4].extended.psn()), (Some(40), Some(44)));
    }

    #[test]
    fn the_end_of_a_second_in_the_file_tells_the_rate() {
        let plain = Extended::Plain(Words::default());
        let mut file = file(plain, 3, 1);
        assert_eq!(of_file(&file, VdifStream::FAMILY.into(), None).unwrap_err(), RestampError::RateUnknown);
        file[2 * 5032..][..8].copy_from_slice(&[100, 0, 0, 0, 0, 0, 0, 52]);
        assert_eq!(of_file(&file, VdifStream::FAMILY.into(), None).unwrap().frames_per_second(), 1600);
    }

    #[test]
    fn mark5b_runs_on_with_bcd_and_crc_also_inside_vdif() {
        let time = mark5b::Time { day: 999, second: 86_399, frame: 6399 };
        let mark = Mark5b::new(time, 9998);
        let file: Vec<u8> = [&mark.write()[..], &[3; mark5b::PAYLOAD]].concat();
        let restamper = of_file(&file, Format::Auto, Some(6400)).unwrap();
        let out = sent(&file, &restamper, 3);
        let (second, _) = Mark5b::read(&out[mark5b::FRAME..]).unwrap();
        assert_eq!(second, Mark5b::new(mark5b::Time { day: 0, second: 0, frame: 0 }, 0));
        assert_eq!(Mark5b::read(&out[2 * mark5b::FRAME..]).unwrap().0.fraction_bcd, 1);
        let begun = restamper.starting_at(1_767_225_600 + 7);
        let (first, _) = Mark5b::read(&sent(&file, &begun, 1)).unwrap();
        assert_eq!(mark5b::unix_seconds(first.time().unwrap().day, 7, 1_767_225_600), 1_767_225_607);

        let vdif = Vdif::shape(10_000, 8, 2, false, false).unwrap().at(1_767_225_600, 6399).unwrap();
        let (octets, _) = Header { vdif, extended: Extended::Mark5b(mark) }.write();
        let file = [&octets[..], &[3; 10_000]].concat();
        let out = sent(&file, &of_file(&file, Format::Auto, Some(6400)).unwrap(), 2);
        let (_, next) = vdif::frames(&out).last().unwrap().unwrap();
        assert_eq!((next.vdif.seconds, next.vdif.frame), (1, 0));
        assert_eq!(
            next.extended,
            Extended::Mark5b(Mark5b::new(mark5b::Time { day: 0, second: 0, frame: 0 }, 0))
        );
    }

    #[test]
    fn each_refusal() {
        let plain = Extended::Plain(Words::default());
        let new = |file: &[u8], format, fps| of_file(file, format, fps).unwrap_err();
        assert_eq!(new(&[], Format::Auto, Some(1)), RestampError::Empty);
        assert_eq!(new(&[], Mark5bStream::FAMILY.into(), Some(1)), RestampError::Empty);
        let cut = &file(plain, 2, 1)[..9000];
        assert_eq!(
            new(cut, VdifStream::FAMILY.into(), Some(1)),
            RestampError::Broken { at: 5032, reason: Reject::Truncated }
        );
        assert_eq!(new(&file(plain, 1, 1), VdifStream::FAMILY.into(), Some(0)), RestampError::BadRate);
        assert_eq!(
            new(&[0; 20_000], Mark5bStream::FAMILY.into(), Some(1)),
            RestampError::Broken { at: 0, reason: Reject::BadMagic }
        );
        assert_eq!(new(&[], SpeadStream::FAMILY.into(), None), RestampError::NoFrames("spead"));
        let one = file(plain, 1, 1);
        let restamper = of_file(&one, VdifStream::FAMILY.into(), Some(2000)).unwrap();
        assert_eq!((restamper.header(0, 1, &mut [0; 32]), restamper.header(0, 0, &mut [0; 31])), (0, 0));
        assert_eq!(restamper.payload(1), 0..0);
        assert!(restamper.header(u64::MAX, 0, &mut [0; 32]) <= 32);
    }
}
