//! Opens receiving sockets: their options and tier, buffer, groups, sharing of the port, and a hint for each refusal.

use crate::address::Endpoint;
use crate::host::interface::interface_index;
use crate::quantity::Size;
use crate::source::Buffer;
use skyhaul_core::hint::Hint;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use std::{io, mem};

/// A socket ready to receive, and the requests that were refused.
pub(super) struct Opened {
    pub(super) socket: Socket,
    pub(super) at: Endpoint,
    pub(super) buffer: Buffer,
    pub(super) remedies: Vec<String>,
}

/// Bind (and join), with all options set before the first packet can arrive.
pub(super) fn open(at: &Endpoint, options: &UdpOptions) -> io::Result<Opened> {
    if let Some(source) = at.source.filter(|_| !at.is_multicast()) {
        let text = format!(
            "open {at}: source={source} needs a multicast group, but {} is not one{}",
            at.address.ip(),
            Hint("omit source=")
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let failed = |operation| at.failing(operation);
    let socket = Socket::new(Domain::for_address(at.address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(failed("open a socket for"))?;
    let mut remedies = Vec::new();
    if at.address.is_ipv6() {
        // An IPv6 address means IPv6 everywhere: every tier then sees the same packets.
        socket.set_only_v6(true).map_err(failed("set IPV6_V6ONLY on"))?;
    }
    let asked = at.rcvbuf.map_or(options.buffer.bytes(), Size::bytes);
    let buffer = size_receive_buffer(socket.as_fd(), asked);
    remedies.extend(buffer_remedy(buffer));
    if options.reuse_port {
        socket.set_reuse_port(true).map_err(failed("set SO_REUSEPORT on"))?;
    }
    if at.is_multicast() {
        // Several receivers of one group each get every packet.
        socket.set_reuse_address(true).map_err(failed("set SO_REUSEADDR on"))?;
    }
    let fd = socket.as_fd();
    set(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1i32).map_err(failed("set SO_RXQ_OVFL on"))?;
    if options.timestamps {
        set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).map_err(failed("set SO_TIMESTAMPNS on"))?;
    }
    if options.hops {
        note_hops(fd, at.address.is_ipv6()).map_err(failed("ask for the time to live on"))?;
    }
    if let Some(spin) = options.busy_poll {
        let micros = i32::try_from(spin.as_micros()).unwrap_or(i32::MAX);
        if let Err(error) = set(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros) {
            remedies.push(format!(
                "busy polling refused ({error}), so each wake-up costs some microseconds; `sysctl -w net.core.busy_read={micros}` as root, or CAP_NET_ADMIN"
            ));
        }
    }
    if at.is_multicast() {
        join(fd, at).map_err(failed("join"))?;
    } else if let Some(name) = &at.iface {
        bind_to_interface(&socket, name).map_err(failed("bind to the interface of"))?;
    }
    socket.bind(&SockAddr::from(scoped(at).map_err(failed("bind"))?)).map_err(failed("bind"))?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(at.address);
    let bound = if at.is_multicast() { SocketAddr::new(at.address.ip(), bound.port()) } else { bound };
    Ok(Opened { socket, at: at.at(bound), buffer, remedies })
}

/// Have the kernel note the time to live of each datagram. A socket of IPv6 may hear IPv4, too.
pub(super) fn note_hops(fd: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    set(fd, libc::SOL_IP, libc::IP_RECVTTL, &1i32)?;
    if v6 { set(fd, libc::SOL_IPV6, libc::IPV6_RECVHOPLIMIT, &1i32) } else { Ok(()) }
}

/// Send with this time to live (IPv6: hop limit) from here on.
pub(super) fn set_hops(fd: BorrowedFd<'_>, v6: bool, hops: u8) -> io::Result<()> {
    let (level, name) =
        if v6 { (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS) } else { (libc::SOL_IP, libc::IP_TTL) };
    set(fd, level, name, &i32::from(hops))
}

/// The address to bind to; a link-local group needs the index of its link.
fn scoped(at: &Endpoint) -> io::Result<SocketAddr> {
    Ok(match (at.address, &at.iface) {
        (SocketAddr::V6(mut group), Some(name)) if at.is_multicast() => {
            group.set_scope_id(interface_index(name)?);
            group.into()
        }
        (other, _) => other,
    })
}

/// Adopt a socket that was bound elsewhere; its buffer and groups are not changed.
pub(super) fn adopt(socket: Socket, options: &UdpOptions) -> io::Result<Opened> {
    let local = socket.local_addr()?.as_socket();
    let datagrams = matches!(socket.r#type(), Ok(Type::DGRAM));
    let Some(local) = local.filter(|local| datagrams && local.port() != 0) else {
        let text = format!("adopt a socket: not a bound UDP socket{}", Hint("bind it first"));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    let at = Endpoint::udp(local);
    // The receiver uses its own timeout.
    socket.set_nonblocking(false).map_err(at.failing("make blocking"))?;
    let fd = socket.as_fd();
    set(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1i32).map_err(at.failing("set SO_RXQ_OVFL on"))?;
    if options.timestamps {
        set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
            .map_err(at.failing("set SO_TIMESTAMPNS on"))?;
    }
    let granted = get::<i32>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
    let granted = u64::try_from(granted).unwrap_or(0) / 2;
    Ok(Opened { socket, at, buffer: Buffer { asked: granted, granted }, remedies: Vec::new() })
}

/// A bound socket and its address.
pub(crate) fn open_socket(at: &Endpoint, options: &UdpOptions) -> io::Result<(Socket, SocketAddr)> {
    open(at, options).map(|opened| (opened.socket, opened.at.address))
}

/// Accept packets from this interface only, even for our address.
pub(crate) fn bind_to_interface(socket: &Socket, name: &str) -> io::Result<()> {
    let index = interface_index(name)?;
    let mut buffer = [0u8; libc::IF_NAMESIZE];
    // SAFETY: `buffer` has room for IF_NAMESIZE bytes, which is all the call writes.
    let found = unsafe { libc::if_indextoname(index, buffer.as_mut_ptr().cast()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    let name = buffer.split(|&b| b == 0).next().unwrap_or_default();
    socket.bind_device(Some(name))
}

/// Set the largest possible buffer: beyond `rmem_max` with CAP_NET_ADMIN, up to it without.
pub(super) fn size_receive_buffer(fd: BorrowedFd<'_>, asked: u64) -> Buffer {
    // The kernel doubles the value, in an i32.
    let bytes = i32::try_from(asked.min(i32::MAX as u64 / 2)).unwrap_or(i32::MAX / 2);
    // A refusal shows in the granted size.
    if set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
    }
    let granted = get::<i32>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
    Buffer { asked, granted: u64::try_from(granted).unwrap_or(0) / 2 }
}

/// The exact command, and its benefit.
fn buffer_remedy(buffer: Buffer) -> Option<String> {
    if buffer.granted >= buffer.asked {
        return None;
    }
    Some(format!(
        "receive buffer: requested {}, the kernel granted {}; at 8 Gb/s that bridges only {:.1} ms in which this process does not run; as root: sysctl -w net.core.rmem_max={}",
        Size::from_bytes(buffer.asked),
        Size::from_bytes(buffer.granted),
        buffer.granted as f64 / 1e6, // 8 Gb/s is one byte a nanosecond
        buffer.asked
    ))
}

/// Join the group, on the given interface or the one of the route, from any source or only one.
fn join(fd: BorrowedFd<'_>, at: &Endpoint) -> io::Result<()> {
    let (level, all) = match at.address {
        SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_MULTICAST_ALL),
        SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_MULTICAST_ALL),
    };
    // Without this, a socket also receives the groups that other processes joined.
    set(fd, level, all, &0i32)?;
    let scope = match at.address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let index = at.iface.as_deref().map_or(Ok(scope), interface_index)?;
    let group = storage(at.address);
    match at.source {
        None => {
            let request = libc::group_req { gr_interface: index, gr_group: group };
            set(fd, level, libc::MCAST_JOIN_GROUP, &request)
        }
        Some(source) => {
            let source = storage(SocketAddr::new(source, 0));
            let request =
                libc::group_source_req { gsr_interface: index, gsr_group: group, gsr_source: source };
            set(fd, level, libc::MCAST_JOIN_SOURCE_GROUP, &request)
        }
    }
}

/// An address as `sockaddr_storage`.
fn storage(address: SocketAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(address);
    // SAFETY: sockaddr_storage is integers, for which zero is a value.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = (address.len() as usize).min(mem::size_of_val(&storage));
    // SAFETY: both are at least `length` bytes long and do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), (&raw mut storage).cast(), length);
    };
    storage
}

/// Set a socket option to `value`, an integer or a C structure without dangling pointers.
pub(crate) fn set<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `length` bytes during the call; the kernel copies it.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Integers and arrays of integers: every bit pattern is a valid value.
pub(crate) trait Plain: Copy + Default {}
impl Plain for i32 {}
impl Plain for [u32; 3] {}
impl Plain for [u32; 9] {}
impl Plain for [u64; 32] {}

/// Read a socket option.
pub(crate) fn get<T: Plain>(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    get_sized(fd, level, name).map(|(value, _)| value)
}

/// Read a socket option whose length depends on the kernel, and how many bytes of it the kernel gave.
pub(crate) fn get_sized<T: Plain>(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<(T, usize)> {
    let mut value = T::default();
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: `place` is writable for `length` bytes, any bits are a valid `T`, and a shorter answer leaves zeros.
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, place, &raw mut length) };
    if done == 0 { Ok((value, length as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Arrivals that the kernel dropped at this socket since it was created: the count that `SO_RXQ_OVFL` gives with each
/// packet, but also valid after the last one. Wraps at 32 bits.
pub(crate) fn drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    const DROPS: usize = 8;
    Ok(get::<[u32; 9]>(fd, libc::SOL_SOCKET, libc::SO_MEMINFO)?[DROPS])
}

/// A peer's address in the kernel's format; compared as bytes, decoded only when it changes.
pub(crate) type RawAddress = [u8; 28];

/// Decode `raw`. IPv4-mapped IPv6 addresses become IPv4.
pub(crate) fn decode(raw: &RawAddress) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([raw[0], raw[1]]));
    let port = u16::from_be_bytes([raw[2], raw[3]]);
    let word = |at: usize| raw[at..].first_chunk::<4>().copied();
    match family {
        libc::AF_INET => Some(SocketAddr::from((Ipv4Addr::from(word(4)?), port))),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*raw[8..].first_chunk::<16>()?);
            let scope = u32::from_ne_bytes(word(24)?);
            Some(match ip.to_ipv4_mapped() {
                Some(v4) => SocketAddr::from((v4, port)),
                None => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)),
            })
        }
        _ => None,
    }
}

/// How packets are read from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// `Stage`, or `Ring` if many small single packets come and the privilege is there. Never `Bpf`.
    #[default]
    Auto,
    /// Coalesced trains (GRO) into a cache-hot scratch.
    Stage,
    /// Single packets, many per system call.
    Plain,
    /// A ring of packets shared with the kernel; needs CAP_NET_RAW.
    Ring,
    /// As `Stage`; but a receiver has a program in the kernel place the streams whose formats have a rule. Needs CAP_BPF.
    Bpf,
}

/// How to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// How packets are read from the kernel.
    pub tier: Tier,
    /// Receive buffer to request, unless the address has `rcvbuf=`.
    pub buffer: Size,
    /// Share the port with other sockets: the kernel distributes senders over them.
    pub reuse_port: bool,
    /// Request the kernel's arrival times.
    pub timestamps: bool,
    /// Note the time to live (IPv6: hop limit) of each train. Tiers that read sockets do.
    pub hops: bool,
    /// Spin this long in the kernel before sleeping.
    pub busy_poll: Option<Duration>,
    /// At high rates, let packets gather for at most this long, to wake up less often. Zero receives each at once, at
    /// several times the CPU time.
    pub gather: Duration,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            tier: Tier::Auto,
            buffer: Size::from_bytes(256 << 20),
            reuse_port: false,
            timestamps: true,
            hops: false,
            busy_poll: None,
            gather: Duration::from_millis(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_addresses_are_decoded() {
        let mut raw = [0u8; 28];
        raw[..8].copy_from_slice(&[libc::AF_INET as u8, 0, 0x0A, 0x46, 127, 0, 0, 1]);
        if cfg!(target_endian = "little") {
            assert_eq!(decode(&raw), Some("127.0.0.1:2630".parse().unwrap()));
        }
        raw[0] = libc::AF_INET6 as u8;
        raw[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(decode(&raw), Some("[::1]:2630".parse().unwrap()));
        raw[8..24].copy_from_slice(&Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert_eq!(decode(&raw), Some("127.0.0.1:2630".parse().unwrap()));
        assert_eq!(decode(&[0; 28]), None);
    }
}
