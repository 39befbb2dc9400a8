//! `EJFAT_URI`: the address of a balancer in one line, which users put into the environment.
//!
//! ```text
//!   ejfat[s]://[token@]host:port/[lb/<id>][?data=<ip>[:port|:min-max]&data=[<v6>]…&sync=<ip>:<port>&sync=…&sessionid=<s>]
//!
//!   E2SAR    sync first; one `data` of each IP version, one port, 19522 if none is given; `sessionid`
//!   JLab     `data` first, with a port; one of each; literal IPv4 addresses; no TLS
//!   udplbd   sync first; ranges of ports; no `sessionid`
//! ```
//!
//! All of these are accepted. `Display` writes everything, in the order that all three accept; [`Uri::to`] writes the
//! parts that one of them supports.
//!
//! Bytes other than letters, digits and `-._~` are written as `%XX` in token, id and session, and read so everywhere
//! (RFC 3986, 2.1).

use crate::hint::Hint;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Port of the data where the URI names none: "LB".
pub const DATA_PORT: u16 = super::MAGIC;
/// Port of synchronisation messages where none is chosen.
pub const SYNC_PORT: u16 = 19531;

/// The parts of an `EJFAT_URI`.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    /// Whether the control plane is reached with TLS (`ejfats`).
    pub tls: bool,
    /// Of the administrator, a reservation or a session.
    pub token: Option<String>,
    /// Control plane: a name or an address, IPv6 without brackets.
    pub host: String,
    /// Its TCP port; not 0.
    pub port: u16,
    /// The reserved balancer (`lb/<id>`).
    pub balancer: Option<String>,
    /// Where data are sent.
    pub data: Vec<DataAddress>,
    /// Where synchronisation messages are sent; no port is 0.
    pub sync: Vec<SocketAddr>,
    /// The worker's session.
    pub session: Option<String>,
}

impl FromStr for Uri {
    type Err = UriError;

    /// Read any dialect.
    fn from_str(text: &str) -> Result<Uri, UriError> {
        read(text)
    }
}

impl Uri {
    /// Whether `text` is meant to be one: it begins with one of the schemes.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.split_once(':').is_some_and(|(before, _)| {
            before.eq_ignore_ascii_case("ejfat") || before.eq_ignore_ascii_case("ejfats")
        })
    }

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

/// Where data are sent: an address, and ports of which a sender may use any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataAddress {
    /// The address.
    pub ip: IpAddr,
    /// The ports, ascending; none is 0.
    pub ports: RangeInclusive<u16>,
}

/// Programs that interpret an `EJFAT_URI` differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// E2SAR's library and tools.
    E2sar,
    /// packetBlaster and the other JLab tools.
    Jlab,
    /// udplbd's client.
    Udplbd,
}

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
    fn new(part: UriPart, found: &str) -> UriError {
        let public = found.rsplit_once('@').map_or(found, |(_, public)| public);
        UriError { part, found: public.to_owned(), hint: part.hint() }
    }
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, hint) = (self.part.name(), self.hint);
        match (self.part, self.found.as_str()) {
            (UriPart::Token, _) => {
                write!(f, "EJFAT_URI: the token cannot be read{}", Hint(hint))
            }
            (_, "") => write!(f, "EJFAT_URI: no {name}{}", Hint(hint)),
            (_, found) => write!(f, "EJFAT_URI: `{found}` is no {name}{}", Hint(hint)),
        }
    }
}

impl std::error::Error for UriError {}

fn read(text: &str) -> Result<Uri, UriError> {
    let (tls, rest) = scheme(text)?;
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let (token, control) = match authority.rsplit_once('@') {
        Some((token, control)) => (Some(decoded(UriPart::Token, token)?), control),
        None => (None, authority),
    };
    let (host, port) = control_plane(control)?;
    let balancer = balancer(path)?;
    let mut uri = Uri { tls, token, host, port, balancer, data: Vec::new(), sync: Vec::new(), session: None };
    for parameter in query.into_iter().flat_map(|query| query.split('&')).filter(|one| !one.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "data" => uri.data.push(data(&plain(UriPart::Data, value)?)?),
            "sync" => uri.sync.push(sync(&plain(UriPart::Sync, value)?)?),
            "sessionid" if uri.session.is_none() => uri.session = Some(decoded(UriPart::Session, value)?),
            "sessionid" => return Err(UriError::new(UriPart::Session, value)),
            _ => return Err(UriError::new(UriPart::Parameter, parameter)),
        }
    }
    Ok(uri)
}

fn scheme(text: &str) -> Result<(bool, &str), UriError> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::new(UriPart::Scheme, text))?;
    // Schemes are case-insensitive (RFC 3986, 3.1).
    match scheme {
        _ if scheme.eq_ignore_ascii_case("ejfat") => Ok((false, rest)),
        _ if scheme.eq_ignore_ascii_case("ejfats") => Ok((true, rest)),
        _ => Err(UriError::new(UriPart::Scheme, scheme)),
    }
}

fn control_plane(control: &str) -> Result<(String, u16), UriError> {
    let (host, rest) = match control.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or_else(|| UriError::new(UriPart::Host, control))?;
            host.parse::<Ipv6Addr>().map_err(|_| UriError::new(UriPart::Host, host))?;
            (host, rest)
        }
        None => {
            let (host, rest) = control.split_at(control.find(':').unwrap_or(control.len()));
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if host.is_empty() || !host.chars().all(is_name) {
                return Err(UriError::new(UriPart::Host, host));
            }
            (host, rest)
        }
    };
    let port = rest.strip_prefix(':').unwrap_or("");
    match number(port) {
        Some(port) => Ok((host.to_owned(), port)),
        // This includes text between host and port.
        None => Err(UriError::new(UriPart::Port, if port.is_empty() { rest } else { port })),
    }
}

fn balancer(path: &str) -> Result<Option<String>, UriError> {
    match path.strip_prefix("/lb/") {
        // udplbd ends the path with `/`, and E2SAR's `lb/` may have no id.
        Some(id) => match id.strip_suffix('/').unwrap_or(id) {
            "" => Ok(None),
            id if id.contains('/') => Err(UriError::new(UriPart::Balancer, path)),
            id => decoded(UriPart::Balancer, id).map(Some),
        },
        None if matches!(path, "" | "/" | "/lb") => Ok(None),
        None => Err(UriError::new(UriPart::Balancer, path)),
    }
}

/// Splits `[v6]` or `v4` from the port after it.
fn address(text: &str) -> Option<(IpAddr, Option<&str>)> {
    let (ip, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (ip, rest) = inner.split_once(']')?;
            (IpAddr::V6(ip.parse().ok()?), rest)
        }
        None => {
            let (ip, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (IpAddr::V4(ip.parse().ok()?), rest)
        }
    };
    match rest.strip_prefix(':') {
        Some(port) => Some((ip, Some(port))),
        None => rest.is_empty().then_some((ip, None)),
    }
}

fn data(text: &str) -> Result<DataAddress, UriError> {
    let read = || {
        let (ip, port) = address(text)?;
        let ports = match port {
            None => DATA_PORT..=DATA_PORT,
            Some(ports) => {
                let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
                number(from)?..=number(to)?
            }
        };
        (!ports.is_empty()).then_some(DataAddress { ip, ports })
    };
    read().ok_or_else(|| UriError::new(UriPart::Data, text))
}

fn sync(text: &str) -> Result<SocketAddr, UriError> {
    let read = || {
        let (ip, port) = address(text)?;
        Some(SocketAddr::new(ip, number(port?)?))
    };
    read().ok_or_else(|| UriError::new(UriPart::Sync, text))
}

/// A port; 0 is invalid.
fn number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|octet| octet.is_ascii_digit());
    text.parse().ok().filter(|&port| digits && port != 0)
}

/// `text` with `%XX` replaced; not empty.
fn decoded(part: UriPart, text: &str) -> Result<String, UriError> {
    let plain = plain(part, text)?;
    if plain.is_empty() { Err(UriError::new(part, "")) } else { Ok(plain) }
}

fn plain(part: UriPart, text: &str) -> Result<String, UriError> {
    let wrong = || UriError::new(part, if part == UriPart::Token { "" } else { text });
    let mut octets = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((&first, rest)) = left.split_first() {
        left = rest;
        if first != b'%' {
            octets.push(first);
            continue;
        }
        let (pair, rest) = left.split_first_chunk::<2>().ok_or_else(wrong)?;
        let digit = |octet: u8| char::from(octet).to_digit(16).ok_or_else(wrong);
        octets.push((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
        left = rest;
    }
    String::from_utf8(octets).map_err(|_| wrong())
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

#[cfg(test)]
mod tests;
