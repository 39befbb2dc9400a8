//! Events divided into packets, and assembled by a window of keys: as they were, whatever becomes of the packets on their
//! way.

use proptest::prelude::*;
use skyhaul_core::{
    assembly::*,
    packetize::Divided,
    placement::{Key, Nanos, Reject},
    wire::{
        Addressing, EventPackets, EventShape,
        ejfat::EjfatWire,
        keyed::{Keyed as _, source_of},
    },
};
use std::collections::BTreeMap;

/// What the octets of an event are: its own.
fn octet(key: Key, at: u64) -> u8 {
    (key.number.wrapping_mul(31) ^ key.source.wrapping_mul(7) ^ at) as u8
}

fn packets(tick: u64, data_id: u16, event_bytes: u64, packet_bytes: usize, labelled: bool) -> Vec<Vec<u8>> {
    let addressing = labelled.then(Addressing::default);
    let shape = EventShape { tick, data_id, event_bytes, packet_bytes, addressing, ..EventShape::default() };
    let event = EventPackets::new(&shape).expect("an event that can be divided");
    let key = Key { source: source_of(0, data_id), number: tick };
    let mut head = vec![0; event.head_bytes_max()];
    let one = |n| {
        let part = event.packet(n, &mut head);
        let payload = part.payload.map(|at| octet(key, at));
        head[..part.head].iter().copied().chain(payload).collect()
    };
    (0..event.count()).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn events_come_back_from_the_window(sizes in proptest::collection::vec(1u64..20_000, 1..6), ids in 1u16..4,
            packet_bytes in 60usize..9000, labelled: bool, twice in 0u64..4, order: u64) {
        let mut random = order;
        let mut draw = || { random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99); random >> 33 };
        let mut all = Vec::new();
        for (tick, bytes) in (1000u64..).zip(&sizes) {
            for id in 0..ids {
                all.extend(packets(tick, id, *bytes, packet_bytes, labelled));
            }
        }
        let doubles: Vec<Vec<u8>> = all.iter().filter(|_| draw() % 4 < twice).cloned().collect();
        let repeated = doubles.len();
        all.extend(doubles);
        all.sort_by_cached_key(|_| draw());
        let mut window = KeyedWindow::<Vec<u8>>::new(KeyedConfig { window: 64, ..KeyedConfig::default() });
        let (now, mut refused, mut done) = (Nanos(5), 0, BTreeMap::new());
        for packet in &all {
            let place = EjfatWire::read(packet).unwrap().placement(0);
            match window.reserve(place, now, |bytes, _| Ok(vec![0; bytes as usize])) {
                Ok(mut slot) => {
                    let (range, start) = (slot.range(), place.start as usize);
                    slot.block()[range.start as usize..range.end as usize].copy_from_slice(&packet[start..]);
                    slot.commit(now);
                }
                Err(why) => {
                    prop_assert_eq!(why, Reject::Duplicate);
                    refused += 1;
                }
            }
            while let Some(retired) = window.poll_retired() {
                prop_assert!(retired.is_complete());
                prop_assert_eq!(done.insert(retired.key, retired.block), None, "once");
            }
        }
        prop_assert_eq!(refused, repeated);
        prop_assert_eq!(done.len(), sizes.len() * usize::from(ids));
        for (key, block) in done {
            prop_assert_eq!(block.len() as u64, sizes[(key.number - 1000) as usize]);
            prop_assert!((0u64..).zip(&block).all(|(at, &found)| found == octet(key, at)));
        }
    }
}
