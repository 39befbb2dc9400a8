//! Who waits for whom, for what time, and what ends it.

use super::*;

/// A clock that only goes on while somebody waits, and then exactly as far.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<u64>>);

impl Clock for Told {
    fn now(&self) -> Nanos {
        Nanos(*self.0.lock().unwrap())
    }
    fn wait(&self, due: Nanos, _: &SendControl, _: &dyn Fn() -> bool) {
        *self.0.lock().unwrap() = due.0;
    }
}

/// Writes down when how many bytes came.
struct Log {
    clock: Told,
    log: Arc<Mutex<Vec<(u64, usize)>>>,
}

impl Deliver for Log {
    fn deliver(&mut self, _: usize, packets: Gathered<'_>) -> io::Result<Sent> {
        self.log.lock().unwrap().push((self.clock.now().0, packets.bytes()));
        Ok(Sent { packets: packets.count(), bytes: packets.bytes(), refused: 0 })
    }
}

#[test]
fn packets_go_when_they_are_due() {
    let (clock, log) = (Told::default(), Arc::new(Mutex::new(Vec::new())));
    let outlet = Outlet::Custom(Box::new(Log { clock: clock.clone(), log: log.clone() }));
    let config = SendConfig { rate: 1_000_000_000, burst_bytes: 5000, ..packet(1472) };
    let stream = Stream::with_clock(outlet, config, Box::new(clock.clone())).unwrap();
    let heap = Heap::pattern(flavour(48), 0x1600, 1, 1_000_000).unwrap();
    let bytes = stream.send(&heap, &HeapOptions::default()).unwrap();
    let mut before = 0;
    for &(time, bytes) in &*log.lock().unwrap() {
        assert_eq!(time, before * 8, "a byte takes 8 ns");
        assert!(bytes <= 5000 + 1472);
        before += bytes as u64;
    }
    assert_eq!(before, bytes);
    // A heap with its own rate, after the time that the first takes; then none, then the stream's new one.
    log.lock().unwrap().clear();
    let small = Heap::pattern(flavour(48), 0x1600, 1, 800).unwrap();
    let at = |rate| HeapOptions { rate, ..HeapOptions::default() };
    let own = [(&small, at(Some(1_000_000))), (&small, at(Some(0))), (&small, at(None)), (&small, at(None))];
    stream.send_all(&own, Order::Serial).unwrap();
    stream.set_rate(2_000_000);
    stream.send(&small, &HeapOptions::default()).unwrap();
    stream.send(&small, &HeapOptions::default()).unwrap();
    let first = bytes * 8;
    let times: Vec<u64> = log.lock().unwrap().iter().map(|(time, _)| time - first).collect();
    let one = small.payload_bytes() + 48;
    let slow = one * 8000;
    assert_eq!(times[..2], [0, slow], "as fast as possible, but after what is before it");
    // Then two in one burst at 1 Gb/s, still to be paid when the rate changes.
    assert_eq!(times[2..], [slow, slow + one * 8000, slow + one * 12_000]);
    assert_eq!(stream.stats().slipped_seconds, 0.0);
}

#[test]
fn cancelling_ends_what_is_paced_and_what_is_queued() {
    let (stream, bytes) = to_bytes(SendConfig { rate: 1000, ..packet(1472) });
    let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 100_000).unwrap());
    let tickets: Vec<Ticket> = (0..3)
        .map(|_| stream.queue(vec![(heap.clone(), HeapOptions::default())], Order::Serial).unwrap())
        .collect();
    let called = Arc::new(Mutex::new(0));
    let count = called.clone();
    tickets[2].on_done(move || *count.lock().unwrap() += 1);
    while bytes.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    assert!(!stream.flush(Some(Duration::from_millis(1))), "a day's work");
    assert!(tickets[0].poll().is_none() && tickets[0].wait(Some(Duration::ZERO)).is_none());
    assert_eq!(stream.stats().waiting, 3);
    stream.cancel();
    for ticket in &tickets {
        assert!(matches!(ticket.wait(None).unwrap(), Err(SendError::Cancelled)));
    }
    assert!(stream.flush(None));
    assert_eq!(*called.lock().unwrap(), 1);
    assert_eq!((stream.stats().cancelled, stream.stats().waiting), (3, 0));
    stream.set_rate(0);
    let last = stream.send(&Heap::new(flavour(48)), &HeapOptions::default());
    assert!(matches!(last, Err(SendError::Cut) | Ok(_)), "{last:?}");
}

#[test]
fn a_new_rate_wakes_who_sleeps_by_the_old_one() {
    let queue = InprocQueue::default();
    let stream = Stream::new(Outlet::Inproc(vec![queue]), SendConfig { rate: 8, ..packet(1472) }).unwrap();
    let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 100_000).unwrap());
    let ticket = stream.queue(vec![(heap, HeapOptions::default())], Order::Serial).unwrap();
    while stream.stats().packets == 0 {
        std::thread::yield_now();
    }
    stream.set_rate(0);
    assert!(ticket.wait(None).unwrap().unwrap() > 100_000);
    assert!(stream.close(None).is_ok());
}

#[test]
fn a_full_queue_of_packets_is_waited_for_and_cancelled() {
    let queue = InprocQueue::new(10_000);
    let stream = Arc::new(Stream::new(Outlet::Inproc(vec![queue.clone()]), packet(1472)).unwrap());
    let sender = stream.clone();
    let heap = Heap::pattern(flavour(48), 0x1600, 1, 1_000_000).unwrap();
    let sends = std::thread::spawn(move || sender.send(&heap, &HeapOptions::default()));
    while queue.waiting() == 0 {
        std::thread::yield_now();
    }
    stream.cancel();
    assert!(matches!(sends.join().unwrap(), Err(SendError::Cancelled)));
    queue.close();
    let error = stream.send(&Heap::new(flavour(48)), &HeapOptions::default()).unwrap_err();
    assert!(matches!(error, SendError::Io(_)) && error.to_string().contains("hint: "), "{error}");
    assert_eq!((stream.stats().cancelled, stream.stats().failed), (1, 1));
}

#[test]
fn the_last_hold_may_go_in_a_callback() {
    let queue = InprocQueue::new(10_000);
    let stream = Arc::new(Stream::new(Outlet::Inproc(vec![queue.clone()]), packet(1472)).unwrap());
    let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 1_000_000).unwrap());
    let submit = || stream.queue(vec![(heap.clone(), HeapOptions::default())], Order::Serial).unwrap();
    let (first, second) = (submit(), submit());
    let last = stream.clone();
    first.on_done(move || drop(last));
    drop(stream);
    let mut reader = queue;
    while second.poll().is_none() {
        reader.poll(Duration::from_millis(1), &mut |_| {}).unwrap();
    }
    let sent = [first, second].map(|ticket| ticket.poll().unwrap().unwrap());
    assert!(sent[0] > 1_000_000 && sent[1] == sent[0], "{sent:?}");
}

#[test]
fn what_a_callback_would_wait_for_itself_fails_at_once() {
    const LONG: Option<Duration> = Some(Duration::from_secs(60));
    let (stream, bytes) = to_bytes(packet(1472));
    let stream = Arc::new(stream);
    // The engine waits for this while both heaps are queued.
    let gate = bytes.lock().unwrap();
    let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 100).unwrap());
    let submit = || stream.queue(vec![(heap.clone(), HeapOptions::default())], Order::RoundRobin).unwrap();
    let (first, second) = (submit(), submit());
    let (tell, told) = std::sync::mpsc::channel();
    let (inside, later, again) = (stream.clone(), second.clone(), heap.clone());
    first.on_done(move || {
        let sent = inside.send(&again, &HeapOptions::default());
        let queued = inside.queue(vec![(again, HeapOptions::default())], Order::Serial);
        tell.send((inside.flush(None), later.wait(None).is_some(), sent, queued)).unwrap();
    });
    drop(gate);
    let (flushed, waited, sent, queued) = told.recv_timeout(LONG.unwrap()).expect("the callback returns");
    assert!(!flushed && !waited && matches!(sent, Err(SendError::OwnThread)), "{sent:?}");
    let sent = [queued.unwrap(), second].map(|ticket| ticket.wait(LONG).unwrap().unwrap());
    assert!(sent[0] > 100 && sent[1] == sent[0], "{sent:?}");
    assert!(stream.flush(LONG), "everybody else may wait");
    stream.send(&heap, &HeapOptions::default()).unwrap();
}

/// Delivers nothing the first time.
struct Panics(bool);

impl Deliver for Panics {
    fn deliver(&mut self, _: usize, packets: Gathered<'_>) -> io::Result<Sent> {
        assert!(std::mem::replace(&mut self.0, true), "as it should");
        Ok(Sent { packets: packets.count(), bytes: packets.bytes(), refused: 0 })
    }
}

#[test]
fn what_panics_on_the_streams_thread_hangs_nobody() {
    const LONG: Option<Duration> = Some(Duration::from_secs(60));
    let stream = Stream::new(Outlet::Custom(Box::new(Panics(false))), packet(1472)).unwrap();
    let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 10_000).unwrap());
    let queue = || stream.queue(vec![(heap.clone(), HeapOptions::default())], Order::Serial).unwrap();
    let error = queue().wait(LONG).unwrap().unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    // And a callback, which is there before the heap has gone.
    stream.set_rate(8);
    let second = queue();
    second.on_done(|| panic!("as it should"));
    stream.set_rate(0);
    let sent = [second, queue()].map(|ticket| ticket.wait(LONG).unwrap().unwrap());
    assert!(sent[0] > 10_000 && sent[1] == sent[0], "{sent:?}");
    assert!(stream.flush(LONG));
    assert_eq!((stream.stats().failed, stream.stats().objects, stream.stats().waiting), (1, 2, 0));
}

#[test]
fn the_queue_has_its_limit() {
    let (stream, _) = to_bytes(SendConfig { max_heaps: 3, rate: 8, ..packet(1472) });
    let heap = Arc::new(Heap::pattern(flavour(48), 0x1600, 1, 10_000).unwrap());
    let two = || vec![(heap.clone(), HeapOptions::default()); 2];
    let first = stream.queue(two(), Order::Serial).unwrap();
    let error = stream.queue(two(), Order::Serial).unwrap_err();
    assert!(
        matches!(error, SendError::Full { more: 2, waiting: 2, most: 3 })
            && error.to_string().contains("hint: ")
    );
    assert_eq!(stream.queue(vec![], Order::Serial).unwrap().poll().unwrap().unwrap(), 0);
    assert!(matches!(stream.close(Some(Duration::ZERO)), Err(SendError::Cancelled)));
    assert!(matches!(first.poll().unwrap(), Err(SendError::Cancelled)));
}

/// Shows fewer bytes when told to.
struct Shrinks(Mutex<bool>);

impl AsRef<[u8]> for Shrinks {
    fn as_ref(&self) -> &[u8] {
        &pattern::slice(1, 0, 5000)[..if *self.0.lock().unwrap() { 4000 } else { 5000 }]
    }
}

#[test]
fn one_bad_heap_does_not_end_the_others() {
    let queue = InprocQueue::default();
    let stream = Stream::new(Outlet::Inproc(vec![queue]), packet(1472)).unwrap();
    let shrinks = Arc::new(Shrinks(Mutex::new(false)));
    let mut bad = Heap::new(flavour(48));
    bad.add_item(0x1000, shrinks.clone()).unwrap();
    let good = Heap::pattern(flavour(48), 0x1600, 1, 100_000).unwrap();
    assert!(stream.send(&bad, &HeapOptions::default()).unwrap() > 5000);
    *shrinks.0.lock().unwrap() = true;
    assert!(matches!(stream.send(&bad, &HeapOptions::default()), Err(SendError::Changed)));
    let (bad, good) = (Arc::new(bad), Arc::new(good));
    let queue =
        |heap: &Arc<Heap>| stream.queue(vec![(heap.clone(), HeapOptions::default())], Order::Serial).unwrap();
    let all = [queue(&good), queue(&bad), queue(&good)].map(|ticket| ticket.wait(None).unwrap());
    assert!(matches!(all[1], Err(SendError::Changed)), "{:?}", all[1]);
    let sent = |n: usize| all[n].as_ref().is_ok_and(|&bytes| bytes > 100_000);
    assert!(sent(0) && sent(2), "{all:?}");
    assert_eq!((stream.stats().failed, stream.stats().waiting), (2, 0));
}
