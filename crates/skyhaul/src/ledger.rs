//! The fate of every frame of a stream: one type for all reports, whose sums are checked.
//!
//! ```text
//!   frames of the stream's span
//!   ├─ received ───────── = placed
//!   │   ├─ recorded         safe on a disk
//!   │   ├─ pending          waiting for a disk
//!   │   ├─ discarded        given up by the recorder, by cause
//!   │   ├─ damaged          recorded, and missing or altered since
//!   │   └─ unverified       in files without an index record
//!   └─ never received ─── = lost
//!       ├─ in chunks        a chunk has their place
//!       └─ between chunks   no chunk has
//! ```
//!
//! A frame is what one packet carries and the index calls a unit: a VDIF frame, a Mark 5B frame, half a Mark 5B frame of
//! FILA10G, a LOFAR packet. Where frames come in several packets, the ledger says so ([`FrameLedger::packets_per_frame`]), and what
//! people read calls its counts packets ([`FrameLedger::unit`]). Frame numbers that threads share are not frames, nor are runs of lost frames. A datastream of
//! heaps or events counts these instead.
//!
//! Reports of a receiver alone use only the first level. Two accounts of the same frames are compared with
//! [`FrameLedger::compare`]. A sum that does not hold is text for the user: the report contains it, and the command fails.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Why a recorder gave up frames that it had received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// No disk had room.
    DisksFull,
    /// No disk that works could take them.
    DisksFailed,
    /// They were still pending when the recorder ended.
    Unfinished,
    /// The recording was ending, or the chunk was invalid.
    Refused,
    /// The index does not say.
    #[serde(other)]
    Unknown,
}

impl Discard {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Discard::DisksFull => "disks_full",
            Discard::DisksFailed => "disks_failed",
            Discard::Unfinished => "unfinished",
            Discard::Refused => "refused",
            Discard::Unknown => "unknown",
        }
    }

    /// The reason for the operator.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Discard::DisksFull => "no disk has room for it",
            Discard::DisksFailed => "writing failed on every disk",
            Discard::Unfinished => "the recorder ended before it was written",
            Discard::Refused => "the recorder refused it",
            Discard::Unknown => "the reason was not recorded",
        }
    }
}

/// Frames of a stream by what became of them; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameLedger {
    /// Frames that arrived and were put in their place.
    pub received: u64,
    /// Frames of the stream's span that did not arrive in time.
    pub never_received: u64,
    /// Packets per frame; the counts are of packets. 2 for a FILA10G, 1 where a packet is a frame, 0 in an empty ledger and in those of
    /// earlier versions. Of several streams, the largest.
    #[serde(skip_serializing_if = "is_one")]
    pub packets_per_frame: u32,
    /// More may be missing than `never_received` and `between_chunks` count: there are gaps across the end of a second, and how
    /// many frames a second has is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_lower_bound: bool,
    /// Received, and safe on a disk.
    pub recorded: u64,
    /// Received, and waiting for a disk.
    pub pending: u64,
    /// Received, and given up by the recorder.
    pub discarded: u64,
    /// The same by cause ([`Discard::name`]).
    pub discarded_by: BTreeMap<String, u64>,
    /// Received and recorded, but missing or altered now.
    pub damaged: u64,
    /// In files without an index record.
    pub unverified: u64,
    /// Never received; a chunk has their place, filled or empty.
    pub in_chunks: u64,
    /// Never received, and in no chunk.
    pub between_chunks: u64,
}

fn is_one(packets: &u32) -> bool {
    *packets <= 1
}

/// What is counted where `packets` make a frame, in the singular: the packets, or the frames.
#[must_use]
pub fn counted_unit(packets: u32) -> &'static str {
    if packets > 1 { "packet" } else { "frame" }
}

impl FrameLedger {
    /// What it counts, in the singular.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        counted_unit(self.packets_per_frame)
    }

    /// Frames of the stream's span.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.received.saturating_add(self.never_received)
    }

    /// Count frames as discarded.
    pub fn discard(&mut self, why: Discard, frames: u64) {
        if frames > 0 {
            self.discarded = self.discarded.saturating_add(frames);
            let of_cause = self.discarded_by.entry(why.name().to_owned()).or_default();
            *of_cause = of_cause.saturating_add(frames);
        }
    }

    /// The identities of a recording that do not hold, as text; empty if the ledger balances. `whose` begins each line.
    #[must_use]
    pub fn imbalance(&self, whose: &str) -> Vec<String> {
        let sum = |all: &[u64]| all.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        let fates = sum(&[self.recorded, self.pending, self.discarded, self.damaged, self.unverified]);
        let causes: Vec<u64> = self.discarded_by.values().copied().collect();
        let rules = [
            ("received", self.received, "recorded + pending + discarded + damaged + unverified", fates),
            ("never received", self.never_received, "in chunks + between chunks", {
                sum(&[self.in_chunks, self.between_chunks])
            }),
            ("discarded", self.discarded, "the sum over its causes", sum(&causes)),
        ];
        rules.into_iter().filter_map(|(left, n, right, m)| differs(whose, (left, n), (right, m))).collect()
    }

    /// Where two accounts of the same frames differ, as text.
    #[must_use]
    pub fn compare(&self, whose: &str, other: &FrameLedger, others: &str) -> Vec<String> {
        let rules = [
            ("received", self.received, other.received),
            ("never received", self.never_received, other.never_received),
        ];
        let line =
            |(what, n, m): (&str, u64, u64)| differs(whose, (what, n), (&format!("{what} by {others}"), m));
        rules.into_iter().filter_map(line).collect()
    }
}

/// The line for a sum that does not hold: `n` of `left` should be the `m` of `right`.
#[must_use]
pub fn differs(whose: &str, (left, n): (&str, u64), (right, m): (&str, u64)) -> Option<String> {
    (n != m).then(|| format!("{whose}: {n} {left}, but {m} {right}"))
}

impl AddAssign<&FrameLedger> for FrameLedger {
    fn add_assign(&mut self, more: &FrameLedger) {
        let add = |to: &mut u64, n: u64| *to = to.saturating_add(n);
        add(&mut self.received, more.received);
        add(&mut self.never_received, more.never_received);
        if more.is_lower_bound {
            self.is_lower_bound = true;
        }
        self.packets_per_frame = self.packets_per_frame.max(more.packets_per_frame);
        add(&mut self.recorded, more.recorded);
        add(&mut self.pending, more.pending);
        add(&mut self.discarded, more.discarded);
        for (why, n) in &more.discarded_by {
            add(self.discarded_by.entry(why.clone()).or_default(), *n);
        }
        add(&mut self.damaged, more.damaged);
        add(&mut self.unverified, more.unverified);
        add(&mut self.in_chunks, more.in_chunks);
        add(&mut self.between_chunks, more.between_chunks);
    }
}

/// The sum of several ledgers.
impl<'a> std::iter::Sum<&'a FrameLedger> for FrameLedger {
    fn sum<I: Iterator<Item = &'a FrameLedger>>(ledgers: I) -> Self {
        ledgers.fold(Self::default(), |mut sum, ledger| {
            sum += ledger;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sum_that_does_not_hold_is_said_with_both_numbers() {
        let mut ledger =
            FrameLedger { received: 10, recorded: 7, never_received: 3, in_chunks: 2, ..Default::default() };
        ledger.discard(Discard::DisksFull, 2);
        let said = ledger.imbalance("trial");
        assert_eq!(
            said,
            [
                "trial: 10 received, but 9 recorded + pending + discarded + damaged + unverified",
                "trial: 3 never received, but 2 in chunks + between chunks"
            ]
        );
        ledger.pending += 1;
        ledger.between_chunks += 1;
        assert!(ledger.imbalance("trial").is_empty());
        ledger.discarded_by.clear();
        assert_eq!(ledger.imbalance("trial"), ["trial: 2 discarded, but 0 the sum over its causes"]);
    }

    #[test]
    fn accounts_of_the_same_frames_are_compared() {
        let a = FrameLedger { received: 5, never_received: 1, ..Default::default() };
        let b = FrameLedger { received: 5, never_received: 2, ..Default::default() };
        assert_eq!(
            a.compare("x", &b, "the recorder"),
            ["x: 1 never received, but 2 never received by the recorder"]
        );
        assert!(a.compare("x", &a, "itself").is_empty());
    }

    #[test]
    fn a_cause_of_a_later_version_is_read() {
        let read = |text: &str| serde_json::from_str::<Discard>(text).unwrap();
        assert_eq!((read("\"disks_full\""), read("\"moths\"")), (Discard::DisksFull, Discard::Unknown));
        assert_eq!(serde_json::to_string(&Discard::DisksFailed).unwrap(), "\"disks_failed\"");
    }

    proptest! {
        #[test]
        fn what_balances_balances_in_sum(parts in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40, 0u8..5), 0..20)) {
            let ledgers: Vec<FrameLedger> = parts.iter().map(|&(a, b, c, kind)| {
                let mut one = FrameLedger { received: a + b, recorded: a, never_received: c, in_chunks: c / 3, ..Default::default() };
                one.between_chunks = c - c / 3;
                match kind {
                    0 => one.pending = b,
                    1 => one.damaged = b,
                    2 => one.unverified = b,
                    3 => one.discard(Discard::DisksFull, b),
                    _ => one.discard(Discard::DisksFailed, b),
                }
                one
            }).collect();
            let sum: FrameLedger = ledgers.iter().sum();
            prop_assert!(sum.imbalance("all").is_empty(), "{:?}", sum);
            prop_assert_eq!(sum.expected(), parts.iter().map(|&(a, b, c, _)| a + b + c).sum::<u64>());
            let text = serde_json::to_string(&sum).unwrap();
            prop_assert_eq!(serde_json::from_str::<FrameLedger>(&text).unwrap(), sum);
        }
    }
}
