//! From a reader to the ring: what is finished, and what is done where there is no room.

use super::own::{GRACE, MOST_HELD, NAP, Reader, lock};
use super::state::StreamState;
use super::store::Store;
use crate::receive::reader::WAIT;
use skyhaul_io::copy;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl<S: Store> StreamState<S> {
    /// Give the ring what is finished; wait or refuse where it has no room. Whether there was none.
    pub(crate) fn hand_over(&self, me: &mut Reader<S::Out>) -> bool {
        if self.finished.is_none() && me.out.is_empty() {
            return false;
        }
        copy::fence();
        if self.push(me) == 0 {
            me.grace = me.grace || (!me.waits && self.ring.fill() < 500);
            return false;
        }
        let held = || me.out.iter().map(S::bytes_of).sum::<u64>();
        if me.out.len() < MOST_HELD && held() < me.overflow {
            me.wait = NAP;
            return false;
        }
        me.counts.blocked += u64::from(me.waits || me.grace);
        let until = me.grace.then(|| Instant::now() + GRACE);
        loop {
            let stopping = self.stopping.load(Ordering::Acquire);
            if stopping && self.finished.is_some() && self.ring.is_shared() {
                // The group's other streams hand it on.
                break;
            }
            let graced = until.is_some_and(|until| Instant::now() < until);
            if stopping || !(me.waits || graced) {
                self.refuse(me, stopping);
                break;
            }
            me.publish();
            self.ring.wait_for_room(if me.waits { WAIT } else { GRACE });
            self.waited();
            if !self.is_over() {
                self.tick(me);
            }
            if self.push(me) == 0 {
                break;
            }
        }
        true
    }

    /// As much of what is finished as there is room for. Returns how much is left.
    pub(crate) fn push(&self, me: &mut Reader<S::Out>) -> usize {
        match &self.finished {
            None => {
                self.ring.push(&mut me.out);
                me.out.len()
            }
            // Under its lock, so that nobody overtakes.
            Some(finished) => {
                let mut finished = lock(finished);
                self.ring.push(&mut finished);
                finished.len()
            }
        }
    }

    /// For what is left there is no room.
    pub(crate) fn refuse(&self, me: &mut Reader<S::Out>, stopping: bool) {
        let mut left = match &self.finished {
            None => std::mem::take(&mut me.out),
            Some(finished) => std::mem::take(&mut *lock(finished)),
        };
        *(if stopping { &mut me.counts.stopped } else { &mut me.counts.ring_full }) += left.len() as u64;
        self.table().store.refused(&mut left);
        me.grace = false;
    }
}
