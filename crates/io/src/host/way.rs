//! The way to an address, as the kernel would send there: which interface, and whose hardware address is next.
//!
//! The kernel is asked by netlink, and remembers the neighbour as one that is in use, so it keeps its hardware address fresh.
//!
//! Limits: one way for each address; of Ethernet only.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::{collections::BTreeMap, io, net::IpAddr, os::fd::OwnedFd};

const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;

const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
const METRICS: u16 = 8;
const METRIC_MTU: u16 = 2;
const UNICAST: u8 = 1;

const LINK_ADDRESS: u16 = 1;
const LINK_MTU: u16 = 4;
const ETHERNET: u16 = 1;

const HARDWARE_ADDRESS: u16 = 2;
/// Reachable, or was not long ago, or for ever.
const VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
/// As if it had been sent something.
const USE: u8 = 1;

/// Of the family of messages of network devices, and in them.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE: u16 = 1;
const FEATURES: u16 = 3;
const TAKES_FRAMES: u64 = 1 << 2;
const TAKES_PIECES: u64 = 1 << 6;

/// An Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub interface: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Octets of an IP packet, at most.
    pub mtu: u32,
    /// Whether its driver takes frames from programs for packets; and those in pieces, too.
    pub takes: (bool, bool),
}

/// A way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Through this interface.
    pub link: Link,
    /// The hardware address of who is next.
    pub next: [u8; 6],
    /// Octets of an IP packet, at most.
    pub mtu: u32,
}

/// Asks the kernel of the network that it was opened in.
#[derive(Debug)]
pub struct Ways {
    route: OwnedFd,
    generic: OwnedFd,
    /// The number of messages about network devices; none before Linux 6.3.
    devices: Option<u16>,
    sequence: u32,
    /// Interfaces, since they were last forgotten.
    links: BTreeMap<u32, Option<Link>>,
}

impl Ways {
    /// Open.
    ///
    /// # Errors
    /// A system error.
    pub fn open() -> io::Result<Ways> {
        let open =
            |protocol| socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol);
        let (route, generic) = (open(None)?, open(Some(netlink::GENERIC))?);
        let mut ways = Ways { route, generic, devices: None, sequence: 0, links: BTreeMap::new() };
        let family =
            ways.ask(true, CONTROLLER, 0, &[GET_FAMILY, 1, 0, 0], &[(FAMILY_NAME, &b"netdev\0"[..])]);
        ways.devices =
            family.ok().and_then(|all| number(find(all.get(4..)?, FAMILY_ID)?)).map(|id| id as u16);
        Ok(ways)
    }

    /// The interface of this number; `None` if it is not of Ethernet.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn link(&mut self, interface: u32) -> io::Result<Option<Link>> {
        if let Some(known) = self.links.get(&interface) {
            return Ok(*known);
        }
        let link = self.ask_link(interface)?;
        self.links.insert(interface, link);
        Ok(link)
    }

    /// Interfaces may have changed.
    pub fn forget(&mut self) {
        self.links.clear();
    }

    fn ask_link(&mut self, interface: u32) -> io::Result<Option<Link>> {
        let mut fixed = [0; 16];
        fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
        let answer = self.ask(false, GET_LINK, 0, &fixed, &[])?;
        let Some((fixed, attributes)) = answer.split_at_checked(16) else { return Ok(None) };
        let mac = find(attributes, LINK_ADDRESS).and_then(|octets| octets.try_into().ok());
        let mtu = find(attributes, LINK_MTU).and_then(number);
        let ((Some(mac), Some(mtu)), true) = ((mac, mtu), fixed[2..4] == ETHERNET.to_ne_bytes()) else {
            return Ok(None);
        };
        Ok(Some(Link { interface, mac, mtu: mtu as u32, takes: self.takes(interface) }))
    }

    /// Nobody knows in earlier kernels; then it does not.
    fn takes(&mut self, interface: u32) -> (bool, bool) {
        let Some(devices) = self.devices else { return (false, false) };
        let device = (DEVICE, &interface.to_ne_bytes()[..]);
        let answer = self.ask(true, devices, 0, &[GET_DEVICE, 1, 0, 0], &[device]).unwrap_or_default();
        let features = answer.get(4..).and_then(|all| find(all, FEATURES)).and_then(number).unwrap_or(0);
        (features & TAKES_FRAMES != 0, features & TAKES_PIECES != 0)
    }

    /// The way from `from` to `to`. `None` if there is none, if it leads nowhere but here, or if it is not known yet whose hardware
    /// address is next: then it is asked for.
    ///
    /// # Errors
    /// A system error.
    pub fn to(&mut self, to: IpAddr, from: IpAddr) -> io::Result<Option<Way>> {
        let (to, from) = (octets(to), octets(from));
        let family = if to.len() == 4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 };
        let bits = 8 * to.len() as u8;
        let fixed = [family, bits, if from.len() == to.len() { bits } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut attributes = vec![(DESTINATION, &to[..])];
        if from.len() == to.len() {
            attributes.push((SOURCE, &from[..]));
        }
        let Some(answer) = none(self.ask(false, GET_ROUTE, 0, &fixed, &attributes))? else { return Ok(None) };
        let Some((fixed, attributes)) = answer.split_at_checked(12) else { return Ok(None) };
        let Some(interface) = find(attributes, OUTPUT).and_then(number) else { return Ok(None) };
        if fixed[7] != UNICAST {
            return Ok(None);
        }
        let next = find(attributes, GATEWAY).unwrap_or(&to).to_vec();
        let Some(link) = self.link(interface as u32)? else { return Ok(None) };
        let metric = find(attributes, METRICS).and_then(|metrics| find(metrics, METRIC_MTU)).and_then(number);
        let mtu = metric.map_or(link.mtu, |mtu| (mtu as u32).min(link.mtu));
        Ok(self.neighbour(link.interface, &next)?.map(|next| Way { link, next, mtu }))
    }

    /// The hardware address of a neighbour, which is used from now on.
    fn neighbour(&mut self, interface: u32, ip: &[u8]) -> io::Result<Option<[u8; 6]>> {
        let family = if ip.len() == 4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 };
        let fixed = |flags: u8| {
            let [a, b, c, d] = interface.to_ne_bytes();
            [family, 0, 0, 0, a, b, c, d, 0, 0, flags, 0]
        };
        let flags = ACKNOWLEDGE | CREATE;
        none(self.ask(false, NEW_NEIGHBOUR, flags, &fixed(USE), &[(DESTINATION, ip)]))?;
        let answer = none(self.ask(false, GET_NEIGHBOUR, 0, &fixed(0), &[(DESTINATION, ip)]))?;
        let Some((fixed, attributes)) = answer.as_deref().and_then(|all| all.split_at_checked(12)) else {
            return Ok(None);
        };
        let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
        let mac = find(attributes, HARDWARE_ADDRESS).and_then(|octets| octets.try_into().ok());
        Ok(mac.filter(|_| state & VALID != 0))
    }

    /// Ask, and return the answer without its head.
    fn ask(
        &mut self,
        generic: bool,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        attributes: &[(u16, &[u8])],
    ) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let mut message = vec![0; 4];
        [kind, flags | REQUEST].iter().for_each(|half| message.extend(half.to_ne_bytes()));
        [self.sequence, 0].iter().for_each(|word| message.extend(word.to_ne_bytes()));
        message.extend(fixed);
        for (kind, octets) in attributes {
            message.extend((4 + octets.len() as u16).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(*octets);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        let length = (message.len() as u32).to_ne_bytes();
        message[..4].copy_from_slice(&length);
        let socket = if generic { &self.generic } else { &self.route };
        send(socket, &message, SendFlags::empty())?;
        let mut buffer = vec![0u8; 1 << 16];
        loop {
            let (came, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
            let Some(head) = buffer[..came].first_chunk::<16>() else { continue };
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let sequence = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
            if sequence != self.sequence {
                continue;
            }
            let body = buffer[16..came].get(..length.saturating_sub(16)).unwrap_or(&[]);
            if head[4..6] != ERROR.to_ne_bytes() {
                return Ok(body.to_vec());
            }
            let error = body.first_chunk::<4>().map_or(0, |word| i32::from_ne_bytes(*word));
            return if error == 0 { Ok(Vec::new()) } else { Err(io::Error::from_raw_os_error(-error)) };
        }
    }
}

/// There is no such thing, which is no error.
fn none(answer: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.raw_os_error() {
            Some(
                libc::ENOENT
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EINVAL
                | libc::EACCES
                | libc::ESRCH,
            ) => Ok(None),
            _ => Err(error),
        },
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// A number of 16, 32 or 64 bits.
fn number(octets: &[u8]) -> Option<u64> {
    match octets.len() {
        2 => Some(u16::from_ne_bytes(octets.try_into().ok()?).into()),
        4 => Some(u32::from_ne_bytes(octets.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(octets.try_into().ok()?)),
        _ => None,
    }
}

/// The attribute of this kind.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let head = attributes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // Two bits say how it is to be read.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3FFF;
        let octets = attributes.get(4..length)?;
        if kind == wanted {
            return Some(octets);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_no_way() {
        let mut ways = Ways::open().unwrap();
        assert_eq!(ways.link(1).unwrap(), None, "it is not Ethernet");
        let here = "127.0.0.1".parse().unwrap();
        assert_eq!(ways.to(here, here).unwrap(), None);
        assert_eq!(ways.to("::1".parse().unwrap(), here).unwrap(), None);
        assert!(ways.link(999_999).is_err());
    }

    #[test]
    fn attributes_are_found_within_their_bounds() {
        let all =
            [&8u16.to_ne_bytes()[..], &[3, 0], &[1, 2, 3, 4], &6u16.to_ne_bytes(), &[4, 0], &[9, 9]].concat();
        assert_eq!(find(&all, 3), Some(&[1, 2, 3, 4][..]));
        assert_eq!(find(&all, 4), Some(&[9, 9][..]));
        assert_eq!(find(&all, 5), None);
        for cut in 0..all.len() {
            let _ = find(&all[..cut], 4);
        }
        let forever = [0u8; 8];
        assert_eq!(find(&forever, 4), None);
    }
}
