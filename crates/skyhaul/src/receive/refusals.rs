//! Packets refused in a row, and what they say of a stream.

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

    /// The run, once, if it is long; `placed` frames were placed so far. If the stream ends and no frame was placed, any run is long.
    pub(super) fn poll_long(&mut self, placed: u64, at_end: bool) -> Option<Refused> {
        let count = self.rejects.total();
        let long = if at_end && placed == 0 { 1 } else { LONG_RUN };
        if self.is_reported || self.placed != placed || count < long {
            return None;
        }
        self.is_reported = true;
        let reasons = reasons(&self.rejects);
        let text = match count {
            1 => format!("1 packet was refused, and none was accepted: {reasons}"),
            _ => format!("{count} packets in a row were refused: {reasons}"),
        };
        // A path that is behind another one brings what is there already, but not for a second.
        let repeated = if at_end { self.rejects.get(Reject::Duplicate) } else { 0 };
        Some(Refused { text, is_lost: asked_for(&self.rejects).saturating_sub(repeated) >= LONG_RUN })
    }
}

/// Packets of a stream that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) text: String,
    /// Whether data were lost with them. Otherwise they were few, or repeated others.
    pub(super) is_lost: bool,
}

/// At the end of a stream: that more packets were refused than `placed`, but for those outside the times asked for.
pub(super) fn most(rejects: &Rejects, placed: u64) -> Option<Refused> {
    let outside = rejects.get(Reject::BeforeStart).saturating_add(rejects.get(Reject::AfterStop));
    let refused = rejects.total().saturating_sub(outside);
    let new = asked_for(rejects).saturating_sub(rejects.get(Reject::Duplicate));
    let text = || format!("{refused} packets were refused and {placed} accepted: {}", reasons(rejects));
    (refused > placed).then(|| Refused { text: text(), is_lost: new > placed && new >= LONG_RUN })
}

/// How many were refused, but for those that were not asked for, or came amid a set.
fn asked_for(rejects: &Rejects) -> u64 {
    let others = [
        Reject::BeforeStart,
        Reject::AfterStop,
        Reject::PartialSet,
        Reject::UnknownThread,
        Reject::NotAllowed,
        Reject::TooManyStreams,
    ];
    others.into_iter().fold(rejects.total(), |sum, why| sum.saturating_sub(rejects.get(why)))
}

fn reasons(rejects: &Rejects) -> String {
    let each = rejects.iter().map(|(why, n)| format!("{n} {}", why.name().replace('_', " ")));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
