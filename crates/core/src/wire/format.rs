//! What is known of one sender's stream: plain data, from which its layout, its fill and its times follow.
//!
//! A [`Learner`](super::Learner) finds it from the first packets; everything in it may be changed before the layout
//! is made (a known frame rate, another way to place).

use super::{
    ejfat::EjfatLayout,
    fila10g::{Fila10gLayout, Phase},
    fill::Filler,
    header::Order,
    layout::{AnyLayout, Blocks, Keep, Place},
    mark5b::{self, Mark5b, Mark5bLayout},
    spead::{Flavour, SpeadLayout},
    vdif::{Vdif, VdifLayout},
};
use crate::placement::Reject;
use std::fmt;

/// A format by the name a user gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Whichever it turns out to be.
    #[default]
    Auto,
    /// VDIF, with or without a VTP sequence number.
    Vdif,
    /// Mark 5B frames, with or without a sequence number.
    Mark5b,
    /// Mark 5B half frames of a FILA10G.
    Fila10g,
    /// SPEAD-64-XX.
    Spead,
    /// EJFAT reassembly segments, with or without the load balancer's header.
    Ejfat,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Auto, Format::Vdif, Format::Mark5b, Format::Fila10g, Format::Spead, Format::Ejfat];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Auto => "auto",
            Format::Vdif => "vdif",
            Format::Mark5b => "mark5b",
            Format::Fila10g => "fila10g",
            Format::Spead => "spead",
            Format::Ejfat => "ejfat",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no format '{}'; there are", self.0)?;
        Format::ALL.iter().try_for_each(|format| write!(f, " {format}"))
    }
}

impl std::error::Error for UnknownFormat {}

impl std::str::FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let known = Format::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(&plain));
        known.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// Something about a stream that its standard does not allow, or that makes it harder to use. It is survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quirk {
    /// VDIF: this many bits per sample are most likely one too many (the field holds bits less one).
    BitsPerSample(u32),
    /// VDIF: the clock of a thread is wrong; these seconds are added to place it.
    WrongSeconds {
        /// The thread.
        thread: u16,
        /// Seconds to add to its clock.
        shift: i64,
    },
    /// VDIF: the version is not 1.
    Version(u32),
    /// VDIF: bits that are unassigned are not zero.
    Unassigned,
    /// VDIF: the reference epoch is more than a half-year before the data.
    OldEpoch,
    /// VDIF: EDV 1 tells the rate, and its writers differ by a factor of two in what they mean.
    RateOfEdv1,
    /// VDIF: frame numbers go beyond the rate that the header tells; the rate is not used.
    RateTooLow,
    /// VDIF: different packets have the same time and thread, as when several boards send thread 0.
    RepeatedTime,
    /// VTP: there are eight octets before the frame that do not count packets.
    NoSequence,
    /// VTP: each thread counts its own packets; placed by time.
    SequencePerThread,
    /// Mark 5B: no CRC is written.
    NoChecksum,
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quirk::BitsPerSample(bits) => {
                write!(f, "{bits} bits per sample: most likely {}, written one too high", bits - 1)
            }
            Quirk::WrongSeconds { thread, shift } => {
                write!(f, "clock of thread {thread} is wrong: {shift:+} s to place it")
            }
            Quirk::Version(version) => write!(f, "VDIF version {version}"),
            Quirk::Unassigned => f.write_str("unassigned header bits are set"),
            Quirk::OldEpoch => f.write_str("reference epoch is more than half a year old"),
            Quirk::RateOfEdv1 => f.write_str(
                "frame rate from EDV 1, which some writers mean as twice that; give it to be sure",
            ),
            Quirk::RateTooLow => f.write_str("frame numbers exceed the header's sample rate: rate unknown"),
            Quirk::RepeatedTime => f.write_str("several frames have the same time and thread"),
            Quirk::NoSequence => f.write_str("eight octets before the frame are no sequence number"),
            Quirk::SequencePerThread => f.write_str("each thread counts its own packets: placed by time"),
            Quirk::NoChecksum => f.write_str("no Mark 5B CRC"),
        }
    }
}

/// Second and frame number of the frame `steps` further on, of the same thread. Where the rate is unknown the second
/// stays; `None` where that cannot be, or no such time is.
#[must_use]
pub(crate) fn step(second: u64, frame: u32, steps: i64, fps: Option<u32>) -> Option<(u64, u32)> {
    let Some(fps) = fps.filter(|&fps| fps > 0).map(u64::from) else {
        return Some((second, u32::try_from(i64::from(frame).checked_add(steps)?).ok()?));
    };
    let linear = second.checked_mul(fps)?.checked_add(u64::from(frame))?.checked_add_signed(steps)?;
    Some((linear / fps, (linear % fps) as u32))
}

/// When the samples of a frame were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameTime {
    /// Unix time of the second it lies in.
    pub unix_seconds: i64,
    /// Frame in that second.
    pub frame: u32,
    /// Thread; 0 where the format has none.
    pub thread: u16,
}

/// A thread of a VDIF stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub id: u16,
    /// Seconds to add to its clock.
    pub shift: i64,
    /// The header of one of its frames; empty where none was seen.
    pub header: Vec<u8>,
}

/// Everything known of one sender's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFormat {
    /// Which format; never [`Format::Auto`].
    pub format: Format,
    /// Which octets of a datagram are kept.
    pub keep: Keep,
    /// How packets are placed; never [`Place::Auto`].
    pub place: Place,
    /// Room for an object, octets.
    pub object_bytes: u64,
    /// Octets of the network format before each frame.
    pub network_bytes: usize,
    /// Byte order of the sequence number before each frame, where there is one.
    pub sequence: Option<Order>,
    /// Octets of a datagram; 0 where they differ (SPEAD, EJFAT).
    pub packet_bytes: usize,
    /// Octets of a frame: of the half frame for FILA10G.
    pub frame_bytes: usize,
    /// Octets of the frame's header.
    pub header_bytes: usize,
    /// The threads in the order of their ranks (VDIF); one without number otherwise.
    pub threads: Vec<Thread>,
    /// Frames of one thread in a second.
    pub frames_per_second: Option<u32>,
    /// Station, where the header tells.
    pub station: Option<String>,
    /// Extended data version of VDIF; `None` for legacy headers.
    pub edv: Option<u8>,
    /// Bits per sample, or component of a complex one; 0 where the header does not tell.
    pub bits: u32,
    /// Channels in a thread; 0 where the header does not tell.
    pub channels: u64,
    /// Samples are complex.
    pub complex: bool,
    /// Which datagrams are first halves (FILA10G).
    pub phase: Option<Phase>,
    /// Flavour (SPEAD).
    pub flavour: Option<Flavour>,
    /// Data ids seen (EJFAT), ascending.
    pub data_ids: Vec<u16>,
    /// What is odd about it.
    pub quirks: Vec<Quirk>,
    /// A Unix time not more than 500 days from the data, to complete Mark 5B dates.
    pub near: i64,
}

impl StreamFormat {
    /// Where in a kept unit the frame's header starts; `None` where it was stripped.
    #[must_use]
    pub fn header_at(&self) -> Option<usize> {
        self.network_bytes.checked_sub(self.keep.stripped(self.network_bytes))
    }

    /// Octets kept of each packet; 0 where packets differ in size.
    #[must_use]
    pub fn unit_bytes(&self) -> usize {
        self.packet_bytes.saturating_sub(self.keep.stripped(self.network_bytes))
    }

    /// Units that are never divided between objects: one frame of each thread, both halves of a frame.
    #[must_use]
    pub fn group(&self) -> usize {
        if self.format == Format::Fila10g { 2 } else { self.threads.len().max(1) }
    }

    /// The layout of its packets.
    ///
    /// # Errors
    /// [`Reject::Outside`] where an object has no room for one frame of each thread, [`Reject::WrongSize`] where
    /// nothing of a packet is kept, [`Reject::BadField`] for an impossible frame rate, [`Reject::UnknownThread`] for
    /// impossible threads, [`Reject::Unrecognised`] where what the layout needs was not filled in.
    pub fn layout(&self) -> Result<AnyLayout, Reject> {
        let start = self.keep.stripped(self.network_bytes);
        let blocks = || Blocks::new(self.packet_bytes, start, self.group(), self.object_bytes);
        let sequence = self.sequence.filter(|_| self.place != Place::Time);
        Ok(match self.format {
            Format::Auto => return Err(Reject::Unrecognised),
            Format::Vdif => AnyLayout::Vdif(self.vdif_layout(blocks()?, sequence)?),
            Format::Mark5b => {
                AnyLayout::Mark5b(Mark5bLayout::new(blocks()?, sequence, self.frames_per_second)?)
            }
            Format::Fila10g => {
                AnyLayout::Fila10g(Fila10gLayout::new(blocks()?, self.phase.ok_or(Reject::Unrecognised)?)?)
            }
            Format::Spead => AnyLayout::Spead(SpeadLayout {
                flavour: self.flavour.ok_or(Reject::Unrecognised)?,
                heap_bytes: self.object_bytes,
            }),
            Format::Ejfat => {
                let only = if let [id] = self.data_ids[..] { Some(id) } else { None };
                AnyLayout::Ejfat(EjfatLayout { data_id: only, event_bytes: self.object_bytes })
            }
        })
    }

    fn vdif_layout(&self, blocks: Blocks, sequence: Option<Order>) -> Result<VdifLayout, Reject> {
        let length8 = u32::try_from(self.frame_bytes / 8).map_err(|_| Reject::WrongSize)?;
        let frame = Vdif { length8, legacy: u32::from(self.header_bytes == 16), ..Vdif::default() };
        if let Some(order) = sequence {
            return VdifLayout::by_sequence(blocks, &frame, order);
        }
        let threads: Vec<(u16, i64)> = self.threads.iter().map(|thread| (thread.id, thread.shift)).collect();
        VdifLayout::by_time(blocks, &frame, &threads, self.frames_per_second)
    }

    /// What fills the holes of its objects.
    #[must_use]
    pub fn filler(&self) -> Filler {
        Filler::new(self.clone())
    }

    /// Take this as the frames of one thread in a second.
    ///
    /// # Errors
    /// As [`layout`](Self::layout); the format is then unchanged.
    pub fn set_frames_per_second(&mut self, frames: u32) -> Result<(), Reject> {
        let before = self.frames_per_second.replace(frames);
        self.layout().map(|_| ()).inspect_err(|_| self.frames_per_second = before)
    }

    /// When the samples of `unit` (what is kept of a packet) were taken; `None` where its header does not tell, or
    /// was stripped. A thread's wrong clock is set right.
    #[must_use]
    pub fn frame_time(&self, unit: &[u8]) -> Option<FrameTime> {
        let frame = unit.get(self.header_at()?..)?;
        match self.format {
            Format::Vdif => {
                let (vdif, _) = Vdif::read(frame)?;
                let thread = vdif.thread as u16;
                let shift = self.threads.iter().find(|t| t.id == thread).map_or(0, |t| t.shift);
                let unix_seconds = vdif.unix_seconds().checked_add(shift)?;
                Some(FrameTime { unix_seconds, frame: vdif.frame, thread })
            }
            Format::Mark5b | Format::Fila10g => {
                let time = Mark5b::read(frame)?.0.time().ok()?;
                let unix_seconds = mark5b::unix_seconds(time.day, time.second, self.near);
                Some(FrameTime { unix_seconds, frame: self.mark5b_frame(time.frame), thread: 0 })
            }
            _ => None,
        }
    }

    /// Where 15 bits are enough for the frames of a second, bit 15 is the test bit.
    fn mark5b_frame(&self, frame16: u32) -> u32 {
        if self.frames_per_second.is_some_and(|fps| fps <= 1 << 15) { frame16 & 0x7FFF } else { frame16 }
    }

    /// One line for a human.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts = vec![match (self.format, self.sequence) {
            (Format::Vdif, Some(Order::Little)) => "vdif over VTP (little-endian)".to_owned(),
            (Format::Vdif, Some(Order::Big)) => "vdif over VTP (big-endian)".to_owned(),
            (format, Some(_)) => format!("{format} with sequence numbers"),
            (format, None) => format.to_string(),
        }];
        match (self.format, self.edv) {
            (Format::Vdif, None) => parts.push("legacy".to_owned()),
            (Format::Vdif, Some(edv)) => parts.push(format!("EDV {edv:#x}")),
            _ => {}
        }
        if self.frame_bytes > 0 {
            parts.push(format!("{}-byte frames", self.frame_bytes));
        }
        if self.bits > 0 {
            let complex = if self.complex { " complex" } else { "" };
            parts.push(format!("{} bit{complex} × {} channels", self.bits, self.channels));
        }
        if self.format == Format::Vdif {
            let ids: Vec<String> = self.threads.iter().take(16).map(|t| t.id.to_string()).collect();
            let more = if self.threads.len() > ids.len() { "…" } else { "" };
            parts.push(format!("threads {}{more}", ids.join(",")));
        }
        if let Some(flavour) = self.flavour {
            parts.push(format!("SPEAD-64-{}", flavour.address_bits()));
        }
        if !self.data_ids.is_empty() {
            parts.push(format!("data ids {:?}", self.data_ids));
        }
        match self.frames_per_second {
            Some(fps) => parts.push(format!("{fps} frames/s")),
            None if self.frame_bytes > 0 => parts.push("frame rate unknown".to_owned()),
            None => {}
        }
        parts.extend(self.station.as_ref().map(|station| format!("station {station}")));
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("Mark-5B".parse(), Ok(Format::Mark5b));
        assert_eq!(
            "mk6".parse::<Format>().unwrap_err().to_string(),
            "no format 'mk6'; there are auto vdif mark5b fila10g spead ejfat"
        );
    }
}
