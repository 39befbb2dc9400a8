//! UDP: receiving in tiers, sending in trains.
//!
//! Receiving, one tier is used at a time, and all pass the same suite:
//!
//! | tier | how | for |
//! |---|---|---|
//! | [`Tier::Stage`] | `recvmmsg` with `UDP_GRO` into a scratch that stays in the cache | the default |
//! | [`Tier::Plain`] | the same without GRO: one message per packet | comparisons, and kernels older than 5.0 |
//! | [`Tier::Ring`] | a ring of packets shared with the kernel (`TPACKET_V3`) | many small single packets |
//! | [`Tier::Bpf`] | as stage, until a [program](bpf) in the kernel places a stream | streams whose format has a rule |
//! | [`Tier::Auto`] | stage, or a ring if the traffic suits it and the privilege is available | general use |
//!
//! Sending is in [`send`], answering a sender in [`reply`], sending on to one of many in [`forward`];
//! [`peer`] has a connected socket for each peer of a port.
//!
//! Limits: one socket and one thread each; several sockets on one port with [`UdpOptions::reuse_port`].

mod auto;
pub mod both;
pub mod bpf;
mod filter;
pub mod forward;
pub mod noted;
mod open;
pub mod peer;
pub mod reply;
mod ring;
pub mod selftest;
pub mod send;
mod socket;
mod submit;

use crate::{
    address::Endpoint,
    source::{Source, SourceStats, Train},
};
use auto::AutoTier;
pub use send::largest_datagram;

pub use open::{Tier, UdpOptions};
pub(crate) use open::{
    bind_to_interface, get as get_option, get_sized as get_sized_option, open_socket, set as set_option,
};
use ring::RingTier;
use socket::SocketTier;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A UDP port, or multicast group, as a [`Source`].
pub struct UdpSource {
    tier: InUse,
}

enum InUse {
    Socket(Box<SocketTier>),
    Ring(Box<RingTier>),
    Auto(Box<AutoTier>),
}

impl UdpSource {
    /// Bind (and join). From here on the kernel buffers packets.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint. A missing privilege is not an
    /// error, but a remedy in the [`stats`](Source::stats).
    pub fn open(at: &Endpoint, options: &UdpOptions) -> io::Result<Self> {
        Ok(Self {
            tier: match options.tier {
                Tier::Ring => InUse::Ring(Box::new(RingTier::open(at, options)?)),
                Tier::Auto => InUse::Auto(Box::new(AutoTier::open(at, options)?)),
                Tier::Stage | Tier::Plain | Tier::Bpf => {
                    InUse::Socket(Box::new(SocketTier::open(at, options)?))
                }
            },
        })
    }

    /// Read a bound socket that was created elsewhere. Its buffer and groups stay as they are; it is made blocking, and must
    /// not be read elsewhere. The ring tier is never used.
    ///
    /// # Errors
    /// The descriptor is not a bound UDP socket, or a system call failed: the error names the operation and the address.
    pub fn from_fd(fd: OwnedFd, options: &UdpOptions) -> io::Result<Self> {
        let opened = open::adopt(fd.into(), options)?;
        Ok(Self { tier: InUse::Socket(Box::new(SocketTier::new(opened, options)?)) })
    }

    /// The address it listens on, with the port that the system chose for port 0.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.endpoint().address
    }

    /// Another descriptor of its socket: to wait for it, or to share its port with sockets [connected](peer::beside) to one peer.
    ///
    /// # Errors
    /// A system error; and `Unsupported` for a ring.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        match &self.tier {
            InUse::Socket(tier) => Ok(tier.socket().try_clone()?.into()),
            InUse::Auto(tier) => Ok(tier.socket().try_clone()?.into()),
            InUse::Ring(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn endpoint(&self) -> &Endpoint {
        match &self.tier {
            InUse::Socket(tier) => tier.endpoint(),
            InUse::Ring(tier) => tier.endpoint(),
            InUse::Auto(tier) => tier.endpoint(),
        }
    }
}

impl Source for UdpSource {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        match &mut self.tier {
            InUse::Socket(tier) => tier.poll(wait, each),
            InUse::Ring(tier) => tier.poll(wait, each),
            InUse::Auto(tier) => tier.poll(wait, each),
        }
    }

    fn stats(&self) -> SourceStats {
        match &self.tier {
            InUse::Socket(tier) => tier.stats(),
            InUse::Ring(tier) => tier.stats(),
            InUse::Auto(tier) => tier.stats(),
        }
    }

    fn describe(&self) -> String {
        let stats = self.stats();
        format!("{}, tier {} ({})", self.endpoint(), stats.tier, stats.because)
    }
}
