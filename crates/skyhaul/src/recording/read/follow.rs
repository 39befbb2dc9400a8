//! Following a scan while it is recorded.
//!
//! The follower reads the growing indexes and delivers each chunk when it is acknowledged, in order of its number, from
//! any disk. It does not communicate with the recorder. Chunks that are still in the recorder's memory are copied from
//! there (and verified by checksum), the others are read from disk.
//!
//! Of a chunk with copies, the records of all disks are kept until it is delivered: if the first one cannot be read, another one is, for which
//! the follower waits for a short time if it is still being written.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use skyhaul_io::disk;
use skyhaul_io::memory::peek::Peek;

use crate::recording::contents;
use crate::recording::contents::ChunkEntry;
use crate::recording::index::IndexReader;
use crate::recording::index::record::{ChunkRecord, Record};
use crate::recording::open::Recording;
use crate::recording::write::disk_thread::stream_key;

/// How long another copy of a chunk is waited for, if the first one cannot be read.
const COPY_WAIT: Duration = Duration::from_secs(2);
/// Time between looks at the indexes.
const INDEX_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One disk's index, as far as it was read.
#[derive(Debug)]
struct Tail {
    disk: PathBuf,
    path: PathBuf,
    reader: Option<IndexReader>,
    names: HashMap<u32, String>,
    ended: bool,
}

/// The next result of a follower.
#[derive(Debug)]
pub(super) enum Followed {
    Chunk(Box<ChunkEntry>),
    /// No disk could take the chunk of this number, and why.
    Lost(u32, String),
    /// The recorder has ended; chunks from this number on must be read from the disks.
    Ended(u32),
    /// The consumer has ended.
    Unwanted,
}

/// Delivers chunks as they are acknowledged.
#[derive(Debug)]
pub(super) struct Follower {
    name: String,
    tails: Vec<Tail>,
    /// The record of each chunk that its first disk has, and further disks that have one.
    chunks: BTreeMap<u32, (usize, ChunkRecord, Vec<usize>)>,
    /// More than one copy of each chunk was asked for.
    has_copies: bool,
    /// Disks with a record of the chunk that was delivered last.
    last: Vec<usize>,
    lost: BTreeMap<u32, String>,
    next: u32,
    ended: bool,
    memory: Option<(Peek, u64)>,
}

impl Follower {
    pub(super) fn new(recording: &Recording, name: &str) -> Follower {
        let tail = |disk: &PathBuf| Tail {
            disk: disk.clone(),
            path: recording.label.index(disk),
            reader: None,
            names: HashMap::new(),
            ended: false,
        };
        let memory = recording.sessions.iter().find_map(|session| {
            let file = session.memory?;
            let number = u64::from_str_radix(&session.session, 16).ok()?;
            Some((Peek::open(session.pid, file.fd, file.id).ok()?, number))
        });
        Follower {
            name: name.to_owned(),
            tails: recording.disks.iter().map(tail).collect(),
            chunks: BTreeMap::new(),
            has_copies: recording.copies() > 1,
            last: Vec::new(),
            lost: BTreeMap::new(),
            next: 0,
            ended: false,
            memory,
        }
    }

    /// The next chunk in order. Waits for it, until the recorder ends or is dead or `wanted` says no.
    pub(super) fn next(&mut self, wanted: impl Fn() -> bool) -> Followed {
        loop {
            let number = self.next;
            if let Some((tail, record, further)) = self.chunks.remove(&number) {
                self.next += 1;
                self.last = further;
                self.lost.remove(&number);
                let disk = self.tails[tail].disk.clone();
                let path = contents::chunk_path(&disk, &self.name, number);
                let bytes = Some(record.bytes);
                let record = Some(record);
                let entry = ChunkEntry { number, disk: tail, path, offset: 0, bytes, record, moved: false };
                return Followed::Chunk(Box::new(entry));
            }
            if let Some(reason) = self.lost.remove(&number) {
                self.next += 1;
                return Followed::Lost(number, reason);
            }
            // Chunks missing now will not be written any more.
            if self.ended {
                return Followed::Ended(number);
            }
            if !wanted() {
                return Followed::Unwanted;
            }
            // Asked before reading: what was written before the recorder died is then read.
            let alive = self.tails.iter().any(|tail| disk::is_locked(&tail.path));
            let before = (self.chunks.len(), self.lost.len());
            self.read_indexes();
            self.ended |= !alive;
            if before == (self.chunks.len(), self.lost.len()) && !self.ended {
                std::thread::sleep(INDEX_POLL_INTERVAL);
            }
        }
    }

    fn read_indexes(&mut self) {
        let Follower { name, tails, chunks, last, lost, next, ended, .. } = self;
        for (index, tail) in tails.iter_mut().enumerate() {
            if tail.reader.is_none() {
                tail.reader = IndexReader::open(&tail.path).ok();
            }
            let Some(reader) = &mut tail.reader else { continue };
            let (names, end) = (&mut tail.names, &mut tail.ended);
            // A disk that broke gives no more; the others tell what became of its chunks.
            let _ = reader.read(|record| match record {
                Record::Datastream(stream) => {
                    names.insert(stream.datastream, stream.name);
                }
                Record::Chunk(record)
                    if names.get(&record.datastream) == Some(name) && record.number >= *next =>
                {
                    match chunks.entry(record.number) {
                        Entry::Vacant(new) => drop(new.insert((index, record, Vec::new()))),
                        Entry::Occupied(mut known) => known.get_mut().2.push(index),
                    }
                }
                Record::Chunk(record)
                    if names.get(&record.datastream) == Some(name)
                        && record.number.checked_add(1) == Some(*next) =>
                {
                    last.push(index);
                }
                Record::Lost(chunk)
                    if names.get(&chunk.datastream) == Some(name) && chunk.number >= *next =>
                {
                    lost.insert(chunk.number, chunk.reason);
                }
                Record::End(_) => *end = true,
                _ => {}
            });
        }
        // In each index the end comes after the last chunk.
        *ended |= tails.iter().all(|tail| tail.ended);
    }

    /// Where other copies of the chunk may be that was delivered last, those with a record first. If none has one yet, it is waited for.
    pub(super) fn other_copies(&mut self, entry: &ChunkEntry) -> Vec<PathBuf> {
        if !self.has_copies {
            return Vec::new();
        }
        let until = Instant::now() + COPY_WAIT;
        while self.last.iter().all(|&tail| tail == entry.disk) && !self.ended && Instant::now() < until {
            std::thread::sleep(INDEX_POLL_INTERVAL);
            self.read_indexes();
        }
        let mut others: Vec<usize> = (0..self.tails.len()).filter(|&tail| tail != entry.disk).collect();
        others.sort_by_key(|tail| !self.last.contains(tail));
        let path = |&tail: &usize| contents::chunk_path(&self.tails[tail].disk, &self.name, entry.number);
        others.iter().map(path).collect()
    }

    /// The chunk's bytes, if they are still in the recorder's memory.
    pub(super) fn recall(&mut self, record: &ChunkRecord) -> Option<Vec<u8>> {
        let (peek, session) = self.memory.as_ref()?;
        let mut bytes = Vec::new();
        let found = peek.read(stream_key(*session, record.datastream), u64::from(record.number), &mut bytes);
        let proven = found && bytes.len() as u64 == record.bytes && crc32c::crc32c(&bytes) == record.crc32c;
        proven.then_some(bytes)
    }
}
