//! Arguments that are for events only, and where events go.

use super::applies::{EVENTS, to};
use super::limits::{SOCKETS, at_least_one, from_to, some, up_to};
use clap::{Args, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, NotAnEndpoint};
use skyhaul::io::quantity::{Size, Span};
use skyhaul::wire::{BalancerUri, BalancerVersion, PortRule, SlotRule};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How events are made, addressed and cut into packets.
#[derive(Args, Clone, Debug)]
pub(crate) struct EventSendArgs {
    /// Bytes of an event, at most 4 GiB - 1, or a range such as 1KiB..1MiB (default: 1MiB, or an input file each)
    ///
    /// Of input files, each piece of this size is an event, or each file if it is not given.
    #[arg(long, value_name = "SIZE", add = to(EVENTS))]
    pub(crate) event: Option<EventSize>,
    /// Seed of the sizes of a range
    #[arg(long, value_name = "N", default_value_t = 1, add = to(EVENTS))]
    pub(crate) seed: u64,
    /// Stop after this many events from each sender (default: at --duration, Ctrl-C or the end of the input)
    #[arg(long, value_name = "N", add = to(EVENTS))]
    pub(crate) events: Option<u64>,
    /// Events per second of each sender, at equal intervals; --rate limits it too
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>("omit it for as fast as --rate allows"), add = to(EVENTS))]
    pub(crate) event_rate: Option<u64>,
    /// Pause after events; see --delay-every
    #[arg(long, value_name = "TIME", add = to(EVENTS))]
    pub(crate) delay: Option<Span>,
    /// Events between two pauses of --delay
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u64>("1 pauses after each event"), add = to(EVENTS).with("delay"))]
    pub(crate) delay_every: u64,
    /// Largest IP packet in bytes; `auto`: what the route carries
    #[arg(long, value_name = "BYTES", default_value = "1500", add = to(EVENTS))]
    pub(crate) mtu: MtuArg,
    /// First tick (event number); `clock`: microseconds since 1970
    ///
    /// Several sources that begin with the same tick and have the same step send parts of the same events.
    #[arg(long, value_name = "N", default_value = "clock", add = to(EVENTS))]
    pub(crate) tick: TickArg,
    /// Step from one tick to the next
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u64>("events with the same tick would be taken for one"), add = to(EVENTS).with("tick"))]
    pub(crate) tick_step: u64,
    /// Data id of the first sender, which names the source; further senders have the next ones
    #[arg(long, value_name = "N", default_value_t = 0, add = to(EVENTS))]
    pub(crate) data_id: u16,
    /// Version of the balancer's header: 2 or 3
    #[arg(long, value_name = "N", default_value = "2", value_parser = lb_version, add = to(EVENTS))]
    pub(crate) lb_version: BalancerVersion,
    /// Slot of an event in version 3: `tick`, its low bits, or `spread`, evenly whatever the step
    #[arg(long, value_name = "RULE", default_value = "tick", value_parser = slot, add = to(EVENTS))]
    pub(crate) slot: SlotRule,
    /// Chooses the receiver's port: a number, `source` (the data id), or `event` (evenly, event by event)
    #[arg(long, value_name = "RULE", default_value = "event", value_parser = entropy, add = to(EVENTS))]
    pub(crate) entropy: PortRule,
    /// Version in the reassembly header: 1; 0 or 2 for receivers that expect what udplbd or packetBlaster send
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_to::<u8>(0, 2, "1 is what most receivers expect"), add = to(EVENTS))]
    pub(crate) re_version: u8,
    /// Sockets of each sender, each with a source port of its own, used in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to::<usize>(SOCKETS, "a few are enough to spread events over a receiver's queues"), add = to(EVENTS))]
    pub(crate) sockets: usize,
    /// Send buffer of each socket
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = some::<Size>("the default suits most hosts"), add = to(EVENTS))]
    pub(crate) socket_buffer: Size,
    /// Join the balancer as a sender: ask its control plane to admit this host, and report what it refused (exit status 1)
    #[arg(long, add = to(EVENTS))]
    pub(crate) join: bool,
    /// Trust the control plane's certificate if it is in this PEM file or signed by one in it (default: the system's
    /// authorities)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, add = to(EVENTS).with("join"))]
    pub(crate) certificate: Option<PathBuf>,
    /// Accept any certificate of the control plane
    #[arg(long, conflicts_with = "certificate", add = to(EVENTS).with("join"))]
    pub(crate) any_certificate: bool,
    /// Use the IPv6 addresses of a URI
    #[arg(long, add = to(EVENTS))]
    pub(crate) ipv6: bool,
    /// Address for synchronisation messages (default: sync= of the URI)
    #[arg(long, value_name = "ADDRESS", add = to(EVENTS))]
    pub(crate) sync: Option<Endpoint>,
    /// Time between synchronisation messages
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some::<Span>("1s is what balancers expect"), add = to(EVENTS))]
    pub(crate) sync_period: Span,
    /// Time from the first synchronisation message to the first event
    #[arg(long, value_name = "TIME", default_value = "1s", add = to(EVENTS))]
    pub(crate) warm_up: Span,
}

fn lb_version(text: &str) -> Result<BalancerVersion, String> {
    match text {
        "2" => Ok(BalancerVersion::V2),
        "3" => Ok(BalancerVersion::V3),
        _ => Err(format!("expected version 2 or 3{}", Hint("use 2 unless the balancer needs 3"))),
    }
}

fn slot(text: &str) -> Result<SlotRule, String> {
    match text {
        "tick" => Ok(SlotRule::Tick),
        "spread" => Ok(SlotRule::Spread),
        _ => Err("expected `tick` or `spread`".into()),
    }
}

fn entropy(text: &str) -> Result<PortRule, String> {
    match text {
        "source" => Ok(PortRule::Source),
        "event" => Ok(PortRule::Event),
        _ => {
            let number = text.parse().map(PortRule::Fixed);
            number.map_err(|_| "expected `event`, `source`, or a number from 0 to 65535".into())
        }
    }
}

/// Bytes of events: from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventSize {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl FromStr for EventSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let size = |text: &str| text.parse::<Size>().map(Size::bytes).map_err(|error| error.to_string());
        let (least, most) = (size(least)?, size(most)?);
        if least == 0 || most > u64::from(u32::MAX) || least > most {
            return Err(format!(
                "an event has 1 to 4294967295 bytes{}",
                Hint("write 1MiB, or a range such as 1KiB..1MiB")
            ));
        }
        Ok(Self { least, most })
    }
}

/// Largest IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MtuArg {
    /// This many bytes.
    Bytes(usize),
    /// What the route carries.
    Auto,
}

impl FromStr for MtuArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let bytes = text.parse().ok().filter(|bytes| (100..=65_535).contains(bytes));
        bytes.map(Self::Bytes).ok_or_else(|| "expected 100 to 65535, like 1500 or 9000, or `auto`".into())
    }
}

/// First tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickArg {
    /// Ticks are counted from here.
    From(u64),
    /// They are the clock's.
    Clock,
}

impl FromStr for TickArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "clock" => Ok(Self::Clock),
            _ => text.parse().map(Self::From).map_err(|_| "expected a whole number, or `clock`".into()),
        }
    }
}

/// Where something is sent: an address, or the URI of a balancer, which has a token and so is in no message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum ToArg {
    /// An address.
    Address(Endpoint),
    /// A URI, which is read later: what clap says of a value shows it.
    Uri(String),
}

impl FromStr for ToArg {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        // No address has `@`: it is a URI with a mistake in its scheme.
        if BalancerUri::is_meant(text) || text.contains('@') {
            return Ok(Self::Uri(text.to_owned()));
        }
        text.parse().map(Self::Address)
    }
}

impl fmt::Debug for ToArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(at) => write!(f, "{at}"),
            Self::Uri(_) => f.write_str("URI of a balancer"),
        }
    }
}
