//! What an object must be so that a [`Stream`](super::Stream) can send it.
//!
//! ```text
//!   Config ─ division ─┐
//!   Object ─ number  ──┴▶ Plan: packets by arithmetic ─ packet n ─▶ head, and which part of the object's chunks
//! ```

use super::payload::Chunks;
use crate::send::{Outlet, Pacing, SendError};
use skyhaul_core::packetize::Part;
use std::fmt::Debug;
use std::time::Duration;

/// How a stream of objects sends.
pub trait ObjectConfig: Clone + Debug + Send + Sync + 'static {
    /// How objects are divided into packets.
    type Division: Copy + PartialEq + Debug + Send + Sync;

    /// How objects are divided into packets.
    fn division(&self) -> Self::Division;

    /// Its rate.
    fn pacing(&self) -> Pacing;

    /// Its queue.
    fn waiting(&self) -> Waiting;

    /// Check that such packets can be sent there.
    ///
    /// # Errors
    /// [`SendError::Config`], with what would do.
    fn check(&self, outlet: &Outlet) -> Result<(), SendError>;
}

/// What waits in a stream's queue, and who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Maximum number of objects queued or being sent.
    pub most: usize,
    /// How long dropping the stream waits for queued objects.
    pub linger: Duration,
    /// Processor for the stream's own thread.
    pub cpu: Option<usize>,
}

/// An object that is sent as packets.
pub trait Object: Debug + Send + Sync + Sized + 'static {
    /// How a stream of them sends.
    type Config: ObjectConfig;
    /// One of them divided into packets: a few numbers.
    type Plan: Clone + Send + Sync;

    /// Check that it can be sent, so that nothing is sent of several objects of which one cannot.
    ///
    /// # Errors
    /// [`SendError::Packets`].
    fn check(&self, division: Division<Self>) -> Result<(), SendError>;

    /// Divide it.
    ///
    /// # Errors
    /// [`SendError::Packets`].
    fn plan(&self, division: Division<Self>, number: u64) -> Result<Self::Plan, SendError>;

    /// The same plan for another number.
    fn with_number(plan: &Self::Plan, number: u64) -> Self::Plan;

    /// Number of packets, at least 1.
    fn count(plan: &Self::Plan) -> u64;

    /// Bytes of packet `n`.
    fn bytes_of(plan: &Self::Plan, n: u64) -> u64;

    /// Bytes of the longest head.
    fn head_bytes_max(plan: &Self::Plan) -> usize;

    /// Write the head of packet `n` to the front of `head`, which has room for the longest.
    fn packet(&self, plan: &Self::Plan, n: u64, head: &mut [u8]) -> Part;

    /// Its bytes.
    fn chunks(&self) -> &Chunks;
}

/// How objects of this kind are divided.
pub type Division<O> = <<O as Object>::Config as ObjectConfig>::Division;
