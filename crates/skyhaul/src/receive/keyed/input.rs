//! What a reader with a thread of its own reads: trains, TCP connections, memory, recordings.

use super::state::{ReaderState, StreamState};
use super::store::Store;
use super::tcp::TcpInput;
use super::train::TableLock;
use crate::recording::{Next, Reader as ChunkReader};
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::source::{Source, SourceStats};
use skyhaul_io::tcp::pieces::PieceStats;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// The input of a reader.
pub(crate) enum Input<S: Store> {
    /// Anything that gives trains: UDP, captures, in-process queues.
    Source(Box<dyn Source>),
    Tcp(Box<TcpInput<S>>),
    Bytes(BytesInput),
    Recording(Box<RecordingInput>),
}

impl<S: Store> Input<S> {
    /// Wait up to `me.poll_wait` for packets, and place them. Returns how many arrived.
    pub(crate) fn poll(&mut self, core: &StreamState<S>, me: &mut ReaderState<S::Out>) -> io::Result<usize> {
        match self {
            Input::Source(source) => {
                let wait = me.poll_wait;
                let mut held = TableLock::new(core);
                let polled = source.poll(wait, &mut |train| core.add_train(&mut held, me, &train));
                held.release(me);
                polled
            }
            Input::Tcp(tcp) => tcp.poll(core, me),
            Input::Bytes(bytes) => Ok(bytes.poll(core, me)),
            Input::Recording(recording) => recording.poll(core, me),
        }
    }

    /// Nothing more is read: add what was read, and is not in the table yet.
    pub(crate) fn close(&mut self, core: &StreamState<S>, me: &mut ReaderState<S::Out>) {
        if let Input::Tcp(tcp) = self {
            tcp.close(core, me);
        }
    }

    /// Whether no more packets can arrive.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Input::Source(source) => source.is_finished(),
            Input::Tcp(tcp) => tcp.is_finished(),
            Input::Bytes(bytes) => bytes.is_finished(),
            Input::Recording(recording) => recording.is_finished(),
        }
    }

    /// Counters of the source. Costs system calls.
    pub(crate) fn stats(&self) -> SourceStats {
        match self {
            Input::Source(source) => source.stats(),
            Input::Tcp(tcp) => tcp.stats(),
            Input::Bytes(bytes) => bytes.stats(),
            Input::Recording(recording) => recording.stats(),
        }
    }

    /// Counters of TCP connections.
    pub(crate) fn connections(&self) -> Option<PieceStats> {
        match self {
            Input::Tcp(tcp) => Some(tcp.connections()),
            _ => None,
        }
    }
}

/// Consecutive packets in memory: a file, or the content of a TCP connection.
pub(crate) struct BytesInput {
    bytes: Box<dyn AsRef<[u8]> + Send>,
    at: usize,
    sender: Option<SocketAddr>,
    packets: u64,
    /// The next head has to be searched.
    lost: bool,
    /// All packets of a heap are consecutive: a heap ends where another begins.
    heap_by_heap: bool,
    /// The heap under way.
    heap: Option<u64>,
}

/// Maximum number of bytes read in one poll; a byte that is read again counts again.
const POLL_BYTES: usize = 1 << 20;

impl BytesInput {
    pub(crate) fn new(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        let bytes = Box::new(bytes);
        Self { bytes, at: 0, sender: None, packets: 0, lost: false, heap_by_heap: false, heap: None }
    }

    /// The same where all packets of a heap are consecutive; `heap` began before these bytes.
    fn heap_by_heap(bytes: Vec<u8>, heap: Option<u64>) -> Self {
        Self { heap_by_heap: true, heap, ..Self::new(bytes) }
    }

    fn poll<S: Store>(&mut self, core: &StreamState<S>, me: &mut ReaderState<S::Out>) -> usize {
        // Readers of memory are distinguished by the port of an unspecified address.
        let port = me.number as u16;
        let from = *self.sender.get_or_insert(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        let (bytes, before) = ((*self.bytes).as_ref(), self.packets);
        let mut read = 0;
        core.update_clock(me);
        let mut held = TableLock::new(core);
        while self.at < bytes.len() && read < POLL_BYTES && !core.is_over() {
            let rest = &bytes[self.at..];
            let found = if self.lost { Err(Reject::BadMagic) } else { S::Wire::peek(rest) };
            if let Ok(Some(head)) = found
                && let place = S::Wire::placement(&head, 0)
                && let Some(payload) = rest
                    .get(place.start as usize..)
                    .zip(usize::try_from(place.length).ok())
                    .and_then(|(behind, length)| behind.get(..length))
            {
                let end = place.start as usize + payload.len();
                me.counts.bytes += end as u64;
                if self.heap_by_heap
                    && self.heap.replace(place.key.number).is_some_and(|heap| heap != place.key.number)
                {
                    held.table().finish_heaps(me.now);
                }
                let sender = StreamState::sender(held.table(), me, &from);
                let placed = sender.and_then(|sender| held.add_part(me, &head, 0, payload, &sender));
                if let Err(why) = placed {
                    me.counts.rejects.add(why);
                    me.counts.refused_bytes += payload.len() as u64;
                }
                self.packets += 1;
                self.at += end;
                read += end;
                continue;
            }
            let skip = match found {
                // It ends beyond the bytes. Its payload may look like packets.
                Ok(_) => {
                    me.counts.rejects.add(Reject::Truncated);
                    rest.len()
                }
                Err(_) => {
                    let (skip, is_head) = next_head::<S::Wire>(rest, usize::from(!self.lost), &mut read);
                    self.lost = !is_head;
                    skip
                }
            };
            me.counts.skipped_bytes += skip as u64;
            self.at += skip;
        }
        let packets = self.packets - before;
        me.counts.packets += packets;
        me.counts.trains += 1;
        held.release(me);
        packets as usize
    }

    fn is_finished(&self) -> bool {
        self.at >= (*self.bytes).as_ref().len()
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            packets: self.packets,
            bytes: self.at as u64,
            tier: "bytes",
            because: "they are in memory".into(),
            ..SourceStats::default()
        }
    }
}

/// Searches the next head from `from` on. Returns its position and `true`; or, if there is none before [`POLL_BYTES`] were
/// `read`, the position reached and `false`. An invalid head counts with all bytes that were examined to reject it.
fn next_head<W: Keyed>(bytes: &[u8], from: usize, read: &mut usize) -> (usize, bool) {
    for at in from..bytes.len() {
        if *read >= POLL_BYTES {
            return (at, false);
        }
        *read += 1;
        let rest = &bytes[at..];
        if W::MAGIC.first().is_none_or(|first| rest[0] == *first) {
            if matches!(W::peek(rest), Ok(Some(_))) {
                return (at, true);
            }
            *read += W::examined(rest);
        }
    }
    (bytes.len(), false)
}

/// Reads a recording's chunks ahead; packets are placed from memory.
pub(crate) struct RecordingInput {
    reader: ChunkReader,
    /// The part of the next chunk read so far.
    gathered: Vec<u8>,
    /// The chunk being placed.
    chunk: Option<BytesInput>,
    /// A heap that may continue in the next chunk.
    heap: Option<u64>,
    ended: bool,
    packets: u64,
    bytes: u64,
}

impl RecordingInput {
    pub(crate) fn new(reader: ChunkReader) -> Self {
        Self { reader, gathered: Vec::new(), chunk: None, heap: None, ended: false, packets: 0, bytes: 0 }
    }

    fn poll<S: Store>(&mut self, core: &StreamState<S>, me: &mut ReaderState<S::Out>) -> io::Result<usize> {
        if let Some(chunk) = &mut self.chunk {
            let packets = chunk.poll(core, me);
            self.packets += packets as u64;
            if chunk.is_finished() {
                self.heap = chunk.heap;
                self.chunk = None;
            }
            return Ok(packets);
        }
        let is_whole = match self.reader.next_within(me.poll_wait)? {
            Next::NotYet => return Ok(0),
            Next::End => {
                self.ended = true;
                true
            }
            Next::Piece(piece) => {
                self.gathered.extend_from_slice(piece.bytes());
                piece.last
            }
        };
        if is_whole && !self.gathered.is_empty() {
            self.bytes += self.gathered.len() as u64;
            self.chunk = Some(BytesInput::heap_by_heap(std::mem::take(&mut self.gathered), self.heap));
        }
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.ended && self.chunk.is_none()
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            packets: self.packets,
            bytes: self.bytes,
            tier: "recording",
            because: "they are on disks".into(),
            ..SourceStats::default()
        }
    }
}

#[cfg(test)]
mod tests;
