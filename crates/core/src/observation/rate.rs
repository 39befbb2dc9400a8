//! The rate of a mode of observing: samples, and bytes on disks with the headers of frames.
//!
//! | format | frame | samples in it |
//! |---|---|---|
//! | VDIF | the size in the format's name, else 8032 | 32 bytes less, legacy VDIF 16 |
//! | Mark 5B | 10 016 | 10 000 |
//! | VLBA | 20 160 | 20 000 |
//! | Mark 4 and others | any | all: the header takes the place of samples |

use std::fmt;

/// Maximum samples per second and channel, and maximum rate: what is greater is a mistake in writing.
const MAX_RATE: f64 = 1e15;

/// At which rate a mode is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRate {
    /// Bits per second of samples.
    pub sample_bits_per_second: u64,
    /// Frames: bytes of one, and of samples in it.
    pub frame: FrameSize,
    /// The format of the data, for people.
    pub format: String,
}

impl RecordedRate {
    /// Returns bits per second on disks, with the headers of frames.
    #[must_use]
    pub fn disk_bits_per_second(&self) -> u64 {
        self.frame.with_headers(self.sample_bits_per_second)
    }

    /// Returns bytes on disks in `seconds`.
    #[must_use]
    pub fn disk_bytes(&self, seconds: u64) -> u64 {
        let samples = u128::from(self.sample_bits_per_second) * u128::from(seconds) / 8;
        self.frame.with_headers(u64::try_from(samples).unwrap_or(u64::MAX))
    }
}

/// Bytes of a frame, and of samples in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSize {
    /// The whole frame.
    pub frame_bytes: u32,
    /// Samples in it; at least 1.
    pub sample_bytes: u32,
}

impl FrameSize {
    /// No header besides the samples.
    pub const BARE: Self = Self { frame_bytes: 1, sample_bytes: 1 };
    /// Returns frames with `sample_bytes` of samples, in a format by its name, such as `VDIF` or `VDIFL`.
    #[must_use]
    pub fn with_samples(format: &str, sample_bytes: u32) -> Self {
        let sample_bytes = sample_bytes.clamp(8, 1 << 27);
        Self { frame_bytes: sample_bytes + header_bytes(format), sample_bytes }
    }

    /// Returns the frames of a format by its name in VEX, which gives the size of the whole frame, such as `VDIF/8032/2`, `VDIF5032` or `MARK5B`.
    #[must_use]
    pub fn of(format: &str) -> Self {
        let upper = format.to_ascii_uppercase();
        if upper.contains("VDIF") {
            let header = header_bytes(&upper);
            let mut numbers =
                upper.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
            let size = numbers.find(|n| (64..=1 << 27).contains(n)).unwrap_or(8000 + header);
            return Self::with_samples(&upper, size - header);
        }
        if upper.contains("MARK5B") {
            return Self { frame_bytes: 10_016, sample_bytes: 10_000 };
        }
        if upper.starts_with("VLBA") {
            return Self { frame_bytes: 20_160, sample_bytes: 20_000 };
        }
        Self::BARE
    }

    fn with_headers(self, samples: u64) -> u64 {
        let all = u128::from(samples) * u128::from(self.frame_bytes);
        u64::try_from(all.div_ceil(u128::from(self.sample_bytes.max(1)))).unwrap_or(u64::MAX)
    }
}

/// Bytes of a VDIF frame header; a legacy header has half as many.
fn header_bytes(format: &str) -> u32 {
    if format.to_ascii_uppercase().contains("VDIFL") { 16 } else { 32 }
}

/// Returns bits per second of `streams` of one bit per sample; `None` if that is out of range.
pub(crate) fn bits(samples_per_second: f64, bits_per_sample: f64) -> Option<u64> {
    let rate = samples_per_second * bits_per_sample;
    (rate > 0.0 && rate <= MAX_RATE).then(|| rate.round() as u64)
}

/// Returns samples per second, from text like `32.000 Ms/sec`; a number alone is Ms/sec.
#[must_use]
pub fn samples_per_second(text: &str) -> Option<f64> {
    let text = text.trim();
    let value = quantity(
        text.strip_suffix("ec").unwrap_or(text),
        &[("ms/s", 1e6), ("gs/s", 1e9), ("ks/s", 1e3), ("s/s", 1.0)],
    )?;
    (value >= 0.0).then_some(value)
}

/// Returns Hz, from text like `16.00 MHz`; a number alone is MHz.
#[must_use]
pub fn hertz(text: &str) -> Option<f64> {
    let value = quantity(text, &[("mhz", 1e6), ("ghz", 1e9), ("khz", 1e3), ("hz", 1.0)])?;
    (value >= 0.0).then_some(value)
}

/// Returns seconds, from text like `180 sec`; a number alone is seconds.
#[must_use]
pub fn seconds(text: &str) -> Option<f64> {
    quantity(text, &[("sec", 1.0), ("s", 1.0), ("min", 60.0), ("hr", 3600.0)])
}

/// A number and its unit; the first unit is that of a number alone.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let (_, factor) = units.iter().find(|(name, _)| unit.is_empty() || unit.eq_ignore_ascii_case(name))?;
    let value = number.parse::<f64>().ok()? * factor;
    (value.is_finite() && value.abs() <= MAX_RATE).then_some(value)
}

/// A mode by its name in programs of the field, such as `VDIF_8000-8192-64-2` or `MARK5B-1024-8-2`: bytes of samples in a
/// frame, Mb/s, channels, bits per sample.
#[must_use]
pub fn named_mode(name: &str) -> Option<RecordedRate> {
    let upper = name.trim().to_ascii_uppercase();
    let (head, rest) = upper.split_once('-')?;
    let mut fields = rest.split('-');
    let megabits: u64 = fields.next()?.parse().ok()?;
    let channels: u64 = fields.next()?.parse().ok()?;
    let bits: u64 = fields.next()?.parse().ok()?;
    if fields.next().is_some()
        || megabits == 0
        || megabits > 1_000_000
        || channels == 0
        || !(1..=64).contains(&bits)
    {
        return None;
    }
    let format = head.split('_').next()?;
    let frame = match (format, head.split_once('_')) {
        ("VDIF" | "VDIFC" | "VDIFL", size) => {
            let size = size.map_or(Some(8000), |(_, size)| size.parse().ok());
            FrameSize::with_samples(format, size.filter(|size| (8..1 << 27).contains(size))?)
        }
        ("MARK5B", None) => FrameSize::of(format),
        _ => return None,
    };
    Some(RecordedRate { sample_bits_per_second: megabits * 1_000_000, frame, format: format.to_owned() })
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BARE => f.write_str("no headers"),
            Self { frame_bytes, .. } => write!(f, "{frame_bytes} B frames"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_by_the_name_of_their_format() {
        let of = |name| {
            let FrameSize { frame_bytes, sample_bytes } = FrameSize::of(name);
            (frame_bytes, sample_bytes)
        };
        assert_eq!(of("VDIF/8032/2"), (8032, 8000));
        assert_eq!(of("VDIF5032"), (5032, 5000));
        assert_eq!(of("INTERLACEDVDIF/0:1/1032/2"), (1032, 1000));
        assert_eq!(of("VDIF"), (8032, 8000));
        assert_eq!(of("VDIFL/8016/2"), (8016, 8000));
        assert_eq!(of("MARK5B"), (10_016, 10_000));
        assert_eq!(of("Mark4"), (1, 1));
        assert_eq!(of("VLBA"), (20_160, 20_000));
    }

    #[test]
    fn modes_by_name() {
        let of = |name| named_mode(name).map(|rate| (rate.sample_bits_per_second, rate.frame.frame_bytes));
        assert_eq!(of("VDIF_8000-8192-64-2"), Some((8_192_000_000, 8032)));
        assert_eq!(of("vdif_8192-8192-64-2"), Some((8_192_000_000, 8224)));
        assert_eq!(of("MARK5B-1024-8-2"), Some((1_024_000_000, 10_016)));
        for bad in [
            "",
            "VDIF",
            "VDIF_8000-0-64-2",
            "VDIF_x-1-1-2",
            "MARK4-1-1-2",
            "VDIF_8000-1-1-2-3",
            "VDIF_8000--1-1",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn quantities() {
        assert_eq!(samples_per_second("32.000 Ms/sec"), Some(32e6));
        assert_eq!(samples_per_second("250 ks/sec"), Some(250e3));
        assert_eq!(samples_per_second("16"), Some(16e6));
        assert_eq!(hertz("  16.00 MHz"), Some(16e6));
        assert_eq!(
            (seconds("180 sec"), seconds("-5 sec"), seconds("2 min")),
            (Some(180.0), Some(-5.0), Some(120.0))
        );
        for bad in ["", "Ms/sec", "1e999 Ms/sec", "-1 Ms/sec", "1 Ms", "1 furlong"] {
            assert_eq!(samples_per_second(bad), None, "{bad}");
        }
    }
}
