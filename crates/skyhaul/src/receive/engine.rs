//! One receiving thread's work, without the thread: trains in, finished parts out.

use super::Sink;
use super::gate::Gate;
use super::learning::Learning;
use super::stream::{Stream, StreamInfo, StreamReport};
use crate::mirror::Tap;
use skyhaul_core::assembly::Config;
use skyhaul_core::placement::{Layout, Nanos, Reject, Rejects};
use skyhaul_core::wire::vdif::Vdif;
use skyhaul_core::wire::{Format, LearnOptions, Place, StreamFormat};
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
    pub assembly: Config,
    /// Data time to let through.
    pub gate: Gate,
    /// Most senders followed at a time.
    pub max_streams: usize,
    /// Name of the place that is listened on.
    pub listen: String,
    /// Make a stream of each VDIF thread of a sender, instead of one of all.
    pub split_threads: bool,
    /// Numbers streams over all engines of a receiver.
    pub next_stream: Arc<AtomicU32>,
}

/// All counters of an engine.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets of senders that are no stream (yet), and why.
    pub rejects: Rejects,
    /// Packets of senders that are no stream.
    pub packets: u64,
    /// Packets held while their sender's format is learned.
    pub held: u64,
    /// Every stream so far.
    pub streams: Vec<(Arc<StreamInfo>, StreamReport)>,
}

#[derive(Debug)]
enum Sender {
    Learning(Box<Learning>),
    Running(Route),
    /// Nothing we know; looked at afresh after a while.
    Unrecognised {
        since: Nanos,
    },
}

/// Which of the streams a sender's packets belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// One stream.
    One(usize),
    /// A stream for each VDIF thread: index of the table.
    Split(usize),
}

/// The streams of a sender whose threads are kept apart.
#[derive(Debug)]
struct Split {
    /// Octets in front of the frame.
    network: usize,
    /// The stream that stands for the sender where a packet has none.
    first: usize,
    /// The stream of each thread.
    streams: HashMap<u16, usize>,
}

/// How long an unrecognised sender is ignored before it is looked at afresh.
const IGNORE: Nanos = Nanos::SECOND;
/// Most bytes held of all senders that are being learned; beyond it each must do with what there is.
const HOLD_BYTES: usize = 64 << 20;

/// Demultiplexes trains by sender into streams, and drains them into a [`Sink`].
#[derive(Debug)]
pub struct Engine<K> {
    options: EngineOptions,
    pool: Pool,
    sink: K,
    tap: Option<Tap>,
    senders: HashMap<SocketAddr, Sender>,
    streams: Vec<Stream>,
    splits: Vec<Split>,
    /// The sender of the last train, if it is running.
    recent: Option<(SocketAddr, Route)>,
    strangers: Tally,
    /// Bytes held of senders that are being learned.
    held_bytes: usize,
}

impl<K: Sink> Engine<K> {
    /// An engine that has heard of nobody.
    pub fn new(options: EngineOptions, pool: Pool, sink: K, tap: Option<Tap>) -> Self {
        Self {
            options,
            pool,
            sink,
            tap,
            senders: HashMap::new(),
            streams: Vec::new(),
            splits: Vec::new(),
            recent: None,
            strangers: Tally::default(),
            held_bytes: 0,
        }
    }

    /// Place the packets of a train that came at `now`.
    #[inline]
    pub fn handle_train(&mut self, train: &Train<'_>, now: Nanos) {
        let sender = *train.sender;
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
                for packet in train.packets() {
                    stream.packet(packet, now, pool, &options.gate, tap);
                }
                copy::fence();
                self.drain(at);
            }
            Route::Split(split) => {
                train.packets().for_each(|packet| self.one(route, packet, now));
                copy::fence();
                // They were begun one after the other.
                let Split { first, ref streams, .. } = self.splits[split];
                (first..first + streams.len()).for_each(|at| self.drain(at));
            }
        }
    }

    /// Place one packet.
    fn one(&mut self, route: Route, packet: &[u8], now: Nanos) {
        let Self { options, pool, streams, splits, tap, .. } = self;
        let at = match route {
            Route::One(at) => at,
            Route::Split(split) => {
                let split = &splits[split];
                let vdif = packet.get(split.network..).and_then(Vdif::read);
                let thread = vdif.map(|(vdif, _)| vdif.thread as u16);
                thread.and_then(|thread| split.streams.get(&thread).copied()).unwrap_or(split.first)
            }
        };
        streams[at].packet(packet, now, pool, &options.gate, tap);
    }

    #[cold]
    fn stranger(&mut self, sender: SocketAddr, train: &Train<'_>, now: Nanos) {
        match self.senders.get(&sender) {
            Some(&Sender::Running(route)) => {
                self.recent = Some((sender, route));
                return self.run(route, train, now);
            }
            Some(&Sender::Unrecognised { since }) if now.since(since) < IGNORE => {
                return self.refuse(train, Reject::Unrecognised);
            }
            Some(Sender::Learning(_)) => {}
            _ => {
                if !self.make_room(sender) {
                    return self.refuse(train, Reject::TooManyStreams);
                }
                let learning = Learning::new(&self.options.learn, now);
                self.senders.insert(sender, Sender::Learning(Box::new(learning)));
            }
        }
        self.study(sender, train, now);
    }

    /// Feed a train to a sender's learner; what follows its conclusion runs as usual.
    fn study(&mut self, sender: SocketAddr, train: &Train<'_>, now: Nanos) {
        let mut packets = train.packets();
        while let Some(packet) = packets.next() {
            let Some(Sender::Learning(learning)) = self.senders.get_mut(&sender) else { return };
            let crowded = self.held_bytes >= HOLD_BYTES;
            self.held_bytes += packet.len();
            let Some(concluded) = learning.observe(packet, now, crowded) else { continue };
            match self.conclude(sender, concluded, now) {
                Some(route) => {
                    packets.for_each(|rest| self.one(route, rest, now));
                    copy::fence();
                    self.drain_all();
                }
                None => packets.for_each(|_| self.refuse_one(Reject::Unrecognised)),
            }
            return;
        }
    }

    /// A sender's format is known, or known to be none.
    fn conclude(
        &mut self,
        sender: SocketAddr,
        format: Result<StreamFormat, Reject>,
        now: Nanos,
    ) -> Option<Route> {
        let Some(Sender::Learning(learning)) = self.senders.remove(&sender) else { return None };
        self.held_bytes -= learning.bytes();
        let trusted = learning.is_sure();
        let Some(route) = format.and_then(|format| self.begin(sender, format, trusted)).ok() else {
            (0..learning.held()).for_each(|_| self.refuse_one(Reject::Unrecognised));
            self.senders.insert(sender, Sender::Unrecognised { since: now });
            return None;
        };
        self.senders.insert(sender, Sender::Running(route));
        for packet in learning.packets() {
            self.one(route, packet, now);
        }
        copy::fence();
        self.drain_all();
        Some(route)
    }

    /// Begin the stream, or the streams, of a sender.
    fn begin(&mut self, sender: SocketAddr, format: StreamFormat, trusted: bool) -> Result<Route, Reject> {
        if !self.options.split_threads || format.format != Format::Vdif || format.threads.len() < 2 {
            return Ok(Route::One(self.begin_stream(sender, format, trusted)?));
        }
        let mut streams = HashMap::new();
        let first = self.streams.len();
        let network = format.network_bytes;
        for thread in &format.threads {
            // The sequence number counts packets of all threads: only the time orders those of one.
            let alone = StreamFormat { threads: vec![thread.clone()], place: Place::Time, ..format.clone() };
            streams.insert(thread.id, self.begin_stream(sender, alone, trusted)?);
        }
        self.splits.push(Split { network, first, streams });
        Ok(Route::Split(self.splits.len() - 1))
    }

    fn begin_stream(
        &mut self,
        sender: SocketAddr,
        format: StreamFormat,
        trusted: bool,
    ) -> Result<usize, Reject> {
        let layout = format.layout()?;
        let unit_bytes = StreamInfo::unit_of(&layout);
        let info = Arc::new(StreamInfo {
            id: self.options.next_stream.fetch_add(1, Ordering::Relaxed),
            sender,
            listen: self.options.listen.clone(),
            format,
            unit_bytes,
        });
        let config = Config { geometry: layout.geometry(), ..self.options.assembly };
        if let Some(tap) = &mut self.tap {
            tap.stream_began(&info);
        }
        self.sink.stream_began(&info);
        self.streams.push(Stream::new(info, layout, config, trusted));
        Ok(self.streams.len() - 1)
    }

    /// Room for one sender more: strangers give way, streams do not.
    fn make_room(&mut self, newcomer: SocketAddr) -> bool {
        if self.senders.len() < self.options.max_streams || self.senders.contains_key(&newcomer) {
            return true;
        }
        let stranger = self.senders.iter().find(|(_, s)| matches!(s, Sender::Unrecognised { .. }));
        let Some((&gone, _)) = stranger else { return false };
        self.senders.remove(&gone);
        true
    }

    fn refuse(&mut self, train: &Train<'_>, why: Reject) {
        train.packets().for_each(|_| self.refuse_one(why));
    }

    fn refuse_one(&mut self, why: Reject) {
        self.strangers.packets += 1;
        self.strangers.rejects.add(why);
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

    /// Hand what is gathered for the mirror on. Call when no train waits.
    pub fn flush(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.flush();
        }
    }

    /// Retire what time has finished. Call a few times a second.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let mut concluded = Vec::new();
        for (&sender, state) in &mut self.senders {
            if let Sender::Learning(learning) = state
                && let Some(format) = learning.handle_timeout(now)
            {
                concluded.push((sender, format));
            }
        }
        for (sender, format) in concluded {
            self.conclude(sender, format, now);
        }
        for at in 0..self.streams.len() {
            self.streams[at].handle_timeout(now);
            self.drain(at);
        }
    }

    /// The end: retire everything as it stands.
    pub fn finish(&mut self, now: Nanos) {
        let learning: Vec<_> = self
            .senders
            .iter()
            .filter_map(|(&sender, s)| matches!(s, Sender::Learning(_)).then_some(sender))
            .collect();
        for sender in learning {
            let Some(Sender::Learning(learning)) = self.senders.get_mut(&sender) else { continue };
            let format = learning.conclude_now().unwrap_or(Err(Reject::Unrecognised));
            self.conclude(sender, format, now);
        }
        for at in 0..self.streams.len() {
            self.streams[at].finish();
            self.drain(at);
        }
        self.flush();
        self.sink.finished();
    }

    /// All counters as they stand; loss maps only `whole`.
    #[must_use]
    pub fn tally(&mut self, whole: bool) -> Tally {
        let held =
            self.senders.values().map(|s| if let Sender::Learning(l) = s { l.held() } else { 0 }).sum();
        let streams = self.streams.iter_mut().map(|s| (s.info.clone(), s.report.snapshot(whole))).collect();
        Tally { held, streams, ..self.strangers.clone() }
    }

    /// Bytes placed so far, over all streams.
    #[must_use]
    pub fn placed_bytes(&self) -> u64 {
        self.streams.iter().map(|s| s.report.placed * u64::from(s.info.unit_bytes)).sum()
    }

    /// Whether every stream there is has passed the stop time of the gate.
    #[must_use]
    pub fn past_stop(&self) -> bool {
        self.options.gate.stop.is_some()
            && !self.streams.is_empty()
            && self.streams.iter().all(|s| s.report.rejects.get(Reject::AfterStop) > 0)
    }
}
