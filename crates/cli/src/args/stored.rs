//! Arguments of the verbs that read what is stored: `ls`, `check`, `cat`, `export`, `plot`, `inspect`.

use super::applies::ALWAYS;
use super::limits::{DESTINATION, FormatParser, INPUT, OutputArgs, TAKEN, at_least_one, some};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Size, Span};
use skyhaul::samples::export::FileFormat;
use skyhaul::samples::{Start, Tracks};
use skyhaul::time;
use skyhaul::wire::{Format, rdma::RdmaProfile};
use std::path::PathBuf;

/// Where recordings lie.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskArgs {
    /// A disk: a directory, usually a mount point; may be repeated
    #[arg(long = "disk", value_name = "DIR", required = true, value_hint = ValueHint::DirPath, add = ALWAYS, display_order = 0)]
    pub(crate) disk: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording
    pub(crate) scan: String,
    /// Also check every payload against what `send --pattern` sends
    #[arg(long)]
    pub(crate) verify: bool,
    /// Add chunk files that are in no index to the index, as they are
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) disks: DiskArgs,
    /// Name of the recording
    pub(crate) scan: String,
    /// Number of the stream, if the recording has several
    #[arg(long, value_name = "N")]
    pub(crate) stream: Option<u32>,
    /// Follow the recording while it is being written
    #[arg(long)]
    pub(crate) follow: bool,
    /// Write invalid frames in place of missing or damaged chunks, to preserve length and time
    #[arg(long)]
    pub(crate) fill: bool,
    /// Write damaged and unverified chunks as they are (they are still reported)
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Write to this file (default: standard output)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output_file: Option<PathBuf>,
}

/// Samples of a recording or of files.
#[derive(Args, Debug)]
#[command(next_help_heading = INPUT)]
pub(crate) struct SamplesArgs {
    /// Name of a recording (with --disk), or files of VDIF, Mark 5B or a Mark 6 that continue each other
    #[arg(required = true, value_name = "SCAN|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) what: Vec<PathBuf>,
    /// A disk of the recording, also of a FlexBuff or a Mark 6; may be repeated
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) disk: Vec<PathBuf>,
    /// Number of the stream, if the recording has several
    #[arg(long, value_name = "N")]
    pub(crate) stream: Option<u32>,
    /// Start of the range: a time in UTC (2026-11-21T03:00:00.5, 2026y325d03h00m00.5s), or a time from the first sample on
    /// (1.5s)
    #[arg(long, value_name = "TIME", value_parser = start)]
    pub(crate) start: Option<Start>,
    /// Length of the range (default: to the end)
    #[arg(long, value_name = "TIME", value_parser = some::<Span>("1s is a second of samples"))]
    pub(crate) duration: Option<Span>,
    /// Complete samples per second, like 32MHz, if the headers do not state it
    #[arg(long, value_name = "RATE", value_parser = frequency)]
    pub(crate) sample_rate: Option<u64>,
    /// Threads of VDIF, in the order of their columns (default: all)
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) threads: Option<Vec<u16>>,
    /// Mark 5B: bits of a sample (default: 2)
    #[arg(long, value_name = "N")]
    pub(crate) bits: Option<u32>,
    /// Mark 5B: number of channels; they take the recorded bitstreams in order
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>("8 is usual"))]
    pub(crate) channels: Option<u32>,
    /// Mark 5B: bitstreams that the formatter recorded, as a mask like 0x0000ffff
    #[arg(long, value_name = "MASK", value_parser = mask)]
    pub(crate) mask: Option<u32>,
    /// Mark 5B: bitstreams to decode, numbered as in the mask (default: all of it)
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) tracks: Option<Vec<u32>>,
    /// Mark 5B: a time within 500 days of the data (default: that of the recording, or now)
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) near: Option<i64>,
}

impl SamplesArgs {
    /// The options of the library.
    pub(crate) fn options(&self) -> anyhow::Result<skyhaul::samples::Options> {
        let tracks = match (self.mask, &self.tracks) {
            (None, None) => None,
            (mask, Some(tracks)) => Some(Tracks::new(mask.unwrap_or(u32::MAX), tracks)?),
            (Some(mask), None) => {
                let all: Vec<u32> = (0..32).filter(|bit| mask >> bit & 1 == 1).collect();
                Some(Tracks::new(mask, &all)?)
            }
        };
        Ok(skyhaul::samples::Options {
            sample_rate: self.sample_rate,
            threads: self.threads.clone(),
            bits: self.bits,
            channels: self.channels,
            tracks,
            near: self.near,
            ..skyhaul::samples::Options::default()
        })
    }
}

#[derive(Args, Debug)]
pub(crate) struct PlotArgs {
    #[command(flatten)]
    pub(crate) samples: SamplesArgs,
    /// Write the plots to this file, .svg or .png; may be repeated (default: only a sketch in the terminal)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) output_file: Vec<PathBuf>,
    /// Complete samples in a block of the spectrum (default: 1024, fewer for very many channels)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) block: usize,
    /// Samples to decode at most, spread evenly over the range
    #[arg(long, value_name = "N", default_value = "64Mi", value_parser = number, conflicts_with = "all")]
    pub(crate) samples_at_most: u64,
    /// Decode all samples, however long it takes
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) samples: SamplesArgs,
    /// File to write; its extension selects the format: .npy, .f32 (or .raw), .h5, .zarr
    #[arg(long, short, required = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = DESTINATION)]
    pub(crate) output_file: PathBuf,
    /// Format of the file, instead of its extension: npy, raw, hdf5 or zarr
    #[arg(long, value_name = "FORMAT", help_heading = DESTINATION)]
    pub(crate) to: Option<FileFormat>,
    /// Write the recorded integers instead of levels
    #[arg(long, help_heading = DESTINATION)]
    pub(crate) integers: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A time, or a time from the first sample on.
fn start(text: &str) -> Result<Start, String> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(Start::After(span.duration()));
    }
    time::parse_exact(text).map(Start::At).map_err(|error| error.to_string())
}

/// Whole Hz.
fn frequency(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 5] = [("GHz", 9), ("MHz", 6), ("kHz", 3), ("Hz", 0), ("", 0)];
    let (digits, power) = UNITS
        .iter()
        .find_map(|&(unit, power)| Some((text.strip_suffix(unit)?.trim_end(), power)))
        .unwrap_or((text, 0));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let decimals = decimals.trim_end_matches('0');
    let exact = decimals.len() <= power as usize && !whole.is_empty();
    let zeros = power as usize - decimals.len().min(power as usize);
    let number = format!("{whole}{decimals}{:0<zeros$}", "").parse().ok();
    let legal = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') && exact;
    number.filter(|&hz: &u64| legal && hz > 0).ok_or_else(|| {
        format!("expected a whole number of Hz, got '{text}'{}", Hint("write it like 32MHz or 32000000"))
    })
}

/// Decimal, or hexadecimal after `0x`.
fn mask(text: &str) -> Result<u32, String> {
    let read = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| format!("expected a 32-bit mask, got '{text}'{}", Hint("write it like 0x0000ffff")))
}

/// The profiles by name, so that completions and help list them.
fn rdma_profile() -> impl TypedValueParser<Value = RdmaProfile> {
    PossibleValuesParser::new(RdmaProfile::ALL.map(RdmaProfile::name)).try_map(|name| {
        RdmaProfile::ALL.into_iter().find(|profile| profile.name() == name).ok_or("no such profile")
    })
}

/// A number that may be written like a size.
fn number(text: &str) -> Result<u64, String> {
    let size = text.parse::<u64>().ok().or_else(|| Some(format!("{text}B").parse::<Size>().ok()?.bytes()));
    size.filter(|&n| n > 0)
        .ok_or_else(|| format!("expected a number, got '{text}'{}", Hint("write it like 1000000 or 64Mi")))
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// A file of frames, a capture (pcap, pcapng), or an address to listen on
    #[arg(value_name = "FILE|ADDRESS")]
    pub(crate) what: String,
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = TAKEN.as_str())]
    pub(crate) format: Format,
    /// Read datagrams as RDMA: bare (DDP alone), uc (with Skyhaul's shim), or tcp (MPA frames in a file)
    #[arg(long, value_name = "PROFILE", value_parser = rdma_profile(), conflicts_with = "format")]
    pub(crate) rdma: Option<RdmaProfile>,
    /// Number of packets to show
    #[arg(long, short = 'n', default_value_t = 1, value_name = "N", value_parser = at_least_one::<usize>("1 shows one packet"))]
    pub(crate) count: usize,
    /// Packets to skip first
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) skip: usize,
    /// Stop after this long without a packet
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) wait: Span,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_people_write_them() {
        for (text, hz) in
            [("32MHz", 32_000_000), ("0.5MHz", 500_000), ("1.28GHz", 1_280_000_000), ("64000", 64_000)]
        {
            assert_eq!(frequency(text), Ok(hz), "{text}");
        }
        for text in ["", "MHz", "-1MHz", "1.5Hz", "1.2.3MHz", "0", "32Mbps", "99999999999GHz", ".5MHz"] {
            assert!(frequency(text).unwrap_err().contains("hint: "), "{text}");
        }
        assert_eq!((mask("0x0000ffff"), mask("255")), (Ok(0xFFFF), Ok(255)));
        assert!(mask("0x1ffffffff").is_err() && mask("x").is_err());
        assert_eq!((number("1000"), number("64Mi")), (Ok(1000), Ok(64 << 20)));
        assert!(number("0").is_err() && number("many").is_err());
        assert_eq!(start("250ms"), Ok(Start::After(std::time::Duration::from_millis(250))));
        assert_eq!(start("1970-01-01T00:00:00.5Z"), Ok(Start::At(500_000_000)));
        assert!(start("soon").is_err());
    }
}
