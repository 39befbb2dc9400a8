use super::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// A model that records the outcome of every slot.
struct Model {
    fates: Vec<Vec<Option<Nanos>>>,
}

/// One day of a virtual clock; each test takes as long as `takes` returns. Returns the schedule, the model, and the end
/// time.
fn day(periods: &[Period], seed: u64, mut takes: impl FnMut(&mut u64) -> u64) -> (Schedule, Model, Nanos) {
    let begin = Nanos(1_000 * SECOND);
    let mut schedule = Schedule::new(periods, begin, seed);
    let mut model = Model { fates: vec![Vec::new(); periods.len()] };
    let (mut now, mut random) = (begin, seed);
    loop {
        let next = schedule.poll_timeout().unwrap().max(now);
        if next.0 >= begin.0 + DAY {
            break;
        }
        now = next;
        let due = schedule.poll(now).expect("a timeout that is reached has something");
        let fates = &mut model.fates[due.test];
        assert!(due.at <= now && due.slot as usize >= fates.len(), "in order, and none twice");
        let from = begin.0 + due.slot * periods[due.test].every;
        assert!((from..=from + periods[due.test].jitter).contains(&due.at.0), "within its jitter");
        fates.resize(due.slot as usize, None);
        fates.push(Some(now));
        random = mixed(random);
        now = Nanos(now.0 + takes(&mut random));
    }
    (0..periods.len()).for_each(|test| schedule.pass(test, Nanos(begin.0 + DAY)));
    (schedule, model, now)
}

#[test]
fn in_a_day_every_slot_ran_or_is_counted_as_missed() {
    let minute = Period { every: 60 * SECOND, jitter: 10 * SECOND };
    let lists: [&[Period]; 4] = [
        &[minute],
        &[minute, minute, Period { every: 7 * SECOND, jitter: 7 * SECOND }],
        &[minute, Period { every: SECOND, jitter: 0 }, Period { every: 3600 * SECOND, jitter: 60 * SECOND }],
        &[Period { every: 61 * SECOND, jitter: SECOND }; 20],
    ];
    for (n, periods) in lists.iter().enumerate() {
        for seed in 0..25 {
            // Mostly short; one in a hundred hangs for up to ten minutes, as a peer that is away does.
            let takes = |random: &mut u64| match *random % 100 {
                0 => *random / 100 % (600 * SECOND),
                _ => *random / 100 % (2 * SECOND),
            };
            let (schedule, model, _) = day(periods, seed * 10 + n as u64, takes);
            for (test, fates) in model.fates.iter().enumerate() {
                let ran = fates.iter().flatten().count() as u64;
                let counted = schedule.ran(test) + schedule.missed(test);
                assert_eq!(
                    (schedule.ran(test), counted),
                    (ran, schedule.lanes[test].slot),
                    "list {n}, seed {seed}"
                );
                // After its last run, slots may already have been missed.
                assert!(counted >= fates.len() as u64);
                // The last slots of the day may not have fallen due yet.
                assert!(counted + 2 >= DAY / periods[test].every, "{counted}");
            }
        }
    }
}

#[test]
fn a_slot_is_missed_only_if_the_next_one_was_due() {
    let periods =
        [Period { every: 10 * SECOND, jitter: 5 * SECOND }, Period { every: 4 * SECOND, jitter: 0 }];
    for seed in 0..50 {
        let (schedule, model, _) = day(&periods, seed, |random| *random % (9 * SECOND));
        assert!(schedule.missed(0) + schedule.missed(1) > 0);
        for (test, fates) in model.fates.iter().enumerate() {
            let mut last = None;
            for (slot, fate) in fates.iter().enumerate() {
                match (fate, last) {
                    (Some(began), _) => {
                        assert!(*began < schedule.at(test, slot as u64 + 1), "it had its own slot");
                        last = Some(slot);
                    }
                    (None, _) => {
                        // The next run came after the successor was due.
                        let next = fates[slot..].iter().flatten().next().unwrap();
                        assert!(*next >= schedule.at(test, slot as u64 + 1));
                    }
                }
            }
            assert!(last.is_some());
        }
    }
}

#[test]
fn idle_tests_miss_nothing_and_do_not_beat() {
    let periods = [Period { every: 60 * SECOND, jitter: 20 * SECOND }; 2];
    let (schedule, model, _) = day(&periods, 3, |_| SECOND / 10);
    assert_eq!((schedule.missed(0), schedule.missed(1), schedule.ran(0)), (0, 0, 1440));
    let before = model.fates[0].iter().flatten().zip(model.fates[1].iter().flatten());
    let first = before.filter(|(a, b)| a < b).count();
    assert!((600..840).contains(&first), "{first} of 1440 times the first was first");
}

#[test]
fn memory_does_not_grow_with_time() {
    let periods = [Period { every: 1, jitter: 0 }, Period { every: 0, jitter: u64::MAX }];
    let mut schedule = Schedule::new(&periods, Nanos(0), 1);
    let size = |schedule: &Schedule| (schedule.lanes.capacity(), size_of::<Lane>());
    let before = size(&schedule);
    assert!(schedule.poll(Nanos(0)).is_some());
    assert!(schedule.poll(Nanos(u64::MAX - 1)).is_some());
    assert!(schedule.ran(0) + schedule.missed(0) >= u64::MAX - 1);
    assert_eq!(size(&schedule), before);
    assert_eq!(Schedule::new(&[], Nanos(0), 1).poll_timeout(), None);
}

#[test]
fn where_there_is_too_much_to_do_all_have_their_turn() {
    let periods = [Period { every: 10 * SECOND, jitter: 0 }; 3];
    let (schedule, ..) = day(&periods, 1, |_| 10 * SECOND);
    let ran: Vec<u64> = (0..3).map(|test| schedule.ran(test)).collect();
    assert!(ran.iter().all(|&n| n >= DAY / SECOND / 10 / 3 - 1), "{ran:?}");
}
