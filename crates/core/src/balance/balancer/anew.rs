//! Ticks that begin anew: a sender that counts them was restarted.
//!
//! ```text
//!   ticks   0 ─ the restarted sender ─▶      oldest calendar │ … │ newest ─ where it was before
//!           └─ too old: refused ────────────────────────────┘
//! ```
//!
//! A tick before the oldest calendar is that of a late packet or of a restarted sender. The newest calendar might split the event
//! of a late packet; refusing the packets of a restarted sender loses data. What tells them apart:
//!
//! | evidence | effect |
//! |---|---|
//! | no data for [`IDLE`], and a source whose ticks were known says that it is far behind | the newest calendar replaces all |
//! | only ticks that are too old, and rising, in [`LOOKS`] looks in a row, or in [`FAR_LOOKS`] if they are more than [`FAR`] behind | the newest calendar holds for them, too; the others stay |
//! | all data are behind, and rising, for as long as packets may be under way | calendars that begin beyond them are withdrawn |
//!
//! Late packets come beside others, or in no order. While other senders continue as before, nothing begins anew: the sources
//! of a balancer share their ticks.
//!
//! Limits: a sender that sends no messages loses the packets of the looks that are needed (0.15 s or 0.4 s), which are counted as
//! too old; so does one whose former start was shorter than four seconds.

use super::super::refusal::Ticks;
use super::Balancer;
use crate::{placement::Nanos, wire::labelled::Sync};
use std::sync::Arc;

/// Data pause at least for so long when a sender is restarted: it says where its ticks are before it sends.
const IDLE: Nanos = Nanos(750_000_000);
/// A source that says so waits at most this long for the data of others to end.
const PATIENCE: Nanos = Nanos(5_000_000_000);
/// Looks at ticks that are too old.
const LOOKS: u32 = 8;
const FAR_LOOKS: u32 = 3;
/// Calendars that begin within so much of the data stay: threads may use them already.
const NEAR: Nanos = Nanos(1_500_000_000);
/// No packet is late by so much.
const FAR: Nanos = Nanos(10_000_000_000);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Anew {
    /// When data were last forwarded.
    heard: Option<Nanos>,
    /// When a source said that its ticks begin anew.
    said: Option<Nanos>,
    /// Looks in a row at which nothing but older ticks than there are calendars for came, and the last of these.
    looks: u32,
    old: (u64, u64),
    /// Since when all data are behind what was there before, and rise; and where they are.
    behind: Option<(Nanos, u64)>,
    /// When the newest calendar was extended to older ticks.
    extended: Option<Nanos>,
}

impl Anew {
    /// Whether calendars are not to be retired: those for the ticks before the restart look as if they were over.
    pub(super) fn is_young(&self, now: Nanos, linger: Nanos) -> bool {
        self.extended.is_some_and(|then| now.since(then) <= linger.plus(Nanos::SECOND))
    }

    fn is_idle(&self, now: Nanos, time: Nanos) -> bool {
        self.heard.is_none_or(|heard| now.since(heard) >= time)
    }
}

impl Balancer {
    /// Before the message is heard: it may say that its source was restarted.
    pub(super) fn note_sync(&mut self, from: u64, sync: &Sync, now: Nanos) {
        if self.predictor.falls_back(from, sync, now) {
            self.anew.said = Some(now);
        }
    }

    /// Before the data are heard.
    pub(super) fn note_data(&mut self, newest: u64, now: Nanos) {
        let is_behind = self.predictor.is_behind(newest, now);
        let anew = &mut self.anew;
        (anew.heard, anew.looks) = (Some(now), 0);
        let rises = |(since, before)| if newest >= before { (since, newest) } else { (now, newest) };
        anew.behind = is_behind.then(|| anew.behind.map_or((now, newest), rises));
    }

    /// Where ticks were since the last call, as [`Counters::take_ticks`](super::super::Counters::take_ticks) has it. To be
    /// called ten times a second or more, also if there were none.
    pub fn handle_ticks(&mut self, ticks: &Ticks, now: Nanos) {
        if let Some(newest) = ticks.newest {
            self.handle_data(newest, now);
        }
        let linger = self.config.epochs.linger;
        let anew = &mut self.anew;
        anew.said = anew.said.filter(|said| now.since(*said) < PATIENCE);
        let over = ticks.newest.filter(|_| anew.behind.is_some_and(|(since, _)| now.since(since) >= linger));
        if let Some(newest) = over {
            let near = self.predictor.ticks_in(NEAR).unwrap_or(0);
            let changed = self.epochs.give_way(newest.saturating_add(near));
            return self.forget(changed, now);
        }
        if anew.said.is_some() && anew.is_idle(now, IDLE) {
            return self.rebase(now);
        }
        let Some(old) = ticks.old.filter(|_| ticks.newest.is_none()) else { return };
        let rising = old.0 >= anew.old.0 && old.1 >= anew.old.1;
        anew.looks = if rising { anew.looks + 1 } else { 1 };
        anew.old = old;
        let (looks, long) = (anew.looks, anew.is_idle(now, FAR));
        let ahead = self.predictor.ticks_in(FAR).and_then(|ticks| old.1.checked_add(ticks));
        let far = ahead.is_some_and(|ahead| self.epochs.boundary().is_some_and(|first| ahead < first));
        if looks >= LOOKS || looks >= FAR_LOOKS && far || long {
            self.anew.looks = 0;
            self.anew.extended = Some(now);
            self.dirty |= self.epochs.extend(now);
        }
    }

    /// No packet of the ticks before is under way: the newest calendar holds for all.
    fn rebase(&mut self, now: Nanos) {
        let changed = self.epochs.rebase(now);
        self.forget(changed, now);
    }

    /// Where ticks were says nothing any more.
    fn forget(&mut self, changed: bool, now: Nanos) {
        self.anew = Anew { heard: self.anew.heard, ..Anew::default() };
        self.predictor.rebase();
        if changed {
            self.dirty = true;
            self.shares.extend(self.epochs.newest().map(|newest| (now, Arc::clone(newest))));
            while self.shares.len() > super::REMEMBERED {
                self.shares.pop_front();
            }
        }
    }
}
