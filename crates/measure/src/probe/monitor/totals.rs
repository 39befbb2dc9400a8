//! What a monitor counted so far, and its metrics.

use super::journal::JournalCounts;
use super::line::{Kind, Line, Outcome, TcpFlow, UdpWay};
use super::test::Test;
use serde::Serialize;
use skyhaul::metrics::{Kind as Is, Metric};
use std::collections::BTreeMap;
use std::fmt::Display;

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
    pub kind: Kind,
    /// Runs by how they ended.
    pub runs: BTreeMap<Outcome, u64>,
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
    pub last: Option<Line>,
}

/// What a monitor counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Each test.
    pub tests: Vec<TestTotals>,
    /// Lines of the file.
    pub lines: JournalCounts,
    /// Times that the file of metrics could not be written.
    pub metrics_failures: u64,
}

impl Totals {
    pub(super) fn new(tests: &[Test]) -> Self {
        let of = |test: &Test| TestTotals {
            test: test.name.clone(),
            server: test.server.clone(),
            kind: test.kind(),
            runs: Outcome::ALL.into_iter().map(|outcome| (outcome, 0)).collect(),
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
    pub(super) fn add(&mut self, test: usize, line: &Line) {
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
                up.add(&of, u8::from(last.outcome == Outcome::Done));
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
        let gauges: [Gauge<UdpWay, Option<f64>>; 7] = [
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
        let gauges: [Gauge<TcpFlow, f64>; 4] = [
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

    fn lasts(&self) -> impl Iterator<Item = (&TestTotals, &Line)> {
        self.tests.iter().filter_map(|test| Some((test, test.last.as_ref()?)))
    }
}

fn named(name: &str, kind: Is, help: &str) -> Metric {
    Metric::new(&format!("skyhaul_monitor_{name}"), kind, help)
}

fn labels(test: &TestTotals) -> [(&'static str, &dyn Display); 3] {
    // Their own values, not those of a key of the kind.
    let kind: &dyn Display = match test.kind {
        Kind::Udp => &"udp",
        Kind::Tcp => &"tcp",
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
