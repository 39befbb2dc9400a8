//! Copies files, directories and recordings between two hosts.
//!
//! ```text
//!   source disks ─▶ reader ─▶ ranges ─▶ flow 0 ══════▶ ─▶ checked ─▶ writer ─▶ NAME.part ─▶ NAME
//!                   O_DIRECT  4 MiB     flow n ══════▶              O_DIRECT     │
//!                                                                             journal
//!              ◀════════ control connection ([`peer`](skyhaul::peer)): names, what is wanted, what is done ════════▶
//! ```
//!
//! The idea is that of the whole program: every range says where its bytes belong ([`RangeHead`]), so any of n TCP
//! connections carries any range, and the receiver reads it into an aligned block that a disk writes as it is.
//! [0032](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0032-a-copy-is-ranges-on-flows.md) has what was
//! decided.
//!
//! **What a kill costs.** A range counts when its CRC-32C is right, its bytes are durable, and a durable line of the file's
//! [journal] says so. Whoever copies again has these read again, and sends only the others. A file gets its name when
//! it is whole and durable, never before.
//!
//! **Whom to trust.** Both ends prove the token. Names that a peer sends stay below the directory they are for: no `..`, no
//! absolute path, no link is followed ([`Tree`](skyhaul_io::disk::Tree)), and below what was asked for. Nothing is
//! encrypted, and ranges are protected against damage, not against someone on the path.
//!
//! Limits: owners, access lists, extended attributes and hard links are not copied; nor are FIFOs, sockets and devices, and
//! set-user-ID, set-group-ID and sticky bits, which are named in the report. At most a million names at a time, and the memory
//! and sessions that its budget allows.

mod aside;
mod asking;
mod bounds;
mod budget;
mod checking;
mod client;
mod destination;
mod digest;
mod entering;
mod files;
mod head;
pub mod journal;
mod landing;
mod manifest;
mod message;
mod names;
mod options;
mod plan;
mod predicted;
mod reading;
mod receiver;
mod receiving;
mod rehearsal;
mod report;
mod run;
mod runs;
mod sample;
mod sender;
mod serve;
mod session;
mod sizes;
mod steady;
mod talk;
#[cfg(test)]
mod tests;
mod trial;
mod tune;
mod watch;
mod writing;

pub use bounds::Bounds;
pub use client::{copy, remote};
pub use head::{HOLE, MAGIC, NotARange, RangeHead, TRAILER};
pub use message::{Exists, Origin, Part, Side, Trial};
pub use options::{CopyOptions, Tuning};
pub use predicted::Plan;
pub use report::{Copied, CopyReport, Failed};
pub use serve::CopyService;
pub use talk::Progress;

/// The port of `skyhaul copy serve`, if none is chosen.
pub const PORT: u16 = 14_301;

/// Take octets as what a peer may send: heads of ranges, messages, journals; for the fuzzer.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(head) = RangeHead::parse(bytes) {
        assert_eq!(RangeHead::parse(&head.octets()), Ok(head), "a head does not write back");
        assert!(head.offset + u64::from(head.length) <= head.size);
    }
    if let Ok(message) = serde_json::from_slice::<message::Message>(bytes)
        && let Ok(text) = serde_json::to_vec(&message)
    {
        serde_json::from_slice::<message::Message>(&text).expect("a message is read as it was written");
    }
    drop(serde_json::from_slice::<message::Request>(bytes));
    let origin = Origin { device: 2049, inode: 12, changed: (1_760_000_000, 7) };
    let of = journal::Identity { size: 1 << 30, range: 4 << 20, modified: (1_760_000_000, 5), origin };
    let ranges = journal::parse(bytes, &of);
    assert!(ranges.keys().all(|range| *range < of.ranges()));
}
