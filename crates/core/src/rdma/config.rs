//! The fixed limits of an endpoint.

use crate::placement::Nanos;
use crate::wire::rdma::RdmaProfile;

/// Messages behind the newest that are still told apart: older ones are late.
pub(super) const HORIZON: u64 = 256;

/// Fixed limits of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaConfig {
    /// What carries the segments.
    pub profile: RdmaProfile,
    /// The longest datagram, bytes of UDP payload: the path's MTU less 28 for IPv4, 48 for IPv6. At least 128. On TCP the longest
    /// FPDU, and each connection has its own limit: [`limit_path`](crate::rdma::RdmaEndpoint::limit_path).
    pub datagram_bytes: u16,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of incomplete messages of a connection, 1 to 128: if one more begins, the oldest ends.
    pub window: usize,
    /// An incomplete message ends this long after its first segment, or after it was found to be missing. On TCP it ends only with its
    /// connection, since what is missing is still to come.
    pub message_timeout: Nanos,
    /// The longest message in bytes.
    pub max_message_bytes: u64,
    /// Maximum number of separate ranges tracked in a message.
    pub runs: u32,
    /// Maximum number of Reads of a peer that are served at a time. A reader that lost parts of an answer asks for each by a Read of its own.
    pub inbound_reads: u16,
    /// Maximum number of bytes of a peer's Reads that are served at a time.
    pub inbound_read_bytes: u64,
    /// Maximum number of own Reads of a connection at a time.
    pub outbound_reads: usize,
    /// The longest Read of a peer that is served, bytes.
    pub max_read_bytes: u32,
    /// Maximum number of operations of a connection that wait to be sent.
    pub queue: usize,
    /// Number of the newest datagrams of a connection that are tracked, to tell lost ones from late ones and duplicates: 64 to 2²⁴.
    pub datagrams: usize,
    /// Whether to ask for a CRC-32C on every datagram (UC) or FPDU (TCP). A connection has it if either end asks for it. `None`: in streams
    /// only. Bare datagrams never have one.
    pub crc: Option<bool>,
    /// Ask whether a silent peer is still there after this time; the end that was connected to waits [`question`](Self::question)
    /// longer, so that in general one of the two asks. `None`: never.
    pub keep_alive: Option<Nanos>,
    /// A question is repeated after this time without an answer; a peer that has not answered three is given up.
    pub question: Nanos,
    /// A request of a connection is repeated first after this time, then after twice as long each time; a close, after this time
    /// each time.
    pub retry: Nanos,
    /// A peer that was accepted and says nothing is given up after this time.
    pub handshake_timeout: Nanos,
    /// How long datagrams on their way are waited for after the peer has closed, and after each time that it says so again.
    pub linger: Nanos,
}

impl Default for RdmaConfig {
    /// UC, 1472 bytes, 64 connections, window 64, 1 s, 1 GiB, 1024 runs, 256 Reads and 256 MiB of a peer at a time, 16 Reads of this side, 16 MiB a Read, 1024 operations, a CRC on TCP only,
    /// no keep-alive, a second for an answer to a question, retry after 50 ms, 5 s for a handshake, 200 ms linger.
    fn default() -> Self {
        Self {
            profile: RdmaProfile::Uc,
            datagram_bytes: 1472,
            connections: 64,
            window: 64,
            message_timeout: Nanos::SECOND,
            max_message_bytes: 1 << 30,
            runs: 1024,
            inbound_reads: 256,
            inbound_read_bytes: 256 << 20,
            outbound_reads: 16,
            max_read_bytes: 16 << 20,
            queue: 1024,
            datagrams: 1024,
            crc: None,
            keep_alive: None,
            question: Nanos::SECOND,
            retry: Nanos(50_000_000),
            handshake_timeout: Nanos(5_000_000_000),
            // A close is repeated after each `retry`: three in a row must be lost before one finds nobody.
            linger: Nanos(200_000_000),
        }
    }
}

impl RdmaConfig {
    /// Whether this end asks for the CRC.
    #[must_use]
    pub fn asks_for_crc(&self) -> bool {
        self.crc.unwrap_or(self.profile == RdmaProfile::Tcp)
    }

    /// Checks that the limits are valid.
    ///
    /// # Errors
    /// A sentence for the user that names the limit that is out of bounds.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if self.datagram_bytes < 128 => Err("a datagram must have at least 128 bytes"),
            _ if !(1..=128).contains(&self.window) => Err("the window must be 1 to 128 messages"),
            _ if self.runs == 0 => Err("runs must be at least 1"),
            _ if !(1..=u64::from(u32::MAX)).contains(&self.max_message_bytes) => {
                Err("a message must have 1 byte to 4 GiB")
            }
            _ if self.retry.0 == 0 => Err("the time before a retry must not be 0"),
            _ => Ok(()),
        }
    }
}
