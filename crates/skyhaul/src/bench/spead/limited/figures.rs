//! What comes out of limited receivers.

use super::highest::Verdict;
use crate::bench::Spread;
use serde::{Deserialize, Serialize};

/// A sender that is slower than this part of the rate did not reach it.
const REACHED: f64 = 0.97;

/// One receiver at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Bits per second of packets that were asked for.
    pub rate: u64,
    /// Bits per second that were sent.
    pub reached: f64,
    /// Datagrams, or trains, that the kernel dropped at the port.
    pub dropped: u64,
    /// All left the sender, the socket was read empty, and the receiver's own report, where it has one, has every heap.
    pub all: bool,
    /// CPU seconds of the receiver for 10⁹ bytes of heaps.
    pub cpu: f64,
    /// CPU seconds of the receiver for each second.
    pub used: f64,
}

impl Trial {
    /// What it says of its rate.
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
    /// The line that started it, with names for what differs from trial to trial.
    pub command: String,
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of a heap's payload.
    pub heap: usize,
    /// Its share of the processor, as a fraction.
    pub share: f64,
    /// What held it to its share.
    pub limit: String,
    /// Bytes of socket buffer that were asked for.
    pub buffer: u64,
    /// Highest rate at which nothing was lost, bits per second of packets as asked of the sender, which reached at least 97 % of it;
    /// 0 where the least rate lost.
    pub lossless_bits: Spread,
    /// Whether in some round the sender ended first: nothing was lost as fast as it went.
    pub sender_ended: bool,
    /// The highest rate of each round.
    pub rounds: Vec<u64>,
    /// Every trial of every search, so that what ended it can be seen.
    pub trials: Vec<Trial>,
    /// Bits per second at which CPU time was measured.
    pub rate: u64,
    /// CPU seconds of the receiver for 10⁹ bytes of heaps at that rate.
    pub cpu_s_per_gb: Spread,
    /// Datagrams, or trains, dropped at that rate.
    pub dropped_at_rate: u64,
    /// Whether at that rate nothing was lost, in any round.
    pub whole_at_rate: bool,
    /// Most of the processor that it used in any trial, as a fraction: not more than its share, if the limit holds.
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
