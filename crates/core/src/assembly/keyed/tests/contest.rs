//! Packets of one object that state different sizes.

use super::*;

const MS: u64 = 1_000_000;
const CONTEST: Nanos = Nanos(10 * MS);

fn keyed() -> KeyedWindow<Vec<u8>> {
    KeyedWindow::new(KeyedConfig { contest: Some(CONTEST), ..KeyedConfig::default() })
}

/// A packet of object `number`, filled with a byte of its own.
fn put(
    keyed: &mut KeyedWindow<Vec<u8>>,
    at: u64,
    number: u64,
    part: Range<u64>,
    size: u64,
    byte: u8,
) -> Result<(), Reject> {
    let (key, length) = (Key::of(number), part.end - part.start);
    let part = Placement { key, offset: part.start, length, size: Some(size), ..Placement::default() };
    let room = |bytes: u64, old: Option<Vec<u8>>| {
        let mut block = old.unwrap_or_default();
        block.resize(bytes as usize, 0);
        Ok(block)
    };
    let mut slot = keyed.reserve(part, Nanos(at), room)?;
    let range = slot.range();
    slot.block()[range.start as usize..range.end as usize].fill(byte);
    slot.commit(Nanos(at));
    Ok(())
}

/// The retired objects: number, size, cause, and whether all bytes are `1`, as the honest sender writes.
fn retired(keyed: &mut KeyedWindow<Vec<u8>>) -> Vec<(u64, Option<u64>, Cause, bool)> {
    let one = |one: Retired<Vec<u8>>| {
        (one.key.number, one.size, one.cause, one.block.iter().all(|&byte| byte == 1))
    };
    std::iter::from_fn(|| keyed.poll_retired()).map(one).collect()
}

fn numbers(all: &[(u64, Option<u64>, Cause, bool)]) -> Vec<u64> {
    all.iter().map(|one| one.0).collect()
}

const HONEST: [Range<u64>; 3] = [0..10, 10..20, 20..30];

#[test]
fn one_packet_that_states_less_does_not_end_an_object() {
    for size in [10, 15, 29, 31, 4000] {
        // A whole object, or a part of a shorter or longer one, before the object or after its first packet.
        for before in [true, false] {
            let mut keyed = keyed();
            let forge = |keyed: &mut _| put(keyed, MS, 7, 0..10, size, 9);
            if before {
                forge(&mut keyed).unwrap();
            }
            put(&mut keyed, MS, 7, HONEST[0].clone(), 30, 1).unwrap();
            if !before {
                forge(&mut keyed).unwrap();
            }
            for part in &HONEST[1..] {
                put(&mut keyed, 2 * MS, 7, part.clone(), 30, 1).unwrap();
            }
            assert_eq!(retired(&mut keyed), [(7, Some(30), Cause::Complete, true)], "{size} {before}");
            assert_eq!((keyed.take_dropped(), keyed.take_dropped()), ((1, 10), (0, 0)));
            assert_eq!(put(&mut keyed, 3 * MS, 7, 0..10, size, 9), Err(Reject::WrongSize));
            assert_eq!(put(&mut keyed, 3 * MS, 7, 0..10, 30, 1), Err(Reject::Duplicate));
            keyed.finish(Nanos(9 * MS));
            assert_eq!((retired(&mut keyed), keyed.held()), (vec![], 0));
        }
    }
}

#[test]
fn an_object_of_one_packet_waits_to_be_contradicted() {
    let mut keyed = keyed();
    put(&mut keyed, MS, 1, 0..10, 10, 1).unwrap();
    assert_eq!((keyed.held(), keyed.poll_timeout()), (1, Some(Nanos(11 * MS))));
    assert_eq!(retired(&mut keyed), []);
    assert_eq!(put(&mut keyed, 2 * MS, 1, 0..10, 10, 1), Err(Reject::Duplicate));
    // A single packet of another size, which no other packet confirms, does not replace the object. It delays it: an honest
    // sender's second packet may still come.
    put(&mut keyed, 2 * MS, 1, 0..10, 4000, 9).unwrap();
    keyed.handle_timeout(Nanos(11 * MS));
    assert_eq!((retired(&mut keyed), keyed.poll_timeout()), (vec![], Some(Nanos(1002 * MS))));
    keyed.handle_timeout(Nanos(1002 * MS));
    assert_eq!(retired(&mut keyed), [(1, Some(10), Cause::Complete, true)]);
    assert_eq!((keyed.take_dropped(), keyed.held()), ((1, 10), 0));
    assert_eq!(put(&mut keyed, 1003 * MS, 1, 10..20, 4000, 9), Err(Reject::WrongSize));
    // The next object comes after it.
    put(&mut keyed, 1013 * MS, 2, 0..10, 10, 1).unwrap();
    put(&mut keyed, 1014 * MS, 3, 0..10, 10, 1).unwrap();
    put(&mut keyed, 1023 * MS, 4, 0..10, 10, 1).unwrap();
    assert_eq!(numbers(&retired(&mut keyed)), [2]);
    keyed.finish(Nanos(1023 * MS));
    assert_eq!(numbers(&retired(&mut keyed)), [3, 4]);
}

/// A forged packet that is a whole object does not end the contest while the packets of an honest sender still arrive, at
/// whatever pace.
#[test]
fn one_packet_waits_for_a_rival_that_is_slower_than_the_contest() {
    for pace in [1, 20, 900] {
        let (mut keyed, mut all) = (keyed(), Vec::new());
        put(&mut keyed, 0, 7, 0..10, 10, 9).unwrap();
        for (n, part) in HONEST.into_iter().enumerate() {
            let at = (5 + n as u64 * pace) * MS;
            keyed.handle_timeout(Nanos(at));
            all.extend(retired(&mut keyed));
            let is_late = pace == 900 && n == 2;
            assert_eq!(
                put(&mut keyed, at, 7, part, 30, 1).is_err(),
                is_late,
                "after the deadline of its object"
            );
        }
        keyed.handle_timeout(Nanos(5000 * MS));
        all.extend(retired(&mut keyed));
        let cause = if pace == 900 { Cause::Timeout } else { Cause::Complete };
        let all: Vec<_> = all.iter().map(|one| (one.0, one.1, one.2)).collect();
        assert_eq!(all, [(7, Some(30), cause)], "{pace}");
        assert_eq!((keyed.take_dropped(), keyed.held()), ((1, 10), 0));
    }
}

/// Forged rivals delay an object of one packet by one timeout, however many there are, and nobody receives it twice.
#[test]
fn rivals_delay_one_packet_by_the_timeout_at_most() {
    let config =
        KeyedConfig { contest: Some(CONTEST), remember_for: Nanos(100 * MS), ..KeyedConfig::default() };
    let mut keyed = KeyedWindow::new(config);
    put(&mut keyed, 0, 7, 0..10, 10, 1).unwrap();
    for n in 0..5 {
        let at = (5 + n * 200) * MS;
        keyed.handle_timeout(Nanos(at));
        assert_eq!(retired(&mut keyed), []);
        let forged = put(&mut keyed, at, 7, 0..10, 100 + n, 9);
        assert_eq!(forged.is_ok(), n < 3, "{n}: candidates are few");
        assert_eq!(
            put(&mut keyed, at, 7, 0..10, 10, 1),
            Err(Reject::Duplicate),
            "it is remembered while it waits"
        );
    }
    // The first rivals have ended, and a new one begins.
    keyed.handle_timeout(Nanos(1006 * MS));
    put(&mut keyed, 1006 * MS, 7, 0..10, 200, 9).unwrap();
    keyed.handle_timeout(Nanos(1009 * MS));
    assert_eq!((retired(&mut keyed), keyed.poll_timeout()), (vec![], Some(Nanos(1010 * MS))));
    keyed.handle_timeout(Nanos(1010 * MS));
    assert_eq!(retired(&mut keyed), [(7, Some(10), Cause::Complete, true)]);
    assert_eq!(put(&mut keyed, 1109 * MS, 7, 0..10, 10, 1), Err(Reject::Duplicate), "and afterwards");
    keyed.finish(Nanos(1110 * MS));
    assert_eq!((retired(&mut keyed), keyed.take_dropped(), keyed.held()), (vec![], (4, 40), 0));
}

/// What waits is bounded by the window, and a shortage of memory decides nothing.
#[test]
fn a_contest_ends_when_the_window_passes_the_rival() {
    let mut keyed = keyed();
    for number in 0..20 {
        put(&mut keyed, number, number, 0..10, 10, 1).unwrap();
        put(&mut keyed, number, number, 0..10, 40, 9).unwrap();
    }
    keyed.handle_timeout(Nanos(11 * MS));
    // The window of 16 passed the rivals of the first four.
    assert_eq!(numbers(&retired(&mut keyed)), [0, 1, 2, 3]);
    assert_eq!((keyed.live(), keyed.held(), keyed.take_dropped()), (16, 32, (4, 40)));
    let refused = |keyed: &mut KeyedWindow<Vec<u8>>, number| {
        let part = Placement { key: Key::of(number), length: 10, size: Some(10), ..Placement::default() };
        assert!(keyed.reserve(part, Nanos(12 * MS), |_, old| Err(old)).is_err());
    };
    put(&mut keyed, 12 * MS, 50, 0..10, 10, 1).unwrap();
    refused(&mut keyed, 51);
    assert_eq!(numbers(&retired(&mut keyed)), [50], "nothing contradicts it");
    // Rivals that end release what waits for them; the object of two packets is the rival.
    put(&mut keyed, 13 * MS, 5, 10..20, 40, 9).unwrap();
    keyed.handle_timeout(Nanos(1013 * MS));
    let all = retired(&mut keyed);
    assert_eq!(all.iter().filter(|one| one.2 == Cause::Complete && one.3).count(), 15);
    assert_eq!(all.iter().filter(|one| one.0 == 5).map(|one| one.1).collect::<Vec<_>>(), [Some(40)]);
    assert_eq!((all.len(), keyed.held(), keyed.take_dropped()), (16, 0, (16, 160)));
}

#[test]
fn no_more_are_held_than_are_remembered() {
    let config = KeyedConfig { contest: Some(CONTEST), remember: 8, ..KeyedConfig::default() };
    let mut keyed = KeyedWindow::new(config);
    (0..100).for_each(|number| put(&mut keyed, MS, number, 0..10, 10, 1).unwrap());
    assert_eq!((retired(&mut keyed).len(), keyed.held()), (92, 8));
}

/// Packets of one train count as agreeing with each other.
#[test]
fn several_packets_at_once_need_not_wait() {
    let mut keyed = keyed();
    put(&mut keyed, MS, 1, 0..30, 900, 9).unwrap();
    let part = Placement { key: Key::of(1), length: 30, size: Some(30), ..Placement::default() };
    let mut slot = keyed.reserve(part, Nanos(MS), |bytes, _| Ok(vec![1; bytes as usize])).unwrap();
    slot.of_packets(3);
    slot.commit(Nanos(MS));
    assert_eq!(retired(&mut keyed), [(1, Some(30), Cause::Complete, true)]);
    assert_eq!((keyed.take_dropped(), keyed.held()), ((1, 30), 0));
}

#[test]
fn candidates_are_few_and_one_of_two_packets_is_settled() {
    let mut keyed = keyed();
    for size in 100..104 {
        put(&mut keyed, MS, 1, 0..10, size, 9).unwrap();
    }
    assert_eq!(put(&mut keyed, MS, 1, 0..10, 30, 1), Err(Reject::WrongSize));
    put(&mut keyed, MS, 1, 10..20, 103, 9).unwrap();
    assert_eq!((keyed.live(), keyed.take_dropped()), (1, (3, 30)));
    assert_eq!(put(&mut keyed, MS, 1, 0..10, 100, 9), Err(Reject::WrongSize));
}

/// An object retires once, even if nothing shows which of its sizes is right.
#[test]
fn candidates_that_nothing_confirms_retire_as_one() {
    for is_over in [true, false] {
        let mut keyed = keyed();
        put(&mut keyed, MS, 1, 0..10, 100, 9).unwrap();
        put(&mut keyed, MS, 1, 0..10, 200, 9).unwrap();
        put(&mut keyed, 2 * MS, 1, 0..10, 30, 1).unwrap();
        match is_over {
            true => keyed.finish(Nanos(3 * MS)),
            false => keyed.handle_timeout(Nanos(1003 * MS)),
        }
        let cause = if is_over { Cause::Finish } else { Cause::Timeout };
        let sizes: Vec<_> = retired(&mut keyed).iter().map(|one| (one.0, one.1, one.2)).collect();
        assert_eq!((sizes, keyed.take_dropped(), keyed.held()), (vec![(1, Some(30), cause)], (2, 20), 0));
    }
    // One that came whole is rather believed than one that did not.
    let mut keyed = keyed();
    put(&mut keyed, MS, 1, 0..10, 100, 9).unwrap();
    put(&mut keyed, 999 * MS, 1, 0..10, 10, 1).unwrap();
    keyed.handle_timeout(Nanos(1002 * MS));
    assert_eq!(retired(&mut keyed), []);
    keyed.handle_timeout(Nanos(1010 * MS));
    assert_eq!(retired(&mut keyed), [(1, Some(10), Cause::Complete, true)]);
    assert_eq!((keyed.take_dropped(), keyed.held()), ((1, 10), 0));
}

#[test]
fn the_size_that_was_stated_first_holds_where_nothing_is_contested() {
    let mut keyed = KeyedWindow::new(KeyedConfig::default());
    put(&mut keyed, MS, 1, 0..10, 100, 1).unwrap();
    assert_eq!(put(&mut keyed, MS, 1, 10..20, 30, 1), Err(Reject::WrongSize));
    put(&mut keyed, MS, 2, 0..10, 10, 1).unwrap();
    assert_eq!(retired(&mut keyed).len(), 1, "at once");
}
