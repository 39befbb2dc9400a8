//! The client of other HTTP servers, and what it shares with the server here: one client for copies that a station makes for others
//! ([`webdav`](crate::webdav)) and for those of the command.
//!
//! | module | contents |
//! |---|---|
//! | `url`, `addresses` | where a server is, and whether it may be reached |
//! | `session` | connections, TLS, requests, redirects, refusals |
//! | `version`, `digests` | which version of a file a server has, and its digests |
//! | `failure`, `progress` | failures in words that engines know; how far a transfer is, and the clocks that end one |

pub(crate) mod addresses;
pub(crate) mod digests;
pub(crate) mod failure;
pub(crate) mod progress;
pub(crate) mod session;
pub(crate) mod url;
pub(crate) mod version;
