//! Forwarding: each packet to the destination that its reader chose, from one socket, without waiting.
//!
//! ```text
//!   train as it arrived   │ label, payload 0 │ label, payload 1 │ label, payload 2 │
//!   one sendmsg           └───────▶ payload 0 │ payload 1 │ payload 2 ───────▶ any address
//! ```
//!
//! As [`send`](super::send), packets of equal length go as one train, gathered from where they lie. A destination whose path
//! cannot carry trains gets single packets, and holds up no other.
//!
//! Limits: it never fails, and waits only if it answers from a receiving socket ([`Forwarder::over`]); packets that the kernel does
//! not accept are counted by reason. The kernel
//! does not record which peer refused packets, so a missing listener is not reported.

use super::{
    both::Both,
    send::{SendOptions, choose, size_send_buffer},
    submit::{Packets, SendMode, submit},
};
use crate::{
    gathered::{Extent, Gathered},
    source::Buffer,
};
use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsFd,
};

/// Counters of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets that the kernel accepted.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets for which the socket or the interface had no room.
    pub no_room: u64,
    /// Packets for which there is no route, or that this host's rules forbid.
    pub unreachable: u64,
    /// Packets longer than the path to their destination carries.
    pub too_long: u64,
}

impl Forwarded {
    /// Packets that were not sent.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.no_room + self.unreachable + self.too_long
    }

    /// Add another's.
    pub fn add(&mut self, other: &Forwarded) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.no_room += other.no_room;
        self.unreachable += other.unreachable;
        self.too_long += other.too_long;
    }
}

/// A socket for each version of IP, from which packets are sent to any address.
pub struct Forwarder {
    v4: Option<Socket>,
    v6: Option<Socket>,
    mode: SendMode,
    because: String,
    buffer: Buffer,
    /// System calls, and those of them that were repeated with single packets.
    calls: u64,
    singly: u64,
    /// The time to live that is set.
    hops: Option<u8>,
    /// Wait for room in the send buffer.
    waits: bool,
    /// The peer to which the socket is connected: packets to it need no address, and the kernel keeps its route.
    peer: Option<SocketAddr>,
}

impl Forwarder {
    /// Open. Packets of `from`'s version of IP bear `from` as their source; the system chooses the port, and the other
    /// version's source.
    ///
    /// # Errors
    /// No socket of `from`'s version of IP can be had, or `from` is not an address of this host. A host without the other
    /// version is no error: packets to it are counted as unreachable.
    pub fn open(from: IpAddr, options: &SendOptions) -> io::Result<Self> {
        let source = |ip: IpAddr| if ip.is_ipv4() == from.is_ipv4() { from } else { ip };
        let v4 = socket(source(Ipv4Addr::UNSPECIFIED.into()), options);
        let v6 = socket(source(Ipv6Addr::UNSPECIFIED.into()), options);
        let (mode, because) = choose(options.mode);
        let open = |v4: Option<Socket>, v6, buffer| Self {
            v4,
            v6,
            mode,
            because,
            buffer,
            calls: 0,
            singly: 0,
            hops: None,
            waits: false,
            peer: None,
        };
        Ok(if from.is_ipv4() {
            let (socket, buffer) = v4?;
            open(Some(socket), v6.ok().map(|(socket, _)| socket), buffer)
        } else {
            let (socket, buffer) = v6?;
            open(v4.ok().map(|(socket, _)| socket), Some(socket), buffer)
        })
    }

    /// From the port of a socket that receives: answers to its peers. It waits for room in the send buffer, which empties at the rate
    /// of the interface. Packets to the other version of IP are counted as unreachable.
    ///
    /// # Errors
    /// If no file descriptor is free.
    pub fn over(both: &Both, options: &SendOptions) -> io::Result<Self> {
        let socket = Socket::from(both.duplicate()?);
        let buffer = size_send_buffer(socket.as_fd(), options.buffer);
        let (mode, because) = choose(options.mode);
        let (v4, v6) = if both.local().is_ipv4() { (Some(socket), None) } else { (None, Some(socket)) };
        let (calls, singly, hops) = (0, 0, None);
        Ok(Self { v4, v6, mode, because, buffer, calls, singly, hops, waits: true, peer: both.peer() })
    }

    /// How packets are passed to the kernel, and why.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} ({})", self.mode.name(), self.because)
    }

    /// The send buffer.
    #[must_use]
    pub fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// System calls so far, and how many of them were repeated with single packets.
    #[must_use]
    pub fn calls(&self) -> (u64, u64) {
        (self.calls, self.singly)
    }

    /// Source addresses of the packets: one of each version of IP. The unspecified address stands for
    /// the one that the route has.
    pub fn locals(&self) -> impl Iterator<Item = SocketAddr> {
        let local = |socket: &Socket| socket.local_addr().ok()?.as_socket();
        self.v4.iter().chain(&self.v6).filter_map(local)
    }

    /// Send with this time to live from here on. A system call only if it changes.
    pub fn set_hops(&mut self, hops: u8) {
        if self.hops == Some(hops) {
            return;
        }
        let set = |socket: &Option<Socket>, v6| {
            socket.as_ref().is_none_or(|socket| super::open::set_hops(socket.as_fd(), v6, hops).is_ok())
        };
        // A failure leaves what was: it is tried again with the next train.
        self.hops = (set(&self.v4, false) & set(&self.v6, true)).then_some(hops);
    }

    /// Send one packet to `to`, whose bytes are those of `head` and `body`. A short one to the peer of a connected socket takes the
    /// shortest way into the kernel.
    pub fn forward_one(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> Forwarded {
        let bytes = head.len() + body.len();
        if self.peer == Some(to) && bytes <= SHORT_BYTES {
            let mut packet = [0; SHORT_BYTES];
            packet[..head.len()].copy_from_slice(head);
            packet[head.len()..bytes].copy_from_slice(body);
            let mut flags = SendFlags::NOSIGNAL;
            flags.set(SendFlags::DONTWAIT, !self.waits);
            self.calls += 1;
            // An error is judged below, with the next attempt.
            let socket = self.v4.as_ref().or(self.v6.as_ref());
            if socket.is_some_and(|socket| send(socket, &packet[..bytes], flags).is_ok()) {
                return Forwarded { packets: 1, bytes: bytes as u64, ..Forwarded::default() };
            }
        }
        let slices = [IoSlice::new(head), IoSlice::new(body)];
        self.forward(to, Gathered::new(&slices, &[Extent { first: 0, bytes }]))
    }

    /// Send `packets` to `to`.
    pub fn forward(&mut self, to: SocketAddr, packets: Gathered<'_>) -> Forwarded {
        let mut done = Forwarded::default();
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let Some(socket) = socket else {
            done.unreachable = packets.count() as u64;
            return done;
        };
        let packets = Packets(packets);
        let to = (self.peer != Some(to)).then(|| SockAddr::from(to));
        let (mut at, mut mode, mut reported) = (0, self.mode, 0);
        while at < packets.count() {
            let (groups, n) = packets.cut(at, mode);
            self.calls += 1;
            match submit(socket.as_fd(), packets, &groups[..n], to.as_ref(), self.waits) {
                Ok(taken) => {
                    for group in groups.iter().take(taken) {
                        at += group.packets;
                        done.packets += group.packets as u64;
                        done.bytes += group.bytes as u64;
                    }
                }
                Err(error) => match error.raw_os_error().unwrap_or(0) {
                    libc::EINTR => {}
                    // A connected socket reports here, once each, what routers and the peer's host said of earlier packets.
                    libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN
                        if to.is_none() && reported < 2 =>
                    {
                        reported += 1;
                    }
                    libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => {
                        done.no_room += (packets.count() - at) as u64;
                        break;
                    }
                    libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP if groups[0].packets > 1 => {
                        self.singly += 1;
                        mode = SendMode::Mmsg;
                    }
                    libc::EMSGSIZE => {
                        done.too_long += 1;
                        at += 1;
                    }
                    _ => {
                        done.unreachable += (packets.count() - at) as u64;
                        break;
                    }
                },
            }
        }
        done
    }
}

/// A datagram of at most so many bytes is cheaper to copy than to describe to the kernel in two parts.
const SHORT_BYTES: usize = 512;

fn socket(from: IpAddr, options: &SendOptions) -> io::Result<(Socket, Buffer)> {
    let at = SocketAddr::new(from, 0);
    let failed = |operation: &str, error: &io::Error| {
        io::Error::new(error.kind(), format!("{operation} {from}: {error}"))
    };
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))
        .map_err(|e| failed("open a socket to forward from", &e))?;
    if from.is_ipv6() {
        socket.set_only_v6(true).map_err(|e| failed("set IPV6_V6ONLY on a socket to forward from", &e))?;
    }
    let buffer = size_send_buffer(socket.as_fd(), options.buffer);
    socket.bind(&SockAddr::from(at)).map_err(|e| failed("forward from", &e))?;
    Ok((socket, buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::UdpSocket, time::Duration};

    fn receiver(ip: &str) -> Option<UdpSocket> {
        let socket = UdpSocket::bind((ip, 0)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Some(socket)
    }

    fn received(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut bytes = vec![0; 2000];
        let (n, from) = socket.recv_from(&mut bytes).unwrap();
        bytes.truncate(n);
        (bytes, from)
    }

    /// Packets of 1000, 1000 and 300 bytes, each after 16 that stay here.
    fn forward(forwarder: &mut Forwarder, to: SocketAddr) -> Forwarded {
        let bytes: Vec<u8> = (0..2348u32).map(|n| (n % 251) as u8).collect();
        let packets: Vec<&[u8]> = bytes.chunks(1016).map(|packet| &packet[16..]).collect();
        let slices: Vec<IoSlice<'_>> = packets.iter().map(|packet| IoSlice::new(packet)).collect();
        let extents: Vec<Extent> =
            packets.iter().enumerate().map(|(first, packet)| Extent { first, bytes: packet.len() }).collect();
        forwarder.forward(to, Gathered::new(&slices, &extents))
    }

    #[test]
    fn packets_reach_each_destination_in_every_mode() {
        for mode in [SendMode::Auto, SendMode::Gso, SendMode::Mmsg, SendMode::Plain] {
            let options = SendOptions { mode, ..SendOptions::default() };
            let mut forwarder = Forwarder::open([127, 0, 0, 1].into(), &options).unwrap();
            for ip in ["127.0.0.1", "127.0.0.1", "::1"] {
                let Some(receiver) = receiver(ip) else {
                    println!("skipped: no {ip} on this host");
                    continue;
                };
                let done = forward(&mut forwarder, receiver.local_addr().unwrap());
                assert_eq!(done, Forwarded { packets: 3, bytes: 2300, ..Forwarded::default() }, "{mode:?}");
                for (n, length) in [1000, 1000, 300].into_iter().enumerate() {
                    let (bytes, from) = received(&receiver);
                    let right: Vec<u8> = (0..length).map(|at| ((n * 1016 + 16 + at) % 251) as u8).collect();
                    assert_eq!(bytes, right, "{mode:?}");
                    assert_eq!(from.ip().to_string(), ip);
                }
            }
        }
    }

    #[test]
    fn what_is_not_sent_is_counted_and_holds_up_nothing() {
        let mut forwarder = Forwarder::open([127, 0, 0, 1].into(), &SendOptions::default()).unwrap();
        // Nobody listens: the kernel took them.
        let closed = receiver("127.0.0.1").unwrap().local_addr().unwrap();
        assert_eq!(forward(&mut forwarder, closed).packets, 3);
        assert_eq!(forward(&mut forwarder, closed).packets, 3);
        // Bound to loopback, nothing leaves this host.
        assert_eq!(forward(&mut forwarder, ([192, 0, 2, 1], 9).into()).unreachable, 3);
        let (long, extent) = (vec![0; 65_508], [Extent { first: 0, bytes: 65_508 }]);
        let receiver = receiver("127.0.0.1").unwrap();
        let to = receiver.local_addr().unwrap();
        let done = forwarder.forward(to, Gathered::new(&[IoSlice::new(&long)], &extent));
        assert_eq!((done.too_long, done.unsent()), (1, 1));
        assert_eq!(forward(&mut forwarder, to).packets, 3, "the next are");
    }

    #[test]
    fn over_a_connected_socket_reports_of_earlier_packets_cost_none() {
        let loopback = ([127, 0, 0, 1], 0).into();
        let (peer, other) = (receiver("127.0.0.1").unwrap(), receiver("127.0.0.1").unwrap());
        let both = Both::bind(loopback, &crate::udp::UdpOptions::default()).unwrap();
        both.connect(peer.local_addr().unwrap()).unwrap();
        let mut forwarder = Forwarder::over(&both, &SendOptions::default()).unwrap();
        for receiver in [&peer, &other, &peer] {
            let to = receiver.local_addr().unwrap();
            assert_eq!(forward(&mut forwarder, to).packets, 3);
            assert_eq!([0; 3].map(|_| received(receiver).0.len()), [1000, 1000, 300]);
            for (head, body) in [("head", "body"), ("", "x"), ("head", ""), ("", "")] {
                let length = head.len() + body.len();
                let one = forwarder.forward_one(to, head.as_bytes(), body.as_bytes());
                assert_eq!(one, Forwarded { packets: 1, bytes: length as u64, ..Forwarded::default() });
                assert_eq!(received(receiver).0, format!("{head}{body}").into_bytes());
            }
            for length in [SHORT_BYTES, SHORT_BYTES + 1, 1400] {
                let body: Vec<u8> = (0..length - 4).map(|at| at as u8).collect();
                assert_eq!(forwarder.forward_one(to, b"head", &body).packets, 1);
                assert_eq!(received(receiver).0, [&b"head"[..], &body].concat());
            }
        }
        let to = peer.local_addr().unwrap();
        drop(peer);
        // Each train is answered by `port unreachable`, which the kernel reports with the next.
        for _ in 0..3 {
            assert_eq!(
                forward(&mut forwarder, to),
                Forwarded { packets: 3, bytes: 2300, ..Forwarded::default() }
            );
            assert_eq!(forwarder.forward_one(to, b"head", b"body").unsent(), 0);
        }
    }

    #[test]
    fn packets_bear_the_time_to_live_that_is_set() {
        use crate::source::Source as _;
        let mut forwarder = Forwarder::open([127, 0, 0, 1].into(), &SendOptions::default()).unwrap();
        for ip in ["127.0.0.1", "::1"] {
            let at = crate::address::Endpoint::udp(SocketAddr::new(ip.parse().unwrap(), 0));
            let options = crate::udp::UdpOptions { hops: true, ..Default::default() };
            let Ok(mut source) = crate::udp::UdpSource::open(&at, &options) else {
                println!("skipped: no {ip} on this host");
                continue;
            };
            for hops in [1, 33, 255] {
                forwarder.set_hops(hops);
                assert_eq!(forward(&mut forwarder, source.local()).packets, 3);
                let mut heard = Vec::new();
                while heard.len() < 3 {
                    source
                        .poll(Duration::from_secs(10), &mut |train| {
                            heard.extend(train.packets().map(|_| train.hops));
                        })
                        .unwrap();
                }
                assert_eq!(heard, [Some(hops); 3], "{ip}");
            }
        }
        assert!(forwarder.locals().all(|at| at.port() != 0) && forwarder.locals().count() > 0);
    }

    #[test]
    fn an_address_of_another_host_is_an_error() {
        let error = Forwarder::open([192, 0, 2, 1].into(), &SendOptions::default()).err().unwrap();
        assert!(error.to_string().contains("forward from 192.0.2.1"), "{error}");
    }
}
