//! Packet filters in the kernel: one for a ring, and one that drops everything for the socket that holds the port.
//!
//! A filter sees a packet from its IP header on. It passes datagrams to our port and address, first fragments of them (to
//! be counted), and IPv6 packets with extension headers (parsed in user space).

use super::open::set;
use crate::address::Endpoint;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
};

/// One instruction of classic BPF.
type Step = libc::sock_filter;

// Instruction codes: load word/half/byte at an offset, load half at X + offset, X = 4 * (byte & 15), and, compare.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_X: u16 = 0x48;
const X_IS_HEADER: u16 = 0xB1;
const AND: u16 = 0x54;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
const ALL: u32 = u32::MAX;

/// Offsets from here on count from the IP header (`SKF_NET_OFF`).
const FROM_IP: u32 = libc::SKF_NET_OFF.cast_unsigned();
/// Offset at which the kernel gives the packet type.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();

/// To this host, to everyone, or to a group; types of other packets are greater.
const TO_GROUP: u32 = libc::PACKET_MULTICAST as u32;
const TO_US: u32 = libc::PACKET_HOST as u32;

const fn step(code: u16, k: u32) -> Step {
    Step { code, jt: 0, jf: 0, k }
}

/// A program under construction: tests that fail jump to the drop at the end.
struct Program(Vec<Step>);

impl Program {
    /// Load from byte `at` of the IP header, regardless of the link header.
    fn load(&mut self, code: u16, at: u32) {
        self.0.push(step(code, FROM_IP.wrapping_add(at)));
    }

    /// Continue only if the loaded value is `k`. Patched in `end`.
    fn require(&mut self, k: u32) {
        self.0.push(Step { jf: DROP, ..step(IF_EQUAL, k) });
    }

    /// Continue only if it is at most `k`.
    fn at_most(&mut self, k: u32) {
        self.0.push(Step { jt: DROP, ..step(IF_GREATER, k) });
    }

    fn require_bytes(&mut self, at: u32, bytes: &[u8]) {
        for (n, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
            self.load(LOAD_WORD, at + 4 * n as u32);
            self.require(u32::from_be_bytes(*word));
        }
    }

    /// Pass packets that reach this point, drop those that jumped.
    fn end(mut self) -> Vec<Step> {
        self.0.push(step(RETURN, ALL));
        let drop = self.0.len();
        self.0.push(step(RETURN, 0));
        for (n, step) in self.0.iter_mut().enumerate() {
            // Jumps are relative to the next instruction; no program here has 255 instructions.
            let distance = (drop - n).saturating_sub(1) as u8;
            for jump in [&mut step.jt, &mut step.jf] {
                if *jump == DROP {
                    *jump = distance;
                }
            }
        }
        self.0
    }
}

/// Placeholder for the distance to the drop.
const DROP: u8 = u8::MAX;

/// The packets that a UDP socket bound to `at` would receive.
pub(super) fn for_ring(at: &Endpoint) -> Vec<Step> {
    let mut program = Program(Vec::new());
    program.0.push(step(LOAD_WORD, PACKET_TYPE));
    program.at_most(if at.is_multicast() { TO_GROUP } else { TO_US });
    match at.address.ip() {
        IpAddr::V4(ip) => ipv4(&mut program, ip, at),
        IpAddr::V6(ip) => ipv6(&mut program, ip, at),
    }
    program.end()
}

fn ipv4(program: &mut Program, ip: Ipv4Addr, at: &Endpoint) {
    program.load(LOAD_BYTE, 9);
    program.require(17);
    if !ip.is_unspecified() {
        program.require_bytes(16, &ip.octets());
    }
    if let Some(IpAddr::V4(source)) = at.source {
        program.require_bytes(12, &source.octets());
    }
    // Later fragments have no port to compare.
    program.load(LOAD_HALF, 6);
    program.0.push(step(AND, 0x1FFF));
    program.require(0);
    program.load(X_IS_HEADER, 0);
    program.load(LOAD_HALF_X, 2);
    program.require(at.address.port().into());
}

fn ipv6(program: &mut Program, ip: Ipv6Addr, at: &Endpoint) {
    if !ip.is_unspecified() {
        program.require_bytes(24, &ip.octets());
    }
    if let Some(IpAddr::V6(source)) = at.source {
        program.require_bytes(8, &source.octets());
    }
    program.load(LOAD_BYTE, 6);
    // If UDP does not follow directly, skip the two steps of the port and check for extension headers.
    program.0.push(Step { jf: 3, ..step(IF_EQUAL, 17) });
    program.load(LOAD_HALF, 42);
    program.require(at.address.port().into());
    program.0.push(step(RETURN, ALL));
    // Hop-by-hop 0, routing 43, fragment 44, destination options 60.
    program.0.push(Step { jt: 3, ..step(IF_EQUAL, 0) });
    program.0.push(Step { jt: 2, ..step(IF_EQUAL, 43) });
    program.0.push(Step { jt: 1, ..step(IF_EQUAL, 44) });
    program.require(60);
}

/// Drops all packets.
pub(super) fn for_quiet_socket() -> Vec<Step> {
    vec![step(RETURN, 0)]
}

/// Let the kernel apply `program` to the packets for `fd` from now on.
pub(super) fn attach(fd: BorrowedFd<'_>, program: &[Step]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = program.as_ptr().cast_mut();
    let request = libc::sock_fprog { len: length, filter };
    let size = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let request: *const libc::sock_fprog = &raw const request;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: `request` points to a program of `length` steps, readable during the call; the kernel copies it.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, request.cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Pass all packets again.
pub(super) fn detach(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{ipv4_packet, ipv6_packet};

    /// A small interpreter of the instructions above: 0 drops.
    fn run(program: &[Step], packet: &[u8], packet_type: u32) -> u32 {
        let (mut a, mut x, mut at) = (0u32, 0usize, 0usize);
        loop {
            let s = program[at];
            at += 1;
            let k = s.k.wrapping_sub(FROM_IP) as usize;
            let word = |from: usize, n: usize| {
                packet.get(from..from + n).map(|b| b.iter().fold(0, |v, &b| v << 8 | u32::from(b)))
            };
            let load = match s.code {
                LOAD_WORD if s.k == PACKET_TYPE => Some(packet_type),
                LOAD_WORD => word(k, 4),
                LOAD_HALF => word(k, 2),
                LOAD_BYTE => word(k, 1),
                LOAD_HALF_X => word(x + k, 2),
                X_IS_HEADER => {
                    x = 4 * (packet[k] as usize & 15);
                    Some(a)
                }
                AND => Some(a & s.k),
                IF_EQUAL | IF_GREATER => {
                    let yes = if s.code == IF_EQUAL { a == s.k } else { a > s.k };
                    at += usize::from(if yes { s.jt } else { s.jf });
                    Some(a)
                }
                RETURN => return s.k,
                other => panic!("code {other}"),
            };
            match load {
                Some(value) => a = value,
                None => return 0,
            }
        }
    }

    fn passes(at: &str, packet: &[u8], packet_type: u32) -> bool {
        run(&for_ring(&at.parse().unwrap()), packet, packet_type) != 0
    }

    #[test]
    fn only_what_the_socket_would_get_passes() {
        let packet = ipv4_packet(&[], (1, 2630), b"x");
        assert!(passes("udp://10.0.0.2:2630", &packet, TO_US));
        assert!(passes("udp://:2630", &packet, TO_US));
        assert!(passes("udp://:2630", &ipv4_packet(&[1; 12], (1, 2630), b"x"), TO_US), "with options");
        assert!(!passes("udp://10.0.0.2:2631", &packet, TO_US), "another port");
        assert!(!passes("udp://10.0.0.3:2630", &packet, TO_US), "another address");
        assert!(!passes("udp://:2630", &packet, libc::PACKET_OTHERHOST as u32), "seen on its way to others");
        assert!(!passes("udp://:2630", &packet, TO_GROUP), "no group was joined");
        let mut group = packet.clone();
        group[16..20].copy_from_slice(&[232, 1, 1, 1]);
        assert!(passes("udp://232.1.1.1:2630", &group, TO_GROUP));
        assert!(passes("udp://232.1.1.1:2630?source=10.0.0.1", &group, TO_GROUP));
        assert!(!passes("udp://232.1.1.1:2630?source=10.0.0.7", &group, TO_GROUP));
        let mut tcp = packet.clone();
        tcp[9] = 6;
        assert!(!passes("udp://:2630", &tcp, TO_US));
        let mut fragment = packet.clone();
        fragment[6] = 0x20;
        assert!(passes("udp://:2630", &fragment, TO_US), "a first fragment, to be counted");
        fragment[7] = 9;
        assert!(!passes("udp://:2630", &fragment, TO_US), "a later one");
    }

    #[test]
    fn ipv6_too() {
        let packet = ipv6_packet(None, (1, 2630), b"x");
        assert!(passes("udp://[::1]:2630", &packet, TO_US));
        assert!(passes("udp://[::]:2630", &packet, TO_US));
        assert!(!passes("udp://[::1]:2631", &packet, TO_US));
        assert!(!passes("udp://[::2]:2630", &packet, TO_US));
        for (header, pass) in [(0, true), (43, true), (44, true), (60, true), (58, false), (6, false)] {
            let packet = ipv6_packet(Some((header, &[17, 0, 0, 0, 0, 0, 0, 0])), (1, 2630), b"x");
            assert_eq!(passes("udp://[::1]:2630", &packet, TO_US), pass, "{header}");
        }
    }

    #[test]
    fn nothing_passes_to_the_quiet_socket() {
        assert_eq!(run(&for_quiet_socket(), &[0; 100], TO_US), 0);
    }
}
