//! One receiver, limited, at one rate.

use super::candidate::Candidate;
use super::feed::{Feed, Sent};
use super::figures::Trial;
use super::options::LimitedOptions;
use skyhaul::report::ReceiveReport;
use skyhaul::spead::send::Stream;
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::limit::Limit;
use skyhaul_io::host::program::{Place, Program};
use skyhaul_io::host::sockets::UdpPort;
use skyhaul_io::host::thread;
use skyhaul_io::namespace::Network;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Rate in bits per second and duration for a receiver to touch its memory: so low that it has no loss.
const WARM: (u64, Duration) = (500_000_000, Duration::from_millis(200));
/// Timeout for a receiver to listen: some first fill a gigabyte.
const LISTENS: Duration = Duration::from_secs(60);
/// Timeout for reading its socket empty, and for writing its report.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for it to process the packets read last.
const SETTLE: Duration = Duration::from_millis(20);
/// Start the candidate, limit it, send at `rate`, and see what was lost.
pub(super) fn trial(
    options: &LimitedOptions,
    candidate: &Candidate,
    packet: usize,
    rate: u64,
) -> io::Result<Trial> {
    let networks = options.networks.as_ref();
    let at = SocketAddr::new(options.address, free_port(options)?);
    let mut receiver = start(options, candidate, packet, at)?;
    wait_until_open(options, candidate, &mut receiver, at.port())?;
    let live: OnceLock<Arc<Stream>> = OnceLock::new();
    let (mut trial, heaps) = std::thread::scope(|scope| {
        let work = || {
            thread::pin(options.cpus.0)?;
            networks.map_or(Ok(()), |(sender, _)| sender.enter())?;
            let feed = Feed::to(options, Endpoint::udp(at), packet)?;
            let _ = live.set(feed.stream.clone());
            measure(options, candidate, &mut receiver, at.port(), &feed, rate)
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
        let ended = receiver.finish(PATIENCE)?;
        let report = serde_json::from_slice::<ReceiveReport>(&ended.stdout).ok();
        trial.all &= report.is_some_and(|report| report.is_whole() && complete(&report) == heaps);
    }
    Ok(trial)
}

fn complete(report: &ReceiveReport) -> u64 {
    report.objects.values().map(|counts| counts.complete).sum()
}

fn start(
    options: &LimitedOptions,
    candidate: &Candidate,
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
    candidate: &Candidate,
    receiver: &mut Program,
    port: u16,
) -> io::Result<()> {
    let begun = Instant::now();
    while UdpPort::of(receiver.id(), port).is_none() {
        let why = match receiver.ended()? {
            Some(why) => format!("ended before it listened: {why}"),
            None if begun.elapsed() > LISTENS => "does not listen on its UDP port".into(),
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

fn failed(candidate: &Candidate, why: &str) -> io::Error {
    let line = candidate.line();
    io::Error::other(format!("{} {why}\nhint: start it by hand to see its messages: {line}", candidate.name))
}

/// Send and measure; returns also the number of heaps that the receiver should have.
fn measure(
    options: &LimitedOptions,
    candidate: &Candidate,
    receiver: &mut Program,
    port: u16,
    feed: &Feed,
    rate: u64,
) -> io::Result<(Trial, u64)> {
    let warm = feed.send(options, rate.min(WARM.0), WARM.1)?;
    drain(options, candidate, receiver, port)?;
    receiver.begin_limit()?;
    let (cpu, begun) = (receiver.cpu_time()?, Instant::now());
    let sent: Sent = feed.send(options, rate, options.time)?;
    let (drained, port) = drain(options, candidate, receiver, port)?;
    let cpu = receiver.cpu_time()?.saturating_sub(cpu).as_secs_f64();
    let trial = Trial {
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
    candidate: &Candidate,
    receiver: &mut Program,
    port: u16,
) -> io::Result<(bool, UdpPort)> {
    let begun = Instant::now();
    loop {
        let Some(now) = UdpPort::of(receiver.id(), port) else {
            let why = receiver.ended()?.unwrap_or_else(|| "its port is closed".into());
            return Err(failed(candidate, &format!("ended during reception: {why}")));
        };
        let late = begun.elapsed() > PATIENCE || options.stop.is_set();
        if now.waiting == 0 || late {
            std::thread::sleep(SETTLE);
            return Ok((!late, now));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
