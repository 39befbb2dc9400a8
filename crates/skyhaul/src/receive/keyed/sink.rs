//! A reader as an engine sees it: trains, and what a program in the kernel has placed.

use super::placing::{HeapPlacing, SenderClaim};
use super::store::Store;
use super::stream::StreamReader;
use super::train::TableLock;
use crate::receive::placer::{TakenFromLog, Until};
use skyhaul_core::placement::rule::RuleCounts;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::source::Train;
use std::io;
use std::net::SocketAddr;

/// Bytes of finished objects that a taker is given at a time: a few per cent of the smallest L2 cache.
const TAKEN_BYTES: u64 = 32 << 10;

/// Gives each train that has arrived to the function. Returns the number of packets.
pub(crate) type PollTrains<'a> = dyn FnMut(&mut dyn FnMut(&Train<'_>)) -> io::Result<usize> + 'a;

/// Takes trains for a table of any family. Called on the thread of an engine.
pub(crate) trait TrainSink: Send {
    /// Place the packets of a train.
    fn handle_train(&mut self, train: &Train<'_>);
    /// Place the packets of all trains that `poll` gives, and return what it returns. If nobody else feeds the table, it is locked once
    /// for all of them.
    ///
    /// # Errors
    /// Those of `poll`.
    fn handle_trains(&mut self, poll: &mut PollTrains<'_>) -> io::Result<usize>;
    /// All trains of a poll were given: handle timeouts, deliver finished objects.
    fn after_poll(&mut self);
    /// Whether the stream has ended.
    fn is_over(&self) -> bool;
    /// Whether the kernel may place its objects.
    fn can_place(&self) -> bool;
    /// For a program that places this sender's heaps; `None` if it has one, or they are not placed.
    fn claim(&self, sender: SocketAddr) -> Option<SenderClaim>;
    /// The kernel places heaps of a sender from now on.
    fn begin_placing(&mut self, placing: HeapPlacing);
    /// Take what the kernel has placed of this sender.
    fn take_log(&mut self, sender: &SocketAddr, until: Until) -> TakenFromLog;
    /// All of a turn is taken: prepare the kernel for more.
    fn turn_placing(&mut self, sender: &SocketAddr);
    /// The kernel places nothing more.
    fn end_placing(&mut self, sender: &SocketAddr);
    /// Gives back what it had for that.
    fn forget_placing(&mut self, sender: &SocketAddr);
    /// What the kernel has placed, and the bytes of these packets.
    fn placed(&self, sender: &SocketAddr) -> Option<(RuleCounts, u64)>;
}

impl<S: Store> TrainSink for StreamReader<S> {
    fn handle_train(&mut self, train: &Train<'_>) {
        self.packets += train.count();
        // Unlocked until the next train: trains of other families may be received meanwhile.
        let mut held = TableLock::new(&self.core);
        self.core.add_train(&mut held, &mut self.me, train);
        held.release(&mut self.me);
    }

    fn handle_trains(&mut self, poll: &mut PollTrains<'_>) -> io::Result<usize> {
        let Self { core, me, packets, .. } = self;
        let mut held = TableLock::new(core);
        let polled = poll(&mut |train| {
            *packets += train.count();
            core.add_train(&mut held, me, train);
            // The table stays locked, but memory is used again while it is in the cache.
            if me.counts.heap_bytes - me.taken_bytes >= TAKEN_BYTES {
                core.give_to_taker(me);
            }
        });
        held.release(me);
        polled
    }

    fn after_poll(&mut self) {
        self.polled();
    }

    fn is_over(&self) -> bool {
        self.core.is_over()
    }

    fn can_place(&self) -> bool {
        S::Wire::IS_PLACED
    }

    fn claim(&self, sender: SocketAddr) -> Option<SenderClaim> {
        let has_memory = self.core.table().store.placing().is_some();
        if has_memory { self.core.placed_senders.claim(sender) } else { None }
    }

    fn begin_placing(&mut self, placing: HeapPlacing) {
        if let Some(all) = self.core.table().store.placing() {
            all.push(placing);
        }
    }

    fn take_log(&mut self, sender: &SocketAddr, until: Until) -> TakenFromLog {
        let mut held = TableLock::new(&self.core);
        let taken = self.core.add_log(&mut held, &mut self.me, sender, until);
        held.release(&mut self.me);
        self.packets += taken.packets as usize;
        taken
    }

    fn turn_placing(&mut self, sender: &SocketAddr) {
        if let Some(place) = self.core.table().store.placing_of(sender) {
            place.open_ahead();
        }
    }

    fn end_placing(&mut self, sender: &SocketAddr) {
        if let Some(place) = self.core.table().store.placing_of(sender) {
            place.placer.has_ended = true;
            place.placer.close(|_| true);
        }
        self.take_log(sender, Until::End);
    }

    fn forget_placing(&mut self, sender: &SocketAddr) {
        if let Some(all) = self.core.table().store.placing() {
            all.retain(|place| place.sender != *sender);
        }
    }

    fn placed(&self, sender: &SocketAddr) -> Option<(RuleCounts, u64)> {
        let mut table = self.core.table();
        table.store.placing_of(sender).map(|place| (place.counts(), place.bytes))
    }
}
