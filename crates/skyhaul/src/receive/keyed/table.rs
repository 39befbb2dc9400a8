//! What the readers of a stream share under its lock: heaps under construction, ends, senders.
//!
//! ```text
//!   add_run ─▶ accept ─▶ control ─▶ KeyedWindow::reserve ─▶ note_part ─▶ Store::copy_run ─▶ KeyedSlot::complete ─▶ hand_over
//!              ended?    start and  which heap,       missing      one copy           what arrived;         complete, or given
//!              limits    stop items slot, memory      heaps                           complete?             up: Store::deliver
//! ```

use super::config::{KeyedBy, StopRule, StreamConfig};
use super::stats::{Missing, MissingHeaps, StreamCounts, StreamEnd};
use super::store::{HeadOf, Run, RunRejected, Sender, Store};
use crate::receive::filter::Allow;
use skyhaul_core::assembly::{KeyedWindow, Retired, Slot, Window};
use skyhaul_core::placement::{Nanos, Placement, Reject};
use skyhaul_core::wire::keyed::Keyed as _;
use skyhaul_io::memory::prefetch;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A host as a number: its IPv4 address, or the /64 network of its IPv6 address, since one host may have all of that.
#[inline]
fn host(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

/// A heap that arrives as one long packet, and is filled outside the table.
pub(crate) struct WholeHeap<B> {
    placement: Placement,
    pub(crate) block: B,
    /// Its size.
    pub(crate) bytes: u64,
    /// Bytes received, from its beginning.
    pub(crate) filled: u64,
}

/// The time of a packet, and where the reader has its counters and finished objects.
pub(crate) struct Delivery<'a, O> {
    pub(crate) now: Nanos,
    pub(crate) counts: &'a mut StreamCounts,
    pub(crate) out: &'a mut VecDeque<O>,
}

/// Shared by the readers of a stream.
pub(crate) struct Table<S: Store> {
    heaps: KeyedWindow<S::Block>,
    pub(crate) store: S,
    senders: HashMap<SocketAddr, u64>,
    stopped: HashSet<SocketAddr>,
    missing: MissingHeaps,
    rules: Rules,
    largest: u64,
    /// When a packet was last accepted.
    last: Option<Nanos>,
    handed_heaps: u64,
    handed_bytes: u64,
    ended: Option<StreamEnd>,
}

/// The part of the configuration used for packets and heaps.
struct Rules {
    key: KeyedBy,
    stop: StopRule,
    idle: Option<Nanos>,
    heap_limit: u64,
    byte_limit: u64,
    start_at: u64,
    incomplete: bool,
    allow: Allow,
    senders: usize,
}

pub(crate) fn nanos(duration: Duration) -> Nanos {
    Nanos::from(duration)
}

impl<S: Store> Table<S> {
    pub(crate) fn new(config: &StreamConfig, store: S) -> Self {
        Self {
            heaps: config.window(S::Wire::STATES_SIZE, S::FILLED_OUTSIDE),
            store,
            senders: HashMap::new(),
            stopped: HashSet::new(),
            missing: MissingHeaps::new(config.shared),
            rules: Rules {
                key: config.key,
                stop: config.stop,
                idle: config.idle_timeout.map(nanos),
                heap_limit: config.heap_limit.unwrap_or(u64::MAX),
                byte_limit: config.byte_limit.unwrap_or(u64::MAX),
                start_at: config.start_at.unwrap_or(0),
                incomplete: config.incomplete,
                allow: config.allow.clone(),
                senders: config.senders,
            },
            largest: config.largest(),
            last: None,
            handed_heaps: 0,
            handed_bytes: 0,
            ended: None,
        }
    }

    pub(crate) fn ended(&self) -> Option<StreamEnd> {
        self.ended
    }

    pub(crate) fn live(&self) -> usize {
        self.heaps.live()
    }

    /// Heaps that are missing entirely.
    pub(crate) fn missing(&self) -> Missing {
        self.missing.missing()
    }

    /// The sender with this address, for this reader, which may hold it back.
    pub(crate) fn sender(
        &mut self,
        (reader, is_held_back): (usize, bool),
        address: SocketAddr,
    ) -> Result<Sender, Reject> {
        self.rules.allow.sender(address)?;
        if self.rules.key == KeyedBy::Counter {
            return Ok(Sender { address, number: 0, reader, is_held_back });
        }
        let next = self.senders.len() as u64 + 1;
        let number = match self.senders.get(&address) {
            Some(&number) => number,
            None if self.senders.len() >= self.rules.senders => return Err(Reject::TooManyStreams),
            None => *self.senders.entry(address).or_insert(next),
        };
        Ok(Sender { address, number, reader, is_held_back })
    }

    /// Place the payloads of a run, which begin `at` bytes into that of a packet with this head, and deliver what is finished.
    /// Returns the number of packets: at least one.
    #[inline]
    pub(crate) fn add_run(
        &mut self,
        head: &HeadOf<'_, S>,
        at: u64,
        run: &Run<'_>,
        from: &Sender,
        to: Delivery<'_, S::Out>,
    ) -> Result<usize, RunRejected> {
        let Delivery { now, counts, out } = to;
        let packet = S::Wire::placement(head, from.number);
        self.accept(&packet).map_err(|why| run.rejected(why))?;
        if self.control(head, &packet, at, from, now, counts) {
            return Ok(1);
        }
        let part = Placement { offset: packet.offset + at, length: run.length(), ..packet };
        let (store, mut no_memory) = (&mut self.store, Reject::NoBuffer);
        let allocate = |bytes, old| {
            store.allocate(head, from, bytes, old).map_err(|(old, why)| {
                no_memory = why;
                old
            })
        };
        self.heaps.sent_from(host(from.address.ip()), from.address.port());
        // What the kernel has placed is in memory of its own.
        self.heaps.held_back(from.is_held_back || run.placed.is_some());
        let mut slot = match self.heaps.reserve(part, now, allocate) {
            Ok(slot) => slot,
            Err(why) => {
                self.note_rejected(why, &packet, S::Wire::is_control(head), from, counts);
                return Err(run.without_place(why, no_memory, packet.size.is_some()));
            }
        };
        let is_first = slot.is_first();
        let began_by = if is_first { None } else { S::began_by(slot.block()) };
        self.missing.note_part::<S::Wire>(from, &packet, is_first, began_by, S::Wire::is_control(head));
        let copied = match run.placed {
            None => self.store.copy_run(slot.block(), head, part.offset, run),
            Some(placed) => self.store.adopt(slot.block(), head, part.offset, run, (from, placed)),
        };
        let (placed, refused) = copied.map_err(|why| run.rejected(why))?;
        counts.pointers_refused += refused;
        let cut = if placed == run.count { part.length } else { run.bytes_of(placed) };
        slot.cut(part.offset + cut);
        slot.of_packets(placed as u64);
        let complete = slot.complete(now);
        while let Some(heap) = self.heaps.pop_retired() {
            self.hand_over_queued(heap, out, counts);
        }
        if let Some(heap) = complete {
            self.hand_over(heap, out, counts);
        }
        if is_first {
            self.heaps.soon().into_iter().flatten().for_each(|line| prefetch(line.as_ptr()));
        }
        let is_whole = at + part.length == packet.length && packet.size == Some(packet.length);
        counts.single_packet_heaps += u64::from(is_whole);
        self.last = Some(now);
        if S::EAGER {
            self.take_finished(out, counts);
        }
        Ok(placed)
    }

    /// The same for one payload, or a part of it.
    #[inline]
    pub(crate) fn add_part(
        &mut self,
        head: &HeadOf<'_, S>,
        at: u64,
        bytes: &[u8],
        from: &Sender,
        to: Delivery<'_, S::Out>,
    ) -> Result<(), Reject> {
        self.add_run(head, at, &Run::one(bytes), from, to).map(|_| ()).map_err(|rejected| rejected.why)
    }

    /// Whether the stream takes this packet at all.
    #[inline]
    fn accept(&self, packet: &Placement) -> Result<(), Reject> {
        if self.ended.is_some() {
            return Err(Reject::AfterStop);
        }
        if packet.key.number < self.rules.start_at { Err(Reject::BeforeStart) } else { Ok(()) }
    }

    /// Apply a start or stop item. Returns whether the packet is used up by that.
    #[inline]
    fn control(
        &mut self,
        head: &HeadOf<'_, S>,
        packet: &Placement,
        at: u64,
        from: &Sender,
        now: Nanos,
        counts: &mut StreamCounts,
    ) -> bool {
        if S::Wire::is_stop(head) && self.rules.stop != StopRule::Never {
            if at == 0 {
                counts.single_packet_stops += u64::from(packet.size == Some(packet.length));
                self.stop_item(from, now, counts);
            }
            return true;
        }
        if S::Wire::is_start(head) && self.heaps.forget(packet.key, now) {
            self.missing.begin(from.counted_as::<S::Wire>(packet.key));
        }
        false
    }

    /// Count a rejected packet, and note its heap.
    #[cold]
    fn note_rejected(
        &mut self,
        why: Reject,
        packet: &Placement,
        is_control: bool,
        from: &Sender,
        counts: &mut StreamCounts,
    ) {
        if !matches!(why, Reject::Duplicate | Reject::Late) {
            // It arrived, although it has no place.
            self.missing.note(from.counted_as::<S::Wire>(packet.key), packet, is_control);
        }
        counts.repeated_heaps += self.heaps.take_repeated();
    }

    /// Memory for a heap that arrives as one long packet, to be filled outside the table. `None`: it is placed like other
    /// packets.
    pub(crate) fn begin_whole(
        &mut self,
        head: &HeadOf<'_, S>,
        from: &Sender,
        counts: &mut StreamCounts,
    ) -> Option<WholeHeap<S::Block>> {
        let placement = S::Wire::placement(head, from.number);
        // Checked first, because a store counts allocations.
        let wanted = S::FILLED_OUTSIDE
            && self.ended.is_none()
            && !(S::Wire::is_stop(head) && self.rules.stop != StopRule::Never)
            && !S::Wire::is_start(head)
            && placement.key.number >= self.rules.start_at
            && placement.length <= self.largest;
        if !wanted {
            return None;
        }
        let mut block = self.store.allocate(head, from, placement.length, None).ok()?;
        counts.pointers_refused += self.store.copy(&mut block, head, 0, &[]).ok()?;
        self.missing.note(from.counted_as::<S::Wire>(placement.key), &placement, S::Wire::is_control(head));
        Some(WholeHeap { placement, block, bytes: placement.length, filled: 0 })
    }

    /// Add such a heap to the table, as far as received. It began before the stream's end, so it is delivered as it is if
    /// the stream ended meanwhile. With `last`, it is not completed later, unless other senders send parts of it.
    pub(crate) fn finish_whole(
        &mut self,
        whole: WholeHeap<S::Block>,
        last: bool,
        now: Nanos,
        counts: &mut StreamCounts,
    ) -> Result<(), Reject> {
        let WholeHeap { placement, block, bytes, filled } = whole;
        let key = placement.key;
        let part = Placement { offset: 0, length: filled, size: Some(bytes), ..placement };
        let mut block = Some(block);
        self.heaps.held_back(true);
        // It must not replace the bytes that a heap without a size has already.
        let mut slot = match self.heaps.reserve(part, now, |_, old| match old {
            None => block.take().ok_or(None),
            old => Err(old),
        }) {
            Ok(slot) => slot,
            Err(reason) => {
                counts.repeated_heaps += self.heaps.take_repeated();
                return Err(reason);
            }
        };
        let began = slot.is_first();
        if let Some(mut block) = block.take() {
            // The same heap is under construction from other packets.
            counts.pointers_refused += self.store.merge(slot.block(), &mut block, filled)?;
        }
        slot.commit(now);
        counts.single_packet_heaps += u64::from(filled == bytes);
        self.note_arrival(now);
        if last && began {
            self.heaps.give_up(key, now);
        }
        if self.ended.is_some() {
            self.heaps.finish(now);
        }
        Ok(())
    }

    /// Bytes arrived that are not in the table yet, so the stream is not idle.
    pub(crate) fn note_arrival(&mut self, now: Nanos) {
        self.last = self.last.max(Some(now));
    }

    #[cold]
    fn stop_item(&mut self, from: &Sender, now: Nanos, counts: &mut StreamCounts) {
        counts.stops += 1;
        let enough = match self.rules.stop {
            StopRule::Never => false,
            StopRule::First => true,
            StopRule::All(count) => {
                // Bounded like the senders.
                if self.stopped.len() < count {
                    self.stopped.insert(from.address);
                }
                self.stopped.len() >= count
            }
        };
        if enough {
            self.end(StreamEnd::StopItem, now);
        }
    }

    /// The stream ends: heaps under construction retire as they are.
    pub(crate) fn end(&mut self, why: StreamEnd, now: Nanos) {
        if self.ended.is_none() {
            self.ended = Some(why);
            self.heaps.finish(now);
            self.missing.finish();
        }
    }

    /// Give up the heaps under construction.
    pub(crate) fn finish_heaps(&mut self, now: Nanos) {
        self.heaps.finish(now);
    }

    /// Handle timeouts.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) {
        self.heaps.handle_timeout(now);
        let idle = self.rules.idle.zip(self.last).is_some_and(|(idle, last)| now.since(last) >= idle);
        if idle {
            self.end(StreamEnd::Idle, now);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called if no packet arrives before.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        let idle = self.rules.idle.zip(self.last).map(|(idle, last)| last.plus(idle));
        [self.heaps.poll_timeout(), idle].into_iter().flatten().min()
    }

    /// Take finished heaps, and what the store made ready.
    #[inline]
    pub(crate) fn drain(&mut self, out: &mut VecDeque<S::Out>, counts: &mut StreamCounts) {
        self.take_finished(out, counts);
        self.store.flush(self.ended.is_some(), out);
    }

    #[inline]
    fn take_finished(&mut self, out: &mut VecDeque<S::Out>, counts: &mut StreamCounts) {
        counts.forgotten_heaps += self.heaps.take_forgotten_early();
        let (packets, bytes) = self.heaps.take_dropped();
        if packets > 0 {
            counts.refuse(Reject::WrongSize, packets as usize, bytes);
        }
        let (packets, bytes) = self.heaps.take_taken_back();
        if packets > 0 {
            counts.refuse(Reject::NoBuffer, packets as usize, bytes);
        }
        loop {
            while let Some(heap) = self.heaps.poll_retired() {
                self.hand_over_queued(heap, out, counts);
            }
            if self.ended.is_some() || self.handed_heaps == 0 || !self.is_at_limit() {
                return;
            }
            self.end(StreamEnd::Limit, self.last.unwrap_or_default());
        }
    }

    /// Whether as much as was asked for was delivered.
    #[inline]
    fn is_at_limit(&self) -> bool {
        self.handed_heaps >= self.rules.heap_limit || self.handed_bytes >= self.rules.byte_limit
    }

    /// Count a finished heap, and deliver it. Inlined, so that it is not written to memory between the window and the user.
    #[inline(always)]
    fn hand_over(&mut self, heap: Retired<S::Block>, out: &mut VecDeque<S::Out>, counts: &mut StreamCounts) {
        counts.retired[heap.cause as usize] += 1;
        let whole = heap.missing.is_empty();
        counts.items_outside += S::items_outside(&heap);
        if !whole && !self.rules.incomplete {
            counts.incomplete_dropped += 1;
            return;
        }
        if self.is_at_limit() {
            counts.stopped += 1;
            return;
        }
        let bytes = heap.range.end;
        self.handed_heaps += 1;
        self.handed_bytes += bytes;
        counts.heaps += 1;
        counts.heap_bytes += bytes;
        counts.incomplete_heaps += u64::from(!whole);
        self.store.deliver(heap, out);
    }

    /// The same of a heap that did not end with the packet at hand.
    #[inline(never)]
    fn hand_over_queued(
        &mut self,
        heap: Retired<S::Block>,
        out: &mut VecDeque<S::Out>,
        counts: &mut StreamCounts,
    ) {
        self.hand_over(heap, out, counts);
    }
}
