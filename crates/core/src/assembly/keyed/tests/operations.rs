//! Random operations, compared with the model.

use super::model::*;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    /// A part of a heap at this distance from the stream's position.
    Put {
        source: u64,
        beyond: u64,
        part: Placement,
        fate: Fate,
    },
    /// All parts of a heap, beginning with any of them, except each `lost`-th.
    Run {
        source: u64,
        beyond: u64,
        from: u64,
        lost: u64,
    },
    /// The stream advances, or begins again.
    Go(i64),
    Time(u64),
    /// Advance the time to the next deadline.
    Due,
    Forget {
        source: u64,
        beyond: u64,
    },
    Finish,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let who = (0u64..2, 0u64..7);
    let size = prop_oneof![3 => Just(None), 1 => (0..LARGEST + 9).prop_map(Some)];
    let fate = prop_oneof![8 => Just(Fate::Commit), 1 => Just(Fate::Drop), 1 => Just(Fate::Full)];
    let offset = prop_oneof![9 => 0..LARGEST + 9, 1 => any::<u64>()];
    let put = (who.clone(), offset, 0u64..30, size, fate).prop_map(
        |((source, beyond), offset, length, size, fate)| Op::Put {
            source,
            beyond,
            part: Placement { offset, length, size, ..Placement::default() },
            fate,
        },
    );
    let run = (who.clone(), 0u64..12, 1u64..9).prop_map(|((source, beyond), from, lost)| Op::Run {
        source,
        beyond,
        from,
        lost,
    });
    let op = prop_oneof![
        6 => put,
        6 => run,
        2 => (-3i64..5).prop_map(Op::Go),
        2 => prop_oneof![0u64..50, 0u64..2000, Just(99_999_999), Just(100_000_000)].prop_map(Op::Time),
        1 => Just(Op::Due),
        1 => who.prop_map(|(source, beyond)| Op::Forget { source, beyond }),
        1 => Just(Op::Finish),
    ];
    proptest::collection::vec(op, 1..150)
}

fn limits() -> impl Strategy<Value = KeyedConfig> {
    let keep = prop_oneof![0u64..900, Just(u64::MAX)];
    let times = (proptest::option::weighted(0.8, prop_oneof![0u64..500, Just(1 << 40)]), 0usize..12, keep);
    (1usize..5, 1u64..4, any::<(bool, bool, bool, bool)>(), times, 1u32..5).prop_map(
        |(window, substreams, (in_order, other, unsized_objects, begun), (timeout, remember, keep), runs)| {
            KeyedConfig {
                window,
                counting: if begun { Counting::Begun } else { Counting::Incomplete },
                substreams,
                in_order: in_order && other,
                unsized_objects,
                largest: LARGEST,
                timeout: timeout.map(Nanos),
                remember,
                remember_for: Nanos(keep),
                runs,
                contest: None,
            }
        },
    )
}

struct Checked {
    heaps: KeyedWindow<Vec<u8>>,
    model: Model,
}

impl Checked {
    fn put(&mut self, key: Key, part: Placement, fate: Fate) {
        let now = Nanos(self.model.now);
        let part = Placement { number_bits: self.model.bits, ..part };
        let want = self.model.put(key, part, fate);
        let room = |bytes, old| if fate == Fate::Full { Err(old) } else { enough(bytes, old) };
        let got = self.heaps.reserve(Placement { key, ..part }, now, room).map(|mut slot| {
            let range = slot.range();
            let bytes = &mut slot.block()[range.start as usize..range.end as usize];
            if fate != Fate::Drop {
                pattern::fill(key.number, range.start, bytes);
                slot.commit(now);
            }
        });
        assert_eq!(got, want, "{key:?} {part:?} {fate:?}");
    }

    fn run(&mut self, key: Key, from: u64, lost: u64) {
        let size = size_of(key.number);
        let count = size.div_ceil(STEP);
        for n in (0..count).map(|n| (n + from) % count).filter(|n| (n + 1) % lost != 0 || lost == 1) {
            let offset = n * STEP;
            let length = STEP.min(size - offset);
            self.put(
                key,
                Placement { offset, length, size: Some(size), ..Placement::default() },
                Fate::Commit,
            );
        }
    }

    fn check(&mut self) {
        while let Some(heap) = self.heaps.poll_retired() {
            assert_eq!(Some(tell(&heap)), self.model.told.pop_front());
        }
        assert_eq!(self.model.told.pop_front(), None);
        assert_eq!(self.heaps.live(), self.model.live.len());
        assert_eq!(self.heaps.poll_timeout(), self.model.due().map(Nanos));
        assert_eq!(self.heaps.take_repeated(), std::mem::take(&mut self.model.repeated));
    }
}

fn play(config: KeyedConfig, bits: u8, ops: &[Op]) {
    let model = Model {
        config,
        now: 0,
        live: Vec::new(),
        done: Vec::new(),
        bits,
        begun: BTreeMap::new(),
        opened: BTreeMap::new(),
        streak: BTreeMap::new(),
        repeated: 0,
        forgotten: BTreeMap::new(),
        told: VecDeque::new(),
    };
    let mask = if bits == 0 { u64::MAX } else { (1 << bits) - 1 };
    let mut world = Checked { heaps: KeyedWindow::new(config), model };
    let mut at = 1000u64;
    for op in ops {
        let key = |source: u64, beyond: u64| Key { source, number: (at + beyond) & mask };
        match *op {
            Op::Put { source, beyond, part, fate } => world.put(key(source, beyond), part, fate),
            Op::Run { source, beyond, from, lost } => world.run(key(source, beyond), from, lost),
            Op::Go(by) => at = at.saturating_add_signed(by),
            Op::Time(by) => {
                world.model.pass(world.model.now + by);
                world.heaps.handle_timeout(Nanos(world.model.now));
            }
            Op::Due => {
                let due = world.model.due().unwrap_or(world.model.now).max(world.model.now);
                world.model.pass(due);
                world.heaps.handle_timeout(Nanos(due));
            }
            Op::Forget { source, beyond } => {
                world.model.forget(key(source, beyond));
                world.heaps.forget(key(source, beyond), Nanos(world.model.now));
            }
            Op::Finish => {
                while !world.model.live.is_empty() {
                    world.model.retire(0, Cause::Finish);
                }
                world.heaps.finish(Nanos(world.model.now));
            }
        }
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn it_answers_as_the_model_does(config in limits(), bits in prop_oneof![Just(0u8), 2u8..6, Just(8)], ops in ops()) {
        play(config, bits, &ops);
    }
}
