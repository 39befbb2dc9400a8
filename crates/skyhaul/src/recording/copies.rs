//! Copies of chunks on several disks: how many were asked for, and how many there are.
//!
//! ```text
//!   safe chunks (at least one durable copy)
//!   ├─ with all copies        as many as were asked for, on different disks
//!   ├─ with fewer copies      nothing is lost, and one more disk that fails may lose them
//!   └─ being copied           the other copies are being written
//! ```
//!
//! The recorder counts them as it writes, `check` as it reads, and `ls` by names, lengths and indexes. Without a request for copies,
//! reports have no such counts.

use crate::ledger::differs;
use serde::{Deserialize, Serialize};

/// Numbers of chunks that are kept for each datastream; more are counted only.
pub(super) const MAX_NUMBERS: usize = 10_000;
/// Most copies of a chunk.
pub const MAX_COPIES: u32 = 16;
/// Most disks of a recording with more than one copy: a bit of a word says which of them have a chunk.
pub(super) const MAX_COPIED_DISKS: usize = u64::BITS as usize;

/// Copies of the chunks of a datastream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyCounts {
    /// Copies of each chunk that were asked for.
    pub wanted: u32,
    /// Safe chunks that have them.
    pub chunks_with_all_copies: u64,
    /// Bytes of these chunks, each counted once.
    pub bytes_with_all_copies: u64,
    /// Safe chunks that have fewer.
    pub chunks_with_fewer_copies: u64,
    /// Bytes of these chunks, each counted once.
    pub bytes_with_fewer_copies: u64,
    /// Their numbers (the first 10 000).
    pub fewer_numbers: Vec<u32>,
    /// Safe chunks of which further copies are being written.
    pub chunks_being_copied: u64,
    /// Bytes of these chunks, each counted once.
    pub bytes_being_copied: u64,
    /// Copies of all chunks that were written durably, or that `check` verified.
    pub copies: u64,
    /// Bytes of all these copies.
    pub copy_bytes: u64,
}

impl CopyCounts {
    /// Nothing counted yet; `None` if one copy is all that was asked for.
    pub(super) fn of(wanted: u32) -> Option<CopyCounts> {
        (wanted > 1).then(|| CopyCounts { wanted, ..CopyCounts::default() })
    }

    /// A chunk of `bytes` has so many copies now.
    pub(super) fn count(&mut self, number: u32, bytes: u64, copies: u32) {
        if copies >= self.wanted {
            self.chunks_with_all_copies += 1;
            self.bytes_with_all_copies = self.bytes_with_all_copies.saturating_add(bytes);
            return;
        }
        self.chunks_with_fewer_copies += 1;
        self.bytes_with_fewer_copies = self.bytes_with_fewer_copies.saturating_add(bytes);
        if self.fewer_numbers.len() < MAX_NUMBERS
            && let Err(at) = self.fewer_numbers.binary_search(&number)
        {
            self.fewer_numbers.insert(at, number);
        }
    }

    /// A chunk that had all copies has fewer; returns false if it was known to have fewer. Of more than 10 000 chunks with fewer, it is not known which they are: one that is not
    /// among the first is taken for one that had all.
    pub(super) fn demote(&mut self, number: u32, bytes: u64) -> bool {
        if self.chunks_with_all_copies == 0 || self.fewer_numbers.binary_search(&number).is_ok() {
            return false;
        }
        self.chunks_with_all_copies -= 1;
        self.bytes_with_all_copies = self.bytes_with_all_copies.saturating_sub(bytes);
        self.count(number, bytes, 0);
        true
    }

    /// Chunks of a datastream with fewer copies, in words.
    pub(super) fn words(&self, name: &str) -> String {
        let (chunks, wanted) = (self.chunks_with_fewer_copies, self.wanted);
        let have = if chunks == 1 { "chunk has" } else { "chunks have" };
        let which = number_words(&self.fewer_numbers);
        format!("{name}: {chunks} {have} fewer than {wanted} copies, with no data lost: {which}")
    }

    /// The sums that do not hold, as text: of `chunks` safe chunks with `bytes` bytes.
    pub(super) fn imbalance(&self, name: &str, chunks: (&str, u64), bytes: (&str, u64)) -> Vec<String> {
        let all = [self.chunks_with_all_copies, self.chunks_with_fewer_copies, self.chunks_being_copied];
        let of_bytes = [self.bytes_with_all_copies, self.bytes_with_fewer_copies, self.bytes_being_copied];
        let sum = |parts: [u64; 3]| parts.into_iter().fold(0, u64::saturating_add);
        let mut wrong = Vec::from_iter(differs(name, chunks, ("chunks by their copies", sum(all))));
        wrong.extend(differs(name, bytes, ("bytes by their copies", sum(of_bytes))));
        wrong
    }
}

/// Ranges of numbers as text: `3, 5 to 9`; at most ten of them.
pub(super) fn number_words(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let word = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    let words: Vec<String> = ranges.iter().take(10).map(word).collect();
    let more = if ranges.len() > 10 { " and more" } else { "" };
    words.join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_said_shortly() {
        assert_eq!(number_words(&[3, 5, 6, 7, 9]), "3, 5 to 7, 9");
        let odd: Vec<u32> = (0..40).map(|n| n * 2).collect();
        assert!(number_words(&odd).ends_with("18 and more"));
    }

    #[test]
    fn a_chunk_is_counted_once_whatever_becomes_of_its_copies() {
        let mut counts = CopyCounts::of(2).unwrap();
        [(0, 2), (1, 1), (2, 2)].into_iter().for_each(|(number, copies)| counts.count(number, 100, copies));
        let sums = |counts: &CopyCounts| {
            assert_eq!(counts.imbalance("s", ("chunks", 3), ("bytes", 300)), Vec::<String>::new());
            (counts.chunks_with_all_copies, counts.chunks_with_fewer_copies, counts.fewer_numbers.clone())
        };
        assert_eq!(sums(&counts), (2, 1, vec![1]));
        // One that had fewer already, and one that had all, twice.
        assert_eq!([1, 0, 0].map(|number| counts.demote(number, 100)), [false, true, false]);
        assert_eq!(sums(&counts), (1, 2, vec![0, 1]));
        assert_eq!(counts.words("s"), "s: 2 chunks have fewer than 2 copies, with no data lost: 0 to 1");
        assert_eq!(counts.imbalance("s", ("chunks", 4), ("bytes", 300)).len(), 1);
        assert_eq!(CopyCounts::of(1), None);
    }
}
