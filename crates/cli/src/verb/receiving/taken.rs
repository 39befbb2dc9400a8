//! For how long nothing of what arrives was taken: a receiver that refuses everything is idle.

use skyhaul::report::ReceiveReport;
use std::time::Duration;

/// What had come at the last look, and when something of it was last taken, since the start. Counters are published now and
/// then: what came since was perhaps taken, so time counts only up to the counters' own.
#[derive(Debug, Default)]
pub(super) struct Taken {
    packets: u64,
    refused: u64,
    /// Less those that were refused.
    bytes: u64,
    last: Duration,
}

impl Taken {
    /// For how long nothing was taken. Over TCP, a heap may come as one packet, which counts with its last byte: until then, its
    /// bytes are taken. `counted`: the counters of the report are complete up to this time.
    pub(super) fn idle(&mut self, report: &ReceiveReport, refused: u64, counted: Duration) -> Duration {
        let packets = report.packets;
        let bytes = report.counters.get("refused_bytes").copied().unwrap_or(0);
        let bytes = report.wire_bytes.saturating_sub(bytes);
        let (more, less) = (packets.saturating_sub(self.packets), refused.saturating_sub(self.refused));
        let is_under_way = more == 0 && less == 0 && bytes > self.bytes;
        if more > less || is_under_way {
            self.last = counted;
        }
        (self.packets, self.refused, self.bytes) = (packets, refused, bytes);
        counted.saturating_sub(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_that_comes_is_taken_and_refused_ones_are_not() {
        let mut taken = Taken::default();
        let mut idle = |second, (packets, refused, bytes, refused_bytes): (u64, u64, u64, u64)| {
            let counters = [("refused_bytes".to_owned(), refused_bytes)].into();
            let report = ReceiveReport { packets, wire_bytes: bytes, counters, ..ReceiveReport::default() };
            taken.idle(&report, refused, Duration::from_secs(second)).as_secs()
        };
        assert_eq!(idle(1, (0, 0, 0, 0)), 1);
        assert_eq!(idle(2, (5, 1, 5_000, 1_000)), 0);
        // Part of a heap of one packet.
        assert_eq!([idle(3, (5, 1, 900_000, 1_000)), idle(4, (5, 1, 1_800_000, 1_000))], [0, 0]);
        assert_eq!(idle(6, (5, 1, 1_800_000, 1_000)), 2, "it does not go on");
        // Refused: whole ones, and a long one while it comes.
        assert_eq!(idle(7, (9, 5, 1_804_000, 5_000)), 3);
        assert_eq!(idle(8, (9, 6, 1_904_000, 105_000)), 4);
        assert_eq!(idle(9, (9, 6, 2_004_000, 205_000)), 5);
        assert_eq!(idle(10, (11, 7, 2_006_000, 206_000)), 0);
    }

    /// Counters that are not published for a while are no silence, however short `--idle` is.
    #[test]
    fn time_for_which_nothing_is_published_does_not_count() {
        let mut taken = Taken::default();
        let mut idle = |packets, refused, counted| {
            let report = ReceiveReport { packets, ..ReceiveReport::default() };
            taken.idle(&report, refused, Duration::from_millis(counted)).as_millis()
        };
        assert_eq!(idle(10, 1, 50), 0);
        // Looks every 20 ms while packets come; they are published 100 ms later.
        assert_eq!([idle(10, 1, 50), idle(10, 1, 50), idle(10, 1, 50), idle(10, 1, 50)], [0; 4]);
        assert_eq!(idle(20, 1, 150), 0);
        assert_eq!(
            [idle(20, 1, 150), idle(30, 11, 250), idle(30, 11, 250)],
            [0, 100, 100],
            "all were refused"
        );
    }
}
