//! The address of the other server of a copy, and where a redirect leads.
//!
//! Limits: no user name or password, no fragment. What is shown of it has no query: that may hold a key.

use super::request_path::{BadPath, RequestPath};
use axum::http::Uri;
use axum::http::uri::Authority;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// Schemes of clients, and whether they are encrypted.
const SCHEMES: [(&str, bool); 4] = [("https", true), ("davs", true), ("http", false), ("dav", false)];

/// An address on another server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RemoteUrl {
    pub(crate) is_encrypted: bool,
    /// In lower case; a literal IPv6 address has no brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    path: String,
    query: Option<String>,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadUrl {
    #[error("it is no URL")]
    Syntax,
    #[error("the scheme must be https, http, davs or dav")]
    Scheme,
    #[error("it has a user name")]
    User,
}

impl RemoteUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, BadUrl> {
        let (scheme, _) = text.split_once("://").ok_or(BadUrl::Syntax)?;
        let known = SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme));
        let (_, is_encrypted) = *known.ok_or(BadUrl::Scheme)?;
        if text.contains('#') {
            return Err(BadUrl::Syntax);
        }
        let uri: Uri = text.parse().map_err(|_| BadUrl::Syntax)?;
        let authority = uri.authority().ok_or(BadUrl::Syntax)?;
        let (host, port) = host_and_port(authority, is_encrypted)?;
        let path = if uri.path().is_empty() { "/" } else { uri.path() };
        let query = uri.query().map(str::to_owned);
        Ok(Self { is_encrypted, host, port, path: path.to_owned(), query })
    }

    /// Where `Location` leads from here (RFC 9110, 10.2.2).
    pub(crate) fn redirected(&self, location: &str) -> Result<Self, BadUrl> {
        // A fragment is for browsers.
        let location = location.split('#').next().unwrap_or_default();
        if location.contains("://") && !location.starts_with('/') {
            return Self::parse(location);
        }
        let scheme = if self.is_encrypted { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{scheme}://{rest}"));
        }
        let base = match location.starts_with('/') {
            true => "",
            false => self.path.rsplit_once('/').map_or("/", |(base, _)| &self.path[..=base.len()]),
        };
        Self::parse(&format!("{scheme}://{}{base}{location}", self.authority()))
    }

    /// The host as a header names it.
    pub(crate) fn authority(&self) -> String {
        let host = match self.address() {
            Some(IpAddr::V6(ip)) => format!("[{ip}]"),
            _ => self.host.clone(),
        };
        let usual = if self.is_encrypted { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// All of it, with its query, for another server.
    pub(crate) fn text(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.target())
    }

    /// The target of a request for it.
    pub(crate) fn target(&self) -> String {
        self.query.as_ref().map_or(self.path.clone(), |query| format!("{}?{query}", self.path))
    }

    /// Its path, decoded.
    pub(crate) fn names(&self) -> Result<RequestPath, BadPath> {
        RequestPath::parse(&self.path)
    }

    /// Another path on its server, without a query.
    pub(crate) fn at(&self, path: &RequestPath, is_directory: bool) -> Self {
        Self { path: path.href(is_directory), query: None, ..self.clone() }
    }

    /// Whether it names a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.path.ends_with('/')
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Its host, if that is an address.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Whether headers that are for one may be sent to the other: it is the same server, and no less encrypted.
    pub(crate) fn is_same_server(&self, first: &Self) -> bool {
        (&self.host, self.port, self.is_encrypted) == (&first.host, first.port, first.is_encrypted)
    }
}

fn host_and_port(authority: &Authority, is_encrypted: bool) -> Result<(String, u16), BadUrl> {
    if authority.as_str().contains('@') {
        return Err(BadUrl::User);
    }
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let port = match authority.as_str()[host.len()..].strip_prefix(':') {
        None | Some("") => Some(if is_encrypted { 443 } else { 80 }),
        Some(port) => port.parse().ok().filter(|port| *port != 0),
    };
    let host = bare.unwrap_or(host).to_ascii_lowercase();
    // Nobody's name is longer, and a zone is of this host alone.
    let is_name = !host.is_empty() && host.len() <= 253 && !host.contains('%');
    let is_valid = is_name && (bare.is_none() || host.parse::<IpAddr>().is_ok());
    port.filter(|_| is_valid).map(|port| (host, port)).ok_or(BadUrl::Syntax)
}

impl Display for RemoteUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn schemes_hosts_and_ports_are_read() {
        for (text, shown, target) in [
            ("https://a.example/f", "https://a.example/f", "/f"),
            ("davs://A.Example:8443/d/f?authz=k", "https://a.example:8443/d/f", "/d/f?authz=k"),
            ("dav://a.example:80", "http://a.example/", "/"),
            ("HTTP://[2001:DB8::1]:8080/f%20g", "http://[2001:db8::1]:8080/f%20g", "/f%20g"),
        ] {
            let url = RemoteUrl::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.target().as_str()), (shown, target), "{text}");
        }
        for (text, why) in [
            ("/f", BadUrl::Syntax),
            ("https:///f", BadUrl::Syntax),
            ("https://a:x/f", BadUrl::Syntax),
            ("https://a:0/f", BadUrl::Syntax),
            ("https://a/f#part", BadUrl::Syntax),
            ("https://[fe80::1%25eth0]/f", BadUrl::Syntax),
            ("https://a/f g", BadUrl::Syntax),
            ("https://u:p@a/f", BadUrl::User),
            ("https://u@a/f", BadUrl::User),
            ("file:///etc/passwd", BadUrl::Scheme),
            ("gsiftp://a/f", BadUrl::Scheme),
        ] {
            assert_eq!(RemoteUrl::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn redirects_lead_where_the_standard_says() {
        let from = RemoteUrl::parse("https://a.example:8443/d/f?k=1").unwrap();
        for (location, shown, is_same) in [
            ("https://b.example/g?t=2", "https://b.example/g", false),
            ("https://a.example:8443/g", "https://a.example:8443/g", true),
            ("http://a.example:8443/g", "http://a.example:8443/g", false),
            ("https://a.example/g", "https://a.example/g", false),
            ("/g", "https://a.example:8443/g", true),
            ("g", "https://a.example:8443/d/g", true),
            ("//c.example/g", "https://c.example/g", false),
        ] {
            let to = from.redirected(location).unwrap();
            assert_eq!((to.to_string().as_str(), to.is_same_server(&from)), (shown, is_same), "{location}");
        }
        assert!(from.redirected("gopher://a.example/").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), rest in "[a-z0-9:@/?#.%\\[\\]-]{0,40}") {
            let from = RemoteUrl::parse("http://a.example/f").unwrap();
            for text in [text, format!("https://{rest}"), rest] {
                for url in [RemoteUrl::parse(&text), from.redirected(&text)].into_iter().flatten() {
                    prop_assert!(!url.host.is_empty() && url.target().starts_with('/'));
                    prop_assert!(!url.to_string().contains('?'));
                    // What it says to others is what it was read from.
                    let again = format!("{}://{}{}", if url.is_encrypted { "https" } else { "http" }, url.authority(), url.target());
                    prop_assert_eq!(RemoteUrl::parse(&again), Ok(url));
                }
            }
        }
    }
}
