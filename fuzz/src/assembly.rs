//! Targets for the ordered window: the bytes are a script of packets and time, checked against a ledger.
//!
//! ```text
//!   3 octets: what · number (little-endian, relative to where the script is)
//!   what & 7:  0‥3 a packet near the script's place   4 far ahead   5 far back   6 time passes   7 no free block
//! ```
//!
//! Held: a block is never written out of turn (its bytes verify), parts retire in order and each once, what was
//! committed is what retires, blocks in use stay within the window and one suspect.

use crate::windows::Attacked;
use skyhaul_core::assembly::{Cause, Ordered, OrderedConfig, Retired};
use skyhaul_core::placement::{Geometry, Grain, Key, Placement};

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
    let mut attacked = Attacked::new(Ordered::new(config), OBJECT);
    let mut at = 1000u64;
    // Where the last part of the stream ended: epoch, object, byte.
    let mut last = (0, 0, 0);
    for step in script.chunks_exact(3) {
        let amount = u64::from(u16::from_le_bytes([step[1], step[2]]));
        match step[0] & 7 {
            0..4 => at = at.wrapping_add(amount % 64).wrapping_sub(amount / 64 % 8),
            4 => at = at.wrapping_add(amount << 20),
            5 => at = at.saturating_sub(amount << 4),
            6 => attacked.pass(amount << 20),
            _ => attacked.full = !attacked.full,
        }
        if step[0] & 7 < 6 {
            // The window, and one suspect, besides what retires with this.
            let _ = attacked.put(place(at, step[0]));
            in_order(&attacked.drain(), &mut last);
            assert!(attacked.blocks <= config.window + 1, "{} blocks are out", attacked.blocks);
        } else {
            attacked.pass(0);
            in_order(&attacked.drain(), &mut last);
        }
    }
    in_order(&attacked.end(), &mut last);
}

fn in_order(parts: &[Retired<Vec<u8>>], last: &mut (u32, u64, u64)) {
    for part in parts.iter().filter(|part| part.cause != Cause::Stray) {
        let begins = (part.epoch, part.key.number, part.range.start);
        assert!(*last <= begins, "{begins:?} after {last:?}");
        *last = (part.epoch, part.key.number, part.range.end);
    }
}
