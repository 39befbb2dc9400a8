//! TCP readers: packets of any length from any number of connections.
//!
//! A long packet that is a whole heap gets the heap's memory when its head has arrived, and the socket is read directly
//! into it; the stream's lock is taken twice for such a heap, regardless of its length. All other packets are placed
//! piece by piece.
//!
//! If there is no memory, only the connection that needs it waits, and its sender is held back by TCP. A heap that holds
//! memory without progress is given up ([`Growing::is_stuck`]).

mod heads;
mod states;

use super::config::TcpReaderOptions;
use super::fed::Input;
use super::lock::{PATIENCE, TableLock};
use super::own::Reader;
use super::state::StreamState;
use super::store::Store;
use super::table::nanos;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::keyed::{Head, Keyed};
use skyhaul_io::source::SourceStats;
use skyhaul_io::tcp::TcpPort;
use skyhaul_io::tcp::pieces::{Piece, PieceEvent, PieceSink, PieceSource, PieceStats};
use states::{Growing, Refused, States};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// TCP connections as a reader.
pub(crate) struct Pieces<S: Store> {
    source: PieceSource,
    /// Ends when no connection is left, although more could be accepted.
    end_with_last: bool,
    /// Consecutive polls without a connection, after there had been one.
    alone: u32,
    seen: bool,
    states: States<S::Block>,
    /// A heap without data for this long is given up.
    patience: Option<Nanos>,
    /// When the last poll ended.
    looked: Nanos,
}

impl<S: Store> Pieces<S> {
    pub(crate) fn new(port: TcpPort, options: &TcpReaderOptions, core: &StreamState<S>) -> Self {
        let limits = heads::options(options, core.largest);
        Self {
            source: PieceSource::of(port, heads::heads::<S::Wire>(), &limits),
            end_with_last: options.end_with_last && options.connections.is_none(),
            alone: 0,
            seen: false,
            states: States {
                whole: BTreeMap::new(),
                refused: BTreeMap::new(),
                waiting: BTreeMap::new(),
                moved: Nanos(0),
                hopeless: false,
            },
            patience: core.patience,
            looked: Nanos(0),
        }
    }
}

impl<S: Store> Input<S> for Pieces<S> {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        // Without connections it polls once more at once: the next one may be pending.
        let wait = if self.alone > 0 && self.end_with_last { Duration::ZERO } else { me.wait };
        let states = &mut self.states;
        if !states.whole.is_empty() {
            let away = core.now().since(self.looked);
            states.whole.values_mut().for_each(|coming| coming.excuse(away));
        }
        let (before, waited) = (me.counts.packets, states.waiting.len());
        let mut feed = PieceReader { core, held: TableLock::new(core), me, states };
        let looked = self.source.poll(wait, &mut feed);
        feed.let_go(self.patience);
        feed.done();
        // The difference may be negative; it wraps, and so does the sum.
        core.waiting.fetch_add(self.states.waiting.len().wrapping_sub(waited), Ordering::Relaxed);
        if !self.states.whole.is_empty() {
            self.looked = core.now();
        }
        looked?;
        self.seen |= me.counts.connections > 0;
        self.alone = if self.seen && self.source.connections() == 0 { self.alone + 1 } else { 0 };
        Ok((me.counts.packets - before) as usize)
    }

    fn close(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) {
        me.now = core.now();
        core.waiting.fetch_sub(self.states.waiting.len(), Ordering::Relaxed);
        self.states.waiting.clear();
        let mut feed = PieceReader { core, held: TableLock::new(core), me, states: &mut self.states };
        self.source.close(&mut feed);
        let open: Vec<u64> = feed.states.whole.keys().copied().collect();
        open.into_iter().for_each(|connection| feed.give(connection, false));
        feed.held.finish(feed.me);
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished() || (self.end_with_last && self.alone > 1)
    }

    fn stats(&self) -> SourceStats {
        let stats = self.source.stats();
        SourceStats {
            packets: stats.packets,
            bytes: stats.bytes,
            trains: stats.reads,
            connections: stats.connections,
            broken: stats.resets + stats.timed_out + stats.mid_packet + stats.refused,
            tier: "tcp",
            because: "packets say their own length".into(),
            interface: stats.interface,
            remedies: stats.remedies,
            ..SourceStats::default()
        }
    }

    fn connections(&self) -> Option<PieceStats> {
        Some(self.source.stats())
    }
}

/// Places the pieces of one poll.
struct PieceReader<'a, 'b, S: Store> {
    core: &'a StreamState<S>,
    held: TableLock<'a, S>,
    me: &'b mut Reader<S::Out>,
    states: &'b mut States<S::Block>,
}

impl<S: Store> PieceReader<'_, '_, S> {
    /// Place a piece and count it. Returns `false`, without counting, if there is no memory and it `may_wait`.
    fn piece(&mut self, piece: &Piece<'_>, may_wait: bool) -> bool {
        if piece.at == 0 {
            self.states.refused.remove(&piece.connection);
        }
        if let Some(coming) = self.states.whole.get_mut(&piece.connection) {
            let at = coming.heap.filled as usize;
            if let Some(place) = S::bytes(&mut coming.heap.block, at, piece.bytes.len()) {
                skyhaul_io::copy::place(place, piece.bytes);
                self.came(piece.connection, piece.bytes.len());
            }
        } else if !self.is_passed_over(piece.connection) {
            match self.place(piece) {
                Ok(()) => self.states.moves(self.me.now),
                Err(Reject::NoBuffer) if may_wait && self.waits(piece.connection) => return false,
                Err(why) => self.refuse(piece, why),
            }
        } else {
            self.me.counts.refused_bytes += piece.bytes.len() as u64;
        }
        self.states.waiting.remove(&piece.connection);
        self.me.counts.bytes += piece.bytes.len() as u64;
        if piece.at == 0 {
            self.me.counts.bytes += piece.head.len() as u64;
        }
        self.me.counts.packets += u64::from(piece.is_last());
        true
    }

    /// Whether the rest of this connection's packet is skipped.
    fn is_passed_over(&mut self, connection: u64) -> bool {
        match self.states.refused.get_mut(&connection) {
            None => false,
            // Without its beginning, a heap that must be complete is useless.
            Some(Refused::Counted) => !S::FILLED_OUTSIDE,
            Some(Refused::Skipped) => true,
            Some(refused @ Refused::GivenUp) => {
                *refused = Refused::Skipped;
                self.me.counts.rejects.add(Reject::Late);
                true
            }
        }
    }

    fn refuse(&mut self, piece: &Piece<'_>, why: Reject) {
        self.me.counts.refused_bytes += piece.bytes.len() as u64;
        let whole = piece.is_last() && piece.at == 0;
        if whole || self.states.refused.insert(piece.connection, Refused::Counted).is_none() {
            self.me.counts.rejects.add(why);
        }
    }

    /// Whether this connection should wait for memory: heaps make progress, or the user has heaps to take, or memory to open.
    fn waits(&mut self, connection: u64) -> bool {
        if !self.me.waits || self.states.hopeless {
            return false;
        }
        let now = self.me.now;
        let since = *self.states.waiting.entry(connection).or_insert_with(|| {
            self.me.counts.blocked += 1;
            now
        });
        let stuck = now.since(since.max(self.states.moved)) >= nanos(PATIENCE);
        self.states.hopeless = stuck && self.core.ring.len() == 0 && self.core.opening.is_none();
        !self.states.hopeless
    }

    fn place(&mut self, piece: &Piece<'_>) -> Result<(), Reject> {
        let head = S::Wire::peek(piece.head)?.ok_or(Reject::Truncated)?;
        let part = head.placement(0);
        let sender = StreamState::sender(self.held.table(), self.me, piece.sender)?;
        let long = piece.at == 0 && !piece.is_last() && part.offset == 0 && part.size == Some(part.length);
        if long && let Some(mut heap) = self.held.table().begin_whole(&head, &sender, &mut self.me.counts) {
            if let Some(place) = S::bytes(&mut heap.block, 0, piece.bytes.len()) {
                skyhaul_io::copy::place(place, piece.bytes);
                heap.filled = piece.bytes.len() as u64;
            }
            self.states.whole.insert(piece.connection, Growing::new(heap, self.me.now));
            return Ok(());
        }
        if self.me.waits {
            // Only this connection is held back.
            let now = self.me.now;
            let counts = &mut self.me.counts;
            return self.held.table().part(&head, piece.at, piece.bytes, &sender, now, counts);
        }
        self.held.part(self.me, &head, piece.at, piece.bytes, &sender)
    }

    /// Count `bytes` more of a heap that arrives as one packet.
    fn came(&mut self, connection: u64, bytes: usize) {
        let Some(coming) = self.states.whole.get_mut(&connection) else { return };
        coming.heap.filled += bytes as u64;
        coming.last = self.me.now;
        let is_all = coming.heap.filled == coming.heap.bytes;
        self.states.moves(self.me.now);
        if is_all {
            self.give(connection, false);
        }
    }

    /// Pass a heap that arrives as one packet to the table, complete or as far as received. With `up`, it is given up
    /// without waiting for the rest.
    fn give(&mut self, connection: u64, up: bool) {
        let Some(Growing { heap, .. }) = self.states.whole.remove(&connection) else { return };
        if up {
            self.states.refused.insert(connection, Refused::GivenUp);
        }
        // The data must be visible before other threads see the heap; plain reads need no fence, copies do.
        skyhaul_io::copy::fence();
        let (now, filled) = (self.me.now, heap.filled);
        if let Err(why) = self.held.table().finish_whole(heap, up, now, &mut self.me.counts) {
            self.me.counts.rejects.add(why);
            self.me.counts.refused_bytes += filled;
        }
    }

    /// Give up heaps that are stuck. While others grow, or wait for memory, the stream is not idle.
    fn let_go(&mut self, timeout: Option<Nanos>) {
        if self.core.ends_idle && !(self.states.whole.is_empty() && self.states.waiting.is_empty()) {
            let waits = (!self.states.waiting.is_empty()).then_some(self.me.now);
            let last = self.states.whole.values().map(|coming| coming.last).chain(waits).max();
            last.into_iter().for_each(|last| self.held.table().heard(last));
        }
        if self.states.whole.is_empty() {
            return;
        }
        let now = self.core.now();
        self.me.now = now;
        let short = !self.states.waiting.is_empty() || self.core.waiting.load(Ordering::Relaxed) > 0;
        let all = self.states.whole.iter_mut();
        let stuck = all.filter_map(|(&at, coming)| coming.is_stuck(now, timeout, short).then_some(at));
        stuck.collect::<Vec<u64>>().into_iter().for_each(|connection| self.give(connection, true));
    }
}

impl<S: Store> PieceSink for PieceReader<'_, '_, S> {
    fn event(&mut self, event: PieceEvent<'_>) {
        self.core.look_at_clock(self.me);
        match event {
            PieceEvent::Opened { .. } => self.me.counts.connections += 1,
            PieceEvent::Refused { .. } => self.me.counts.connections_refused += 1,
            PieceEvent::Piece(piece) => drop(self.piece(&piece, false)),
            PieceEvent::Skipped { bytes, .. } => self.me.counts.skipped_bytes += bytes,
            PieceEvent::Closed { connection, how } => {
                self.me.counts.closed(how);
                self.give(connection, false);
                self.states.refused.remove(&connection);
                self.states.waiting.remove(&connection);
            }
        }
    }

    fn offer(&mut self, piece: &Piece<'_>) -> bool {
        self.core.look_at_clock(self.me);
        self.piece(piece, true)
    }

    fn room(&mut self, connection: u64, _: &[u8], _: u64, most: usize) -> Option<&mut [u8]> {
        let coming = self.states.whole.get_mut(&connection)?;
        let at = coming.heap.filled;
        let most = most.min(usize::try_from(coming.heap.bytes - at).unwrap_or(most));
        S::bytes(&mut coming.heap.block, at as usize, most)
    }

    fn filled(&mut self, connection: u64, bytes: usize) {
        if bytes == 0 {
            // Still silent.
            return;
        }
        self.core.look_at_clock(self.me);
        self.me.counts.bytes += bytes as u64;
        let coming = self.states.whole.get(&connection);
        let last = coming.is_some_and(|c| c.heap.filled + bytes as u64 == c.heap.bytes);
        self.me.counts.packets += u64::from(last);
        self.came(connection, bytes);
    }

    fn done(&mut self) {
        self.me.counts.trains += 1;
        self.held.finish(self.me);
    }
}
