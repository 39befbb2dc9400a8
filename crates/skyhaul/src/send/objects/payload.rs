//! The bytes of an object, in place: nothing is copied.
//!
//! ```text
//!   payload   0 ─────────── a ──────────────── b ──── bytes
//!   chunks    └▶ a vector   └▶ shared memory   └▶ static
//! ```
//!
//! The bytes are read afresh for every send, so a program may keep an object and change what is in it. Limit: a chunk
//! must not become shorter.

use skyhaul_core::pattern;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of an object, or of a part of one.
#[derive(Clone)]
pub enum Payload {
    /// Owned.
    Own(Vec<u8>),
    /// In the program.
    Static(&'static [u8]),
    /// Shared memory of another owner.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Payload {
    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Own(bytes) => bytes,
            Payload::Static(bytes) => bytes,
            Payload::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload::Own(bytes)
    }
}

impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Self {
        Payload::Static(bytes)
    }
}

impl<T: AsRef<[u8]> + Send + Sync + 'static> From<Arc<T>> for Payload {
    fn from(bytes: Arc<T>) -> Self {
        Payload::Shared(bytes)
    }
}

impl From<Arc<dyn AsRef<[u8]> + Send + Sync>> for Payload {
    fn from(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        Payload::Shared(bytes)
    }
}

/// A run of an object's bytes.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// Where it begins in the payload.
    pub(super) start: u64,
    /// Its length when it was added.
    pub(super) bytes: u64,
    payload: Payload,
}

/// The bytes of an object: chunks, one after another.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    pub(super) chunks: Vec<Chunk>,
    bytes: u64,
}

impl Chunks {
    /// Bytes of all of them.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Add a chunk.
    pub fn push(&mut self, payload: Payload) {
        let bytes = payload.bytes().len() as u64;
        if bytes > 0 {
            self.chunks.push(Chunk { start: self.bytes, bytes, payload });
            self.bytes += bytes;
        }
    }

    /// Add bytes that verify themselves: the pattern of `object`, from byte to byte of it.
    pub fn push_pattern(&mut self, object: u64, part: Range<u64>) {
        for at in (part.start..part.end).step_by(pattern::LONGEST) {
            let bytes = (part.end - at).min(pattern::LONGEST as u64) as usize;
            self.push(Payload::Static(pattern::slice(object, at, bytes)));
        }
    }

    /// The chunks' bytes as they are now, for tests and custom transports.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(|chunk| chunk.payload.bytes())
    }

    /// Bytes `at..at + length` of a chunk; `None` if it is shorter now than when it was added.
    #[inline]
    pub(super) fn get(&self, chunk: usize, at: u64, length: u64) -> Option<&[u8]> {
        let bytes = self.chunks.get(chunk)?.payload.bytes();
        bytes.get(at as usize..(at + length) as usize)
    }
}
