//! Files without a record, of which only the headers of their frames verify anything. Where more than one copy was asked for, another file
//! of the number is read if those of the first one do not.

use crate::recording::contents::{CUT, ChunkEntry, Gap, Instead, Lack, Time, cut_bytes};
use crate::recording::plan::Step;
use crate::recording::read::ahead::ReadAhead;
use crate::recording::read::piece::{ConsumerGone, Delivery, Loaded, MAX_UNRECORDED_BYTES};
use std::path::Path;

impl ReadAhead {
    /// A file without a record: verified by its frame headers only.
    pub(super) fn unrecorded(
        &mut self,
        entry: &ChunkEntry,
        should: (Option<Time>, Option<u64>),
        behind: &[Step],
    ) -> Delivery {
        let (upto, length) = should;
        let (mut entry, mut proof) = (entry, self.by_frames(entry, upto)?);
        let others = if proof.is_err() { self.unrecorded_copies(entry) } else { Vec::new() };
        for other in &others {
            let instead = self.by_frames(other, upto)?;
            if instead.is_ok() {
                (entry, proof) = (other, instead);
                break;
            }
        }
        let in_file = entry.bytes.unwrap_or_default();
        let cut = cut_bytes(in_file, self.unit() as u64);
        let chunks = entry.number..entry.number + 1;
        let gap = Gap {
            bytes: length.or(Some(in_file)),
            from: self.last_time,
            to: upto,
            ..Gap::new(&self.name, chunks, Lack::Unproven, "")
        };
        match proof {
            Ok(loaded) => {
                self.learn_rate(&loaded.seen.trace);
                let mut why =
                    "no index record: its frame headers verify its place, nothing verifies its samples"
                        .to_owned();
                let found = self.look(&loaded.seen);
                if let Some(unknown) = found.beyond(loaded.seen.frames, u64::MAX) {
                    why = format!("{why}; {unknown}");
                }
                let (from, to) = (loaded.seen.first_time, loaded.seen.last_time);
                let gap = Gap { lack: Lack::HeadersOnly, from, to, why, instead: Instead::AsItIs, ..gap };
                self.gap(gap, behind)?;
                self.lost_by_time(entry, found.before)?;
                let within = self.lost_within(&loaded.seen, found.holes);
                self.proven(entry, (&entry.path, entry.offset), loaded, within.as_ref(), behind)?;
                if cut > 0 { self.cut_frame(entry, cut, behind) } else { Ok(()) }
            }
            Err(why) => {
                let gap = Gap { why: format!("unverified: it has no index record, and {why}"), ..gap };
                self.files.interrupt();
                if self.sender.options.verify {
                    self.gap(gap, behind)
                } else {
                    let most = if entry.offset > 0 { in_file } else { MAX_UNRECORDED_BYTES };
                    self.as_it_lies(gap, (&entry.path, entry.offset), most)
                }
            }
        }
    }

    /// The whole frames of a file without a record, if their headers verify it; or why they do not.
    fn by_frames(
        &mut self,
        entry: &ChunkEntry,
        upto: Option<Time>,
    ) -> Result<Result<Loaded, String>, ConsumerGone> {
        let in_file = entry.bytes.unwrap_or_default();
        let cut = cut_bytes(in_file, self.unit() as u64);
        let bytes = in_file - cut;
        if bytes > MAX_UNRECORDED_BYTES {
            return Ok(Err("it is longer than any chunk".to_owned()));
        }
        let mut loaded = self.sender.load((&entry.path, entry.offset), bytes, self.about.as_ref());
        if !self.sender.is_wanted() {
            return Err(ConsumerGone);
        }
        // What follows the whole frames has a gap of its own.
        loaded.seen.bytes = loaded.seen.bytes.saturating_sub(cut).max(loaded.seen.read);
        Ok(loaded.seen.proven_by_frames(self.last_time, upto).map(|()| loaded))
    }

    /// Further files of its number that are in no index, where more than one copy was asked for: the longest first.
    fn unrecorded_copies(&self, entry: &ChunkEntry) -> Vec<ChunkEntry> {
        let stream = self.recording.datastreams.iter().find(|stream| stream.name == self.name);
        let Some(stream) = stream.filter(|_| self.recording.copies() > 1) else { return Vec::new() };
        let is_one =
            |copy: &&ChunkEntry| copy.number == entry.number && copy.record.is_none() && copy.bytes.is_some();
        let mut all: Vec<ChunkEntry> = stream.copies.iter().filter(is_one).cloned().collect();
        all.sort_by_key(|copy| std::cmp::Reverse(copy.bytes));
        all
    }

    /// Report the frame at the end of a file that has only its first `cut` bytes; those are not delivered.
    fn cut_frame(&mut self, entry: &ChunkEntry, cut: u64, behind: &[Step]) -> Delivery {
        let chunks = entry.number..entry.number + 1;
        let why = format!("{CUT}: {cut} bytes of the last one are not used");
        let gap = Gap::new(&self.name, chunks, Lack::Damaged, why);
        self.gap(
            Gap { from: self.last_time, bytes: Some(self.unit() as u64), frames: Some(1), ..gap },
            behind,
        )
    }

    /// Report a problem of a file, and deliver it.
    pub(super) fn as_it_lies(&mut self, gap: Gap, place: (&Path, u64), most: u64) -> Delivery {
        let number = gap.chunks.0;
        self.gap(Gap { instead: Instead::AsItIs, ..gap }, &[])?;
        self.stream(number, place, most, (None, None)).map(|_| ())
    }
}
