//! TCP connections that claim memory and do not go on, or more of it than there is; and what becomes of every byte.

use super::*;
use skyhaul_core::placement::Nanos;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Memory for one of these heaps, not for two.
const LARGE: usize = 40 << 20;
/// Of the heaps' timeouts below, none is near it: who waits so long has waited for a reader's patience.
const TOO_LONG: Duration = Duration::from_secs(9);

fn incomplete(timeout: Option<u64>) -> StreamConfig {
    let mut config = StreamConfig { incomplete: true, ..config() };
    config.heaps.timeout = timeout.map(|ms| Nanos(ms * 1_000_000));
    config
}

fn listen(stream: &Stream, options: &TcpReaderOptions) -> SocketAddr {
    stream.add_tcp(&"tcp://127.0.0.1:0".parse().unwrap(), options).unwrap()
}

/// A connection that has sent `bytes`, all of which were read.
fn sent(stream: &Stream, at: SocketAddr, bytes: &[u8]) -> TcpStream {
    let before = stream.stats().total.bytes;
    let mut connection = TcpStream::connect(at).unwrap();
    connection.write_all(bytes).unwrap();
    while stream.stats().total.bytes < before + bytes.len() as u64 {
        std::thread::sleep(Duration::from_millis(1));
    }
    connection
}

fn whole(counter: u64, bytes: usize) -> Vec<u8> {
    packets(counter, bytes, 1 << 30).concat()
}

#[test]
fn a_stalled_heap_that_holds_the_memory_is_given_up_and_the_rest_goes_on() {
    let stream = Stream::new(&incomplete(Some(300)));
    let at = listen(&stream, &TcpReaderOptions { end_with_last: false, ..TcpReaderOptions::default() });
    let bytes = whole(1, LARGE);
    // Made before: on a busy host that takes longer than the deadline, by which the others must have met the heap.
    let others: Vec<u8> = (2..5).flat_map(|n| whole(n, LARGE)).collect();
    let mut stalled = sent(&stream, at, &bytes[..1_000_000]);
    let begun = Instant::now();
    let mut honest = TcpStream::connect(at).unwrap();
    let honest = std::thread::spawn(move || {
        honest.write_all(&others).unwrap();
        honest
    });
    let heap = stream.get(LONG).unwrap();
    check(&heap);
    let held = 1_000_000 - (bytes.len() - LARGE) as u64;
    assert_eq!((heap.number, heap.cause, heap.received), (1, Cause::Timeout, held));
    assert_eq!((heap.missing.len(), &heap.missing[0]), (1, &(held..LARGE as u64)));
    drop(heap);
    for n in 2..5 {
        let heap = stream.get(LONG).unwrap();
        assert_eq!((heap.number, heap.complete), (n, true));
    }
    assert!(begun.elapsed() < TOO_LONG, "the others waited {:?}", begun.elapsed());
    // The rest of the heap that was given up is passed over, and the connection goes on.
    stalled.write_all(&bytes[1_000_000..]).unwrap();
    stalled.write_all(&whole(9, 100_000)).unwrap();
    assert_eq!(stream.get(LONG).unwrap().number, 9);
    let total = stream.stats().total;
    assert_eq!(total.refused_bytes, bytes.len() as u64 - 1_000_000);
    assert_eq!((total.rejects.get(Reject::Late), total.rejects.total()), (1, 1), "{total:?}");
    assert!(total.blocked > 0 && total.skipped_bytes == 0);
    drop(honest.join().unwrap());
}

#[test]
fn without_a_deadline_a_silent_heap_is_given_up_only_where_others_need_its_memory() {
    let stream = Stream::new(&incomplete(None));
    let at = listen(&stream, &TcpReaderOptions::default());
    let mut stalled = sent(&stream, at, &whole(1, LARGE)[..1_000_000]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(stream.get(Some(Duration::ZERO)).unwrap_err(), GetError::Empty);
    let begun = Instant::now();
    let _honest = {
        let mut honest = TcpStream::connect(at).unwrap();
        std::thread::spawn(move || honest.write_all(&whole(2, LARGE)).map(|()| honest))
    };
    let heap = stream.get(LONG).unwrap();
    assert_eq!((heap.number, heap.complete), (1, false));
    drop(heap);
    assert!(stream.get(LONG).unwrap().complete);
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    assert_eq!(stream.stats().total.rejects.total(), 0);
    stalled.write_all(&[0]).unwrap();
}

#[test]
fn who_waits_for_memory_holds_up_nobody_and_loses_nothing() {
    // No deadline: only the second half of the first heap brings memory for the second.
    let stream = Stream::new(&incomplete(None));
    let at = listen(&stream, &TcpReaderOptions::default());
    let bytes = whole(1, LARGE);
    let mut first = sent(&stream, at, &bytes[..LARGE / 2]);
    let second = std::thread::spawn(move || {
        let mut second = TcpStream::connect(at).unwrap();
        second.write_all(&whole(2, LARGE)).unwrap();
        second.write_all(&whole(3, 50_000)).unwrap();
    });
    while stream.stats().total.blocked == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    let mut third = TcpStream::connect(at).unwrap();
    for n in 10..20 {
        third.write_all(&whole(n, 200_000)).unwrap();
        assert_eq!(stream.get(LONG).unwrap().number, n, "small heaps find room meanwhile");
    }
    for part in bytes[LARGE / 2..].chunks(4 << 20) {
        first.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    for n in [1, 2, 3] {
        let heap = stream.get(LONG).unwrap();
        assert_eq!((heap.number, heap.complete), (n, true));
    }
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    second.join().unwrap();
    assert_eq!(stream.stats().total.rejects.total(), 0);
}

#[test]
fn a_heap_that_hardly_grows_is_given_up_where_others_need_its_memory() {
    let stream = Stream::new(&incomplete(Some(100)));
    let at = listen(&stream, &TcpReaderOptions::default());
    let bytes = whole(1, LARGE);
    let mut slow = sent(&stream, at, &bytes[..1_000_000]);
    let begun = Instant::now();
    let slow = std::thread::spawn(move || {
        // Never silent for its timeout.
        for byte in bytes[1_000_000..].chunks(1).take(100_000) {
            if slow.write_all(byte).is_err() || begun.elapsed() > Duration::from_secs(3) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        (slow, begun.elapsed())
    });
    // Nobody needs its memory so far.
    assert_eq!(stream.get(Some(Duration::from_millis(500))).unwrap_err(), GetError::Empty);
    let _honest = {
        let mut honest = TcpStream::connect(at).unwrap();
        std::thread::spawn(move || honest.write_all(&whole(2, LARGE)).map(|()| honest))
    };
    let heap = stream.get(LONG).unwrap();
    assert_eq!((heap.number, heap.complete), (1, false));
    drop(heap);
    assert!(stream.get(LONG).unwrap().complete);
    let (_slow, spent) = slow.join().unwrap();
    assert!(spent >= Duration::from_secs(3), "it was still sending");
    assert_eq!(stream.stats().total.rejects.get(Reject::NoBuffer), 0);
}

#[test]
fn connections_beyond_the_limit_are_counted() {
    let stream = Stream::new(&config());
    let options = TcpReaderOptions { at_once: 2, end_with_last: false, ..TcpReaderOptions::default() };
    let at = listen(&stream, &options);
    let _inside = [sent(&stream, at, &whole(1, 100)), sent(&stream, at, &whole(2, 100))];
    let mut beyond: Vec<_> = (0..20).map(|_| TcpStream::connect(at).unwrap()).collect();
    for connection in &mut beyond {
        connection.set_read_timeout(LONG).unwrap();
        assert!(matches!(connection.read(&mut [0]), Ok(0) | Err(_)));
    }
    stream.stop();
    let stats = stream.stats();
    assert_eq!((stats.total.connections, stats.total.connections_refused), (2, 20));
    let source = &stats.readers[0].source;
    assert_eq!((source.connections, source.broken), (2, 20));
    assert!(source.remedies[0].contains("more than 2 connections at a time; hint: "), "{source:?}");
    assert!(stats.named().any(|named| named == ("connections_refused".into(), 20)));
}

#[test]
fn whole_heaps_come_over_ipv6() {
    let stream = Stream::new(&config());
    let at = match stream.add_tcp(&"tcp://[::1]:0".parse().unwrap(), &TcpReaderOptions::default()) {
        Ok(at) => at,
        Err(error) => {
            let there = std::net::TcpListener::bind("[::1]:0").is_ok();
            assert!(!there, "{error}");
            println!("SKIPPED: no IPv6 on this host (sysctl net.ipv6.conf.lo.disable_ipv6=0)");
            return;
        }
    };
    let sender = std::thread::spawn(move || {
        let mut connection = TcpStream::connect(at).unwrap();
        for (n, most) in [(0, 1472), (1, 1 << 30), (2, 65_536)] {
            packets(n, 3_000_000, most).iter().for_each(|packet| connection.write_all(packet).unwrap());
        }
        connection.local_addr().unwrap()
    });
    let heaps = all(&stream);
    let sender = sender.join().unwrap();
    assert_eq!(heaps.len(), 3);
    assert!(heaps.values().all(|heap| heap.complete && heap.sender == sender && sender.is_ipv6()));
    assert_eq!(stream.stats().total.skipped_bytes, 0);
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % most.max(1)
    }
}

/// Heaps whole and in packets, cut short, with garbage between; the bytes of all packets' heads that are whole.
fn salad(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for counter in 0..random.below(12) as u64 {
        let most_bytes = [100, 5000, 300_000][random.below(3)];
        let size = random.below(most_bytes);
        let most = [100, 1472, 70_000, 1 << 30][random.below(4)];
        if size / most > 1000 {
            continue;
        }
        for mut packet in packets(counter, size.max(1), most) {
            match random.below(8) {
                0 => packet.truncate(random.below(packet.len())),
                1 => (0..3).for_each(|_| {
                    let at = random.below(packet.len().min(60));
                    packet[at] = random.below(256) as u8;
                }),
                2 => bytes.extend((0..random.below(2000)).map(|_| [0x53, 4, 2, 6, 0, 0xEE][random.below(6)])),
                _ => {}
            }
            bytes.extend(packet);
        }
    }
    // Whether it ends between packets, within one or in garbage.
    bytes.extend(&whole(77, 100_000)[..[0, 3, 60, 50_000][random.below(4)]]);
    bytes.extend(vec![b'?'; [0, 0, 1, 4000][random.below(4)]]);
    bytes
}

/// Every byte that was read is in a packet or skipped; every payload byte of a packet is placed or refused.
fn conserves(seed: u64) {
    let mut random = Random(seed);
    let bytes = salad(&mut random);
    let config = StreamConfig { stop: StopRule::Never, ..incomplete(Some(60_000)) };
    let stream = Stream::new(&config);
    let at = listen(&stream, &TcpReaderOptions { end_with_last: false, ..TcpReaderOptions::default() });
    let mut connection = TcpStream::connect(at).unwrap();
    connection.set_nodelay(true).unwrap();
    let (mut rest, step) = (&bytes[..], [1 << 20, 50_000, 3000][random.below(3)]);
    while !rest.is_empty() {
        let (now, later) = rest.split_at((1 + random.below(step)).min(rest.len()));
        connection.write_all(now).unwrap();
        rest = later;
    }
    let closes = random.below(2) == 0;
    let open = (!closes).then_some(connection);
    let begun = Instant::now();
    loop {
        let stats = stream.stats();
        let read = stats.readers[0].tcp.as_ref().map_or(0, |tcp| tcp.bytes);
        let ended = stats.total.closed_orderly + stats.total.closed_mid_packet;
        if read == bytes.len() as u64 && (!closes || ended == 1) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "seed {seed}: {read} of {} bytes", bytes.len());
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.stop();
    let mut placed = 0;
    while let Ok(heap) = stream.get(LONG) {
        placed += heap.received;
    }
    let stats = stream.stats();
    let (total, tcp) = (&stats.total, stats.readers[0].tcp.as_ref().unwrap());
    assert_eq!((tcp.bytes, tcp.pending), (bytes.len() as u64, 0), "seed {seed}");
    assert_eq!(tcp.bytes, total.bytes + total.skipped_bytes, "seed {seed}: {total:?}");
    assert_eq!((tcp.told, tcp.skipped), (total.bytes, total.skipped_bytes), "seed {seed}");
    assert_eq!(total.bytes, tcp.heads + placed + total.refused_bytes, "seed {seed}: {total:?}");
    drop(open);
}

#[test]
fn every_byte_is_placed_refused_or_skipped() {
    // One seed replays: conserves(seed).
    std::thread::scope(|scope| (0..24).for_each(|seed| drop(scope.spawn(move || conserves(seed)))));
}
