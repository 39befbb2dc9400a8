//! `skyhaul copy`: files, directories and recordings to another host, or from it.

use super::listener::{self, Listener};
use super::output::command_line;
use super::receiving::print_json;
use crate::args::{CopyArgs, CopyExistsArg, CopyFilesArgs, CopyServeArgs, CopyWhat, DiskEngine};
use crate::outcome::Interrupt;
use crate::outcome::Outcome;
use crate::print::{self, Progress as Line};
use crate::report::words::micros;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use skyhaul::core::hint::{Hint, lines};
use skyhaul::io::disk::{Engine, Faults};
use skyhaul::peer::{Limits, PeerError, Server, ServerOptions, ServerStats, Service, Token};
use skyhaul::stop::StopFlag;
use skyhaul_transfer::copy::{
    CopyOptions, CopyReport, CopyService, Exists, Plan, Progress, StallLimits, Tuning, copy_watched, remote,
};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// How long a copy may take on a server: longer than any disk is written.
const LONGEST: Duration = Duration::from_secs(90 * 86_400);
/// How long a copy may stand still. A disk that tries a bad sector again takes tens of seconds; who presses Ctrl-C waits for none.
const LIMITS: StallLimits =
    StallLimits { moving: Duration::from_secs(120), stopping: Duration::from_secs(1) };
/// Files that failed which are told one by one.
const TOLD: usize = 20;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: String,
    #[serde(flatten)]
    report: &'a CopyReport,
}

/// What a server did, and where.
#[derive(Serialize)]
struct Served<'a> {
    command: String,
    listening: [Listener; 1],
    roots: &'a [PathBuf],
    read_only: bool,
    connections: ServerStats,
}

pub(crate) fn run(args: &CopyArgs) -> Result<Outcome> {
    match &args.what {
        Some(CopyWhat::Serve(args)) => serve(args),
        None => files(&args.copy),
    }
}

fn engine(of: DiskEngine) -> Engine {
    match of {
        DiskEngine::Auto => Engine::Auto,
        DiskEngine::Uring => Engine::Uring,
        DiskEngine::Plain => Engine::Plain,
    }
}

fn serve(args: &CopyServeArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let faults: Faults =
        args.disk_faults.as_deref().unwrap_or_default().parse().map_err(anyhow::Error::msg)?;
    let service = CopyService::new(&args.root, args.read_only)?.with(engine(args.disk_engine), faults);
    let token = Token::new(&super::listener::read_or_make(&args.token_file)?)?;
    let options = ServerOptions {
        limits: Limits { duration: LONGEST, ..Limits::default() },
        ..ServerOptions::default()
    };
    let server = listen(args.listen, &token, options, service)?;
    let roots: Vec<String> = args.root.iter().map(|root| root.display().to_string()).collect();
    say!("serving {} at {}", roots.join(", "), server.local());
    let door = Listener::with_token("copy", server.local(), &args.token_file);
    door.say();
    let roots_are = if args.read_only {
        "they may copy from here, and write nothing"
    } else {
        "they may copy from here and to here"
    };
    say!("  {roots_are}");
    listener::warn_of_traffic(server.local().ip());
    while !interrupt.is_set() {
        anyhow::ensure!(server.is_running(), "the server stopped accepting connections");
        std::thread::sleep(Duration::from_millis(50));
    }
    if args.json {
        print_json(&Served {
            command: command_line(),
            listening: [door],
            roots: &args.root,
            read_only: args.read_only,
            connections: server.stats(),
        })?;
    }
    Ok(Outcome::Done)
}

/// Listen where it was asked for, or for both versions of IP, or for IPv4 where the kernel has no IPv6.
fn listen(
    at: Option<SocketAddr>,
    token: &Token,
    options: ServerOptions,
    service: CopyService,
) -> Result<Server, PeerError> {
    let services: Vec<Box<dyn Service>> = vec![Box::new(service)];
    let port = skyhaul_transfer::copy::PORT;
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let at = at.unwrap_or_else(|| match has_ipv6() {
        true => six,
        false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    });
    Server::start(at, token.clone(), options, services)
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

fn files(args: &CopyFilesArgs) -> Result<Outcome> {
    let mut options = options(args)?;
    let path = args.token_file.as_deref().context("--token-file is missing")?;
    let token = Token::new(&super::listener::read(path)?)?;
    // One warning, for an address that is not this host.
    let elsewhere = options.server.iter().find(|address| !address.ip().is_loopback());
    if let Some(address) = elsewhere.or(options.server.first()) {
        listener::warn_of_traffic(address.ip());
    }
    let interrupt = Interrupt::listen()?;
    options.stop = StopFlag::from(interrupt.flag());
    let mut line = Line::new(args.output.quiet);
    if options.plan || options.dry_run {
        line.show("measuring disks and path");
    }
    if options.verify {
        line.show("reading the files at both ends");
    }
    let report = copy_watched(&options, &token, LIMITS, (), &mut |progress| line.show(&shown(progress)));
    line.clear();
    let report = match report {
        // Given up: no wrong use, and the copy did not hold.
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            say!("error: {error}");
            return Ok(Outcome::Failed);
        }
        report => report?,
    };
    if args.output.json {
        print_json(&CommandReport { command: command_line(), report: &report })?;
    } else {
        tell_text!("{}", summary(&report));
    }
    Ok(if report.is_whole() { Outcome::Done } else { Outcome::Failed })
}

/// Sources on one side, directories on the other.
fn options(args: &CopyFilesArgs) -> Result<CopyOptions> {
    let hint = Hint(
        "`SRC... HOST:DIR` uploads, `HOST:SRC... DIR` downloads; write a local path with a colon as ./a:b",
    );
    let mut local: Vec<(usize, PathBuf)> = Vec::new();
    let mut far: Vec<(usize, PathBuf)> = Vec::new();
    let mut host: Option<String> = None;
    for (at, word) in args.paths.iter().enumerate() {
        let Some((name, path)) = word.to_str().and_then(remote) else {
            local.push((at, word.into()));
            continue;
        };
        if host.as_ref().is_some_and(|host| host != name) {
            bail!("a copy needs exactly one remote host{hint}");
        }
        host = Some(name.to_owned());
        far.push((at, path.to_owned()));
    }
    let Some(host) = host else { bail!("no remote host given{hint}") };
    let Some(first) = local.first() else { bail!("both ends are on {host}; one must be local{hint}") };
    let pull = first.0 > 0;
    let (sources, into) = if pull { (far, local) } else { (local, far) };
    // All sources, then all directories.
    if sources.last().map(|(at, _)| *at) > into.first().map(|(at, _)| *at) {
        bail!("sources must come before directories{hint}");
    }
    let paths = |of: Vec<(usize, PathBuf)>| of.into_iter().map(|(_, path)| path).collect();
    Ok(CopyOptions {
        server: resolve(&host, args.port)?,
        sources: paths(sources),
        into: paths(into),
        pull,
        exists: match args.exists {
            CopyExistsArg::Fail => Exists::Fail,
            CopyExistsArg::Skip => Exists::Skip,
            CopyExistsArg::Replace => Exists::Replace,
        },
        tuning: Tuning {
            flows: args.flows,
            range: args.range.bytes(),
            depth: args.depth,
            direct: !args.buffered,
            engine: engine(args.disk_engine),
            window: args.window.map(|size| size.bytes()),
            congestion: args.cc.clone(),
            limit: args.limit.map(|rate| rate.bits_per_second()),
            ..Tuning::default()
        },
        plan: args.plan,
        dry_run: args.dry_run,
        verify: args.verify,
        stop: StopFlag::default(),
    })
}

/// All addresses of a name: the first that answers is used.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().with_context(|| {
        format!(
            "find {host}{}",
            Hint(format_args!("check the name with `getent hosts {host}`, or write its address"))
        )
    })?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        bail!(
            "find {host}: it has no address{}",
            Hint(format_args!("check the name with `getent hosts {host}`"))
        );
    }
    Ok(addresses)
}

fn shown(progress: &Progress) -> String {
    let Progress { files, all_files, bytes, all_bytes, seconds, .. } = *progress;
    let rate = bytes as f64 * 8.0 / seconds.max(1e-3);
    let left = all_bytes.saturating_sub(bytes) as f64 * 8.0 / rate.max(1.0);
    format!(
        "{} of {} files, {} of {}, {}, {left:.0} s left",
        print::count(files as u64),
        print::count(all_files as u64),
        print::bytes(bytes),
        print::bytes(all_bytes),
        print::rate(rate)
    )
}

fn summary(report: &CopyReport) -> String {
    let mut out = String::new();
    if let Some(plan) = &report.plan {
        out.push_str(&plan_text(plan));
    }
    if report.verified {
        out.push_str(&compared(report));
    } else if report.seconds > 0.0 {
        let _ = writeln!(
            out,
            "copied {}, {} in {:.1} s ({}), {}, CPU {:.3} s/GB reading, {:.3} s/GB writing",
            print::counted((report.files - report.kept_files) as u64, "file"),
            print::bytes(report.moved_bytes + report.hole_bytes),
            report.seconds,
            print::rate(report.bits_per_second),
            print::counted(report.flows as u64, "flow"),
            per_gb(report.sender.cpu_seconds, report.moved_bytes),
            per_gb(report.receiver.cpu_seconds, report.moved_bytes),
        );
    }
    if report.kept_files > 0 && !report.verified {
        let (files, bytes) =
            (print::counted(report.kept_files as u64, "file"), print::bytes(report.kept_bytes));
        let _ = writeln!(out, "  already there: {files}, {bytes}");
    }
    if report.resumed_bytes > 0 {
        let _ = writeln!(out, "  resumed: {} already there", print::bytes(report.resumed_bytes));
    }
    if report.again > 0 {
        let _ =
            writeln!(out, "  damaged on the way and sent again: {}", print::counted(report.again, "range"));
    }
    if let Some(bound) = report.bound {
        let _ = writeln!(out, "  bounded by {}", bound.words());
    }
    let failed = if report.verified { "DIFFERS" } else { "NOT COPIED" };
    for one in report.failed.iter().take(TOLD) {
        let _ = writeln!(out, "  {failed} {}: {}", print::name(&one.path), print::indented(&one.error));
    }
    if report.failed.len() > TOLD {
        let _ = writeln!(out, "  and {} more (--json)", report.failed.len() - TOLD);
    }
    for path in report.special.iter().take(TOLD) {
        let _ = writeln!(out, "  note: {} is not a file, directory or link: not copied", print::name(path));
    }
    for path in report.dropped_bits.iter().take(TOLD) {
        let path = print::name(path);
        let _ = writeln!(out, "  note: {path}: set-user-ID, set-group-ID and sticky bits are not copied");
    }
    if let Some(why) = &report.stopped {
        let hint = Hint("run the same command again to copy the rest");
        let _ = writeln!(out, "{}", lines("", &format!("STOPPED: {}{hint}", print::indented(why))));
    }
    out
}

/// What a comparison found.
fn compared(report: &CopyReport) -> String {
    let (same, bytes) = (report.compared.len() as u64, report.compared.iter().map(|file| file.bytes).sum());
    let verdict = if report.is_whole() { "all equal" } else { "equal" };
    let (count, bytes) = (print::counted(same, "file"), print::bytes(bytes));
    format!("compared at both ends in {:.1} s: {count} {verdict}, {bytes}\n", report.seconds)
}

fn per_gb(seconds: f64, bytes: u64) -> f64 {
    if bytes == 0 { 0.0 } else { seconds / (bytes as f64 / 1e9) }
}

fn plan_text(plan: &Plan) -> String {
    let mut out = format!(
        "plan: reading {}, network {}, writing {}, round trip {:.2} ms\n",
        print::rate(plan.read.bits_per_second),
        print::rate(plan.network.bits_per_second),
        print::rate(plan.write.bits_per_second),
        plan.rtt_seconds * 1e3
    );
    if let Some(rate) = plan.window_bits_per_second {
        let _ = writeln!(out, "  windows of all flows a round trip: {}", print::rate(rate));
    }
    if plan.trial.bytes > 0 {
        let rate = print::rate(plan.trial.bits_per_second);
        let _ =
            writeln!(out, "  bytes, all concurrently: {rate}, and {} more", time(plan.trial.delay_seconds));
    }
    if plan.tried_files > 0 {
        let (files, each) = (print::count(plan.tried_files), time(plan.file_seconds));
        let _ = writeln!(
            out,
            "  {files} files in small: {} for a copy, {each} for a file",
            time(plan.fixed_seconds)
        );
    }
    let bound = plan.bound.map_or("nothing", skyhaul_transfer::copy::Bounds::words);
    let predicted = time(plan.seconds.unwrap_or(0.0));
    let rate = print::rate(plan.bits_per_second);
    let _ = writeln!(out, "  predicted: {predicted}, {rate}, bounded by {bound}");
    if let (Some(seconds), Some(measured), Some(ratio)) =
        (plan.measured_seconds, plan.measured_bits_per_second, plan.ratio)
    {
        let (took, rate, percent) = (time(seconds), print::rate(measured), ratio * 100.0);
        let _ = writeln!(out, "  measured: {took}, {rate}, {percent:.0} % of the predicted rate");
    }
    out
}

fn time(seconds: f64) -> String {
    micros(seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ConfigPaths, Parsed, Verb, parse};

    fn of(line: &str) -> Result<CopyOptions> {
        let words = ["skyhaul", "copy", "--token-file", "t"].into_iter().chain(line.split(' '));
        let Parsed::Run(cli) = parse(words, &ConfigPaths::default())? else { panic!() };
        let Verb::Copy(args) = cli.verb else { panic!() };
        options(&args.copy)
    }

    #[test]
    fn a_plan_says_time_and_rate_and_so_does_its_end() {
        let mut plan = Plan {
            tried_files: 2000,
            fixed_seconds: 0.0312,
            file_seconds: 170e-6,
            seconds: Some(0.4),
            bits_per_second: 164e6,
            ..Plan::default()
        };
        let text = plan_text(&plan);
        assert!(text.contains("2 000 files in small: 31.2 ms for a copy, 170 µs for a file"), "{text}");
        assert!(text.contains("predicted: 400 ms, 164 Mb/s") && !text.contains("measured"), "{text}");
        (plan.measured_seconds, plan.measured_bits_per_second, plan.ratio) =
            (Some(0.41), Some(160e6), Some(0.976));
        let text = plan_text(&plan);
        assert!(text.contains("measured: 410 ms, 160 Mb/s, 98 % of the predicted rate"), "{text}");
    }

    #[test]
    fn the_side_with_the_host_is_the_far_one() {
        let push = of("a b 127.0.0.1:/d1 127.0.0.1:/d2").unwrap();
        assert_eq!((push.pull, push.sources.len(), push.into.len()), (false, 2, 2));
        let pull = of("127.0.0.1:/d1/exp here --flows 2 --limit 1Gbps").unwrap();
        assert_eq!((pull.pull, pull.tuning.flows, pull.tuning.limit), (true, 2, Some(1_000_000_000)));
        for bad in ["a b", "127.0.0.1:/a 127.0.0.1:/b", "a 127.0.0.1:/b 127.0.0.2:/c", "a 127.0.0.1:/b c"] {
            assert!(of(bad).unwrap_err().to_string().contains("hint: "), "{bad}");
        }
    }
}
