//! Reads an `EJFAT_URI`, whichever program wrote it.

use super::{
    DATA_PORT, DataAddress, Uri,
    error::{UriError, UriPart},
};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

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
}

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
