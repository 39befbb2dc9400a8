//! Senders that want the places and the memory of the honest one.

use super::*;
use crate::receive::Origin;

const HONEST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 5000);
/// Time between two packets of the honest stream, nanoseconds.
const STEP: u64 = 100_000;

fn junk(n: u32) -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::from(0x7F00_0000 | (n >> 14)), 1024 + (n & 0x3FFF) as u16))
}

fn bed() -> Bed {
    Bed::new(|o| o.max_streams = 16)
}

/// The honest stream's account, over all streams it was.
fn honest(bed: &mut Bed) -> (u64, u64) {
    let streams = bed.engine.tally(true).streams;
    let mine = streams.iter().filter(|(info, _)| info.sender == HONEST);
    mine.fold((0, 0), |(placed, lost), (_, report)| (placed + report.placed, lost + report.sequence.lost))
}

#[test]
fn senders_of_a_packet_or_two_never_have_a_place() {
    let (mut bed, supply) = (bed(), supply(1, Some(Order::Little)));
    for n in 0..5000 {
        bed.send_from(junk(n / 2), &packet(&supply, u64::from(n % 7)));
        bed.pass(STEP);
    }
    bed.pass(6_000_000_000);
    let tally = bed.engine.tally(true);
    assert_eq!((tally.streams.len(), tally.held), (0, 0), "forgotten after seconds");
    for n in 0..2000 {
        bed.send_from(HONEST, &packet(&supply, n));
        bed.pass(STEP);
    }
    assert_eq!(bed.finish(), (2000, 0, 1));
    assert_eq!(bed.rejected(Reject::Unproven), 5000);
}

#[test]
fn a_stream_is_whole_before_amid_and_after_a_flood_of_new_ports() {
    for (from, to) in [(0, 3000), (1000, 2000), (2000, 3000)] {
        let (mut bed, supply) = (bed(), supply(1, Some(Order::Little)));
        let mut ports = 0;
        for n in 0..3000 {
            // Before the stream, too.
            for _ in 0..if (from..to).contains(&n) { 20 } else { 0 } {
                bed.send_from(junk(ports), &packet(&supply, 5));
                ports += 1;
            }
            if n >= 500 {
                bed.send_from(HONEST, &packet(&supply, n - 500));
            }
            bed.pass(STEP);
        }
        assert_eq!(honest(&mut bed), (2500, 0), "flood from {from} to {to}");
        assert_eq!(bed.finish(), (2500, 0, 1));
    }
}

#[test]
fn a_stream_takes_the_place_of_the_poorest_and_loses_nothing() {
    let (mut bed, supply) = (bed(), supply(1, Some(Order::Little)));
    // All places are taken, by senders that look like streams.
    for n in 0..100 {
        for port in 0..16 {
            bed.send_from(junk(port), &packet(&supply, n));
        }
        bed.pass(STEP);
    }
    assert_eq!(bed.engine.tally(false).streams.len(), 16);
    bed.pass(2_000_000_000);
    for n in 0..2000 {
        bed.send_from(HONEST, &packet(&supply, n));
        bed.pass(STEP);
    }
    assert_eq!(honest(&mut bed), (2000, 0));
    let event = bed.engine.poll_event().unwrap();
    assert!(event.kind == "stream_gave_way" && event.text.contains("10.0.0.1:5000"), "{event:?}");
    let (present, lost, streams) = bed.finish();
    assert_eq!((present, lost, streams), (3600, 0, 17), "who gave way is still accounted for");
}

#[test]
fn waves_of_short_streams_do_not_drive_out_a_stream_even_a_silent_one() {
    let (mut bed, supply) = (bed(), supply(1, Some(Order::Little)));
    let mut port = 0;
    let mut sent = 0;
    for round in 0..200 {
        // 40 packets each, as fast as can be, from 8 new ports.
        for n in 0..40 {
            (port..port + 8).for_each(|port| bed.send_from(junk(port), &packet(&supply, n)));
        }
        port += 8;
        // The honest one is silent for a while, and comes back.
        for _ in 0..if (50..80).contains(&round) { 0 } else { 200 } {
            bed.send_from(HONEST, &packet(&supply, sent));
            sent += 1;
            bed.pass(STEP);
        }
        bed.pass(50_000_000);
    }
    assert_eq!(honest(&mut bed), (sent, 0));
    let streams = bed.engine.tally(true).streams;
    let mine = streams.iter().filter(|(info, _)| info.sender == HONEST).count();
    assert_eq!(mine, 1, "it never gave way");
    assert!(streams.len() <= 16 + 256, "{} streams are listed", streams.len());
    bed.engine.finish(bed.now);
    assert_eq!(bed.pool.free(), bed.pool.blocks());
}

#[test]
fn the_memory_is_for_the_rich() {
    let mut bed = Bed::new(|o| o.max_streams = 200);
    let supply = supply(1, Some(Order::Little));
    // More streams than blocks, each of them proven, and each with a block that is not full.
    for n in 0..40 {
        (0..150).for_each(|port| bed.send_from(junk(port), &packet(&supply, n)));
        bed.pass(1_000_000);
    }
    bed.pass(100_000_000);
    for n in 0..2000 {
        bed.send_from(HONEST, &packet(&supply, n));
        if n % 50 == 0 {
            (0..150).for_each(|port| bed.send_from(junk(port), &packet(&supply, 40 + n / 50)));
        }
        bed.pass(STEP);
    }
    assert_eq!(honest(&mut bed), (2000, 0));
    assert!(bed.rejected(Reject::NoBuffer) > 0, "the others had to do with half of it");
}

#[test]
fn where_memory_is_short_all_but_the_richest_hand_on_early() {
    const RICH: u32 = 10;
    const ALL: u32 = 46;
    let mut bed = Bed::new(|o| o.max_streams = 64);
    let supply = supply(1, Some(Order::Little));
    // Each holds a block that is not full, and some of them sent more.
    for n in 0..48 {
        let ports = if n < 40 { 0..ALL } else { 0..RICH };
        ports.for_each(|port| bed.send_from(junk(port), &packet(&supply, n)));
        bed.pass(1_000_000);
    }
    let streams = bed.engine.tally(false).streams;
    let rich = |id: u32| {
        let (info, _) = streams.iter().find(|(info, _)| info.id == id).unwrap();
        (0..RICH).any(|port| junk(port) == info.sender)
    };
    assert_eq!(streams.iter().filter(|(info, _)| rich(info.id)).count(), RICH as usize);
    bed.pass(100_000_000);
    assert!(bed.kept.0.lock().unwrap().is_empty(), "a quarter of the pool is free");
    // What waits for a disk takes that. Nobody was silent long enough for its block to be finished.
    let waits: Vec<_> = (0..8).map(|_| bed.pool.take().unwrap()).collect();
    bed.pass(300_000_000);
    let early: Vec<u32> = bed.kept.0.lock().unwrap().iter().map(|seen| seen.stream).collect();
    assert!(!early.is_empty(), "{} of {} blocks are free", bed.pool.free(), bed.pool.blocks());
    assert!(!early.iter().any(|&id| rich(id)), "the richest keep theirs: {early:?}");
    assert!(bed.pool.free() >= bed.pool.blocks() / 4, "{} blocks are free", bed.pool.free());
    drop(waits);
    // What comes later has its place behind what was handed on.
    (48..58).for_each(|n| (0..RICH).for_each(|port| bed.send_from(junk(port), &packet(&supply, n))));
    (40..50).for_each(|n| (RICH..ALL).for_each(|port| bed.send_from(junk(port), &packet(&supply, n))));
    let sent = u64::from(RICH) * 58 + u64::from(ALL - RICH) * 50;
    let refused = bed.rejected(Reject::NoBuffer);
    let (present, ..) = bed.finish();
    assert_eq!(present + refused, sent);
}

#[test]
fn only_those_on_the_list_are_heard() {
    let from: Vec<Origin> = vec!["10.0.0.0/8:5000-5001".parse().unwrap()];
    let mut bed = Bed::new(|o| o.allow = Allow { from, stations: Vec::new() });
    let supply = supply(1, Some(Order::Little));
    for n in 0..200 {
        bed.send_from(HONEST, &packet(&supply, n));
        bed.send_from(junk(1), &packet(&supply, n));
    }
    assert_eq!(bed.rejected(Reject::NotAllowed), 200);
    assert_eq!(bed.finish(), (200, 0, 1));
}

#[test]
fn only_stations_on_the_list_are_taken() {
    for (station, expected) in [("Sk", (200, 0, 1)), ("Eb", (0, 0, 0))] {
        let stations = vec![station.to_owned()];
        let mut bed = Bed::new(|o| o.allow = Allow { from: Vec::new(), stations });
        let supply = supply(1, Some(Order::Little));
        (0..200).for_each(|n| bed.send_from(HONEST, &packet(&supply, n)));
        assert_eq!(bed.finish(), expected, "{station}");
        assert_eq!(bed.rejected(Reject::NotAllowed), 200 - expected.0);
    }
}

#[test]
fn heaps_and_events_are_no_frames() {
    use skyhaul_core::wire::ejfat::Reassembly;
    let event = |tick: u64| {
        let head = Reassembly { version: 1, reserved: 0, data_id: 7, offset: 0, length: 100, tick };
        [&head.write()[..], &[0; 100]].concat()
    };
    let mut bed = bed();
    // The last tick of all, too.
    (0..100).for_each(|n| bed.send_from(HONEST, &event(u64::MAX - n)));
    assert_eq!(bed.finish(), (0, 0, 0));
    assert_eq!(bed.rejected(Reject::NotFrames), 100);
    let said = bed.engine.poll_event().unwrap();
    assert!(said.text.contains("--format spead"), "{said:?}");
}

#[test]
fn the_last_numbers_of_all_are_counted_without_overflow() {
    let options = SynthOptions {
        payload: 1000,
        threads: 1,
        frames_per_second: 500,
        start: START,
        station: "Sk".into(),
        payloads: SynthPayload::Pattern,
        sequence: Sequence { order: Some(Order::Little), first: u64::MAX - 150 },
        packets: None,
    };
    let (mut bed, supply) = (bed(), SynthSupply::new(options).unwrap());
    (0..150).filter(|n| n % 10 != 3).for_each(|n| bed.send_from(HONEST, &packet(&supply, n)));
    let (present, missing, streams) = bed.finish();
    assert_eq!((present, streams), (135, 1));
    assert!(missing <= 15, "{missing}");
}
