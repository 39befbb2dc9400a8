//! Copies and measurements of a station: the servers of `copy serve` and `probe serve` in its process, on a port of their own or on that
//! of its files.
//!
//! ```text
//!   port of [http] ── first bytes ─▶ PeerIntake ─┐
//!   port of [peers] ─────────────────────────────┴▶ peer::Server ── token ─▶ client ─▶ copy:  its scopes, as over HTTP
//!                                                                              └─────▶ probe: refused while something is recorded
//! ```
//!
//! Each client has a token of its own, and rights by scopes with paths, those of the files over HTTP. Copies take turns at the disks behind
//! what recordings write, as all readers do. A measurement loads the path by which a station receives: it ends when a recording begins,
//! unless its client may measure always.
//!
//! Limits: [`MAX_PEER_CLIENTS`]; those of a [`Server`] and of copies.

mod ledger;
mod rights;
mod session;

use crate::served::roots::ServedDirectory;
use crate::tokens::Grants;
use crate::webdav::WebDavServer;
pub(crate) use ledger::StationSigns;
use ledger::{PeerLedger, ServiceKind};
use rights::{DISKS, PeerRights, RECORDINGS};
use serde_json::Value;
use session::CountedService;
use skyhaul::core::hint::Hint;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::peer::{
    Limits, PeerError, PeerIntake, Server, ServerKey, ServerOptions, Service, Token, TokenHolders,
};
use skyhaul_measure::host::HostService;
use skyhaul_measure::probe::tcp::TcpService;
use skyhaul_measure::probe::udp::UdpService;
use skyhaul_transfer::copy::{CopyRoot, CopyService};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of clients with a token of their own.
pub const MAX_PEER_CLIENTS: usize = 64;

/// How long the end of the server waits for sessions that end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSE_INTERVAL: Duration = Duration::from_millis(5);

/// When a client may measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeRight {
    /// Never.
    #[default]
    Never,
    /// While nothing is recorded.
    Idle,
    /// Always: its measurements may cost packets of a recording.
    Always,
}

/// Hosts that hold a token, and what they may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerClient {
    /// Its name in status, metrics and log.
    pub name: String,
    /// The file with its token.
    pub token_file: PathBuf,
    /// What it may copy: scopes of the WLCG profile, with the paths of the files over HTTP.
    pub scopes: Vec<String>,
    /// When it may measure.
    pub probe: ProbeRight,
}

impl PeerClient {
    /// Checks its scopes.
    ///
    /// # Errors
    /// One of them is none.
    pub fn check(&self) -> Result<(), String> {
        Grants::of_scopes(&self.scopes).map(drop)
    }
}

/// The servers of copies and measurements.
#[derive(Clone, Debug, Default)]
pub struct PeerServerOptions {
    /// Its port; without one, it serves what comes to the port of the files.
    pub listen: Option<SocketAddr>,
    /// Hosts that may use it.
    pub clients: Vec<PeerClient>,
    /// Maximum rate of a measurement, bits per second.
    pub rate_bits: Option<u64>,
    /// Maximum duration of a measurement.
    pub longest: Duration,
}

/// A running server. It stops when dropped.
pub struct PeerServer {
    /// Always there until the end.
    server: Option<Server>,
    view: PeersView,
}

/// What it shows in `/metrics` and in the status of the station.
#[derive(Clone, Debug)]
pub(crate) struct PeersView {
    intake: PeerIntake,
    listen: Option<SocketAddr>,
    ledger: Arc<PeerLedger>,
}

impl PeerServer {
    /// Starts it beside a station with these disks. `tokens` are those of the clients, in order; `directories` are served over HTTP, too.
    ///
    /// # Errors
    /// The port is taken, two clients have the same token, or a directory cannot be opened.
    pub(crate) fn start(
        options: &PeerServerOptions,
        (key, tokens): (&ServerKey, Vec<Token>),
        directories: &[ServedDirectory],
        (signs, disks): (StationSigns, &[PathBuf]),
    ) -> io::Result<Self> {
        let copies = CopyService::of_roots(roots(directories, disks))?;
        let ledger = Arc::new(PeerLedger::new(signs));
        let mut holders = Vec::with_capacity(tokens.len());
        for (client, token) in options.clients.iter().zip(tokens) {
            let services = services(client, &copies, &ledger)?;
            holders.push(TokenHolders { token, services });
        }
        let limits = Limits { rate: options.rate_bits, duration: options.longest };
        let of_server = ServerOptions { limits, ..ServerOptions::default() };
        let server =
            Server::start_for(key, options.listen, holders, of_server).map_err(|error| match error {
                PeerError::Io(error) => error,
                other => io::Error::other(other.to_string()),
            })?;
        let (names, of) = (options.clients.iter().map(|one| one.name.clone()), Arc::clone(&ledger));
        let names: Vec<String> = names.collect();
        server.observe_refusals(Box::new(move |refusal| of.refuse(&names, refusal)));
        let listen = options.listen.map(|_| server.local());
        let view = PeersView { intake: server.intake(), listen, ledger };
        Ok(Self { server: Some(server), view })
    }

    /// Where connections are given to it that came to another port.
    #[must_use]
    pub fn intake(&self) -> PeerIntake {
        self.view.intake.clone()
    }

    /// Where it listens, with the actual port; `None` if it has no port of its own.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.view.listen
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_running)
    }

    /// Its sessions are lines of the access log of these files, if they have one.
    pub fn log_with(&self, files: &WebDavServer) {
        self.view.ledger.log_to(files.access_lines());
    }

    pub(crate) fn view(&self) -> PeersView {
        self.view.clone()
    }
}

impl Drop for PeerServer {
    /// Stops, and waits for the accounts of sessions that end now.
    fn drop(&mut self) {
        drop(self.server.take());
        let begun = Instant::now();
        while self.view.ledger.running() > 0 && begun.elapsed() < CLOSE_TIMEOUT {
            std::thread::sleep(CLOSE_INTERVAL);
        }
        self.view.ledger.close();
    }
}

impl PeersView {
    /// For the status.
    pub(crate) fn json(&self) -> Value {
        let stats = self.intake.stats();
        serde_json::json!({
            "listen": self.listen.map(|at| at.to_string()),
            "connections": {
                "accepted": stats.accepted,
                "full": stats.full,
                "unproven": stats.unproven,
                "half_open": stats.half_open,
                "waiting": stats.waiting,
            },
            "clients": self.ledger.json(),
        })
    }

    /// Its metrics; `metric` gives names their prefix.
    pub(crate) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        let stats = self.intake.stats();
        let single = |name: &str, kind, help: &str, value: u64| {
            let mut metric = metric(name, kind, help);
            metric.add(&[], value);
            metric
        };
        let total = |name: &str, help: &str, value| single(name, Kind::Counter, help, value);
        let mut all = vec![
            total("peer_connections_total", "Control connections accepted.", stats.accepted),
            total(
                "peer_connections_refused_total",
                "Control connections refused because of the limits.",
                stats.full,
            ),
            total(
                "peer_connections_unproven_total",
                "Control connections that ended without the proof of a token.",
                stats.unproven,
            ),
            single(
                "peer_connections_half_open",
                Kind::Gauge,
                "Control connections before the proof of a token.",
                stats.half_open as u64,
            ),
        ];
        all.extend(self.ledger.metrics(metric));
        all
    }
}

/// What is served to copies: the directories under their names over HTTP, and the disks of the station.
fn roots(directories: &[ServedDirectory], disks: &[PathBuf]) -> Vec<CopyRoot> {
    let named = directories.iter().map(|of| CopyRoot {
        name: Path::new("/").join(&of.name),
        directory: of.directory.clone(),
        is_writable: of.is_writable,
        is_disk: false,
    });
    let disks = disks.iter().enumerate().map(|(at, disk)| CopyRoot {
        name: Path::new("/").join(DISKS).join((at + 1).to_string()),
        directory: disk.clone(),
        is_writable: false,
        is_disk: true,
    });
    named.chain(disks).collect()
}

/// What a client may ask for.
fn services(
    client: &PeerClient,
    copies: &CopyService,
    ledger: &Arc<PeerLedger>,
) -> io::Result<Vec<Box<dyn Service>>> {
    let invalid =
        |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", client.name));
    let mut all: Vec<Box<dyn Service>> = Vec::new();
    let mut add = |service: Box<dyn Service>, kind, yields| {
        let account = ledger.account(&client.name, (kind, service.name()));
        all.push(Box::new(CountedService::new(service, account, yields)));
    };
    if !client.scopes.is_empty() {
        let grants = Grants::of_scopes(&client.scopes).map_err(invalid)?;
        add(Box::new(copies.for_rights(Arc::new(PeerRights::new(grants)))), ServiceKind::Copy, false);
    }
    if client.probe != ProbeRight::Never {
        let yields = client.probe == ProbeRight::Idle;
        add(Box::new(UdpService::new()?), ServiceKind::Probe, yields);
        add(Box::<TcpService>::default(), ServiceKind::Probe, yields);
        // It reads settings, and sends nothing.
        add(Box::new(HostService), ServiceKind::Probe, false);
    }
    Ok(all)
}

/// Checks that the name of a directory over HTTP is not one that copies have for something else.
///
/// # Errors
/// It is.
pub fn check_peer_directory(name: &str) -> Result<(), String> {
    if name != DISKS {
        return Ok(());
    }
    let hint =
        Hint(format_args!("copies find the scans of /{RECORDINGS} below /{DISKS}; choose another name"));
    Err(format!("a directory of [http] is named {DISKS}{hint}"))
}
