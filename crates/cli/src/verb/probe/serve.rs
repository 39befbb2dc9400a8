//! `skyhaul probe serve`: the other end.

use super::super::listener::{Listener, peer_server};
use super::super::receiving::print_json;
use super::others;
use crate::args::ServeArgs;
use crate::outcome::Interrupt;
use crate::outcome::Outcome;
use anyhow::Result;
use skyhaul::peer::{Limits, Server, ServerOptions};
use skyhaul_measure::host::HostService;
use skyhaul_measure::probe::iperf3;
use skyhaul_measure::probe::tcp::TcpService;
use skyhaul_measure::probe::udp::UdpService;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) fn run(args: &ServeArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (token, key) = peer_server(&args.token_file)?;
    let options = ServerOptions {
        tests: args.tests,
        queue: args.queue,
        per_peer: args.per_peer,
        limits: Limits {
            rate: args.most.map(|rate| rate.bits_per_second()),
            duration: args.longest.duration(),
        },
        ..ServerOptions::default()
    };
    let tcp = TcpService { reader: args.slow_reader.unwrap_or_default() };
    let server = Server::start_with(
        &key,
        SocketAddr::new(args.listen, args.port),
        token,
        options,
        vec![Box::new(UdpService::new()?), Box::new(tcp), Box::new(HostService)],
    )?;
    say!("serving on {}", server.local());
    let door = Listener::with_token("probe", server.local(), &args.token_file, key.fingerprint());
    door.say();
    let iperf3 = args.iperf3.map(|port| serve_iperf3(args, port)).transpose()?;
    let others = others::Serving::start(args)?;
    let open = iperf3.as_ref().map(|iperf3| Listener::open("iperf3", iperf3.local()));
    let listening: Vec<Listener> = std::iter::once(door).chain(open).chain(others.doors()).collect();
    let fault = watch(&interrupt, &server, iperf3.as_ref(), &others);
    let stats = server.stats();
    let of_iperf3 = iperf3.as_ref().map(iperf3::Iperf3Server::stats);
    drop((server, iperf3));
    if args.json {
        let mut json = serde_json::to_value(stats)?;
        json["listening"] = serde_json::to_value(listening)?;
        if let Some(stats) = of_iperf3 {
            json["iperf3"] = serde_json::to_value(stats)?;
        }
        others.add_to(&mut json)?;
        print_json(&json)?;
    } else {
        if let Some(iperf3::Iperf3ServerStats { accepted, done, failed, denied, .. }) = of_iperf3 {
            say!("iperf3: {accepted} connections; {done} tests done, {denied} refused, {failed} aborted");
        }
        say_text!("{}", others.lines());
        say!(
            "{} connections, {} without the token; {} tests done, {} refused, {} aborted",
            stats.accepted,
            stats.unproven,
            stats.done,
            stats.refused,
            stats.failed
        );
    }
    fault.map_or(Ok(Outcome::Done), |why| Err(anyhow::Error::msg(why)))
}

/// Serve until an end is requested, or a thread that matters has ended: then returns why.
fn watch(
    interrupt: &Interrupt,
    server: &Server,
    iperf3: Option<&iperf3::Iperf3Server>,
    others: &others::Serving,
) -> Option<String> {
    while !interrupt.is_set() {
        let peers = (!server.is_running()).then(|| "the server stopped accepting connections".to_owned());
        let iperf3 = iperf3.is_some_and(|iperf3| !iperf3.is_running());
        let iperf3 = iperf3.then(|| "the iperf3 server ended".to_owned());
        let fault = peers.or(iperf3).or_else(|| others.fault());
        if fault.is_some() {
            return fault;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}

/// The port of iperf3 beside our own; what each test did is told at its end.
fn serve_iperf3(args: &ServeArgs, port: u16) -> Result<iperf3::Iperf3Server> {
    let options = iperf3::Iperf3ServerOptions {
        tests: args.tests.max(iperf3::Iperf3ServerOptions::default().tests),
        per_peer: args.per_peer,
        longest: args.longest.duration(),
        rate: args.most.unwrap_or_default(),
        ..iperf3::Iperf3ServerOptions::default()
    };
    let quiet = args.json;
    let report = move |report: iperf3::Iperf3Report| {
        if !quiet {
            say_text!("{}", iperf3::lines(&report));
        }
    };
    let server = iperf3::Iperf3Server::start(SocketAddr::new(args.listen, port), options, Box::new(report))?;
    say!("serving iperf3 on {}", server.local());
    Listener::open("iperf3", server.local()).say();
    Ok(server)
}
