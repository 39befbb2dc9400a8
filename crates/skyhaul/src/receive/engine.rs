//! One receiving thread's work, without the thread: trains in, finished parts out.
//!
//! [`admission`](super::admission) decides which senders become streams; `engine/admit.rs` applies it.

use super::Sink;
use super::admission::{Places, share};
use super::filter::{Allow, Early, Gate};
use super::info::{Past, Tally};
use super::keyed::PollTrains;
use super::placing::{Around, Placed};
use super::strangers::{LEAST, Strangers};
use super::tables::{EngineObjects, Tables};
use crate::mirror::Tap;
use crate::recording::Event;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{Field, LearnOptions};
use skyhaul_io::copy;
use skyhaul_io::memory::Pool;
use skyhaul_io::source::Train;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

mod admit;
mod kernel;

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How streams are recognised and placed.
    pub learn: LearnOptions,
    /// Limits of each stream's assembly; the geometry is the stream's own.
    pub assembly: OrderedConfig,
    /// Data time to let through.
    pub gate: Gate,
    /// Allowed senders and stations.
    pub allow: Allow,
    /// Maximum number of senders followed at a time.
    pub max_streams: usize,
    /// Name of the listening address.
    pub listen: String,
    /// Make a stream of each VDIF thread of a sender, instead of one of all.
    pub split_threads: bool,
    /// Keep incomplete sets of threads at the beginning and end of a stream.
    pub keep_partial_sets: bool,
    /// Numbers streams over all engines of a receiver.
    pub next_stream: Arc<AtomicU32>,
}

/// Maximum number of senders with too few packets that are accepted as streams if there is no other stream.
const ALONE: usize = 8;
/// Ranges of lost frames that all streams of an engine may keep together: 64 MiB.
const LOSS_RANGES: u32 = 4 << 20;

/// Demultiplexes trains by sender into streams, and drains them into a [`Sink`].
#[derive(Debug)]
pub struct Engine<K> {
    options: EngineOptions,
    pool: Pool,
    sink: K,
    tap: Option<Tap>,
    /// Senders that are streams.
    senders: HashMap<SocketAddr, Route>,
    strangers: Strangers,
    places: Places,
    /// Events of streams that the sink does not keep.
    events: VecDeque<Event>,
    /// Clocks that were not this host's.
    clocks: u64,
    streams: Vec<Placed>,
    /// Senders that were heard before the begin time.
    early: Early,
    splits: Vec<Split>,
    /// Places in `streams` whose stream was replaced.
    free: Vec<usize>,
    past: Past,
    /// The sender of the last train, if it is a stream.
    recent: Option<(SocketAddr, Route)>,
    refused: Tally,
    /// Ranges that may still be added to loss maps.
    loss_ranges: Arc<AtomicU32>,
    /// Streams already ended by [`finish`](Self::finish).
    ended: usize,
    /// Where heaps and events go.
    tables: Tables,
    /// Sender of the last train, if only heaps or events are received.
    only_keyed: Option<SocketAddr>,
}

impl<K: Sink> Engine<K> {
    /// An engine without senders.
    pub fn new(options: EngineOptions, pool: Pool, sink: K, tap: Option<Tap>) -> Self {
        let places = Places::new(options.max_streams);
        Self {
            options,
            pool,
            sink,
            tap,
            senders: HashMap::new(),
            strangers: Strangers::default(),
            places,
            events: VecDeque::new(),
            clocks: 0,
            streams: Vec::new(),
            early: Early::default(),
            splits: Vec::new(),
            free: Vec::new(),
            past: Past::default(),
            recent: None,
            refused: Tally::default(),
            loss_ranges: Arc::new(AtomicU32::new(LOSS_RANGES)),
            ended: 0,
            tables: Tables::new(None, None),
            only_keyed: None,
        }
    }

    /// Receive heaps and events too.
    pub(super) fn with_objects(mut self, keyed: EngineObjects) -> Self {
        // If only one family is requested, its senders need not be learned.
        self.tables = Tables::new(Some(keyed), self.options.learn.format.family());
        self
    }

    /// Whether all senders send heaps or events of the requested family.
    pub(super) fn is_keyed(&self) -> bool {
        self.options.learn.format.family().is_some() && self.tables.any()
    }

    /// Place the packets of a train that arrived at `now`.
    #[inline]
    pub fn handle_train(&mut self, train: &Train<'_>, now: Nanos) {
        let sender = *train.sender;
        if self.only_keyed == Some(sender) {
            return self.feed(0, train);
        }
        if let Some((recent, route)) = self.recent
            && recent == sender
        {
            self.run(route, train, now);
        } else {
            self.stranger(sender, train, now);
        }
    }

    #[inline]
    fn run(&mut self, route: Route, train: &Train<'_>, now: Nanos) {
        match route {
            Route::One(at) => {
                let Self { options, pool, streams, tap, .. } = self;
                let stream = &mut streams[at];
                stream.train_arrived(train.time);
                stream.train(train, &mut Around { now, pool, gate: &options.gate, tap });
                copy::fence();
                self.drain(at);
            }
            Route::Split(split) => {
                train.packets().for_each(|packet| self.one(route, (packet, train.time), now));
                self.separate_late(split, now);
                copy::fence();
                for n in 0..self.splits[split].streams.len() {
                    self.drain(self.splits[split].streams[n].1);
                }
            }
            Route::Keyed(at) => {
                let end = self.tables.heard(at, train);
                self.feed(end, train);
            }
        }
    }

    /// A train of heaps or events.
    fn feed(&mut self, end: usize, train: &Train<'_>) {
        self.tables.feed(end, train);
        // The table has refused the packets of other senders.
        if let Some(tap) = self.tap.as_mut().filter(|_| self.options.allow.sender(*train.sender).is_ok()) {
            tap.packets(u32::from(train.sender.port()), train, &self.pool);
        }
    }

    /// Place the packets of all trains that `poll` gives, if all [send heaps or events](Self::is_keyed) of the requested family.
    ///
    /// # Errors
    /// Those of `poll`.
    pub(super) fn feed_all(&mut self, poll: &mut PollTrains<'_>) -> io::Result<usize> {
        let Self { options, pool, tables, tap, .. } = self;
        tables.feed_all(0, &mut |each| {
            poll(&mut |train| {
                each(train);
                if let Some(tap) = tap.as_mut().filter(|_| options.allow.sender(*train.sender).is_ok()) {
                    tap.packets(u32::from(train.sender.port()), train, pool);
                }
            })
        })
    }

    /// A stream begins, with these packets: if it was arriving before the start, it begins behind all of that.
    fn begin_behind<'a>(
        &mut self,
        (sender, route): (SocketAddr, Route),
        since: Nanos,
        packets: impl Iterator<Item = &'a [u8]>,
    ) {
        if !self.early.was_cut(sender, since) {
            return;
        }
        for packet in packets {
            let Some(at) = self.place_of(route, packet) else { return };
            let stream = &mut self.streams[at];
            // Packets that are sent in order have higher numbers than all before them: the highest is one of these.
            if let Some(number) = stream.number(packet) {
                let start = stream.only.as_ref().map_or(number, |only| only.start.max(number));
                stream.only = Some(start..u64::MAX);
            }
        }
    }

    /// From now on, only frames are taken that belong before the last one that arrived.
    pub(super) fn close(&mut self, now: Nanos) {
        self.streams.iter_mut().for_each(|stream| stream.end_placing(now));
        for stream in self.streams.iter_mut().filter(|stream| !stream.gone) {
            if let Some(end) = stream.report.sequence.next() {
                let start = stream.only.as_ref().map_or(0, |only| only.start);
                stream.only = Some(start..end);
            }
        }
    }

    /// Whether late packets may still fill holes of a stream.
    pub(super) fn has_holes(&self) -> bool {
        self.streams.iter().any(|stream| !stream.gone && stream.assembly.has_holes())
    }

    /// The stream of a packet.
    fn place_of(&self, route: Route, packet: &[u8]) -> Option<usize> {
        match route {
            Route::Keyed(_) => None,
            Route::One(at) => Some(at),
            Route::Split(split) => {
                let split = &self.splits[split];
                let thread = packet.get(split.network..).and_then(|frame| split.field.value(frame));
                let known = split.streams.iter().find(|(id, _)| Some(u64::from(*id)) == thread);
                Some(known.or(split.streams.first()).map_or(0, |&(_, at)| at))
            }
        }
    }

    /// Place one packet, with the kernel's time of its arrival.
    fn one(&mut self, route: Route, (packet, arrived): (&[u8], Option<Nanos>), now: Nanos) {
        let Some(at) = self.place_of(route, packet) else { return };
        let Self { options, pool, streams, tap, .. } = self;
        streams[at].packet_arrived(arrived);
        streams[at].packet(packet, &mut Around { now, pool, gate: &options.gate, tap });
    }

    #[cold]
    fn stranger(&mut self, sender: SocketAddr, train: &Train<'_>, now: Nanos) {
        if let Some(&route) = self.senders.get(&sender) {
            self.recent = Some((sender, route));
            return self.run(route, train, now);
        }
        if self.is_keyed() {
            // The table checks the sender.
            self.only_keyed = Some(sender);
            return self.feed(0, train);
        }
        match self.options.allow.sender(sender) {
            Ok(()) => self.study(sender, train, now),
            Err(why) => self.refuse_many(why, train.count() as u64),
        }
    }

    /// Process a train of an unknown sender; packets after a conclusion are placed as usual.
    fn study(&mut self, sender: SocketAddr, train: &Train<'_>, now: Nanos) {
        let mut packets = train.packets();
        while let Some(packet) = packets.next() {
            let packet = (packet, train.time);
            let (held, concluded) = self.strangers.hear(sender, packet, now, &self.options.learn);
            let Some(route) = concluded.and_then(|format| self.conclude(sender, format, now)) else {
                if let Err(why) = held {
                    self.refuse_many(why, 1);
                }
                self.relieve(now);
                continue;
            };
            if held.is_err() {
                self.one_of(sender, route, packet, now);
            }
            packets.for_each(|rest| self.one_of(sender, route, (rest, train.time), now));
            copy::fence();
            self.drain_all();
            return;
        }
    }

    /// Place a packet that was held, or arrived in the same train.
    fn one_of(&mut self, sender: SocketAddr, route: Route, packet: (&[u8], Option<Nanos>), now: Nanos) {
        match route {
            Route::Keyed(_) => {
                let train = Train { time: packet.1, ..Train::single(packet.0, &sender) };
                self.run(route, &train, now);
            }
            Route::One(_) | Route::Split(_) => self.one(route, packet, now),
        }
    }

    fn refuse_many(&mut self, why: Reject, packets: u64) {
        self.refused.packets += packets;
        self.refused.rejects.add_many(why, packets);
    }

    /// Count packets that arrived before the begin time.
    pub fn handle_early(&mut self, train: &Train<'_>, now: Nanos) {
        self.early.heard(*train.sender, now);
        self.refuse_many(Reject::BeforeStart, train.count() as u64);
    }

    #[inline]
    fn drain(&mut self, at: usize) {
        while let Some((info, part)) = self.streams[at].poll_part(&self.pool) {
            self.tell(at);
            self.sink.part(&info, part);
        }
    }

    fn drain_all(&mut self) {
        (0..self.streams.len()).for_each(|at| self.drain(at));
    }

    /// Deliver what is gathered. Call it when no train is queued.
    pub fn flush(&mut self) {
        self.tables.after_poll();
        if let Some(tap) = &mut self.tap {
            tap.flush();
        }
    }

    /// Retire the objects whose deadline has passed. Call it a few times a second.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let (concluded, gone) = self.strangers.handle_timeout(now);
        for (sender, format) in concluded {
            self.conclude(sender, format, now);
        }
        self.refuse_many(Reject::Unproven, gone.unproven_packets);
        self.refuse_many(Reject::TooManyStreams, gone.crowded_packets);
        self.relieve(now);
        self.tables.handle_timeout(now);
        for at in 0..self.streams.len() {
            self.streams[at].handle_timeout(now);
            self.drain(at);
            self.tell(at);
        }
        self.share(now);
    }

    /// Divide the memory among the streams.
    fn share(&mut self, now: Nanos) {
        let live: Vec<usize> = (0..self.streams.len()).filter(|&at| !self.streams[at].gone).collect();
        let mut shares: Vec<_> = live.iter().map(|&at| self.streams[at].share(now)).collect();
        let bar = share(&mut shares, self.pool.blocks(), self.options.assembly.window);
        self.places.look(&shares, bar);
        let short = self.places.is_short(self.pool.free(), self.pool.blocks(), now);
        for (at, share) in live.into_iter().zip(shares) {
            (self.streams[at].rich, self.streams[at].leaves) = (share.rich, share.leaves);
            if short && !share.rich && share.held > 0 {
                self.streams[at].relieve(now);
                self.drain(at);
            }
        }
    }

    /// The program did not run for `time`.
    pub fn paused(&mut self, time: std::time::Duration) {
        self.sink.paused(time);
    }

    /// The next event for the operator.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.places.poll_event().or_else(|| self.events.pop_front())
    }

    /// The end: retire everything as it is. Called again after a panic, it continues after the stream that caused it.
    pub fn finish(&mut self, now: Nanos) {
        // A few single packets are accepted only if there is nothing else.
        let alone = self.senders.is_empty() && self.strangers.len() <= ALONE;
        for (sender, format) in self.strangers.finish(now) {
            let few = !alone && format.is_ok() && self.strangers.claim(sender, now).seen < LEAST;
            if few || self.conclude(sender, format, now).is_none() {
                let why = if few { Reject::Unproven } else { Reject::TooManyStreams };
                let held = self.strangers.refuse(sender, why, now);
                self.refuse_many(why, held);
            }
        }
        while self.ended < self.streams.len() {
            let at = self.ended;
            self.ended += 1;
            self.end_stream(at, now);
        }
        self.flush();
        self.sink.finished();
        self.tables.leave();
    }

    /// All current counters; loss maps only with `whole`.
    #[must_use]
    pub fn tally(&mut self, whole: bool) -> Tally {
        let past = self.past.streams.iter_mut().map(|(info, report)| (info.clone(), report.snapshot(whole)));
        let live = self.streams.iter_mut().filter(|s| !s.gone);
        let live = live.map(|s| (s.info.clone(), s.report.snapshot(whole)));
        let others = self.past.others.clone();
        Tally {
            held: self.strangers.held(),
            streams: past.chain(live).collect(),
            others,
            ..self.refused.clone()
        }
    }

    /// Bytes placed so far, over all streams.
    #[must_use]
    pub fn placed_bytes(&self) -> u64 {
        let live = self.streams.iter().map(|s| (&s.info, &s.report));
        let all = live.chain(self.past.streams.iter().map(|(info, report)| (info, report)));
        all.map(|(info, report)| report.placed * u64::from(info.unit_bytes)).sum()
    }

    /// Whether the tables of heaps and events have ended, and nothing else is received.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tables.are_closed() || self.tables.have_ended() && self.streams.iter().all(|s| s.gone)
    }

    /// Whether every stream there is has passed the stop time of the gate.
    #[must_use]
    pub fn past_stop(&self) -> bool {
        let passed = |s: &Placed| s.gone || s.report.rejects.get(Reject::AfterStop) > 0;
        self.options.gate.stop.is_some() && !self.senders.is_empty() && self.streams.iter().all(passed)
    }
}

/// The stream or streams of a sender's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One stream.
    One(usize),
    /// A stream for each thread: index of the table.
    Split(usize),
    /// Heaps or events: index of their sender.
    Keyed(usize),
}

/// The streams of a sender whose threads are separated.
#[derive(Debug)]
pub(super) struct Split {
    /// Octets in front of the frame.
    pub(super) network: usize,
    /// The field of the frame's header with the thread.
    pub(super) field: &'static Field,
    /// The stream of each thread; the first is used for packets without a thread.
    pub(super) streams: Vec<(u16, usize)>,
}
