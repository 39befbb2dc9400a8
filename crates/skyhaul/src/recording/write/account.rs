//! The account of each datastream: its chunks and frames, submitted, and then acknowledged or lost.
//!
//! ```text
//!   submit ─▶ pending ─┬─▶ acknowledged: on a disk, with its record      ─▶ gone, if it is not there at the end
//!                      └─▶ lost: no disk could take it, for a reason
//! ```
//!
//! At the end, every acknowledged chunk is looked for on its disk. What was synced is durable, but can be removed: when a scan's
//! directory is emptied during the recording, acknowledged chunks are gone. So each disk's index is read back through the
//! descriptor that wrote it (its name may be gone, too), and each file in it is looked for by name and length. No list of chunks
//! is kept during the recording.
//!
//! Limits: data are not read ([`Recording::check`](crate::recording::Recording::check) does that). A disk that does not respond in
//! time is reported.

use super::dispatch::Dispatch;
use crate::ledger::{Discard, FrameLedger};
use crate::recording;
use crate::recording::index::IndexReader;
use crate::recording::index::record::{ChunkCounts, ChunkRecord, Record};
use crate::recording::{DatastreamReport, Event};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

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

/// One disk to look at.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    /// The index, as it was written.
    log: Arc<File>,
}

/// Acknowledged chunks that are on no disk: datastream and number, with the disk that had it and the units that arrived.
#[derive(Debug, Default)]
struct Gone {
    chunks: BTreeMap<(u32, u32), (usize, u64)>,
    /// Disks that could not be read, and why.
    blind: Vec<(usize, String)>,
}

/// Look for every acknowledged chunk, at most until `end`. `names` are those of the datastreams.
fn look(places: &[Place], names: &Arc<Vec<String>>, end: Instant) -> Gone {
    let (tell, told) = channel();
    for (disk, place) in places.iter().cloned().enumerate() {
        let (tell, names) = (tell.clone(), Arc::clone(names));
        // A thread of its own: a disk that hangs must not hold up the end.
        let looked = std::thread::Builder::new().name(format!("look-{disk}")).spawn(move || {
            let _ = tell.send((disk, absent(&place, &names)));
        });
        drop(looked);
    }
    drop(tell);
    let (mut gone, mut answered) = (Gone::default(), vec![false; places.len()]);
    let mut absent = Vec::new();
    while let Ok((disk, result)) =
        told.recv_timeout(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
    {
        answered[disk] = true;
        match result {
            Ok(chunks) => absent.extend(chunks.into_iter().map(|chunk| (disk, chunk))),
            Err(error) => gone.blind.push((disk, format!("its index cannot be read back: {error}"))),
        }
    }
    for disk in (0..places.len()).filter(|&disk| !answered[disk]) {
        gone.blind.push((disk, "it did not respond in time".to_owned()));
    }
    for (disk, chunk) in absent {
        let Some(name) = names.get(chunk.datastream as usize) else { continue };
        // A chunk that two disks acknowledged is safe while one of them has it.
        let elsewhere = (0..places.len()).filter(|&other| other != disk && answered[other]);
        let safe = elsewhere.clone().any(|other| is_there(&places[other].path, name, &chunk));
        if !safe {
            gone.chunks.insert((chunk.datastream, chunk.number), (disk, chunk.meta.received_units()));
        }
    }
    gone
}

/// Chunks that a disk's index acknowledges and the disk does not have.
fn absent(place: &Place, names: &[String]) -> std::io::Result<Vec<ChunkRecord>> {
    let mut absent = Vec::new();
    let mut reader = IndexReader::of(place.log.try_clone()?);
    reader.read(|record| {
        let Record::Chunk(mut chunk) = record else { return };
        let name = names.get(chunk.datastream as usize);
        if name.is_some_and(|name| !is_there(&place.path, name, &chunk)) {
            // Only the count is kept of what never arrived.
            chunk.meta.units = u32::try_from(chunk.meta.received_units()).unwrap_or(u32::MAX);
            chunk.meta.missing = Vec::new();
            absent.push(chunk);
        }
    })?;
    Ok(absent)
}

fn is_there(disk: &Path, name: &str, chunk: &ChunkRecord) -> bool {
    let path = recording::chunk_path(disk, name, chunk.number);
    std::fs::symlink_metadata(path).is_ok_and(|data| data.is_file() && data.len() == chunk.bytes)
}

/// Ranges of numbers as text: `3, 5 to 9`; at most ten of them.
fn in_words(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let word = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    let words: Vec<String> = ranges.iter().take(10).map(word).collect();
    let more = if ranges.len() > 10 { " and more" } else { "" };
    words.join(", ") + more
}

impl Dispatch {
    /// Look for every acknowledged chunk on its disk, at most until `end`: missing ones are counted and named.
    pub(super) fn look_for_acknowledged(&self, end: Instant) {
        let places: Vec<Place> =
            self.disks.iter().map(|disk| Place { path: disk.path.clone(), log: disk.log.clone() }).collect();
        let names: Vec<String> = self.ledger().reports().into_iter().map(|report| report.name).collect();
        let gone = look(&places, &Arc::new(names.clone()), end);
        let mut by_disk: BTreeMap<(usize, u32), Vec<u32>> = BTreeMap::new();
        for (&(datastream, number), &(disk, received)) in &gone.chunks {
            self.ledger().miss(datastream, number, received);
            by_disk.entry((disk, datastream)).or_default().push(number);
        }
        for ((disk, datastream), numbers) in by_disk {
            let name = names.get(datastream as usize).map_or("", String::as_str);
            let (count, which) = (numbers.len(), in_words(&numbers));
            let disk_path = self.disks[disk].path.display();
            let text = format!("{count} acknowledged chunks of {name} are no longer on {disk_path}: {which}");
            self.event(Event::now("chunks_gone", Some(self.disks[disk].path.clone()), text), None);
        }
        for (disk, why) in gone.blind {
            let text = format!(
                "could not look for the chunks that {} acknowledged: {why}",
                self.disks[disk].path.display()
            );
            self.event(Event::now("not_looked_at", Some(self.disks[disk].path.clone()), text), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_said_shortly() {
        assert_eq!(in_words(&[3, 5, 6, 7, 9]), "3, 5 to 7, 9");
        let odd: Vec<u32> = (0..40).map(|n| n * 2).collect();
        assert!(in_words(&odd).ends_with("18 and more"));
    }
}
