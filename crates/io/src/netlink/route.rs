//! Interfaces, addresses, routes, neighbours and queues: one-line commands to set up a network.
//!
//! ```no_run
//! use skyhaul_io::netlink::route::{Queue, Routes};
//! # let elsewhere = std::fs::File::open("/proc/self/ns/net")?;
//! let mut routes = Routes::open()?;
//! routes.veth("near", ("far", std::os::fd::AsFd::as_fd(&elsewhere)), 1500)?;
//! let near = routes.index("near")?;
//! routes.address(near, "10.77.0.1".parse().unwrap(), 24)?;
//! routes.up(near)?;
//! routes.queue(near, Queue::Packets(1000))?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: changes need `CAP_NET_ADMIN` in the user namespace that owns the network.

use super::{Attributes, CREATE, EXCLUSIVE, Netlink, REPLACE, Request};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
const NEW_QUEUE: u16 = 36;
const DELETE_QUEUE: u16 = 37;

/// Of interfaces.
const LINK_ADDRESS: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const LINK_STATISTICS: u16 = 23;
const LINK_NETWORK: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const UP: u32 = 1;

/// Of addresses and routes.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const FLAGS: u16 = 8;
/// Without duplicate address detection.
const NODAD: u32 = 2;
const PERMANENT: u32 = 0x80;
const DESTINATION: u16 = 1;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
const PREFERRED_SOURCE: u16 = 7;
const TABLE_MAIN: u8 = 254;
const STATIC: u8 = 4;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;

/// Of neighbours.
const HARDWARE_ADDRESS: u16 = 2;
const FOR_EVER: u16 = 0x80;

/// Of queues.
const ROOT: u32 = 0xFFFF_FFFF;
const QUEUE_KIND: u16 = 1;
const QUEUE_OPTIONS: u16 = 2;
const TBF_PARAMETERS: u16 = 1;
const TBF_RATE: u16 = 4;
const TBF_BURST: u16 = 6;

/// The queue at the root of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// At most this many packets.
    Packets(u32),
    /// A token bucket: bytes per second, burst in bytes, queue in bytes.
    TokenBucket {
        /// Bytes per second.
        rate: u64,
        /// Burst in bytes, at least the longest train.
        burst: u32,
        /// Bytes that can wait; further packets are dropped.
        limit: u32,
    },
}

/// An interface and its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, of Ethernet.
    pub mac: Option<[u8; 6]>,
    /// Bytes of a packet, at most.
    pub mtu: u32,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets dropped on receipt.
    pub receive_dropped: u64,
    /// Packets dropped when sent.
    pub send_dropped: u64,
}

/// Commands about the network that this was opened in.
#[derive(Debug)]
pub struct Routes(pub(super) Netlink);

impl Routes {
    /// Open.
    ///
    /// # Errors
    /// A system error.
    pub fn open() -> io::Result<Self> {
        Netlink::route().map(Self)
    }

    /// Make a pair of interfaces: one here, its peer in another network.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn veth(&mut self, name: &str, peer: (&str, BorrowedFd<'_>), mtu: u32) -> io::Result<()> {
        let (peer, network) = peer;
        let request = Request::new(NEW_LINK)
            .flags(CREATE | EXCLUSIVE)
            .fixed(&link(0, 0, 0))
            .text(LINK_NAME, name)
            .number(LINK_MTU, mtu)
            .nested(LINK_INFO, |info| {
                info.text(INFO_KIND, "veth").nested(INFO_DATA, |data| {
                    data.nested(VETH_PEER, |of| {
                        of.fixed(&link(0, 0, 0))
                            .text(LINK_NAME, peer)
                            .number(LINK_MTU, mtu)
                            .number(LINK_NETWORK, network.as_raw_fd())
                    })
                })
            });
        self.0.tell(&request)
    }

    /// The number of an interface.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn index(&mut self, name: &str) -> io::Result<u32> {
        self.interface(name).map(|interface| interface.index)
    }

    /// An interface as it is now, with its counters.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn interface(&mut self, name: &str) -> io::Result<Interface> {
        let body = self.0.ask(&Request::new(GET_LINK).fixed(&link(0, 0, 0)).text(LINK_NAME, name))?;
        read_interface(&body).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// All interfaces.
    ///
    /// # Errors
    /// A system error.
    pub fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let mut all = Vec::new();
        self.0.dump(&Request::new(GET_LINK).fixed(&link(0, 0, 0)), &mut |_, body| {
            all.extend(read_interface(body));
        })?;
        Ok(all)
    }

    /// Set an interface up.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn up(&mut self, index: u32) -> io::Result<()> {
        self.0.tell(&Request::new(NEW_LINK).fixed(&link(index, UP, UP)))
    }

    /// Set an interface down.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn down(&mut self, index: u32) -> io::Result<()> {
        self.0.tell(&Request::new(NEW_LINK).fixed(&link(index, 0, UP)))
    }

    /// Delete an interface, and its peer.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn delete(&mut self, index: u32) -> io::Result<()> {
        self.0.tell(&Request::new(DELETE_LINK).fixed(&link(index, 0, 0)))
    }

    /// Adds an address to an interface; it is valid immediately.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn address(&mut self, index: u32, ip: IpAddr, prefix: u8) -> io::Result<()> {
        let [a, b, c, d] = index.to_ne_bytes();
        let octets = octets(ip);
        let request = Request::new(NEW_ADDRESS)
            .flags(CREATE | REPLACE)
            .fixed(&[family(ip), prefix, 0, 0, a, b, c, d])
            .attribute(LOCAL, &octets)
            .attribute(ADDRESS, &octets)
            .number(FLAGS, NODAD | PERMANENT);
        self.0.tell(&request)
    }

    /// Adds a route for these addresses through an interface, to a gateway or directly. Packets without a source
    /// address get `from`.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn route(
        &mut self,
        index: u32,
        to: (IpAddr, u8),
        gateway: Option<IpAddr>,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let scope = if gateway.is_some() || to.0.is_ipv6() { 0 } else { SCOPE_LINK };
        let fixed = [family(to.0), to.1, 0, 0, TABLE_MAIN, STATIC, scope, UNICAST, 0, 0, 0, 0];
        let mut request = Request::new(NEW_ROUTE)
            .flags(CREATE | REPLACE)
            .fixed(&fixed)
            .attribute(DESTINATION, &octets(to.0))
            .number(OUTPUT, index);
        if let Some(gateway) = gateway {
            request = request.attribute(GATEWAY, &octets(gateway));
        }
        if let Some(from) = from {
            request = request.attribute(PREFERRED_SOURCE, &octets(from));
        }
        self.0.tell(&request)
    }

    /// Sets the hardware address of a neighbour permanently, so that it is never requested.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn neighbour(&mut self, index: u32, ip: IpAddr, mac: [u8; 6]) -> io::Result<()> {
        let [a, b, c, d] = index.to_ne_bytes();
        let [low, high] = FOR_EVER.to_ne_bytes();
        let request = Request::new(NEW_NEIGHBOUR)
            .flags(CREATE | REPLACE)
            .fixed(&[family(ip), 0, 0, 0, a, b, c, d, low, high, 0, 0])
            .attribute(DESTINATION, &octets(ip))
            .attribute(HARDWARE_ADDRESS, &mac);
        self.0.tell(&request)
    }

    /// Sets the queue at the root of an interface, in place of the present one.
    ///
    /// # Errors
    /// What the kernel answered: also that it knows no such queue.
    pub fn queue(&mut self, index: u32, queue: Queue) -> io::Result<()> {
        let request = Request::new(NEW_QUEUE).flags(CREATE | REPLACE).fixed(&traffic(index));
        let request = match queue {
            Queue::Packets(limit) => {
                request.text(QUEUE_KIND, "pfifo").attribute(QUEUE_OPTIONS, &limit.to_ne_bytes())
            }
            Queue::TokenBucket { rate, burst, limit } => {
                request.text(QUEUE_KIND, "tbf").nested(QUEUE_OPTIONS, |options| {
                    let options = options.attribute(TBF_PARAMETERS, &token_bucket(rate, burst, limit));
                    let options = options.number(TBF_BURST, burst);
                    if rate > u64::from(u32::MAX) { options.number(TBF_RATE, rate) } else { options }
                })
            }
        };
        self.0.tell(&request)
    }

    /// Restores the kernel's default queue of an interface.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn no_queue(&mut self, index: u32) -> io::Result<()> {
        self.0.tell(&Request::new(DELETE_QUEUE).fixed(&traffic(index)))
    }
}

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..].copy_from_slice(&change.to_ne_bytes());
    fixed
}

/// `struct tcmsg`, at the root.
fn traffic(index: u32) -> [u8; 20] {
    let mut fixed = [0; 20];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[12..16].copy_from_slice(&ROOT.to_ne_bytes());
    fixed
}

/// `struct tc_tbf_qopt`: two rates of 12 bytes, then limit, buffer and peak burst.
fn token_bucket(rate: u64, burst: u32, limit: u32) -> [u8; 36] {
    const ETHERNET: u8 = 1;
    let mut options = [0; 36];
    options[1] = ETHERNET;
    options[8..12].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    options[24..28].copy_from_slice(&limit.to_ne_bytes());
    // In ticks of 64 ns: the time that the bucket takes to fill.
    let ticks = u64::from(burst) * 1_000_000_000 / rate.max(1) / 64;
    options[28..32].copy_from_slice(&u32::try_from(ticks).unwrap_or(u32::MAX).to_ne_bytes());
    options
}

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

/// The bytes of an address in packets.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Parses a message of the kernel about an interface; `None` if it is not one.
#[must_use]
pub fn read_interface(body: &[u8]) -> Option<Interface> {
    let index = u32::from_ne_bytes(*body.get(4..8)?.first_chunk()?);
    let all = Attributes::after(body, 16);
    let counter = |number: usize| {
        let statistics = all.find(LINK_STATISTICS).unwrap_or(&[]);
        let word = statistics.get(8 * number..).and_then(|rest| rest.first_chunk::<8>());
        word.map_or(0, |word| u64::from_ne_bytes(*word))
    };
    Some(Interface {
        index,
        name: all.text(LINK_NAME)?.to_owned(),
        mac: all.find(LINK_ADDRESS).and_then(|mac| mac.try_into().ok()),
        mtu: all.number(LINK_MTU).unwrap_or(0) as u32,
        received: counter(0),
        sent: counter(1),
        receive_dropped: counter(6),
        send_dropped: counter(7),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_read_with_its_counters() {
        let mut routes = Routes::open().unwrap();
        let lo = routes.interface("lo").unwrap();
        assert_eq!((lo.index, lo.name.as_str(), lo.mac), (1, "lo", Some([0; 6])));
        assert!(lo.mtu >= 1280);
        assert!(routes.interfaces().unwrap().iter().any(|one| one.name == "lo"));
        assert_eq!(routes.index("no_such_one").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn a_token_bucket_is_told_in_ticks() {
        let options = token_bucket(125_000_000, 32_768, 250_000);
        assert_eq!(options[8..12], 125_000_000u32.to_ne_bytes());
        assert_eq!(options[24..28], 250_000u32.to_ne_bytes());
        assert_eq!(options[28..32], 4096u32.to_ne_bytes(), "262 us");
    }
}
