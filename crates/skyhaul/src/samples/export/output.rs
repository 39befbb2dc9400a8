//! What writes an exported file.

use std::io;

/// A file that samples are written to, in order.
pub(super) trait Output {
    /// The next samples, as octets.
    fn samples(&mut self, octets: &[u8]) -> io::Result<()>;
    /// The next frames' validity, by frame and thread.
    fn valid(&mut self, valid: &[bool]) -> io::Result<()>;
    /// Everything was given.
    fn finish(&mut self) -> io::Result<()>;
}
