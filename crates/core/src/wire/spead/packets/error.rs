//! Why a heap cannot be sent as packets.

use std::fmt;

/// Why a heap cannot be sent as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The packet size cannot carry anything.
    TooSmall {
        /// The packet size in bytes.
        packet_bytes: usize,
    },
    /// The pointers cannot be repeated: they do not all fit into one packet.
    CannotRepeat {
        /// The requested packet size in bytes.
        packet_bytes: usize,
        /// The minimum that suffices; 0 if none does.
        needed: usize,
    },
    /// More pointers than one packet can have, in packets of a given payload.
    TooManyPointers {
        /// The heap's pointers.
        pointers: usize,
    },
    /// More bytes of payload than the flavour can address.
    TooLarge {
        /// Bytes of payload, with dummies.
        bytes: u64,
        /// Bytes the flavour can address.
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
                "cannot repeat the pointers of a heap in packets of {packet_bytes} bytes: too many for any packet size; hint: do not repeat them"
            ),
            PacketError::CannotRepeat { packet_bytes, needed } => write!(
                f,
                "cannot repeat the pointers of a heap in packets of {packet_bytes} bytes; hint: a packet size of at least {needed}, or do not repeat them"
            ),
            PacketError::TooManyPointers { pointers } => write!(
                f,
                "cannot put {pointers} pointers into the first packet of a heap, as packets of a fixed payload require; hint: set the packet size instead"
            ),
            PacketError::TooLarge { bytes, most } => write!(
                f,
                "cannot send a heap of {bytes} bytes in a flavour that addresses {most}; hint: use a flavour with more address bits, or smaller heaps"
            ),
        }
    }
}

impl std::error::Error for PacketError {}
