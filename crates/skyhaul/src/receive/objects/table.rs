//! The table of any one family: its input, and its finished objects.
//!
//! Separate from the list of tables, which does not depend on a family's types.

use super::sink::Received;
use crate::control::Gauge;
use crate::receive::keyed::{Fed, FedReader, GetError, ObjectStream, Stats, TcpReaderOptions};
use skyhaul_core::wire::FamilyRef;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::address::Endpoint;
use skyhaul_io::source::Source;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Objects taken from a table at a time.
const AT_ONCE: usize = 256;

/// A TCP port, with its connections so far.
#[derive(Debug)]
pub(in crate::receive) struct Port {
    pub(in crate::receive) listener: TcpListener,
    pub(in crate::receive) at: Endpoint,
    pub(in crate::receive) open: Vec<TcpStream>,
}

/// A table of any family.
pub(super) trait Table: Send + Sync {
    fn family(&self) -> FamilyRef;
    fn feed(&self, name: String, waits: bool, gauge: Option<Arc<Gauge>>) -> Box<dyn Fed>;
    fn connections(&self, port: Port, options: &TcpReaderOptions) -> io::Result<Box<dyn Source>>;
    /// Pass finished objects to `each` until it returns `false`. Waits for the first.
    fn take(&self, wait: Duration, each: &mut dyn FnMut(&Received<'_>) -> bool) -> Result<(), GetError>;
    fn stats(&self) -> Stats;
    fn end(&self);
}

pub(super) struct TableOf<W: Keyed> {
    pub(super) family: FamilyRef,
    pub(super) stream: ObjectStream<W>,
}

impl<W: Keyed> Table for TableOf<W> {
    fn family(&self) -> FamilyRef {
        self.family
    }

    fn feed(&self, name: String, waits: bool, gauge: Option<Arc<Gauge>>) -> Box<dyn Fed> {
        Box::new(FedReader::new(&self.stream.readers.core, name, waits, gauge))
    }

    fn connections(&self, port: Port, options: &TcpReaderOptions) -> io::Result<Box<dyn Source>> {
        let Port { listener, at, open } = port;
        Ok(Box::new(self.stream.readers.connections(listener, &at, open, options)?))
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

    fn stats(&self) -> Stats {
        self.stream.stats()
    }

    fn end(&self) {
        self.stream.readers.core.end();
    }
}
