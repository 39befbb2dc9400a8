//! What must not circulate: packets that a balancer sent itself, and addresses that lead back to it.

use skyhaul_core::balance::Kind;
use skyhaul_io::host::interface::addresses;
use skyhaul_io::host::way::{Leads, leads};
use skyhaul_io::udp::forward::Forwarder;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Words of a set of ports.
const WORDS: usize = 65_536 / 64;

/// What an address is to this host. What its kernel does not say is another host's.
pub(super) fn kind(ip: IpAddr) -> Kind {
    match leads(ip) {
        Ok(Leads::Here) => Kind::Own,
        Ok(Leads::Everyone) => Kind::Broadcast,
        Ok(Leads::Elsewhere) | Err(_) => Kind::Other,
    }
}

/// Whether it is an address of this host.
pub(super) fn leads_here(ip: IpAddr) -> bool {
    kind(ip) == Kind::Own
}

/// Addresses and ports that planes send from.
pub(super) struct Own {
    /// Ports, to say quickly that a packet is another's.
    ports: Box<[u64; WORDS]>,
    from: BTreeSet<SocketAddr>,
}

impl Default for Own {
    /// Nothing.
    fn default() -> Own {
        Own { ports: Box::new([0; WORDS]), from: BTreeSet::new() }
    }
}

impl Own {
    /// Of these. A socket that sends from any address may have sent from each of the host's.
    pub(super) fn of<'a>(forwarders: impl Iterator<Item = &'a Forwarder>) -> Own {
        let host: Vec<IpAddr> =
            addresses().map_or(Vec::new(), |all| all.into_iter().map(|(_, ip)| ip).collect());
        let mut own = Own::default();
        for at in forwarders.flat_map(Forwarder::locals) {
            own.ports[usize::from(at.port()) / 64] |= 1 << (at.port() % 64);
            let every = host.iter().filter(|ip| ip.is_ipv4() == at.is_ipv4());
            match at.ip().is_unspecified() {
                true => own.from.extend(every.map(|ip| SocketAddr::new(*ip, at.port()))),
                false => _ = own.from.insert(at),
            }
        }
        own
    }

    /// Whether a packet of this sender is one of ours.
    #[inline]
    pub(super) fn sent(&self, sender: &SocketAddr) -> bool {
        let port = sender.port();
        self.ports[usize::from(port) / 64] >> (port % 64) & 1 == 1 && self.is_among(sender)
    }

    #[cold]
    fn is_among(&self, sender: &SocketAddr) -> bool {
        // A link-local sender has a scope, which the socket's own address has not.
        self.from.contains(&SocketAddr::new(sender.ip(), sender.port()))
    }
}
