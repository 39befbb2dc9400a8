//! One account of the sessions of each client: status, metrics, and the logs of the station and of its files are made from it.

use crate::notes::NoteLimit;
use crate::webdav::AccessLines;
use crate::webdav::log_line::LoggedSession;
use serde_json::{Value, json};
use skyhaul::io::lock::lock;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::peer::{PeerRefusal, RequestSubject, SessionTally};
use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Refusals that are lines of the access log in a time, and that time.
const LOGGED_REFUSALS: u64 = 100;
const REFUSALS_INTERVAL: Duration = Duration::from_secs(10);

/// Takes entries of a log: level, client, text.
type EventLog = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// What sessions see and say of the station.
#[derive(Clone)]
pub(crate) struct StationSigns {
    /// Set while something is recorded.
    pub(crate) recording: Arc<AtomicBool>,
    pub(crate) log: EventLog,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceKind {
    Copy,
    Probe,
}

impl ServiceKind {
    fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Probe => "probe",
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    Done,
    Failed,
    /// A recording began.
    Yielded,
}

#[derive(Clone, Copy, Debug, Default)]
struct SessionCounts {
    running: u64,
    done: u64,
    failed: u64,
    yielded: u64,
    refused: u64,
}

impl SessionCounts {
    fn add(&mut self, end: SessionEnd) {
        match end {
            SessionEnd::Done => self.done += 1,
            SessionEnd::Failed => self.failed += 1,
            SessionEnd::Yielded => self.yielded += 1,
        }
    }

    /// Those that have ended or were refused.
    fn over(&self) -> [(&'static str, u64); 4] {
        [("done", self.done), ("failed", self.failed), ("yielded", self.yielded), ("refused", self.refused)]
    }
}

/// All accounts. They are made at the start.
pub(super) struct PeerLedger {
    signs: StationSigns,
    /// The access log of the files over HTTP, once they are served with one.
    lines: Arc<OnceLock<AccessLines>>,
    accounts: Mutex<Vec<Arc<SessionAccount>>>,
    refusal_lines: NoteLimit,
    refusals: AtomicU64,
    unlogged_refusals: AtomicU64,
}

impl Debug for PeerLedger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerLedger").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

/// The account of a client for one kind of sessions.
pub(super) struct SessionAccount {
    client: String,
    kind: ServiceKind,
    /// The names of its services.
    services: Mutex<Vec<&'static str>>,
    counts: Mutex<SessionCounts>,
    pub(super) signs: StationSigns,
    lines: Arc<OnceLock<AccessLines>>,
}

/// A request of a client.
pub(super) struct PeerRequest {
    pub(super) from: SocketAddr,
    pub(super) service: &'static str,
    pub(super) subject: RequestSubject,
}

impl Debug for SessionAccount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAccount")
            .field("client", &self.client)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl PeerLedger {
    pub(super) fn new(signs: StationSigns) -> Self {
        Self {
            signs,
            lines: Arc::default(),
            accounts: Mutex::default(),
            refusal_lines: NoteLimit::new(LOGGED_REFUSALS, REFUSALS_INTERVAL),
            refusals: AtomicU64::new(0),
            unlogged_refusals: AtomicU64::new(0),
        }
    }

    /// Sessions are lines of this log, too, from now on.
    pub(super) fn log_to(&self, lines: AccessLines) {
        let _ = self.lines.set(lines);
    }

    /// Sessions that have not ended.
    pub(super) fn running(&self) -> u64 {
        lock(&self.accounts).iter().map(|account| lock(&account.counts).running).sum()
    }

    /// The account of a client for a service; the same for all services of a kind.
    pub(super) fn account(
        &self,
        client: &str,
        (kind, service): (ServiceKind, &'static str),
    ) -> Arc<SessionAccount> {
        let mut accounts = lock(&self.accounts);
        let found = accounts.iter().find(|one| one.client == client && one.kind == kind);
        if let Some(account) = found {
            lock(&account.services).push(service);
            return Arc::clone(account);
        }
        let account = Arc::new(SessionAccount {
            client: client.to_owned(),
            kind,
            services: Mutex::new(vec![service]),
            counts: Mutex::default(),
            signs: self.signs.clone(),
            lines: Arc::clone(&self.lines),
        });
        accounts.push(Arc::clone(&account));
        account
    }

    /// For the status.
    pub(super) fn json(&self) -> Value {
        let accounts = lock(&self.accounts);
        let of = |account: &Arc<SessionAccount>| {
            let counts = *lock(&account.counts);
            let mut json = json!({
                "client": account.client,
                "service": account.kind.name(),
                "running": counts.running,
            });
            counts.over().iter().for_each(|(outcome, count)| json[*outcome] = (*count).into());
            json
        };
        accounts.iter().map(of).collect()
    }

    /// Notes what the server refused; `clients` are the names of those who hold its tokens, in order.
    pub(super) fn refuse(&self, clients: &[String], refusal: &PeerRefusal<'_>) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let client = refusal.held.and_then(|held| clients.get(held)).map(String::as_str);
        let is_of = |account: &&Arc<SessionAccount>| {
            let serves = |service| lock(&account.services).contains(&service);
            Some(account.client.as_str()) == client && refusal.service.is_some_and(serves)
        };
        // What a client has no right to is in none of its accounts.
        if let Some(account) = lock(&self.accounts).iter().find(is_of) {
            lock(&account.counts).refused += 1;
        }
        let Some(left_out) = self.refusal_lines.admit() else {
            self.unlogged_refusals.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.log_refusal(&LoggedSession {
            peer: Some(refusal.from),
            client,
            service: refusal.service,
            is_upload: refusal.subject.is_upload,
            paths: &refusal.subject.paths,
            reason: Some(refusal.reason),
            ..refusals_left_out(left_out)
        });
    }

    /// The server has ended: refusals that are no lines are counted in a last one.
    pub(super) fn close(&self) {
        let left_out = self.refusal_lines.take_left_out();
        if left_out > 0 {
            self.log_refusal(&refusals_left_out(left_out));
        }
    }

    fn log_refusal(&self, line: &LoggedSession<'_>) {
        if let Some(lines) = self.lines.get() {
            lines.push(line.text());
        }
    }

    pub(super) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> [Metric; 4] {
        let mut running =
            metric("peer_sessions", Kind::Gauge, "Copies and measurements of other hosts that run.");
        let mut over = metric(
            "peer_sessions_total",
            Kind::Counter,
            "Copies and measurements of other hosts, by outcome.",
        );
        for account in lock(&self.accounts).iter() {
            let (counts, service) = (*lock(&account.counts), account.kind.name());
            running.add(&[("client", &account.client), ("service", &service)], counts.running);
            for (outcome, count) in counts.over() {
                let labels: [(&str, &dyn fmt::Display); 3] =
                    [("client", &account.client), ("service", &service), ("outcome", &outcome)];
                over.add(&labels, count);
            }
        }
        let total = |name: &str, help: &str, count: &AtomicU64| {
            let mut metric = metric(name, Kind::Counter, help);
            metric.add(&[], count.load(Ordering::Relaxed));
            metric
        };
        let refused = total(
            "peer_refusals_total",
            "Control connections and requests of other hosts that were refused.",
            &self.refusals,
        );
        let unlogged = total(
            "peer_refusals_unlogged_total",
            "Those that are no line of the access log, because there were too many.",
            &self.unlogged_refusals,
        );
        [running, over, refused, unlogged]
    }
}

impl SessionAccount {
    /// Whether something is recorded now.
    pub(super) fn is_recording(&self) -> bool {
        self.signs.recording.load(Ordering::Relaxed)
    }

    /// A session begins, until what is returned is dropped.
    pub(super) fn begin<'a>(&'a self, request: PeerRequest, tally: &'a SessionTally) -> RunningSession<'a> {
        lock(&self.counts).running += 1;
        let (time, begun, end) = (now(), Instant::now(), SessionEnd::Failed);
        RunningSession { account: self, request, tally, time, begun, end, reason: None }
    }
}

/// The line for refusals that are no lines of their own.
fn refusals_left_out(left_out: u64) -> LoggedSession<'static> {
    LoggedSession {
        unix_nanoseconds: now(),
        peer: None,
        client: None,
        service: None,
        is_upload: None,
        paths: &[],
        result: "refused",
        reason: None,
        left_out,
        received_bytes: 0,
        sent_bytes: 0,
        nanoseconds: 0,
    }
}

/// Nanoseconds since 1970.
fn now() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128
}

/// A session that runs. It has failed unless it has ended otherwise.
pub(super) struct RunningSession<'a> {
    account: &'a SessionAccount,
    request: PeerRequest,
    tally: &'a SessionTally,
    /// When it began, in nanoseconds since 1970.
    time: i128,
    begun: Instant,
    pub(super) end: SessionEnd,
    /// Why it failed.
    pub(super) reason: Option<String>,
}

impl RunningSession<'_> {
    fn log_line(&self, result: &str, took: Duration) {
        let Some(lines) = self.account.lines.get() else { return };
        let line = LoggedSession {
            unix_nanoseconds: self.time,
            peer: Some(self.request.from),
            client: Some(&self.account.client),
            service: Some(self.request.service),
            is_upload: self.request.subject.is_upload,
            paths: &self.request.subject.paths,
            result,
            reason: self.reason.as_deref(),
            left_out: 0,
            received_bytes: self.tally.received_bytes(),
            sent_bytes: self.tally.sent_bytes(),
            nanoseconds: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        };
        lines.push(line.text());
    }
}

impl Drop for RunningSession<'_> {
    /// The lines go first: once no session runs, the logs are closed.
    fn drop(&mut self) {
        let (level, result, outcome) = match self.end {
            SessionEnd::Done => ("info", "done", "done"),
            SessionEnd::Failed => ("warning", "failed", "failed"),
            SessionEnd::Yielded => ("info", "yielded", "ended, because a recording began"),
        };
        let (account, took) = (self.account, self.begun.elapsed());
        self.log_line(result, took);
        let (kind, from, seconds) = (account.kind.name(), self.request.from.ip(), took.as_secs_f64());
        let text = format!("{kind} with {from}: {outcome}, {seconds:.1} s");
        (account.signs.log)(level, &account.client, &text);
        let mut counts = lock(&account.counts);
        counts.running -= 1;
        counts.add(self.end);
    }
}
