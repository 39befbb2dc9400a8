//! Packets of a stream that are refused, one behind the other.
//!
//! Single ones are common. A long run means that the sender sends something else than what was learned: then a stream must
//! not end in silence, though each packet is counted.

use skyhaul_core::placement::{Reject, Rejects};

/// Packets in a row that are other parts of frames than their numbers say, before the other phase is believed.
const OUT_OF_PHASE: u64 = 32;
/// Packets refused in a row that are reported: more than a network repeats or delays.
const LONG_RUN: u64 = 128;

/// Packets refused since one was placed, except those outside the times asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    rejects: Rejects,
    /// Frames placed when the first of them came.
    placed: u64,
    is_reported: bool,
}

impl Refusals {
    /// `count` more were refused; `placed` frames were placed so far.
    pub(super) fn add(&mut self, why: Reject, count: u64, placed: u64) {
        if self.placed != placed {
            *self = Refusals { placed, ..Refusals::default() };
        }
        if !matches!(why, Reject::BeforeStart | Reject::AfterStop) {
            self.rejects.add_many(why, count);
        }
    }

    /// Whether the sender has restarted in another phase; `placed` frames were placed so far.
    pub(super) fn is_out_of_phase(&self, placed: u64) -> bool {
        self.unpaired(placed) >= OUT_OF_PHASE
    }

    /// Whether the stream seems to have restarted in another phase, too shortly before its end to follow it.
    pub(super) fn seems_out_of_phase(&self, placed: u64) -> bool {
        self.unpaired(placed) >= OUT_OF_PHASE / 4
    }

    /// How many were other parts of frames than their numbers say.
    pub(super) fn unpaired(&self, placed: u64) -> u64 {
        if self.placed == placed { self.rejects.get(Reject::Unpaired) } else { 0 }
    }

    /// The run as text, once, if it is long; `placed` frames were placed so far. At the end of a stream of which none was
    /// placed, any run is long.
    pub(super) fn poll_long(&mut self, placed: u64, at_end: bool) -> Option<String> {
        let count = self.rejects.total();
        let long = if at_end && placed == 0 { 1 } else { LONG_RUN };
        if self.is_reported || self.placed != placed || count < long {
            return None;
        }
        self.is_reported = true;
        let reasons: Vec<String> =
            self.rejects.iter().map(|(why, n)| format!("{n} {}", why.name().replace('_', " "))).collect();
        let reasons = reasons.join(", ");
        Some(match count {
            1 => format!("1 packet was refused, and none was accepted: {reasons}"),
            _ => format!("{count} packets in a row were refused: {reasons}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_run_is_reported_and_only_once() {
        let mut refusals = Refusals::default();
        (0..LONG_RUN - 1).for_each(|_| refusals.add(Reject::Late, 1, 7));
        assert_eq!(refusals.poll_long(7, false), None);
        refusals.add(Reject::UnknownThread, 1, 7);
        assert_eq!(refusals.poll_long(8, false), None, "one was placed since");
        let text = "128 packets in a row were refused: 1 unknown thread, 127 late";
        assert_eq!(refusals.poll_long(7, false).as_deref(), Some(text));
        refusals.add(Reject::Late, LONG_RUN, 7);
        assert_eq!(refusals.poll_long(7, false), None, "reported already");
        refusals.add(Reject::Late, LONG_RUN, 8);
        assert!(refusals.poll_long(8, false).is_some(), "another run");
        refusals.add(Reject::AfterStop, 2 * LONG_RUN, 9);
        assert_eq!(refusals.poll_long(9, true), None, "as asked for");
        let mut none = Refusals::default();
        none.add(Reject::WrongSize, 1, 0);
        assert_eq!(none.poll_long(0, false), None, "the next one may fit");
        assert_eq!(
            none.poll_long(0, true).as_deref(),
            Some("1 packet was refused, and none was accepted: 1 wrong size")
        );
    }

    #[test]
    fn a_frame_in_its_place_disproves_another_phase() {
        let mut refusals = Refusals::default();
        (0..10 * OUT_OF_PHASE).for_each(|n| refusals.add(Reject::Unpaired, 1, n / (OUT_OF_PHASE - 1)));
        assert!((0..1000).all(|placed| !refusals.is_out_of_phase(placed)));
        refusals.add(Reject::Unpaired, OUT_OF_PHASE, u64::MAX);
        assert!(refusals.is_out_of_phase(u64::MAX) && !refusals.is_out_of_phase(0));
    }
}
