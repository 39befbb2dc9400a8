//! Frames of Ethernet, and what a balancer makes of them according to its table.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use skyhaul_core::balance::xdp::{Hop, Inlet};
use skyhaul_core::balance::{Refusal, Route, Table};
use skyhaul_core::wire::ejfat::EjfatLabels;
use std::net::{IpAddr, SocketAddr};

pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const SENDER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const WORKER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
pub const EGRESS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 4];
pub const V4: &str = "10.9.0.1:19522";
pub const V6: &str = "[fd09::1]:19523";

pub fn inlet(interface: u32) -> Inlet {
    let data = vec![V4.parse().unwrap(), V6.parse().unwrap()];
    Inlet { interface, mac: MAC, data, single: true }
}

/// The way to a member: through `interface`.
pub fn hop(interface: u32) -> Hop {
    Hop { interface, from: EGRESS_MAC, to: WORKER_MAC, mtu: 9000, whole: false }
}

fn sum(octets: &[u8]) -> u32 {
    octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

pub fn folded(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The sum over the pseudo-header.
pub fn pseudo(frame: &[u8]) -> u32 {
    let (addresses, udp) = if frame[12] == 8 { (26..34, 34) } else { (22..54, 54) };
    sum(&frame[addresses]) + 17 + sum(&frame[udp + 4..udp + 6])
}

/// Whether the checksums of a frame are right; UDP's may be missing in IPv4.
pub fn is_sound(frame: &[u8]) -> bool {
    let v4 = frame[12] == 8;
    let udp = if v4 { 34 } else { 54 };
    let end = udp + usize::from(u16::from_be_bytes([frame[udp + 4], frame[udp + 5]]));
    let none = v4 && frame[udp + 6..udp + 8] == [0, 0];
    (!v4 || folded(sum(&frame[14..34])) == 0xFFFF)
        && (none || folded(pseudo(frame) + sum(&frame[udp..end])) == 0xFFFF)
}

/// `payload` in a datagram in a frame.
pub fn frame(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut frame = [MAC, SENDER_MAC].concat();
    let length = 8 + payload.len() as u16;
    match (from.ip(), to.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            frame.extend([8, 0, 0x45, 3]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0x12, 0x34, 0x40, 0, 64, 17, 0, 0]);
            frame.extend([a.octets(), b.octets()].concat());
            let check = !folded(sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            frame.extend([0x86, 0xDD, 0x60, 0x12, 0x34, 0x56]);
            frame.extend(length.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend([a.octets(), b.octets()].concat());
        }
        _ => panic!("one version of IP"),
    }
    let udp = frame.len();
    [from.port(), to.port(), length, 0].iter().for_each(|half| frame.extend(half.to_be_bytes()));
    frame.extend(payload);
    let check = match !folded(pseudo(&frame) + sum(&frame[udp..])) {
        0 => 0xFFFF,
        check => check,
    };
    frame[udp + 6..udp + 8].copy_from_slice(&check.to_be_bytes());
    frame
}

/// Where the table sends a sound frame of `frame()`, and as what; `None`: the sockets see it.
pub fn expected(
    table: &Table,
    frame: &[u8],
    way: impl Fn(IpAddr) -> Option<Hop>,
) -> Option<(Route, Hop, Vec<u8>)> {
    let v4 = frame[12] == 8;
    let (source, width, udp) = if v4 { (26, 4, 34) } else { (22, 16, 54) };
    let ip = |at: usize| -> IpAddr {
        if v4 {
            <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into()
        } else {
            <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into()
        }
    };
    let payload = &frame[udp + 8..];
    let route: Result<Route, Refusal> = table.route::<EjfatLabels>(payload);
    let route = route.ok().filter(|_| table.admits(ip(source)))?;
    let to = table.address(route)?;
    let hop = way(to.ip()).filter(|_| to.is_ipv4() == v4)?;
    // One packet in 65 536 has a whole checksum that equals the one of a packet without: the sockets take these, too.
    if frame[udp + 6..udp + 8] == folded(pseudo(frame)).to_be_bytes() {
        return None;
    }
    let payload = &payload[usize::from(route.skip)..];
    if udp - 14 + 8 + payload.len() > usize::from(hop.mtu) {
        return None;
    }
    let mut out = self::frame(
        SocketAddr::new(ip(source + width), u16::from_be_bytes([frame[udp], frame[udp + 1]])),
        to,
        payload,
    );
    out[..12].copy_from_slice(&[hop.to, hop.from].concat());
    let ttl = if v4 { 22 } else { 21 };
    out[ttl] = 63;
    if v4 {
        // One less in the high half of a word: one more in the checksum's, carried round.
        out[24..26].fill(0);
        let check = !folded(sum(&out[14..34]));
        out[24..26].copy_from_slice(&check.to_be_bytes());
    }
    Some((route, hop, out))
}
