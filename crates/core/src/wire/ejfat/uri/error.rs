//! Errors of `EJFAT_URI`.

use std::fmt;

/// A part of an `EJFAT_URI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriPart {
    /// `ejfat://` or `ejfats://`.
    Scheme,
    /// Before `@`.
    Token,
    /// The control plane's host.
    Host,
    /// The control plane's port.
    Port,
    /// `/lb/<id>`.
    Balancer,
    /// The name of a parameter.
    Parameter,
    /// `data=`.
    Data,
    /// `sync=`.
    Sync,
    /// `sessionid=`.
    Session,
}

impl UriPart {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            UriPart::Scheme => "scheme",
            UriPart::Token => "token",
            UriPart::Host => "host",
            UriPart::Port => "port",
            UriPart::Balancer => "balancer",
            UriPart::Parameter => "parameter",
            UriPart::Data => "data address",
            UriPart::Sync => "sync address",
            UriPart::Session => "session",
        }
    }

    /// How it is written.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            UriPart::Scheme => "begin with ejfat:// or, for TLS, ejfats://",
            UriPart::Token => "write the token before @, and other than letters, digits and -._~ as %XX",
            UriPart::Host => "write a name, an IPv4 address, or an IPv6 address in brackets",
            UriPart::Port => "write the port of the control plane after the host, like host:18008",
            UriPart::Balancer => "after the port write nothing, / or /lb/<id>",
            UriPart::Parameter => "there are data=, sync= and sessionid=, separated by &",
            UriPart::Data => {
                "write data=10.0.0.1, data=10.0.0.1:19522, data=10.0.0.1:16384-32767 or data=[fd00::1]:19522"
            }
            UriPart::Sync => "write sync=10.0.0.1:19010 or sync=[fd00::1]:19010",
            UriPart::Session => "write sessionid=<id>, once",
        }
    }
}

/// Why a text is not an `EJFAT_URI`, or why a URI cannot be written for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriError {
    /// The part.
    pub part: UriPart,
    /// What was found there; empty if nothing was, or if it is secret.
    pub found: String,
    /// What to write instead.
    pub hint: &'static str,
}

impl UriError {
    /// `found` where `part` is expected. What is before `@` may be a token, whatever part it was taken for.
    pub(super) fn new(part: UriPart, found: &str) -> UriError {
        let public = found.rsplit_once('@').map_or(found, |(_, public)| public);
        UriError { part, found: public.to_owned(), hint: part.hint() }
    }
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, hint) = (self.part.name(), self.hint);
        match (self.part, self.found.as_str()) {
            (UriPart::Token, _) => write!(f, "EJFAT_URI: the token cannot be read; hint: {hint}"),
            (_, "") => write!(f, "EJFAT_URI: no {name}; hint: {hint}"),
            (_, found) => write!(f, "EJFAT_URI: `{found}` is no {name}; hint: {hint}"),
        }
    }
}

impl std::error::Error for UriError {}
