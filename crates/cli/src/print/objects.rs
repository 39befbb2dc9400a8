//! The lines about heaps and events in a summary.

use super::{bytes, count, counted, rejects};
use skyhaul::core::hint::{Hint, lines as with_hints};
use skyhaul::receive::ObjectCounts;
use skyhaul::report::{ReceiveReport, SessionReport, SourceReport};
use std::fmt::Write as _;

/// Their counts, and what was dropped or refused, as lines of text.
pub(super) fn lines(out: &mut String, r: &ReceiveReport) {
    for (name, counts) in &r.objects {
        let _ = writeln!(
            out,
            "  {} complete, {} incomplete (lacking {}), {}, {} of payload",
            counted(counts.complete, singular(name)),
            count(counts.incomplete),
            bytes(counts.missing_bytes),
            missing(counts),
            bytes(counts.payload_bytes),
        );
        dropped(out, name, counts.ring_full, "they were not consumed fast enough");
    }
    dropped(
        out,
        "objects",
        r.left_at_the_end(),
        "they were still waiting for room when the receiver was stopped",
    );
    ticks(out, r);
    paused(out, r);
    transport(out, r);
    if r.repeated() > 0 {
        let what = "their counters were received again while the first heaps were still remembered";
        let hint = "if a sender restarted without sending a start item, use a shorter --remember; if several senders use the same counters, use --by-sender";
        line(out, &format!("{} refused: {what}{}", counted(r.repeated(), "heap"), Hint(hint)));
    }
    if !r.rejects.is_empty() && r.streams.is_empty() {
        let _ = writeln!(out, "  packets refused: {}", rejects(&r.rejects));
    }
    for (why, hint) in REMEDIES {
        if r.rejects.contains_key(why) {
            line(out, &Hint(format_args!("{}: {hint}", why.replace('_', " "))).to_string());
        }
    }
}

/// What to do about refused packets, by the reason.
const REMEDIES: [(&str, &str); 3] = [
    (
        "outside",
        "these heaps are larger than --largest-heap or than --memory can hold; raise both if such heaps are expected",
    ),
    (
        "wrong_size",
        "packets of one event or heap state different sizes; those that no second packet agrees with were refused: look for a faulty or foreign sender with `skyhaul inspect`",
    ),
    (
        "no_buffer",
        "use more --memory or a faster disk, or a smaller --largest-heap if heaps declare more than they contain",
    ),
];

/// A line of the summary, with its hint below.
fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}", with_hints("  ", text));
}

/// Ticks that were built, if any were to be.
fn ticks(out: &mut String, r: &ReceiveReport) {
    let Some(ticks) = &r.building else { return };
    let _ = writeln!(
        out,
        "  ticks: {} complete, {} partial ({} of them for lack of memory); events in no tick: {} late, {} duplicate, {} incomplete, {} from other sources",
        count(ticks.whole),
        count(ticks.partial),
        count(ticks.crowded),
        count(ticks.late),
        count(ticks.doubled),
        count(ticks.incomplete),
        count(ticks.other_sources)
    );
}

/// The same for a progress line.
pub(crate) fn live(r: &ReceiveReport) -> String {
    let one = |(name, counts): (&String, &ObjectCounts)| {
        let missing = counts.missing.map_or("?".into(), count);
        let (complete, incomplete) = (counted(counts.complete, singular(name)), count(counts.incomplete));
        format!("  {complete}  incomplete {incomplete}  missing {missing}")
    };
    r.objects.iter().map(one).collect()
}

/// One of these objects.
fn singular(name: &str) -> &str {
    name.trim_end_matches('s')
}

/// Finished heaps or events for which there was no room.
fn dropped(out: &mut String, name: &str, how_many: u64, why: &str) {
    if how_many > 0 {
        let dropped = counted(how_many, &format!("finished {}", singular(name)));
        let hint = Hint("use more --memory, or write to a faster disk");
        line(out, &format!("{dropped} dropped: {why}{hint}"));
    }
}

/// Heaps or events of which nothing arrived.
fn missing(counts: &ObjectCounts) -> String {
    match (counts.missing, counts.unknown_senders) {
        (None, _) => "number missing unknown".into(),
        (Some(n), 0) => format!("{} missing", count(n)),
        (Some(n), unknown) => format!("{} missing (unknown for {})", count(n), counted(unknown, "sender")),
    }
}

/// Time during which this program could not read.
fn paused(out: &mut String, r: &ReceiveReport) {
    let get = |name: &str| r.counters.get(name).copied().unwrap_or(0);
    if get("pauses") > 0 {
        let _ = writeln!(
            out,
            "  nothing was read for {:.1} s in total ({}: the program was stopped, or got no CPU time); packets \
             that did not fit into the socket buffers meanwhile are counted as kernel drops",
            get("paused_ms") as f64 / 1e3,
            counted(get("pauses"), "pause")
        );
    }
}

/// TCP connections by how they ended, and bytes that were not used.
fn transport(out: &mut String, r: &ReceiveReport) {
    let mut list = |what: &str, names: &[(&str, &str)]| {
        let there = names.iter().filter_map(|(name, what)| Some((r.counters.get(*name)?, what)));
        let list = there.map(|(n, what)| format!("{} {what}", count(*n))).collect::<Vec<_>>().join(", ");
        if !list.is_empty() {
            let _ = writeln!(out, "  {what}: {list}");
        }
    };
    list(
        "TCP connections",
        &[
            ("connections", "accepted"),
            ("connections_refused", "refused"),
            ("closed_orderly", "closed normally"),
            ("closed_mid_packet", "closed within a packet"),
            ("closed_reset", "reset"),
            ("closed_timed_out", "timed out"),
        ],
    );
    list("unused bytes", &[("skipped_bytes", "outside any packet"), ("refused_bytes", "of refused packets")]);
}

/// Records of a capture that hold several packets, and those without a whole datagram: their kinds, and how to avoid them.
pub(super) fn capture(out: &mut String, source: &SourceReport) {
    if source.cut_trains > 0 {
        let _ = writeln!(
            out,
            "  {} with several packets (GSO, GRO), which were received one by one",
            counted(source.cut_trains, "record")
        );
    }
    if source.truncated + source.malformed + source.fragments > 0 {
        let text = format!(
            "records without a whole datagram: {} truncated, {} with a wrong length or checksum, {}{}",
            count(source.truncated),
            count(source.malformed),
            counted(source.fragments, "fragment"),
            Hint("capture whole packets (tcpdump -s 0); to avoid fragments, send with --packet mtu")
        );
        line(out, &text);
    }
}

/// What became of a worker, if there was one.
pub(super) fn worker_lines(out: &mut String, worker: Option<&SessionReport>) {
    let Some(w) = worker else { return };
    let _ = writeln!(
        out,
        "  worker {} of balancer {} ({}): {} arrived, {} taken; {} reported, {} not",
        w.name,
        w.balancer,
        w.control_plane,
        counted(w.events, "event"),
        count(w.taken),
        counted(w.reports, "state"),
        count(w.reports_failed)
    );
    let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) };
    if w.registrations > 1 {
        let _ =
            writeln!(out, "    registered {}: the control plane had forgotten it", times(w.registrations));
    }
    if w.times_away > 0 {
        let _ = writeln!(
            out,
            "    control plane unreachable {}, {:.1} s in total",
            times(w.times_away),
            w.seconds_away
        );
    }
    let _ = match &w.error {
        _ if w.removed => writeln!(out, "    removed by an operator of the balancer"),
        _ if w.has_left => writeln!(out, "    left after {:.1} s", w.seconds_leaving),
        Some(error) => writeln!(out, "    did not leave cleanly: {error}"),
        None => writeln!(out, "    did not leave cleanly"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(counters: &[(&str, u64)]) -> String {
        let counters = counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let mut out = String::new();
        lines(&mut out, &ReceiveReport { counters, ..ReceiveReport::default() });
        out
    }

    #[test]
    fn a_pause_is_reported() {
        assert_eq!(text(&[]), "");
        let text = text(&[("pauses", 2), ("paused_ms", 6300)]);
        assert!(text.contains("nothing was read for 6.3 s in total (2 pauses:"));
    }

    #[test]
    fn connections_and_bytes_are_reported_if_there_are_any() {
        assert_eq!(
            text(&[
                ("connections", 5),
                ("connections_refused", 4000),
                ("closed_reset", 1),
                ("skipped_bytes", 12)
            ]),
            "  TCP connections: 5 accepted, 4 000 refused, 1 reset\n  unused bytes: 12 outside any packet\n"
        );
    }

    #[test]
    fn a_session_is_told_in_few_lines() {
        let mut w = SessionReport {
            name: "w".into(),
            balancer: "1".into(),
            has_left: true,
            ..SessionReport::default()
        };
        let text = |w: &SessionReport| {
            let mut out = String::new();
            worker_lines(&mut out, Some(w));
            out
        };
        assert_eq!(text(&w).lines().count(), 2);
        (w.registrations, w.times_away, w.has_left, w.error) = (3, 1, false, Some("gone".into()));
        let text = text(&w);
        assert!(text.contains("registered 3 times") && text.contains("unreachable once"), "{text}");
        assert!(text.contains("did not leave cleanly: gone"), "{text}");
        let mut none = String::new();
        worker_lines(&mut none, None);
        assert!(none.is_empty());
    }
}
