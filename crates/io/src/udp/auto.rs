//! Chooses the tier by the traffic, and changes it without loss or duplication of packets.
//!
//! Starts as `stage`. Moves to a ring if over 16 384 arrivals there are at least 20 000 a second, fewer than 1.5 packets
//! per train, and at most 2 KiB per packet; a ring can be opened (CAP_NET_RAW); the address is not a group (a ring does
//! not see packets that this host sends to one); and the port is not shared. Moves back permanently when datagrams arrive
//! in fragments or frames that the ring cannot handle, and temporarily when trains of 4 packets or more arrive, which the
//! socket receives more efficiently.
//!
//! ```text
//!   socket  ──────────────────┤ drained    both see the packets between; those delivered by one, known by arrival
//!   ring             ├─────────────────    time and content, is skipped in the other
//!                 opened     time ▶
//! ```
//!
//! Limits: needs the kernel's time stamps (the default); at most [`MOVES`] changes, to avoid oscillation.

use super::{UdpOptions, ring::Ring, socket::SocketTier};
use crate::{
    address::Endpoint,
    source::{SourceStats, Train},
};
use skyhaul_core::placement::Nanos;
use socket2::Socket;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Arrivals between two evaluations of the traffic.
const LOOK: u64 = 16_384;
/// Traffic whose evaluation takes longer than this is too slow to matter: 20 000 arrivals a second.
const FAST: Duration = Duration::from_millis(819);
/// Packets longer than this cost more for the copy than for the system call.
const SMALL: u64 = 2048;
/// Changes of tier in the life of a source.
const MOVES: u32 = 6;
/// After this time, all earlier packets are in a block released by the kernel.
const SETTLED: Nanos = Nanos(50_000_000);
/// How long one poll waits for that.
const SETTLING: Duration = Duration::from_millis(5);
/// Maximum number of packets remembered to be skipped: more than arrive in [`SETTLED`].
const REMEMBERED: usize = 1 << 20;

/// A source that changes its tier.
pub(super) struct AutoTier {
    socket: SocketTier,
    options: UdpOptions,
    state: State,
    look: Look,
    moves: u32,
    /// The network namespace of the thread that opened it: a ring must be opened in the same.
    namespace: Option<PathBuf>,
    /// Why it must not move to a ring (again).
    barred: Option<String>,
    remedy: Option<String>,
    twice: Twice,
    /// Counters of former rings.
    past: SourceStats,
    because: Option<String>,
}

enum State {
    Socket,
    /// The ring captures, the socket is silent: its queued packets are delivered first.
    ToRing(Box<Ring>, Nanos),
    Ring(Box<Ring>),
    /// The socket receives again: packets that only the ring has are delivered first.
    FromRing(Box<Ring>, Nanos),
}

impl AutoTier {
    pub(super) fn open(at: &Endpoint, options: &UdpOptions) -> io::Result<Self> {
        let socket = SocketTier::open(at, options)?;
        let barred = match () {
            () if !options.timestamps => Some("timestamps are off"),
            () if options.hops => Some("the time to live is noted"),
            () if at.is_multicast() => Some("a ring does not see multicast packets sent by this host"),
            () if options.reuse_port => Some("the port is shared"),
            () => None,
        };
        Ok(Self {
            socket,
            options: options.clone(),
            state: State::Socket,
            look: Look::new(),
            moves: 0,
            namespace: namespace(),
            barred: barred.map(str::to_owned),
            remedy: None,
            twice: Twice::default(),
            past: SourceStats::default(),
            because: None,
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.socket.endpoint()
    }

    pub(super) fn socket(&self) -> &Socket {
        self.socket.socket()
    }

    pub(super) fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let (look, twice) = (&mut self.look, &mut self.twice);
        let n = match &mut self.state {
            State::Socket => {
                let n = self.socket.poll(wait, &mut |t| twice.unless_seen(t, |t| look.see(t, each)))?;
                self.consider_ring()?;
                n
            }
            State::ToRing(_, since) => {
                let since = *since;
                let n = self.socket.poll(Duration::ZERO, &mut |t| twice.remember(t, since, each))?;
                if n == 0 {
                    self.begin_ring();
                    return self.poll(wait, each);
                }
                n
            }
            State::Ring(ring) => {
                let n = ring.poll(wait, &mut |t| twice.unless_seen(t, |t| look.see(t, each)))?;
                self.consider_socket()?;
                n
            }
            State::FromRing(ring, since) => {
                let (since, settled) = (*since, since.plus(SETTLED));
                let mut past = false;
                let n = ring.poll(SETTLING, &mut |t| {
                    past |= t.time.is_some_and(|time| time > settled);
                    twice.remember(t, since, each);
                })?;
                if past || (n == 0 && now() > settled) {
                    self.retire_ring();
                }
                n
            }
        };
        Ok(n - self.twice.take_skipped())
    }

    /// Move to a ring if the traffic suits it.
    fn consider_ring(&mut self) -> io::Result<()> {
        let Some(seen) = self.look.finished() else { return Ok(()) };
        let fits =
            seen.took <= FAST && seen.packets * 2 < seen.trains * 3 && seen.bytes <= seen.packets * SMALL;
        if !fits || self.barred.is_some() || self.moves >= MOVES {
            return Ok(());
        }
        if namespace() != self.namespace {
            self.barred = Some("polled from a network namespace other than that of the socket".to_owned());
            return Ok(());
        }
        // The capture starts before the socket falls silent, so that no packet is missed.
        let since = now();
        match Ring::open(self.socket.endpoint(), &self.options) {
            Ok(ring) => {
                self.socket.silence()?;
                self.moves += 1;
                self.because = Some(format!("small single packets, {:.0} a second", seen.rate()));
                self.state = State::ToRing(Box::new(ring), since);
            }
            Err(error) => {
                self.barred = Some(error.to_string());
                self.remedy = Some(format!(
                    "small single packets at {:.0} a second: a packet ring would use a fraction of this thread's time, but is not available: {error}",
                    seen.rate()
                ));
            }
        }
        Ok(())
    }

    /// Move back to the socket if the traffic no longer suits the ring.
    fn consider_socket(&mut self) -> io::Result<()> {
        let State::Ring(ring) = &self.state else { return Ok(()) };
        let trains = self.look.finished().is_some_and(|seen| seen.packets >= seen.trains * 4);
        if ring.unfit() > 0 {
            self.barred = Some("IP fragments arrived, which a ring cannot join".to_owned());
        } else if !trains || self.moves >= MOVES {
            return Ok(());
        }
        self.moves += 1;
        self.because = self.barred.clone().or_else(|| Some("the kernel coalesces (UDP_GRO)".to_owned()));
        let since = now();
        self.socket.speak()?;
        self.state = match std::mem::replace(&mut self.state, State::Socket) {
            State::Ring(ring) => State::FromRing(ring, since),
            other => other,
        };
        Ok(())
    }

    /// The socket is empty: all later packets are in the ring.
    fn begin_ring(&mut self) {
        self.twice.turn();
        self.state = match std::mem::replace(&mut self.state, State::Socket) {
            State::ToRing(ring, _) => State::Ring(ring),
            other => other,
        };
    }

    /// All packets that the socket does not have are delivered: drop the ring.
    fn retire_ring(&mut self) {
        if let State::FromRing(ring, _) = std::mem::replace(&mut self.state, State::Socket) {
            add(&mut self.past, &ring.stats());
            self.twice.turn();
        }
        self.look = Look::new();
    }

    pub(super) fn stats(&self) -> SourceStats {
        let mut stats = self.socket.stats();
        add(&mut stats, &self.past);
        if let State::ToRing(ring, _) | State::Ring(ring) | State::FromRing(ring, _) = &self.state {
            let ring = ring.stats();
            add(&mut stats, &ring);
            (stats.tier, stats.buffer) = (ring.tier, ring.buffer);
        }
        // Packets that both saw were counted twice.
        stats.packets -= self.twice.packets;
        stats.bytes -= self.twice.bytes;
        stats.trains -= self.twice.trains;
        stats.because = self.because.clone().unwrap_or(stats.because);
        stats.remedies.extend(self.remedy.clone());
        stats
    }
}

/// Add the counters of a ring.
fn add(sum: &mut SourceStats, ring: &SourceStats) {
    sum.packets += ring.packets;
    sum.bytes += ring.bytes;
    sum.trains += ring.trains;
    sum.truncated += ring.truncated;
    sum.malformed += ring.malformed;
    sum.fragments += ring.fragments;
    sum.socket_drops += ring.socket_drops;
    sum.remedies.extend(ring.remedies.iter().cloned());
}

fn namespace() -> Option<PathBuf> {
    std::fs::read_link("/proc/thread-self/ns/net").ok()
}

fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since)
}

/// The traffic since the last evaluation.
struct Look {
    start: Instant,
    packets: u64,
    trains: u64,
    bytes: u64,
}

/// The traffic of one evaluation.
struct Seen {
    took: Duration,
    packets: u64,
    trains: u64,
    bytes: u64,
}

impl Seen {
    fn rate(&self) -> f64 {
        self.packets as f64 / self.took.as_secs_f64().max(1e-6)
    }
}

impl Look {
    fn new() -> Self {
        Self { start: Instant::now(), packets: 0, trains: 0, bytes: 0 }
    }

    #[inline]
    fn see(&mut self, train: Train<'_>, each: &mut dyn FnMut(Train<'_>)) {
        self.trains += 1;
        self.packets += train.count() as u64;
        self.bytes += train.bytes.len() as u64;
        each(train);
    }

    /// The traffic seen, if enough for an evaluation; then a new one begins.
    fn finished(&mut self) -> Option<Seen> {
        if self.trains < LOOK {
            return None;
        }
        let Look { start, packets, trains, bytes } = std::mem::replace(self, Self::new());
        Some(Seen { took: start.elapsed(), packets, trains, bytes })
    }
}

/// Packets that one side delivered and the other may deliver again.
#[derive(Default)]
struct Twice {
    /// Delivered by the former side: to be skipped, with the number of times.
    seen: HashMap<(Nanos, u64), u32>,
    latest: Nanos,
    /// Delivered by the side that is being left.
    leaving: HashMap<(Nanos, u64), u32>,
    skipped: usize,
    packets: u64,
    bytes: u64,
    trains: u64,
}

impl Twice {
    fn key(train: &Train<'_>) -> Option<(Nanos, u64)> {
        let mut hash = DefaultHasher::new();
        (train.sender, train.bytes.len(), train.bytes.get(..64).unwrap_or(train.bytes)).hash(&mut hash);
        Some((train.time?, hash.finish()))
    }

    /// Deliver a train that the other side may have too, if it is not older than `since`.
    fn remember(&mut self, train: Train<'_>, since: Nanos, each: &mut dyn FnMut(Train<'_>)) {
        self.unless_seen(train, &mut *each);
        if let Some(key) = Self::key(&train).filter(|k| k.0 >= since && self.leaving.len() < REMEMBERED) {
            *self.leaving.entry(key).or_default() += 1;
        }
    }

    /// One side has delivered all its packets: the other begins.
    fn turn(&mut self) {
        self.seen = std::mem::take(&mut self.leaving);
        self.latest = self.seen.keys().map(|k| k.0).max().unwrap_or_default();
    }

    /// Deliver a train that the other side has not delivered.
    #[inline]
    fn unless_seen(&mut self, train: Train<'_>, each: impl FnOnce(Train<'_>)) {
        if self.seen.is_empty() || !self.was_seen(&train) {
            each(train);
        }
    }

    fn was_seen(&mut self, train: &Train<'_>) -> bool {
        let Some(key) = Self::key(train) else { return false };
        // Packets of some CPUs may arrive a little later than those of others.
        if key.0.since(self.latest) > Nanos::SECOND {
            self.seen.clear();
            return false;
        }
        let Some(times) = self.seen.get_mut(&key) else { return false };
        *times -= 1;
        if *times == 0 {
            self.seen.remove(&key);
        }
        self.skipped += train.count();
        self.packets += train.count() as u64;
        self.bytes += train.bytes.len() as u64;
        self.trains += 1;
        true
    }

    /// Packets skipped since the last call.
    fn take_skipped(&mut self) -> usize {
        std::mem::take(&mut self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn what_was_handed_on_is_skipped_once_each() {
        let sender = SocketAddr::from(([127, 0, 0, 1], 1));
        let train = |bytes: &'static [u8], time| Train {
            time: Some(Nanos(time)),
            ..Train::single(bytes, SENDER.get_or_init(|| sender))
        };
        let mut twice = Twice::default();
        let mut handed = Vec::new();
        for (bytes, time) in [(&b"a"[..], 5), (b"b", 15), (b"b", 15), (b"c", 16)] {
            twice.remember(train(bytes, time), Nanos(10), &mut |t| handed.push(t.bytes.to_vec()));
        }
        assert_eq!(handed.len(), 4);
        handed.clear();
        twice.turn();
        for (bytes, time) in [(&b"b"[..], 15), (b"b", 15), (b"b", 15), (b"c", 17), (b"c", 16), (b"d", 18)] {
            twice.unless_seen(train(bytes, time), |t| handed.push(t.bytes.to_vec()));
        }
        assert_eq!(handed, [b"b", b"c", b"d"], "the third b, the c of another time, and d are new");
        assert_eq!((twice.take_skipped(), twice.take_skipped(), twice.packets), (3, 0, 3));
        twice.remember(train(b"e", 100), Nanos(10), &mut |_| ());
        twice.turn();
        twice.unless_seen(train(b"f", 2_000_000_000), |_| ());
        assert!(twice.seen.is_empty(), "nothing is remembered for long");
    }

    static SENDER: std::sync::OnceLock<SocketAddr> = std::sync::OnceLock::new();
}
