//! Holds for any window: whatever is put into it, each committed byte is retired once, in its place.

use super::*;
use crate::pattern;
use crate::placement::{Geometry, Grain};
use proptest::prelude::*;
use std::collections::BTreeMap;

const UNIT: u64 = 16;
const OBJECT: u64 = 6 * UNIT;

/// Puts every packet of `order` (object, unit) into the window, one each microsecond, and takes what retires.
fn play<W: Window<Vec<u8>>>(mut window: W, order: &[(u64, u64)]) -> Result<(), TestCaseError> {
    let mut waiting = BTreeMap::<(u64, u64), i32>::new();
    for (n, &(number, unit)) in order.iter().enumerate() {
        let now = Nanos(n as u64 * 1000);
        let key = Key::of(number);
        let part =
            Placement { key, offset: unit * UNIT, length: UNIT, size: Some(OBJECT), ..Placement::default() };
        let room = |bytes: u64, old: Option<Vec<u8>>| {
            let mut block = old.unwrap_or_default();
            block.resize(bytes as usize, 0);
            Ok(block)
        };
        if let Ok(mut slot) = window.reserve(part, now, room) {
            let range = slot.range();
            prop_assert_eq!(&range, &(part.offset..part.offset + UNIT));
            pattern::fill(number, range.start, &mut slot.block()[range.start as usize..range.end as usize]);
            slot.commit(now);
            *waiting.entry((number, unit)).or_default() += 1;
        }
        if n % 7 == 0 {
            window.handle_timeout(now);
        }
        take(&mut window, &mut waiting)?;
    }
    window.finish(Nanos(order.len() as u64 * 1000));
    take(&mut window, &mut waiting)?;
    prop_assert!(waiting.values().all(|&left| left == 0), "every committed byte comes out");
    prop_assert_eq!((window.held(), window.poll_timeout()), (0, None));
    Ok(())
}

fn take<W: Window<Vec<u8>>>(
    window: &mut W,
    waiting: &mut BTreeMap<(u64, u64), i32>,
) -> Result<(), TestCaseError> {
    while let Some(retired) = window.poll_retired() {
        let complete = retired.missing.is_empty() && retired.range == (0..OBJECT);
        prop_assert!(complete || !retired.is_complete(), "{:?}", retired);
        let mut came = 0;
        for at in retired.range.clone().step_by(UNIT as usize) {
            if retired.missing.iter().any(|missing| missing.contains(&at)) {
                continue;
            }
            let bytes = &retired.block[at as usize..(at + UNIT) as usize];
            prop_assert_eq!(pattern::first_error(retired.key.number, at, bytes), None);
            *waiting.entry((retired.key.number, at / UNIT)).or_default() -= 1;
            came += UNIT;
        }
        prop_assert_eq!(came, retired.received());
    }
    prop_assert!(waiting.values().all(|&left| left >= 0), "no byte comes out twice");
    Ok(())
}

proptest! {
    #[test]
    fn each_committed_byte_comes_out_once(
        order in proptest::collection::vec((0u64..12, 0..OBJECT / UNIT), 0..300), sorted: bool, size in 1usize..5,
    ) {
        let mut order = order;
        if sorted {
            order.sort_unstable();
        }
        let grain = Grain::Units(UNIT as u32);
        let geometry = Geometry { object_bytes: OBJECT, grain };
        play(Ordered::new(OrderedConfig { window: size, ahead: 3, ..OrderedConfig::new(geometry) }), &order)?;
        let keyed = KeyedConfig { window: size, timeout: Some(Nanos(100_000)), remember: 0, ..KeyedConfig::default() };
        play(KeyedWindow::new(keyed), &order)?;
    }
}

#[test]
fn causes_have_names_of_their_own_in_the_order_of_their_numbers() {
    let names: std::collections::BTreeSet<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    assert!(Cause::ALL.iter().enumerate().all(|(n, &cause)| cause as usize == n));
    assert!(Cause::KEYED.iter().enumerate().all(|(n, &cause)| cause as usize == n));
}
