//! Points as lines of a table, on standard output.

use crate::print::{count, counted, rate};
use skyhaul_measure::probe::udp::{
    EndReport, HostSummary, LayerAccount, TestDirection, UdpDirectionReport, UdpPointReport,
};
use std::fmt::Write as _;

/// The table of a sweep.
pub(super) struct Table {
    rows: usize,
}

/// Lines after which the heading is shown again.
const PAGE: usize = 40;

impl Table {
    pub(super) fn begin(here: &HostSummary, there: &HostSummary) -> Self {
        for (name, note) in [("here", here), ("there", there)] {
            let on =
                if note.interface.is_empty() { String::new() } else { format!(" on {}", note.interface) };
            tell!("{name}{on}: {}; largest datagram {} bytes", note.machine, note.largest_datagram);
        }
        Self { rows: 0 }
    }

    /// One line for each way.
    pub(super) fn row(&mut self, report: &UdpPointReport) {
        if self.rows.is_multiple_of(PAGE) {
            tell!("{}", heading());
        }
        self.rows += 1;
        let ways = [
            ("→", &report.forward, &report.client, &report.server),
            ("←", &report.reverse, &report.server, &report.client),
        ];
        for (arrow, way, sender, receiver) in ways {
            if let Some(way) = way {
                tell!("{}", line(report, arrow, way, sender, receiver));
            }
        }
    }

    /// What the only point says beyond its line.
    pub(super) fn end(self, points: &[UdpPointReport]) {
        let [report] = points else { return };
        if report.direction != TestDirection::Reverse {
            tell_text!("{}", details(&report.forward, &report.client, &report.server));
        }
        if report.direction != TestDirection::Forward {
            tell_text!("{}", details(&report.reverse, &report.server, &report.client));
        }
    }
}

fn heading() -> String {
    format!(
        "{:>2}{:>6} {:>10} {:>11} {:>10} {:>9} {:>9} {:>11} {:>11} {:>7} {:>9} {:>9}",
        "",
        "bytes",
        "spacing",
        "achieved",
        "sent",
        "lost",
        "loss",
        "user rate",
        "wire rate",
        "±20 %",
        "jitter",
        "kernel's"
    )
}

fn line(
    report: &UdpPointReport,
    arrow: &str,
    way: &UdpDirectionReport,
    sender: &EndReport,
    receiver: &EndReport,
) -> String {
    let sent = sender.sent.first();
    let received = receiver.received.first();
    let micros = |ns: f64| format!("{:.3}us", ns / 1e3);
    let jitter = received.map(|r| micros(r.user.jitter_ns)).unwrap_or_default();
    let kernel = received.and_then(|r| r.kernel.as_ref()).map(|k| micros(k.jitter_ns)).unwrap_or_default();
    format!(
        "{arrow:>2}{:>6} {:>10} {:>11} {:>10} {:>9} {:>8.4}% {:>11} {:>11} {:>6.1}% {jitter:>9} {kernel:>9}",
        report.point.size,
        micros(report.point.spacing_ps as f64 / 1e3),
        sent.map(|s| micros(s.gaps_ns.mean)).unwrap_or_default(),
        count(way.sent),
        count(way.lost),
        way.loss_fraction * 100.0,
        rate(way.user_bits_per_second),
        rate(way.wire_bits_per_second),
        sent.map_or(0.0, |s| s.within_fifth * 100.0),
    )
}

fn details(way: &Option<UdpDirectionReport>, sender: &EndReport, receiver: &EndReport) -> String {
    let Some(way) = way else { return String::new() };
    let mut text = String::new();
    if let Some(sent) = sender.sent.first() {
        let _ = writeln!(text, "sent: {}; given up {:.3} ms", sent.how, sent.given_up_seconds * 1e3);
        let gaps = &sent.gaps_ns;
        let _ = writeln!(
            text,
            "gaps of the sender: mean {:.3} us, median {:.3}, 99 % {:.3}, most {:.3}; {:.2} % within a fifth",
            gaps.mean / 1e3,
            gaps.p50 as f64 / 1e3,
            gaps.p99 as f64 / 1e3,
            gaps.max as f64 / 1e3,
            sent.within_fifth * 100.0
        );
    }
    if let Some(received) = receiver.received.first() {
        let _ = writeln!(
            text,
            "lost {} in {} (longest {}), reordered {} (extent to {}), duplicate {}",
            received.lost,
            counted(received.runs.count, "run"),
            received.runs.max,
            received.reordered,
            received.extent.max,
            received.duplicates
        );
    }
    if let Some(delay) = way.delay_ns {
        let _ = writeln!(
            text,
            "one-way delay: least {:.1} us, median {:.1}, 99 % {:.1}, most {:.1}; each ± {:.1} us by the clocks",
            delay.least / 1e3,
            delay.median / 1e3,
            delay.p99 / 1e3,
            delay.most / 1e3,
            delay.error / 1e3
        );
    }
    let cpu = |name: &str, end: &EndReport, seconds: f64| {
        let ticks =
            |state: &str| end.counters.get(&format!("cpu.{state}")).copied().unwrap_or(0) as f64 / 100.0;
        format!("{name} {seconds:.3} s (host: irq {:.2} s, softirq {:.2} s)", ticks("irq"), ticks("softirq"))
    };
    let sending = sender.sent.iter().map(|s| s.cpu_seconds).sum();
    let receiving = receiver.received.iter().map(|r| r.cpu_seconds).sum();
    let _ =
        writeln!(text, "CPU: {}, {}", cpu("sender", sender, sending), cpu("receiver", receiver, receiving));
    text + &account(&way.account)
}

/// What each step of the way took in, gave on and lost: a line for each.
pub(super) fn account(stages: &[LayerAccount]) -> String {
    let mut text = String::new();
    for stage in stages {
        let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        let _ = writeln!(
            text,
            "  {:<34} {:>12} ▶ {:>12}  lost {:>8}  {}",
            stage.layer,
            number(stage.before),
            number(stage.behind),
            stage.lost,
            stage.evidence
        );
    }
    text
}
