//! How streams of frames are recognised, ordered and cut.

use super::applies::{ALWAYS, FRAMES, OBJECTS, to};
use super::format::{FormatParser, TAKEN};
use super::heading::INPUT;
use super::limits::{WINDOW, from_to, up_to};
use super::receive::data_time;
use clap::{Args, ValueEnum};
use skyhaul::wire::Format;

const LEAVE: &str = "leave it out; `--help` lists the options for heaps and events under their own heading";

#[derive(Args, Clone, Debug)]
pub(crate) struct StreamArgs {
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = TAKEN.as_str(), add = ALWAYS, help_heading = INPUT, display_order = 2)]
    pub(crate) format: Format,
    /// Begin at this data time (UTC), and keep no earlier frames: 2026-11-21T03:00:00Z, 2026y325d03h00m00s as in VEX, or a Unix
    /// time in seconds; fractions of a second are rounded up
    #[arg(long, value_name = "TIME", value_parser = data_time, add = to(FRAMES).instead(OBJECTS, "use --start-heap, or --start-at for a wall-clock time"))]
    pub(crate) start: Option<i64>,
    /// Stop at this data time (UTC), and keep no frames from it on
    #[arg(long, value_name = "TIME", value_parser = data_time, add = to(FRAMES).instead(OBJECTS, "use --stop-items or --heaps, or --stop-at for a wall-clock time"))]
    pub(crate) stop: Option<i64>,
    /// Accept only streams of this VDIF station, two letters or a number as `inspect` shows it; may be repeated
    #[arg(long, value_name = "STATION", value_delimiter = ',', add = to(FRAMES).instead(OBJECTS, "use --from to choose senders"))]
    pub(crate) station: Vec<String>,
    /// Blocks kept open for each stream; more blocks absorb more reordering
    #[arg(long, default_value_t = 2, value_name = "BLOCKS", value_parser = up_to::<usize>(WINDOW, "2 suits most networks; a larger --chunk also absorbs more reordering"), add = to(FRAMES).instead(OBJECTS, "use --heap-window"))]
    pub(crate) window: usize,
    /// Frames per second of each VDIF thread, if the headers do not give it
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 1 << 24, "omit it if the headers give the frame rate"), add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) frame_rate: Option<u32>,
    /// VDIF threads of a stream, like 0-7 or 0,2,4 (default: those that arrive)
    #[arg(long, value_name = "LIST", value_parser = thread_list, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) threads: Option<ThreadList>,
    /// Make a separate stream of each VDIF thread of a sender
    #[arg(long, add = to(FRAMES).instead(OBJECTS, "use --by-sender to tell senders apart"))]
    pub(crate) split_threads: bool,
    /// Keep incomplete sets of threads at the start and end of a stream (default: only whole sets, as VDIF readers expect)
    #[arg(long, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) keep_partial_sets: bool,
    /// What gives a packet's position in the stream
    #[arg(long, value_enum, default_value_t = Place::Auto, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) place: Place,
    /// Part of each packet to keep
    #[arg(long, value_enum, default_value_t = KeepArg::Frame, add = to(FRAMES).instead(OBJECTS, LEAVE))]
    pub(crate) keep: KeepArg,
    /// Drop this many leading bytes of each packet (instead of --keep)
    #[arg(long, value_name = "BYTES", conflicts_with = "keep", value_parser = from_to::<u32>(0, 65_507, "65507 bytes are the longest UDP payload"), add = to(FRAMES).instead(OBJECTS, LEAVE))]
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
