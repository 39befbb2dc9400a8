//! Arguments of `send`.

use super::applies::{ALWAYS, EVENTS, FRAMES, GENERATED, HEAPS, OBJECTS, RECORDING, UDP, to, with};
use super::events::{EventSendArgs, ToArg};
use super::heaps::{HeapSendArgs, RateArg};
use super::limits::{
    DESTINATION, FormatParser, HOST, OutputArgs, PACE, SENDERS, SENT, SOURCE, TESTING, at_least_one, from_to,
    up_to,
};
use super::receive::data_time;
use super::sky::SkyArg;
use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::fault::Faults;
use skyhaul::io::quantity::Span;
use skyhaul::send::events::Target;
use skyhaul::wire::{BalancerUri, Format, Objects};
use std::path::PathBuf;

/// Where events go if no address is given.
pub(super) const VARIABLE: &str = "EJFAT_URI";

const LEAVE: &str = "leave it out; `--help` lists the options for heaps and events under their own heading";
/// What is sent instead of a recording.
const NOT_RECORDED: [&str; 4] = ["input", "pattern", "noise", "sky"];
const HEAPS_OF: &str = "heaps are made from --pattern or --input";
const EVENTS_OF: &str = "events are made from --pattern or --input";

#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Send this file: its frames, heaps or events; may be repeated for events
    #[arg(id = "input", long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "what", help_heading = SOURCE, add = ALWAYS)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Send this recording
    #[arg(long, value_name = "NAME", group = "what", help_heading = SOURCE, add = with("disk"))]
    pub(crate) scan: Option<String>,
    /// A disk of the recording; may be repeated
    #[arg(long = "disk", value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = NOT_RECORDED, help_heading = SOURCE, add = with("scan"))]
    pub(crate) disk: Vec<PathBuf>,
    /// Send payloads that verify themselves
    #[arg(long, group = "what", help_heading = SOURCE, add = ALWAYS)]
    pub(crate) pattern: bool,
    /// Send 2-bit Gaussian noise with a tone
    #[arg(long, group = "what", help_heading = SOURCE, add = to(FRAMES).instead(HEAPS, HEAPS_OF).instead(EVENTS, EVENTS_OF))]
    pub(crate) noise: bool,
    /// Send 2-bit samples of a sky that stations share, with delay and fringe, like station=Ef,delay=1.25us
    ///
    /// Noise of the station, plus white noise that is the same for all senders with its seed, delayed and turned in phase as
    /// a receiver at this station records it. The samples follow from the times of the frames: senders that start apart
    /// correlate, and a lost frame changes no other. Thread k has the adjacent band of the sky, k bandwidths higher.
    ///
    /// Keys: station=Ef, two letters, which also start its own noise (required); noise=1, a further seed of the noise;
    /// seed=1, of the sky; correlation=0.1, the common part of the power, 0 to 1; delay=0, positive if the sky arrives later
    /// here, with a unit from ps to s, up to 1s; rate=0, change of the delay in s/s, up to 1e-4; epoch=TIME, when the delay
    /// holds (required with a rate); frequency=0Hz, lower edge of the band of thread 0, up to 1THz.
    #[arg(long, value_name = "SPEC", group = "what", help_heading = SOURCE, add = to(FRAMES).instead(HEAPS, HEAPS_OF).instead(EVENTS, EVENTS_OF))]
    pub(crate) sky: Option<SkyArg>,
    #[arg(long, default_value = "auto", value_parser = FormatParser, hide_possible_values = true, help = SENT.as_str(), help_heading = SOURCE, add = ALWAYS)]
    pub(crate) format: Format,
    /// Send the input this many times; each pass after the first has new times that continue the pass before
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["scan", "pattern", "noise", "sky"], value_parser = at_least_one::<u64>("1 sends the input once"), help_heading = SOURCE, add = with("input"))]
    pub(crate) r#loop: u64,
    /// Give the frames new times that begin now, by adding the same whole number of seconds to each
    ///
    /// Without it, and without --loop, frames are sent byte for byte, with the times they have. Gaps, threads and the order
    /// of frames stay as they are in any case.
    #[arg(long, help_heading = SOURCE, add = to(FRAMES | RECORDING).instead(HEAPS, LEAVE).instead(EVENTS, "leave it out; events are numbered from --tick on"))]
    pub(crate) restamp: bool,
    /// Number of the recording's stream, if it has several
    #[arg(long, value_name = "N", conflicts_with_all = NOT_RECORDED, help_heading = SOURCE, add = with("scan"))]
    pub(crate) stream: Option<u32>,
    /// Follow the recording while it is being written
    #[arg(long, conflicts_with_all = NOT_RECORDED, help_heading = SOURCE, add = with("scan"))]
    pub(crate) follow: bool,
    /// Send invalid frames in place of missing or damaged chunks of the recording (default: skip them)
    #[arg(long, conflicts_with_all = NOT_RECORDED, help_heading = SOURCE, add = with("scan"))]
    pub(crate) fill: bool,
    /// Destination address; may be repeated, and each gets everything from senders of its own
    ///
    /// Events go to a receiver's address, or through a balancer to the URI of a reservation, ejfat://…/lb/1?data=…&sync=….
    /// Without --to, they go to the URI in the environment variable EJFAT_URI.
    #[arg(id = "to", long, value_name = "ADDRESS", help_heading = DESTINATION, add = ALWAYS)]
    given: Vec<ToArg>,
    /// The addresses; of events, the first of each target.
    #[arg(skip)]
    pub(crate) to: Vec<Endpoint>,
    /// Of events.
    #[arg(skip)]
    pub(crate) targets: Vec<Target>,
    /// Of events: the balancers among the targets.
    #[arg(skip)]
    pub(crate) balancers: Vec<BalancerUri>,
    /// Senders to each destination, each from a port of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = up_to::<usize>(SENDERS, "one sender for every one or two CPUs is enough"), help_heading = DESTINATION, add = ALWAYS)]
    pub(crate) senders: usize,
    /// Rate of datagram payload, like 1Gbps; or `max`, `auto`, `search`
    ///
    /// The rate is that of all senders together, or one for each destination, like 1Gbps,2Gbps. Without it, recorded frames
    /// are sent at the pace of their own times, gaps included (see --max-wait); `max` sends as fast as this host can, and is
    /// the default for other data that end or use TCP; a pattern, noise or sky over UDP needs a rate unless --packets or
    /// --heaps limits it. Over UDP, `auto` follows the receiver's feedback (`receive --feedback`);
    /// for SPEAD, `search` finds the highest rate without loss once and keeps it. Both take bounds for each
    /// sender, like auto:50Mbps-8Gbps, and a starting rate after @, like auto:50Mbps-8Gbps@1Gbps.
    #[arg(long, value_name = "RATE", value_delimiter = ',', help_heading = PACE, add = ALWAYS)]
    pub(crate) rate: Vec<RateArg>,
    /// Longest wait for a gap in recorded frames that are sent at their own pace
    ///
    /// A longer gap, such as the break between two scans, is cut to this. The times in the frames stay as they are. 0s
    /// continues immediately.
    #[arg(long, value_name = "TIME", default_value = "1min", conflicts_with = "rate", help_heading = PACE, add = to(FRAMES | RECORDING).instead(HEAPS, "use --rate").instead(EVENTS, "use --event-rate"))]
    pub(crate) max_wait: Span,
    /// Stop after this many packets
    #[arg(long, value_name = "N", help_heading = PACE, add = to(FRAMES | RECORDING).instead(HEAPS, "use --heaps: whole heaps are sent").instead(EVENTS, "use --events: whole events are sent"))]
    pub(crate) packets: Option<u64>,
    /// Stop after this long
    #[arg(long, value_name = "TIME", help_heading = PACE, add = ALWAYS)]
    pub(crate) duration: Option<Span>,
    /// Payload of a generated frame, in bytes
    #[arg(long, default_value_t = 8000, value_name = "BYTES", add = to(GENERATED).and(FRAMES).instead(HEAPS, "use --heap-size, and --packet for the packet size").instead(EVENTS, "use --event, and --mtu for the packet size"))]
    pub(crate) payload: usize,
    /// VDIF threads of a generated stream
    #[arg(long, default_value_t = 1, value_name = "N", add = to(GENERATED).and(FRAMES).instead(OBJECTS, "use --senders"))]
    pub(crate) threads: u16,
    /// Frames per second of each thread (default: from the headers, otherwise from the rate)
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, 1 << 24, "omit it if the headers or the rate give the frame rate"), add = to(FRAMES | RECORDING).instead(HEAPS, "use --rate").instead(EVENTS, "use --event-rate"))]
    pub(crate) frame_rate: Option<u32>,
    /// Time of the first generated frame, in whole seconds (default: now)
    #[arg(long, value_name = "TIME", value_parser = data_time, add = to(GENERATED).and(FRAMES).instead(HEAPS, LEAVE).instead(EVENTS, "use --tick"))]
    pub(crate) start: Option<i64>,
    /// Sequence number before each frame
    #[arg(long, value_enum, default_value_t = NumberArg::Auto, add = to(FRAMES | RECORDING).instead(OBJECTS, LEAVE))]
    pub(crate) sequence: NumberArg,
    /// First sequence number
    #[arg(long, value_name = "N", default_value_t = 0, add = to(FRAMES | RECORDING).instead(HEAPS, "use --first-heap").instead(EVENTS, "use --tick"))]
    pub(crate) first: u64,
    /// CPUs for the sending threads, like 2,3, assigned in turn
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = HOST, add = ALWAYS)]
    pub(crate) cpu: Vec<usize>,
    /// How to hand packets to the kernel
    #[arg(long, value_enum, default_value_t = SendMode::Auto, help_heading = HOST, add = to(UDP))]
    pub(crate) mode: SendMode,
    /// Lose, reorder, duplicate or damage packets on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7
    #[arg(long, value_name = "SPEC", help_heading = TESTING, add = ALWAYS)]
    pub(crate) faults: Option<Faults>,
    #[command(flatten)]
    pub(crate) of_heaps: HeapSendArgs,
    #[command(flatten)]
    pub(crate) of_events: EventSendArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl SendArgs {
    /// Whether events are sent.
    pub(crate) fn is_of_events(&self) -> bool {
        self.format.objects() == Some(Objects::Events) && self.scan.is_none()
    }

    /// The transports of the addresses that were given; a balancer's is UDP.
    pub(super) fn transports(&self) -> impl Iterator<Item = Transport> {
        let given = self.given.iter().map(|to| match to {
            ToArg::Address(at) => at.transport,
            ToArg::Uri(_) => Transport::Udp,
        });
        given.chain(self.given.is_empty().then_some(Transport::Udp))
    }

    /// The file to send, where only one can be.
    pub(crate) fn input(&self) -> Option<&PathBuf> {
        self.inputs.first()
    }

    /// Read where it goes. `variable`: the URI in the environment.
    pub(super) fn settle(&mut self, variable: Option<String>) -> Result<()> {
        if self.is_of_events() {
            self.settle_events(variable)?;
        } else {
            ensure!(
                self.inputs.len() < 2,
                "one --input, not {}{}",
                self.inputs.len(),
                Hint("join the files; several are possible for events only")
            );
            for given in &self.given {
                let ToArg::Address(at) = given else {
                    bail!(
                        "only events can be sent through a balancer{}",
                        Hint("add --format ejfat, or give an address like udp://10.0.0.1:2630")
                    )
                };
                self.to.push(at.clone());
            }
        }
        ensure!(
            !self.to.is_empty(),
            "no destination{}",
            Hint(format_args!(
                "add --to udp://10.0.0.1:2630{}",
                if self.is_of_events() { ", or set the environment variable EJFAT_URI" } else { "" }
            ))
        );
        Ok(())
    }

    fn settle_events(&mut self, variable: Option<String>) -> Result<()> {
        let ipv6 = self.of_events.ipv6;
        let variable = variable.filter(|uri| self.given.is_empty() && !uri.is_empty());
        let (mut targets, mut balancers) = (Vec::new(), Vec::new());
        for given in self.given.iter().cloned().chain(variable.map(ToArg::Uri)) {
            targets.push(match given {
                ToArg::Address(at) => Target::direct(at)?,
                ToArg::Uri(uri) => {
                    let target = Target::read(&uri, ipv6)?;
                    balancers.extend(uri.parse::<BalancerUri>().ok());
                    target
                }
            });
        }
        ensure!(
            !self.of_events.join || balancers.len() == targets.len(),
            "--join needs the URI of a reservation, not an address{}",
            Hint("--to ejfat://TOKEN@host:port/lb/1?data=…&sync=…, or EJFAT_URI")
        );
        self.balancers = balancers;
        self.to = targets.iter().map(|target| target.first().clone()).collect();
        self.targets = targets;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NumberArg {
    /// Little-endian over UDP, none over TCP
    Auto,
    /// Little-endian, as FILA10G, DBBC3 and jive5ab send it
    Little,
    /// Big-endian
    Big,
    /// No sequence number
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendMode {
    /// The fastest that works on this host
    Auto,
    /// Trains of packets in one system call (UDP_SEGMENT)
    Gso,
    /// Several packets in one system call
    Mmsg,
    /// One packet in one system call
    Plain,
}
