//! Which way a figure is better, by the words of its name; and words that have an order.

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    High,
    Low,
    Unknown,
}

/// Words of figures that had better be low. They go before the others: `bytes_lost` is a loss.
const LOW: [&str; 46] = [
    "lost",
    "loss",
    "losses",
    "lossy",
    "drop",
    "drops",
    "dropped",
    "missing",
    "missed",
    "late",
    "doubled",
    "duplicate",
    "duplicates",
    "duplicated",
    "reordered",
    "disorder",
    "reject",
    "rejects",
    "rejected",
    "refused",
    "illegal",
    "invalid",
    "error",
    "errors",
    "failed",
    "failures",
    "retransmits",
    "retransmitted",
    "timeouts",
    "discards",
    "strangers",
    "expired",
    "unexplained",
    "residual",
    "overruns",
    "cpu",
    "latency",
    "jitter",
    "delay",
    "rtt",
    "rttvar",
    "wait",
    "stall",
    "stalls",
    "shortfall",
    "conflicts",
];
/// Words of figures that had better be high.
const HIGH: [&str; 14] = [
    "rate",
    "rates",
    "throughput",
    "bandwidth",
    "gbps",
    "mbps",
    "whole",
    "complete",
    "effective",
    "efficiency",
    "goodput",
    "iops",
    "bits_per_second",
    "per_second",
];
/// From good to bad.
const ORDER: [&[&str]; 5] = [
    &["pass", "passed", "ok", "whole", "held"],
    &["info", "not_applicable"],
    &["unknown"],
    &["warn", "warning", "incomplete"],
    &["fail", "failed", "broken"],
];

/// Place of a word between good and bad.
pub(super) fn rank(word: &str) -> Option<usize> {
    ORDER.iter().position(|words| words.contains(&word))
}

/// By how much a figure of one run differs in the next, though nothing changed: up to this factor, and by so much in its own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    pub(super) factor: f64,
    pub(super) floor: f64,
}

/// Words of figures that one late packet or another program changes.
const UNSTEADY: [&str; 10] =
    ["max", "most", "p99", "jitter", "variation", "rttvar", "cpu", "wait", "stall", "retransmits"];
/// Words of times on a path.
const DELAYS: [&str; 6] = ["delay", "latency", "rtt", "jitter", "rttvar", "variation"];

/// The noise of a figure without a spread of its own.
pub(super) fn noise(path: &str) -> Noise {
    let path = outside_brackets(path);
    let has = |all: &[&str]| path.split(['.', '_', '-', ' ']).any(|own| all.contains(&own));
    let factor = if has(&UNSTEADY) { 2.0 } else { 1.0 };
    // A millisecond of one packet, a third of one in the mean, are the hosts'.
    let milliseconds = if factor > 1.0 { 1.0 } else { 0.3 };
    let in_ns = path.split(['.', '_']).any(|part| part == "ns");
    let floor = match () {
        () if has(&["retransmits"]) => 1000.0,
        () if has(&["cpu"]) => 0.25,
        () if in_ns => milliseconds * 1e6,
        () if has(&DELAYS) => milliseconds * 1e-3,
        () => 0.0,
    };
    Noise { factor, floor }
}

/// By the last part of a path whose name says it: in `rejects.duplicate`, and in `cpu.seconds`, both count.
pub(super) fn better(path: &str) -> Better {
    let path = outside_brackets(path);
    // What all programs of a host did meanwhile is no figure of this one.
    let of_host = path.split_once("counters.").is_some_and(|(_, name)| name.starts_with("cpu"));
    if of_host {
        return Better::Unknown;
    }
    for part in path.rsplit('.') {
        let has = |all: &[&str]| {
            let word = |word: &&str| part.split(['_', '-', ' ']).any(|own| own == *word);
            all.iter().any(|name| word(name) || (name.contains('_') && part.contains(name)))
        };
        if has(&LOW) || part.contains("seconds_per") {
            return Better::Low;
        }
        if has(&HIGH) {
            return Better::High;
        }
    }
    Better::Unknown
}

/// The path without what tells elements of lists apart, which may contain any word.
fn outside_brackets(path: &str) -> String {
    let mut depth = 0usize;
    path.chars()
        .filter(|c| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_way_is_better() {
        for (path, way) in [
            ("bits_per_second", Better::High),
            ("points[rate=1000].whole", Better::High),
            ("points[rate=1000].events", Better::Unknown),
            ("cpu.path_seconds_per_gb", Better::Low),
            ("streams[id=0].rejects.duplicate", Better::Low),
            ("streams[0].bytes_lost", Better::Low),
            ("packets_per_second", Better::High),
            ("seconds", Better::Unknown),
            ("lost", Better::Low),
            ("placed", Better::Unknown),
            ("points[0].client.counters.cpu.idle", Better::Unknown),
            ("points[0].client.counters.cpu1.system", Better::Unknown),
            ("points[0].client.counters.udp.buffer_full", Better::Unknown),
            ("points[0].client.counters.backlog.dropped", Better::Low),
        ] {
            assert_eq!(better(path), way, "{path}");
        }
        assert!(rank("pass") < rank("warn") && rank("warn") < rank("fail") && rank("quiet").is_none());
    }
}
