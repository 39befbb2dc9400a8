//! Any sequence of operations, on limits of any kind, against a model as plain as can be: a list of heaps, a flag for each
//! byte, a list of everything that was ever finished. Each answer and each heap that retires must be the model's.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LARGEST: u64 = 96;
const STEP: u64 = 8;

#[derive(Clone, Debug)]
enum Op {
    /// A part of a heap so far from where the stream is.
    Put {
        source: u64,
        beyond: u64,
        part: Placement,
        fate: Fate,
    },
    /// The parts of a heap, from one of them on and around, but each `lost`-th.
    Run {
        source: u64,
        beyond: u64,
        from: u64,
        lost: u64,
    },
    /// The stream goes on, or begins again.
    Go(i64),
    Time(u64),
    /// Let exactly what is due fall due.
    Due,
    Forget {
        source: u64,
        beyond: u64,
    },
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Commit,
    Drop,
    /// There is no memory.
    Full,
}

/// Most heaps agree on their size.
fn size_of(counter: u64) -> u64 {
    [STEP, 3 * STEP, 5 * STEP - 3, LARGEST][(counter % 4) as usize]
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
    (1usize..5, 1u64..4, any::<(bool, bool, bool)>(), times, 1u32..5).prop_map(
        |(window, substreams, (in_order, other, unsized_objects), (timeout, remember, keep), runs)| {
            KeyedConfig {
                window,
                substreams,
                in_order: in_order && other,
                unsized_objects,
                largest: LARGEST,
                timeout: timeout.map(Nanos),
                remember,
                remember_for: Nanos(keep),
                runs,
            }
        },
    )
}

/// What is told of a retired heap.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    key: Key,
    size: Option<u64>,
    there: Vec<bool>,
    first: u64,
    last: u64,
    cause: Cause,
}

struct Heap {
    key: Key,
    size: Option<u64>,
    /// Which heap of its source it was.
    turn: usize,
    /// The end of the furthest part that came too early, where order is wanted.
    missed: u64,
    room: u64,
    there: [bool; LARGEST as usize],
    first: u64,
    last: u64,
}

impl Heap {
    fn high(&self) -> u64 {
        self.there.iter().rposition(|&t| t).map_or(0, |at| at as u64 + 1)
    }

    fn runs(&self) -> usize {
        (0..LARGEST as usize).filter(|&at| self.there[at] && (at == 0 || !self.there[at - 1])).count()
    }

    fn range(part: Placement) -> Range<usize> {
        part.offset as usize..(part.offset + part.length) as usize
    }
}

struct Done {
    key: Key,
    when: u64,
    complete: bool,
    turn: usize,
    /// Another heap with its key began.
    gone: bool,
    bytes: u64,
    /// Of these, refused again.
    refused: u64,
}

struct Model {
    config: KeyedConfig,
    now: u64,
    /// In order of their first parts.
    live: Vec<Heap>,
    /// Everything that was ever finished.
    done: Vec<Done>,
    /// Bits of every counter; 0: they never come round.
    bits: u8,
    /// Of each source, the counters of all heaps that it began.
    begun: BTreeMap<u64, Vec<u64>>,
    /// Of each, heaps refused whole since one began.
    streak: BTreeMap<u64, u64>,
    /// Heaps that were refused whole.
    repeated: u64,
    /// Of each source, how many of `done` are forgotten.
    forgotten: BTreeMap<u64, usize>,
    told: VecDeque<Told>,
}

impl Model {
    fn remembered(&self, key: Key) -> Option<usize> {
        let from = self.done.len().saturating_sub(self.config.remember);
        let from = from.max(self.forgotten.get(&key.source).copied().unwrap_or(0));
        let fresh = |done: &Done| self.now - done.when < self.config.remember_for.0;
        let near = |done: &Done| self.bits == 0 || !self.is_back(key.source, done.turn, 4);
        (from..self.done.len()).find(|&at| {
            let done = &self.done[at];
            done.key == key && !done.gone && fresh(done) && near(done)
        })
    }

    /// Whether heap `turn` of the source began this part of a lap ago.
    fn is_back(&self, source: u64, turn: usize, part: usize) -> bool {
        let begun = self.begun.get(&source).map_or(&[][..], Vec::as_slice);
        // How many low bits stood still, from one heap to the next, in this stretch of 16 and the one before. Two of
        // eight steps may be anything.
        let from = (begun.len() / 16 * 16).saturating_sub(16).max(1);
        let steps = (from..begun.len()).map(|n| begun[n] ^ begun[n - 1]).filter(|&differ| differ != 0);
        let mut still: Vec<u32> = steps.map(u64::trailing_zeros).collect();
        still.sort_unstable();
        let typical = still.get(if still.len() >= 8 { 2 } else { 0 });
        let still = typical.map_or(self.bits.into(), |&still| still);
        let lap = 1usize << (u32::from(self.bits) - still);
        begun.len() - turn >= (lap / part).max(1)
    }

    fn begin(&mut self, key: Key) -> usize {
        let begun = self.begun.entry(key.source).or_default();
        begun.push(key.number);
        begun.len()
    }

    /// A packet of a finished heap is refused.
    fn refuse(&mut self, at: usize, bytes: u64) -> Reject {
        let done = &mut self.done[at];
        done.refused += bytes.max(1);
        let why = if done.complete { Reject::Duplicate } else { Reject::Late };
        if done.refused >= done.bytes {
            done.refused = 0;
            self.repeated += u64::from(self.now - done.when >= 100_000_000);
            let key = done.key;
            let streak = self.streak.entry(key.source).or_default();
            *streak += 1;
            if *streak > 16 {
                self.begin(key);
            }
        }
        why
    }

    fn substream(&self, key: Key) -> u64 {
        (if key.source == 0 { key.number } else { key.source }) % self.config.substreams
    }

    fn oldest_beyond(&self, key: Key) -> Option<usize> {
        let like = |heap: &&Heap| self.substream(heap.key) == self.substream(key);
        let full = self.live.iter().filter(like).count() >= self.config.window;
        if full { self.live.iter().position(|heap| like(&heap)) } else { None }
    }

    fn retire(&mut self, at: usize, cause: Cause) {
        let heap = self.live.remove(at);
        let bytes = heap.size.unwrap_or(heap.high().max(heap.missed));
        let (complete, turn) = (cause == Cause::Complete, heap.turn);
        self.done.push(Done {
            key: heap.key,
            when: self.now,
            complete,
            turn,
            gone: false,
            bytes,
            refused: 0,
        });
        self.told.push_back(Told {
            key: heap.key,
            size: heap.size,
            there: heap.there[..bytes as usize].to_vec(),
            first: heap.first,
            last: heap.last,
            cause,
        });
    }

    /// What the answer must be; what it changes, if the part is committed.
    fn put(&mut self, key: Key, part: Placement, fate: Fate) -> Result<(), Reject> {
        let config = self.config;
        let end = part.offset.checked_add(part.length).ok_or(Reject::Outside)?;
        if part.size.is_some_and(|size| size > LARGEST) || end > part.size.unwrap_or(LARGEST) {
            return Err(Reject::Outside);
        }
        let mut found = self.live.iter().position(|heap| heap.key == key);
        if found.is_none()
            && let Some(at) = self.remembered(key)
        {
            return Err(self.refuse(at, part.length));
        }
        if let Some(at) = found
            && self.bits > 0
            && self.is_back(key.source, self.live[at].turn, 2)
        {
            self.retire(at, Cause::Window);
            found = None;
        }
        if let Some(at) = found {
            let fits = Self::fits(&config, &self.live[at], part);
            if fits.is_err_and(|why| why != Reject::OutOfOrder) {
                return fits;
            }
            let heap = &mut self.live[at];
            let need = heap.size.or(part.size).unwrap_or(end);
            if need > heap.room && fate == Fate::Full {
                return Err(Reject::NoBuffer);
            }
            if need > heap.room {
                heap.room = if part.size.is_some() { need } else { need.max(heap.room * 2).min(LARGEST) };
            }
            if fits.is_err() {
                heap.size = heap.size.or(part.size);
                heap.missed = heap.missed.max(end);
                return fits;
            }
        } else {
            if part.size.is_none() && !config.unsized_objects {
                return Err(Reject::Unsized);
            }
            if fate == Fate::Full {
                if part.size != Some(part.length) {
                    self.oldest_beyond(key).into_iter().for_each(|at| self.retire(at, Cause::Window));
                }
                return Err(Reject::NoBuffer);
            }
            if config.in_order && part.offset > 0 && part.length > 0 {
                self.open(key, part);
                return Err(Reject::OutOfOrder);
            }
        }
        if fate == Fate::Drop {
            return Ok(());
        }
        let at = found.unwrap_or_else(|| self.open(key, part));
        let heap = &mut self.live[at];
        heap.size = heap.size.or(part.size);
        heap.there[Heap::range(part)].fill(true);
        heap.last = self.now;
        if heap.size == Some(heap.there.iter().filter(|&&t| t).count() as u64) {
            self.retire(at, Cause::Complete);
        }
        Ok(())
    }

    /// A heap with nothing in it.
    fn open(&mut self, key: Key, part: Placement) -> usize {
        if part.size != Some(part.length) {
            self.oldest_beyond(key).into_iter().for_each(|at| self.retire(at, Cause::Window));
        }
        let (first, there, end) = (self.now, [false; LARGEST as usize], part.offset + part.length);
        let room = part.size.unwrap_or(end);
        // Where its first part is taken, nothing is missed.
        let missed = if self.config.in_order && part.offset > 0 && part.length > 0 { end } else { 0 };
        self.done.iter_mut().filter(|done| done.key == key).for_each(|done| done.gone = true);
        self.streak.remove(&key.source);
        let turn = self.begin(key);
        self.live.push(Heap { key, size: part.size, turn, missed, room, there, first, last: first });
        self.live.len() - 1
    }

    fn fits(config: &KeyedConfig, heap: &Heap, part: Placement) -> Result<(), Reject> {
        let range = Heap::range(part);
        if let (Some(known), Some(told)) = (heap.size, part.size)
            && known != told
        {
            return Err(Reject::WrongSize);
        }
        if heap.size.is_some_and(|size| range.end as u64 > size)
            || part.size.is_some_and(|size| heap.high() > size)
        {
            return Err(Reject::Outside);
        }
        if range.is_empty() {
            return Ok(());
        }
        if config.in_order && part.offset > heap.high() {
            return Err(Reject::OutOfOrder);
        }
        match heap.there[range.clone()].iter().filter(|&&t| t).count() {
            0 => {}
            all if all == range.len() => return Err(Reject::Duplicate),
            _ => return Err(Reject::Overlap),
        }
        let joins = (range.start > 0 && heap.there[range.start - 1])
            || heap.there.get(range.end).is_some_and(|&there| there);
        if !joins && heap.runs() >= config.runs as usize { Err(Reject::Fragmented) } else { Ok(()) }
    }

    fn due(&self) -> Option<u64> {
        Some(self.live.first()?.first + self.config.timeout?.0)
    }

    fn pass(&mut self, now: u64) {
        self.now = self.now.max(now);
        while self.due().is_some_and(|due| due <= self.now) {
            self.retire(0, Cause::Timeout);
        }
    }

    fn forget(&mut self, start: Key) {
        let long = |since: u64, now: u64| now - since >= 100_000_000;
        let (now, source) = (self.now, start.source);
        let over = |heap: &Heap| source != 0 && heap.key.source == source && long(heap.last, now);
        let live = self.live.iter().any(|heap| heap.key == start && !over(heap));
        let fresh = self.remembered(start).is_some_and(|at| !long(self.done[at].when, now));
        if !live && !fresh {
            while let Some(at) = self.live.iter().position(over) {
                self.retire(at, Cause::Finish);
            }
            self.forgotten.insert(source, self.done.len());
        }
    }
}

/// A retired heap as the model tells it; its bytes must be its own.
fn tell(heap: &Retired<Vec<u8>>) -> Told {
    let mut there = vec![true; heap.range.end as usize];
    let mut from = None;
    for hole in &heap.missing {
        assert!(from.is_none_or(|from| from < hole.start) && hole.start < hole.end, "{:?}", heap.missing);
        there[hole.start as usize..hole.end as usize].fill(false);
        from = Some(hole.end);
    }
    assert_eq!(there.iter().filter(|&&t| t).count() as u64, heap.received());
    let mut want = vec![0; there.len()];
    pattern::fill(heap.key.number, 0, &mut want);
    let wrong = (0..there.len()).find(|&at| there[at] && heap.block[at] != want[at]);
    assert_eq!(wrong, None, "a byte of {:?} is not its own", heap.key);
    let (first, last) = (heap.first.0, heap.last.0);
    Told { key: heap.key, size: heap.size, there, first, last, cause: heap.cause }
}

struct Checked {
    heaps: Keyed<Vec<u8>>,
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
        streak: BTreeMap::new(),
        repeated: 0,
        forgotten: BTreeMap::new(),
        told: VecDeque::new(),
    };
    let mask = if bits == 0 { u64::MAX } else { (1 << bits) - 1 };
    let mut world = Checked { heaps: Keyed::new(config), model };
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
