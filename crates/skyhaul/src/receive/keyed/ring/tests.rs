//! Rings with one and with many who wait; and how patient they are.

use super::*;
use std::sync::Arc;

fn now() -> Option<Instant> {
    Some(Instant::now())
}

fn push(ring: &Ring<u32>, items: &[u32]) -> Vec<u32> {
    let mut batch: VecDeque<u32> = items.iter().copied().collect();
    ring.push(&mut batch);
    batch.into()
}

#[test]
fn both_halves_count_against_the_bound() {
    let ring = Ring::new(3);
    assert_eq!(push(&ring, &[1, 2, 3, 4]), [4]);
    assert_eq!(ring.pop(now()), Ok(1));
    assert_eq!(push(&ring, &[5, 6]), [6]);
    assert_eq!(ring.len(), 3);
    let mut got = Vec::new();
    while ring.pop_many(&mut got, 2) > 0 {}
    assert_eq!(got, [2, 3, 5]);
    assert_eq!(ring.pop(now()), Err(GetError::Empty));
    push(&ring, &[7]);
    ring.close();
    assert_eq!((ring.pop(None), ring.pop(None)), (Ok(7), Err(GetError::Stopped)));
}

#[test]
fn every_item_reaches_one_of_many_who_wait() {
    let ring = Arc::new(Ring::new(8));
    let getters: Vec<_> = (0..3)
        .map(|_| {
            let ring = ring.clone();
            std::thread::spawn(move || {
                let mut got = Vec::new();
                while let Ok(item) = ring.pop(None) {
                    got.push(item);
                }
                got
            })
        })
        .collect();
    let putters: Vec<_> = (0..2u32)
        .map(|half| {
            let ring = ring.clone();
            std::thread::spawn(move || {
                for n in 0..500 {
                    let first = half * 10_000 + n * 10;
                    let mut batch: VecDeque<u32> = (first..first + 10).collect();
                    while ring.push(&mut batch) > 0 || !batch.is_empty() {
                        if !batch.is_empty() {
                            ring.wait_for_room(Duration::from_secs(1));
                        }
                    }
                }
            })
        })
        .collect();
    putters.into_iter().for_each(|p| p.join().unwrap());
    ring.close();
    let mut all: Vec<u32> = getters.into_iter().flat_map(|g| g.join().unwrap()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq((0..5000).chain(10_000..15_000)));
}

#[test]
fn a_batch_wakes_as_many_as_it_has_something_for() {
    let ring = Arc::new(Ring::new(8));
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let (ring, tell) = (ring.clone(), tell.clone());
        // Each takes one and goes: nobody comes back for what is left.
        std::thread::spawn(move || tell.send(ring.pop(None)));
    }
    while lock(&ring.back).waiting < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    push(&ring, &[1, 2, 3]);
    let mut got: Vec<_> =
        (0..3).map(|_| told.recv_timeout(Duration::from_secs(60)).unwrap().unwrap()).collect();
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3]);
}

#[test]
fn who_waits_is_patient_while_batches_come_fast_only() {
    let begin = Instant::now();
    let at = |micros: u64| begin + Duration::from_micros(micros);
    let mut pace = Pace::new();
    let fast = |pace: &mut Pace, from: u64, step: u64, waits: u64, batches: u32| -> Vec<bool> {
        (0..waits)
            .map(|n| {
                pace.batches = batches;
                pace.is_fast(at(from + n * step))
            })
            .collect()
    };
    // One heap every 15 µs: after some dozen, and then every 200 µs with what gathered.
    let slow_to_trust = fast(&mut pace, 0, 15, 40, 1);
    assert!(!slow_to_trust[..15].contains(&true) && slow_to_trust[39]);
    assert_eq!(fast(&mut pace, 600, 200, 20, 13), [true; 20]);
    // One every 100 µs, or the same by fours: each at once.
    assert!(!fast(&mut pace, 10_000, 100, 60, 1)[20..].contains(&true));
    assert!(!fast(&mut pace, 20_000, 400, 60, 4)[20..].contains(&true));
    // A sender that waits for its answer brings one to a sleep.
    assert!(fast(&mut pace, 50_000, 15, 40, 1)[39]);
    (pace.batches, pace.gap) = (1, 20_000);
    pace.gathered();
    assert_eq!(pace.gap, MAX_GAP_NANOS);
}

#[test]
fn patience_ends_with_its_time_with_enough_and_with_the_end() {
    let ring = Arc::new(Ring::new(16));
    assert_eq!(ring.enough(), 2);
    let patient = |ring: &Arc<Ring<u32>>, until: Option<Duration>| {
        lock(&ring.back).pace = Pace { batches: 1000, since: Some(Instant::now()), gap: 1 };
        let of = ring.clone();
        let until = until.map(|wait| Instant::now() + wait);
        std::thread::spawn(move || of.pop(until))
    };
    // One is not enough to be woken, but is there when the time is over.
    for _ in 0..20 {
        let getter = patient(&ring, None);
        std::thread::sleep(Duration::from_micros(100));
        push(&ring, &[1]);
        assert_eq!(getter.join().unwrap(), Ok(1));
    }
    // No call outlasts its deadline, and an empty queue is waited for on.
    assert_eq!(patient(&ring, Some(Duration::from_micros(50))).join().unwrap(), Err(GetError::Empty));
    let getter = patient(&ring, None);
    std::thread::sleep(Duration::from_millis(5));
    assert!(!getter.is_finished());
    push(&ring, &[1, 2, 3]);
    assert_eq!(getter.join().unwrap(), Ok(1));
    assert_eq!((ring.try_pop(), ring.try_pop()), (Ok(2), Ok(3)));
    assert_eq!(ring.try_pop(), Err(GetError::Empty));
    let getter = patient(&ring, None);
    ring.close();
    assert_eq!(getter.join().unwrap(), Err(GetError::Stopped));
    assert_eq!(ring.try_pop(), Err(GetError::Stopped));
}

#[test]
fn the_descriptor_is_readable_while_something_waits_or_all_is_over() {
    use std::os::fd::AsRawFd;
    let ring = Ring::new(8);
    push(&ring, &[1]);
    let fd = ring.ready_fd().unwrap();
    assert_eq!(fd.as_raw_fd(), ring.ready_fd().unwrap().as_raw_fd());
    let awake = |ring: &Ring<u32>| lock(&ring.back).awake;
    assert!(awake(&ring));
    ring.pop(now()).unwrap();
    assert!(!awake(&ring));
    push(&ring, &[2, 3]);
    ring.pop(now()).unwrap();
    assert!(awake(&ring), "one still waits");
    ring.pop(now()).unwrap();
    assert!(!awake(&ring));
    ring.close();
    assert!(awake(&ring));
    assert_eq!(ring.pop(now()), Err(GetError::Stopped));
    assert!(awake(&ring));
}
