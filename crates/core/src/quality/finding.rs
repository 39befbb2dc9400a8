//! What can be wrong, in words and with what was measured.

use std::fmt;

/// What is wrong with a thread of a stream, with what was measured. The documentation of each is `docs/reference/quality.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QualityFinding {
    /// One state holds nearly all samples of a channel.
    DeadChannel {
        /// The channel.
        channel: u32,
        /// The state, in offset binary.
        code: u32,
        /// Its share of all samples.
        share: f64,
    },
    /// A bit of the samples of a channel never changes, while others do.
    StuckBit {
        /// The channel.
        channel: u32,
        /// The bit of the code in offset binary, the lowest is 0.
        bit: u32,
        /// What it always is.
        is_set: bool,
    },
    /// The samples of a channel are not centred on zero.
    DcOffset {
        /// The channel.
        channel: u32,
        /// The offset in standard deviations of the noise.
        sigmas: f64,
    },
    /// Too few samples of a channel are in the outer states.
    LevelLow {
        /// The channel.
        channel: u32,
        /// The share in the outermost states.
        outer: f64,
    },
    /// Too many samples of a channel are in the outer states.
    LevelHigh {
        /// The channel.
        channel: u32,
        /// The share in the outermost states.
        outer: f64,
    },
    /// All states of all channels are equally frequent, as of random bits.
    FlatStates {
        /// The largest deviation of a state's share from that of an even distribution.
        deviation: f64,
    },
    /// The bits of a word are those of samples of another width than the header states.
    BitsPerSample {
        /// By the header.
        stated: u32,
        /// By the samples.
        found: u32,
    },
    /// Samples are related to their neighbours in another order of the bytes or bits, and not as they lie.
    ByteOrder {
        /// The order in which they are.
        order: SampleOrder,
        /// Correlation of neighbours as they lie (sum of squares over lags).
        as_is: f64,
        /// The same in that order.
        reordered: f64,
    },
    /// Sign and magnitude of two-bit samples are exchanged.
    SignMagnitude {
        /// Correlation of neighbours as they lie (sum of squares over lags).
        as_is: f64,
        /// The same with both exchanged.
        exchanged: f64,
    },
    /// A channel has the same samples as another.
    CopiedChannel {
        /// The channel.
        channel: u32,
        /// Thread of the other.
        of_thread: u16,
        /// The other.
        of_channel: u32,
    },
    /// Frames hold one word over and over: zeros, fill, or a test vector.
    ConstantPayload {
        /// The word, little-endian.
        word: u32,
        /// The share of such frames.
        share: f64,
    },
    /// Frames of different times have the same payload.
    RepeatedPayload {
        /// The share of such frames.
        share: f64,
    },
    /// Frames are marked invalid by the sender.
    InvalidFrames {
        /// Their share.
        share: f64,
    },
    /// The phase-cal tones of a channel are missing, or no longer there.
    PhaseCalMissing {
        /// The channel.
        channel: u32,
        /// Their spacing, Hz.
        spacing_hz: f64,
        /// The excess of power at their frequencies in standard deviations of the noise.
        sigmas: f64,
    },
    /// Times in the headers are not UTC.
    DataTime {
        /// Data time less the time of arrival, nanoseconds.
        offset_nanos: i128,
        /// What the offset looks like.
        guess: ClockGuess,
    },
    /// The clock of a thread differs from that of the others.
    ThreadTime {
        /// Its time less theirs, seconds; 0: the frame numbers alone differ.
        seconds: i64,
        /// And in frames.
        frames: i64,
    },
    /// The station of a thread differs from that of the others.
    ThreadStation {
        /// In its headers, as coded.
        station: u32,
        /// In those of most others.
        others: u32,
    },
    /// Several senders send this thread of the same station.
    SharedThread {
        /// How many.
        senders: u32,
    },
    /// Seconds have another number of frames than the headers or an option state.
    FrameRate {
        /// By headers, or an option.
        stated: u32,
        /// By the times of the frames.
        found: u32,
    },
}

impl QualityFinding {
    /// The names of all findings, as reports, alarms and metrics have them.
    pub const NAMES: [&'static str; 19] = [
        "dead_channel",
        "stuck_bit",
        "dc_offset",
        "level_low",
        "level_high",
        "flat_states",
        "bits_per_sample",
        "byte_order",
        "sign_magnitude",
        "copied_channel",
        "constant_payload",
        "repeated_payload",
        "invalid_frames",
        "phase_cal_missing",
        "data_time",
        "thread_time",
        "thread_station",
        "shared_thread",
        "frame_rate",
    ];

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let at = match self {
            Self::DeadChannel { .. } => 0,
            Self::StuckBit { .. } => 1,
            Self::DcOffset { .. } => 2,
            Self::LevelLow { .. } => 3,
            Self::LevelHigh { .. } => 4,
            Self::FlatStates { .. } => 5,
            Self::BitsPerSample { .. } => 6,
            Self::ByteOrder { .. } => 7,
            Self::SignMagnitude { .. } => 8,
            Self::CopiedChannel { .. } => 9,
            Self::ConstantPayload { .. } => 10,
            Self::RepeatedPayload { .. } => 11,
            Self::InvalidFrames { .. } => 12,
            Self::PhaseCalMissing { .. } => 13,
            Self::DataTime { .. } => 14,
            Self::ThreadTime { .. } => 15,
            Self::ThreadStation { .. } => 16,
            Self::SharedThread { .. } => 17,
            Self::FrameRate { .. } => 18,
        };
        Self::NAMES[at]
    }

    /// The channel, if it is about one.
    #[must_use]
    pub fn channel(&self) -> Option<u32> {
        match *self {
            Self::DeadChannel { channel, .. }
            | Self::StuckBit { channel, .. }
            | Self::DcOffset { channel, .. }
            | Self::LevelLow { channel, .. }
            | Self::LevelHigh { channel, .. }
            | Self::CopiedChannel { channel, .. }
            | Self::PhaseCalMissing { channel, .. } => Some(channel),
            _ => None,
        }
    }

    /// Whether it is the same finding, whatever was measured.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let bit = |of: &Self| match of {
            Self::StuckBit { bit, .. } => *bit,
            _ => 0,
        };
        (self.name(), self.channel(), bit(self)) == (other.name(), other.channel(), bit(other))
    }

    /// Whether its beginning and end are events of their own. Clocks and rates have theirs, from every frame ([`crate::wire::Timeline`],
    /// [`crate::wire::OffsetWatch`]), and notes need none.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.is_alarm() && !matches!(self, Self::DataTime { .. } | Self::FrameRate { .. })
    }

    /// Whether it should alarm an operator. Threads of one number from several senders are usual where senders are distinguished by
    /// their addresses.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        !matches!(self, Self::SharedThread { .. })
    }
}

impl fmt::Display for QualityFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::DeadChannel { channel, code, share } => {
                write!(f, "channel {channel} is dead: state {code} in {}", percent(share))
            }
            Self::StuckBit { channel, bit, is_set } => {
                write!(f, "channel {channel}: bit {bit} is always {}", u32::from(is_set))
            }
            Self::DcOffset { channel, sigmas } => {
                write!(f, "channel {channel}: sampler offset of {sigmas:+.2} standard deviations")
            }
            Self::LevelLow { channel, outer } => {
                write!(f, "channel {channel}: level too low, {} in the outer states", percent(outer))
            }
            Self::LevelHigh { channel, outer } => {
                write!(f, "channel {channel}: level too high, {} in the outer states", percent(outer))
            }
            Self::FlatStates { deviation } => write!(
                f,
                "all states equally frequent (within {}): wrong bits per sample, a test pattern, or a level 3.4 dB too high",
                percent(deviation)
            ),
            Self::BitsPerSample { stated, found } => {
                write!(f, "the header states {stated} bits per sample, the samples have {found}")
            }
            Self::ByteOrder { order, as_is, reordered } => write!(
                f,
                "byte order suspected: {order} (correlation of neighbouring samples {reordered:.4}, as they lie {as_is:.4})"
            ),
            Self::SignMagnitude { as_is, exchanged } => write!(
                f,
                "sign and magnitude bits exchanged (correlation of neighbouring samples {exchanged:.4}, as they lie {as_is:.4})"
            ),
            Self::CopiedChannel { channel, of_thread, of_channel } => {
                write!(f, "channel {channel} is a copy of channel {of_channel} of thread {of_thread}")
            }
            Self::ConstantPayload { word: 0, share } => {
                write!(f, "zeros in {} of the frames", percent(share))
            }
            Self::ConstantPayload { word, share } => {
                write!(f, "the word {word:#010x} alone in {} of the frames", percent(share))
            }
            Self::RepeatedPayload { share } => {
                write!(f, "{} of the frames repeat the payload of an earlier one", percent(share))
            }
            _ => self.fmt_headers(f),
        }
    }
}

impl QualityFinding {
    /// The rest: phase-cal tones, and what headers say.
    fn fmt_headers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::InvalidFrames { share } => {
                write!(f, "{} of the frames are marked invalid by the sender", percent(share))
            }
            Self::PhaseCalMissing { channel, spacing_hz, sigmas } => write!(
                f,
                "channel {channel}: no phase-cal tones every {} MHz ({sigmas:.1} standard deviations)",
                spacing_hz / 1e6
            ),
            Self::DataTime { offset_nanos, guess } => {
                write!(f, "data time minus UTC is {:+.3} s{guess}", offset_nanos as f64 / 1e9)
            }
            Self::ThreadTime { seconds: 0, frames } => {
                write!(f, "the frame numbers differ from those of other threads by {frames:+}")
            }
            Self::ThreadTime { seconds, .. } => {
                write!(f, "the seconds differ from those of other threads by {seconds:+}")
            }
            Self::ThreadStation { station, others } => {
                write!(f, "station {station:#06x} in the headers, {others:#06x} in those of other threads")
            }
            Self::SharedThread { senders } => write!(f, "{senders} senders send a thread of this number"),
            Self::FrameRate { stated, found } => {
                write!(f, "seconds have {found} frames, {stated} are stated")
            }
            _ => f.write_str(self.name()),
        }
    }
}

/// A share in percent.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// An order of bytes or bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleOrder {
    /// The two bytes of 16-bit words are exchanged.
    Swapped16,
    /// The bytes of 32-bit words are in reverse order.
    Swapped32,
    /// The bytes of 64-bit words are in reverse order.
    Swapped64,
    /// The bits of each byte are in reverse order.
    BitsReversed,
}

impl fmt::Display for SampleOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Swapped16 => "the bytes of 16-bit words are exchanged",
            Self::Swapped32 => "the bytes of 32-bit words are reversed",
            Self::Swapped64 => "the bytes of 64-bit words are reversed",
            Self::BitsReversed => "the bits of each byte are reversed",
        })
    }
}

/// What an offset of data time from UTC looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockGuess {
    /// Nothing in particular: the 1PPS is shifted, or the clock is free.
    Unknown,
    /// The seconds were set wrongly; the 1PPS is right.
    WholeSeconds,
    /// The formatter was set to GPS time, without leap seconds since 1980.
    Gps,
    /// It was set to TAI.
    Tai,
    /// Hours of a time zone.
    TimeZone(i64),
    /// The reference epoch does not belong to the seconds: so many half-years off.
    ReferenceEpoch(i32),
    /// Seconds since 1970 with reference epoch 0.
    UnixSeconds,
}

impl fmt::Display for ClockGuess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::WholeSeconds => f.write_str(": whole seconds; the formatter was set to a wrong second"),
            Self::Gps => f.write_str(": GPS time instead of UTC"),
            Self::Tai => f.write_str(": TAI instead of UTC"),
            Self::TimeZone(hours) => write!(f, ": a time zone of {hours:+} h"),
            Self::ReferenceEpoch(half_years) => {
                write!(f, ": the reference epoch is {half_years:+} half-years off")
            }
            Self::UnixSeconds => f.write_str(": seconds since 1970, with the reference epoch of 2000"),
        }
    }
}
