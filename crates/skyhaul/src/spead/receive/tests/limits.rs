//! Ends that were asked for: deadlines, silence, a heap's time, and how much is wanted.

use super::*;
use skyhaul_core::placement::Nanos;

#[test]
fn get_never_waits_past_its_deadline_and_streams_not_past_theirs() {
    let stream = Stream::new(&StreamConfig { deadline: Some(Duration::from_millis(50)), ..config() });
    let begin = Instant::now();
    assert_eq!(stream.get(Some(Duration::from_millis(1))).unwrap_err(), GetError::Empty);
    assert_eq!(stream.get(None).unwrap_err(), GetError::Stopped, "without any reader");
    assert!(begin.elapsed() >= Duration::from_millis(50));
    assert_eq!(stream.ended(), Some(StreamEnd::Deadline));
    let stream = Stream::new(&StreamConfig { deadline: Some(Duration::from_millis(30)), ..config() });
    stream.add_inproc(InprocQueue::default()).unwrap();
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
}

#[test]
fn silence_ends_a_stream_after_it_began_and_garbage_is_silence() {
    let stream = Stream::new(&StreamConfig { idle_timeout: Some(Duration::from_millis(40)), ..config() });
    let queue = InprocQueue::default();
    stream.add_inproc(queue.clone()).unwrap();
    assert_eq!(stream.get(Some(Duration::from_millis(80))).unwrap_err(), GetError::Empty, "not begun");
    queue.push(&packets(1, 10, 1472)[0], Duration::ZERO).unwrap();
    assert_eq!(stream.get(LONG).unwrap().number, 1);
    let mut garbage = 0;
    while stream.try_get().is_err_and(|e| e == GetError::Empty) {
        let _ = queue.push(b"garbage", Duration::ZERO);
        garbage += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(stream.ended(), Some(StreamEnd::Idle));
    assert!(garbage > 0 && stream.stats().total.rejects.get(Reject::BadMagic) > 0);
}

#[test]
fn a_heap_with_a_lost_packet_ends_by_its_time() {
    let mut config = StreamConfig { incomplete: true, ..config() };
    config.heaps.timeout = Some(skyhaul_core::placement::Nanos(30_000_000));
    let stream = Stream::new(&config);
    let queue = InprocQueue::default();
    stream.add_inproc(queue.clone()).unwrap();
    let mut sent = packets(5, 4000, 1472);
    sent.remove(1);
    sent.iter().for_each(|packet| assert!(queue.push(packet, Duration::ZERO).unwrap()));
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    assert_eq!((heap.complete, heap.cause, heap.missing.len()), (false, Cause::Timeout, 1));
    assert_eq!(heap.received + heap.missing[0].end - heap.missing[0].start, 4000);
    let total = stream.stats().total;
    assert_eq!((total.incomplete_heaps, total.retired(Cause::Timeout)), (1, 1));
}

#[test]
fn limits_and_the_first_heap_wanted() {
    let bytes: Vec<u8> = (0..100).flat_map(|n| packets(n, 1000, 1472).concat()).collect();
    let run = |config: StreamConfig| {
        let stream = Stream::new(&config);
        stream.add_bytes(bytes.clone()).unwrap();
        (all(&stream).into_keys().collect::<Vec<_>>(), stream.stats())
    };
    let (got, stats) = run(StreamConfig { heap_limit: Some(7), start_at: Some(20), ..config() });
    assert!(got.into_iter().eq(20..27));
    assert_eq!((stats.ended, stats.total.rejects.get(Reject::BeforeStart)), (Some(StreamEnd::Limit), 20));
    assert_eq!(run(StreamConfig { byte_limit: Some(2500), ..config() }).0, [0, 1, 2]);
}

#[test]
fn incomplete_heaps_that_the_user_keeps_hold_no_memory_without_their_payload() {
    const LARGE: u64 = 16 << 20;
    let claim = |counter| {
        let own =
            [(1, counter), (2, LARGE), (3, 0), (4, 8)].map(|(id, value)| flavour().immediate(id, value));
        let head = [0x53, 4, 2, 6, 0, 0, 0, 4].into_iter().chain(own.into_iter().flat_map(u64::to_be_bytes));
        head.chain([7; 8]).collect::<Vec<u8>>()
    };
    let mut config = StreamConfig { incomplete: true, incomplete_payload: false, ..config() };
    (config.full, config.heaps.window, config.heaps.timeout) = (Full::Wait, 4, None);
    config.heaps.counting = skyhaul_core::assembly::Counting::Begun;
    // More than the memory has.
    let mut sent: Vec<u8> = (1000..1004).flat_map(claim).collect();
    sent.extend((0..40).flat_map(|n| packets(n, 3000, 1472).concat()));
    let stream = Stream::new(&config);
    stream.add_bytes(sent).unwrap();
    let kept = all(&stream);
    let complete = kept.values().filter(|heap| heap.complete);
    assert!(complete.map(|heap| heap.number).eq(0..40), "{:?}", stream.stats().total);
    for heap in kept.values().filter(|heap| !heap.complete) {
        assert_eq!((heap.size, heap.received, heap.payload().len()), (Some(LARGE), 8, 0));
    }
    assert_eq!(kept.len(), 44);
}

/// The rest of a heap lies in the queue while the reader waits for the user: nothing is late, and it is not delivered in pieces.
#[test]
fn a_heap_is_not_given_up_while_its_reader_waits_for_the_user() {
    let mut slow = StreamConfig { ring: 1, incomplete: true, ..config() };
    (slow.heaps.timeout, slow.heaps.remember_for) = (Some(Nanos::SECOND), Nanos(50_000_000));
    let split = packets(1, 20_000, 9000);
    // More than a reader looks at in one go.
    let others = (2..200).flat_map(|n| packets(n, 8000, 9000));
    let sent: Vec<_> = split[..1].iter().cloned().chain(others).chain(split[1..].iter().cloned()).collect();
    let stream = Stream::new(&slow);
    let queue = queue_of(&sent);
    queue.close();
    stream.add_inproc(queue).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let heaps = all(&stream);
    assert_eq!((heaps.len(), &heaps[&1].missing), (199, &Vec::new()));
}
