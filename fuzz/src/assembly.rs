//! Targets for the assembly: the bytes are a script of packets and time, checked against a model.
//!
//! ```text
//!   3 octets: what · number (little-endian, relative to where the script is)
//!   what & 7:  0‥3 a packet near the script's place   4 far ahead   5 far back   6 time passes   7 no free block
//! ```
//!
//! Held: a block is never written out of turn (its bytes verify), parts retire in order and each once, what was
//! committed is what retires, blocks in use stay within the window and one suspect.

use skyhaul_core::assembly::{Cause, Ordered, OrderedConfig, Retired, Slot, Window};
use skyhaul_core::pattern;
use skyhaul_core::placement::{Geometry, Grain, Key, Nanos, Placement, Reject};
use std::cell::Cell;

const UNIT: u64 = 16;
const UNITS: u64 = 10;
const OBJECT: u64 = UNIT * UNITS;

/// Equal parts, as frames are.
pub(crate) fn units(script: &[u8]) {
    run(script, Grain::Units(UNIT as u32), |n, _| Placement {
        key: Key::of(n / UNITS),
        offset: n % UNITS * UNIT,
        length: UNIT,
        ..Placement::default()
    });
}

/// Any byte ranges, as heaps have. Every packet agrees on its object's size, but not every packet tells it.
pub(crate) fn bytes(script: &[u8]) {
    run(script, Grain::Bytes(4), |n, what| {
        let object = n / 8;
        // Some objects are one packet: they retire as soon as they come.
        let single = object % 3 == 2;
        let size = if single { 7 } else { OBJECT - (object & 1) };
        let offset = if single { 0 } else { n.wrapping_mul(7) % (OBJECT + 3) };
        let length = if single { 7 } else { 1 + u64::from(what >> 3) };
        let told = single || what & 0x40 != 0 || offset + length > size;
        Placement { key: Key::of(object), offset, length, size: told.then_some(size), ..Placement::default() }
    });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let forward: Vec<u8> = (0..120).flat_map(|_| [0, 1, 0]).collect();
    let mut jump = forward.clone();
    jump.extend([4, 200, 0]);
    jump.extend(&forward);
    let mut back = forward.clone();
    back.extend([5, 200, 0, 6, 1, 0]);
    back.extend(&forward);
    vec![forward, jump, back]
}

fn run(script: &[u8], grain: Grain, place: impl Fn(u64, u8) -> Placement) {
    let config = OrderedConfig {
        window: 3,
        resync: 8,
        ..OrderedConfig::new(Geometry { object_bytes: OBJECT, grain })
    };
    let mut assembly = Ordered::<Vec<u8>>::new(config);
    let mut world = World::default();
    let (mut at, mut now, mut free) = (1000u64, Nanos(0), true);
    for step in script.chunks_exact(3) {
        let amount = u64::from(u16::from_le_bytes([step[1], step[2]]));
        match step[0] & 7 {
            0..4 => at = at.wrapping_add(amount % 64).wrapping_sub(amount / 64 % 8),
            4 => at = at.wrapping_add(amount << 20),
            5 => at = at.saturating_sub(amount << 4),
            6 => now = now.plus(Nanos(amount << 20)),
            _ => free = !free,
        }
        if step[0] & 7 < 6 {
            world.put(&mut assembly, place(at, step[0]), now, free);
        } else {
            assembly.handle_timeout(now);
        }
        while let Some(part) = assembly.poll_retired() {
            world.take_back(&part);
        }
    }
    assembly.finish(now);
    while let Some(part) = assembly.poll_retired() {
        world.take_back(&part);
    }
    assert_eq!(world.committed, world.retired, "what was committed is not what retired");
    assert_eq!(world.out.get(), 0, "blocks stayed behind");
}

#[derive(Default)]
struct World {
    committed: u64,
    retired: u64,
    /// Blocks in the assembly's hands.
    out: Cell<usize>,
    /// Where the last part of the stream ended: epoch, object, byte.
    last: Option<(u32, u64, u64)>,
}

impl World {
    fn put(&mut self, assembly: &mut Ordered<Vec<u8>>, placement: Placement, now: Nanos, free: bool) {
        let room = |bytes: u64, old| {
            self.out.set(self.out.get() + usize::from(free));
            if free { Ok(vec![0; bytes as usize]) } else { Err(old) }
        };
        match assembly.reserve(placement, now, room) {
            Ok(mut slot) => {
                let range = slot.range().start as usize..slot.range().end as usize;
                assert_eq!(range.len(), placement.length as usize);
                pattern::fill(placement.key.number, placement.offset, &mut slot.block()[range]);
                slot.commit(now);
                self.committed += placement.length;
            }
            Err(Reject::NoBuffer) => assert!(!free, "refused a block that was free"),
            Err(_) => {}
        }
        // The window, one suspect, and what retires with this call.
        assert!(self.out.get() <= 9, "{} blocks are out", self.out.get());
    }

    fn take_back(&mut self, part: &Retired<Vec<u8>>) {
        self.retired += part.received();
        let mut expected = vec![0; OBJECT as usize];
        pattern::fill(part.key.number, 0, &mut expected);
        let mut from = part.range.start;
        for hole in part.missing.iter().cloned().chain(std::iter::once(part.range.end..part.range.end)) {
            assert!(from <= hole.start && hole.end <= part.range.end, "{part:?}");
            let here = from as usize..hole.start as usize;
            assert_eq!(part.block[here.clone()], expected[here], "bytes out of place");
            from = hole.end;
        }
        if part.cause != Cause::Stray {
            let begins = (part.epoch, part.key.number, part.range.start);
            assert!(self.last.is_none_or(|last| last <= begins), "{begins:?} after {:?}", self.last);
            self.last = Some((part.epoch, part.key.number, part.range.end));
        }
        // A slowly filling object retires in parts, each with a block of its own.
        self.out.set(self.out.get() - 1);
    }
}
