//! One account of the sessions of each client: status, metrics, and the logs of the station and of its files are made from it.

use crate::webdav::AccessLines;
use crate::webdav::log_line::LoggedSession;
use serde_json::{Value, json};
use skyhaul::io::lock::lock;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::peer::{RequestSubject, SessionTally};
use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
        Self { signs, lines: Arc::default(), accounts: Mutex::default() }
    }

    /// Sessions are lines of this log, too, from now on.
    pub(super) fn log_to(&self, lines: AccessLines) {
        let _ = self.lines.set(lines);
    }

    /// Sessions that have not ended.
    pub(super) fn running(&self) -> u64 {
        lock(&self.accounts).iter().map(|account| lock(&account.counts).running).sum()
    }

    /// The account of a client; the same for all services of a kind.
    pub(super) fn account(&self, client: &str, kind: ServiceKind) -> Arc<SessionAccount> {
        let mut accounts = lock(&self.accounts);
        let found = accounts.iter().find(|one| one.client == client && one.kind == kind);
        if let Some(account) = found {
            return Arc::clone(account);
        }
        let account = Arc::new(SessionAccount {
            client: client.to_owned(),
            kind,
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

    pub(super) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> [Metric; 2] {
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
        [running, over]
    }
}

impl SessionAccount {
    /// Whether something is recorded now.
    pub(super) fn is_recording(&self) -> bool {
        self.signs.recording.load(Ordering::Relaxed)
    }

    /// Notes that a request was refused.
    pub(super) fn refused(&self, request: &PeerRequest) {
        lock(&self.counts).refused += 1;
        let (begun, bytes) = (SystemTime::now(), (0, 0));
        self.log_line(request, "refused", (begun, Duration::ZERO), bytes);
    }

    /// A session begins, until what is returned is dropped.
    pub(super) fn begin<'a>(&'a self, request: PeerRequest, tally: &'a SessionTally) -> RunningSession<'a> {
        lock(&self.counts).running += 1;
        let (time, begun, end) = (SystemTime::now(), Instant::now(), SessionEnd::Failed);
        RunningSession { account: self, request, tally, time, begun, end }
    }

    fn log_line(
        &self,
        request: &PeerRequest,
        result: &str,
        (time, took): (SystemTime, Duration),
        (received_bytes, sent_bytes): (u64, u64),
    ) {
        let Some(lines) = self.lines.get() else { return };
        let line = LoggedSession {
            unix_nanoseconds: time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128,
            peer: request.from,
            client: &self.client,
            service: request.service,
            is_upload: request.subject.is_upload,
            paths: &request.subject.paths,
            result,
            received_bytes,
            sent_bytes,
            nanoseconds: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        };
        lines.push(line.text());
    }
}

/// A session that runs. It has failed unless it has ended otherwise.
pub(super) struct RunningSession<'a> {
    account: &'a SessionAccount,
    request: PeerRequest,
    tally: &'a SessionTally,
    time: SystemTime,
    begun: Instant,
    pub(super) end: SessionEnd,
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
        let bytes = (self.tally.received_bytes(), self.tally.sent_bytes());
        account.log_line(&self.request, result, (self.time, took), bytes);
        let (kind, from, seconds) = (account.kind.name(), self.request.from.ip(), took.as_secs_f64());
        let text = format!("{kind} with {from}: {outcome}, {seconds:.1} s");
        (account.signs.log)(level, &account.client, &text);
        let mut counts = lock(&account.counts);
        counts.running -= 1;
        counts.add(self.end);
    }
}
