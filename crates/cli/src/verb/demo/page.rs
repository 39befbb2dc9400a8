//! The page of the demo.
//!
//! ```text
//!   DemoReport ─▶ headline, key numbers, checks
//!              ─▶ plots: rate and loss over time · loss map · disks
//!              ─▶ losses by place
//!              ─▶ the report itself as JSON, and the command that produced it
//! ```
//!
//! Limits: long runs are reduced to 240 points; maps beyond 8 and disks beyond 32 are only in the JSON.

mod disks;
mod losses;
mod places;

use super::report::{DemoReport, Proof};
use crate::print;
use crate::report::page::{Page, Tile, claims, pair, titled};
use crate::report::words::{self, nothing, short};
use skyhaul::report::StreamSummary;
use std::fmt::Write as _;

/// Maximum number of loss maps.
const MOST_STREAMS: usize = 8;

/// The page.
pub(super) fn page(report: &DemoReport) -> String {
    let mut page = Page::new("Skyhaul demo", "SKYHAUL DEMO");
    headline(&mut page, report);
    page.tiles(&tiles(report));
    let proofs = report.proofs.iter().map(|p| (p.held, p.claim, p.evidence.as_str()));
    page.section(
        "Checks",
        "Each claim is verified independently, not by the component that makes it.",
        &claims(proofs),
    );
    let receive = &report.recorded.receive;
    page.section(
        "Rate and loss over time",
        "A frame counts as lost when its place in memory is given up, shortly after it was due.",
        &disks::rate(&receive.timeline, receive.bits_per_second),
    );
    for stream in receive.streams.iter().take(MOST_STREAMS) {
        page.section("Where the stream lost frames", &stream_words(stream), &stream_plots(report, stream));
    }
    if receive.streams.is_empty() {
        page.section("Where the stream lost frames", "", &nothing("No stream was found."));
    }
    let all = &report.recorded.recording.disks;
    let drawn = format!(
        "{}{}{}",
        disks::progress(all, &report.disks_over_time, &receive.timeline),
        titled("Each disk", &disks::disks(all)),
        disks::table(all)
    );
    let caption = "Data received but not yet written are in memory. Written bytes include the fill for lost frames, \
                   and received bytes include duplicate packets.";
    page.section("Onto the disks", caption, &drawn);
    let caption = "The count at each stage, with the difference from the stage before and the counters that explain it.";
    page.section("Every packet accounted for", caption, &places::table(report));
    page.source(&report.command, &words::json(report));
    page.finish()
}

/// The claim that no stage of the path has a packet or frame more or less than its counters explain.
pub(super) fn prove_places(report: &DemoReport) -> Proof {
    let places = places::places(report);
    let open: Vec<String> =
        places.iter().filter(|place| !place.is_explained()).map(places::Place::open).collect();
    let sums = [&report.recorded.receive.unbalanced, &report.second.unbalanced, &report.check.unbalanced];
    let wrong: Vec<String> = sums.into_iter().flatten().cloned().chain(open).collect();
    Proof {
        claim: "every packet is accounted for at every stage",
        held: wrong.is_empty(),
        evidence: match wrong.is_empty() {
            true => format!("{} stages, every difference explained by counters", places.len()),
            false => wrong.join("; "),
        },
    }
}

fn headline(page: &mut Page, report: &DemoReport) {
    let receive = &report.recorded.receive;
    let held = report.proofs.iter().filter(|p| p.held).count();
    let all = report.proofs.len();
    page.headline(
        &format!("{} for {:.1} s,", print::rate(receive.bits_per_second), receive.seconds),
        Some((held == all, &format!("{held} of {all} checks passed"))),
        &[
            &format!(
                "Received over UDP, put in place, recorded on {} disks, and sent on to a second receiver at the same \
                 time.",
                report.recorded.recording.disks.len()
            ),
            &format!("The network: {}.", report.faults.replace(',', ", ")),
            &report.machine,
        ],
    );
}

fn tiles(report: &DemoReport) -> [Tile; 8] {
    let receive = &report.recorded.receive;
    let n = words::number;
    let (placed, lost) = (receive.placed(), receive.lost());
    let of = |why: &str| -> u64 { receive.streams.iter().filter_map(|s| s.rejects.get(why)).sum() };
    let reordered: u64 = receive.streams.iter().map(|s| s.reordered).sum();
    let depth = receive.streams.iter().map(|s| s.reorder_extent.max).max().unwrap_or(0);
    let percent = lost as f64 / (placed as f64 + lost as f64).max(1.0) * 100.0;
    let cpu = |value: f64| format!("{value:.3} s/GB");
    [
        Tile::new("frames placed", n(placed), format!("of {} of the stream", n(placed.saturating_add(lost)))),
        Tile::new("frames lost", n(lost), format!("{percent:.3} % of the stream")),
        Tile::new("duplicate packets refused", n(of("duplicate")), format!("and {} late", n(of("late")))),
        Tile::new("packets out of order", n(reordered), format!("by up to {} packets", n(depth))),
        Tile::new(
            "acknowledged",
            print::bytes(report.recorded.recording.acknowledged_bytes()),
            "durable, with their index record",
        ),
        Tile::new(
            "kernel drops",
            n(receive.kernel_drops()),
            format!("packets; {} without memory", n(receive.no_buffer())),
        ),
        Tile::new(
            "CPU to receive",
            cpu(receive.cpu.path_seconds_per_gb),
            format!("the whole process {}", cpu(receive.cpu.process_seconds_per_gb)),
        ),
        Tile::new(
            "read back for the checks",
            print::bytes(report.check.bytes),
            format!("in {} s", short(report.check.seconds)),
        ),
    ]
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
        let _ = write!(
            text,
            " The sender's counter restarted {}: parts overlap.",
            crate::print::counted(u64::from(stream.restarts), "time")
        );
    }
    text
}

fn stream_plots(report: &DemoReport, stream: &StreamSummary) -> String {
    let (runs, extent) = (losses::runs(&stream.loss_runs), losses::extent(&stream.reorder_extent));
    let map = losses::map(stream, report.first_number);
    map + &pair(("Runs of lost frames", &runs), ("Packets out of order", &extent))
}

#[cfg(test)]
mod tests;
