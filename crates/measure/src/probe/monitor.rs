//! Tests that are repeated for weeks: each result a line of JSON in a file that is rotated, and counters for Prometheus.
//!
//! ```text
//!   Schedule ── due ─▶ Test ── UdpClient, TcpClient ─▶ Line ─┬─▶ Journal: monitor.jsonl, .1, .2, …
//!     (core)    one at a time     a peer away: a line, too    └─▶ Totals ─▶ metrics (a file, HTTP)
//! ```
//!
//! It ends when its time is over or it is stopped: a peer that is away, refuses or breaks off is a line and a counter;
//! a disk that is full costs lines once more than [`MAX_WAITING_LINES`](skyhaul::line_log::MAX_WAITING_LINES) wait for room, and they are counted.
//!
//! Limits: one test at a time, since two would disturb each other; a peer that does not answer takes 10 s, and what was to
//! run then waits or counts as missed. Memory does not grow: of each test, sums and the last result are kept.

mod test;

pub use skyhaul::line_log::Retention;
pub use test::{
    MonitorRecord, MonitorTest, TcpResult, TcpResultSample, TestKind, TestOutcome, TestSpec, UdpResult,
};

use serde::Serialize;
use skyhaul::line_log::{LineLog, LineLogCounts, LineLogOptions};
use skyhaul::metrics::{Kind as Is, Metric};
use skyhaul::peer::Token;
use skyhaul::time::format_exact;
use skyhaul_core::placement::Nanos;
use skyhaul_core::schedule::{Due, Schedule};
use skyhaul_io::file::replace;
use skyhaul_io::lock::lock;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often waiting looks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Resolves a server as the user wrote it, or says why that failed.
pub type ResolveServer = dyn Fn(&str) -> Result<Vec<SocketAddr>, String>;

/// Settings of a monitor.
pub struct MonitorOptions {
    /// What is repeated.
    pub tests: Vec<MonitorTest>,
    /// The token of all servers.
    pub token: Token,
    /// File of lines.
    pub lines: PathBuf,
    /// How many of them are kept.
    pub keep: Retention,
    /// File of metrics; it is replaced as a whole.
    pub metrics: Option<PathBuf>,
    /// Spreads the tests within their jitter.
    pub seed: u64,
    /// How the addresses of a server are found, each time anew.
    pub find: Box<ResolveServer>,
}

/// What happened.
pub enum MonitorEvent<'a> {
    /// A test ran.
    Ran(&'a MonitorRecord),
    /// The disk takes no lines, or no metrics; reported once, until it does again.
    Full(&'a io::Error),
    /// It takes them again.
    Room,
}

/// What a monitor did.
#[derive(Clone, Debug, Serialize)]
pub struct MonitorReport {
    /// Seconds that it ran.
    pub seconds: f64,
    /// All that it counted.
    #[serde(flatten)]
    pub totals: MonitorTotals,
}

/// A monitor at work.
pub struct Monitor {
    options: MonitorOptions,
    schedule: Schedule,
    journal: LineLog,
    totals: MonitorTotals,
    text: Arc<Mutex<String>>,
    begun: Instant,
    /// Whether it was reported that the disk takes no lines, and no metrics.
    full: [bool; 2],
}

impl Monitor {
    /// Open its file; the first slots begin now.
    ///
    /// # Errors
    /// The file cannot be opened, or another monitor writes it; or the file of metrics cannot be written.
    pub fn new(options: MonitorOptions) -> io::Result<Self> {
        let journal = LineLog::open(
            &options.lines,
            LineLogOptions {
                keep: options.keep,
                is_durable: true,
                mode: 0o666,
                remedy: "give another file with --lines",
            },
        )?;
        let periods: Vec<_> = options.tests.iter().map(|test| test.period).collect();
        let schedule = Schedule::new(&periods, Nanos(0), options.seed);
        let totals = MonitorTotals { lines: journal.counts(), ..MonitorTotals::new(&options.tests) };
        let text = Arc::new(Mutex::new(totals.metrics()));
        if let Some(path) = &options.metrics {
            replace(path, totals.metrics())?;
        }
        Ok(Self { options, schedule, journal, totals, text, begun: Instant::now(), full: [false; 2] })
    }

    /// Bytes at the end of the file that a kill had left of a line; they were removed.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        self.journal.counts().cut_bytes
    }

    /// Its latest metrics, to be served.
    pub fn metrics(&self) -> impl Fn() -> String + Clone + Send + Sync + 'static {
        let text = self.text.clone();
        move || lock(&text).clone()
    }

    /// Run until `stop` is set, or for a time.
    pub fn run(&mut self, stop: &AtomicBool, time: Option<Duration>, told: &mut dyn FnMut(MonitorEvent<'_>)) {
        let over =
            |begun: Instant| stop.load(Ordering::Relaxed) || time.is_some_and(|time| begun.elapsed() >= time);
        while !over(self.begun) {
            let now = self.now();
            let Some(due) = self.schedule.poll(now) else {
                let next = self
                    .schedule
                    .poll_timeout()
                    .map_or(POLL_INTERVAL, |at| Duration::from_nanos(at.0.saturating_sub(now.0)));
                std::thread::sleep(next.min(POLL_INTERVAL));
                continue;
            };
            let line = self.measure(due, stop);
            self.keep(due.test, &line, told);
        }
        let done = self.journal.flush();
        self.noted(0, done, told);
        self.totals.lines = self.journal.counts();
        self.publish(told);
    }

    /// What it did so far.
    #[must_use]
    pub fn report(&self) -> MonitorReport {
        MonitorReport { seconds: self.begun.elapsed().as_secs_f64(), totals: self.totals.clone() }
    }

    fn now(&self) -> Nanos {
        Nanos::from(self.begun.elapsed())
    }

    /// Run a test once.
    fn measure(&self, due: Due, stop: &AtomicBool) -> MonitorRecord {
        let test = &self.options.tests[due.test];
        let (began, unix) =
            (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let late = self.now().0.saturating_sub(due.at.0);
        let mut line = MonitorRecord {
            version: skyhaul::report::VERSION,
            at: format_exact(unix.as_millis() as i128 * 1_000_000),
            unix: unix.as_millis() as f64 / 1e3,
            test: test.name.clone(),
            server: test.server.clone(),
            kind: test.kind(),
            slot: due.slot,
            missed: self.schedule.missed(due.test),
            late_seconds: late as f64 / 1e9,
            seconds: 0.0,
            outcome: TestOutcome::Away,
            why: None,
            udp: Vec::new(),
            tcp: Vec::new(),
        };
        let patience = Duration::from_nanos(test.period.every);
        match (self.options.find)(&test.server) {
            Ok(server) => test.run(&server, &self.options.token, patience, stop, &mut line),
            Err(why) => line.why = Some(why),
        }
        line.seconds = began.elapsed().as_secs_f64();
        line
    }

    /// Count a run, write its line, and tell of it.
    fn keep(&mut self, test: usize, line: &MonitorRecord, told: &mut dyn FnMut(MonitorEvent<'_>)) {
        self.totals.add(test, line);
        for (n, of) in self.totals.tests.iter_mut().enumerate() {
            of.missed = self.schedule.missed(n);
        }
        told(MonitorEvent::Ran(line));
        let written = serde_json::to_string(line).map_err(io::Error::other);
        let done = written.and_then(|text| self.journal.write(&text));
        self.noted(0, done, told);
        self.totals.lines = self.journal.counts();
        self.publish(told);
    }

    fn publish(&mut self, told: &mut dyn FnMut(MonitorEvent<'_>)) {
        if let Some(path) = &self.options.metrics {
            let done = replace(path, self.totals.metrics());
            self.totals.metrics_failures += u64::from(done.is_err());
            self.noted(1, done, told);
        }
        *lock(&self.text) = self.totals.metrics();
    }

    /// Tell when the disk begins or ceases to refuse what it is asked to write.
    fn noted(&mut self, what: usize, done: io::Result<()>, told: &mut dyn FnMut(MonitorEvent<'_>)) {
        let was = std::mem::replace(&mut self.full[what], done.is_err());
        match done {
            Err(error) if !was => told(MonitorEvent::Full(&error)),
            Ok(()) if was => told(MonitorEvent::Room),
            _ => {}
        }
    }
}

/// Name, help, and value of what a line has.
type Gauge<Of, Value> = (&'static str, &'static str, fn(&Of) -> Value);

/// Sums of one test.
#[derive(Clone, Debug, Serialize)]
pub struct TestTotals {
    /// Its name.
    pub test: String,
    /// Its server.
    pub server: String,
    /// What it sends.
    pub kind: TestKind,
    /// Runs by how they ended.
    pub runs: BTreeMap<TestOutcome, u64>,
    /// Slots that were over before it could begin.
    pub missed: u64,
    /// Packets sent, each way.
    pub packets: BTreeMap<String, u64>,
    /// Packets lost.
    pub lost: BTreeMap<String, u64>,
    /// Segments of TCP sent.
    pub segments: BTreeMap<String, u64>,
    /// Segments retransmitted.
    pub retransmits: BTreeMap<String, u64>,
    /// Its last run, without moments.
    pub last: Option<MonitorRecord>,
}

/// What a monitor counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MonitorTotals {
    /// Each test.
    pub tests: Vec<TestTotals>,
    /// Lines of the file.
    pub lines: LineLogCounts,
    /// Times that the file of metrics could not be written.
    pub metrics_failures: u64,
}

impl MonitorTotals {
    fn new(tests: &[MonitorTest]) -> Self {
        let of = |test: &MonitorTest| TestTotals {
            test: test.name.clone(),
            server: test.server.clone(),
            kind: test.kind(),
            runs: TestOutcome::ALL.into_iter().map(|outcome| (outcome, 0)).collect(),
            missed: 0,
            packets: BTreeMap::new(),
            lost: BTreeMap::new(),
            segments: BTreeMap::new(),
            retransmits: BTreeMap::new(),
            last: None,
        };
        Self { tests: tests.iter().map(of).collect(), ..Self::default() }
    }

    /// Count a run.
    fn add(&mut self, test: usize, line: &MonitorRecord) {
        let Some(totals) = self.tests.get_mut(test) else { return };
        *totals.runs.entry(line.outcome).or_default() += 1;
        for way in &line.udp {
            *totals.packets.entry(way.way.clone()).or_default() += way.sent;
            *totals.lost.entry(way.way.clone()).or_default() += way.lost;
        }
        for flow in &line.tcp {
            *totals.segments.entry(flow.way.clone()).or_default() += u64::from(flow.segments);
            *totals.retransmits.entry(flow.way.clone()).or_default() += u64::from(flow.retransmits);
        }
        let mut last = line.clone();
        last.tcp.iter_mut().for_each(|flow| flow.moments = Vec::new());
        totals.last = Some(last);
    }

    /// All of it as Prometheus reads it.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut all = self.of_lines();
        all.extend(self.of_runs());
        all.extend(self.of_udp());
        all.extend(self.of_tcp());
        all.iter().map(Metric::text).collect()
    }

    fn of_lines(&self) -> Vec<Metric> {
        let lines = &self.lines;
        [
            ("lines_written_total", Is::Counter, "Lines of results on the disk.", lines.written),
            ("lines_waiting", Is::Gauge, "Lines of results that wait for room on the disk.", lines.waiting),
            ("lines_lost_total", Is::Counter, "Lines of results that the disk did not take.", lines.lost),
            ("disk_failures_total", Is::Counter, "Times that the disk refused lines.", lines.failures),
            ("rotations_total", Is::Counter, "Files of lines that were full.", lines.rotations),
            (
                "metrics_failures_total",
                Is::Counter,
                "Times that the file of metrics could not be written.",
                self.metrics_failures,
            ),
        ]
        .into_iter()
        .map(|(name, kind, help, value)| {
            let mut metric = named(name, kind, help);
            metric.add(&[], value);
            metric
        })
        .collect()
    }

    fn of_runs(&self) -> Vec<Metric> {
        let mut runs = named("runs_total", Is::Counter, "Tests that ran, by how they ended.");
        let mut missed =
            named("missed_total", Is::Counter, "Tests that were not run, because another took too long.");
        let mut up = named("peer_up", Is::Gauge, "Whether the last test was done.");
        let mut at = named("last_run_timestamp_seconds", Is::Gauge, "When the last test began.");
        let mut took = named("last_run_seconds", Is::Gauge, "How long the last test took, with all waiting.");
        for test in &self.tests {
            let of = labels(test);
            for (outcome, n) in &test.runs {
                runs.add(&[of[0], of[1], of[2], ("outcome", &outcome.name())], n);
            }
            missed.add(&of, test.missed);
            if let Some(last) = &test.last {
                up.add(&of, u8::from(last.outcome == TestOutcome::Done));
                at.add(&of, last.unix);
                took.add(&of, last.seconds);
            }
        }
        vec![runs, missed, up, at, took]
    }

    fn of_udp(&self) -> Vec<Metric> {
        let mut sent = named("packets_sent_total", Is::Counter, "Datagrams that were sent.");
        let mut lost = named("packets_lost_total", Is::Counter, "Datagrams that were lost.");
        self.tests.iter().for_each(|test| each(&mut sent, test, &test.packets));
        self.tests.iter().for_each(|test| each(&mut lost, test, &test.lost));
        let gauges: [Gauge<UdpResult, Option<f64>>; 7] = [
            ("loss_ratio", "Part of the datagrams that was lost.", |way| Some(way.loss_fraction)),
            ("reordered_packets", "Datagrams behind a later one.", |way| Some(way.reordered as f64)),
            ("received_bytes_per_second", "Payload that arrived.", |way| Some(way.bits_per_second / 8.0)),
            ("jitter_seconds", "Interarrival jitter (RFC 3550).", |way| way.jitter_seconds),
            ("round_trip_seconds", "Shortest round trip of datagrams.", |way| way.round_trip_seconds),
            ("delay_seconds", "One-way delay, median.", |way| way.delay_median_seconds),
            ("delay_error_seconds", "The truth is within this of it.", |way| way.delay_error_seconds),
        ];
        let mut all = vec![sent, lost];
        for (name, help, value) in gauges {
            let mut metric = named(&format!("udp_{name}"), Is::Gauge, help);
            for (test, last) in self.lasts() {
                for way in &last.udp {
                    let Some(value) = value(way) else { continue };
                    let of = labels(test);
                    metric.add(&[of[0], of[1], of[2], ("way", &way.way)], value);
                }
            }
            all.push(metric);
        }
        all
    }

    fn of_tcp(&self) -> Vec<Metric> {
        let mut sent = named("segments_sent_total", Is::Counter, "Segments of TCP that were sent.");
        let mut again = named("segments_retransmitted_total", Is::Counter, "Segments that were sent again.");
        self.tests.iter().for_each(|test| each(&mut sent, test, &test.segments));
        self.tests.iter().for_each(|test| each(&mut again, test, &test.retransmits));
        let gauges: [Gauge<TcpResult, f64>; 4] = [
            ("received_bytes_per_second", "Payload of a flow that arrived.", |flow| {
                flow.bits_per_second / 8.0
            }),
            ("congestion_window_bytes", "Mean congestion window of a flow.", |flow| {
                flow.congestion_window_mean as f64
            }),
            ("round_trip_seconds", "Mean round trip of a flow.", |flow| flow.rtt_mean_seconds),
            ("round_trip_least_seconds", "Shortest round trip of a flow.", |flow| flow.rtt_least_seconds),
        ];
        let mut all = vec![sent, again];
        for (name, help, value) in gauges {
            let mut metric = named(&format!("tcp_{name}"), Is::Gauge, help);
            for (test, last) in self.lasts() {
                for (n, flow) in last.tcp.iter().enumerate() {
                    let of = labels(test);
                    metric.add(&[of[0], of[1], of[2], ("way", &flow.way), ("flow", &n)], value(flow));
                }
            }
            all.push(metric);
        }
        all
    }

    fn lasts(&self) -> impl Iterator<Item = (&TestTotals, &MonitorRecord)> {
        self.tests.iter().filter_map(|test| Some((test, test.last.as_ref()?)))
    }
}

fn named(name: &str, kind: Is, help: &str) -> Metric {
    Metric::new(&format!("skyhaul_monitor_{name}"), kind, help)
}

fn labels(test: &TestTotals) -> [(&'static str, &dyn Display); 3] {
    // Their own values, not those of a key of the kind.
    let kind: &dyn Display = match test.kind {
        TestKind::Udp => &"udp",
        TestKind::Tcp => &"tcp",
    };
    [("test", &test.test), ("server", &test.server), ("kind", kind)]
}

/// A counter of each way.
fn each(metric: &mut Metric, test: &TestTotals, ways: &BTreeMap<String, u64>) {
    let of = labels(test);
    for (way, n) in ways {
        metric.add(&[of[0], of[1], of[2], ("way", way)], n);
    }
}
