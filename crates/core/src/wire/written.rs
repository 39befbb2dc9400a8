//! Generated streams, and headers for frames made from samples.

use crate::samples::Coding;
use crate::sky::Sky;
use std::fmt;

/// A stream of frames to be written.
#[derive(Clone, Debug)]
pub struct Written {
    /// Bits of an elementary sample.
    pub bits: u32,
    /// Channels of a thread.
    pub channels: u32,
    /// Samples have a real and an imaginary part.
    pub complex: bool,
    /// Complete samples per second.
    pub sample_rate: u64,
    /// Payload bytes of a frame; `None`: as is usual for the format.
    pub payload: Option<usize>,
    /// Threads, in the order of their columns.
    pub threads: Vec<u16>,
    /// Time of the first frame: Unix second, and the nanoseconds in it.
    pub start: (i64, u32),
    /// Two letters, or a number.
    pub station: String,
    /// The version of the header, of formats that have several: `legacy`, or a number.
    pub version: Option<String>,
}

impl Written {
    /// Number of complete samples in a payload; `None` if it does not hold a whole number of them.
    #[must_use]
    pub fn rows_of(&self, payload: usize) -> Option<u64> {
        let row = u64::from(self.channels) * u64::from(self.bits) * (1 + u64::from(self.complex));
        let bits = payload as u64 * 8;
        (row > 0 && bits > 0 && bits.is_multiple_of(row)).then(|| bits / row)
    }

    /// Frames per second, and the number of the first frame in its second.
    ///
    /// # Errors
    /// Why frames of this payload cannot be written at this rate and time.
    pub fn frames(&self, payload: usize) -> Result<(u32, u32), String> {
        let rows = self.rows_of(payload).ok_or_else(|| {
            let kind = if self.complex { "complex" } else { "real" };
            format!(
                "{payload} bytes hold no whole number of {kind} samples of {} channels of {} bits",
                self.channels, self.bits
            )
        })?;
        let fps = self.sample_rate.checked_div(rows).filter(|fps| fps * rows == self.sample_rate && *fps > 0);
        let fps = fps.and_then(|fps| u32::try_from(fps).ok()).ok_or_else(|| {
            format!("{} samples/s are no whole number of frames of {rows} samples", self.sample_rate)
        })?;
        // The frame that begins at this time, to the nanosecond.
        let (second, nanoseconds) = (1_000_000_000u64, u64::from(self.start.1));
        let first = (nanoseconds * u64::from(fps)).div_ceil(second);
        if nanoseconds >= second || first * second / u64::from(fps) != nanoseconds {
            return Err(format!("no frame begins at this time: there are {fps} in each second"));
        }
        Ok((fps, first as u32))
    }
}

/// Makes the headers of such a stream.
pub trait Headers: fmt::Debug + Send + Sync {
    /// Payload bytes of a frame.
    fn payload(&self) -> usize;
    /// How an elementary sample is written.
    fn coding(&self) -> Coding;
    /// The header of frame `n` since the first, of the thread with this rank: its bytes, and their number. `None` if its time
    /// does not fit the header.
    fn header(&self, n: u64, rank: usize, valid: bool) -> Option<([u8; 32], usize)>;
}

/// Settings of a generated stream.
#[derive(Clone, Debug)]
pub struct Made {
    /// Payload bytes of a frame.
    pub payload: usize,
    /// Threads, numbered from 0; each frame number is sent once per thread.
    pub threads: u16,
    /// Frames per second of each thread.
    pub frames_per_second: u32,
    /// Time of the first frame, Unix seconds.
    pub start: i64,
    /// Two ASCII characters.
    pub station: String,
    /// What its frames hold.
    pub payloads: SynthPayload,
}

/// What the frames of a generated stream hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SynthPayload {
    /// Payloads that verify themselves.
    Pattern,
    /// Two-bit noise with a tone.
    Noise,
    /// Two-bit samples of the sky, by the times of the frames.
    Sky(Sky),
}

impl SynthPayload {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Noise => "noise",
            Self::Sky(_) => "sky",
        }
    }
}

/// Generates streams of one family.
pub trait Generator: Sync {
    /// Prepare a stream.
    ///
    /// # Errors
    /// Why the settings are invalid, with a hint.
    fn begin(&self, made: Made) -> Result<Box<dyn Generated>, String>;

    /// Whether its frames may have a sequence number before them.
    fn takes_sequence(&self) -> bool {
        true
    }
}

/// A generated stream: each frame is made from its number alone.
pub trait Generated: fmt::Debug + Send {
    /// Make the payloads of frames from `next` on, where each is made anew; returns the end of those that [`frame`](Self::frame)
    /// can return until the next call.
    fn prepare(&mut self, next: u64) -> u64 {
        let _ = next;
        u64::MAX
    }
    /// Write the header of frame `n` to the front of `head`; returns its length and the payload.
    fn frame(&self, n: u64, head: &mut [u8]) -> (usize, &[u8]);
    /// Number of bytes of a frame.
    fn frame_bytes(&self) -> usize;
    /// A description.
    fn describe(&self) -> String;
}
