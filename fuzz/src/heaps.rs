//! The target for the table of heaps: the bytes are its limits, then a script of parts and time.
//!
//! ```text
//!   4 octets: limits       5 octets: what · which heap · offset · length · size
//!   what & 7:  0‥3 a part that agrees with its heap   4 any part   5 time passes   6 a start   7 memory ends, or is back
//! ```
//!
//! Held: bytes lie where they belong, what was committed is what retires, what is missing is what was not committed, a
//! window never holds more than it may, nothing waits past its deadline, and no remembered heap comes twice.

use crate::windows::Attacked;
use skyhaul_core::assembly::{Cause, Counting, KeyedConfig, KeyedWindow, Retired};
use skyhaul_core::placement::{Key, Nanos, Placement, Reject};
use std::collections::BTreeSet;

const LARGEST: u64 = 300;
/// Of one step of the script's clock.
const STEP: u64 = 1 << 20;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Heaps of three parts in order, of one part, and in turn.
    let series: Vec<u8> = (0..90u8).flat_map(|n| [0, n / 3, n % 3 * 8, 8, 24]).collect();
    let single: Vec<u8> = (0..90u8).flat_map(|n| [0, n, 0, 8, 8]).collect();
    let turns: Vec<u8> =
        (0..90u8).flat_map(|n| [n % 2 * 5, n % 4 + n / 12 * 4, n / 4 % 3 * 8, 8, 24]).collect();
    let limits = [[0x12, 0, 0xFF, 0], [0x25, 0x11, 4, 1], [0x81, 0x10, 0, 0]];
    let scripts = [series, single, turns];
    limits.iter().zip(scripts).map(|(limits, script)| [&limits[..], &script].concat()).collect()
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((&[first, second, remember, third], script)) = bytes.split_first_chunk() else { return };
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
        counting: if third & 1 == 0 { Counting::Incomplete } else { Counting::Begun },
        // Two sizes of one object: the simulated worlds forge those.
        contest: None,
    };
    let mut attacked = Attacked::new(KeyedWindow::new(config), LARGEST);
    let mut books = Books { config, ..Books::default() };
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
                books.put(&mut attacked, Placement { key, offset, length, size, ..Placement::default() });
            }
            4 => {
                let size = (what & 8 != 0).then_some(size * 2);
                let offset = if what & 16 != 0 { u64::MAX - offset } else { offset };
                books.put(&mut attacked, Placement { key, offset, length, size, ..Placement::default() });
            }
            5 => attacked.pass(offset * STEP / 4),
            6 => {
                // What this retires is forgotten as well.
                attacked.window.forget(key, attacked.now);
                let out = attacked.drain();
                books.take_back(&attacked, &out);
                books.given.clear();
            }
            _ => attacked.full = !attacked.full,
        }
        let out = attacked.drain();
        books.take_back(&attacked, &out);
        assert!(attacked.blocks as u64 <= config.window as u64 * config.substreams);
    }
    let live = attacked.blocks;
    assert_eq!((books.begun.len(), attacked.end().len()), (live, live), "heaps stayed behind");
}

/// What is under construction, and what was.
#[derive(Default)]
struct Books {
    config: KeyedConfig,
    /// Heaps that are not handed on yet.
    begun: BTreeSet<Key>,
    /// When heaps were handed on, in order, since something was last forgotten.
    given: Vec<(Key, Nanos)>,
}

impl Books {
    fn put(&mut self, attacked: &mut Attacked<KeyedWindow<Vec<u8>>>, part: Placement) {
        let key = part.key;
        let covered = part.length > 0 && attacked.ledger.overlaps(&part);
        match attacked.put(part) {
            Ok(()) => {
                assert!(!covered, "{part:?} is written over another");
                let fresh = self.begun.insert(key);
                assert!(
                    !fresh || !self.remembers(key, attacked.now),
                    "{key:?} was handed on, and begins again"
                );
            }
            // Its heap begins all the same, so that the loss is reported.
            Err(Reject::OutOfOrder) if self.config.counting == Counting::Incomplete => {
                self.begun.insert(key);
            }
            Err(_) => {}
        }
    }

    /// Whether it is among the last that were handed on, and may not begin again.
    fn remembers(&self, key: Key, now: Nanos) -> bool {
        if self.config.counting == Counting::Begun {
            return false;
        }
        let from = self.given.len().saturating_sub(self.config.remember);
        let fresh = |when| now.since(when) < self.config.remember_for;
        self.given[from..].iter().any(|&(given, when)| given == key && fresh(when))
    }

    fn take_back(&mut self, attacked: &Attacked<KeyedWindow<Vec<u8>>>, heaps: &[Retired<Vec<u8>>]) {
        for heap in heaps {
            assert!(self.begun.remove(&heap.key), "nothing of {:?} came", heap.key);
            assert!(attacked.ledger.parts(heap.key).next().is_none(), "{heap:?} lacks what came");
            assert_eq!(heap.cause == Cause::Complete, heap.size == Some(heap.received()), "{heap:?}");
            self.given.push((heap.key, attacked.now));
        }
    }
}
