use super::super::allow::AllowList;
use super::super::calendar::{Calendar, SLOTS};
use super::super::member::{Member, PortRange, Seat};
use super::super::refusal::{Counters, Refusal};
use super::super::table::{EPOCHS, Occupant, Routed, SlotSelect};
use super::*;
use crate::wire::ejfat::{Addressing, EjfatLabels};
use std::collections::BTreeMap;

/// A table whose calendars begin at these ticks; each gives all slots to the seat beside it.
fn table(epochs: &[(u64, u16)]) -> Table {
    let epoch = |&(first, seat): &(u64, u16)| Epoch {
        first,
        calendar: Arc::new(Calendar::default().with(&[(Seat(seat), SLOTS as u16)], &Calendar::default())),
        select: SlotSelect::default(),
    };
    let member = |seat: u16| {
        let member = Member::new([10, 9, 0, 0].into(), 17_000 + seat, PortRange::default(), false);
        (Seat(seat), Occupant::Member(member.unwrap()))
    };
    let members: Vec<_> = (0..200).map(member).collect();
    Table::new(AllowList::anyone(), epochs.iter().map(epoch).collect(), &members)
}

const MS: u64 = 1_000_000;

fn settled(epochs: &[(u64, u16)]) -> Settled {
    Settled::new(Arc::new(table(epochs)))
}

/// What is in use, as it was given to [`table`].
fn epochs(settled: &Settled) -> Vec<(u64, u16)> {
    let epochs = settled.table().epochs().iter();
    epochs.map(|epoch| (epoch.first, epoch.calendar.member(0).unwrap().0)).collect()
}

/// Ticks of 20 s, one in a millisecond, are asked for in turn.
fn measured(epochs: &[(u64, u16)]) -> Settled {
    let mut settled = settled(epochs);
    (0..=20_000).step_by(10).for_each(|tick| _ = settled.claim(tick, Nanos(tick * MS)));
    settled
}

#[test]
fn a_calendar_begins_after_what_a_thread_asked_for() {
    let now = Nanos(0);
    let mut settled = settled(&[(0, 1)]);
    assert_eq!(settled.claim(50, now).ends(), (0, 50), "the rate is not known");
    settled.commit(table(&[(0, 1), (40, 2)]));
    assert_eq!(epochs(&settled), [(0, 1), (51, 2)], "it was late");
    settled.commit(table(&[(0, 1), (51, 2), (80, 3)]));
    assert_eq!(epochs(&settled), [(0, 1), (51, 2), (80, 3)], "it was not");
    assert_eq!(settled.claim(30, now).ends(), (0, 50), "nothing new");
    assert_eq!(settled.claim(85, now).ends(), (0, 85 + 35));
    // A calendar that is withdrawn too late keeps the ticks that were asked for.
    settled.commit(table(&[(0, 1), (51, 2)]));
    assert_eq!(epochs(&settled), [(0, 1), (51, 2), (80, 3), (121, 2)]);
    // Those that are over are refused, and the last one stays.
    settled.commit(table(&[(121, 2)]));
    assert_eq!(epochs(&settled), [(121, 2)]);
}

#[test]
fn what_is_given_at_a_time_follows_the_rate() {
    let mut settled = measured(&[(0, 1)]);
    let (first, last) = settled.claim(21_000, Nanos(21_000 * MS)).ends();
    assert_eq!((first, last), (0, 21_200));
    assert_eq!(settled.claim(21_050, Nanos(21_050 * MS)).ends(), (first, last), "nothing new");
    let (_, last) = settled.claim_ahead(21_150, Nanos(21_150 * MS)).ends();
    assert!((21_250..=21_470).contains(&last), "{last}");
    // Ten seconds of ticks in a tenth of a second, from one that was held up.
    for n in 0..100 {
        settled.claim(21_150 + n * 100, Nanos((31_150 + n) * MS));
    }
    let (_, last) = settled.claim(31_100, Nanos(31_250 * MS)).ends();
    assert!((31_100..31_700).contains(&last), "{last}");
}

#[test]
fn the_first_calendar_is_for_ticks_that_were_refused_before_it() {
    let mut settled = settled(&[]);
    assert_eq!(settled.claim(1000, Nanos(0)).ends(), (0, 1000));
    settled.commit(table(&[(0, 1)]));
    assert_eq!(epochs(&settled), [(0, 1)]);
    // So is one for ticks whose calendars were over.
    settled.commit(table(&[(500, 1)]));
    settled.commit(table(&[(0, 2), (500, 1), (700, 2)]));
    assert_eq!(epochs(&settled), [(0, 2), (500, 1), (1001, 2)]);
}

#[test]
fn ticks_that_begin_again_settle_anew() {
    let mut settled = settled(&[(0, 1), (100, 2)]);
    assert_eq!(settled.claim(250, Nanos(0)).ends(), (0, 250));
    settled.commit(table(&[(0, 2)]).with_era(1));
    assert_eq!((epochs(&settled), settled.claimed()), (vec![(0, 2)], TickRange::NONE));
    assert_eq!(settled.claim(5, Nanos(0)).ends(), (0, 5));
}

#[test]
fn a_jump_has_a_range_of_its_own_and_wrong_ticks_do_not_push_out_the_right_ones() {
    let (mut settled, now) = (measured(&[(0, 1)]), Nanos(20_000 * MS));
    let (_, last) = settled.claim(20_000, now).ends();
    let (first, next) = settled.claim(50_000, now).ends();
    assert!((46_990..47_010).contains(&first) && next == 50_000, "{first} {next}");
    settled.commit(table(&[(0, 1), (21_000, 2)]));
    let expected = [(0, 1), (21_000, 2), (first, 1), (next + 1, 2)];
    assert_eq!(epochs(&settled), expected, "what is between is open");
    for wrong in 0..9 {
        let tick = u64::MAX - wrong * 10_000_000;
        assert!(settled.claim(tick, Nanos(now.0 + 2 * wrong)).contains(tick));
        assert_eq!(settled.claim(500, Nanos(now.0 + 2 * wrong + 1)).ends(), (0, last));
    }
    assert!(settled.fronts.len() <= FRONTS);
    // What is reached becomes one range.
    for tick in (20_000..50_000).step_by(10) {
        settled.claim(tick, Nanos(tick * MS));
    }
    assert_eq!(settled.claim(50_001, Nanos(50_001 * MS)).ends().0, 0);
    assert_eq!(settled.claim(u64::MAX, Nanos(50_001 * MS)).ends().1, u64::MAX);
    settled.commit(table(&[(0, 1), (21_000, 2), (u64::MAX, 3)]));
    assert!(epochs(&settled).iter().all(|(_, seat)| *seat < 3), "no tick is left for it");
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % n
    }
}

/// A thread, and where it stands: it may be held up before each of its steps, for any time.
struct Thread {
    number: u64,
    table: Arc<Table>,
    ticks: TickRange,
    counters: Counters,
    /// What it has yet to forward.
    train: Vec<u64>,
    /// A tick that it has to ask for.
    asks: Option<u64>,
    /// It gets no processor for so many steps of the world.
    held: u64,
}

/// Threads that forward the packets of the same ticks, and one that gives out tables with boundaries that may be much too
/// early. Each step, a random thread does one thing, or the table changes. Returns the first tick that went to two
/// members.
fn play(seed: u64, asks: bool) -> Result<u64, u64> {
    let mut random = Random(seed);
    // Nanoseconds for each step of the world.
    let time = 1 + random.below(20 * MS);
    let mut settled = settled(&[(0, 0)]);
    let ticks = if asks { TickRange::NONE } else { TickRange::ALL };
    let thread = |_| Thread {
        number: 0,
        table: Arc::clone(settled.table()),
        ticks,
        counters: Counters::default(),
        train: Vec::new(),
        asks: None,
        held: 0,
    };
    let mut threads: Vec<Thread> = (0..2 + random.below(3)).map(thread).collect();
    let (mut newest, mut number, mut seat) = (random.below(1 << 40), 0, 0);
    let mut members: BTreeMap<u64, u16> = BTreeMap::new();
    let mut forwarded = 0;
    for now in 0..3000 {
        let now = Nanos(now * time);
        threads.iter_mut().for_each(|thread| thread.held = thread.held.saturating_sub(1));
        if random.below(20) == 0 {
            // The control plane may be held up, too: it knows an older tick, and the table of that time.
            let first = newest.saturating_sub(random.below(40)) + random.below(60);
            let mut next = self::epochs(&settled);
            if next.len() > 4 && next[1].0 + 3000 < newest {
                next.remove(0);
            }
            if random.below(4) == 0 && next.len() > 1 {
                next.pop();
            }
            seat = (seat + 1) % 200;
            next.retain(|(before, _)| *before < first);
            next.push((if next.is_empty() { 0 } else { first }, seat));
            let next = table(&next);
            settled = match asks {
                true => {
                    settled.commit(next);
                    settled
                }
                false => Settled::new(Arc::new(next)),
            };
            number += 1;
            continue;
        }
        newest += random.below(4);
        if random.below(200) == 0 {
            newest += random.below(5000);
        }
        let at = random.below(threads.len() as u64) as usize;
        let thread = &mut threads[at];
        if thread.held > 0 {
            continue;
        }
        if random.below(50) == 0 {
            thread.held = random.below(600);
            continue;
        }
        if let Some(tick) = thread.asks.take() {
            thread.ticks = settled.claim(tick, now);
            (thread.number, thread.table) = (number, Arc::clone(settled.table()));
            continue;
        }
        if thread.train.is_empty() {
            thread.train =
                (0..1 + random.below(5)).map(|_| newest.saturating_sub(random.below(300))).collect();
            if thread.number != number && random.below(2) == 0 {
                (thread.number, thread.table) = (number, Arc::clone(settled.table()));
                thread.ticks = ticks;
            }
            continue;
        }
        // It looks at some packets, and is held up before it forwards the others.
        let some = 1 + random.below(thread.train.len() as u64) as usize;
        let packets: Vec<Vec<u8>> = thread.train[..some]
            .iter()
            .map(|tick| [&Addressing::default().header(*tick, 0)[..], &[7]].concat())
            .collect();
        let mut routes = vec![Err(Refusal::Empty); some];
        let octets = packets.iter().map(Vec::as_slice);
        let Thread { table, counters, .. } = thread;
        let from = [10, 1, 0, 1].into();
        let Routed { packets: done, unsettled } =
            table.route_settled::<EjfatLabels>(from, octets, thread.ticks, &mut routes, counters);
        for (tick, route) in thread.train.drain(..done).zip(routes) {
            let Ok(route) = route else { continue };
            forwarded += 1;
            if *members.entry(tick).or_insert(route.seat.0) != route.seat.0 {
                return Err(tick);
            }
        }
        thread.asks = unsettled;
    }
    let counted: u64 = threads.iter().map(|thread| thread.counters.packets).sum();
    let refused: u64 = threads.iter().map(|thread| thread.counters.refused_total()).sum();
    assert_eq!(counted, forwarded + refused, "each packet is counted once, also if its tick was asked for");
    assert!(settled.table().epochs().len() <= EPOCHS);
    Ok(forwarded)
}

#[test]
fn no_tick_has_two_members_however_late_threads_are() {
    const SEEDS: u64 = 100;
    let forwarded: u64 = (0..SEEDS)
        .map(|seed| play(seed, true).unwrap_or_else(|tick| panic!("seed {seed}: tick {tick} is split")))
        .sum();
    assert!(forwarded > SEEDS * 500, "{forwarded}");
    // Threads that use what table they have split events in nearly every world.
    let split = (0..50).filter(|&seed| play(seed, false).is_err()).count();
    assert!(split > 40, "{split}");
}
