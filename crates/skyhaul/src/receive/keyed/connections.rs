//! TCP connections that an engine polls: a source that places by itself.

use super::fed::{Fed, FedReader, Input};
use super::state::StreamState;
use super::store::Store;
use super::tcp::Pieces;
use crate::receive::reader::Consumer;
use skyhaul_io::source::{Source, SourceStats, Train};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// See the [module](self).
pub(crate) struct Connections<S: Store> {
    fed: FedReader<S>,
    pieces: Pieces<S>,
    name: String,
}

impl<S: Store> Connections<S> {
    pub(crate) fn new(core: &Arc<StreamState<S>>, name: String, pieces: Pieces<S>) -> Self {
        Self { fed: FedReader::new(core, name.clone(), true, None), pieces, name }
    }
}

impl<S: Store> Source for Connections<S> {
    fn poll(&mut self, wait: Duration, _: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let packets = self.fed.look(&mut self.pieces, wait)?;
        Fed::looked(&mut self.fed);
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        Input::<S>::stats(&self.pieces)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn is_finished(&self) -> bool {
        Consumer::is_over(&self.fed, &self.pieces)
    }

    fn placed(&self) -> u64 {
        self.fed.me.counts.bytes
    }
}

impl<S: Store> Drop for Connections<S> {
    fn drop(&mut self) {
        self.fed.finish(&mut self.pieces);
    }
}
