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
use std::str::FromStr;
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

/// Most values of one sweep.
const MAX_VALUES: usize = 10_000;

/// Values of a sweep.
pub(crate) trait ValueList {
    /// What it is a list of.
    type Value: Copy;
    /// The values, in the order of the sweep.
    fn values(&self) -> &[Self::Value];
}

/// Bytes of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    values: Vec<u32>,
    /// None were chosen.
    usual: bool,
}

/// Payload of the longest datagram over IPv4 and Ethernet.
const DEFAULT_BYTES: u32 = 1472;

impl Sizes {
    /// The same; if none were chosen, nothing longer than `largest`, which passes without being cut.
    pub(crate) fn fitted(&self, largest: u32) -> Self {
        if self.usual { Self { values: vec![DEFAULT_BYTES.min(largest)], usual: true } } else { self.clone() }
    }
}

/// Picoseconds between packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spacings(Vec<u64>);

impl ValueList for Sizes {
    type Value = u32;
    fn values(&self) -> &[u32] {
        &self.values
    }
}

impl ValueList for Spacings {
    type Value = u64;
    fn values(&self) -> &[u64] {
        &self.0
    }
}

impl FromStr for Sizes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "usual" {
            return Ok(Self { values: vec![DEFAULT_BYTES], usual: true });
        }
        let size = |text: &str| {
            let bytes = text.parse::<u32>().ok().filter(|bytes| {
                (skyhaul_measure::probe::udp::MIN_DATAGRAM..=skyhaul_measure::probe::udp::MAX_DATAGRAM)
                    .contains(bytes)
            });
            bytes.map(u64::from).ok_or_else(|| {
                format!(
                    "invalid datagram size `{text}`{}",
                    Hint("write 40 to 65507 bytes, like 64,1472 or 64..8972")
                )
            })
        };
        let values = several(text, 10, &size)?.into_iter().map(|bytes| bytes as u32).collect();
        Ok(Self { values, usual: false })
    }
}

impl FromStr for Spacings {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        several(text, 40, &picoseconds).map(Self)
    }
}

/// `1us`, `723.2ns`, in picoseconds.
pub(crate) fn picoseconds(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 5] =
        [("ps", 1), ("ns", 1000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];
    let wrong = || {
        format!(
            "expected a time between packets, got `{text}`{}",
            Hint("write it with its unit, down to picoseconds: 10us, 723.2ns")
        )
    };
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|number| (number, *unit)))
        .ok_or_else(wrong)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 15;
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return Err(wrong());
    }
    let scale = 10u128.pow(decimals.len() as u32);
    let value = whole.parse::<u128>().unwrap_or(0) * scale + decimals.parse::<u128>().unwrap_or(0);
    let picoseconds = value * u128::from(unit);
    // No packet waits for an hour, and no one below a picosecond.
    let fits = picoseconds.is_multiple_of(scale) && picoseconds / scale <= 3_600_000_000_000_000;
    u64::try_from(picoseconds / scale).ok().filter(|_| fits).ok_or_else(wrong)
}

/// A list, or `FROM..TO` in `steps` values evenly apart, or `FROM..TO:N`.
fn several(text: &str, steps: usize, one: &dyn Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let Some((from, rest)) = text.split_once("..") else {
        let values: Vec<u64> = text.split(',').map(|word| one(word.trim())).collect::<Result<_, _>>()?;
        return if values.len() > MAX_VALUES {
            Err(format!("more than {MAX_VALUES} values"))
        } else {
            Ok(values)
        };
    };
    let (to, count) = match rest.split_once(':') {
        None => (rest, Some(steps)),
        Some((to, count)) => (to, count.parse().ok().filter(|n| (2..=MAX_VALUES).contains(n))),
    };
    let count = count.ok_or_else(|| {
        format!(
            "`{text}` has no number of steps behind the colon{}",
            Hint(format_args!("2 to {MAX_VALUES}, like {from}..{to}:{steps}"))
        )
    })?;
    let (from, to) = (one(from.trim())?, one(to.trim())?);
    if from >= to {
        return Err(format!("`{text}` is a descending range{}", Hint("write the smaller value first")));
    }
    let span = u128::from(to - from);
    let last = (count - 1) as u128;
    let at = |n: usize| from + ((span * n as u128 + last / 2) / last) as u64;
    let mut values: Vec<u64> = (0..count).map(at).collect();
    values.dedup();
    Ok(values)
}

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
    use proptest::prelude::*;

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
    fn lists_and_ranges_are_read() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.values);
        assert_eq!(sizes("1472").unwrap(), [1472]);
        let fitted = |text: &str, largest| text.parse::<Sizes>().unwrap().fitted(largest).values;
        // IPv6 over Ethernet, and jumbo frames; what was chosen stays.
        assert_eq!((fitted("usual", 1452), fitted("usual", 8972)), (vec![1452], vec![1472]));
        assert_eq!(fitted("1472", 1452), [1472]);
        assert_eq!(sizes("64, 1472,8972").unwrap(), [64, 1472, 8972]);
        assert_eq!(sizes("64..8972").unwrap().len(), 10);
        assert_eq!(sizes("100..200:3").unwrap(), [100, 150, 200]);
        assert_eq!(sizes("100..102:9").unwrap(), [100, 101, 102], "no size twice");
        let spacings = |text: &str| text.parse::<Spacings>().map(|spacings| spacings.0);
        assert_eq!(spacings("0us..40us:41").unwrap()[..3], [0, 1_000_000, 2_000_000]);
        assert_eq!(spacings("0us..40us").unwrap().len(), 40);
        assert_eq!(spacings("723.2ns,1us,0s").unwrap(), [723_200, 1_000_000, 0]);
        for wrong in ["", "39", "65508", "64..", "64..32", "64..128:1", "64..128:x", "a", "64,,65", "-1"] {
            assert!(sizes(wrong).unwrap_err().contains("hint: "), "{wrong}");
        }
        for wrong in [
            "",
            "10",
            "us",
            "1.us2",
            "0.0001ns",
            "2e3us",
            "3601s",
            "1.2.3us",
            "5us..1us",
            "99999999999999999s",
        ] {
            assert!(spacings(wrong).unwrap_err().contains("hint: "), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}", numbers in "[0-9.,:us]{0,30}") {
            for text in [text, numbers] {
                let _ = (text.parse::<Sizes>(), text.parse::<Spacings>());
            }
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
