//! Unconfirmed objects: less than half of their bytes have arrived.

use super::*;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

const LARGE: u64 = 1 << 20;
const GRACE: Nanos = Nanos(Nanos::SECOND.0 / 8);

fn put(keyed: &mut KeyedWindow<()>, at: u64, number: u64, offset: u64, length: u64, size: u64) {
    let (key, at) = (Key::of(number), Nanos(at));
    let part = Placement { key, offset, length, size: Some(size), ..Placement::default() };
    keyed.reserve(part, at, |_, _| Ok(())).unwrap().commit(at);
}

fn keyed() -> KeyedWindow<()> {
    let mut keyed = KeyedWindow::new(KeyedConfig { window: 1000, ..KeyedConfig::default() });
    keyed.limit_announced(8 * LARGE, u64::MAX);
    keyed
}

fn retired(keyed: &mut KeyedWindow<()>) -> Vec<(u64, Cause)> {
    std::iter::from_fn(|| keyed.poll_retired()).map(|one| (one.key.number, one.cause)).collect()
}

#[test]
fn what_is_announced_holds_a_share_and_what_arrives_is_not_disturbed() {
    let mut keyed = keyed();
    // It is fast enough.
    put(&mut keyed, 0, 1, 0, 100, 64 * LARGE);
    put(&mut keyed, 1, 1, 100, 9 * LARGE, 64 * LARGE);
    for n in 0..10 {
        put(&mut keyed, 2 + n, 100 + n, 500, 1000, 4 * LARGE);
    }
    // As many honest objects begin at the same moment; none has a second part yet.
    let late = GRACE.0 + 20;
    for n in 0..10 {
        put(&mut keyed, late, 200 + n, 0, 500, 2 * LARGE);
    }
    keyed.handle_timeout(Nanos(late));
    let forged: Vec<_> = (100..110).map(|number| (number, Cause::Window)).collect();
    assert_eq!(retired(&mut keyed), forged, "only they are old enough");
    for n in 0..10 {
        put(&mut keyed, late + 1, 200 + n, 500, 2 * LARGE - 500, 2 * LARGE);
    }
    put(&mut keyed, late + 2, 1, 100 + 9 * LARGE, 55 * LARGE - 100, 64 * LARGE);
    let honest: Vec<_> = (200..210).chain([1]).map(|number| (number, Cause::Complete)).collect();
    assert_eq!(retired(&mut keyed), honest);
    assert_eq!(keyed.unconfirmed.bytes(), 0);
}

/// An object keeps its memory by bytes received, not by the number of its packets.
#[test]
fn a_few_forged_packets_confirm_nothing() {
    let mut keyed = keyed();
    for n in 0..3 {
        for part in 0..20 {
            put(&mut keyed, n * 100 + part, n, part * 1000, 1000, 4 * LARGE);
        }
    }
    assert_eq!(keyed.unconfirmed.bytes(), 12 * LARGE);
    // Single packets are added to the forged objects, while honest objects arrive at their pace.
    for at in (0..8).map(|eighth| 1000 + eighth * GRACE.0) {
        for n in 0..3 {
            let placement = Placement {
                key: Key::of(n),
                offset: 30_000 + at / 10_000,
                length: 1,
                size: Some(4 * LARGE),
                ..Placement::default()
            };
            let _ = keyed.reserve(placement, Nanos(at), |_, _| Err(None)).map(|slot| slot.commit(Nanos(at)));
        }
        put(&mut keyed, at, 10, at / GRACE.0 * LARGE / 2, LARGE / 2, 4 * LARGE);
        keyed.handle_timeout(Nanos(at));
    }
    let all = retired(&mut keyed);
    let forged: Vec<_> = all.iter().filter(|one| one.0 < 10).collect();
    assert!(forged.iter().all(|one| one.1 == Cause::Window) && !forged.is_empty(), "{all:?}");
    assert!(keyed.unconfirmed.bytes() <= 8 * LARGE, "{all:?}");
    assert!(all.contains(&(10, Cause::Complete)), "{all:?}");
    // Half of its bytes confirm an object.
    put(&mut keyed, Nanos::SECOND.0, 20, 0, LARGE - 1, 2 * LARGE);
    let before = keyed.unconfirmed.bytes();
    put(&mut keyed, Nanos::SECOND.0, 20, LARGE - 1, 1, 2 * LARGE);
    assert_eq!(before - keyed.unconfirmed.bytes(), 2 * LARGE);
}

#[test]
fn the_largest_retire_first_and_what_is_within_the_share_stays() {
    let mut keyed = keyed();
    for (number, size) in [(1, 2), (2, 5), (3, 3), (4, 5), (5, 1)] {
        put(&mut keyed, number, number, 0, 1, size * LARGE);
    }
    keyed.handle_timeout(Nanos(GRACE.0 - 1));
    assert_eq!(retired(&mut keyed), []);
    keyed.handle_timeout(Nanos(GRACE.0 + 10));
    assert_eq!(retired(&mut keyed), [(2, Cause::Window), (4, Cause::Window)]);
    keyed.handle_timeout(Nanos(Nanos::SECOND.0 - 1));
    assert_eq!(retired(&mut keyed), []);
}

#[test]
fn the_account_is_true_after_every_end() {
    let mut keyed = keyed();
    put(&mut keyed, 1, 1, 0, 1, 2 * LARGE);
    put(&mut keyed, 2, 2, 0, 1, 3 * LARGE);
    put(&mut keyed, 3, 3, 0, 1, LARGE - 1);
    put(&mut keyed, 4, 4, 0, 2 * LARGE, 2 * LARGE);
    assert_eq!(keyed.unconfirmed.bytes(), 5 * LARGE);
    put(&mut keyed, 5, 1, 1, 1, 2 * LARGE);
    assert_eq!(keyed.unconfirmed.bytes(), 5 * LARGE, "a second part is no proof");
    put(&mut keyed, 5, 1, 2, LARGE, 2 * LARGE);
    assert_eq!(keyed.unconfirmed.bytes(), 3 * LARGE);
    keyed.give_up(Key::of(2), Nanos(9));
    assert_eq!(keyed.unconfirmed.bytes(), 0);
    put(&mut keyed, 9, 5, 0, 1, 2 * LARGE);
    keyed.finish(Nanos(10));
    assert_eq!((keyed.unconfirmed.bytes(), keyed.live()), (0, 0));
}

/// If there is no memory at all, an unconfirmed object retires to make room for the next packet.
#[test]
fn what_is_announced_gives_way_when_there_is_no_memory() {
    let mut keyed = keyed();
    put(&mut keyed, 1, 1, 0, 1, 2 * LARGE);
    let part = Placement { key: Key::of(2), length: 1, size: Some(100), ..Placement::default() };
    assert!(keyed.reserve(part, Nanos(2), |_, old| Err(old)).is_err());
    assert_eq!(retired(&mut keyed), [], "its second part may come");
    assert!(keyed.reserve(part, Nanos(1 + GRACE.0), |_, old| Err(old)).is_err());
    assert_eq!(retired(&mut keyed), [(1, Cause::Window)]);
}

/// The memory that objects of this size request, part by part.
fn asked(size: u64, parts: &[(u64, u64)]) -> (Vec<u64>, Vec<Reject>) {
    let mut keyed = KeyedWindow::<u64>::new(KeyedConfig { largest: u64::MAX, ..KeyedConfig::default() });
    keyed.limit_announced(64 * LARGE, 16 * LARGE);
    let (mut rooms, mut refused) = (Vec::new(), Vec::new());
    for &(offset, length) in parts {
        let part = Placement { key: Key::of(1), offset, length, size: Some(size), ..Placement::default() };
        let room = |bytes, _: Option<u64>| {
            rooms.push(bytes);
            Ok(bytes)
        };
        match keyed.reserve(part, Nanos(1), room) {
            Ok(slot) => slot.commit(Nanos(1)),
            Err(why) => refused.push(why),
        }
    }
    (rooms, refused)
}

#[test]
fn memory_is_given_for_what_arrives_not_for_what_is_announced() {
    let size = 256 * LARGE;
    // The whole object in order: two blocks, the second when 1/512 has arrived. Packets do not end where blocks do.
    for packet in [LARGE / 2, 1436, 8936, 65_000] {
        let in_order: Vec<_> = (0..size / packet).map(|n| (n * packet, packet)).collect();
        assert_eq!(asked(size, &in_order), (vec![LARGE, size], vec![]), "{packet}");
    }
    assert_eq!(asked(size, &[(0, 1000), (1000, 1000)]), (vec![LARGE], vec![]));
    // A part far ahead is accepted as long as the limit has room for its object.
    assert_eq!(asked(size / 8, &[(0, 1000), (size / 16, 1000)]), (vec![LARGE / 8, size / 8], vec![]));
    assert_eq!(asked(size / 8, &[(size / 16, 1000)]), (vec![size / 16 + 1000 + LARGE / 8], vec![]));
    assert_eq!(asked(size, &[(0, 1000), (size / 2, 1000)]), (vec![LARGE], vec![Reject::NoBuffer]));
    assert_eq!(asked(size, &[(size - 1, 1)]), (vec![], vec![Reject::NoBuffer]));
    assert_eq!(asked(16 * LARGE, &[(0, 1)]), (vec![16 * LARGE], vec![]), "not large");
}

/// Its first packets are lost, or the receiver begins in its midst.
#[test]
fn an_object_without_its_beginning_is_received_from_where_it_is() {
    let (size, begin) = (256 * LARGE, 32 * LARGE);
    for packet in [1436, 8936, 65_000] {
        let parts: Vec<_> = (0..(size - begin) / packet).map(|n| (begin + n * packet, packet)).collect();
        let (rooms, refused) = asked(size, &parts);
        assert_eq!((rooms, refused.len()), (vec![begin + packet + LARGE, size], 0), "{packet}");
    }
}

/// A large object that takes longer than its timeout to arrive is kept as long as it makes progress.
#[test]
fn a_large_object_is_given_up_when_it_makes_no_progress() {
    let second = Nanos::SECOND.0;
    let config = KeyedConfig { largest: u64::MAX, ..KeyedConfig::default() };
    let mut keyed = KeyedWindow::<()>::new(config);
    put(&mut keyed, 0, 1, 0, 16 * LARGE, 64 * LARGE);
    put(&mut keyed, 1, 2, 0, 1000, 64 * LARGE);
    keyed.handle_timeout(Nanos(second + 1));
    assert_eq!(retired(&mut keyed), [(2, Cause::Timeout)]);
    assert_eq!(keyed.poll_timeout(), Some(Nanos(2 * second + 1)));
    put(&mut keyed, second + 2, 1, 16 * LARGE, 16 * LARGE - 1, 64 * LARGE);
    keyed.handle_timeout(Nanos(2 * second + 1));
    assert_eq!(retired(&mut keyed), [(1, Cause::Timeout)], "a byte too few");
}

/// Without a timeout, a silent object keeps its memory until somebody else lacks memory.
#[test]
fn without_a_timeout_silence_alone_gives_nothing_up() {
    let second = Nanos::SECOND.0;
    let size = 9 * LARGE;
    let small = Placement { key: Key::of(2), length: 1, size: Some(100), ..Placement::default() };
    for packets in [1, 4] {
        let mut keyed = KeyedWindow::<()>::new(KeyedConfig { timeout: None, ..KeyedConfig::default() });
        keyed.limit_announced(8 * LARGE, u64::MAX);
        // Refused memory before the last packet of the object: that packet shows that it is not over.
        put(&mut keyed, 0, 1, 0, LARGE, size);
        assert!(keyed.reserve(small, Nanos(1), |_, old| Err(old)).is_err());
        (1..packets).for_each(|n| put(&mut keyed, 1 + n, 1, n * LARGE, LARGE, size));
        if packets > 1 {
            keyed.handle_timeout(Nanos(60 * second));
            assert_eq!(retired(&mut keyed), [], "memory is free");
        }
        assert!(keyed.reserve(small, Nanos(60 * second), |_, old| Err(old)).is_err());
        assert_eq!(retired(&mut keyed), [(1, Cause::Window)], "memory is short");
    }
    // A refusal during the silence counts when the silence is long enough, and a sender that resumes is not too late.
    let mut keyed = KeyedWindow::<()>::new(KeyedConfig { timeout: None, ..KeyedConfig::default() });
    keyed.limit_announced(8 * LARGE, u64::MAX);
    (0..4).for_each(|n| put(&mut keyed, n, 1, n * LARGE, LARGE, size));
    assert!(keyed.reserve(small, Nanos(second / 2), |_, old| Err(old)).is_err());
    keyed.handle_timeout(Nanos(second));
    assert_eq!(retired(&mut keyed), []);
    keyed.handle_timeout(Nanos(second + 3));
    assert_eq!(retired(&mut keyed), [(1, Cause::Window)]);
}

/// Memory that returns when it is dropped.
struct Block(u64, Rc<Cell<u64>>);

impl Drop for Block {
    fn drop(&mut self) {
        self.1.set(self.1.get() + self.0);
    }
}

/// A window with 64 times `LARGE` of memory, a quarter of it for what is unconfirmed.
struct Short {
    keyed: KeyedWindow<Block>,
    free: Rc<Cell<u64>>,
}

impl Short {
    fn new() -> Short {
        let mut keyed = KeyedWindow::new(KeyedConfig { window: 1000, ..KeyedConfig::default() });
        keyed.limit_announced(16 * LARGE, u64::MAX);
        Short { keyed, free: Rc::new(Cell::new(64 * LARGE)) }
    }

    fn put(&mut self, at: u64, number: u64, part: Range<u64>, size: u64) -> Result<(), Reject> {
        let free = &self.free;
        let room = |bytes, old| match free.get().checked_sub(bytes) {
            None => Err(old),
            Some(left) => {
                free.set(left);
                Ok(Block(bytes, free.clone()))
            }
        };
        let (key, length) = (Key::of(number), part.end - part.start);
        let part = Placement { key, offset: part.start, length, size: Some(size), ..Placement::default() };
        self.keyed.reserve(part, Nanos(at), room)?.commit(Nanos(at));
        Ok(())
    }

    fn retired(&mut self) -> Vec<(u64, Cause)> {
        std::iter::from_fn(|| self.keyed.poll_retired()).map(|one| (one.key.number, one.cause)).collect()
    }
}

/// One packet that announces nearly all memory costs nobody a heap, however often it comes.
#[test]
fn who_sends_what_they_announce_miss_no_memory_that_a_packet_claims() {
    for size in [60 * LARGE, 33 * LARGE, 17 * LARGE] {
        let mut short = Short::new();
        let (mut claimed, mut refused) = (0, 0);
        for n in 0..100 {
            let at = n * 5_000_000;
            for forged in 0..3 {
                match short.put(at, 1000 + 10 * n + forged, 0..1000, size) {
                    Ok(()) => claimed += 1,
                    Err(why) => {
                        assert_eq!(why, Reject::NoBuffer);
                        refused += 1;
                    }
                }
            }
            for half in [0..4 * LARGE, 4 * LARGE..8 * LARGE] {
                short.put(at + 1, n, half, 8 * LARGE).unwrap();
            }
            assert_eq!(short.retired().last(), Some(&(n, Cause::Complete)), "{size}");
        }
        let (packets, bytes) = short.keyed.take_taken_back();
        // Where there is room beside what is claimed, nothing has to give way.
        assert_eq!(
            (packets > 0, bytes),
            (size == 60 * LARGE, 1000 * packets),
            "{claimed} claimed, {refused} not"
        );
        short.keyed.finish(Nanos(Nanos::SECOND.0));
        drop(short.retired());
        assert_eq!((short.free.get(), short.keyed.unconfirmed.bytes()), (64 * LARGE, 0));
    }
}

/// Over TCP who has not sent more may be waiting for us, and who lacks memory waits.
#[test]
fn senders_who_are_held_back_keep_their_memory_and_take_none() {
    for [theirs, ours] in [[true, false], [false, true], [true, true]] {
        let mut short = Short::new();
        short.keyed.held_back(theirs);
        short.put(0, 1, 0..1000, 60 * LARGE).unwrap();
        short.keyed.held_back(ours);
        assert_eq!(short.put(1, 2, 0..1000, 8 * LARGE), Err(Reject::NoBuffer), "{theirs} {ours}");
        assert_eq!((short.keyed.live(), short.keyed.take_taken_back()), (1, (0, 0)));
    }
}

/// No object gives way to another of its size, nor one that has enough of its bytes.
#[test]
fn memory_is_given_back_to_smaller_objects_by_those_that_hardly_began() {
    let mut short = Short::new();
    for n in 0..16 {
        short.put(n, n, 0..1000, 4 * LARGE).unwrap();
    }
    for size in [2 * LARGE + 1, 4 * LARGE, 8 * LARGE] {
        assert_eq!(short.put(20, 100, 0..1000, size), Err(Reject::NoBuffer), "{size}");
    }
    assert_eq!(short.keyed.live(), 16);
    short.put(21, 100, 0..1000, 2 * LARGE).unwrap();
    assert_eq!((short.keyed.live(), short.keyed.take_taken_back()), (16, (1, 1000)));

    let mut short = Short::new();
    let enough = 60 * LARGE / EVIDENCE / 2;
    short.put(0, 1, 0..enough, 60 * LARGE).unwrap();
    assert_eq!(short.put(1, 2, 0..1000, 8 * LARGE), Err(Reject::NoBuffer));
    // Within a quarter it is a matter of pace.
    let mut short = Short::new();
    short.put(0, 1, 0..1000, 16 * LARGE).unwrap();
    short.free.set(0);
    assert_eq!(short.put(1, 2, 0..1000, LARGE), Err(Reject::NoBuffer));
    assert_eq!(short.keyed.live(), 1);
}
