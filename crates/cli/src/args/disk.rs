//! Arguments of `disk`.

use super::limits::OutputArgs;
use super::limits::{DESTINATION, GENERAL, HOST, TESTING};
use super::limits::{at_least_one, some, up_to};
use crate::args::receive::DiskEngine;
use clap::{Args, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Rate, Size};
use std::path::PathBuf;
use std::str::FromStr;

/// What a measurement measures.
const MEASURED: &str = "What to measure";
/// Maximum requests in flight; the kernel keeps memory for each.
const DEPTH: u64 = 4096;
/// Files on one disk at a time, each a thread.
const STREAMS: u64 = 256;

#[derive(Args, Debug)]
pub(crate) struct DiskMeasureArgs {
    /// A directory on each disk; all are measured concurrently
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = DESTINATION)]
    pub(crate) disks: Vec<PathBuf>,
    /// Free space to leave on each disk
    #[arg(long, default_value = "64MiB", value_name = "SIZE", help_heading = DESTINATION)]
    pub(crate) reserve: Size,
    /// Only write
    #[arg(long, conflicts_with = "read", help_heading = MEASURED)]
    pub(crate) write: bool,
    /// Only read
    #[arg(long, help_heading = MEASURED)]
    pub(crate) read: bool,
    /// Sizes of a file: 1GiB,4GiB, or 5GiB..50GiB, which doubles
    #[arg(long, default_value = "1GiB", value_name = "SIZES", help_heading = MEASURED)]
    pub(crate) sizes: Sizes,
    /// Sizes of a request
    #[arg(long, default_value = "1MiB", value_name = "SIZES", help_heading = MEASURED)]
    pub(crate) blocks: Sizes,
    /// Numbers of requests in flight for each file
    #[arg(long, default_value = "16", value_delimiter = ',', value_name = "N", value_parser = up_to::<usize>(DEPTH, "16 keep most disks busy"), help_heading = MEASURED)]
    pub(crate) depths: Vec<usize>,
    /// Numbers of concurrent files on each disk, each with its own thread
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "N", value_parser = up_to::<usize>(STREAMS, "1 to 16 are usual"), help_heading = MEASURED)]
    pub(crate) streams: Vec<usize>,
    /// Past the page cache (the default unless another mode is given)
    #[arg(long, help_heading = MEASURED)]
    pub(crate) direct: bool,
    /// Through the page cache, which is emptied of a file before it is read
    #[arg(long, help_heading = MEASURED)]
    pub(crate) buffered: bool,
    /// Read from a warm page cache
    #[arg(long, help_heading = MEASURED)]
    pub(crate) cached: bool,
    /// Compare with a network of this rate, in both directions, and report which of the two is the limit
    #[arg(long, value_name = "RATE", value_parser = some::<Rate>("such as 100Gbps"), help_heading = MEASURED)]
    pub(crate) against: Option<Rate>,
    /// Number of repetitions
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one::<usize>("3 show how much figures vary"), help_heading = MEASURED)]
    pub(crate) rounds: usize,
    /// System calls
    #[arg(long, value_enum, default_value_t = DiskEngine::Auto, help_heading = HOST)]
    pub(crate) disk_engine: DiskEngine,
    /// Inject faults into a disk: `PATH:slow=200`, `PATH:latency=20ms`, `PATH:enospc=1GiB`, `PATH:eio=1GiB`
    #[arg(long, value_name = "PATH:SPEC", help_heading = TESTING)]
    pub(crate) disk_faults: Vec<String>,
    /// Print the results under the names fio gives them in its JSON
    #[arg(long, conflicts_with = "json", help_heading = GENERAL)]
    pub(crate) fio_json: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Sizes in a list; `A..B` doubles from A until B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |text: &str| match text.parse::<Size>() {
            Ok(size) if size.bytes() == 0 => {
                Err(format!("must be greater than zero{}", Hint("such as 1GiB")))
            }
            Ok(size) => Ok(size.bytes()),
            Err(error) => Err(error.to_string()),
        };
        let mut all = Vec::new();
        for part in text.split(',') {
            let Some((from, to)) = part.split_once("..") else {
                all.push(size(part)?);
                continue;
            };
            let (mut at, to) = (size(from)?, size(to)?);
            if at > to {
                return Err(format!("{from} is more than {to}B{}", Hint("write the smaller size first")));
            }
            while at < to {
                all.push(at);
                at = at.saturating_mul(2);
            }
            all.push(to);
        }
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_a_list_or_double() {
        let gib = |text: &str| {
            let sizes = text.parse::<Sizes>().unwrap();
            sizes.0.iter().map(|bytes| bytes >> 30).collect::<Vec<_>>()
        };
        assert_eq!(gib("5GiB..50GiB"), [5, 10, 20, 40, 50]);
        assert_eq!(gib("1GiB,3GiB..3GiB"), [1, 3]);
        for bad in ["", "5GiB..1GiB", "0", "x", "1GiB..", "1M"] {
            assert!(bad.parse::<Sizes>().unwrap_err().contains("hint: "), "{bad}");
        }
    }
}
