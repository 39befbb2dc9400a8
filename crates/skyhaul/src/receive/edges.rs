//! Where a stream is cut off by the clock while its packets arrive out of order.
//!
//! ```text
//!   sent        1  2  3  4  5  6  7  8  9 10 11 12        3 and 9 are delayed
//!   arrived     1  2  4  5 │ 6  3  7  8 10 │ 11  9 12
//!                   started ┘       stopped ┘
//!   stream                   6     7  8  9 10             neither 3 nor 4 and 5 are lost, and 9 still comes
//! ```
//!
//! A stream that was arriving before the start begins behind everything that came until then; a late packet from before is
//! `before_start`. At a stop it ends with the last frame that came until then: for a moment, late packets are still taken and
//! later ones are `after_stop`. So no frame counts as lost that arrived a moment too early or too late.
//!
//! Limits: a receiver that is started in the middle of a stream without a start time cannot know which frames came before; a
//! packet that is delayed by more than 0.3 s at the stop is lost.

use skyhaul_core::placement::{Nanos, Reject};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;

/// Senders that are remembered from before the start.
const MOST_EARLY: usize = 1024;
/// A sender that was silent for this long before its first packet was not cut off.
const RECENT: Nanos = Nanos::SECOND;

/// Check that a frame is within the edges of its stream.
///
/// # Errors
/// [`Reject::BeforeStart`] or [`Reject::AfterStop`].
pub(super) fn admit(only: &Range<u64>, number: u64) -> Result<(), Reject> {
    if number < only.start {
        return Err(Reject::BeforeStart);
    }
    if number >= only.end {
        return Err(Reject::AfterStop);
    }
    Ok(())
}

/// Senders whose packets arrived before the start, and when the last one did.
#[derive(Debug, Default)]
pub(super) struct Early(HashMap<SocketAddr, Nanos>);

impl Early {
    /// A packet of `sender` arrived too early.
    pub(super) fn heard(&mut self, sender: SocketAddr, now: Nanos) {
        if self.0.len() < MOST_EARLY || self.0.contains_key(&sender) {
            self.0.insert(sender, now);
        }
    }

    /// Whether a stream whose first packet came at `since` was arriving already.
    pub(super) fn was_cut(&self, sender: SocketAddr, since: Nanos) -> bool {
        self.0.get(&sender).is_some_and(|&last| since.since(last) < RECENT)
    }
}
