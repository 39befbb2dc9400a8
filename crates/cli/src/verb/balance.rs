//! `skyhaul balance`: a facility of load balancers with its control plane.

use super::listener;
use super::receiving::print_json;
use crate::args::BalanceArgs;
use crate::outcome::{Interrupt, Outcome};
use crate::print::{Progress, bytes, count, counted, page};
use anyhow::{Context, Result, bail, ensure};
use skyhaul::balance::BalanceOptions;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::failed;
use skyhaul::io::host::descriptors;
use skyhaul::io::lock::lock;
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::balancer::proto::{AddSendersRequest, ReserveLoadBalancerRequest};
use skyhaul_daemon::balancer::{
    Api, Caller, ControlPlaneReport, DerivedTokens, Instances, Limits, PlaneProcesses, Registry,
    ReservationReport, Server, ServerAddress, TlsFiles, data_port,
};
use skyhaul_daemon::client::Trust;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the threads that matter are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &BalanceArgs) -> Result<Outcome> {
    check(args)?;
    let interrupt = Interrupt::listen()?;
    let token = super::listener::read_or_make(&args.token_file)?;
    let desk = Arc::new(desk(args, &token)?);
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let tls = tls.map(|(certificate, key)| TlsFiles { certificate, key });
    let wrong = Wrong::default();
    let noted = wrong.clone();
    let server = Server::start(Arc::clone(&desk), args.api, tls.as_ref(), move |text| noted.note(text))?;
    if let Some(name) = &args.reserve {
        let uri = reserve(args, &desk, &token, name, server.address())?;
        write_uri(args, &uri)?;
    }
    let begun = Instant::now();
    say!("{}", listening(args, server.address()));
    if args.tls_cert.is_none() {
        listener::warn_of_tokens_at(args.api.ip());
    }
    let mut progress = Progress::new(args.output.quiet);
    let mut next = begun;
    let over = || args.duration.is_some_and(|duration| begun.elapsed() >= duration.duration());
    let mut looked = begun;
    while !interrupt.is_set() && !over() {
        if looked.elapsed() >= POLL_INTERVAL {
            looked = Instant::now();
            // Planes in processes of their own go on meanwhile, so they are not told to end.
            if let Some(why) = fault(&server, &desk) {
                bail!("{why}{}", Hint("start it again"));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        if progress.is_live() && Instant::now() >= next {
            next = Instant::now() + Duration::from_secs(1);
            progress.show(&progress_line(&desk, begun.elapsed()));
        }
    }
    progress.clear();
    server.stop();
    let report = ControlPlaneReport::at_the_end(&desk, begun.elapsed().as_secs_f64(), wrong.all());
    if args.output.json {
        print_json(&report)?;
    } else {
        tell_text!("{}", report_text(&report, args.report));
    }
    // What was forwarded is not known for certain: that is no success.
    let is_complete = !report.reservations.iter().any(|reservation| reservation.counters_incomplete);
    Ok(if is_complete { Outcome::Done } else { Outcome::Failed })
}

/// The state as it was left, and the balancers of all reservations.
fn desk(args: &BalanceArgs, token: &str) -> Result<Api> {
    // Before the first connection, and inherited by processes that forward.
    descriptors::raise();
    let others = if args.keep_tokens { DerivedTokens::Kept } else { DerivedTokens::Revoked };
    let limits = Limits::of(args.instances());
    let opened = Registry::open_with(args.state.as_deref(), token, limits, now(), others)?;
    let revoked = opened.0.revoked();
    if revoked > 0 {
        crate::print::note(&format!(
            "the operator's token has changed: {} derived from the previous one {} revoked{}",
            counted(revoked as u64, "token"),
            if revoked == 1 { "is" } else { "are" },
            Hint("issue new tokens, or start with --keep-tokens to keep the old ones")
        ));
    }
    Api::open(opened, ground(args)?).context("start the balancers")
}

/// Why it cannot go on, if a thread that matters has ended: whoever supervises it then starts it again.
fn fault(server: &Server, desk: &Api) -> Option<String> {
    let ended = || "the control plane stopped because of a bug in this program".to_owned();
    if server.is_running() { desk.fault() } else { Some(ended()) }
}

/// What cannot work, before anything is opened.
fn check(args: &BalanceArgs) -> Result<()> {
    for ip in args.addresses() {
        ensure!(
            !ip.is_unspecified() && !ip.is_multicast(),
            "{ip} is not an address that senders can use{}",
            Hint("give each address of this host with --listen")
        );
    }
    let (instances, own) = (args.instances(), args.instance_address.len());
    ensure!(
        own <= usize::from(instances),
        "{own} addresses for {instances} load balancers{}",
        Hint("use more --instances, or fewer --instance-address")
    );
    let ports = args.sharing().max(1);
    let last = |first: u16| first.checked_add(ports - 1);
    for (name, first) in [("data-port", args.data_port), ("sync-port", args.sync_port)] {
        ensure!(
            first == 0 || last(first).is_some(),
            "{ports} ports from {first} on exceed 65535{}",
            Hint(format_args!("use a smaller --{name}, or fewer --instances"))
        );
    }
    let data = (args.data_port, data_port(args.data_port, ports - 1, args.sharing() > 1));
    let sync = (args.sync_port, last(args.sync_port).unwrap_or(u16::MAX));
    ensure!(
        data.1 < sync.0 || sync.1 < data.0 || args.data_port == 0 || args.sync_port == 0,
        "the ports for packets and for synchronisation messages overlap{}",
        Hint(format_args!(
            "packets use {} to {}, messages {} to {}; change them with --data-port and --sync-port",
            data.0, data.1, sync.0, sync.1
        ))
    );
    ensure!(
        !(args.output.json && args.reserve.is_some() && args.uri_file.is_none()),
        "--json and --reserve both write to standard output{}",
        Hint("add --uri-file FILE, or leave out --json")
    );
    Ok(())
}

fn ground(args: &BalanceArgs) -> Result<Instances> {
    let balance = BalanceOptions {
        threads: args.threads.unwrap_or(0),
        cpus: args.cpus.clone(),
        receive_buffer: args.socket_buffer,
        fast_path: args.fast_path.into(),
        ..BalanceOptions::default()
    };
    let (data_port, sync_port) = (args.data_port, args.sync_port);
    let upstream = match &args.upstream_certificate {
        _ if args.any_upstream_certificate => Trust::Anyone,
        Some(file) => Trust::File(file.clone()),
        None => Trust::System,
    };
    let own = args.instance_address.iter().map(|own| own.0.clone()).collect();
    let (listen, shared, apart) = (args.listen.clone(), args.sharing() > 1, apart(args)?);
    Ok(Instances { listen, own, shared, data_port, sync_port, balance, upstream, apart })
}

/// Processes that forward stand beside the state that they are found by.
fn apart(args: &BalanceArgs) -> Result<Option<PlaneProcesses>> {
    let Some(state) = args.state.as_ref().filter(|_| !args.in_process) else { return Ok(None) };
    let this = std::env::current_exe().context("find this program")?;
    let mut sockets = state.clone().into_os_string();
    sockets.push(".plane-");
    Ok(Some(PlaneProcesses { command: vec![this.into(), "data-plane".into()], sockets: sockets.into() }))
}

/// The URI of the reservation that is asked for.
fn reserve(args: &BalanceArgs, desk: &Api, token: &str, name: &str, api: SocketAddr) -> Result<String> {
    let here = args.addresses().iter().all(std::net::IpAddr::is_loopback);
    let senders: Vec<String> = match args.sender.is_empty() {
        false => args.sender.iter().map(ToString::to_string).collect(),
        true if here => vec!["127.0.0.0/8".to_owned(), "::1".to_owned()],
        true => Vec::new(),
    };
    if senders.is_empty() {
        let hint = Hint("add them with --sender, or later with `skyhaul balancer senders add`");
        crate::print::note(&format!("{name} has no senders yet{hint}"));
    }
    let server = ServerAddress { authority: api.to_string(), tls: args.tls_cert.is_some() };
    let caller = Caller { token: Some(token.to_owned()), server, now: now() };
    let request = ReserveLoadBalancerRequest {
        name: name.to_owned(),
        sender_addresses: senders,
        // It lasts until it is freed.
        until: Some(Default::default()),
        ..ReserveLoadBalancerRequest::default()
    };
    let named = desk.reserve_named(&caller, request.clone()).with_context(|| format!("reserve {name}"))?;
    // It may have been reserved before, with others.
    let more = AddSendersRequest { lb_id: named.0.to_string(), sender_addresses: request.sender_addresses };
    desk.add_senders(&caller, more).with_context(|| format!("add senders of {name}"))?;
    Ok(named.1)
}

fn write_uri(args: &BalanceArgs, uri: &str) -> Result<()> {
    match &args.uri_file {
        Some(path) => {
            super::listener::private(path, uri).map_err(|error| failed("write", path, &error))?;
            say!("EJFAT_URI is in {}", path.display());
        }
        None => page(&format!("{uri}\n"))?,
    }
    Ok(())
}

/// Milliseconds of UNIX time.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What did not go as it should, each thing once.
#[derive(Clone, Default)]
struct Wrong(Arc<Mutex<Vec<String>>>);

impl Wrong {
    fn note(&self, text: String) {
        let mut all = lock(&self.0);
        if !all.contains(&text) && all.len() < 100 {
            say!("note: {text}");
            all.push(text);
        }
    }

    fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

fn listening(args: &BalanceArgs, api: SocketAddr) -> String {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let sharing = args.sharing();
    let ports = |first: u16, last: u16| match first {
        0 => "any port".to_owned(),
        _ if last <= first => format!("port {first}"),
        _ => format!("ports {first} to {last}"),
    };
    let data = |nth| data_port(args.data_port, nth, sharing > 1);
    let ips: Vec<String> = args.addresses().iter().map(ToString::to_string).collect();
    let last = sharing.saturating_sub(1);
    format!(
        "balancing on {}: {} load balancers, packets on {}, messages on {}; control plane on {scheme}://{api}",
        ips.join(", "),
        args.instances(),
        ports(data(0), data(last)),
        ports(args.sync_port, args.sync_port.saturating_add(last))
    )
}

fn progress_line(desk: &Api, since: Duration) -> String {
    let all = desk.statuses();
    let packets: u64 = all.iter().map(|(_, status, _)| status.packets).sum();
    let forwarded: u64 = all.iter().map(|(_, status, _)| status.forwarded.packets).sum();
    let workers: usize = all.iter().map(|(_, status, _)| status.workers.len()).sum();
    format!(
        "{:.0} s  {}, {}, {}, {} forwarded",
        since.as_secs_f64(),
        counted(all.len() as u64, "reservation"),
        counted(workers as u64, "worker"),
        counted(packets, "packet"),
        count(forwarded)
    )
}

/// The report as text; `each`: with each reservation, reason and worker.
fn report_text(report: &ControlPlaneReport, each: bool) -> String {
    let packets = report.reservations.iter().map(|r| r.packets).sum();
    let forwarded = report.reservations.iter().map(|r| r.forwarded).sum();
    let mut text = format!(
        "balanced {}, {} forwarded, in {:.1} s; {}{}\n",
        counted(packets, "packet"),
        count(forwarded),
        report.seconds,
        counted(report.calls, "call"),
        reasons(", refused: ", &report.calls_refused)
    );
    if report.wrong_instance > 0 {
        let _ = writeln!(
            text,
            "  refused: {} wrong_instance, at the port of clients that ignore that of EJFAT_URI",
            count(report.wrong_instance)
        );
    }
    if each {
        report.reservations.iter().for_each(|reservation| reservation_lines(&mut text, reservation));
    }
    let of = |r: &ReservationReport| {
        r.notes.iter().map(|n| format!("reservation {}: {n}", r.id)).collect::<Vec<_>>()
    };
    let noted: BTreeSet<String> =
        report.reservations.iter().flat_map(of).chain(report.notes.iter().cloned()).collect();
    noted.into_iter().fold(text, |text, note| text + "  note: " + &note + "\n")
}

fn reservation_lines(text: &mut String, of: &ReservationReport) {
    // Of a few packets it says nothing.
    let much = of.forwarded_bytes >= 1_000_000;
    let cpu = if much { format!(", CPU {:.3} s/GB", of.cpu_seconds_per_gb) } else { String::new() };
    let _ = writeln!(
        text,
        "  reservation {} {}: {}, {} forwarded ({}){cpu}, {}, {}{}",
        of.id,
        escaped_name(&of.name),
        counted(of.packets, "packet"),
        count(of.forwarded),
        bytes(of.forwarded_bytes),
        counted(of.epochs, "calendar"),
        counted(of.syncs, "message"),
        reasons(", refused: ", &of.syncs_refused)
    );
    let _ = writeln!(text, "    sent by {}", of.mode);
    for (what, counts) in [("refused", &of.refused), ("not sent", &of.unsent)] {
        if !counts.is_empty() {
            let _ = writeln!(text, "    {what}: {}", reasons("", counts));
        }
    }
    for worker in &of.workers {
        let _ = writeln!(
            text,
            "    worker {}: {} of 512 slots, {} ({}), queue {:.0} % full",
            worker.address,
            worker.slots,
            counted(worker.packets, "packet"),
            bytes(worker.bytes),
            worker.fill * 100.0
        );
    }
}

/// Counts by reason; empty if all are zero.
fn reasons(before: &str, counts: &BTreeMap<&'static str, u64>) -> String {
    let all: Vec<String> = counts.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
    if all.is_empty() { String::new() } else { format!("{before}{}", all.join(", ")) }
}
