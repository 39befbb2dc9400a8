//! Why there is no report.

use skyhaul_core::wire::udpmon::{Command, VERSION};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum UdpmonError {
    /// A system error; its text names the operation and the address.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nothing came back.
    #[error(
        "{0} does not answer as a responder of udpmon\nhint: start `udpmon_resp` or `skyhaul probe serve --udpmon` there, and let UDP port {port} through", port = .0.port()
    )]
    Silent(SocketAddr),
    /// It speaks another version.
    #[error(
        "the responder speaks version {0} of udpmon's protocol, not {VERSION}\nhint: install udpmon 1.5, or skyhaul, there"
    )]
    OtherVersion(u32),
    /// It has another test.
    #[error(
        "the responder is busy with another test\nhint: udpmon_resp has one at a time, and holds it for 60 s: try again later"
    )]
    Busy,
    /// An answer is none.
    #[error("the answer to {0:?} is none of udpmon's\nhint: is it a responder of udpmon that listens there?")]
    Broken(Command),
    /// It was interrupted before there was anything to report.
    #[error("interrupted before the test began")]
    Interrupted,
}
