//! Reading one file: its checksum, what its frames say, and whether that proves it.
//!
//! The proof of a chunk is its index record: length and CRC-32C. A file without one is proven as far as its frame
//! headers go: all legal, all of one length, in order of time, and between those of its neighbours.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use skyhaul_core::placement::Key;
use skyhaul_core::wire::FrameSeen;
use skyhaul_io::disk::{Source, open_regular};
use skyhaul_io::memory::Block;

use super::cutter::Cutter;
use super::gap::Time;
use super::open::Recording;
use super::record::{ChunkRecord, Datastream};
use crate::frames::FramesOf;

/// Bytes of one read.
pub(super) const READ_BYTES: usize = 4 << 20;

/// What reading one file gave.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Its length.
    pub(super) bytes: u64,
    /// How much of it was read.
    pub(super) read: u64,
    /// CRC-32C of what was read.
    pub(super) crc32c: u32,
    pub(super) error: Option<String>,
    pub(super) frames: u64,
    pub(super) illegal: u64,
    pub(super) illegal_why: Option<&'static str>,
    pub(super) filled: u64,
    /// Where packets have objects: how many follow each other, and the last one.
    pub(super) objects: u64,
    object: Option<Key>,
    pub(super) first_time: Option<Time>,
    pub(super) last_time: Option<Time>,
    /// A frame's time is before that of the frame before it.
    pub(super) goes_back: bool,
}

impl Seen {
    /// A packet of this object.
    pub(super) fn add_packet(&mut self, object: Key) {
        self.frames += 1;
        self.objects += u64::from(self.object.replace(object) != Some(object));
    }

    /// Something that is not legal.
    pub(super) fn refuse(&mut self, why: &'static str) {
        self.illegal += 1;
        self.illegal_why.get_or_insert(why);
    }

    pub(super) fn add_frame(&mut self, frame: FrameSeen) {
        self.frames += 1;
        self.filled += u64::from(frame.filled);
        if let Some(why) = frame.illegal {
            self.refuse(why);
        }
        if frame.time.is_some() {
            self.goes_back |= frame.time < self.last_time;
            self.first_time = self.first_time.or(frame.time);
            self.last_time = frame.time;
        }
    }

    /// Whether what was read is what `record` promises.
    ///
    /// # Errors
    /// The difference from the record.
    pub(super) fn proves(&self, record: &ChunkRecord) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(format!("it cannot be read: {error}"));
        }
        if self.bytes < record.bytes {
            return Err(format!("it has {} bytes, its index record says {}", self.bytes, record.bytes));
        }
        if self.read != record.bytes || self.crc32c != record.crc32c {
            let (is, was) = (self.crc32c, record.crc32c);
            return Err(format!("its CRC-32C is {is:08x}, its index record says {was:08x}"));
        }
        Ok(())
    }

    /// Whether its frame headers prove a file without a record: between what ends at `after` and begins at `before`.
    ///
    /// # Errors
    /// The reason why the file cannot be verified.
    pub(super) fn proven_by_frames(&self, after: Option<Time>, before: Option<Time>) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(format!("it cannot be read: {error}"));
        }
        if let Some(why) = self.illegal_why {
            return Err(format!("{} of its frames are invalid: {why}", self.illegal));
        }
        if self.objects > 0 {
            // Heaps have no time: legal packets from the first byte to the last are all that they can tell.
            return Ok(());
        }
        let (Some(first), Some(last)) = (self.first_time, self.last_time) else {
            return Err("it contains no readable frame header".to_owned());
        };
        if self.goes_back
            || after.is_some_and(|after| first < after)
            || before.is_some_and(|before| last > before)
        {
            return Err("the times of its frames do not fit its place".to_owned());
        }
        Ok(())
    }
}

/// Read at most `most` bytes of the file at `path` into blocks of `next`, and hand each with its length to `take`.
/// Ends early, with an error, where `next` gives none.
pub(super) fn read_file(
    path: &Path,
    most: u64,
    mut cutter: Option<Cutter>,
    mut next: impl FnMut() -> Option<Block>,
    mut take: impl FnMut(Block, usize),
) -> Seen {
    let mut seen = Seen::default();
    let source = match Source::open(path) {
        Ok(source) => source,
        Err(error) => return Seen { error: Some(error.to_string()), ..seen },
    };
    seen.bytes = source.len();
    let end = most.min(source.len());
    while seen.read < end {
        let Some(mut block) = next() else {
            return Seen { error: Some("no memory to read into".to_owned()), ..seen };
        };
        let length = match source.read(seen.read, &mut block) {
            Ok(0) => return Seen { error: Some("it was truncated while it was read".to_owned()), ..seen },
            Ok(length) => length.min((end - seen.read) as usize),
            Err(error) => return Seen { error: Some(error.to_string()), ..seen },
        };
        seen.crc32c = crc32c::crc32c_append(seen.crc32c, &block[..length]);
        seen.read += length as u64;
        if let Some(cutter) = &mut cutter {
            cutter.feed(&block[..length], &mut seen);
        }
        let short = length < block.len();
        take(block, length);
        if short {
            break;
        }
    }
    if let Some(cutter) = cutter {
        cutter.finish(&mut seen);
    }
    seen
}

/// CRC-32C of a file of exactly `bytes` bytes.
///
/// # Errors
/// A system error, or the file has another length.
pub(super) fn checksum(path: &Path, bytes: u64) -> io::Result<u32> {
    use std::io::Read;
    let mut file = open_regular(path)?;
    if file.metadata()?.len() != bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut buffer = vec![0; 1 << 20];
    let (mut crc, mut left) = (0, bytes);
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        let n = file.read(&mut buffer[..most])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        crc = crc32c::crc32c_append(crc, &buffer[..n]);
        left -= n as u64;
    }
    Ok(crc)
}

/// Looks for the bytes that a record promises under every other name in the scan's directories.
///
/// Each file is read at most once for this. If frames give the time, only files that begin at the record's time are read.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// By length: files that may be what is looked for.
    files: HashMap<u64, Vec<PathBuf>>,
    known: HashMap<PathBuf, u32>,
}

impl Search {
    pub(super) fn new(recording: &Recording) -> Search {
        let mut search = Search::default();
        let mut add = |bytes: u64, path: &PathBuf| search.files.entry(bytes).or_default().push(path.clone());
        recording.others.iter().for_each(|file| add(file.bytes, &file.path));
        for stream in &recording.datastreams {
            for chunk in stream.copies.iter().chain(stream.chunks.values()) {
                if let Some(bytes) = chunk.bytes {
                    add(bytes, &chunk.path);
                }
            }
        }
        search
    }

    /// Its checksum is known already.
    pub(super) fn learn(&mut self, path: &Path, crc32c: u32) {
        self.known.insert(path.to_owned(), crc32c);
    }

    /// A file with the bytes of `record`, other than `but`.
    pub(super) fn find(
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
