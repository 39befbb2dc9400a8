//! Streams as their users see them. Nothing here depends on how fast anything is; what waits has a deadline of a minute
//! only so that a failing test ends.

mod endings;
mod hostile;
mod kernel;
mod limits;
mod sockets;
mod stalled;
mod trains;

use super::*;
use crate::inproc::InprocQueue;
use skyhaul_core::packetize::Divided as _;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::packets::{HeapPackets, HeapShape, Split};
use skyhaul_core::wire::spead::{Flavour, id};
use skyhaul_io::fault::{FaultSource, Faults};
use skyhaul_io::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub(crate) const LONG: Option<Duration> = Some(Duration::from_secs(60));

pub(crate) fn flavour() -> Flavour {
    Flavour::new(48).unwrap()
}

/// The payload of heap `counter`: every byte tells where it belongs.
/// Byte `at` is `at * 31 + counter * 7 + at / 256`. Copied in parts, as what is not optimised takes long for each byte: 31 times 223 is 1
/// (of bytes), so 256 bytes that all are `more` larger begin `more * 223` further on.
fn payload(counter: u64, bytes: usize) -> Vec<u8> {
    let laps: [u8; 512] = std::array::from_fn(|at| (at * 31) as u8);
    let mut payload = Vec::with_capacity(bytes + 256);
    while payload.len() < bytes {
        let more = counter.wrapping_mul(7).wrapping_add(payload.len() as u64 / 256) as u8;
        payload.extend_from_slice(&laps[usize::from(more.wrapping_mul(223))..][..256]);
    }
    payload.truncate(bytes);
    payload
}

#[test]
fn payloads_are_what_they_are_said_to_be() {
    for counter in [0, 1, 77, 1 << 40] {
        let said = |at: u64| (at * 31 + counter * 7 + (at >> 8)) as u8;
        assert_eq!(payload(counter, 70_001), (0..70_001).map(said).collect::<Vec<_>>());
    }
}

/// The packets of a heap with one item (id 0x1000) and one immediate (0x1001), of up to `most` bytes.
pub(crate) fn packets(counter: u64, bytes: usize, most: usize) -> Vec<Vec<u8>> {
    let own = [flavour().addressed(0x1000, 0), flavour().immediate(0x1001, counter)];
    packets_of(counter, &payload(counter, bytes), &own, most)
}

fn packets_of(counter: u64, payload: &[u8], pointers: &[u64], most: usize) -> Vec<Vec<u8>> {
    packets_with(counter, payload, pointers, most, false)
}

pub(crate) fn packets_with(
    counter: u64,
    payload: &[u8],
    pointers: &[u64],
    most: usize,
    repeat_pointers: bool,
) -> Vec<Vec<u8>> {
    let shape = HeapShape {
        flavour: flavour(),
        counter,
        pointers,
        payload_bytes: payload.len() as u64,
        packet_bytes: most,
        repeat_pointers,
        split: Split::Full,
    };
    let plan = HeapPackets::new(shape).unwrap();
    (0..plan.count()).map(|n| plan.datagram(n, payload)).collect()
}

fn stop_heap(counter: u64) -> Vec<u8> {
    packets_of(counter, &[], &[flavour().immediate(id::STREAM_CONTROL, 2)], 1472).concat()
}

fn check(heap: &Heap) {
    let (got, mut expected) = (heap.payload(), payload(heap.number, heap.payload().len()));
    let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(got.len());
    heap.missing.iter().for_each(|hole| expected[within(hole.start)..within(hole.end)].fill(0));
    if *got != expected[..] {
        let at = got.iter().zip(&expected).position(|(got, expected)| got != expected);
        panic!("byte {at:?} of heap {}", heap.number);
    }
}

/// Everything that comes until the stream ends, by counter; each heap once.
fn all(stream: &Stream) -> BTreeMap<u64, Heap> {
    let mut heaps = BTreeMap::new();
    loop {
        match stream.get(LONG) {
            Ok(heap) => {
                check(&heap);
                assert!(heaps.insert(heap.number, heap).is_none(), "a heap twice");
            }
            Err(GetError::Stopped) => return heaps,
            Err(GetError::Empty) => panic!("nothing came: {:?}", stream.stats()),
        }
    }
}

fn small_memory() -> HeapMemory {
    HeapMemory::new(64 << 20)
}

pub(crate) fn config() -> StreamConfig {
    StreamConfig { memory: small_memory(), ..StreamConfig::default() }
}

pub(crate) fn queue_of(packets: &[Vec<u8>]) -> InprocQueue {
    let queue = InprocQueue::default();
    for packet in packets {
        assert!(queue.push(packet, Duration::ZERO).unwrap());
    }
    queue
}

#[test]
fn heaps_come_whole_from_memory_with_their_items() {
    let sizes = [1, 8, 1000, 5000, 100_000, 1 << 20];
    for most in [56, 1472, 8972, 1 << 21] {
        let mut bytes = Vec::new();
        // Where pointers alone fill a packet, small heaps are lengthened by their sender.
        let fits = |size: usize| size / most < 2000 && (size >= 1000 || most > 56);
        for (n, &size) in sizes.iter().enumerate().filter(|&(_, &size)| fits(size)) {
            bytes.extend(packets(n as u64, size, most).concat());
        }
        let stream = Stream::new(&config());
        stream.add_bytes(bytes.clone()).unwrap();
        let heaps = all(&stream);
        for (counter, heap) in &heaps {
            assert_eq!((heap.complete, heap.payload().len()), (true, sizes[*counter as usize]));
            let items = heap.items();
            assert_eq!(heap.item_bytes(&items[0]), heap.payload());
            assert_eq!((items[0].id, items[1].id, items.len()), (0x1000, 0x1001, 2));
            assert_eq!(heap.immediate(0x1001), Some(*counter));
            assert!(heap.first <= heap.last && heap.first.0 > 1_000_000_000_000_000_000);
            assert_eq!(
                (heap.size, heap.received),
                (Some(heap.payload().len() as u64), heap.payload().len() as u64)
            );
        }
        let stats = stream.stats();
        assert_eq!((stats.total.heaps, stats.ended), (heaps.len() as u64, Some(StreamEnd::Readers)));
        assert_eq!((stats.total.bytes, stats.total.rejects.total()), (bytes.len() as u64, 0));
        assert_eq!(stream.try_get().unwrap_err(), GetError::Stopped);
    }
}

#[test]
fn the_first_stop_item_ends_and_its_heap_is_not_handed_on() {
    let bytes = [packets(1, 100, 1472).concat(), stop_heap(2), packets(3, 100, 1472).concat()].concat();
    let stream = Stream::new(&config());
    stream.add_bytes(bytes.clone()).unwrap();
    assert_eq!(all(&stream).into_keys().collect::<Vec<_>>(), [1]);
    let stats = stream.stats();
    assert_eq!((stats.ended, stats.total.stops), (Some(StreamEnd::StopItem), 1));
    assert_eq!(stats.total.rejects.get(Reject::AfterStop), 1);

    let stream = Stream::new(&StreamConfig { stop: StopRule::Never, ..config() });
    stream.add_bytes(bytes).unwrap();
    let mut ends = Vec::new();
    while let Ok(heap) = stream.get(LONG) {
        ends.push((heap.number, heap.is_end_of_stream(), heap.is_start_of_stream()));
    }
    assert_eq!(ends, [(1, false, false), (2, true, false), (3, false, false)]);
}

#[test]
fn with_several_senders_each_may_stop() {
    let stream =
        Stream::new(&StreamConfig { stop: StopRule::All(2), key: KeyedBy::SenderAndCounter, ..config() });
    let queue = InprocQueue::default();
    stream.add_inproc(queue.clone()).unwrap();
    let senders = [queue.as_sender(1), queue.as_sender(2)];
    let send = |n: usize, packet: &[u8]| senders[n].push(packet, Duration::ZERO).unwrap();
    // The same counters: the senders make them different heaps.
    for counter in 0..10 {
        send(0, &packets(counter, 500, 1472)[0]);
        send(1, &packets(counter, 600, 1472)[0]);
    }
    send(0, &stop_heap(99));
    send(0, &stop_heap(99));
    send(1, &packets(10, 600, 1472)[0]);
    let mut heaps = Vec::new();
    for _ in 0..21 {
        let heap = stream.get(LONG).unwrap();
        check(&heap);
        heaps.push((heap.sender.port(), heap.number));
    }
    assert_eq!(stream.try_get().unwrap_err(), GetError::Empty, "the same sender twice is one");
    send(1, &stop_heap(99));
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    let distinct: BTreeSet<_> = heaps.iter().collect();
    assert_eq!((heaps.len(), distinct.len()), (21, 21));
    assert_eq!(stream.stats().total.stops, 3);
}

#[test]
fn waiting_readers_lose_nothing_however_small_ring_and_memory_are() {
    for (ring, memory) in [(1, 64 << 20), (4096, 40_000), (2, 20_000)] {
        let config = StreamConfig { ring, memory: HeapMemory::new(memory), ..StreamConfig::default() };
        let stream = Stream::new(&config);
        let bytes: Vec<u8> = (0..300).flat_map(|n| packets(n, 3000, 1472).concat()).collect();
        stream.add_bytes(bytes).unwrap();
        let heaps = {
            let mut counters = Vec::new();
            while let Ok(heap) = stream.get(LONG) {
                check(&heap);
                counters.push(heap.number);
            }
            counters
        };
        assert!(heaps.into_iter().eq(0..300), "ring {ring}, memory {memory}");
        let total = stream.stats().total;
        assert!(total.blocked > 0);
        assert_eq!((total.ring_full, total.stopped, total.rejects.total()), (0, 0, 0));
    }
}

#[test]
fn a_refusing_reader_counts_what_the_ring_does_not_take() {
    let stream = Stream::new(&StreamConfig { ring: 4, full: Full::Refuse, ..config() });
    let sent: Vec<_> = (0..100).flat_map(|n| packets(n, 100, 1472)).collect();
    let queue = queue_of(&sent);
    queue.close();
    stream.add_inproc(queue).unwrap();
    stream.join();
    let stats = stream.stats();
    assert_eq!((stats.total.heaps, stats.total.ring_full, stats.waiting), (100, 96, 4));
    assert_eq!(all(&stream).into_keys().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn stopping_frees_whoever_waits() {
    let stream = Stream::new(&StreamConfig { ring: 2, ..config() });
    stream.add_bytes((0..100).flat_map(|n| packets(n, 100, 1472).concat()).collect::<Vec<u8>>()).unwrap();
    let idle = Stream::new(&config());
    idle.add_inproc(InprocQueue::default()).unwrap();
    let waits = {
        let idle = idle.clone();
        std::thread::spawn(move || idle.get(None).unwrap_err())
    };
    while stream.stats().total.blocked == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.stop();
    let total = stream.stats().total;
    assert_eq!((total.heaps, total.stopped), (100, 98));
    assert_eq!(all(&stream).len(), 2, "what was in the ring can still be got");
    idle.stop();
    assert_eq!(waits.join().unwrap(), GetError::Stopped);
    assert_eq!(idle.ended(), Some(StreamEnd::Stopped));
}

#[test]
fn loss_reordering_and_duplication_give_every_heap_at_most_once_and_count_the_rest() {
    for faults in [
        "loss=0.02",
        "reorder=30@0.3",
        "duplicate=0.3,reorder=8@0.2",
        "corrupt=0.02,truncate=0.02",
        "loss=0.01,burst=40@0.002,reorder=16@0.2,duplicate=0.1,corrupt=0.005,truncate=0.005,seed=3",
    ] {
        let faults: Faults = faults.parse().unwrap();
        let sent: Vec<_> = (0..400).flat_map(|n| packets(n, 200 + n as usize * 20, 1472)).collect();
        let queue = queue_of(&sent);
        queue.close();
        let stream = Stream::new(&StreamConfig { incomplete: true, ..config() });
        let source = FaultSource::new(Box::new(queue) as Box<dyn Source>, &faults);
        stream.add_source("faulty", Box::new(source), true).unwrap();
        let (mut counters, mut complete, mut duplicates) = (BTreeSet::new(), 0, 0);
        while let Ok(heap) = stream.get(LONG) {
            // A flipped bit in the payload is nobody's to find, one in the counter makes a heap of its own.
            if faults.corrupt == 0.0 {
                check(&heap);
                duplicates += usize::from(!counters.insert(heap.number));
                complete += usize::from(heap.complete);
            }
        }
        let stats = stream.stats();
        assert_eq!(duplicates, 0, "{faults:?}");
        let retired: u64 = stats.total.retired.iter().sum();
        assert_eq!(stats.total.heaps, retired);
        if faults.loss == 0.0 && faults.corrupt == 0.0 {
            assert_eq!(complete, 400, "{faults:?} {stats:?}");
        }
    }
}

#[test]
fn heaps_without_a_size_end_with_the_stream() {
    // Pointers: counter, offset, length; the size is left out.
    let packet = |counter: u64, offset: u64, bytes: &[u8]| {
        let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, 3];
        for (id, value) in [(1, counter), (3, offset), (4, bytes.len() as u64)] {
            packet.extend(flavour().immediate(id, value).to_be_bytes());
        }
        packet.extend(bytes);
        packet
    };
    let data = payload(4, 300_000);
    let bytes: Vec<u8> =
        data.chunks(1400).enumerate().flat_map(|(n, part)| packet(4, n as u64 * 1400, part)).collect();
    let stream = Stream::new(&config());
    stream.add_bytes(bytes).unwrap();
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    assert_eq!((heap.payload().len(), heap.size, heap.complete), (300_000, None, true));
}

#[test]
fn many_readers_fill_one_stream() {
    let stream = Stream::new(&StreamConfig { explicit_start: true, ring: 8, ..config() });
    // The packets of every heap come by three readers.
    let mut parts = vec![Vec::new(); 3];
    let mut heaps = StreamConfig::default().heaps;
    heaps.window = 1000;
    let stream_wide = Stream::new(&StreamConfig { explicit_start: true, heaps, ..config() });
    for n in 0..200 {
        for (at, packet) in packets(n, 20_000, 1472).into_iter().enumerate() {
            parts[at % 3].extend(packet);
        }
    }
    for part in parts {
        stream_wide.add_bytes(part).unwrap();
    }
    assert_eq!(stream_wide.get(Some(Duration::from_millis(20))).unwrap_err(), GetError::Empty, "not started");
    stream_wide.start();
    let got = all(&stream_wide);
    assert_eq!((got.len(), got.values().filter(|heap| heap.complete).count()), (200, 200));
    assert_eq!(stream_wide.stats().readers.len(), 3);
    drop(stream); // never started
}

#[test]
fn several_heaps_for_one_lock_and_a_descriptor_for_event_loops() {
    let stream = Stream::new(&config());
    stream.add_bytes((0..50).flat_map(|n| packets(n, 100, 1472).concat()).collect::<Vec<u8>>()).unwrap();
    stream.join();
    stream.ready_fd().unwrap();
    let mut heaps = Vec::new();
    assert_eq!(stream.get_many(&mut heaps, 20), 20);
    assert_eq!(stream.get_many(&mut heaps, 100), 30);
    assert_eq!(stream.get_many(&mut heaps, 100), 0);
    heaps.iter().for_each(check);
    let payloads: Vec<HeapBytes> = heaps.into_iter().filter_map(Heap::into_payload).collect();
    drop(stream);
    assert_eq!(&payloads[49][..], payload(49, 100), "heaps outlive their stream");
}
