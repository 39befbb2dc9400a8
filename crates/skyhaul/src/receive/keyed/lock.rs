//! The stream's lock as held by a reader: taken when first needed, released whenever the reader waits.

use super::own::{GRACE, Reader};
use super::run::{Refused, Run, Sender};
use super::state::StreamState;
use super::store::{HeadOf, Store};
use super::table::Table;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::keyed::Head;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum wait of a reader for memory, because heaps under construction may hold all of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Longest time between two attempts.
const TURN: Duration = Duration::from_millis(1);

/// Minimum time from an unsuccessful wait for the user to the next one, if too little is queued for the user.
const VAIN: Nanos = Nanos(50_000_000);

/// A reader waits for memory until this is dropped.
struct MemoryWait<'a>(&'a AtomicUsize);

impl<'a> MemoryWait<'a> {
    fn new<S: Store>(core: &'a StreamState<S>) -> Self {
        core.waiting.fetch_add(1, Ordering::Relaxed);
        Self(&core.waiting)
    }
}

impl Drop for MemoryWait<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The table, locked when it is first needed.
pub(crate) struct TableLock<'a, S: Store> {
    core: &'a StreamState<S>,
    table: Option<MutexGuard<'a, Table<S>>>,
    /// Other readers use the lock too. A single reader keeps it during a batch: even an uncontended lock waits until the
    /// bytes copied past the cache are in memory.
    pub(crate) shared: bool,
}

impl<'a, S: Store> TableLock<'a, S> {
    pub(crate) fn new(core: &'a StreamState<S>) -> Self {
        Self { core, table: None, shared: core.running.load(Ordering::Relaxed) > 1 }
    }

    #[inline]
    pub(crate) fn table(&mut self) -> &mut Table<S> {
        self.table.get_or_insert_with(|| self.core.table())
    }

    /// Take the finished objects, and release the table.
    #[inline]
    pub(crate) fn finish(&mut self, me: &mut Reader<S::Out>) {
        if let Some(table) = self.table.take() {
            self.core.take_finished(table, me);
        }
    }

    /// Place a part; if the reader may wait, wait for memory.
    #[inline]
    pub(crate) fn part(
        &mut self,
        me: &mut Reader<S::Out>,
        head: &HeadOf<'_, S>,
        at: u64,
        bytes: &[u8],
        sender: &Sender,
    ) -> Result<(), Reject> {
        self.run(me, head, at, Run::one(bytes), sender).map(|_| ()).map_err(|refused| refused.why)
    }

    /// Place a run; returns the number of packets placed. If the reader may wait, wait for memory.
    #[inline]
    pub(crate) fn run(
        &mut self,
        me: &mut Reader<S::Out>,
        head: &HeadOf<'_, S>,
        at: u64,
        run: Run<'_>,
        sender: &Sender,
    ) -> Result<usize, Refused> {
        match self.table().run(head, at, run, sender, me.now, &mut me.counts) {
            Err(refused) if refused.lacks_memory() && me.waits => {
                self.with_patience(me, head, at, run, sender, PATIENCE)
            }
            Err(refused) if refused.lacks_memory() && self.may_help_to_wait(me, head, run) => {
                let placed = self.with_patience(me, head, at, run, sender, GRACE);
                let vain = placed.is_err_and(|refused| refused.lacks_memory());
                me.grace = !vain;
                if vain {
                    me.vain_until = Nanos(me.now.0.saturating_add(VAIN.0));
                }
                placed
            }
            other => other,
        }
    }

    /// Whether the user could release enough memory. If too little is queued, heaps under construction may hold the rest,
    /// for example of a sender that announces more than it sends. Then a wait is tried only now and then, or every packet
    /// of such a sender would delay the others.
    fn may_help_to_wait(&self, me: &Reader<S::Out>, head: &HeadOf<'_, S>, run: Run<'_>) -> bool {
        let needed = head.placement(0).size.unwrap_or(run.length());
        let usual = me.counts.heap_bytes / me.counts.heaps.max(1);
        let waiting = (self.core.ring.len() as u64).saturating_mul(usual);
        me.grace && (waiting >= needed || me.now >= me.vain_until)
    }

    /// Deliver what is finished, and retry until the user has released memory.
    #[cold]
    fn with_patience(
        &mut self,
        me: &mut Reader<S::Out>,
        head: &HeadOf<'_, S>,
        at: u64,
        run: Run<'_>,
        sender: &Sender,
        patience: Duration,
    ) -> Result<usize, Refused> {
        let begin = Instant::now();
        let opening = self.core.opening.as_deref();
        me.counts.blocked += u64::from(opening.is_none());
        let _waits = MemoryWait::new(self.core);
        loop {
            self.finish(me);
            self.core.hand_over(me);
            // Counted before the wait, which may be long.
            me.publish();
            match opening {
                Some(opening) => opening.wait(TURN),
                None => std::thread::sleep(TURN),
            }
            // Where the user has nothing to take, heaps under construction may hold the memory: those that are late give it back.
            if !me.waits || opening.is_some() || self.core.ring.len() > 0 {
                self.core.waited();
            }
            self.core.tick(me);
            match self.table().run(head, at, run, sender, me.now, &mut me.counts) {
                Err(refused)
                    if refused.lacks_memory() && (opening.is_some() || begin.elapsed() < patience) => {}
                other => return other,
            }
        }
    }
}
