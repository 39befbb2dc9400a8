//! Divides an event into packets by arithmetic: packet `n` is made without those before it, and nothing is stored.
//!
//! ```text
//!   packet 0   balancer │ reassembly, offset 0     │ payload
//!   packet 1   balancer │ reassembly, offset e     │ payload     all of `e` octets
//!   packet 2   balancer │ reassembly, offset 2 e   │ pay         the rest
//! ```
//!
//! All packets but the last have the same length, so the kernel can cut them from one buffer (GSO). Heads differ in the
//! offset only. Every packet states the size of the whole event; none is marked as the last.
//!
//! The payload of a packet is that of the datagram less 36 bytes: 1436 for an MTU of 1500 with IPv4 (20 bytes of IP
//! header, 8 of UDP), 1416 with IPv6 (40 bytes).

use super::{Addressing, BalancerV2, Reassembly};
use crate::hint::Hint;
use crate::packetize::{Divided, Part};
use std::fmt;

/// Maximum bytes of an event: its length has 32 bits.
const MOST: u64 = u32::MAX as u64;
/// The version that E2SAR writes, and the only one that it accepts.
const VERSION: u8 = 1;
/// The highest that is in use.
const LAST_VERSION: u8 = 2;
/// Both headers.
const HEADS: usize = BalancerV2::LEN + Reassembly::LEN;
/// Bytes from the end of a head back to its offset.
const OFFSET: usize = Reassembly::LEN - 4;

/// The properties of an event from which it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventShape {
    /// Event number. The same in both headers.
    pub tick: u64,
    /// Source.
    pub data_id: u16,
    /// Bytes of the event: 1 to 4 GiB − 1.
    pub event_bytes: u64,
    /// Maximum bytes of a packet, which is the payload of a datagram: the MTU less 28 bytes with IPv4, less 48 with
    /// IPv6.
    pub packet_bytes: usize,
    /// The balancer's header; `None` to send to a receiver directly.
    pub addressing: Option<Addressing>,
    /// Version in the reassembly header: 1; 0 and 2 for receivers that expect what udplbd's sender or packetBlaster write.
    pub version: u8,
}

impl Default for EventShape {
    fn default() -> EventShape {
        EventShape {
            tick: 0,
            data_id: 0,
            event_bytes: 0,
            packet_bytes: 0,
            addressing: None,
            version: VERSION,
        }
    }
}

/// The packets of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPackets {
    /// Head of the first packet, at the end of the array.
    head: [u8; HEADS],
    head_bytes: usize,
    addressing: Option<Addressing>,
    data_id: u16,
    event_bytes: u64,
    /// Bytes of payload in every packet but the last.
    each: u64,
    count: u64,
}

impl EventPackets {
    /// Divide an event.
    ///
    /// # Errors
    /// See [`EventError`].
    pub fn new(shape: &EventShape) -> Result<EventPackets, EventError> {
        let &EventShape { tick, data_id, event_bytes, packet_bytes, addressing, version } = shape;
        if version > LAST_VERSION {
            return Err(EventError::NoVersion { version });
        }
        let version = u16::from(version);
        if event_bytes == 0 {
            return Err(EventError::Empty);
        }
        let length = u32::try_from(event_bytes).map_err(|_| EventError::TooLarge { bytes: event_bytes })?;
        let mut head = [0; HEADS];
        let (balancer, reassembly) = head.split_at_mut(BalancerV2::LEN);
        let like = Reassembly { version, data_id, length, tick, ..Reassembly::default() };
        reassembly.copy_from_slice(&like.write());
        let mut head_bytes = Reassembly::LEN;
        if let Some(addressing) = addressing {
            balancer.copy_from_slice(&addressing.header(tick, data_id));
            head_bytes = HEADS;
        }
        let each = packet_bytes.checked_sub(head_bytes).filter(|&each| each > 0);
        let each = each.ok_or(EventError::TooSmall { packet_bytes, needed: head_bytes + 1 })?;
        let each = (each as u64).min(event_bytes);
        let count = event_bytes.div_ceil(each);
        Ok(EventPackets { head, head_bytes, addressing, data_id, event_bytes, each, count })
    }

    /// The same for another tick.
    #[must_use]
    pub fn with_tick(mut self, tick: u64) -> EventPackets {
        if let Some(addressing) = self.addressing {
            self.head[..BalancerV2::LEN].copy_from_slice(&addressing.header(tick, self.data_id));
        }
        self.head[HEADS - 8..].copy_from_slice(&tick.to_be_bytes());
        self
    }

    /// Bytes of the payload of packet `n`.
    fn payload_of(&self, n: u64) -> u64 {
        self.each.min(self.event_bytes - n * self.each)
    }
}

impl Divided for EventPackets {
    #[inline]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    fn head_bytes_max(&self) -> usize {
        self.head_bytes
    }

    #[inline]
    fn bytes_of(&self, n: u64) -> u64 {
        self.head_bytes as u64 + self.payload_of(n)
    }

    #[inline]
    fn bytes_on_wire(&self) -> u64 {
        self.count * self.head_bytes as u64 + self.event_bytes
    }

    #[inline]
    fn packet(&self, n: u64, head: &mut [u8]) -> Part {
        assert!(n < self.count, "an event of {} packets has no packet {n}", self.count);
        let (head, from) = (&mut head[..self.head_bytes], n * self.each);
        head.copy_from_slice(&self.head[HEADS - self.head_bytes..]);
        let at = self.head_bytes - OFFSET;
        // Less than the size of the event, which has 32 bits.
        head[at..at + 4].copy_from_slice(&(from as u32).to_be_bytes());
        Part { head: self.head_bytes, payload: from..from + self.payload_of(n), dummy: 0 }
    }
}

/// Why an event cannot be sent as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventError {
    /// It has no bytes. A receiver could not tell it from a damaged packet.
    Empty,
    /// More bytes than its length can state.
    TooLarge {
        /// Bytes of the event.
        bytes: u64,
    },
    /// No receiver knows this version.
    NoVersion {
        /// The version asked for.
        version: u8,
    },
    /// No payload fits beside the headers.
    TooSmall {
        /// The packet size in bytes.
        packet_bytes: usize,
        /// The minimum that suffices.
        needed: usize,
    },
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventError::Empty => {
                write!(f, "cannot send an event of 0 bytes{}", Hint("send at least one byte"))
            }
            EventError::TooLarge { bytes } => {
                write!(
                    f,
                    "cannot send an event of {bytes} bytes{}",
                    Hint(format_args!("at most {MOST}, so divide it"))
                )
            }
            EventError::NoVersion { version } => write!(
                f,
                "cannot send events in version {version}{}",
                Hint("use 1, or 0 or 2 for receivers that expect these")
            ),
            EventError::TooSmall { packet_bytes, needed } => write!(
                f,
                "cannot divide an event into packets of {packet_bytes} bytes{}",
                Hint(format_args!("a packet size of at least {needed}"))
            ),
        }
    }
}

impl std::error::Error for EventError {}

#[cfg(test)]
mod tests;
