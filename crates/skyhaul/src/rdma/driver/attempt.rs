//! How long a peer has to answer.

use crate::stop::StopFlag;
use std::time::{Duration, Instant};

/// Time for a peer to answer a request for a connection, and to confirm its end, unless less was asked for.
pub(in crate::rdma) const HANDSHAKE: Duration = Duration::from_secs(5);

/// A connection that is being made: by when, and whether it is still wanted.
#[derive(Clone, Debug)]
pub(in crate::rdma) struct Attempt {
    pub(in crate::rdma) stop: StopFlag,
    /// From the beginning to the peer's answer, the stream's own handshake included (TCP).
    pub(in crate::rdma) patience: Duration,
    began: Instant,
}

impl Attempt {
    /// One that begins now.
    pub(in crate::rdma) fn new(stop: &StopFlag, patience: Duration) -> Attempt {
        Attempt { stop: stop.clone(), patience, began: Instant::now() }
    }

    /// What is left of its time.
    pub(in crate::rdma) fn left(&self) -> Duration {
        self.patience.saturating_sub(self.began.elapsed())
    }
}
