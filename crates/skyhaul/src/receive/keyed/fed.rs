//! Readers of a stream that have no thread of their own: whoever receives gives them what is of their family.
//!
//! ```text
//!   receiving thread ── trains of its senders ──▶ FedReader ──▶ the stream's table
//!                    ── polls ──▶ Connections (TCP) ──────────▶
//! ```

use super::lock::TableLock;
use super::own::Reader;
use super::pieces::Pieces;
use super::reader::Input;
use super::state::StreamState;
use super::store::Store;
use crate::control::Gauge;
use skyhaul_core::placement::Reject;
use skyhaul_io::source::{Source, SourceStats, Train};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A reader that is given trains.
pub(crate) trait Fed: Send {
    /// Place the packets of a train.
    fn train(&mut self, train: &Train<'_>);
    /// Nothing more waits for now: keep the time, hand on what is finished.
    fn looked(&mut self);
    /// Whether the stream has ended.
    fn is_over(&self) -> bool;
    /// Nothing more comes.
    fn finish(&mut self);
}

/// See the [module](self).
pub(crate) struct FedReader<S: Store> {
    core: Arc<StreamState<S>>,
    me: Option<Reader<S::Out>>,
    /// Packets since the last look.
    packets: usize,
    /// What senders that ask are told.
    gauge: Option<Arc<Gauge>>,
}

impl<S: Store> FedReader<S> {
    pub(crate) fn new(
        core: &Arc<StreamState<S>>,
        name: String,
        waits: bool,
        gauge: Option<Arc<Gauge>>,
    ) -> Self {
        Self { core: core.clone(), me: Some(core.enter(name, waits)), packets: 0, gauge }
    }
}

impl<S: Store> Fed for FedReader<S> {
    fn train(&mut self, train: &Train<'_>) {
        let Some(me) = &mut self.me else { return };
        self.packets += train.count();
        // Not held until the next train: others may be received meanwhile.
        let mut lock = TableLock::new(&self.core);
        self.core.train(&mut lock, me, train);
        lock.finish(me);
    }

    fn looked(&mut self) {
        let Some(me) = &mut self.me else { return };
        self.core.after_look(me, std::mem::take(&mut self.packets));
        if let Some(gauge) = &self.gauge {
            gauge.no_memory.store(me.counts.rejects.get(Reject::NoBuffer), Ordering::Relaxed);
            gauge.ring_full.store(me.counts.ring_full, Ordering::Relaxed);
            gauge.ring_fill.store(self.core.ring.fill(), Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        self.core.is_over()
    }

    fn finish(&mut self) {
        if let Some(mut me) = self.me.take() {
            // Nothing more comes that could be lost meanwhile: what is finished waits for room, unless nobody takes it.
            me.waits = true;
            self.core.leave_reader(me);
        }
    }
}

impl<S: Store> Drop for FedReader<S> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// TCP connections, as a source that places by itself.
pub(crate) struct Connections<S: Store> {
    core: Arc<StreamState<S>>,
    me: Option<Reader<S::Out>>,
    pieces: Pieces<S>,
    name: String,
}

impl<S: Store> Connections<S> {
    pub(crate) fn new(core: &Arc<StreamState<S>>, name: String, pieces: Pieces<S>) -> Self {
        Self { core: core.clone(), me: Some(core.enter(name.clone(), true)), pieces, name }
    }
}

impl<S: Store> Source for Connections<S> {
    fn poll(&mut self, wait: Duration, _: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let Some(me) = &mut self.me else { return Ok(0) };
        me.wait = me.wait.min(wait);
        let packets = self.pieces.look(&self.core, me)?;
        self.core.after_look(me, packets);
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        Input::<S>::stats(&self.pieces).0
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn is_finished(&self) -> bool {
        self.core.is_over() || Input::<S>::is_finished(&self.pieces)
    }

    fn placed(&self) -> u64 {
        self.me.as_ref().map_or(0, |me| me.counts.bytes)
    }
}

impl<S: Store> Drop for Connections<S> {
    fn drop(&mut self) {
        if let Some(mut me) = self.me.take() {
            self.pieces.close(&self.core, &mut me);
            self.core.leave_reader(me);
        }
    }
}
