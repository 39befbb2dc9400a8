//! The number of a copy in the queue, and its parts.

/// The file system of a part whose destination was not asked.
pub const UNKNOWN_FILE_SYSTEM: u64 = 0;

/// A copy in the queue. Its number is the same after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuedId(pub u64);

/// The part of a scan that goes into one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedPart {
    /// The directory at the destination.
    pub directory: String,
    /// Directories on one of the station's disks, which are copied into it.
    pub sources: Vec<String>,
    /// Their files.
    pub files: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// Number of the file system of the directory, as its host has it: two directories on one share its space.
    pub file_system: u64,
}
