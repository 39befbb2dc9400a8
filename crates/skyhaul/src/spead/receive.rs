//! Receiving SPEAD: heaps from any number of readers.
//!
//! ```text
//!   UDP, TCP, bytes,   ┌ reader thread ┐ trains, pieces   ┌ Stream ──────────────────────────┐        ┌ you ┐
//!   captures, queues ─▶│ one each      │ ────────────────▶│ heaps by counter, each in memory │ ─ring─▶│ get │
//!                      └───────────────┘ one copy         │ of its own; ends by rule or time │        └─────┘
//!                                                         └──────────────────────────────────┘
//! ```
//!
//! ```
//! use skyhaul::inproc::InprocQueue;
//! use skyhaul::spead::receive::{GetError, Stream, StreamConfig};
//! use std::time::Duration;
//! // Heap 7 of flavour SPEAD-64-48: one packet, four bytes.
//! let mut packet = b"\x53\x04\x02\x06\0\0\0\x04".to_vec();
//! for (id, value) in [(1u64, 7u64), (2, 4), (3, 0), (4, 4)] {
//!     packet.extend((1 << 63 | id << 48 | value).to_be_bytes());
//! }
//! packet.extend(b"data");
//!
//! let stream = Stream::new(&StreamConfig::default());
//! let queue = InprocQueue::default();
//! stream.add_inproc(queue.clone())?;
//! queue.push(&packet, Duration::ZERO)?;
//! queue.close();
//! let heap = stream.get(Some(Duration::from_secs(5)))?;
//! assert_eq!((heap.number, heap.payload()), (7, &b"data"[..]));
//! assert_eq!(stream.get(None).unwrap_err(), GetError::Stopped);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ends
//!
//! A *heap* ends when it is complete, when as many began after it as the window holds, at its timeout, or with its stream.
//! A *stream* ends with a stop item, when all readers have ended, when nothing arrived for the idle timeout, at its
//! deadline, at a limit, or by [`Stream::stop`]. So neither a lost packet nor a lost stop item makes a caller wait for
//! ever, and invalid packets end nothing. All losses are counted: see [`Stats`].
//!
//! # Limits
//!
//! Memory: that of the heaps ([`StreamConfig::memory`]), some hundred bytes for each entry of ring and window, and what
//! `remember` and `senders` allow. A heap that states more than [`KeyedConfig::largest`] is rejected before it gets any.
//! The clock is read every 16 trains; a timeout may be 20 ms late. Readers handle timeouts; for a stream without one,
//! [`Stream::get`] does.

pub mod batch;
pub mod chunk;
pub mod placed;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::receive::keyed::{
    Full, GetError, KeyedBy, Missing, ReaderStats, Stats, StopRule, StreamConfig, StreamCounts, StreamEnd,
    TcpReaderOptions,
};
pub use skyhaul_core::assembly::{Cause, KeyedConfig};
pub use skyhaul_io::memory::heap::{HeapBytes, HeapMemory};

use crate::receive::keyed::{Object, ObjectStream};
use skyhaul_core::wire::spead::{
    BugCompat, Descriptor, DescriptorError, Flavour, RawItem, SpeadWire, id, items,
};

/// Heaps from any number of readers. Clones are handles of one stream; when the last is dropped, the stream stops.
pub type Stream = ObjectStream<SpeadWire>;

/// A received heap: payload, item pointers, and what is known about it.
pub type Heap = Object<SpeadWire>;

impl Heap {
    /// How its pointers divide into mode, id and value.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.kept.flavour
    }

    /// Its item pointers in native byte order, each once, in order of arrival, without those that every packet has
    /// (counter, size, offset, length).
    #[must_use]
    pub fn pointers(&self) -> &[u64] {
        self.kept.pointers()
    }

    /// Its items: addressed ones by address, then immediate ones.
    #[must_use]
    pub fn items(&self) -> Vec<RawItem> {
        items::items(self.flavour(), self.pointers(), self.payload().len() as u64)
    }

    /// The bytes of an addressed item of this heap; empty for an immediate one.
    #[must_use]
    pub fn item_bytes(&self, item: &RawItem) -> &[u8] {
        let (start, end) = (usize::try_from(item.range.start), usize::try_from(item.range.end));
        start.ok().zip(end.ok()).and_then(|(start, end)| self.payload().get(start..end)).unwrap_or_default()
    }

    /// The value of the last immediate item with this id.
    #[must_use]
    pub fn immediate(&self, id: u64) -> Option<u64> {
        let mut parts = self.pointers().iter().map(|&pointer| self.flavour().parts(pointer));
        parts.rfind(|item| item.immediate && item.id == id).map(|item| item.value)
    }

    /// Its descriptors. Each is read separately: an invalid one does not hide the others.
    ///
    /// # Errors
    /// For each invalid descriptor, the reason.
    pub fn descriptors(
        &self,
        compat: BugCompat,
    ) -> impl Iterator<Item = Result<Descriptor, DescriptorError>> + '_ {
        let found = self.items().into_iter().filter(|item| item.id == id::DESCRIPTOR && !item.immediate);
        found.map(move |item| Descriptor::read(self.item_bytes(&item), compat))
    }

    /// Whether an immediate stream control starts a stream (value 0).
    #[must_use]
    pub fn is_start_of_stream(&self) -> bool {
        self.has_control(0)
    }

    /// Whether an immediate stream control ends the stream (value 2).
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.has_control(2)
    }

    fn has_control(&self, value: u64) -> bool {
        let control = self.flavour().immediate(id::STREAM_CONTROL, value);
        self.pointers().contains(&control)
    }
}
