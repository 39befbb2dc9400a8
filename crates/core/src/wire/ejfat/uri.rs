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

mod error;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use error::{UriError, UriPart};

use core::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

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
