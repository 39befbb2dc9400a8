//! Sending heaps to memory, queues, sockets and a clock that is only told.

mod transports;
mod turns;

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
