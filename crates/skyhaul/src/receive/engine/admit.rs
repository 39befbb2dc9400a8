//! Admission in an engine: from a learned format to streams, and from a replaced stream to its account.
//!
//! Not on the path of the trains. The rules are in [`admission`](crate::receive::admission).

use super::Engine;
use crate::irregular::{CLOCK_OFFSET, began_late};
use crate::receive::Sink;
use crate::receive::engine::{Route, Split};
use crate::receive::info::StreamInfo;
use crate::receive::newcomers::{Held, Late};
use crate::receive::placing::{self, Placed};
use crate::receive::strangers::{Claim, Conclusion};
use crate::receive::stream::{Begin, Stream};
use crate::recording::Event;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{Place, StreamFormat, Thread};
use skyhaul_io::copy;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Events that wait to be polled.
const MAX_EVENTS: usize = 1000;

impl<K: Sink> Engine<K> {
    /// Forget unknown senders beyond the limits of their table.
    pub(super) fn relieve(&mut self, now: Nanos) {
        let gone = self.strangers.relieve();
        if gone.crowded > 0 {
            self.refuse_many(Reject::TooManyStreams, gone.crowded_packets);
            self.places.refused(gone.crowded, now);
        }
    }

    /// A sender's format is known, or it has none. Returns its stream, if it gets a place.
    pub(super) fn conclude(&mut self, sender: SocketAddr, format: Conclusion, now: Nanos) -> Option<Route> {
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
            // A sender that only waits for memory is not rejected.
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
            late: self.late(),
        };
        let route = match self.begin(sender, format, begin) {
            Ok(route) => route,
            Err(why) => {
                self.refuse_many(why, proven.learning.held());
                return None;
            }
        };
        self.senders.insert(sender, route);
        self.begin_behind((sender, route), proven.since, proven.learning.packets().map(|(packet, _)| packet));
        for packet in proven.learning.packets() {
            self.one_of(sender, route, packet, now);
        }
        copy::fence();
        self.drain_all();
        self.share(now);
        Some(route)
    }

    /// Reject formats that are not allowed; without tables for heaps and events, all but frames.
    fn admissible(&self, format: StreamFormat) -> Conclusion {
        match format.geometry() {
            Err(Reject::NotFrames) if self.tables.are_open() => {}
            other => drop(other?),
        }
        self.options.allow.station(format.station.as_deref())?;
        Ok(format)
    }

    /// Whether there is a place for `sender`: a free one, or that of the poorest stream.
    fn has_place(&mut self, sender: SocketAddr, now: Nanos) -> bool {
        let Claim { rate, full, plenty, .. } = self.strangers.claim(sender, now);
        if !full && !self.places.has_memory(rate, self.pool.free()) {
            // Its packets are held as long as possible.
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

    /// Packets per second of a sender.
    fn rate(&self, route: Route, now: Nanos) -> f64 {
        if let Route::Keyed(at) = route {
            return self.tables.rate(at, now);
        }
        self.streams_of(route).into_iter().map(|at| self.streams[at].rate(now)).sum()
    }

    /// Replace a stream: its data are delivered, and its account is kept.
    fn end_sender(&mut self, sender: SocketAddr, newcomer: SocketAddr, now: Nanos) {
        let Some(route) = self.senders.remove(&sender) else { return };
        self.recent = None;
        if let Route::Keyed(at) = route {
            self.tables.gave_way(at);
        }
        for at in self.streams_of(route) {
            self.end_stream(at, now);
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
        if let Some(at) = self.tables.begin(format.family, begin.since) {
            return Ok(Route::Keyed(at));
        }
        let field =
            format.own.thread_field().filter(|_| self.options.split_threads && format.threads.len() > 1);
        let Some(field) = field else {
            return Ok(Route::One(self.begin_stream(sender, format, begin)?));
        };
        let mut streams = Vec::new();
        let network = format.network_bytes;
        for thread in &format.threads {
            // The sequence number counts packets of all threads; within one thread, only the time gives the order.
            let alone = StreamFormat { threads: vec![thread.clone()], place: Place::Time, ..format.clone() };
            streams.push((thread.id, self.begin_stream(sender, alone, begin)?));
        }
        self.splits.push(Split { network, field, streams });
        Ok(Route::Split(self.splits.len() - 1))
    }

    /// Deliver everything of a stream, and its last events.
    pub(super) fn end_stream(&mut self, at: usize, now: Nanos) {
        self.streams[at].end_placing(now);
        self.streams[at].finish();
        self.drain(at);
        self.streams[at].delivered();
        self.tell(at);
    }

    /// Hand on the events of a stream.
    pub(super) fn tell(&mut self, at: usize) {
        while let Some(event) = self.streams[at].poll_event() {
            self.keep_event(event);
        }
    }

    /// Hand on an event.
    fn keep_event(&mut self, event: Event) {
        // If all senders of many have another clock, it may be this host's that is wrong: the first ones are enough.
        if event.kind == CLOCK_OFFSET {
            self.clocks += 1;
            if self.clocks > 2 && !(self.clocks.is_power_of_two() && self.clocks.ilog2().is_multiple_of(3)) {
                return;
            }
        }
        if !self.sink.event(&event) && self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    /// A sender's threads are streams, and one began late.
    pub(super) fn separate_late(&mut self, split: usize, now: Nanos) {
        let first = self.splits[split].streams.first().map(|&(_, at)| self.streams[at].newcomers.separate());
        if let Some(ids) = first.filter(|ids| !ids.is_empty()) {
            self.separate(split, &ids, now);
        }
    }

    /// What becomes of threads that begin later.
    fn late(&self) -> Late {
        match (self.options.learn.threads.is_some(), self.options.split_threads) {
            (true, _) => Late::Refuse,
            (false, true) => Late::Separate,
            (false, false) => Late::Join,
        }
    }

    /// Threads of a sender that began after the others, where each is a stream.
    #[cold]
    pub(super) fn separate(&mut self, split: usize, ids: &[u16], now: Nanos) {
        let Some(&(_, first)) = self.splits[split].streams.first() else { return };
        let (info, leaves) = (self.streams[first].info.clone(), self.streams[first].leaves);
        let held = self.streams[first].newcomers.take();
        let (network, length) = (info.format.network_bytes, info.format.header_bytes);
        for &id in ids {
            let Some(Held { time, packet, .. }) = held.iter().find(|held| held.time.thread == id) else {
                continue;
            };
            let header = packet.get(network..network + length).unwrap_or_default().to_vec();
            let format =
                StreamFormat { threads: vec![Thread { id, shift: 0, header }], ..info.format.clone() };
            let keep_partial_sets = self.options.keep_partial_sets;
            let begin = Begin { trusted: true, since: now, leaves, keep_partial_sets, late: Late::Refuse };
            if let Ok(at) = self.begin_stream(info.sender, format, begin) {
                self.splits[split].streams.push((id, at));
                let text = format!("{}, as a stream of its own", began_late(*time));
                self.keep_event(Event::of_sender("thread_joined", info.sender, &text));
            }
        }
        let route = Route::Split(split);
        for Held { packet, arrived, .. } in held {
            // They were counted by the first stream.
            let report = &mut self.streams[first].report;
            report.packets -= 1;
            report.bytes -= packet.len() as u64;
            self.one(route, (&packet, arrived), now);
        }
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
        let mut stream = Stream::new(info, config, begin, self.loss_ranges.clone());
        stream.is_forwarded = self.tap.is_some();
        let stream = Placed::new(stream, placing);
        if let Some(at) = self.free.pop() {
            self.streams[at] = stream;
            return Ok(at);
        }
        self.streams.push(stream);
        Ok(self.streams.len() - 1)
    }
}
