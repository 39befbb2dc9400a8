//! Socket options that the safe crates lack, and addresses in the kernel's format.

use std::{
    io, mem,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsRawFd, BorrowedFd},
};

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
