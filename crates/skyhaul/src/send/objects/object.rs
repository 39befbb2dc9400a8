//! What an object must be so that a [`Stream`](super::Stream) can send it.
//!
//! ```text
//!   Config ─ division ─┐
//!   Object ─ number  ──┴▶ Plan: packets by arithmetic ─ packet n ─▶ head, and which part of the object's chunks
//! ```

use crate::send::{Outlet, Pacing, SendError};
use skyhaul_core::packetize::Part;
use skyhaul_core::pattern;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How a stream of objects sends.
pub trait ObjectConfig: Clone + Debug + Send + Sync + 'static {
    /// How objects are divided into packets.
    type Division: Copy + PartialEq + Debug + Send + Sync;

    /// How objects are divided into packets.
    fn division(&self) -> Self::Division;

    /// Its rate.
    fn pacing(&self) -> Pacing;

    /// Its queue.
    fn waiting(&self) -> Waiting;

    /// Check that such packets can be sent there.
    ///
    /// # Errors
    /// [`SendError::Config`], with what would do.
    fn check(&self, outlet: &Outlet) -> Result<(), SendError>;
}

/// What waits in a stream's queue, and who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Maximum number of objects queued or being sent.
    pub most: usize,
    /// How long dropping the stream waits for queued objects.
    pub linger: Duration,
    /// CPU for the stream's own thread.
    pub cpu: Option<usize>,
}

/// An object that is sent as packets.
pub trait Object: Debug + Send + Sync + Sized + 'static {
    /// How a stream of them sends.
    type Config: ObjectConfig;
    /// One of them divided into packets: a few numbers.
    type Plan: Clone + Send + Sync;

    /// Check that it can be sent, so that nothing is sent of several objects of which one cannot.
    ///
    /// # Errors
    /// [`SendError::Packets`].
    fn check(&self, division: Division<Self>) -> Result<(), SendError>;

    /// Divide it.
    ///
    /// # Errors
    /// [`SendError::Packets`].
    fn plan(&self, division: Division<Self>, number: u64) -> Result<Self::Plan, SendError>;

    /// The same plan for another number.
    fn with_number(plan: &Self::Plan, number: u64) -> Self::Plan;

    /// Number of packets, at least 1.
    fn count(plan: &Self::Plan) -> u64;

    /// Bytes of packet `n`.
    fn bytes_of(plan: &Self::Plan, n: u64) -> u64;

    /// Bytes of the longest head.
    fn head_bytes_max(plan: &Self::Plan) -> usize;

    /// Write the head of packet `n` to the front of `head`, which has room for the longest.
    fn packet(&self, plan: &Self::Plan, n: u64, head: &mut [u8]) -> Part;

    /// Its bytes.
    fn chunks(&self) -> &Chunks;
}

/// How objects of this kind are divided.
pub type Division<O> = <<O as Object>::Config as ObjectConfig>::Division;

/// Settings of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Its number: the counter of a heap, truncated to the flavour's bits; the tick of an event. `None`: the next of the
    /// stream's sequence.
    pub counter: Option<u64>,
    /// Its destination.
    pub substream: usize,
    /// Bits per second for this object; `None`: the stream's.
    pub rate: Option<u64>,
}

/// The order in which the packets of several objects are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One object after another.
    #[default]
    Serial,
    /// A packet of each object in turn; objects with fewer packets end earlier.
    RoundRobin,
}

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
