//! Searches other files for the bytes of a record if the file with its name does not have them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use skyhaul_io::disk::open_regular;

use crate::frames::FramesOf;
use crate::recording::index::record::{ChunkRecord, Datastream};
use crate::recording::open::Recording;
use crate::recording::plan::gap::Time;
use crate::recording::verify::prove::{READ_BYTES, checksum};

/// Searches all files in the scan's directories for the bytes of a record.
///
/// Each file is read at most once for this. If frames give the time, only files that begin at the record's time are read.
#[derive(Debug, Default)]
pub(in crate::recording) struct Search {
    /// By length: files that may be what is looked for.
    files: HashMap<u64, Vec<PathBuf>>,
    known: HashMap<PathBuf, u32>,
}

impl Search {
    pub(in crate::recording) fn new(recording: &Recording) -> Search {
        let mut search = Search::default();
        let mut add = |bytes: u64, path: &PathBuf| search.files.entry(bytes).or_default().push(path.clone());
        recording.others.iter().for_each(|file| add(file.bytes, &file.path));
        for stream in &recording.datastreams {
            for chunk in stream.copies.iter().chain(stream.chunks.values()) {
                if let Some(bytes) = chunk.bytes.filter(|_| chunk.offset == 0) {
                    add(bytes, &chunk.path);
                }
            }
        }
        search
    }

    /// Its checksum is known already.
    pub(in crate::recording) fn learn(&mut self, path: &Path, crc32c: u32) {
        self.known.insert(path.to_owned(), crc32c);
    }

    /// A file with the bytes of `record`, other than `but`.
    pub(in crate::recording) fn find(
        &mut self,
        record: &ChunkRecord,
        about: Option<&Datastream>,
        but: Option<&Path>,
    ) -> Option<PathBuf> {
        let files = self.files.get(&record.bytes)?;
        let frames = about.and_then(|about| FramesOf::datastream(about, false));
        let unit = about.map_or(0, |about| about.info.unit_bytes as usize);
        for path in files.iter().filter(|path| Some(path.as_path()) != but) {
            let crc = match self.known.get(path) {
                Some(&crc) => crc,
                None if !begins_at(path, record.meta.first_time, frames.as_ref(), unit) => continue,
                None => {
                    let Ok(crc) = checksum(path, record.bytes) else { continue };
                    self.known.insert(path.clone(), crc);
                    crc
                }
            };
            if crc == record.crc32c {
                return Some(path.clone());
            }
        }
        None
    }
}

/// Whether the first frame of a file may have this time.
fn begins_at(path: &Path, time: Option<Time>, frames: Option<&FramesOf>, unit: usize) -> bool {
    let (Some(time), Some(frames)) = (time, frames) else { return true };
    if unit > READ_BYTES {
        return true;
    }
    let mut frame = vec![0; unit];
    let read =
        open_regular(path).and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut frame, 0));
    read.is_ok() && frames.see(&frame).time.is_none_or(|found| found == time)
}
