//! One account of the requests that this server has answered. The log and `/metrics` are both made from it.
//!
//! ```text
//!   request ─▶ RequestEntry: who, status, copy; bytes as they pass ─▶ dropped, when the reply and the copy are over ─▶ sums, one line
//! ```
//!
//! An entry is shared by the request, the body of its reply and the copy that it began; the last of them that ends closes the account, however that
//! happens: also when the client goes away, or the server stops. Sent bytes are those that the connection has taken: what the kernel had not sent
//! when a client went away is among them.

use super::access_log::{AccessLog, AccessLogOptions};
use super::log_line::{LoggedCopy, LoggedRequest, LoggedUser, TransferJob};
use crate::scitags::SciTag;
use axum::http::Method;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use skyhaul::metrics::{Kind, Metric};
use skyhaul_core::measure::Histogram;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Names of methods in metrics. Others are one, so that clients cannot make new ones.
const METHODS: [&str; 10] =
    ["OPTIONS", "HEAD", "GET", "PUT", "DELETE", "PROPFIND", "MKCOL", "MOVE", "COPY", "other"];
/// Classes of status; the last: the client went away before there was one.
const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "none"];
/// Bounds of durations in nanoseconds: 1 ms to 70 min, each four times the one before.
const DURATION_BOUNDS: [u64; 12] = [
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
    1 << 28,
    1 << 30,
    1 << 32,
    1 << 34,
    1 << 36,
    1 << 38,
    1 << 40,
    1 << 42,
];
/// How long the end of a server waits for entries that are still open.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSE_INTERVAL: Duration = Duration::from_millis(5);

/// Which way a copy with another server goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyWay {
    /// From the other server.
    Pull,
    /// To it.
    Push,
}

impl CopyWay {
    const ALL: [Self; 2] = [Self::Pull, Self::Push];

    fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

/// How a copy with another server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyEnd {
    Done,
    Failed,
    /// Too little moved for too long.
    Stalled,
    /// The client closed its connection, or the server stopped.
    Cancelled,
    /// It was refused before it began.
    Refused,
}

impl CopyEnd {
    const ALL: [Self; 5] = [Self::Done, Self::Failed, Self::Stalled, Self::Cancelled, Self::Refused];

    fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stalled => "stalled",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }
}

/// The account of a server.
pub(super) struct AccessLedger {
    sums: Mutex<Sums>,
    /// Bytes of bodies, as they pass.
    received: AtomicU64,
    sent: AtomicU64,
    /// Bytes of copies, as they pass: pulled, pushed.
    moved: [AtomicU64; 2],
    copies: AtomicU64,
    log: Option<AccessLog>,
}

#[derive(Clone, Default)]
struct Sums {
    methods: [MethodSums; METHODS.len()],
    copies: [CopySums; 2],
}

#[derive(Clone, Default)]
struct MethodSums {
    /// Requests that are not over.
    open: u64,
    classes: [u64; CLASSES.len()],
    nanoseconds: Histogram,
}

#[derive(Clone, Copy, Default)]
struct CopySums {
    open: u64,
    ends: [u64; CopyEnd::ALL.len()],
}

/// A request in the account. It is closed when this is dropped.
pub(super) struct RequestEntry {
    ledger: Arc<AccessLedger>,
    time: SystemTime,
    begun: Instant,
    peer: SocketAddr,
    method: Method,
    path: String,
    user: OnceLock<LoggedUser>,
    tag: OnceLock<SciTag>,
    other: OnceLock<(&'static str, String)>,
    copy: OnceLock<CopyNote>,
    /// 0: none yet.
    status: AtomicU16,
    received: AtomicU64,
    sent: AtomicU64,
    is_complete: AtomicBool,
    /// The client went away before all of its body had come.
    is_broken: AtomicBool,
}

/// A copy with another server.
struct CopyNote {
    id: u64,
    way: CopyWay,
    host: String,
    job: Option<TransferJob>,
    bytes: AtomicU64,
    has_begun: AtomicBool,
    end: OnceLock<CopyEnd>,
}

impl AccessLedger {
    /// An empty account; its lines go to this log.
    pub(super) fn open(log: Option<&AccessLogOptions>) -> io::Result<Arc<Self>> {
        let log = log.map(AccessLog::start).transpose()?;
        let (sums, received, sent, moved, copies) = Default::default();
        Ok(Arc::new(Self { sums, received, sent, moved, copies, log }))
    }

    /// Enters a request; `path` is without its query.
    pub(super) fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        method: &Method,
        path: &str,
    ) -> Arc<RequestEntry> {
        lock(&self.sums).methods[method_number(method)].open += 1;
        Arc::new(RequestEntry {
            ledger: Arc::clone(self),
            time: SystemTime::now(),
            begun: Instant::now(),
            peer,
            method: method.clone(),
            path: path.to_owned(),
            user: OnceLock::new(),
            tag: OnceLock::new(),
            other: OnceLock::new(),
            copy: OnceLock::new(),
            status: AtomicU16::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            is_complete: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Adds a line of something that is no request.
    pub(super) fn push(&self, line: String) {
        if let Some(log) = &self.log {
            log.push(line);
        }
    }

    /// Closes the log, after a moment for entries of tasks that end now. What comes later is only counted.
    pub(super) fn close(&self) {
        let open = || lock(&self.sums).methods.iter().map(|of| of.open).sum::<u64>();
        let begun = Instant::now();
        while open() > 0 && begun.elapsed() < CLOSE_TIMEOUT {
            std::thread::sleep(CLOSE_INTERVAL);
        }
        if let Some(log) = &self.log {
            let left = open();
            if left > 0 {
                say!(
                    "the access log lacks {left} requests that have not ended within {} s",
                    CLOSE_TIMEOUT.as_secs()
                );
            }
            log.close();
        }
    }

    /// The account for `/metrics`; `metric` gives names their prefix.
    pub(super) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        let sums = lock(&self.sums).clone();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut requests =
            metric("requests_total", Kind::Counter, "Requests that are over, by method and class of status.");
        let mut open = metric("requests_in_progress", Kind::Gauge, "Requests that are not over, by method.");
        let mut seconds = metric(
            "request_duration_seconds",
            Kind::Histogram,
            "Time from the head of a request to the end of its reply, or of the copy that it began.",
        );
        for (method, of) in METHODS.iter().zip(&sums.methods) {
            open.add(&[("method", method)], of.open);
            for (class, n) in CLASSES.iter().zip(of.classes).filter(|(_, n)| *n > 0) {
                requests.add(&[("method", method), ("code", class)], n);
            }
            if of.nanoseconds.count() > 0 {
                seconds.add_histogram(&[("method", method)], &of.nanoseconds, (&DURATION_BOUNDS, 1e9));
            }
        }
        let mut bytes = metric("body_bytes_total", Kind::Counter, "Bytes of bodies of requests and replies.");
        bytes.add(&[("direction", &"received")], count(&self.received));
        bytes.add(&[("direction", &"sent")], count(&self.sent));
        let mut running =
            metric("copies_in_progress", Kind::Gauge, "Copies with other servers that are not over.");
        let mut copies = metric(
            "copies_total",
            Kind::Counter,
            "Copies with other servers that are over, by their result.",
        );
        let mut moved = metric(
            "copied_bytes_total",
            Kind::Counter,
            "Bytes from and to other servers, repeated ones included.",
        );
        for ((way, of), bytes) in CopyWay::ALL.into_iter().zip(sums.copies).zip(&self.moved) {
            let label: (&str, &dyn std::fmt::Display) = ("direction", &way.name());
            running.add(&[label], of.open);
            moved.add(&[label], count(bytes));
            for (end, n) in CopyEnd::ALL.into_iter().zip(of.ends) {
                copies.add(&[label, ("result", &end.name())], n);
            }
        }
        let mut all = vec![requests, open, seconds, bytes, running, copies, moved];
        all.extend(self.log.iter().flat_map(|log| log.metrics(metric)));
        all
    }
}

fn method_number(method: &Method) -> usize {
    METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1)
}

fn class(status: u16) -> usize {
    match status {
        200..300 => 0,
        300..400 => 1,
        400..500 => 2,
        500.. => 3,
        _ => 4,
    }
}

impl RequestEntry {
    /// Notes who asks.
    pub(super) fn set_user(&self, user: LoggedUser) {
        let _ = self.user.set(user);
    }

    /// Notes whose traffic it is.
    pub(super) fn set_tag(&self, tag: SciTag) {
        let _ = self.tag.set(tag);
    }

    /// Notes the path that the header `name` of MOVE or COPY has, on this server.
    pub(super) fn set_other(&self, name: &'static str, path: String) {
        let _ = self.other.set((name, path));
    }

    /// Notes that it is for a copy with another server, which `host` names.
    pub(super) fn set_copy(&self, way: CopyWay, host: String, job: Option<TransferJob>) {
        let id = self.ledger.copies.fetch_add(1, Ordering::Relaxed) + 1;
        let (bytes, has_begun, end) = Default::default();
        if self.copy.set(CopyNote { id, way, host, job, bytes, has_begun, end }).is_ok() {
            lock(&self.ledger.sums).copies[way as usize].open += 1;
        }
    }

    /// Notes that the copy has begun: it is no longer refused.
    pub(super) fn begin_copy(&self) {
        if let Some(copy) = self.copy.get() {
            copy.has_begun.store(true, Ordering::Relaxed);
        }
    }

    /// Whose traffic it is, if that was said.
    pub(super) fn tag(&self) -> Option<SciTag> {
        self.tag.get().copied()
    }

    /// Notes how many bytes the copy has moved up to now.
    pub(super) fn set_copied(&self, bytes: u64) {
        if let Some(copy) = self.copy.get() {
            let before = copy.bytes.fetch_max(bytes, Ordering::Relaxed);
            self.ledger.moved[copy.way as usize].fetch_add(bytes.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Notes how the copy ended.
    pub(super) fn end_copy(&self, end: CopyEnd) {
        if let Some(copy) = self.copy.get() {
            let _ = copy.end.set(end);
        }
    }

    /// Notes the status of the reply.
    pub(super) fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// Whether the reply to it has no body, whatever its head says.
    pub(super) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Notes bytes of its body.
    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.ledger.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes bytes of the reply's body.
    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.ledger.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes that its body broke off.
    pub(super) fn break_off(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Notes that the connection has taken all of the reply.
    pub(super) fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// What the log says of it.
    fn line(&self, status: u16, nanoseconds: u64) -> String {
        let line = LoggedRequest {
            unix_nanoseconds: self.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128,
            peer: self.peer,
            user: self.user.get(),
            method: self.method.as_str(),
            path: &self.path,
            other: self.other.get().map(|(name, path)| (*name, path.as_str())),
            status: (status > 0).then_some(status),
            received_bytes: self.received.load(Ordering::Relaxed),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            nanoseconds,
            is_complete: self.is_complete.load(Ordering::Relaxed) && !self.is_broken.load(Ordering::Relaxed),
            tag: self.tag(),
            copy: self.copy.get().map(|copy| LoggedCopy {
                id: copy.id,
                direction: copy.way.name(),
                host: &copy.host,
                result: copy.end().name(),
                bytes: copy.bytes.load(Ordering::Relaxed),
                job: copy.job.as_ref(),
            }),
        };
        line.text()
    }
}

impl CopyNote {
    fn end(&self) -> CopyEnd {
        let unsaid =
            if self.has_begun.load(Ordering::Relaxed) { CopyEnd::Cancelled } else { CopyEnd::Refused };
        self.end.get().copied().unwrap_or(unsaid)
    }
}

impl Drop for RequestEntry {
    /// The line goes first: once no request is open, the log is closed.
    fn drop(&mut self) {
        let nanoseconds = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let status = self.status.load(Ordering::Relaxed);
        let copy = self.copy.get();
        if let Some(log) = &self.ledger.log {
            log.push(self.line(status, nanoseconds));
        }
        let mut sums = lock(&self.ledger.sums);
        let of = &mut sums.methods[method_number(&self.method)];
        of.open -= 1;
        of.classes[class(status)] += 1;
        of.nanoseconds.record(nanoseconds);
        if let Some(copy) = copy {
            let of = &mut sums.copies[copy.way as usize];
            of.open -= 1;
            of.ends[copy.end() as usize] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::line_log::Retention;
    use std::sync::Barrier;

    /// A request may be over in another thread just when the server ends.
    #[test]
    fn the_log_is_closed_behind_the_last_request_that_is_over() {
        let directory = tempfile::tempdir().unwrap();
        for n in 0..500 {
            let file = directory.path().join(n.to_string());
            let keep = Retention { bytes: 1 << 20, files: 1, age: None };
            let ledger = AccessLedger::open(Some(&AccessLogOptions { file: file.clone(), keep })).unwrap();
            let entry = ledger.enter(SocketAddr::from(([127, 0, 0, 1], 1)), &Method::PUT, "/exp/last");
            let both = Barrier::new(2);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    both.wait();
                    drop(entry);
                });
                both.wait();
                ledger.close();
            });
            assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 1, "try {n}");
        }
    }
}
