//! Allow-list of senders, ports and stations.
//!
//! ```text
//!   --from 10.1.0.0/16          any port of a network
//!   --from 10.1.2.3             any port of a host
//!   --from 10.1.2.3:5000-5010   some ports of it
//!   --from [fd00::1]:5000       IPv6 with a port needs brackets
//!   --from :5000                this port of any host
//! ```

use skyhaul_core::placement::Reject;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Allowed senders: addresses of a network, and their ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// An address of the network, and how many leading bits of it count; `None` is any address.
    network: Option<(IpAddr, u8)>,
    ports: RangeInclusive<u16>,
}

/// Why a text is not a valid [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no sender\nhint: write an address, a network or a port, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010, \
     [fd00::1]:5000 or :5000"
)]
pub struct NoOrigin(String);

/// The 128 bits of an address; IPv4 is mapped to `::ffff:0:0/96`.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

impl Origin {
    /// Whether `sender` is one of them.
    #[must_use]
    pub fn admits(&self, sender: SocketAddr) -> bool {
        let near = self.network.is_none_or(|(network, prefix)| {
            let differ = bits(network) ^ bits(sender.ip());
            differ.checked_shr(128 - u32::from(prefix)).is_none_or(|rest| rest == 0)
        });
        near && self.ports.contains(&sender.port())
    }
}

impl FromStr for Origin {
    type Err = NoOrigin;

    fn from_str(text: &str) -> Result<Self, NoOrigin> {
        parse(text.trim()).ok_or_else(|| NoOrigin(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Origin> {
    let (address, ports) = split(text)?;
    let network = match address {
        "" | "*" => None,
        _ => Some(network(address)?),
    };
    if network.is_none() && ports.is_none() {
        return None;
    }
    Some(Origin { network, ports: ports.unwrap_or(0..=u16::MAX) })
}

/// The address, without brackets, and the ports.
fn split(text: &str) -> Option<(&str, Option<RangeInclusive<u16>>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(list) => Some((address, Some(ports(list)?))),
            None => rest.is_empty().then_some((address, None)),
        };
    }
    match text.split_once(':') {
        // More than one colon without brackets: IPv6 without port.
        Some((address, list)) if !list.contains(':') => Some((address, Some(ports(list)?))),
        _ => Some((text, None)),
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse::<u16>().ok()?, to.parse::<u16>().ok()?);
    (from <= to).then_some(from..=to)
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    let ip: IpAddr = address.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(most), |p| p.parse::<u8>().ok().filter(|&p| p <= most))?;
    Some((ip, prefix + (128 - most)))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            None => {}
            Some((IpAddr::V4(ip), 128)) => write!(f, "{ip}")?,
            Some((IpAddr::V4(ip), prefix)) => write!(f, "{ip}/{}", prefix - 96)?,
            Some((IpAddr::V6(ip), 128)) => write!(f, "[{ip}]")?,
            Some((IpAddr::V6(ip), prefix)) => write!(f, "[{ip}/{prefix}]")?,
        }
        match (*self.ports.start(), *self.ports.end()) {
            (0, u16::MAX) => Ok(()),
            (from, to) if from == to => write!(f, ":{from}"),
            (from, to) => write!(f, ":{from}-{to}"),
        }
    }
}

/// Allowed senders and stations.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// Senders; if empty, all are allowed.
    pub from: Vec<Origin>,
    /// Stations as in VDIF headers: two letters, or a number; if empty, all are allowed.
    pub stations: Vec<String>,
}

impl Allow {
    /// Check that `sender` is allowed.
    ///
    /// # Errors
    /// [`Reject::NotAllowed`].
    pub fn sender(&self, sender: SocketAddr) -> Result<(), Reject> {
        let admitted = self.from.is_empty() || self.from.iter().any(|origin| origin.admits(sender));
        if admitted { Ok(()) } else { Err(Reject::NotAllowed) }
    }

    /// Check that a stream of `station` is allowed. If stations are listed, a stream without one is not.
    ///
    /// # Errors
    /// [`Reject::NotAllowed`].
    pub fn station(&self, station: Option<&str>) -> Result<(), Reject> {
        let named = |station: &str| self.stations.iter().any(|one| one == station);
        let admitted = self.stations.is_empty() || station.is_some_and(named);
        if admitted { Ok(()) } else { Err(Reject::NotAllowed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admits(origin: &str, sender: &str) -> bool {
        origin.parse::<Origin>().unwrap().admits(sender.parse().unwrap())
    }

    #[test]
    fn networks_hosts_and_ports() {
        assert!(admits("10.1.0.0/16", "10.1.255.7:9") && !admits("10.1.0.0/16", "10.2.0.1:9"));
        assert!(admits("10.1.2.3", "10.1.2.3:9") && !admits("10.1.2.3", "10.1.2.4:9"));
        assert!(
            admits("10.1.2.3:5000-5010", "10.1.2.3:5010") && !admits("10.1.2.3:5000-5010", "10.1.2.3:5011")
        );
        assert!(admits("[fd00::1]:5000", "[fd00::1]:5000") && !admits("[fd00::1]:5000", "[fd00::1]:5001"));
        assert!(admits("fd00::/8", "[fdff::2]:1") && !admits("fd00::/8", "[fe80::2]:1"));
        assert!(
            admits(":5000", "[::1]:5000")
                && admits("*:5000", "10.0.0.1:5000")
                && !admits(":5000", "1.1.1.1:5")
        );
        assert!(admits("0.0.0.0/0", "10.0.0.1:1") && !admits("0.0.0.0/0", "[::1]:1"), "all of IPv4");
        assert!(admits("10.0.0.1", "[::ffff:10.0.0.1]:1"), "IPv4 as a socket for both shows it");
        assert!(admits("::/0", "[::1]:1"));
    }

    #[test]
    fn what_is_no_sender_is_said() {
        for text in
            ["", "*", "10.0.0.0/33", "10.0.0.1:70000", "10.0.0.1:9-1", "here", "[::1", "[::1]5", "1.2.3.4:"]
        {
            let error = text.parse::<Origin>().unwrap_err().to_string();
            assert!(error.contains("hint:"), "{text}: {error}");
        }
    }

    #[test]
    fn stations_are_named_or_not_taken() {
        let allow = Allow { stations: vec!["Eb".into(), "17".into()], ..Allow::default() };
        assert_eq!(allow.station(Some("Eb")), Ok(()));
        assert_eq!(allow.station(Some("On")), Err(Reject::NotAllowed));
        assert_eq!(allow.station(None), Err(Reject::NotAllowed));
        assert_eq!(Allow::default().station(None), Ok(()));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(ip: [u8; 4], prefix in 0u8..=32, a: u16, b: u16, any: bool) {
            let ports = if any { 0..=u16::MAX } else { a.min(b)..=a.max(b) };
            let origin = Origin { network: Some((IpAddr::from(ip), prefix + 96)), ports };
            prop_assert_eq!(origin.to_string().parse::<Origin>().unwrap(), origin);
        }
    }
}
