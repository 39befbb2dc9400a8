//! Writes an `EJFAT_URI`: all of it, or for one program.

use super::{
    DataAddress, Dialect, Uri,
    error::{UriError, UriPart},
};
use core::net::{IpAddr, Ipv4Addr};
use std::fmt::{self, Write as _};

impl Uri {
    /// Returns the URI in the form that `dialect` supports. If it supports only one address or port, the first address
    /// and the lowest port are written. Parts that it does not support are omitted.
    ///
    /// # Errors
    /// [`UriError`] if that would not lead to the balancer: [`Dialect::Jlab`] supports neither TLS nor names nor IPv6.
    pub fn to(&self, dialect: Dialect) -> Result<String, UriError> {
        to(self, dialect)
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&all(self, true))
    }
}

impl fmt::Debug for Uri {
    /// Without the token, which is a secret: this may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&all(self, false))
    }
}

/// Everything; `with_token` or with a mark in its place.
fn all(uri: &Uri, with_token: bool) -> String {
    let data = uri.data.iter().map(|data| format!("data={}{}", host(data.ip), ports(data, true)));
    let sync = uri.sync.iter().map(|sync| format!("sync={sync}"));
    let session = uri.session.iter().map(|session| format!("sessionid={}", encoded(session)));
    let token = uri.token.as_deref().map(|token| if with_token { encoded(token) } else { "…".to_owned() });
    joined(uri, token, data.chain(sync).chain(session))
}

fn to(uri: &Uri, dialect: Dialect) -> Result<String, UriError> {
    let token = uri.token.as_deref().map(encoded);
    let v4_data = uri.data.iter().find(|data| data.ip.is_ipv4());
    let v6_data = uri.data.iter().find(|data| data.ip.is_ipv6());
    let both = || v4_data.into_iter().chain(v6_data);
    let v4_sync = uri.sync.iter().find(|sync| sync.is_ipv4());
    let v6_sync = uri.sync.iter().find(|sync| sync.is_ipv6());
    let session = uri.session.iter().map(|session| format!("sessionid={}", encoded(session)));
    Ok(match dialect {
        Dialect::E2sar => {
            let sync = uri.sync.iter().take(1).map(|sync| format!("sync={sync}"));
            let data = both().map(|data| format!("data={}{}", host(data.ip), ports(data, false)));
            joined(uri, token, sync.chain(data).chain(session))
        }
        Dialect::Jlab => {
            let hinted = |part, found: &str, hint| UriError { part, found: found.to_owned(), hint };
            if uri.tls {
                let hint = "the JLab tools know no TLS: use a control plane without";
                return Err(hinted(UriPart::Scheme, "ejfats", hint));
            }
            if uri.host.parse::<Ipv4Addr>().is_err() {
                let hint = "the JLab tools know no names and no IPv6: write the IPv4 address";
                return Err(hinted(UriPart::Host, &uri.host, hint));
            }
            let data = v4_data.map(|data| format!("data={}:{}", data.ip, data.ports.start()));
            let sync = v4_sync.map(|sync| format!("sync={sync}"));
            joined(uri, token, data.into_iter().chain(sync))
        }
        Dialect::Udplbd => {
            let sync = v4_sync.into_iter().chain(v6_sync).map(|sync| format!("sync={sync}"));
            let range = |data: &DataAddress| {
                format!("data={}:{}-{}", host(data.ip), data.ports.start(), data.ports.end())
            };
            joined(uri, token, sync.chain(both().map(range)))
        }
    })
}

fn joined(uri: &Uri, token: Option<String>, parameters: impl Iterator<Item = String>) -> String {
    let mut text = if uri.tls { "ejfats://".to_owned() } else { "ejfat://".to_owned() };
    if let Some(token) = token {
        text.push_str(&token);
        text.push('@');
    }
    text.push_str(&if uri.host.contains(':') { format!("[{}]", uri.host) } else { uri.host.clone() });
    // Writing to a text does not fail.
    let _ = write!(text, ":{}/", uri.port);
    if let Some(id) = &uri.balancer {
        text.push_str("lb/");
        text.push_str(&encoded(id));
    }
    for (n, parameter) in parameters.enumerate() {
        text.push(if n == 0 { '?' } else { '&' });
        text.push_str(&parameter);
    }
    text
}

fn host(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

/// `:port`, or `:min-max` if ranges are supported. The default port is written too, because programs disagree on a URI
/// without one.
fn ports(data: &DataAddress, ranges: bool) -> String {
    match (*data.ports.start(), *data.ports.end()) {
        (from, to) if from != to && ranges => format!(":{from}-{to}"),
        (from, _) => format!(":{from}"),
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            out.push(char::from(octet));
        } else {
            let _ = write!(out, "%{octet:02X}");
        }
    }
    out
}
