//! The target for the table of heaps: the bytes are its limits, then a script of parts and time.
//!
//! ```text
//!   3 octets: limits       5 octets: what · which heap · offset · length · size
//!   what & 7:  0‥3 a part that agrees with its heap   4 any part   5 time passes   6 a start   7 memory ends, or is back
//! ```
//!
//! Held: bytes lie where they belong, what was committed is what retires, what is missing is what was not committed, a
//! window never holds more than it may, nothing waits past its deadline, and no remembered heap comes twice.

use skyhaul_core::assembly::{Cause, Keyed, KeyedConfig, Retired, Slot, Window};
use skyhaul_core::pattern;
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use std::cell::Cell;
use std::collections::BTreeMap;

const LARGEST: u64 = 300;
/// Of one step of the script's clock.
const STEP: u64 = 1 << 20;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Heaps of three parts in order, of one part, and in turn.
    let series: Vec<u8> = (0..90u8).flat_map(|n| [0, n / 3, n % 3 * 8, 8, 24]).collect();
    let single: Vec<u8> = (0..90u8).flat_map(|n| [0, n, 0, 8, 8]).collect();
    let turns: Vec<u8> =
        (0..90u8).flat_map(|n| [n % 2 * 5, n % 4 + n / 12 * 4, n / 4 % 3 * 8, 8, 24]).collect();
    let limits = [[0x12, 0, 0xFF], [0x25, 0x11, 4], [0x81, 0x10, 0]];
    let scripts = [series, single, turns];
    limits.iter().zip(scripts).map(|(limits, script)| [&limits[..], &script].concat()).collect()
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((&[first, second, remember], script)) = bytes.split_first_chunk() else { return };
    let config = KeyedConfig {
        window: usize::from(first & 7) + 1,
        substreams: u64::from(first >> 3 & 3) + 1,
        in_order: first & 0xE0 == 0xE0,
        unsized_objects: second & 1 == 0,
        largest: LARGEST,
        timeout: (second & 0x10 != 0).then_some(Nanos(u64::from(second >> 5) * STEP)),
        remember: usize::from(remember),
        remember_for: Nanos(if second & 2 == 0 { u64::MAX } else { 40 * STEP }),
        runs: u32::from(second >> 2 & 3) + 1,
    };
    let mut heaps = Keyed::<Vec<u8>>::new(config);
    let mut world = World { config, ..World::default() };
    for step in script.chunks_exact(5) {
        let [what, which, offset, length, size] = [0, 1, 2, 3, 4].map(|at| u64::from(step[at]));
        // Few sources, heaps near each other.
        let key = Key { source: which >> 6, number: 1000 + (which & 0x3F) };
        let told = 1 + key.number * 7 % (LARGEST - 1);
        match what & 7 {
            0..4 => {
                let offset = offset.min(told);
                let size = (size & 1 == 0).then_some(told);
                let length = length.min(told - offset);
                world.put(&mut heaps, Placement { key, offset, length, size, ..Placement::default() });
            }
            4 => {
                let size = (what & 8 != 0).then_some(size * 2);
                let offset = if what & 16 != 0 { u64::MAX - offset } else { offset };
                world.put(&mut heaps, Placement { key, offset, length, size, ..Placement::default() });
            }
            5 => {
                world.now = world.now.plus(Nanos(offset * STEP / 4));
                heaps.handle_timeout(world.now);
                assert!(heaps.poll_timeout().is_none_or(|due| due > world.now), "a time that is past is due");
            }
            6 => {
                heaps.forget(key, world.now);
                world.given.clear();
            }
            _ => world.full = !world.full,
        }
        while let Some(heap) = heaps.poll_retired() {
            world.take_back(&heap);
        }
        assert_eq!(world.blocks.get(), heaps.live(), "blocks are somewhere else");
        assert!(heaps.live() as u64 <= config.window as u64 * config.substreams);
    }
    heaps.finish(world.now);
    while let Some(heap) = heaps.poll_retired() {
        world.take_back(&heap);
    }
    assert!(world.there.is_empty() && heaps.live() == 0, "heaps stayed behind");
    assert_eq!(world.blocks.get(), 0, "blocks stayed behind");
}

#[derive(Default)]
struct World {
    config: KeyedConfig,
    now: Nanos,
    full: bool,
    /// Blocks that the table has.
    blocks: Cell<usize>,
    /// Of each heap that is not handed on yet, the bytes that were committed.
    there: BTreeMap<Key, Vec<bool>>,
    /// When heaps were handed on, in order, since something was last forgotten.
    given: Vec<(Key, Nanos)>,
}

impl World {
    fn put(&mut self, heaps: &mut Keyed<Vec<u8>>, part: Placement) {
        let key = part.key;
        let (full, blocks) = (self.full, &self.blocks);
        let room = |bytes: u64, old: Option<Vec<u8>>| {
            if full {
                return Err(old);
            }
            assert!(bytes <= LARGEST, "{bytes} bytes are asked for");
            blocks.set(blocks.get() + usize::from(old.is_none()));
            let mut block = old.unwrap_or_default();
            block.resize(bytes as usize, 0);
            Ok(block)
        };
        match heaps.reserve(part, self.now, room) {
            Ok(mut slot) => {
                let range = slot.range();
                assert_eq!(range, part.offset..part.offset + part.length);
                let range = range.start as usize..range.end as usize;
                pattern::fill(key.number, part.offset, &mut slot.block()[range.clone()]);
                slot.commit(self.now);
                if !self.there.contains_key(&key) {
                    assert!(!self.remembers(key), "{key:?} was handed on, and begins again");
                }
                let there = self.there.entry(key).or_insert_with(|| vec![false; LARGEST as usize]);
                assert!(!there[range.clone()].contains(&true), "{key:?} {part:?} is written over another");
                there[range].fill(true);
            }
            Err(Reject::NoBuffer) => assert!(full, "refused memory that was free"),
            // It begins its heap all the same, so that what is lost is told.
            Err(Reject::OutOfOrder) => {
                self.there.entry(key).or_insert_with(|| vec![false; LARGEST as usize]);
            }
            Err(_) => {}
        }
    }

    /// Whether it is among the last that were handed on.
    fn remembers(&self, key: Key) -> bool {
        let from = self.given.len().saturating_sub(self.config.remember);
        let fresh = |when| self.now.since(when) < self.config.remember_for;
        self.given[from..].iter().any(|&(given, when)| given == key && fresh(when))
    }

    fn take_back(&mut self, heap: &Retired<Vec<u8>>) {
        let there = self.there.remove(&heap.key).expect("something of it came");
        let mut told = vec![true; heap.range.end as usize];
        for hole in &heap.missing {
            assert!(!hole.is_empty() && hole.end <= heap.range.end, "{heap:?}");
            told[hole.start as usize..hole.end as usize].fill(false);
        }
        let (within, beyond) = there.split_at(told.len());
        assert!(
            within == told && !beyond.contains(&true),
            "{:?}: {:?} is not missing",
            heap.key,
            heap.missing
        );
        assert_eq!(heap.received(), within.iter().filter(|&&there| there).count() as u64);
        assert_eq!(heap.cause == Cause::Complete, heap.size == Some(heap.received()), "{heap:?}");
        let mut want = vec![0; told.len()];
        pattern::fill(heap.key.number, 0, &mut want);
        assert!((0..told.len()).all(|at| !told[at] || heap.block[at] == want[at]), "bytes out of place");
        self.given.push((heap.key, self.now));
        self.blocks.set(self.blocks.get() - 1);
    }
}
