//! TCP readers: packets of any length from any number of connections.
//!
//! A long packet that is a whole heap gets the heap's memory when its head has arrived, and the socket is read directly
//! into it; the stream's lock is taken twice for such a heap, regardless of its length. All other packets are placed
//! piece by piece.
//!
//! If there is no memory, only the connection that needs it waits, and its sender is held back by TCP. A heap that holds
//! memory without progress is given up ([`Growing::is_stuck`]).

use super::config::TcpReaderOptions;
use super::state::{ReaderState, StreamState};
use super::store::Store;
use super::table::{WholeHeap, nanos};
use super::train::{MEMORY_TIMEOUT, TableLock};
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::source::SourceStats;
use skyhaul_io::tcp::pieces::{
    Found, Heads, Piece, PieceEvent, PieceOptions, PieceSink, PieceSource, PieceStats,
};
use skyhaul_io::tcp::{EndWithLast, TcpPort};
use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// TCP connections as the input of a reader.
pub(crate) struct TcpInput<S: Store> {
    source: PieceSource,
    end: EndWithLast,
    states: TcpStates<S::Block>,
    /// A heap without data for this long is given up.
    heap_timeout: Option<Nanos>,
    /// When the last poll ended.
    polled: Nanos,
}

impl<S: Store> TcpInput<S> {
    pub(crate) fn new(port: TcpPort, options: &TcpReaderOptions, core: &StreamState<S>) -> Self {
        let limits = piece_options(options, core.largest);
        Self {
            source: PieceSource::of(port, Box::new(HeadsOf::<S::Wire>(PhantomData)), &limits),
            end: EndWithLast::new(options.end_with_last && options.connections.is_none()),
            states: TcpStates {
                whole: BTreeMap::new(),
                refused: BTreeMap::new(),
                waiting: BTreeMap::new(),
                moved: Nanos(0),
                hopeless: false,
            },
            heap_timeout: core.heap_timeout,
            polled: Nanos(0),
        }
    }

    /// Wait up to `me.poll_wait` for packets, and place them. Returns how many were complete.
    pub(crate) fn poll(&mut self, core: &StreamState<S>, me: &mut ReaderState<S::Out>) -> io::Result<usize> {
        let wait = self.end.wait(me.poll_wait);
        let states = &mut self.states;
        if !states.whole.is_empty() {
            let away = core.now().since(self.polled);
            states.whole.values_mut().for_each(|growing| growing.excuse(away));
        }
        let (before, waited) = (me.counts.packets, states.waiting.len());
        let mut reader = PieceReader { core, held: TableLock::new(core), me, states };
        let polled = self.source.poll(wait, &mut reader);
        reader.give_up_stuck(self.heap_timeout);
        reader.done();
        // The difference may be negative; it wraps, and so does the sum.
        core.waiting.fetch_add(self.states.waiting.len().wrapping_sub(waited), Ordering::Relaxed);
        if !self.states.whole.is_empty() {
            self.polled = core.now();
        }
        polled?;
        self.end.note_poll(me.counts.connections, self.source.connections());
        Ok((me.counts.packets - before) as usize)
    }

    /// Nothing more is read: add the heaps under way to the table, as far as received.
    pub(crate) fn close(&mut self, core: &StreamState<S>, me: &mut ReaderState<S::Out>) {
        me.now = core.now();
        core.waiting.fetch_sub(self.states.waiting.len(), Ordering::Relaxed);
        self.states.waiting.clear();
        let mut reader = PieceReader { core, held: TableLock::new(core), me, states: &mut self.states };
        self.source.close(&mut reader);
        let open: Vec<u64> = reader.states.whole.keys().copied().collect();
        open.into_iter().for_each(|connection| reader.finish_whole(connection, false));
        reader.held.release(reader.me);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.source.is_finished() || self.end.has_ended()
    }

    pub(crate) fn stats(&self) -> SourceStats {
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

    pub(crate) fn connections(&self) -> PieceStats {
        self.source.stats()
    }
}

/// Places the pieces of one poll.
struct PieceReader<'a, 'b, S: Store> {
    core: &'a StreamState<S>,
    held: TableLock<'a, S>,
    me: &'b mut ReaderState<S::Out>,
    states: &'b mut TcpStates<S::Block>,
}

impl<S: Store> PieceReader<'_, '_, S> {
    /// Place a piece and count it. Returns `false`, without counting, if there is no memory and it `may_wait`.
    fn piece(&mut self, piece: &Piece<'_>, may_wait: bool) -> bool {
        if piece.at == 0 {
            self.states.refused.remove(&piece.connection);
        }
        if let Some(growing) = self.states.whole.get_mut(&piece.connection) {
            let at = growing.heap.filled as usize;
            if let Some(place) = S::memory(&mut growing.heap.block, at, piece.bytes.len()) {
                skyhaul_io::copy::place(place, piece.bytes);
                self.note_bytes(piece.connection, piece.bytes.len());
            }
        } else if !self.is_skipped(piece.connection) {
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
    fn is_skipped(&mut self, connection: u64) -> bool {
        match self.states.refused.get_mut(&connection) {
            None => false,
            // Without its beginning, a heap that must be complete is useless.
            Some(PacketRejected::Counted) => !S::FILLED_OUTSIDE,
            Some(PacketRejected::Skipped) => true,
            Some(refused @ PacketRejected::GivenUp) => {
                *refused = PacketRejected::Skipped;
                self.me.counts.rejects.add(Reject::Late);
                true
            }
        }
    }

    fn refuse(&mut self, piece: &Piece<'_>, why: Reject) {
        self.me.counts.refused_bytes += piece.bytes.len() as u64;
        let whole = piece.is_last() && piece.at == 0;
        if whole || self.states.refused.insert(piece.connection, PacketRejected::Counted).is_none() {
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
        let stuck = now.since(since.max(self.states.moved)) >= nanos(MEMORY_TIMEOUT);
        self.states.hopeless = stuck && self.core.ring.len() == 0 && self.core.opening.is_none();
        !self.states.hopeless
    }

    fn place(&mut self, piece: &Piece<'_>) -> Result<(), Reject> {
        let head = S::Wire::peek(piece.head)?.ok_or(Reject::Truncated)?;
        let part = S::Wire::placement(&head, 0);
        let sender = StreamState::sender(self.held.table(), self.me, piece.sender)?;
        let long = piece.at == 0 && !piece.is_last() && part.offset == 0 && part.size == Some(part.length);
        if long && let Some(mut heap) = self.held.table().begin_whole(&head, &sender, &mut self.me.counts) {
            if let Some(place) = S::memory(&mut heap.block, 0, piece.bytes.len()) {
                skyhaul_io::copy::place(place, piece.bytes);
                heap.filled = piece.bytes.len() as u64;
            }
            self.states.whole.insert(piece.connection, Growing::new(heap, self.me.now));
            return Ok(());
        }
        if self.me.waits {
            // Only this connection is held back.
            return self.held.table().add_part(&head, piece.at, piece.bytes, &sender, self.me.delivery());
        }
        self.held.add_part(self.me, &head, piece.at, piece.bytes, &sender)
    }

    /// Count `bytes` more of a heap that arrives as one packet.
    fn note_bytes(&mut self, connection: u64, bytes: usize) {
        let Some(growing) = self.states.whole.get_mut(&connection) else { return };
        growing.heap.filled += bytes as u64;
        growing.last = self.me.now;
        let is_all = growing.heap.filled == growing.heap.bytes;
        self.states.moves(self.me.now);
        if is_all {
            self.finish_whole(connection, false);
        }
    }

    /// Pass a heap that arrives as one packet to the table, complete or as far as received. With `given_up`, it is given up
    /// without waiting for the rest.
    fn finish_whole(&mut self, connection: u64, given_up: bool) {
        let Some(Growing { heap, .. }) = self.states.whole.remove(&connection) else { return };
        if given_up {
            self.states.refused.insert(connection, PacketRejected::GivenUp);
        }
        // The data must be visible before other threads see the heap; plain reads need no fence, copies do.
        skyhaul_io::copy::fence();
        let (now, filled) = (self.me.now, heap.filled);
        if let Err(why) = self.held.table().finish_whole(heap, given_up, now, &mut self.me.counts) {
            self.me.counts.rejects.add(why);
            self.me.counts.refused_bytes += filled;
        }
    }

    /// Give up heaps that are stuck. While others grow, or wait for memory, the stream is not idle.
    fn give_up_stuck(&mut self, timeout: Option<Nanos>) {
        if self.core.ends_idle && !(self.states.whole.is_empty() && self.states.waiting.is_empty()) {
            let waits = (!self.states.waiting.is_empty()).then_some(self.me.now);
            let last = self.states.whole.values().map(|growing| growing.last).chain(waits).max();
            last.into_iter().for_each(|last| self.held.table().note_arrival(last));
        }
        if self.states.whole.is_empty() {
            return;
        }
        let now = self.core.now();
        self.me.now = now;
        let short = !self.states.waiting.is_empty() || self.core.waiting.load(Ordering::Relaxed) > 0;
        let all = self.states.whole.iter_mut();
        let stuck = all.filter_map(|(&at, growing)| growing.is_stuck(now, timeout, short).then_some(at));
        stuck.collect::<Vec<u64>>().into_iter().for_each(|connection| self.finish_whole(connection, true));
    }
}

impl<S: Store> PieceSink for PieceReader<'_, '_, S> {
    fn event(&mut self, event: PieceEvent<'_>) {
        self.core.update_clock(self.me);
        match event {
            PieceEvent::Opened { .. } => self.me.counts.connections += 1,
            PieceEvent::Refused { .. } => self.me.counts.connections_refused += 1,
            PieceEvent::Piece(piece) => drop(self.piece(&piece, false)),
            PieceEvent::Skipped { bytes, .. } => self.me.counts.skipped_bytes += bytes,
            PieceEvent::Closed { connection, how } => {
                self.me.counts.closed(how);
                self.finish_whole(connection, false);
                self.states.refused.remove(&connection);
                self.states.waiting.remove(&connection);
            }
        }
    }

    fn offer(&mut self, piece: &Piece<'_>) -> bool {
        self.core.update_clock(self.me);
        self.piece(piece, true)
    }

    fn room(&mut self, connection: u64, _: &[u8], _: u64, most: usize) -> Option<&mut [u8]> {
        let growing = self.states.whole.get_mut(&connection)?;
        let at = growing.heap.filled;
        let most = most.min(usize::try_from(growing.heap.bytes - at).unwrap_or(most));
        S::memory(&mut growing.heap.block, at as usize, most)
    }

    fn filled(&mut self, connection: u64, bytes: usize) {
        if bytes == 0 {
            // Still silent.
            return;
        }
        self.core.update_clock(self.me);
        self.me.counts.bytes += bytes as u64;
        let growing = self.states.whole.get(&connection);
        let last = growing.is_some_and(|c| c.heap.filled + bytes as u64 == c.heap.bytes);
        self.me.counts.packets += u64::from(last);
        self.note_bytes(connection, bytes);
    }

    fn done(&mut self) {
        self.me.counts.trains += 1;
        self.held.release(self.me);
    }
}

/// If heaps have no timeout, one that is silent for this long is still given up while a connection waits for memory.
const MAX_SILENCE: Nanos = Nanos(5 * Nanos::SECOND.0);
/// While a connection waits for memory, a heap must grow by this fraction of its size in each heap timeout.
const GROWTH_DIVISOR: u64 = 64;

/// State of connections, by number.
struct TcpStates<B> {
    /// Heaps that arrive as one long packet.
    whole: BTreeMap<u64, Growing<B>>,
    /// Packets of which a part was rejected.
    refused: BTreeMap<u64, PacketRejected>,
    /// Connections that wait for memory, with the time since when.
    waiting: BTreeMap<u64, Nanos>,
    /// When a byte was last placed.
    moved: Nanos,
    /// None was placed for long, although connections waited: no new waits until one is.
    hopeless: bool,
}

/// A heap that arrives as one long packet.
struct Growing<B> {
    heap: WholeHeap<B>,
    /// When data last arrived for it.
    last: Nanos,
    /// Start of the measurement of its growth, and its bytes then.
    since: (Nanos, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketRejected {
    /// It is counted; its other parts may be placed.
    Counted,
    /// It is counted, and the rest is skipped.
    Skipped,
    /// Its heap was given up: further data are late.
    GivenUp,
}

impl<B> TcpStates<B> {
    /// A byte was placed.
    fn moves(&mut self, now: Nanos) {
        (self.moved, self.hopeless) = (now, false);
    }
}

impl<B> Growing<B> {
    fn new(heap: WholeHeap<B>, now: Nanos) -> Self {
        Self { since: (now, heap.filled), heap, last: now }
    }

    /// Whether to give up the heap: it is silent, or it hardly grows while others wait for memory.
    fn is_stuck(&mut self, now: Nanos, timeout: Option<Nanos>, short: bool) -> bool {
        let limit = timeout.unwrap_or(MAX_SILENCE);
        if (short || timeout.is_some()) && now.since(self.last) >= limit {
            return true;
        }
        let (since, before) = self.since;
        if now.since(since) < limit {
            return false;
        }
        let grown = self.heap.filled - before;
        self.since = (now, self.heap.filled);
        short && grown < self.heap.bytes / GROWTH_DIVISOR
    }

    /// Exclude a time in which the connection was not read.
    fn excuse(&mut self, away: Nanos) {
        self.last = self.last.plus(away);
        self.since.0 = self.since.0.plus(away);
    }
}

/// The heads of a family's packets in a stream of bytes.
struct HeadsOf<W>(PhantomData<W>);

impl<W: Keyed> Heads for HeadsOf<W> {
    fn find(&self, bytes: &[u8]) -> Found {
        match W::peek(bytes) {
            Ok(None) => Found::More,
            Ok(Some(head)) => {
                let place = W::placement(&head, 0);
                Found::Packet { head: place.start as usize, body: place.length }
            }
            Err(_) => Found::Garbage,
        }
    }

    fn longest_head(&self) -> usize {
        W::LONGEST_HEAD
    }

    fn magic(&self) -> &[u8] {
        W::MAGIC
    }
}

fn piece_options(config: &TcpReaderOptions, largest: u64) -> PieceOptions {
    PieceOptions {
        longest_body: largest.max(4 << 30),
        accept: config.connections,
        connections: config.at_once,
        keepalive: config.keepalive,
        ..PieceOptions::default()
    }
}
