//! Limits of numbers: what is outside is refused with the reason, before anything is opened.
//!
//! Headings of `--help`, in the order in which a verb shows them.
//!
//! The order is that in which a verb's options are defined: the first option of a heading gives its place. Options for some
//! formats or modes only have a heading that follows from what they [apply to](super::applies).

use super::applies::ALWAYS;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use skyhaul::core::hint::Hint;
use skyhaul::wire::{FAMILIES, Format};
use std::ffi::OsStr;
use std::sync::LazyLock;

/// Receiving threads for one address. More than one for each processor receive no faster, and each has a socket buffer.
pub(super) const RECEIVE_THREADS: u64 = 256;
/// Senders to one destination, each a thread and a socket.
pub(super) const SENDERS: u64 = 1024;
/// Sockets of one sender.
pub(super) const SOCKETS: u64 = 1024;
/// Blocks kept open for each stream: many times as many as the largest memory has by default.
pub(super) const WINDOW: u64 = 4096;
/// Sender and receiver pairs of a benchmark, each with two threads and memory for 64 heaps.
pub(super) const PAIRS: u64 = 256;
/// Directories that stand for disks in the demonstration.
pub(super) const DISKS: u64 = 64;

/// A number from 1 to `most`; `hint` says what to write instead.
pub(super) fn up_to<T>(most: u64, hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    from_to(1, most, hint)
}

/// A number of at least 1.
pub(super) fn at_least_one<T>(hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    from_to(1, u64::MAX, hint)
}

/// A number from `least` to `most`.
pub(super) fn from_to<T>(least: u64, most: u64, hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    let range = match most {
        u64::MAX => format!("a whole number, at least {least}"),
        _ => format!("a whole number from {least} to {most}"),
    };
    move |text: &str| {
        let number = text.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| format!("must be {range}{}", Hint(hint)))
    }
}

/// A quantity greater than zero.
pub(super) fn some<T>(hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::fmt::Display> + Default + PartialEq + Clone + Send + Sync + 'static,
{
    move |text: &str| match text.parse::<T>() {
        Ok(value) if value == T::default() => Err(format!("must be greater than zero{}", Hint(hint))),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct OutputArgs {
    /// Print one JSON report on standard output at the end
    #[arg(long, add = ALWAYS)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short, add = ALWAYS)]
    pub(crate) quiet: bool,
}

/// What a receiver takes in.
pub(super) const INPUT: &str = "What to receive";
/// What a sender sends.
pub(super) const SOURCE: &str = "What to send";
/// A worker of a balancer.
pub(super) const WORKER: &str = "Worker of a balancer (--join)";
/// Where a balancer's packets come in, and for whom.
pub(super) const BALANCED: &str = "What to balance";
/// Who tells a balancer what to do.
pub(super) const CONTROL: &str = "Control plane";
/// Files, disks and destinations.
pub(super) const DESTINATION: &str = "Where it goes";
/// Start and end of receiving.
pub(super) const WHEN: &str = "When it starts and ends";
/// Rate and length of what is sent.
pub(super) const PACE: &str = "How fast and how long";
/// What a machine with other memory, CPUs or network cards may need.
pub(super) const HOST: &str = "Memory and threads";
/// Faults on purpose, and payloads that verify themselves.
pub(super) const TESTING: &str = "Testing";
/// An emulated path, and what runs at its ends.
pub(super) const PATH: &str = "Path and ends";
/// Output, configuration and help: of every verb.
pub(super) const GENERAL: &str = "General";

/// Help of `--format` where packets of any format are accepted.
pub(crate) static TAKEN: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = Format::all().map(Format::name).collect();
    format!("Format of the packets: {}", names.join(", "))
});

/// Help of `--format` where packets are sent.
pub(crate) static SENT: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.name()).collect();
    format!("Format of the packets: {}, or auto (that of the file)", names.join(", "))
});

/// Reads the name of a format, and gives a shell all names.
#[derive(Clone, Debug)]
pub(crate) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        let names = StringValueParser::new().try_map(|name| name.parse::<Format>());
        names.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |format: Format| {
            let aliases = format.family().map_or(&[][..], |family| family.aliases());
            PossibleValue::new(format.name()).aliases(aliases)
        };
        Some(Box::new(Format::all().map(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cli::Cli;
    use super::*;
    use clap::{CommandFactory, Parser};

    #[test]
    fn numbers_out_of_range_are_refused_with_a_hint() {
        for (line, hint) in [
            ("receive --listen udp://:0 --receive-threads 257", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads 0", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads -1", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads 99999999999999999999", "from 1 to 256"),
            ("receive --listen udp://:0 --window 99999", "from 1 to 4096"),
            ("receive --listen udp://:0 --max-streams 0", "at least 1"),
            ("receive --listen udp://:0 --strip 99999", "from 0 to 65507"),
            ("receive --listen udp://:0 --frame-rate 0", "from 1 to 16777216"),
            ("receive --listen udp://:0 --bytes 0", "greater than zero"),
            ("receive --listen udp://:0 --heaps 0", "at least 1"),
            ("receive --listen udp://:0 --heap-window 0", "at least 1"),
            ("receive --listen udp://:0 --heap-timeout 0s", "greater than zero"),
            ("record --disk d --scan s --listen udp://:0 --chunk 0", "greater than zero"),
            ("send --to udp://10.0.0.1:1 --senders 5000", "from 1 to 1024"),
            ("send --to udp://10.0.0.1:1 --input f --loop 0", "at least 1"),
            ("send --to udp://10.0.0.1:1 --heap-step 0", "at least 1"),
            ("send --to udp://10.0.0.1:1 --items 0", "at least 1"),
            ("inspect f -n 0", "at least 1"),
            ("demo --disks 1000", "from 1 to 64"),
            ("demo --rate 0bps", "greater than zero"),
            ("demo --duration 0s", "greater than zero"),
            ("bench --rounds 0", "at least 1"),
            ("bench --time 0s", "greater than zero"),
            ("bench --rate 0bps", "greater than zero"),
            ("bench --rates 0bps", "greater than zero"),
            ("bench --bytes 0", "greater than zero"),
            ("bench --memory 0", "greater than zero"),
            ("bench --pairs 1000", "from 1 to 256"),
            ("bench --heap-size 0", "greater than zero"),
        ] {
            let words = ["skyhaul"].into_iter().chain(line.split(' '));
            let parsed = crate::args::parse(words, &crate::args::ConfigPaths::default());
            let said = parsed.map(|_| ()).unwrap_err().to_string();
            assert!(said.contains(hint) && said.contains("hint: "), "{line}: {said}");
        }
    }

    #[test]
    fn numbers_in_range_are_accepted() {
        for line in [
            "receive --listen udp://:0 --receive-threads 256 --window 4096 --strip 0 --max-streams 99999",
            "send --to udp://10.0.0.1:1 --senders 1024 --rate max --heap-size 0 --heaps 0",
        ] {
            Cli::try_parse_from(["skyhaul"].into_iter().chain(line.split(' '))).unwrap();
        }
    }

    #[test]
    fn every_format_is_offered_and_explained_wherever_one_is_typed() {
        let command = crate::args::cli::Cli::command();
        let mut seen = 0;
        for verb in command.get_subcommands() {
            let Some(arg) = verb.get_arguments().find(|arg| arg.get_long() == Some("format")) else {
                continue;
            };
            let offered: Vec<String> =
                arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
            assert_eq!(
                offered,
                Format::all().map(|f| f.name().to_owned()).collect::<Vec<_>>(),
                "{}",
                verb.get_name()
            );
            seen += 1;
        }
        assert!(seen >= 4, "{seen} verbs");
        FAMILIES.iter().for_each(|family| assert!(TAKEN.contains(family.name())));
    }

    #[test]
    fn names_are_understood_as_people_write_them() {
        let typed = |name: &str| {
            crate::args::cli::Cli::try_parse_from(["skyhaul", "inspect", "file", "--format", name])
        };
        use clap::Parser as _;
        assert!(typed("Mark-5B").is_ok());
        let error = typed("mk6").unwrap_err().to_string();
        assert!(error.contains("no format 'mk6'; there are auto"), "{error}");
    }
}
