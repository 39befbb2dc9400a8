//! One sender's stream: its assembly and its counters.

use super::admission::{Share, Worth};
use super::filter::{Cut, Sets};
use super::gaps::{GapInTime, OpenGaps};
use super::info::{StreamInfo, StreamPart, StreamReport, ahead};
use super::newcomers::{Late, Newcomers, QUIET};
use super::placer::Placer;
use super::refusals::{self, Refusals, Refused};
use super::strangers::LONG;
use super::watch::{Arrivals, Ends, Looked, Watch};
use crate::recording::Event;
use skyhaul_core::assembly::{Cause, Mark, Ordered, OrderedConfig, Retired, Window};
use skyhaul_core::placement::{Layout, Nanos, Reject};
use skyhaul_core::wire::{FrameTime, Place, RateWatch};
use skyhaul_io::memory::Block;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Packets that are late at the end of a stream, one behind the other, before its counter seems to have restarted: more than a
/// network repeats.
const RESTARTED: u32 = 128;

/// Packets after which a stream may use all memory, so that senders that only look like streams do not take the memory of
/// real ones.
pub(super) const MIN_PROVEN_FRAMES: u64 = 32;

/// How a stream begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Its first packets left no doubt that it is a stream.
    pub(super) trusted: bool,
    /// Arrival of its sender's first packet.
    pub(super) since: Nanos,
    /// Blocks of the pool that it must leave free for richer streams.
    pub(super) leaves: usize,
    /// Keep incomplete sets of threads at its beginning and end.
    pub(super) keep_partial_sets: bool,
    /// What becomes of threads that begin later.
    pub(super) late: Late,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) info: Arc<StreamInfo>,
    /// Its last object of a second may be shorter than the others.
    pub(super) short_objects: bool,
    pub(super) assembly: Ordered<Block>,
    pub(super) report: StreamReport,
    /// Frames of one object.
    pub(super) per_object: u64,
    /// When the kernel received the last train.
    last_train: Nanos,
    /// When it received what is in the objects that are not finished.
    pub(super) arrivals: Arrivals,
    /// Learns the frame rate of a stream without places.
    pub(super) rate: RateWatch,
    /// Time of the last frame of the previous part.
    pub(super) last_time: Option<FrameTime>,
    /// Its first packets left no doubt that it is a stream.
    pub(super) trusted: bool,
    /// Frames missing after it in that part.
    pub(super) trailing: u64,
    /// The epoch whose numbers the report's sequence compares.
    pub(super) numbers_epoch: u32,
    /// Its recent rate.
    worth: Worth,
    /// Blocks of the pool that it must leave free for richer streams.
    pub(super) leaves: usize,
    /// It is among those that send most.
    pub(super) rich: bool,
    /// Ranges that all streams together may still add to their loss maps.
    loss_ranges: Arc<AtomicU32>,
    /// It was replaced by another: it has ended.
    pub(super) gone: bool,
    /// Frame sets at its beginning and end.
    pub(super) sets: Sets,
    /// Frames of threads that are not its own, or not yet.
    pub(super) newcomers: Newcomers,
    /// What its frames say of themselves.
    pub(super) watch: Watch,
    /// Numbers of the frames that belong to it, where it was cut off by the clock; see [`filter`](super::filter).
    pub(super) only: Option<Range<u64>>,
    /// Where data times asked for cut it off.
    pub(super) cut: Cut,
    /// Packets refused since one was placed.
    pub(super) refusals: Refusals,
    /// Frames lost before the next part, in no part.
    pub(super) owed: u64,
    /// Gaps whose frames are not counted, because the frame rate is not known.
    pub(super) gaps: OpenGaps,
    /// Its frames are forwarded when they are placed.
    pub(super) is_forwarded: bool,
    /// Nothing arrives, or it has ended.
    pub(super) is_quiet: bool,
    /// The kernel places its payloads.
    pub(super) placer: Option<Box<Placer<Block>>>,
}

impl Stream {
    /// Whether its sender has restarted in another phase.
    #[inline]
    pub(super) fn is_out_of_phase(&self) -> bool {
        self.refusals.is_out_of_phase(self.report.placed)
    }

    pub(super) fn new(
        info: Arc<StreamInfo>,
        mut config: OrderedConfig,
        begin: Begin,
        loss_ranges: Arc<AtomicU32>,
    ) -> Self {
        let sets = Sets::new(&info.format, info.unit_bytes, begin.keep_partial_sets);
        let per_object = config.geometry.object_bytes / u64::from(info.unit_bytes.max(1));
        let short_objects = info.format.short_objects();
        config.open_ended = short_objects;
        config.ahead = ahead(&info.format, per_object, config);
        let report =
            StreamReport { frames_per_second: info.format.frames_per_second, ..StreamReport::default() };
        let watch = Watch::new(&info.format);
        Self {
            info,
            short_objects,
            assembly: Ordered::new(config),
            report,
            per_object,
            last_train: Nanos::default(),
            arrivals: Arrivals::default(),
            rate: RateWatch::default(),
            last_time: None,
            trusted: begin.trusted,
            trailing: 0,
            numbers_epoch: 0,
            worth: Worth::new(begin.since),
            leaves: begin.leaves,
            rich: begin.leaves == 0,
            loss_ranges,
            gone: false,
            sets,
            newcomers: Newcomers::new(begin.late),
            watch,
            only: None,
            cut: Cut::default(),
            refusals: Refusals::default(),
            owed: 0,
            gaps: OpenGaps::default(),
            is_forwarded: false,
            is_quiet: false,
            placer: None,
        }
    }

    /// The next event of this stream.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.watch.poll_event()
    }

    /// Its rate and memory.
    pub(super) fn share(&self, now: Nanos) -> Share {
        Share { rate: self.rate(now), held: self.assembly.held(), rich: self.rich, leaves: self.leaves }
    }

    /// Recent packets per second.
    pub(super) fn rate(&self, now: Nanos) -> f64 {
        self.worth.rate(self.report.packets, now)
    }

    /// What is placed next reached the kernel at `time`, as one train.
    #[inline]
    pub(super) fn train_arrived(&mut self, time: Option<Nanos>) {
        self.arrivals.at(time);
        self.is_quiet = false;
        let Some(time) = time else { return };
        if self.last_train != Nanos::default() {
            self.report.arrival_gaps.record(time.since(self.last_train).0);
        }
        self.last_train = time;
    }

    /// The same of a packet that is placed for itself; others of its train may have come before.
    pub(super) fn packet_arrived(&mut self, time: Option<Nanos>) {
        if time == Some(self.last_train) {
            return self.arrivals.at(time);
        }
        self.train_arrived(time);
    }

    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        if !self.gone {
            self.worth.handle_timeout(self.report.packets, now);
            if self.placer.is_none() {
                self.assembly.handle_timeout(now);
            } else if self.assembly.poll_timeout().is_some_and(|due| due <= now) {
                self.while_held(now, |stream| stream.assembly.handle_timeout(now));
            }
            self.is_quiet |= now.since(self.report.last_arrival) >= QUIET;
            let expired = self.newcomers.expire(now);
            self.refuse(&expired);
            if now.since(self.report.last_arrival) >= Nanos::SECOND {
                self.report_refusals(false);
            }
        }
    }

    /// `count` packets are refused.
    #[cold]
    pub(super) fn refused(&mut self, why: Reject, count: u64) {
        self.report.rejects.add_many(why, count);
        self.refusals.add(why, count, self.report.placed);
    }

    /// A packet whose frame begins at `start` was refused, because its place was taken: frames that are placed by their times have
    /// no place while the sender's clock stands still.
    #[cold]
    pub(super) fn watch_refused(&mut self, why: Reject, packet: &[u8], start: u32) {
        let by_time = self.info.format.place == Place::Time;
        if !by_time || !matches!(why, Reject::Duplicate | Reject::Late) {
            return;
        }
        let frame = packet.get(start as usize..);
        let Some(time) = frame.and_then(|frame| self.info.format.frame_time(frame)) else { return };
        if self.watch.refused(&self.info, time) {
            self.report.watched = self.watch.watched();
        }
    }

    /// Report that nothing but refused packets comes, or, at its end, ever came.
    fn report_refusals(&mut self, at_end: bool) {
        if let Some(refused) = self.refusals.poll_long(self.report.placed, at_end) {
            self.report_refused(&refused);
        }
    }

    fn report_refused(&mut self, refused: &Refused) {
        self.watch.packets_refused(&self.info, refused);
        self.report.watched = self.watch.watched();
    }

    /// Memory is short: deliver what is there, as after a long silence.
    pub(super) fn relieve(&mut self, now: Nanos) {
        self.while_held(now, |stream| stream.assembly.handle_timeout(now.plus(LONG)));
        self.newcomers.overtake();
        self.is_quiet = true;
    }

    pub(super) fn finish(&mut self) {
        let held = self.newcomers.take();
        self.refuse(&held);
        let has_restarted = self.assembly.refused() >= RESTARTED && !self.watch.stands_still();
        let placed = self.report.placed;
        let most = refusals::most(&self.report.rejects, placed).filter(|_| placed > 0);
        if has_restarted && self.info.format.place == Place::Time {
            self.watch.times_returned(&self.info, self.assembly.refused());
            self.report.watched = self.watch.watched();
        } else if has_restarted || self.refusals.seems_out_of_phase(placed) {
            self.watch.unconfirmed_restart(&self.info);
        } else if most.is_none() {
            self.report_refusals(true);
        }
        most.iter().for_each(|refused| self.report_refused(refused));
        self.assembly.finish(Nanos::default());
        self.is_quiet = true;
    }

    /// Whether it is surely a stream, all of which is taken.
    pub(super) fn is_proven(&self) -> bool {
        let many = self.report.placed >= MIN_PROVEN_FRAMES;
        (self.trusted || many) && self.only.is_none() && !self.gone && !self.newcomers.is_ready()
    }

    /// Whether a part of it is finished.
    pub(super) fn has_part(&self) -> bool {
        self.assembly.has_retired()
    }

    /// The next finished part.
    pub(super) fn poll_part(&mut self, layout: &dyn Layout) -> Option<StreamPart> {
        loop {
            let retired = self.assembly.poll_retired()?;
            if let Some(part) = self.finished(layout, retired) {
                return Some(part);
            }
        }
    }

    /// A finished object as a part; `None` if nothing of it belongs to the stream.
    pub(super) fn finished(
        &mut self,
        layout: &dyn Layout,
        mut retired: Retired<Block>,
    ) -> Option<StreamPart> {
        let unit = u64::from(self.info.unit_bytes.max(1));
        let arrived = self.arrivals.take(retired.key.number);
        if retired.cause == Cause::Stray {
            self.take_back(Reject::Stray, retired.received() / unit);
            return None;
        }
        let cut = self.sets.trim(&mut retired, &self.info.format, !self.assembly.has_retired());
        if cut > 0 {
            self.take_back(Reject::PartialSet, cut);
            if retired.received() == 0 {
                return None;
            }
        }
        Some(self.account(layout, retired, arrived))
    }

    /// Frames that were placed are refused after all.
    #[cold]
    fn take_back(&mut self, why: Reject, frames: u64) {
        self.report.placed = self.report.placed.saturating_sub(frames);
        self.report.rejects.add_many(why, frames);
        if self.is_forwarded {
            self.report.forwarded_then_refused += frames;
        }
    }

    /// Count a finished object.
    fn account(&mut self, layout: &dyn Layout, of: Retired<Block>, arrived: Option<Nanos>) -> StreamPart {
        let Retired { key, epoch, block, mut range, mut missing, after, cause, .. } = of;
        let unit = u64::from(self.info.unit_bytes.max(1));
        let object = key.number;
        self.complete_group(&mut range, &mut missing, cause, unit);
        if epoch != self.report.epochs {
            self.report.epochs = epoch;
            (self.last_time, self.trailing) = (None, 0);
            self.watch.restart(&self.info, object.saturating_mul(self.per_object));
            self.cut.restart();
        }
        let to_unit = |at: u64| ((at - range.start) / unit) as u32;
        let holes: Vec<Range<u32>> = missing.iter().map(|m| to_unit(m.start)..to_unit(m.end)).collect();
        let units = to_unit(range.end);
        let start = range.start as usize;
        let ends = Ends {
            info: &self.info,
            rate: self.report.frames_per_second,
            block: &block,
            units: (range.start / unit, range.end / unit),
            holes: &holes,
        };
        let (first, last) = (ends.first(), ends.last());
        let [first_time, last_time] = ends.times();
        // Saturates: numbers of hostile senders may exceed 64 bits.
        let first_number = object.saturating_mul(self.per_object);
        let number = |at: u64| first_number.saturating_add(at / unit);
        let from = Mark { number: object, offset: range.start };
        let gap = after.map_or(Some(0), |after| self.gap(layout, [after, from], unit, (first_time, first)));
        let gap_is_lower_bound = gap.is_none();
        let gap = gap.unwrap_or(0) + std::mem::take(&mut self.owed);
        if gap > 0 {
            let end = number(range.start);
            self.report.lose(gap, end.saturating_sub(gap)..end, &self.loss_ranges);
        }
        for m in &missing {
            let numbers = number(m.start)..number(m.end);
            self.report.lose((m.end - m.start) / unit, numbers, &self.loss_ranges);
        }
        self.report.retired += u64::from(units) + gap;
        // From now on, what is before the beginning is late.
        self.only.take_if(|only| only.end == u64::MAX);
        self.report.first_time = self.report.first_time.or(first_time);
        self.report.last_time = last_time.or(self.report.last_time);
        if last_time.is_some() {
            self.last_time = last_time;
            self.trailing = last.map_or(0, |last| u64::from(units - 1 - last));
        }
        let units = range.start / unit..range.end / unit;
        let last = last_time;
        self.look(&Looked { block: &block, units, first: first_number, missing: &holes, arrived, last });
        self.learn_rate(last_time);
        let settled = if self.gaps.may_settle() { self.settle_gaps() } else { 0 };
        StreamPart {
            block,
            range: start..range.end as usize,
            missing: holes,
            gap,
            gap_is_lower_bound,
            settled,
            has_open_gaps: self.report.has_open_gaps,
            object,
            epoch,
            cause,
            first_time,
            last_time,
            frames_per_second: self.report.frames_per_second,
            arrived,
        }
    }

    /// An object that ends with its second ends with a frame of every thread: if one arrived, the others are missing.
    fn complete_group(&self, range: &mut Range<u64>, missing: &mut Vec<Range<u64>>, cause: Cause, unit: u64) {
        let over = matches!(cause, Cause::Complete | Cause::Window | Cause::Linger);
        let group = unit * self.info.format.group().max(1) as u64;
        let end = range.end.next_multiple_of(group).min(self.per_object * unit);
        if !over || !self.short_objects || end <= range.end {
            return;
        }
        match missing.last_mut() {
            Some(last) if last.end == range.end => last.end = end,
            _ => missing.push(range.end..end),
        }
        range.end = end;
    }

    /// Frames lost between two places, the second of them with the first frame that arrived, and its number in the part; `None` if that
    /// cannot be known yet.
    fn gap(
        &mut self,
        layout: &dyn Layout,
        [from, to]: [Mark; 2],
        unit: u64,
        (first_time, first): (Option<FrameTime>, Option<u32>),
    ) -> Option<u64> {
        if from >= to {
            return Some(0);
        }
        if let Some(whole) = layout.units_between(from.number, to.number) {
            return Some(whole.saturating_add(to.offset / unit).saturating_sub(from.offset / unit));
        }
        let number = to.number.saturating_mul(self.per_object).saturating_add(to.offset / unit);
        self.gap_across_seconds(number, first_time, first)
    }

    /// The same across the end of a second whose length the layout does not know, but which may be known by now. `number` is that of
    /// the frame behind the gap.
    #[cold]
    fn gap_across_seconds(
        &mut self,
        number: u64,
        first_time: Option<FrameTime>,
        first: Option<u32>,
    ) -> Option<u64> {
        let across = GapInTime {
            info: self.info.clone(),
            from: self.last_time,
            trailing: self.trailing,
            to: first_time,
            leading: u64::from(first.unwrap_or(0)),
        };
        let gap = across.frames(self.report.frames_per_second);
        if gap.is_none() {
            self.gaps.open(across, number);
            self.report.has_open_gaps = true;
        }
        gap
    }

    /// Counts the frames of gaps that were met before the frame rate was known. Returns how many there are.
    #[cold]
    fn settle_gaps(&mut self) -> u64 {
        let mut settled = 0;
        for numbers in self.gaps.settle(self.report.frames_per_second) {
            settled += numbers.end - numbers.start;
            self.report.lose_earlier(numbers, &self.loss_ranges);
        }
        self.report.retired += settled;
        self.report.has_open_gaps = self.gaps.are_open();
        settled
    }

    /// Its last part was delivered.
    pub(super) fn delivered(&mut self) {
        self.watch.finish(&self.info);
        self.report.watched = self.watch.watched();
    }

    /// See what a part says of itself.
    fn look(&mut self, part: &Looked<'_>) {
        self.watch.part(&self.info, part);
        self.report.watched = self.watch.watched();
    }
}

impl Stream {
    /// The frame rate by which it was placed is wrong: it is learned.
    pub(super) fn forget_rate(&mut self, rate: u32) {
        self.report.frames_per_second = None;
        self.rate = RateWatch::default();
        self.watch.forget_rate(&self.info, rate);
    }

    /// Learn the frames per second, if not given: by the numbers of the packets, or from the ends of seconds. It may change.
    pub(super) fn learn_rate(&mut self, last: Option<FrameTime>) {
        if self.info.format.own.rate().is_some() {
            return;
        }
        let is_learned = self.info.format.frames_per_second.is_none();
        let has_one = self.report.frames_per_second.is_some() || last.is_none();
        if self.info.format.place != Place::Time || is_learned && has_one {
            self.report.frames_per_second = self.watch.frames_per_second().or(self.report.frames_per_second);
        } else if let Some(time) = last.filter(|_| !has_one) {
            // Objects end where seconds do, so the last frame of each object is enough.
            self.report.frames_per_second = self.rate.observe(time);
            self.report.frames_per_second.into_iter().for_each(|frames| self.watch.set_rate(frames));
        }
    }
}
