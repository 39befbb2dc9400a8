//! A reader of a stream: the consumer of a thread of its own, or of whoever receives and gives it what is of its family.
//!
//! ```text
//!   thread of its own ── Input: trains, pieces, bytes, recordings ──▶ FedReader ──▶ the stream's table
//!   an engine's thread ─ trains of its senders ─────────────────────▶     "
//!                      ─ polls ──▶ Connections (TCP) ───────────────▶     "
//! ```

use super::lock::TableLock;
use super::own::{Reader, lock};
use super::state::StreamState;
use super::store::Store;
use crate::control::Gauge;
use crate::receive::reader::{Consumer, Reader as Thread};
use skyhaul_core::placement::Reject;
use skyhaul_io::host;
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::tcp::pieces::PieceStats;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// From one account of a source to the next.
const TICK: Duration = Duration::from_millis(200);

/// What a reader reads by itself.
pub(crate) trait Input<S: Store>: Send {
    /// Wait up to `me.wait` for packets and place them. Returns how many came.
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize>;

    /// Nothing more is read: hand on what is not part of the stream yet.
    fn close(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) {
        let _ = (core, me);
    }

    /// Whether nothing can come any more.
    fn is_finished(&self) -> bool;

    /// What it received and lost. Costs system calls.
    fn stats(&self) -> SourceStats;

    /// The same of TCP connections.
    fn connections(&self) -> Option<PieceStats> {
        None
    }
}

/// Anything that gives trains: UDP, captures, in-process queues.
impl<S: Store> Input<S> for Box<dyn Source> {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        let wait = me.wait;
        let mut held = TableLock::new(core);
        let looked = self.poll(wait, &mut |train| core.train(&mut held, me, &train));
        held.finish(me);
        looked
    }

    fn is_finished(&self) -> bool {
        (**self).is_finished()
    }

    fn stats(&self) -> SourceStats {
        (**self).stats()
    }
}

/// A reader that is given trains.
pub(crate) trait Fed: Send {
    /// Place the packets of a train.
    fn handle_train(&mut self, train: &Train<'_>);
    /// Nothing more waits for now: keep the time, hand on what is finished.
    fn looked(&mut self);
    /// Whether the stream has ended.
    fn is_over(&self) -> bool;
}

/// See the [module](self). It leaves the stream when it is dropped.
pub(crate) struct FedReader<S: Store> {
    core: Arc<StreamState<S>>,
    pub(super) me: Reader<S::Out>,
    /// Packets since the last look.
    packets: usize,
    /// What senders that ask are told.
    gauge: Option<Arc<Gauge>>,
    /// What made it end before its time.
    error: Option<String>,
    is_closed: bool,
    has_left: bool,
}

impl<S: Store> FedReader<S> {
    pub(crate) fn new(
        core: &Arc<StreamState<S>>,
        name: String,
        waits: bool,
        gauge: Option<Arc<Gauge>>,
    ) -> Self {
        let me = core.enter(name, waits);
        Self { core: core.clone(), me, packets: 0, gauge, error: None, is_closed: false, has_left: false }
    }

    /// Read `input` on a thread of its own until it, or the stream, ends.
    ///
    /// # Errors
    /// The stream has ended, or no thread could be started.
    pub(crate) fn spawn(
        core: &Arc<StreamState<S>>,
        name: String,
        can_be_held: bool,
        gauge: Option<Arc<Gauge>>,
        input: impl Input<S> + 'static,
    ) -> io::Result<()> {
        if core.is_over() {
            let text = format!(
                "read {name}: the stream has ended; hint: make a new one, or have it wait for start() until it has all of its \
                 readers (explicit_start)"
            );
            return Err(io::Error::new(io::ErrorKind::NotConnected, text));
        }
        if !can_be_held {
            // What cannot wait is lost while the kernel looks for memory.
            core.memory.keep_ahead(core.ahead);
        }
        let mut fed = Self::new(core, name, can_be_held, gauge);
        let cpu = core.cpu(fed.me.number);
        // The system takes no zero in it.
        let thread =
            std::thread::Builder::new().name(format!("{}-{}", core.name, fed.me.number).replace('\0', " "));
        // Known from the beginning: how large the socket's buffer is, and what would help.
        lock(&fed.me.stats).source = input.stats();
        let (give, take) = mpsc::sync_channel::<Thread<_, Self>>(0);
        let run = move || {
            if let Ok(reader) = take.recv() {
                reader.consumer.core.reads_here();
                reader.run(cpu, None);
            }
        };
        match thread.spawn(run) {
            Ok(thread) => {
                core.adopt(thread);
                // On a busy machine a new thread may wait for its first turn longer than the socket's buffer holds what comes; one
                // that waits for packets is woken at once. So whoever has added a reader has one that reads.
                let _ = give.send(Thread { input, consumer: fed, tick: TICK, drain: Duration::ZERO });
                Ok(())
            }
            Err(error) => {
                fed.has_left = true;
                core.never_ran(&fed.me.stats, &error);
                let text = format!(
                    "start a reader of {}: {error}; hint: fewer threads, or raise ulimit -u",
                    core.name
                );
                Err(io::Error::new(error.kind(), text))
            }
        }
    }

    fn exit(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.core.exit(&mut self.me, self.error.take());
        }
    }
}

impl<S: Store> Fed for FedReader<S> {
    fn handle_train(&mut self, train: &Train<'_>) {
        self.packets += train.count();
        // Not held until the next train: others may be received meanwhile.
        let mut held = TableLock::new(&self.core);
        self.core.train(&mut held, &mut self.me, train);
        held.finish(&mut self.me);
    }

    fn looked(&mut self) {
        let Self { core, me, packets, gauge, .. } = self;
        core.after_look(me, std::mem::take(packets));
        if let Some(gauge) = gauge {
            gauge.no_memory.store(me.counts.rejects.get(Reject::NoBuffer), Ordering::Relaxed);
            gauge.ring_full.store(me.counts.ring_full, Ordering::Relaxed);
            gauge.ring_fill.store(core.ring.fill(), Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        self.core.is_over()
    }
}

impl<S: Store, I: Input<S>> Consumer<I> for FedReader<S> {
    fn begin(&mut self, _: &I) {
        self.core.wait_for_start(&mut self.me);
    }

    fn poll_timeout(&self) -> Duration {
        self.me.wait
    }

    fn look(&mut self, input: &mut I, wait: Duration) -> io::Result<usize> {
        self.me.wait = self.me.wait.min(wait);
        self.packets = input.look(&self.core, &mut self.me)?;
        Ok(self.packets)
    }

    fn looked(&mut self) {
        Fed::looked(self);
    }

    fn handle_tick(&mut self, input: &I) {
        let (source, tcp) = (input.stats(), input.connections());
        let mut stats = lock(&self.me.stats);
        (stats.source, stats.tcp, stats.cpu) = (source, tcp, host::thread::cpu_time());
    }

    fn is_over(&self, input: &I) -> bool {
        self.core.is_over() || input.is_finished()
    }

    fn note(&mut self, text: String) {
        self.error = Some(text);
    }

    fn failed(&mut self, why: String) {
        self.error = Some(why);
    }

    fn finish(&mut self, input: &mut I) {
        if !std::mem::replace(&mut self.is_closed, true) {
            input.close(&self.core, &mut self.me);
        }
    }

    fn leave(&mut self) {
        self.exit();
    }
}

impl<S: Store> Drop for FedReader<S> {
    fn drop(&mut self) {
        // Nothing more comes that could be lost meanwhile: what is finished waits for room, unless nobody takes it.
        self.me.waits = true;
        self.exit();
    }
}
