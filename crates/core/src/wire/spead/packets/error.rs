//! Why a heap cannot be sent as packets.

use std::fmt;

/// Why a heap cannot be sent as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The packet size cannot carry anything.
    TooSmall {
        /// It, octets.
        packet_bytes: usize,
    },
    /// Not all pointers fit into one packet, which repeating them needs.
    CannotRepeat {
        /// The packet size asked for, octets.
        packet_bytes: usize,
        /// The least that would do; 0 if none would.
        needed: usize,
    },
    /// More pointers than one packet can have, in packets of a given payload.
    TooManyPointers {
        /// The heap's pointers.
        pointers: usize,
    },
    /// More octets of payload than the flavour can address.
    TooLarge {
        /// Octets of payload, with dummies.
        bytes: u64,
        /// Octets the flavour can address.
        most: u64,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::TooSmall { packet_bytes } => write!(
                f,
                "cannot divide a heap into packets of {packet_bytes} bytes; hint: a packet size of at least 56"
            ),
            PacketError::CannotRepeat { packet_bytes, needed: 0 } => write!(
                f,
                "cannot repeat the pointers of a heap in packets of {packet_bytes} bytes: too many for a packet of any size; hint: do not repeat them"
            ),
            PacketError::CannotRepeat { packet_bytes, needed } => write!(
                f,
                "cannot repeat the pointers of a heap in packets of {packet_bytes} bytes; hint: a packet size of at least {needed}, or do not repeat them"
            ),
            PacketError::TooManyPointers { pointers } => write!(
                f,
                "cannot put {pointers} pointers into the first packet of a heap, which packets of a given payload need; hint: give the size of packets instead"
            ),
            PacketError::TooLarge { bytes, most } => write!(
                f,
                "cannot send a heap of {bytes} bytes in a flavour that addresses {most}; hint: a flavour with more bits of address, or smaller heaps"
            ),
        }
    }
}

impl std::error::Error for PacketError {}
