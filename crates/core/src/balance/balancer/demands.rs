//! Slots that workers demand, for senders whose labels choose a slot on purpose and not only to spread the load.
//!
//! ```text
//!   demanded     A A A . . . B B .
//!   calendar     A A A C A B B B C     the rest is divided by shares, or stays unassigned if the strategy is explicit
//! ```
//!
//! A worker has the slots that it demands as long as it is ready; otherwise they are divided among the others. If two
//! workers demand a slot, the later demand wins.

use super::{Anew, Balancer, FAR, FAR_LOOKS, IDLE, LOOKS, NEAR, PATIENCE, Strategy};
use crate::balance::calendar::{Calendar, Claim, SLOTS, apportion};
use crate::balance::member::Seat;
use crate::balance::refusal::Ticks;
use crate::balance::worker::{Session, Standing, Worker};
use crate::hint::Hint;
use crate::placement::Nanos;
use crate::wire::labelled::Sync;
use std::fmt;
use std::sync::Arc;

/// A range of consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first slot; `None`: the first place with this many slots that nobody demands.
    pub first: Option<u16>,
    /// Number of slots.
    pub length: u16,
}

/// Why a demand for slots is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandError {
    /// No such session.
    NoSession,
    /// The calendar has no such slots.
    NoSuchSlots(SlotRange),
    /// There are not this many consecutive slots that nobody demands.
    NoRoom(SlotRange),
}

impl fmt::Display for DemandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemandError::NoSession => write!(f, "no such session{}", Hint("register first")),
            DemandError::NoSuchSlots(SlotRange { first, length }) => write!(
                f,
                "a calendar has no {length} slots from {} on{}",
                first.unwrap_or_default(),
                Hint(format_args!("it has {SLOTS}, from 0"))
            ),
            DemandError::NoRoom(SlotRange { length, .. }) => write!(
                f,
                "nowhere are {length} slots in a row that nobody demands{}",
                Hint("demand fewer, or name the first one")
            ),
        }
    }
}

impl std::error::Error for DemandError {}

impl Balancer {
    /// Sets the slots that a worker demands, in place of its earlier demands.
    ///
    /// # Errors
    /// See [`DemandError`]; nothing changes then.
    pub fn demand(&mut self, session: Session, ranges: &[SlotRange]) -> Result<(), DemandError> {
        let mut demanded = self.demanded.clone();
        demanded.release(session.seat());
        self.add(&mut demanded, session, ranges)?;
        self.demanded = demanded;
        Ok(())
    }

    /// Sets the demands of all workers.
    ///
    /// # Errors
    /// See [`DemandError`]; nothing changes then.
    pub fn demand_all(&mut self, demands: &[(Session, Vec<SlotRange>)]) -> Result<(), DemandError> {
        let mut demanded = Calendar::default();
        demands.iter().try_for_each(|(session, ranges)| self.add(&mut demanded, *session, ranges))?;
        self.demanded = demanded;
        Ok(())
    }

    /// The worker that demands each slot.
    #[must_use]
    pub fn demanded(&self) -> &Calendar {
        &self.demanded
    }

    fn add(
        &self,
        demanded: &mut Calendar,
        session: Session,
        ranges: &[SlotRange],
    ) -> Result<(), DemandError> {
        if self.workers.iter().all(|worker| worker.session != session) {
            return Err(DemandError::NoSession);
        }
        for range in ranges {
            let slots = SLOTS as u16;
            let free =
                |&first: &u16| (first..first + range.length).all(|slot| demanded.member(slot).is_none());
            if range.length > slots {
                return Err(DemandError::NoSuchSlots(*range));
            }
            let last = slots - range.length;
            let first = match range.first {
                Some(first) => {
                    Some(first).filter(|&first| first <= last).ok_or(DemandError::NoSuchSlots(*range))?
                }
                None => (0..=last).find(free).ok_or(DemandError::NoRoom(*range))?,
            };
            (first..first + range.length).for_each(|slot| demanded.set(slot, Some(session.seat())));
        }
        Ok(())
    }

    /// The demands of workers that are ready.
    pub(super) fn met(&self) -> Calendar {
        let mut met = self.demanded.clone();
        let absent = self.workers.iter().filter(|worker| worker.standing != Standing::Ready);
        absent.for_each(|worker| met.release(worker.session.seat()));
        met
    }

    /// Number of slots for each worker in `ready`, including those that it demands.
    pub(super) fn apportioned(&self, ready: &[&Worker], met: &Calendar) -> Vec<(Seat, u16)> {
        let demanded: Vec<(Seat, u16)> =
            ready.iter().map(|worker| worker.session.seat()).map(|seat| (seat, met.count(seat))).collect();
        if self.config.strategy == Strategy::Explicit {
            return demanded;
        }
        let targets = self.targets(ready);
        let largest = targets.iter().copied().fold(1e-9, f64::max);
        let claim = |(worker, target): (&&Worker, f64)| worker.claim(target, largest, ready.len());
        let mut claims: Vec<Claim> = ready.iter().zip(targets).map(claim).collect();
        // Demands have precedence over other minima.
        let least: u32 =
            claims.iter().zip(&demanded).map(|(claim, (_, n))| u32::from(claim.least.max(*n))).sum();
        for (claim, &(_, demanded)) in claims.iter_mut().zip(&demanded) {
            claim.least = if least > SLOTS as u32 { demanded } else { claim.least.max(demanded) };
            claim.most = claim.most.max(demanded);
        }
        demanded.iter().map(|&(seat, _)| seat).zip(apportion(&claims, SLOTS as u16)).collect()
    }

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
    /// [`Counters::take_ticks`](crate::balance::Counters::take_ticks). Call it at least ten times a second, even if there
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
            self.extended |= self.epochs.extend(now);
            self.dirty |= self.extended;
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

#[cfg(test)]
mod tests;
