//! The URI of a reservation, from what the control plane replied.

use super::ControlPlane;
use crate::ejfat::proto::ReserveLoadBalancerReply;
use core::net::{IpAddr, SocketAddr};
use skyhaul::core::wire::ejfat::{DATA_PORT, DataAddress, Uri};

impl ControlPlane {
    /// The URI of a reservation: the control plane as it was reached, whatever it calls itself, with the reservation's
    /// token and addresses.
    #[must_use]
    pub fn uri_of(&self, reply: &ReserveLoadBalancerReply) -> Uri {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let addresses = |v4: &str, v6: &str| [v4, v6].map(|text| text.parse::<IpAddr>().ok());
        let port = |number: u32| u16::try_from(number).ok().filter(|&port| port != 0);
        let from = port(reply.data_min_port).unwrap_or(DATA_PORT);
        let to = port(reply.data_max_port).filter(|to| *to >= from).unwrap_or(from);
        let data = addresses(&reply.data_ipv4_address, &reply.data_ipv6_address);
        let sync = addresses(&reply.sync_ipv4_address, &reply.sync_ipv6_address);
        let sync_port = port(reply.sync_udp_port);
        Uri {
            tls: self.uri.tls,
            host: self.uri.host.clone(),
            port: self.uri.port,
            // `GetLoadBalancer` gives none: whoever asked has one.
            token: given(&reply.token).or_else(|| self.uri.token.clone()),
            balancer: given(&reply.lb_id),
            data: data.into_iter().flatten().map(|ip| DataAddress { ip, ports: from..=to }).collect(),
            sync: sync.into_iter().flatten().filter_map(|ip| Some(SocketAddr::new(ip, sync_port?))).collect(),
            session: None,
        }
    }
}
