//! Limits on connections, and which connection is closed when a limit is reached.
//!
//! ```text
//!   a new connection ─▶ room? ─ yes ─▶ seat
//!                         └ no ─▶ the oldest that has not shown a valid token, of the address that has most of those, is closed
//! ```
//!
//! A client that holds thousands of connections without a valid token only loses its own: a new connection takes the
//! place of the oldest of them. An address is one host; for IPv6, a network of 64 bits, because a host may have a whole
//! one.
//!
//! Limits: [`MAX_CONNECTIONS`] in total, or half of the files that this process may open, so that there is room for its own
//! files; [`MAX_PER_ADDRESS`] for one address.

use skyhaul::io::host::descriptors;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of connections of one address.
pub const MAX_PER_ADDRESS: usize = 1024;
/// Maximum number of connections that have been told to close and are still open.
const CLOSING: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Seats {
    total: usize,
    per_address: usize,
    inner: Mutex<Inner>,
    refused: AtomicU64,
    closed: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Connections that have a seat.
    seats: HashMap<u64, Seat>,
    /// Connections that have shown no valid token, the oldest of each address first.
    unproved: BTreeSet<(IpAddr, u64)>,
    addresses: HashMap<IpAddr, Of>,
    /// Number of open connections: with a seat, or closing.
    open: usize,
}

#[derive(Debug)]
struct Seat {
    address: IpAddr,
    close: Arc<Notify>,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Of {
    seats: usize,
    unproved: usize,
}

/// An open connection. It counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: u64,
    seats: Arc<Seats>,
    close: Arc<Notify>,
}

impl Seats {
    pub(crate) fn new() -> Arc<Seats> {
        Seats::with(MAX_CONNECTIONS.min(descriptors::limit() / 2).max(1), MAX_PER_ADDRESS)
    }

    fn with(total: usize, per_address: usize) -> Arc<Seats> {
        let (refused, closed) = Default::default();
        Arc::new(Seats { total, per_address, inner: Mutex::default(), refused, closed })
    }

    /// A seat for a connection from this address, if one is free or can be freed.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Ticket> {
        let address = host(from);
        let mut inner = self.locked();
        let of = inner.addresses.get(&address).map_or(0, |of| of.seats);
        let loser = if of >= self.per_address {
            Some(inner.oldest(address))
        } else if inner.seats.len() >= self.total {
            Some(inner.most().and_then(|address| inner.oldest(address)))
        } else {
            None
        };
        match loser {
            None => {}
            Some(Some(id)) => {
                inner.leave(id);
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
            Some(None) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        }
        let (id, close) = (inner.next, Arc::new(Notify::new()));
        inner.next += 1;
        inner.open += 1;
        inner.seats.insert(id, Seat { address, close: Arc::clone(&close) });
        inner.unproved.insert((address, id));
        let of = inner.addresses.entry(address).or_default();
        (of.seats, of.unproved) = (of.seats + 1, of.unproved + 1);
        Some(Ticket { id, seats: Arc::clone(self), close })
    }

    /// Whether too many are closing to accept more at the moment.
    pub(crate) fn is_behind(&self) -> bool {
        self.locked().open >= self.total + CLOSING
    }

    /// Number of connections that are open; that were refused; that were closed for others.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let open = self.locked().open;
        (open, self.refused.load(Ordering::Relaxed), self.closed.load(Ordering::Relaxed))
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The oldest connection of an address that has shown no valid token.
    fn oldest(&self, address: IpAddr) -> Option<u64> {
        self.unproved.range((address, 0)..=(address, u64::MAX)).next().map(|(_, id)| *id)
    }

    /// The address with most connections without a valid token.
    fn most(&self) -> Option<IpAddr> {
        let some = self.addresses.iter().filter(|(_, of)| of.unproved > 0);
        some.max_by_key(|(_, of)| of.unproved).map(|(address, _)| *address)
    }

    fn prove(&mut self, id: u64, proved: bool) {
        let Some(seat) = self.seats.get(&id) else { return };
        let key = (seat.address, id);
        let changed = if proved { self.unproved.remove(&key) } else { self.unproved.insert(key) };
        if let Some(of) = self.addresses.get_mut(&key.0).filter(|_| changed) {
            of.unproved = if proved { of.unproved - 1 } else { of.unproved + 1 };
        }
    }

    /// Takes the seat of a connection, and tells it to close.
    fn leave(&mut self, id: u64) {
        self.prove(id, true);
        let Some(seat) = self.seats.remove(&id) else { return };
        seat.close.notify_one();
        if let Some(of) = self.addresses.get_mut(&seat.address) {
            of.seats -= 1;
            if of.seats == 0 {
                self.addresses.remove(&seat.address);
            }
        }
    }
}

impl Ticket {
    /// Sets whether its last request showed a valid token.
    pub(crate) fn prove(&self, proved: bool) {
        self.seats.locked().prove(self.id, proved);
    }

    /// Waits until its seat is taken.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.seats.locked();
        inner.leave(self.id);
        inner.open -= 1;
    }
}

/// The network that counts as one address.
fn host(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Whether it was told to close.
    fn is_closed(ticket: &Ticket) -> bool {
        !ticket.seats.locked().seats.contains_key(&ticket.id)
    }

    #[test]
    fn who_holds_most_and_shows_nothing_makes_room() {
        let seats = Seats::with(4, 3);
        let honest = seats.enter(ip("10.0.0.1")).unwrap();
        let held: Vec<Ticket> = (0..3).map(|_| seats.enter(ip("10.0.0.9")).unwrap()).collect();
        let new = seats.enter(ip("10.0.0.2")).unwrap();
        assert!(is_closed(&held[0]) && ![&honest, &new, &held[1], &held[2]].into_iter().any(is_closed));
        // One more connection of the address that has reached its limit closes its own.
        let more = [seats.enter(ip("10.0.0.9")).unwrap(), seats.enter(ip("10.0.0.9")).unwrap()];
        assert!(is_closed(&held[1]) && is_closed(&held[2]) && !is_closed(&honest) && !is_closed(&new));
        assert_eq!(seats.counts(), (7, 0, 3));
        drop((held, more));
        assert_eq!(seats.counts().0, 2);
    }

    #[test]
    fn who_shows_a_token_stays_and_nobody_takes_all() {
        let seats = Seats::with(4, 2);
        let proved: Vec<Ticket> = (0..4)
            .map(|n| {
                let ticket = seats.enter(ip(&format!("10.0.0.{}", n / 2))).unwrap();
                ticket.prove(true);
                ticket
            })
            .collect();
        assert!(seats.enter(ip("10.0.0.0")).is_none() && seats.enter(ip("10.0.0.7")).is_none());
        assert!(!proved.iter().any(is_closed));
        proved[1].prove(false);
        let new = seats.enter(ip("10.0.0.7")).unwrap();
        assert!(is_closed(&proved[1]) && !is_closed(&new));
        assert_eq!(seats.counts(), (5, 2, 1));
        drop((proved, new));
        let inner = seats.locked();
        assert!(inner.seats.is_empty() && inner.unproved.is_empty() && inner.addresses.is_empty());
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        assert_eq!(host(ip("2001:db8::1")), host(ip("2001:db8::ffff:2")));
        assert_ne!(host(ip("2001:db8::1")), host(ip("2001:db8:0:1::1")));
        assert_eq!(host(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }
}
