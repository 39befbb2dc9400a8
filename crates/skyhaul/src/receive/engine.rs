//! One receiving thread's work, without the thread: trains in, finished parts out.
//!
//! Who may have a place among the streams is decided in [`admission`](super::admission).

use super::Sink;
use super::admission::{Places, Worth, share};
use super::allow::Allow;
use super::gate::Gate;
use super::keyed::Fed;
use super::objects::Objects;
use super::placing::{self, Around, Placed};
use super::route::{Route, Split};
use super::strangers::{Claim, Conclusion, LEAST, Strangers};
use super::stream::{Begin, Stream, StreamInfo};
use super::tally::{Past, Tally};
use crate::mirror::Tap;
use crate::recording::Event;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{FamilyRef, LearnOptions, Place, StreamFormat};
use skyhaul_io::copy;
use skyhaul_io::memory::Pool;
use skyhaul_io::source::Train;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What an engine works with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How streams are recognised and placed.
    pub learn: LearnOptions,
    /// Limits of each stream's assembly; the geometry is the stream's own.
    pub assembly: OrderedConfig,
    /// Data time to let through.
    pub gate: Gate,
    /// Who may send.
    pub allow: Allow,
    /// Most senders followed at a time.
    pub max_streams: usize,
    /// Name of the place that is listened on.
    pub listen: String,
    /// Make a stream of each VDIF thread of a sender, instead of one of all.
    pub split_threads: bool,
    /// Keep what there is of sets of threads that were under way when a stream began or ended.
    pub keep_partial_sets: bool,
    /// Numbers streams over all engines of a receiver.
    pub next_stream: Arc<AtomicU32>,
}

/// Where an engine puts heaps and events.
#[derive(Debug)]
pub(super) struct Keyed {
    pub(super) objects: Arc<Objects>,
    /// Number of the engine.
    pub(super) engine: usize,
}

/// A sender of heaps or events.
#[derive(Debug)]
struct KeyedSender {
    /// Which of the engine's ends.
    end: usize,
    packets: u64,
    worth: Worth,
}

/// The ends of tables that an engine feeds.
struct Ends(Vec<(FamilyRef, Box<dyn Fed>)>);

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(family, _)| family)).finish()
    }
}

/// Senders of too few packets that are streams all the same when nothing else came.
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
    streams: Vec<Placed>,
    splits: Vec<Split>,
    /// Places in `streams` whose stream gave way.
    free: Vec<usize>,
    past: Past,
    /// The sender of the last train, if it is a stream.
    recent: Option<(SocketAddr, Route)>,
    refused: Tally,
    /// Ranges that may still be added to loss maps.
    loss_ranges: Arc<AtomicU32>,
    /// Streams that the end has dealt with.
    ended: usize,
    /// Heaps and events are received, too.
    keyed: Option<Keyed>,
    ends: Ends,
    /// Who sent the last train, where only heaps or events are received.
    only_keyed: Option<SocketAddr>,
    keyed_senders: Vec<KeyedSender>,
    /// Places in `keyed_senders` whose sender gave way.
    keyed_free: Vec<usize>,
}

impl<K: Sink> Engine<K> {
    /// An engine that has heard of nobody.
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
            streams: Vec::new(),
            splits: Vec::new(),
            free: Vec::new(),
            past: Past::default(),
            recent: None,
            refused: Tally::default(),
            loss_ranges: Arc::new(AtomicU32::new(LOSS_RANGES)),
            ended: 0,
            keyed: None,
            ends: Ends(Vec::new()),
            only_keyed: None,
            keyed_senders: Vec::new(),
            keyed_free: Vec::new(),
        }
    }

    /// Receive heaps and events, too.
    pub(super) fn with_objects(mut self, keyed: Keyed) -> Self {
        // Where only one family is asked for, nothing has to be learned of its senders.
        let family = self.options.learn.format.family();
        let end = family.and_then(|family| Some((family, keyed.objects.feed(family, keyed.engine)?)));
        self.ends.0.extend(end);
        self.keyed = Some(keyed);
        self
    }

    /// Whether all senders send heaps or events of the family that was asked for.
    fn is_keyed(&self) -> bool {
        self.options.learn.format.family().is_some() && !self.ends.0.is_empty()
    }

    /// Place the packets of a train that came at `now`.
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
                if let Some(time) = train.time {
                    stream.train_arrived(time);
                }
                stream.train(train, &mut Around { now, pool, gate: &options.gate, tap });
                copy::fence();
                self.drain(at);
            }
            Route::Split(split) => {
                train.packets().for_each(|packet| self.one(route, packet, now));
                copy::fence();
                for n in 0..self.splits[split].streams.len() {
                    self.drain(self.splits[split].streams[n].1);
                }
            }
            Route::Keyed(at) => {
                let sender = &mut self.keyed_senders[at];
                sender.packets += train.count() as u64;
                let end = sender.end;
                self.feed(end, train);
            }
        }
    }

    /// A train of heaps or events.
    fn feed(&mut self, end: usize, train: &Train<'_>) {
        self.ends.0[end].1.train(train);
        if let Some(tap) = &mut self.tap {
            tap.packets(u32::from(train.sender.port()), train, &self.pool);
        }
    }

    /// Place one packet.
    fn one(&mut self, route: Route, packet: &[u8], now: Nanos) {
        let Self { options, pool, streams, splits, tap, .. } = self;
        let at = match route {
            Route::Keyed(_) => return,
            Route::One(at) => at,
            Route::Split(split) => {
                let split = &splits[split];
                let thread = packet.get(split.network..).and_then(|frame| split.field.value(frame));
                let known = split.streams.iter().find(|(id, _)| Some(u64::from(*id)) == thread);
                known.or(split.streams.first()).map_or(0, |&(_, at)| at)
            }
        };
        streams[at].packet(packet, &mut Around { now, pool, gate: &options.gate, tap });
    }

    #[cold]
    fn stranger(&mut self, sender: SocketAddr, train: &Train<'_>, now: Nanos) {
        if let Some(&route) = self.senders.get(&sender) {
            self.recent = Some((sender, route));
            return self.run(route, train, now);
        }
        match self.options.allow.sender(sender) {
            Ok(()) if self.is_keyed() => {
                self.only_keyed = Some(sender);
                self.feed(0, train);
            }
            Ok(()) => self.study(sender, train, now),
            Err(why) => self.refuse_many(why, train.count() as u64),
        }
    }

    /// Hear a train of a stranger; what follows its conclusion runs as usual.
    fn study(&mut self, sender: SocketAddr, train: &Train<'_>, now: Nanos) {
        let mut packets = train.packets();
        while let Some(packet) = packets.next() {
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
            packets.for_each(|rest| self.one_of(sender, route, rest, now));
            copy::fence();
            self.drain_all();
            return;
        }
    }

    /// Strangers beyond the limits of their table go.
    fn relieve(&mut self, now: Nanos) {
        let gone = self.strangers.relieve();
        if gone.crowded > 0 {
            self.refuse_many(Reject::TooManyStreams, gone.crowded_packets);
            self.places.refused(gone.crowded, now);
        }
    }

    /// A sender's format is known, or known to be none. Its stream, if it has a place.
    fn conclude(&mut self, sender: SocketAddr, format: Conclusion, now: Nanos) -> Option<Route> {
        let format = match format.and_then(|format| self.admissible(format)) {
            Ok(format) => format,
            Err(why) => {
                let held = self.strangers.refuse(sender, why, now);
                self.refuse_many(why, held);
                if why == Reject::NotFrames {
                    self.places.no_frames(sender, now);
                }
                return None;
            }
        };
        if !self.has_place(sender, now) {
            // Who waits for memory alone is not refused.
            if self.strangers.wait(sender, format, now) && self.senders.len() >= self.options.max_streams {
                self.places.refused(1, now);
            }
            return None;
        }
        let leaves = self.places.leaves(self.strangers.claim(sender, now).rate);
        let proven = self.strangers.take(sender)?;
        let begin = Begin {
            trusted: proven.learning.is_sure(),
            since: proven.since,
            leaves,
            keep_partial_sets: self.options.keep_partial_sets,
        };
        let route = match self.begin(sender, format, begin) {
            Ok(route) => route,
            Err(why) => {
                self.refuse_many(why, proven.learning.held());
                return None;
            }
        };
        self.senders.insert(sender, route);
        for packet in proven.learning.packets() {
            self.one_of(sender, route, packet, now);
        }
        copy::fence();
        self.drain_all();
        self.share(now);
        Some(route)
    }

    /// A packet that was held, or came with one that was.
    fn one_of(&mut self, sender: SocketAddr, route: Route, packet: &[u8], now: Nanos) {
        match route {
            Route::Keyed(_) => self.run(route, &Train::single(packet, &sender), now),
            Route::One(_) | Route::Split(_) => self.one(route, packet, now),
        }
    }

    /// Only streams that may be sent here; without tables for heaps and events, of frames.
    fn admissible(&self, format: StreamFormat) -> Conclusion {
        match format.geometry() {
            Err(Reject::NotFrames) if self.keyed.is_some() => {}
            other => drop(other?),
        }
        self.options.allow.station(format.station.as_deref())?;
        Ok(format)
    }

    /// Whether there is a place among the streams for `sender`: one that is free, or that of the poorest.
    fn has_place(&mut self, sender: SocketAddr, now: Nanos) -> bool {
        let Claim { rate, full, plenty, .. } = self.strangers.claim(sender, now);
        if !full && !self.places.has_memory(rate, self.pool.free()) {
            // Its packets are held as long as that can be.
            return false;
        }
        if self.senders.len() < self.options.max_streams {
            return true;
        }
        if !self.places.may_claim(rate, plenty, now) {
            return false;
        }
        let rates = self.senders.iter().map(|(&sender, &route)| (sender, self.rate(route, now)));
        let Some((poorest, poor)) = rates.min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return false };
        if !self.places.gives_way(poor, rate) {
            return false;
        }
        self.end_sender(poorest, sender, now);
        true
    }

    /// The streams of a sender.
    fn streams_of(&self, route: Route) -> Vec<usize> {
        match route {
            Route::Keyed(_) => Vec::new(),
            Route::One(at) => vec![at],
            Route::Split(split) => self.splits[split].streams.iter().map(|&(_, at)| at).collect(),
        }
    }

    /// Packets a second of a sender.
    fn rate(&self, route: Route, now: Nanos) -> f64 {
        if let Route::Keyed(at) = route {
            let sender = &self.keyed_senders[at];
            return sender.worth.rate(sender.packets, now);
        }
        self.streams_of(route).into_iter().map(|at| self.streams[at].rate(now)).sum()
    }

    /// A stream gives way: what it has is handed on, and its account is kept.
    fn end_sender(&mut self, sender: SocketAddr, newcomer: SocketAddr, now: Nanos) {
        let Some(route) = self.senders.remove(&sender) else { return };
        self.recent = None;
        if let Route::Keyed(at) = route {
            // Its objects end by their own rules.
            self.keyed_free.push(at);
        }
        for at in self.streams_of(route) {
            self.streams[at].finish();
            self.drain(at);
            let stream = &mut self.streams[at];
            stream.gone = true;
            let (info, report) = (stream.info.clone(), std::mem::take(&mut stream.report));
            self.places.gave_way(&info, report.packets, newcomer, now);
            self.sink.stream_ended(&info);
            if let Some(tap) = &mut self.tap {
                tap.stream_ended(&info);
            }
            self.free.push(at);
            let freed = self.past.keep(info, report);
            self.loss_ranges.fetch_add(freed, Ordering::Relaxed);
        }
    }

    /// Begin the stream, or the streams, of a sender.
    fn begin(&mut self, sender: SocketAddr, format: StreamFormat, begin: Begin) -> Result<Route, Reject> {
        if let Some(end) = self.end_of(format.family) {
            let sender = KeyedSender { end, packets: 0, worth: Worth::new(begin.since) };
            if let Some(at) = self.keyed_free.pop() {
                self.keyed_senders[at] = sender;
                return Ok(Route::Keyed(at));
            }
            self.keyed_senders.push(sender);
            return Ok(Route::Keyed(self.keyed_senders.len() - 1));
        }
        let field =
            format.own.thread_field().filter(|_| self.options.split_threads && format.threads.len() > 1);
        let Some(field) = field else {
            return Ok(Route::One(self.begin_stream(sender, format, begin)?));
        };
        let mut streams = Vec::new();
        let network = format.network_bytes;
        for thread in &format.threads {
            // The sequence number counts packets of all threads: only the time orders those of one.
            let alone = StreamFormat { threads: vec![thread.clone()], place: Place::Time, ..format.clone() };
            streams.push((thread.id, self.begin_stream(sender, alone, begin)?));
        }
        self.splits.push(Split { network, field, streams });
        Ok(Route::Split(self.splits.len() - 1))
    }

    /// The end of this family's table, if its objects have keys.
    fn end_of(&mut self, family: FamilyRef) -> Option<usize> {
        if let Some(at) = self.ends.0.iter().position(|(of, _)| *of == family) {
            return Some(at);
        }
        let Keyed { objects, engine } = self.keyed.as_ref()?;
        self.ends.0.push((family, objects.feed(family, *engine)?));
        Some(self.ends.0.len() - 1)
    }

    fn begin_stream(
        &mut self,
        sender: SocketAddr,
        format: StreamFormat,
        begin: Begin,
    ) -> Result<usize, Reject> {
        let (placing, geometry) = (placing::of(&format)?, format.geometry()?);
        let unit_bytes = StreamInfo::unit_of(geometry);
        let info = Arc::new(StreamInfo {
            id: self.options.next_stream.fetch_add(1, Ordering::Relaxed),
            sender,
            listen: self.options.listen.clone(),
            format,
            unit_bytes,
        });
        let config = OrderedConfig { geometry, ..self.options.assembly };
        if let Some(tap) = &mut self.tap {
            tap.stream_began(&info);
        }
        self.sink.stream_began(&info);
        let stream = Stream::new(info, config, begin, self.loss_ranges.clone());
        let stream = Placed::new(stream, placing);
        if let Some(at) = self.free.pop() {
            self.streams[at] = stream;
            return Ok(at);
        }
        self.streams.push(stream);
        Ok(self.streams.len() - 1)
    }

    fn refuse_many(&mut self, why: Reject, packets: u64) {
        self.refused.packets += packets;
        self.refused.rejects.add_many(why, packets);
    }

    /// Packets that came before anything was to be received.
    pub fn handle_early(&mut self, train: &Train<'_>) {
        self.refuse_many(Reject::BeforeStart, train.count() as u64);
    }

    #[inline]
    fn drain(&mut self, at: usize) {
        while let Some(part) = self.streams[at].poll_part() {
            self.sink.part(&self.streams[at].info, part);
        }
    }

    fn drain_all(&mut self) {
        (0..self.streams.len()).for_each(|at| self.drain(at));
    }

    /// Hand on what is gathered. Call when no train waits.
    pub fn flush(&mut self) {
        self.ends.0.iter_mut().for_each(|(_, end)| end.looked());
        if let Some(tap) = &mut self.tap {
            tap.flush();
        }
    }

    /// Retire what time has finished. Call a few times a second.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let (concluded, gone) = self.strangers.handle_timeout(now);
        for (sender, format) in concluded {
            self.conclude(sender, format, now);
        }
        self.refuse_many(Reject::Unproven, gone.unproven_packets);
        self.refuse_many(Reject::TooManyStreams, gone.crowded_packets);
        self.relieve(now);
        for sender in &mut self.keyed_senders {
            sender.worth.handle_timeout(sender.packets, now);
        }
        for at in 0..self.streams.len() {
            self.streams[at].handle_timeout(now);
            self.drain(at);
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

    /// What an operator should know, one by one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.places.poll_event()
    }

    /// The end: retire everything as it stands. Called again after a panic, it goes on behind the stream that had it.
    pub fn finish(&mut self, now: Nanos) {
        // A packet or two that came alone are all that there is; beside a stream, or many others, they are nothing.
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
            self.streams[at].finish();
            self.drain(at);
        }
        self.flush();
        self.sink.finished();
        self.ends.0.clear();
        if let Some(Keyed { objects, engine }) = &self.keyed {
            objects.leave(*engine);
        }
    }

    /// All counters as they stand; loss maps only `whole`.
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
        let Some(keyed) = &self.keyed else { return false };
        let ended = !self.ends.0.is_empty() && self.ends.0.iter().all(|(_, end)| end.is_over());
        keyed.objects.is_closed() || ended && self.streams.iter().all(|s| s.gone)
    }

    /// Whether every stream there is has passed the stop time of the gate.
    #[must_use]
    pub fn past_stop(&self) -> bool {
        let passed = |s: &Placed| s.gone || s.report.rejects.get(Reject::AfterStop) > 0;
        self.options.gate.stop.is_some() && !self.senders.is_empty() && self.streams.iter().all(passed)
    }
}
