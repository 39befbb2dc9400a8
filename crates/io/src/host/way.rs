//! The kernel's route to an address: the outgoing interface, and the hardware address of the next hop.
//!
//! The kernel is queried by netlink. The neighbour entry is marked as used, so the kernel keeps its hardware address up
//! to date.
//!
//! Limits: one route for each address; only Ethernet.

use crate::netlink::{Attributes, Netlink, Request, route::octets};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
};

const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const CREATE: u16 = 0x400;

const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
const METRICS: u16 = 8;
const METRIC_MTU: u16 = 2;
const UNICAST: u8 = 1;
const OWN: u8 = 2;
const BROADCAST: u8 = 3;

const LINK_ADDRESS: u16 = 1;
const LINK_MTU: u16 = 4;
const ETHERNET: u16 = 1;

const HARDWARE_ADDRESS: u16 = 2;
/// Neighbour states with a valid address: reachable, recently reachable, or permanent.
const VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
/// Marks the neighbour as used.
const USE: u8 = 1;

/// Of messages about network devices.
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
    /// Bytes of an IP packet, at most.
    pub mtu: u32,
    /// Whether its driver accepts frames from XDP programs; and whether also frames in several buffers.
    pub takes: (bool, bool),
}

/// A route to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Through this interface.
    pub link: Link,
    /// The hardware address of the next hop.
    pub next: [u8; 6],
    /// Bytes of an IP packet, at most.
    pub mtu: u32,
}

/// Asks the kernel of the network that it was opened in.
#[derive(Debug)]
pub struct Ways {
    route: Netlink,
    generic: Netlink,
    /// The netlink family for network devices; `None` before Linux 6.3.
    devices: Option<u16>,
    /// Interfaces, since they were last forgotten.
    links: BTreeMap<u32, Option<Link>>,
}

impl Ways {
    /// Open.
    ///
    /// # Errors
    /// A system error.
    pub fn open() -> io::Result<Ways> {
        let (route, mut generic) = (Netlink::route()?, Netlink::generic()?);
        let devices = generic.family("netdev").unwrap_or(None);
        Ok(Ways { route, generic, devices, links: BTreeMap::new() })
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
        let answer = self.route.ask(&Request::new(GET_LINK).fixed(&fixed))?;
        let Some((fixed, attributes)) = parts(&answer, 16) else { return Ok(None) };
        let mac = attributes.find(LINK_ADDRESS).and_then(|octets| octets.try_into().ok());
        let mtu = attributes.number(LINK_MTU);
        let ((Some(mac), Some(mtu)), true) = ((mac, mtu), fixed[2..4] == ETHERNET.to_ne_bytes()) else {
            return Ok(None);
        };
        Ok(Some(Link { interface, mac, mtu: mtu as u32, takes: self.takes(interface) }))
    }

    /// Earlier kernels do not report this: `false` is assumed.
    fn takes(&mut self, interface: u32) -> (bool, bool) {
        let Some(devices) = self.devices else { return (false, false) };
        let request = Request::new(devices).fixed(&[GET_DEVICE, 1, 0, 0]).number(DEVICE, interface);
        let answer = self.generic.ask(&request).unwrap_or_default();
        let features = Attributes::after(&answer, 4).number(FEATURES).unwrap_or(0);
        (features & TAKES_FRAMES != 0, features & TAKES_PIECES != 0)
    }

    /// The route from `from` to `to`. `None` if there is none, if it leads to this host, or if the hardware address of
    /// the next hop is not known yet, in which case it is requested.
    ///
    /// # Errors
    /// A system error.
    pub fn to(&mut self, to: IpAddr, from: IpAddr) -> io::Result<Option<Way>> {
        let (to, from) = (octets(to), octets(from));
        let family = if to.len() == 4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 };
        let bits = 8 * to.len() as u8;
        let fixed = [family, bits, if from.len() == to.len() { bits } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Request::new(GET_ROUTE).fixed(&fixed).attribute(DESTINATION, &to);
        if from.len() == to.len() {
            request = request.attribute(SOURCE, &from);
        }
        let Some(answer) = none(self.route.ask(&request))? else { return Ok(None) };
        let Some((fixed, attributes)) = parts(&answer, 12) else { return Ok(None) };
        let Some(interface) = attributes.number(OUTPUT) else { return Ok(None) };
        if fixed[7] != UNICAST {
            return Ok(None);
        }
        let next = attributes.find(GATEWAY).unwrap_or(&to).to_vec();
        let Some(link) = self.link(interface as u32)? else { return Ok(None) };
        let metric = attributes.nested(METRICS).number(METRIC_MTU);
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
        let request = |kind, flags| Request::new(kind).fixed(&fixed(flags)).attribute(DESTINATION, ip);
        none(self.route.tell(&request(NEW_NEIGHBOUR, USE).flags(CREATE)))?;
        let answer = none(self.route.ask(&request(GET_NEIGHBOUR, 0)))?;
        let Some((fixed, attributes)) = answer.as_deref().and_then(|all| parts(all, 12)) else {
            return Ok(None);
        };
        let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
        let mac = attributes.find(HARDWARE_ADDRESS).and_then(|octets| octets.try_into().ok());
        Ok(mac.filter(|_| state & VALID != 0))
    }
}

/// Type of an address for this host, according to its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// Here.
    Here,
    /// To the broadcast address of one of this host's networks.
    Everyone,
    /// To another host, or nowhere.
    Elsewhere,
}

/// Where packets to `ip` would go.
///
/// # Errors
/// A system error.
pub fn leads(ip: IpAddr) -> io::Result<Leads> {
    let to = octets(ip);
    let family = if to.len() == 4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 };
    let fixed = [family, 8 * to.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let request = Request::new(GET_ROUTE).fixed(&fixed).attribute(DESTINATION, &to);
    let Some(answer) = none(Netlink::route()?.ask(&request))? else { return Ok(Leads::Elsewhere) };
    Ok(match parts(&answer, 12).map(|(fixed, _)| fixed[7]) {
        Some(OWN) => Leads::Here,
        Some(BROADCAST) => Leads::Everyone,
        _ => Leads::Elsewhere,
    })
}

/// Whether packets to `to` arrive at a socket of this host that is bound to `own`.
#[must_use]
pub fn arrives(own: SocketAddr, to: SocketAddr) -> bool {
    let any = own.ip().is_unspecified() && own.is_ipv4() == to.is_ipv4();
    let here = || to.ip().is_loopback() || leads(to.ip()).is_ok_and(|leads| leads == Leads::Here);
    own.port() == to.port() && (own.ip() == to.ip() || any && here())
}

/// The fixed part of an answer, and the attributes after it.
fn parts(answer: &[u8], fixed: usize) -> Option<(&[u8], Attributes<'_>)> {
    let (fixed, attributes) = answer.split_at_checked(fixed)?;
    Some((fixed, Attributes::new(attributes)))
}

/// Treats "does not exist" as `None`, not as an error.
fn none<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_addresses_lead() {
        let leads = |ip: &str| leads(ip.parse().unwrap()).unwrap();
        assert_eq!((leads("127.0.0.1"), leads("127.4.5.6")), (Leads::Here, Leads::Here));
        // The broadcast addresses of the loopback network, and of any network.
        assert_eq!((leads("127.255.255.255"), leads("255.255.255.255")), (Leads::Everyone, Leads::Everyone));
        assert_eq!(leads("192.0.2.77"), Leads::Elsewhere);
        let arrives = |own: &str, to: &str| arrives(own.parse().unwrap(), to.parse().unwrap());
        assert!(arrives("127.0.0.1:9", "127.0.0.1:9") && arrives("0.0.0.0:9", "127.9.9.9:9"));
        assert!(arrives("239.1.2.3:9", "239.1.2.3:9"), "a group");
        assert!(!arrives("127.0.0.1:9", "127.0.0.1:8") && !arrives("0.0.0.0:9", "192.0.2.77:9"));
        assert!(!arrives("127.0.0.1:9", "127.0.0.2:9") && !arrives("[::]:9", "127.0.0.1:9"));
    }

    #[test]
    fn loopback_is_no_way() {
        let mut ways = Ways::open().unwrap();
        assert_eq!(ways.link(1).unwrap(), None, "it is not Ethernet");
        let here = "127.0.0.1".parse().unwrap();
        assert_eq!(ways.to(here, here).unwrap(), None);
        assert_eq!(ways.to("::1".parse().unwrap(), here).unwrap(), None);
        assert!(ways.link(999_999).is_err());
    }
}
