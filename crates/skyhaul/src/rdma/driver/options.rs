//! How to open a driver.

use super::attempt::Attempt;
use crate::rdma::address::RdmaAddress;
use crate::rdma::kernel::MAX_DATAGRAM_BYTES;
use skyhaul_core::rdma::RdmaConfig;
use skyhaul_core::wire::rdma::RdmaProfile;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::fault::Faults;
use skyhaul_io::udp::send::largest_datagram;
use std::io;
use std::time::Duration;

/// Tallies of what is sent.
pub(super) const SEGMENTS: usize = 0;
pub(super) const CONTROLS: usize = 1;

/// Reads of a connection at a time: what a server of this house serves.
pub const MAX_OUTSTANDING: usize = 256;

/// How to open a driver.
#[derive(Clone, Debug)]
pub(in crate::rdma) struct DriverOptions {
    /// `None`: any port, towards this peer.
    pub(in crate::rdma) listen: Option<Endpoint>,
    pub(in crate::rdma) peer: Option<Endpoint>,
    pub(in crate::rdma) config: RdmaConfig,
    /// To connect to the peer.
    pub(in crate::rdma) attempt: Attempt,
    /// On what arrives.
    pub(in crate::rdma) arriving: Option<Faults>,
    /// On segments that leave.
    pub(in crate::rdma) leaving: Option<Faults>,
    /// Read the socket this often at high rates; zero: at once.
    pub(in crate::rdma) gather: Duration,
    /// Have the kernel place Writes of peers into regions of these lengths, if it can.
    pub(in crate::rdma) place: Option<Vec<u64>>,
}

impl DriverOptions {
    /// Of an end that connects, without faults.
    ///
    /// # Errors
    /// The path to the peer is not known.
    pub(in crate::rdma) fn of_client(
        to: &RdmaAddress,
        datagram: Option<u16>,
        crc: Option<bool>,
        attempt: &Attempt,
    ) -> io::Result<DriverOptions> {
        let config = RdmaConfig {
            profile: profile(&to.endpoint),
            datagram_bytes: datagram_bytes(datagram, &to.endpoint)?,
            max_message_bytes: u64::from(u32::MAX),
            outbound_reads: MAX_OUTSTANDING,
            crc,
            ..RdmaConfig::default()
        };
        let (peer, gather) = (Some(to.endpoint.clone()), Duration::ZERO);
        let (arriving, leaving, place) = (None, None, None);
        let attempt = attempt.clone();
        Ok(DriverOptions { listen: None, peer, config, attempt, arriving, leaving, gather, place })
    }
}

/// What is spoken at an address.
pub(in crate::rdma) fn profile(at: &Endpoint) -> RdmaProfile {
    if at.transport == Transport::Tcp { RdmaProfile::Tcp } else { RdmaProfile::Uc }
}

/// The largest datagram for the path to a peer, at most that of a jumbo frame. In a stream the path is asked when it is connected.
fn datagram_bytes(asked: Option<u16>, peer: &Endpoint) -> io::Result<u16> {
    if peer.transport == Transport::Tcp {
        return Ok(asked.unwrap_or(u16::MAX));
    }
    let most = largest_datagram(peer)?;
    let usual = most.min(MAX_DATAGRAM_BYTES);
    Ok(asked.unwrap_or_else(|| u16::try_from(usual).unwrap_or(u16::MAX)))
}
