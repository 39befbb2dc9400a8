//! Periodic work, once a second, and the end of reservations.

use super::super::instances::{StrayCounter, by_session, served, stays};
use super::super::registry::{Millis, Reservation};
use super::{Api, Refusal, State, gone};
use skyhaul::balance::{Balance, BalanceStatus};
use skyhaul::io::lock::lock;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Number of ended reservations whose last state is kept.
const MAX_ENDED_RESERVATIONS: usize = 64;

/// Marks a load balancer that is being opened or closed: until this is dropped, no other call does so.
pub(super) struct InstanceLock<'a> {
    api: &'a Api,
    instance: i64,
}

impl Drop for InstanceLock<'_> {
    fn drop(&mut self) {
        self.api.locked().busy.remove(&self.instance);
    }
}

impl Api {
    /// One second has passed: ends what is over, and takes samples of the rest. Returns problems.
    pub fn turn(&self, now: Millis) -> Vec<String> {
        let mut wrong = self.said();
        wrong.extend(self.guard.iter().flat_map(StrayCounter::said));
        let over = self.locked().registry.over(now);
        for id in over {
            wrong.extend(self.end(id).err().map(|refusal| format!("cannot end reservation {id}: {refusal}")));
        }
        let ids: Vec<i64> = self.locked().running.keys().copied().collect();
        for id in ids {
            wrong.extend(self.turn_of(id, now));
        }
        wrong
    }

    /// The same for one reservation. Other calls wait only while its samples are stored.
    fn turn_of(&self, id: i64, now: Millis) -> Vec<String> {
        let mut wrong = Vec::new();
        // A worker that registers from here on is not gone because the status does not have it.
        let (balance, known) = {
            let state = self.locked();
            let Ok(balance) = state.balance(id) else { return wrong };
            let known: HashSet<i64> = state.registry.sessions(id).map(|session| session.id).collect();
            (balance, known)
        };
        let status = balance.status();
        drop(balance);
        let workers = by_session(&status);
        let gone: Vec<i64> = {
            let state = self.locked();
            let gone = state
                .registry
                .sessions(id)
                .filter(|session| known.contains(&session.id) && !stays(&workers, session.number));
            gone.map(|session| session.id).collect()
        };
        if !gone.is_empty() {
            let done = self.change(|state| Ok(state.registry.deregister(&gone)));
            wrong.extend(done.err().map(|error| format!("cannot remove silent workers: {error}")));
        }
        wrong.extend(status.notes.iter().map(|note| format!("reservation {id}: {note}")));
        let slots: BTreeMap<i64, u16> = {
            let mut state = self.locked();
            let state = &mut *state;
            let Some(running) = state.running.get_mut(&id) else { return wrong };
            running.sample(state.registry.sessions(id), &status, &workers, now);
            let slots = state.registry.sessions(id).map(|one| (one.id, served(&workers, one.number)));
            slots.collect()
        };
        wrong.extend(self.turn_chains(id, &slots));
        wrong
    }

    /// Claim the right to open or close this load balancer.
    pub(super) fn busy_in(&self, state: &mut State, instance: i64) -> Option<InstanceLock<'_>> {
        // Made only if it is ours: one that is dropped frees the instance, and waits for `state`.
        state.busy.insert(instance).then(|| InstanceLock { api: self, instance })
    }

    /// End a reservation and its balancer.
    pub(super) fn end(&self, id: i64) -> Result<(), Refusal> {
        let (reservation, _busy) = {
            let mut state = self.locked();
            let reservation: Reservation = state.reservation(id)?.clone();
            let busy = self.busy_in(&mut state, reservation.instance).ok_or_else(|| gone(id))?;
            (reservation, busy)
        };
        self.change(|state| Ok(state.registry.free(id)?))?;
        let running = self.locked().running.remove(&id);
        // Packets in its sockets are forwarded first; no call has to wait for that.
        if let Some(mut running) = running {
            running.unchain(true);
            let status = stopped(running.balance);
            let mut ended = lock(&self.ended);
            if ended.len() < MAX_ENDED_RESERVATIONS {
                ended.push((reservation, status));
            }
        }
        Ok(())
    }

    /// Ends all balancers; reservations stay. Returns the status of each, including those that ended before.
    #[must_use]
    pub fn stop(&self) -> Vec<(Reservation, BalanceStatus)> {
        let mut state = self.locked();
        let mut running = std::mem::take(&mut state.running);
        let reservations: BTreeMap<i64, Reservation> =
            state.registry.reservations().map(|r| (r.id, r.clone())).collect();
        drop(state);
        // End the chains first, while packets are still forwarded.
        std::thread::scope(|threads| {
            for running in running.values_mut() {
                threads.spawn(|| running.unchain(false));
            }
        });
        let mut all = std::mem::take(&mut *lock(&self.ended));
        // LoadSum: one whose plane does not end takes seconds.
        std::thread::scope(|threads| {
            let end = |(id, running): (i64, super::Running)| (id, threads.spawn(|| stopped(running.balance)));
            let ends: Vec<_> = running.into_iter().map(end).collect();
            for (id, status) in ends {
                let reservation = reservations.get(&id).cloned();
                all.extend(reservation.zip(status.join().ok()));
            }
        });
        all
    }
}

/// End a balancer as soon as no query uses it any more, which takes milliseconds.
fn stopped(mut balance: Arc<Balance>) -> BalanceStatus {
    loop {
        match Arc::try_unwrap(balance) {
            Ok(balance) => return balance.stop(),
            Err(shared) => balance = shared,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
