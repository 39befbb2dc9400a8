//! The messages of a copy on its control connection.
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

use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::tree::Status;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Version of these messages and of the ranges.
pub(super) const VERSION: u32 = 5;

/// A path or a name as the file system has it: text, or octets if it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Name {
    /// UTF-8.
    Text(String),
    /// Anything else.
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
pub(super) enum Direction {
    /// From the client to the server.
    Push,
    /// From the server to the client.
    Pull,
}

/// The request of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) version: u32,
    pub(super) way: Direction,
    /// Directories to copy into, or what to copy from; below the server's root.
    pub(super) paths: Vec<Name>,
    /// Where what is copied from each path goes, by number (pull).
    #[serde(default)]
    pub(super) to: Vec<usize>,
    #[serde(default)]
    pub(super) exists: Exists,
    pub(super) flows: usize,
    /// Whether what the flows carry is encrypted.
    #[serde(default)]
    pub(super) encrypt: bool,
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
    /// Only try: copy for this time in milliseconds, into files without a name.
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

impl Request {
    /// The trial that is asked for, if it is one.
    pub(super) fn trial(&self) -> Option<Trial> {
        match (self.measure, self.trial) {
            (Some(Measure::Network), _) => Some(Trial::Network),
            (Some(Measure::Disks(bytes)), _) => Some(Trial::Disk(bytes)),
            (None, Some(millis)) => {
                Some(Trial::All { longer: self.longer, span: Duration::from_millis(millis) })
            }
            (None, None) => None,
        }
    }
}

/// The type of a name that is copied.
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

/// Bytes of a name without its path, and how many times its path is kept.
const ENTRY_BYTES: u64 = 1024;
const PATHS_OF_ENTRY: usize = 4;

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Which of the destination's directories it goes into.
    pub(super) to: usize,
    pub(super) path: Name,
    pub(super) what: What,
    pub(super) mode: u32,
    pub(super) modified: (i64, u32),
    /// For files.
    #[serde(default, skip_serializing_if = "Origin::is_none")]
    pub(super) origin: Origin,
}

impl Entry {
    pub(super) fn size(&self) -> u64 {
        if let What::File { size, .. } = self.what { size } else { 0 }
    }

    /// Bytes of memory that it takes at either end, with what is known of it and reported at the end; its path in each of them.
    pub(super) fn memory(&self) -> u64 {
        let link = if let What::Link(to) = &self.what { to.len() } else { 0 };
        ENTRY_BYTES + (self.path.len() * PATHS_OF_ENTRY + link) as u64
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

/// The digest of a file on the disk, for a comparison.
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
    /// What kind of error it is. Peers from before it was sent say nothing of it.
    #[serde(default, skip_serializing_if = "Cause::is_other")]
    pub(super) cause: Cause,
}

impl Done {
    pub(super) fn kept(file: usize, digest: Option<u32>) -> Self {
        Self { file, digest, kept: true, error: None, cause: Cause::Other }
    }

    pub(super) fn copied(file: usize, digest: Option<u32>) -> Self {
        Self { kept: false, ..Self::kept(file, digest) }
    }

    pub(super) fn failed(file: usize, failure: Failure) -> Self {
        let Failure { text, cause } = failure;
        Self { error: Some(text), cause, ..Self::copied(file, None) }
    }
}

/// Kinds of errors that decide what happens next; the text is for people only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cause {
    /// The destination has no space for it.
    NoSpace,
    #[default]
    #[serde(other)]
    Other,
}

impl Cause {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Why a file cannot be copied.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) text: String,
    pub(super) cause: Cause,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, cause: Cause::Other }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        if error.kind() != io::ErrorKind::StorageFull {
            return system_text(error).into();
        }
        // The system's own words have no next step.
        let text = match error.raw_os_error() {
            Some(_) => format!("no space left on the disk{SPACE_HINT}"),
            None => error.to_string(),
        };
        Self { text, cause: Cause::NoSpace }
    }
}

/// What to do where there is no space.
pub(super) const SPACE_HINT: Hint<&str> = Hint("free some space and copy again");

/// What is to be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSizes {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Work of one end, and where it waited.
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

/// The result of a trial at the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
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
    /// At the receiver.
    pub(super) trial: TrialResult,
    pub(super) side: Side,
}

/// What a trial measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// The flows, with bytes from memory.
    Network,
    /// A disk: files are read, or about this many bytes are written.
    Disk(u64),
    /// Disks and flows together, with files longer than this, for a time.
    All { longer: u64, span: Duration },
}

/// A part that is measured alone for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Measure {
    /// What the flows carry; and of the sender, how much there is.
    Network,
    /// The server's disks; into them, not many more bytes are written than this.
    Disks(u64),
}

/// A part, as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Bits a second.
    pub bits_per_second: f64,
    /// CPU seconds for 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
}

impl MeasuredRate {
    /// The rate of one end of a trial.
    pub(super) fn of(side: &Side) -> Self {
        if side.bytes == 0 || side.seconds <= 0.0 {
            return Self::default();
        }
        Self {
            bits_per_second: side.bytes as f64 * 8.0 / side.seconds,
            cpu_seconds_per_gb: side.cpu_seconds / (side.bytes as f64 / 1e9),
        }
    }
}

/// Space at a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationSpace {
    /// The number of its file system: two directories may be on one.
    pub file_system: u64,
    /// Free bytes.
    pub free_bytes: u64,
}

/// What one end measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) part: MeasuredRate,
    /// For the network of a sender: the sizes of its files.
    pub(super) sizes: Sizes,
    /// For the network of a receiver: the space where it would write, directory by directory. Peers from before it was sent say nothing of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) spaces: Vec<DestinationSpace>,
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
    /// The measurement of a server, for a plan.
    Measured(Box<Measured>),
    /// The result of a server in a trial.
    Tried(Box<Tried>),
    /// It ends here, and may be resumed.
    Stop {
        why: String,
    },
    /// A keep-alive.
    Alive,
    /// The same, with how far this end has come: what it does, as a number that grows, and bytes that are durable here.
    Moving {
        steps: u64,
        durable_bytes: u64,
    },
}

/// Which files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Longer ones are left out.
    pub(super) longest: u64,
    /// At most this many files,
    pub(super) files: usize,
    /// and bytes: one file is taken however long it is.
    pub(super) bytes: u64,
    /// Only the first bytes of each.
    pub(super) cut: u64,
}

/// Files and bytes by the power of two that a size is below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sizes(Vec<(u64, u64)>);

impl Sizes {
    pub(super) fn of(sizes: impl Iterator<Item = u64>) -> Self {
        let mut all: Vec<(u64, u64)> = vec![(0, 0); 65];
        for size in sizes {
            let one = &mut all[bits(size)];
            *one = (one.0 + 1, one.1.saturating_add(size));
        }
        Self(all)
    }

    pub(super) fn files(&self) -> u64 {
        self.divided(u64::MAX)[0].0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.divided(u64::MAX)[0].1
    }

    /// Files and bytes of those that are not longer than `longest`, one less than a power of two; and of the others.
    pub(super) fn divided(&self, longest: u64) -> [(u64, u64); 2] {
        let (short, long) = self.0.split_at((bits(longest) + 1).min(self.0.len()));
        let add =
            |all: (u64, u64), one: &(u64, u64)| (all.0.saturating_add(one.0), all.1.saturating_add(one.1));
        [short, long].map(|of| of.iter().fold((0, 0), add))
    }
}

/// Bits of a number without leading zeros.
fn bits(of: u64) -> usize {
    64 - of.leading_zeros() as usize
}

/// The largest power of two less one that is at most `bytes`: where [`Sizes`] divide.
pub(super) fn whole_power(bytes: u64) -> u64 {
    match bytes.checked_add(1) {
        None => bytes,
        Some(next) => (1 << (bits(next) - 1)) - 1,
    }
}

/// The part that bounds a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// Reading at the source.
    SourceDisk,
    /// The network, or the processors that carry it.
    Network,
    /// The rate asked for.
    Limit,
    /// Writing at the destination.
    DestinationDisk,
}

impl Bounds {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::SourceDisk => "reading the source",
            Self::Network => "the network or the CPUs that drive it",
            Self::Limit => "the --limit",
            Self::DestinationDisk => "writing the destination",
        }
    }

    /// The end that others waited for.
    #[must_use]
    pub fn of(sender: &Side, receiver: &Side) -> Self {
        if sender.paced >= 0.1 {
            Self::Limit
        } else if receiver.waited_for_disk >= 0.25 && receiver.waited_for_disk >= sender.waited_for_disk {
            Self::DestinationDisk
        } else if sender.waited_for_disk >= 0.25 {
            Self::SourceDisk
        } else {
            Self::Network
        }
    }
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

    #[test]
    fn sizes_are_divided_at_powers_of_two() {
        let sizes = Sizes::of([1000; 100].into_iter().chain([0, 1 << 30]));
        let long = (1, 1 << 30);
        assert_eq!(sizes.divided(1023), [(101, 100_000), long]);
        assert_eq!(sizes.divided(511), [(1, 0), (101, 100_000 + (1 << 30))]);
        assert_eq!(sizes.divided(u64::MAX), [(102, 100_000 + (1 << 30)), (0, 0)]);
        assert_eq!(Sizes::default().divided(0), [(0, 0), (0, 0)]);
        let powers = [0, 1, 2, 3, 1000, 1023, u64::MAX - 1, u64::MAX].map(whole_power);
        assert_eq!(powers, [0, 1, 1, 3, 511, 1023, u64::MAX >> 1, u64::MAX]);
    }
}
