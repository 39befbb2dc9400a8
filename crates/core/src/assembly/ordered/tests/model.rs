//! Arbitrary sequences of operations, including those that no stream makes, compared with the simplest possible model:
//! what was committed waits in a map until it retires.

use super::*;

const OBJECT: u64 = UNIT * UNITS;

#[derive(Clone, Debug)]
enum Op {
    /// A payload whose object is this far from the stream's current position.
    Put {
        object: i64,
        offset: u64,
        length: u64,
        size: Option<u64>,
        drop: bool,
        block: bool,
    },
    /// A whole object in order, less one part in `every`.
    Run {
        every: u64,
    },
    /// The stream goes somewhere else.
    Go(u64),
    Time(u64),
    Finish,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let put = (-6i64..6, 0..OBJECT + 20, 0u64..40, proptest::option::weighted(0.3, 0..OBJECT + 50), 0u8..20);
    let put = put.prop_map(|(object, offset, length, size, odd)| Op::Put {
        object,
        // Many are whole objects of one part.
        offset: if odd > 12 { 0 } else { offset },
        length: if odd > 12 { UNIT } else { length },
        size: if odd > 12 { Some(UNIT) } else { size },
        drop: odd == 0,
        block: odd != 1,
    });
    let go =
        prop_oneof![Just(u64::MAX), Just(u64::MAX - 2), Just(0), 0u64..100, any::<u64>()].prop_map(Op::Go);
    let op = prop_oneof![
        8 => put,
        4 => (1u64..12).prop_map(|every| Op::Run { every }),
        1 => go,
        2 => prop_oneof![0u64..10_000_000_000, 0u64..300_000_000].prop_map(Op::Time),
        1 => Just(Op::Finish),
    ];
    proptest::collection::vec(op, 1..120)
}

struct Checked {
    a: Ordered<Vec<u8>>,
    grain: Grain,
    now: Nanos,
    /// How often each byte (object, offset) was committed and not yet retired: in the window and in a suspect.
    waiting: BTreeMap<(u64, u64), u32>,
    out: usize,
    window: usize,
    last: Option<(u32, Mark)>,
}

impl Checked {
    fn put(&mut self, p: Placement, drop: bool, block: bool) {
        let mut taken = 0;
        let outcome = self.a.reserve(p, self.now, |_, old| {
            taken += usize::from(block);
            if block { Ok(vec![0xDD; OBJECT as usize]) } else { Err(old) }
        });
        if let Ok(mut slot) = outcome {
            let range = span(&slot);
            assert_eq!((range.start as u64, range.len()), (p.offset, p.length as usize));
            if !drop {
                pattern::fill(p.key.number, p.offset, &mut slot.block()[range]);
                slot.commit(self.now);
                for byte in p.offset..p.offset + p.length {
                    *self.waiting.entry((p.key.number, byte)).or_default() += 1;
                }
            }
        }
        assert!(taken <= 2, "a packet took {taken} blocks");
        self.out += taken;
        self.drain();
        assert!(self.a.live.len() <= self.window && self.out <= self.window + 1, "{} blocks", self.out);
        assert!(self.a.live.iter().map(|l| l.number).is_sorted_by(|a, b| a < b), "the window is in order");
    }

    fn drain(&mut self) {
        while let Some(r) = self.a.poll_retired() {
            self.out -= 1;
            let mut from = r.range.start;
            let holes = r.missing.iter().cloned().chain(std::iter::once(r.range.end..r.range.end));
            for hole in holes.collect::<Vec<_>>() {
                assert!(from <= hole.start && hole.end <= r.range.end, "{r:?}");
                let here = &r.block[from as usize..hole.start as usize];
                assert_eq!(pattern::first_error(r.key.number, from, here), None, "{r:?}");
                self.settle(r.key.number, from..hole.start);
                from = hole.end;
            }
            if r.cause == Cause::Stray {
                continue;
            }
            let (start, end) =
                ([r.range.start, r.range.end]).map(|offset| Mark { number: r.key.number, offset }).into();
            match self.last {
                Some((epoch, last)) if epoch == r.epoch => {
                    assert!(
                        last <= start && r.after.is_some_and(|after| last <= after && after <= start),
                        "{r:?}"
                    );
                }
                _ => assert!(r.after.is_none(), "{r:?}"),
            }
            self.last = Some((r.epoch, end));
        }
    }

    fn settle(&mut self, object: u64, range: Range<u64>) {
        for byte in range {
            let left = self.waiting.get_mut(&(object, byte)).filter(|left| **left > 0);
            *left.unwrap_or_else(|| panic!("byte {byte} of object {object} was never committed")) -= 1;
        }
    }

    fn pass(&mut self, span: u64) {
        let until = Nanos(self.now.0.saturating_add(span).min(u64::MAX / 2));
        let mut rounds = 0;
        while let Some(due) = self.a.poll_timeout().filter(|&due| due <= until) {
            self.now = self.now.max(due);
            self.a.handle_timeout(self.now);
            assert!(self.a.poll_timeout().is_none_or(|next| next > self.now), "due for ever");
            self.drain();
            rounds += 1;
            assert!(rounds < 1000, "time does not end");
        }
        self.now = until;
    }

    fn go(&mut self, op: &Op, here: &mut u64) {
        match *op {
            Op::Go(object) => *here = object,
            Op::Time(span) => self.pass(span),
            Op::Finish => {
                self.a.finish(self.now);
                self.drain();
                assert_eq!(self.out, 0, "every block comes back");
                assert!(self.waiting.values().all(|&left| left == 0), "every byte comes out");
            }
            Op::Run { every } => {
                for unit in (0..UNITS).filter(|unit| unit % every != every - 1 || every == 1) {
                    let object = *here;
                    let p = Placement {
                        key: Key::of(object),
                        offset: unit * UNIT,
                        length: UNIT,
                        ..Placement::default()
                    };
                    self.put(Placement { size: Some(OBJECT), ..p }, false, true);
                }
                *here = here.saturating_add(1);
            }
            Op::Put { object, offset, length, size, drop, block } => {
                let key = Key::of(here.saturating_add_signed(object));
                // Units are whole most of the time, so that most are taken.
                let (offset, length) = match self.grain {
                    Grain::Units(_) if length > 4 => (offset / UNIT * UNIT, UNIT),
                    _ => (offset, length),
                };
                self.put(Placement { key, offset, length, size, ..Placement::default() }, drop, block);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 40_000 }))]

    #[test]
    fn whatever_is_done_each_committed_byte_retires_once(
        ops in ops(), window in 1usize..6, ahead in prop_oneof![0u64..4, Just(u64::MAX)], confirm in 0u32..10,
        resync in prop_oneof![0u32..12, Just(u32::MAX)], open_ended: bool, bytes: bool,
    ) {
        let grain = if bytes { Grain::Bytes(4) } else { Grain::Units(UNIT as u32) };
        let geometry = Geometry { object_bytes: OBJECT, grain };
        let config = OrderedConfig { window, ahead, confirm, resync, open_ended, ..OrderedConfig::new(geometry) };
        let a = Ordered::new(config);
        let mut checked = Checked { a, grain, now: Nanos(5), waiting: BTreeMap::new(), out: 0, window, last: None };
        let mut here = 50;
        for op in ops.iter().chain([&Op::Finish]) {
            checked.go(op, &mut here);
        }
    }
}
