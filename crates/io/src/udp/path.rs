//! Maximum size of a datagram to a peer.

use super::option::get;
use crate::address::Endpoint;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{io, os::fd::AsFd};

/// Largest payload of a datagram to `to` without fragmentation, as far as this host knows: the MTU of the route (or as
/// reported by routers) less the IP and UDP headers, at most 65 507 bytes.
///
/// # Errors
/// If there is no route, or a system call fails; the error names the operation and the address.
pub fn largest_datagram(to: &Endpoint) -> io::Result<usize> {
    let failed = to.failing("query the MTU to");
    let socket =
        Socket::new(Domain::for_address(to.address), Type::DGRAM, Some(Protocol::UDP)).map_err(&failed)?;
    if let Some(name) = &to.iface
        && !to.is_multicast()
    {
        super::bind_to_interface(&socket, name).map_err(&failed)?;
    }
    socket.connect(&SockAddr::from(to.address)).map_err(&failed)?;
    let (level, name, headers) = match to.address.is_ipv4() {
        true => (libc::SOL_IP, libc::IP_MTU, 28),
        false => (libc::SOL_IPV6, libc::IPV6_MTU, 48),
    };
    let mtu = get::<i32>(socket.as_fd(), level, name).map_err(&failed)?;
    Ok(usize::try_from(mtu).unwrap_or(0).saturating_sub(headers).min(super::send::TRAIN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_the_largest_datagrams() {
        let bytes = largest_datagram(&"udp://127.0.0.1:9".parse().unwrap()).unwrap();
        assert!((1472..=65_507).contains(&bytes), "{bytes}");
        let error = largest_datagram(&"udp://127.0.0.1:9?iface=none0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("query the MTU"), "{error}");
    }
}
