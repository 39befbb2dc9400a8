//! etransfer, the protocol by which stations of the EVN move files to correlators: lines of the command channel, heads of the data channel,
//! paths, and where an upload begins.
//!
//! ```text
//!   command channel (4004)   write-file-Resume /data/x ─▶ ◀─ AlreadyHave:n, UUID:u, OK        remove-uuid u ─▶ ◀─ OK
//!   data channel (8008)      { uuid:u, sz:n} bytes… ─▶                  ◀─ y
//! ```
//!
//! The client speaks on both channels; a server only answers. What is sent from one server to another is ordered by `send-file`.
//! Everything here is pure: any bytes become a request, a head or an error, in bounded memory.
//!
//! ```
//! use skyhaul_core::etransfer::*;
//! let (mut lines, mut found) = (EtransferLines::default(), Vec::new());
//! lines.push(b"write-file-Resume /data/n26c3_mh\n", |line| found.push(line));
//! let Ok(EtransferRequest::Write { mode, path }) = EtransferRequest::parse(found[0].as_deref().unwrap()) else { panic!() };
//! assert_eq!((mode, path.as_str()), (UploadMode::Resume, "/data/n26c3_mh"));
//! assert_eq!(DataHeader::parse(b"{ uuid:u, sz:5}hello").unwrap().unwrap().1, 15);
//! ```
//!
//! Source: etransfer 1.1 (jive-vlbi/etransfer). What is spoken and what is refused: `docs/reference/etransfer.md`.

mod address;
mod header;
mod line;
mod path;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod upload;

pub use address::{DataProtocol, EtransferAddress, MAX_DATA_ADDRESSES};
pub use header::{DataHeader, MAX_DATA_HEADER_BYTES, NotADataHeader};
pub use line::{EtransferLines, LineTooLong, MAX_ETRANSFER_LINE_BYTES};
pub use path::{EtransferPath, NotAPath, has_wildcards, matches_wildcards};
pub use reply::{EtransferReply, NotAReply, SendOutcome};
pub use request::{EtransferRequest, MAX_UUID_BYTES, NotACommand};
pub use upload::{UploadMode, UploadStart};

/// The port of the command channel.
pub const COMMAND_PORT: u16 = 4004;
/// The port of the data channel.
pub const DATA_PORT: u16 = 8008;
/// The version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;
/// The byte by which the receiver confirms that it has everything.
pub const CONFIRMATION: u8 = b'y';
