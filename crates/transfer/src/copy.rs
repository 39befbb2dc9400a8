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
//! [journal] says so. The next copy reads these again, and sends only the others. A file gets its name when
//! it is whole and durable, never before.
//!
//! **Whom to trust.** Both ends prove the token. Names that a peer sends stay below the directory they are for: no `..`, no
//! absolute path, no link is followed ([`Tree`](skyhaul_io::disk::Tree)), and below what was asked for. Nothing is
//! encrypted, and ranges are protected against damage, not against someone on the path.
//!
//! Files of servers that speak another protocol are received by the same writer, journal and rules: [`fetch()`].
//!
//! Limits: owners, access lists, extended attributes and hard links are not copied; nor are FIFOs, sockets and devices, and
//! set-user-ID, set-group-ID and sticky bits, which are named in the report. At most a million names at a time, and the memory
//! and sessions that its budget allows.

mod activity;
mod client;
mod control;
mod destination;
mod digest;
mod fetch;
mod flow_reader;
mod flow_sender;
mod flows;
pub mod journal;
mod local;
mod manifest;
mod message;
mod names;
mod options;
mod path;
mod plan;
mod range;
mod reader;
mod receiver;
mod requests;
mod rights;
mod sender;
mod serve;
mod session;
mod target;
#[cfg(test)]
mod tests;
mod watched;
mod writer;

pub use activity::CopyActivity;
pub use client::{Copied, CopyReport, Failed, copy, remote};
pub use control::Progress;
pub use fetch::{
    DigestMismatch, FetchError, OrderedDigest, RangeBody, RangeServer, ServedFile, back_off, fetch,
};
pub use local::{LocalFile, LocalFiles, local_files};
pub use manifest::is_temporary;
pub use message::{Bounds, DestinationSpace, Exists, MeasuredRate, Origin, Side, SourceSizes, TrialResult};
pub use options::{CopyOptions, LiveLimit, Tuning};
pub use path::{PathTrial, source_sizes, try_path};
pub use plan::Plan;
pub use range::{HOLE, MAGIC, NotARange, RangeHead, TRAILER};
pub use rights::{CopyRights, CopyRoot, CopyUse};
pub use serve::CopyService;
pub use watched::{StallLimits, copy_watched};

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
