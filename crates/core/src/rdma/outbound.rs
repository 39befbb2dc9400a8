//! Operations on their way out, cut into segments for the path.

use super::event::{MemorySlice, RemoteAddress};
use crate::wire::crc32c::{Crc32cAppend, crc32c_append};
use crate::wire::rdma::RdmaProfile;
use crate::wire::rdma::ddp::{DdpHeader, DdpTagged, DdpUntagged};
use crate::wire::rdma::mpa::{CRC_BYTES, crc_octets};
use crate::wire::rdma::rdmap::{ImmediateData, RdmapOpcode, ReadRequest};
use crate::wire::rdma::shim::{self, UcShim};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// A datagram to be sent, or an FPDU to be written to a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaTransmit {
    /// The peer.
    pub to: SocketAddr,
    /// The connection; 0 for an answer without state.
    pub connection: u32,
    /// What precedes the payload.
    pub head: Vec<u8>,
    /// The payload, where it lies in memory.
    pub payload: Option<MemorySlice>,
    /// Zero bytes after the payload (FPDU): its pad, and the field of a CRC that neither end asked for.
    pub pad: usize,
    /// Whether a CRC-32C of all these bytes follows, least significant byte first.
    pub has_crc: bool,
    /// Whether it sets up, keeps or ends a connection, and bears no segment.
    pub is_control: bool,
}

/// Bytes before the payload of a Write (UC).
pub(super) const SHORT_HEAD_BYTES: usize = UcShim::LEN + DdpTagged::LEN;
/// Bytes behind the payload, at most: the pad of an FPDU and a CRC.
const MAX_TRAILER: usize = 3 + CRC_BYTES;

/// What follows the payload of an [`RdmaTransmit`]: pad, and CRC or the field for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaTrailer {
    bytes: [u8; MAX_TRAILER],
    length: usize,
}

impl AsRef<[u8]> for RdmaTrailer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl RdmaTransmit {
    /// The whole datagram, with `payload` read by the caller where [`payload`](Self::payload) says.
    #[must_use]
    pub fn assemble(&self, payload: &[u8]) -> Vec<u8> {
        let trailer = self.trailer(payload, crc32c_append);
        let mut bytes = Vec::with_capacity(self.head.len() + payload.len() + MAX_TRAILER);
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(trailer.as_ref());
        bytes
    }

    /// What follows the payload, for callers who gather the parts of a datagram where they lie, and have a CRC-32C of their own.
    #[must_use]
    pub fn trailer(&self, payload: &[u8], crc32c: Crc32cAppend) -> RdmaTrailer {
        debug_assert_eq!(self.payload.map_or(0, |slice| slice.length), payload.len() as u64);
        let mut trailer = RdmaTrailer { length: self.pad, ..RdmaTrailer::default() };
        if self.has_crc {
            let crc = crc32c(crc32c(0, &self.head), payload);
            let crc = crc_octets(crc32c(crc, &trailer.bytes[..self.pad]));
            trailer.bytes[self.pad..self.pad + CRC_BYTES].copy_from_slice(&crc);
            trailer.length += CRC_BYTES;
        }
        trailer
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Payload of a region of the peer: a Write or the answer to a Read, from this offset on.
    Tagged { source: MemorySlice, stag: u32, offset: u64 },
    /// A Send.
    Send { source: MemorySlice, invalidate: u32 },
    /// A few bytes.
    Short(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) opcode: RdmapOpcode,
    pub(super) body: Body,
    /// Immediate data bound to this Write: the value, and whether it is solicited.
    pub(super) bound: Option<(u64, bool)>,
    /// Asked for before.
    pub(super) is_repeated: bool,
    /// To be reported when the last byte is handed out.
    pub(super) operation: Option<u64>,
    sent: u64,
    /// The number of its message, from its first segment on.
    message: Option<u32>,
}

impl Outgoing {
    pub(super) fn new(opcode: RdmapOpcode, body: Body) -> Outgoing {
        let (bound, is_repeated, operation, sent, message) = Default::default();
        Outgoing { opcode, body, bound, is_repeated, operation, sent, message }
    }

    pub(super) fn immediate(value: u64, is_solicited: bool) -> Outgoing {
        let opcode = if is_solicited { RdmapOpcode::ImmediateSolicited } else { RdmapOpcode::Immediate };
        Outgoing::new(opcode, Body::Short(ImmediateData { value }.write().to_vec()))
    }

    pub(super) fn read(request: ReadRequest, is_repeated: bool) -> Outgoing {
        let body = Body::Short(request.write().to_vec());
        Outgoing { is_repeated, ..Outgoing::new(RdmapOpcode::ReadRequest, body) }
    }

    /// Bytes of its message, without bound immediate data.
    fn length(&self) -> u64 {
        match &self.body {
            Body::Tagged { source, .. } | Body::Send { source, .. } => source.length,
            Body::Short(octets) => octets.len() as u64,
        }
    }
}

/// The way to the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) profile: RdmaProfile,
    pub(super) to: SocketAddr,
    pub(super) connection: u32,
    /// The peer's number for the connection.
    pub(super) conn_id: u32,
    pub(super) datagram_bytes: u16,
    pub(super) has_crc: bool,
}

#[derive(Debug)]
pub(super) struct Outbound {
    queue: VecDeque<Outgoing>,
    /// Of the next datagram, message, and message on each queue of DDP.
    pub(super) psn: u32,
    pub(super) msn: u32,
    queues: [u32; 3],
    /// Answers to Reads that wait, and their bytes.
    pub(super) answers: usize,
    pub(super) answer_bytes: u64,
}

impl Default for Outbound {
    fn default() -> Self {
        Outbound { queue: VecDeque::new(), psn: 1, msn: 1, queues: [1; 3], answers: 0, answer_bytes: 0 }
    }
}

impl Outbound {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, outgoing: Outgoing) {
        if outgoing.opcode == RdmapOpcode::ReadResponse {
            self.answers += 1;
            self.answer_bytes += outgoing.length();
        }
        self.queue.push_back(outgoing);
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        (self.answers, self.answer_bytes) = (0, 0);
    }

    /// The next segment, and the operation that ends with it.
    pub(super) fn next(&mut self, path: &Path) -> Option<(RdmaTransmit, Option<u64>)> {
        let mut outgoing = self.queue.pop_front()?;
        let is_uc = path.profile == RdmaProfile::Uc;
        if outgoing.message.is_none() {
            outgoing.message = Some(self.take_number(outgoing.opcode));
        }
        let total = outgoing.length();
        let is_only_immediate = outgoing.bound.is_some() && outgoing.sent == total;
        let offset = outgoing.sent;
        let (ddp, payload, short) = if is_only_immediate {
            self.bound_immediate(&outgoing)
        } else {
            let room = room(path, matches!(outgoing.body, Body::Tagged { .. }));
            cut(&mut outgoing, room)
        };
        let is_over = outgoing.sent == total && (outgoing.bound.is_none() || is_only_immediate);
        let mut head = Vec::with_capacity(64);
        if is_uc {
            let shim = UcShim {
                first: u16::from(offset == 0),
                repeated: u16::from(outgoing.is_repeated),
                immediate: u16::from(outgoing.bound.is_some()),
                offset: offset as u32,
                ..self.shim(path)
            };
            head.extend(shim.write());
        }
        let ddp = ddp.write();
        let segment = ddp.len() + short.len() + payload.map_or(0, |slice| slice.length as usize);
        let mut pad = 0;
        if path.profile == RdmaProfile::Tcp {
            head.extend((segment as u16).to_be_bytes());
            pad = (segment + 2).next_multiple_of(4) - segment - 2;
            if !path.has_crc {
                pad += CRC_BYTES;
            }
        }
        head.extend(ddp);
        head.extend(short);
        let transmit = RdmaTransmit {
            to: path.to,
            connection: path.connection,
            head,
            payload,
            pad,
            has_crc: path.profile != RdmaProfile::Bare && path.has_crc,
            is_control: false,
        };
        let mut done = None;
        if is_over {
            self.msn = self.msn.wrapping_add(1);
            if outgoing.opcode == RdmapOpcode::ReadResponse {
                self.answers -= 1;
                self.answer_bytes -= total;
            }
            done = outgoing.operation;
        } else {
            self.queue.push_front(outgoing);
        }
        Some((transmit, done))
    }

    /// The shim of the next datagram, which is counted.
    fn shim(&mut self, path: &Path) -> UcShim {
        let (version, crc, conn_id) = (shim::VERSION, u16::from(path.has_crc), path.conn_id);
        let shim = UcShim { version, crc, conn_id, psn: self.psn, msn: self.msn, ..UcShim::default() };
        self.psn = self.psn.wrapping_add(1);
        shim
    }

    /// The head of a Write that is one datagram and the next message (UC).
    pub(super) fn short(&mut self, path: &Path, to: RemoteAddress) -> [u8; SHORT_HEAD_BYTES] {
        let shim = UcShim { first: 1, ..self.shim(path) };
        self.msn = self.msn.wrapping_add(1);
        let mut head = [0; SHORT_HEAD_BYTES];
        let (front, back) = head.split_at_mut(UcShim::LEN);
        front.copy_from_slice(&shim.write());
        back.copy_from_slice(&DdpTagged::of(RdmapOpcode::Write, true, to.stag, to.offset).write());
        head
    }

    /// The number of a message on its queue of DDP; of a tagged one, which has none, 1.
    fn take_number(&mut self, opcode: RdmapOpcode) -> u32 {
        let Some(number) = opcode.queue().and_then(|queue| self.queues.get_mut(queue as usize)) else {
            return 1;
        };
        let taken = *number;
        // 0 follows 2^32 - 1 (RFC 5041, 4.3): a peer that counts so would miss a message that was never sent.
        *number = taken.wrapping_add(1);
        taken
    }

    fn bound_immediate(&mut self, outgoing: &Outgoing) -> (DdpHeader, Option<MemorySlice>, Vec<u8>) {
        let (value, is_solicited) = outgoing.bound.unwrap_or_default();
        let body = Outgoing::immediate(value, is_solicited);
        let number = self.take_number(body.opcode);
        (DdpHeader::untagged(body.opcode, true, number, 0), None, ImmediateData { value }.write().to_vec())
    }
}

/// Room for payload in a segment.
pub(super) fn room(path: &Path, is_tagged: bool) -> u64 {
    let ddp = if is_tagged { DdpTagged::LEN } else { DdpUntagged::LEN };
    let around = match path.profile {
        RdmaProfile::Bare => 0,
        RdmaProfile::Uc => UcShim::LEN + if path.has_crc { CRC_BYTES } else { 0 },
        // Length, pad and CRC.
        RdmaProfile::Tcp => 2 + 3 + CRC_BYTES,
    };
    usize::from(path.datagram_bytes).saturating_sub(ddp + around).max(1) as u64
}

/// The next segment of an operation.
fn cut(outgoing: &mut Outgoing, room: u64) -> (DdpHeader, Option<MemorySlice>, Vec<u8>) {
    let (at, total) = (outgoing.sent, outgoing.length());
    let length = room.min(total - at);
    outgoing.sent += length;
    let is_last = outgoing.sent == total;
    let (opcode, message) = (outgoing.opcode, outgoing.message.unwrap_or_default());
    match &outgoing.body {
        Body::Tagged { source, stag, offset } => {
            let ddp = DdpHeader::tagged(opcode, is_last, *stag, offset.wrapping_add(at));
            (ddp, Some(source.part(at, length)), Vec::new())
        }
        Body::Send { source, invalidate } => {
            let ddp = DdpHeader::untagged(opcode, is_last, message, at as u32);
            (ddp.invalidating(*invalidate), Some(source.part(at, length)), Vec::new())
        }
        Body::Short(octets) => {
            outgoing.sent = total;
            (DdpHeader::untagged(opcode, true, message, 0), None, octets.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(profile: RdmaProfile) -> Path {
        let to = SocketAddr::from(([127, 0, 0, 1], 7000));
        Path { profile, to, connection: 1, conn_id: 1, datagram_bytes: 1472, has_crc: false }
    }

    /// RFC 5041, 4.3: the first MSN is 1, each message has one more, and 0 follows 2^32 - 1.
    #[test]
    fn the_number_of_a_message_wraps_to_zero() {
        let mut outbound = Outbound { queues: [u32::MAX - 1; 3], ..Outbound::default() };
        (0..4).for_each(|value| outbound.push(Outgoing::immediate(value, false)));
        let heads: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                outbound.next(&path(RdmaProfile::Bare)).map(|(transmit, _)| transmit.head).unwrap_or_default()
            })
            .collect();
        // Untagged and last, Immediate Data, nothing invalidated, queue 0, MSN, offset 0; then the value.
        let golden = |msn: u32, value: u64| {
            let fields: [&[u8]; 5] =
                [&[0x41, 0x48], &[0; 8], &msn.to_be_bytes(), &[0; 4], &value.to_be_bytes()];
            fields.concat()
        };
        assert_eq!(heads, [golden(0xFFFF_FFFE, 0), golden(0xFFFF_FFFF, 1), golden(0, 2), golden(1, 3)]);
    }

    /// A message of several segments that has the number 0 keeps it.
    #[test]
    fn all_segments_of_message_zero_have_its_number() {
        let mut outbound = Outbound { queues: [0; 3], ..Outbound::default() };
        let source = MemorySlice { memory: 0, start: 0, length: 3000 };
        outbound.push(Outgoing::new(RdmapOpcode::Send, Body::Send { source, invalidate: 0 }));
        outbound.push(Outgoing::immediate(7, false));
        let mut numbers = Vec::new();
        while let Some((transmit, _)) = outbound.next(&path(RdmaProfile::Bare)) {
            numbers.push(transmit.head[10..14].to_vec());
        }
        assert_eq!(numbers, [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]);
    }
}
