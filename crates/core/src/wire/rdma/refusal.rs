//! Why a segment, a datagram or a request is refused.

use crate::placement::Reject;

crate::named! {
    /// Why a datagram or an operation of RDMA was refused. Each reason is a counter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum RdmaRefusal {
        /// Shorter than its headers.
        Truncated = "truncated",
        /// Longer or shorter than its operation allows.
        WrongSize = "wrong_size",
        /// Its CRC is wrong, or missing where one was agreed.
        BadChecksum = "bad_checksum",
        /// Another version of DDP, RDMAP, MPA or the shim.
        BadVersion = "bad_version",
        /// An operation code that no RFC defines.
        BadOpcode = "bad_opcode",
        /// An atomic operation (RFC 7306, 5): not supported.
        Atomic = "atomic",
        /// Tagged where its operation is untagged, or the reverse, or on another queue.
        Mismatch = "mismatch",
        /// MPA markers: not supported.
        Markers = "markers",
        /// For no connection of this endpoint.
        UnknownConnection = "unknown_connection",
        /// From another address than the connection's.
        WrongAddress = "wrong_address",
        /// A connect request whose cookie is not that of its address.
        Unproven = "unproven",
        /// More connections than allowed.
        TooManyConnections = "too_many_connections",
        /// No region has this STag: none was given out, the key is another, or it was invalidated.
        BadStag = "bad_stag",
        /// Outside the region.
        OutOfBounds = "out_of_bounds",
        /// Offset and length exceed 64 bits.
        OffsetWrap = "offset_wrap",
        /// The peer may not do this in the region.
        NoAccess = "no_access",
        /// It contradicts other segments of its message.
        Inconsistent = "inconsistent",
        /// Its message has ended already, incomplete.
        Late = "late",
        /// These bytes have arrived already.
        Duplicate = "duplicate",
        /// Overlaps bytes that have arrived.
        Overlap = "overlap",
        /// Would leave its message in more pieces than are tracked.
        Fragmented = "fragmented",
        /// A Send for which no buffer is posted, or that is longer than the buffer.
        NoBuffer = "no_buffer",
        /// More Reads than are served at a time.
        TooManyReads = "too_many_reads",
        /// The queue of operations is full.
        QueueFull = "queue_full",
        /// In a state of the connection in which it has no meaning.
        Unexpected = "unexpected",
    }
}

impl From<Reject> for RdmaRefusal {
    fn from(reject: Reject) -> RdmaRefusal {
        match reject {
            Reject::Late => RdmaRefusal::Late,
            Reject::Duplicate => RdmaRefusal::Duplicate,
            Reject::Overlap => RdmaRefusal::Overlap,
            Reject::Fragmented => RdmaRefusal::Fragmented,
            Reject::NoBuffer => RdmaRefusal::NoBuffer,
            Reject::Outside => RdmaRefusal::OutOfBounds,
            _ => RdmaRefusal::Inconsistent,
        }
    }
}

impl RdmaRefusal {
    /// The reason in the words of other formats, for `inspect`.
    #[must_use]
    pub fn reject(self) -> Reject {
        match self {
            RdmaRefusal::Truncated => Reject::Truncated,
            RdmaRefusal::WrongSize => Reject::WrongSize,
            RdmaRefusal::BadChecksum => Reject::BadChecksum,
            RdmaRefusal::BadVersion => Reject::BadVersion,
            _ => Reject::BadField,
        }
    }
}

/// One counter for each [`RdmaRefusal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaRefusals([u64; RdmaRefusal::ALL.len()]);

impl RdmaRefusals {
    /// Counts one.
    pub fn add(&mut self, reason: RdmaRefusal) {
        self.0[reason as usize] += 1;
    }

    /// The count of `reason`.
    #[must_use]
    pub fn get(&self, reason: RdmaRefusal) -> u64 {
        self.0[reason as usize]
    }

    /// The reasons counted at least once, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (RdmaRefusal, u64)> + '_ {
        RdmaRefusal::ALL.into_iter().map(|reason| (reason, self.get(reason))).filter(|&(_, count)| count > 0)
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
