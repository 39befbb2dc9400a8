//! Why something was not sent.

use std::io;
use std::sync::Arc;

/// Why something was not sent, or not all of it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The queue holds as many heaps or events as it may.
    #[error(
        "queue {more} more: {waiting} of at most {most} are already waiting; hint: wait for a ticket, or let more of them wait"
    )]
    Full {
        /// Heaps or events to queue.
        more: usize,
        /// Those waiting.
        waiting: usize,
        /// Maximum number of those waiting.
        most: usize,
    },
    /// It was cancelled.
    #[error("cancelled before everything was sent")]
    Cancelled,
    /// It was cancelled in the middle of a packet, which closed the connection.
    #[error("the connection was closed when a packet was cancelled midway; hint: connect again")]
    Cut,
    /// The stream was closed.
    #[error("the stream is closed; hint: create a new one")]
    Closed,
    /// It was called on the stream's own thread, which would wait for itself.
    #[error(
        "a callback on this stream's own thread cannot wait, because it would wait for itself; hint: queue there, and wait elsewhere"
    )]
    OwnThread,
    /// The destination does not exist.
    #[error("no substream {asked}: this stream has {have}; hint: number them from 0")]
    NoSubstream {
        /// The number requested.
        asked: usize,
        /// How many there are.
        have: usize,
    },
    /// The settings are invalid.
    #[error("{0}")]
    Config(String),
    /// The object cannot be divided into packets.
    #[error("{0}")]
    Packets(String),
    /// Bytes of a heap or event are fewer than they were.
    #[error(
        "bytes to send have become fewer since they were added; hint: keep their length, or create a new heap or event"
    )]
    Changed,
    /// The socket failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        SendError::Io(Arc::new(error))
    }
}
