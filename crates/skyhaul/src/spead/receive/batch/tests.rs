use super::*;
use std::thread;

#[test]
fn a_value_stays_taken_until_the_end_of_a_batch() {
    let shared = Arc::new(BatchLock::new(1));
    let mut hold = BatchHold::new(shared.clone());
    hold.with(|value| *value += 1);
    assert!(lock(&shared.value).is_none(), "taken");
    hold.with(|value| *value += 1);
    hold.put();
    assert_eq!(shared.look(|value| *value), 3);
    hold.with(|value| *value += 1);
    drop(hold);
    assert_eq!(shared.look(|value| *value), 4);
}

#[test]
fn a_look_waits_for_the_end_of_the_batch_and_makes_nobody_share() {
    let shared = Arc::new(BatchLock::new(0));
    let mut hold = BatchHold::new(shared.clone());
    hold.with(|value| *value = 1);
    thread::scope(|scope| {
        let look = scope.spawn(|| shared.look(|value| *value));
        hold.with(|value| *value = 2);
        hold.put();
        assert_eq!(look.join().unwrap(), 2);
    });
    assert!(!shared.contended.load(Ordering::Relaxed));
}

#[test]
fn readers_that_want_it_at_the_same_time_take_turns() {
    const EACH: u64 = 10_000;
    let shared = Arc::new(BatchLock::new(0));
    let mut first = BatchHold::new(shared.clone());
    first.with(|_| {});
    thread::scope(|scope| {
        let others: Vec<_> = (0..2).map(|_| BatchHold::new(shared.clone())).collect();
        for mut hold in others {
            scope.spawn(move || (0..EACH).for_each(|_| hold.with(|value| *value += 1)));
        }
        // Until one of them waits. Then it is shared, without an end of a batch.
        while !shared.contended.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        (0..EACH).for_each(|_| first.with(|value| *value += 1));
    });
    assert_eq!(shared.look(|value| *value), 3 * EACH);
}
