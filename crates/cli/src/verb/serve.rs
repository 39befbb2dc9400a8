//! `skyhaul serve`: the station as a service.
//!
//! ```text
//!   [station] of the configuration ─▶ StationService ◀── HTTP API ◀── status, station, browsers, scripts
//!                                                   ◀── VSI-S ◀───── Field System, m5copy
//!                                                   ◀── Mark 6 ◀──── Field System (VGOS), da-client
//!   [http] ─▶ WebDavServer ◀── HTTP, WebDAV ◀── FTS, Rucio, gfal2, davix, rclone, curl
//!   [peers] ─▶ PeerServer ◀── skyhaul copy, probe
//!   [etransfer] ─▶ EtransferServer ◀── etransfer ◀── etc
//!   [fleet] ─▶ FleetMembership ─▶ etcd
//!   [station.mount] ─▶ StationMount ◀── correlators, etc, cp
//! ```

mod config;
mod manager;
mod mounting;
mod peers;

use super::listener;
use crate::args::StationServeArgs;
use crate::outcome::{Interrupt, Outcome};
use crate::print::counted;
use anyhow::{Context, Result, bail};
pub(super) use config::FleetAccess;
use config::HttpConfig;
use manager::ServiceManager;
use mounting::{MountConfig, StationMount};
use peers::PeerDoor;
use skyhaul::core::hint::Hint;
use skyhaul::peer::PeerIntake;
use skyhaul_daemon::etransfer::{EtransferOptions, EtransferServer};
use skyhaul_daemon::fleet::{FleetMembership, FleetSetup};
use skyhaul_daemon::station::api::StationApi;
use skyhaul_daemon::station::{AlarmSetup, ScanSums, StationService};
use skyhaul_daemon::vsi::{ArrivalOptions, StationAdapter, VsiOptions, VsiServer};
use skyhaul_daemon::webdav::{WebDavOptions, WebDavServer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the threads that matter are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The section `[http]` of a configuration, if it has one.
pub(super) fn http_options(path: &Path) -> Result<Option<WebDavOptions>> {
    Ok(config::read_http(path)?.map(|http| http.options))
}

/// How a fleet is reached, if the configuration says it.
pub(super) fn fleet_access(path: &Path) -> Result<Option<FleetAccess>> {
    config::read_fleet(path)
}

/// The file with the configuration.
fn file(args: &StationServeArgs) -> Result<&Path> {
    let hint = Hint("give one with --config FILE; docs/reference/serve.md has an example");
    args.file.as_deref().ok_or_else(|| anyhow::anyhow!("no configuration{hint}"))
}

pub(crate) fn run(args: &StationServeArgs) -> Result<Outcome> {
    let path = file(args)?;
    let config = config::read(path)?;
    if args.check {
        tell_text!("{}: valid\n", crate::print::name(path));
        return Ok(Outcome::Done);
    }
    if args.test_alarms {
        return test_alarms(&config.setup.alarms);
    }
    let interrupt = Interrupt::listen()?;
    skyhaul::io::host::descriptors::raise();
    let listen = args.listen.unwrap_or(config.listen);
    let token = config.token_file.as_deref().map(listener::read_or_make).transpose()?;
    let (inputs, disks) = (config.setup.config.inputs.len(), config.setup.disks.len());
    let disks_of_recordings = config.setup.disks.clone();
    let service = StationService::start(config.setup).context("start the station")?;
    let api = StationApi::start(Arc::clone(&service), listen, token.as_deref())?;
    let vsi = config.vsi.map(|options| dialogue(&service, options, config.arrivals)).transpose()?;
    let mark6 =
        config.mark6.map(|options| dialogue(&service, options, ArrivalOptions::default())).transpose()?;
    let http = config.http;
    let serves_recordings = http.as_ref().is_some_and(|http| http.options.recordings);
    let are_summed = config.adler32 && (serves_recordings || config.fleet.is_some());
    let recorder = Arc::clone(&service);
    let sums = ScanSums::start(&disks_of_recordings, are_summed.then_some(move || !recorder.is_recording()))?;
    let peers = config.peers.map(|config| PeerDoor::start(config, http.as_ref(), &service)).transpose()?;
    let intake = peers.as_ref().map(PeerDoor::intake);
    let files = http.as_ref().map(|http| serve_files(http, &sums, intake)).transpose()?;
    files.iter().for_each(|files| service.show_files(files));
    peers.iter().zip(&files).for_each(|(peers, files)| peers.log_with(files));
    let etransfer = config.etransfer;
    let etransfer_server =
        etransfer.as_ref().map(|options| serve_etransfer(options, &disks_of_recordings)).transpose()?;
    let fleet = config.fleet.map(|setup| join_fleet(setup, &service, &sums)).transpose()?;
    // All that is said can be used from now on.
    say_station((inputs, disks), &api, [("VSI-S", &vsi), ("Mark 6", &mark6)]);
    if token.is_some() {
        listener::warn_of_tokens_at(listen.ip());
    }
    if let Some((config, server)) = http.as_ref().zip(files.as_ref()) {
        say_files(config, server);
    }
    peers.iter().for_each(|peers| peers.say(disks));
    etransfer.iter().zip(&etransfer_server).for_each(|(options, server)| say_etransfer(options, server));
    let mount = config.mount.map(|config| mount(config, &service)).transpose()?;
    let mut manager = ServiceManager::ready();
    while !interrupt.is_set() {
        std::thread::sleep(POLL_INTERVAL);
        manager.tick(|| service.snapshot());
        let is_running = api.is_running()
            && vsi.iter().chain(&mark6).all(VsiServer::is_running)
            && files.as_ref().is_none_or(WebDavServer::is_running)
            && peers.as_ref().is_none_or(PeerDoor::is_running)
            && etransfer_server.as_ref().is_none_or(EtransferServer::is_running)
            && fleet.as_ref().is_none_or(FleetMembership::is_running);
        if !is_running || !service.is_running() {
            // What is recorded is kept first.
            let _ = service.shut_down();
            bail!("the service stopped because of a bug in this program{}", Hint("start it again"));
        }
    }
    manager.stopping();
    let active = service.snapshot().recordings.len();
    if active > 0 {
        say!("ending {}", counted(active as u64, "recording"));
    }
    let is_whole = service.shut_down();
    // The fleet after the last recording: it is to know how it ended.
    // Copies and measurements before the files, whose log has them.
    drop((fleet, api, vsi, mark6, peers, files, etransfer_server, mount));
    Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
}

/// Mounts the scans as files, which the station shows.
fn mount(config: MountConfig, service: &StationService) -> Result<StationMount> {
    let signs = service.show_mount(&config.point);
    StationMount::start(config, signs).context("mount the scans")
}

/// Says what the station has, and where it is.
fn say_station(
    (inputs, disks): (usize, usize),
    api: &StationApi,
    dialogues: [(&str, &Option<VsiServer>); 2],
) {
    say!(
        "station: {}, {}; HTTP API on http://{}",
        counted(inputs as u64, "input"),
        counted(disks as u64, "disk"),
        api.address()
    );
    for (name, server) in dialogues {
        server.iter().for_each(|server| say!("{name} on {}", server.address()));
    }
}

/// Makes the station a member of its fleet.
fn join_fleet(setup: FleetSetup, service: &Arc<StationService>, sums: &ScanSums) -> Result<FleetMembership> {
    let FleetSetup { fleet, station, recorder, .. } = &setup;
    let told = format!("fleet {fleet}: recorder {recorder} of station {station}");
    let membership = FleetMembership::start(setup, service, sums).context("join the fleet")?;
    say!("{told}");
    Ok(membership)
}

/// A port of VSI-S, or of a Mark 6.
fn dialogue(
    service: &Arc<StationService>,
    options: VsiOptions,
    arrivals: ArrivalOptions,
) -> std::io::Result<VsiServer> {
    let program = concat!("skyhaul ", env!("CARGO_PKG_VERSION"));
    VsiServer::start(StationAdapter::new(Arc::clone(service), program, arrivals)?, options)
}

/// Tries each receiver of alarms.
fn test_alarms(setup: &AlarmSetup) -> Result<Outcome> {
    if setup.receivers.is_empty() {
        bail!(
            "no receiver of alarms{}",
            Hint("add [[station.alarms.receiver]] with name and command, mail or webhook")
        );
    }
    let mut is_whole = true;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let time = skyhaul::time::format(i64::try_from(now.as_secs()).unwrap_or(0));
    for receiver in &setup.receivers {
        match receiver.try_out(&time) {
            Ok(said) => tell_text!("{}: {said}\n", receiver.name),
            Err(why) => {
                is_whole = false;
                tell_text!("{}: failed: {why}\n", receiver.name);
            }
        }
    }
    Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
}

/// Serves directories and the recordings on these disks.
fn serve_files(config: &HttpConfig, sums: &ScanSums, peers: Option<PeerIntake>) -> Result<WebDavServer> {
    let token = config.token_file.as_deref().map(listener::read_or_make).transpose()?;
    WebDavServer::start(&config.options, token.as_deref(), sums, peers).context("serve files")
}

/// Says where files are, and who may do what.
fn say_files(config: &HttpConfig, server: &WebDavServer) {
    let is_encrypted = config.options.tls.is_some();
    say!("files on {}://{}", if is_encrypted { "https" } else { "http" }, server.address());
    for root in &config.options.directories {
        let access = if root.is_writable { "read and write" } else { "read only" };
        say!("  /{}/: {}, {access}", root.name, crate::print::name(&root.directory));
    }
    if config.options.recordings {
        let access = match config.options.record_uploads {
            true => "read only; uploads become recordings",
            false => "read only",
        };
        say!("  /recordings/: closed recordings, {access}");
    }
    if let Some(own) = &config.options.own_tokens {
        say!("  tokens of {} (skyhaul token create) hold from /", own.issuer);
        listener::warn_of_readers(&own.key);
    }
    for issuer in &config.options.issuers {
        say!("  tokens of {} hold from {}", issuer.url, issuer.base_path);
    }
    if let Some(of) = &config.options.client_certificates {
        let (how, clients) = (if of.required { "required" } else { "optional" }, of.clients.len() as u64);
        let authorities = crate::print::name(&of.authorities);
        say!("  certificates of {authorities} are {how}; rights for {}", counted(clients, "subject"));
    }
    if !is_encrypted && !server.address().ip().to_canonical().is_loopback() {
        let hint = Hint("set `certificate` and `key` of [http], or listen on 127.0.0.1");
        crate::print::note(&format!("clients send the token and files over the network in plain text{hint}"));
    }
}

/// Serves directories and the recordings on these disks by etransfer.
fn serve_etransfer(options: &EtransferOptions, disks: &[PathBuf]) -> Result<EtransferServer> {
    EtransferServer::start(options.clone(), disks).context("serve etransfer")
}

/// Says where etransfer is, and what may be done there.
fn say_etransfer(options: &EtransferOptions, server: &EtransferServer) {
    say!("etransfer on {}, data on {}", server.address(), server.data_address());
    for of in &options.directories {
        let access = if of.is_writable { "read and write" } else { "read only" };
        say!("  {}/: {access}", crate::print::name(&of.directory));
    }
    if options.recordings {
        say!("  /recordings/: closed recordings, read only");
    }
    if !server.address().ip().to_canonical().is_loopback() {
        let hint = Hint("set `allow` of [etransfer] to the hosts that need it");
        crate::print::note(&format!(
            "etransfer has no passwords and no encryption: hosts of the address list may copy files{hint}"
        ));
    }
}
