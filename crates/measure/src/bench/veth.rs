//! Two networks of their own, with a pair of interfaces between.

use skyhaul_io::namespace::Network;
use skyhaul_io::netlink::route::Routes;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;

/// Bytes of the largest packet: a jumbo frame.
const MTU: u32 = 9000;
const NAME: &str = "bench0";
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 2);

/// The networks of the sender and the receiver. They end with the last thread in them and this value.
#[derive(Debug)]
pub(super) struct Veth {
    pub(super) networks: (Network, Network),
    /// Of the receiver.
    pub(super) address: IpAddr,
}

impl Veth {
    /// Make them.
    ///
    /// # Errors
    /// The privilege is missing, or the kernel knows no veth.
    pub(super) fn new() -> io::Result<Veth> {
        let (sender, receiver) = (Network::new()?, Network::new()?);
        sender.inside(|| Routes::open()?.veth(NAME, (NAME, receiver.as_fd()), MTU))??;
        sender.inside(|| furnish(SENDER))??;
        receiver.inside(|| furnish(RECEIVER))??;
        Ok(Veth { networks: (sender, receiver), address: RECEIVER.into() })
    }

    /// Packets that the sender's interface has sent, trains counted once.
    pub(super) fn packets(&self) -> io::Result<u64> {
        self.networks.0.inside(|| Ok(Routes::open()?.interface(NAME)?.sent))?
    }
}

/// In a network: its address, and its interfaces up.
fn furnish(address: Ipv4Addr) -> io::Result<()> {
    let mut routes = Routes::open()?;
    let (lo, own) = (routes.index("lo")?, routes.index(NAME)?);
    routes.up(lo)?;
    routes.address(own, address.into(), 24)?;
    routes.up(own)
}
