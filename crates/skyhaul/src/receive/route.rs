//! Where a sender's packets go: to one stream, or to one for each of its threads.

use skyhaul_core::wire::Field;

/// Which of the streams a sender's packets belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One stream.
    One(usize),
    /// A stream for each thread: index of the table.
    Split(usize),
    /// Heaps or events: index of who sends them.
    Keyed(usize),
}

/// The streams of a sender whose threads are kept apart.
#[derive(Debug)]
pub(super) struct Split {
    /// Octets in front of the frame.
    pub(super) network: usize,
    /// The field of the frame's header that tells its thread.
    pub(super) field: &'static Field,
    /// The stream of each thread; the first stands for the sender where a packet has none.
    pub(super) streams: Vec<(u16, usize)>,
}
