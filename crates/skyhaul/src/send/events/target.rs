//! Where events go: a balancer's URI, or a receiver's address.

use skyhaul_core::wire::{BalancerUri, DataAddress, UriError};
use skyhaul_io::address::{Endpoint, NotAnEndpoint, Transport};
use std::net::SocketAddr;

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// One address for each port that may be used, at least one; of a long range only the first
    /// [`PORTS`](Self::PORTS).
    data: Vec<Endpoint>,
    /// Where synchronisation messages go.
    pub sync: Option<Endpoint>,
    /// Whether a balancer is there, which needs its header.
    pub is_balancer: bool,
}

/// Why a text does not say where events go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The URI is malformed.
    #[error("{0}")]
    Uri(#[from] UriError),
    /// The address is malformed.
    #[error("{0}")]
    Address(#[from] NotAnEndpoint),
    /// The URI names only the control plane.
    #[error(
        "the URI of {control} has no data=, and this sender does not ask the control plane for it; hint: use the URI \
         that the reservation printed, with data= and sync=, like ejfat://…/lb/1?data=10.0.0.1:19522&sync=10.0.0.1:19010"
    )]
    NoData {
        /// The control plane.
        control: String,
    },
    /// Not the transport of events.
    #[error("events go over UDP, not {transport}; hint: use a udp:// address")]
    Transport {
        /// The transport asked for.
        transport: &'static str,
    },
}

impl Target {
    /// Most ports of a range that are used.
    pub const PORTS: usize = 256;

    /// Read a balancer's URI, or an address with or without `udp://`. Of several addresses the first IPv4 one is taken, or with
    /// `ipv6` the first IPv6 one; if there is none of that kind, the first.
    ///
    /// # Errors
    /// See [`TargetError`]. A token is in none of them.
    pub fn read(text: &str, ipv6: bool) -> Result<Target, TargetError> {
        // No address has `@`: what has one is a URI with a mistake in its scheme, and its token is not to be shown.
        if BalancerUri::is_meant(text) || text.contains('@') {
            return Target::of(&text.parse()?, ipv6);
        }
        let whole = if text.contains("://") { text.to_owned() } else { format!("udp://{text}") };
        Target::direct(whole.parse()?)
    }

    /// To a receiver.
    ///
    /// # Errors
    /// [`TargetError::Transport`].
    pub fn direct(to: Endpoint) -> Result<Target, TargetError> {
        if to.transport != Transport::Udp {
            return Err(TargetError::Transport { transport: to.transport.scheme() });
        }
        Ok(Target { data: vec![to], sync: None, is_balancer: false })
    }

    /// To a balancer that is told of no ticks.
    #[must_use]
    pub fn balancer(at: Endpoint) -> Target {
        Target { data: vec![at], sync: None, is_balancer: true }
    }

    /// To the balancer of a URI.
    ///
    /// # Errors
    /// [`TargetError::NoData`].
    pub fn of(uri: &BalancerUri, ipv6: bool) -> Result<Target, TargetError> {
        let liked = uri.data.iter().find(|data| data.ip.is_ipv6() == ipv6);
        let Some(DataAddress { ip, ports }) = liked.or(uri.data.first()) else {
            return Err(TargetError::NoData { control: format!("{}:{}", uri.host, uri.port) });
        };
        let alike = uri.sync.iter().find(|sync| sync.is_ipv6() == ip.is_ipv6());
        let sync = alike.or(uri.sync.first()).copied().map(Endpoint::udp);
        let data = ports.clone().take(Self::PORTS).map(|port| Endpoint::udp(SocketAddr::new(*ip, port)));
        Ok(Target { data: data.collect(), sync, is_balancer: true })
    }

    /// Addresses for so many sockets: the ports in turn.
    #[must_use]
    pub fn endpoints(&self, sockets: usize) -> Vec<Endpoint> {
        self.data.iter().cycle().take(sockets.max(1)).cloned().collect()
    }

    /// The first address.
    #[must_use]
    pub fn first(&self) -> &Endpoint {
        &self.data[0]
    }

    /// Bytes of IP and UDP header of its datagrams.
    #[must_use]
    pub fn overhead(&self) -> usize {
        if self.first().address.is_ipv6() { 48 } else { 28 }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.first())?;
        if let [first, .., last] = &self.data[..]
            && first.address.port() != last.address.port()
        {
            write!(f, " to port {}", last.address.port())?;
        }
        if self.is_balancer { write!(f, " (balancer)") } else { Ok(()) }
    }
}
