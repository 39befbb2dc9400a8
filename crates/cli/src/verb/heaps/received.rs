//! What `skyhaul receive --format spead` and `record` tell at their end.

use super::consume::Consumer;
use crate::print;
use crate::verb::receiving::NOTHING;
use serde::Serialize;
use skyhaul::report::{Cpu, SourceReport, VERSION};
use skyhaul::spead::receive::Stats;
use std::collections::BTreeMap;
use std::time::Duration;

/// What was received.
#[derive(Serialize)]
pub(crate) struct SpeadReceiveReport {
    version: u32,
    /// Why it ended.
    ended: &'static str,
    /// From the first heap to the last.
    seconds: f64,
    heaps: HeapCounts,
    heaps_per_second: f64,
    /// Bits per second of heap payload.
    bits_per_second: f64,
    payload_bytes: u64,
    wire_bytes: u64,
    packets: u64,
    /// Packets refused, by reason.
    rejects: BTreeMap<String, u64>,
    /// Every other counter of the stream.
    counters: BTreeMap<String, u64>,
    sources: Vec<SourceReport>,
    /// Heaps whose payload is not the pattern, with --verify.
    pattern_errors: Option<u64>,
    cpu: Cpu,
    notes: Vec<String>,
}

impl SpeadReceiveReport {
    /// Whether packets came and none of them was of use.
    fn is_all_refused(&self) -> bool {
        let unread: u64 = self.sources.iter().map(unread).sum();
        self.packets + unread > 0 && self.rejects.values().sum::<u64>() >= self.packets
    }

    /// Finished heaps that waited for room when it was stopped; behind a limit nobody wanted them.
    fn left_at_the_end(&self) -> u64 {
        let left = self.counters.get("stopped").copied().unwrap_or(0);
        if matches!(self.ended, "limit" | "reader gone") { 0 } else { left }
    }

    /// Whole heaps that were refused for others with their counters.
    fn repeated(&self) -> u64 {
        self.counters.get("repeated_heaps").copied().unwrap_or(0)
    }

    /// Whether a capture ends before its end, which its reader's note tells.
    fn is_cut_short(&self) -> bool {
        self.sources.iter().any(|source| source.cut_short > 0)
    }

    /// Whether everything came that was sent, as far as that is known, and nothing else.
    pub(super) fn is_whole(&self) -> bool {
        let drops: u64 = self.sources.iter().map(|source| source.socket_drops).sum();
        let heaps = &self.heaps;
        let lost = heaps.incomplete
            + heaps.missing.unwrap_or(0)
            + heaps.ring_full
            + self.left_at_the_end()
            + drops
            + self.refused_by_limits();
        // Nothing but refused packets is nothing.
        let nothing = self.is_all_refused() || self.ended == "nothing";
        let whole = self.repeated() == 0 && !self.is_cut_short();
        self.pattern_errors.unwrap_or(0) == 0 && lost == 0 && !nothing && whole
    }

    /// Packets that could have been taken with other limits.
    fn refused_by_limits(&self) -> u64 {
        ["no_buffer", "outside"].iter().filter_map(|why| self.rejects.get(*why)).sum()
    }
}

/// Heaps by what became of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct HeapCounts {
    pub(super) complete: u64,
    pub(super) incomplete: u64,
    /// Nothing of them came, by the gaps in their senders' counters; none where that is not known of any sender.
    pub(super) missing: Option<u64>,
    /// Senders of which it is not known: their counters have no regular step.
    pub(super) unknown_senders: u64,
    /// Finished, but the consumer was too slow.
    pub(super) ring_full: u64,
    /// Bytes that are missing in the incomplete ones.
    pub(super) missing_bytes: u64,
}

pub(super) fn report(
    stats: &Stats,
    consumer: &Consumer,
    ended: &'static str,
    cpu: Duration,
) -> SpeadReceiveReport {
    let seconds = consumer.first.zip(consumer.last).map_or(0.0, |(a, b)| (b - a).as_secs_f64());
    let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let named = |prefix: &'static str, wanted: bool| {
        let all = stats.named().filter(move |(name, n)| *n > 0 && name.starts_with(prefix) == wanted);
        all.map(move |(name, n)| (name.trim_start_matches(prefix).to_owned(), n)).collect::<BTreeMap<_, _>>()
    };
    let counts = HeapCounts {
        missing: stats.missing.known(),
        unknown_senders: stats.missing.unknown_senders,
        ring_full: stats.total.ring_full,
        ..consumer.counts
    };
    let wire = stats.total.bytes;
    let path: Duration = stats.readers.iter().map(|reader| reader.cpu).sum();
    let per_gb = |cpu: Duration| if wire > 0 { cpu.as_secs_f64() * 1e9 / wire as f64 } else { 0.0 };
    SpeadReceiveReport {
        version: VERSION,
        ended,
        seconds,
        heaps: counts,
        heaps_per_second: per_second(counts.complete + counts.incomplete),
        bits_per_second: per_second(consumer.bytes) * 8.0,
        payload_bytes: consumer.bytes,
        wire_bytes: wire,
        packets: stats.total.packets,
        rejects: named("reject_", true),
        counters: named("reject_", false),
        sources: stats.readers.iter().map(|r| SourceReport::new(r.name.clone(), r.source.clone())).collect(),
        pattern_errors: consumer.verify.then_some(consumer.wrong),
        cpu: Cpu {
            path_seconds: path.as_secs_f64(),
            process_seconds: cpu.as_secs_f64(),
            path_seconds_per_gb: per_gb(path),
            process_seconds_per_gb: per_gb(cpu),
            joules_per_gb: None,
        },
        notes: stats
            .readers
            .iter()
            .filter_map(|r| Some(format!("{}: {}", r.name, r.error.as_ref()?)))
            .collect(),
    }
}

/// Packets in which no whole datagram was found.
fn unread(source: &SourceReport) -> u64 {
    source.truncated + source.malformed + source.fragments
}

/// What they were, and how to have none.
fn without_datagram(source: &SourceReport) -> String {
    if unread(source) == 0 {
        return String::new();
    }
    format!(
        "  without a whole datagram: {} cut short, {} with wrong lengths or checksum, {} fragments\n  hint: capture whole packets (tcpdump -s 0); a sender with --packet mtu sends no fragments\n",
        print::count(source.truncated),
        print::count(source.malformed),
        print::count(source.fragments)
    )
}

/// What was received, in some lines.
pub(super) fn summary(r: &SpeadReceiveReport) -> String {
    let mut out = format!(
        "received {} heaps whole, {} incomplete ({} of them missing), {}, {} in {:.1} s ({}), CPU {:.3} s/GB; ended: {}\n",
        print::count(r.heaps.complete),
        print::count(r.heaps.incomplete),
        print::bytes(r.heaps.missing_bytes),
        missing(&r.heaps),
        print::bytes(r.payload_bytes),
        r.seconds,
        print::rate(r.bits_per_second),
        r.cpu.path_seconds_per_gb,
        r.ended.replace('_', " ")
    );
    for s in &r.sources {
        out.push_str(&format!(
            "  {}  {} packets by tier {}, kernel drops {}, socket buffer {}\n",
            s.listen,
            print::count(s.packets),
            s.tier,
            print::count(s.socket_drops),
            print::bytes(s.buffer_granted)
        ));
        if s.cut_trains > 0 {
            out.push_str(&format!(
                "  {} records held several packets (GSO, GRO) and were cut into them\n",
                print::count(s.cut_trains)
            ));
        }
        out.push_str(&without_datagram(s));
        for remedy in &s.remedies {
            out.push_str(&format!("  hint: {remedy}\n"));
        }
    }
    out.push_str(&paused(&r.counters));
    out.push_str(&transport(&r.counters));
    out.push_str(&without_room(r));
    if r.repeated() > 0 {
        out.push_str(&format!(
            "  {} heaps refused: their counters came a second time while the first heaps were remembered\n  hint: a sender that began anew without a start item? a shorter --remember lets it begin again; --by-sender if several senders count alike\n",
            print::count(r.repeated())
        ));
    }
    if !r.rejects.is_empty() {
        out.push_str(&format!("  packets refused: {}\n", print::rejects(&r.rejects)));
        if r.rejects.contains_key("outside") {
            out.push_str("  hint: outside: heaps larger than --largest-heap or than --memory can hold; give more of both, if they are meant\n");
        }
        if r.rejects.contains_key("no_buffer") {
            out.push_str("  hint: no buffer: give more --memory or a faster disk, or a smaller --largest-heap if heaps claim more than they hold\n");
        }
    }
    if let Some(errors) = r.pattern_errors {
        out.push_str(&format!("  heaps whose payload is not the pattern: {}\n", print::count(errors)));
    }
    if r.ended == "nothing" {
        out.push_str(&format!("  {NOTHING}\n"));
    }
    for note in &r.notes {
        out.push_str(&format!("  note: {note}\n"));
    }
    out
}

/// Finished heaps for which there was no room.
fn without_room(r: &SpeadReceiveReport) -> String {
    const HINT: &str = "give more --memory, or write to a faster disk";
    let line = |heaps: u64, why: &str| match heaps {
        0 => String::new(),
        _ => format!("  {} finished heaps dropped: {why}\n  hint: {HINT}\n", print::count(heaps)),
    };
    line(r.heaps.ring_full, "they were taken too slowly")
        + &line(r.left_at_the_end(), "they waited for room when it was stopped")
}

/// Heaps of which nothing came.
fn missing(heaps: &HeapCounts) -> String {
    match (heaps.missing, heaps.unknown_senders) {
        (None, _) => "missing not known".into(),
        (Some(n), 0) => format!("{} missing", print::count(n)),
        (Some(n), unknown) => {
            format!("{} missing (not known of {} senders)", print::count(n), print::count(unknown))
        }
    }
}

/// Time in which this program could not read.
fn paused(counters: &BTreeMap<String, u64>) -> String {
    let get = |name: &str| counters.get(name).copied().unwrap_or(0);
    match get("pauses") {
        0 => String::new(),
        times => format!(
            "  nothing was read for {:.1} s ({times} times: the program was stopped, or had no processor); what the sockets had \
             no room for meanwhile is among the kernel drops\n",
            get("paused_ms") as f64 / 1e3
        ),
    }
}

/// How TCP connections came and went, and bytes that became part of no heap.
fn transport(counters: &BTreeMap<String, u64>) -> String {
    let list = |names: &[(&str, &str)]| {
        let there = names.iter().filter_map(|(name, what)| Some((counters.get(*name)?, what)));
        there.map(|(n, what)| format!("{} {what}", print::count(*n))).collect::<Vec<_>>().join(", ")
    };
    let connections = list(&[
        ("connections", "accepted"),
        ("connections_refused", "refused"),
        ("closed_orderly", "ended in order"),
        ("closed_mid_packet", "ended within a packet"),
        ("closed_reset", "reset"),
        ("closed_timed_out", "fell silent for good"),
    ]);
    let bytes =
        list(&[("skipped_bytes", "that belong to no packet"), ("refused_bytes", "of refused packets")]);
    let line = |what: &str, list: String| {
        if list.is_empty() { list } else { format!("  {what}: {list}\n") }
    };
    line("TCP connections", connections) + &line("bytes not used", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_told() {
        assert_eq!(paused(&BTreeMap::new()), "");
        let counters = [("pauses", 2), ("paused_ms", 6300)].map(|(name, n)| (name.to_owned(), n));
        assert!(paused(&counters.into()).contains("nothing was read for 6.3 s (2 times:"));
    }

    #[test]
    fn connections_and_bytes_are_told_where_there_are_some() {
        assert_eq!(transport(&BTreeMap::new()), "");
        let counters =
            [("connections", 5), ("connections_refused", 4000), ("closed_reset", 1), ("skipped_bytes", 12)];
        let counters = counters.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        assert_eq!(
            transport(&counters),
            "  TCP connections: 5 accepted, 4 000 refused, 1 reset\n  bytes not used: 12 that belong to no packet\n"
        );
    }
}
