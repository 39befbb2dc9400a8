//! How likely counts are if losses do not depend on what a rule says that they depend on.
//!
//! A rule that concludes from losses that are absent (none at low rates, none on other ports) asks how often chance alone spares as much. All
//! losses were counted, those of the spared part and those of the rest: each falls into the spared part with the probability that this has
//! of everything that was sent. So the number there is binomial, and the rate of loss need not be known.
//!
//! ```text
//!   loss events   ▮▮▮▮▮▮▮▮▮▮▮▮ ┊              p = (1 - part)^12 if they do not depend on the rate
//!   sent          high rates   ┊ low rates: `part` of all packets, or of all time
//! ```

/// How often, before any count, losses are taken not to be what a pattern says: once in so many cases.
const PRIOR: f64 = 10.0;

/// Probability of at most `seen` of `all` events in a part in which each is with the probability `part`.
pub(super) fn at_most(seen: u64, all: u64, part: f64) -> f64 {
    if seen >= all || part <= 0.0 {
        return 1.0;
    }
    if part >= 1.0 {
        return 0.0;
    }
    let (of, odds) = (all as f64, (part / (1.0 - part)).ln());
    let mut term = of * (1.0 - part).ln();
    let mut sum = term.exp();
    for n in 1..=seen {
        let n = n as f64;
        term += ((of - n + 1.0) / n).ln() + odds;
        sum += term.exp();
    }
    sum.min(1.0)
}

/// Probability of at least `seen` of `all` events in such a part.
pub(super) fn at_least(seen: u64, all: u64, part: f64) -> f64 {
    if seen > all { 0.0 } else { at_most(all - seen, all, 1.0 - part) }
}

/// Probability that `second` of `all` things, drawn without a look at `first` others of them, have at least `both` in common with these.
pub(super) fn in_common(all: u64, first: u64, second: u64, both: u64) -> f64 {
    // Draw one after the other: `chances[n]` is the probability of n in common so far.
    let mut chances = vec![1.0];
    for drawn in 0..second.min(all) {
        let left = (all - drawn) as f64;
        let mut next = vec![0.0; chances.len() + 1];
        for (n, chance) in chances.iter().enumerate() {
            let hit = first.saturating_sub(n as u64) as f64 / left;
            next[n + 1] += chance * hit;
            next[n] += chance * (1.0 - hit);
        }
        chances = next;
    }
    chances.iter().skip(both as usize).sum()
}

/// What remains of the confidence in a pattern that chance makes with this probability: half for a tenth.
pub(super) fn unless_chance(chance: f64) -> f64 {
    1.0 / (1.0 + PRIOR * chance)
}

/// What remains of the confidence that losses are independent of something, where they are distributed over it as unevenly as chance does
/// with this probability: half for a tenth, all for one.
pub(super) fn if_chance(chance: f64) -> f64 {
    (1.0 + 1.0 / PRIOR) * chance / (chance + 1.0 / PRIOR)
}

/// Part of the confidence that losses do not depend on how packets are sent which remains where a flow had so many loss events in so many
/// packets or seconds, and datagrams had so many in so many: all where datagrams lose as often, none where they should have lost many and did not.
#[must_use]
pub fn as_datagrams(flow: (u64, f64), datagrams: (u64, f64)) -> f64 {
    let part = datagrams.1 / (flow.1 + datagrams.1).max(1e-9);
    if_chance(at_most(datagrams.0, flow.0.saturating_add(datagrams.0), part)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_in_a_part_are_binomial() {
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-9;
        assert!(near(at_most(0, 7, 0.25), 0.75f64.powi(7)));
        assert!(near(at_most(1, 2, 0.5), 0.75) && near(at_least(2, 3, 0.5), 0.5));
        assert_eq!(
            (at_most(4, 4, 0.3), at_most(0, 9, 0.0), at_most(0, 1, 1.0), at_least(0, 5, 0.2)),
            (1.0, 1.0, 0.0, 1.0)
        );
        // No overflow, and no underflow of many small terms.
        let half = at_most(100_000, 1_000_000, 0.1);
        assert!((half - 0.5).abs() < 0.01, "{half}");
        assert!(at_most(10, 1_000_000, 0.1) < 1e-300 && at_least(2_000, 1_000, 0.5) == 0.0);
    }

    #[test]
    fn draws_have_as_much_in_common_as_chance_gives() {
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(near(in_common(12, 1, 1, 1), 1.0 / 12.0) && near(in_common(12, 2, 2, 2), 1.0 / 66.0));
        assert!(near(in_common(12, 3, 5, 0), 1.0) && near(in_common(4, 2, 2, 1), 5.0 / 6.0));
        assert!(near(in_common(3, 3, 3, 3), 1.0) && near(in_common(5, 1, 2, 2), 0.0));
    }

    #[test]
    fn confidence_is_half_where_chance_is_as_likely() {
        assert!((unless_chance(0.1) - 0.5).abs() < 1e-9 && unless_chance(0.0) == 1.0);
        assert!((if_chance(0.1) - 0.55).abs() < 1e-9 && (if_chance(1.0) - 1.0).abs() < 1e-9);
        assert_eq!(if_chance(0.0), 0.0);
    }
}
