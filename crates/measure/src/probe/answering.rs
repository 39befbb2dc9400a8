//! A port on which one thread answers datagrams, each to where it came from.
//!
//! What comes from the port of a service that answers by itself is not answered: with one packet in its name, two services
//! would answer each other for ever, and one would answer itself. These are this port's own number, and [`SERVICES`].
//!
//! Datagrams are taken until there are no more, or [`MAX_TAKEN`] came; then it is the turn of what was put off.
//!
//! Limits: one datagram for each system call that sends; the thread ends within [`WAIT`] of a stop.
//!
//! Answers are limited by [`TokenBucket`]s: a rate and a burst, for all and for each source.

pub(super) use skyhaul::admission::limited_address as source;

use skyhaul_core::wire::{stamp, udpmon};
use skyhaul_io::lock::lock;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::{Arrival, Noted};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread waits for datagrams before it looks whether to stop.
const WAIT: Duration = Duration::from_millis(100);

/// Datagrams that are taken before a turn to answer.
pub(super) const MAX_TAKEN: usize = 4096;

/// Ports from which nothing is answered: echo, daytime, quotd, chargen; STAMP, udpmon.
const SERVICES: [u16; 6] = [7, 13, 17, 19, stamp::PORT, udpmon::PORT];

/// What is behind the port.
pub(super) trait DatagramHandler: Send + 'static {
    /// What it counts.
    type Stats: Clone + Default + Send + 'static;

    /// A datagram came. It is answered on `socket`, or not.
    fn datagram(&mut self, socket: &Both, arrival: &Arrival<'_>);

    /// Everything that had come was given to it, or a part of it. Answers what it put off until then; returns whether more waits.
    fn turn(&mut self, _socket: &Both) -> bool {
        false
    }

    /// What was counted so far, with `from_services` datagrams that were not given to it; asked whenever there is nothing more
    /// to do at once.
    fn stats(&mut self, from_services: u64) -> Self::Stats;
}

#[derive(Debug)]
struct ServiceState<S> {
    stats: S,
    error: Option<String>,
}

/// The port and its thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct DatagramService<S> {
    local: SocketAddr,
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<ServiceState<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Clone + Default + Send + 'static> DatagramService<S> {
    /// Answer at `at`; `[::]` hears IPv4, too.
    ///
    /// # Errors
    /// The port is taken or needs a privilege, or the system has no thread left.
    pub(super) fn start<A>(name: &str, at: SocketAddr, mut answers: A) -> io::Result<Self>
    where
        A: DatagramHandler<Stats = S>,
    {
        let mut socket = Noted::new(Both::serve(at)?)?;
        let local = socket.both().local();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::new(Mutex::new(ServiceState { stats: S::default(), error: None }));
        let (end, tell) = (stop.clone(), told.clone());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let (mut from_services, mut waits) = (0, false);
            while !end.load(Relaxed) {
                let polled = take_all(&mut socket, waits, &mut |socket, arrival| {
                    if is_service(arrival.from.port(), local.port()) {
                        from_services += 1;
                        return;
                    }
                    answers.datagram(socket, &arrival);
                });
                waits = answers.turn(socket.both());
                let mut told = lock(&tell);
                told.stats = answers.stats(from_services);
                if let Err(error) = polled {
                    told.error = Some(error.to_string());
                    return;
                }
            }
        })?;
        Ok(Self { local, stop, told, thread: Some(thread) })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn stats(&self) -> S {
        lock(&self.told).stats.clone()
    }

    /// Why it ended by itself, if it did.
    pub(super) fn error(&self) -> Option<String> {
        let told = lock(&self.told).error.clone();
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        told.or_else(|| ended.then(|| "an internal error".to_owned()))
    }
}

/// Takes what has come, up to [`MAX_TAKEN`] datagrams; waits for the first unless there is something to do.
fn take_all(socket: &mut Noted, is_busy: bool, each: &mut dyn FnMut(&Both, Arrival<'_>)) -> io::Result<()> {
    let mut came = if is_busy { socket.take_more(each)? } else { socket.poll(WAIT, each)? };
    let mut all = came;
    while came >= Noted::MOST && all < MAX_TAKEN {
        came = socket.take_more(each)?;
        all += came;
    }
    Ok(())
}

/// Whether a service answers at this port, which is not to be answered from port `own`.
fn is_service(port: u16, own: u16) -> bool {
    port == own || SERVICES.contains(&port)
}

impl<S> Drop for DatagramService<S> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// What is left to spend.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    per_second: u64,
    /// Octets that are saved up at most.
    most: u64,
    /// Octets × 10⁹.
    left: u128,
    /// Until when it was filled up, ns.
    last: Option<u64>,
}

/// Budgets of all sources together.
const SHARES: usize = 4096;

/// A budget for each source of datagrams: an IPv4 address, or a /64 of IPv6. Sources fall onto [`SHARES`] budgets by a secret
/// hash, so strangers take no memory, push nobody out, and cannot aim at the budget of another source. Each source has two halves
/// in different places: a source that shares one of them with a flood keeps the other.
#[derive(Debug)]
pub(super) struct SourceBuckets {
    all: Vec<TokenBucket>,
    keys: RandomState,
}

impl SourceBuckets {
    /// Full ones.
    pub(super) fn new(per_second: u64, most: u64) -> Self {
        let half = TokenBucket::new(per_second.div_ceil(2), most.div_ceil(2));
        Self { all: vec![half; SHARES], keys: RandomState::new() }
    }

    /// Spend from the budget of this source, if there is enough at this time, in ns.
    pub(super) fn spend(&mut self, from: IpAddr, cost: usize, now: u64) -> bool {
        let hash = self.keys.hash_one(source(from)) as usize;
        let (one, other) = (hash % SHARES, hash / SHARES % (SHARES - 1));
        // Never the same place twice.
        let other = if other >= one { other + 1 } else { other };
        self.all[one].spend(cost, now) || self.all[other].spend(cost, now)
    }
}

const NANO: u128 = 1_000_000_000;

impl TokenBucket {
    /// A full one.
    pub(super) fn new(per_second: u64, most: u64) -> Self {
        Self { per_second, most, left: u128::from(most) * NANO, last: None }
    }

    /// Spend, if there is enough at this time, in ns.
    pub(super) fn spend(&mut self, octets: usize, now: u64) -> bool {
        let passed = now.saturating_sub(self.last.unwrap_or(now));
        self.last = Some(now);
        let gained = u128::from(passed) * u128::from(self.per_second);
        self.left = (self.left + gained).min(u128::from(self.most) * NANO);
        let cost = octets as u128 * NANO;
        let enough = cost <= self.left;
        if enough {
            self.left -= cost;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_spent_comes_back_with_time() {
        let mut budget = TokenBucket::new(1000, 500);
        assert!(budget.spend(500, 7) && !budget.spend(1, 7));
        assert!(!budget.spend(101, 100_000_007) && budget.spend(100, 100_000_007));
        assert!(!budget.spend(501, u64::MAX) && budget.spend(500, 3), "a clock that goes back gives nothing");
        assert!(!budget.spend(1, 2));
    }

    #[test]
    fn each_source_has_its_share_whatever_others_spend() {
        let mut shares = SourceBuckets::new(10, 100);
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        let spent = (0..=1_000_000).filter(|n| shares.spend(ip(7), 1, n * 1000)).count();
        assert!((109..=110).contains(&spent), "100 at once, and 10 in a second: {spent}");
        // Another source has both halves in common with it once in 8 million; all three never.
        let others: Vec<bool> = (100..103).map(|n| shares.spend(ip(n), 1, 1_000_000_000)).collect();
        assert!(others.contains(&true), "{others:?}");
        let of_net = |host: u128| IpAddr::from(((0x2001_0db8u128 << 96) | host).to_be_bytes());
        let spent = (0..1000).filter(|host| shares.spend(of_net(*host), 1, 0)).count();
        assert!(spent <= 100, "one network of IPv6 is one source: {spent}");
        assert_eq!(shares.all.len(), SHARES);
    }

    proptest! {
        #[test]
        fn no_more_is_spent_than_time_gives(all in proptest::collection::vec((0usize..2000, 0u64..1_000_000_000), 1..200)) {
            let (mut budget, mut now, mut spent) = (TokenBucket::new(10_000, 3000), 0, 0);
            for (octets, passed) in all {
                now += passed;
                if budget.spend(octets, now) {
                    spent += octets as u128;
                }
                prop_assert!(spent <= 3000 + u128::from(now) * 10_000 / NANO + 1);
            }
        }
    }
}
