//! What became of each message of a server's peers.

use std::ops::Range;

/// A message of a peer that has ended: a Write, or what is known of one that was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedMessage {
    /// The region that the connection is for: its index in [`ServeOptions::regions`](super::ServeOptions::regions).
    pub region: usize,
    /// The connection, by the order of acceptance from 1.
    pub connection: u64,
    /// Its number among the messages of the connection. More than one only if they were lost whole: those may be Writes or requests to
    /// read. Empty for immediate data that are a message of their own, as on TCP: there they follow their Write.
    pub messages: Range<u64>,
    /// Whether the ranges are of the region. Otherwise nothing arrived, or nothing but the immediate data, which does not say where the
    /// bytes belong: then `missing` counts from the start of the message.
    pub in_region: bool,
    /// The bytes that arrived.
    pub valid: Vec<Range<u64>>,
    /// Those that did not, up to the furthest byte that did if the end of the message is not known.
    pub missing: Vec<Range<u64>>,
    /// All bytes and the immediate data, if any, are there.
    pub is_complete: bool,
    /// The immediate data, if it arrived.
    pub immediate: Option<u64>,
}
