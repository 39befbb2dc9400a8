//! Threads that begin after the others: they join the stream.
//!
//! A stream without sequence numbers is placed by time and thread, so the number of threads is part of every place. Frames
//! of a thread that was not there when the format was learned are held until they are believed; then the stream continues
//! with places for it.
//!
//! ```text
//!   held            C 40 C 41 … C 47 │ believed: from frame 40 on the places are those of three threads
//!   handed on       A 38 B 38 A 39 B 39 │ A 40 B 40 C 40 A 41 …
//!                   old places          │ new ones; what had been put in old ones and is not handed on moves
//! ```
//!
//! While frames are held, what the stream has finished waits for them, within bounds of memory and time; and its last object
//! waits for the packet behind it, as the first frame of another thread may be just that one. So nothing is lost, unless that
//! time was handed on already: then the thread joins behind it, and its earlier frames are late. Where each thread is a
//! stream, a new one begins. Not where threads were asked for by number.
//!
//! The frame rate is part of every place, too. Frames whose numbers are beyond the rate that is stated are held in the same
//! way; then the stream continues without a rate, which is learned.

use super::filter::Sets;
use super::info::{StreamInfo, StreamPart};
use super::newcomers::{Held, Late, order};
use super::placing::{self, Around, Placed};
use super::stream::Stream;
use skyhaul_core::assembly::{Cause, Mark, Ordered, OrderedConfig, Retired, Window};
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{FrameTime, Place, Quirk, StreamFormat, Thread};
use skyhaul_io::memory::{Block, Pool};
use std::sync::Arc;

/// Seconds between a thread that may join and the stream.
const APART: i64 = 10;
/// Objects that wait for frames that are held, at most; and not more than half of all memory.
const MOST_WAITING: usize = 16;

impl Stream {
    /// A packet of a thread that is not the stream's.
    #[cold]
    pub(super) fn unknown_thread(&mut self, packet: &[u8], now: Nanos) {
        let format = &self.info.format;
        let time = || format.own.frame_time(format, packet.get(format.network_bytes..)?);
        let is_kept = format.header_at().is_some();
        let arrived = self.arrivals.now();
        let is_held = match time().filter(|_| is_kept && self.newcomers.is_open()) {
            Some(time) => self.newcomers.hold(Held { time, arrived, packet: packet.to_vec() }, now),
            None => false,
        };
        if !is_held {
            self.refused(Reject::UnknownThread, 1);
        }
    }

    /// A packet with a field that is not possible in this stream: perhaps its frame number, for the frame rate.
    #[cold]
    pub(super) fn bad_field(&mut self, packet: &[u8], now: Nanos) {
        let format = &self.info.format;
        let time = || format.own.frame_time(format, packet.get(format.network_bytes..)?);
        let may_join = format.header_at().is_some() && self.newcomers.may_join();
        let beyond = time().filter(|time| may_join && self.is_known(*time) && self.is_beyond(*time));
        let arrived = self.arrivals.now();
        let is_held = beyond
            .is_some_and(|time| self.newcomers.hold(Held { time, arrived, packet: packet.to_vec() }, now));
        if !is_held {
            self.refused(Reject::BadField, 1);
        }
    }

    fn is_known(&self, time: FrameTime) -> bool {
        self.info.format.threads.iter().any(|thread| thread.id == time.thread)
    }

    /// Whether the frame rate by which the stream is placed does not allow this time.
    fn is_beyond(&self, time: FrameTime) -> bool {
        let StreamFormat { place, frames_per_second, .. } = self.info.format;
        place == Place::Time && frames_per_second.is_some_and(|frames| time.frame >= frames)
    }

    /// Frames that were held do not join.
    pub(super) fn refuse(&mut self, held: &[Held]) {
        for frame in held {
            let why = if self.is_known(frame.time) { Reject::BadField } else { Reject::UnknownThread };
            self.refused(why, 1);
        }
    }

    /// Whether what is finished waits for a thread that may join.
    pub(super) fn is_waiting(&mut self, pool: &Pool) -> bool {
        if self.newcomers.are_awaited() {
            if self.assembly.held() <= MOST_WAITING && pool.free() > pool.blocks() / 2 {
                return true;
            }
            self.newcomers.overtake();
        }
        let format = &self.info.format;
        let may_join = || {
            self.newcomers.may_join() && format.place == Place::Time && format.own.thread_field().is_some()
        };
        !self.is_quiet && self.assembly.is_at_its_end() && may_join()
    }

    /// What is not handed on yet, in stream order.
    pub(super) fn unfinished(&mut self) -> Vec<Retired<Block>> {
        self.end_placing(self.report.last_arrival);
        self.assembly.finish(Nanos::default());
        std::iter::from_fn(|| self.assembly.poll_retired()).collect()
    }

    /// The times of the frames in a part that arrived, with their places in its object.
    fn times<'a>(&'a self, part: &'a Retired<Block>) -> impl Iterator<Item = (u64, FrameTime)> + 'a {
        let unit = u64::from(self.info.unit_bytes.max(1));
        let came = move |at: &u64| !part.missing.iter().any(|hole| hole.contains(at));
        (part.range.start..part.range.end).step_by(unit as usize).filter(came).filter_map(move |at| {
            let bytes = part.block.get(at as usize..(at + unit) as usize)?;
            Some((at, self.info.format.frame_time(bytes)?))
        })
    }

    /// Places for these threads, too.
    fn widen(&mut self, info: StreamInfo, config: OrderedConfig, from: Mark) {
        let partial = self.sets.keeps_partial();
        let per_object = config.geometry.object_bytes / u64::from(info.unit_bytes.max(1));
        let mut config = config;
        config.open_ended = info.format.short_objects();
        config.ahead = super::info::ahead(&info.format, per_object, config);
        self.assembly = Ordered::continued(config, from, self.assembly.epoch());
        self.sets = Sets::begun(&info.format, info.unit_bytes, partial);
        self.per_object = per_object;
        self.short_objects = config.open_ended;
        self.report.sequence.restart();
        self.trailing = 0;
        self.arrivals.forget();
        // Its frames have other numbers now: those from before the start are behind it.
        self.only = None;
        self.newcomers.joins += 1;
        if let (Some(rate), None) = (self.info.format.frames_per_second, info.format.frames_per_second) {
            self.forget_rate(rate);
        }
        self.info = Arc::new(info);
    }
}

/// A packet that is placed again, and whether it was in its place before.
type Again = (Held, bool);

impl Placed {
    /// Let the threads join whose frames are held.
    #[cold]
    pub(super) fn join(&mut self, around: &mut Around<'_>) {
        let ids = self.newcomers.joining();
        let held = self.newcomers.take();
        let (mine, others): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|held| ids.contains(&held.time.thread));
        for other in others {
            self.newcomers.hold(other, around.now);
        }
        let bad_fields = mine.iter().filter(|held| self.is_known(held.time)).count() as u64;
        let strangers = mine.len() as u64 - bad_fields;
        if let Err(why) = self.try_join(&ids, mine, around) {
            if why != Reject::UnknownThread {
                self.newcomers.late = Late::Refuse;
            }
            self.refused(Reject::BadField, bad_fields);
            self.refused(Reject::UnknownThread, strangers);
        }
    }

    /// The format with these threads, and with a frame rate that allows these frames.
    fn widened(&self, ids: &[u16], mine: &[Held]) -> StreamFormat {
        let mut format = self.info.format.clone();
        let (network, length) = (format.network_bytes, format.header_bytes);
        for &id in ids.iter().filter(|&&id| !self.info.format.threads.iter().any(|thread| thread.id == id)) {
            let template = mine.iter().find(|held| held.time.thread == id).map(|held| &held.packet);
            let header =
                template.and_then(|packet| packet.get(network..network + length)).unwrap_or_default();
            format.threads.push(Thread { id, shift: 0, header: header.to_vec() });
        }
        format.threads.sort_by_key(|thread| thread.id);
        if let Some(frame) = mine.iter().find(|held| self.is_beyond(held.time))
            && let Some(rate) = format.frames_per_second.take()
        {
            let text = format!("frame number {} disproves {rate} frames/s: rate unknown", frame.time.frame);
            format.quirks.push(Quirk::new(&text));
        }
        format
    }

    fn try_join(&mut self, ids: &[u16], mine: Vec<Held>, around: &mut Around<'_>) -> Result<(), Reject> {
        let begin = mine.iter().map(|held| order(held.time)).min().ok_or(Reject::UnknownThread)?;
        let handed_on = self.last_time.map(order);
        if handed_on.is_some_and(|last| last.0.abs_diff(begin.0) > APART.unsigned_abs()) {
            return Err(Reject::UnknownThread);
        }
        let format = self.widened(ids, &mine);
        let (new, geometry) = (placing::of(&format)?, format.geometry()?);
        let unit_bytes = StreamInfo::unit_of(geometry);
        let config = OrderedConfig { geometry, ..*self.assembly.config() };

        let parts = self.unfinished();
        let mut times: Vec<(i64, u32)> = mine.iter().map(|held| order(held.time)).collect();
        times.extend(
            parts
                .iter()
                .filter(|part| part.cause != Cause::Stray)
                .flat_map(|part| self.times(part).map(|(_, time)| order(time)).collect::<Vec<_>>()),
        );
        // From the first frame of the new thread on, but behind what was handed on.
        let cut =
            times.into_iter().filter(|&time| time >= begin && handed_on.is_none_or(|last| time > last)).min();
        let cut = cut.unwrap_or(begin);
        let mut again: Vec<Again> = Vec::new();
        for part in parts {
            let (info, carried) = (self.info.clone(), self.divide(part, cut));
            again.extend(carried.frames);
            if let Some(part) = carried.part {
                self.before.push_back((info, part));
            }
        }
        again.extend(mine.into_iter().map(|held| (held, false)));
        again.sort_by_key(|(held, _)| order(held.time));
        let first = again.iter().find(|(held, _)| order(held.time) == cut).ok_or(Reject::UnknownThread)?;
        let place = new.place(&first.0.packet)?;
        let group = format.group() as u64 * u64::from(unit_bytes.max(1));
        let from = Mark { number: place.key.number, offset: place.offset / group.max(1) * group };
        let info = StreamInfo { format, unit_bytes, listen: self.info.listen.clone(), ..*self.info };
        self.widen(info, config, from);
        self.replace(new);
        self.place_again(again, around);
        Ok(())
    }

    /// Put packets into their new places. They are counted already, and some were forwarded.
    fn place_again(&mut self, again: Vec<Again>, around: &mut Around<'_>) {
        let arrives = self.arrivals.now();
        for (Held { packet, arrived, .. }, was_placed) in again {
            self.arrivals.at(arrived);
            self.report.packets -= 1;
            self.report.bytes -= packet.len() as u64;
            self.report.placed -= u64::from(was_placed);
            let Around { now, pool, gate, .. } = *around;
            let mut nowhere = None;
            let tap = if was_placed { &mut nowhere } else { &mut *around.tap };
            let placed = self.report.placed;
            self.packet(&packet, &mut Around { now, pool, gate, tap });
            if was_placed && self.is_forwarded && self.report.placed == placed {
                self.report.forwarded_then_refused += 1;
            }
        }
        self.arrivals.at(arrives);
    }

    /// The frames of a part before `cut`, as a part, and those from there on, as packets.
    fn divide(&mut self, mut part: Retired<Block>, cut: (i64, u32)) -> Carried {
        if part.cause == Cause::Stray {
            return Carried { part: self.finished(part), frames: Vec::new() };
        }
        let (unit, network) = (u64::from(self.info.unit_bytes.max(1)), self.info.format.network_bytes);
        let group = self.info.format.group() as u64 * unit;
        let prefix = network - self.info.format.header_at().unwrap_or(network).min(network);
        let behind = self.times(&part).find(|(_, time)| order(*time) >= cut).map(|(at, _)| at);
        let end = behind.map_or(part.range.end, |at| (at / group * group).max(part.range.start));
        let frames = self.times(&part).filter(|(at, _)| *at >= end).map(|(at, time)| {
            let mut packet = vec![0; prefix];
            packet.extend_from_slice(&part.block[at as usize..(at + unit) as usize]);
            (Held { time, arrived: None, packet }, true)
        });
        let frames: Vec<Again> = frames.collect();
        if !frames.is_empty() {
            // The last packet is not in it any more.
            self.arrivals.take(part.key.number);
        }
        part.missing.retain_mut(|hole| {
            hole.end = hole.end.min(end);
            hole.start < hole.end
        });
        part.range.end = end;
        // Nothing ends here: incomplete sets stay.
        part.cause = Cause::Flush;
        let is_empty = part.received() == 0;
        if is_empty {
            // No part is of lost frames alone: they are missing before the next one.
            self.owed += (part.range.end - part.range.start) / unit;
        }
        Carried { part: if is_empty { None } else { self.finished(part) }, frames }
    }
}

/// A divided part.
struct Carried {
    part: Option<StreamPart>,
    frames: Vec<Again>,
}
