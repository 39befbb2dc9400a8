//! When the disks will be full: free space, and the rate at which it is used.
//!
//! ```text
//!   room of all disks beyond their reserve ÷ bytes per second submitted lately = time left
//!
//!   10 min left ─▶ space_low      1 min left ─▶ space_low      no room ─▶ disks_full, then chunk_lost
//! ```
//!
//! The alarm never comes after the first loss: whatever the rate, it is given at the latest when the room is down to two
//! chunks.
//!
//! A disk without room for a chunk is *full* from that chunk on, in every report, and not only when its last byte is gone. It
//! is used again when space is freed on it, and so is one whose free space other programs took. A disk on which a write failed for
//! lack of space is not used again in this scan.
//!
//! Limits: a rate that rises makes the forecast too long until it is measured; other writers on the same disks show only
//! through the space that they use.

use super::dispatch::Dispatch;
use super::queue::Candidate;
use crate::ledger::Discard;
use crate::recording::{DiskState, Event, SpaceReport};
use skyhaul_core::hint::Hint;
use skyhaul_io::lock::lock;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

/// A disk that was full is used again when it has room for this many chunks.
const MIN_FREED_CHUNKS: u64 = 4;

impl Dispatch {
    /// Say which disks are full from the start.
    pub(super) fn note_full_disks(&self) {
        let candidates: Vec<Candidate> = self.disks.iter().map(|disk| disk.state().candidate()).collect();
        self.mark_short(&candidates, self.chunk_bytes.load(Ordering::Relaxed).max(1));
    }

    /// Disks without room for a chunk of `bytes` are full.
    pub(super) fn mark_short(&self, candidates: &[Candidate], bytes: u64) {
        for (index, _) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.free < bytes) {
            let disk = &self.disks[index];
            let mut state = disk.state();
            if !state.is_usable() || state.short {
                continue;
            }
            state.short = true;
            let free = state.free_bytes;
            drop(state);
            let text = format!(
                "no room for another chunk of {bytes} bytes: {free} bytes are free, {} must remain free",
                self.reserve
            );
            self.event(Event::now("disk_full", Some(disk.path.clone()), text), None);
        }
    }

    /// `free` bytes are free on a disk now: if it was full, is it so still?
    pub(super) fn watch_free(&self, index: usize, free: u64) {
        let disk = &self.disks[index];
        let mut state = disk.state();
        let room = free.saturating_sub(self.reserve).saturating_sub(state.backlog());
        // More than one chunk: what is being written is not yet all in `free`.
        let enough = self.chunk_bytes.load(Ordering::Relaxed).max(1).saturating_mul(MIN_FREED_CHUNKS);
        let was_out = state.health == DiskState::Full && state.out_of_space;
        if room < enough || !(was_out || state.short) {
            return;
        }
        if was_out {
            (state.health, state.error, state.out_of_space) = (DiskState::Active, None, false);
        }
        (state.short, state.free_bytes, state.free) = (false, free, room);
        drop(state);
        let text = "space was freed: it is used again".to_owned();
        self.event(Event::now("disk_resumed", Some(disk.path.clone()), text), None);
    }

    /// Before a chunk of `bytes` is given to a disk: warn if the disks fill up, and say so if no disk has room for it.
    pub(super) fn watch_space(&self, bytes: u64) {
        let chunk = self.chunk_bytes.fetch_max(bytes, Ordering::Relaxed).max(bytes);
        let candidates: Vec<Candidate> = self.disks.iter().map(|disk| disk.state().candidate()).collect();
        let (mut room, mut fits, mut any, mut works) = (0u64, false, false, false);
        for disk in &self.disks {
            let state = disk.state();
            if state.is_usable() {
                works = true;
                fits |= state.free >= bytes && !state.short;
                any |= state.free >= bytes;
                room = room.saturating_add(state.free - state.free % chunk.max(1));
            }
            works |= state.health == DiskState::Full;
        }
        let submitted = self.ledger().submitted_bytes();
        let alarm = {
            let mut space = lock(&self.space);
            space.observe(self.begun.elapsed(), submitted, (room, chunk), self.space_alarm)
        };
        if let Some(alarm) = alarm.filter(|_| works) {
            self.event(Event::now("space_low", None, alarm.alarm()), None);
        }
        self.mark_short(&candidates, bytes);
        // Disks that all failed are another matter, and were reported.
        let was_full = self.all_full.load(Ordering::Relaxed);
        let all_full = works && if was_full { !fits } else { !any };
        if self.all_full.swap(all_full, Ordering::Relaxed) != all_full {
            let (kind, text) = match all_full {
                true => (
                    "disks_full",
                    format!(
                        "all disks are full: data that arrive from now on are DISCARDED{}",
                        Hint("free space on any of them, and the recording continues there")
                    ),
                ),
                false => ("disks_resumed", "there is room again: data are recorded again".to_owned()),
            };
            self.event(Event::now(kind, None, text), None);
        }
    }

    /// Why no disk takes a chunk.
    pub(super) fn why_none(&self) -> Discard {
        let is_full = |health, short| health == DiskState::Full || health != DiskState::Failed && short;
        let full = self.disks.iter().any(|disk| {
            let state = disk.state();
            is_full(state.health, state.short)
        });
        if full { Discard::DisksFull } else { Discard::DisksFailed }
    }

    /// Free space, and how long it lasts.
    pub(super) fn space_report(&self) -> SpaceReport {
        lock(&self.space).report()
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
