//! Frames: what a path sees of them, and how a train is divided.
//!
//! ```text
//!   virtio │ Ethernet │ IP │ TCP or UDP │ payload of packet 0 │ 1 │ 2 │ … │ n - 1
//!          └───── copied and adjusted ──┘          └─ 1..3 ─┘ stays where it is
//! ```
//!
//! Limits: IP without extension headers; others pass as one packet of no flow, and what is not IP passes unjudged.

use skyhaul_io::fault::path::{Flow, Packet};
use skyhaul_io::packet::{Piece, VIRTIO, Virtio};
use std::net::IpAddr;
use std::ops::Range;

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const IGMP: u8 = 2;

/// Where the parts of a frame lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    v6: bool,
    /// Where the header of the transport begins.
    pub(super) transport: usize,
    /// Where the payload begins.
    pub(super) payload: usize,
    pub(super) flow: Flow,
    opens: bool,
}

/// Reads the headers of a frame; `None` if no path judges it: neighbour discovery, multicast, router messages.
pub(super) fn read(frame: &[u8]) -> Option<Shape> {
    let ip = frame.get(ETHERNET..)?;
    match frame.get(12..ETHERNET)? {
        [0x08, 0x00] => ipv4(ip),
        [0x86, 0xDD] => ipv6(ip),
        _ => None,
    }
}

fn ipv4(ip: &[u8]) -> Option<Shape> {
    let fixed: &[u8; 20] = ip.first_chunk()?;
    let header = usize::from(fixed[0] & 15) * 4;
    if header < 20 || fixed[9] == IGMP {
        return None;
    }
    let address = |at: usize| IpAddr::from([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let flow = Flow { protocol: fixed[9], from: address(12), to: address(16), ..Flow::default() };
    // A later fragment has no ports.
    let first = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1FFF == 0;
    Some(transport(ip, header, false, flow, first))
}

fn ipv6(ip: &[u8]) -> Option<Shape> {
    let fixed: &[u8; 40] = ip.first_chunk()?;
    // RFC 4861 §4, RFC 3810 §5.2: routers, neighbours, groups.
    if fixed[6] == ICMP6 && ip.get(40).is_some_and(|kind| matches!(kind, 130..=137 | 143)) {
        return None;
    }
    // A group's report stands behind a hop-by-hop header.
    if fixed[6] == 0 {
        return None;
    }
    let address = |at: usize| ip[at..].first_chunk::<16>().map(|octets| IpAddr::from(*octets));
    let flow = Flow { protocol: fixed[6], from: address(8)?, to: address(24)?, ..Flow::default() };
    Some(transport(ip, 40, true, flow, true))
}

fn transport(ip: &[u8], header: usize, v6: bool, mut flow: Flow, first: bool) -> Shape {
    let at = ETHERNET + header;
    let mut shape = Shape { v6, transport: at, payload: at, flow, opens: false };
    let Some(ports) = ip.get(header..).and_then(|rest| rest.first_chunk::<8>()).filter(|_| first) else {
        return shape;
    };
    let length = match flow.protocol {
        UDP => 8,
        TCP => ip.get(header + 12).map_or(20, |offset| usize::from(offset >> 4) * 4).max(20),
        _ => return shape,
    };
    flow.from_port = u16::from_be_bytes([ports[0], ports[1]]);
    flow.to_port = u16::from_be_bytes([ports[2], ports[3]]);
    if flow.protocol == TCP {
        shape.opens = ip.get(header + 13).is_some_and(|flags| flags & 0x12 == 0x02);
    }
    Shape { flow, payload: (at + length).min(ETHERNET + ip.len()), ..shape }
}

/// A frame that came: one packet, or a train of them.
#[derive(Debug, Default)]
pub(super) struct Train {
    pub(super) octets: Vec<u8>,
    pub(super) virtio: Virtio,
    pub(super) shape: Option<Shape>,
}

impl Train {
    pub(super) fn packets(&self) -> usize {
        match self.shape {
            Some(shape) if self.is_train() => {
                (self.octets.len() - shape.payload).div_ceil(self.virtio.each.into()).max(1)
            }
            _ => 1,
        }
    }

    fn is_train(&self) -> bool {
        let has_ports = self.shape.is_some_and(|shape| shape.payload > shape.transport);
        has_ports && self.virtio.cut() != 0 && self.virtio.each > 0
    }

    /// Where the payload of these packets lies.
    fn range(&self, packets: &Range<usize>) -> Range<usize> {
        let begin = self.shape.map_or(self.octets.len(), |shape| shape.payload);
        if !self.is_train() {
            return begin..self.octets.len();
        }
        let each = usize::from(self.virtio.each);
        let end = (begin + packets.end * each).min(self.octets.len());
        (begin + packets.start * each).min(end)..end
    }

    /// Packet number `at` of it, as a path sees it.
    pub(super) fn packet(&self, at: usize, time: u64) -> Option<Packet> {
        let shape = self.shape?;
        let octets = shape.payload + self.range(&(at..at + 1)).len();
        let (flow, opens) = (shape.flow, shape.opens);
        Some(Packet { at: time, octets: octets as u32, ip: (octets - ETHERNET) as u32, opens, flow })
    }

    /// The first octets of the payload of packet number `at`.
    pub(super) fn head_of(&self, at: usize) -> [u8; 16] {
        let payload = &self.octets[self.range(&(at..at + 1))];
        let mut head = [0; 16];
        head.iter_mut().zip(payload).for_each(|(to, from)| *to = *from);
        head
    }

    /// Make these packets of it one frame: the headers go to `head`, the payload stays. `hops` are taken from the time to live.
    pub(super) fn piece<'a>(&'a self, packets: &Range<usize>, hops: u8, head: &'a mut Vec<u8>) -> Piece<'a> {
        head.clear();
        let whole = packets.len() == self.packets();
        let Some(shape) = self.shape.filter(|_| !whole || hops > 0) else {
            head.extend(self.virtio.octets());
            return Piece { head, payload: &self.octets };
        };
        let payload = self.range(packets);
        let virtio = if packets.len() > 1 { self.virtio } else { self.virtio.single() };
        head.extend(virtio.octets());
        head.extend(&self.octets[..shape.payload]);
        let headers = &mut head[VIRTIO..];
        if !whole {
            adjust(headers, shape, packets.start, self, payload.len(), packets.end == self.packets());
        }
        live(headers, shape, hops);
        Piece { head, payload: &self.octets[payload] }
    }

    /// One packet of it with nothing left to do, so that it can be damaged.
    pub(super) fn finished(&self, at: usize, hops: u8) -> Vec<u8> {
        let mut head = Vec::new();
        let piece = self.piece(&(at..at + 1), hops, &mut head);
        let virtio = piece.head.first_chunk().map(Virtio::read).unwrap_or_default();
        let mut octets = [piece.head, piece.payload].concat();
        let (begin, place) = (usize::from(virtio.begin), usize::from(virtio.begin + virtio.offset));
        octets[..VIRTIO].copy_from_slice(&virtio.finished().octets());
        let frame = &mut octets[VIRTIO..];
        if virtio.needs_checksum() && place + 2 <= frame.len() {
            let sum = !fold(sum(&frame[begin..]));
            // RFC 768: 0 would say that there is none.
            let sum = if sum == 0 { 0xFFFF } else { sum };
            frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        }
        octets
    }
}

/// Headers of a whole train become those of a part of it.
fn adjust(headers: &mut [u8], shape: Shape, first: usize, train: &Train, payload: usize, last: bool) {
    let (at, length) = (shape.transport, shape.payload - shape.transport + payload);
    if shape.v6 {
        put(headers, ETHERNET + 4, (shape.payload - ETHERNET - 40 + payload) as u16);
    } else {
        put(headers, ETHERNET + 2, (shape.payload - ETHERNET + payload) as u16);
        let number = half(headers, ETHERNET + 4).wrapping_add(first as u16);
        put(headers, ETHERNET + 4, number);
        check_ipv4(headers, at);
    }
    if shape.flow.protocol == TCP {
        let sequence = [headers[at + 4], headers[at + 5], headers[at + 6], headers[at + 7]];
        let offset = (first * usize::from(train.virtio.each)) as u32;
        let sequence = u32::from_be_bytes(sequence).wrapping_add(offset);
        headers[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
        // FIN and PSH belong to the last packet, CWR to the first.
        if !last {
            headers[at + 13] &= !0x09;
        }
        if first > 0 {
            headers[at + 13] &= !0x80;
        }
    } else {
        put(headers, at + 4, length as u16);
    }
    // The kernel finishes it: so far it is the sum of the pseudo header, which has the length.
    let addresses = if shape.v6 { ETHERNET + 8..ETHERNET + 40 } else { ETHERNET + 12..ETHERNET + 20 };
    let pseudo = sum(&headers[addresses]) + u64::from(shape.flow.protocol) + length as u64;
    put(headers, at + usize::from(train.virtio.offset), fold(pseudo));
}

/// Take routers from the time to live; it never ends here.
fn live(headers: &mut [u8], shape: Shape, hops: u8) {
    if hops == 0 {
        return;
    }
    let at = ETHERNET + if shape.v6 { 7 } else { 8 };
    headers[at] = headers[at].saturating_sub(hops).max(1);
    if !shape.v6 {
        check_ipv4(headers, shape.transport);
    }
}

fn check_ipv4(headers: &mut [u8], end: usize) {
    put(headers, ETHERNET + 10, 0);
    let check = !fold(sum(&headers[ETHERNET..end]));
    put(headers, ETHERNET + 10, check);
}

fn half(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn put(octets: &mut [u8], at: usize, value: u16) {
    octets[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// RFC 1071: the sum of 16-bit words.
fn sum(octets: &[u8]) -> u64 {
    let words =
        octets.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    words.sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
