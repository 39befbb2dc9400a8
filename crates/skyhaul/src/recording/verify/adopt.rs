//! The index record of a file that is in no index: made durable first, then read, and what is missing in it and before it found by
//! the headers of its frames.

use super::file::{Cutter, Seen, checksum, read_file};
use crate::recording::asked;
use crate::recording::contents::{CUT, ChunkEntry, Rate};
use crate::recording::holes::{FilePlaces, Found, Holes, frames_in, rate_of};
use crate::recording::index::record::{ChunkMeta, ChunkRecord, Datastream};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::{Faults, open_regular};
use skyhaul_io::file::failed;
use skyhaul_io::memory::Pool;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// How a repair calls disks: each call has a time, because any disk may hang.
pub(super) struct DiskCalls {
    pub(super) faults: Faults,
    pub(super) timeout: Duration,
}

impl DiskCalls {
    /// Waits for a call on a disk.
    pub(super) fn call<T: Send + 'static>(
        &self,
        disk: &Path,
        call: impl Fn() -> io::Result<T> + Send + Sync + 'static,
    ) -> io::Result<T> {
        asked::call_within(disk, self.timeout, call).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                let hint = Hint("repair it again when the disk responds: what has a record keeps it");
                io::Error::new(error.kind(), format!("{error}{hint}"))
            }
            _ => error,
        })
    }
}

/// The record of a file, or the reason why it gets none. `disk` is where it is.
pub(super) fn adopt(
    (chunk, disk): (&ChunkEntry, &Path),
    buffers: &Pool,
    (about, files): (&mut Datastream, &mut FilePlaces),
    calls: &DiskCalls,
) -> io::Result<Result<ChunkRecord, String>> {
    make_durable((&chunk.path, disk), calls)?;
    let seen =
        read_file((&chunk.path, 0), u64::MAX, Cutter::of(Some(&*about), false), || buffers.take(), |_, _| {});
    if let Some(error) = seen.error {
        return Err(io::Error::other(format!("{}: {error}", chunk.path.display())));
    }
    if let Some(why) = seen.illegal_why {
        return Ok(Err(format!("{} of its frames are invalid: {why}", seen.illegal)));
    }
    if seen.cut_bytes > 0 {
        return Ok(Err(CUT.to_owned()));
    }
    let units = seen.read.checked_div(u64::from(about.info.unit_bytes)).unwrap_or(seen.objects);
    let found = if seen.proven_by_frames(None, None).is_ok() {
        look(&seen, about, files)
    } else {
        files.interrupt();
        Found::default()
    };
    let (missing, packed) = match missing_in(&seen, found.holes) {
        Ok(missing) => missing,
        Err(why) => return Ok(Err(why)),
    };
    let left_out = if packed { frames_in(&missing) } else { 0 };
    let Ok(units) = u32::try_from(units.saturating_add(left_out)) else {
        return Ok(Err("it would have too many frames".to_owned()));
    };
    let meta = ChunkMeta {
        object: u64::from(chunk.number),
        units,
        missing,
        packed,
        gap: found.before,
        first_time: seen.first_time,
        last_time: seen.last_time,
        ..ChunkMeta::default()
    };
    let (bytes, crc32c) = (seen.read, seen.crc32c);
    Ok(Ok(ChunkRecord {
        datastream: about.datastream,
        number: chunk.number,
        bytes,
        crc32c,
        parts: Vec::new(),
        part_bytes: None,
        adopted: true,
        meta,
    }))
}

/// Whether a file is a copy of the chunk with this record: it is made durable first, and then read.
pub(super) fn is_copy(
    (copy, disk): (&ChunkEntry, &Path),
    record: &ChunkRecord,
    calls: &DiskCalls,
) -> io::Result<bool> {
    if copy.bytes != Some(record.bytes) {
        return Ok(false);
    }
    make_durable((&copy.path, disk), calls)?;
    let crc32c = checksum(&copy.path, record.bytes).map_err(|error| failed("read", &copy.path, &error))?;
    Ok(crc32c == record.crc32c)
}

/// Make a file and its name durable.
fn make_durable((file, disk): (&Path, &Path), calls: &DiskCalls) -> io::Result<()> {
    let (path, faults) = (file.to_owned(), calls.faults.clone());
    let sync = move || {
        open_regular(&path).and_then(|file| faults.sync_all(&file))?;
        sync_name(&path, &faults)
    };
    calls.call(disk, sync).map_err(|error| failed("sync", file, &error))
}

/// What the headers of a file give; the rate is learned from them, if nothing else states it.
fn look(seen: &Seen, about: &mut Datastream, files: &mut FilePlaces) -> Found {
    if Rate::of(Some(about)).get().is_none() {
        about.info.frames_per_second = rate_of(about, &seen.trace);
    }
    let lanes = u64::from(about.info.lanes.max(1));
    files.file(&seen.trace, (Rate::of(Some(about)), lanes), seen.frames, &[])
}

/// Frames of a file that never arrived, and whether they were left out of it; or why no record can say which they are.
fn missing_in(seen: &Seen, holes: Holes) -> Result<(Vec<Range<u32>>, bool), String> {
    match holes {
        Holes { frames: 0, .. } if frames_in(&seen.filled_at) == seen.filled => {
            Ok((seen.filled_at.clone(), false))
        }
        Holes { frames: 0, .. } => {
            Err(format!("{} frames are marked invalid, in more places than a record can have", seen.filled))
        }
        Holes { ranges: Some(ranges), .. } if seen.filled == 0 => Ok((ranges, true)),
        Holes { frames, .. } => Err(format!(
            "{frames} frames never arrived, and others are marked invalid: their places are not known"
        )),
    }
}

/// Make the name of a file durable.
pub(super) fn sync_name(path: &Path, faults: &Faults) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    faults.sync_all(&File::open(directory.unwrap_or(Path::new(".")))?)
}
