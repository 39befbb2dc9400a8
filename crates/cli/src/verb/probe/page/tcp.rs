//! The page of connections: throughput against window with what theory allows, and each flow over time.

use super::super::report::TcpCommandReport;
use super::parts::{Plot, cause, show};
use crate::print::{bytes, rate};
use crate::report::chart::Series;
use crate::report::chart::{Chart, Panel};
use crate::report::drawing::Scale;
use crate::report::page::{Page, Tile};
use crate::report::table::Table;
use crate::report::words::number;
use serde::Serialize;
use skyhaul_measure::probe::tcp::{
    FlowDirection, FlowReport, SenderWaits, TcpDiagnosis, TcpPoint, TcpPointReport, TcpPrediction,
};

/// Flows that are drawn over time.
const MAX_FLOWS_DRAWN: usize = 8;

/// The sending ends of the flows of a point.
fn senders(report: &TcpPointReport) -> impl Iterator<Item = &FlowReport> {
    report.flows().filter_map(|(sender, _)| sender)
}

/// Payload bits per second that arrived, both ways together; that were sent, where the server's report is missing.
fn received(report: &TcpPointReport) -> f64 {
    let ends = [&report.here, &report.there];
    let of = |direction| {
        ends.into_iter().flat_map(|end| &end.flows).filter(move |flow| flow.direction == direction)
    };
    let sent = report.missing.as_ref().map(|_| of(FlowDirection::Send).map(|flow| flow.bytes).sum::<u64>());
    let bytes: u64 = of(FlowDirection::Receive).map(|flow| flow.bytes).sum::<u64>() + sent.unwrap_or(0);
    bytes as f64 * 8.0 / report.here.seconds.max(report.there.seconds).max(1e-9)
}

pub(super) fn plots(told: &TcpCommandReport) -> Vec<Plot> {
    vec![window(told), time(told)]
}

/// The window of a point, or the largest that was open where the kernel tuned it.
fn opened(report: &TcpPointReport) -> f64 {
    let most = senders(report).map(|flow| flow.counts.congestion_window_most).max().unwrap_or(0);
    report.point.window.unwrap_or(most) as f64 / f64::from(1 << 20)
}

fn window(told: &TcpCommandReport) -> Plot {
    let kind = |report: &TcpPointReport| {
        let control = senders(report).next().map_or("", |flow| flow.congestion.as_str());
        format!("{} flows, {control}", report.point.flows)
    };
    let mut kinds: Vec<String> = told.points.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let line = |name: &String| {
        let of_it = told.points.iter().filter(|report| kind(report) == *name);
        Series::points(name.clone(), of_it.map(|report| (opened(report), received(report) / 1e6)))
    };
    let theory = |name: &str, of: fn(&TcpPrediction) -> Option<f64>| {
        let sum = |report: &TcpPointReport| {
            let rates: Option<Vec<f64>> =
                report.expected.iter().map(|one| one.as_ref().and_then(of)).collect();
            Some((opened(report), rates.filter(|rates| !rates.is_empty())?.iter().sum::<f64>() / 1e6))
        };
        Series::dotted(name, told.points.iter().filter_map(sum))
    };
    let allowed = theory("granted window / round trip", |one| Some(one.granted_window));
    let panel = Panel::new(280.0, Scale::log("received, Mb/s of payload"))
        .all(kinds.iter().map(line))
        .series(allowed)
        .series(theory("CUBIC at these losses (RFC 9438)", |one| one.cubic))
        .series(theory("Reno at these losses (Mathis)", |one| one.reno));
    let chart = Chart::new("Throughput by window").x(Scale::log("window, MiB")).panel(panel);
    Plot::new(
        "window.svg",
        "Throughput by window",
        "The window that was asked for, or the largest that was open. Predictions are models, right within a factor of 2 to 4.",
        chart,
    )
}

fn time(told: &TcpCommandReport) -> Plot {
    let flows: Vec<(String, &FlowReport)> = told
        .points
        .iter()
        .enumerate()
        .flat_map(|(n, report)| {
            senders(report)
                .enumerate()
                .map(move |(m, flow)| (format!("point {}, flow {}", n + 1, m + 1), flow))
        })
        .take(MAX_FLOWS_DRAWN)
        .collect();
    let line = |named: bool, value: fn(&skyhaul_measure::probe::tcp::TcpSample) -> f64| {
        flows.iter().map(move |(name, flow)| {
            let name = if named { name.clone() } else { String::new() };
            Series::line(name, flow.trace.iter().map(move |sample| (sample.at, value(sample))))
        })
    };
    let chart = Chart::new("Window, round trip and retransmissions over time")
        .x(Scale::linear("time, s"))
        .panel(
            Panel::new(170.0, Scale::linear("congestion window, KiB"))
                .all(line(true, |sample| sample.congestion_window as f64 / 1024.0)),
        )
        .panel(Panel::new(120.0, Scale::linear("round trip, ms")).all(line(false, |sample| sample.rtt * 1e3)))
        .panel(
            Panel::new(90.0, Scale::linear("segments sent again").at_least(1.0))
                .all(line(false, |sample| f64::from(sample.retransmits))),
        );
    Plot::new("time.svg", "Over time", "As the sender's kernel says (TCP_INFO); the first flows.", chart)
}

pub(super) fn page(told: &TcpCommandReport, plots: &[Plot]) -> Page {
    let mut page = Page::new("Skyhaul probe", "SKYHAUL PROBE");
    let best = told.points.iter().map(received).fold(0.0, f64::max);
    let again: u64 =
        told.points.iter().flat_map(senders).map(|flow| u64::from(flow.counts.retransmits)).sum();
    let found = told.diagnosis.iter().flatten().flatten().flat_map(|flow| &flow.causes).next();
    let verdict = match (&told.diagnosis, found) {
        (None, _) => None,
        (Some(_), Some(cause)) => Some((false, cause.title.as_str())),
        (Some(found), None) if found.iter().flatten().any(|flow| flow.unknown.is_some()) => {
            Some((false, "the cause is unknown"))
        }
        (Some(_), None) => Some((true, "nothing but the path bounds it")),
    };
    let comma = if verdict.is_some() { "," } else { "" };
    let missing = told.points.iter().find_map(|report| report.missing.as_ref());
    let missing = missing.map_or("", |_| "; the server's report is missing");
    let path = format!("TCP to {}; {} points{missing}", told.server, told.points.len());
    page.headline(&format!("{}{comma}", rate(best)), verdict, &[&path]);
    let least =
        told.points.iter().flat_map(senders).map(|flow| flow.counts.rtt_least).filter(|&rtt| rtt > 0.0);
    page.tiles(&[
        Tile::new("most received", rate(best), "of payload, all flows"),
        Tile::new("sent again", number(again), "segments"),
        Tile::new(
            "least round trip",
            least.reduce(f64::min).map_or("unknown".to_owned(), |least| format!("{:.3} ms", least * 1e3)),
            "of all flows",
        ),
    ]);
    if let Some(diagnosis) = &told.diagnosis {
        page.section(
            "What bounds it",
            "Confidence orders causes; it is no measured probability.",
            &causes(diagnosis),
        );
    }
    show(&mut page, plots);
    page.section("Flows", "As the sending ends saw them.", &table(told));
    page.section("Counters", "What both hosts counted meanwhile, all points together.", &counters(told));
    page
}

fn causes(diagnosis: &[Vec<TcpDiagnosis>]) -> String {
    let mut table =
        Table::new(&["#point", "#flow", "cause", "what it is", "#confidence", "evidence", "type next"]);
    for (n, flow) in
        diagnosis.iter().enumerate().flat_map(|(n, flows)| flows.iter().map(move |flow| (n, flow)))
    {
        let place = [(n + 1).to_string(), (flow.flow + 1).to_string()];
        if flow.causes.is_empty() {
            let why =
                flow.unknown.map_or_else(|| "nothing but the path".to_owned(), |unknown| unknown.to_string());
            table.add(
                &[&place[..], &[String::new(), why, String::new(), String::new(), String::new()]].concat(),
                "",
                "",
            );
        }
        for named in &flow.causes {
            table.add(&[&place[..], &cause(named)].concat(), "", "");
        }
    }
    table.html()
}

fn table(told: &TcpCommandReport) -> String {
    let headings = [
        "#point",
        "window",
        "control",
        "#rate",
        "#sent again",
        "#round trip, ms",
        "#most cwnd",
        "time went to",
        "verdict",
    ];
    let mut table = Table::new(&headings);
    for (n, flow) in
        told.points.iter().enumerate().flat_map(|(n, report)| senders(report).map(move |flow| (n, flow)))
    {
        let asked = told.points.get(n).and_then(|report| report.point.window);
        let parts = flow.waited.map_or(
            String::new(),
            |SenderWaits { application, receive_window, send_buffer, path, .. }| {
                let percent = |part: f64| (part * 100.0).round();
                format!(
                    "application {} %, receiver's window {} %, send buffer {} %, path {} %",
                    percent(application),
                    percent(receive_window),
                    percent(send_buffer),
                    percent(path)
                )
            },
        );
        let cells = [
            (n + 1).to_string(),
            asked.map_or("tuned".to_owned(), bytes),
            flow.congestion.clone(),
            rate(flow.bits_per_second),
            number(flow.counts.retransmits.into()),
            format!("{:.3}", flow.counts.rtt_mean * 1e3),
            bytes(flow.counts.congestion_window_most),
            parts,
            flow.verdict.as_ref().map_or(String::new(), |verdict| verdict.text.clone()),
        ];
        table.add(&cells, "", "");
    }
    table.html()
}

/// Counters that rose at either end; processors have their own figures.
fn counters(told: &TcpCommandReport) -> String {
    let mut all: std::collections::BTreeMap<&str, [u64; 2]> = std::collections::BTreeMap::new();
    for report in &told.points {
        for (end, side) in [&report.here, &report.there].into_iter().enumerate() {
            for (name, count) in side.counters.iter().filter(|(name, _)| !name.starts_with("cpu")) {
                let sums = all.entry(name.as_str()).or_default();
                sums[end] = sums[end].saturating_add(*count);
            }
        }
    }
    let mut table = Table::new(&["counter", "#here", "#there"]);
    for (name, [here, there]) in all.into_iter().filter(|(_, sums)| *sums != [0, 0]) {
        table.add(&[name.to_owned(), number(here), number(there)], "", "");
    }
    table.html()
}

/// What stands in the page itself: no samples.
#[derive(Serialize)]
pub(super) struct Short<'a> {
    version: u32,
    server: &'a str,
    points: Vec<(&'a TcpPoint, f64, &'a [Option<TcpPrediction>])>,
    diagnosis: &'a Option<Vec<Vec<TcpDiagnosis>>>,
}

pub(super) fn short(told: &TcpCommandReport) -> Short<'_> {
    Short {
        version: told.version,
        server: &told.server,
        points: told.points.iter().map(|r| (&r.point, received(r), r.expected.as_slice())).collect(),
        diagnosis: &told.diagnosis,
    }
}
