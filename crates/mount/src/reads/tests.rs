use super::*;
use proptest::prelude::*;

impl UnitData for Vec<u8> {
    fn slice(&self, from: usize, to: usize) -> Option<&[u8]> {
        self.get(from..to)
    }
    fn copy(&self, from: usize, into: &mut [u8]) {
        into.copy_from_slice(&self[from..from + into.len()]);
    }
}

const UNIT: usize = 16;

/// The byte at each place of each unit.
fn byte(key: UnitKey, at: usize) -> u8 {
    (key.chunk as u8).wrapping_mul(31).wrapping_add(key.unit as u8).wrapping_mul(17).wrapping_add(at as u8)
}

fn data(key: UnitKey) -> Vec<u8> {
    (0..UNIT).map(|at| byte(key, at)).collect()
}

fn key(unit: u64) -> UnitKey {
    UnitKey { chunk: unit / 4, unit: unit % 4 }
}

/// A range over units of `UNIT` bytes; unit 5 is missing.
fn range(from: usize, to: usize) -> Vec<Segment> {
    let (mut at, mut all) = (from, Vec::new());
    while at < to {
        let unit = at / UNIT;
        let end = to.min((unit + 1) * UNIT);
        all.push(match unit {
            5 => Segment::Missing { bytes: end - at, phase: (at % UNIT) as u64 },
            _ => {
                let (from, to) = (at % UNIT, at % UNIT + end - at);
                Segment::Unit { key: key(unit as u64), extent: unit / 4, from, to }
            }
        });
        at = end;
    }
    all
}

/// What a read of a range must give: the bytes, and fill in the place of what cannot be read.
fn expected(from: usize, to: usize, is_bad: impl Fn(UnitKey) -> bool) -> Vec<Option<u8>> {
    let of = |at: usize| {
        let of = key((at / UNIT) as u64);
        let bad = at / UNIT == 5 || is_bad(of);
        (!bad).then(|| byte(of, at % UNIT))
    };
    (from..to).map(of).collect()
}

fn bytes(answer: &Answer<Vec<u8>>) -> Option<Vec<u8>> {
    match answer {
        Answer::Data(data, from, to) => Some(data[*from..*to].to_vec()),
        Answer::Bytes(bytes) => Some(bytes.clone()),
        Answer::Error => None,
    }
}

proptest! {
    /// Any reads, units in any order, some of which fail, some forgotten: each read is answered once, with its own bytes, with
    /// fill where that was asked for, or with an error; never with other bytes.
    #[test]
    fn a_read_gets_its_own_bytes_or_none(
        fill in any::<bool>(), is_partial in any::<bool>(), bad in 0u64..12,
        reads in prop::collection::vec((0usize..150, 1usize..50), 1..12),
        order in prop::collection::vec(any::<u16>(), 24),
    ) {
        let is_bad = |of: UnitKey| of == key(bad);
        let (now, mut reading, mut wanted) = (Instant::now(), Reads::new(fill, Duration::from_secs(1)), Vec::new());
        let (mut answers, mut order) = (Vec::new(), order.into_iter().cycle());
        for (token, &(from, length)) in reads.iter().enumerate() {
            answers.extend(reading.handle_read(now, range(from, from + length), (is_partial, |_| false), token, &mut wanted));
            // Some units come meanwhile, and some of what is in memory goes.
            if order.next() > Some(30_000) && !wanted.is_empty() {
                let of: UnitKey = wanted.swap_remove(order.next().unwrap() as usize % wanted.len());
                reading.handle_unit(now, of, (!is_bad(of)).then(|| data(of)), &mut answers);
            }
            if order.next() > Some(50_000) {
                reading.evict();
            }
        }
        while !wanted.is_empty() {
            let of = wanted.swap_remove(order.next().unwrap() as usize % wanted.len());
            reading.handle_unit(now, of, (!is_bad(of)).then(|| data(of)), &mut answers);
        }
        prop_assert_eq!(reading.waiting(), 0);
        let mut tokens: Vec<usize> = answers.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, (0..reads.len()).collect::<Vec<_>>());
        for (token, answer) in &answers {
            let (from, length) = reads[*token];
            let whole = expected(from, from + length, is_bad);
            match bytes(answer) {
                None => prop_assert!(!fill && whole.contains(&None)),
                Some(got) => {
                    prop_assert!(got.len() == length || (is_partial && !fill && !got.is_empty()));
                    for (at, (got, whole)) in got.iter().zip(&whole).enumerate() {
                        let filled = fill.then(|| FILL[(from + at) % UNIT % FILL.len()]);
                        prop_assert_eq!(Some(*got), whole.or(filled));
                    }
                }
            }
        }
    }
}

#[test]
fn a_read_ends_with_an_error_when_its_disk_makes_no_progress_and_no_sooner() {
    let limit = Duration::from_secs(10);
    let (begin, mut wanted, mut answers) = (Instant::now(), Vec::new(), Vec::new());
    let mut reads: Reads<Vec<u8>, u8> = Reads::new(false, limit);
    assert_eq!(reads.handle_read(begin, range(0, 8), (true, |_| false), 1, &mut wanted), None);
    let later = |seconds: u64| begin + Duration::from_secs(seconds);
    // The disk does other work meanwhile.
    reads.handle_timeout(later(15), |_| Some(later(9)), &mut answers);
    assert!(answers.is_empty());
    reads.handle_timeout(later(19), |_| Some(later(9)), &mut answers);
    assert_eq!(answers, [(1, Answer::Error)]);
    // A unit that comes after all is kept for the next read; another one of that disk is an error at once.
    reads.handle_unit(later(20), key(0), Some(data(key(0))), &mut answers);
    let read = reads.handle_read(later(20), range(0, 8), (true, |_| true), 2, &mut wanted);
    assert_eq!(bytes(&read.unwrap().1).unwrap(), data(key(0))[..8]);
    let read = reads.handle_read(later(20), range(16, 24), (true, |_| true), 3, &mut wanted);
    assert_eq!(read, Some((3, Answer::Error)));
}

#[test]
fn a_unit_that_failed_is_tried_again_after_a_while() {
    let (now, mut wanted, mut answers) = (Instant::now(), Vec::new(), Vec::new());
    let mut reads: Reads<Vec<u8>, u8> = Reads::new(false, Duration::from_secs(10));
    let mut read = |reads: &mut Reads<Vec<u8>, u8>, at, token| {
        wanted.clear();
        let answer = reads.handle_read(at, range(0, 8), (true, |_| false), token, &mut wanted);
        (answer, wanted.len())
    };
    assert_eq!(read(&mut reads, now, 1), (None, 1));
    reads.handle_unit(now, key(0), None, &mut answers);
    assert_eq!(answers, [(1, Answer::Error)]);
    assert_eq!(read(&mut reads, now, 2), (Some((2, Answer::Error)), 0));
    assert_eq!(read(&mut reads, now + RETRY_DELAY, 3), (None, 1));
}

/// What cannot be loaded for want of memory is not missing: no fill stands for it, and it is tried again at once.
#[test]
fn a_shortage_of_memory_is_an_error_also_with_fill() {
    let (now, mut wanted, mut answers) = (Instant::now(), Vec::new(), Vec::new());
    let mut reads: Reads<Vec<u8>, u8> = Reads::new(true, Duration::from_secs(10));
    assert_eq!(reads.handle_read(now, range(0, 24), (true, |_| false), 1, &mut wanted), None);
    assert_eq!(reads.handle_read(now, range(16, 20), (true, |_| false), 2, &mut wanted), None);
    assert_eq!(wanted, [key(0), key(1)]);
    reads.handle_shortage(key(0), &mut answers);
    assert_eq!(answers, [(1, Answer::Error)]);
    wanted.clear();
    assert_eq!(reads.handle_read(now, range(0, 4), (true, |_| false), 3, &mut wanted), None);
    assert_eq!(wanted, [key(0)]);
    answers.clear();
    reads.handle_unit(now, key(1), Some(data(key(1))), &mut answers);
    assert_eq!(answers, [(2, Answer::Bytes(data(key(1))[..4].to_vec()))]);
}

#[test]
fn the_least_recently_used_unit_goes_first() {
    let (now, mut answers) = (Instant::now(), Vec::new());
    let mut reads: Reads<Vec<u8>, u8> = Reads::new(false, Duration::from_secs(10));
    (0..3).for_each(|unit| reads.handle_unit(now, key(unit), Some(data(key(unit))), &mut answers));
    let mut wanted = Vec::new();
    assert!(reads.handle_read(now, range(0, 8), (true, |_| false), 1, &mut wanted).is_some());
    assert!(reads.evict());
    assert!(reads.handle_read(now, range(0, 8), (true, |_| false), 2, &mut wanted).is_some());
    assert!(reads.handle_read(now, range(16, 24), (true, |_| false), 3, &mut wanted).is_none());
    assert!(reads.evict() && reads.evict() && !reads.evict());
}
