//! `skyhaul probe HOST --tcp`: windows, flows and congestion controls, one point after the other.

use super::super::receiving::print_json;
use super::datagrams;
use super::live::Live;
use super::page;
use super::path::{server, waiting};
use super::report::TcpCommandReport;
use crate::args::PathArgs;
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{self, Progress};
use anyhow::{Result, anyhow};
use skyhaul::io::quantity::{Rate, Size};
use skyhaul::peer::PeerError;
use skyhaul_measure::probe::tcp::{
    FlowDirection, FlowReport, TcpClient, TcpDiagnosis, TcpPoint, TcpPointReport, TcpReport, TestDirection,
    diagnose,
};
use std::time::Duration;

/// Length of the only point, and of each of several.
const ONE: Duration = Duration::from_secs(10);
const EACH: Duration = Duration::from_secs(5);

pub(super) fn run(args: &PathArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (servers, token) = server(args)?;
    let points = points(args)?;
    let mut progress = Progress::new(args.output.quiet);
    let mut client = TcpClient::open(&servers, &token, &points, &mut waiting(&mut progress, &interrupt))?;
    progress.clear();
    let mut told = TcpCommandReport::of(client.server().to_string());
    if !args.output.json {
        tell!("path to {}\n{}", told.server, heading());
    }
    let mut live = Live::new(args.output.quiet);
    for (n, point) in points.iter().enumerate() {
        progress.show(&format!("point {} of {}", n + 1, points.len()));
        live.restart();
        let mut each = |elapsed, (sent, received): (u64, u64)| match (sent, received) {
            (0, received) => live.show(elapsed, received, "received"),
            (sent, _) => live.show(elapsed, sent, "sent"),
        };
        let report = match client.point_live(point, &interrupt.flag(), &mut each) {
            Ok(report) => report,
            Err(PeerError::Stopped) if interrupt.is_set() => break,
            Err(error) => return Err(error.into()),
        };
        progress.clear();
        if !args.output.json {
            tell_text!("{}", lines(&report));
        }
        if let Some(why) = &report.missing {
            say!("warning: the server's report is missing: {why}");
        }
        let is_whole = report.missing.is_none();
        told.points.push(report);
        if interrupt.is_set() || !is_whole {
            break;
        }
    }
    told.interrupted = interrupt.is_set();
    let is_whole = told.points.iter().all(|report| report.missing.is_none());
    if args.diagnose {
        let probe = super::diagnose::command(args);
        let mut found: Vec<Vec<TcpDiagnosis>> =
            told.points.iter().map(|point| diagnose(point, &probe)).collect();
        progress.show("the other direction");
        // Results are reported even if this fails.
        if is_whole && let Err(error) = client.look_for_holes(&told.points, &mut found, &interrupt.flag()) {
            say!("note: the reverse direction was not measured: {error}");
        }
        let at = client.server();
        let _ = client.end();
        datagrams::ask(at, &token, &told.points, &mut found, &interrupt, &mut progress);
        if !args.output.json {
            tell_text!("{}", causes(&found));
        }
        told.diagnosis = Some(found);
    } else {
        // The server may be gone, which changes nothing of what was measured.
        let _ = client.end();
    }
    if let Some(directory) = &args.report {
        page::tcp(directory, &told)?;
    }
    if args.output.json {
        print_json(&told)?;
    }
    if told.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(if told.interrupted || !is_whole { Outcome::Failed } else { Outcome::Done })
}

/// What bounds each flow of each point.
fn causes(found: &[Vec<TcpDiagnosis>]) -> String {
    let mut text = String::new();
    for (point, flow) in
        found.iter().enumerate().flat_map(|(n, flows)| flows.iter().map(move |flow| (n, flow)))
    {
        text += &format!("point {}, flow {}:\n", point + 1, flow.flow + 1);
        for named in &flow.causes {
            text += &super::diagnose::cause(named);
        }
        match &flow.unknown {
            Some(why) => text += &format!("unknown: {why}\n"),
            None if flow.causes.is_empty() => text += "nothing but the path bounds it\n",
            None => {}
        }
    }
    text
}

/// Windows, of each the numbers of flows, of each the congestion controls.
fn points(args: &PathArgs) -> Result<Vec<TcpPoint>> {
    let tcp = &args.tcp;
    let windows = tcp.windows.as_ref().map_or(vec![None], |w| w.0.iter().copied().map(Some).collect());
    let controls = if tcp.cc.is_empty() { vec![None] } else { tcp.cc.iter().cloned().map(Some).collect() };
    let count = windows.len() * args.flows.len() * controls.len();
    let time = args.time.map_or(if count == 1 { ONE } else { EACH }, |time| time.duration());
    let mut points = Vec::with_capacity(count);
    for window in &windows {
        for &flows in &args.flows {
            for control in &controls {
                let point = TcpPoint {
                    way: match (args.reverse, args.both) {
                        (true, _) => TestDirection::Reverse,
                        (false, true) => TestDirection::Both,
                        (false, false) => TestDirection::Forward,
                    },
                    flows: usize::from(flows),
                    block: tcp.write.map_or(1 << 20, Size::bytes),
                    window: window.map(Size::bytes),
                    congestion: control.clone(),
                    pacing: tcp.pacing.map_or(0, Rate::bits_per_second),
                    segment: tcp.segment,
                    seconds: time.as_secs_f64(),
                    omit: tcp.omit.duration().as_secs_f64(),
                    bytes: tcp.bytes.map(Size::bytes),
                    stagger: tcp.stagger.duration().as_secs_f64(),
                    zero_copy: tcp.zerocopy,
                    discard: tcp.discard,
                    cpus_here: tcp.cores.iter().map(|(here, _)| *here).collect(),
                    cpus_there: tcp.cores.iter().map(|(_, there)| *there).collect(),
                };
                point.check().map_err(|why| anyhow!(why))?;
                points.push(point);
            }
        }
    }
    Ok(points)
}

fn heading() -> String {
    format!(
        "{:>2}{:>9} {:>5} {:>8} {:>12} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "", "window", "flows", "control", "rate", "CPU here", "CPU there", "again", "RTT", "most cwnd"
    )
}

/// A line for each way, and what bounded it.
fn lines(report: &TcpPointReport) -> String {
    let mut text = String::new();
    for (arrow, direction) in [("→", FlowDirection::Send), ("←", FlowDirection::Receive)] {
        // Counters and windows are those of the sending end.
        let (sender, receiver) = match direction {
            FlowDirection::Send => (&report.here, &report.there),
            FlowDirection::Receive => (&report.there, &report.here),
        };
        let sending: Vec<&FlowReport> =
            sender.flows.iter().filter(|flow| flow.direction == FlowDirection::Send).collect();
        let Some(first) = sending.first() else {
            text += &far_missing(report, direction, receiver);
            continue;
        };
        text += &line(report, arrow, &sending, receiver);
        let longest = sending.iter().max_by_key(|flow| flow.bytes).unwrap_or(first);
        if let Some(verdict) = &longest.verdict {
            text += &verdict.lines("     ");
            text.push('\n');
        }
        for error in sending.iter().filter_map(|flow| flow.error.as_ref()) {
            text += &format!("     {error}\n");
        }
    }
    text
}

/// What this end received at a point for which the sender's report is missing.
fn far_missing(report: &TcpPointReport, direction: FlowDirection, receiver: &TcpReport) -> String {
    let of_receivers = receiver.flows.iter().filter(|flow| flow.direction == FlowDirection::Receive);
    let bytes: u64 = of_receivers.map(|flow| flow.bytes).sum();
    match (&report.missing, direction) {
        (Some(_), FlowDirection::Receive) if bytes > 0 => format!(
            " ←  received {} at {}\n",
            print::bytes(bytes),
            print::rate(bytes as f64 * 8.0 / receiver.seconds.max(1e-9))
        ),
        _ => String::new(),
    }
}

fn line(report: &TcpPointReport, arrow: &str, sending: &[&FlowReport], receiver: &TcpReport) -> String {
    // Where the server's report is missing, only what was sent is known.
    let is_known = !receiver.flows.is_empty();
    let carried: u64 = match is_known {
        true => {
            receiver.flows.iter().filter(|f| f.direction == FlowDirection::Receive).map(|f| f.bytes).sum()
        }
        false => sending.iter().map(|flow| flow.bytes).sum(),
    };
    let seconds = if is_known { receiver.seconds } else { report.here.seconds }.max(1e-9);
    let there = if is_known { format!("{:.3}/GB", report.there.cpu_seconds_per_gb) } else { "-".to_owned() };
    let again: u64 = sending.iter().map(|flow| u64::from(flow.counts.retransmits)).sum();
    let rtt = sending.iter().map(|flow| flow.counts.rtt_mean).fold(0.0, f64::max);
    let window = sending.iter().map(|flow| flow.counts.congestion_window_most).max().unwrap_or(0);
    format!(
        "{arrow:>2}{:>9} {:>5} {:>8} {:>12} {:>7.3}/GB {there:>10} {:>9} {:>7.3}ms {:>10}\n",
        report.point.window.map_or("tuned".to_owned(), |bytes| Size::from_bytes(bytes).to_string()),
        report.point.flows,
        sending.first().map_or("", |flow| flow.congestion.as_str()),
        print::rate(carried as f64 * 8.0 / seconds),
        report.here.cpu_seconds_per_gb,
        print::count(again),
        rtt * 1e3,
        print::bytes(window),
    )
}
