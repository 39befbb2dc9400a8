//! The packets of a recording, chunk by chunk.

use super::fed::Input;
use super::input::Bytes;
use super::own::Reader;
use super::state::StreamState;
use super::store::Store;
use crate::recording::{Next, Reader as ChunkReader};
use skyhaul_io::source::SourceStats;
use std::io;

/// Reads a recording's chunks ahead; packets are placed from memory.
pub(crate) struct Recorded {
    reader: ChunkReader,
    /// The part of the next chunk read so far.
    gathered: Vec<u8>,
    /// The chunk being placed.
    chunk: Option<Bytes<Vec<u8>>>,
    /// A heap that may continue in the next chunk.
    heap: Option<u64>,
    ended: bool,
    packets: u64,
    bytes: u64,
}

impl Recorded {
    pub(crate) fn new(reader: ChunkReader) -> Self {
        Self { reader, gathered: Vec::new(), chunk: None, heap: None, ended: false, packets: 0, bytes: 0 }
    }
}

impl<S: Store> Input<S> for Recorded {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        if let Some(chunk) = &mut self.chunk {
            let packets = chunk.look(core, me)?;
            self.packets += packets as u64;
            if Input::<S>::is_finished(chunk) {
                self.heap = chunk.heap();
                self.chunk = None;
            }
            return Ok(packets);
        }
        let is_whole = match self.reader.next_within(me.wait)? {
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
            self.chunk = Some(Bytes::heap_by_heap(std::mem::take(&mut self.gathered), self.heap));
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
