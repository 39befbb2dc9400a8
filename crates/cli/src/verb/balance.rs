//! `skyhaul balance`: a facility of load balancers with its control plane.

mod said;

use crate::Outcome;
use crate::args::BalanceArgs;
use crate::interrupt::Interrupt;
use crate::print::{Progress, counted, page};
use crate::verb::doors;
use crate::verb::receiving::print_json;
use crate::verb::token_file;
use anyhow::{Context, Result, bail, ensure};
use skyhaul::balance::BalanceOptions;
use skyhaul::io::file::failed;
use skyhaul::io::host::descriptors;
use skyhaul_daemon::balancer::proto::{AddSendersRequest, ReserveLoadBalancerRequest};
use skyhaul_daemon::balancer::{
    Api, Caller, ControlPlaneReport, DerivedTokens, Instances, Limits, PlaneProcesses, Registry, Server,
    ServerAddress, TlsFiles, data_port,
};
use skyhaul_daemon::client::Trust;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the threads that matter are looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &BalanceArgs) -> Result<Outcome> {
    check(args)?;
    let interrupt = Interrupt::listen()?;
    let token = token_file::read_or_make(&args.token_file)?;
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
    say!("{}", said::listening(args, server.address()));
    if args.tls_cert.is_none() {
        doors::warn_of_tokens_at(args.api.ip());
    }
    let mut progress = Progress::new(args.output.quiet);
    let mut next = begun;
    let over = || args.duration.is_some_and(|duration| begun.elapsed() >= duration.duration());
    let mut looked = begun;
    while !interrupt.is_set() && !over() {
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            // Planes in processes of their own go on meanwhile, so they are not told to end.
            if let Some(why) = fault(&server, &desk) {
                bail!("{why}\nhint: start it again");
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        if progress.is_live() && Instant::now() >= next {
            next = Instant::now() + Duration::from_secs(1);
            progress.show(&said::progress(&desk, begun.elapsed()));
        }
    }
    progress.clear();
    server.stop();
    let report = ControlPlaneReport::at_the_end(&desk, begun.elapsed().as_secs_f64(), wrong.all());
    if args.output.json {
        print_json(&report)?;
    } else {
        tell_text!("{}", said::report(&report, args.report));
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
        say!(
            "note: the operator's token is another one: {} made under the former one {} revoked\n\
             hint: give out new ones; --keep-tokens at the start after a change keeps them",
            counted(revoked as u64, "token"),
            if revoked == 1 { "is" } else { "are" }
        );
    }
    Api::open(opened, ground(args)?).context("start the balancers")
}

/// Why it cannot go on, if a thread that matters has ended: whoever supervises it then starts it again.
fn fault(server: &Server, desk: &Api) -> Option<String> {
    let ended = || "the control plane ended by a fault in this program".to_owned();
    if server.is_running() { desk.fault() } else { Some(ended()) }
}

/// What cannot work, before anything is opened.
fn check(args: &BalanceArgs) -> Result<()> {
    for ip in args.addresses() {
        ensure!(
            !ip.is_unspecified() && !ip.is_multicast(),
            "senders cannot write {ip}\nhint: name the addresses of this host with --listen, each by itself"
        );
    }
    let (instances, own) = (args.instances(), args.instance_address.len());
    ensure!(
        own <= usize::from(instances),
        "{own} addresses for {instances} load balancers\nhint: more --instances, or fewer --instance-address"
    );
    let ports = args.sharing().max(1);
    let last = |first: u16| first.checked_add(ports - 1);
    for (name, first) in [("data-port", args.data_port), ("sync-port", args.sync_port)] {
        ensure!(
            first == 0 || last(first).is_some(),
            "there are no {ports} ports from {first} on\nhint: a lower --{name}, or fewer --instances"
        );
    }
    let data = (args.data_port, data_port(args.data_port, ports - 1, args.sharing() > 1));
    let sync = (args.sync_port, last(args.sync_port).unwrap_or(u16::MAX));
    ensure!(
        data.1 < sync.0 || sync.1 < data.0 || args.data_port == 0 || args.sync_port == 0,
        "ports for packets and for messages overlap\nhint: {} to {} are for packets, {} to {} for messages; move them with --data-port and --sync-port",
        data.0,
        data.1,
        sync.0,
        sync.1
    );
    ensure!(
        !(args.output.json && args.reserve.is_some() && args.uri_file.is_none()),
        "standard output is for the report\nhint: add --uri-file FILE, or leave out --json"
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
        say!("note: nobody may send to {name} yet\nhint: name senders with --sender, or add them later");
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
            token_file::private(path, uri).map_err(|error| failed("write", path, &error))?;
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
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&text) && all.len() < 100 {
            say!("note: {text}");
            all.push(text);
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
