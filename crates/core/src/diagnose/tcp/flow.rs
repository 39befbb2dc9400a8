//! What is known of a TCP flow.

/// One flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Duration, s.
    pub seconds: f64,
    /// Time in which there was something to send, s (`tcpi_busy_time`).
    pub busy: f64,
    /// Of that, held by the receiver's window (`tcpi_rwnd_limited`),
    pub rwnd_limited: f64,
    /// and by the send buffer (`tcpi_sndbuf_limited`), s.
    pub sndbuf_limited: f64,
    /// Part of the time that the sending and the receiving application waited for their disks, 0 to 1.
    pub disk_wait: f64,
    /// Part of the time that the receiving application had data and did not read, 0 to 1.
    pub reader_away: f64,
    /// Segments sent,
    pub segments: u64,
    /// sent again,
    pub retransmitted: u64,
    /// that the peer got twice,
    pub doubled: u64,
    /// and times that one was seen to arrive behind a later one.
    pub reordered: u64,
    /// Bytes that the receiver got; none if it does not say.
    pub received: Option<u64>,
    /// Least round trip, s.
    pub min_rtt: f64,
    /// The sender keeps a rate, whatever is lost (bbr): its window says nothing of losses.
    pub paced: bool,
    /// What it did, round trip by round trip.
    pub rounds: Vec<Round>,
}

/// A round trip's worth of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round {
    /// When it began, s.
    pub at: f64,
    /// Round trip before anything was sent again in it, s; 0 if it is not known: what stood still for a moment says nothing of a queue.
    pub rtt: f64,
    /// Congestion window, in any unit.
    pub window: f64,
    /// Segments sent again,
    pub lost: u32,
    /// and sent at all.
    pub sent: u32,
    /// Rate of delivery, in any unit; 0 if it is not known.
    pub rate: f64,
}
