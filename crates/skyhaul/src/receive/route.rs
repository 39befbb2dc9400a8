//! Route of a sender's packets: to one stream, or to one per thread.

use skyhaul_core::wire::Field;

/// The stream or streams of a sender's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One stream.
    One(usize),
    /// A stream for each thread: index of the table.
    Split(usize),
    /// Heaps or events: index of their sender.
    Keyed(usize),
}

/// The streams of a sender whose threads are separated.
#[derive(Debug)]
pub(super) struct Split {
    /// Octets in front of the frame.
    pub(super) network: usize,
    /// The field of the frame's header with the thread.
    pub(super) field: &'static Field,
    /// The stream of each thread; the first is used for packets without a thread.
    pub(super) streams: Vec<(u16, usize)>,
}
