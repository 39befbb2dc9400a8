//! Checks at the end of a recording that every acknowledged chunk is still on its disk.
//!
//! Durable is what was synced, not what nobody removes: a scan's directory that is emptied while it is recorded takes
//! acknowledged chunks with it. So each disk's index is read back, through the descriptor that wrote it (its name may be
//! gone, too), and each file that it names is looked for by name and length. No list of chunks is kept meanwhile.
//!
//! Limits: data are not read ([`Recording::check`](crate::recording::Recording::check) does that). A disk that does not respond in
//! time is reported.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::recording::contents;
use crate::recording::copies::number_words;
use crate::recording::index::IndexReader;
use crate::recording::index::record::{ChunkRecord, Record};
use crate::recording::report::Event;
use crate::recording::write::dispatch::Dispatch;

/// How long a disk is waited for when another has answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// One disk to look at.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    /// The index, as it was written; without one there is nothing to look for.
    log: Option<Arc<File>>,
}

/// Acknowledged chunks that are on no disk: datastream and number, with the disk that had it and the units that arrived.
#[derive(Debug, Default)]
struct Gone {
    chunks: BTreeMap<(u32, u32), (usize, u64)>,
    /// Chunks that are on fewer disks than there were to be copies, and on at least one: with a disk that does not have it any more.
    copies: BTreeMap<(u32, u32), usize>,
    /// Bytes of all of these.
    bytes: BTreeMap<(u32, u32), u64>,
    /// Disks that could not be read, and why.
    blind: Vec<(usize, String)>,
}

/// Look for every acknowledged chunk, at most until `end`. `names` are those of the datastreams; each chunk was to have so many `copies`.
fn look(places: &[Place], names: &Arc<Vec<String>>, copies: u32, end: Instant) -> Gone {
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
    let (mut absent, mut end) = (Vec::new(), end);
    while let Ok((disk, result)) =
        told.recv_timeout(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
    {
        answered[disk] = true;
        // One that hangs must not hold up the end for as long as one that is alone may.
        if places[disk].log.is_some() {
            end = end.min(Instant::now() + ANSWER_TIMEOUT);
        }
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
        let there = elsewhere.filter(|&other| is_there(&places[other].path, name, &chunk));
        let (there, key) = (there.take(copies as usize).count(), (chunk.datastream, chunk.number));
        if there == 0 {
            gone.chunks.insert(key, (disk, chunk.meta.received_units()));
        } else if there < copies as usize {
            gone.copies.insert(key, disk);
        }
        gone.bytes.insert(key, chunk.bytes);
    }
    gone
}

/// Chunks that a disk's index acknowledges and the disk does not have.
fn absent(place: &Place, names: &[String]) -> std::io::Result<Vec<ChunkRecord>> {
    let mut absent = Vec::new();
    let Some(log) = &place.log else { return Ok(absent) };
    let mut reader = IndexReader::of(log.try_clone()?);
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
    let path = contents::chunk_path(disk, name, chunk.number);
    std::fs::symlink_metadata(path).is_ok_and(|data| data.is_file() && data.len() == chunk.bytes)
}

impl Dispatch {
    /// Look for every acknowledged chunk on its disk, at most until `end`: missing ones are counted and named.
    pub(super) fn look_for_acknowledged(&self, end: Instant) {
        let places: Vec<Place> = self
            .disks
            .iter()
            .map(|disk| Place { path: disk.path.clone(), log: disk.log().cloned() })
            .collect();
        let names: Vec<String> = self.ledger().reports().into_iter().map(|report| report.name).collect();
        let gone = look(&places, &Arc::new(names.clone()), self.copies, end);
        let mut by_disk: BTreeMap<(usize, u32, bool), Vec<u32>> = BTreeMap::new();
        for (&(datastream, number), &(disk, received)) in &gone.chunks {
            self.ledger().miss(datastream, number, received);
            by_disk.entry((disk, datastream, false)).or_default().push(number);
        }
        let bytes = |key| gone.bytes.get(key).copied().unwrap_or_default();
        for key in gone.chunks.keys() {
            self.ledger().miss_copy(key.0, key.1, bytes(key));
        }
        for (key, &disk) in &gone.copies {
            // One that its disk failed may have a record there.
            if self.ledger().miss_copy(key.0, key.1, bytes(key)) {
                by_disk.entry((disk, key.0, true)).or_default().push(key.1);
            }
        }
        for ((disk, datastream, is_copy), numbers) in by_disk {
            let name = names.get(datastream as usize).map_or("", String::as_str);
            let (count, which) = (numbers.len(), number_words(&numbers));
            let disk_path = self.disks[disk].path.display();
            let (kind, text) = match is_copy {
                false => (
                    "chunks_gone",
                    format!("{count} acknowledged chunks of {name} are no longer on {disk_path}: {which}"),
                ),
                true => (
                    "copies_gone",
                    format!("{count} copies of chunks of {name} are no longer on {disk_path}: {which}"),
                ),
            };
            self.event(Event::now(kind, Some(self.disks[disk].path.clone()), text), None);
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
