//! Results of limited receivers.

use super::highest::Verdict;
use crate::bench::Spread;
use serde::{Deserialize, Serialize};

/// A sender that is slower than this fraction of the rate did not reach it.
const REACHED: f64 = 0.97;

/// One receiver at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Requested bits per second of packets.
    pub rate: u64,
    /// Bits per second that were sent.
    pub reached: f64,
    /// Datagrams, or trains, that the kernel dropped at the port.
    pub dropped: u64,
    /// Everything was sent, the socket was read empty, and the receiver's own report, if it has one, has every heap.
    pub all: bool,
    /// CPU seconds of the receiver for 10⁹ bytes of heaps.
    pub cpu: f64,
    /// CPU seconds of the receiver for each second.
    pub used: f64,
}

impl Trial {
    /// Its verdict on the rate.
    pub(super) fn verdict(&self) -> Verdict {
        if self.dropped > 0 || !self.all {
            Verdict::Lost
        } else if self.reached < REACHED * self.rate as f64 {
            Verdict::Slow
        } else {
            Verdict::Whole
        }
    }
}

/// One candidate with packets of one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LimitedRow {
    /// The candidate's name.
    pub program: String,
    /// Its command line, with placeholders.
    pub command: String,
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of a heap's payload.
    pub heap: usize,
    /// Its share of the processor, as a fraction.
    pub share: f64,
    /// The means that limited it.
    pub limit: String,
    /// Requested socket buffer in bytes.
    pub buffer: u64,
    /// Highest rate without loss, in requested bits per second of packets, of which the sender reached at least 97 %; 0
    /// if even the minimum rate had loss.
    pub lossless_bits: Spread,
    /// Whether the sender was the limit in some round: there was no loss at its maximum rate.
    pub sender_ended: bool,
    /// The highest rate of each round.
    pub rounds: Vec<u64>,
    /// Every trial of every search.
    pub trials: Vec<Trial>,
    /// Bits per second at which CPU time was measured.
    pub rate: u64,
    /// CPU seconds of the receiver for 10⁹ bytes of heaps at that rate.
    pub cpu_s_per_gb: Spread,
    /// Datagrams, or trains, dropped at that rate.
    pub dropped_at_rate: u64,
    /// Whether there was no loss at that rate in any round.
    pub whole_at_rate: bool,
    /// Maximum fraction of the processor used in any trial: at most its share, if the limit is effective.
    pub most_used: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_comes_before_what_was_not_sent() {
        let good = Trial { rate: 1_000_000_000, reached: 0.98e9, dropped: 0, all: true, cpu: 0.1, used: 0.1 };
        let of = |trial: Trial| trial.verdict();
        assert_eq!(of(good), Verdict::Whole);
        assert_eq!(of(Trial { reached: 0.9e9, ..good }), Verdict::Slow);
        assert_eq!(of(Trial { reached: 0.9e9, dropped: 1, ..good }), Verdict::Lost);
        assert_eq!(of(Trial { all: false, ..good }), Verdict::Lost);
    }
}
