//! The path of packets from the wire to their places, compiled for each format.
//!
//! ```text
//!   Engine ── one virtual call for each train ──▶ By<L> ── L::place, inlined, for each packet ──▶ Stream
//! ```
//!
//! Packets adjacent in a train and in their object are a run: looked up, copied and noted once.
//!
//! A stream's concrete layout is chosen once, when it begins ([`Visit`]); nothing after that depends on the format.

use super::filter;
use super::filter::Gate;
use super::info::{StreamInfo, StreamPart};
use super::refusals::Refusals;
use super::stream::{MIN_PROVEN_FRAMES, Stream};
use crate::mirror::Tap;
use skyhaul_core::assembly::{Ordered, Retired, Slot, Window};
use skyhaul_core::placement::{Layout, Nanos, Placement, Reject};
use skyhaul_core::wire::{StreamFormat, Visit};
use skyhaul_io::memory::{Block, Pool};
use skyhaul_io::source::Train;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// State shared by all streams of an engine while packets are placed.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) now: Nanos,
    pub(super) pool: &'a Pool,
    pub(super) gate: &'a Gate,
    pub(super) tap: &'a mut Option<Tap>,
}

/// Places packets by one kind of layout.
pub(super) trait Placing: Debug + Send {
    /// Put the packets of a train where they belong.
    fn train(&self, stream: &mut Stream, train: &Train<'_>, around: &mut Around<'_>);
    /// Put one packet where it belongs.
    fn packet(&self, stream: &mut Stream, packet: &[u8], around: &mut Around<'_>);
    /// The next finished part.
    fn poll_part(&self, stream: &mut Stream) -> Option<StreamPart>;
    /// A finished object as a part.
    fn finished(&self, stream: &mut Stream, retired: Retired<Block>) -> Option<StreamPart>;
    /// The place of a packet.
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject>;
    /// The number of a packet's frame in its stream.
    fn number(&self, stream: &Stream, packet: &[u8]) -> Option<u64>;
}

#[derive(Debug)]
struct By<L>(L);

impl<L: Layout + Debug + Send> Placing for By<L> {
    fn train(&self, stream: &mut Stream, train: &Train<'_>, around: &mut Around<'_>) {
        stream.train(&self.0, train, around);
    }

    fn packet(&self, stream: &mut Stream, packet: &[u8], around: &mut Around<'_>) {
        stream.packet(&self.0, packet, around);
    }

    fn poll_part(&self, stream: &mut Stream) -> Option<StreamPart> {
        stream.poll_part(&self.0)
    }

    fn finished(&self, stream: &mut Stream, retired: Retired<Block>) -> Option<StreamPart> {
        stream.finished(&self.0, retired)
    }

    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        self.0.place(packet)
    }

    fn number(&self, stream: &Stream, packet: &[u8]) -> Option<u64> {
        Some(stream.number(&self.0.place(packet).ok()?))
    }
}

/// How the packets of such a stream are placed.
pub(super) fn of(format: &StreamFormat) -> Result<Box<dyn Placing>, Reject> {
    struct Chosen;
    impl Visit for Chosen {
        type Out = Box<dyn Placing>;
        fn visit<L: Layout + Debug + Send + Sync + 'static>(self, layout: L) -> Self::Out {
            Box::new(By(layout))
        }
    }
    format.visit(Chosen)
}

/// A stream with its placement.
#[derive(Debug)]
pub(super) struct Placed {
    stream: Stream,
    placing: Box<dyn Placing>,
    /// Parts with the places that the stream had before a thread joined.
    pub(super) before: VecDeque<(Arc<StreamInfo>, StreamPart)>,
}

impl Placed {
    /// Begin anew in the other phase, if its frames come in parts. Which packets of a FILA10G are first halves depends on when
    /// the board was started: after a restart in the other phase, no packet has a place.
    #[cold]
    pub(super) fn rephase(&mut self) {
        let unpaired = self.refusals.unpaired(self.report.placed);
        self.refusals = Refusals::default();
        let mut format = self.info.format.clone();
        let Some(own) = format.own.rephased() else { return };
        format.own = own;
        let Ok(new) = of(&format) else { return };
        for retired in self.unfinished() {
            let info = self.info.clone();
            if let Some(part) = self.finished(retired) {
                self.before.push_back((info, part));
            }
        }
        self.watch.rephased(unpaired);
        self.assembly = Ordered::restarted(*self.assembly.config(), self.assembly.epoch() + 1);
        self.arrivals.forget();
        self.only.take_if(|only| only.end == u64::MAX);
        let (unit_bytes, listen) = (self.info.unit_bytes, self.info.listen.clone());
        self.info = Arc::new(StreamInfo { format, unit_bytes, listen, ..*self.info });
        self.replace(new);
    }

    pub(super) fn new(stream: Stream, placing: Box<dyn Placing>) -> Self {
        Self { stream, placing, before: VecDeque::new() }
    }

    /// Place packets by another layout from here on.
    pub(super) fn replace(&mut self, placing: Box<dyn Placing>) {
        self.placing = placing;
    }

    /// A finished object as a part.
    pub(super) fn finished(&mut self, retired: Retired<Block>) -> Option<StreamPart> {
        self.placing.finished(&mut self.stream, retired)
    }

    /// Put the packets of a train where they belong.
    #[inline]
    pub(super) fn train(&mut self, train: &Train<'_>, around: &mut Around<'_>) {
        self.placing.train(&mut self.stream, train, around);
        if self.stream.newcomers.is_ready() {
            self.join(around);
        }
        if self.stream.is_out_of_phase() {
            self.rephase();
        }
    }

    /// Put one packet where it belongs.
    #[inline]
    pub(super) fn packet(&mut self, packet: &[u8], around: &mut Around<'_>) {
        self.placing.packet(&mut self.stream, packet, around);
        if self.stream.newcomers.is_ready() {
            self.join(around);
        }
        if self.stream.is_out_of_phase() {
            self.rephase();
        }
    }

    /// The number of a packet's frame in the stream.
    pub(super) fn number(&self, packet: &[u8]) -> Option<u64> {
        self.placing.number(&self.stream, packet)
    }

    /// The next finished part that need not wait, and the stream as it was then.
    #[inline]
    pub(super) fn poll_part(&mut self, pool: &Pool) -> Option<(Arc<StreamInfo>, StreamPart)> {
        if let Some(part) = self.before.pop_front() {
            return Some(part);
        }
        if !self.stream.has_part() || self.stream.is_waiting(pool) {
            return None;
        }
        self.stream.close_left();
        let part = self.placing.poll_part(&mut self.stream)?;
        Some((self.stream.info.clone(), part))
    }
}

impl Deref for Placed {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl DerefMut for Placed {
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

/// Adjacent packets of equal length in a train.
#[derive(Clone, Copy, Debug)]
struct Packets<'a> {
    bytes: &'a [u8],
    stride: usize,
    count: usize,
}

impl<'a> Packets<'a> {
    /// The first `count`, and the others.
    #[inline]
    fn split(self, count: usize) -> (Packets<'a>, Packets<'a>) {
        let (bytes, rest) = self.bytes.split_at(count * self.stride);
        (Packets { bytes, count, ..self }, Packets { bytes: rest, count: self.count - count, ..self })
    }
}

impl Stream {
    /// Put the packets of a train where they belong: what lies side by side, in the train and in its object, at once.
    #[inline]
    pub(super) fn train(&mut self, layout: &impl Layout, train: &Train<'_>, around: &mut Around<'_>) {
        let stride = train.stride.min(train.bytes.len());
        if !around.gate.is_open() || stride == 0 || self.only.is_some() {
            return train.packets().for_each(|packet| self.packet(layout, packet, around));
        }
        self.report.packets += train.count() as u64;
        self.report.bytes += train.bytes.len() as u64;
        let mut rest = train.bytes;
        let mut next = layout.place(&rest[..stride]);
        loop {
            let first = next;
            let (mut count, mut end) = (1, first.map_or(0, |first| first.offset + first.length));
            let mut behind = rest.get(stride..).unwrap_or_default();
            while !behind.is_empty() {
                next = layout.place(&behind[..stride.min(behind.len())]);
                let (Ok(first), Ok(following)) = (&first, &next) else { break };
                if !first.goes_on(following, end) || behind.len() < stride {
                    break;
                }
                end += following.length;
                count += 1;
                behind = &behind[stride..];
            }
            let taken = rest.len() - behind.len();
            let (run, left) = rest.split_at(taken);
            match first {
                Ok(first) => {
                    // The last packet of a train may be shorter than the others.
                    let stride = stride.min(taken);
                    self.run(first, Packets { bytes: run, stride, count }, around);
                }
                Err(Reject::UnknownThread) => self.unknown_thread(run, around.now),
                Err(Reject::BadField) => self.bad_field(run, around.now),
                Err(why) => self.refused(why, 1),
            }
            if left.is_empty() {
                return;
            }
            rest = left;
        }
    }

    /// Put packets that lie side by side, the first at `place`, where they belong: at once, as far as they have a place.
    #[inline]
    fn run(&mut self, mut place: Placement, mut packets: Packets<'_>, around: &mut Around<'_>) {
        let each = place.length;
        while packets.count > 0 {
            let all = Placement { length: each * packets.count as u64, ..place };
            // Packets that open an object, or are suspect, are placed one by one: the window counts packets.
            let whole = packets.count > 1 && self.assembly.goes_on(&all) && !self.is_open(&all);
            let count = if whole { packets.count } else { 1 };
            let (together, left) = packets.split(count);
            let part = Placement { length: each * count as u64, ..place };
            if let Err(why) = self.put(part, together, around) {
                self.refused(why, count as u64);
                self.watch_refused(
                    why,
                    &packets.bytes[..packets.stride.min(packets.bytes.len())],
                    place.start,
                );
            }
            place.offset += part.length;
            packets = left;
        }
    }

    /// Whether the kernel may place packets of the same object now.
    #[inline]
    fn is_open(&self, place: &Placement) -> bool {
        self.placer.as_ref().is_some_and(|placer| placer.open_slot(place.key.number).is_some())
    }

    /// Put one packet where it belongs.
    #[inline]
    pub(super) fn packet(&mut self, layout: &impl Layout, packet: &[u8], around: &mut Around<'_>) {
        self.report.packets += 1;
        self.report.bytes += packet.len() as u64;
        match self.place(layout, packet, around) {
            Ok(()) => {}
            Err(Reject::UnknownThread) => self.unknown_thread(packet, around.now),
            Err(Reject::BadField) => self.bad_field(packet, around.now),
            Err(why) => {
                self.refused(why, 1);
                self.watch_refused(why, packet, layout.place(packet).map_or(0, |place| place.start));
            }
        }
    }

    #[inline]
    fn place(&mut self, layout: &impl Layout, packet: &[u8], around: &mut Around<'_>) -> Result<(), Reject> {
        let placement = layout.place(packet)?;
        if !around.gate.is_open() {
            self.gated(&placement, packet, around.gate)?;
        }
        if let Some(only) = &self.only {
            filter::admit(only, self.number(&placement))?;
        }
        self.put(placement, Packets { bytes: packet, stride: packet.len(), count: 1 }, around)
    }

    /// Check that a packet is within the times asked for.
    fn gated(&mut self, placement: &Placement, packet: &[u8], gate: &Gate) -> Result<(), Reject> {
        let number = self.number(placement);
        let payload = packet.get(placement.start as usize..);
        match payload.and_then(|payload| self.info.format.frame_time(payload)) {
            Some(time) => {
                let parts = self.info.format.parts.max(1) as u64;
                let admitted = gate.admit(time.unix_seconds);
                self.cut.note(admitted, number, parts);
                admitted
            }
            None => self.cut.admit(gate, number),
        }
    }

    /// The number of a frame in the stream.
    #[inline]
    fn number(&self, placement: &Placement) -> u64 {
        let within = placement.offset / u64::from(self.info.unit_bytes.max(1));
        placement.key.number.saturating_mul(self.per_object).saturating_add(within)
    }

    /// Copy the payloads of packets to their common place.
    #[inline]
    fn put(
        &mut self,
        placement: Placement,
        packets: Packets<'_>,
        around: &mut Around<'_>,
    ) -> Result<(), Reject> {
        if self.placer.is_some() {
            return self.put_beside(placement, packets, around);
        }
        self.put_in::<false>(placement, packets, around)
    }

    /// The same while the kernel may place packets of the same object.
    #[cold]
    fn put_beside(
        &mut self,
        placement: Placement,
        packets: Packets<'_>,
        around: &mut Around<'_>,
    ) -> Result<(), Reject> {
        self.put_in::<true>(placement, packets, around)
    }

    /// `BESIDE`: the stream has a placer. Without one, a packet pays for none.
    #[inline]
    fn put_in<const BESIDE: bool>(
        &mut self,
        placement: Placement,
        packets: Packets<'_>,
        around: &mut Around<'_>,
    ) -> Result<(), Reject> {
        let Around { now, pool, ref mut tap, .. } = *around;
        let Packets { bytes, stride, count } = packets;
        let start = placement.start as usize;
        // A placement beyond the packet must not cause an out-of-bounds read.
        let each = stride.checked_sub(start).ok_or(Reject::Truncated)?;
        if each as u64 * count as u64 != placement.length {
            return Err(Reject::Truncated);
        }
        let (trusted, leaves, report) = (self.trusted, self.leaves, &self.report);
        let (placer, key) = (&mut self.placer, placement.key);
        // Until a stream is proven, half of the pool is reserved for others.
        let room = |_: u64, old: Option<Block>| {
            if BESIDE && let Some(block) = placer.as_mut().and_then(|placer| placer.give(key.number)) {
                return Ok(block);
            }
            let proven = trusted || report.placed + report.rejects.get(Reject::NoBuffer) >= MIN_PROVEN_FRAMES;
            let leaves = if proven { leaves } else { leaves.max(pool.blocks() / 2) };
            (pool.free() > leaves).then(|| pool.take()).flatten().ok_or(old)
        };
        let mut slot = self.assembly.reserve(placement, now, room)?;
        let range = slot.range().start as usize..slot.range().end as usize;
        // If not, the kernel has placed a copy of it that arrived later: the bytes are there, and the copy is the duplicate.
        let is_ours = !BESIDE || self.placer.as_ref().is_none_or(|placer| placer.claim(key.number, &range));
        if !is_ours {
            debug_assert_eq!(count, 1);
        } else if count == 1 {
            slot.block().place(range.start, &bytes[start..]);
        } else {
            slot.block().place_run(range.start, &bytes[start..], stride, each);
        }
        if let Some(tap) = tap.as_mut() {
            tap.frames(
                self.info.id,
                slot.block(),
                range,
                placement.key.number.saturating_mul(self.per_object),
            );
        }
        let is_suspect = slot.is_suspect();
        slot.commit(now);
        self.placed(&placement, count as u64, is_suspect, now);
        Ok(())
    }

    /// The sender's counter restarted: what it sends now is not late.
    #[cold]
    fn number_anew(&mut self) {
        self.numbers_epoch = self.assembly.epoch();
        self.report.sequence.restart();
    }

    /// So many packets are in their place. One damaged number far ahead, which is not believed, makes none of those after it late.
    #[inline]
    pub(super) fn placed(&mut self, placement: &Placement, packets: u64, is_suspect: bool, now: Nanos) {
        self.arrivals.placed(placement.key.number);
        self.report.placed += packets;
        if !is_suspect {
            if self.numbers_epoch != self.assembly.epoch() {
                self.number_anew();
            }
            let number = self.number(placement);
            self.report.sequence.arrived_run(number, packets);
        }
        self.report.last_arrival = now;
    }
}
