//! What both ends of a copy tell each other on the control connection.
//!
//! ```text
//!   client                                server
//!     ── Request { push, into "d1" } ─────▶        (or pull, from "d1/exp")
//!     ◀─ Ready { cookie } ────────────────         the client attaches its flows with it
//!
//!   sender                                receiver
//!     ── Entries, … AllEntries ───────────▶
//!     ◀─ Wanted { file, open ranges } ─────
//!     ══ ranges, on the flows ═════════════▶
//!     ◀─ Again { file, range } ────────────        its checksum was wrong
//!     ◀─ Compare { files } ────────────────        the same size and time: are they the same?
//!     ── Digests { file, digest } ─────────▶
//!     ── Sent { file, digest } ────────────▶
//!     ◀─ Done { file, digest or why not } ──
//!     ◀─ Finished ── Finished ─────────────▶
//! ```

use super::sizes::{Sample, Sizes};
use serde::{Deserialize, Serialize};
use skyhaul_io::disk::tree::Status;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Version of these messages and of the ranges.
pub(super) const VERSION: u32 = 4;

/// A path or a name as the file system has it: text, or octets where it is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Name {
    /// What is UTF-8.
    Text(String),
    /// What is not.
    Octets(Vec<u8>),
}

impl From<&OsStr> for Name {
    fn from(name: &OsStr) -> Self {
        match name.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Octets(name.as_bytes().to_vec()),
        }
    }
}

impl Name {
    pub(super) fn os(&self) -> OsString {
        match self {
            Self::Text(text) => text.into(),
            Self::Octets(octets) => OsString::from_vec(octets.clone()),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.os().into()
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Octets(octets) => octets.len(),
        }
    }
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

/// What to do with a file that exists and differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exists {
    /// Refuse this file.
    #[default]
    Fail,
    /// Leave it as it is.
    Skip,
    /// Replace it, when the new one is whole.
    Replace,
}

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// From the client to the server.
    Push,
    /// From the server to the client.
    Pull,
}

/// What a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) version: u32,
    pub(super) way: Way,
    /// Directories to copy into, or what to copy from; below the server's root.
    pub(super) paths: Vec<Name>,
    /// Where what is copied from each path goes, by number (pull).
    #[serde(default)]
    pub(super) to: Vec<usize>,
    #[serde(default)]
    pub(super) exists: Exists,
    pub(super) flows: usize,
    /// Bytes of a range.
    pub(super) range: u64,
    /// Past the page cache.
    pub(super) direct: bool,
    /// Socket buffers, in bytes.
    #[serde(default)]
    pub(super) window: Option<u64>,
    /// Congestion control.
    #[serde(default)]
    pub(super) congestion: Option<String>,
    /// Bits a second of all flows together.
    #[serde(default)]
    pub(super) limit: Option<u64>,
    /// Only measure, for a plan.
    #[serde(default)]
    pub(super) measure: Option<Measure>,
    /// Only try: copy for so many milliseconds, into files without a name.
    #[serde(default)]
    pub(super) trial: Option<u64>,
    /// With files that are longer than this.
    #[serde(default)]
    pub(super) longer: u64,
    /// Copy only these, into directories that are removed at the end.
    #[serde(default)]
    pub(super) sample: Option<Sample>,
    /// Only compare what is there, and write nothing.
    #[serde(default)]
    pub(super) verify: bool,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// A file of this size; `sparse`: it has holes.
    File { size: u64, sparse: bool },
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Link(Name),
}

/// Which file of its host a source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The number of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// When anything of it changed last. Unlike its time of modification, no program can set it.
    pub changed: (i64, u32),
}

impl Origin {
    pub(super) fn of(status: &Status) -> Self {
        Self { device: status.device, inode: status.inode, changed: status.changed }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Which of the destination's directories it goes into.
    pub(super) to: usize,
    pub(super) path: Name,
    pub(super) what: What,
    pub(super) mode: u32,
    pub(super) modified: (i64, u32),
    /// Of a file.
    #[serde(default, skip_serializing_if = "Origin::is_none")]
    pub(super) origin: Origin,
}

impl Entry {
    pub(super) fn size(&self) -> u64 {
        if let What::File { size, .. } = self.what { size } else { 0 }
    }

    /// About as many bytes of memory as it takes at either end, with what is told of it.
    pub(super) fn memory(&self) -> u64 {
        let link = if let What::Link(to) = &self.what { to.len() } else { 0 };
        512 + (self.path.len() * 2 + link) as u64
    }

    /// Whether a status is that of the file when it was named.
    pub(super) fn is_still(&self, now: &Status) -> bool {
        self.size() == now.size && self.modified == now.modified && self.origin == Origin::of(now)
    }
}

/// Ranges of a file that are still open, as runs of range numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Want {
    pub(super) file: usize,
    pub(super) ranges: Vec<(u64, u64)>,
}

/// All wanted ranges of a file are sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) file: usize,
    /// CRC-32C of the whole file, if all of it was read in this session.
    pub(super) digest: Option<u32>,
    /// Why it cannot be copied.
    pub(super) error: Option<String>,
}

/// What a file has on the disk now, for a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) file: usize,
    pub(super) digest: Option<u32>,
    /// Why it cannot be read.
    pub(super) error: Option<String>,
}

/// A file is whole and durable, was there already, or cannot be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) file: usize,
    pub(super) digest: Option<u32>,
    /// It was there already.
    pub(super) kept: bool,
    pub(super) error: Option<String>,
}

/// What one end did, and where it waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Bytes of ranges, without holes.
    pub bytes: u64,
    /// Ranges.
    pub ranges: u64,
    /// Bytes of holes.
    pub holes: u64,
    /// Ranges sent again because a checksum was wrong.
    pub again: u64,
    /// Bytes that were there from an earlier attempt.
    pub resumed: u64,
    /// Seconds from the first range to the last.
    pub seconds: f64,
    /// Fraction of this time in which flows waited for the disk.
    pub waited_for_disk: f64,
    /// Fraction of this time in which the disk waited for flows.
    pub disk_waited: f64,
    /// Fraction of this time in which flows were held to a rate.
    pub paced: f64,
    /// CPU seconds of the process.
    pub cpu_seconds: f64,
    /// `io_uring` or `pwrite`.
    pub engine: String,
    /// Whether files bypass the page cache.
    pub direct: bool,
    /// Congestion control of the flows.
    pub congestion: String,
}

/// What was seen at the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Bytes written.
    pub bytes: u64,
    /// Bits a second, when it had its speed.
    pub bits_per_second: f64,
    /// Seconds from the first byte on that it took longer than its bytes at this rate: the beginning of the flows, and the last
    /// sync.
    pub delay_seconds: f64,
    /// CPU seconds of both ends for 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
}

/// What one end did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tried {
    /// Of the receiver.
    pub(super) trial: Trial,
    pub(super) side: Side,
}

/// What is measured by itself for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Measure {
    /// What the flows carry; and of the sender, how much there is.
    Network,
    /// The server's disks; into them, not many more bytes are written than this.
    Disks(u64),
}

/// A part, as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Bits a second.
    pub bits_per_second: f64,
    /// CPU seconds for 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
}

/// What one end measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) part: Part,
    /// Of the sender's network: what there is.
    pub(super) sizes: Sizes,
}

/// A message of either end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    Ready {
        cookie: String,
    },
    /// The sender's clock, before any entries.
    Clock((i64, u32)),
    Entries(Vec<Entry>),
    AllEntries,
    Wanted(Vec<Want>),
    Again {
        file: usize,
        range: u64,
    },
    /// The digests of these files are wanted.
    Compare(Vec<usize>),
    Digests(Vec<Found>),
    Sent(Vec<Sent>),
    Done(Vec<Done>),
    Finished(Box<Side>),
    /// What a server measured for a plan.
    Measured(Box<Measured>),
    /// What a server did in a trial.
    Tried(Box<Tried>),
    /// It ends here, and may be resumed.
    Stop {
        why: String,
    },
    /// Nothing to tell.
    Alive,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_whatever_its_octets() {
        for name in [&b"exp_no0001"[..], b"\xff\xfe/\x80", "größe".as_bytes()] {
            let name = OsStr::from_bytes(name);
            let text = serde_json::to_string(&Name::from(name)).unwrap();
            assert_eq!(serde_json::from_str::<Name>(&text).unwrap().os(), name, "{text}");
        }
    }
}
