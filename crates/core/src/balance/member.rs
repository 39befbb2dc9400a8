//! Members: receivers with an address and a range of ports, each in a seat of the table.

use crate::hint::Hint;
use core::net::{IpAddr, SocketAddr};
use std::fmt;

/// Number of seats of a table, as in ESnet's data plane.
pub const MEMBERS: usize = 1024;

/// A seat of the table. A member keeps its seat for as long as it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub(super) u16);

impl Seat {
    /// The seat with this number, if there is one.
    #[must_use]
    pub fn new(number: usize) -> Option<Seat> {
        (number < MEMBERS).then_some(Seat(number as u16))
    }

    /// Its number, less than [`MEMBERS`].
    #[must_use]
    pub fn number(self) -> usize {
        self.0.into()
    }
}

/// Number of ports of a member: a power of two, from 1 to 16384.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange(u8);

impl PortRange {
    /// 2 to the power of `bits` ports (`PortRange` of the control plane's protocol); `None` for more than 14.
    #[must_use]
    pub fn new(bits: u8) -> Option<PortRange> {
        (bits <= 14).then_some(PortRange(bits))
    }

    /// The range with this [`mask`](Self::mask), if there is one.
    pub(super) fn of_mask(mask: u16) -> Option<PortRange> {
        (0..=14).map(PortRange).find(|range| range.mask() == mask)
    }

    /// Mask of the bits of a label's port that select one of them.
    #[must_use]
    pub fn mask(self) -> u16 {
        (1 << self.0) - 1
    }
}

/// Where the packets of a member are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) mask: u16,
    pub(super) keep_label: bool,
}

impl Member {
    /// The member at `ip` with ports from `port`. `None` if the last port would exceed 65535, or the first is 0.
    #[must_use]
    pub fn new(ip: IpAddr, port: u16, ports: PortRange, keep_label: bool) -> Option<Member> {
        let mask = ports.mask();
        (port != 0 && port.checked_add(mask).is_some()).then_some(Member { ip, port, mask, keep_label })
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
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
                write!(f, "{ip} is not the address of one host{}", Hint("register the worker's own address"))
            }
            Unusable::LinkLocal(ip) => {
                write!(f, "{ip} is valid on one link only{}", Hint("register an address with a wider scope"))
            }
            Unusable::Loopback(ip) => write!(
                f,
                "{ip} is the load balancer's own host, which receives on a network card{}",
                Hint("register the address of a network card")
            ),
            Unusable::Own(at) => write!(
                f,
                "the load balancer itself receives on {at}: packets would circulate{}",
                Hint("register the worker's own address and port")
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
        for ip in [Some(ip), translated(ip)].into_iter().flatten() {
            self.class(ip)?;
            if let Some(at) = self.leads_back(ip, member, |ip| kind(ip) == Kind::Own) {
                return Err(Unusable::Own(at));
            }
            if kind(ip) == Kind::Broadcast {
                return Err(Unusable::NotOne(ip));
            }
        }
        Ok(())
    }

    /// Checks a member of a table in the data plane, without the routes of the host. `is_own` is called only if the
    /// balancer receives on all addresses of its host.
    pub fn check_table(
        &self,
        member: &Member,
        mut is_own: impl FnMut(IpAddr) -> bool,
    ) -> Result<(), Unusable> {
        let ip = member.ip.to_canonical();
        for ip in [Some(ip), translated(ip)].into_iter().flatten() {
            self.class(ip)?;
            if let Some(at) = self.leads_back(ip, member, &mut is_own) {
                return Err(Unusable::Own(at));
            }
        }
        Ok(())
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

    /// The balancer's own address at which packets to `member` at `ip` would arrive, if there is one.
    fn leads_back(
        &self,
        ip: IpAddr,
        member: &Member,
        mut is_own: impl FnMut(IpAddr) -> bool,
    ) -> Option<SocketAddr> {
        let ports = member.port..=member.port + member.mask;
        let at = self.own.iter().find(|at| {
            // An IPv6 socket does not receive IPv4.
            let any = at.ip().is_unspecified() && at.is_ipv4() == ip.is_ipv4();
            ports.contains(&at.port()) && (at.ip() == ip || any && (ip.is_loopback() || is_own(ip)))
        });
        at.map(|at| SocketAddr::new(ip, at.port()))
    }
}

/// The IPv4 address to which a translator or tunnel takes packets for an IPv6 address: of NAT64's well-known prefix
/// 64:ff9b::/96 (RFC 6052), of 6to4 2002::/16 (RFC 3056), and of the deprecated `::a.b.c.d` (RFC 4291, 2.5.5.1).
fn translated(ip: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = ip else { return None };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let [high, low] = match [a, b, c, d, e, f] {
        [0x64, 0xFF9B, 0, 0, 0, 0] => [g, h],
        [0, 0, 0, 0, 0, 0] if g != 0 => [g, h],
        [0x2002, high, low, ..] => [high, low],
        _ => return None,
    };
    let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(IpAddr::from([w, x, y, z]))
}

#[cfg(test)]
mod tests {
    use super::super::PortRange;
    use super::*;

    #[test]
    fn ports_stay_below_the_last() {
        let member =
            |port, bits| Member::new([10, 0, 0, 1].into(), port, PortRange::new(bits).unwrap(), false);
        assert_eq!(member(49152, 14).unwrap().mask, 16383);
        assert_eq!(member(49153, 14), None);
        assert_eq!(member(65535, 0).unwrap().address().to_string(), "10.0.0.1:65535");
        assert_eq!(member(65535, 1), None);
        assert_eq!(member(0, 0), None);
        assert_eq!(PortRange::new(15), None);
        assert_eq!((Seat::new(1023).map(Seat::number), Seat::new(1024)), (Some(1023), None));
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
    fn an_ipv4_address_inside_of_one_of_ipv6_counts_as_itself() {
        let reach = reach(&["10.0.0.1:19522", "[fd00::1]:19522"]);
        for form in ["64:ff9b::10.0.0.1", "::10.0.0.1", "2002:a00:1::", "2002:a00:1:7::9"] {
            let member = member(form, 19522, 0);
            let own = Err(Unusable::Own("10.0.0.1:19522".parse().unwrap()));
            assert_eq!(
                (reach.check(&member, kind), reach.check_table(&member, |_| false)),
                (own, own),
                "{form}"
            );
        }
        let check = |ip: &str, port| reach.check(&member(ip, port, 0), kind);
        for ip in ["64:ff9b::255.255.255.255", "64:ff9b::10.0.0.255", "2002:e000:1::1"] {
            assert!(matches!(check(ip, 9), Err(Unusable::NotOne(_))), "{ip}");
        }
        assert!(matches!(check("64:ff9b::127.0.0.1", 9), Err(Unusable::Loopback(_))));
        assert_eq!(check("64:ff9b::10.0.0.9", 19522), Ok(()), "a worker behind NAT64");
        assert!(matches!(check("::1", 9), Err(Unusable::Loopback(_))), "no IPv4 address");
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
