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
//!
//! From stage to stage: how many frames got there, and what explains the difference.
//!
//! ```text
//!   sender ─▶ socket ─▶ stream ─▶ placed ─▶ acknowledged ─▶ read back
//!                                    └────▶ forwarded ─▶ second socket ─▶ second receiver
//! ```

use crate::print;
use crate::report::chart::{Chart, HALF, Panel, Series};
use crate::report::drawing::Scale;
use crate::report::map::LossMap;
use crate::report::page::{Page, Tile, claims, pair, titled};
use crate::report::table::Table;
use crate::report::words::{self, nothing, number, short};
use crate::verb::demo::proofs::{DemoReport, Proof};
use skyhaul::report::{Distribution, ReceiveReport, RejectCounts, StreamSummary};
use std::fmt::Write as _;

mod disks;

/// Maximum number of loss maps.
const MAX_STREAMS: usize = 8;

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
    for stream in receive.streams.iter().take(MAX_STREAMS) {
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
    page.section("Every packet accounted for", caption, &table(report));
    page.source(&report.command, &words::json(report));
    page.finish()
}

/// The claim that no stage of the path has a packet or frame more or less than its counters explain.
pub(super) fn prove_places(report: &DemoReport) -> Proof {
    let places = places(report);
    let open: Vec<String> = places.iter().filter(|place| !place.is_explained()).map(Place::open).collect();
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
    let (runs, extent) = (runs(&stream.loss_runs), extent(&stream.reorder_extent));
    let map = map(stream, report.first_number);
    map + &pair(("Runs of lost frames", &runs), ("Packets out of order", &extent))
}

#[cfg(test)]
mod tests;

/// The loss map of one stream. `first` is the number of the first packet as far as it is known; the stream's own map
/// corrects what cannot be.
fn map(stream: &StreamSummary, first: u64) -> String {
    let span = stream.placed.saturating_add(stream.lost);
    let lowest = stream.loss_map.iter().map(|r| r.0).min().unwrap_or(first);
    let first = if lowest < first || lowest - first > span { lowest } else { first };
    let label = format!("Loss map of the stream from {}", stream.sender);
    LossMap { label, unit: "frames", first, span, lost: &stream.loss_map }.inline()
}

/// How many runs of lost frames had which length; the counts are on a logarithmic axis.
fn runs(runs: &Distribution) -> String {
    let counts: Vec<(f64, f64, f64)> = bounds(runs).map(|(from, to, n)| (from, to, n as f64)).collect();
    let up = Scale::log("number of runs").from(0.5).at_least(3.2);
    bars(&counts, "runs of lost frames by length", up, "length of the run, frames")
}

/// How far behind the reordered packets were, per packet of distance.
fn extent(extent: &Distribution) -> String {
    let counts: Vec<(f64, f64, f64)> =
        bounds(extent).map(|(from, to, n)| (from, to, n as f64 / (to - from))).collect();
    let up = Scale::linear("packets per distance");
    bars(&counts, "late packets", up, "packets behind the highest number")
}

/// Buckets as (first value, behind the last, count): values below 16 have one each, then they are 1/8 octave wide.
fn bounds(distribution: &Distribution) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
    let largest = distribution.max.max(1);
    distribution.buckets.iter().map(move |&(from, n)| {
        let width = if from < 8 { 1 } else { 1u64 << (from.ilog2() - 3) };
        let to = from.saturating_add(width).min(largest.saturating_add(1)).max(from.saturating_add(1));
        (from as f64, (to as f64).max(from as f64 + 1.0), n)
    })
}

fn bars(bars: &[(f64, f64, f64)], label: &str, up: Scale, along: &str) -> String {
    if bars.is_empty() {
        return nothing("None.");
    }
    let last = bars.iter().map(|b| b.1).fold(1.0, f64::max);
    let (shift, x) = if last <= 130.0 {
        (0.5, Scale::linear(along).to(last.max(8.0)))
    } else {
        (0.0, Scale::log(along).from(0.9).to(last * 1.1))
    };
    let tip = |&(from, to, n): &(f64, f64, f64)| {
        if to - from > 1.0 {
            format!("{} to {}: {}", number(from as u64), number(to as u64 - 1), short(n))
        } else {
            format!("{}: {}", number(from as u64), number(n.round() as u64))
        }
    };
    let whole = |v: f64| if v.fract() == 0.0 { number(v as u64) } else { String::new() };
    let series = Series::bars("", bars.iter().map(|&(from, to, n)| (from - shift, to - shift, n)))
        .tips(bars.iter().map(tip).collect());
    let panel = Panel::new(180.0, up.words(|v| number(v as u64))).series(series);
    Chart::new(label).x(x.words(whole)).panel(panel).inline(HALF)
}

/// A stage of the path.
struct Place {
    name: &'static str,
    /// Frames that got there.
    count: u64,
    /// Difference from the stage before.
    difference: i128,
    /// The part of it that counters explain.
    explained: i128,
    why: String,
    /// Branches off after `placed`.
    branch: bool,
}

impl Place {
    /// Whether a counter explains every frame of the difference.
    fn is_explained(&self) -> bool {
        self.difference == self.explained
    }

    /// What no counter explains.
    fn open(&self) -> String {
        format!("{}: {} unexplained", self.name, words::difference(self.difference - self.explained))
    }
}

fn sum(rejects: &RejectCounts) -> u64 {
    rejects.values().fold(0, |a, b| a.saturating_add(*b))
}

fn rejected(report: &ReceiveReport) -> (i128, String) {
    let mut all = RejectCounts::new();
    for (why, n) in report.streams.iter().flat_map(|s| &s.rejects) {
        let entry = all.entry(why.clone()).or_default();
        *entry = entry.saturating_add(*n);
    }
    (-i128::from(sum(&all)), format!("refused: {}", print::rejects(&all)))
}

/// All stages in order.
fn places(report: &DemoReport) -> Vec<Place> {
    let mut all: Vec<Place> = Vec::new();
    let mut add = |name, before: u64, count: u64, explained: i128, why: String, branch| {
        let difference = i128::from(count) - i128::from(before);
        all.push(Place { name, count, difference, explained, why, branch });
        count
    };
    let (sent, receive, second) = (&report.sent, &report.recorded.receive, &report.second);
    let packets = |r: &ReceiveReport| r.sources.iter().fold(0u64, |a, s| a.saturating_add(s.packets));
    let of_streams = |r: &ReceiveReport| r.streams.iter().fold(0u64, |a, s| a.saturating_add(s.packets));
    let n = words::number;
    let made =
        add("generated by the sender", sent.numbered, sent.numbered, 0, "the whole stream".into(), false);
    let why =
        format!("withheld {}, duplicated {}, refused {}", n(sent.lost), n(sent.duplicated), n(sent.refused));
    let explained = i128::from(sent.duplicated) - i128::from(sent.lost) - i128::from(sent.refused);
    let wire = add("sent", made, sent.packets, explained, why, false);
    let drops = receive.kernel_drops();
    let socket = add(
        "read from the socket",
        wire,
        packets(receive),
        -i128::from(drops),
        format!("kernel drops {}", n(drops)),
        false,
    );
    let strangers = receive.strangers;
    let why = format!("packets outside any stream {}", n(strangers));
    let stream = add("belong to a stream", socket, of_streams(receive), -i128::from(strangers), why, false);
    let (explained, why) = rejected(receive);
    let placed = add("placed", stream, receive.placed(), explained, why, false);
    let books = &report.recorded.recording.ledger;
    let given_up = books.discarded.saturating_add(books.pending).saturating_add(books.damaged);
    let why =
        format!("discarded {}, pending {}, gone {}", n(books.discarded), n(books.pending), n(books.damaged));
    let explained = -i128::from(given_up);
    let durable = add("acknowledged (durable on a disk)", placed, books.recorded, explained, why, false);
    let checks = &report.check.datastreams;
    let seen = checks.iter().fold(0u64, |a, d| a.saturating_add(d.frames_seen));
    let illegal = checks.iter().fold(0u64, |a, d| a.saturating_add(d.illegal_frames));
    let filled = checks.iter().fold(0u64, |a, d| a.saturating_add(d.filled_frames));
    let right = seen.saturating_sub(illegal).saturating_sub(filled);
    let why = format!("wrong {}", n(illegal));
    add("read back, match the pattern", durable, right, -i128::from(illegal), why, false);
    let forward = &receive.forward;
    let on = forward.iter().fold(0u64, |a, t| a.saturating_add(t.frames));
    let dropped = forward.iter().map(|t| t.dropped_queue.saturating_add(t.dropped_refused));
    let dropped = dropped.fold(0, u64::saturating_add);
    // Frames are forwarded as they arrive: those that were cut off later, as parts of incomplete sets, were forwarded too.
    let cut = receive.forwarded_then_refused();
    let explained = i128::from(cut) - i128::from(dropped);
    let why =
        format!("forwarded before they were cut off as incomplete sets {}, dropped {}", n(cut), n(dropped));
    let on = add("forwarded", placed, on, explained, why, true);
    let drops = second.kernel_drops();
    let why = format!("kernel drops {}", n(drops));
    let socket =
        add("second receiver: read from the socket", on, packets(second), -i128::from(drops), why, false);
    let (explained, why) = rejected(second);
    let explained = explained - i128::from(second.strangers);
    add("second receiver: placed", socket, second.placed(), explained, why, false);
    all
}

/// The stages as a table.
fn table(report: &DemoReport) -> String {
    let mut table = Table::new(&["Stage", "#Packets or frames", "#Difference", "Counters"]);
    for place in places(report) {
        let open = match place.is_explained() {
            true => String::new(),
            false => format!("✘ unexplained {}", words::difference(place.difference - place.explained)),
        };
        let (class, name) = match place.branch {
            true => ("branch", format!("{} (of the frames placed)", place.name)),
            false => ("", place.name.to_string()),
        };
        let cells = [name, words::number(place.count), words::difference(place.difference), place.why];
        table.add(&cells, class, &open);
    }
    table.html()
}
