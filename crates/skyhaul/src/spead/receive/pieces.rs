//! TCP readers: packets of any length out of any number of connections.
//!
//! A long packet that is a whole heap gets the heap's memory when its head is there, and the socket is read straight into
//! it; the stream's lock is taken twice for such a heap, whatever its length. Everything else goes the way of all packets,
//! piece by piece.

use super::config::TcpReaderOptions;
use super::core::{Core, Reader};
use super::goal::Goal;
use super::held::Held;
use super::reader::Input;
use super::table::Whole;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::spead::Head;
use skyhaul_io::source::SourceStats;
use skyhaul_io::tcp::pieces::{
    Found, Heads, Piece, PieceEvent, PieceOptions, PieceSink, PieceSource, PieceStats,
};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Item pointers of a packet on TCP, at most: a connection keeps room for so many.
const POINTERS: usize = 16_384;

/// The heads of SPEAD packets in a stream.
struct SpeadHeads;

impl Heads for SpeadHeads {
    fn find(&self, bytes: &[u8]) -> Found {
        match Head::peek(bytes) {
            Ok(None) => Found::More,
            Ok(Some(head)) => Found::Packet { head: head.start, body: head.length },
            Err(_) => Found::Garbage,
        }
    }

    fn longest_head(&self) -> usize {
        8 + 8 * POINTERS
    }

    fn magic(&self) -> &[u8] {
        &[0x53, 4]
    }
}

/// Options of the source below.
pub(super) fn options(config: &TcpReaderOptions, largest: u64) -> PieceOptions {
    PieceOptions {
        longest_body: largest.max(4 << 30),
        accept: config.connections,
        keepalive: config.keepalive,
        ..PieceOptions::default()
    }
}

/// What reads the heads.
pub(super) fn heads() -> Box<dyn Heads> {
    Box::new(SpeadHeads)
}

/// TCP connections as a reader.
pub(super) struct Pieces<G: Goal> {
    source: PieceSource,
    /// Ends when no connection is left, though more could come.
    end_with_last: bool,
    /// Looks in a row that found no connection after there had been one.
    alone: u32,
    seen: bool,
    /// Heaps that come as one long packet, by connection.
    whole: BTreeMap<u64, Coming<G::Block>>,
    /// Packets that were refused and are counted, by connection.
    refused: BTreeMap<u64, ()>,
    /// A heap of which nothing came for so long is let go.
    patience: Option<Nanos>,
}

struct Coming<B> {
    heap: Whole<B>,
    last: Nanos,
}

impl<G: Goal> Pieces<G> {
    pub(super) fn new(source: PieceSource, options: &TcpReaderOptions, patience: Option<Nanos>) -> Self {
        Self {
            source,
            end_with_last: options.end_with_last && options.connections.is_none(),
            alone: 0,
            seen: false,
            whole: BTreeMap::new(),
            refused: BTreeMap::new(),
            patience,
        }
    }
}

impl<G: Goal> Input<G> for Pieces<G> {
    fn look(&mut self, core: &Core<G>, me: &mut Reader<G::Out>) -> io::Result<usize> {
        // Alone, it looks once more at once: the next connection may be waiting.
        let wait = if self.alone > 0 && self.end_with_last { Duration::ZERO } else { me.wait };
        let (whole, refused) = (&mut self.whole, &mut self.refused);
        let before = me.counts.packets;
        let mut feed = Feed { core, held: Held::new(core), me, whole, refused };
        let looked = self.source.poll(wait, &mut feed);
        feed.let_go(self.patience);
        feed.done();
        looked?;
        self.seen |= me.counts.connections > 0;
        self.alone = if self.seen && self.source.connections() == 0 { self.alone + 1 } else { 0 };
        Ok((me.counts.packets - before) as usize)
    }

    fn close(&mut self, core: &Core<G>, me: &mut Reader<G::Out>) {
        me.now = core.now();
        let (whole, refused) = (&mut self.whole, &mut self.refused);
        let open: Vec<u64> = whole.keys().copied().collect();
        let mut feed = Feed { core, held: Held::new(core), me, whole, refused };
        open.into_iter().for_each(|connection| feed.give(connection));
        feed.held.finish(feed.me);
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished() || (self.end_with_last && self.alone > 1)
    }

    fn stats(&self) -> (SourceStats, Option<PieceStats>) {
        let stats = self.source.stats();
        let source = SourceStats {
            packets: stats.packets,
            bytes: stats.bytes,
            trains: stats.reads,
            connections: stats.connections,
            broken: stats.resets + stats.timed_out + stats.mid_packet,
            tier: "tcp",
            because: "packets say their own length".into(),
            interface: stats.interface.clone(),
            remedies: stats.remedies.clone(),
            ..SourceStats::default()
        };
        (source, Some(stats))
    }
}

/// Puts what one look brings where it belongs.
struct Feed<'a, 'b, G: Goal> {
    core: &'a Core<G>,
    held: Held<'a, G>,
    me: &'b mut Reader<G::Out>,
    whole: &'b mut BTreeMap<u64, Coming<G::Block>>,
    refused: &'b mut BTreeMap<u64, ()>,
}

impl<G: Goal> Feed<'_, '_, G> {
    fn piece(&mut self, piece: &Piece<'_>) {
        self.me.counts.bytes += piece.bytes.len() as u64;
        if piece.at == 0 {
            self.me.counts.bytes += piece.head.len() as u64;
            self.refused.remove(&piece.connection);
        }
        self.me.counts.packets += u64::from(piece.is_last());
        if let Some(coming) = self.whole.get_mut(&piece.connection) {
            let at = coming.heap.filled as usize;
            if let Some(place) = G::bytes(&mut coming.heap.block, at, piece.bytes.len()) {
                skyhaul_io::copy::place(place, piece.bytes);
                self.came(piece.connection, piece.bytes.len());
            }
            return;
        }
        if !G::FILLED_OUTSIDE && self.refused.contains_key(&piece.connection) {
            // Without its beginning the heap is of no use where only whole ones are, and it is counted already.
            return;
        }
        if let Err(why) = self.place(piece)
            && (piece.is_last() && piece.at == 0 || self.refused.insert(piece.connection, ()).is_none())
        {
            self.me.counts.rejects.add(why);
        }
    }

    fn place(&mut self, piece: &Piece<'_>) -> Result<(), Reject> {
        let head = Head::peek(piece.head)?.ok_or(Reject::Truncated)?;
        let sender = Core::sender(self.held.table(), self.me, piece.sender)?;
        let long = piece.at == 0 && !piece.is_last() && head.offset == 0 && head.size == Some(head.length);
        if long && let Some(mut heap) = self.held.table().begin_whole(&head, &sender, &mut self.me.counts) {
            if let Some(place) = G::bytes(&mut heap.block, 0, piece.bytes.len()) {
                skyhaul_io::copy::place(place, piece.bytes);
                heap.filled = piece.bytes.len() as u64;
            }
            self.whole.insert(piece.connection, Coming { heap, last: self.me.now });
            return Ok(());
        }
        self.held.part(self.me, &head, piece.at, piece.bytes, &sender)
    }

    /// So many bytes more of a heap that comes whole.
    fn came(&mut self, connection: u64, bytes: usize) {
        let Some(coming) = self.whole.get_mut(&connection) else { return };
        coming.heap.filled += bytes as u64;
        coming.last = self.me.now;
        if coming.heap.filled == coming.heap.bytes {
            self.give(connection);
        }
    }

    /// A heap that comes whole is there, or as much of it as will come: one of all heaps from now on.
    fn give(&mut self, connection: u64) {
        let Some(Coming { heap, .. }) = self.whole.remove(&connection) else { return };
        // What was read into it must be there before anybody else is told of it; plain reads need no fence, copies do.
        skyhaul_io::copy::fence();
        let now = self.me.now;
        if let Err(why) = self.held.table().finish_whole(heap, now, &mut self.me.counts) {
            self.me.counts.rejects.add(why);
        }
    }

    /// Heaps that fell silent. While others grow, the stream is not idle.
    fn let_go(&mut self, patience: Option<Nanos>) {
        if self.core.ends_idle
            && let Some(last) = self.whole.values().map(|coming| coming.last).max()
        {
            self.held.table().heard(last);
        }
        let Some(patience) = patience.filter(|_| !self.whole.is_empty()) else { return };
        self.me.now = self.core.now();
        let silent = |coming: &Coming<G::Block>| self.me.now.since(coming.last) >= patience;
        let silent: Vec<u64> = self.whole.iter().filter(|(_, c)| silent(c)).map(|(&at, _)| at).collect();
        silent.into_iter().for_each(|connection| self.give(connection));
    }
}

impl<G: Goal> PieceSink for Feed<'_, '_, G> {
    fn event(&mut self, event: PieceEvent<'_>) {
        self.core.look_at_clock(self.me);
        match event {
            PieceEvent::Opened { .. } => self.me.counts.connections += 1,
            PieceEvent::Piece(piece) => self.piece(&piece),
            PieceEvent::Skipped { bytes, .. } => self.me.counts.skipped_bytes += bytes,
            PieceEvent::Closed { connection, how } => {
                self.me.counts.closed(how);
                self.refused.remove(&connection);
                self.give(connection);
            }
        }
    }

    fn room(&mut self, connection: u64, _: &[u8], _: u64, most: usize) -> Option<&mut [u8]> {
        let coming = self.whole.get_mut(&connection)?;
        let at = coming.heap.filled;
        let most = most.min(usize::try_from(coming.heap.bytes - at).unwrap_or(most));
        G::bytes(&mut coming.heap.block, at as usize, most)
    }

    fn filled(&mut self, connection: u64, bytes: usize) {
        if bytes == 0 {
            // Looked for, and nothing there: it is still silent.
            return;
        }
        self.core.look_at_clock(self.me);
        self.me.counts.bytes += bytes as u64;
        let last = self.whole.get(&connection).is_some_and(|c| c.heap.filled + bytes as u64 == c.heap.bytes);
        self.me.counts.packets += u64::from(last);
        self.came(connection, bytes);
    }

    fn done(&mut self) {
        self.me.counts.trains += 1;
        self.held.finish(self.me);
    }
}
