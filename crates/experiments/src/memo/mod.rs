//! SPEAD senders and receivers in pairs: the experiments of SDP memo 046, on this machine.
//!
//! ```text
//!   pair 1   Stream (send) ── udp or tcp ──▶ Stream (receive)     one thread each, all started together
//!   pair 2   Stream (send) ──────────────▶ Stream (receive)
//!   …                                       or a light receiver: the socket is not read (UDP), or only drained (TCP)
//! ```
//!
//! As in the memo, the speed is the bytes sent by all senders divided by the time until the last has finished, the loss
//! is the heaps sent but not received complete, and the effective speed is that of the complete heaps. Each figure is
//! measured in several rounds, with alternating settings.
//!
//! [`limited`] measures receivers as separate programs with a share of a CPU.
//!
//! Limits: both ends of a pair are threads of this process; with more pairs than CPUs the machine, not the link, is measured.
//! A light UDP receiver lets its socket overflow, so the kernel still does the work of delivery.

pub mod limited;
mod pair;

pub use pair::{HeapTransport, PairFigures, PairOptions, Receiving, measure};

use limited::{LimitedOptions, LimitedRow};
use serde::{Deserialize, Serialize};
use skyhaul::report::VERSION;
use skyhaul::stop::StopFlag;
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::interface::interface_of;
use skyhaul_io::host::machine::Machine;
use skyhaul_io::namespace::Network;
use skyhaul_io::udp::largest_datagram;
use skyhaul_measure::bench::{Spread, load_average};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Buffer sizes of the settings `Buffers` and `MTU + buffers`, in bytes (the memo's 16 MB).
const BUFFER: u64 = 16 << 20;
/// The default socket buffer of Linux.
const DEFAULT_BUFFER: u64 = 212_992;
/// A packet that fits an Ethernet frame: the default of SPEAD tools.
const DEFAULT_PACKET: usize = 1472;

/// The memo's four settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoSetting {
    /// Packets of 1472 bytes, the system's own socket buffers.
    Default,
    /// Packets as large as the interface takes.
    Mtu,
    /// Socket buffers of 16 MiB.
    Buffers,
    /// Both.
    MtuBuffers,
}

impl MemoSetting {
    /// All, in the memo's order.
    pub const ALL: [MemoSetting; 4] =
        [MemoSetting::Default, MemoSetting::Mtu, MemoSetting::Buffers, MemoSetting::MtuBuffers];

    /// As in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoSetting::Default => "Default",
            MemoSetting::Mtu => "MTU",
            MemoSetting::Buffers => "Buffers",
            MemoSetting::MtuBuffers => "MTU + buffers",
        }
    }

    fn packet(self, largest: usize) -> usize {
        if matches!(self, MemoSetting::Mtu | MemoSetting::MtuBuffers) { largest } else { DEFAULT_PACKET }
    }

    fn buffer(self) -> u64 {
        if matches!(self, MemoSetting::Buffers | MemoSetting::MtuBuffers) { BUFFER } else { DEFAULT_BUFFER }
    }
}

/// Which experiments to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Experiments {
    /// The capacity of the link: table 1.
    pub link: bool,
    /// Senders alone: table 2.
    pub light: bool,
    /// Senders against receivers: tables 3 and 4.
    pub receiver: bool,
    /// Pairs at rising rates: figures 2, 3 and 6.
    pub pairs: bool,
    /// One to N senders at several rates: figures 4 and 5.
    pub scaling: bool,
}

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct MemoOptions {
    /// Which experiments.
    pub experiments: Experiments,
    /// Bytes of a heap's payload.
    pub heap_bytes: usize,
    /// Length of one run.
    pub time: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Pairs in `pairs` and `scaling`.
    pub pairs: usize,
    /// Bits per second of each sender; empty: eight steps up to the rate of a single sender.
    pub rates: Vec<u64>,
    /// Addresses to receive on; pairs take turns.
    pub addresses: Vec<IpAddr>,
    /// Network namespaces of senders and receivers.
    pub networks: Option<(Network, Network)>,
    /// Limited receivers to compare as well.
    pub limited: Option<LimitedOptions>,
    /// Ends it early; the report then has the results until then.
    pub stop: StopFlag,
}

/// One way in one setting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoCell {
    /// The transport.
    pub way: HeapTransport,
    /// Packets and buffers.
    pub setting: MemoSetting,
    /// Bytes of a packet.
    pub packet: usize,
    /// The results.
    pub figures: PairFigures,
}

/// Some pairs at one rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RatePoint {
    /// How many pairs.
    pub pairs: usize,
    /// Bits per second asked of each; 0 as fast as possible.
    pub rate: u64,
    /// The results, all pairs together.
    pub figures: PairFigures,
}

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MemoReport {
    /// [`VERSION`].
    pub version: u32,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Load average before and after.
    pub others: (f64, f64),
    /// Interfaces, by the addresses received on.
    pub interfaces: Vec<String>,
    /// Bytes of a heap.
    pub heap_bytes: usize,
    /// Seconds of each run.
    pub seconds: f64,
    /// Rounds.
    pub rounds: usize,
    /// Table 1: bare loops.
    pub link: Vec<MemoCell>,
    /// Table 2: senders alone.
    pub light: Vec<MemoCell>,
    /// Tables 3 and 4: senders against receivers.
    pub receiver: Vec<MemoCell>,
    /// Figures 2, 3, 6: all pairs by rate, UDP.
    pub pairs: Vec<RatePoint>,
    /// The same pairs by TCP, as fast as possible.
    pub pairs_tcp: Option<RatePoint>,
    /// Figures 4 and 5: 1 to N pairs by rate, UDP.
    pub scaling: Vec<RatePoint>,
    /// Receivers with a share of a processor.
    #[serde(default)]
    pub limited: Vec<LimitedRow>,
    /// Whether it was stopped before all was measured.
    #[serde(default)]
    pub interrupted: bool,
}

/// Run the experiments. `progress` receives status messages.
///
/// # Errors
/// If the system refuses sockets, memory or namespaces.
pub fn run(options: &MemoOptions, progress: &mut dyn FnMut(&str)) -> io::Result<MemoReport> {
    let mut report = MemoReport {
        version: VERSION,
        machine: Machine::this().to_string(),
        others: (load_average(), 0.0),
        interfaces: options.addresses.iter().map(describe).collect(),
        heap_bytes: options.heap_bytes,
        seconds: options.time.as_secs_f64(),
        rounds: options.rounds,
        ..MemoReport::default()
    };
    let wanted = options.experiments;
    if wanted.link {
        report.link = table(
            options,
            Receiving::Bare,
            &[HeapTransport::Udp, HeapTransport::Tcp],
            &[MemoSetting::MtuBuffers],
            progress,
        )?;
    }
    let ways = [HeapTransport::Udp, HeapTransport::Tcp, HeapTransport::TcpHeaps];
    if wanted.light {
        report.light = table(options, Receiving::Light, &ways, &MemoSetting::ALL, progress)?;
    }
    if wanted.receiver {
        report.receiver = table(options, Receiving::Spead, &ways, &MemoSetting::ALL, progress)?;
    }
    if wanted.pairs || wanted.scaling {
        let rates = if options.rates.is_empty() { steps(options, progress)? } else { options.rates.clone() };
        if wanted.pairs {
            report.pairs = points(options, &[options.pairs], &rates, progress)?;
            let tcp = PairOptions {
                way: HeapTransport::TcpHeaps,
                ..pair_options(options, MemoSetting::MtuBuffers, options.pairs)
            };
            let figures = repeat(&tcp, options.rounds, &mut |round| {
                progress(&format!("{} pairs, TCP, round {round}", options.pairs));
            })?;
            report.pairs_tcp = figures.map(|figures| RatePoint { pairs: options.pairs, rate: 0, figures });
        }
        if wanted.scaling {
            let counts: Vec<usize> = (1..=options.pairs.max(1)).collect();
            report.scaling = points(options, &counts, &rates, progress)?;
        }
    }
    if let Some(limited) = &options.limited {
        report.limited = limited::run(limited, progress)?;
    }
    report.others.1 = load_average();
    report.interrupted = options.stop.is_set();
    Ok(report)
}

fn describe(address: &IpAddr) -> String {
    let name = interface_of(*address).unwrap_or_else(|| "another host's".to_owned());
    format!("{name} ({address})")
}

/// Largest SPEAD packet to the first address without fragmentation.
fn largest_packet(options: &MemoOptions) -> usize {
    let networks = options.networks.clone();
    let address = options.addresses.first().copied();
    // On a separate thread, because a thread that has entered a network namespace stays there.
    let ask = move || -> io::Result<usize> {
        if let Some((sender, _)) = &networks {
            sender.enter()?;
        }
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        largest_datagram(&Endpoint::udp(SocketAddr::new(address, 9)))
    };
    let bytes = std::thread::spawn(ask).join().ok().and_then(Result::ok).unwrap_or(DEFAULT_PACKET);
    // SPEAD packets are rounded down to multiples of 8.
    (bytes / 8 * 8).max(DEFAULT_PACKET)
}

fn pair_options(options: &MemoOptions, setting: MemoSetting, pairs: usize) -> PairOptions {
    PairOptions {
        pairs,
        way: HeapTransport::Udp,
        receiving: Receiving::Spead,
        packet: setting.packet(largest_packet(options)),
        buffer: setting.buffer(),
        heap_bytes: options.heap_bytes,
        rate: 0,
        time: options.time,
        addresses: options.addresses.clone(),
        networks: options.networks.clone(),
        stop: options.stop.clone(),
    }
}

/// Measure once; `None`: stopped.
fn once(pair: &PairOptions) -> io::Result<Option<PairFigures>> {
    if pair.stop.is_set() {
        return Ok(None);
    }
    pair.stop.unless_set(measure(pair))
}

/// All `ways` in all `settings`, alternating in each round.
fn table(
    options: &MemoOptions,
    receiving: Receiving,
    ways: &[HeapTransport],
    settings: &[MemoSetting],
    progress: &mut dyn FnMut(&str),
) -> io::Result<Vec<MemoCell>> {
    let mut cells = Vec::new();
    for &way in ways {
        for &setting in settings {
            let pair = PairOptions { way, receiving, ..pair_options(options, setting, 1) };
            cells.push((pair, setting, Vec::new()));
        }
    }
    'rounds: for round in 1..=options.rounds {
        for (pair, setting, runs) in &mut cells {
            progress(&format!(
                "{}, {}, {}, round {round}",
                receiving.name(),
                pair.way.name(),
                setting.name()
            ));
            let Some(figures) = once(pair)? else { break 'rounds };
            runs.push(figures);
        }
    }
    let cell = |(pair, setting, runs): (PairOptions, MemoSetting, Vec<PairFigures>)| MemoCell {
        way: pair.way,
        setting,
        packet: if pair.way == HeapTransport::TcpHeaps { pair.heap_bytes } else { pair.packet },
        figures: PairFigures::merge(&runs),
    };
    Ok(cells.into_iter().filter(|(.., runs)| !runs.is_empty()).map(cell).collect())
}

/// The rounds of one setting, or those until it was stopped; `None`: none.
fn repeat(pair: &PairOptions, rounds: usize, tell: &mut dyn FnMut(usize)) -> io::Result<Option<PairFigures>> {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        tell(round);
        let Some(figures) = once(pair)? else { break };
        runs.push(figures);
    }
    Ok(if runs.is_empty() { None } else { Some(PairFigures::merge(&runs)) })
}

/// Each number of pairs at each rate.
fn points(
    options: &MemoOptions,
    counts: &[usize],
    rates: &[u64],
    progress: &mut dyn FnMut(&str),
) -> io::Result<Vec<RatePoint>> {
    let mut points = Vec::new();
    for &pairs in counts {
        for &rate in rates {
            let pair = PairOptions { rate, ..pair_options(options, MemoSetting::MtuBuffers, pairs) };
            let figures = repeat(&pair, options.rounds, &mut |round| {
                progress(&format!("{pairs} pairs at {:.2} Gb/s each, round {round}", rate as f64 / 1e9));
            })?;
            points.extend(figures.map(|figures| RatePoint { pairs, rate, figures }));
        }
    }
    Ok(points)
}

/// Eight rates up to that of a single sender; none if it was stopped.
fn steps(options: &MemoOptions, progress: &mut dyn FnMut(&str)) -> io::Result<Vec<u64>> {
    progress("rate of a single sender");
    let alone =
        PairOptions { receiving: Receiving::Light, ..pair_options(options, MemoSetting::MtuBuffers, 1) };
    let Some(figures) = once(&alone)? else { return Ok(Vec::new()) };
    let most = figures.sent.median;
    Ok((1..=8).map(|step| (most * f64::from(step) / 8.0) as u64).collect())
}

impl RatePoint {
    /// Shortfall of all senders together from `pairs` times the requested rate, as a fraction.
    #[must_use]
    pub fn scaling_loss(&self) -> f64 {
        let target = self.rate as f64 * self.pairs as f64;
        if target > 0.0 { (1.0 - self.figures.sent.median / target).max(0.0) } else { 0.0 }
    }
}

impl PairFigures {
    /// Combine the figures of several runs.
    #[must_use]
    pub fn merge(runs: &[PairFigures]) -> PairFigures {
        let of = |value: fn(&PairFigures) -> Spread| Spread::of(runs.iter().map(|run| value(run).median));
        PairFigures {
            sent: of(|f| f.sent),
            effective: of(|f| f.effective),
            lost: of(|f| f.lost),
            heaps: runs.iter().map(|f| f.heaps).sum(),
            heaps_complete: runs.iter().map(|f| f.heaps_complete).sum(),
            send_cpu: of(|f| f.send_cpu),
            receive_cpu: of(|f| f.receive_cpu),
            how: runs.first().map(|f| f.how.clone()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap that would take a day, and receivers that nothing came to, delay no stop.
    #[test]
    fn a_stop_ends_pairs_of_streams() {
        let stop = StopFlag::default();
        let experiments = Experiments { light: true, pairs: true, scaling: true, ..Experiments::default() };
        let options = MemoOptions {
            experiments,
            heap_bytes: 4 << 20,
            time: Duration::from_millis(50),
            rounds: 1,
            pairs: 2,
            rates: vec![1000],
            addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
            networks: None,
            limited: None,
            stop: stop.clone(),
        };
        let begun = std::time::Instant::now();
        let report = run(&options, &mut |what| {
            if what.starts_with("2 pairs at") {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(200));
                    stop.stop();
                });
            }
        });
        let report = report.unwrap();
        assert!(report.interrupted && begun.elapsed() < Duration::from_secs(60), "{report:?}");
        assert_eq!((report.light.len(), report.pairs.len(), report.scaling.len()), (12, 0, 0));
        assert!(report.pairs_tcp.is_none());
        let nothing = run(&options, &mut |_| ()).unwrap();
        assert!(nothing.interrupted && nothing.light.is_empty());
    }
}
