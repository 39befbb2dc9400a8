//! Sending a recording: its chunks in order, also while it is being made. Frames go byte for byte, unless they are to have new
//! times; packets that tell their own ends are divided into such as a datagram holds. Frames that the program makes go the
//! same way.
//!
//! The sequence number of a recorded frame is its position in the stream, which its time gives: a receiver sees the frames of
//! missing chunks as lost. Where the times give no order, there is no number, unless it is asked for.
//!
//! What the reader does not give, or gives unproven, is in the supply's [`Account`] as soon as it is met, and makes the
//! sending fail at its end.

use super::clock::{OwnPace, SentTimes};
use super::recorded::{RecordedFrames, RecordedOptions, Restamp, SEGMENT, Told};
use super::sender::{Sequence, Supply};
use super::{HEAD, Packetize};
use crate::recording::{Account, Reader};
use skyhaul_core::wire::{Divided, Numbering, PREFIX, Packets};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

/// Segments that stay readable, so that packets can be sent late or twice.
const MAX_KEPT_SEGMENTS: usize = 4;

/// Whole packets, the number of the first, and where each ends.
#[derive(Debug)]
struct Segment {
    first: u64,
    bytes: Vec<u8>,
    ends: Ends,
    /// Where in the segment runs begin that follow each other in the stream, and their positions.
    runs: Vec<(usize, u64)>,
}

#[derive(Debug)]
enum Ends {
    /// All are of this length.
    Each(usize),
    /// They end here.
    At(Vec<u32>),
}

impl Segment {
    fn packets(&self) -> u64 {
        match &self.ends {
            Ends::Each(unit) => (self.bytes.len() / unit) as u64,
            Ends::At(ends) => ends.len() as u64,
        }
    }

    fn packet(&self, n: usize) -> Option<&[u8]> {
        let (start, end) = match &self.ends {
            Ends::Each(unit) => (n * unit, (n + 1) * unit),
            Ends::At(ends) => (n.checked_sub(1).map_or(0, |n| ends[n] as usize), *ends.get(n)? as usize),
        };
        self.bytes.get(start..end)
    }
}

/// Packets on their way to the sender.
type Cut = (Vec<u8>, Ends, Vec<(usize, u64)>);

/// Makes the next segment of what it reads; an empty one at the end.
type Cutter = Box<dyn FnMut(&mut Reader) -> io::Result<Cut> + Send>;

/// Takes frames that the program makes, for a sender in another thread. Dropping it ends the sender, when all are sent.
#[derive(Debug)]
pub struct Frames(SyncSender<io::Result<Cut>>, usize);

impl Frames {
    /// Give whole frames; at most some megabytes wait for the sender. `Ok(false)`: there is no room yet, and nothing of them
    /// was taken.
    ///
    /// # Errors
    /// The sender has ended; or these are no whole frames.
    pub fn give(&self, frames: &[u8]) -> io::Result<bool> {
        let unit = self.1;
        if !frames.len().is_multiple_of(unit) || frames.len() > self.most() {
            let text = format!("{} bytes are no whole frames of {unit}, or too many", frames.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if frames.is_empty() {
            return Ok(true);
        }
        match self.0.try_send(Ok((frames.to_vec(), Ends::Each(unit), Vec::new()))) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => {
                Err(io::Error::new(io::ErrorKind::BrokenPipe, "the sender has ended"))
            }
        }
    }

    /// Most bytes to give at once: whole frames.
    #[must_use]
    pub fn most(&self) -> usize {
        (SEGMENT / self.1).max(1) * self.1
    }
}

/// The packets of one datastream of a recording.
#[derive(Debug)]
pub struct RecordingSupply {
    segments: Receiver<io::Result<Cut>>,
    kept: VecDeque<Segment>,
    packet_bytes: usize,
    upto: u64,
    ended: bool,
    sequence: Sequence,
    name: String,
    account: Account,
    error: Option<String>,
    /// Of recorded frames: how they are numbered.
    numbering: Option<Numbering>,
    told: Option<Told>,
    restamp: Option<Restamp>,
}

impl RecordingSupply {
    /// Frames from `reader`, each a packet. Waits for the first of them.
    ///
    /// # Errors
    /// A thread cannot be started, the recording cannot be read, frames are longer than any that are sent, or a rate or new
    /// times are asked for that the headers do not allow.
    pub fn frames(mut reader: Reader, options: RecordedOptions, name: String) -> io::Result<Self> {
        let unit = options.unit as usize;
        if unit > SEGMENT {
            let text = format!("frames of {unit} bytes cannot be sent: at most {SEGMENT}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut frames = RecordedFrames::begin(&mut reader, options)?;
        let (unit, sequence, numbering) = (frames.unit(), frames.sequence(), frames.numbering());
        let (told, restamp) = (frames.told(), frames.restamp());
        let cut = move |reader: &mut Reader| {
            let (bytes, runs) = frames.next(reader)?;
            Ok((bytes, Ends::Each(unit), runs))
        };
        let supply = Self::start(reader, Box::new(cut), unit, sequence, name)?;
        Ok(Self { told: Some(told), restamp, numbering, ..supply })
    }

    /// Stored packets from `reader`, divided into such of at most `most` bytes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn packets(
        reader: Reader,
        packets: &'static dyn Packets,
        most: usize,
        name: String,
    ) -> io::Result<Self> {
        let mut divider = Divider { packets, most, head: Vec::new(), done: Divided::default() };
        let cut = move |reader: &mut Reader| {
            let (bytes, ends) = divider.segment(reader)?;
            Ok((bytes, ends, Vec::new()))
        };
        let sequence = Sequence { order: None, first: 0 };
        Self::start(reader, Box::new(cut), most.min(SEGMENT), sequence, name)
    }

    /// Frames of `unit` bytes that are given one after another.
    #[must_use]
    pub fn given(unit: usize, sequence: Sequence, name: String) -> (Frames, Self) {
        let unit = unit.max(1);
        let (send, segments) = sync_channel(MAX_KEPT_SEGMENTS);
        (Frames(send, unit), Self::of(segments, Account::default(), unit, sequence, name))
    }

    fn start(
        mut reader: Reader,
        mut cut: Cutter,
        packet_bytes: usize,
        sequence: Sequence,
        name: String,
    ) -> io::Result<Self> {
        let (send, segments) = sync_channel(MAX_KEPT_SEGMENTS);
        let account = reader.account();
        std::thread::Builder::new().name("read-recording".into()).spawn(move || {
            loop {
                let segment = cut(&mut reader);
                let end = segment.as_ref().map_or(true, |(bytes, ..)| bytes.is_empty());
                if send.send(segment).is_err() || end {
                    return;
                }
            }
        })?;
        Ok(Self::of(segments, account, packet_bytes, sequence, name))
    }

    fn of(
        segments: Receiver<io::Result<Cut>>,
        account: Account,
        packet_bytes: usize,
        sequence: Sequence,
        name: String,
    ) -> Self {
        Self {
            segments,
            kept: VecDeque::new(),
            packet_bytes,
            upto: 0,
            ended: false,
            sequence,
            name,
            account,
            error: None,
            numbering: None,
            told: None,
            restamp: None,
        }
    }
}

/// Divides stored packets into such as can be sent.
struct Divider {
    packets: &'static dyn Packets,
    most: usize,
    /// The head of the stored packet that is under way; empty between two.
    head: Vec<u8>,
    done: Divided,
}

impl Divider {
    fn segment(&mut self, reader: &mut Reader) -> io::Result<(Vec<u8>, Ends)> {
        let (mut bytes, mut ends) = (Vec::with_capacity(SEGMENT), Vec::new());
        while bytes.len() < SEGMENT {
            if self.head.is_empty() && !self.next_head(reader)? {
                break;
            }
            let before = self.done.payload;
            let Some(done) = self.packets.divide(&self.head, self.done, self.most, &mut bytes) else {
                self.head.clear();
                self.done = Divided::default();
                continue;
            };
            let payload = done.payload - before;
            if reader.take(payload).read_to_end(&mut bytes)? as u64 != payload {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the recording ends within a packet",
                ));
            }
            self.done = done;
            ends.push(u32::try_from(bytes.len()).map_err(io::Error::other)?);
        }
        Ok((bytes, Ends::At(ends)))
    }

    /// Read the next stored head; false at the end.
    fn next_head(&mut self, reader: &mut Reader) -> io::Result<bool> {
        loop {
            // No more than the head: heads are whole words of four bytes.
            let read = reader.take(4).read_to_end(&mut self.head)?;
            match self.packets.place(&self.head) {
                Ok(Some(_)) => return Ok(true),
                Ok(None) if read > 0 => {}
                Ok(None) if self.head.is_empty() => return Ok(false),
                Ok(None) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the recording ends within a packet header",
                    ));
                }
                Err(why) => {
                    let text = format!("invalid data after a packet of the recording: {}", why.name());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
    }
}

impl RecordingSupply {
    fn segment(&self, n: u64) -> Option<&Segment> {
        self.kept.iter().rev().find(|segment| segment.first <= n)
    }
}

impl Packetize for RecordingSupply {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        let number = if self.told.as_ref().is_some_and(Told::by_position) { self.place(n).0 } else { n };
        let number = match self.numbering {
            Some(numbering) => {
                head[..PREFIX].copy_from_slice(&numbering.write(self.sequence.first.wrapping_add(number)));
                PREFIX
            }
            None => self.sequence.write(number, head),
        };
        let packet = self.segment(n).and_then(|s| s.packet((n - s.first) as usize)).unwrap_or_default();
        let header = self.restamp.as_ref().map_or(0, |restamp| restamp.header(packet, &mut head[number..]));
        (number + header, &packet[header..])
    }

    fn packet_bytes(&self) -> usize {
        self.packet_bytes + if self.sequence.order.is_some() { 8 } else { 0 }
    }
}

impl Supply for RecordingSupply {
    fn available(&mut self, next: u64) -> (u64, bool) {
        if self.ended || self.kept.back().is_some_and(|last| next < last.first) {
            return (self.upto, !self.ended);
        }
        match self.segments.try_recv() {
            Ok(Ok((bytes, ends, runs))) if !bytes.is_empty() => {
                let segment = Segment { first: self.upto, bytes, ends, runs };
                self.upto += segment.packets();
                self.kept.push_back(segment);
                if self.kept.len() > MAX_KEPT_SEGMENTS {
                    self.kept.pop_front();
                }
            }
            Ok(Err(e)) => (self.ended, self.error) = (true, Some(e.to_string())),
            Ok(Ok(_)) | Err(TryRecvError::Disconnected) => self.ended = true,
            Err(TryRecvError::Empty) => {}
        }
        (self.upto, !self.ended)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn pace(&self) -> Option<OwnPace> {
        self.told.as_ref()?.pace(self.packet_bytes() as u64)
    }

    fn place(&self, n: u64) -> (u64, u64) {
        let Some(segment) = self.segment(n) else { return (n, n + 1) };
        let within = (n - segment.first) as usize;
        let next = segment.runs.partition_point(|&(first, _)| first <= within);
        let Some(&(first, position)) = next.checked_sub(1).and_then(|run| segment.runs.get(run)) else {
            return (n, u64::MAX);
        };
        let end = segment.runs.get(next).map_or(segment.packets(), |&(first, _)| first as u64);
        (position + (within - first) as u64, segment.first + end)
    }

    fn times(&self) -> Option<SentTimes> {
        let moved = self.restamp.as_ref().map(Restamp::seconds);
        self.told.as_ref().map(|told| told.times(moved))
    }

    fn notes(&self) -> Vec<String> {
        self.told.as_ref().map(Told::notes).unwrap_or_default()
    }

    fn failure(&self) -> Option<String> {
        let gaps = self.account.gaps();
        let amiss = || match gaps {
            1 => "part of the recording is missing or unverified".to_owned(),
            _ => format!("{gaps} parts of the recording are missing or unverified"),
        };
        self.error.clone().or_else(|| (gaps > 0).then(amiss))
    }
}
