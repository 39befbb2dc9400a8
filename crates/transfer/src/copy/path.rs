//! Whether a path carries a copy, tried before it is promised: the connections, a second of bytes from memory on each of them, and the
//! space at the other end. Nothing is left there.

use super::client::local_roots;
use super::control::of_peer;
use super::manifest::Manifest;
use super::message::{DestinationSpace, SourceSizes, Trial};
use super::options::{Account, CopyOptions};
use super::plan::{Ends, measure};
use super::session::LocalEnd;
use skyhaul::peer::{Token, connect_any};
use skyhaul_core::hint::Hint;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How long the server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks at what a copy of these sources would copy.
///
/// # Errors
/// One does not exist or cannot be read, or there are too many names.
pub fn source_sizes(sources: &[PathBuf]) -> io::Result<SourceSizes> {
    let manifest = Manifest::of(&local_roots(sources, 1)?, &Account::alone())?;
    let sizes = manifest.sizes();
    Ok(SourceSizes { files: sizes.files(), bytes: sizes.bytes() })
}

/// A path that carries bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathTrial {
    /// Bits a second that arrived, of all connections together.
    pub bits_per_second: f64,
    /// The shortest round trip, seconds.
    pub rtt_seconds: f64,
    /// The space where it would write, in the order of [`CopyOptions::into`].
    pub spaces: Vec<DestinationSpace>,
}

/// Tries the path of a copy to the server. Its sources are not looked at.
///
/// # Errors
/// The server is not there or refuses; the token is wrong; a directory cannot be written; bytes do not arrive.
pub fn try_path(options: &CopyOptions, token: &Token) -> io::Result<PathTrial> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    options.tuning.check().map_err(invalid)?;
    let mut options = CopyOptions { sources: Vec::new(), pull: false, ..options.clone() };
    options.tuning = options.tuning.bounded();
    options.server = vec![connect_any(&options.server, token, ANSWER_TIMEOUT).map_err(of_peer)?.peer()];
    let here = LocalEnd { roots: &[], manifest: &Manifest::default(), into: &[] };
    let Ends { receiver, spaces, rtt, .. } = measure(&options, token, &here, Trial::Network)?;
    if receiver.rate.bits_per_second <= 0.0 {
        let hint = Hint("check the firewall and the MTU of the path: `skyhaul probe`");
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("connected, but no data arrive{hint}")));
    }
    if spaces.len() != options.into.len() {
        let hint = Hint("install the same skyhaul on both hosts");
        return Err(io::Error::other(format!("the server does not say how much space it has{hint}")));
    }
    Ok(PathTrial { bits_per_second: receiver.rate.bits_per_second, rtt_seconds: rtt.as_secs_f64(), spaces })
}
