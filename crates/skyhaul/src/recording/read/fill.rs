//! Frames marked invalid where chunks are missing, so that a stream keeps its length and its time.
//!
//! ```text
//!   … A 17 B 17 │ A 18! B 18! A 19! B 19! … │ A 96 B 96 …      ! predicted from the frames before (or behind) it
//! ```
//!
//! An index may claim anything, so fill is bounded by the largest possible chunks: see [`bounded`].
//!
//! If frames cannot be predicted, because the format is unknown or headers were stripped, the fill is 0x11223344 throughout.

use crate::frames;
use crate::recording::index::record::Datastream;
use skyhaul_core::wire::{FILL, Filler, Octets, StreamFormat};
use std::ops::Range;

/// Bytes of fill in one piece.
const FILL_BYTES: usize = 4 << 20;

/// Maximum number of bytes kept for prediction, whatever an index says of threads and frames.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Longest file without a record that can be a chunk, in bytes.
pub(in crate::recording) const MAX_UNRECORDED_BYTES: u64 = 4 << 30;
/// Chunks that are filled in a row: terabytes, if they are of the usual size.
pub(super) const MAX_FILLED_CHUNKS: u32 = 10_000;

/// The `bytes` to fill in the place of `chunks`, if a stream of such chunks can have that many there.
///
/// # Errors
/// Why not: the index claims what no recorder wrote.
pub(super) fn bounded(about: Option<&Datastream>, chunks: (u32, u32), bytes: u64) -> Result<u64, String> {
    let count = chunks.1.saturating_sub(chunks.0);
    if count > MAX_FILLED_CHUNKS {
        return Err(format!(
            "{count} chunks in a row are claimed, and at most {MAX_FILLED_CHUNKS} are filled"
        ));
    }
    let whole = about.map(|about| about.info.whole_chunk()).filter(|&bytes| bytes > 0);
    let longest = whole.unwrap_or(MAX_UNRECORDED_BYTES).min(MAX_UNRECORDED_BYTES);
    if bytes > u64::from(count).saturating_mul(longest) {
        return Err(format!("{bytes} bytes are claimed, and a chunk of this stream has at most {longest}"));
    }
    Ok(bytes)
}

/// Makes frames in place of missing chunks.
#[derive(Debug)]
pub(super) struct Filling {
    filler: Option<Filler>,
    unit: usize,
    /// The last frame of each thread, as they were given.
    last: Vec<u8>,
    group: usize,
}

impl Filling {
    pub(super) fn new(about: Option<&Datastream>) -> Filling {
        let bounded =
            |format: &StreamFormat| format.group().saturating_mul(format.packet_bytes) <= MAX_KEPT_BYTES;
        let format = about.and_then(frames::stream_format).filter(bounded);
        let unit = about.map_or(0, |about| about.info.unit_bytes as usize);
        let group = format.as_ref().map_or(1, StreamFormat::group);
        Filling { filler: format.map(Filler::new), unit, last: Vec::new(), group }
    }

    /// More is known of the stream by now: its frame rate.
    pub(super) fn know(&mut self, about: &Datastream) {
        let filler = Filling::new(Some(about)).filler;
        self.filler = filler.or(self.filler.take());
    }

    /// Bytes from which frames are predicted.
    pub(super) fn needed(&self) -> usize {
        if self.filler.is_some() { self.unit * self.group } else { 0 }
    }

    /// Remember the end of the delivered bytes: only the last [`Filling::needed`] count.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let needed = self.needed();
        self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(needed)..]);
        let surplus = self.last.len().saturating_sub(needed);
        self.last.drain(..surplus);
    }

    /// The last frames that were given, one of each thread; `None` if fewer were.
    pub(super) fn last(&self) -> Option<&[u8]> {
        Some(&self.last[..]).filter(|last| !last.is_empty() && last.len() == self.needed())
    }

    /// Fill the `missing` units of `bytes`.
    pub(super) fn among(&self, bytes: &mut [u8], missing: &[Range<u32>]) {
        match &self.filler {
            Some(filler) => drop(filler.fill(bytes, missing)),
            None => {
                for hole in missing {
                    let end = (hole.end as usize).saturating_mul(self.unit).min(bytes.len());
                    let hole = &mut bytes[(hole.start as usize).saturating_mul(self.unit).min(end)..end];
                    hole.iter_mut().zip(FILL.iter().cycle()).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// The last bytes that were given, at most as many as frames are predicted from.
    pub(super) fn before(&self) -> &[u8] {
        &self.last
    }

    /// The next bytes of a hole of which `left` are missing; `behind` are the bytes after it, if known.
    pub(super) fn next(&mut self, left: u64, behind: &[u8]) -> Vec<u8> {
        let needed = self.needed();
        let Some(filler) = self.filler.as_ref().filter(|_| needed > 0 && left >= self.unit as u64) else {
            return plain(left, self.unit);
        };
        if self.last.len() < needed {
            // Nothing is before it: the first frames are predicted from behind.
            let mut hole = FromBehind {
                first: vec![0; needed.min(usize::try_from(left).unwrap_or(usize::MAX))],
                length: usize::try_from(left).unwrap_or(usize::MAX).saturating_add(behind.len()),
                behind,
            };
            if hole.first.len() < needed || behind.len() < needed {
                return plain(left, self.unit);
            }
            filler.fill(&mut hole, &once(0..self.group as u32));
            let made = hole.first;
            self.keep(&made);
            return made;
        }
        let units = (FILL_BYTES / self.unit)
            .max(1)
            .min(usize::try_from(left / self.unit as u64).unwrap_or(usize::MAX));
        let mut made = self.last.clone();
        made.resize(needed + units * self.unit, 0);
        filler.fill(&mut made[..], &once(self.group as u32..(self.group + units) as u32));
        made.drain(..needed);
        let kept = made.clone();
        self.keep(&kept[kept.len().saturating_sub(needed)..]);
        made
    }
}

/// One range.
fn once(units: Range<u32>) -> [Range<u32>; 1] {
    [units]
}

/// Fill without prediction.
fn plain(left: u64, unit: usize) -> Vec<u8> {
    let most =
        FILL_BYTES.checked_div(unit).filter(|&units| units > 0).map_or(FILL_BYTES, |units| units * unit);
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(most);
    FILL.iter().copied().cycle().take(length).collect()
}

/// A hole of which only the beginning is made, and the bytes after it.
struct FromBehind<'a> {
    first: Vec<u8>,
    length: usize,
    behind: &'a [u8],
}

impl Octets for FromBehind<'_> {
    fn length(&self) -> usize {
        self.length
    }
    fn read(&self, range: Range<usize>) -> &[u8] {
        let hole = self.length - self.behind.len();
        match range.start.checked_sub(hole) {
            Some(at) => self.behind.get(at..at + range.len()).unwrap_or_default(),
            None => &[],
        }
    }
    fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.first[range]
    }
}
