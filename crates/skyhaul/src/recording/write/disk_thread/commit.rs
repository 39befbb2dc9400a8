//! The second half of a disk's thread: from written to acknowledged.
//!
//! ```text
//!   written chunks ─▶ fdatasync of each, and of their directory ─▶ their records appended ─▶ fdatasync of the
//!   index ─▶ acknowledged, memory free
//! ```
//!
//! One commit runs at a time; the disk continues to write meanwhile, and the chunks written join the next.

use crate::recording::index::record::{Checksums, ChunkRecord, Record};
use crate::recording::write::disk_thread::{Commit, DiskThread, MAX_UNCOMMITTED};
use crate::recording::write::dispatch::TICK;
use crate::recording::write::options::SyncPolicy;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Tokens of syncs that do not belong to a chunk.
const INDEX_TOKEN: u64 = u64::MAX;
const DIRECTORY_TOKEN: u64 = u64::MAX - 1;
/// How long the records of the last commit may take at the end.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

impl DiskThread {
    pub(super) fn until_commit(&self) -> Duration {
        match self.dispatch.sync {
            SyncPolicy::Interval(time) if !self.written.is_empty() => {
                time.saturating_sub(self.committed_at.elapsed())
            }
            _ => TICK,
        }
    }

    pub(super) fn commit_if_due(&mut self) {
        if self.commit.is_some() || (self.written.is_empty() && !self.log_dirty) {
            return;
        }
        let due = match self.dispatch.sync {
            SyncPolicy::Chunk | SyncPolicy::None => true,
            SyncPolicy::Interval(time) => {
                self.committed_at.elapsed() >= time
                    || self.written.len() >= MAX_UNCOMMITTED
                    || self.dispatch.is_closed()
                    || self.memory_is_short()
            }
        };
        if !due {
            return;
        }
        self.committed_at = Instant::now();
        let tokens = std::mem::take(&mut self.written);
        let (late, tokens) = tokens.into_iter().partition(|token| self.is_settled(*token));
        // Another disk was faster with these.
        let late: Vec<u64> = late;
        for token in late {
            self.disk.discard(token);
            self.forget(token);
        }
        let mut commit = Commit { tokens, waiting: 0, recorded: false, error: None };
        if self.dispatch.sync != SyncPolicy::None {
            for &token in &commit.tokens {
                self.disk.sync(token);
                commit.waiting += 1;
            }
            for datastream in std::mem::take(&mut self.dirty_directories) {
                if let Some((_, directory)) = self.directories.get(&datastream) {
                    self.disk.sync_file(DIRECTORY_TOKEN, directory.clone());
                    commit.waiting += 1;
                }
            }
        }
        self.commit = Some(commit);
        self.commit_on();
    }

    fn is_settled(&self, token: u64) -> bool {
        self.jobs.get(&token).is_none_or(|ready| ready.settled.load(Ordering::Acquire))
    }

    fn memory_is_short(&self) -> bool {
        let pool = self.jobs.values().next().map(|ready| ready.view.pool());
        pool.is_some_and(|pool| pool.free() * 4 < pool.blocks())
    }

    pub(super) fn synced(&mut self, token: u64, result: io::Result<()>) {
        let Some(commit) = &mut self.commit else { return };
        commit.waiting = commit.waiting.saturating_sub(1);
        match result {
            Ok(()) => {}
            Err(error) if token == INDEX_TOKEN => {
                // What is appended later lies behind lines that may be lost.
                self.log.fail(&error);
                commit.error = Some(error);
            }
            Err(error) if token == DIRECTORY_TOKEN => commit.error = Some(error),
            Err(error) => {
                commit.tokens.retain(|&other| other != token);
                self.spoil(token, &error);
            }
        }
        self.commit_on();
    }

    /// Wait until it is known whether records that were written are durable: a second sync would not say so if the one under
    /// way failed. What is not known by then is not acknowledged.
    pub(super) fn await_records(&mut self) {
        let end = Instant::now() + RECORD_TIMEOUT;
        let mut done = Vec::new();
        while self.commit.as_ref().is_some_and(|commit| commit.recorded) && Instant::now() < end {
            if let Err(error) = self.disk.poll(TICK, &mut done) {
                self.log.fail(&error);
                break;
            }
            for end in done.drain(..) {
                self.settle(end);
            }
        }
        if self.commit.take().is_some_and(|commit| commit.recorded) {
            self.log.fail(&io::ErrorKind::TimedOut.into());
        }
    }

    /// The next step of the commit, when the last one is over.
    fn commit_on(&mut self) {
        let Some(mut commit) = self.commit.take_if(|commit| commit.waiting == 0) else { return };
        if commit.error.is_none() && !commit.recorded {
            commit.recorded = true;
            match self.append_records(&commit.tokens) {
                Err(error) => commit.error = Some(error),
                Ok(()) if self.dispatch.sync == SyncPolicy::None => {}
                Ok(()) => {
                    commit.waiting = 1;
                    self.disk.sync_file(INDEX_TOKEN, self.log.file().clone());
                    self.commit = Some(commit);
                    return;
                }
            }
        }
        for token in commit.tokens {
            match &commit.error {
                Some(error) => self.spoil(token, error),
                None => self.acknowledge(token),
            }
        }
        if let Some(error) = commit.error {
            self.trouble(&error);
        }
    }

    fn append_records(&mut self, tokens: &[u64]) -> io::Result<()> {
        self.log_dirty = false;
        if self.log.file().metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the scan's directory was removed"));
        }
        let mut text = String::new();
        for ready in tokens.iter().filter_map(|token| self.jobs.get(token)) {
            let checksums = ready.checksums.get_or_init(|| Checksums::of(&ready.view));
            let record = ChunkRecord {
                datastream: ready.datastream,
                number: ready.number,
                bytes: ready.view.len() as u64,
                crc32c: checksums.whole,
                parts: checksums.parts.clone(),
                part_bytes: checksums.part_bytes(),
                adopted: false,
                meta: ready.meta.clone(),
            };
            text.push_str(&Record::Chunk(record).to_line());
        }
        if text.is_empty() {
            return Ok(());
        }
        self.log.append(text.as_bytes())
    }

    pub(super) fn acknowledge(&mut self, token: u64) {
        self.disk.close(token);
        let Some(ready) = self.forget(token) else { return };
        if self.dispatch.acknowledge(&ready) {
            self.shared().state().acknowledged_bytes += ready.view.len() as u64;
        }
    }
}
