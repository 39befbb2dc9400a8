//! Numbers and reasons in words.

use skyhaul::report::RejectCounts;

/// A count with spaces between groups of three digits.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A count with its noun: `1 file`, `2 000 files`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Reasons and counts in one line: `duplicates 3 235, late 12`.
pub(crate) fn rejects(counts: &RejectCounts) -> String {
    let parts: Vec<String> = counts.iter().map(|(why, n)| refusal(why, *n)).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

/// The same for a progress line: `  duplicates 3 235  late 12`, or nothing if nothing was refused.
pub(crate) fn live_rejects(counts: &RejectCounts) -> String {
    counts.iter().map(|(why, n)| format!("  {}", refusal(why, *n))).collect()
}

/// A reason as text, with its count.
fn refusal(why: &str, n: u64) -> String {
    let words = match why {
        "duplicate" => "duplicates".into(),
        "stray" => "strays".into(),
        other => other.replace('_', " "),
    };
    format!("{words} {}", count(n))
}
