//! The other end: a server that tells what it read of itself, to whoever knows the token, and the client that asks.

use super::check::HostView;
use super::facts::{Facts, VERSION};
use super::found::CheckVerdict;
use super::gather::{GatherOptions, ThisHost, gather};
use super::report::HostReport;
use super::report::{CheckChange, SnapshotDiff};
use super::target::{HostRole, HostTarget};
use serde::{Deserialize, Serialize};
use skyhaul::peer::{Admission, Limits, PeerError, Service, Session, Token, connect};
use skyhaul_core::placement::Nanos;
use skyhaul_io::host::tree::Tree;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The name of the service.
const NAME: &str = "host";
/// How long a server may take to read itself.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a round trip is measured; the shortest counts.
const RTT_TRIES: usize = 3;

/// What a client asks for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostRequest {
    /// The interface; without one, that of the way to the client.
    interface: Option<String>,
}

/// What a server answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HostReply {
    Facts(Box<Facts>),
    Failed(String),
}

/// Tells clients what was read of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostService;

impl Service for HostService {
    fn name(&self) -> &'static str {
        NAME
    }

    fn admit(&self, body: &serde_json::Value, _limits: &Limits) -> Result<Admission, String> {
        let question: Result<HostRequest, _> = serde_json::from_value(body.clone());
        question.map(|_| Admission::aside(READ_TIMEOUT)).map_err(|error| error.to_string())
    }

    fn run(&self, session: &mut Session<'_>, body: serde_json::Value) -> Result<(), PeerError> {
        let question: HostRequest = serde_json::from_value(body).unwrap_or_default();
        let peer = Some(session.connection.peer().ip());
        let asked = GatherOptions { interface: question.interface, peer, data: Vec::new() };
        let told = match gather(&Tree::new("/"), &ThisHost, &asked) {
            Ok(facts) => HostReply::Facts(Box::new(facts)),
            Err(error) => HostReply::Failed(error.to_string()),
        };
        session.connection.send(&told)
    }
}

/// Ask the server at one of these addresses, which are those of one host, what was read of it.
///
/// # Errors
/// None can be reached, or it refuses; it is of another version.
pub fn ask(at: &[SocketAddr], token: &Token) -> Result<Facts, PeerError> {
    let mut last = Err(PeerError::Stopped);
    for to in at {
        match connect(*to, token, Duration::from_secs(10)) {
            Ok(mut connection) => {
                connection.ask(NAME, &HostRequest::default(), &mut |_| true)?;
                return match connection.receive::<HostReply>(READ_TIMEOUT)? {
                    HostReply::Facts(facts) if facts.version == VERSION => Ok(*facts),
                    HostReply::Facts(facts) => {
                        Err(connection.unexpected(&format!("facts of version {}", facts.version)))
                    }
                    HostReply::Failed(why) => Err(PeerError::Refused { peer: connection.peer(), why }),
                };
            }
            Err(error) => last = Err(error),
        }
    }
    last
}

/// Note the addresses of the peer, and how far it is by each family; returns the shortest round trip in nanoseconds.
pub fn note_peer(at: &[SocketAddr], facts: &mut Facts) -> Option<u64> {
    let mut least = None;
    for to in at {
        let family = if to.is_ipv4() { "v4" } else { "v6" };
        let name = format!("peer/{family}");
        if facts.text(&name).is_some() {
            continue;
        }
        facts.note(&name, to.ip());
        if let Some(nanos) = round_trip(*to) {
            facts.note(format!("{name}/rtt_us"), nanos / 1000);
            least = Some(least.map_or(nanos, |least: u64| least.min(nanos)));
        }
    }
    least
}

/// The shortest time in which a connection was answered.
fn round_trip(to: SocketAddr) -> Option<u64> {
    let one = |_| {
        let begun = Instant::now();
        let connected = TcpStream::connect_timeout(&to, Duration::from_secs(3));
        let took = begun.elapsed();
        connected.ok().map(|_| Nanos::from(took).0)
    };
    // One that hangs is not tried again.
    let first = one(0)?;
    (1..RTT_TRIES).filter_map(one).chain([first]).min()
}

/// Both ends of a path, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BothEnds {
    /// This host.
    pub here: HostReport,
    /// The other, for the same rate and distance, with the role that answers this one's.
    pub there: HostReport,
    /// Checks of which the two ends say different things.
    pub differs: Vec<CheckChange>,
}

impl BothEnds {
    /// Judge both.
    #[must_use]
    pub fn new(here: &Facts, there: &Facts, target: &HostTarget, only: &[String]) -> Self {
        let role = match target.role {
            HostRole::Send => HostRole::Receive,
            HostRole::Receive | HostRole::Record => HostRole::Send,
            same => same,
        };
        let mirrored = HostTarget { role, ..target.clone() };
        let judged = |facts, peer, target| {
            HostReport::new(&HostView { facts, before: None, peer: Some(peer), target }, only)
        };
        let mut differs = SnapshotDiff::new(here, there, target, only).checks;
        // What means nothing at one end is no difference.
        let known = |verdict| !matches!(verdict, CheckVerdict::NotApplicable | CheckVerdict::Unknown);
        differs.retain(|check| known(check.a.0) && known(check.b.0));
        Self { here: judged(here, there, target), there: judged(there, here, &mirrored), differs }
    }
}
