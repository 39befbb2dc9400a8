//! RDMAP operations and their bodies (RFC 5040; Immediate Data: RFC 7306, 6).

/// The only version of RDMAP on DDP (RFC 5040, 4.1).
pub const VERSION: u8 = 1;

crate::named! {
    /// An operation, in the order of its code (RFC 5040, figure 4; RFC 7306, figure 1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum RdmapOpcode {
        /// Bytes for a region of the peer.
        Write = "write",
        /// Asks for bytes of a region of the peer.
        ReadRequest = "read_request",
        /// Those bytes.
        ReadResponse = "read_response",
        /// A message for the next buffer that the peer has posted.
        Send = "send",
        /// The same; an STag of the peer is invalid from then on.
        SendInvalidate = "send_invalidate",
        /// A Send that wakes the peer.
        SendSolicited = "send_solicited",
        /// Both.
        SendSolicitedInvalidate = "send_solicited_invalidate",
        /// Ends the stream, with a reason.
        Terminate = "terminate",
        /// Eight bytes for the peer's program.
        Immediate = "immediate",
        /// The same; it wakes the peer.
        ImmediateSolicited = "immediate_solicited",
        /// Atomic Request: refused.
        AtomicRequest = "atomic_request",
        /// Atomic Response: refused.
        AtomicResponse = "atomic_response",
    }
}

impl RdmapOpcode {
    /// Its code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The operation with this code.
    #[must_use]
    pub fn of(code: u8) -> Option<RdmapOpcode> {
        RdmapOpcode::ALL.get(usize::from(code)).copied()
    }

    /// The untagged queue of its messages; `None`: they are tagged.
    #[must_use]
    pub const fn queue(self) -> Option<u32> {
        match self {
            RdmapOpcode::Write | RdmapOpcode::ReadResponse => None,
            RdmapOpcode::ReadRequest | RdmapOpcode::AtomicRequest => Some(1),
            RdmapOpcode::Terminate => Some(2),
            RdmapOpcode::AtomicResponse => Some(3),
            _ => Some(0),
        }
    }

    /// Whether it is one of the four Sends.
    #[must_use]
    pub const fn is_send(self) -> bool {
        matches!(self.code(), 3..=6)
    }

    /// Whether it invalidates an STag of the peer.
    #[must_use]
    pub const fn invalidates(self) -> bool {
        matches!(self, RdmapOpcode::SendInvalidate | RdmapOpcode::SendSolicitedInvalidate)
    }

    /// Whether it wakes the peer (Solicited Event).
    #[must_use]
    pub const fn is_solicited(self) -> bool {
        matches!(
            self,
            RdmapOpcode::SendSolicited
                | RdmapOpcode::SendSolicitedInvalidate
                | RdmapOpcode::ImmediateSolicited
        )
    }
}

crate::header! {
    /// The body of a Read Request (RFC 5040, 4.4).
    ReadRequest [28] {
        be u32 @ 0 { /** The requester's buffer for the answer. */ sink_stag }
        be u64 @ 4 { /** Where the answer begins in it. */ sink_offset }
        be u32 @ 12 { /** Bytes to read. */ size }
        be u32 @ 16 { /** The responder's buffer. */ source_stag }
        be u64 @ 20 { /** Where to read in it. */ source_offset }
    }
}

crate::header! {
    /// The body of Immediate Data (RFC 7306, 6.1).
    ImmediateData [8] {
        be u64 @ 0 { /** For the peer's program. */ value }
    }
}
