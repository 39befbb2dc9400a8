//! A server that files are fetched from, as the threads that fetch see it.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Attempts without a byte after which a server or a file has failed.
const MAX_TRIES: u32 = 6;
/// Time before the second attempt; it doubles.
const BACK_OFF: Duration = Duration::from_millis(500);
/// Longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// The umask where `/proc` is not mounted.
const USUAL_UMASK: u32 = 0o022;

/// A file of a [`RangeServer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedFile {
    /// Its path below the directory that it is copied into.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// When it changed last, in seconds since 1970, if the server says so.
    pub modified: Option<i64>,
    /// What tells this version from others: ranges of another one are not used.
    pub version: [u64; 2],
    /// Whether the server sends ranges of it.
    pub has_ranges: bool,
    /// Its CRC-32C.
    pub crc32c: Option<u32>,
    /// Its Adler-32.
    pub adler32: Option<u32>,
}

/// Why bytes do not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// Nor will they later.
    Final(String),
    /// The server asks to try again, after this time if it says so.
    Busy(String, Option<Duration>),
    /// The server is not there, or the connection broke.
    Broken(String),
    /// The copy is over.
    Over,
}

/// The bytes of a request, in order.
pub trait RangeBody {
    /// Fills `into` with the next bytes. It returns soon after `is_over` becomes true.
    ///
    /// # Errors
    /// They do not come.
    fn read(&mut self, into: &mut [u8], is_over: &dyn Fn() -> bool) -> Result<(), FetchError>;
}

/// A digest of a file that is not what the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestMismatch {
    /// With its algorithm, as the server has it.
    pub expected: String,
    /// The same of the bytes.
    pub found: String,
}

impl DigestMismatch {
    /// Compares a checksum of 32 bits with that of the server.
    pub(super) fn between(what: &str, found: u32, theirs: Option<u32>) -> Result<(), Self> {
        let theirs = theirs.unwrap_or_default();
        let differs = || Self { expected: format!("{what} {theirs:08x}"), found: format!("{found:08x}") };
        if found == theirs { Ok(()) } else { Err(differs()) }
    }
}

/// A digest that can only be computed of all bytes of a file in order, and what it must be.
pub trait OrderedDigest: Send {
    /// The next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// Those were all.
    ///
    /// # Errors
    /// The digest is another one.
    fn compare(self: Box<Self>) -> Result<(), DigestMismatch>;
}

/// A server that files are fetched from, by several threads.
pub trait RangeServer: Sync {
    /// Asks for a range of file `number`, as [`fetch`](super::fetch()) was given it; `None`: for all of it.
    ///
    /// # Errors
    /// The server does not send it, or has another version of the file by now.
    fn open(
        &self,
        number: usize,
        range: Option<Range<u64>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Box<dyn RangeBody + '_>, FetchError>;

    /// Whether it still has this version of file `number`.
    ///
    /// # Errors
    /// It has not, or does not answer.
    fn confirm(&self, number: usize, is_over: &dyn Fn() -> bool) -> Result<(), FetchError>;

    /// Another digest of file `number`, if the server gives neither its CRC-32C nor its Adler-32.
    fn ordered_digest(&self, _number: usize) -> Option<Box<dyn OrderedDigest>> {
        None
    }
}

/// The time to wait after so many attempts that failed, of which the last one was told to wait for `asked`; `None`: there were enough.
#[must_use]
pub fn back_off(tries: u32, asked: Option<Duration>) -> Option<Duration> {
    let wait = (BACK_OFF * 2u32.pow(tries.saturating_sub(1).min(16))).max(asked.unwrap_or_default());
    (tries < MAX_TRIES && wait <= MAX_WAIT).then_some(wait)
}

/// The permissions of new files: such servers do not say theirs, so they are those of any program that makes a file.
pub(super) fn file_mode() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask =
        status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    0o666 & !umask.unwrap_or(USUAL_UMASK)
}
