//! What can be typed of SPEAD only; each group stands under its own heading in `--help`.

use clap::{Args, ValueEnum};
use skyhaul::io::quantity::{Rate, Size, Span};
use std::path::PathBuf;
use std::str::FromStr;

/// How SPEAD heaps are made and cut into packets.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "SPEAD (--format spead)")]
pub(crate) struct SpeadSendArgs {
    /// Payload of a heap
    #[arg(long, default_value = "4MiB", value_name = "SIZE")]
    pub(crate) heap_size: Size,
    /// Stop after this many heaps of each sender (default: until --duration or Ctrl-C)
    #[arg(long, value_name = "N")]
    pub(crate) heaps: Option<u64>,
    /// Bytes of a packet, with its SPEAD header; `mtu`: as the route takes; `heap`: each heap is one packet, for TCP
    #[arg(long, default_value = "1472", value_name = "BYTES")]
    pub(crate) packet: PacketArg,
    /// Bits of value or address of an item pointer, SPEAD-64-N
    #[arg(long, default_value_t = 48, value_name = "N")]
    pub(crate) flavour: u8,
    /// Items a heap's payload is divided into
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) items: usize,
    /// All item pointers in every packet, so that each heap survives the loss of its first one
    #[arg(long)]
    pub(crate) repeat_pointers: bool,
    /// Send heaps to the destinations in turn, as substreams of one sender, instead of all to each
    #[arg(long)]
    pub(crate) substreams: bool,
    /// First heap counter
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) first_heap: u64,
    /// From one heap's counter to the next
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) heap_step: u64,
    /// Cut heaps as spead2 does, instead of into packets that are as equal as they can be
    #[arg(long)]
    pub(crate) full_packets: bool,
    /// Send no item descriptors and no stop heap
    #[arg(long)]
    pub(crate) bare: bool,
}

/// Size of a SPEAD packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketArg {
    /// At most this many bytes.
    Bytes(usize),
    /// As large as the route takes in one piece.
    Mtu,
    /// The heap in one piece.
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
                "`{text}` is no packet size; write 64 or more, like 1472 or 8972, or `mtu` or `heap`"
            )),
        }
    }
}

/// A rate, or a way to find one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateArg {
    /// Bits per second of datagram payload.
    Fixed(Rate),
    /// Follow what the receiver says.
    Auto,
    /// Search once, then keep.
    Search,
}

impl FromStr for RateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "search" => Ok(Self::Search),
            _ => text.parse().map(Self::Fixed).map_err(|e: <Rate as FromStr>::Err| e.to_string()),
        }
    }
}

/// How SPEAD heaps are put together.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "SPEAD (--format spead)")]
pub(crate) struct SpeadReceiveArgs {
    /// Heaps under construction at a time: how much reordering over heaps is put right
    #[arg(long, default_value_t = 16, value_name = "HEAPS")]
    pub(crate) heap_window: usize,
    /// Largest heap accepted
    #[arg(long, default_value = "256MiB", value_name = "SIZE")]
    pub(crate) largest_heap: Size,
    /// A heap ends incomplete this long after its first packet
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub(crate) heap_timeout: Span,
    /// How long finished heaps are known, so that their late and doubled packets are refused; 0: any packet may begin its heap anew
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub(crate) remember: Span,
    /// Senders count their heaps independently: tell heaps apart by sender, too
    #[arg(long)]
    pub(crate) by_sender: bool,
    /// Packets of a heap must come in order, as spead2 wants it by default
    #[arg(long)]
    pub(crate) in_order: bool,
    /// Stop items that end the stream: `first`, `never`, or how many
    #[arg(long, default_value = "first", value_name = "WHEN")]
    pub(crate) stop_items: StopArg,
    /// Stop after this many heaps
    #[arg(long, value_name = "N")]
    pub(crate) heaps: Option<u64>,
    /// Ignore heaps with a smaller counter
    #[arg(long, value_name = "N")]
    pub(crate) start_heap: Option<u64>,
    /// Write incomplete heaps, too, their gaps filled with zeros (with --output-file)
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// End when the last TCP connection has ended
    #[arg(long)]
    pub(crate) end_with_connections: bool,
    /// Tell senders what arrives, for their `--rate auto`
    #[arg(long)]
    pub(crate) feedback: bool,
}

/// Which stop items end a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopArg {
    /// None.
    Never,
    /// The first this many.
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
                _ => Err(format!("`{text}` is neither `first` nor `never` nor a number of stop items")),
            },
        }
    }
}

/// The experiments of SDP memo 046.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "SPEAD (--format spead)")]
pub(crate) struct SpeadBenchArgs {
    /// Experiments: link, light, receiver, pairs, scaling (default: all)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    pub(crate) experiments: Vec<Experiment>,
    /// Payload of a heap
    #[arg(long, default_value = "4MiB", value_name = "SIZE")]
    pub(crate) heap_size: Size,
    /// Sender and receiver pairs (pairs, scaling)
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) pairs: usize,
    /// Rates of each sender, like 1Gbps,2Gbps (default: eight steps up to what one sender can do)
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    pub(crate) rates: Vec<Rate>,
    /// Addresses to receive on, one for each interface; pairs take turns (default: --address)
    #[arg(long, value_name = "IPS", value_delimiter = ',')]
    pub(crate) interfaces: Vec<std::net::IpAddr>,
    /// Write tables, plots and the figures as JSON to this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, default_value = "spead-bench")]
    pub(crate) report: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Bare UDP and TCP loops: what the link can do (memo, table 1)
    Link,
    /// Senders alone: default, MTU, buffers, both (table 2)
    Light,
    /// Senders against receivers, and the heaps lost (tables 3 and 4)
    Receiver,
    /// Pairs at rising rates, and TCP (figures 2, 3 and 6)
    Pairs,
    /// One to N senders at several rates, and what is missing to N times one (figures 4 and 5)
    Scaling,
}
