//! The client of other HTTP servers, and what it shares with the server here: one client for copies that a station makes for others
//! ([`webdav`](crate::webdav)) and for those of the command.
//!
//! | module | contents |
//! |---|---|
//! | `url`, `request_path`, `addresses` | where a server and a file are, and whether the server may be reached |
//! | `session`, `reply`, `authorities` | connections, TLS, requests, redirects, refusals |
//! | `signature` | URLs that are signed for one request, and texts without their secrets |
//! | `source`, `version`, `digests` | what a server says of a file, which version of it, and its digests |
//! | `multistatus` | what a directory has |
//! | `put`, `outgoing` | PUT of a body, verified, and what is left of one that failed; files and recordings as bodies |
//! | `unfinished` | an upload that broke off and is continued |
//! | `failure`, `progress` | failures in words that engines know; how far a transfer is, and the clocks that end one |

pub(crate) mod addresses;
pub(crate) mod authorities;
pub(crate) mod digests;
pub(crate) mod failure;
pub(crate) mod multistatus;
pub(crate) mod outgoing;
pub(crate) mod progress;
pub(crate) mod put;
pub(crate) mod reply;
pub(crate) mod request_path;
pub(crate) mod session;
pub(crate) mod signature;
pub(crate) mod source;
pub(crate) mod unfinished;
pub(crate) mod url;
pub(crate) mod version;
