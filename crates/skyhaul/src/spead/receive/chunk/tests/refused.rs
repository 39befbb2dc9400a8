//! What a refused heap changes: nothing. And what packets mark.

use super::*;
use skyhaul_core::wire::spead::id;

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
