//! Whole frames of an interface, in which the kernel may have left checksums incomplete and trains unsegmented
//! (AF_PACKET with virtio headers).
//!
//! ```text
//!   veth ─▶ packet socket ─▶ virtio header │ Ethernet │ IP │ TCP or UDP │ payload of 1 to 64 packets
//!                            what to fill in, how to cut
//! ```
//!
//! A frame received by one [`Port`] can be sent unchanged by another: then neither the checksum is calculated nor the
//! train segmented, as on a path inside one machine. Parts of a train are sent as a header and a slice of its payload.
//!
//! Limits: Ethernet; a frame of at most 64 KiB and its headers; `CAP_NET_RAW` in the user namespace that owns the network.

pub mod bare;
pub mod batch;
pub mod port;
pub mod virtio;
pub mod wait;

pub use batch::{Came, Incoming, LONGEST, Outgoing, Piece};
pub use port::Port;
pub use virtio::{VIRTIO, Virtio};
