//! What brought spead2 4.5.1 down, and what a stranger could think of, tried on a stream.

use super::*;
use skyhaul_core::placement::Nanos;

/// A packet with these immediate items, then these pointers, and payload.
fn packet(items: &[(u64, u64)], more: &[u64], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x53, 4, 2, 6, 0, 0];
    packet.extend(((items.len() + more.len()) as u16).to_be_bytes());
    items.iter().for_each(|&(id, value)| packet.extend(flavour().immediate(id, value).to_be_bytes()));
    more.iter().for_each(|pointer| packet.extend(pointer.to_be_bytes()));
    packet.extend(payload);
    packet
}

/// Receive these packets and one good heap (999) after them.
fn receive(config: &StreamConfig, sent: &[Vec<u8>]) -> (Vec<Heap>, Stats) {
    let stream = Stream::new(config);
    let queue = queue_of(sent);
    assert!(queue.push(&packets(999, 64, 1472)[0], Duration::ZERO).unwrap());
    queue.close();
    stream.add_inproc(queue).unwrap();
    let mut heaps = Vec::new();
    while let Ok(heap) = stream.get(LONG) {
        heaps.push(heap);
    }
    assert!(heaps.iter().any(|heap| heap.number == 999), "what came after is received");
    (heaps, stream.stats())
}

#[test]
fn d2_an_addressed_stream_control_is_harmless() {
    let control = flavour().addressed(id::STREAM_CONTROL, 0);
    let sent = packet(&[(1, 5), (2, 64), (3, 0), (4, 64)], &[control], &[0xFF; 64]);
    assert_eq!(sent.len(), 112);
    let (heaps, stats) = receive(&config(), &[sent]);
    assert_eq!((heaps[0].number, heaps.len()), (5, 2));
    assert!(!heaps[0].is_start_of_stream() && !heaps[0].is_end_of_stream());
    assert_eq!(heaps[0].item_bytes(&heaps[0].items()[0]).len(), 64);
    assert_eq!(stats.ended, Some(StreamEnd::Readers));
}

#[test]
fn d3_a_huge_claim_is_refused_before_it_gets_memory() {
    let sent: Vec<_> = [64 << 30, 32 << 40, (1 << 48) - 1, 65 << 20]
        .map(|size| packet(&[(1, 5), (2, size), (3, 0), (4, 8)], &[], &[0; 8]))
        .into();
    let (heaps, stats) = receive(&StreamConfig { incomplete: true, ..config() }, &sent);
    assert_eq!((heaps.len(), stats.total.rejects.get(Reject::Outside)), (1, 4));
    assert!(stats.memory_used <= 64 << 20);
}

#[test]
fn d5_stray_bytes_of_any_number_are_passed_over_in_memory() {
    for strays in [1, 5, 8, 13] {
        let mut bytes = Vec::new();
        for n in 0..5 {
            bytes.extend(vec![b'S'; strays]);
            bytes.extend(packets(n, 100, 1472).concat());
        }
        let stream = Stream::new(&config());
        stream.add_bytes(bytes).unwrap();
        assert_eq!(all(&stream).len(), 5);
        assert_eq!(stream.stats().total.skipped_bytes, 5 * strays as u64);
    }
    // A packet that does not end: its payload may look like packets, and is none.
    let inner = packets(7, 100, 1472).concat();
    let mut bytes = [packets(1, 10, 1472).concat(), packets_of(2, &inner, &[], 1472).concat()].concat();
    bytes.pop();
    let stream = Stream::new(&config());
    stream.add_bytes(bytes).unwrap();
    assert_eq!(all(&stream).into_keys().collect::<Vec<_>>(), [1]);
    assert_eq!(stream.stats().total.rejects.get(Reject::Truncated), 1);
}

#[test]
fn d6_whatever_is_not_used_is_counted_by_its_reason() {
    let good = packets(1, 100, 1472).remove(0);
    let changed = |at: usize, to: u8| {
        let mut packet = good.clone();
        packet[at] = to;
        packet
    };
    let mut wrong_flavour = packets(2, 3000, 1472);
    let mut other = wrong_flavour[1].clone();
    // The same numbers in SPEAD-64-40.
    other[2..4].copy_from_slice(&[3, 5]);
    for (at, (id, value)) in
        [(1, 2), (2, 3000), (3, 1416), (4, (other.len() - 40) as u64)].into_iter().enumerate()
    {
        let pointer = Flavour::new(40).unwrap().immediate(id, value);
        other[8 + at * 8..][..8].copy_from_slice(&pointer.to_be_bytes());
    }
    wrong_flavour.truncate(1);
    wrong_flavour.push(other);
    let mut sent = vec![
        changed(0, 0),
        changed(1, 5),
        changed(9, 0x70),
        good[..good.len() - 1].to_vec(),
        [&good[..], &[0]].concat(),
        Vec::new(),
        packet(&[(1, 8), (2, 10), (3, 4), (4, 8)], &[], &[0; 8]),
    ];
    sent.extend(wrong_flavour);
    let (heaps, stats) = receive(&config(), &sent);
    assert_eq!(heaps.len(), 1);
    let rejects = stats.total.rejects;
    for (reason, count) in [
        (Reject::BadMagic, 1),
        (Reject::BadVersion, 2),
        (Reject::BadField, 1),
        (Reject::Truncated, 2),
        (Reject::WrongSize, 1),
        (Reject::Outside, 1),
    ] {
        assert_eq!(rejects.get(reason), count, "{reason:?} of {rejects:?}");
    }
    assert_eq!(stats.total.incomplete_dropped, 1);
}

#[test]
fn d7_replays_and_late_duplicates_make_no_phantom_heaps() {
    let (single, double) = (packets(1, 100, 1472), packets(2, 2000, 1472));
    let mut sent = [single.clone(), double.clone()].concat();
    // All again, and one more packet of each long after.
    sent.extend(sent.clone());
    sent.extend((10..40).flat_map(|n| packets(n, 100, 1472)));
    sent.extend([single[0].clone(), double[1].clone()]);
    let (heaps, stats) = receive(&StreamConfig { incomplete: true, ..config() }, &sent);
    assert!(heaps.iter().all(|heap| heap.complete));
    assert_eq!(heaps.iter().filter(|heap| heap.number <= 2).count(), 2);
    assert_eq!(stats.total.rejects.get(Reject::Duplicate), 5);
    // Where the user knows that counters come again soon, nothing is remembered.
    let mut forgetful = config();
    forgetful.heaps.remember = 0;
    let (heaps, _) = receive(&forgetful, &[single.clone(), single].concat());
    assert_eq!(heaps.iter().filter(|heap| heap.number == 1).count(), 2);
}

#[test]
fn strangers_cannot_use_up_memory_or_senders() {
    // Heaps that are never finished: the window bounds them.
    let sent: Vec<_> =
        (0..500u64).map(|n| packet(&[(1, 10_000 + n), (2, 1 << 20), (3, 0), (4, 8)], &[], &[0; 8])).collect();
    let (heaps, stats) = receive(&config(), &sent);
    assert_eq!((heaps.len(), stats.total.rejects.get(Reject::NoBuffer)), (1, 0));
    assert_eq!(stats.total.incomplete_dropped, 500);

    let stream = Stream::new(&StreamConfig { key: KeyedBy::SenderAndCounter, senders: 3, ..config() });
    let queue = InprocQueue::default();
    for sender in 1..=5 {
        queue.as_sender(sender).push(&packets(1, 10, 1472)[0], Duration::ZERO).unwrap();
    }
    queue.close();
    stream.add_inproc(queue).unwrap();
    stream.join();
    assert_eq!(stream.stats().total.rejects.get(Reject::TooManyStreams), 2);
    assert_eq!(stream.get_many(&mut Vec::new(), 10), 3);
}

#[test]
fn a_start_of_stream_lets_counters_come_again() {
    let start = packet(&[(1, 50), (2, 0), (3, 0), (4, 0), (6, 0)], &[], &[]);
    let one = packets(1, 100, 1472).remove(0);
    let (heaps, stats) = receive(&config(), &[one.clone(), one.clone(), start, one.clone(), one]);
    assert_eq!(heaps.iter().filter(|heap| heap.number == 1).count(), 2);
    assert_eq!(stats.total.rejects.get(Reject::Duplicate), 2);
    assert_eq!(heaps.iter().filter(|heap| heap.is_start_of_stream()).count(), 1);
}

#[test]
fn counters_of_eight_bits_may_come_round_and_copies_may_come_too() {
    let flavour = Flavour::new(8).unwrap();
    let heap = |counter: u64| {
        let mut packet = vec![0x53, 4, 7, 1, 0, 0, 0, 5];
        for (id, value) in [(1, counter & 0xFF), (2, 8), (3, 0), (4, 8)] {
            packet.extend(flavour.immediate(id, value).to_be_bytes());
        }
        packet.extend(flavour.addressed(0x20, 0).to_be_bytes());
        packet.extend(counter.to_be_bytes());
        packet
    };
    // Each twice, and the one of 50 heaps before.
    let mut sent: Vec<_> =
        (1..1500u64).flat_map(|n| [heap(n), heap(n), heap(n.saturating_sub(50).max(1))]).collect();
    sent.push(stop_heap(1));
    let stream = Stream::new(&config());
    stream.add_bytes(sent.concat()).unwrap();
    let mut next = 1u64;
    while let Ok(heap) = stream.get(LONG) {
        assert_eq!(heap.payload(), next.to_be_bytes());
        next += 1;
    }
    let total = stream.stats().total;
    assert_eq!((next, total.heaps, total.rejects.get(Reject::Duplicate)), (1500, 1499, 2 * 1499));
    assert_eq!(total.repeated_heaps, 0);
}

#[test]
fn a_sender_that_begins_anew_unsaid_is_refused_in_sight_until_its_heaps_are_forgotten() {
    let mut remembering = config();
    remembering.heaps.remember_for = Nanos(60 * Nanos::SECOND.0);
    let stream = Stream::new(&remembering);
    let queue = InprocQueue::default();
    stream.add_inproc(queue.clone()).unwrap();
    let run = || (1..=3).flat_map(|n| packets(n, 2000, 1472));
    run().for_each(|packet| assert!(queue.push(&packet, Duration::ZERO).unwrap()));
    for _ in 0..3 {
        stream.get(LONG).unwrap();
    }
    std::thread::sleep(Duration::from_millis(150));
    run().for_each(|packet| assert!(queue.push(&packet, Duration::ZERO).unwrap()));
    queue.close();
    assert_eq!(stream.get(LONG).unwrap_err(), GetError::Stopped);
    let total = stream.stats().total;
    assert_eq!((total.heaps, total.repeated_heaps, total.rejects.get(Reject::Duplicate)), (3, 3, 6));
}

#[test]
fn a_heap_whose_first_packet_is_lost_is_told_where_order_is_wanted() {
    let mut ordered = StreamConfig { incomplete: true, ..config() };
    ordered.heaps.in_order = true;
    let sent: Vec<_> = packets(1, 4000, 1472).into_iter().skip(1).chain(packets(2, 100, 1472)).collect();
    let (heaps, stats) = receive(&ordered, &sent);
    let lost = heaps.iter().find(|heap| heap.number == 1).unwrap();
    assert_eq!((lost.complete, lost.received, lost.size), (false, 0, Some(4000)));
    assert_eq!((lost.missing.as_slice(), lost.payload()), (std::slice::from_ref(&(0..4000)), &[0; 4000][..]));
    assert_eq!((stats.total.incomplete_heaps, stats.total.rejects.get(Reject::OutOfOrder)), (1, 2));
    let (_, stats) = receive(&StreamConfig { incomplete: false, ..ordered }, &sent);
    assert_eq!(stats.total.incomplete_dropped, 1);
}

#[test]
fn any_octets_end_nothing() {
    let mut seed = 1u64;
    let mut octet = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    let mut sent = Vec::new();
    for n in 0..3000 {
        let mut bytes = if n % 2 == 0 {
            packets(n % 50, (n as usize * 37) % 4000, 1472).swap_remove(0)
        } else {
            vec![0; usize::from(octet())]
        };
        for _ in 0..=octet() % 5 {
            let at = (usize::from(octet()) << 8 | usize::from(octet())) % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at.min(80)) {
                *byte = octet();
            }
        }
        sent.push(bytes);
    }
    let stop = StreamConfig { stop: StopRule::Never, incomplete: true, ..config() };
    let (_, stats) = receive(&stop, &sent);
    assert_eq!(stats.total.packets, 3001);
    let stream = Stream::new(&stop);
    stream.add_bytes(sent.concat()).unwrap();
    while stream.get(LONG).is_ok() {}
    assert_eq!(stream.ended(), Some(StreamEnd::Readers));
}
