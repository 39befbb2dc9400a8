//! Network interfaces: which one has an address, and its counters.
//!
//! ```
//! use skyhaul_io::host::interface::{InterfaceCounters, interface_of};
//! let name = interface_of("127.0.0.1".parse()?);
//! let before = InterfaceCounters::read(name.as_deref()).unwrap_or_default();
//! # Ok::<(), std::net::AddrParseError>(())
//! ```
//!
//! Counters are read from `/proc/thread-self/net/dev`, which follows the thread's network namespace. Its `drop` column is
//! the kernel's `rx_dropped` plus `rx_missed_errors`: packets discarded by the driver or the protocol layer, plus those
//! the device had no room for.

use super::sockets::local_towards;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
};

/// Receive counters of an interface since it was brought up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets received.
    pub packets: u64,
    /// Bytes received, with link headers.
    pub bytes: u64,
    /// Bad packets, all causes.
    pub errors: u64,
    /// Discarded by driver or kernel, or missed by the device for lack of room.
    pub dropped: u64,
    /// Lost in the device because its queue was full.
    pub fifo: u64,
    /// Misaligned frames.
    pub frame: u64,
}

impl InterfaceCounters {
    /// The counters of `name`, or the sum over all interfaces; `None` if the interface does not exist.
    #[must_use]
    pub fn read(name: Option<&str>) -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/net/dev").ok()?, name)
    }

    fn parse(table: &str, name: Option<&str>) -> Option<Self> {
        let lines = table.lines().skip(2).filter_map(|line| line.split_once(':'));
        let mut wanted = lines.filter(|(n, _)| name.is_none_or(|name| n.trim() == name)).peekable();
        wanted.peek()?;
        Some(wanted.fold(Self::default(), |sum, (_, numbers)| {
            let mut n = numbers.split_whitespace().map(|n| n.parse().unwrap_or(0u64));
            let mut next = || n.next().unwrap_or(0);
            Self {
                bytes: sum.bytes.wrapping_add(next()),
                packets: sum.packets.wrapping_add(next()),
                errors: sum.errors.wrapping_add(next()),
                dropped: sum.dropped.wrapping_add(next()),
                fifo: sum.fifo.wrapping_add(next()),
                frame: sum.frame.wrapping_add(next()),
            }
        }))
    }

    /// The difference from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            fifo: self.fifo.saturating_sub(earlier.fifo),
            frame: self.frame.saturating_sub(earlier.frame),
        }
    }
}

/// The interface that has `address`; for a multicast group, the one of its route. `None` for the unspecified address.
#[must_use]
pub fn interface_of(address: IpAddr) -> Option<String> {
    if address.is_unspecified() {
        return None;
    }
    let address = if address.is_multicast() { local_towards(address)? } else { address };
    addresses().ok()?.into_iter().find(|(_, a)| *a == address).map(|(name, _)| name)
}

/// The index of the interface with the name or the address `name`.
///
/// # Errors
/// `ENODEV` if the interface does not exist.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = match name.parse::<IpAddr>() {
        Ok(address) => interface_of(address).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?,
        Err(_) => name.to_owned(),
    };
    let name = std::ffi::CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
        index => Ok(index),
    }
}

/// The name of the interface with this number.
///
/// # Errors
/// `ENXIO` if there is none.
pub fn interface_name(index: u32) -> io::Result<String> {
    let mut name = [0; libc::IFNAMSIZ];
    // SAFETY: `name` has the length that the call asks for, and outlives it.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    let octets = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect::<Vec<_>>();
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// Every interface name with each of its addresses.
///
/// # Errors
/// A system error.
pub fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `list` is a valid place for the head of the list.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = list;
    // SAFETY: `at` is null or an entry of the list, which lives until freeifaddrs below.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: every entry's name is a NUL-terminated string in the list.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        if let Some(address) = ip_of(entry.ifa_addr) {
            found.push((name.to_string_lossy().into_owned(), address));
        }
        at = entry.ifa_next;
    }
    // SAFETY: `list` came from getifaddrs and is freed once.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The IP address in a list entry's socket address, if it is one.
fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller passes null or a valid socket address of the list.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in.
            let v4 = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6.
            let v6 = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn loopback_is_found_and_counts() {
        assert_eq!(interface_of("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!(interface_of("0.0.0.0".parse().unwrap()), None);
        assert_eq!(interface_index("lo").unwrap(), 1);
        assert_eq!(interface_index("127.0.0.1").unwrap(), 1);
        assert_eq!(interface_name(1).unwrap(), "lo");
        assert!(interface_name(0).is_err());
        assert_eq!(interface_index("no-such").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        let before = InterfaceCounters::read(Some("lo")).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 100], socket.local_addr().unwrap()).unwrap();
        let passed = InterfaceCounters::read(Some("lo")).unwrap().since(&before);
        assert!(passed.packets >= 1 && passed.bytes >= 100, "{passed:?}");
        assert!(InterfaceCounters::read(Some("no-such")).is_none());
    }

    #[test]
    fn the_kernel_table_is_read_and_summed() {
        let table = "Inter-|   Receive\n face |bytes packets\n    lo: 10 1 2 3 4 5 0 0 10 1 0 0 0 0 0 0\n  eth0:100 7 0 1 0 0 0 0 1 1 0 0 0 0 0 0\n";
        let lo = InterfaceCounters { packets: 1, bytes: 10, errors: 2, dropped: 3, fifo: 4, frame: 5 };
        assert_eq!(InterfaceCounters::parse(table, Some("lo")), Some(lo));
        assert_eq!(InterfaceCounters::parse(table, None).map(|c| (c.packets, c.dropped)), Some((8, 4)));
        assert_eq!(InterfaceCounters::parse("garbage", None), None);
    }
}
