//! Packets in the name of others, and what an attack costs the attacked.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Send a datagram in the name of `from`. False, with a visible reason, where that is not allowed.
pub(super) fn spoof(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> bool {
    let raw = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::empty(), Some(ipproto::RAW));
    let raw = match raw {
        Ok(raw) => raw,
        Err(Errno::PERM | Errno::ACCESS) => {
            println!("SKIPPED: no packets in the name of others (run as root)");
            return false;
        }
        Err(error) => panic!("{error}"),
    };
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("of IPv4") };
    let length = u16::try_from(28 + payload.len()).unwrap();
    // The kernel fills in the checksum of IP; UDP of IPv4 may do without.
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    for half in [from.port(), to.port(), length - 20, 0] {
        packet.extend(half.to_be_bytes());
    }
    packet.extend(payload);
    let sent = sendto(&raw, &packet, SendFlags::empty(), &SocketAddr::from((*to.ip(), 0))).unwrap();
    assert_eq!(sent, packet.len());
    true
}

/// A connection from this address of loopback.
pub(super) fn connect_from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// An honest client is served within a second. On a machine that stands still meanwhile, the next time.
#[track_caller]
pub(super) fn served(what: &str, mut ask: impl FnMut() -> bool) {
    let mut took = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        if ask() && begun.elapsed() < Duration::from_secs(1) {
            return;
        }
        took.push(begun.elapsed());
    }
    panic!("{what}: not served within a second, {took:?}");
}

/// What a process has: resident MiB, threads, descriptors.
pub(super) fn cost(pid: u32) -> (u64, u64, usize) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    (of("VmRSS:") / 1024, of("Threads:"), descriptors)
}
