//! An engine's end of the tables of heaps and events: their senders, and their tables.
//!
//! Separate from the engine, which handles frames and their streams; of keyed objects it has only a number for each
//! sender.

use super::admission::Worth;
use super::keyed::{PollTrains, TrainSink};
use super::objects::Objects;
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::RuleCounts;
use skyhaul_core::wire::FamilyRef;
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::source::Train;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The destination of an engine's heaps and events.
#[derive(Debug)]
pub(super) struct EngineObjects {
    pub(super) objects: Arc<Objects>,
    /// Number of the engine.
    pub(super) engine: usize,
}

/// A sender of heaps or events.
#[derive(Debug)]
struct KeyedSender {
    /// Index of the engine's end.
    end: usize,
    packets: u64,
    worth: Worth,
}

/// The ends of tables that an engine feeds.
struct Ends(Vec<(FamilyRef, Box<dyn TrainSink>)>);

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(family, _)| family)).finish()
    }
}

/// The tables that an engine feeds, and their senders.
#[derive(Debug)]
pub(super) struct Tables {
    /// Set if heaps and events are received too.
    keyed: Option<EngineObjects>,
    ends: Ends,
    senders: Vec<KeyedSender>,
    /// Places in `senders` whose sender was replaced.
    free: Vec<usize>,
}

impl Tables {
    /// `keyed` is `None` for an engine that receives none. With `family`, its table exists from now on.
    pub(super) fn new(keyed: Option<EngineObjects>, family: Option<FamilyRef>) -> Self {
        let mut tables = Self { keyed, ends: Ends(Vec::new()), senders: Vec::new(), free: Vec::new() };
        family.and_then(|family| tables.end_of(family));
        tables
    }

    /// Whether heaps and events are received at all.
    pub(super) fn are_open(&self) -> bool {
        self.keyed.is_some()
    }

    /// Whether there is a table.
    pub(super) fn any(&self) -> bool {
        !self.ends.0.is_empty()
    }

    /// Pass a train to the table at `end`.
    #[inline]
    pub(super) fn feed(&mut self, end: usize, train: &Train<'_>) {
        self.ends.0[end].1.handle_train(train);
    }

    /// Pass all trains that `poll` gives to the table at `end`.
    ///
    /// # Errors
    /// Those of `poll`.
    pub(super) fn feed_all(&mut self, end: usize, poll: &mut PollTrains<'_>) -> io::Result<usize> {
        self.ends.0[end].1.handle_trains(poll)
    }

    /// Note a train of sender `at`; returns the end for it.
    #[inline]
    pub(super) fn heard(&mut self, at: usize, train: &Train<'_>) -> usize {
        let sender = &mut self.senders[at];
        sender.packets += train.count() as u64;
        sender.end
    }

    /// A sender of keyed objects begins; returns its number.
    pub(super) fn begin(&mut self, family: FamilyRef, since: Nanos) -> Option<usize> {
        let end = self.end_of(family)?;
        let sender = KeyedSender { end, packets: 0, worth: Worth::new(since) };
        if let Some(at) = self.free.pop() {
            self.senders[at] = sender;
            return Some(at);
        }
        self.senders.push(sender);
        Some(self.senders.len() - 1)
    }

    /// The end of this family's table, if its objects have keys.
    fn end_of(&mut self, family: FamilyRef) -> Option<usize> {
        if let Some(at) = self.ends.0.iter().position(|(of, _)| *of == family) {
            return Some(at);
        }
        let EngineObjects { objects, engine } = self.keyed.as_ref()?;
        self.ends.0.push((family, objects.feed(family, *engine)?));
        Some(self.ends.0.len() - 1)
    }

    /// Packets per second of sender `at`.
    pub(super) fn rate(&self, at: usize, now: Nanos) -> f64 {
        let sender = &self.senders[at];
        sender.worth.rate(sender.packets, now)
    }

    /// Sender `at` is replaced. Its objects end by their own rules.
    pub(super) fn gave_way(&mut self, at: usize) {
        self.free.push(at);
    }

    /// The one table, if the kernel may place what is in it.
    pub(super) fn placeable(&mut self) -> Option<&mut dyn TrainSink> {
        match &mut self.ends.0[..] {
            [(_, end)] if end.can_place() => Some(&mut **end),
            _ => None,
        }
    }

    /// What the kernel has placed of a sender.
    pub(super) fn placed(&self, sender: &SocketAddr) -> Option<(RuleCounts, u64)> {
        self.ends.0.first().and_then(|(_, end)| end.placed(sender))
    }

    /// The memory of heaps.
    pub(super) fn memory(&self) -> Option<&HeapMemory> {
        self.keyed.as_ref().map(|keyed| keyed.objects.memory())
    }

    /// No train is queued.
    #[inline]
    pub(super) fn after_poll(&mut self) {
        self.ends.0.iter_mut().for_each(|(_, end)| end.after_poll());
    }

    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        for sender in &mut self.senders {
            sender.worth.handle_timeout(sender.packets, now);
        }
    }

    /// This engine has ended.
    pub(super) fn leave(&mut self) {
        self.ends.0.clear();
        if let Some(EngineObjects { objects, engine }) = &self.keyed {
            objects.leave(*engine);
        }
    }

    /// Whether no more heaps and events are accepted.
    pub(super) fn are_closed(&self) -> bool {
        self.keyed.as_ref().is_some_and(|keyed| keyed.objects.is_closed())
    }

    /// Whether there are tables, and all have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.any() && self.ends.0.iter().all(|(_, end)| end.is_over())
    }
}
