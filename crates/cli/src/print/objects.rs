//! What is said of heaps and events.

use super::{bytes, count, rejects};
use skyhaul::receive::ObjectCounts;
use skyhaul::report::{ReceiveReport, SourceReport};
use std::fmt::Write as _;

/// What became of them, in some lines.
pub(super) fn lines(out: &mut String, r: &ReceiveReport) {
    for (name, counts) in &r.objects {
        let _ = writeln!(
            out,
            "  {} {name} whole, {} incomplete ({} of them missing), {}, {} of payload",
            count(counts.complete),
            count(counts.incomplete),
            bytes(counts.missing_bytes),
            missing(counts),
            bytes(counts.payload_bytes),
        );
        dropped(out, name, counts.ring_full, "they were taken too slowly");
    }
    dropped(out, "objects", r.left_at_the_end(), "they waited for room when it was stopped");
    paused(out, r);
    transport(out, r);
    if r.repeated() > 0 {
        let _ = writeln!(
            out,
            "  {} heaps refused: their counters came a second time while the first heaps were remembered\n  hint: a sender that began anew without a start item? a shorter --remember lets it begin again; --by-sender if several senders count alike",
            count(r.repeated())
        );
    }
    if !r.rejects.is_empty() && r.streams.is_empty() {
        let _ = writeln!(out, "  packets refused: {}", rejects(&r.rejects));
    }
    if r.rejects.contains_key("outside") {
        let _ = writeln!(
            out,
            "  hint: outside: heaps larger than --largest-heap or than --memory can hold; give more of both, if they are meant"
        );
    }
    if r.rejects.contains_key("no_buffer") {
        let _ = writeln!(
            out,
            "  hint: no buffer: give more --memory or a faster disk, or a smaller --largest-heap if heaps claim more than they hold"
        );
    }
}

/// For a progress line.
pub(crate) fn live(r: &ReceiveReport) -> String {
    let one = |(name, counts): (&String, &ObjectCounts)| {
        let missing = counts.missing.map_or("?".into(), count);
        let (complete, incomplete) = (count(counts.complete), count(counts.incomplete));
        format!("  {complete} {name}  incomplete {incomplete}  missing {missing}")
    };
    r.objects.iter().map(one).collect()
}

/// Finished ones for which there was no room.
fn dropped(out: &mut String, name: &str, how_many: u64, why: &str) {
    if how_many > 0 {
        let _ = writeln!(
            out,
            "  {} finished {name} dropped: {why}\n  hint: give more --memory, or write to a faster disk",
            count(how_many)
        );
    }
}

/// Those of which nothing came.
fn missing(counts: &ObjectCounts) -> String {
    match (counts.missing, counts.unknown_senders) {
        (None, _) => "missing not known".into(),
        (Some(n), 0) => format!("{} missing", count(n)),
        (Some(n), unknown) => format!("{} missing (not known of {} senders)", count(n), count(unknown)),
    }
}

/// Time in which this program could not read.
fn paused(out: &mut String, r: &ReceiveReport) {
    let get = |name: &str| r.counters.get(name).copied().unwrap_or(0);
    if get("pauses") > 0 {
        let _ = writeln!(
            out,
            "  nothing was read for {:.1} s ({} times: the program was stopped, or had no processor); what the sockets had \
             no room for meanwhile is among the kernel drops",
            get("paused_ms") as f64 / 1e3,
            get("pauses")
        );
    }
}

/// How TCP connections came and went, and bytes that became part of nothing.
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
            ("closed_orderly", "ended in order"),
            ("closed_mid_packet", "ended within a packet"),
            ("closed_reset", "reset"),
            ("closed_timed_out", "fell silent for good"),
        ],
    );
    list(
        "bytes not used",
        &[("skipped_bytes", "that belong to no packet"), ("refused_bytes", "of refused packets")],
    );
}

/// Records of a capture that held several packets, and those without a whole datagram: what they were, and how to have
/// none.
pub(super) fn capture(out: &mut String, source: &SourceReport) {
    if source.cut_trains > 0 {
        let _ = writeln!(
            out,
            "  {} records held several packets (GSO, GRO) and were cut into them",
            count(source.cut_trains)
        );
    }
    if source.truncated + source.malformed + source.fragments > 0 {
        let _ = writeln!(
            out,
            "  without a whole datagram: {} cut short, {} with wrong lengths or checksum, {} fragments\n  hint: capture whole packets (tcpdump -s 0); a sender with --packet mtu sends no fragments",
            count(source.truncated),
            count(source.malformed),
            count(source.fragments)
        );
    }
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
    fn a_pause_is_told() {
        assert_eq!(text(&[]), "");
        let text = text(&[("pauses", 2), ("paused_ms", 6300)]);
        assert!(text.contains("nothing was read for 6.3 s (2 times:"));
    }

    #[test]
    fn connections_and_bytes_are_told_where_there_are_some() {
        assert_eq!(
            text(&[
                ("connections", 5),
                ("connections_refused", 4000),
                ("closed_reset", 1),
                ("skipped_bytes", 12)
            ]),
            "  TCP connections: 5 accepted, 4 000 refused, 1 reset\n  bytes not used: 12 that belong to no packet\n"
        );
    }
}
