//! Why a test did not come to its end.

use super::state::code;
use std::io;

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3Error {
    /// A system call on the control connection.
    #[error("control connection: {0}")]
    Control(#[source] io::Error),
    /// A system call on a stream; its text names the operation and the address.
    #[error("{0}")]
    Stream(#[source] io::Error),
    /// The other end closed the control connection.
    #[error("the other end closed the control connection")]
    Gone,
    /// The other end said nothing for too long.
    #[error("the other end said nothing for too long")]
    Silent,
    /// What came is not what the protocol says.
    #[error("not what iperf3 says: {0}; hint: is it iperf3, version 3.1 or later?")]
    Protocol(String),
    /// A message that is longer than allowed: its length, and the most.
    #[error("a message of {0} bytes; at most {1} are taken")]
    TooLong(usize, usize),
    /// The server runs another test.
    #[error(
        "the server is busy with another test; hint: iperf3 serves one client at a time, try again later"
    )]
    Busy,
    /// The server refused, or failed.
    #[error("the server failed: {text} (error {0} of iperf3)", text = code::text(*.0))]
    Server(u32),
    /// The other end ended the test.
    #[error("the other end ended the test")]
    Terminated,
    /// What is asked for is refused here.
    #[error("{text}")]
    Refused {
        /// The number for the other end.
        code: u32,
        /// Why.
        text: String,
    },
}

impl Iperf3Error {
    pub(super) fn control(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => Self::Gone,
            _ => Self::Control(error),
        }
    }

    /// The number to tell the other end, if it is worth telling.
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Stream(_) => Some(code::ACCEPT),
            Self::Silent => Some(code::SILENT),
            Self::Protocol(_) | Self::TooLong(..) => Some(code::PARAMETERS),
            Self::Control(_) | Self::Gone | Self::Busy | Self::Server(_) | Self::Terminated => None,
        }
    }
}
