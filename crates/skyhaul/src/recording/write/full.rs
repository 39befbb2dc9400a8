//! Disks that fill up during a recording, and the events before, at and after that.
//!
//! A disk without room for a chunk is *full* from that chunk on, in every report, and not only when its last byte is gone. It
//! is used again when space is freed on it; so is one whose free space other programs took. One on which a write failed for
//! lack of space is not trusted again in this scan.

use skyhaul_core::hint::Hint;
use skyhaul_io::lock::lock;
use std::sync::atomic::Ordering;

use crate::ledger::Discard;
use crate::recording::report::DiskState;
use crate::recording::report::Event;
use crate::recording::report::SpaceReport;
use crate::recording::write::dispatch::Dispatch;
use crate::recording::write::queue::Candidate;

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
