//! What a path sees of a packet.

use crate::fault::NotFaults;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Protocol, addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Of IP: 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Who sends.
    pub from: IpAddr,
    /// Who receives.
    pub to: IpAddr,
    /// Source port; 0 if there is none.
    pub from_port: u16,
    /// Destination port; 0 if there is none.
    pub to_port: u16,
}

impl Default for Flow {
    fn default() -> Self {
        let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { protocol: 0, from: nobody, to: nobody, from_port: 0, to_port: 0 }
    }
}

impl Flow {
    /// The same for both directions.
    #[must_use]
    pub(super) fn both_ways(self) -> Flow {
        let back =
            Flow { from: self.to, to: self.from, from_port: self.to_port, to_port: self.from_port, ..self };
        self.min(back)
    }

    /// A number for a choice among links: FNV-1a.
    #[must_use]
    pub(super) fn hash(self, seed: u64) -> u64 {
        let mut hash = 0xCBF2_9CE4_8422_2325 ^ seed;
        let mut add = |octets: &[u8]| {
            for octet in octets {
                hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01B3);
            }
        };
        for ip in [self.from, self.to] {
            match ip {
                IpAddr::V4(ip) => add(&ip.octets()),
                IpAddr::V6(ip) => add(&ip.octets()),
            }
        }
        add(&[self.protocol]);
        add(&self.from_port.to_be_bytes());
        add(&self.to_port.to_be_bytes());
        hash ^ (hash >> 32)
    }
}

/// A packet, as a path sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Time of arrival, in nanoseconds of the path's time; never earlier than that of the packet before.
    pub at: u64,
    /// Bytes of its frame, with the Ethernet header and without a checksum.
    pub octets: u32,
    /// Bytes of its IP packet.
    pub ip: u32,
    /// It opens a connection: a SYN without an ACK.
    pub opens: bool,
    /// Its flow.
    pub flow: Flow,
}

/// Which packets a section is for: `udp`, `tcp/5201`, `5001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    protocol: Option<u8>,
    /// Of either end.
    port: Option<u16>,
}

impl FlowFilter {
    /// Whether a packet of this flow is one of them.
    #[must_use]
    pub fn matches(&self, flow: &Flow) -> bool {
        self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.port.is_none_or(|port| port == flow.from_port || port == flow.to_port)
    }
}

impl FromStr for FlowFilter {
    type Err = NotFaults;

    fn from_str(text: &str) -> Result<Self, NotFaults> {
        let wrong = || {
            NotFaults::new(format!("flow '{text}' is not a protocol, a port or both: write flow=udp/5001"))
        };
        let protocol = |text: &str| match text {
            "tcp" => Ok(TCP),
            "udp" => Ok(UDP),
            number => number.parse().map_err(|_| wrong()),
        };
        let port = |text: &str| text.parse::<u16>().map(Some).map_err(|_| wrong());
        match text.split_once('/') {
            Some((of, to)) => Ok(Self { protocol: Some(protocol(of)?), port: port(to)? }),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(Self { protocol: None, port: port(text)? })
            }
            None => Ok(Self { protocol: Some(protocol(text)?), port: None }),
        }
    }
}

impl fmt::Display for FlowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Some(TCP) => write!(f, "tcp")?,
            Some(UDP) => write!(f, "udp")?,
            Some(number) => write!(f, "{number}")?,
            None => {}
        }
        match (self.protocol, self.port) {
            (Some(_), Some(port)) => write!(f, "/{port}"),
            (None, Some(port)) => write!(f, "{port}"),
            _ => Ok(()),
        }
    }
}
