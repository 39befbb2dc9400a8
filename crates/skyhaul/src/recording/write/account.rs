//! The account of each datastream: its chunks and frames, submitted, and then acknowledged or lost.
//!
//! ```text
//!   submit ─▶ pending ─┬─▶ acknowledged: on a disk, with its record      ─▶ gone, if it is not there at the end
//!                      └─▶ lost: no disk could take it, for a reason
//! ```
//!
//! [`Space`] predicts when the disks will be full, from free space and the rate at which it is used:
//!
//! ```text
//!   room of all disks beyond their reserve ÷ bytes per second submitted lately = time left
//!
//!   10 min left ─▶ space_low      1 min left ─▶ space_low      no room ─▶ disks_full, then chunk_lost
//! ```
//!
//! The alarm never comes after the first loss: whatever the rate, it is given at the latest when the room is down to two chunks.
//!
//! Limits: a rate that rises makes the forecast too long until it is measured; other writers on the same disks show only
//! through the space that they use.

use crate::ledger::{Discard, FrameLedger};
use crate::recording::copies::{CopyCounts, MAX_NUMBERS};
use crate::recording::index::record::ChunkCounts;
use crate::recording::report::{DatastreamReport, Event, SpaceReport};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Events that are kept; more are counted only.
const MAX_EVENTS: usize = 1000;

#[derive(Debug, Default)]
struct Account {
    report: DatastreamReport,
    pending: BTreeMap<u32, ChunkCounts>,
    losses: BTreeMap<Discard, Losses>,
    /// Chunks that do not have all their copies yet, where more than one was asked for.
    copying: BTreeMap<u32, Copying>,
}

/// A chunk of which copies wait or are being written.
#[derive(Clone, Copy, Debug)]
struct Copying {
    bytes: u64,
    /// Copies that wait or are being written.
    under_way: u32,
    durable: u32,
}

/// What became of a chunk when one of its copies was written or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyStep {
    /// Other copies are under way.
    UnderWay,
    /// It has all copies.
    All,
    /// It is safe, with fewer copies than were asked for.
    Fewer,
    /// No disk has it.
    None,
}

/// Chunks of a datastream that were given up for one reason: one event, which grows.
#[derive(Clone, Copy, Debug)]
struct Losses {
    /// Its event, if that was kept.
    event: Option<usize>,
    first: u32,
    last: u32,
    chunks: u64,
    units: u64,
    bytes: u64,
}

impl Losses {
    fn text(&self, name: &str, unit: &str, why: Discard) -> String {
        let Losses { first, last, chunks, units, bytes, .. } = self;
        let which = match chunks {
            1 => format!("{name}.{first:08}"),
            _ => format!("{chunks} chunks from {name}.{first:08} to {name}.{last:08}"),
        };
        format!("{which} discarded, {units} {unit}s in {bytes} bytes: {}", why.text())
    }
}

/// All accounts of a session.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    events: Vec<Event>,
    events_dropped: u64,
    /// Copies of each chunk that were asked for.
    copies: u32,
    /// No copy is waited for any more.
    are_copies_over: bool,
}

impl Ledger {
    /// One of chunks with so many copies each.
    pub(super) fn new(copies: u32) -> Ledger {
        Ledger { copies, ..Ledger::default() }
    }

    /// A new datastream, whose frames come in so many packets; its number.
    pub(super) fn open(&mut self, name: String, sender: Option<String>, packets_per_frame: u32) -> u32 {
        let datastream = self.accounts.len() as u32;
        let ledger = FrameLedger { packets_per_frame, ..FrameLedger::default() };
        let redundancy = CopyCounts::of(self.copies);
        let report =
            DatastreamReport { datastream, name, sender, ledger, redundancy, ..DatastreamReport::default() };
        self.accounts.push(Account { report, ..Account::default() });
        datastream
    }

    /// How many datastreams there are.
    pub(super) fn count(&self) -> usize {
        self.accounts.len()
    }

    /// Whether a datastream has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.accounts.iter().any(|account| account.report.name == name)
    }

    /// The name of a datastream on disk.
    pub(super) fn name(&self, datastream: u32) -> Option<&str> {
        Some(&self.accounts.get(datastream as usize)?.report.name)
    }

    /// A chunk is given. False (and nothing is counted) if there is no such datastream, or the same number is
    /// under way.
    pub(super) fn submit(&mut self, datastream: u32, number: u32, given: ChunkCounts) -> bool {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return false };
        if account.pending.contains_key(&number) {
            return false;
        }
        account.count(&given);
        account.report.ledger.pending += given.received();
        account.pending.insert(number, given);
        if account.report.redundancy.is_some() {
            account.copying.insert(number, Copying { bytes: given.bytes, under_way: 1, durable: 0 });
        }
        true
    }

    /// So many more copies of a chunk are under way.
    pub(super) fn expect_copies(&mut self, datastream: u32, number: u32, more: u32) {
        let account = self.accounts.get_mut(datastream as usize);
        if let Some(copying) = account.and_then(|account| account.copying.get_mut(&number)) {
            copying.under_way = copying.under_way.saturating_add(more);
        }
    }

    /// A copy of a chunk of `bytes` is durable. The first one makes the chunk safe.
    pub(super) fn copy_written(&mut self, datastream: u32, number: u32, bytes: u64) -> CopyStep {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return CopyStep::UnderWay };
        if let Some(counts) = &mut account.report.redundancy {
            counts.copies += 1;
            counts.copy_bytes += bytes;
        }
        let Some(copying) = account.copying.get_mut(&number) else { return CopyStep::UnderWay };
        copying.under_way = copying.under_way.saturating_sub(1);
        copying.durable += 1;
        let is_first = copying.durable == 1;
        if is_first {
            self.acknowledge(datastream, number);
        }
        self.step(datastream, number)
    }

    /// No disk takes a copy of a chunk. If it has none, [`lose`](Self::lose) is to follow.
    pub(super) fn copy_given_up(&mut self, datastream: u32, number: u32) -> CopyStep {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return CopyStep::UnderWay };
        let Some(copying) = account.copying.get_mut(&number) else { return CopyStep::UnderWay };
        copying.under_way = copying.under_way.saturating_sub(1);
        self.step(datastream, number)
    }

    /// Whether a chunk has its copies, or none of them is under way any more: then it is counted, once.
    fn step(&mut self, datastream: u32, number: u32) -> CopyStep {
        let (wanted, is_over) = (self.copies, self.are_copies_over);
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return CopyStep::UnderWay };
        let Some(&Copying { bytes, under_way, durable }) = account.copying.get(&number) else {
            return CopyStep::UnderWay;
        };
        let is_awaited = durable < wanted && under_way > 0;
        if is_awaited && !(is_over && durable > 0) {
            return CopyStep::UnderWay;
        }
        account.copying.remove(&number);
        if durable == 0 {
            return CopyStep::None;
        }
        account.report.redundancy.iter_mut().for_each(|counts| counts.count(number, bytes, durable));
        if durable < wanted { CopyStep::Fewer } else { CopyStep::All }
    }

    /// Copies that are still under way are not waited for. Returns how many safe chunks have fewer because of that.
    pub(super) fn end_copies(&mut self) -> u64 {
        self.are_copies_over = true;
        let mut ended = 0;
        for datastream in 0..self.accounts.len() {
            let copying = self.accounts[datastream].copying.iter();
            let safe: Vec<u32> = copying.filter(|(_, c)| c.durable > 0).map(|(&number, _)| number).collect();
            for number in safe {
                ended += u64::from(self.step(datastream as u32, number) == CopyStep::Fewer);
            }
        }
        ended
    }

    /// A copy of a durable chunk of `bytes` is not on its disk any more, and the chunk has fewer than were asked for. Returns whether it had
    /// all of them before.
    pub(super) fn miss_copy(&mut self, datastream: u32, number: u32, bytes: u64) -> bool {
        let account = self.accounts.get_mut(datastream as usize);
        let counts = account.and_then(|account| account.report.redundancy.as_mut());
        counts.is_some_and(|counts| counts.demote(number, bytes))
    }

    /// So many frames were lost before chunks that were given, beyond what their gaps count; and whether there may be still more.
    pub(super) fn settle(&mut self, datastream: u32, frames: u64, has_open_gaps: bool) {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return };
        let ledger = &mut account.report.ledger;
        ledger.never_received += frames;
        ledger.between_chunks += frames;
        ledger.is_lower_bound = has_open_gaps;
    }

    /// A chunk was not taken.
    pub(super) fn refuse(&mut self, datastream: u32, given: &ChunkCounts) {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return };
        // It has no place among the chunks, but its frames are gone.
        account.count_frames(given);
        account.report.lost_bytes += given.bytes;
        account.report.ledger.discard(Discard::Refused, given.received());
    }

    /// A chunk is durable. True for the first time.
    pub(super) fn acknowledge(&mut self, datastream: u32, number: u32) -> bool {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return false };
        let Some(given) = account.pending.remove(&number) else { return false };
        account.report.acknowledged += 1;
        account.report.acknowledged_bytes += given.bytes;
        account.report.ledger.pending -= given.received();
        account.report.ledger.recorded += given.received();
        true
    }

    /// No disk can take a chunk. Returns its counts the first time.
    pub(super) fn lose(&mut self, datastream: u32, number: u32, why: Discard) -> Option<ChunkCounts> {
        let account = self.accounts.get_mut(datastream as usize)?;
        let given = account.pending.remove(&number)?;
        account.copying.remove(&number);
        account.report.lost += 1;
        account.report.lost_bytes += given.bytes;
        account.report.ledger.pending -= given.received();
        account.report.ledger.discard(why, given.received());
        if account.report.lost_numbers.len() < MAX_NUMBERS {
            account.report.lost_numbers.push(number);
        }
        let new = Losses { event: None, first: number, last: number, chunks: 0, units: 0, bytes: 0 };
        let mut all = account.losses.get(&why).copied().unwrap_or(new);
        all.chunks += 1;
        all.units += given.received();
        all.bytes += given.bytes;
        all.last = number;
        let text = all.text(&account.report.name, account.report.ledger.unit(), why);
        match all.event.and_then(|at| self.events.get_mut(at)) {
            Some(event) => event.text = text,
            None => {
                all.event = (self.events.len() < MAX_EVENTS).then_some(self.events.len());
                self.note(Event::now("chunk_lost", None, text));
            }
        }
        self.accounts[datastream as usize].losses.insert(why, all);
        Some(given)
    }

    /// A durable chunk of `received` units is on no disk any more.
    pub(super) fn miss(&mut self, datastream: u32, number: u32, received: u64) {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return };
        account.report.gone += 1;
        let ledger = &mut account.report.ledger;
        let received = received.min(ledger.recorded);
        ledger.recorded -= received;
        ledger.damaged += received;
        if account.report.gone_numbers.len() < MAX_NUMBERS {
            account.report.gone_numbers.push(number);
        }
    }

    /// A chunk goes to another disk.
    pub(super) fn rewrite(&mut self, datastream: u32) {
        if let Some(account) = self.accounts.get_mut(datastream as usize) {
            account.report.rewritten += 1;
        }
    }

    pub(super) fn note(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        } else {
            self.events_dropped += 1;
        }
    }

    /// Whether every chunk's fate is known, and that of each of its copies.
    pub(super) fn is_settled(&self) -> bool {
        self.accounts.iter().all(|account| account.pending.is_empty() && account.copying.is_empty())
    }

    /// Whether every chunk is durable or lost, with however many copies.
    pub(super) fn are_safe(&self) -> bool {
        self.accounts.iter().all(|account| account.pending.is_empty())
    }

    /// Each datastream's account as it is now.
    pub(super) fn reports(&self) -> Vec<DatastreamReport> {
        let report = |account: &Account| DatastreamReport {
            unacknowledged: account.pending.keys().copied().collect(),
            redundancy: account.copies(),
            ..account.report.clone()
        };
        self.accounts.iter().map(report).collect()
    }

    pub(super) fn events(&self) -> (Vec<Event>, u64) {
        (self.events.clone(), self.events_dropped)
    }

    /// The events from number `from` on.
    pub(super) fn events_from(&self, from: usize) -> Vec<Event> {
        self.events.get(from..).unwrap_or_default().to_vec()
    }

    /// The fate of the frames of all datastreams.
    pub(super) fn frames(&self) -> FrameLedger {
        self.accounts.iter().map(|a| &a.report).filter(|report| !report.keyed).map(|r| &r.ledger).sum()
    }

    /// Bytes that were given up so far.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.accounts.iter().map(|account| account.report.lost_bytes).sum()
    }

    /// Bytes that are durable on at least one disk so far.
    pub(super) fn acknowledged_bytes(&self) -> u64 {
        self.accounts.iter().map(|account| account.report.acknowledged_bytes).sum()
    }

    /// Bytes given so far, over all datastreams.
    pub(super) fn submitted_bytes(&self) -> u64 {
        self.accounts.iter().map(|account| account.report.submitted_bytes).sum()
    }
}

impl Account {
    /// The copies of its chunks as they are now.
    fn copies(&self) -> Option<CopyCounts> {
        let mut counts = self.report.redundancy.clone()?;
        for copying in self.copying.values().filter(|copying| copying.durable > 0) {
            counts.chunks_being_copied += 1;
            counts.bytes_being_copied += copying.bytes;
        }
        Some(counts)
    }

    /// A chunk was given.
    fn count(&mut self, given: &ChunkCounts) {
        let report = &mut self.report;
        report.submitted += 1;
        report.submitted_bytes += given.bytes;
        report.missing_units += given.missing;
        self.count_frames(given);
    }

    fn count_frames(&mut self, given: &ChunkCounts) {
        let report = &mut self.report;
        report.keyed |= given.keyed;
        report.ledger.received += given.received();
        report.ledger.never_received += given.missing + given.gap;
        report.ledger.in_chunks += given.missing;
        report.ledger.between_chunks += given.gap;
    }
}

/// The rate is that of this last time.
const RATE_WINDOW: Duration = Duration::from_secs(30);
/// No rate is known from less.
const MIN_RATE_TIME: Duration = Duration::from_secs(1);
/// Time between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// The second alarm comes when this part of the first one's time is left.
const SECOND_ALARM_FRACTION: f64 = 0.1;
/// An alarm is given again if the time left was this many times its threshold meanwhile.
const REARM_FACTOR: f64 = 2.0;

/// Watches the space of a recording.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Time since the start, and bytes submitted until then.
    samples: VecDeque<(Duration, u64)>,
    room: u64,
    /// Alarms given: 0, 1 or 2.
    alarms: u8,
}

impl Space {
    /// At `now` since the start, `submitted` bytes were submitted, and `room` are left in chunks of `chunk` bytes. Alarms begin
    /// at `alarm` left. Returns the alarm, if one is due.
    pub(super) fn observe(
        &mut self,
        now: Duration,
        submitted: u64,
        (room, chunk): (u64, u64),
        alarm: Duration,
    ) -> Option<SpaceReport> {
        self.room = room;
        let is_due = |&(at, _): &(Duration, u64)| now.saturating_sub(at) >= SAMPLE_INTERVAL;
        if self.samples.back().is_none_or(is_due) {
            self.samples.push_back((now, submitted));
        }
        while self.samples.get(1).is_some_and(|&(at, _)| now.saturating_sub(at) >= RATE_WINDOW) {
            self.samples.pop_front();
        }
        let report = self.report();
        let alarm = alarm.as_secs_f64();
        let left = report.seconds_left.unwrap_or(f64::INFINITY);
        let thresholds = [alarm, alarm * SECOND_ALARM_FRACTION];
        let mut due = thresholds.iter().filter(|&&threshold| left < threshold).count() as u8;
        if room < chunk.saturating_mul(2) {
            due = 2;
        }
        let rose = thresholds.iter().filter(|&&threshold| left < threshold * REARM_FACTOR).count() as u8;
        if due > self.alarms {
            self.alarms = due;
            return Some(report);
        }
        if room >= chunk.saturating_mul(4) {
            self.alarms = self.alarms.min(rose);
        }
        None
    }

    /// The forecast.
    pub(super) fn report(&self) -> SpaceReport {
        let rate = match (self.samples.front(), self.samples.back()) {
            (Some(&(from, before)), Some(&(to, now))) if to.saturating_sub(from) >= MIN_RATE_TIME => {
                now.saturating_sub(before) as f64 / (to - from).as_secs_f64()
            }
            _ => 0.0,
        };
        let seconds_left = (rate > 0.0).then(|| self.room as f64 / rate);
        SpaceReport { free_bytes: self.room, bytes_per_second: rate, seconds_left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::in_words;

    const MB: u64 = 1_000_000;
    const ALARM: Duration = Duration::from_secs(600);

    fn seconds(n: f64) -> Duration {
        Duration::from_secs_f64(n)
    }

    /// 100 MB/s onto disks with `room` MB, in chunks of 10 MB, with a look at each: the alarms, as seconds left and MB left.
    fn alarms(room: u64, alarm: Duration) -> Vec<(Option<u64>, u64)> {
        let mut space = Space::default();
        let mut all = Vec::new();
        for chunk in 0..room / 10 {
            let left = room - chunk * 10;
            let report =
                space.observe(seconds(chunk as f64 * 0.1), chunk * 10 * MB, (left * MB, 10 * MB), alarm);
            all.extend(report.map(|r| (r.seconds_left.map(|left| left as u64), r.free_bytes / MB)));
        }
        all
    }

    #[test]
    fn alarms_come_at_ten_minutes_and_at_one() {
        let all = alarms(100_000, ALARM);
        assert_eq!(all.len(), 2, "{all:?}");
        let near = |got: (Option<u64>, u64), left: u64| got.0.is_some_and(|s| s.abs_diff(left) <= 3);
        assert!(near(all[0], 599) && near(all[1], 59), "{all:?}");
    }

    #[test]
    fn the_alarm_precedes_the_first_loss_however_fast_the_disks_fill() {
        for room in [10, 20, 30, 50, 90, 200, 1000] {
            let all = alarms(room, ALARM);
            assert!(all.first().is_some_and(|&(_, left)| left >= 10), "{room}: {all:?}");
            assert!(all.len() <= 2, "{room}: {all:?}");
            assert_eq!(alarms(room, Duration::ZERO).len(), 1, "{room}: without a time, at the last chunks");
        }
    }

    #[test]
    fn the_forecast_is_room_by_rate_and_forgets_old_rates() {
        let mut space = Space::default();
        assert_eq!(space.report(), SpaceReport::default());
        let mut submitted = 0;
        for n in 0..400 {
            let rate = if n < 200 { 100 } else { 10 };
            submitted += rate * MB / 4;
            space.observe(seconds(f64::from(n) * 0.25), submitted, (1000 * MB, MB), ALARM);
        }
        let report = space.report();
        assert!((report.bytes_per_second / 1e6 - 10.0).abs() < 0.5, "{report:?}");
        assert!((report.seconds_left.unwrap() - 100.0).abs() < 5.0, "{report:?}");
    }

    #[test]
    fn an_alarm_is_given_again_after_space_was_freed() {
        let mut space = Space::default();
        let mut look = |n: u32, room: u64| {
            space
                .observe(seconds(f64::from(n)), u64::from(n) * 100 * MB, (room * MB, 10 * MB), ALARM)
                .is_some()
        };
        assert!(!look(0, 90_000) && !look(1, 90_000) && look(2, 50_000) && !look(3, 49_000));
        assert!(!look(4, 200_000) && look(5, 50_000));
    }

    #[test]
    fn times_read_well() {
        let all = [0.4, 12.0, 580.0, 12_000.0, 200_000.0, f64::NAN, f64::INFINITY].map(in_words);
        assert_eq!(all[..5], ["0 s", "12 s", "9 min 40 s", "3 h 20 min", "2 d 7 h"]);
    }
}
