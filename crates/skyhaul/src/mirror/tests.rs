//! What a tap hands on, and what it gives up, by how much memory there is.

use super::*;
use skyhaul_io::memory::PoolOptions;
use std::sync::atomic::Ordering;

const UNIT: usize = 1000;

/// A tap to a target whose thread takes nothing.
fn tap() -> (Tap, Arc<Shared>) {
    let target = Arc::new(Shared::new("nobody".into()));
    let streams = vec![Mirrored { stream: 1, unit: UNIT as u32, network: None }];
    (Tap { targets: vec![target.clone()], streams, pending: None, spare: None }, target)
}

/// Hand on more runs than may always wait; what became of them: those that wait, and frames dropped.
fn more_than_always(blocks: &mut [Block], tap: &mut Tap, target: &Shared) -> (usize, u64) {
    for n in 0..ALWAYS + 50 {
        let at = n / blocks.len() * UNIT;
        let of = n % blocks.len();
        tap.frames(1, &mut blocks[of], at..at + UNIT, 0);
    }
    tap.flush();
    (target.queue.len(), target.counters.dropped.load(Ordering::Relaxed))
}

#[test]
fn nothing_is_dropped_for_memory_that_is_still_being_prepared() {
    // So much that it takes a while; a try in which all of it came meanwhile says nothing.
    let options = PoolOptions { total_bytes: 512 << 20, block_bytes: 1 << 20, shared: false };
    let tried = (0..100).find_map(|_| {
        let pool = Pool::new(&options).unwrap();
        let mut blocks: Vec<Block> = (0..8).map(|_| pool.take().unwrap()).collect();
        let (mut tap, target) = tap();
        let found = more_than_always(&mut blocks, &mut tap, &target);
        let scarce = pool.free() < pool.blocks() / RESERVE;
        (scarce && !pool.is_touched()).then_some(found)
    });
    assert_eq!(tried, Some((ALWAYS + 50, 0)), "a large pool is not there at once");
}

#[test]
fn what_waits_for_a_target_is_given_up_where_memory_is_short() {
    let options = PoolOptions { total_bytes: 16 << 20, block_bytes: 1 << 20, shared: false };
    let pool = Pool::new(&options).unwrap();
    pool.wait_until_touched().unwrap();
    let mut blocks: Vec<Block> = (0..8).map(|_| pool.take().unwrap()).collect();
    let (mut tap, target) = tap();
    assert_eq!(more_than_always(&mut blocks, &mut tap, &target), (ALWAYS + 50, 0), "half of it is free");

    // Less than a quarter is: no more than may always wait.
    blocks.extend((0..5).map(|_| pool.take().unwrap()));
    let (mut tap, target) = self::tap();
    assert_eq!(more_than_always(&mut blocks, &mut tap, &target), (ALWAYS, 50));

    // Less than an eighth: it is given up.
    blocks.extend((0..2).map(|_| pool.take().unwrap()));
    let (mut tap, target) = self::tap();
    let (waiting, dropped) = more_than_always(&mut blocks, &mut tap, &target);
    assert!(waiting <= BEHIND + 1, "{waiting} wait");
    assert_eq!(waiting as u64 + dropped, (ALWAYS + 50) as u64);
}
