//! Measurements of a TCP flow.

/// One flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Duration, s.
    pub seconds: f64,
    /// Time in which there was something to send, s (`tcpi_busy_time`).
    pub busy: f64,
    /// Of that, time limited by the receiver's window, s (`tcpi_rwnd_limited`).
    pub rwnd_limited: f64,
    /// Of that, time limited by the send buffer, s (`tcpi_sndbuf_limited`).
    pub sndbuf_limited: f64,
    /// Fraction of the time that the sending and the receiving application waited for their disks, 0 to 1.
    pub disk_wait: f64,
    /// Fraction of the time that the receiving application had data and did not read, 0 to 1.
    pub reader_away: f64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Segments that the peer received twice.
    pub doubled: u64,
    /// Segments that arrived after a later one.
    pub reordered: u64,
    /// Bytes received; `None` if the receiver does not report them.
    pub received: Option<u64>,
    /// Smallest round-trip time, s.
    pub min_rtt: f64,
    /// The congestion control keeps its rate under loss (BBR), so its window says nothing about losses.
    pub paced: bool,
    /// The flow, one entry per round trip.
    pub rounds: Vec<Round>,
}

/// One round trip of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round {
    /// When it began, s.
    pub at: f64,
    /// Round-trip time before the first retransmission in this round trip, s; 0 if unknown.
    pub rtt: f64,
    /// Congestion window, in any unit.
    pub window: f64,
    /// Segments retransmitted.
    pub lost: u32,
    /// Segments sent.
    pub sent: u32,
    /// Rate of delivery, in any unit; 0 if unknown.
    pub rate: f64,
}
