//! Memory that a peer may write at any time: never a slice of bytes, for those must not change while they are borrowed.
//!
//! Bytes lie in words that are only loaded and stored whole, without order between them. A reader that meets a writer gets for
//! each byte what it was or what it becomes.
//!
//! ```
//! use skyhaul_io::memory::remote::RemoteMemory;
//! let memory = RemoteMemory::new(4096)?;
//! memory.place(5, b"visibilities");
//! let mut copy = [0; 4];
//! memory.copy(7, &mut copy);
//! assert_eq!(&copy, b"sibi");
//! # Ok::<(), std::io::Error>(())
//! ```

use super::check_available;
use crate::bpf::Words;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in a word.
const WORD: usize = 8;

#[derive(Debug)]
enum Held {
    Own(Box<[AtomicU64]>),
    /// Those of a program in the kernel, from this one on.
    Shared(Arc<Words>, usize),
}

/// The memory: zero at first.
#[derive(Debug)]
pub struct RemoteMemory {
    held: Held,
    length: u64,
}

impl RemoteMemory {
    /// Allocate and touch this many bytes, all zero.
    ///
    /// # Errors
    /// `OutOfMemory` if the machine has too little free memory, with a hint.
    pub fn new(length: u64) -> io::Result<RemoteMemory> {
        check_available(length, "a region", "use a smaller one")?;
        let count = usize::try_from(length.div_ceil(WORD as u64)).map_err(io::Error::other)?;
        let held = Held::Own((0..count).map(|_| AtomicU64::new(0)).collect());
        Ok(RemoteMemory { held, length })
    }

    /// A part of memory that a program in the kernel writes too: from word `first` on, so many bytes. They are there.
    pub(crate) fn shared(words: Arc<Words>, first: usize, length: u64) -> RemoteMemory {
        debug_assert!(first + (length as usize).div_ceil(WORD) <= words.count());
        RemoteMemory { held: Held::Shared(words, first), length }
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The words that it consists of, in native byte order; the last may have bytes beyond its length. For foreign code that views the
    /// memory, and takes what it reads for what it is: each byte before or after a write.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        match &self.held {
            Held::Own(words) => words,
            Held::Shared(words, first) => &words.all()[*first..],
        }
    }

    fn check(&self, at: u64, length: usize) -> usize {
        let fits = at.checked_add(length as u64).is_some_and(|end| end <= self.length);
        assert!(fits, "{length} bytes at {at} of {}", self.length);
        at as usize
    }

    /// Writes `bytes` from byte `at` on.
    ///
    /// # Panics
    /// If they do not lie within it.
    pub fn place(&self, at: u64, bytes: &[u8]) {
        let at = self.check(at, bytes.len());
        let (skip, first) = (at % WORD, at / WORD);
        let head = if skip == 0 { 0 } else { (WORD - skip).min(bytes.len()) };
        let (head, rest) = bytes.split_at(head);
        if !head.is_empty() {
            self.place_within(first, skip, head);
        }
        let first = first + usize::from(skip > 0);
        let (whole, tail) = rest.as_chunks::<WORD>();
        let count = whole.len();
        for (word, bytes) in self.words()[first..first + count].iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            self.place_within(first + count, 0, tail);
        }
    }

    /// Writes bytes of one word. Its others may be written meanwhile.
    fn place_within(&self, word: usize, skip: usize, bytes: &[u8]) {
        let changed = |old: u64| {
            let mut word = old.to_ne_bytes();
            word[skip..skip + bytes.len()].copy_from_slice(bytes);
            Some(u64::from_ne_bytes(word))
        };
        // It always returns a word.
        let _ = self.words()[word].fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }

    /// Copies the bytes from byte `at` on.
    ///
    /// # Panics
    /// If they do not lie within it.
    pub fn copy(&self, at: u64, to: &mut [u8]) {
        let at = self.check(at, to.len());
        let (skip, first) = (at % WORD, at / WORD);
        let head = if skip == 0 { 0 } else { (WORD - skip).min(to.len()) };
        let (head, rest) = to.split_at_mut(head);
        if !head.is_empty() {
            head.copy_from_slice(&self.bytes_of(first)[skip..skip + head.len()]);
        }
        let first = first + usize::from(skip > 0);
        let (whole, tail) = rest.as_chunks_mut::<WORD>();
        let count = whole.len();
        for (word, bytes) in self.words()[first..first + count].iter().zip(whole) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if !tail.is_empty() {
            tail.copy_from_slice(&self.bytes_of(first + count)[..tail.len()]);
        }
    }

    fn bytes_of(&self, word: usize) -> [u8; WORD] {
        self.words()[word].load(Ordering::Relaxed).to_ne_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// It is an array of bytes.
        #[test]
        fn it_agrees_with_an_array(steps in proptest::collection::vec((0usize..90, proptest::collection::vec(any::<u8>(), 0..40)), 0..20)) {
            let memory = RemoteMemory::new(100).unwrap();
            let mut model = [0u8; 100];
            for (at, bytes) in steps {
                let bytes = &bytes[..bytes.len().min(100 - at)];
                memory.place(at as u64, bytes);
                model[at..at + bytes.len()].copy_from_slice(bytes);
                let mut part = vec![0; bytes.len()];
                memory.copy(at as u64, &mut part);
                prop_assert_eq!(&part[..], bytes);
            }
            let mut all = [1; 100];
            memory.copy(0, &mut all);
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn writers_of_one_word_lose_nothing_of_each_other() {
        let memory = RemoteMemory::new(8).unwrap();
        std::thread::scope(|scope| {
            for at in 0..8u64 {
                let memory = &memory;
                scope.spawn(move || (0..500).for_each(|n| memory.place(at, &[(n % 251) as u8])));
            }
        });
        let mut all = [0; 8];
        memory.copy(0, &mut all);
        assert_eq!(all, [(499 % 251) as u8; 8]);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 99 of 100")]
    fn what_lies_beyond_it_is_not_written() {
        RemoteMemory::new(100).unwrap().place(99, &[1, 2]);
    }
}
