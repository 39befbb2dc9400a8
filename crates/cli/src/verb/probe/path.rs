//! `skyhaul probe HOST`: points of size and spacing, one after the other.

use super::super::listener;
use super::super::output::command_line;
use super::super::receiving::print_json;
use super::diagnose;
use super::further;
use super::live::Live;
use super::page;
use super::report::CommandReport;
use super::table::Table;
use crate::args::{PathArgs, SendingArg, ValueList};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::Progress;
use anyhow::{Context, Result, anyhow, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::Endpoint;
use skyhaul::io::file::failed;
use skyhaul::io::udp::largest_datagram;
use skyhaul::peer::{PORT, PeerError, Token, Waiting};
use skyhaul_measure::probe::udp::{
    DIAGNOSIS_PORTS, MAX_DATAGRAM as LONGEST_DATAGRAM, MAX_FLOWS, SpacingMode, TestDirection, UdpClient,
    UdpClientOptions, UdpPoint, UdpPointReport, spacing,
};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// Length of the only point, and of each of several.
const ONE: Duration = Duration::from_secs(5);
const EACH: Duration = Duration::from_millis(50);
/// Packets reported one by one, of the only point and of each of several.
const SAMPLES: (u32, u32) = (4096, 128);

/// The same for a trace, of all flows.
const TRACED: u32 = 65_536;

pub(super) fn run(args: &PathArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (servers, token) = server(args)?;
    // Which of them answers is not known yet.
    let largest = servers.iter().filter_map(|&at| largest_datagram(&Endpoint::udp(at)).ok()).min();
    let largest = largest.map_or(LONGEST_DATAGRAM, |bytes| bytes as u32);
    let args = &args.fitted(largest);
    if let Some(size) = args.sizes.values().iter().find(|&&size| size > largest) {
        say!(
            "note: datagrams of {size} bytes are fragmented on this path, and losing one fragment loses the datagram; {largest} bytes pass unfragmented"
        );
    }
    if let Some(option) = args.tcp.stray() {
        bail!("{option} applies only to TCP{}", Hint("add --tcp, or --iperf3"));
    }
    let flows = match args.flows.as_slice() {
        [flows] if *flows <= MAX_FLOWS => *flows,
        [_] => {
            bail!(
                "more than {MAX_FLOWS} flows of datagrams{}",
                Hint("one for every one or two CPUs is enough")
            )
        }
        _ => bail!("a list of --flows needs TCP{}", Hint("give one number, or add --tcp")),
    };
    let points = points(args)?;
    let mut progress = Progress::new(args.output.quiet);
    let options = options(args, flows, &points);
    let mut client = UdpClient::open(&servers, &token, options, &mut waiting(&mut progress, &interrupt))?;
    progress.clear();
    let server = client.server();
    say!("measuring the path to {server}");
    let mut told = CommandReport {
        version: skyhaul::report::VERSION,
        command: command_line(),
        server: server.to_string(),
        here: client.here.clone(),
        there: client.there.clone(),
        round_trip_seconds: None,
        clock: None,
        interrupted: false,
        points: Vec::with_capacity(points.len()),
        diagnosis: None,
    };
    let direction = direction(args);
    if args.diagnose {
        return diagnose::udp(args, &mut client, told, direction, &interrupt, &mut progress);
    }
    if further::asked(args) {
        let outcome = further::run(args, &mut client, direction, &interrupt, &mut progress);
        let _ = client.end();
        return outcome;
    }
    let table = measure(args, &mut client, &points, &mut told, &interrupt)?;
    client.exchange_times();
    told.round_trip_seconds = client.round_trip().map(|trip| trip.as_secs_f64());
    told.clock = client.compare_clocks(&mut told.points);
    told.interrupted = interrupt.is_set();
    // The server may be gone, which changes nothing of what was measured.
    let _ = client.end();
    finish(args, &told, table)
}

/// Measure the points, and print each as it ends.
fn measure(
    args: &PathArgs,
    client: &mut UdpClient,
    points: &[UdpPoint],
    told: &mut CommandReport,
    interrupt: &Interrupt,
) -> Result<Option<Table>> {
    let direction = direction(args);
    let mut progress = Progress::new(args.output.quiet);
    let mut table = (!args.output.json).then(|| Table::begin(&told.here, &told.there));
    let mut live = Live::new(args.output.quiet);
    for (n, point) in points.iter().enumerate() {
        progress.show(&format!("point {} of {}", n + 1, points.len()));
        live.restart();
        let (size, what) = (u64::from(point.size), if direction.forward() { "sent" } else { "received" });
        let mut each = |elapsed, packets| live.show(elapsed, packets * size, what);
        let report = match client.point_live(point, direction, &interrupt.flag(), &mut each) {
            Ok(report) => report,
            Err(PeerError::Stopped) if interrupt.is_set() => break,
            Err(error) => return Err(error.into()),
        };
        progress.clear();
        if let Some(table) = &mut table {
            table.row(&report);
        }
        told.points.push(report);
        if interrupt.is_set() {
            break;
        }
    }
    Ok(table)
}

fn finish(args: &PathArgs, told: &CommandReport, table: Option<Table>) -> Result<Outcome> {
    if let Some(table) = table {
        table.end(&told.points);
    }
    if let Some(path) = &args.trace {
        trace(path, &told.points)?;
    }
    if let Some(directory) = &args.report {
        page::udp(directory, told)?;
    }
    if args.output.json {
        print_json(told)?;
    }
    if told.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(if told.interrupted { Outcome::Failed } else { Outcome::Done })
}

/// The sampled packets of all points, as lines.
fn trace(path: &Path, points: &[UdpPointReport]) -> Result<()> {
    let written = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "point,flow,number,sent_ns,under_way_ns")?;
        for (n, report) in points.iter().enumerate() {
            for end in [&report.server, &report.client] {
                for (flow, received) in end.received.iter().enumerate() {
                    for (number, sent, under_way) in &received.samples {
                        let sent = i128::from(received.base_ns) + i128::from(*sent);
                        writeln!(file, "{n},{flow},{number},{sent},{under_way}")?;
                    }
                }
            }
        }
        file.flush()
    };
    Ok(written().map_err(|error| failed("write", path, &error))?)
}

/// The addresses of the server of skyhaul that is named, and its token.
pub(super) fn server(args: &PathArgs) -> Result<(Vec<SocketAddr>, Token)> {
    let (host, token_file) =
        args.host.as_ref().zip(args.token_file.as_ref()).context("a host and its token")?;
    Ok((resolve_port(host, PORT)?, listener::peer_token(token_file)?))
}

/// Shows how long the server lets others go first, until it is interrupted.
pub(super) fn waiting(progress: &mut Progress, interrupt: &Interrupt) -> impl FnMut(Waiting) -> bool {
    move |waiting| {
        progress.show(&format!("waiting: {} before us, {:.0} s", waiting.ahead, waiting.seconds));
        !interrupt.is_set()
    }
}

/// The addresses of `HOST`, at its usual port, or of `HOST:PORT`; there is at least one.
pub(super) fn resolve_port(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let with_port = match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => return Ok(vec![SocketAddr::new(ip, port)]),
        Err(_) if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
            host.to_owned()
        }
        Err(_) => format!("{host}:{port}"),
    };
    let found = with_port.to_socket_addrs().map_err(|error| {
        anyhow!(
            "find {host}: {error}{}",
            Hint(format_args!("write its name or address, like dtn2, 192.0.2.9 or [2001:db8::9]:{port}"))
        )
    })?;
    let found: Vec<SocketAddr> = found.collect();
    ensure!(!found.is_empty(), "find {host}: it has no address");
    Ok(found)
}

/// Of several addresses the first at which something answers; if nothing does, or there is one, the first.
pub(super) fn answering(
    addresses: &[SocketAddr],
    mut answers: impl FnMut(SocketAddr) -> bool,
) -> Result<SocketAddr> {
    let first = addresses.first().copied().context("no address")?;
    if addresses.len() == 1 {
        return Ok(first);
    }
    Ok(addresses.iter().copied().find(|&at| answers(at)).unwrap_or(first))
}

fn direction(args: &PathArgs) -> TestDirection {
    match (args.reverse, args.both) {
        (true, _) => TestDirection::Reverse,
        (false, true) => TestDirection::Both,
        (false, false) => TestDirection::Forward,
    }
}

/// Sizes, and of each the spacings.
pub(super) fn points(args: &PathArgs) -> Result<Vec<UdpPoint>> {
    let time = args.time.map_or(if args.points() == 1 { ONE } else { EACH }, |time| time.duration());
    let (mode, train) = match args.mode {
        SendingArg::Single => (SpacingMode::Single, 1),
        SendingArg::Trains => (SpacingMode::Trains, args.train),
        SendingArg::Kernel => (SpacingMode::Kernel, 1),
    };
    let mut points = Vec::with_capacity(args.points());
    for &size in args.sizes.values() {
        let spacings: Vec<u64> = match args.rates.as_slice() {
            [] => args.spacing.values().to_vec(),
            rates => rates.iter().map(|rate| spacing(size, rate.bits_per_second())).collect(),
        };
        for spacing_ps in spacings {
            let even = UdpPoint::even(size, spacing_ps, time);
            let point = UdpPoint { mode, train, packets: args.packets.unwrap_or(even.packets), ..even };
            let point =
                if args.packets.is_some() { UdpPoint { longest_ns: MAX_DATAGRAM, ..point } } else { point };
            if mode == SpacingMode::Kernel && spacing_ps == 0 {
                bail!(
                    "--mode kernel needs a spacing greater than 0{}",
                    Hint("the kernel paces packets by a rate")
                );
            }
            point.check().map_err(|why| anyhow!(why))?;
            points.push(point);
        }
    }
    Ok(points)
}

/// Longest point of a number of packets: an hour.
const MAX_DATAGRAM: u64 = 3_600_000_000_000;

/// Seconds that a diagnosis takes at most.
pub(super) const DIAGNOSIS: f64 = 60.0;

fn options(args: &PathArgs, flows: u16, points: &[UdpPoint]) -> UdpClientOptions {
    let seconds: f64 = match () {
        () if args.diagnose => DIAGNOSIS,
        () if further::asked(args) => further::seconds(args),
        () => points.iter().map(|point| point.takes().as_secs_f64() + 0.1).sum(),
    };
    let rate = points.iter().map(UdpPoint::rate).collect::<Option<Vec<f64>>>();
    UdpClientOptions {
        // A diagnosis sends in one at a time.
        flows: if args.diagnose { DIAGNOSIS_PORTS } else { flows },
        seconds: seconds + 1.0,
        rate: rate.map(|rates| rates.into_iter().fold(0.0, f64::max) * f64::from(flows)),
        join: args.join || args.mode == SendingArg::Trains,
        samples: match (args.trace.is_some() || args.diagnose, points.len()) {
            (true, _) => TRACED / u32::from(flows),
            (false, 1) => SAMPLES.0,
            (false, _) => SAMPLES.1,
        },
        settle: args.settle.duration(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;

    #[test]
    fn hosts_are_found_by_name_address_and_port() {
        for (text, wanted) in [
            ("127.0.0.1", format!("127.0.0.1:{PORT}")),
            ("127.0.0.1:99", "127.0.0.1:99".to_owned()),
            ("::1", format!("[::1]:{PORT}")),
            ("[::1]", format!("[::1]:{PORT}")),
            ("[::1]:99", "[::1]:99".to_owned()),
        ] {
            assert_eq!(resolve_port(text, PORT).unwrap()[0].to_string(), wanted);
        }
        assert_eq!(resolve_port("localhost:99", PORT).unwrap()[0].port(), 99);
        assert!(resolve_port("no such host", PORT).unwrap_err().to_string().contains("hint: "));
    }

    /// Servers allow twice what was asked for, and ten seconds more.
    #[test]
    fn tests_of_several_points_reserve_the_time_of_all() {
        let reserved = |line: &str| {
            let words = format!("skyhaul probe far --token-file token {line}");
            let Verb::Probe(args) = Cli::try_parse_from(words.split(' ')).unwrap().verb else {
                panic!("{line}");
            };
            let args = args.path.fitted(1472);
            options(&args, 1, &points(&args).unwrap()).seconds * 2.0 + 10.0
        };
        for (line, least) in [
            ("--search", 60.0 * 0.5),
            ("--search --time 5s", 60.0 * 5.0),
            ("--latency --sizes 64,1000 --packets 30000", 60.0),
            ("--latency --sizes 64 --spacing 10ms", 10.0),
            ("--limit", 60.0),
            ("--mtu --time 100ms", 60.0),
        ] {
            assert!(reserved(line) > least, "{line}: {}", reserved(line));
        }
        assert!(reserved("--search --time 1h") <= 1220.0, "what servers allow");
        assert!(reserved("--time 20s") < 60.0);
    }
}
