//! The ledger of an endpoint.

use crate::wire::rdma::RdmaRefusals;

/// What became of every datagram that arrived, and of every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaCounts {
    /// Datagrams that arrived (TCP: frames).
    pub datagrams: u64,
    /// Of these: payload for a place in memory.
    pub placed: u64,
    /// Of these: segments without payload for memory: requests, immediate data, empty messages, reasons to end.
    pub consumed: u64,
    /// Of these: control datagrams that were acted upon or answered.
    pub control: u64,
    /// Of these: refused, by reason.
    pub refused: RdmaRefusals,
    /// Bytes given a place.
    pub placed_bytes: u64,
    /// Datagrams handed out for sending.
    pub sent: u64,
    /// Messages of peers that ended complete.
    pub complete: u64,
    /// Messages of peers that ended incomplete, some of their bytes there.
    pub incomplete: u64,
    /// Messages from peers that were lost whole.
    pub lost: u64,
    /// Times that answers to own Reads were due and none came, so that a part of what was missing was asked for again.
    pub silences: u64,
    /// Operations of this side that were refused, by reason.
    pub refused_here: RdmaRefusals,
}

impl RdmaCounts {
    /// Checks that every datagram has one fate.
    ///
    /// # Panics
    /// If the sum is wrong: a fault of the endpoint.
    pub fn check(&self) {
        let fates = self.placed + self.consumed + self.control + self.refused.total();
        assert_eq!(self.datagrams, fates, "a datagram without a fate, or with two: {self:?}");
    }
}
