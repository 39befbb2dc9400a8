//! Receivers with a share of a processor, which corresponds to a real link at a higher rate.
//!
//! ```text
//!   CPU 0   our sender, at a fixed rate  ──▶  port  ──▶  a receiver: a separate program     CPU 1, a share of it
//!                                              └ datagrams dropped there by the kernel
//! ```
//!
//! On a loopback the sender, not a good receiver, limits the rate. With half a processor the receiver is the limit, under
//! the same conditions as with a whole one at about twice the rate. Each trial starts the receiver again, sends a little
//! so that its memory is touched, limits it, and sends at one rate. The highest rate without loss is found by doubling
//! and bisection ([`Search`]) and must be confirmed three times. Candidates alternate in each round and are all judged by
//! the drops that the kernel counts at their port. One that writes our report must also report all heaps.
//!
//! Limits: packets in the socket's buffer are not lost yet, so the rate may be too high by the buffer divided by the time
//! of a trial; this is the same for all candidates, and small in trials of 2 s and longer.
//!
//! [`Search`]: skyhaul_core::control::Search

mod candidate;

pub use candidate::{LimitedOptions, ReceiverCommand};

use candidate::{Feed, Sent};
use serde::{Deserialize, Serialize};
use skyhaul::report::ReceiveReport;
use skyhaul::spead::send::Stream;
use skyhaul_core::control::{Search, SearchConfig, Step};
use skyhaul_core::hint::Hint;
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::limit::Limit;
use skyhaul_io::host::program::{Place, Program};
use skyhaul_io::host::sockets::UdpPort;
use skyhaul_io::host::thread;
use skyhaul_io::namespace::Network;
use skyhaul_measure::bench::Spread;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Bits per second that a first search begins with.
const START: u64 = 1_000_000_000;

/// Results so far of one candidate with packets of one size.
struct Row<'a> {
    candidate: &'a ReceiverCommand,
    packet: usize,
    found: Vec<Found>,
    at_rate: Vec<LimitedTrial>,
    trials: Vec<LimitedTrial>,
}

/// Measure all candidates with all packet sizes. `progress` receives status messages.
///
/// # Errors
/// If a candidate does not start or listen, or the system refuses the limit, processors or sockets.
pub fn run(options: &LimitedOptions, progress: &mut dyn FnMut(&str)) -> io::Result<Vec<LimitedRow>> {
    // An error here comes before anything runs, and the description is known even without results.
    let how = Limit::new(options.share, options.cpus.1)?.describe();
    // A mistake in a command line shows before minutes are spent on the others.
    if let Some(&packet) = options.packets.first() {
        for candidate in options.candidates.iter().filter(|candidate| !candidate.reports) {
            if options.stop.unless_set(open(options, candidate, packet))?.is_none() {
                return Ok(Vec::new());
            }
        }
    }
    let mut rows: Vec<Row<'_>> = options.packets.iter().flat_map(|&packet| all(options, packet)).collect();
    'rounds: for round in 1..=options.rounds.max(1) {
        for row in &mut rows {
            let name = format!(
                "{} with {} of a CPU, packets of {}, round {round} of {}",
                row.candidate.name, options.share, row.packet, options.rounds
            );
            if !measure(options, row, &mut |what| progress(&format!("{name}: {what}")))? {
                break 'rounds;
            }
        }
    }
    Ok(rows.iter().filter(|row| !row.found.is_empty()).map(|row| told(options, row, &how)).collect())
}

fn all(options: &LimitedOptions, packet: usize) -> impl Iterator<Item = Row<'_>> {
    let row = move |candidate| Row {
        candidate,
        packet,
        found: Vec::new(),
        at_rate: Vec::new(),
        trials: Vec::new(),
    };
    options.candidates.iter().map(row)
}

/// One round of one candidate; `false`: stopped, and the round is discarded.
fn measure(options: &LimitedOptions, row: &mut Row<'_>, tell: &mut dyn FnMut(&str)) -> io::Result<bool> {
    let mut one = |rate: u64, what: &str| {
        tell(&format!("{what} {:.2} Gb/s", rate as f64 / 1e9));
        if options.stop.is_set() {
            return Ok(None);
        }
        options.stop.unless_set(trial(options, row.candidate, row.packet, rate))
    };
    let Some(at_rate) = one(options.rate, "CPU at")? else { return Ok(false) };
    // Start near the last result.
    let start = row.found.last().map_or(START, |found| found.bits);
    let mut trials = Vec::new();
    let found = highest(start.max(START), |rate| {
        let trial = one(rate, "lossless at")?;
        trials.extend(trial);
        Ok(trial.map(|trial| trial.verdict()))
    })?;
    let Some(found) = found else { return Ok(false) };
    row.trials.append(&mut trials);
    row.found.push(found);
    row.at_rate.push(at_rate);
    Ok(true)
}

fn told(options: &LimitedOptions, row: &Row<'_>, how: &str) -> LimitedRow {
    let dropped = row.at_rate.iter().map(|trial| trial.dropped).sum();
    LimitedRow {
        program: row.candidate.name.clone(),
        command: row.candidate.line(),
        packet: row.packet,
        heap: options.heap_bytes,
        share: f64::from(options.share.percent()) / 100.0,
        limit: how.to_owned(),
        buffer: options.buffer,
        lossless_bits: Spread::of(row.found.iter().map(|found| found.bits as f64)),
        sender_ended: row.found.iter().any(|found| found.sender_ended),
        rounds: row.found.iter().map(|found| found.bits).collect(),
        trials: row.trials.clone(),
        rate: options.rate,
        cpu_s_per_gb: Spread::of(row.at_rate.iter().map(|trial| trial.cpu)),
        dropped_at_rate: dropped,
        whole_at_rate: row.at_rate.iter().all(|trial| trial.verdict() == Verdict::Whole),
        most_used: row.trials.iter().chain(&row.at_rate).map(|trial| trial.used).fold(0.0, f64::max),
    }
}

/// Rate in bits per second and duration for a receiver to touch its memory: so low that it has no loss.
const WARM: (u64, Duration) = (500_000_000, Duration::from_millis(200));
/// Timeout for a receiver to listen: some first fill a gigabyte.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for reading its socket empty, and for writing its report.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for it to process the packets read last.
const SETTLE_TIME: Duration = Duration::from_millis(20);
/// Start the candidate, limit it, send at `rate`, and see what was lost.
fn trial(
    options: &LimitedOptions,
    candidate: &ReceiverCommand,
    packet: usize,
    rate: u64,
) -> io::Result<LimitedTrial> {
    let networks = options.networks.as_ref();
    let (mut receiver, at) = open(options, candidate, packet)?;
    let live: OnceLock<Arc<Stream>> = OnceLock::new();
    let (mut trial, heaps) = std::thread::scope(|scope| {
        let work = || {
            thread::pin(options.cpus.0)?;
            networks.map_or(Ok(()), |(sender, _)| sender.enter())?;
            let feed = Feed::to(options, Endpoint::udp(at), packet)?;
            let _ = live.set(feed.stream.clone());
            feed_and_count(options, candidate, &mut receiver, at.port(), &feed, rate)
        };
        let thread = scope.spawn(work);
        while !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            // A long heap must not delay a requested end.
            if let Some(stream) = live.get().filter(|_| options.stop.is_set()) {
                stream.cancel();
            }
        }
        thread.join().map_err(|_| io::Error::other("the sending thread ended early"))?
    })?;
    if candidate.reports && trial.dropped == 0 && !options.stop.is_set() {
        let ended = receiver.finish(DRAIN_TIMEOUT)?;
        let report = serde_json::from_slice::<ReceiveReport>(&ended.stdout).ok();
        trial.all &= report.is_some_and(|report| report.is_whole() && complete(&report) == heaps);
    }
    Ok(trial)
}

fn complete(report: &ReceiveReport) -> u64 {
    report.objects.values().map(|counts| counts.complete).sum()
}

/// Start the candidate, and wait until it listens.
fn open(
    options: &LimitedOptions,
    candidate: &ReceiverCommand,
    packet: usize,
) -> io::Result<(Program, SocketAddr)> {
    let at = SocketAddr::new(options.address, free_port(options)?);
    let mut receiver = start(options, candidate, packet, at)?;
    wait_until_open(options, candidate, &mut receiver, at.port())?;
    Ok((receiver, at))
}

fn start(
    options: &LimitedOptions,
    candidate: &ReceiverCommand,
    packet: usize,
    at: SocketAddr,
) -> io::Result<Program> {
    let words = candidate.expand(&|name| match name {
        "port" => at.port().to_string(),
        "packet" => packet.to_string(),
        "heap" => options.heap_bytes.to_string(),
        "buffer" => options.buffer.to_string(),
        _ => match at.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        },
    })?;
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    // The configuration file of the station must not affect the measurement.
    command.args(arguments).env("SKYHAUL_CONFIG", "/dev/null");
    let place =
        Place { cpu: Some(options.cpus.1), network: options.networks.as_ref().map(|(_, receiver)| receiver) };
    Program::start(command, &place, Limit::new(options.share, options.cpus.1)?)
}

/// A free port in the receivers' network namespace.
fn free_port(options: &LimitedOptions) -> io::Result<u16> {
    let (address, network) =
        (options.address, options.networks.as_ref().map(|(_, receiver)| receiver.clone()));
    // On a separate thread, because a thread that has entered a network namespace stays there.
    let ask = move || -> io::Result<u16> {
        network.as_ref().map_or(Ok(()), Network::enter)?;
        let at = Endpoint::udp(SocketAddr::new(address, 0));
        let socket = UdpSocket::bind(at.address).map_err(|error| at.failed("bind", &error))?;
        Ok(socket.local_addr()?.port())
    };
    std::thread::spawn(ask).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn wait_until_open(
    options: &LimitedOptions,
    candidate: &ReceiverCommand,
    receiver: &mut Program,
    port: u16,
) -> io::Result<()> {
    let begun = Instant::now();
    while UdpPort::of(receiver.id(), port).is_none() {
        let why = match receiver.ended()? {
            Some(why) => format!("ended before it listened: {why}"),
            None if begun.elapsed() > LISTEN_TIMEOUT => "does not listen on its UDP port".into(),
            None => String::new(),
        };
        if !why.is_empty() {
            return Err(failed(candidate, &why));
        }
        if options.stop.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn failed(candidate: &ReceiverCommand, why: &str) -> io::Error {
    let line = candidate.line();
    io::Error::other(format!(
        "{} {why}{}",
        candidate.name,
        Hint(format_args!("start it by hand to see its messages: {line}"))
    ))
}

/// Send and measure; returns also the number of heaps that the receiver should have.
fn feed_and_count(
    options: &LimitedOptions,
    candidate: &ReceiverCommand,
    receiver: &mut Program,
    port: u16,
    feed: &Feed,
    rate: u64,
) -> io::Result<(LimitedTrial, u64)> {
    let warm = feed.send(options, rate.min(WARM.0), WARM.1)?;
    drain(options, candidate, receiver, port)?;
    receiver.begin_limit()?;
    let (cpu, begun) = (receiver.cpu_time()?, Instant::now());
    let sent: Sent = feed.send(options, rate, options.time)?;
    let (drained, port) = drain(options, candidate, receiver, port)?;
    let cpu = receiver.cpu_time()?.saturating_sub(cpu).as_secs_f64();
    let trial = LimitedTrial {
        rate,
        reached: sent.reached,
        dropped: port.drops,
        all: warm.all && sent.all && drained,
        cpu: cpu * 1e9 / sent.bytes.max(1) as f64,
        used: cpu / begun.elapsed().as_secs_f64(),
    };
    Ok((trial, warm.heaps + sent.heaps))
}

/// Wait until the receiver has emptied its socket; returns whether it did.
fn drain(
    options: &LimitedOptions,
    candidate: &ReceiverCommand,
    receiver: &mut Program,
    port: u16,
) -> io::Result<(bool, UdpPort)> {
    let begun = Instant::now();
    loop {
        let Some(now) = UdpPort::of(receiver.id(), port) else {
            let why = receiver.ended()?.unwrap_or_else(|| "its port is closed".into());
            return Err(failed(candidate, &format!("ended during reception: {why}")));
        };
        let late = begun.elapsed() > DRAIN_TIMEOUT || options.stop.is_set();
        if now.waiting == 0 || late {
            std::thread::sleep(SETTLE_TIME);
            return Ok((!late, now));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Verdict of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything was sent and received.
    Whole,
    /// Something was lost.
    Lost,
    /// Nothing was lost, but the sender did not reach the rate.
    Slow,
}

/// Attempts of a sender that does not reach a rate, because other programs may have delayed it.
const TURNS: usize = 3;

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    /// Bits per second; 0: even the minimum rate has loss.
    bits: u64,
    /// The sender did not reach higher rates, so the receiver might handle more.
    sender_ended: bool,
}

/// Call `one` for verdicts until the highest rate is confirmed three times; `None`: it was stopped.
fn highest(start: u64, mut one: impl FnMut(u64) -> io::Result<Option<Verdict>>) -> io::Result<Option<Found>> {
    // No margin: the comparison is of each receiver's limit.
    let mut search = Search::new(SearchConfig { start, margin: 0.0, ..SearchConfig::default() });
    let mut least_bad = (u64::MAX, false);
    loop {
        match search.step() {
            Step::Try(rate) => {
                let mut verdict = Verdict::Slow;
                for _ in 0..TURNS {
                    let Some(now) = one(rate)? else { return Ok(None) };
                    verdict = now;
                    if now != Verdict::Slow {
                        break;
                    }
                }
                if verdict != Verdict::Whole && rate <= least_bad.0 {
                    least_bad = (rate, verdict == Verdict::Slow);
                }
                search.verdict(verdict == Verdict::Whole);
            }
            Step::Done(bits) => return Ok(Some(Found { bits, sender_ended: least_bad.1 })),
            Step::Nothing => return Ok(Some(Found { bits: 0, sender_ended: false })),
        }
    }
}

/// A sender that is slower than this fraction of the rate did not reach it.
const REACHED: f64 = 0.97;

/// One receiver at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitedTrial {
    /// Requested bits per second of packets.
    pub rate: u64,
    /// Bits per second that were sent.
    pub reached: f64,
    /// Datagrams, or trains, that the kernel dropped at the port.
    pub dropped: u64,
    /// Everything was sent, the socket was read empty, and the receiver's own report, if it has one, has every heap.
    pub all: bool,
    /// CPU seconds of the receiver for 10⁹ bytes of heaps.
    pub cpu: f64,
    /// CPU seconds of the receiver for each second.
    pub used: f64,
}

impl LimitedTrial {
    /// Its verdict on the rate.
    fn verdict(&self) -> Verdict {
        if self.dropped > 0 || !self.all {
            Verdict::Lost
        } else if self.reached < REACHED * self.rate as f64 {
            Verdict::Slow
        } else {
            Verdict::Whole
        }
    }
}

/// One candidate with packets of one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LimitedRow {
    /// The candidate's name.
    pub program: String,
    /// Its command line, with placeholders.
    pub command: String,
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of a heap's payload.
    pub heap: usize,
    /// Its share of the CPU, as a fraction.
    pub share: f64,
    /// The means that limited it.
    pub limit: String,
    /// Requested socket buffer in bytes.
    pub buffer: u64,
    /// Highest rate without loss, in requested bits per second of packets, of which the sender reached at least 97 %; 0
    /// if even the minimum rate had loss.
    pub lossless_bits: Spread,
    /// Whether the sender was the limit in some round: there was no loss at its maximum rate.
    pub sender_ended: bool,
    /// The highest rate of each round.
    pub rounds: Vec<u64>,
    /// Every trial of every search.
    pub trials: Vec<LimitedTrial>,
    /// Bits per second at which CPU time was measured.
    pub rate: u64,
    /// CPU seconds of the receiver for 10⁹ bytes of heaps at that rate.
    pub cpu_s_per_gb: Spread,
    /// Datagrams, or trains, dropped at that rate.
    pub dropped_at_rate: u64,
    /// Whether there was no loss at that rate in any round.
    pub whole_at_rate: bool,
    /// Maximum fraction of the CPU used in any trial: at most its share, if the limit is effective.
    pub most_used: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that takes up to `takes`, a sender that reaches `reaches`.
    fn found(takes: u64, reaches: u64) -> Found {
        let one = |rate: u64| {
            Ok(Some(match rate {
                _ if rate > takes && reaches > takes => Verdict::Lost,
                _ if rate > reaches => Verdict::Slow,
                _ => Verdict::Whole,
            }))
        };
        highest(1_000_000_000, one).unwrap().unwrap()
    }

    #[test]
    fn the_receivers_end_is_found_or_the_senders() {
        for takes in [30_000_000, 1_000_000_000, 7_300_000_000, 61_000_000_000] {
            let found = found(takes, 90_000_000_000);
            assert!(found.bits <= takes && found.bits as f64 > takes as f64 * 0.97, "{takes}: {found:?}");
            assert!(!found.sender_ended, "{takes}");
        }
        let by_sender = found(60_000_000_000, 20_000_000_000);
        assert!(by_sender.sender_ended && by_sender.bits <= 20_000_000_000, "{by_sender:?}");
        assert_eq!(found(0, 1_000_000_000), Found { bits: 0, sender_ended: false });
    }

    #[test]
    fn a_sender_that_was_held_up_has_another_turn() {
        let mut turn = 0;
        let held_up = |rate: u64| {
            turn += 1;
            let slow = turn % 3 != 0;
            Ok(Some(match rate {
                _ if slow => Verdict::Slow,
                10_000_000_000.. => Verdict::Lost,
                _ => Verdict::Whole,
            }))
        };
        let found = highest(1_000_000_000, held_up).unwrap().unwrap();
        assert!(found.bits > 9_700_000_000 && !found.sender_ended, "{found:?}");
    }

    #[test]
    fn a_rate_holds_three_times_and_a_stop_ends_it() {
        // Above 8 Gb/s a rate holds once and not again.
        let mut tried = Vec::new();
        let sometimes = |rate: u64| {
            let lost = rate > 9_000_000_000 || (rate > 8_000_000_000 && tried.contains(&rate));
            tried.push(rate);
            Ok(Some(if lost { Verdict::Lost } else { Verdict::Whole }))
        };
        let found = highest(1_000_000_000, sometimes).unwrap().unwrap();
        assert!((7_000_000_000..=8_000_000_000).contains(&found.bits), "{found:?}");
        let mut trials = 0;
        let stopped = highest(1_000_000_000, |_| {
            trials += 1;
            Ok((trials < 4).then_some(Verdict::Whole))
        });
        assert_eq!(stopped.unwrap(), None);
        assert!(highest(1, |_| Err(io::ErrorKind::NotFound.into())).is_err());
    }

    #[test]
    fn what_is_lost_comes_before_what_was_not_sent() {
        let good =
            LimitedTrial { rate: 1_000_000_000, reached: 0.98e9, dropped: 0, all: true, cpu: 0.1, used: 0.1 };
        let of = |trial: LimitedTrial| trial.verdict();
        assert_eq!(of(good), Verdict::Whole);
        assert_eq!(of(LimitedTrial { reached: 0.9e9, ..good }), Verdict::Slow);
        assert_eq!(of(LimitedTrial { reached: 0.9e9, dropped: 1, ..good }), Verdict::Lost);
        assert_eq!(of(LimitedTrial { all: false, ..good }), Verdict::Lost);
    }
}
