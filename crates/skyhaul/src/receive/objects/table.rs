//! The table of any one family: its input, and its finished objects.
//!
//! Separate from the list of tables, which does not depend on a family's types.

use super::sink::{ObjectCounts, Received};
use crate::control::Gauge;
use crate::receive::keyed::{Fed, FedReader, GetError, ObjectStream, Stats, TcpReaderOptions};
use skyhaul_core::wire::FamilyRef;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::TcpPort;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Objects taken from a table at a time.
const AT_ONCE: usize = 256;

/// A table of any family.
pub(super) trait Table: Send + Sync {
    fn family(&self) -> FamilyRef;
    fn feed(&self, name: String, waits: bool, gauge: Option<Arc<Gauge>>) -> Box<dyn Fed>;
    fn connections(&self, name: String, port: TcpPort, options: &TcpReaderOptions) -> Box<dyn Source>;
    /// Pass finished objects to `each` until it returns `false`. Waits for the first.
    fn take(&self, wait: Duration, each: &mut dyn FnMut(&Received<'_>) -> bool) -> Result<(), GetError>;
    /// From now on finished objects are only counted, at once, on the threads that finish them: no other thread is woken, and
    /// their memory is used again while it is in the cache.
    fn count_only(&self);
    /// Objects that were only counted.
    fn counted(&self) -> ObjectCounts;
    fn stats(&self) -> Stats;
    fn end(&self);
}

pub(super) struct TableOf<W: Keyed> {
    family: FamilyRef,
    stream: ObjectStream<W>,
    counted: Arc<Mutex<ObjectCounts>>,
}

impl<W: Keyed> TableOf<W> {
    pub(super) fn new(family: FamilyRef, stream: ObjectStream<W>) -> Self {
        Self { family, stream, counted: Arc::default() }
    }
}

impl<W: Keyed> Table for TableOf<W> {
    fn family(&self) -> FamilyRef {
        self.family
    }

    fn feed(&self, name: String, waits: bool, gauge: Option<Arc<Gauge>>) -> Box<dyn Fed> {
        Box::new(FedReader::new(&self.stream.readers.core, name, waits, gauge))
    }

    fn connections(&self, name: String, port: TcpPort, options: &TcpReaderOptions) -> Box<dyn Source> {
        Box::new(self.stream.readers.connections(name, port, options))
    }

    fn take(&self, wait: Duration, each: &mut dyn FnMut(&Received<'_>) -> bool) -> Result<(), GetError> {
        let mut objects = vec![self.stream.get(Some(wait))?];
        self.stream.get_many(&mut objects, AT_ONCE - 1);
        for object in objects {
            let received = Received::of(self.family, &object);
            if !each(&received) {
                break;
            }
        }
        Ok(())
    }

    fn count_only(&self) {
        let (family, counted) = (self.family, self.counted.clone());
        self.stream.readers.core.take_with(Box::new(move |objects| {
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            objects.for_each(|object| counted.add(&Received::of(family, &object), false));
        }));
    }

    fn counted(&self) -> ObjectCounts {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stats(&self) -> Stats {
        self.stream.stats()
    }

    fn end(&self) {
        self.stream.readers.core.end();
    }
}
