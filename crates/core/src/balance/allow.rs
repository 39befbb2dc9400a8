//! The senders that a balancer serves: IPv4 and IPv6 addresses and networks.
//!
//! The networks are kept as disjoint ranges in ascending order, so a lookup is a binary search over at most as many ranges
//! as there are networks.

use crate::hint::Hint;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, str::FromStr};

/// A network: an address, and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    ip: IpAddr,
    bits: u8,
}

impl Prefix {
    /// The network of the `bits` leading bits of `ip`. `None` if the address has fewer bits. An IPv4 address mapped to
    /// IPv6 is converted to the IPv4 address if `bits` is 128.
    #[must_use]
    pub fn new(ip: IpAddr, bits: u8) -> Option<Prefix> {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        match ip.to_canonical() {
            _ if bits > most => None,
            IpAddr::V4(v4) if ip.is_ipv6() => (bits == most).then_some(Prefix { ip: v4.into(), bits: 32 }),
            ip => Some(Prefix { ip, bits }),
        }
    }

    /// One host.
    #[must_use]
    pub fn host(ip: IpAddr) -> Prefix {
        let ip = ip.to_canonical();
        Prefix { ip, bits: if ip.is_ipv4() { 32 } else { 128 } }
    }

    /// First and last address as numbers.
    fn range(self) -> (u128, u128) {
        let (number, most) = match self.ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        let host = (1u128 << (most - 1) << 1).wrapping_sub(1);
        let host = host.checked_shr(self.bits.into()).unwrap_or(0);
        (number & !host, number | host)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip, self.bits) {
            (IpAddr::V4(ip), 32) => write!(f, "{ip}"),
            (IpAddr::V6(ip), 128) => write!(f, "{ip}"),
            (ip, bits) => write!(f, "{ip}/{bits}"),
        }
    }
}

/// Error: the text is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPrefix(String);

impl fmt::Display for NoPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no sender{}",
            self.0,
            Hint("write an address or a network, like 10.1.2.3 or fd00::/64")
        )
    }
}

impl std::error::Error for NoPrefix {}

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Prefix, NoPrefix> {
        let read = || match text.split_once('/') {
            Some((ip, bits)) => Prefix::new(ip.parse().ok()?, bits.parse().ok()?),
            None => Some(Prefix::host(text.parse().ok()?)),
        };
        read().ok_or_else(|| NoPrefix(text.to_owned()))
    }
}

/// First and last address.
type Range<T> = (T, T);

/// The senders that are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    any: bool,
    v4: Vec<Range<Ipv4Addr>>,
    v6: Vec<Range<Ipv6Addr>>,
}

impl AllowList {
    /// Allows everyone.
    #[must_use]
    pub fn anyone() -> AllowList {
        AllowList { any: true, ..AllowList::default() }
    }

    /// Allows only hosts in these networks; if there are none, no host is allowed.
    #[must_use]
    pub fn of(networks: &[Prefix]) -> AllowList {
        let ranges = |v4: bool| {
            let of_kind = networks.iter().filter(|network| network.ip.is_ipv4() == v4);
            merged(of_kind.map(|network| network.range()).collect())
        };
        let v4 = |number: u128| Ipv4Addr::from(number as u32);
        AllowList {
            any: false,
            v4: ranges(true).into_iter().map(|(from, to)| (v4(from), v4(to))).collect(),
            v6: ranges(false).into_iter().map(|(from, to)| (from.into(), to.into())).collect(),
        }
    }

    /// Whether everyone is allowed, and the ranges of the allowed addresses.
    pub(super) fn ranges(&self) -> (bool, &[Range<Ipv4Addr>], &[Range<Ipv6Addr>]) {
        (self.any, &self.v4, &self.v6)
    }

    /// From ranges in ascending order that do not overlap.
    pub(super) fn of_ranges(any: bool, v4: Vec<Range<Ipv4Addr>>, v6: Vec<Range<Ipv6Addr>>) -> AllowList {
        AllowList { any, v4, v6 }
    }

    /// Whether `sender` is allowed. An IPv4 address mapped to IPv6, as a dual-stack socket returns it, is treated as
    /// the IPv4 address.
    #[inline]
    #[must_use]
    pub fn admits(&self, sender: IpAddr) -> bool {
        match sender.to_canonical() {
            _ if self.any => true,
            IpAddr::V4(ip) => holds(&self.v4, ip),
            IpAddr::V6(ip) => holds(&self.v6, ip),
        }
    }
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], ip: T) -> bool {
    let behind = ranges.partition_point(|&(from, _)| from <= ip);
    behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|&(_, to)| ip <= to)
}

/// Merges ranges, so that they are in ascending order and neither overlap nor touch.
fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut out: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match out.last_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
            _ => out.push((from, to)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(texts: &[&str]) -> AllowList {
        AllowList::of(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn networks_of_both_versions() {
        let allow = list(&["10.1.0.0/16", "10.2.0.0/16", "192.0.2.7", "fd00::/64", "2001:db8::7"]);
        assert_eq!(allow.v4.len(), 2, "neighbours are one range");
        let admits = |text: &str| allow.admits(text.parse().unwrap());
        for inside in
            ["10.1.0.0", "10.2.255.255", "192.0.2.7", "fd00::ffff", "2001:db8::7", "::ffff:10.1.2.3"]
        {
            assert!(admits(inside), "{inside}");
        }
        for outside in
            ["10.0.255.255", "10.3.0.0", "192.0.2.6", "192.0.2.8", "fd00:0:0:1::", "2001:db8::8", "::"]
        {
            assert!(!admits(outside), "{outside}");
        }
        assert!(!AllowList::default().admits([10, 1, 0, 0].into()), "nobody");
        assert!(AllowList::anyone().admits([10, 1, 0, 0].into()));
        assert!(
            list(&["0.0.0.0/0"]).admits([255; 4].into())
                && !list(&["0.0.0.0/0"]).admits("::1".parse().unwrap())
        );
        assert!(list(&["::/0"]).admits("ffff::1".parse().unwrap()));
        assert!(list(&["::ffff:1.2.3.4"]).admits([1, 2, 3, 4].into()));
    }

    #[test]
    fn what_is_no_network() {
        for text in ["", "10.1.2", "10.1.2.3/33", "fd00::/129", "10.1.2.3/", "::ffff:1.2.3.4/96", "h"] {
            let error = text.parse::<Prefix>().expect_err(text);
            assert!(error.to_string().contains("; hint: "), "{error}");
        }
    }

    proptest! {
        #[test]
        fn as_a_search_through_all(networks in proptest::collection::vec((any::<u32>(), 0u8..=32), 0..20), sender: u32, near in 0usize..20, step in -2i64..3) {
            let prefixes: Vec<Prefix> = networks.iter().map(|&(ip, bits)| Prefix::new(Ipv4Addr::from(ip).into(), bits).unwrap()).collect();
            for prefix in &prefixes {
                prop_assert_eq!(prefix.to_string().parse(), Ok(*prefix));
            }
            let edge = prefixes.get(near).map_or(sender, |prefix| (i128::try_from(prefix.range().1).unwrap() + i128::from(step)) as u32);
            for sender in [sender, edge] {
                let inside = |&(ip, bits): &(u32, u8)| (ip ^ sender).checked_shr(32 - u32::from(bits)).is_none_or(|differ| differ == 0);
                prop_assert_eq!(AllowList::of(&prefixes).admits(Ipv4Addr::from(sender).into()), networks.iter().any(inside));
            }
        }
    }
}
