//! Accounts of all chunks: submitted, and then acknowledged or lost.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::event::Event;

/// Events that are kept; more are counted only.
const MOST_EVENTS: usize = 1000;
/// Numbers of lost chunks that are kept for each datastream; more are counted only.
const MOST_NUMBERS: usize = 10_000;

/// One datastream's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatastreamReport {
    /// Its number in the session.
    pub datastream: u32,
    /// Its name on disk.
    pub name: String,
    /// Its sender.
    pub sender: Option<String>,
    /// Chunks given to the recorder.
    pub submitted: u64,
    /// Bytes given.
    pub submitted_bytes: u64,
    /// Chunks durable with their index record.
    pub acknowledged: u64,
    /// Bytes durable.
    pub acknowledged_bytes: u64,
    /// Units missing in chunks that were given.
    pub missing_units: u64,
    /// Times a chunk was given to a second disk because the first one failed it.
    pub rewritten: u64,
    /// Chunks that no disk could take.
    pub lost: u64,
    /// Their numbers (the first 10 000).
    pub lost_numbers: Vec<u32>,
    /// Numbers of chunks that were still under way at the end.
    pub unacknowledged: Vec<u32>,
    /// Chunks that were durable, and are on no disk any more: looked for at the end.
    #[serde(default)]
    pub gone: u64,
    /// Their numbers (the first 10 000).
    #[serde(default)]
    pub gone_numbers: Vec<u32>,
}

#[derive(Debug, Default)]
struct Account {
    report: DatastreamReport,
    pending: BTreeSet<u32>,
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
        self.accounts.push(Account { report, pending: BTreeSet::new() });
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
    pub(super) fn submit(&mut self, datastream: u32, number: u32, bytes: u64, missing: u64) -> bool {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return false };
        if !account.pending.insert(number) {
            return false;
        }
        account.report.submitted += 1;
        account.report.submitted_bytes += bytes;
        account.report.missing_units += missing;
        true
    }

    /// A chunk is durable. True for the first time.
    pub(super) fn acknowledge(&mut self, datastream: u32, number: u32, bytes: u64) -> bool {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return false };
        let first = account.pending.remove(&number);
        if first {
            account.report.acknowledged += 1;
            account.report.acknowledged_bytes += bytes;
        }
        first
    }

    /// No disk can take a chunk. True for the first time.
    pub(super) fn lose(&mut self, datastream: u32, number: u32) -> bool {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return false };
        let first = account.pending.remove(&number);
        if first {
            account.report.lost += 1;
            if account.report.lost_numbers.len() < MOST_NUMBERS {
                account.report.lost_numbers.push(number);
            }
        }
        first
    }

    /// A durable chunk is on no disk any more.
    pub(super) fn miss(&mut self, datastream: u32, number: u32) {
        let Some(account) = self.accounts.get_mut(datastream as usize) else { return };
        account.report.gone += 1;
        if account.report.gone_numbers.len() < MOST_NUMBERS {
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
        if self.events.len() < MOST_EVENTS {
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
            unacknowledged: account.pending.iter().copied().collect(),
            ..account.report.clone()
        };
        self.accounts.iter().map(report).collect()
    }

    pub(super) fn events(&self) -> (Vec<Event>, u64) {
        (self.events.clone(), self.events_dropped)
    }
}
