//! Admission of connections: how many there may be before their peers have proved anything, and which is closed for a new one.
//!
//! ```text
//!   a new connection ─▶ room? ─ yes ─▶ admitted
//!                         └ no ─▶ the oldest unproven connection of the address that holds most of them is closed
//! ```
//!
//! Where there is no proof that costs something, as a port without authentication, the table is one of [shares](ConnectionTable::shared): if
//! all places are taken by connections that are not to be displaced, the address that holds most gives one up for an address that holds
//! less.
//!
//! A client that holds thousands of connections without a proof loses only its own. An address is one host; for IPv6, a
//! network of 64 bits, because a host may have a whole one. The control connection, the server of iperf3 and HTTP services
//! use this table; each decides what *closed* means for its connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// Returns the address that limits apply to: an IPv4 address, or the /64 network of an IPv6 address.
#[must_use]
pub fn limited_address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

/// Open connections, in the order in which they came. `T` is what the owner keeps for each.
#[derive(Debug)]
pub struct ConnectionTable<T> {
    max_total: usize,
    max_per_address: usize,
    shares: bool,
    next: u64,
    connections: BTreeMap<u64, (IpAddr, T)>,
    /// Connections that have proved nothing, the oldest of each address first.
    unproven: BTreeSet<(IpAddr, u64)>,
    addresses: HashMap<IpAddr, Count>,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Count {
    all: usize,
    unproven: usize,
}

impl<T> ConnectionTable<T> {
    /// A table for `max_total` connections, `max_per_address` of them from one address; at least one each.
    #[must_use]
    pub fn new(max_total: usize, max_per_address: usize) -> Self {
        Self {
            max_total: max_total.max(1),
            max_per_address: max_per_address.max(1),
            shares: false,
            next: 0,
            connections: BTreeMap::new(),
            unproven: BTreeSet::new(),
            addresses: HashMap::new(),
        }
    }

    /// The same, in which an address that holds more than another gives up its oldest connection for it when places run short, even a
    /// proven one: with fewer addresses than places, none is shut out.
    #[must_use]
    pub fn shared(max_total: usize, max_per_address: usize) -> Self {
        Self { shares: true, ..Self::new(max_total, max_per_address) }
    }

    /// Returns the number of the connection that must go before one more from this address is admitted.
    ///
    /// # Errors
    /// There are too many, and all of them have proved who they are; of a shared table, no address holds two more than this one.
    pub fn displaced(&self, from: IpAddr) -> Result<Option<u64>, TableFull> {
        let address = limited_address(from);
        if self.addresses.get(&address).is_some_and(|count| count.all >= self.max_per_address) {
            return self.oldest(address).map(Some).ok_or(TableFull);
        }
        if self.connections.len() < self.max_total {
            return Ok(None);
        }
        // Of addresses that hold equally many, the one whose oldest connection is the oldest.
        let unproven = self.addresses.iter().filter(|(_, count)| count.unproven > 0);
        let candidates =
            unproven.filter_map(|(address, count)| Some((count.unproven, self.oldest(*address)?)));
        let most = candidates.max_by_key(|&(count, id)| (count, std::cmp::Reverse(id)));
        most.map(|(_, id)| id).or_else(|| self.beyond_its_share(address)).map(Some).ok_or(TableFull)
    }

    /// The oldest connection of the address that holds most, if that is more than `address` would have with one more.
    fn beyond_its_share(&self, address: IpAddr) -> Option<u64> {
        let own = self.addresses.get(&address).map_or(0, |count| count.all);
        let most = self.addresses.values().map(|count| count.all).max().filter(|_| self.shares)?;
        let gives = |from: &IpAddr| self.addresses.get(from).is_some_and(|count| count.all == most);
        let oldest = self.connections.iter().find(|(_, (from, _))| gives(from));
        oldest.filter(|_| most > own + 1).map(|(&id, _)| id)
    }

    /// Enters a connection without checking for room; returns its number.
    pub fn insert(&mut self, from: IpAddr, value: T) -> u64 {
        let (id, address) = (self.next, limited_address(from));
        self.next += 1;
        self.connections.insert(id, (address, value));
        self.unproven.insert((address, id));
        let count = self.addresses.entry(address).or_default();
        (count.all, count.unproven) = (count.all + 1, count.unproven + 1);
        id
    }

    /// Sets whether a connection has proved who it is. Those that have are never displaced.
    pub fn prove(&mut self, id: u64, proven: bool) {
        let Some((address, _)) = self.connections.get(&id) else { return };
        let key = (*address, id);
        let changed = if proven { self.unproven.remove(&key) } else { self.unproven.insert(key) };
        if let Some(count) = self.addresses.get_mut(&key.0).filter(|_| changed) {
            count.unproven = if proven { count.unproven - 1 } else { count.unproven + 1 };
        }
    }

    /// Removes a connection; returns what was kept for it.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        self.prove(id, true);
        let (address, value) = self.connections.remove(&id)?;
        if let Some(count) = self.addresses.get_mut(&address) {
            count.all -= 1;
            if count.all == 0 {
                self.addresses.remove(&address);
            }
        }
        Some(value)
    }

    /// Returns what is kept for a connection.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&T> {
        self.connections.get(&id).map(|(_, value)| value)
    }

    /// All connections with their numbers, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.connections.iter().map(|(&id, (_, value))| (id, value))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.connections.iter_mut().map(|(&id, (_, value))| (id, value))
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The oldest unproven connection of an address.
    fn oldest(&self, address: IpAddr) -> Option<u64> {
        self.unproven.range((address, 0)..=(address, u64::MAX)).next().map(|(_, id)| *id)
    }
}

/// There is no room, and no connection may be closed to make some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Admits one, and returns which other was closed for it.
    fn admit(table: &mut ConnectionTable<()>, from: &str) -> Result<Option<u64>, TableFull> {
        let displaced = table.displaced(ip(from))?;
        displaced.map(|id| table.remove(id));
        table.insert(ip(from), ());
        Ok(displaced)
    }

    #[test]
    fn the_address_that_holds_most_without_a_proof_makes_room() {
        let mut table = ConnectionTable::new(4, 3);
        assert_eq!(admit(&mut table, "10.0.0.1"), Ok(None));
        for _ in 0..3 {
            assert_eq!(admit(&mut table, "10.0.0.9"), Ok(None));
        }
        assert_eq!(admit(&mut table, "10.0.0.2"), Ok(Some(1)));
        // One more of the address that has reached its limit closes its own.
        assert_eq!(admit(&mut table, "10.0.0.9"), Ok(Some(2)));
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn many_addresses_together_close_the_oldest() {
        let mut table = ConnectionTable::new(3, 2);
        for n in 0..6u64 {
            assert_eq!(admit(&mut table, &format!("10.0.0.{n}")), Ok(n.checked_sub(3)));
        }
    }

    #[test]
    fn who_has_proved_a_token_stays_and_nothing_is_kept_of_those_that_left() {
        let mut table = ConnectionTable::new(2, 2);
        let ids = [table.insert(ip("10.0.0.1"), ()), table.insert(ip("10.0.0.2"), ())];
        ids.iter().for_each(|id| table.prove(*id, true));
        assert_eq!(table.displaced(ip("10.0.0.3")), Err(TableFull));
        table.prove(ids[1], false);
        assert_eq!(table.displaced(ip("10.0.0.3")), Ok(Some(ids[1])));
        for id in ids {
            table.remove(id);
        }
        assert!(table.is_empty() && table.unproven.is_empty() && table.addresses.is_empty());
    }

    /// Hosts that are all admitted, and keep all places by connections that count as proven.
    #[test]
    fn where_places_are_shared_no_host_is_shut_out() {
        for shares in [false, true] {
            let mut table =
                if shares { ConnectionTable::shared(256, 64) } else { ConnectionTable::new(256, 64) };
            for n in 0..256 {
                let id = table.insert(ip(&format!("10.0.0.{}", n % 31)), ());
                table.prove(id, true);
            }
            let mut admitted = 0;
            for n in 0..50 {
                let host = ip(&format!("10.0.1.{n}"));
                let Ok(displaced) = table.displaced(host) else { continue };
                displaced.map(|id| table.remove(id));
                let id = table.insert(host, ());
                table.prove(id, true);
                admitted += 1;
            }
            assert_eq!((admitted, table.len()), (if shares { 50 } else { 0 }, 256));
            // Nobody has two more than another then, and those that have more get no more.
            let least = (0..31).map(|n| table.addresses[&ip(&format!("10.0.0.{n}"))].all).min();
            assert!(least >= Some(if shares { 6 } else { 8 }), "{least:?}");
            assert_eq!(table.displaced(ip("10.0.0.1")), Err(TableFull));
        }
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        assert_eq!(limited_address(ip("2001:db8::1")), limited_address(ip("2001:db8::ffff:2")));
        assert_ne!(limited_address(ip("2001:db8::1")), limited_address(ip("2001:db8:0:1::1")));
        assert_eq!(limited_address(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }
}
