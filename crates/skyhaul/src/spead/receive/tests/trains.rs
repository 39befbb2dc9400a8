//! Packets that come in trains are placed as those that come one by one, whatever happened to them on the way.

use super::super::chunk::{Chunk, ChunkConfig, ChunkCounts, ChunkRule, ChunkStream};
use super::*;
use skyhaul_io::source::{SourceStats, Train};
use std::io;
use std::net::SocketAddr;

/// Packets handed over as they are, or as trains of those that go together.
struct Script {
    packets: Vec<Vec<u8>>,
    trains: bool,
    at: usize,
}

impl Script {
    /// The end of the train that begins at `at`: packets of one length, the last may be shorter.
    fn train_end(&self) -> usize {
        let stride = self.packets[self.at].len();
        let mut end = self.at + 1;
        while self.trains && end < self.packets.len() && end - self.at < 44 {
            let length = self.packets[end].len();
            if length > stride || length == 0 {
                break;
            }
            end += 1;
            if length < stride {
                break;
            }
        }
        end
    }
}

impl Source for Script {
    fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let sender = SocketAddr::from(([10, 0, 0, 1], 9));
        let (from, end) = (self.at, self.train_end());
        let bytes = self.packets[from..end].concat();
        each(Train { stride: self.packets[from].len(), ..Train::single(&bytes, &sender) });
        self.at = end;
        Ok(end - from)
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    fn describe(&self) -> String {
        "script".into()
    }

    fn is_finished(&self) -> bool {
        self.at == self.packets.len()
    }
}

/// A small generator, so that one seed is one case.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// Heaps of a sender, some of whose packets were lost, doubled, exchanged or damaged.
fn journey(seed: u64) -> Vec<Vec<u8>> {
    let mut dice = Dice(seed);
    let most = [80, 120, 200, 1000][dice.below(4)];
    let mut all = Vec::new();
    for counter in 0..6 {
        let bytes = 1 + dice.below(12 * most);
        let own = [flavour().addressed(0x1000, 0), flavour().immediate(0x1001, counter)];
        all.extend(packets_with(counter, &payload(counter, bytes), &own, most, dice.below(2) == 0));
    }
    let faults = dice.below(5);
    for _ in 0..faults {
        let (a, b) = (dice.below(all.len()), dice.below(all.len()));
        match dice.below(6) {
            0 => drop(all.remove(a)),
            1 => all.insert(b, all[a].clone()),
            2 => all.swap(a, b),
            // A bit of the head.
            3 => {
                let at = dice.below(all[a].len().min(64));
                all[a][at] ^= 1 << dice.below(8);
            }
            4 => drop(all[a].pop()),
            _ => all[a].push(0),
        }
    }
    all
}

/// Heaps, each with its payload, and counters.
type Outcome = (Vec<(String, Vec<u8>)>, Vec<(String, u64)>);

/// What the user and the counters say of it.
fn outcome(packets: Vec<Vec<u8>>, trains: bool, in_order: bool) -> Outcome {
    let mut config = StreamConfig { incomplete: true, stop: StopRule::Never, ..config() };
    config.heaps.in_order = in_order;
    config.heaps.timeout = None;
    let stream = Stream::new(&config);
    stream.add_source("script", Box::new(Script { packets, trains, at: 0 }), true).unwrap();
    let mut heaps = Vec::new();
    while let Ok(heap) = stream.get(LONG) {
        let items: Vec<_> = heap.items().iter().map(|item| item.id).collect();
        let heard = format!("{} {:?} {} {:?} {items:?}", heap.number, heap.size, heap.received, heap.missing);
        heaps.push((heard, heap.payload().to_vec()));
    }
    // In what order heaps end is no matter of trains, but at the end of the stream.
    heaps.sort();
    // A thread that was off its processor for a while is counted as paused.
    const OTHER: [&str; 5] = ["batches", "max_batch", "trains", "pauses", "paused_ms"];
    let same = |name: &str| !OTHER.contains(&name);
    let counts = stream.stats().total.named().filter(|(name, _)| same(name)).collect();
    (heaps, counts)
}

#[test]
fn trains_are_placed_as_their_packets_would_be() {
    for seed in 0..3000 {
        let packets = journey(seed);
        let in_order = seed % 4 == 0;
        let one_by_one = outcome(packets.clone(), false, in_order);
        assert_eq!(outcome(packets, true, in_order), one_by_one, "seed {seed}");
    }
}

/// Counters of a stream of chunks with four heaps of 2000 bytes each, of which the last has no room.
fn chunk_counts(packets: Vec<Vec<u8>>, trains: bool) -> (ChunkCounts, Vec<(String, u64)>) {
    let rule = ChunkRule::declared("counter / 4", "counter % 4", "counter % 4 * 2000").unwrap();
    let stream = ChunkStream::new(&config(), &ChunkConfig { ahead: 10, ..ChunkConfig::new(rule) });
    (0..8).for_each(|_| stream.add_free(Chunk::new(vec![0u8; 7999], 4, 0)));
    stream.add_source("script", Box::new(Script { packets, trains, at: 0 }), true).unwrap();
    stream.join();
    let total = stream.stats().total;
    let rejects = total.named().filter(|(name, _)| name.starts_with("reject_")).collect();
    (stream.chunk_counts(), rejects)
}

#[test]
fn heaps_that_have_no_place_in_a_chunk_are_counted_once() {
    let own = [flavour().immediate(0x1001, 5)];
    let heap = |counter| packets_with(counter, &payload(counter, 2000), &own, 500, true);
    // One does not fit, one is far beyond the window (of fewer packets than would be believed), one is too old.
    let sent: Vec<_> = [0, 1, 3, 4000, 4, 8, 12, 2].into_iter().flat_map(heap).collect();
    assert!(heap(0).len() > 3);
    let one_by_one = chunk_counts(sent.clone(), false);
    let ChunkCounts { rejected_heaps, stray_heaps, too_old_heaps, .. } = one_by_one.0;
    assert_eq!((rejected_heaps, stray_heaps, too_old_heaps), (1, 1, 1));
    assert_eq!(chunk_counts(sent, true), one_by_one);
}

/// A packet of a heap that tells no size.
fn unsized_packet(offset: u64, bytes: usize) -> Vec<u8> {
    let pointers = [(1, 7), (3, offset), (4, bytes as u64)].map(|(id, value)| flavour().immediate(id, value));
    let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, pointers.len() as u8];
    packet.extend(pointers.iter().flat_map(|pointer| pointer.to_be_bytes()));
    packet.resize(packet.len() + bytes, 7);
    packet
}

#[test]
fn a_heap_that_grows_takes_of_a_train_what_it_has_room_for() {
    const EACH: usize = 1_000_000;
    let mut config = StreamConfig { incomplete: true, memory: HeapMemory::new(40 << 20), ..config() };
    config.heaps.timeout = None;
    let stream = Stream::new(&config);
    let mut packets: Vec<_> = (0..2).map(|n| unsized_packet(n * EACH as u64, EACH)).collect();
    // Ends the first train.
    packets.push(vec![0]);
    packets.extend((2..40).map(|n| unsized_packet(n * EACH as u64, EACH)));
    stream.add_source("script", Box::new(Script { packets, trains: true, at: 0 }), false).unwrap();
    let heap = stream.get(LONG).unwrap();
    assert!(heap.received >= 4 * EACH as u64, "{} bytes, all but the first train", heap.received);
    let total = stream.stats().total;
    assert!(total.rejects.get(Reject::NoBuffer) > 0, "there is no room for all of it");
    assert_eq!(heap.received + total.refused_bytes, 40 * EACH as u64 + 1);
}

#[test]
fn a_train_without_a_stride_is_one_packet() {
    struct Once(Option<Vec<u8>>);
    impl Source for Once {
        fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
            let Some(bytes) = self.0.take() else { return Ok(0) };
            each(Train { stride: 0, ..Train::single(&bytes, &SocketAddr::from(([10, 0, 0, 1], 9))) });
            Ok(1)
        }
        fn stats(&self) -> SourceStats {
            SourceStats::default()
        }
        fn describe(&self) -> String {
            "once".into()
        }
        fn is_finished(&self) -> bool {
            self.0.is_none()
        }
    }
    let stream = Stream::new(&config());
    let [packet] = <[_; 1]>::try_from(packets(1, 1000, 1472)).unwrap();
    stream.add_source("once", Box::new(Once(Some(packet))), true).unwrap();
    assert_eq!(all(&stream).len(), 1);
}

/// Heaps that announce more than there is room for cost a reader that cannot wait next to no time.
#[test]
fn who_announces_much_and_sends_little_holds_up_nobody() {
    // Three of them leave 4 MiB for the others.
    const ANNOUNCED: u64 = 20 << 20;
    let mut all = Vec::new();
    for counter in 0..2000u64 {
        let shape = HeapShape {
            flavour: flavour(),
            counter: 1000 + counter,
            pointers: &[],
            payload_bytes: ANNOUNCED,
            packet_bytes: 200,
            repeat_pointers: false,
            split: Split::Full,
        };
        let mut packet = vec![0; 200];
        let part = HeapPackets::new(shape).unwrap().packet(0, &mut packet);
        packet.truncate(part.head);
        packet.resize(part.head + (part.payload.end - part.payload.start) as usize, 0);
        all.push(packet);
        all.extend(packets(10_000 + counter, 100, 1472));
    }
    let mut config = StreamConfig { stop: StopRule::Never, ..config() };
    config.heaps.window = 64;
    config.heaps.timeout = None;
    let stream = Stream::new(&config);
    let script = Script { packets: all, trains: false, at: 0 };
    stream.add_source("script", Box::new(script), false).unwrap();
    assert_eq!(super::all(&stream).len(), 2000, "{:?}", stream.stats());
    let counts = stream.stats().total;
    // The first three have the memory until their time is over; that of the others is not waited for each time.
    assert!(counts.rejects.get(Reject::NoBuffer) > 1000, "{counts:?}");
    assert!(counts.blocked < 200, "each packet was waited with: {counts:?}");
}
