//! Endpoints of packets, in one line of text.
//!
//! ```text
//!   udp://239.1.2.3:2630?iface=eth1&source=10.0.0.7&rcvbuf=256MiB
//!   └─┬┘  └──────┬─────┘ └───────────────┬─────────────────────┘
//!  transport  address              options, any order
//! ```
//!
//! | option | receiving | sending |
//! |---|---|---|
//! | `iface` | interface (name, or one of its addresses) on which packets must arrive, or a group is joined | outgoing interface |
//! | `source` | the only sender accepted (source-specific multicast, TCP) | local address to send from |
//! | `rcvbuf`, `sndbuf` | socket buffer | socket buffer |
//! | `ttl` | | hops multicast or unicast packets may travel |
//! | `cc` | congestion control of the TCP return path | congestion control of TCP: `cubic`, `bbr`, … |
//!
//! ```
//! use skyhaul_io::address::Endpoint;
//! let at: Endpoint = "udp://[ff02::5]:2630?iface=eth0".parse()?;
//! assert!(at.is_multicast());
//! assert_eq!(at.to_string(), "udp://[ff02::5]:2630?iface=eth0");
//! # Ok::<(), skyhaul_io::address::NotAnEndpoint>(())
//! ```
//!
//! Limits: only numeric addresses (a name may stand for several hosts, and a recording must not hang on a resolver). An
//! empty address (`udp://:2630`) means every IPv4 address of this host, `[::]` every IPv6 address; with port 0, the
//! system chooses a free one.

use crate::quantity::Size;
use skyhaul_core::hint::Hint;
use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A byte stream that is split into packets again.
    Tcp,
}

impl Transport {
    /// Its scheme in addresses.
    #[must_use]
    pub const fn scheme(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

/// One end of a path: transport, address, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// UDP or TCP.
    pub transport: Transport,
    /// Address and port; a multicast group for group traffic.
    pub address: SocketAddr,
    /// Interface name, or an address of it.
    pub iface: Option<String>,
    /// Receiving: the only sender accepted. Sending: the address to send from.
    pub source: Option<IpAddr>,
    /// Receive buffer to request from the kernel.
    pub rcvbuf: Option<Size>,
    /// Send buffer to request from the kernel.
    pub sndbuf: Option<Size>,
    /// Time to live (IPv4) or hop limit (IPv6).
    pub ttl: Option<u8>,
    /// TCP: the congestion control to use, one of `/proc/sys/net/ipv4/tcp_available_congestion_control`.
    pub cc: Option<String>,
}

/// Text that is not a valid [`Endpoint`]: the mistake and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnEndpoint {
    text: String,
    wrong: String,
    hint: &'static str,
}

impl fmt::Display for NotAnEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address '{}': {}{}", self.text, self.wrong, Hint(self.hint))
    }
}

impl std::error::Error for NotAnEndpoint {}

impl Endpoint {
    /// An endpoint without options.
    #[must_use]
    pub const fn new(transport: Transport, address: SocketAddr) -> Self {
        Self {
            transport,
            address,
            iface: None,
            source: None,
            rcvbuf: None,
            sndbuf: None,
            ttl: None,
            cc: None,
        }
    }

    /// `udp://address`, without options.
    #[must_use]
    pub const fn udp(address: SocketAddr) -> Self {
        Self::new(Transport::Udp, address)
    }

    /// `tcp://address`, without options.
    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self::new(Transport::Tcp, address)
    }

    /// The same, at another address (the port the system chose).
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    /// Check that the address can be a destination.
    ///
    /// # Errors
    /// If the port is 0, which requests a free port for a receiver and cannot be a destination.
    pub fn check_destination(&self) -> io::Result<()> {
        if self.address.port() != 0 {
            return Ok(());
        }
        let text = format!(
            "open {self}: port 0 cannot be sent to{}",
            Hint("use the port that the receiver listens on")
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Whether the address is a group.
    #[must_use]
    pub fn is_multicast(&self) -> bool {
        self.address.ip().is_multicast()
    }

    /// `error` with the operation that failed, this address, and the remedy if it is known.
    #[must_use]
    pub fn failed(&self, operation: &str, error: &io::Error) -> io::Error {
        let hint = hint(self, operation, error).map(|h| Hint(h).to_string()).unwrap_or_default();
        io::Error::new(error.kind(), format!("{operation} {self}: {}{hint}", system_text(error)))
    }
}

impl Endpoint {
    /// Whether the address is link-local, and no interface is named.
    fn lacks_interface(&self) -> bool {
        let SocketAddr::V6(at) = self.address else { return false };
        let group = at.ip().is_multicast() && matches!(at.ip().segments()[0] & 0xF, 1 | 2);
        (group || at.ip().is_unicast_link_local()) && at.scope_id() == 0 && self.iface.is_none()
    }

    /// [`failed`](Self::failed), for `map_err`.
    pub(crate) fn failing<'a>(&'a self, operation: &'a str) -> impl Fn(io::Error) -> io::Error + 'a {
        move |error| self.failed(operation, &error)
    }
}

/// Whether `peer` is an address of the host that has `local`, as far as the addresses tell.
#[must_use]
pub fn is_own(peer: SocketAddr, local: SocketAddr) -> bool {
    peer.ip() == local.ip() || peer.ip().is_loopback()
}

/// The system's error text, without "(os error 98)".
#[must_use]
pub fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn hint(at: &Endpoint, operation: &str, error: &io::Error) -> Option<String> {
    let (scheme, port) = (at.transport.scheme(), at.address.port());
    let route = || {
        if at.address.ip().is_loopback() {
            return "the loopback interface is down; as root: ip link set lo up".to_owned();
        }
        let oif = at.iface.as_ref().map(|name| format!(" oif {name}")).unwrap_or_default();
        format!("no route: see `ip route get {}{oif}`", at.address.ip())
    };
    Some(match error.raw_os_error()? {
        libc::EADDRINUSE => {
            let flags = if scheme == "udp" { "-ulnp" } else { "-tlnp" };
            format!("find the process that uses the port with: ss {flags} 'sport = :{port}'; or use another port")
        }
        libc::EADDRNOTAVAIL => "no interface of this host has that address: see `ip addr`".to_owned(),
        libc::EACCES | libc::EPERM if operation == "bind" && port != 0 && port < 1024 => {
            "ports below 1024 need CAP_NET_BIND_SERVICE; use a higher port".to_owned()
        }
        libc::EACCES if at.address.is_ipv4() => {
            "this is a broadcast address, which is not supported: use the receiver's own address, or a multicast group (239.x.x.x)"
                .to_owned()
        }
        libc::EACCES | libc::EPERM => {
            "a firewall rule or a route of this host forbids it: see `nft list ruleset`".to_owned()
        }
        libc::EINVAL if at.lacks_interface() => {
            "a link-local address needs an interface: name one with ?iface= (`ip -br link` lists them)".to_owned()
        }
        libc::ENODEV => {
            "no such interface, or it has no address: see `ip addr`; name one with ?iface=".to_owned()
        }
        libc::ENETUNREACH | libc::EHOSTUNREACH => route(),
        libc::ECONNREFUSED if port == 0 => "port 0 cannot be connected to: use the port that the receiver listens on".to_owned(),
        libc::ECONNREFUSED => format!("no receiver is listening on port {port}; start the receiver first"),
        libc::ENOENT if at.cc.is_some() => {
            "this host lacks that congestion control: `sysctl net.ipv4.tcp_available_congestion_control` lists them"
                .to_owned()
        }
        libc::ETIMEDOUT => {
            format!("no answer: try `ping {}`; a firewall may block port {port}", at.address.ip())
        }
        libc::EMSGSIZE => {
            "packets exceed the MTU of the path: send shorter ones (1472 bytes for an MTU of 1500, 8972 for \
             9000, never more than 65507)"
                .to_owned()
        }
        libc::EMFILE => "raise the limit on open files: ulimit -n 65536".to_owned(),
        libc::EAFNOSUPPORT => "this address family is disabled on this host".to_owned(),
        _ => return None,
    })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.transport.scheme(), self.address)?;
        let options = [
            self.iface.as_ref().map(|v| format!("iface={v}")),
            self.source.map(|v| format!("source={v}")),
            self.rcvbuf.map(|v| format!("rcvbuf={v}")),
            self.sndbuf.map(|v| format!("sndbuf={v}")),
            self.ttl.map(|v| format!("ttl={v}")),
            self.cc.as_ref().map(|v| format!("cc={v}")),
        ];
        for (n, option) in options.into_iter().flatten().enumerate() {
            write!(f, "{}{option}", if n == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let wrong =
            |wrong: String, hint| NotAnEndpoint { text: text.chars().take(200).collect(), wrong, hint };
        let (transport, rest) = match text.split_once("://") {
            Some(("udp", rest)) => (Transport::Udp, rest),
            Some(("tcp", rest)) => (Transport::Tcp, rest),
            Some((other, _)) => {
                return Err(wrong(format!("unknown transport '{other}'"), "write udp:// or tcp://"));
            }
            None => {
                return Err(wrong(
                    "transport missing".into(),
                    "write udp://10.0.0.1:2630 or tcp://[::1]:2630",
                ));
            }
        };
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.strip_suffix('/').unwrap_or(address);
        let mut endpoint = Self::new(transport, parse_address(address).map_err(|(w, h)| wrong(w, h))?);
        for option in options.split('&').filter(|o| !o.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            endpoint.set(key, value).map_err(|(w, h)| wrong(w, h))?;
        }
        endpoint.check().map_err(|(w, h)| wrong(w, h))?;
        Ok(endpoint)
    }
}

type Wrong = (String, &'static str);

fn parse_address(text: &str) -> Result<SocketAddr, Wrong> {
    if let Some(port) = text.strip_prefix(':').and_then(|p| p.parse().ok()) {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let hint = if text.matches(':').count() > 1 && !text.starts_with('[') {
        "write IPv6 addresses in brackets, and a port: [2001:db8::1]:2630"
    } else if !text.contains(':') || text.ends_with(']') {
        "the port is missing: write 10.0.0.1:2630 or [fe80::1]:2630"
    } else {
        "write a numeric address (`getent hosts NAME` shows it) and a port from 0 to 65535"
    };
    Err((format!("'{text}' is not an address and port"), hint))
}

impl Endpoint {
    fn set(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        let size = || value.parse::<Size>().map_err(|e| (e.to_string(), "for example rcvbuf=256MiB"));
        match key {
            "iface" => {
                let name = !value.is_empty() && value.len() <= 15 && !value.contains(['/', ' ', '&', '?']);
                if !name && value.parse::<IpAddr>().is_err() {
                    return Err((format!("invalid interface '{value}'"), "`ip -br addr` lists them"));
                }
                self.iface = Some(value.to_owned());
            }
            "source" => {
                let source = value.parse().map_err(|_| {
                    (
                        format!("source '{value}' is not an address"),
                        "write a numeric address without port: source=10.0.0.7",
                    )
                })?;
                self.source = Some(source);
            }
            "rcvbuf" => self.rcvbuf = Some(size()?),
            "sndbuf" => self.sndbuf = Some(size()?),
            "ttl" => {
                let ttl = value.parse().ok().filter(|&t| t > 0);
                self.ttl =
                    Some(ttl.ok_or_else(|| (format!("ttl '{value}' is out of range"), "use 1 to 255"))?);
            }
            "cc" => {
                let name = !value.is_empty()
                    && value.len() <= 15
                    && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                if !name {
                    let hint = "`sysctl net.ipv4.tcp_available_congestion_control` lists them";
                    return Err((format!("invalid congestion control '{value}'"), hint));
                }
                self.cc = Some(value.to_owned());
            }
            _ => {
                let hint = "the options are iface, source, rcvbuf, sndbuf, ttl, cc";
                return Err((format!("unknown option '{key}'"), hint));
            }
        }
        Ok(())
    }

    /// Checks that involve several parts.
    fn check(&self) -> Result<(), Wrong> {
        if self.source.is_some_and(|s| s.is_ipv4() != self.address.is_ipv4()) {
            return Err((
                "address and source have different address families".into(),
                "use IPv4 for both, or IPv6 for both",
            ));
        }
        if self.source.is_some_and(|s| s.is_multicast()) {
            return Err(("the source is a multicast group".into(), "use the address of one sender"));
        }
        if self.transport == Transport::Tcp && self.is_multicast() {
            return Err(("TCP has no multicast".into(), "use udp:// for multicast groups"));
        }
        if self.transport == Transport::Udp && self.cc.is_some() {
            return Err(("UDP has no congestion control".into(), "use tcp://, or omit cc="));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
