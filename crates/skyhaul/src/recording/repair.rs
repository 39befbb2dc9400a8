//! Giving index records to files that no index knows: plain FlexBuff scans, and chunks that were written but not
//! yet acknowledged when a recorder was killed.
//!
//! An adopted record proves only that the file has not changed *since*; it says so (`adopted`).

use std::io;

use skyhaul_io::disk::{Log, read_buffers};

use super::open::{ChunkEntry, Recording};
use super::prove::{READ_BYTES, Seen, read_chunk};
use super::record::{ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, Record};

/// First number of datastreams that no recorder numbered: far from those that a recorder gives.
const ADOPTED: u32 = 1_000_000;

/// Make index records for files that no index knows: they then count as acknowledged, and say that they were
/// adopted. How many were.
///
/// # Errors
/// The scan is being recorded, or an index cannot be written to.
pub fn repair(recording: &Recording) -> io::Result<u64> {
    let mut adopted = 0;
    for (disk, path) in recording.disks.iter().enumerate() {
        let index = recording.label.index(path);
        let mut text = String::from("\n");
        let buffers = read_buffers(1, READ_BYTES)?;
        for (place, stream) in recording.datastreams.iter().enumerate() {
            let unknown =
                |chunk: &&ChunkEntry| chunk.disk == disk && chunk.bytes.is_some() && chunk.record.is_none();
            let mut chunks = stream.chunks.values().filter(unknown).peekable();
            if chunks.peek().is_none() {
                continue;
            }
            let about = stream.datastream.clone().unwrap_or_else(|| {
                let suffix =
                    stream.name.strip_prefix(recording.label.as_str()).unwrap_or_default().to_owned();
                let info = DatastreamInfo { suffix, ..DatastreamInfo::default() };
                let datastream = ADOPTED + place as u32;
                Datastream { datastream, name: stream.name.clone(), info }
            });
            text.push_str(&Record::Datastream(about.clone()).to_line());
            for chunk in chunks {
                let block = buffers.take().ok_or(io::ErrorKind::OutOfMemory)?;
                let record = adopt(chunk, read_chunk(chunk, block, None, |_| {}), &about)?;
                text.push_str(&Record::Chunk(record).to_line());
                adopted += 1;
            }
        }
        if text.len() > 1 {
            if let Some(directory) = index.parent() {
                std::fs::create_dir_all(directory)?;
            }
            let mut log = Log::open(&index, index.exists())?;
            log.append(text.as_bytes())?;
            log.finish()?;
        }
    }
    Ok(adopted)
}

fn adopt(chunk: &ChunkEntry, seen: Seen, about: &Datastream) -> io::Result<ChunkRecord> {
    if let Some(error) = seen.error {
        return Err(io::Error::other(format!("{}: {error}", chunk.path.display())));
    }
    let units = seen.bytes.checked_div(u64::from(about.info.unit_bytes)).unwrap_or_default();
    let meta = ChunkMeta { object: u64::from(chunk.number), units: units as u32, ..ChunkMeta::default() };
    let (bytes, crc32c) = (seen.bytes, seen.crc32c);
    Ok(ChunkRecord { datastream: about.datastream, number: chunk.number, bytes, crc32c, adopted: true, meta })
}
