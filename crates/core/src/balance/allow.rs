//! The senders that a balancer serves: IPv4 and IPv6 addresses and networks.
//!
//! The networks are kept as disjoint ranges in ascending order, so a lookup is a binary search over at most as many ranges
//! as there are networks.

use super::worker::Member;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;
use std::str::FromStr;

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
            "`{}` is no sender; hint: write an address or a network, like 10.1.2.3 or fd00::/64",
            self.0
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

/// What an address is to this host, according to its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address of this host.
    Own,
    /// The broadcast address of one of its networks.
    Broadcast,
    /// Any other address.
    Other,
}

/// Why packets cannot be sent to a worker's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It does not belong to a single host: unspecified, multicast, broadcast or reserved.
    NotOne(IpAddr),
    /// A link-local address, which is ambiguous without an interface.
    LinkLocal(IpAddr),
    /// A loopback address, although the balancer does not receive on loopback.
    Loopback(IpAddr),
    /// The balancer itself receives at this address.
    Own(SocketAddr),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::NotOne(ip) => {
                write!(f, "{ip} is not the address of one host; hint: register the worker's own address")
            }
            Unusable::LinkLocal(ip) => {
                write!(f, "{ip} is valid on one link only; hint: register an address with a wider scope")
            }
            Unusable::Loopback(ip) => write!(
                f,
                "{ip} is the load balancer's own host, which receives on a network card; hint: register the address of a network card"
            ),
            Unusable::Own(at) => write!(
                f,
                "the load balancer itself receives on {at}: packets would circulate; hint: register the worker's own address and port"
            ),
        }
    }
}

impl std::error::Error for Unusable {}

/// The addresses on which a balancer receives, to check that it does not send to them.
///
/// Addresses to which a balancer must not send: its own, broadcast and unusable ones.
///
/// A worker at an address on which the balancer receives would send every packet in a circle: one packet becomes tens
/// of thousands a second. Such a worker is refused when it registers. Its packets are also refused by the data plane,
/// because the table may come from another process.
///
/// ```
/// use skyhaul_core::balance::{Kind, Member, PortRange, Reach, Unusable};
/// let reach = Reach::new(vec!["10.0.0.1:19522".parse().unwrap()]);
/// let member = |ip: &str, port| Member::new(ip.parse().unwrap(), port, PortRange::default(), true).unwrap();
/// let elsewhere = |_| Kind::Other;
/// assert_eq!(reach.check(&member("10.0.0.9", 19522), elsewhere), Ok(()));
/// assert!(matches!(reach.check(&member("10.0.0.1", 19522), elsewhere), Err(Unusable::Own(..))));
/// assert!(matches!(reach.check(&member("255.255.255.255", 9), elsewhere), Err(Unusable::NotOne(_))));
/// ```
///
/// Limits: only the control plane can recognise balancers that feed each other. Packets that circulate nevertheless end
/// when their time to live is used up ([`Refusal::HopLimit`](super::Refusal)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    own: Vec<SocketAddr>,
    /// Whether it receives on loopback.
    loopback: bool,
}

impl Reach {
    /// For a balancer that receives packets and synchronisation messages on these addresses.
    #[must_use]
    pub fn new(own: Vec<SocketAddr>) -> Reach {
        let here = |at: &SocketAddr| at.ip().is_loopback() || at.ip().is_unspecified();
        Reach { loopback: own.is_empty() || own.iter().any(here), own }
    }

    /// Checks that packets can be sent to `member`; `kind` returns what an address is to this host.
    ///
    /// # Errors
    /// See [`Unusable`].
    pub fn check(&self, member: &Member, mut kind: impl FnMut(IpAddr) -> Kind) -> Result<(), Unusable> {
        let ip = member.ip.to_canonical();
        self.class(ip)?;
        if let Some(at) = self.leads_back(member, |ip| kind(ip) == Kind::Own) {
            return Err(Unusable::Own(at));
        }
        if kind(ip) == Kind::Broadcast { Err(Unusable::NotOne(ip)) } else { Ok(()) }
    }

    /// Checks a member of a table in the data plane, without the routes of the host. `is_own` is called only if the
    /// balancer receives on all addresses of its host.
    pub fn check_table(&self, member: &Member, is_own: impl FnMut(IpAddr) -> bool) -> Result<(), Unusable> {
        self.class(member.ip.to_canonical())?;
        self.leads_back(member, is_own).map_or(Ok(()), |at| Err(Unusable::Own(at)))
    }

    fn class(&self, ip: IpAddr) -> Result<(), Unusable> {
        let one = match ip {
            // 0.0.0.0/8 is this host, 224.0.0.0/4 multicast, 240.0.0.0/4 reserved (including the broadcast address
            // 255.255.255.255).
            IpAddr::V4(ip) => (1..=223).contains(&ip.octets()[0]),
            IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
        };
        match ip {
            _ if !one => Err(Unusable::NotOne(ip)),
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Err(Unusable::LinkLocal(ip)),
            _ if ip.is_loopback() && !self.loopback => Err(Unusable::Loopback(ip)),
            _ => Ok(()),
        }
    }

    /// The balancer's own address at which packets to `member` would arrive, if there is one.
    fn leads_back(&self, member: &Member, mut is_own: impl FnMut(IpAddr) -> bool) -> Option<SocketAddr> {
        let (ip, ports) = (member.ip.to_canonical(), member.port..=member.port + member.mask);
        let at = self.own.iter().find(|at| {
            // An IPv6 socket does not receive IPv4.
            let any = at.ip().is_unspecified() && at.is_ipv4() == ip.is_ipv4();
            ports.contains(&at.port()) && (at.ip() == ip || any && (ip.is_loopback() || is_own(ip)))
        });
        at.map(|at| SocketAddr::new(ip, at.port()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::PortRange;
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

    fn member(ip: &str, port: u16, bits: u8) -> Member {
        Member::new(ip.parse().unwrap(), port, PortRange::new(bits).unwrap(), true).unwrap()
    }

    fn reach(own: &[&str]) -> Reach {
        Reach::new(own.iter().map(|at| at.parse().unwrap()).collect())
    }

    /// The routes of a host with these addresses and this broadcast address.
    fn kind(ip: IpAddr) -> Kind {
        match ip.to_string().as_str() {
            "10.0.0.1" | "10.0.0.2" | "fd00::1" => Kind::Own,
            "10.0.0.255" => Kind::Broadcast,
            _ => Kind::Other,
        }
    }

    #[test]
    fn each_unusable_address() {
        let reach = reach(&["10.0.0.1:19522", "[fd00::1]:19522"]);
        let check = |ip: &str, port| reach.check(&member(ip, port, 0), kind);
        for ip in
            ["0.0.0.0", "0.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255", "10.0.0.255", "::", "ff02::1"]
        {
            assert_eq!(check(ip, 9), Err(Unusable::NotOne(ip.parse().unwrap())), "{ip}");
            assert_eq!(reach.check_table(&member(ip, 9, 0), |_| false).is_err(), ip != "10.0.0.255");
        }
        assert!(matches!(check("::ffff:255.255.255.255", 9), Err(Unusable::NotOne(_))), "as IPv6, too");
        assert!(matches!(check("fe80::1", 9), Err(Unusable::LinkLocal(_))));
        for ip in ["127.0.0.1", "127.3.2.1", "::1"] {
            assert!(matches!(check(ip, 9), Err(Unusable::Loopback(_))), "{ip}");
        }
        for ip in ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1"] {
            let error = check(ip, 19522).unwrap_err();
            assert!(matches!(error, Unusable::Own(_)) && error.to_string().contains("; hint: "), "{ip}");
            assert_eq!(check(ip, 19523), Ok(()), "another port of this host may be a worker's");
        }
        assert_eq!(check("10.0.0.2", 19522), Ok(()), "the balancer does not receive there");
        assert_eq!(check("10.0.0.9", 19522), Ok(()));
    }

    #[test]
    fn ranges_of_ports_and_sockets_of_every_address_count() {
        let any = reach(&["0.0.0.0:19522"]);
        let check = |ip: &str, port, bits| any.check(&member(ip, port, bits), kind).is_ok();
        assert!(
            !check("10.0.0.2", 19522, 0) && !check("127.0.0.1", 19522, 0) && !check("127.9.9.9", 19522, 0)
        );
        assert!(!check("10.0.0.2", 19520, 2) && check("10.0.0.2", 19520, 1), "19520 to 19523, to 19521");
        assert!(check("fd00::1", 19522, 0), "it hears no IPv6");
        assert!(check("127.0.0.1", 9, 0), "it hears loopback");
        let here = reach(&["127.0.0.1:19522"]);
        assert_eq!(here.check(&member("127.0.0.1", 9, 0), kind), Ok(()));
        assert!(here.check(&member("127.0.0.1", 19522, 0), kind).is_err());
    }
}
