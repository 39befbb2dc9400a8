//! A train is taken as its datagrams are taken singly: bytes, events, counts.

use crate::endpoint::{Pair, address, config, slice};
use proptest::prelude::*;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{PlaceRun, RdmaConfig, RegionRights, RemoteAddress, RemoteWrite};
use skyhaul_core::wire::rdma::RdmaProfile;

const MEMORY: u64 = 4096;

/// Numbers from a seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A pair with a region, and what the client sends for some Writes.
fn writes(seed: u64, crc: bool) -> (Pair, Vec<Vec<u8>>) {
    let mut random = Seeded(seed);
    let uc = config(RdmaProfile::Uc);
    let mut pair = Pair::new(RdmaConfig { window: 4, runs: 3, crc, ..uc });
    let stag = pair.with(1, |e, c| e.register(slice(0, MEMORY), RegionRights::WRITE, c)).unwrap();
    let client = pair.sides[0].connection;
    for number in 0..40 {
        // Some go beyond the region's end.
        let (length, offset) = (random.below(1600) + 1, random.below(3000));
        let immediate = (random.below(3) == 0).then_some(number);
        let to = RemoteAddress { stag, offset };
        let write = RemoteWrite { source: slice(0, length), to, immediate, is_solicited: true };
        pair.sides[0].endpoint.write(client, write).unwrap();
    }
    pair.send(0);
    let datagrams = std::mem::take(&mut pair.flying).into_iter().map(|(_, datagram)| datagram).collect();
    (pair, datagrams)
}

/// What arrives of it: lost, doubled, delayed, damaged in the head, cut short.
fn arriving(sent: &[Vec<u8>], random: &mut Seeded) -> Vec<Vec<u8>> {
    let (mut arriving, mut held): (Vec<Vec<u8>>, Vec<(u64, Vec<u8>)>) = (Vec::new(), Vec::new());
    let faults = [0, 8, 40][random.below(3) as usize];
    for datagram in sent {
        for (left, _) in &mut held {
            *left -= 1;
        }
        let (due, rest) = held.into_iter().partition(|(left, _)| *left == 0);
        held = rest;
        arriving.extend(Vec::<(u64, Vec<u8>)>::from(due).into_iter().map(|(_, datagram)| datagram));
        let mut datagram = datagram.clone();
        match if random.below(100) < faults { random.below(5) } else { 5 } {
            0 => continue,
            1 => arriving.push(datagram.clone()),
            2 => {
                held.push((random.below(30) + 1, datagram));
                continue;
            }
            3 => datagram[random.below(36) as usize] ^= 1 << random.below(8),
            4 => datagram.truncate(random.below(datagram.len() as u64) as usize),
            _ => {}
        }
        arriving.push(datagram);
    }
    arriving.extend(held.into_iter().map(|(_, datagram)| datagram));
    arriving
}

/// Trains: of one length, but the last datagram may be shorter. Each with its stride.
fn trains(datagrams: &[Vec<u8>], random: &mut Seeded) -> Vec<(Vec<Vec<u8>>, usize)> {
    let mut trains: Vec<(Vec<Vec<u8>>, usize)> = Vec::new();
    let mut is_open = false;
    for datagram in datagrams {
        match trains.last_mut() {
            Some((train, stride)) if is_open && !datagram.is_empty() && datagram.len() <= *stride => {
                is_open = datagram.len() == *stride && random.below(12) > 0;
                train.push(datagram.clone());
            }
            _ => {
                trains.push((vec![datagram.clone()], datagram.len()));
                is_open = !datagram.is_empty();
            }
        }
    }
    trains
}

/// Takes a train by `handle_train`, or datagram by datagram. Returns the number of places.
fn take(pair: &mut Pair, train: &[Vec<u8>], stride: usize, is_whole: bool) -> usize {
    let bytes = train.concat();
    let mut places: Vec<PlaceRun> = Vec::new();
    let mut memory = std::mem::take(&mut pair.sides[1].memory);
    if is_whole {
        pair.with(1, |e, c| {
            e.handle_train(address(0), (&bytes, stride), c, &mut |run| {
                for (at, payload) in run.parts(&bytes) {
                    memory[at as usize..][..payload.len()].copy_from_slice(payload);
                }
                places.push(run.clone());
            });
        });
    } else {
        for datagram in train {
            if let Some(place) = pair.with(1, |e, c| e.handle_datagram(address(0), datagram, c)) {
                let payload = &datagram[place.from.clone()];
                memory[place.to.start as usize..][..payload.len()].copy_from_slice(payload);
                places.push(PlaceRun { bytes: place, stride, head: 0 });
            }
        }
    }
    pair.sides[1].memory = memory;
    let bytes: u64 = places.iter().map(|run| run.bytes.to.length).sum();
    let parts: u64 = places.iter().map(|run| run.bytes.from.len() as u64).sum();
    assert!(bytes <= parts, "what lies between payloads is placed nowhere");
    pair.take_events(1);
    places.len()
}

proptest! {
    #[test]
    fn a_train_is_taken_as_its_datagrams(seed in any::<u64>(), crc in (0u8..8).prop_map(|n| n == 0)) {
        let ((mut singly, sent), (mut whole, same)) = (writes(seed, crc), writes(seed, crc));
        prop_assert_eq!(&sent, &same);
        let mut random = Seeded(seed ^ 0x5EED);
        let arriving = arriving(&sent, &mut random);
        for (train, stride) in trains(&arriving, &mut random) {
            let pause = if random.below(10) == 0 { random.below(400_000_000) } else { 0 };
            for pair in [&mut singly, &mut whole] {
                pair.now = pair.now.plus(Nanos(pause));
                pair.with(1, |e, c| e.handle_timeout(c));
            }
            take(&mut singly, &train, stride, false);
            take(&mut whole, &train, stride, true);
            let [one, other] = [&singly, &whole].map(|pair| &pair.sides[1]);
            prop_assert!(one.memory == other.memory, "memory");
            prop_assert_eq!(&one.events, &other.events);
            prop_assert_eq!(one.endpoint.counts(), other.endpoint.counts());
            prop_assert_eq!(one.endpoint.poll_timeout(), other.endpoint.poll_timeout());
        }
        // How many datagrams were lost is said at the end.
        for pair in [&mut singly, &mut whole] {
            let (client, deadline) = (pair.sides[0].connection, pair.now.plus(Nanos::SECOND));
            pair.sides[0].endpoint.close(client, deadline).unwrap();
            pair.run();
            pair.wait(100_000_000);
        }
        prop_assert_eq!(&singly.sides[1].events, &whole.sides[1].events);
        prop_assert_eq!(singly.sides[1].endpoint.counts(), whole.sides[1].endpoint.counts());
    }
}

#[test]
fn a_whole_train_has_few_places() {
    let (mut pair, sent) = writes(7, false);
    let mut random = Seeded(1);
    let (mut places, mut datagrams) = (0, 0);
    for (train, stride) in trains(&sent, &mut random) {
        datagrams += train.len();
        places += take(&mut pair, &train, stride, true);
    }
    let placed = pair.sides[1].endpoint.counts().placed as usize;
    assert!(placed > datagrams / 2 && places < placed * 2 / 3, "{places} of {placed} of {datagrams}");
}
