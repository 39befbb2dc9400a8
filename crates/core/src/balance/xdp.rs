//! The balancer as a program for the kernel (XDP): what [`Table::route`](super::Table::route) decides, before a socket sees the
//! packet.
//!
//! ```text
//!   frame ─▶ ours? ─ lease ─ allow-list ─ label ─ epoch ─ slot ─ member ─ way ─▶ counted, rewritten, sent on
//!              └───────┴─────────┴──────────┴───────┴───────┴───────┴──────────▶ passed, as it is, to the sockets
//! ```
//!
//! The program only forwards. All that is unusual, refused, or not known to it is passed on, so sockets count each refusal
//! once, and with the same reasons. It is built for one interface and one family from the declaration of that family's label
//! ([`LabelLayout`](crate::wire::labelled::LabelLayout)): addresses, ports and offsets are numbers in it, and it has no loop.
//!
//! A packet sees one table: a table is one value ([`image()`]), and another one is another value. A table counts only as long as
//! its [`Lease`].
//!
//! What it does to a packet is what ESnet's data plane does: the destination is the member, the source the balancer's address
//! with the sender's port; TTL is one less; the label is cut out; checksums are changed by the difference, so that what was
//! wrong stays wrong.
//!
//! Passed to the sockets are: VLAN tags, IPv4 options and fragments, IPv6 extension headers, TTL 1, lengths that
//! disagree, sources that cannot be (loopback, groups), packets too long for the way, members of the other version of IP, and
//! packets whose UDP checksum is only begun: a train that was joined, or a sender on this host.
//!
//! Limits: 1024 ranges of senders of each version of IP, 16 addresses of data.

mod assembler;
mod checksum;
mod counts;
mod image;
mod program;
mod search;

pub use assembler::{CannotAssemble, MapName, Program, Step};
pub use counts::{COUNTS_BYTES, Counts, LEASE_BYTES, Lease};
pub use image::{Hop, IMAGE_BYTES, image};
pub use program::{Inlet, program};
