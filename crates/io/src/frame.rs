//! Finds the UDP datagram in an IP packet, for packet rings and captures.
//!
//! ```text
//!   IPv4 ┬ options ┬ UDP ┬ payload ┬ padding          IPv6 ┬ extension headers ┬ UDP ┬ payload
//! ```
//!
//! It makes the checks of the kernel: lengths, the IPv4 header's checksum (RFC 791 §3.1), and on request the datagram's
//! (RFC 768, RFC 8200 §8.1).
//!
//! Limits: fragments are recognised, not joined.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why a packet contains no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoDatagram {
    /// Another protocol.
    Other,
    /// The first fragment of a datagram.
    Fragment,
    /// A later fragment, which has no port.
    LaterFragment,
    /// The headers state more than was captured.
    Truncated,
    /// A wrong length or checksum.
    Malformed,
}

/// A UDP datagram found in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) payload: &'a [u8],
    /// UDP header and payload.
    whole: &'a [u8],
}

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// Read `packet`, which begins with its IP header; `length` is its length before the capture truncated it.
#[inline]
pub(crate) fn datagram(packet: &[u8], length: usize) -> Result<Datagram<'_>, NoDatagram> {
    match packet.first().map(|b| b >> 4) {
        Some(4) => ipv4(packet, length),
        Some(6) => ipv6(packet, length),
        _ => Err(NoDatagram::Other),
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// `from..to` of `packet`; bytes cut off by the capture are distinguished from bytes that the packet never had.
#[inline]
fn part(packet: &[u8], from: usize, to: usize, length: usize) -> Result<&[u8], NoDatagram> {
    let missing = if to <= length { NoDatagram::Truncated } else { NoDatagram::Malformed };
    packet.get(from..to).ok_or(missing)
}

#[inline]
fn ipv4(packet: &[u8], length: usize) -> Result<Datagram<'_>, NoDatagram> {
    let fixed: &[u8; 20] = packet.first_chunk().ok_or(NoDatagram::Malformed)?;
    if fixed[9] != UDP {
        return Err(NoDatagram::Other);
    }
    let header = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if header < 20 || total < header {
        return Err(NoDatagram::Malformed);
    }
    if fold(sum(part(packet, 0, header, length)?)) != 0xFFFF {
        return Err(NoDatagram::Malformed);
    }
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
    if fragment & 0x1FFF != 0 {
        return Err(NoDatagram::LaterFragment);
    }
    if fragment & 0x2000 != 0 {
        return Err(NoDatagram::Fragment);
    }
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    udp(part(packet, header, total, length)?, address(12).into(), address(16).into())
}

#[inline]
fn ipv6(packet: &[u8], length: usize) -> Result<Datagram<'_>, NoDatagram> {
    let fixed: &[u8; 40] = packet.first_chunk().ok_or(NoDatagram::Malformed)?;
    let total = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let address =
        |at: usize| fixed[at..].first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |b| Ipv6Addr::from(*b));
    let (mut next, mut at) = (fixed[6], 40);
    // RFC 8200 §4.1: each of these occurs at most once or twice.
    for _ in 0..8 {
        match next {
            UDP => return udp(part(packet, at, total, length)?, address(8).into(), address(24).into()),
            // Hop-by-hop, routing, destination options: next header, length in 8 bytes beyond the first 8.
            0 | 43 | 60 => {
                let head = part(packet, at, at + 2, length)?;
                next = head[0];
                at += 8 + usize::from(head[1]) * 8;
            }
            44 => {
                let head = part(packet, at, at + 8, length)?;
                let offset = word(head, 2).unwrap_or(0) >> 3;
                return Err(match (head[0], offset) {
                    (UDP, 0) => NoDatagram::Fragment,
                    (UDP, _) => NoDatagram::LaterFragment,
                    _ => NoDatagram::Other,
                });
            }
            _ => return Err(NoDatagram::Other),
        }
    }
    Err(NoDatagram::Malformed)
}

#[inline]
fn udp(bytes: &[u8], source: IpAddr, destination: IpAddr) -> Result<Datagram<'_>, NoDatagram> {
    let header: &[u8; UDP_HEADER] = bytes.first_chunk().ok_or(NoDatagram::Malformed)?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let length = usize::from(port(4));
    let whole = bytes.get(..length).filter(|w| w.len() >= UDP_HEADER).ok_or(NoDatagram::Malformed)?;
    Ok(Datagram {
        source: SocketAddr::new(source, port(0)),
        destination: SocketAddr::new(destination, port(2)),
        payload: &whole[UDP_HEADER..],
        whole,
    })
}

impl Datagram<'_> {
    /// Whether the checksum is correct. It is optional with IPv4, required with IPv6.
    pub(crate) fn is_sound(&self) -> bool {
        if self.whole[6..8] == [0, 0] {
            return self.source.is_ipv4();
        }
        let pseudo = u64::from(UDP) + self.whole.len() as u64;
        let addresses = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => sum(&a.octets()) + sum(&b.octets()),
            (IpAddr::V6(a), IpAddr::V6(b)) => sum(&a.octets()) + sum(&b.octets()),
            _ => 0,
        };
        fold(pseudo + addresses + sum(self.whole)) == 0xFFFF
    }
}

/// Sum of 16-bit words, an odd last byte padded with zero (RFC 1071); fits 64 bits for any packet.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |&b| u64::from(b) << 8);
    words.iter().map(|w| u64::from(u16::from_be_bytes(*w))).sum::<u64>() + last
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// Packets for tests of everything that reads them.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet with `options` (a multiple of 4 bytes) around `payload`, with checksums.
    pub(crate) fn ipv4_packet(options: &[u8], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let header = 20 + options.len();
        let total = (header + 8 + payload.len()) as u16;
        let mut p = vec![0x40 | (header / 4) as u8, 0];
        p.extend(total.to_be_bytes());
        p.extend([0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        p.extend(options);
        let check = !fold(sum(&p));
        p[10..12].copy_from_slice(&check.to_be_bytes());
        add_udp(&mut p, ports, payload, sum(&[10, 0, 0, 1, 10, 0, 0, 2]));
        p
    }

    /// An IPv6 packet with `extensions` (first header number, bytes) around `payload`.
    pub(crate) fn ipv6_packet(extensions: Option<(u8, &[u8])>, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let (next, extensions) = extensions.unwrap_or((UDP, &[]));
        let mut p = vec![0x60, 0, 0, 0];
        p.extend(((extensions.len() + 8 + payload.len()) as u16).to_be_bytes());
        p.extend([next, 64]);
        p.extend([Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::LOCALHOST.octets()].concat());
        p.extend(extensions);
        add_udp(&mut p, ports, payload, 2);
        p
    }

    fn add_udp(p: &mut Vec<u8>, ports: (u16, u16), payload: &[u8], addresses: u64) {
        let start = p.len();
        let length = (8 + payload.len()) as u16;
        p.extend([ports.0.to_be_bytes(), ports.1.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat());
        p.extend(payload);
        let check = !fold(sum(&p[start..]) + u64::from(UDP) + u64::from(length) + addresses);
        p[start + 6..start + 8].copy_from_slice(&check.to_be_bytes());
    }

    fn read(packet: &[u8]) -> Result<Datagram<'_>, NoDatagram> {
        datagram(packet, packet.len())
    }

    #[test]
    fn options_extensions_and_padding_are_passed_over() {
        for packet in [
            ipv4_packet(&[], (1, 2), b"payload"),
            ipv4_packet(&[1; 40], (1, 2), b"payload"),
            ipv6_packet(None, (1, 2), b"payload"),
            ipv6_packet(
                Some((0, &[60, 0, 0, 0, 0, 0, 0, 0, UDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
                (1, 2),
                b"payload",
            ),
        ] {
            let padded = [packet.clone(), vec![0xEE; 18]].concat();
            for p in [packet, padded] {
                let d = read(&p).unwrap();
                assert_eq!((d.source.port(), d.destination.port(), d.payload), (1, 2, &b"payload"[..]));
                assert!(d.is_sound());
            }
        }
        assert_eq!(read(&ipv4_packet(&[], (1, 2), b"")).unwrap().payload, b"");
    }

    #[test]
    fn each_way_to_be_no_datagram_is_told() {
        let good = ipv4_packet(&[], (1, 2), b"payload");
        let changed = |at: usize, to: u8| {
            let mut p = good.clone();
            p[at] = to;
            p[10..12].fill(0);
            let check = !fold(sum(&p[..20]));
            p[10..12].copy_from_slice(&check.to_be_bytes());
            p
        };
        assert_eq!(read(&changed(9, 6)), Err(NoDatagram::Other));
        assert_eq!(read(&changed(6, 0x20)), Err(NoDatagram::Fragment));
        assert_eq!(read(&changed(7, 3)), Err(NoDatagram::LaterFragment));
        assert_eq!(read(&changed(25, 40)), Err(NoDatagram::Malformed), "a UDP length beyond the packet");
        assert_eq!(read(&changed(25, 7)), Err(NoDatagram::Malformed), "a UDP length below its header");
        assert_eq!(read(&changed(3, 200)), Err(NoDatagram::Malformed), "an IP length beyond the packet");
        assert_eq!(read(&changed(0, 0x44)), Err(NoDatagram::Malformed), "a header below 20 octets");
        assert_eq!(datagram(&good[..30], good.len()), Err(NoDatagram::Truncated));
        let mut p = good.clone();
        p[12] ^= 1;
        assert_eq!(read(&p), Err(NoDatagram::Malformed), "an IP checksum");
        let mut p = good.clone();
        p[30] ^= 1;
        assert!(!read(&p).unwrap().is_sound(), "a UDP checksum");
        p[26..28].fill(0);
        assert!(read(&p).unwrap().is_sound(), "IPv4 may go without");
        let mut p = ipv6_packet(None, (1, 2), b"x");
        p[46..48].fill(0);
        assert!(!read(&p).unwrap().is_sound(), "IPv6 may not");
        let head = [UDP, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(read(&ipv6_packet(Some((44, &head)), (1, 2), b"x")), Err(NoDatagram::Fragment));
        let loops = [0u8; 100];
        assert_eq!(
            read(&ipv6_packet(Some((0, &loops)), (1, 2), b"x")),
            Err(NoDatagram::Malformed),
            "headers without end"
        );
        assert_eq!(read(&[]), Err(NoDatagram::Other));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 4u8..7, length: u16) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 15;
            }
            if let Some(protocol) = bytes.get_mut(if version == 4 { 9 } else { 6 }) {
                *protocol = UDP;
            }
            let _ = datagram(&bytes, length.into()).map(|d| d.is_sound());
        }
    }
}
