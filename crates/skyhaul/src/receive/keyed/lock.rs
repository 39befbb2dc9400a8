//! The stream's lock as a reader holds it: taken when it is first needed, let go whenever the reader waits.

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

/// A reader waits no longer than this for memory that does not come: heaps under construction may hold all of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// After a wait for a user that was in vain, the next one, where too little waits for the user, is at least so far away.
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
    /// Other readers want it too. Where there is only one, it keeps the lock while it looks: even a lock that nobody else
    /// wants waits until what was copied past the cache is in memory.
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

    /// Take what is finished, and let the table go.
    #[inline]
    pub(crate) fn finish(&mut self, me: &mut Reader<S::Out>) {
        if let Some(table) = self.table.take() {
            self.core.take_finished(table, me);
        }
    }

    /// Place a part; where the reader may wait, wait for memory.
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

    /// Place a run; returns how many of its packets are. Where the reader may wait, wait for memory.
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

    /// Whether a user who runs for a moment may give enough memory back. Where what waits for it is too little, heaps under
    /// construction may hold the rest, of a sender who announces more than comes: that is tried now and then only, or
    /// every packet of such a sender would cost the others a wait.
    fn may_help_to_wait(&self, me: &Reader<S::Out>, head: &HeadOf<'_, S>, run: Run<'_>) -> bool {
        let needed = head.placement(0).size.unwrap_or(run.length());
        let usual = me.counts.heap_bytes / me.counts.heaps.max(1);
        let waiting = (self.core.ring.len() as u64).saturating_mul(usual);
        me.grace && (waiting >= needed || me.now >= me.vain_until)
    }

    /// Hand on what is finished, and try again until the user has given memory back.
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
        me.counts.blocked += 1;
        let _waits = MemoryWait::new(self.core);
        loop {
            self.finish(me);
            self.core.hand_over(me);
            std::thread::sleep(Duration::from_millis(1));
            self.core.tick(me);
            match self.table().run(head, at, run, sender, me.now, &mut me.counts) {
                Err(refused) if refused.lacks_memory() && begin.elapsed() < patience => {}
                other => return other,
            }
        }
    }
}
