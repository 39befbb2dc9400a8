//! Gives records to the files of a datastream that are in no index.
//!
//! ```text
//!   one copy       file ─▶ its record, or a reason against it
//!   more of each   the longest file ─▶ its record; if it cannot have one, the next longest
//!                  further files with the same bytes ─▶ the same record, each in the index of its own disk
//! ```

use super::adopt::{DiskCalls, adopt, is_copy};
use super::file::READ_BYTES;
use crate::recording::contents::{ChunkEntry, DatastreamEntry, FIRST_ADOPTED_NUMBER};
use crate::recording::copy_entries::by_number;
use crate::recording::holes::FilePlaces;
use crate::recording::index::record::{ChunkRecord, Datastream, Record};
use crate::recording::open::Recording;
use crate::recording::plan::{self, Step};
use skyhaul_io::disk::read_buffers;
use skyhaul_io::memory::{ALIGN, Pool};
use std::collections::BTreeMap;
use std::io;

/// Result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Chunk files that have a record now.
    pub adopted: u64,
    /// Chunk files that were not given one, and why.
    pub refused: Vec<String>,
    /// The recording has an end now.
    pub closed: bool,
}

/// What is known while the files of a datastream are given records.
struct Adoption<'a> {
    recording: &'a Recording,
    calls: &'a DiskCalls,
    buffers: Pool,
    about: Datastream,
    files: FilePlaces,
    /// New records for the index of each disk.
    lines: Vec<Option<String>>,
    repaired: &'a mut Repaired,
}

/// Records for the files of one datastream that are in no index, for each disk, in the order of the stream: so the end of one file and
/// the beginning of the next give what is missing between them.
pub(super) fn adopt_of(
    (recording, calls): (&Recording, &DiskCalls),
    place: usize,
    texts: &mut [String],
    repaired: &mut Repaired,
) -> io::Result<()> {
    let stream = &recording.datastreams[place];
    let steps = plan::steps(recording, stream, 0);
    let unknown = |step: &Step| match step {
        Step::Chunk { entry, .. } if entry.record.is_none() => entry.bytes,
        _ => None,
    };
    let further = further(recording, stream);
    let of_copies = further.values().flatten().filter_map(|copy| copy.bytes);
    let Some(longest) = steps.iter().filter_map(unknown).chain(of_copies).max() else { return Ok(()) };
    let piece = READ_BYTES.min(longest as usize).max(1).next_multiple_of(ALIGN);
    let about = recording.about(place).or_else(|| stream.datastream.clone()).unwrap_or_else(|| Datastream {
        datastream: FIRST_ADOPTED_NUMBER + place as u32,
        name: stream.name.clone(),
        ..Datastream::default()
    });
    let buffers = read_buffers(1, piece)?;
    let (files, lines) = (FilePlaces::default(), vec![None::<String>; texts.len()]);
    let mut adoption = Adoption { recording, calls, buffers, about, files, lines, repaired };
    for step in steps {
        let Step::Chunk { entry, .. } = step else {
            adoption.files.interrupt();
            continue;
        };
        let copies = further.get(&entry.number).map_or(&[][..], Vec::as_slice);
        let known = match &entry.record {
            Some(record) => {
                adoption.files.interrupt();
                Some((record.clone(), entry.disk))
            }
            None => adoption.first(&entry, copies)?,
        };
        if let Some((record, disk)) = known {
            adoption.same(&record, copies.iter().filter(|copy| copy.disk != disk));
        }
    }
    let Adoption { about, lines, .. } = adoption;
    // With the rate, if the frames give it.
    let about = Record::Datastream(about).to_line();
    for (text, lines) in texts.iter_mut().zip(lines) {
        lines.iter().for_each(|lines| text.extend([about.as_str(), lines]));
    }
    Ok(())
}

/// Further files of each number that are in no index, where more than one copy was asked for: the longest first.
fn further<'a>(recording: &Recording, stream: &'a DatastreamEntry) -> BTreeMap<u32, Vec<&'a ChunkEntry>> {
    if recording.copies() < 2 {
        return BTreeMap::new();
    }
    let mut all = by_number(stream);
    for copies in all.values_mut() {
        copies.retain(|copy| copy.record.is_none() && copy.bytes.is_some());
        copies.sort_by_key(|copy| std::cmp::Reverse(copy.bytes));
    }
    all
}

impl Adoption<'_> {
    /// The record of the first of these files that can have one, and its disk.
    fn first(
        &mut self,
        entry: &ChunkEntry,
        copies: &[&ChunkEntry],
    ) -> io::Result<Option<(ChunkRecord, usize)>> {
        let before = self.files.clone();
        self.lines.get_mut(entry.disk).into_iter().for_each(|lines| {
            lines.get_or_insert_default();
        });
        for entry in std::iter::once(entry).chain(copies.iter().copied()) {
            let Some(disk) = self.recording.disks.get(entry.disk) else { continue };
            self.files = before.clone();
            let adopted = adopt((entry, disk), &self.buffers, (&mut self.about, &mut self.files), self.calls);
            let why = match adopted {
                Ok(Ok(record)) => {
                    self.add(entry, &record);
                    return Ok(Some((record, entry.disk)));
                }
                Ok(Err(why)) => why,
                Err(error) if copies.is_empty() => return Err(error),
                // Another copy may be readable.
                Err(error) => error.to_string(),
            };
            self.repaired.refused.push(format!("{}: {why}", entry.path.display()));
        }
        self.files.interrupt();
        Ok(None)
    }

    /// Further files that have the bytes of a record get it, too.
    fn same<'a>(&mut self, record: &ChunkRecord, copies: impl Iterator<Item = &'a &'a ChunkEntry>) {
        for copy in copies {
            let Some(disk) = self.recording.disks.get(copy.disk) else { continue };
            match is_copy((copy, disk), record, self.calls) {
                Ok(true) => self.add(copy, record),
                Ok(false) => {}
                Err(error) => self.repaired.refused.push(format!("{}: {error}", copy.path.display())),
            }
        }
    }

    fn add(&mut self, entry: &ChunkEntry, record: &ChunkRecord) {
        let Some(lines) = self.lines.get_mut(entry.disk) else { return };
        lines.get_or_insert_default().push_str(&Record::Chunk(record.clone()).to_line());
        self.repaired.adopted += 1;
    }
}
