//! How the balancer handles restarts of senders, from their synchronisation messages and from the ticks of the data.

use super::super::refusal::Ticks;
use super::Balancer;
use super::anew::{Anew, FAR, FAR_LOOKS, IDLE, LOOKS, NEAR, PATIENCE};
use crate::{placement::Nanos, wire::labelled::Sync};
use std::sync::Arc;

impl Balancer {
    /// Check whether the message shows a restart. Call it before the predictor handles the message.
    pub(super) fn note_sync(&mut self, from: u64, sync: &Sync, now: Nanos) {
        if self.predictor.falls_back(from, sync, now) {
            self.anew.said = Some(now);
        }
    }

    /// Check whether the data are far behind earlier data. Call it before the predictor handles them.
    pub(super) fn note_data(&mut self, newest: u64, now: Nanos) {
        let is_behind = self.predictor.is_behind(newest, now);
        let anew = &mut self.anew;
        (anew.heard, anew.looks) = (Some(now), 0);
        let rises = |(since, before)| if newest >= before { (since, newest) } else { (now, newest) };
        anew.behind = is_behind.then(|| anew.behind.map_or((now, newest), rises));
    }

    /// Handles the ticks seen since the last call, as returned by
    /// [`Counters::take_ticks`](super::super::Counters::take_ticks). Call it at least ten times a second, even if there
    /// were none.
    pub fn handle_ticks(&mut self, ticks: &Ticks, now: Nanos) {
        if let Some(newest) = ticks.newest {
            self.handle_data(newest, now);
        }
        let linger = self.config.epochs.linger;
        let anew = &mut self.anew;
        anew.said = anew.said.filter(|said| now.since(*said) < PATIENCE);
        let over = ticks.newest.filter(|_| anew.behind.is_some_and(|(since, _)| now.since(since) >= linger));
        let over = over.filter(|&newest| !self.predictor.lags(newest, FAR, now));
        if let Some(newest) = over {
            let near = self.predictor.ticks_in(NEAR).unwrap_or(0);
            let changed = self.epochs.give_way(newest.saturating_add(near));
            return self.forget(changed, now);
        }
        if anew.said.is_some() && anew.is_idle(now, IDLE) {
            return self.rebase(now);
        }
        let Some(old) = ticks.old.filter(|_| ticks.newest.is_none()) else { return };
        if self.predictor.lags(old.1, FAR, now) {
            anew.looks = 0;
            return;
        }
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

    /// No packet with a tick from before the restart is in flight: use the newest calendar for all ticks.
    fn rebase(&mut self, now: Nanos) {
        let changed = self.epochs.rebase(now);
        self.forget(changed, now);
    }

    /// Discard what is known about earlier ticks.
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
