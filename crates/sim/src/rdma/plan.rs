//! What a world is: its sides, its memory, its operations, and how its network misbehaves.

use crate::random::Random;
use core::net::{Ipv4Addr, SocketAddr};
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{AddressProof, RdmaConfig};
use skyhaul_core::wire::rdma::RdmaProfile;
use std::collections::BTreeMap;

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;
/// Memory of each side by its number: what is read from, what is written to, guard included.
pub(super) const SOURCE: u32 = 0;
pub(super) const TARGET: u32 = 1;
/// Buffers for Sends.
pub(super) const BUFFERS: u32 = 2;
/// Before and behind each region.
pub(super) const GUARD: u64 = 64;
/// What memory holds before anything arrives.
pub(super) const UNTOUCHED: u8 = 0xEE;
pub(super) fn address(side: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1 + side as u8), 7000))
}

/// Never [`UNTOUCHED`], and different for each message and byte.
pub(super) fn content(message: u64, at: u64) -> u8 {
    let mixed = (message.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ at.wrapping_mul(0xBF58_476D_1CE4_E5B9)) >> 29;
    (mixed as u8) % UNTOUCHED
}

/// Cookies as good as a hash makes them.
pub(super) struct Cookies(pub(super) u64);

impl AddressProof for Cookies {
    fn cookie(&self, peer: SocketAddr, nonce: u64) -> [u8; 16] {
        let SocketAddr::V4(peer) = peer else { return [0; 16] };
        let mut random =
            Random(self.0 ^ u64::from(peer.ip().to_bits()) << 16 ^ u64::from(peer.port()) ^ nonce);
        (u128::from(random.draw()) << 64 | u128::from(random.draw()) | 1).to_be_bytes()
    }

    fn is_cookie(&self, peer: SocketAddr, nonce: u64, cookie: [u8; 16]) -> bool {
        self.cookie(peer, nonce) == cookie
    }
}

/// What the client posts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    /// To an area of the server's region; allowed, or not in one of several ways.
    Write {
        area: (u64, u64),
        immediate: Option<u64>,
        is_allowed: bool,
    },
    Send {
        length: u64,
    },
    Read {
        area: (u64, u64),
        deadline: Nanos,
    },
}

/// An operation, the number of its message once a segment of it was sent, and of a Read its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) operation: Operation,
    /// The bytes of a Write or a Send are those of this message.
    pub(super) content: u64,
    pub(super) read: Option<u64>,
}

/// What the worlds have met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Datagrams that arrived at an endpoint.
    pub datagrams: u64,
    /// Writes, Sends and Reads that were posted.
    pub operations: u64,
    /// Messages that ended complete, incomplete, and lost whole.
    pub messages: [u64; 3],
    /// Reads that ended complete, and incomplete.
    pub reads: [u64; 2],
    /// Connections that ended, by reason.
    pub closed: BTreeMap<&'static str, u64>,
    /// Datagrams refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

impl Played {
    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Played) {
        self.datagrams += other.datagrams;
        self.operations += other.operations;
        self.messages.iter_mut().zip(other.messages).for_each(|(a, b)| *a += b);
        self.reads.iter_mut().zip(other.reads).for_each(|(a, b)| *a += b);
        other.closed.iter().for_each(|(by, count)| *self.closed.entry(by).or_default() += count);
        other.refused.iter().for_each(|(why, count)| *self.refused.entry(why).or_default() += count);
    }
}

/// How the network misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    pub(super) jitter: u64,
    pub(super) corrupt: f64,
    pub(super) hostile: f64,
    /// The side that dies, and after how many datagrams that it sent.
    pub(super) kill: Option<(usize, u64)>,
}

/// Faults and limits of a world.
pub(super) fn drawn(random: &mut Random) -> (Faults, RdmaConfig) {
    let mut sometimes =
        |chance: f64, most: f64| if random.chance(chance) { random.uniform(0.0, most) } else { 0.0 };
    let (loss, duplicate, corrupt, hostile) =
        (sometimes(0.6, 0.3), sometimes(0.4, 0.3), sometimes(0.3, 0.1), sometimes(0.4, 0.3));
    let jitter = if random.chance(0.6) { random.pick(&[100_000, 1_000_000, 20_000_000]) } else { 0 };
    let dies = |random: &mut Random| (random.below(2) as usize, random.below(120));
    let kill = random.chance(0.25).then(|| dies(random));
    let faults = Faults { loss, duplicate, jitter, corrupt, hostile, kill };
    let config = RdmaConfig {
        profile: RdmaProfile::Uc,
        datagram_bytes: random.pick(&[128, 300, 576, 1472]),
        window: random.pick(&[2, 8, 64, 128]),
        message_timeout: Nanos(random.pick(&[50_000_000, 300_000_000, 1_000_000_000])),
        runs: random.pick(&[4, 64, 1024]),
        inbound_reads: random.pick(&[1, 4, 16]),
        // Two of the longest Reads, or as many as the client has: it does not know this limit.
        inbound_read_bytes: random.pick(&[8000, 1 << 20]),
        outbound_reads: 8,
        // Bits flip only where something finds it; else the checksum of UDP has dropped the datagram.
        crc: Some(corrupt > 0.0 || random.chance(0.3)),
        keep_alive: random.chance(0.5).then_some(Nanos(500_000_000)),
        question: Nanos(500_000_000),
        ..RdmaConfig::default()
    };
    (faults, config)
}

/// What the client posts and when, in order; with the bytes that it writes and reads, and the time of the last.
pub(super) fn operations(random: &mut Random) -> (Vec<(Nanos, Operation)>, [u64; 3]) {
    let mut plan = Vec::new();
    let (mut target, mut sink, mut at) = (0, 0, 100_000_000u64);
    for number in 0..random.between(3, 40) {
        at += random.pick(&[0, 10_000, 1_000_000, 30_000_000]);
        let length = random.pick(&[0, 1, 8, 92, 93, 400, 1500, 4000]);
        let operation = match random.below(10) {
            0..=4 => {
                let area = (target, target + length);
                target += length;
                let immediate = random.chance(0.5).then_some(number);
                Operation::Write { area, immediate, is_allowed: random.chance(0.9) }
            }
            5..=6 => Operation::Send { length },
            _ => {
                let area = (sink, sink + length.max(1));
                sink = area.1;
                let deadline = Nanos(at + random.pick(&[5_000_000, 200_000_000, 2_000_000_000]));
                Operation::Read { area, deadline }
            }
        };
        plan.push((Nanos(at), operation));
    }
    (plan, [target, sink, at])
}
