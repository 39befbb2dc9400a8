//! Copies of the command with servers of etransfer: `skyhaul copy` with `etd://HOST[:PORT]/PATH`.
//!
//! ```text
//!   etd://… ─▶ list ─▶ read-file of each file ─▶ fetch ─▶ data channels, a range each ─▶ disk               download
//!   files   ─▶ write-file ─▶ data channel ─▶ `y` ─▶ read-file: as long as here?                            upload
//! ```
//!
//! A download is by the journal and the rules of every copy. One transfer is open at a time (`client` says why). etransfer has no checksums, and
//! no versions of a file: what is compared is the length, and reports say so. TCP only.
//!
//! Limits: lists of [`MAX_LISTED`] names; directories nested [`MAX_DEPTH`] deep; a server that sends nothing for the patience of the copy is asked again.

mod client;
mod download;
mod list;
pub(crate) mod session;
mod upload;
mod url;

pub use client::{EtransferClient, MAX_DEPTH, MAX_LISTED};
pub use upload::EtransferUploadMode;
pub use url::{EtransferUrl, NotAnEtransferUrl};
