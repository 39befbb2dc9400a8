//! All the worlds of a few packets: each fault at each of them, alone and in pairs.
//!
//! ```text
//!   kind of stream × limits × fault at packet i × fault at packet j        small world n, always the same
//! ```

use super::objects::Objects;
use super::stream::{Id, Shape, Told};
use crate::network::{Arrival, Network, Origin};
use crate::random::Random;
use crate::world::World;
use skyhaul_core::assembly::KeyedConfig;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::keyed::Keyed;

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is lost.
    Lose(usize),
    /// It comes again, behind the one so many after it.
    Double(usize, usize),
    /// It comes behind the one so many after it.
    Delay(usize, usize),
    /// It comes 1.5 s late: behind all others, after its object's deadline.
    Late(usize),
    /// It and all after it come 1.5 s late.
    Stall(usize),
    /// It and all after it never come.
    End(usize),
}

const MILLISECOND: u64 = 1_000_000;
const LATE: Nanos = Nanos(1500 * MILLISECOND);

/// Every fault that can happen to a stream of `count` packets; the first is none.
pub fn faults(count: usize) -> Vec<Option<Fault>> {
    let mut out = vec![None];
    for at in 0..count {
        out.extend([Fault::Lose(at), Fault::Late(at), Fault::Stall(at), Fault::End(at)].map(Some));
        for by in 0..count - at {
            out.push(Some(Fault::Double(at, by)));
            out.extend((by > 0).then_some(Some(Fault::Delay(at, by))));
        }
    }
    out
}

fn shape(senders: u64, objects: u64, packets: u64, in_turn: usize, told: Told) -> Shape {
    Shape {
        senders,
        objects,
        packets,
        equal: true,
        payload: 8,
        in_turn,
        told: Some(told),
        alike: senders > 1,
        step: 1,
        runs: 1,
        gap: Nanos(MILLISECOND),
        pause: Nanos(0),
    }
}

/// Every kind of stream.
pub fn shapes() -> Vec<Shape> {
    vec![
        shape(1, 3, 3, 1, Told::Always),
        shape(1, 3, 3, 3, Told::First),
        shape(1, 3, 3, 2, Told::Last),
        shape(1, 3, 3, 1, Told::Never),
        shape(1, 8, 1, 1, Told::Always),
        shape(2, 2, 2, 2, Told::Always),
        Shape { equal: false, ..shape(1, 4, 4, 2, Told::Always) },
    ]
}

/// Every choice of limits.
pub fn limits() -> Vec<KeyedConfig> {
    let mut out = Vec::new();
    for window in [1, 2, 16] {
        for in_order in [false, true] {
            for timeout in [None, Some(Nanos::SECOND)] {
                for (unsized_objects, remember) in [(true, 64), (false, 64), (true, 0)] {
                    let limits =
                        KeyedConfig { window, in_order, timeout, unsized_objects, ..KeyedConfig::default() };
                    out.push(KeyedConfig { remember, remember_for: Nanos(u64::MAX), ..limits });
                }
            }
        }
    }
    out
}

/// The senders of one kind of stream, to a receiver with these limits.
pub fn side<W: Keyed>(kind: usize, config: KeyedConfig) -> Objects<W> {
    let shape = &shapes()[kind];
    Objects::new(0, shape, shape.senders > 1, config, Nanos(0), &mut Random(kind as u64))
}

/// The world in which `first` happens, and then `second`.
pub fn world<W: Keyed>(
    kind: usize,
    config: KeyedConfig,
    first: Option<Fault>,
    second: Option<Fault>,
) -> World<Objects<W>> {
    let side = side(kind, config);
    let mut arrivals: Vec<(usize, Arrival<Id>)> = (side.stream.order.iter().enumerate())
        .map(|(n, &(at, id))| (n, Arrival { at, origin: Origin::Sent(id) }))
        .collect();
    for fault in [first, second].into_iter().flatten() {
        apply(&mut arrivals, fault);
    }
    let mut arrivals: Vec<_> = arrivals.into_iter().map(|(_, arrival)| arrival).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let stops = side.stream.senders;
    World { stops, ..World::plain(0, side, Network::default(), arrivals, 1 << 20) }
}

/// Packets keep the numbers in order of sending that they came with.
fn apply(arrivals: &mut Vec<(usize, Arrival<Id>)>, fault: Fault) {
    let by = |packets: usize| Nanos(packets as u64 * MILLISECOND + MILLISECOND / 2);
    let mut delay = |which: &dyn Fn(usize) -> bool, by: Nanos| {
        let moved = arrivals.iter_mut().filter(|(n, _)| which(*n));
        moved.for_each(|(_, arrival)| arrival.at = arrival.at.plus(by));
    };
    match fault {
        Fault::Lose(which) => arrivals.retain(|(n, _)| *n != which),
        Fault::End(from) => arrivals.retain(|(n, _)| *n < from),
        Fault::Double(which, behind) => {
            let copies: Vec<_> = arrivals.iter().filter(|(n, _)| *n == which).copied().collect();
            let again = |(n, a): (usize, Arrival<Id>)| (n, Arrival { at: a.at.plus(by(behind)), ..a });
            arrivals.extend(copies.into_iter().map(again));
        }
        Fault::Delay(which, behind) => delay(&|n| n == which, by(behind)),
        Fault::Late(which) => delay(&|n| n == which, LATE),
        Fault::Stall(from) => delay(&|n| n >= from, LATE),
    }
}

/// Every small world with one fault, and of those with two each `every`-th. Each with what it is called.
pub fn worlds<W: Keyed>(every: usize) -> impl Iterator<Item = (String, World<Objects<W>>)> {
    (0..shapes().len()).flat_map(move |kind| {
        limits().into_iter().enumerate().flat_map(move |(limit, config)| {
            let faults = faults(side::<W>(kind, config).stream.order.len());
            let count = faults.len();
            let chosen = move |n: &usize| n.is_multiple_of(count) || (n + limit).is_multiple_of(every.max(1));
            (0..count * count).filter(chosen).map(move |n| {
                let (first, second) = (faults[n / count], faults[n % count]);
                let name = format!("stream {kind}, limits {limit}, {first:?}, {second:?}");
                (name, world(kind, config, first, second))
            })
        })
    })
}
