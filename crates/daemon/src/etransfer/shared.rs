//! What all channels share.

use super::options::EtransferTimes;
use super::site::Site;
use super::transfer::Transfers;
use crate::tcp_service::Connections;
use skyhaul_core::balance::AllowList;
use skyhaul_core::etransfer::{DataProtocol, EtransferAddress};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) uploads: AtomicU64,
    pub(super) downloads: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// What all channels share.
pub(super) struct Shared {
    pub(super) site: Arc<Site>,
    pub(super) transfers: Transfers,
    pub(super) send_to: AllowList,
    /// Where the data channel is.
    pub(super) data: SocketAddr,
    pub(super) times: EtransferTimes,
    /// The connections of the command and of the data channel.
    pub(super) ports: [Arc<Connections>; 2],
    pub(super) counters: Counters,
}

impl Shared {
    /// Where data channels are opened, first that of the IP version of the client.
    pub(super) fn data_addresses(&self, client: IpAddr) -> Vec<EtransferAddress> {
        let (ip, port) = (self.data.ip(), self.data.port());
        let of = |ip: IpAddr| EtransferAddress {
            protocol: if ip.is_ipv4() { DataProtocol::Tcp } else { DataProtocol::Tcp6 },
            host: ip.to_string(),
            port,
        };
        if ip != IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            return vec![of(ip)];
        }
        // Linux takes both versions on such a socket.
        let mut both = vec![of(Ipv4Addr::UNSPECIFIED.into()), of(ip)];
        if client.to_canonical().is_ipv6() {
            both.reverse();
        }
        both
    }
}
