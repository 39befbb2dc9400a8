//! The URI of a reservation, from the reply of the control plane.

use super::ControlPlane;
use crate::ejfat::proto::{ChainLoadBalancerRequest, CreateTokenReply, ReserveLoadBalancerReply};
use core::net::{IpAddr, SocketAddr};
use skyhaul::core::wire::ejfat::{DATA_PORT, DataAddress, Uri};

impl ControlPlane {
    /// Returns the URI of a reservation: the address at which the control plane was reached, whatever it calls itself,
    /// with the token and addresses of the reservation.
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
            // `GetLoadBalancer` returns no token, because the caller has one.
            token: given(&reply.token).or_else(|| self.uri.token.clone()),
            balancer: given(&reply.lb_id),
            data: data.into_iter().flatten().map(|ip| DataAddress { ip, ports: from..=to }).collect(),
            sync: sync.into_iter().flatten().filter_map(|ip| Some(SocketAddr::new(ip, sync_port?))).collect(),
            session: None,
        }
    }
}

impl ReserveLoadBalancerReply {
    /// The same, with this URI in place of the one that the control plane believes to be its own.
    #[must_use]
    pub fn reached_at(self, uri: &Uri) -> Self {
        Self { ejfat_uri: uri.to_string(), ..self }
    }
}

impl CreateTokenReply {
    /// The same, with this URI in place of the one that the control plane believes to be its own.
    #[must_use]
    pub fn reached_at(self, uri: &Uri) -> Self {
        Self { ejfat_uri: uri.to_string(), ..self }
    }
}

impl ChainLoadBalancerRequest {
    /// Options to receive from the load balancer at `uri`, with defaults for the rest.
    #[must_use]
    pub fn from_balancer(uri: &Uri) -> Self {
        Self { ejfat_uri: uri.to_string(), ..Self::default() }
    }
}
