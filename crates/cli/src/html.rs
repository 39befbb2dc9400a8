//! The demo's report as one self-contained HTML page: no network, no other file.
//!
//! ```text
//!   DemoReport ─▶ headline, proofs, key numbers
//!              ─▶ plots: rate and loss over time · loss map · disks     (inline SVG, drawn here)
//!              ─▶ losses by place
//!              ─▶ the report itself as JSON, and the command that produced it
//! ```
//!
//! It follows the reader's light or dark scheme, can be printed, and is complete without its few lines of script, which
//! only show values under the pointer. All text of the report is escaped: addresses, headers and errors may hold
//! anything.
//!
//! Limits: long runs are reduced to 240 points; maps beyond 8 and disks beyond 32 are only in the JSON.

mod losses;
mod places;
mod plots;
pub(crate) mod svg;
mod words;

use crate::print;
use crate::verb::demo::DemoReport;
use skyhaul::recording::DiskStatus;
use skyhaul::report::StreamSummary;
use std::fmt::Write as _;
use svg::{escape, short};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// Maximum number of loss maps.
const MOST_STREAMS: usize = 8;

/// The page.
pub(crate) fn page(report: &DemoReport) -> String {
    let mut out = begin("Skyhaul demo");
    out.push_str(&headline(report));
    out.push_str(&tiles(report));
    out.push_str(&proofs(report));
    let receive = &report.recorded.receive;
    section(
        &mut out,
        "Rate and loss over time",
        "A frame counts as lost when its place in memory is given up, shortly after it was due.",
        &plots::rate(&receive.timeline, receive.bits_per_second),
    );
    for stream in receive.streams.iter().take(MOST_STREAMS) {
        section(
            &mut out,
            "Where the stream lost frames",
            &stream_words(stream),
            &stream_plots(report, stream),
        );
    }
    if receive.streams.is_empty() {
        section(&mut out, "Where the stream lost frames", "", &plots::nothing("No stream was found."));
    }
    let disks = &report.recorded.recording.disks;
    let drawn = format!(
        "{}<h3>Each disk</h3>{}{}",
        plots::progress(disks, &report.disks_over_time, &receive.timeline),
        plots::disks(disks),
        disk_table(disks)
    );
    let caption = "Data received but not yet written are in memory. Written bytes include the fill for lost frames, \
                   and received bytes include duplicate packets.";
    section(&mut out, "Onto the disks", caption, &drawn);
    let caption = "The count at each stage, with the difference from the stage before and the counters that explain it.";
    section(&mut out, "Every packet accounted for", caption, &places::table(report));
    out.push_str(&source(&report.command, &words::json(report)));
    end(out)
}

/// The beginning of a page, up to its first section.
pub(crate) fn begin(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n",
        escape(title)
    )
}

/// The page that `out` is, whole.
pub(crate) fn end(mut out: String) -> String {
    let _ = write!(out, "</main><div id=\"tip\"></div>\n<script>\n{SCRIPT}</script>\n</body></html>\n");
    out
}

pub(crate) fn section(out: &mut String, title: &str, caption: &str, body: &str) {
    let _ = writeln!(
        out,
        "<section><h2>{title}</h2>\n<p class=\"soft\">{}</p>\n{body}</section>",
        escape(caption)
    );
}

fn headline(report: &DemoReport) -> String {
    let receive = &report.recorded.receive;
    let held = report.proofs.iter().filter(|p| p.held).count();
    let all = report.proofs.len();
    let class = if held == all { "held" } else { "broken" };
    format!(
        "<p class=\"brand\">SKYHAUL DEMO</p>\n\
         <h1>{} for {:.1} s, <span class=\"{class}\">{held} of {all} checks passed</span></h1>\n\
         <p>Received over UDP, put in place, recorded on {} disks, and sent on to a second receiver at the same \
         time.<br>The network: {}.<br><span class=\"soft\">{}</span></p>\n",
        print::rate(receive.bits_per_second),
        receive.seconds,
        report.recorded.recording.disks.len(),
        escape(&report.faults.replace(',', ", ")),
        escape(&report.machine),
    )
}

fn tiles(report: &DemoReport) -> String {
    let receive = &report.recorded.receive;
    let n = words::number;
    let (placed, lost) = (receive.placed(), receive.lost());
    let of = |why: &str| -> u64 { receive.streams.iter().filter_map(|s| s.rejects.get(why)).sum() };
    let reordered: u64 = receive.streams.iter().map(|s| s.reordered).sum();
    let depth = receive.streams.iter().map(|s| s.reorder_extent.max).max().unwrap_or(0);
    let percent = lost as f64 / (placed as f64 + lost as f64).max(1.0) * 100.0;
    let cpu = |value: f64| format!("{value:.3} s/GB");
    let tiles = [
        ("frames placed", n(placed), format!("of {} of the stream", n(placed.saturating_add(lost)))),
        ("frames lost", n(lost), format!("{percent:.3} % of the stream")),
        ("duplicate packets refused", n(of("duplicate")), format!("and {} late", n(of("late")))),
        ("packets out of order", n(reordered), format!("by up to {} packets", n(depth))),
        (
            "acknowledged",
            print::bytes(report.recorded.recording.acknowledged_bytes()),
            "durable, with their index record".into(),
        ),
        (
            "kernel drops",
            n(receive.kernel_drops()),
            format!("packets; {} without memory", n(receive.no_buffer())),
        ),
        (
            "CPU to receive",
            cpu(receive.cpu.path_seconds_per_gb),
            format!("the whole process {}", cpu(receive.cpu.process_seconds_per_gb)),
        ),
        (
            "read back for the checks",
            print::bytes(report.check.bytes),
            format!("in {} s", short(report.check.seconds)),
        ),
    ];
    let mut out = String::from("<div class=\"tiles\">\n");
    for (name, value, more) in tiles {
        let _ = writeln!(
            out,
            "<div class=\"tile\"><span class=\"name\">{name}</span><b>{}</b><span>{}</span></div>",
            escape(&value),
            escape(&more)
        );
    }
    out.push_str("</div>\n");
    out
}

fn proofs(report: &DemoReport) -> String {
    let mut list = String::from("<ul class=\"proofs\">\n");
    for proof in &report.proofs {
        let (class, word) = if proof.held { ("held", "✔ passed") } else { ("broken", "✘ failed") };
        let _ = writeln!(
            list,
            "<li><span class=\"{class}\">{word}</span><span>{}<br><span class=\"soft\">{}</span></span></li>",
            escape(proof.claim),
            escape(&proof.evidence)
        );
    }
    list.push_str("</ul>\n");
    let mut out = String::new();
    section(
        &mut out,
        "Checks",
        "Each claim is verified independently, not by the component that makes it.",
        &list,
    );
    out
}

fn stream_words(stream: &StreamSummary) -> String {
    let mut text = format!(
        "Stream {} from {}: {}. Read the map like text, from left to right and top to bottom.",
        stream.id, stream.sender, stream.format
    );
    if stream.loss_map_left_out > 0 {
        let _ =
            write!(text, " {} runs of lost frames are not shown.", words::number(stream.loss_map_left_out));
    }
    if stream.restarts > 0 {
        let _ = write!(text, " The sender's counter restarted {} times: parts overlap.", stream.restarts);
    }
    text
}

fn stream_plots(report: &DemoReport, stream: &StreamSummary) -> String {
    format!(
        "{}<div class=\"pair\"><figure><h3>Runs of lost frames</h3>\n{}</figure>\
         <figure><h3>Packets out of order</h3>\n{}</figure></div>\n",
        losses::map(stream, report.first_number),
        losses::runs(&stream.loss_runs),
        losses::extent(&stream.reorder_extent)
    )
}

fn disk_table(disks: &[DiskStatus]) -> String {
    let mut out = String::from(
        "<table><tr><th>Disk</th><th>State</th><th>Method</th><th class=\"n\">Chunks</th>\
         <th class=\"n\">Acknowledged</th><th class=\"n\">Median</th><th class=\"n\">99 %</th>\
         <th class=\"n\">Maximum</th><th class=\"n\">Rate when busy</th></tr>\n",
    );
    for disk in disks {
        let time = |part| plots::micros(disk.latency.quantile(part).as_micros() as f64);
        let name = disk.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let state = format!("{:?}", disk.state).to_lowercase();
        let error = disk.error.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}/s</td></tr>",
            escape(&name),
            escape(&(state + &error)),
            escape(&disk.engine),
            if disk.direct { ", O_DIRECT" } else { "" },
            words::number(disk.chunks),
            print::bytes(disk.acknowledged_bytes),
            time(0.5),
            time(0.99),
            plots::micros(disk.latency.max().as_micros() as f64),
            print::bytes(disk.rate as u64),
        );
    }
    out.push_str("</table>\n");
    out
}

/// What produced a report, and the report itself.
pub(crate) fn source(command: &str, json: &str) -> String {
    format!(
        "<section><p>Produced by <code>{}</code></p>\n<details><summary>The whole report (JSON)</summary>\n\
         <pre>{}</pre></details></section>\n",
        escape(command),
        escape(json)
    )
}

#[cfg(test)]
mod tests;
