//! Which addresses a copy between servers may connect to.
//!
//! A client names the other server, and this one connects to it: without a rule it would reach what only this host or its network may (the
//! metadata of a cloud, a printer, a database on loopback). So the address that a name resolves to is judged, of every redirect too, and
//! that address is connected to: a name that resolves to another one the next time gains nothing.
//!
//! | address | |
//! |---|---|
//! | public | allowed |
//! | loopback, link-local, private, shared (RFC 6890) | only in a block that the configuration names |
//! | multicast, broadcast, unspecified | never |

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: IpAddr,
    bits: u8,
}

/// A text that is no block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a block of addresses, such as 10.0.0.0/8 or fd00::/8")]
pub struct BadAddressBlock;

impl FromStr for AddressBlock {
    type Err = BadAddressBlock;

    fn from_str(text: &str) -> Result<Self, BadAddressBlock> {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let first: IpAddr = address.parse().map_err(|_| BadAddressBlock)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = match text.contains('/') {
            true => bits.parse().ok().filter(|bits| *bits <= most).ok_or(BadAddressBlock)?,
            false => most,
        };
        // 10.1.2.3/8 is more often a mistake than a block.
        let block = Self { first, bits };
        if block.contains(first) { Ok(block) } else { Err(BadAddressBlock) }
    }
}

impl AddressBlock {
    /// Whether an address is in it.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        self.masked(ip) == Some(self.number())
    }

    fn number(&self) -> u128 {
        match self.first {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        }
    }

    fn masked(&self, ip: IpAddr) -> Option<u128> {
        let (number, all) = match (self.first, ip) {
            (IpAddr::V4(_), IpAddr::V4(ip)) => (u128::from(ip.to_bits()), 32),
            (IpAddr::V6(_), IpAddr::V6(ip)) => (ip.to_bits(), 128),
            _ => return None,
        };
        let low = all - u32::from(self.bits);
        Some(if low == 128 { 0 } else { number >> low << low })
    }
}

impl Display for AddressBlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// Whether `ip` may be connected to; or what it is.
pub(crate) fn judge(ip: IpAddr, allowed: &[AddressBlock]) -> Result<(), &'static str> {
    let ip = plain(ip);
    match class(ip) {
        None => Ok(()),
        Some(Class::Never(what)) => Err(what),
        Some(Class::IfAllowed(what)) => {
            let is_allowed = allowed.iter().any(|block| block.contains(ip));
            is_allowed.then_some(()).ok_or(what)
        }
    }
}

/// The IPv4 address that an IPv6 address stands for, where a kernel or a gateway takes it for that.
fn plain(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip.to_canonical() else { return ip.to_canonical() };
    let last = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match v6.segments() {
        // RFC 6052, 2.1; RFC 3056; addresses "compatible" with IPv4 (RFC 4291, 2.5.5.1).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => last(high, low).into(),
        [0x2002, high, low, ..] => last(high, low).into(),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => last(high, low).into(),
        _ => v6.into(),
    }
}

enum Class {
    Never(&'static str),
    IfAllowed(&'static str),
}

/// What it is, if it is not public.
fn class(ip: IpAddr) -> Option<Class> {
    use Class::{IfAllowed, Never};
    match ip {
        IpAddr::V4(ip) => match ip.octets() {
            [0, ..] => Some(Never("an unspecified address")),
            [127, ..] => Some(IfAllowed("a loopback address")),
            [169, 254, ..] => Some(IfAllowed("a link-local address")),
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(IfAllowed("a private address")),
            [100, 64..=127, ..] => Some(IfAllowed("a shared address")),
            [192, 0, 0, _] | [192, 0, 2, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
                Some(IfAllowed("a reserved address"))
            }
            [224..=239, ..] => Some(Never("a multicast address")),
            [240..=255, ..] => Some(Never("a reserved address")),
            _ => None,
        },
        IpAddr::V6(ip) if ip == Ipv6Addr::UNSPECIFIED => Some(Never("an unspecified address")),
        IpAddr::V6(ip) if ip == Ipv6Addr::LOCALHOST => Some(IfAllowed("a loopback address")),
        IpAddr::V6(ip) => match ip.segments() {
            [0xff00..=0xffff, ..] => Some(Never("a multicast address")),
            [0xfe80..=0xfebf, ..] => Some(IfAllowed("a link-local address")),
            [0xfc00..=0xfdff, ..] => Some(IfAllowed("a private address")),
            [0x2001, 0xdb8, ..] | [0x2001, 0..=0x1ff, ..] => Some(IfAllowed("a reserved address")),
            [0x2000..=0x3fff, ..] => None,
            _ => Some(IfAllowed("a reserved address")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict(ip: &str, allowed: &[&str]) -> Result<(), &'static str> {
        let blocks: Vec<AddressBlock> = allowed.iter().map(|block| block.parse().unwrap()).collect();
        judge(ip.parse().unwrap(), &blocks)
    }

    #[test]
    fn addresses_inside_are_allowed_only_by_name() {
        for ip in ["192.87.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2a00:1450::1", "64:ff9b::808:808"] {
            assert_eq!(verdict(ip, &[]), Ok(()), "{ip}");
        }
        for (ip, block) in [
            ("127.0.0.1", "127.0.0.0/8"),
            ("127.9.9.9", "127.0.0.0/8"),
            ("::1", "::1"),
            ("::ffff:127.0.0.1", "127.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.0/8"),
            ("64:ff9b::7f00:1", "127.0.0.0/8"),
            ("2002:7f00:1::1", "127.0.0.0/8"),
            ("::127.0.0.1", "127.0.0.0/8"),
            ("169.254.169.254", "169.254.0.0/16"),
            ("10.255.0.1", "10.0.0.0/8"),
            ("172.31.255.255", "172.16.0.0/12"),
            ("192.168.0.1", "192.168.0.0/24"),
            ("100.100.0.1", "100.64.0.0/10"),
            ("fe80::1", "fe80::/10"),
            ("fd12::1", "fc00::/7"),
            ("64:ff9b:1::1", "::/0"),
        ] {
            assert!(verdict(ip, &[]).is_err(), "{ip}");
            assert_eq!(verdict(ip, &["192.0.2.0/24", block]), Ok(()), "{ip}");
            assert!(verdict(ip, &["203.0.113.7", "2001:db8::/32"]).is_err(), "{ip}");
        }
        for ip in ["0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:0.0.0.0"] {
            assert!(verdict(ip, &["0.0.0.0/0", "::/0"]).is_err(), "{ip}");
        }
    }

    #[test]
    fn blocks_are_read_or_refused() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "::1/128", "127.0.0.1/32"] {
            assert_eq!(text.parse::<AddressBlock>().unwrap().to_string(), text);
        }
        for text in
            ["", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "::1/64", "::/129", "10/8", "a", "10.0.0.0/-1"]
        {
            assert!(text.parse::<AddressBlock>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_judged_as_what_it_stands_for(bits in any::<u32>()) {
            let ip = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(judge(ip.into(), &[]), judge(ip.to_ipv6_mapped().into(), &[]));
        }

        #[test]
        fn a_block_has_the_addresses_with_its_first_bits(bits in any::<u32>(), other in any::<u32>(), length in 0u8..=32) {
            let mask = if length == 0 { 0 } else { u32::MAX << (32 - length) };
            let block: AddressBlock = format!("{}/{length}", Ipv4Addr::from_bits(bits & mask)).parse().unwrap();
            prop_assert_eq!(block.contains(Ipv4Addr::from_bits(other).into()), other & mask == bits & mask);
        }
    }
}
