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

/// By the last part of a path whose name says it: in `rejects.duplicate`, and in `cpu.seconds`, both count.
pub(super) fn better(path: &str) -> Better {
    for part in outside_brackets(path).rsplit('.') {
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
        ] {
            assert_eq!(better(path), way, "{path}");
        }
        assert!(rank("pass") < rank("warn") && rank("warn") < rank("fail") && rank("quiet").is_none());
    }
}
