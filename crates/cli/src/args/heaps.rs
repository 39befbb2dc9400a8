//! Arguments that are for SPEAD heaps only; each group stands under its own heading in `--help`.

use super::applies::{EXPERIMENTS, HEAPS, LIMITED, OBJECTS, PEERS, RDMA, RECORDING, SWEEP, to};
use super::limits::{PAIRS, at_least_one, from_to, some, up_to};
use clap::{Args, ValueEnum};
use skyhaul::core::control::ControlConfig;
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::{Rate, Share, Size, Span};
use skyhaul::wire::spead::Flavour;
use std::path::PathBuf;
use std::str::FromStr;

/// How SPEAD heaps are made and cut into packets.
#[derive(Args, Clone, Debug)]
pub(crate) struct HeapSendArgs {
    /// Payload of a heap
    #[arg(long, default_value = "4MiB", value_name = "SIZE", add = to(HEAPS))]
    pub(crate) heap_size: Size,
    /// Stop after this many heaps from each sender (default: at --duration or Ctrl-C)
    #[arg(long, value_name = "N", add = to(HEAPS))]
    pub(crate) heaps: Option<u64>,
    /// Packet size with SPEAD header; `mtu`: the largest that the route carries; `heap`: one packet per heap, for TCP
    #[arg(long, default_value = "1472", value_name = "BYTES", add = to(HEAPS | RECORDING))]
    pub(crate) packet: PacketArg,
    /// SPEAD-64-N: bits of the value or address in an item pointer
    #[arg(long, default_value = "48", value_name = "N", value_parser = flavour, add = to(HEAPS))]
    pub(crate) flavour: Flavour,
    /// Number of items in a heap's payload
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one::<usize>("use --heap-size 0 for a heap without payload"), add = to(HEAPS))]
    pub(crate) items: usize,
    /// Repeat all item pointers in every packet, so that a heap survives the loss of its first packet
    #[arg(long, add = to(HEAPS))]
    pub(crate) repeat_pointers: bool,
    /// Send heaps to the destinations in turn, as substreams of one sender (default: every heap to each)
    #[arg(long, add = to(HEAPS))]
    pub(crate) substreams: bool,
    /// First heap counter
    #[arg(long, default_value_t = 1, value_name = "N", add = to(HEAPS))]
    pub(crate) first_heap: u64,
    /// Step from one heap's counter to the next
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one::<u64>("heaps with the same counter would be taken for one heap"), add = to(HEAPS))]
    pub(crate) heap_step: u64,
    /// Fill every packet but a heap's last, as spead2 does (default: packets of equal size)
    #[arg(long, add = to(HEAPS))]
    pub(crate) full_packets: bool,
    /// Send no item descriptors and no stop heap
    #[arg(long, add = to(HEAPS))]
    pub(crate) bare: bool,
}

fn flavour(text: &str) -> Result<Flavour, String> {
    let flavour = text.parse().ok().and_then(Flavour::new);
    flavour
        .ok_or_else(|| format!("unknown flavour SPEAD-64-{text}{}", Hint("use 8, 16, 24, 32, 40, 48 or 56")))
}

/// Size of a SPEAD packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketArg {
    /// At most this many bytes.
    Bytes(usize),
    /// The largest that the route carries in one piece.
    Mtu,
    /// One packet for each heap.
    Heap,
}

impl FromStr for PacketArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "heap" => return Ok(Self::Heap),
            "mtu" => return Ok(Self::Mtu),
            _ => {}
        }
        let bytes = text.parse::<usize>().ok().or_else(|| Some(text.parse::<Size>().ok()?.bytes() as usize));
        match bytes {
            Some(bytes) if bytes >= 64 => Ok(Self::Bytes(bytes)),
            _ => Err(format!(
                "invalid packet size `{text}`{}",
                Hint("write 64 or more, like 1472 or 8972, or `mtu` or `heap`")
            )),
        }
    }
}

/// A rate, or a way to find one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateArg {
    /// Bits per second of datagram payload.
    Fixed(Rate),
    /// As fast as this host and the network can.
    Max,
    /// Follow the receiver's feedback.
    Auto(Bounds),
    /// Search once, then keep the rate.
    Search(Bounds),
}

/// Bounds of a rate that is found, `MIN-MAX@START`, in bits per second; each is optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: Option<u64>,
    pub(crate) most: Option<u64>,
    /// Rate to start from.
    pub(crate) start: Option<u64>,
}

impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HINT: &str =
            "write MIN-MAX or MIN-MAX@START, such as auto:50Mbps-8Gbps@1Gbps; each is optional";
        let (range, start) = text.split_once('@').map_or((text, None), |(range, start)| (range, Some(start)));
        let (least, most) = match range.split_once('-') {
            Some(both) => both,
            None if range.is_empty() && start.is_some() => ("", ""),
            None => return Err(format!("expected MIN-MAX, got `{text}`{}", Hint(HINT))),
        };
        let rate = |text: &str| match text.trim() {
            "" => Ok(None),
            text => match text.parse::<Rate>() {
                Ok(rate) if rate.bits_per_second() >= 1000 => Ok(Some(rate.bits_per_second())),
                Ok(_) => Err(format!("`{text}` is less than 1kbps{}", Hint(HINT))),
                Err(error) => Err(error.to_string()),
            },
        };
        let (least, most, start) = (rate(least)?, rate(most)?, rate(start.unwrap_or_default())?);
        let order = [least, start, most];
        let known: Vec<u64> = order.into_iter().flatten().collect();
        if !known.is_sorted() {
            return Err(format!("`{text}` is out of order: minimum, start, maximum{}", Hint(HINT)));
        }
        Ok(Self { least, most, start })
    }
}

impl Bounds {
    /// A control loop within these bounds.
    pub(crate) fn control(self) -> ControlConfig {
        let usual = ControlConfig::default();
        let (least, most, start) = self.or(usual.least, usual.most, usual.start);
        ControlConfig { least, most, start, ..usual }
    }

    /// These bounds, completed with others: least, most, start.
    pub(crate) fn or(self, least: u64, most: u64, start: u64) -> (u64, u64, u64) {
        // A bound that is given moves those that are not.
        let given = self.least.max(self.start);
        let most = self.most.unwrap_or(most.max(given.unwrap_or(0)));
        let least = self.least.unwrap_or(least.min(self.start.unwrap_or(most)).min(most));
        (least, most, self.start.unwrap_or(start).clamp(least, most))
    }
}

impl FromStr for RateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            "auto" => Ok(Self::Auto(Bounds::default())),
            "search" => Ok(Self::Search(Bounds::default())),
            _ if text.starts_with("auto:") => text["auto:".len()..].parse().map(Self::Auto),
            _ if text.starts_with("search:") => text["search:".len()..].parse().map(Self::Search),
            _ => match text.parse::<Rate>() {
                Ok(rate) if rate == Rate::default() => Err(format!(
                    "must be greater than zero{}",
                    Hint("write `max` to send as fast as this host can")
                )),
                Ok(rate) => Ok(Self::Fixed(rate)),
                Err(error) => Err(format!("{error}, or max")),
            },
        }
    }
}

/// How SPEAD heaps are put together.
#[derive(Args, Clone, Debug)]
pub(crate) struct HeapReceiveArgs {
    /// Incomplete heaps held at a time; more heaps absorb more reordering
    #[arg(long, default_value_t = 16, value_name = "HEAPS", value_parser = at_least_one::<usize>("16 suits most senders"), add = to(OBJECTS))]
    pub(crate) heap_window: usize,
    /// Largest heap or event to accept (default: 256MiB for heaps, 4GiB for events, limited by --memory)
    #[arg(long, value_name = "SIZE", add = to(OBJECTS))]
    pub(crate) largest_heap: Option<Size>,
    /// Give up an incomplete heap this long after its first packet
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = some::<Span>("longer than a heap takes to arrive, such as 1s"), add = to(OBJECTS))]
    pub(crate) heap_timeout: Span,
    /// How long finished heaps are remembered, so that their late and duplicate packets are refused; 0: a late packet starts
    /// its heap again
    #[arg(long, default_value = "1s", value_name = "TIME", add = to(OBJECTS))]
    pub(crate) remember: Span,
    /// Tell heaps apart by sender as well as by counter, for senders that count independently
    #[arg(long, add = to(OBJECTS))]
    pub(crate) by_sender: bool,
    /// Require the packets of a heap in order, as spead2 does by default
    #[arg(long, add = to(OBJECTS))]
    pub(crate) in_order: bool,
    /// Stop items that end the stream: `first`, `never` or a number
    #[arg(long, default_value = "first", value_name = "WHEN", add = to(OBJECTS).and(HEAPS))]
    pub(crate) stop_items: StopArg,
    /// Stop after this many heaps
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>("omit it for no limit"), add = to(OBJECTS))]
    pub(crate) heaps: Option<u64>,
    /// Ignore heaps with a smaller counter
    #[arg(long, value_name = "N", add = to(OBJECTS))]
    pub(crate) start_heap: Option<u64>,
}

/// Which stop items end a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopArg {
    /// No stop item does.
    Never,
    /// This many stop items.
    After(u32),
}

impl FromStr for StopArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            "first" => Ok(Self::After(1)),
            _ => match text.parse() {
                Ok(n) if n > 0 => Ok(Self::After(n)),
                _ => Err(format!(
                    "`{text}` is not `first`, `never` or a number of stop items{}",
                    Hint("each sender sends one, so use the number of senders")
                )),
            },
        }
    }
}

/// The experiments of SDP memo 046.
#[derive(Args, Clone, Debug)]
pub(crate) struct HeapBenchArgs {
    /// Experiments to run (default: all but limited)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", add = to(EXPERIMENTS))]
    pub(crate) experiments: Vec<Experiment>,
    /// Payload of a heap
    #[arg(long, default_value = "4MiB", value_name = "SIZE", value_parser = some::<Size>("the memo uses heaps of 4MiB"), add = to(EXPERIMENTS | OBJECTS))]
    pub(crate) heap_size: Size,
    /// Number of sender and receiver pairs (experiments pairs and scaling)
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = up_to::<usize>(PAIRS, "one pair for every one or two CPUs is enough"), add = to(EXPERIMENTS))]
    pub(crate) pairs: usize,
    /// Rates of each sender, or for events of all senders together, like 1Gbps,2Gbps (default: eight steps up to the maximum
    /// of one sender; for events 500Mbps to 4Gbps). With `limited`, CPU time is measured at the first (default: 4Gbps)
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = some::<Rate>("omit --rates for a default choice"), add = to(EXPERIMENTS | SWEEP))]
    pub(crate) rates: Vec<Rate>,
    /// Addresses to receive on, one for each interface, assigned to the pairs in turn (default: --address)
    #[arg(long, value_name = "IPS", value_delimiter = ',', add = to(EXPERIMENTS))]
    pub(crate) interfaces: Vec<std::net::IpAddr>,
    /// CPU share of each receiver (default: 50%)
    #[arg(long, value_name = "SHARE", add = to(EXPERIMENTS).and(LIMITED))]
    pub(crate) receiver_cpu: Option<Share>,
    /// Packet sizes with SPEAD header (default: 1472,8972)
    #[arg(long = "packet", value_name = "BYTES", value_delimiter = ',', value_parser = from_to::<usize>(64, 65_507, "as of `send --packet`, such as 1472,8972"), add = to(EXPERIMENTS).and(LIMITED))]
    pub(crate) packets: Vec<usize>,
    /// Command line of another receiver, without quotes; {address}, {port}, {packet}, {heap} and {buffer} are replaced. May be
    /// repeated
    #[arg(long, value_name = "COMMAND", add = to(EXPERIMENTS).and(LIMITED))]
    pub(crate) against: Vec<String>,
    /// Directory for tables, plots and results as JSON (default: spead-bench, for events ejfat-bench, for peers peers-bench); for rdma the HTML file to write (default: none)
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath, add = to(EXPERIMENTS | SWEEP | PEERS | RDMA))]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Bare UDP and TCP loops: the limit of the link (memo, table 1)
    Link,
    /// Senders without receivers: default, MTU, buffers, both (table 2)
    Light,
    /// Senders with receivers, and the heaps lost (tables 3 and 4)
    Receiver,
    /// Pairs at rising rates, and TCP (figures 2, 3 and 6)
    Pairs,
    /// One to N senders at several rates, and the shortfall from N times one (figures 4 and 5)
    Scaling,
    /// Receivers with a share of a CPU, skyhaul's and others: CPU time, and the highest rate without loss
    Limited,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_rate_that_is_found() {
        let read = |text: &str| text.parse::<RateArg>();
        let bounds = |least, most, start| Bounds { least, most, start };
        let (m, g) = (1_000_000, 1_000_000_000);
        for (text, right) in [
            ("max", RateArg::Max),
            ("8Gbps", RateArg::Fixed(Rate::from_bits_per_second(8 * g))),
            ("auto", RateArg::Auto(Bounds::default())),
            ("auto:50Mbps-8Gbps", RateArg::Auto(bounds(Some(50 * m), Some(8 * g), None))),
            ("auto:50Mbps-8Gbps@1Gbps", RateArg::Auto(bounds(Some(50 * m), Some(8 * g), Some(g)))),
            ("auto:-8Gbps", RateArg::Auto(bounds(None, Some(8 * g), None))),
            ("auto:@1Gbps", RateArg::Auto(bounds(None, None, Some(g)))),
            ("search:50Mbps-", RateArg::Search(bounds(Some(50 * m), None, None))),
        ] {
            assert_eq!(read(text), Ok(right), "{text}");
        }
        for text in [
            "auto:",
            "auto:1Gbps",
            "auto:2Gbps-1Gbps",
            "auto:1-2",
            "auto:1Gbps-2Gbps@3Gbps",
            "auto:0bps-1Gbps",
            "maximum",
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains("hint: "), "{text}: {said}");
        }
    }

    #[test]
    fn bounds_that_are_given_move_those_that_are_not() {
        let of = |text: &str| text.parse::<Bounds>().unwrap().or(1_000_000, 400_000_000_000, 100_000_000);
        assert_eq!(Bounds::default().or(1, 9, 5), (1, 9, 5));
        assert_eq!(of("-8Gbps"), (1_000_000, 8_000_000_000, 100_000_000));
        assert_eq!(of("-500kbps"), (500_000, 500_000, 500_000));
        assert_eq!(of("1Gbps-"), (1_000_000_000, 400_000_000_000, 1_000_000_000));
        assert_eq!(of("@20kbps"), (20_000, 400_000_000_000, 20_000));
        assert_eq!(of("500Gbps-"), (500_000_000_000, 500_000_000_000, 500_000_000_000));
    }
}
