//! The user's side of a receiving stream.

use super::config::{StreamConfig, TcpReaderOptions};
use super::object::Object;
use super::readers::{Readers, reader_methods};
use super::ring::{GetError, Ring};
use super::state::StreamState;
use super::stats::{Ended, Stats};
use super::store::ObjectStore;
use crate::inproc::InprocQueue;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::address::Endpoint;
use skyhaul_io::source::Source;
use skyhaul_io::udp::UdpOptions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a call sleeps before it handles timeouts itself, if no reader does.
const SLICE: Duration = Duration::from_millis(50);

/// Heaps from any number of readers. See the [module](super). Clones are handles of one stream, which stops when the last
/// is dropped.
pub struct ObjectStream<W: Keyed> {
    pub(crate) readers: Arc<Readers<ObjectStore<W>>>,
}

impl<W: Keyed> Clone for ObjectStream<W> {
    fn clone(&self) -> Self {
        Self { readers: self.readers.clone() }
    }
}

impl<W: Keyed> std::fmt::Debug for ObjectStream<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("name", &self.readers.core.name).finish_non_exhaustive()
    }
}

/// Nanoseconds since 1970.
pub(crate) fn wall() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

impl<W: Keyed> ObjectStream<W> {
    /// A stream without readers. Its deadline counts from here.
    ///
    /// # Panics
    /// If [`KeyedConfig::check`](skyhaul_core::assembly::KeyedConfig::check) rejects its limits.
    #[must_use]
    pub fn new(config: &StreamConfig) -> Self {
        let store = ObjectStore::new(config, wall());
        let ring = Arc::new(Ring::new(config.ring));
        Self { readers: Arc::new(Readers::new(StreamState::new(config, Instant::now(), store, ring))) }
    }

    reader_methods!();

    /// The next heap; waits at most `timeout` (`None`: until the stream ends).
    ///
    /// # Errors
    /// If nothing arrived within the timeout, or the stream has ended and every heap was taken.
    pub fn get(&self, timeout: Option<Duration>) -> Result<Object<W>, GetError> {
        let core = &self.readers.core;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut heap = loop {
            let slice = core.is_idle().then(|| Instant::now() + SLICE);
            let this = [until, slice].into_iter().flatten().min();
            match core.ring.pop(this) {
                Err(GetError::Empty) if until.is_none_or(|until| Instant::now() < until) => core.tick_alone(),
                other => break other?,
            }
        };
        heap.blank();
        Ok(heap)
    }

    /// The next heap, without waiting.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn try_get(&self) -> Result<Object<W>, GetError> {
        let core = &self.readers.core;
        let mut heap = match core.ring.try_pop() {
            Err(GetError::Empty) if core.is_idle() => return self.get(Some(Duration::ZERO)),
            other => other?,
        };
        heap.blank();
        Ok(heap)
    }

    /// Append the queued heaps, at most `most`, to `into`, with one lock and without waiting. Returns how many.
    pub fn get_many(&self, into: &mut Vec<Object<W>>, most: usize) -> usize {
        let before = into.len();
        let count = self.readers.core.ring.pop_many(into, most);
        into[before..].iter_mut().for_each(Object::blank);
        count
    }

    /// Maximum number of queued heaps.
    pub(crate) fn capacity(&self) -> usize {
        self.readers.core.ring.capacity()
    }

    /// A descriptor that is readable while a heap is queued or the stream has ended, for event loops.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.readers.core.ring.ready_fd()
    }
}
