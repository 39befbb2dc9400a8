//! Random worlds.

use super::*;

/// What a random network does to a stream of `total` packets.
#[derive(Clone, Debug)]
struct World {
    total: u64,
    window: usize,
    blocks: usize,
    order: Vec<(u64, u64)>,
}

fn worlds() -> impl Strategy<Value = World> {
    (20u64..400, 1usize..5, 1usize..8, 0u64..40, 0u32..30, 0u32..30, any::<u64>()).prop_map(
        |(total, window, blocks, depth, loss, double, seed)| {
            let mut x = seed | 1;
            let mut random = move |n: u64| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x % n.max(1)
            };
            let mut order: Vec<(u64, u64)> = Vec::new();
            for n in 0..total {
                for _ in 0..1 + u64::from(random(100) < u64::from(double)) {
                    if random(100) >= u64::from(loss) {
                        order.push((n + random(depth + 1), n));
                    }
                }
            }
            order.sort_by_key(|&(when, _)| when);
            World { total, window, blocks: blocks + window, order }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3000 }))]

    /// Every packet is accepted once or refused for a reason that the model confirms; every accepted byte is retired
    /// once, in order, in its place; everything else of the stream is reported missing.
    #[test]
    fn every_accepted_byte_is_retired_once_in_order_and_in_place(world in worlds()) {
        let mut a = Ordered::new(OrderedConfig { window: world.window, ahead: 3, resync: u32::MAX, ..config() });
        let mut free: Vec<Vec<u8>> = (0..world.blocks).map(|_| vec![0; 160]).collect();
        let (mut accepted, mut told) = (BTreeSet::new(), BTreeMap::new());
        let mut stray = 0;
        let drain = |a: &mut Ordered<Vec<u8>>, free: &mut Vec<Vec<u8>>, told: &mut BTreeMap<(u32, u64), bool>| {
            let mut strays = 0;
            while let Some(r) = a.poll_retired() {
                if r.cause == Cause::Stray {
                    strays += r.received() / UNIT;
                } else {
                    for at in (r.range.start..r.range.end).step_by(UNIT as usize) {
                        let missing = r.missing.iter().any(|m| m.contains(&at));
                        let bytes = &r.block[at as usize..(at + UNIT) as usize];
                        assert!(missing || pattern::first_error(r.key.number, at, bytes).is_none());
                        let n = r.key.number * UNITS + at / UNIT;
                        assert!(told.last_key_value().is_none_or(|(&last, _)| last < (r.epoch, n)), "out of order");
                        told.insert((r.epoch, n), !missing);
                    }
                }
                free.push(r.block);
            }
            strays
        };
        for (i, &(_, n)) in world.order.iter().enumerate() {
            let now = Nanos(i as u64 * 1000);
            let placement = place(n);
            match a.reserve(placement, now, |_, old| free.pop().ok_or(old)) {
                Ok(mut slot) => {
                    let range = span(&slot);
                    pattern::fill(placement.key.number, placement.offset, &mut slot.block()[range]);
                    slot.commit(now);
                    prop_assert!(accepted.insert(n));
                }
                Err(Reject::Duplicate) => prop_assert!(accepted.contains(&n)),
                Err(Reject::Late) => {
                    let full = a.live.front().is_some_and(|oldest| placement.key.number < oldest.number);
                    prop_assert!(full || !told.is_empty());
                }
                Err(Reject::NoBuffer) => prop_assert!(free.is_empty()),
                Err(Reject::Stray) => {}
                Err(other) => prop_assert!(false, "{:?}", other),
            }
            prop_assert!(a.live.len() <= world.window);
            stray += drain(&mut a, &mut free, &mut told);
        }
        a.finish(Nanos(0));
        stray += drain(&mut a, &mut free, &mut told);
        prop_assert_eq!(free.len(), world.blocks, "every block comes back");
        let present = told.values().filter(|&&there| there).count() as u64;
        prop_assert_eq!(present + stray, accepted.len() as u64);
        prop_assert!(told.keys().all(|&(_, n)| n < world.total));
    }
}
