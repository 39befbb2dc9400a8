//! Judges further files and records of a chunk: copies that were asked for, and those that nobody asked for.

use crate::recording::contents::{ChunkEntry, State, Verdict};
use crate::recording::index::record::ChunkRecord;
use crate::recording::verify::file::Seen;
use crate::recording::verify::judge::StreamCheck;
use std::collections::BTreeSet;

impl<'a> StreamCheck<'a> {
    /// A copy of a chunk that is as the record of the chunk says, where more than one was asked for and the chunk's own file is not.
    pub(super) fn sound_copy(&self, chunk: &ChunkEntry, own: &Seen) -> Option<&'a Seen> {
        let record = chunk.record.as_ref().filter(|record| own.proves(record).is_err())?;
        let all = self.copies.get(&chunk.number).filter(|_| self.sum.redundancy.is_some())?;
        let seen = all.iter().filter_map(|copy| self.seen.get(&copy.place()));
        seen.filter(|seen| seen.bytes == record.bytes).find(|seen| seen.proves(record).is_ok())
    }

    /// Counts the disks that have a verified chunk as its record says.
    pub(super) fn count_copies(&mut self, chunk: &ChunkEntry) {
        let (Some(counts), Some(record)) = (&mut self.sum.redundancy, &chunk.record) else { return };
        let others = self.copies.get(&chunk.number).into_iter().flatten().copied();
        let recorded = std::iter::once(chunk).chain(others).filter(|entry| entry.record.is_some());
        let is_sound = |entry: &&ChunkEntry| {
            let seen = self.seen.get(&entry.place());
            seen.is_some_and(|seen| seen.bytes == record.bytes && seen.proves(record).is_ok())
        };
        let disks: BTreeSet<usize> = recorded.filter(is_sound).map(|entry| entry.disk).collect();
        // Its bytes are somewhere, if only under another name.
        let there = u32::try_from(disks.len()).unwrap_or(u32::MAX).max(1);
        counts.copies += u64::from(there);
        counts.copy_bytes = counts.copy_bytes.saturating_add(u64::from(there).saturating_mul(record.bytes));
        if self.recording.state == State::Live && there < counts.wanted {
            counts.chunks_being_copied += 1;
            counts.bytes_being_copied = counts.bytes_being_copied.saturating_add(record.bytes);
            return;
        }
        counts.count(chunk.number, record.bytes, there);
        if there < counts.wanted {
            self.short.insert(chunk.number);
        }
    }

    /// Chunks that one more disk that fails may cost.
    pub(super) fn tell_fewer_copies(&mut self) {
        let Some(counts) = &self.sum.redundancy else { return };
        let chunks = ("chunks verified", self.sum.proven);
        let wrong = counts.imbalance(&self.sum.name, chunks, ("bytes verified", self.proven_bytes));
        for line in &wrong {
            self.findings.add(Verdict::Unproven, None, format!("the sums do not hold: {line}"));
        }
        self.unbalanced.extend(wrong);
        if counts.chunks_with_fewer_copies > 0 {
            self.findings.add(Verdict::FewerCopies, None, counts.words(&self.sum.name));
        }
    }

    /// Judge a copy that was asked for: nothing is to be said of one that is as it was recorded.
    fn asked_copy(&mut self, copy: &ChunkEntry, record: &ChunkRecord) {
        // It may be under way, or was written again on another disk.
        let is_short = self.short.contains(&copy.number);
        let gave_up = self.recording.gave_up.get(copy.disk) == Some(&true);
        let verdict = match (is_short, copy.bytes) {
            (true, _) => Verdict::FewerCopies,
            // What the recorder could not finish there it wrote again, whole, on another.
            (false, None) if gave_up => Verdict::Whole,
            (false, _) => Verdict::Holes,
        };
        let nothing = Seen::default();
        let seen = self.seen.get(&copy.place()).unwrap_or(&nothing);
        let (path, number) = (Some(&copy.path), copy.number);
        let why = match copy.bytes {
            None => Err("it is in the index, but missing".to_owned()),
            Some(_) => seen.proves(record),
        };
        if let Err(why) = why {
            self.findings.add(verdict, path, format!("a copy of chunk {number}: {why}"));
        } else if seen.bytes > record.bytes {
            let more = seen.bytes - record.bytes;
            let text = format!("a copy of chunk {number}: {more} bytes follow the end of the chunk");
            self.findings.add(verdict, path, text);
        }
    }

    /// Whether a file has the bytes of the chunk's record or, without one, of its file.
    fn has_same_bytes(&self, copy: &ChunkEntry, counted: Option<&ChunkEntry>) -> bool {
        let promised = counted.and_then(|chunk| chunk.record.as_ref());
        let seen = self.seen.get(&copy.place());
        match (promised, counted.and_then(|chunk| self.seen.get(&chunk.place()))) {
            (Some(record), _) => {
                seen.is_some_and(|seen| seen.proves(record).is_ok() && seen.bytes == record.bytes)
            }
            (None, Some(other)) => seen.is_some_and(|s| (s.bytes, s.crc32c) == (other.bytes, other.crc32c)),
            (None, None) => false,
        }
    }

    /// Whether a repair gave a copy of a whole chunk its record, while the disk with that of the recorder was away.
    fn is_by_repair(&self, copy: &ChunkEntry, promised: Option<&ChunkRecord>) -> bool {
        let is_adopted = |record: Option<&ChunkRecord>| record.is_some_and(|record| record.adopted);
        is_adopted(copy.record.as_ref()) && !is_adopted(promised) && self.short.contains(&copy.number)
    }

    /// Judge a further file or record of a number.
    pub(super) fn copy(&mut self, copy: &ChunkEntry) {
        self.sum.copies += 1;
        let number = copy.number;
        let counted = self.stream.chunks.get(&number);
        let promised = counted.and_then(|chunk| chunk.record.as_ref());
        let differs = copy
            .record
            .as_ref()
            .zip(promised)
            .is_some_and(|(a, b)| (a.bytes, a.crc32c) != (b.bytes, b.crc32c));
        if self.sum.redundancy.is_some()
            && !differs
            && let Some(record) = &copy.record
        {
            return self.asked_copy(copy, record);
        }
        let same = self.has_same_bytes(copy, counted);
        // What the recorder could not finish on a disk it wrote again, whole, on another.
        let gave_up = self.recording.gave_up.get(copy.disk) == Some(&true);
        let proven = promised.zip(counted.and_then(|chunk| self.seen.get(&chunk.place())));
        let proven = proven.is_some_and(|(record, seen)| seen.proves(record).is_ok());
        let (verdict, text) = match (copy.bytes, same) {
            _ if differs && self.is_by_repair(copy, promised) => (
                Verdict::FewerCopies,
                format!(
                    "a repair made its record, and that of the recorder differs: it is no copy of chunk {number}"
                ),
            ),
            _ if differs => (
                Verdict::Damaged,
                format!("the index of another disk contradicts this one about chunk {number}"),
            ),
            (None, _) => {
                (Verdict::Whole, "recorded again on another disk, because this one failed".to_owned())
            }
            (Some(_), true) if copy.record.is_some() => {
                (Verdict::Holes, format!("chunk {number} is also on another disk: both were acknowledged"))
            }
            (Some(_), true) if gave_up => (
                Verdict::Holes,
                format!(
                    "a copy of chunk {number}, written before its disk failed or hung: the chunk is safe on another disk"
                ),
            ),
            (Some(_), true) if self.sum.redundancy.is_some() => {
                (Verdict::FewerCopies, format!("a copy of chunk {number} that is in no index"))
            }
            (Some(_), true) => (
                Verdict::Unproven,
                format!(
                    "a copy of chunk {number}, which is on another disk: concatenation by name would read it twice"
                ),
            ),
            (Some(_), false) if gave_up && proven && copy.record.is_none() => (
                Verdict::Holes,
                format!(
                    "remains of chunk {number} from before its disk failed or hung: not used, the chunk is safe on another disk"
                ),
            ),
            // Its disk lost power, or was taken away, before it was finished.
            (Some(_), false) if copy.record.is_none() && self.short.contains(&number) => (
                Verdict::FewerCopies,
                format!(
                    "it has the number of chunk {number}, but is in no index and no copy of it: it is not used"
                ),
            ),
            (Some(_), false) => (
                Verdict::Unproven,
                format!("it has the number of chunk {number}, but other contents: it is not used"),
            ),
        };
        self.findings.add(verdict, Some(&copy.path), text);
    }
}
