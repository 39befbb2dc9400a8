//! The quality of what is recorded: alarms, and what the page and `/metrics` show of it.

use super::alarms::{AlarmCondition, AlarmLevel};
use serde_json::{Value, json};
use skyhaul::core::quality::QualityFinding;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::quality::{ChannelQuality, QualityReport};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was found last, by recording.
pub(in crate::station) type Qualities = BTreeMap<String, Arc<QualityReport>>;

/// Channels that the page shows of a recording, and points of a spectrum: they are sent each second.
const MAX_SHOWN: usize = 32;
const POINTS: usize = 64;
/// Threads in metrics, of each recording.
const MAX_THREADS: usize = 64;

/// An alarm for each kind of finding that holds: a station whose clock is wrong has that in every thread.
pub(super) fn conditions(name: &str, report: &QualityReport, all: &mut Vec<AlarmCondition>) {
    for kind in QualityFinding::NAMES {
        let mut of_kind = report.current().filter(|(_, finding)| finding.finding == kind && finding.is_alarm);
        let Some((thread, first)) = of_kind.next() else { continue };
        let more = match of_kind.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let text = format!("{} thread {}: {}{more}", thread.sender, thread.thread, first.text);
        all.push(AlarmCondition::new(AlarmLevel::Warning, kind, name, text));
    }
}

/// The quality of a recording as the page shows it.
pub(super) fn shown(report: &QualityReport) -> Value {
    let mut left = MAX_SHOWN;
    let threads: Vec<Value> = report
        .threads
        .iter()
        .map(|thread| {
            let channels: Vec<Value> = thread.channels.iter().take(left).map(channel).collect();
            left -= channels.len();
            let findings: Vec<Value> = thread
                .findings
                .iter()
                .filter(|finding| finding.ended_at.is_none())
                .map(|finding| json!({ "finding": finding.finding, "text": finding.text, "is_alarm": finding.is_alarm }))
                .collect();
            json!({
                "sender": thread.sender,
                "thread": thread.thread,
                "station": thread.station,
                "frames": thread.frames,
                "bits": thread.bits,
                "clock_offset_seconds": thread.clock_offset_seconds,
                "findings": findings,
                "channels": channels,
            })
        })
        .collect();
    json!({ "threads": threads, "left_out": report.left_out, "has_failed": report.has_failed })
}

fn channel(channel: &ChannelQuality) -> Value {
    let each = channel.spectrum.len().div_ceil(POINTS).max(1);
    // Three digits: a line on a screen.
    let short = |value: f64| (value * 1e3).round() / 1e3;
    let spectrum: Vec<f64> = channel
        .spectrum
        .chunks(each)
        .map(|part| short(part.iter().sum::<f64>() / part.len() as f64))
        .collect();
    let states: Vec<f64> = channel.states.iter().map(|&share| short(share)).collect();
    json!({ "channel": channel.channel, "states": states, "rms": short(channel.rms), "spectrum": spectrum })
}

/// Findings, clock and states for Prometheus.
pub(super) fn metrics(all: &Qualities) -> Vec<Metric> {
    let metric = |name: &str, help: &str| Metric::new(&format!("skyhaul_station_{name}"), Kind::Gauge, help);
    let mut findings = metric("quality_findings", "Findings that hold, by kind; 0 where none does.");
    let mut clock =
        metric("clock_offset_seconds", "Data time minus the time of arrival, of each thread of a recording.");
    let mut outer =
        metric("outer_states", "Share of samples in the outermost states, the mean of all channels.");
    for (scan, report) in all {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, finding) in report.current() {
            *counts.entry(&finding.finding).or_default() += 1;
        }
        for kind in QualityFinding::NAMES {
            findings.add(&[("scan", scan), ("finding", &kind)], counts.get(kind).copied().unwrap_or(0));
        }
        for thread in report.threads.iter().take(MAX_THREADS) {
            let labels: [(&str, &dyn std::fmt::Display); 3] =
                [("scan", scan), ("sender", &thread.sender), ("thread", &thread.thread)];
            if let Some(offset) = thread.clock_offset_seconds {
                clock.add(&labels, offset);
            }
            let ends = |channel: &ChannelQuality| Some(channel.states.first()? + channel.states.last()?);
            let shares: Vec<f64> = thread.channels.iter().filter_map(ends).collect();
            if !shares.is_empty() {
                outer.add(&labels, shares.iter().sum::<f64>() / shares.len() as f64);
            }
        }
    }
    vec![findings, clock, outer]
}
