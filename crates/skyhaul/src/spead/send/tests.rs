//! Sending heaps to memory, queues, sockets and a clock that is only told.

mod transports;

use super::*;
use crate::inproc::InprocQueue;
use crate::send::{Clock, SendControl};
use crate::spead::receive;
use skyhaul_core::pattern;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::spead::{Flavour, Head};
use skyhaul_io::gathered::Gathered;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::TcpSendOptions;
use skyhaul_io::udp::send::{SendOptions, Sent};
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn flavour(bits: u8) -> Flavour {
    Flavour::new(bits).unwrap()
}

fn with_counter(counter: u64) -> HeapOptions {
    HeapOptions { counter: Some(counter), ..HeapOptions::default() }
}

/// A stream into memory.
fn to_bytes(config: SendConfig) -> (Stream, Arc<Mutex<Vec<u8>>>) {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    (Stream::new(Outlet::Bytes(bytes.clone()), config).unwrap(), bytes)
}

fn packet(bytes: usize) -> SendConfig {
    SendConfig { packet: PacketSize::Packet(bytes), max_heaps: 1000, ..SendConfig::default() }
}

fn full(bytes: usize) -> SendConfig {
    SendConfig { split: Split::Full, ..packet(bytes) }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

/// Counter, offset and payload of each packet.
fn packets(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut all = Vec::new();
    while let Some(head) = Head::peek(bytes).unwrap() {
        let (packet, rest) = bytes.split_at(head.start + head.length as usize);
        all.push((head.counter, head.offset, &packet[head.start..]));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{} bytes behind the last packet", bytes.len());
    all
}

/// Heaps put together from packets.
fn heaps(bytes: &[u8]) -> BTreeMap<u64, Vec<u8>> {
    let mut heaps = BTreeMap::<u64, Vec<u8>>::new();
    for (counter, offset, payload) in packets(bytes) {
        let heap = heaps.entry(counter).or_default();
        assert_eq!(heap.len() as u64, offset, "heap {counter}");
        heap.extend_from_slice(payload);
    }
    heaps
}

/// Items in chunks of the given lengths.
fn chunked(lengths: &[usize]) -> (Heap, Vec<u8>) {
    let mut heap = Heap::new(flavour(48));
    let mut all = Vec::new();
    for (n, &length) in lengths.iter().enumerate() {
        let bytes = pattern::slice(n as u64, 0, length).to_vec();
        all.extend_from_slice(&bytes);
        heap.add_item(0x1000 + n as u64, bytes).unwrap();
    }
    (heap, all)
}

#[test]
fn the_bytes_are_those_of_spead2() {
    let (stream, bytes) = to_bytes(full(1472));
    let mut heap = Heap::new(flavour(48));
    stream.send(&heap, &with_counter(7)).unwrap();
    heap.add_end();
    stream.send(&heap, &with_counter(7)).unwrap();
    let mut items = Heap::new(flavour(40));
    assert_eq!(items.add_immediate(0x1001, 9).unwrap(), 0);
    items.add_item(0x1002, b"hi".as_slice()).unwrap();
    items.set_immediate(0, 0x01_0203).unwrap();
    stream.send(&items, &with_counter(7)).unwrap();
    let empty = "80 01 00 00 00 00 00 07 | 80 02 00 00 00 00 00 01 | 80 03 00 00 00 00 00 00
        80 04 00 00 00 00 00 01 |";
    let golden = [
        &format!("53 04 02 06 00 00 00 05 | {empty} 00 00 00 00 00 00 00 00 | 00"),
        &format!("53 04 02 06 00 00 00 06 | {empty} 80 06 00 00 00 00 00 02 | 00 00 00 00 00 00 00 00 | 00"),
        "53 04 03 05 00 00 00 06 | 80 00 01 00 00 00 00 07 | 80 00 02 00 00 00 00 02 | 80 00 03 00 00 00 00 00
         80 00 04 00 00 00 00 02 | 80 10 01 00 00 01 02 03 | 00 10 02 00 00 00 00 00 | 68 69",
    ];
    assert_eq!(*bytes.lock().unwrap(), golden.iter().flat_map(|g| hex(g)).collect::<Vec<u8>>());
    assert_eq!(items.packets(7, 1472, Split::Full).unwrap(), [hex(golden[2])]);
    assert_eq!(items.set_immediate(1, 0), Err(HeapError::NoImmediate { index: 1 }));
}

#[test]
fn what_a_heap_cannot_hold_is_refused() {
    let mut heap = Heap::new(flavour(48));
    let error = heap.add_item(0x8000, vec![]).unwrap_err();
    assert_eq!(error, HeapError::Id { id: 0x8000, bits: 48, most: 0x7FFF });
    let value = heap.add_immediate(0x7FFF, 1 << 48).unwrap_err();
    for error in [error, value, HeapError::NoImmediate { index: 3 }] {
        assert!(error.to_string().contains("hint: "), "{error}");
    }
    assert!(heap.pointers().is_empty());
    let (stream, _) = to_bytes(packet(64));
    heap.set_repeat_pointers(true);
    (0..4).for_each(|id| assert_eq!(heap.add_immediate(0x1000 + id, id), Ok(id as usize)));
    let error = stream.send(&heap, &HeapOptions::default()).unwrap_err();
    assert!(matches!(error, SendError::Packets(_)) && error.to_string().contains("hint: "), "{error}");
    assert!(matches!(
        stream.queue(vec![(Arc::new(heap), HeapOptions::default())], Order::Serial),
        Err(SendError::Packets(_))
    ));
}

#[test]
fn any_chunks_in_any_packets_come_out_whole() {
    let (heap, all) = chunked(&[1, 300, 0, 5000, 255, 257, 3, 70_000, 1, 1, 1, 9]);
    for config in [
        packet(56),
        packet(1472),
        full(1472),
        packet(9000),
        SendConfig { packet: PacketSize::Payload(1000), ..packet(0) },
        SendConfig { packet: PacketSize::Heap, ..packet(0) },
        // Every few bytes a batch of its own.
        SendConfig { rate: 8_000_000_000, burst_bytes: 300, packet: PacketSize::Heap, ..packet(0) },
    ] {
        let (stream, bytes) = to_bytes(config.clone());
        let sent = stream.send(&heap, &with_counter(5)).unwrap();
        let bytes = bytes.lock().unwrap();
        assert_eq!(bytes.len() as u64, sent);
        assert_eq!(heaps(&bytes)[&5], all, "{:?}", config.packet);
        let count = packets(&bytes).len();
        let stats = stream.stats();
        assert_eq!((stats.packets, stats.objects, stats.wire_bytes), (count as u64, 1, sent));
        assert_eq!(stats.payload_bytes, all.len() as u64);
        match config.packet {
            PacketSize::Heap => assert_eq!(count, 1),
            PacketSize::Payload(_) => assert!(packets(&bytes)[..count - 1].iter().all(|p| p.2.len() == 1000)),
            PacketSize::Packet(_) => {}
        }
    }
}

#[test]
fn a_large_pattern_heap_verifies() {
    let (stream, bytes) = to_bytes(SendConfig { packet: PacketSize::Heap, ..packet(0) });
    let heap = Heap::pattern(flavour(48), 0x1600, 12, 9_000_001).unwrap();
    stream.send(&heap, &with_counter(12)).unwrap();
    let got = &heaps(&bytes.lock().unwrap())[&12];
    assert_eq!(got.len(), 9_000_001);
    assert_eq!(pattern::first_error(12, 0, got), None);
}

#[test]
fn in_turns_or_one_after_the_other() {
    let sized = |bytes| Heap::pattern(flavour(48), 0x1600, 1, bytes).unwrap();
    // 5, 2 and 3 packets of 64 bytes: 16 bytes of payload in the first, 24 in others.
    let (a, b, c) = (sized(16 + 4 * 24), sized(16 + 5), sized(16 + 24 + 24));
    let all = [(&a, HeapOptions::default()), (&b, HeapOptions::default()), (&c, HeapOptions::default())];
    for (order, expected) in [(Order::Serial, "1111122333"), (Order::RoundRobin, "1231231311")] {
        let (stream, bytes) = to_bytes(full(64));
        stream.send_all(&all, order).unwrap();
        let counters: String = packets(&bytes.lock().unwrap()).iter().map(|p| p.0.to_string()).collect();
        assert_eq!(counters, expected, "{order:?}");
        let ticket = stream.queue(all.map(|(h, o)| (Arc::new(h.clone()), o)).to_vec(), order).unwrap();
        assert_eq!(ticket.wait(None).unwrap().unwrap() * 2, bytes.lock().unwrap().len() as u64);
    }
}

#[test]
fn counters_go_on_in_steps_and_wrap_to_the_width() {
    let (stream, bytes) = to_bytes(packet(1472));
    let heap = Heap::new(flavour(48));
    let send = |options| assert!(stream.send(&heap, &options).unwrap() > 0);
    send(HeapOptions::default());
    send(HeapOptions::default());
    stream.set_counter_sequence((1 << 48) - 2, 3);
    send(HeapOptions::default());
    send(with_counter(77));
    send(HeapOptions::default());
    send(with_counter(u64::MAX));
    stream.queue(vec![(Arc::new(Heap::new(flavour(48))), HeapOptions::default()); 2], Order::Serial).unwrap();
    assert!(stream.flush(None));
    let counters: Vec<u64> = packets(&bytes.lock().unwrap()).iter().map(|p| p.0).collect();
    assert_eq!(counters, [1, 2, (1 << 48) - 2, 77, 1, (1 << 48) - 1, 4, 7]);
}

#[test]
fn a_batch_sends_what_its_heaps_would() {
    let all: Vec<(Arc<Heap>, HeapOptions)> = (0..100u64)
        .map(|n| (Arc::new(Heap::pattern(flavour(48), 0x1600, n, 40 * n).unwrap()), HeapOptions::default()))
        .collect();
    for order in [Order::Serial, Order::RoundRobin] {
        let (stream, bytes) = to_bytes(packet(1472));
        let batch = Batch::new(all.clone(), stream.config()).unwrap();
        let parts = [batch.slice(0..30).unwrap(), batch.slice(30..100).unwrap().slice(0..70).unwrap()];
        stream.send_batch(&parts[0], order).unwrap();
        let ticket = stream.queue_batch(&parts[1], order).unwrap();
        ticket.wait(None).unwrap().unwrap();
        let (other, expected) = to_bytes(packet(1472));
        for part in [&all[..30], &all[30..]] {
            let heaps: Vec<(&Heap, HeapOptions)> = part.iter().map(|(h, o)| (&**h, *o)).collect();
            other.send_all(&heaps, order).unwrap();
        }
        assert!(*bytes.lock().unwrap() == *expected.lock().unwrap(), "{order:?}");
        assert_eq!(stream.stats().objects, 100);
        assert!(batch.slice(50..101).is_none() && !batch.is_empty());
        let (elsewhere, _) = to_bytes(packet(9000));
        assert!(matches!(elsewhere.send_batch(&batch, order), Err(SendError::Config(_))));
    }
}

#[test]
fn substreams_get_their_heaps_and_no_others() {
    let queues: Vec<InprocQueue> = (0..3).map(|_| InprocQueue::default()).collect();
    let stream = Stream::new(Outlet::Inproc(queues.clone()), packet(500)).unwrap();
    let all: Vec<Heap> = (0..9).map(|n| Heap::pattern(flavour(48), 0x1600, n + 1, 3000).unwrap()).collect();
    let to = |n: usize| HeapOptions { substream: n % 3, ..HeapOptions::default() };
    let heaps_of: Vec<(&Heap, HeapOptions)> = all.iter().enumerate().map(|(n, h)| (h, to(n))).collect();
    stream.send_all(&heaps_of, Order::RoundRobin).unwrap();
    for (n, mut queue) in queues.into_iter().enumerate() {
        let mut bytes: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let each = &mut |train: skyhaul_io::source::Train<'_>| {
            for packet in train.packets() {
                let head = Head::read(packet).unwrap();
                bytes.entry(head.counter).or_default().extend(&packet[head.start..]);
            }
        };
        while queue.poll(Duration::ZERO, each).unwrap() > 0 {}
        assert_eq!(bytes.keys().copied().collect::<Vec<_>>(), [n as u64 + 1, n as u64 + 4, n as u64 + 7]);
        assert!(
            bytes
                .iter()
                .all(|(&n, bytes)| bytes.len() == 3000 && pattern::first_error(n, 0, bytes).is_none())
        );
    }
    let error = stream.send(&all[0], &HeapOptions { substream: 3, ..HeapOptions::default() }).unwrap_err();
    assert!(matches!(error, SendError::NoSubstream { asked: 3, have: 3 }), "{error}");
}

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
