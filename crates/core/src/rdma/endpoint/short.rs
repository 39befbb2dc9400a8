//! Short Writes that their caller sends in the same moment: a queue, an event and memory that outlives the call cost more than the datagram.

use super::{RdmaEndpoint, State};
use crate::placement::Nanos;
use crate::rdma::event::RemoteAddress;
use crate::rdma::outbound::{SHORT_HEAD_BYTES, room};
use crate::wire::rdma::RdmaProfile;
use core::net::SocketAddr;

/// A Write of one datagram that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortWrite {
    /// The peer.
    pub to: SocketAddr,
    /// What precedes the payload. Nothing follows it.
    pub head: [u8; SHORT_HEAD_BYTES],
}

impl RdmaEndpoint {
    /// Hands out a Write of so many bytes, to be sent before any other datagram; no event reports it. `None`: nothing was handed out, and it
    /// is to be [posted](Self::write): it does not fit one datagram, has a CRC, others wait before it, or the connection is not open, or not of
    /// the UC profile.
    pub fn write_short(&mut self, id: u32, to: RemoteAddress, length: u64, now: Nanos) -> Option<ShortWrite> {
        let most = self.config.max_message_bytes;
        let is_first = self.waiting.is_empty();
        let connection = self.connections.get_mut(&id)?;
        let path = connection.path;
        let is_uc = path.profile == RdmaProfile::Uc && !path.has_crc;
        let is_next = is_first && connection.state == State::Open && connection.outbound.len() == 0;
        if !is_uc || !is_next || !(1..=room(&path, true).min(most)).contains(&length) {
            return None;
        }
        connection.say(now);
        let head = connection.outbound.short(&path, to);
        self.counts.sent += 1;
        self.next_operation += 1;
        Some(ShortWrite { to: path.to, head })
    }
}
