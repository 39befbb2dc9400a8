use super::super::tests::{LONG, config, flavour, packets_with, queue_of};
use super::*;
use crate::receive::keyed::{TcpReaderOptions, lock};
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::id;
use skyhaul_io::fault::{FaultSource, Faults};
use skyhaul_io::source::Source;

const TIME: u64 = 0x1600;
const CHANNEL: u64 = 0x4103;
/// Bytes of a heap, and heaps of a chunk.
const HEAP: usize = 3000;
const CHANNELS: u64 = 4;

fn payload(time: u64, channel: u64) -> Vec<u8> {
    (0..HEAP as u64).map(|at| (at * 7 + time * 3 + channel * 11) as u8).collect()
}

/// The packets of the heap of this chunk and channel.
fn packets(chunk: u64, channel: u64) -> Vec<Vec<u8>> {
    let own = [flavour().immediate(TIME, chunk * 256), flavour().immediate(CHANNEL, channel)];
    packets_with(chunk * CHANNELS + channel, &payload(chunk, channel), &own, 1472, true)
}

fn rule() -> ChunkRule {
    ChunkRule::declared("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 3000").unwrap()
}

fn chunk() -> Chunk {
    Chunk::new(vec![0xEEu8; HEAP * CHANNELS as usize], CHANNELS as usize, 8 * CHANNELS as usize)
}

fn stream(chunks: &ChunkConfig, free: usize) -> ChunkStream {
    let mut config = config();
    config.ring = 100;
    let stream = ChunkStream::new(&config, chunks);
    (0..free).for_each(|_| stream.add_free(chunk()));
    stream
}

/// Every present heap is in its place, and no other byte was written.
fn check(chunk: &Chunk) {
    for channel in 0..CHANNELS {
        let place = &chunk.data.bytes().unwrap()[channel as usize * HEAP..][..HEAP];
        if chunk.present[channel as usize] == 1 {
            assert_eq!(place, payload(chunk.id, channel), "chunk {} channel {channel}", chunk.id);
        }
    }
    assert_eq!(chunk.heaps, chunk.present.iter().map(|&p| u64::from(p)).sum::<u64>());
    assert_eq!(chunk.bytes, chunk.heaps * HEAP as u64);
}

/// All chunks until the end; each goes back to be filled again.
fn all(stream: &ChunkStream) -> Vec<(u64, Vec<u8>)> {
    let mut got = Vec::new();
    while let Ok(chunk) = stream.get(LONG) {
        check(&chunk);
        got.push((chunk.id, chunk.present.clone()));
        stream.add_free(chunk);
    }
    got
}

#[test]
fn heaps_are_placed_by_declared_rules_with_extras_and_counters() {
    let rule = rule()
        .with_extra("index * 8", &[("item(0x1600)", 4), ("stream", 2), ("chunk", 2)])
        .unwrap()
        .with_counter("bytes", Tally::Sum, "size")
        .unwrap()
        .with_counter("last", Tally::Max, "item(0x1600)")
        .unwrap();
    let stream = stream(&ChunkConfig { stream: 77, ..ChunkConfig::new(rule) }, 4);
    let sent: Vec<u8> = (0..10)
        .flat_map(|time| {
            (0..CHANNELS).flat_map(move |channel| packets(time, CHANNELS - 1 - channel).concat())
        })
        .collect();
    stream.add_bytes(sent).unwrap();
    for id in 0..10u64 {
        let chunk = stream.get(LONG).unwrap();
        check(&chunk);
        assert_eq!((chunk.id, chunk.stream, chunk.present.as_slice()), (id, 77, &[1; 4][..]));
        for note in chunk.extra.chunks(8) {
            assert_eq!(u64::from(u32::from_ne_bytes(note[..4].try_into().unwrap())), id * 256);
            assert_eq!(note[4..6], [0, 0]);
            assert_eq!(u64::from(u16::from_ne_bytes(note[6..].try_into().unwrap())), id);
        }
        stream.add_free(chunk);
    }
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    let counts = stream.chunk_counts();
    assert_eq!((counts.chunks, counts.too_old_heaps, counts.rejected_heaps), (10, 0, 0));
    assert_eq!(counts.user, [("bytes".to_owned(), 40 * HEAP as u64), ("last".to_owned(), 9 * 256)]);
    assert_eq!((stream.stats().total.heaps, stream.free()), (40, 4));
}

#[test]
fn code_decides_where_expressions_do_not_reach() {
    let place: PlaceFn = Arc::new(|heap, place| {
        let channel = heap.immediate(CHANNEL).unwrap_or(u64::MAX);
        if channel != 2 {
            let chunk = heap.immediate(TIME).map_or(-1, |time| time as i64 / 256);
            (place.chunk, place.index, place.offset) = (chunk, channel, channel * heap.size);
            (place.extra_at, place.extra_bytes, place.extra[0]) = (channel, 1, 9);
        }
    });
    let stream = stream(&ChunkConfig::new(ChunkRule::code(place)), 2);
    stream
        .add_bytes((0..CHANNELS).flat_map(|channel| packets(5, channel).concat()).collect::<Vec<u8>>())
        .unwrap();
    let chunk = stream.get(LONG).unwrap();
    check(&chunk);
    assert_eq!((chunk.id, chunk.present, &chunk.extra[..4]), (5, vec![1, 1, 0, 1], &[9, 9, 0, 9][..]));
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    assert_eq!(stream.chunk_counts().rejected_heaps, 1);
}

#[test]
fn d10_no_rule_places_anything_outside() {
    let outside = [
        ("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 3000 + 1"),
        ("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 0x7FFFFFFFFFFF"),
        ("item(0x1600) / 256", "item(0x4103) + 1", "item(0x4103) * 3000"),
        ("item(0x1600) / 256", "item(0x4103)", "item(0x4103) - 4"),
        ("item(0x1600) / 256 - 100", "item(0x4103)", "item(0x4103) * 3000"),
        ("item(0x1600) / item(0x1600)", "item(0x9999)", "0"),
    ];
    for (chunk_id, index, offset) in outside {
        let rule = ChunkRule::declared(chunk_id, index, offset).unwrap();
        let stream = stream(&ChunkConfig::new(rule), 2);
        stream.add_bytes(packets(1, 3).concat()).unwrap();
        let got = all(&stream);
        assert!(got.iter().all(|(_, present)| present == &[0; 4]), "{index} {offset}");
        assert_eq!(stream.chunk_counts().rejected_heaps, 1);
        assert!(stream.stats().total.rejects.total() >= 1);
    }
    // Extras are checked too, before anything is written.
    let rule = rule().with_extra("chunk * 8 + 25", &[("1", 8)]).unwrap();
    let stream = stream(&ChunkConfig::new(rule), 2);
    stream.add_bytes(packets(0, 1).concat()).unwrap();
    assert_eq!(all(&stream), [], "and before its chunk is opened");
}

#[test]
fn one_damaged_packet_does_not_move_the_window_and_many_do() {
    let stream = stream(&ChunkConfig::new(rule()), 8);
    let mut sent = packets(1, 0);
    sent.extend(packets(1_000_000, 0));
    sent.extend(packets(1, 1));
    for channel in 0..CHANNELS {
        sent.extend(packets(2_000_000, channel));
    }
    // Enough that agree: it is a jump.
    for time in 2_000_001..2_000_003 {
        for channel in 0..CHANNELS {
            sent.extend(packets(time, channel));
        }
    }
    sent.extend(packets(2, 0));
    stream.add_bytes(sent.concat()).unwrap();
    let got = all(&stream);
    assert_eq!(got[0], (1, vec![1, 1, 0, 0]));
    assert_eq!(got.last().unwrap(), &(2_000_002, vec![1; 4]));
    assert!(got.iter().all(|(id, _)| *id == 1 || *id >= 2_000_000));
    let counts = stream.chunk_counts();
    assert_eq!(counts.too_old_heaps, 1);
    assert!(counts.stray_heaps >= 2);
}

#[test]
fn too_old_heaps_and_missing_chunks_are_counted() {
    let full = StreamConfig { full: Full::Refuse, ..config() };
    let stream = ChunkStream::new(&full, &ChunkConfig::new(rule()));
    stream.add_bytes(packets(0, 0).concat()).unwrap();
    assert_eq!(all(&stream), []);
    assert!(stream.stats().total.rejects.get(Reject::NoBuffer) > 0 && stream.chunk_counts().waits > 0);
    let stream =
        self::stream(&ChunkConfig { window: ChunkWindow::Bytes(2 * 12_000), ..ChunkConfig::new(rule()) }, 4);
    let sent = [packets(4, 0), packets(5, 0), packets(3, 0), packets(4, 1), packets(9, 0)].concat();
    stream.add_bytes(sent.concat()).unwrap();
    assert_eq!(all(&stream), [(4, vec![1, 1, 0, 0]), (5, vec![1, 0, 0, 0]), (9, vec![1, 0, 0, 0])]);
    assert_eq!(stream.chunk_counts().too_old_heaps, 1);
    assert!(stream.stats().total.rejects.get(Reject::Late) > 0);
}

#[test]
fn loss_and_reordering_leave_only_whole_heaps_present() {
    let faults: Faults = "loss=0.02,reorder=6@0.2,duplicate=0.1,seed=5".parse().unwrap();
    let sent: Vec<_> = (0..60).flat_map(|time| (0..CHANNELS).flat_map(move |c| packets(time, c))).collect();
    let queue = queue_of(&sent);
    queue.close();
    let stream = stream(&ChunkConfig { window: ChunkWindow::Count(4), ..ChunkConfig::new(rule()) }, 8);
    let source = FaultSource::new(Box::new(queue) as Box<dyn Source>, &faults);
    stream.add_source("faulty", Box::new(source), true).unwrap();
    let got = all(&stream);
    assert!(got.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, each once");
    let present: usize = got.iter().flat_map(|(_, present)| present).map(|&p| usize::from(p)).sum();
    let total = stream.stats().total;
    assert_eq!(total.heaps, present as u64);
    assert!(present > 150 && present < 240, "{present}");
}

/// A group of two streams: one with even channels, one with odd ones, given at once or one after the other.
fn run_group(eviction: Eviction, late: bool) -> (Vec<(u64, Vec<u8>)>, ChunkCounts) {
    let chunks = ChunkConfig { eviction, ..ChunkConfig::new(rule()) };
    let group = ChunkGroup::new(&StreamConfig { ring: 100, explicit_start: true, ..config() }, &chunks, 2);
    (0..4).for_each(|_| group.add_free(chunk()));
    for (number, stream) in group.streams().iter().enumerate() {
        let channels = (0..CHANNELS).filter(move |channel| *channel as usize % 2 == number);
        let sent = (0..30)
            .flat_map(|time| channels.clone().flat_map(move |channel| packets(time, channel).concat()));
        stream.add_bytes(sent.collect::<Vec<u8>>()).unwrap();
    }
    group.streams()[0].start();
    let mut got = Vec::new();
    let mut take = |most: usize| {
        while got.len() < most
            && let Ok(chunk) = group.get(LONG)
        {
            check(&chunk);
            got.push((chunk.id, chunk.present.clone()));
            group.add_free(chunk);
        }
    };
    match eviction {
        // All but the chunks that are in the window at the end.
        Eviction::Lossy if late => take(28),
        Eviction::Lossless if late => {
            while group.chunk_counts().waits == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        _ => {}
    }
    group.start();
    take(usize::MAX);
    (got, group.chunk_counts())
}

#[test]
fn a_lossless_group_waits_for_the_slower_stream() {
    for late in [false, true] {
        let (got, counts) = run_group(Eviction::Lossless, late);
        let whole: Vec<_> = (0..30).map(|id| (id, vec![1; 4])).collect();
        assert_eq!(got, whole, "late: {late}, {counts:?}");
        assert_eq!((counts.chunks, counts.too_old_heaps), (30, 0));
    }
}

#[test]
fn a_lossy_group_goes_on_without_the_slower_stream() {
    let (got, counts) = run_group(Eviction::Lossy, true);
    assert!(got.iter().map(|(id, _)| *id).eq(0..30), "every chunk once");
    assert!(got.iter().all(|(_, present)| present[0] == 1 && present[2] == 1));
    assert_eq!(counts.too_old_heaps, 28 * 2, "all but what the last window took");
}

#[test]
fn a_stream_of_a_group_that_reads_nothing_throws_nothing_of_the_others_away() {
    let group = ChunkGroup::new(&StreamConfig { ring: 1, ..config() }, &ChunkConfig::new(rule()), 2);
    // As a reader of another stream leaves it, between what it took out of the window and the ring.
    lock(&group.streams[0].shared.finished).extend((0..3).map(|_| chunk()));
    for taken in 0..3 {
        assert!(group.get(LONG).is_ok(), "chunk {taken}");
    }
    assert!(group.streams.iter().all(|stream| stream.stats().total.ring_full == 0));
}

#[test]
fn a_stream_of_a_group_that_stops_takes_nothing_of_the_others_with_it() {
    let group = |finished| {
        let group = ChunkGroup::new(&StreamConfig { ring: 1, ..config() }, &ChunkConfig::new(rule()), 2);
        lock(&group.streams[0].shared.finished).extend((0..finished).map(|_| chunk()));
        group
    };
    let stopped =
        |group: &ChunkGroup| group.streams.iter().map(|stream| stream.stats().total.stopped).sum::<u64>();
    let one = group(3);
    one.streams[0].stop();
    for taken in 0..3 {
        assert!(one.get(LONG).is_ok(), "chunk {taken}");
    }
    assert_eq!(stopped(&one), 0);
    // All of them: what found no room is counted, and free again.
    let all = group(3);
    all.stop();
    assert_eq!((stopped(&all), all.streams[0].free()), (2, 2));
    assert!(all.get(LONG).is_ok());
    assert_eq!(all.get(LONG).unwrap_err(), GetError::Stopped);
}

#[test]
fn memory_of_any_kind_comes_back_as_what_it_was() {
    let memory = super::super::HeapMemory::new(1 << 20);
    let chunk = Chunk::new(memory.take(100).unwrap(), 1, 0);
    let back = chunk.data.into_any().downcast::<super::super::HeapBytes>().unwrap();
    assert_eq!(back.len(), 100);
    assert!(format!("{:?}", self::chunk()).contains("size: 12000"));
}

#[test]
fn a_long_packet_on_tcp_is_placed_and_counted_once() {
    use std::io::Write;
    const LONG_HEAP: usize = 300_000;
    let rule = |offset| {
        let rule = ChunkRule::declared("0", "item(0x4103)", offset).unwrap();
        rule.with_counter("bytes", Tally::Sum, "size").unwrap()
    };
    for (offset, user, rejected) in [("0", LONG_HEAP as u64, 0), ("1", 0, 1)] {
        let stream = stream(&ChunkConfig::new(rule(offset)), 0);
        stream.add_free(Chunk::new(vec![0u8; LONG_HEAP], 1, 0));
        let at = stream.add_tcp(&"tcp://127.0.0.1:0".parse().unwrap(), &TcpReaderOptions::default()).unwrap();
        let packets = packets_with(1, &[7; LONG_HEAP], &[flavour().immediate(CHANNEL, 0)], 1 << 20, true);
        assert_eq!(packets.len(), 1);
        std::net::TcpStream::connect(at).unwrap().write_all(&packets[0]).unwrap();
        while stream.get(LONG).is_ok() {}
        let counts = stream.chunk_counts();
        assert_eq!((counts.user[0].1, counts.rejected_heaps), (user, rejected), "{offset}");
    }
}

#[test]
fn chunks_that_nobody_has_room_for_are_free_again() {
    let config = StreamConfig { ring: 1, full: Full::Refuse, ..config() };
    let stream = ChunkStream::new(&config, &ChunkConfig::new(rule()));
    (0..4).for_each(|_| stream.add_free(chunk()));
    let sent =
        (0..40).flat_map(|time| (0..CHANNELS).flat_map(move |channel| packets(time, channel).concat()));
    stream.add_bytes(sent.collect::<Vec<u8>>()).unwrap();
    stream.join();
    let mut waited = 0;
    while stream.get(LONG).is_ok() {
        waited += 1;
    }
    let total = stream.stats().total;
    assert_eq!(waited + stream.free(), 4, "{total:?}");
    assert_eq!(total.ring_full + waited as u64, stream.chunk_counts().chunks);
}

/// The chunks that the packets make by a rule of heap counters: 4 heaps of a chunk.
fn by_counter(sent: &[Vec<u8>], ahead: u64) -> (Vec<(u64, Vec<u8>)>, ChunkCounts) {
    let rule = ChunkRule::declared("counter / 4", "counter % 4", "counter % 4 * 3000").unwrap();
    let stream = stream(&ChunkConfig { ahead, ..ChunkConfig::new(rule) }, 8);
    stream.add_bytes(sent.concat()).unwrap();
    (all(&stream), stream.chunk_counts())
}

#[test]
fn a_heap_of_descriptors_moves_no_window() {
    // As our own sender sends them: first, with the largest counter; here in two packets, of which only the first has items.
    let described = [flavour().addressed(id::DESCRIPTOR, 0), flavour().immediate(id::STREAM_CONTROL, 0)];
    let mut sent = packets_with((1 << 48) - 1, &[0; 2000], &described, 1472, false);
    assert_eq!(sent.len(), 2);
    sent.extend((0..8).flat_map(|heap| packets(heap / 4, heap % 4)));
    for ahead in [1024, u64::MAX] {
        let (got, counts) = by_counter(&sent, ahead);
        assert_eq!(got, [(0, vec![1; 4]), (1, vec![1; 4])]);
        assert_eq!((counts.rejected_heaps, counts.too_old_heaps, counts.stray_heaps), (1, 0, 0));
    }
}

#[test]
fn a_heap_that_does_not_fit_moves_no_window() {
    let own = [flavour().immediate(TIME, 0)];
    let long = |counter| packets_with(counter, &[0; 13_000], &own, 1472, true);
    let mut sent = packets(0, 0);
    // As many as would make a jump.
    (4000..4020).for_each(|counter| sent.extend(long(counter)));
    sent.extend(long(20));
    sent.extend((1..8).flat_map(|heap| packets(heap / 4, heap % 4)));
    let (got, counts) = by_counter(&sent, 1024);
    assert_eq!(got, [(0, vec![1; 4]), (1, vec![1; 4])]);
    assert_eq!((counts.rejected_heaps, counts.too_old_heaps, counts.stray_heaps), (21, 0, 0));
}

#[test]
fn the_packets_of_one_damaged_heap_move_no_window() {
    let small = |counter: u64, chunk: u64, channel: u64| {
        let own = [flavour().immediate(TIME, chunk * 256), flavour().immediate(CHANNEL, channel)];
        packets_with(counter, &payload(chunk, channel), &own, 300, true)
    };
    // Two senders' heaps alternate: neither counts again with each packet.
    let (one, two) = (small(90, 1_000_000, 0), small(91, 3_000_000, 1));
    assert!(one.len() > 8);
    let mut sent = small(4, 1, 0);
    sent.extend(one.into_iter().zip(two).flat_map(<[_; 2]>::from));
    sent.extend((1..CHANNELS).flat_map(|channel| small(4 + channel, 1, channel)));
    let stream = stream(&ChunkConfig::new(rule()), 4);
    stream.add_bytes(sent.concat()).unwrap();
    assert_eq!(all(&stream), [(1, vec![1; 4])]);
    let counts = stream.chunk_counts();
    assert_eq!((counts.stray_heaps, counts.too_old_heaps, counts.rejected_heaps), (2, 0, 0));
}

#[test]
fn packets_are_marked_as_they_arrive() {
    let rule = ChunkRule::declared("item(0x1600) / 256", "item(0x4103) * 3", "item(0x4103) * 3000").unwrap();
    let stream =
        ChunkStream::new(&config(), &ChunkConfig { packet_presence: 1000, ..ChunkConfig::new(rule) });
    (0..2).for_each(|_| stream.add_free(Chunk::new(vec![0u8; HEAP * 4], 12, 0)));
    let heap = |channel| {
        let own = [flavour().immediate(TIME, 256), flavour().immediate(CHANNEL, channel)];
        let packets = packets_with(channel, &payload(1, channel), &own, 1000 + 8 + 6 * 8, true);
        assert_eq!(packets.len(), 3);
        packets
    };
    let mut sent = heap(0);
    // Of another the second is missing, of the third all but the last; of the fourth, all.
    sent.extend([heap(1).remove(0), heap(1).remove(2), heap(2).remove(2)]);
    stream.add_bytes(sent.concat()).unwrap();
    let chunk = stream.get(LONG).unwrap();
    assert_eq!(chunk.present, [1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0]);
    assert_eq!((chunk.heaps, chunk.bytes), (1, HEAP as u64));
    let bytes = chunk.data.bytes().unwrap();
    for (at, &present) in chunk.present.iter().enumerate() {
        let there = &bytes[at * 1000..][..1000];
        let sent = &payload(1, at as u64 / 3)[at % 3 * 1000..][..1000];
        assert_eq!(there == sent, present == 1, "packet {at}");
    }
}

#[test]
fn a_function_counts_each_heap_once() {
    let place: PlaceFn = Arc::new(|heap, place| {
        let channel = heap.immediate(CHANNEL).unwrap_or(u64::MAX);
        place.batch[0] = 1;
        place.batch[1] = channel;
        if channel != 2 {
            (place.chunk, place.index, place.offset) = (0, channel, channel * heap.size);
        }
    });
    let rule = ChunkRule::code(place)
        .with_counter("bytes", Tally::Sum, "size")
        .unwrap()
        .with_batch_counter("heaps", Tally::Sum)
        .with_batch_counter("largest", Tally::Max);
    let stream = stream(&ChunkConfig::new(rule), 2);
    let sent = (0..CHANNELS).flat_map(|channel| packets(0, channel).concat());
    stream.add_bytes(sent.collect::<Vec<u8>>()).unwrap();
    assert_eq!(all(&stream), [(0, vec![1, 1, 0, 1])]);
    let user: Vec<u64> = stream.chunk_counts().user.iter().map(|(_, value)| *value).collect();
    assert_eq!(user, [3 * HEAP as u64, 4, 3]);
}
