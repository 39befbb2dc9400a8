//! What must hold of senders that share a link: worlds by seed, and what is measured of them.
//!
//! ```
//! use skyhaul_sim::rate;
//! let world = rate::World::random(7);
//! let rows = world.link.play();
//! rate::judge(&world, &rows).unwrap();
//! ```

use crate::ledger::{Held, hold};
use crate::link::{Link, Load, Peer, Row};
use crate::random::Random;
use skyhaul_core::control::ControlConfig;
use skyhaul_core::placement::Nanos;
use std::fmt::Write;

/// What a world is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One sender, one capacity.
    Steady,
    /// One sender; the capacity falls, and rises again.
    Steps,
    /// Several senders, that begin at different times.
    Shared,
    /// Loss by chance.
    Lossy,
    /// Other traffic, steady or on and off.
    Loaded,
    /// The receiver is slower than the link, or stalls.
    SlowReceiver,
    /// Reports are lost, and then none comes for a while.
    Deaf,
}

/// All kinds.
pub const KINDS: [Kind; 7] =
    [Kind::Steady, Kind::Steps, Kind::Shared, Kind::Lossy, Kind::Loaded, Kind::SlowReceiver, Kind::Deaf];

/// A link and what it is about.
#[derive(Clone, Debug)]
pub struct World {
    /// Replays it.
    pub seed: u64,
    /// What is asked of it.
    pub kind: Kind,
    /// The link.
    pub link: Link,
}

const S: u64 = 1_000_000_000;

/// `s` seconds.
pub const fn s(s: u64) -> Nanos {
    Nanos(s * S)
}

impl World {
    /// The world of `seed`: its kind is that number modulo the number of kinds.
    pub fn random(seed: u64) -> World {
        let kind = KINDS[(seed % KINDS.len() as u64) as usize];
        let mut random = Random(seed);
        let capacity = random.pick(&[100e6, 200e6, 400e6, 1e9, 2.5e9, 10e9, 25e9, 100e9]);
        let packet = if capacity > 5e9 { random.pick(&[1472, 8972]) } else { 1472 };
        let delay = Nanos(random.pick(&[25_000, 100_000, 500_000, 2_000_000, 10_000_000]));
        let queue = Nanos(random.pick(&[300_000, 1_000_000, 3_000_000, 10_000_000, 40_000_000]));
        let control = ControlConfig {
            start: random.pick(&[10_000_000, 50_000_000, 100_000_000]),
            interval: Nanos(random.pick(&[10_000_000, 20_000_000])),
            ..ControlConfig::default()
        };
        let peer = Peer {
            from: Nanos(0),
            until: s(1000),
            packet,
            buffer: 64 << 20,
            speed: f64::MAX / 1e100,
            supply: f64::MAX,
            delay,
            control,
        };
        let mut link = Link {
            seed,
            capacity: vec![(Nanos(0), capacity)],
            queue,
            loss: (0.0, Nanos(0), Nanos(0)),
            deaf: 0.0,
            silent: (Nanos(0), Nanos(0)),
            stall: (Nanos(0), Nanos(0)),
            load: None,
            peers: vec![peer],
            end: s(60),
        };
        shape(kind, capacity, &mut link, &mut random);
        World { seed, kind, link }
    }
}

fn shape(kind: Kind, capacity: f64, link: &mut Link, random: &mut Random) {
    match kind {
        Kind::Steady => {}
        Kind::Steps => {
            let low = capacity * random.pick(&[0.25, 0.375, 0.5, 0.8]);
            link.capacity = vec![(Nanos(0), capacity), (s(20), low), (s(35), capacity)];
        }
        Kind::Shared => {
            let count = random.between(2, 8);
            let first = link.peers[0].clone();
            link.peers = (0..count)
                .map(|n| Peer {
                    from: Nanos(n * random.pick(&[0, 1, 3]) * S + random.below(S)),
                    delay: Nanos(first.delay.0 * random.between(8, 12) / 10),
                    ..first.clone()
                })
                .collect();
            link.end = s(120);
        }
        Kind::Lossy => {
            let part = random.pick(&[1e-5, 3e-5, 1e-4, 3e-4, 1e-3]);
            link.loss = (part, Nanos(random.pick(&[0, 15 * S])), s(1000));
        }
        Kind::Loaded => {
            let rate = capacity * random.pick(&[0.2, 0.4, 0.6]);
            let period = Nanos(random.pick(&[0, 10 * S]));
            link.load = Some(Load { rate, from: s(20), period });
        }
        Kind::SlowReceiver => {
            link.peers[0].speed = capacity * random.pick(&[0.3, 0.6]);
            link.peers[0].buffer = (capacity / 8.0 * random.pick(&[0.02, 0.1])) as u64;
            if random.chance(0.5) {
                link.stall = (Nanos(random.pick(&[2_000_000, 10_000_000])), s(5));
            }
        }
        Kind::Deaf => {
            link.deaf = random.pick(&[0.1, 0.3, 0.5]);
            link.silent = (s(30), s(40));
        }
    }
}

/// Bits per second that sender `n` got through between two times.
pub fn goodput(world: &World, rows: &[Row], n: usize, from: Nanos, until: Nanos) -> f64 {
    let Some((first, last)) = span(rows, from, until) else { return 0.0 };
    let packets = last.peers[n].received - first.peers[n].received;
    (packets * world.link.peers[n].packet * 8) as f64 / (last.time.since(first.time).0 as f64 / 1e9)
}

/// Part of the packets of all senders that were lost between two times.
pub fn loss(rows: &[Row], from: Nanos, until: Nanos) -> f64 {
    let Some((first, last)) = span(rows, from, until) else { return 0.0 };
    let sum = |row: &Row, of: fn(&crate::link::At) -> u64| row.peers.iter().map(of).sum::<u64>() as f64;
    let sent = sum(last, |at| at.sent) - sum(first, |at| at.sent);
    let received = sum(last, |at| at.received) - sum(first, |at| at.received);
    ((sent - received) / sent.max(1.0)).max(0.0)
}

/// What all got through of what was to be had, between two times.
pub fn used(world: &World, rows: &[Row], from: Nanos, until: Nanos) -> f64 {
    let rows_in = rows.iter().filter(|row| row.time > from && row.time <= until);
    let (mut room, mut count) = (0.0, 0.0);
    for row in rows_in {
        let fastest: f64 = world.link.peers.iter().map(|peer| peer.speed.min(peer.supply)).sum();
        room += row.room.min(fastest);
        count += 1.0;
    }
    let all: f64 = (0..world.link.peers.len()).map(|n| goodput(world, rows, n, from, until)).sum();
    all * count / f64::max(room, 1.0)
}

/// Jain's index of fairness between two times: 1 where all get the same, 1/n where one gets all.
pub fn fairness(world: &World, rows: &[Row], from: Nanos, until: Nanos) -> f64 {
    let got: Vec<f64> = (0..world.link.peers.len()).map(|n| goodput(world, rows, n, from, until)).collect();
    let (sum, squares) = (got.iter().sum::<f64>(), got.iter().map(|x| x * x).sum::<f64>());
    sum * sum / (got.len() as f64 * squares).max(1.0)
}

/// The time from `from` until sender 0 gets through `part` of `rate`, seconds.
pub fn regained(world: &World, rows: &[Row], from: Nanos, rate: f64) -> f64 {
    let pairs = rows.windows(5).filter(|pair| pair[0].time >= from);
    for pair in pairs {
        if goodput(world, rows, 0, pair[0].time, pair[4].time) >= rate {
            return pair[4].time.since(from).0 as f64 / 1e9;
        }
    }
    f64::INFINITY
}

fn span(rows: &[Row], from: Nanos, until: Nanos) -> Option<(&Row, &Row)> {
    let first = rows.iter().find(|row| row.time >= from)?;
    let last = rows.iter().rev().find(|row| row.time <= until)?;
    (last.time > first.time).then_some((first, last))
}

/// What must hold in a world of its kind.
///
/// # Errors
/// What does not hold, with the figures.
pub fn judge(world: &World, rows: &[Row]) -> Held {
    for (n, peer) in world.link.peers.iter().enumerate() {
        let bounds = peer.control.least as f64..=peer.control.most as f64;
        hold!(rows.iter().all(|row| bounds.contains(&row.peers[n].rate)), "sender {n} leaves its bounds");
    }
    match world.kind {
        Kind::Steady | Kind::SlowReceiver => steady(world, rows, (s(20), s(60)), 0.9),
        Kind::Steps => {
            steady(world, rows, (s(25), s(35)), 0.82)?;
            falls_at_once(world, rows)?;
            let back = regained(world, rows, s(35), 0.85 * world.link.capacity[0].1);
            hold!(back <= 12.0, "room again, but it takes {back:.1} s");
            Ok(())
        }
        Kind::Shared => {
            steady(world, rows, (s(60), s(120)), 0.9)?;
            // Shares of a very fast link become equal slowly: rising will do.
            let (early, late) = (fairness(world, rows, s(40), s(60)), fairness(world, rows, s(100), s(120)));
            let least = if is_coarse(world) { 0.6 } else { 0.9 };
            hold!(late >= least || late > early + 0.05, "unfair: Jain's index is {early:.3}, then {late:.3}");
            Ok(())
        }
        Kind::Lossy => steady(world, rows, (s(30), s(60)), 0.8),
        Kind::Loaded => {
            let swings = world.link.load.is_some_and(|load| load.period.0 > 0);
            steady(world, rows, (s(25), s(60)), if swings { 0.6 } else { 0.88 })
        }
        Kind::Deaf => {
            steady(world, rows, (s(15), s(30)), 0.7)?;
            let deaf = rows.iter().find(|row| row.time >= s(39)).map_or(0.0, |row| row.peers[0].rate);
            let least = world.link.peers[0].control.least as f64;
            hold!(deaf <= least, "nothing is heard, and it sends at {deaf:.0} b/s");
            let back = regained(world, rows, s(40), 0.8 * world.link.capacity[0].1);
            hold!(back <= 14.0, "reports come again, but it takes {back:.1} s");
            Ok(())
        }
    }
}

/// A loss of 1e-4 is one packet in a second, or a queue of a few packets, for each sender: chance rules.
fn is_coarse(world: &World) -> bool {
    let (capacity, packet) = (world.link.capacity[0].1, world.link.peers[0].packet as f64 * 8.0);
    let count = world.link.peers.len() as f64;
    capacity / packet / count < 40_000.0
}

/// Little is lost and little is left, between two times.
fn steady(world: &World, rows: &[Row], (from, until): (Nanos, Nanos), least: f64) -> Held {
    let (lost, used) = (loss(rows, from, until), used(world, rows, from, until));
    let swings = world.link.load.is_some_and(|load| load.period.0 > 0) || world.link.deaf > 0.0;
    let swings = swings || world.link.capacity.len() > 1;
    let most = if is_coarse(world) || swings { 2e-3 } else { 2e-4 };
    let most = most + 1.5 * world.link.loss.0;
    hold!(used >= least, "only {used:.3} of what there is gets through");
    hold!(lost <= most, "{lost:.1e} are lost, where {most:.1e} may be");
    Ok(())
}

/// The time a report needs, and the queue to empty, and ten marks (three of four are lost at first): then the rate is no more than gets through.
fn falls_at_once(world: &World, rows: &[Row]) -> Held {
    let (link, peer) = (&world.link, &world.link.peers[0]);
    let ((_, high), (at, low)) = (link.capacity[0], link.capacity[1]);
    let queue = link.queue.0.max((8e9 * peer.packet as f64 * 8.0 / high) as u64) as f64 * high / low;
    let allowed = queue as u64 + 2 * peer.delay.0 + 10 * peer.control.interval.0 + 2 * crate::link::ROW.0;
    let due = at.plus(Nanos(allowed));
    let rate = rows.iter().find(|row| row.time >= due).map_or(0.0, |row| row.peers[0].rate);
    hold!(rate <= 1.1 * low, "{} ms after the fall to {low:.0} b/s it sends {rate:.0}", allowed / 1_000_000);
    Ok(())
}

/// Used and lost after the first 20 s, Jain's index at the end, and seconds until the rate is back after a fall or a
/// silence; not a number where there is none.
pub fn measures(world: &World, rows: &[Row]) -> [f64; 4] {
    let (end, capacity) = (world.link.end, world.link.capacity[0].1);
    let jain = if world.kind == Kind::Shared { fairness(world, rows, s(100), end) } else { f64::NAN };
    let (from, until) = match world.kind {
        Kind::Steps => (s(25), s(35)),
        Kind::Deaf => (s(15), s(30)),
        _ => (s(20), end),
    };
    let back = match world.kind {
        Kind::Steps => regained(world, rows, s(35), 0.85 * capacity),
        Kind::Deaf => regained(world, rows, s(40), 0.8 * capacity),
        _ => f64::NAN,
    };
    [used(world, rows, from, until), loss(rows, from, until), jain, back]
}

/// The [`measures`] of many worlds, a line for each kind: of each the middle one, and the one that only 5 % are worse than.
pub fn table(measured: &[(Kind, [f64; 4])]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<13}{:>7}{:>16}{:>20}{:>16}{:>14}",
        "", "worlds", "used", "lost", "Jain's index", "back after s"
    )];
    for kind in KINDS {
        let all: Vec<[f64; 4]> = measured.iter().filter(|(k, _)| *k == kind).map(|(_, m)| *m).collect();
        let Some(last) = all.len().checked_sub(1) else { continue };
        let mut line = format!("{:<13}{:>7}", format!("{kind:?}").to_lowercase(), all.len());
        for (column, tail) in [0.05, 0.95, 0.05, 0.95].into_iter().enumerate() {
            let mut values: Vec<f64> = all.iter().map(|measures| measures[column]).collect();
            values.sort_by(f64::total_cmp);
            let at = |part: f64| values[(last as f64 * part) as usize];
            let (middle, tail) = (at(0.5), at(tail));
            let _ = match column {
                _ if middle.is_nan() => write!(line, "{:>16}", ""),
                1 => write!(line, "{middle:>11.1e}{tail:>9.1e}"),
                3 => write!(line, "{middle:>8.1}{tail:>6.1}"),
                _ => write!(line, "{middle:>9.3}{tail:>7.3}"),
            };
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The figures of a world, in one line.
pub fn figures(world: &World, rows: &[Row]) -> String {
    let (link, end) = (&world.link, world.link.end);
    let capacity = link.capacity[0].1;
    let mut line = format!(
        "{:<12} {:>6.0} Mb/s, queue {:>5.1} ms, delay {:>5.2} ms, {} B, {} senders: used {:.3}, lost {:.1e}, at the start {:.1e}",
        format!("{:?}", world.kind).to_lowercase(),
        capacity / 1e6,
        link.queue.0 as f64 / 1e6,
        link.peers[0].delay.0 as f64 / 1e6,
        link.peers[0].packet,
        link.peers.len(),
        used(world, rows, s(20), end),
        loss(rows, s(20), end),
        loss(rows, Nanos(0), s(10))
    );
    let _ = match world.kind {
        Kind::Steps => {
            let (first, back) = (loss(rows, s(20), s(21)), regained(world, rows, s(35), 0.9 * capacity));
            let low = link.capacity[1].1 / capacity;
            write!(line, "; down to {low:.2}: lost {first:.1e} in that second, back after {back:.1} s")
        }
        Kind::Shared => {
            let jain = [40, 60, 80, 100].map(|at| fairness(world, rows, s(at), s(at + 20)));
            write!(line, "; Jain's index every 20 s {jain:.3?}")
        }
        Kind::Lossy => write!(line, "; the way loses {:.0e}", link.loss.0),
        Kind::Loaded => {
            let (rate, period) = link.load.map_or((0.0, 0), |load| (load.rate / capacity, load.period.0 / S));
            write!(line, "; load {rate:.1}, on and off every {period} s")
        }
        Kind::SlowReceiver => write!(
            line,
            "; receiver takes {:.1}, stalls {} ms, buffer {} kB",
            link.peers[0].speed / capacity,
            link.stall.0.0 / 1_000_000,
            link.peers[0].buffer / 1000
        ),
        Kind::Deaf => {
            let back = regained(world, rows, s(40), 0.85 * capacity);
            write!(line, "; {:.1} of the reports lost; after 10 s of silence back in {back:.1} s", link.deaf)
        }
        Kind::Steady => Ok(()),
    };
    line
}

/// One line for each moment: what there was, what each sender was given, sent and lost.
pub fn timeline(rows: &[Row]) -> impl Iterator<Item = String> {
    let mut lines = vec!["   time     room   queue   each sender: rate, packets lost or on their way, falls for loss, queue, receiver".to_owned()];
    for pair in rows.windows(2) {
        let mut line = format!(
            "{:>6.2}s {:>7.1}M {:>5.1}ms",
            pair[1].time.0 as f64 / 1e9,
            pair[1].room / 1e6,
            pair[1].queue
        );
        for (before, after) in pair[0].peers.iter().zip(&pair[1].peers) {
            let lost = (after.sent - before.sent).saturating_sub(after.received - before.received);
            let _ = write!(line, "  {:>8.1}M {lost:>5} {:?}", after.rate / 1e6, after.falls);
        }
        lines.push(line);
    }
    lines.into_iter()
}
