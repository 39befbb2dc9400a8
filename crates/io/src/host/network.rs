//! Properties of an interface, its queueing disciplines, routes and the firewall, read by netlink.
//!
//! ```
//! use skyhaul_io::host::network::{disciplines, limits, route};
//! let lo = limits("lo")?;
//! assert!(lo.contains_key("gso_max_size"));
//! assert!(disciplines("lo")?.iter().any(|one| one.is_root));
//! assert_eq!(route("127.0.0.1".parse().unwrap())?.interface, 1);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: the rules of nftables only, and only with `CAP_NET_ADMIN`.

use super::interface::interface_index;
use crate::netlink::{Attributes, Netlink, Request};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const GET_DISCIPLINE: u16 = 38;

/// Limits of an interface: names of their attributes.
const LIMITS: [(u16, &str); 5] = [
    (51, "max_mtu"),
    (41, "gso_max_size"),
    (58, "gro_max_size"),
    (63, "gso_ipv4_max_size"),
    (64, "gro_ipv4_max_size"),
];

/// Of a discipline.
const ROOT: u32 = 0xFFFF_FFFF;
/// The discipline for arriving packets, which is not a queue.
const INGRESS: u32 = 0xFFFF_FFF1;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const STATISTICS_QUEUE: u16 = 3;
const FQ_RATE: u16 = 7;
const FQ_PACKETS: u16 = 2;

/// Of a route.
const DESTINATION: u16 = 1;
const OUTPUT: u16 = 4;
const METRICS: u16 = 8;
const CONTROL: u16 = 16;
const NUMBERS: [(u16, &str); 4] = [(2, "mtu"), (3, "window"), (11, "initcwnd"), (13, "rto_min")];

/// Of the firewall.
const TABLE: u16 = 10 << 8;
const NEW_TABLE: u16 = TABLE;
const GET_TABLE: u16 = TABLE | 1;
const NEW_RULE: u16 = TABLE | 6;
const GET_RULE: u16 = TABLE | 7;
const TABLE_NAME: u16 = 1;

/// A queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discipline {
    /// Its kind.
    pub kind: String,
    /// Whether it is the root of the interface.
    pub is_root: bool,
    /// Packets that it dropped.
    pub drops: u64,
    /// For `fq`: maximum rate of a flow, bytes per second; `None`: no limit.
    pub flow_rate: Option<u64>,
    /// Of `fq`: packets of a flow that wait, at most.
    pub flow_packets: Option<u64>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Number of the interface that it leaves by.
    pub interface: u32,
    /// Limits by name: `mtu`, `window`, `initcwnd`, `rto_min`.
    pub limits: BTreeMap<&'static str, u64>,
    /// Its congestion control, if it has its own.
    pub control: Option<String>,
}

/// What the firewall holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Names of tables.
    pub tables: Vec<String>,
    /// Number of rules in all of them.
    pub rules: u64,
}

/// The limits of an interface by name, as far as this kernel has them.
///
/// # Errors
/// There is no such interface; a system error.
pub fn limits(name: &str) -> io::Result<BTreeMap<&'static str, u64>> {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&interface_index(name)?.to_ne_bytes());
    let answer = Netlink::route()?.ask(&Request::new(GET_LINK).fixed(&fixed))?;
    let all = Attributes::after(&answer, 16);
    Ok(LIMITS.iter().filter_map(|(kind, name)| Some((*name, all.number(*kind)?))).collect())
}

/// The disciplines of an interface, root and leaves.
///
/// # Errors
/// There is no such interface; a system error.
pub fn disciplines(name: &str) -> io::Result<Vec<Discipline>> {
    let index = interface_index(name)?;
    let mut fixed = [0; 20];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut found = Vec::new();
    Netlink::route()?.dump(&Request::new(GET_DISCIPLINE).fixed(&fixed), &mut |_, body| {
        found.extend(discipline(body, index));
    })?;
    Ok(found)
}

/// A discipline, if it is of this interface: `family … index handle parent info`.
fn discipline(body: &[u8], index: u32) -> Option<Discipline> {
    let word = |at: usize| body.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let parent = word(12)?;
    if word(4)? != index || parent == INGRESS {
        return None;
    }
    let all = Attributes::after(body, 20);
    let queue = all.nested(STATISTICS).find(STATISTICS_QUEUE).unwrap_or_default();
    let drops = queue.get(8..12).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let kind = all.text(KIND)?.to_owned();
    let of_fq = |attribute| all.nested(OPTIONS).number(attribute).filter(|_| kind == "fq");
    Some(Discipline {
        is_root: parent == ROOT,
        drops: drops.into(),
        flow_rate: of_fq(FQ_RATE).filter(|rate| *rate != u64::from(u32::MAX)),
        flow_packets: of_fq(FQ_PACKETS),
        kind,
    })
}

/// The route to an address.
///
/// # Errors
/// There is none; a system error.
pub fn route(to: IpAddr) -> io::Result<Route> {
    let (family, octets) = match to {
        IpAddr::V4(to) => (libc::AF_INET, to.octets().to_vec()),
        IpAddr::V6(to) => (libc::AF_INET6, to.octets().to_vec()),
    };
    let mut fixed = [0; 12];
    (fixed[0], fixed[1]) = (family as u8, 8 * octets.len() as u8);
    let request = Request::new(GET_ROUTE).fixed(&fixed).attribute(DESTINATION, &octets);
    let answer = Netlink::route()?.ask(&request)?;
    let all = Attributes::after(&answer, 12);
    let metrics = all.nested(METRICS);
    let limits = NUMBERS.iter().filter_map(|(kind, name)| Some((*name, metrics.number(*kind)?)));
    Ok(Route {
        interface: all.number(OUTPUT).unwrap_or(0) as u32,
        limits: limits.collect(),
        control: metrics.text(CONTROL).map(str::to_owned),
    })
}

/// Tables and rules of nftables, which holds those of newer `iptables` as well.
///
/// # Errors
/// A system error: `EPERM` without `CAP_NET_ADMIN`.
pub fn firewall() -> io::Result<Firewall> {
    let mut found = Firewall::default();
    let mut netlink = Netlink::firewall()?;
    netlink.dump(&Request::new(GET_TABLE).fixed(&[0; 4]), &mut |kind, body| {
        if kind == NEW_TABLE {
            found.tables.extend(Attributes::after(body, 4).text(TABLE_NAME).map(str::to_owned));
        }
    })?;
    netlink.dump(&Request::new(GET_RULE).fixed(&[0; 4]), &mut |kind, _| {
        found.rules += u64::from(kind == NEW_RULE);
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_limits_a_queue_and_a_route() {
        let limits = limits("lo").unwrap();
        assert!(limits["gso_max_size"] >= 65536, "{limits:?}");
        let all = disciplines("lo").unwrap();
        assert!(all.iter().any(|one| one.is_root && one.kind == "noqueue"), "{all:?}");
        let to = route("127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(to.interface, interface_index("lo").unwrap());
        assert!(disciplines("no-such").is_err());
    }

    #[test]
    fn disciplines_are_read_within_their_bounds() {
        let mut body = vec![0u8; 20];
        body[4..8].copy_from_slice(&3u32.to_ne_bytes());
        body[12..16].copy_from_slice(&ROOT.to_ne_bytes());
        let request = Request::new(36)
            .fixed(&body)
            .text(KIND, "fq")
            .nested(OPTIONS, |inner| inner.number(FQ_RATE, 125_000_000u32).number(FQ_PACKETS, 100u32))
            .nested(STATISTICS, |inner| inner.attribute(STATISTICS_QUEUE, &[7; 20]));
        let read = discipline(request.body(), 3).unwrap();
        assert_eq!((read.kind.as_str(), read.is_root, read.drops), ("fq", true, 0x0707_0707));
        assert_eq!((read.flow_rate, read.flow_packets), (Some(125_000_000), Some(100)));
        assert_eq!(discipline(request.body(), 4), None, "of another interface");
        for cut in 0..request.body().len() {
            let _ = discipline(&request.body()[..cut], 3);
        }
    }
}
