//! How one object of a stream is sent, and in which order several are.

/// Settings of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Its number: the counter of a heap, truncated to the flavour's bits; the tick of an event. `None`: the next of the
    /// stream's sequence.
    pub counter: Option<u64>,
    /// Its destination.
    pub substream: usize,
    /// Bits per second for this object; `None`: the stream's.
    pub rate: Option<u64>,
}

/// The order in which the packets of several objects are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One object after another.
    #[default]
    Serial,
    /// A packet of each object in turn; objects with fewer packets end earlier.
    RoundRobin,
}
