//! The shim of the UC profile: what unreliable delivery needs and DDP lacks. Our own format.
//!
//! A tagged DDP segment has no message number and does not say where its message began. After a loss, a receiver of bare
//! DDP cannot tell the head of a message from its middle, and a message that is lost whole leaves no trace. Eighteen
//! octets before the DDP header repair that; the DDP segment behind them is unchanged.
//!
//! ```text
//!   shim │ DDP header │ payload │ (CRC-32C)        a segment
//!   shim │ control │ private data │ CRC-32C        sets up, keeps or ends a connection
//! ```

crate::header! {
    /// Before each datagram of the UC profile.
    UcShim [18] {
        be u16 @ 0 {
            /** 1. */ version[15:12],
            /** F: the first segment of its message. */ first[11],
            /** C: a CRC-32C of all octets before it ends the datagram. */ crc[10],
            /** K: a control body follows, not DDP. */ control[9],
            /** R: repeats a request whose answer has not arrived in time. */ repeated[8],
            /** I: Immediate Data ends this Write; on each segment of both. */ immediate[7],
            /** Zero; not checked on receipt. */ reserved[6:0]
        }
        be u32 @ 2 { /** The connection, by the number that the receiver of this datagram chose. */ conn_id }
        be u32 @ 6 { /** The datagram's number in its direction, from 1. */ psn }
        be u32 @ 10 { /** The message's number in its direction, from 1, tagged and untagged alike. */ msn }
        be u32 @ 14 { /** Where the payload begins in the message. */ offset }
    }
}

crate::header! {
    /// The body of a control datagram. All kinds have the same length, so no answer is longer than its question.
    UcControl [52] {
        be u16 @ 0 { /** Request, challenge, accept, reject, ready, close, closed, ping, pong: 1 to 9. */ kind }
        be u16 @ 2 { /** Bytes of private data that follow, at most 512. */ private_bytes }
        be u64 @ 4 { /** Chosen by the requester; the same in all datagrams of a set-up. */ nonce }
        be u64 @ 12 { /** First half of the cookie; zero in the first request. */ cookie_start }
        be u64 @ 20 { /** Second half of the cookie. */ cookie_end }
        be u32 @ 28 { /** The number by which the sender of this datagram wants to be addressed. */ conn_id }
        be u16 @ 32 { /** The longest datagram that its sender takes, octets of UDP payload. */ datagram_bytes }
        be u16 @ 34 { /** Reads that its sender serves at a time. */ ird }
        be u16 @ 36 { /** Bit 0: a CRC on every datagram. */ options }
        be u16 @ 38 { /** Zero; not checked on receipt. */ reserved }
        be u32 @ 40 { /** In a close: the number of the next datagram that it would have sent. */ next_psn }
        be u32 @ 44 { /** In a close: the number of the next message that it would have sent. */ next_msn }
        be u32 @ 48 { /** Zero; not checked on receipt. */ spare }
    }
}

/// The only version.
pub const VERSION: u16 = 1;
/// Private data in bytes, at most, as in MPA.
pub const MAX_PRIVATE_BYTES: usize = 512;
/// [`UcControl::options`]: a CRC on every datagram.
pub const OPTION_CRC: u16 = 1;

crate::named! {
    /// What a control datagram does, in the order of its code, which begins at 1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum UcKind {
        /// Asks for a connection; with the cookie of its address, when it has one.
        Request = "request",
        /// Gives out the cookie. No state is kept of it.
        Challenge = "challenge",
        /// Accepts.
        Accept = "accept",
        /// Rejects.
        Reject = "reject",
        /// Confirms the accept.
        Ready = "ready",
        /// Ends the connection, with the numbers of what was sent.
        Close = "close",
        /// Confirms the end.
        Closed = "closed",
        /// Asks whether the peer is there.
        Ping = "ping",
        /// It is.
        Pong = "pong",
    }
}

impl UcKind {
    /// Its code.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16 + 1
    }

    /// The kind with this code.
    #[must_use]
    pub fn of(code: u16) -> Option<UcKind> {
        UcKind::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

impl UcControl {
    /// Its cookie.
    #[must_use]
    pub fn cookie(&self) -> [u8; 16] {
        (u128::from(self.cookie_start) << 64 | u128::from(self.cookie_end)).to_be_bytes()
    }

    /// The same body with this cookie.
    #[must_use]
    pub fn with_cookie(self, cookie: [u8; 16]) -> UcControl {
        let cookie = u128::from_be_bytes(cookie);
        UcControl { cookie_start: (cookie >> 64) as u64, cookie_end: cookie as u64, ..self }
    }
}
