//! The flow label of an IPv6 connection (RFC 6437): 20 bits in the header of each of its packets, by which routers tell flows apart.
//!
//! The kernel takes the label of a TCP connection when it is opened. So this end can label the connections that it opens; those that it
//! accepts have the labels that the kernel gives them.

use crate::udp::set_option;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;

/// Largest label that a program may choose: the kernel keeps those above for itself (`net.ipv6.flowlabel_state_ranges`).
pub const MAX_LABEL: u32 = 0x7_FFFF;

/// `struct in6_flowlabel_req` of `linux/in6.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    destination: [u8; 16],
    /// Network byte order.
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    padding: u32,
}

const IPV6_FLOWLABEL_MGR: i32 = 32;
const IPV6_FLOWINFO_SEND: i32 = 33;
const GET: u8 = 0;
const CREATE: u16 = 1;
/// Any process may use the same label.
const ANY: u8 = 255;

/// Prepares a socket that is not connected for a flow label. Gives the flow information of the address to connect to
/// ([`SocketAddrV6::set_flowinfo`](std::net::SocketAddrV6::set_flowinfo)).
///
/// # Errors
/// The label is 0 or above [`MAX_LABEL`]; the kernel refuses it, as where another process holds it for itself; the socket is not one of IPv6.
pub fn prepare_flow_label(socket: &impl AsFd, destination: Ipv6Addr, label: u32) -> io::Result<u32> {
    if !(1..=MAX_LABEL).contains(&label) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("flow label {label:#x}")));
    }
    let request = Request {
        destination: destination.octets(),
        label: label.to_be(),
        action: GET,
        share: ANY,
        flags: CREATE,
        expires: 0,
        linger: 0,
        padding: 0,
    };
    set_option(socket.as_fd(), libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request)?;
    set_option(socket.as_fd(), libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, &1i32)?;
    Ok(label.to_be())
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, SockAddr, Socket, Type};
    use std::net::{SocketAddrV6, TcpListener};
    use std::os::fd::{AsRawFd as _, BorrowedFd};

    /// The label in the first packet of the other end, as the kernel keeps it.
    fn label_of_peer(socket: BorrowedFd<'_>) -> u32 {
        const REMOTE: u16 = 8;
        let none = Ipv6Addr::UNSPECIFIED.octets();
        let mut asked = Request {
            destination: none,
            label: 0,
            action: GET,
            share: 0,
            flags: REMOTE,
            expires: 0,
            linger: 0,
            padding: 0,
        };
        let mut length = size_of::<Request>() as libc::socklen_t;
        let place = (&raw mut asked).cast();
        // SAFETY: `place` is readable and writable for `length` bytes, and any bits are a valid `Request`.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IPV6,
                IPV6_FLOWLABEL_MGR,
                place,
                &raw mut length,
            )
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        u32::from_be(asked.label)
    }

    #[test]
    fn the_other_end_sees_the_label() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            return println!("SKIPPED: a flow label (this host has no IPv6)");
        };
        let port = listener.local_addr().unwrap().port();
        for label in [1, 0x1_2345, MAX_LABEL, 0x1_2345] {
            let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
            let information = prepare_flow_label(&socket, Ipv6Addr::LOCALHOST, label).unwrap();
            let to = SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, information, 0);
            socket.connect(&SockAddr::from(to)).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            assert_eq!(label_of_peer(accepted.as_fd()), label);
        }
    }

    #[test]
    fn what_cannot_be_a_label_is_refused() {
        let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, None) else {
            return println!("SKIPPED: a flow label (this host has no IPv6)");
        };
        for label in [0, MAX_LABEL + 1, u32::MAX] {
            assert!(prepare_flow_label(&socket, Ipv6Addr::LOCALHOST, label).is_err(), "{label:#x}");
        }
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        assert!(prepare_flow_label(&other, Ipv6Addr::LOCALHOST, 1).is_err());
    }
}
