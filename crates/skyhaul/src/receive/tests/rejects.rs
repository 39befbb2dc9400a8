//! Every reason for which a packet can be refused is provoked: a receiver gets packets that yield this reason, and no
//! other, in the counters that its user reads. A reason that nothing provokes does not compile: [`provoke`] names each.

use super::{Bed, packet, supply};
use crate::inproc::InprocQueue;
use crate::receive::Gate;
use crate::spead::receive::{Stream, StreamConfig};
use skyhaul_core::placement::{Reject, Rejects};
use skyhaul_core::wire::fila10g::Fila10gStream;
use skyhaul_core::wire::mark5b::{self, Mark5b, Mark5bStream};
use skyhaul_core::wire::spead::Flavour;
use skyhaul_core::wire::{Known, Order, Place, fila10g};
use skyhaul_io::memory::heap::HeapMemory;
use std::time::Duration;

#[test]
fn each_reason_is_met_and_counted_as_what_it_is() {
    for &why in Reject::ALL {
        let told: Vec<(Reject, u64)> = provoke(why).iter().collect();
        assert!(matches!(told[..], [(reason, _)] if reason == why), "{why:?} was to be met: {told:?}");
    }
}

/// What a receiver counted that was given packets to be refused for this reason.
fn provoke(why: Reject) -> Rejects {
    match why {
        Reject::Truncated => after_good_frames(|packet| packet.truncate(500)),
        Reject::WrongSize => after_good_frames(|packet| packet.push(0)),
        // The thread's number, behind the sequence number of eight octets.
        Reject::UnknownThread => after_good_frames_of(None, |packet| packet[14] ^= 1),
        Reject::Duplicate => frames(|bed, supply| {
            (0..100).chain(50..51).for_each(|n| bed.send(1, &packet(supply, n)));
        }),
        Reject::Late => frames(|bed, supply| {
            let late = packet(supply, 3);
            (0..3).chain(4..1000).for_each(|n| bed.send(1, &packet(supply, n)));
            bed.send(1, &late);
        }),
        Reject::Stray => frames(|bed, supply| {
            (0..100).chain([1_000_000_000]).chain(100..2000).for_each(|n| bed.send(1, &packet(supply, n)));
        }),
        Reject::NoBuffer => frames(|bed, supply| {
            (0..40).for_each(|n| bed.send(1, &packet(supply, n)));
            let hoard: Vec<_> = std::iter::from_fn(|| bed.pool.take()).collect();
            (40..200).for_each(|n| bed.send(1, &packet(supply, n)));
            drop(hoard);
        }),
        Reject::BeforeStart => seconds(Gate { start: Some(super::START + 1), stop: None }),
        Reject::AfterStop => seconds(Gate { start: None, stop: Some(super::START + 1) }),
        Reject::TooManyStreams => frames(|bed, supply| {
            (0..100).for_each(|n| (0..5).for_each(|port| bed.send(port, &packet(supply, n))));
        }),
        Reject::NotAllowed => {
            let from = vec!["127.0.0.1:2".parse().unwrap()];
            let mut bed = Bed::new(|o| o.allow.from = from);
            bed.send(1, &packet(&supply(1, None), 0));
            counted(bed)
        }
        Reject::Unproven => frames(|bed, supply| {
            bed.send(1, &packet(supply, 0));
            bed.pass(10_000_000_000);
        }),
        Reject::NotFrames => frames(|bed, _| {
            (0..100).for_each(|_| bed.send(1, &part_of_heap(Some(8), &(0..8))));
        }),
        Reject::PartialSet => {
            let (mut bed, supply) = (Bed::new(|_| {}), supply(4, None));
            (2..200).for_each(|n| bed.send(1, &packet(&supply, n)));
            counted(bed)
        }
        Reject::Unrecognised => frames(|bed, _| (0..100).for_each(|n| bed.send(9, &[n; 100]))),
        Reject::BadChecksum => mark5b(|frame| frame[14] ^= 1),
        Reject::Unpaired => halves(),
        Reject::BadMagic => heap(|packet| packet[0] = 0),
        Reject::BadVersion => heap(|packet| packet[1] = 5),
        Reject::BadField => heap(|packet| packet[9] = 0x70),
        Reject::Outside => parts(|_| {}, &[(Some(100), 96..104)]),
        Reject::Overlap => parts(|_| {}, &[(Some(100), 0..16), (Some(100), 8..24)]),
        Reject::Fragmented => parts(|c| c.heaps.runs = 1, &[(Some(100), 0..8), (Some(100), 16..24)]),
        Reject::OutOfOrder => parts(|c| c.heaps.in_order = true, &[(Some(100), 0..8), (Some(100), 16..24)]),
        Reject::Unsized => parts(|c| c.heaps.unsized_objects = false, &[(None, 0..8)]),
    }
}

/// What the engine counts of frames.
fn frames(drive: impl FnOnce(&mut Bed, &crate::send::SynthSupply)) -> Rejects {
    let mut bed = Bed::new(|_| {});
    drive(&mut bed, &supply(1, Some(Order::Little)));
    counted(bed)
}

fn counted(mut bed: Bed) -> Rejects {
    bed.engine.finish(bed.now);
    let tally = bed.engine.tally(true);
    let mut all = tally.rejects;
    tally.streams.iter().for_each(|(_, report)| all.merge(&report.rejects));
    all
}

fn after_good_frames(change: impl Fn(&mut Vec<u8>)) -> Rejects {
    after_good_frames_of(Some(Order::Little), change)
}

/// A stream of frames, and then one that is changed.
fn after_good_frames_of(order: Option<Order>, change: impl Fn(&mut Vec<u8>)) -> Rejects {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(1, order));
    (0..200).for_each(|n| bed.send(1, &packet(&supply, n)));
    let mut changed = packet(&supply, 200);
    change(&mut changed);
    bed.send(1, &changed);
    counted(bed)
}

/// Three seconds of frames, of which some are not asked for.
fn seconds(gate: Gate) -> Rejects {
    let (mut bed, supply) = (Bed::new(|o| o.gate = gate), supply(1, Some(Order::Little)));
    (0..1500).for_each(|n| bed.send(1, &packet(&supply, n)));
    counted(bed)
}

fn mark5b_frame(n: u32) -> Vec<u8> {
    let time = mark5b::Time { day: 821, second: 19_801, frame: n };
    let mut frame = Mark5b::new(time, n * 10_000 / 6400).write().to_vec();
    frame.resize(mark5b::FRAME, 7);
    frame
}

/// A stream of Mark 5B frames that are placed by their times, and then one that is changed.
fn mark5b(change: impl Fn(&mut Vec<u8>)) -> Rejects {
    let mut bed = Bed::new(|o| {
        (o.learn.format, o.learn.place, o.learn.frames_per_second) =
            (Mark5bStream::FAMILY.into(), Place::Time, Some(6400));
    });
    (0..100).for_each(|n| bed.send(1, &mark5b_frame(n)));
    let mut changed = mark5b_frame(100);
    change(&mut changed);
    bed.send(1, &changed);
    counted(bed)
}

/// A stream of half frames, and then a second half where a first one is due.
fn halves() -> Rejects {
    let mut bed = Bed::new(|o| o.learn.format = Fila10gStream::FAMILY.into());
    let half = |counter: u32| {
        let frame = mark5b_frame(counter / 2);
        let at = counter as usize % 2 * fila10g::HALF;
        let head = fila10g::Fila10g { filler: 0, counter }.write();
        [&head[..], &frame[at..at + fila10g::HALF]].concat()
    };
    (0..100).for_each(|n| bed.send(1, &half(n)));
    let mut changed = half(101);
    changed[..8].copy_from_slice(&half(100)[..8]);
    bed.send(1, &changed);
    counted(bed)
}

/// A SPEAD-64-48 packet of heap 1, with the bytes of `part`.
fn part_of_heap(size: Option<u64>, part: &std::ops::Range<u64>) -> Vec<u8> {
    let flavour = Flavour::new(48).unwrap();
    let mut items = vec![(1, 1), (3, part.start), (4, part.end - part.start)];
    items.extend(size.map(|size| (2, size)));
    let mut packet = vec![0x53, 4, 2, 6, 0, 0];
    packet.extend((items.len() as u16).to_be_bytes());
    items.iter().for_each(|&(id, value)| packet.extend(flavour.immediate(id, value).to_be_bytes()));
    packet.extend(part.clone().map(|n| n as u8));
    packet
}

/// What a SPEAD stream counts.
fn heaps(change: impl FnOnce(&mut StreamConfig), packets: &[Vec<u8>]) -> Rejects {
    let mut config = StreamConfig { memory: HeapMemory::new(16 << 20), ..StreamConfig::default() };
    change(&mut config);
    let stream = Stream::new(&config);
    let queue = InprocQueue::default();
    packets.iter().for_each(|packet| assert!(queue.push(packet, Duration::ZERO).unwrap()));
    queue.close();
    stream.add_inproc(queue).unwrap();
    while stream.get(Some(Duration::from_secs(60))).is_ok() {}
    stream.stats().total.rejects
}

fn parts(change: impl FnOnce(&mut StreamConfig), parts: &[(Option<u64>, std::ops::Range<u64>)]) -> Rejects {
    let packets: Vec<_> = parts.iter().map(|(size, part)| part_of_heap(*size, part)).collect();
    heaps(change, &packets)
}

/// A packet that is a whole heap, changed.
fn heap(change: impl Fn(&mut Vec<u8>)) -> Rejects {
    let mut packet = part_of_heap(Some(8), &(0..8));
    change(&mut packet);
    heaps(|_| {}, &[packet])
}
