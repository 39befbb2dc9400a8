//! Bytes queued at a UDP port, and datagrams that the kernel dropped there since the socket was opened.
//!
//! This works for every program: a benchmark need not rely on the program's own counts.
//!
//! ```
//! use skyhaul_io::host::sockets::UdpPort;
//! let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let port = UdpPort::of(std::process::id(), socket.local_addr()?.port()).expect("it is open");
//! assert_eq!((port.waiting, port.drops), (0, 0));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: all sockets of the port are counted together, regardless of process and address. The kernel drops, and counts,
//! a train as one datagram.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// All UDP sockets of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpPort {
    /// Memory of queued datagrams in bytes, including the kernel's overhead.
    pub waiting: u64,
    /// Datagrams, or trains, dropped since the sockets were opened: the buffer was full.
    pub drops: u64,
}

impl UdpPort {
    /// `port` in the network namespace of process `pid`; `None`: no socket has it, or the process is gone.
    #[must_use]
    pub fn of(pid: u32, port: u16) -> Option<Self> {
        let mut sum = None;
        for table in ["udp", "udp6"] {
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            for one in text.lines().filter_map(|line| of_line(line, port)) {
                let all: &mut Self = sum.get_or_insert_default();
                all.waiting += one.waiting;
                all.drops += one.drops;
            }
        }
        sum
    }
}

/// Whether a TCP socket listens on `port` in the network namespace of process `pid`.
#[must_use]
pub fn tcp_listens(pid: u32, port: u16) -> bool {
    /// State of a listening socket in the table.
    const LISTEN: &str = "0A";
    ["tcp", "tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            has_port(&fields, port) && fields.get(3) == Some(&LISTEN)
        })
    })
}

/// Maximum socket buffer without privilege (`net.core.rmem_max`) in bytes; 0 if the kernel does not report it.
#[must_use]
pub fn largest_buffer() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The receive buffer that the kernel grants to a UDP socket that requests `bytes` without a privilege.
///
/// # Errors
/// A system error.
pub fn granted(bytes: usize) -> io::Result<u64> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    socket.set_recv_buffer_size(bytes)?;
    // The kernel reports twice the size, including its own overhead.
    Ok(socket.recv_buffer_size()? as u64 / 2)
}

/// The local address from which this host reaches `target`.
#[must_use]
pub fn local_towards(target: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((target, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// A line of the table, if it is of this port: `sl local remote st tx:rx tr:when retr uid timeout inode ref pointer drops`.
fn of_line(line: &str, port: u16) -> Option<UdpPort> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if !has_port(&fields, port) {
        return None;
    }
    let (_, waiting) = fields.get(4)?.split_once(':')?;
    Some(UdpPort { waiting: u64::from_str_radix(waiting, 16).ok()?, drops: fields.get(12)?.parse().ok()? })
}

/// Whether the local address of a line has this port.
fn has_port(fields: &[&str], port: u16) -> bool {
    let local = fields.get(1).and_then(|address| address.rsplit_once(':'));
    local.is_some_and(|(_, local)| u16::from_str_radix(local, 16) == Ok(port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    /// Waits until a port is gone: a process that another test starts has its socket too, from its fork to its exec.
    fn gone(what: &str, is_there: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while is_there() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_listener_is_told_from_its_connections() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(tcp_listens(std::process::id(), port));
            let _connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _accepted = listener.accept().unwrap();
            drop(listener);
            gone("connections remain, the listener does not", || tcp_listens(std::process::id(), port));
        }
    }

    #[test]
    fn what_waits_and_what_was_dropped_is_counted() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let now = || UdpPort::of(std::process::id(), at.port()).unwrap();
        assert_eq!(now(), UdpPort::default());
        assert!(largest_buffer() > 4096);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // No default of Linux holds 64 MB.
        for _ in 0..1000 {
            sender.send_to(&[0; 64_000], at).unwrap();
        }
        let full = now();
        assert!(full.waiting > 0 && full.drops > 0, "{full:?}");
        drop(socket);
        gone("a closed socket is not counted", || UdpPort::of(std::process::id(), at.port()).is_some());
    }

    #[test]
    fn both_tables_have_the_same_fields() {
        let four = " 7977: 0100007F:A6BA 00000000:0000 07 00000000:000012C0 00:00000000 00000000     0        0 1256473 2 0000000057fb7dcd 17";
        let six = "  1: 00000000000000000000000001000000:A6BA 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 12 2 0 3";
        assert_eq!(of_line(four, 0xA6BA), Some(UdpPort { waiting: 0x12C0, drops: 17 }));
        assert_eq!(of_line(six, 0xA6BA), Some(UdpPort { waiting: 0, drops: 3 }));
        assert_eq!(of_line(four, 1), None);
        assert_eq!(of_line("  sl  local_address rem_address   st", 1), None);
    }
}
