//! The balancer as a kernel program (XDP): it makes the decision of [`Table::route`](super::Table::route) before a
//! socket sees the packet.
//!
//! ```text
//!   frame ─▶ ours? ─ lease ─ allow-list ─ label ─ settled? ─ epoch ─ slot ─ member ─ way ─▶ counted, rewritten, sent on
//!              └───────┴─────────┴──────────┴───────┴───────┴───────┴──────────▶ passed, as it is, to the sockets
//! ```
//!
//! The program only forwards. Unusual packets and those to be refused are passed to the sockets, which count each
//! refusal once and with the same reasons. The program is built for one interface and one family from the declaration
//! of the family's label ([`LabelLayout`](crate::wire::labelled::LabelLayout)): addresses, ports and offsets are
//! constants in it, and it has no loop.
//!
//! A packet sees one table only, because a table is one value ([`image()`]) that is replaced as a whole. A table is
//! valid only as long as its [`Lease`], and only for ticks that are [settled](super::Settled): others go to the sockets.
//!
//! It changes a packet as ESnet's data plane does: the destination becomes the member, the source the balancer's
//! address with the sender's port; TTL is decremented; the label is removed; checksums are updated incrementally, so
//! that a wrong checksum stays wrong.
//!
//! Passed to the sockets: VLAN tags, IPv4 options and fragments, IPv6 extension headers, TTL 1, inconsistent lengths,
//! impossible sources (loopback, multicast), packets that exceed the MTU, members of the other version of IP, and
//! packets whose UDP checksum is incomplete (a train joined by the kernel, or a sender on this host).
//!
//! Limits: 1024 ranges of senders for each version of IP, and 16 data addresses.

mod checksum;
mod image;
mod maps;
mod program;
mod search;

pub use crate::bytecode::{CannotAssemble, Step};
pub use image::{COUNTS_BYTES, Counts, Hop, IMAGE_BYTES, LEASE_BYTES, Lease, image};
pub use maps::{MapName, Program};
pub use program::{Inlet, program};
