//! Compares the times of the data with the clock of the receiving host.
//!
//! A formatter that was set by a wrong second pulse is off by a whole second; one that was never set, by hours. The
//! delay of the network is far below that.

/// An offset below this, ns, comes from the network and the resolution of clocks. A formatter that is a second ahead
/// seems less than a second ahead, because its data arrive later.
const NOTABLE: i128 = 900_000_000;
/// The first changes are all reported; of further ones, those whose number is a power of two.
const ALL_TOLD: u64 = 4;

/// How far the times of a stream are ahead of the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// How far the data are ahead (negative: behind), ns.
    pub nanos: i128,
    /// The offset reported before, if any.
    pub before: Option<i128>,
}

/// Watches one stream.
#[derive(Clone, Debug, Default)]
pub struct OffsetWatch {
    range: Option<(i128, i128)>,
    last: i128,
    /// The reference for the next offset, and the last one reported.
    base: Option<i128>,
    told: Option<i128>,
    changes: u64,
}

impl OffsetWatch {
    /// Frames with Unix time `data` arrived at `host`, both in nanoseconds; `within` is how much later than `data` they
    /// may have been taken. Returns the offset if it must be reported.
    pub fn observe(&mut self, data: i128, within: i128, host: i128) -> Option<Offset> {
        // The offset may have any value in this range: use the smallest.
        let (least, most) = (data.saturating_sub(host), data.saturating_add(within).saturating_sub(host));
        let nanos = if least > 0 { least } else { most.min(0) };
        self.last = nanos;
        self.range = Some(self.range.map_or((nanos, nanos), |(low, high)| (low.min(nanos), high.max(nanos))));
        let base = self.base.unwrap_or(0);
        if nanos.abs_diff(base) < NOTABLE.unsigned_abs() {
            self.base.get_or_insert(base);
            return None;
        }
        self.base = Some(nanos);
        self.changes += 1;
        if self.changes > ALL_TOLD && !self.changes.is_power_of_two() {
            return None;
        }
        Some(Offset { nanos, before: self.told.replace(nanos) })
    }

    /// The last offset, the least and the largest, in nanoseconds.
    #[must_use]
    pub fn range(&self) -> Option<(i128, i128, i128)> {
        self.range.map(|(least, most)| (self.last, least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    #[test]
    fn a_notable_offset_and_its_changes_are_told_once() {
        let mut watch = OffsetWatch::default();
        let hours = 25 * 3600 * SECOND;
        assert_eq!(watch.observe(100 * SECOND, 0, 100 * SECOND + 400_000_000), None);
        let told = watch.observe(101 * SECOND - hours, 0, 101 * SECOND);
        assert_eq!(told, Some(Offset { nanos: -hours, before: None }));
        assert_eq!(watch.observe(102 * SECOND - hours, 0, 102 * SECOND + 300_000_000), None);
        let back = watch.observe(103 * SECOND, 0, 103 * SECOND);
        assert_eq!(back, Some(Offset { nanos: 0, before: Some(-hours) }));
        assert_eq!(watch.range(), Some((0, -hours - 300_000_000, 0)));
    }

    #[test]
    fn what_is_unknown_of_a_second_is_no_offset() {
        let mut watch = OffsetWatch::default();
        assert_eq!(watch.observe(100 * SECOND, SECOND, 100 * SECOND + SECOND / 2), None);
        assert_eq!(watch.observe(100 * SECOND, SECOND, 101 * SECOND + SECOND / 2), None);
        assert_eq!(watch.range(), Some((-SECOND / 2, -SECOND / 2, 0)));
        assert!(watch.observe(100 * SECOND, SECOND, 102 * SECOND).is_some());
    }

    #[test]
    fn a_stream_that_runs_away_is_told_ever_more_rarely() {
        let mut watch = OffsetWatch::default();
        let told = (1..1000).filter(|n| watch.observe(n * 3 * SECOND, 0, n * SECOND).is_some()).count();
        assert!((6..16).contains(&told), "{told}");
    }
}
