//! Who may use an HTTP service: a client that has its token; without one, this host, and no page of another site.
//!
//! A browser on this host would carry requests here for any site, so without a token a request must name this host (`Host`) and may not
//! come from a page of another one (`Origin`).

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use skyhaul::auth::TokenHash;
use skyhaul::core::hint::Hint;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a request may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// It has no token, or a wrong one.
    #[error("the token is missing or wrong{}", Hint("send `Authorization: Bearer TOKEN`"))]
    NoToken,
    /// There is no token, and it is for another host or comes from another site.
    #[error(
        "without a token, this host only is served{}",
        Hint("call it as 127.0.0.1 or localhost, or set `token_file`")
    )]
    ForeignSite,
}

/// Who may use a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    token: Option<TokenHash>,
    /// Without a token, this host may use it.
    is_open_to_this_host: bool,
}

impl Rights {
    /// Of a service that listens there.
    ///
    /// # Errors
    /// It can be reached from other hosts, and there is no token.
    pub(crate) fn new(token: Option<&str>, listen: SocketAddr) -> io::Result<Self> {
        if token.is_none() && !listen.ip().to_canonical().is_loopback() {
            let hint = Hint("set `token_file`, or listen on 127.0.0.1");
            let text = format!("{listen} can be reached from other hosts, and there is no token{hint}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Self { token: token.map(TokenHash::of), is_open_to_this_host: token.is_none() })
    }

    /// Of a service that also takes tokens of issuers: nobody may use it without a token.
    pub(crate) fn by_token_only(token: Option<&str>) -> Self {
        Self { token: token.map(TokenHash::of), is_open_to_this_host: false }
    }

    /// Whether there is a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether every program on this host may ask, without a token.
    pub(crate) fn is_open_to_this_host(&self) -> bool {
        self.is_open_to_this_host
    }

    /// Whether a request may ask; `authority` is that of its target, if it has one.
    pub(crate) fn check(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Denied> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if !self.is_open_to_this_host {
            let given = bearer(headers).map(TokenHash::of);
            return if given.is_some() && given == self.token { Ok(()) } else { Err(Denied::NoToken) };
        }
        let named = authority.or_else(|| text(HOST)).unwrap_or_default();
        let is_own = text(ORIGIN).is_none_or(|from| {
            let host = from.strip_prefix("http://").or_else(|| from.strip_prefix("https://"));
            host == Some(named)
        });
        if is_this_host(named) && is_own { Ok(()) } else { Err(Denied::ForeignSite) }
    }
}

/// The token of a request (RFC 6750, 2.1).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the host of a request is this one, by a name that no other site can have.
fn is_this_host(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}
