//! Addresses of data channels: `<tcp/192.0.2.1:8008/mss=0,max-bw=0>`, `<tcp6/[2001:db8::1]:8008>`.

use std::fmt;

/// Maximum number of addresses in a list.
pub const MAX_DATA_ADDRESSES: usize = 16;
/// Longest name of a host (RFC 1123).
const MAX_HOST_BYTES: usize = 255;

/// How a data channel carries bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataProtocol {
    /// TCP over IPv4.
    Tcp,
    /// TCP over IPv6.
    Tcp6,
    /// UDT, over IPv4 or IPv6.
    Udt,
}

/// Where a data channel is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtransferAddress {
    /// How bytes are carried.
    pub protocol: DataProtocol,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl EtransferAddress {
    /// Reads one in angle brackets. Its options (`mss`, `max-bw`) are those of UDT, and are left out.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (protocol, rest) = text.strip_prefix('<')?.strip_suffix('>')?.split_once('/')?;
        let protocol = match protocol.to_ascii_lowercase().as_str() {
            "tcp" => DataProtocol::Tcp,
            "tcp6" => DataProtocol::Tcp6,
            "udt" | "udt6" => DataProtocol::Udt,
            _ => return None,
        };
        let (host, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once("]:")?,
            None => rest.split_once(':')?,
        };
        let port = rest.split('/').next()?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        let is_valid = (1..=MAX_HOST_BYTES).contains(&host.len()) && host.bytes().all(is_host);
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_valid && is_port)?;
        Some(Self { protocol, host: host.to_owned(), port })
    }

    /// Reads several, with commas between them; `None` if one is none, there is none, or there are more than [`MAX_DATA_ADDRESSES`].
    #[must_use]
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find('>')? + 1;
            all.push(Self::parse(&rest[..end])?);
            rest = &rest[end..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        (1..=MAX_DATA_ADDRESSES).contains(&all.len()).then_some(all)
    }
}

impl fmt::Display for EtransferAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            DataProtocol::Tcp => "tcp",
            DataProtocol::Tcp6 => "tcp6",
            DataProtocol::Udt => "udt",
        };
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            write!(f, "<{protocol}/[{host}]:{port}>")
        } else {
            write!(f, "<{protocol}/{host}:{port}>")
        }
    }
}
