//! What a reader does with a train: head, run, table, and finished objects into the ring.
//!
//! ```text
//!   add_train ─▶ place_run ─▶ TableLock::add_run ─▶ Table::add_run ─▶ … ─▶ take_ready ─▶ deliver, once per poll
//!                read a head, find the          reserve, copy, commit      unlock       into the ring
//!                packets that continue it
//! ```
//!
//! Consecutive packets of a heap are looked up and noted once. When packets of 1472 bytes were placed one by one, most of the
//! 780 instructions per packet found the same heap again. Packets outside such a run are placed one by one, with the same
//! result.

use super::state::{GRACE, MAX_HELD_HEAPS, MIN_POLL_WAIT, ReaderState, StreamState};
use super::store::{HeadOf, Run, RunRejected, Sender, Series, Store, lock};
use super::table::Table;
use crate::receive::reader::WAIT;
use skyhaul_core::placement::{Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::copy;
use skyhaul_io::source::Train;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum wait of a reader for memory, because heaps under construction may hold all of it.
pub(crate) const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts to get memory.
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// Minimum time from an unsuccessful wait for the user to the next one, if too little is queued for the user.
const GRACE_INTERVAL: Nanos = Nanos(50_000_000);

/// Series behind the first in a run: two are what most heaps have.
const MORE: usize = 3;

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

    /// Take finished objects, and unlock.
    #[inline]
    pub(crate) fn release(&mut self, me: &mut ReaderState<S::Out>) {
        if let Some(table) = self.table.take() {
            self.core.take_ready(table, me);
        }
    }

    /// Place a part; if the reader may wait, wait for memory.
    #[inline]
    pub(crate) fn add_part(
        &mut self,
        me: &mut ReaderState<S::Out>,
        head: &HeadOf<'_, S>,
        at: u64,
        bytes: &[u8],
        sender: &Sender,
    ) -> Result<(), Reject> {
        self.add_run(me, head, at, &Run::one(bytes), sender).map(|_| ()).map_err(|rejected| rejected.why)
    }

    /// Place a run; returns the number of packets placed. If the reader may wait, wait for memory.
    #[inline]
    pub(crate) fn add_run(
        &mut self,
        me: &mut ReaderState<S::Out>,
        head: &HeadOf<'_, S>,
        at: u64,
        run: &Run<'_>,
        sender: &Sender,
    ) -> Result<usize, RunRejected> {
        match self.table().add_run(head, at, run, sender, me.delivery()) {
            Err(rejected) if rejected.lacks_memory() && me.waits => {
                self.wait_for_memory(me, head, at, run, sender, MEMORY_TIMEOUT)
            }
            Err(rejected) if rejected.lacks_memory() && self.may_give_grace(me, head, run) => {
                let placed = self.wait_for_memory(me, head, at, run, sender, GRACE);
                let vain = placed.is_err_and(|rejected| rejected.lacks_memory());
                me.grace = !vain;
                if vain {
                    me.no_grace_until = Nanos(me.now.0.saturating_add(GRACE_INTERVAL.0));
                }
                placed
            }
            other => other,
        }
    }

    /// Whether the user could release enough memory. If too little is queued, heaps under construction may hold the rest,
    /// for example of a sender that announces more than it sends. Then a wait is tried only now and then, or every packet
    /// of such a sender would delay the others.
    fn may_give_grace(&self, me: &ReaderState<S::Out>, head: &HeadOf<'_, S>, run: &Run<'_>) -> bool {
        let needed = S::Wire::placement(head, 0).size.unwrap_or(run.length());
        let usual = me.counts.heap_bytes / me.counts.heaps.max(1);
        let waiting = (self.core.ring.len() as u64).saturating_mul(usual);
        me.grace && (waiting >= needed || me.now >= me.no_grace_until)
    }

    /// Deliver finished objects, and retry until the user has released memory.
    #[cold]
    fn wait_for_memory(
        &mut self,
        me: &mut ReaderState<S::Out>,
        head: &HeadOf<'_, S>,
        at: u64,
        run: &Run<'_>,
        sender: &Sender,
        timeout: Duration,
    ) -> Result<usize, RunRejected> {
        let begin = Instant::now();
        let opening = self.core.opening.as_deref();
        me.counts.blocked += u64::from(opening.is_none());
        let _waits = MemoryWait::new(self.core);
        loop {
            self.release(me);
            self.core.deliver(me);
            // Counted before the wait, which may be long.
            me.publish();
            match opening {
                Some(opening) => opening.wait(RETRY_DELAY),
                None => std::thread::sleep(RETRY_DELAY),
            }
            // If the user has nothing to take, heaps under construction may hold the memory until they time out.
            if !me.waits || opening.is_some() || self.core.ring.len() > 0 {
                self.core.exclude_wait();
            }
            self.core.tick(me);
            match self.table().add_run(head, at, run, sender, me.delivery()) {
                Err(rejected)
                    if rejected.lacks_memory() && (opening.is_some() || begin.elapsed() < timeout) => {}
                other => return other,
            }
        }
    }
}

impl<S: Store> StreamState<S> {
    /// Place the packets of a train, each of which is a whole packet.
    #[inline]
    pub(crate) fn add_train(
        &self,
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        train: &Train<'_>,
    ) {
        self.update_clock(me);
        me.counts.trains += 1;
        me.counts.packets += train.count() as u64;
        me.counts.bytes += train.bytes.len() as u64;
        match Self::sender(held.table(), me, train.sender) {
            Err(why) => {
                me.counts.refused_bytes += train.bytes.len() as u64;
                train.packets().for_each(|_| me.counts.rejects.add(why));
            }
            Ok(sender) => {
                // Without a stride it is one packet of any length.
                let stride = if train.stride == 0 { train.bytes.len() } else { train.stride };
                let mut left = train.bytes;
                if left.len() <= stride {
                    Self::read_packet(held, me, left, &sender);
                    left = &[];
                }
                while !left.is_empty() {
                    let placed = Self::place_run(held, me, left, stride, &sender);
                    left = left.get(placed * stride..).unwrap_or_default();
                }
            }
        }
        if held.shared {
            held.release(me);
        }
    }

    /// Read the head of the packet at the front of `bytes`, and place, or reject, it and those that continue it. Returns the
    /// number of packets.
    #[inline]
    fn place_run(
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        bytes: &[u8],
        stride: usize,
        sender: &Sender,
    ) -> usize {
        let packet = &bytes[..stride.min(bytes.len())];
        let head = match S::Wire::read(packet) {
            Ok(head) => head,
            Err(why) => {
                me.counts.refuse(why, 1, packet.len() as u64);
                return 1;
            }
        };
        let first = Self::series(&head, bytes, packet);
        let Placement { offset, size, .. } = S::Wire::placement(&head, 0);
        let goes_on = bytes.len() > first.count * packet.len();
        // Without a size, the packet behind the heap's last would be read twice.
        if goes_on && size.is_some_and(|size| offset + first.length() < size) {
            return Self::place_joined(held, me, &head, first, bytes, packet.len(), sender);
        }
        let run = Run::of(first);
        match held.add_run(me, &head, 0, &run, sender) {
            Ok(placed) => placed,
            Err(rejected) => Self::place_rejected(held, me, &run, rejected, (bytes, packet.len()), sender),
        }
    }

    /// The same for `first` with the packets behind it, at the front of `bytes`, that continue its heap with other heads.
    #[inline(never)]
    fn place_joined<'a>(
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        head: &HeadOf<'a, S>,
        first: Series<'a>,
        bytes: &'a [u8],
        stride: usize,
        sender: &Sender,
    ) -> usize {
        let mut more = [Series::NONE; MORE];
        let joined = Self::joined(head, &first, bytes, stride, &mut more);
        let run = Run::of(first).joined(&more[..joined]);
        match held.add_run(me, head, 0, &run, sender) {
            Ok(placed) => placed,
            Err(rejected) => Self::place_rejected(held, me, &run, rejected, (bytes, stride), sender),
        }
    }

    /// Count the packets of a run that are rejected, and place the others one by one.
    #[cold]
    fn place_rejected(
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        run: &Run<'_>,
        rejected: RunRejected,
        (bytes, stride): (&[u8], usize),
        sender: &Sender,
    ) -> usize {
        if run.count == 1 {
            me.counts.refuse(rejected.why, 1, run.length());
            return 1;
        }
        me.counts.refuse(rejected.why, rejected.packets, run.bytes_of(rejected.packets));
        for packet in bytes.chunks(stride).take(run.count).skip(rejected.packets) {
            Self::read_packet(held, me, packet, sender);
        }
        run.count
    }

    /// The packets at the front of `bytes` whose heads continue that of `packet`, and `packet`.
    #[inline(always)]
    fn series<'a>(head: &HeadOf<'a, S>, bytes: &'a [u8], packet: &'a [u8]) -> Series<'a> {
        let (start, following) = (S::Wire::placement(head, 0).start, Self::following(head, bytes, packet));
        Series::of(start as usize, bytes, packet.len(), 1 + following)
    }

    /// Packets behind `first`, at the front of `bytes`, that continue its heap with other heads: of most senders, only the first
    /// packet has items, and the last is padded. Returns how many series they are.
    #[inline(always)]
    fn joined<'a>(
        head: &HeadOf<'a, S>,
        first: &Series<'a>,
        bytes: &'a [u8],
        stride: usize,
        more: &mut [Series<'a>; MORE],
    ) -> usize {
        let Placement { offset, size, .. } = S::Wire::placement(head, 0);
        let (mut end, mut count, mut joined) = (offset + first.length(), first.count, 0);
        let size = size.unwrap_or(0);
        while end < size
            && let Some(series) = more.get_mut(joined)
            && let Some(rest) = bytes.get(count * stride..)
            && let packet = &rest[..stride.min(rest.len())]
            && let Some(next) = S::Wire::continues(head, end, packet)
        {
            *series = Self::series(&next, rest, packet);
            (end, count, joined) = (end + series.length(), count + series.count, joined + 1);
        }
        joined
    }

    /// Number of packets that continue the object of `packet`, at the front of `bytes`, whose head this is.
    #[inline(always)]
    fn following<'a>(head: &HeadOf<'a, S>, bytes: &[u8], packet: &'a [u8]) -> usize {
        let Placement { offset, length, size, .. } = S::Wire::placement(head, 0);
        let (mut end, size) = (offset + length, size.unwrap_or(u64::MAX));
        if end >= size || bytes.len() < 2 * packet.len() {
            return 0;
        }
        let Some(follows) = S::Wire::following(head, packet) else { return 0 };
        let (mut count, mut rest) = (0, &bytes[packet.len()..]);
        while end < size
            && let Some((next, behind)) = rest.split_at_checked(packet.len())
            && follows(count + 1, next)
        {
            (count, rest, end) = (count + 1, behind, end + length);
        }
        count as usize
    }

    /// Read the head of a packet, and place or reject it.
    #[inline]
    fn read_packet(
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        packet: &[u8],
        sender: &Sender,
    ) {
        match S::Wire::read(packet) {
            Ok(head) => Self::place_packet(held, me, &head, packet, sender),
            Err(why) => me.counts.refuse(why, 1, packet.len() as u64),
        }
    }

    #[inline]
    fn place_packet(
        held: &mut TableLock<'_, S>,
        me: &mut ReaderState<S::Out>,
        head: &HeadOf<'_, S>,
        packet: &[u8],
        sender: &Sender,
    ) {
        let payload = &packet[S::Wire::placement(head, 0).start as usize..];
        if let Err(why) = held.add_part(me, head, 0, payload, sender) {
            me.counts.refuse(why, 1, payload.len() as u64);
        }
    }

    /// Put finished objects into the ring. If it has no room, wait or drop them. Returns whether it had none.
    pub(crate) fn deliver(&self, me: &mut ReaderState<S::Out>) -> bool {
        if self.shared_queue.is_none() && me.out.is_empty() {
            return false;
        }
        copy::fence();
        if self.push_ready(me) == 0 {
            me.grace = me.grace || (!me.waits && self.ring.fill() < 500);
            return false;
        }
        let held = || me.out.iter().map(S::bytes_of).sum::<u64>();
        if me.out.len() < MAX_HELD_HEAPS && held() < me.overflow {
            me.poll_wait = MIN_POLL_WAIT;
            return false;
        }
        me.counts.blocked += u64::from(me.waits || me.grace);
        let until = me.grace.then(|| Instant::now() + GRACE);
        loop {
            let stopping = self.stopping.load(Ordering::Acquire);
            if stopping && self.shared_queue.is_some() && self.ring.is_shared() {
                // The group's other streams deliver them.
                break;
            }
            let graced = until.is_some_and(|until| Instant::now() < until);
            if stopping || !(me.waits || graced) {
                self.drop_ready(me, stopping);
                break;
            }
            me.publish();
            self.ring.wait_for_room(if me.waits { WAIT } else { GRACE });
            self.exclude_wait();
            if !self.is_over() {
                self.tick(me);
            }
            if self.push_ready(me) == 0 {
                break;
            }
        }
        true
    }

    /// Put as many finished objects into the ring as it has room for. Returns how many are left.
    pub(crate) fn push_ready(&self, me: &mut ReaderState<S::Out>) -> usize {
        match &self.shared_queue {
            None => {
                self.ring.push(&mut me.out);
                me.out.len()
            }
            // Under its lock, which keeps the order.
            Some(finished) => {
                let mut finished = lock(finished);
                self.ring.push(&mut finished);
                finished.len()
            }
        }
    }

    /// Drop and count finished objects for which the ring has no room.
    pub(crate) fn drop_ready(&self, me: &mut ReaderState<S::Out>, stopping: bool) {
        let mut left = match &self.shared_queue {
            None => std::mem::take(&mut me.out),
            Some(finished) => std::mem::take(&mut *lock(finished)),
        };
        *(if stopping { &mut me.counts.stopped } else { &mut me.counts.ring_full }) += left.len() as u64;
        self.table().store.reclaim(&mut left);
        me.grace = false;
    }
}
