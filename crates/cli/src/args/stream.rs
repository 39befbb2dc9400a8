//! How streams of frames are recognised and cut.

use super::format::{FormatParser, TAKEN};
use super::heading::{FRAMES, INPUT};
use super::limits::from_to;
use clap::{Args, ValueEnum};
use skyhaul::wire::Format;

/// How streams are recognised.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = FRAMES)]
pub(crate) struct StreamArgs {
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = TAKEN.as_str(), help_heading = INPUT, display_order = 2)]
    pub(crate) format: Format,
    /// Frames per second of each VDIF thread, if the headers do not give it
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 1 << 24, "omit it if the headers give the frame rate"))]
    pub(crate) frame_rate: Option<u32>,
    /// VDIF threads of a stream, like 0-7 or 0,2,4 (default: those that arrive)
    #[arg(long, value_name = "LIST", value_parser = thread_list)]
    pub(crate) threads: Option<ThreadList>,
    /// Make a separate stream of each VDIF thread of a sender
    #[arg(long)]
    pub(crate) split_threads: bool,
    /// Keep incomplete sets of threads at the start and end of a stream (default: only whole sets, as VDIF readers expect)
    #[arg(long)]
    pub(crate) keep_partial_sets: bool,
    /// What gives a packet's position in the stream
    #[arg(long, value_enum, default_value_t = Place::Auto)]
    pub(crate) place: Place,
    /// Part of each packet to keep
    #[arg(long, value_enum, default_value_t = KeepArg::Frame)]
    pub(crate) keep: KeepArg,
    /// Drop this many leading bytes of each packet (instead of --keep)
    #[arg(long, value_name = "BYTES", conflicts_with = "keep", value_parser = from_to::<u32>(0, 65_507, "65507 bytes are the longest UDP payload"))]
    pub(crate) strip: Option<u32>,
}

/// VDIF thread numbers.
#[derive(Clone, Debug)]
pub(crate) struct ThreadList(pub(crate) Vec<u16>);

fn thread_list(text: &str) -> Result<ThreadList, String> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |s: &str| s.trim().parse::<u16>().ok().filter(|&n| n < 1024);
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => out.extend(from..=to),
            _ => {
                return Err(format!(
                    "invalid thread or range of threads `{part}`\nhint: write 0-7 or 0,2,4; threads are numbered 0 to 1023"
                ));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    Ok(ThreadList(out))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// Sequence number if packets carry one, otherwise time
    Auto,
    /// Sequence number
    Sequence,
    /// Time in the frame header
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepArg {
    /// The frame with its header, without the network's sequence number
    Frame,
    /// The whole packet
    Packet,
}
