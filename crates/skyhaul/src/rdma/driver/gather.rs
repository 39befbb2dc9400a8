//! What is handed to the kernel, gathered where it lies.

use super::Driver;
use super::link::Link;
use crate::rdma::memory::{Memory, PATTERNS, pattern_object};
use skyhaul_core::pattern;
use skyhaul_core::rdma::{MemorySlice, RdmaTrailer, RdmaTransmit, RemoteAddress};
use skyhaul_io::fault::Damage;
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::udp::forward::Forwarded;
use std::io::IoSlice;
use std::ops::Range;

/// Where a part of a datagram lies while it is sent.
enum Piece {
    Scratch(Range<usize>),
    Pattern(&'static [u8]),
    Bytes(usize, Range<usize>),
}

impl Driver {
    /// Hand over what is ready, counted in this tally of streams. Returns what became of datagrams.
    pub(super) fn put(&mut self, tally: usize) -> Forwarded {
        let mut sent = Forwarded::default();
        let ready = std::mem::take(&mut self.ready);
        let is_stream = self.link.is_stream();
        for to_one in ready.chunk_by(|(one, _), (next, _)| {
            one.to == next.to && (!is_stream || one.connection == next.connection)
        }) {
            sent.add(&self.put_to(to_one, tally));
        }
        self.ready = ready;
        self.ready.clear();
        sent
    }

    fn put_to(&mut self, datagrams: &[(RdmaTransmit, Damage)], tally: usize) -> Forwarded {
        self.scratch.clear();
        // Nothing refers to the scratch until it is whole.
        let mut pieces: Vec<(Option<&[u8]>, Piece, RdmaTrailer)> = Vec::with_capacity(datagrams.len());
        for (transmit, damage) in datagrams {
            let payload = transmit.payload.map_or(Piece::Scratch(0..0), |slice| self.piece(slice));
            let bytes = bytes_of(&self.memories, &self.scratch.bytes, &payload);
            if *damage == Damage::NONE {
                let trailer = transmit.trailer(bytes, crc32c::crc32c_append);
                pieces.push((Some(&transmit.head), payload, trailer));
                continue;
            }
            let whole = transmit.assemble(bytes);
            let at = self.scratch.take(whole.len());
            let copy = &mut self.scratch.bytes[at.clone()];
            copy.copy_from_slice(&whole);
            let kept = damage.apply(copy);
            pieces.push((None, Piece::Scratch(at.start..at.start + kept), RdmaTrailer::default()));
        }
        let (mut slices, mut extents) =
            (Vec::with_capacity(3 * pieces.len()), Vec::with_capacity(pieces.len()));
        for (head, piece, trailer) in &pieces {
            let (first, mut bytes) = (slices.len(), 0);
            let body = bytes_of(&self.memories, &self.scratch.bytes, piece);
            for part in [head.unwrap_or_default(), body, trailer.as_ref()] {
                bytes += part.len();
                if !part.is_empty() {
                    slices.push(IoSlice::new(part));
                }
            }
            if bytes == 0 {
                // A datagram without bytes is one too.
                slices.push(IoSlice::new(&[]));
            }
            extents.push(Extent { first, bytes });
        }
        let (all, first) = (Gathered::new(&slices, &extents), &datagrams[0].0);
        match &mut self.link {
            Link::Udp(outlet) => outlet.forward(first.to, all),
            Link::Tcp(streams) => {
                streams.write(first.connection, tally, all, &mut self.endpoint);
                Forwarded::default()
            }
        }
    }

    /// Sends a Write that fits one datagram, in this call: one system call, no copy, no memory. `false`: it is to be posted.
    pub(in crate::rdma) fn write_short(&mut self, connection: u32, to: RemoteAddress, bytes: &[u8]) -> bool {
        let now = self.now();
        // Injected faults take segments from the queue.
        let Link::Udp(outlet) = &mut self.link else { return false };
        if self.line.is_some() || !self.ready.is_empty() {
            return false;
        }
        let Some(short) = self.endpoint.write_short(connection, to, bytes.len() as u64, now) else {
            return false;
        };
        let sent = outlet.forward_one(short.to, &short.head, bytes);
        self.segments += 1;
        self.sent_segments.add(&sent);
        true
    }

    /// Where the bytes of a slice are; those that may change are copied.
    fn piece(&mut self, slice: MemorySlice) -> Piece {
        let length = slice.length as usize;
        if slice.memory >= PATTERNS {
            let object = pattern_object(slice.memory.into());
            return Piece::Pattern(pattern::slice(object, slice.start, length));
        }
        match self.memories.get(slice.memory as usize) {
            Some(Memory::Bytes(_)) => {
                let start = slice.start as usize;
                Piece::Bytes(slice.memory as usize, start..start + length)
            }
            Some(Memory::Remote(memory)) => {
                let at = self.scratch.take(length);
                memory.copy(slice.start, &mut self.scratch.bytes[at.clone()]);
                Piece::Scratch(at)
            }
            Some(Memory::Free) | None => Piece::Scratch(0..0),
        }
    }
}

fn bytes_of<'a>(memories: &'a [Memory], scratch: &'a [u8], piece: &Piece) -> &'a [u8] {
    match piece {
        Piece::Scratch(range) => &scratch[range.clone()],
        Piece::Pattern(bytes) => bytes,
        Piece::Bytes(memory, range) => match &memories[*memory] {
            Memory::Bytes(bytes) => &(**bytes).as_ref()[range.clone()],
            Memory::Remote(_) | Memory::Free => &[],
        },
    }
}
