//! The format of the data, as `mode` sets it.
//!
//! | `mode =` | tracks | rate |
//! |---|---|---|
//! | `VDIF_8000-16384-32-2`: bytes of samples in a frame, Mb/s, channels, bits | channels × bits | Mb/s |
//! | `VDIFL_…`, `VDIFC_…`, `VDIFCL_…`: with a short header, of complex samples, both | the same | |
//! | `MARK5B-1024-16-2`: Mb/s, channels, bits | channels × bits | Mb/s |
//! | `ext : 0xffffffff : 2` (also `mark5b : …`): mask of bit streams, decimation | ones of the mask | tracks × `clock_set` ÷ decimation |
//! | `vdif : 64 : 8000` (also `legacyvdif : …`): tracks, bytes of samples | tracks | tracks × `clock_set` |
//! | `none`, `unk` | | found from the packets |
//!
//! The short forms are called magic modes in the field; `clock_set` does not apply to them.

use std::fmt;

/// Maximum rate in Mb/s: what is greater is a mistake in writing.
const MAX_MEGABITS: u64 = 1_000_000;
/// Maximum number of channels and of tracks.
const MAX_TRACKS: u64 = 65_536;
/// Maximum bytes of samples in a frame: the length of a frame has 24 bits, in units of 8 bytes.
const MAX_PAYLOAD_BYTES: u64 = (1 << 27) - 32;
/// The clock that `clock_set` would set, Hz, until it does.
const DEFAULT_CLOCK: u64 = 32_000_000;

/// A format that modes name.
#[derive(Debug, PartialEq, Eq)]
struct NamedFormat {
    /// As it begins a short mode.
    short: &'static str,
    /// As it is called in a mode of several fields.
    long: &'static str,
    /// As answers give it.
    shown: &'static str,
    /// Bytes of the header.
    header_bytes: u32,
    /// Bytes of samples, if they are fixed.
    payload_bytes: Option<u32>,
    /// What files of a Mark 6 call it.
    in_blocks: u32,
    /// The first word of each frame, if it is the same in all.
    sync: Option<u32>,
}

const FORMATS: [NamedFormat; 5] = [
    named("VDIF", "vdif", "VDIF", 32),
    named("VDIFL", "legacyvdif", "VDIF (legacy)", 16),
    named("VDIFC", "", "VDIF (complex)", 32),
    named("VDIFCL", "", "VDIF (legacy, complex)", 16),
    NamedFormat {
        short: "MARK5B",
        long: "mark5b",
        shown: "Mark5B",
        header_bytes: 16,
        payload_bytes: Some(10_000),
        in_blocks: 1,
        sync: Some(0xABAD_DEED),
    },
];

const fn named(
    short: &'static str,
    long: &'static str,
    shown: &'static str,
    header_bytes: u32,
) -> NamedFormat {
    NamedFormat { short, long, shown, header_bytes, payload_bytes: None, in_blocks: 0, sync: None }
}

/// The format of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiMode {
    known: Option<KnownMode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownMode {
    /// As it was given: one field, or two.
    name: String,
    submode: Option<String>,
    format: &'static NamedFormat,
    payload_bytes: u32,
    tracks: u64,
    rate: ModeRate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ModeRate {
    /// Bits per second of all tracks.
    Total(u64),
    /// Hz of each track before decimation.
    Clock { hertz: u64, decimation: u64 },
}

/// Frames of one size as files of a Mark 6 describe them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VsiPackets {
    /// Bytes of a frame.
    pub bytes: u32,
    /// The number of their format.
    pub format: u32,
    /// What the little-endian word of this number in a frame is, under this mask.
    pub mark: (usize, u32, u32),
}

/// Why a mode cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeError {
    /// It means something that this station does not record.
    Unsupported(String),
    /// It is written wrongly.
    Invalid(String),
    /// `clock_set` does not apply to the mode.
    NoClock,
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(what) => write!(f, "{what} is not recorded here"),
            Self::Invalid(what) => f.write_str(what),
            Self::NoClock => f.write_str("the mode includes the rate; set a mode such as ext first"),
        }
    }
}

impl VsiMode {
    /// Returns the mode of the fields of `mode =`.
    ///
    /// # Errors
    /// The mode is unknown, or a number in it out of range.
    pub fn parse(fields: &[String]) -> Result<Self, ModeError> {
        let field = |n: usize| fields.get(n).map_or("", String::as_str);
        let name = field(0);
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "" => return Err(ModeError::Invalid("expected a mode, such as VDIF_8000-8192-64-2".into())),
            "none" | "unk" => return Ok(Self::default()),
            "mark4" | "vlba" | "st" | "tvg" | "ramp" => return Err(ModeError::Unsupported(lower)),
            _ => {}
        }
        let known = match field(1) {
            "" => Self::short(name)?,
            submode => Self::long(&lower, submode, field(2))?,
        };
        Ok(Self { known: Some(known) })
    }

    fn short(name: &str) -> Result<KnownMode, ModeError> {
        let invalid = || {
            ModeError::Invalid(format!(
                "expected a mode such as VDIF_8000-8192-64-2 or MARK5B-1024-16-2, got {name}"
            ))
        };
        let upper = name.to_ascii_uppercase();
        let (head, rest) = upper.split_once('-').ok_or_else(invalid)?;
        let (short, size) = head.split_once('_').map_or((head, None), |(short, size)| (short, Some(size)));
        let format = FORMATS.iter().find(|format| format.short == short).ok_or_else(invalid)?;
        let payload_bytes = match (format.payload_bytes, size) {
            (Some(fixed), None) => fixed,
            (None, Some(size)) => payload(size)?,
            (None, None) => {
                let text = format!(
                    "the mode lacks the bytes of samples in a frame, as in {}_8000-8192-64-2",
                    format.short
                );
                return Err(ModeError::Invalid(text));
            }
            (Some(_), Some(_)) => return Err(invalid()),
        };
        let numbers: Vec<u64> = rest.split('-').map(digits).collect::<Option<_>>().ok_or_else(invalid)?;
        let [megabits, channels, bits] = numbers[..] else { return Err(invalid()) };
        let tracks = channels.saturating_mul(bits);
        let valid = (1..=MAX_MEGABITS).contains(&megabits)
            && (1..=MAX_TRACKS).contains(&tracks)
            && (1..=64).contains(&bits);
        if !valid {
            return Err(invalid());
        }
        let rate = ModeRate::Total(megabits * 1_000_000);
        Ok(KnownMode { name: name.to_owned(), submode: None, format, payload_bytes, tracks, rate })
    }

    fn long(name: &str, submode: &str, extra: &str) -> Result<KnownMode, ModeError> {
        let invalid = |what: &str, got: &str| ModeError::Invalid(format!("expected {what}, got {got}"));
        let long = if name == "ext" { "mark5b" } else { name };
        let format = FORMATS.iter().find(|format| format.long == long);
        let format = format.ok_or_else(|| invalid("a mode such as ext or vdif", name))?;
        let fixed = format.payload_bytes;
        let (tracks, payload_bytes, decimation) = if let Some(fixed) = fixed {
            let mask = hexadecimal(submode).filter(|mask| *mask != 0);
            let mask = mask.ok_or_else(|| invalid("a mask of bit streams such as 0xffffffff", submode))?;
            let decimation = if extra.is_empty() { Some(1) } else { digits(extra) };
            let decimation = decimation.filter(|n| n.is_power_of_two() && *n <= 16);
            let decimation = decimation.ok_or_else(|| invalid("a decimation of 1, 2, 4, 8 or 16", extra))?;
            (u64::from(mask.count_ones()), fixed, decimation)
        } else {
            let tracks = digits(submode).filter(|n| (1..=MAX_TRACKS).contains(n));
            (tracks.ok_or_else(|| invalid("a number of tracks", submode))?, payload(extra)?, 1)
        };
        let rate = ModeRate::Clock { hertz: DEFAULT_CLOCK, decimation };
        let submode = Some(submode.to_owned());
        Ok(KnownMode { name: name.to_owned(), submode, format, payload_bytes, tracks, rate })
    }

    /// Sets the clock of a mode of several fields, Hz; it stays as it is if the mode is `none`.
    ///
    /// # Errors
    /// The mode includes its rate.
    pub fn set_clock(&mut self, new: u64) -> Result<(), ModeError> {
        match self.known.as_mut().map(|known| &mut known.rate) {
            Some(ModeRate::Total(_)) => Err(ModeError::NoClock),
            Some(ModeRate::Clock { hertz, .. }) => {
                *hertz = new;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the clock, Hz, or the bits per second of a track if the mode includes its rate; `None`: no mode.
    #[must_use]
    pub fn clock(&self) -> Option<f64> {
        let known = self.known.as_ref()?;
        Some(match known.rate {
            ModeRate::Total(_) => known.track_rate(),
            ModeRate::Clock { hertz, .. } => hertz as f64,
        })
    }

    /// Whether the mode includes its rate.
    #[must_use]
    pub fn includes_rate(&self) -> bool {
        self.known.as_ref().is_some_and(|known| matches!(known.rate, ModeRate::Total(_)))
    }

    /// Whether a format is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.known.is_some()
    }

    /// Returns the number of tracks; 0 if no mode is set.
    #[must_use]
    pub fn tracks(&self) -> u64 {
        self.known.as_ref().map_or(0, |known| known.tracks)
    }

    /// Returns bits per second of each track.
    #[must_use]
    pub fn track_bits_per_second(&self) -> Option<f64> {
        self.known.as_ref().map(KnownMode::track_rate)
    }

    /// Returns the bytes of a whole frame.
    #[must_use]
    pub fn frame_bytes(&self) -> Option<u32> {
        self.known.as_ref().map(|known| known.payload_bytes + known.format.header_bytes)
    }

    /// Returns how files of a Mark 6 describe its frames.
    #[must_use]
    pub fn packets(&self) -> Option<VsiPackets> {
        let (bytes, known) = (self.frame_bytes()?, self.known.as_ref()?);
        // Where no word is the same in all frames, one has their length in units of 8 bytes.
        let mark = known.format.sync.map_or((2, 0xFF_FFFF, bytes / 8), |sync| (0, u32::MAX, sync));
        Some(VsiPackets { bytes, format: known.format.in_blocks, mark })
    }

    /// Returns bits per second of whole frames.
    #[must_use]
    pub fn frame_bits_per_second(&self) -> Option<f64> {
        let known = self.known.as_ref()?;
        let samples = known.track_rate() * known.tracks as f64;
        let (payload, header) = (f64::from(known.payload_bytes), f64::from(known.format.header_bytes));
        Some(samples * (payload + header) / payload)
    }

    /// Returns the format as answers give it; `None`: no mode is set.
    #[must_use]
    pub fn format(&self) -> Option<&'static str> {
        self.known.as_ref().map(|known| known.format.shown)
    }

    /// Returns the fields of the answer to `mode?`.
    #[must_use]
    pub fn answer(&self) -> Vec<String> {
        let Some(known) = &self.known else { return vec!["none".into()] };
        let mut fields = vec![known.name.clone()];
        match (&known.rate, &known.submode) {
            (ModeRate::Total(_), _) => {
                fields.extend([known.format.shown.to_owned(), known.tracks.to_string()]);
                fields.push(format!("{:.3}", known.track_rate()));
                if known.format.payload_bytes.is_none() {
                    fields.push(known.payload_bytes.to_string());
                }
            }
            (ModeRate::Clock { hertz, decimation }, submode) => {
                fields.extend(submode.clone());
                if known.format.payload_bytes.is_some() {
                    fields.push(decimation.to_string());
                } else {
                    fields.push(known.payload_bytes.to_string());
                }
                fields.push((*hertz as f64 / *decimation as f64 / 1e6).to_string());
            }
        }
        fields
    }
}

impl KnownMode {
    fn track_rate(&self) -> f64 {
        match self.rate {
            ModeRate::Total(bits) => bits as f64 / self.tracks as f64,
            ModeRate::Clock { hertz, decimation } => hertz as f64 / decimation as f64,
        }
    }
}

fn payload(text: &str) -> Result<u32, ModeError> {
    let bytes = digits(text).filter(|n| (8..=MAX_PAYLOAD_BYTES).contains(n) && n % 8 == 0);
    let bytes = bytes.and_then(|n| u32::try_from(n).ok());
    let invalid =
        || ModeError::Invalid(format!("expected bytes of samples in a frame, a multiple of 8, got {text}"));
    bytes.ok_or_else(invalid)
}

/// A number in decimal digits alone.
pub(super) fn digits(text: &str) -> Option<u64> {
    let valid = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| text.parse().ok()).flatten()
}

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let valid = !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(text: &str) -> Result<VsiMode, ModeError> {
        VsiMode::parse(&text.split(':').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn modes_of_the_field() {
        let of = |text| {
            let mode = mode(text).unwrap();
            let megabits = mode.frame_bits_per_second().map(|rate| (rate / 1e6 * 1000.0).round() / 1000.0);
            (mode.answer().join(" : "), mode.tracks(), mode.frame_bytes(), megabits)
        };
        assert_eq!(
            of("VDIF_8000-16384-32-2"),
            (
                "VDIF_8000-16384-32-2 : VDIF : 64 : 256000000.000 : 8000".into(),
                64,
                Some(8032),
                Some(16_449.536)
            )
        );
        assert_eq!(
            of("VDIFL_8000-512-16-2").0,
            "VDIFL_8000-512-16-2 : VDIF (legacy) : 32 : 16000000.000 : 8000"
        );
        assert_eq!(of("VDIFL_8000-512-16-2").2, Some(8016));
        assert_eq!(
            of("mark5b-1024-16-2"),
            ("mark5b-1024-16-2 : Mark5B : 32 : 32000000.000".into(), 32, Some(10_016), Some(1025.638))
        );
        assert_eq!(
            of("ext:0xffffffff:2"),
            ("ext : 0xffffffff : 2 : 16".into(), 32, Some(10_016), Some(512.819))
        );
        assert_eq!(of("vdif:64:5000").0, "vdif : 64 : 5000 : 32");
        assert_eq!(of("none"), ("none".into(), 0, None, None));
    }

    #[test]
    fn a_clock_belongs_to_a_mode_of_several_fields() {
        let mut ext = mode("ext:0xff:1").unwrap();
        ext.set_clock(64_000_000).unwrap();
        assert_eq!(ext.answer().join(":"), "ext:0xff:1:64");
        assert_eq!((ext.track_bits_per_second(), ext.clock()), (Some(64e6), Some(64e6)));
        assert_eq!(mode("VDIF_8000-512-16-2").unwrap().set_clock(1), Err(ModeError::NoClock));
    }

    #[test]
    fn modes_that_are_refused() {
        for bad in [
            "",
            "VDIF",
            "VDIF-8192-64-2",
            "VDIF_8001-8192-64-2",
            "VDIF_-8192-64-2",
            "VDIF_8000-0-64-2",
            "VDIF_8000-8192-0-2",
            "VDIF_8000-8192-64-0",
            "VDIF_8000-8192-64-2-1",
            "VDIF_8000-8192-64",
            "VDIF_8000-8192-99999999999999999-64",
            "MARK5B_8000-1024-16-2",
            "MARK5B-1024-16-+2",
            "VDIFX_8000-1-1-1",
            "ext:0x0",
            "ext:0xg",
            "ext:0xff:3",
            "vdif:64",
            "vdif:64:7",
            "vdif::8000",
            "foo:1:2",
        ] {
            assert!(matches!(mode(bad), Err(ModeError::Invalid(_))), "{bad}: {:?}", mode(bad));
        }
        for other in ["mark4:64", "vlba:32", "tvg", "st:mark4"] {
            assert!(matches!(mode(other), Err(ModeError::Unsupported(_))), "{other}");
        }
    }
}
