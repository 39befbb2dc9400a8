//! The account of each datastream: its chunks and frames, submitted, and then acknowledged or lost.
//!
//! ```text
//!   submit ─▶ pending ─┬─▶ acknowledged: on a disk, with its record      ─▶ gone, if it is not there at the end
//!                      └─▶ lost: no disk could take it, for a reason
//! ```

use crate::ledger::{Discard, FrameLedger};
use crate::recording::index::record::ChunkCounts;
use crate::recording::report::DatastreamReport;
use crate::recording::report::Event;
use std::collections::BTreeMap;

/// Events that are kept; more are counted only.
const MAX_EVENTS: usize = 1000;
/// Numbers of lost chunks that are kept for each datastream; more are counted only.
const MAX_NUMBERS: usize = 10_000;

#[derive(Debug, Default)]
struct Account {
    report: DatastreamReport,
    pending: BTreeMap<u32, ChunkCounts>,
    losses: BTreeMap<Discard, Losses>,
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
    fn text(&self, name: &str, why: Discard) -> String {
        let Losses { first, last, chunks, units, bytes, .. } = self;
        let which = match chunks {
            1 => format!("{name}.{first:08}"),
            _ => format!("{chunks} chunks from {name}.{first:08} to {name}.{last:08}"),
        };
        format!("{which} discarded, {units} frames in {bytes} bytes: {}", why.text())
    }
}

/// All accounts of a session.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    events: Vec<Event>,
    events_dropped: u64,
}

impl Ledger {
    /// A new datastream; its number.
    pub(super) fn open(&mut self, name: String, sender: Option<String>) -> u32 {
        let datastream = self.accounts.len() as u32;
        let report = DatastreamReport { datastream, name, sender, ..DatastreamReport::default() };
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
        true
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
        let text = all.text(&account.report.name, why);
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

    /// Whether every chunk's fate is known.
    pub(super) fn is_settled(&self) -> bool {
        self.accounts.iter().all(|account| account.pending.is_empty())
    }

    /// Each datastream's account as it is now.
    pub(super) fn reports(&self) -> Vec<DatastreamReport> {
        let report = |account: &Account| DatastreamReport {
            unacknowledged: account.pending.keys().copied().collect(),
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

    /// Bytes given so far, over all datastreams.
    pub(super) fn submitted_bytes(&self) -> u64 {
        self.accounts.iter().map(|account| account.report.submitted_bytes).sum()
    }
}

impl Account {
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
