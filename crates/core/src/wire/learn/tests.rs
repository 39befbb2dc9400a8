use super::*;
use crate::wire::{
    ejfat::{self, EjfatStream},
    fila10g::{self, Fila10gStream, Phase},
    frame::{FrameTime, Quirk},
    mark5b::{self, Mark5b, Mark5bStream},
    spead::{Flavour, Spead, SpeadStream},
    vdif::{Extended, Header, Oddity, Vdif, VdifStream},
};
use proptest::prelude::*;

const T0: i64 = 1_767_225_600;

fn vdif_packet(psn: Option<(u64, Order)>, header: &Header) -> Vec<u8> {
    let mut packet = psn.map_or(Vec::new(), |(n, order)| vtp::write(n, order).to_vec());
    let (octets, length) = header.write();
    packet.extend(&octets[..length]);
    packet.resize(packet.len() - length + header.vdif.frame_bytes(), 0x5A);
    packet
}

fn header(n: u32, threads: u32, fps: u32, extended: Extended) -> Header {
    let legacy = extended == Extended::Legacy;
    let shape = Vdif::shape(5000, 1, 2, false, legacy).unwrap();
    let frame = n / threads;
    let vdif = shape.at(T0 + i64::from(frame / fps), frame % fps).unwrap();
    Header { vdif: Vdif { thread: 3 * (n % threads), ..vdif }, extended }
}

fn learn(
    options: LearnOptions,
    packets: impl IntoIterator<Item = Vec<u8>>,
) -> Option<Result<StreamFormat, Reject>> {
    let mut learner = Learner::new(options);
    for packet in packets {
        learner.observe(&packet);
        if let Some(done) = learner.conclude(false) {
            return Some(done);
        }
    }
    None
}

#[test]
fn vdif_with_and_without_a_sequence_number() {
    let plain = Extended::Plain(Default::default());
    for (psn, legacy) in [(None, false), (Some(Order::Little), false), (Some(Order::Big), true)] {
        let extended = if legacy { Extended::Legacy } else { plain };
        let packets = (0..200)
            .map(|n| vdif_packet(psn.map(|o| (900 + u64::from(n), o)), &header(n, 8, 1600, extended)));
        let format = learn(LearnOptions::default(), packets).unwrap().unwrap();
        assert_eq!((format.sequence, format.header_bytes), (psn, if legacy { 16 } else { 32 }));
        assert_eq!(format.threads.iter().map(|t| t.id).collect::<Vec<_>>(), [0, 3, 6, 9, 12, 15, 18, 21]);
        assert_eq!(format.place, if psn.is_some() { Place::Sequence } else { Place::Time });
        assert_eq!((format.frames_per_second, format.quirks.as_slice()), (None, &[][..]));
        assert_eq!(format.short_objects(), psn.is_none());
    }
}

#[test]
fn the_rate_comes_from_the_header_unless_frames_deny_it() {
    let stream =
        |extended, from| (from..from + 200).map(move |n| vdif_packet(None, &header(n, 4, 3200, extended)));
    let vlba = Extended::vlba(32_000_000, false).unwrap();
    let learned = |extended, from| learn(LearnOptions::default(), stream(extended, from)).unwrap().unwrap();
    assert_eq!(learned(vlba, 0).frames_per_second, Some(1600));
    let denied = learned(vlba, 4 * 2000);
    assert_eq!((denied.frames_per_second, denied.quirks), (None, vec![Oddity::RateTooLow.into()]));
    let nict = Extended::nict(32_000_000, false, "NICT").unwrap();
    let doubled = learned(nict, 4 * 2000);
    assert_eq!((doubled.frames_per_second, doubled.quirks), (Some(3200), vec![Oddity::RateOfEdv1.into()]));
    let given = LearnOptions { frames_per_second: Some(25), ..LearnOptions::default() };
    assert_eq!(learn(given, stream(nict, 0)).unwrap().unwrap().frames_per_second, Some(25));
}

#[test]
fn hostile_first_packets_are_outvoted() {
    let plain = Extended::Plain(Default::default());
    let hostile = (0..6).map(|_| {
        let shape = Vdif::shape(800, 1, 2, false, true).unwrap();
        vdif_packet(None, &Header { vdif: Vdif { thread: 999, ..shape }, extended: Extended::Legacy })
    });
    let stray = vdif_packet(
        Some((1, Order::Little)),
        &Header { vdif: Vdif { thread: 77, ..header(0, 1, 9, plain).vdif }, extended: plain },
    );
    let honest =
        (0..300).map(|n| vdif_packet(Some((u64::from(n), Order::Little)), &header(n, 2, 100, plain)));
    let format = learn(LearnOptions::default(), hostile.chain([stray]).chain(honest)).unwrap().unwrap();
    assert_eq!((format.frame_bytes, format.sequence), (5032, Some(Order::Little)));
    assert_eq!(format.threads.iter().map(|t| t.id).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn clocks_of_threads_are_set_right() {
    // As in a known file: even threads have seconds that are far too small; across the end of a second.
    let plain = Extended::Plain(Default::default());
    let packets = (8 * 1590..8 * 1620).map(|n| {
        let mut h = header(n, 8, 1600, plain);
        if h.vdif.thread.is_multiple_of(2) {
            h.vdif = Vdif {
                thread: h.vdif.thread,
                ..h.vdif.at(h.vdif.unix_seconds() - 14_352_384, h.vdif.frame).unwrap()
            };
        }
        vdif_packet(None, &h)
    });
    let options = LearnOptions { frames_per_second: Some(1600), ..LearnOptions::default() };
    let packets: Vec<_> = packets.collect();
    let format = learn(options, packets.clone()).unwrap().unwrap();
    assert_eq!(format.threads.iter().map(|t| t.shift).collect::<Vec<_>>(), [14_352_384, 0].repeat(4));
    assert_eq!(format.quirks.len(), 4);
    let layout = format.layout().unwrap();
    let units = layout.geometry().object_bytes / 5032;
    let linear = |p: &Vec<u8>| {
        let at = layout.place(p).unwrap();
        at.key.number * units + at.offset / 5032
    };
    assert!(packets.windows(2).all(|pair| linear(&pair[0]) + 1 == linear(&pair[1])));
    let time = |p: &Vec<u8>| format.frame_time(p).unwrap();
    assert_eq!(
        (time(&packets[0]).unix_seconds, time(&packets[1]).unix_seconds, time(&packets[1]).frame),
        (T0, T0, 1590)
    );
}

#[test]
fn oddities_are_named() {
    let plain = Extended::Plain(Default::default());
    let odd = |n: u32, h: Header| {
        let vdif = Vdif {
            bits_minus_one: 2,
            version: 0,
            unassigned: 1,
            epoch: 0,
            seconds: 600_000_000,
            thread: 0,
            frame: n / 4,
            ..h.vdif
        };
        vdif_packet(Some((u64::from(n), Order::Little)), &Header { vdif, ..h })
    };
    let format =
        learn(LearnOptions::default(), (0..200).map(|n| odd(n, header(n, 1, 100, plain)))).unwrap().unwrap();
    let want = [
        Oddity::BitsPerSample(3),
        Oddity::Version(0),
        Oddity::Unassigned,
        Oddity::OldEpoch,
        Oddity::RepeatedTime,
    ];
    assert_eq!(format.quirks, want.map(Quirk::from));
    assert!(want.iter().all(|quirk| !quirk.to_string().is_empty()));

    let own = |n: u32| vdif_packet(Some((u64::from(n / 4), Order::Little)), &header(n, 4, 100, plain));
    let format = learn(LearnOptions::default(), (0..200).map(own)).unwrap().unwrap();
    assert_eq!(
        (format.place, format.quirks.as_slice()),
        (Place::Time, &[Oddity::SequencePerThread.into()][..])
    );
    let none = |n: u32| vdif_packet(Some((7, Order::Little)), &header(n, 4, 100, plain));
    let format = learn(LearnOptions::default(), (0..200).map(none)).unwrap().unwrap();
    assert_eq!((format.place, format.quirks.as_slice()), (Place::Time, &[Quirk::new(&vtp::NO_SEQUENCE)][..]));
    let sequence = LearnOptions { place: Place::Sequence, ..LearnOptions::default() };
    assert_eq!(learn(sequence, (0..200).map(none)).unwrap(), Err(Reject::Unrecognised));
}

fn mark5b_frame(n: u32, fps: u32) -> Vec<u8> {
    let frame = n % fps;
    let time = mark5b::Time { day: 60, second: 100 + n / fps, frame };
    let mut packet = Mark5b::new(time, frame * 10_000 / fps).write().to_vec();
    packet.resize(mark5b::FRAME, 0x77);
    packet
}

fn half(n: u32, counter: u32) -> Vec<u8> {
    let whole = mark5b_frame(n / 2, 6400);
    let part = &whole[n as usize % 2 * fila10g::HALF..][..fila10g::HALF];
    [&fila10g::Fila10g { filler: 0, counter }.write()[..], part].concat()
}

#[test]
fn mark5b_whole_and_in_halves() {
    let bare = learn(LearnOptions::default(), (0..40).map(|n| mark5b_frame(n, 6400))).unwrap().unwrap();
    assert_eq!(
        (bare.family, bare.frames_per_second, bare.network_bytes),
        (Mark5bStream::FAMILY, Some(6400), 0)
    );
    let time = bare.frame_time(&mark5b_frame(6401, 6400)).unwrap();
    // MJD 61060 is 2026-01-20.
    assert_eq!(time, FrameTime { unix_seconds: T0 + 19 * 86_400 + 101, frame: 1, thread: 0 });
    let counted =
        (0..40).map(|n| [&vtp::write(u64::from(n), Order::Little)[..], &mark5b_frame(n, 6400)].concat());
    assert_eq!(learn(LearnOptions::default(), counted).unwrap().unwrap().place, Place::Sequence);

    for phase in [Phase::Even, Phase::Odd] {
        let halves = (1..60).map(|n| half(n, n + u32::from(phase == Phase::Odd)));
        let format = learn(LearnOptions::default(), halves).unwrap().unwrap();
        assert_eq!(
            (format.family, format.own(), format.frames_per_second),
            (Fila10gStream::FAMILY, Some(&Fila10gStream { phase: Some(phase) }), Some(6400))
        );
        let place = format.layout().unwrap().place(&half(9, 9 + u32::from(phase == Phase::Odd))).unwrap();
        assert_eq!((place.start, place.length, place.offset % 10_016), (8, 5008, 5008), "a second half");
    }
}

#[test]
fn spead_and_ejfat() {
    let flavour = Flavour::new(40).unwrap();
    let spead = (0..40u64).map(|n| {
        let head = Spead { magic: 0x53, version: 4, item_width: 3, address_width: 5, reserved: 0, items: 3 };
        let item = |id, value| flavour.write(crate::wire::spead::Item { immediate: true, id, value });
        [&head.write()[..], &item(1, n), &item(3, 0), &item(4, 100), &[0; 100]].concat()
    });
    let format = learn(LearnOptions::default(), spead).unwrap().unwrap();
    assert_eq!((format.family, format.own()), (SpeadStream::FAMILY, Some(&SpeadStream { flavour })));

    let ejfat = |n: u64| {
        let head = ejfat::Reassembly {
            version: 1,
            reserved: 0,
            data_id: 5 + (n % 2) as u16,
            offset: 0,
            length: 900,
            tick: n,
        };
        [&head.write()[..], &[0; 900]].concat()
    };
    let format = learn(LearnOptions::default(), (0..40).map(ejfat)).unwrap().unwrap();
    assert_eq!(
        (format.family, format.own()),
        (EjfatStream::FAMILY, Some(&EjfatStream { data_ids: vec![5, 6] }))
    );
    let other = LearnOptions { format: VdifStream::FAMILY.into(), ..LearnOptions::default() };
    let mut learner = Learner::new(other);
    (0..40).for_each(|n| learner.observe(&ejfat(n)));
    assert_eq!(learner.conclude(false), None);
    assert_eq!(learner.conclude(true), Some(Err(Reject::Unrecognised)));
}

#[test]
fn one_packet_is_enough_when_forced_and_noise_is_never() {
    let mut learner = Learner::new(LearnOptions::default());
    assert_eq!(learner.conclude(true), None);
    let plain = Extended::Plain(Default::default());
    learner.observe(&vdif_packet(Some((5, Order::Big)), &header(0, 1, 9, plain)));
    assert_eq!(learner.conclude(false), None);
    assert_eq!(learner.conclude(true).unwrap().unwrap().sequence, Some(Order::Big));
    let noise = |n: u64| {
        (0..1000u64).map(|i| (n * 1000 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]).collect()
    };
    assert_eq!(learn(LearnOptions::default(), (0..600).map(noise)), Some(Err(Reject::Unrecognised)));
    let small = LearnOptions { object_bytes: 5000, ..LearnOptions::default() };
    let stream = (0..100).map(|n| vdif_packet(None, &header(n, 1, 9, plain)));
    assert_eq!(learn(small, stream), Some(Err(Reject::Outside)));
}

proptest! {
    #[test]
    fn loss_reorder_and_duplicates_change_nothing(
        seed: u64, threads in 1u32..17, big: bool, start in 0u64..1 << 40, depth in 1usize..64, loss in 0u32..30,
    ) {
        let order = if big { Order::Big } else { Order::Little };
        let plain = Extended::Plain(Default::default());
        let mut random = seed | 1;
        let mut next = |below: usize| { random ^= random << 13; random ^= random >> 7; random ^= random << 17; random as usize % below };
        let mut numbers: Vec<u32> = (0..800).filter(|_| next(100) >= loss as usize).collect();
        for at in 0..numbers.len() - depth {
            let other = at + next(depth);
            if next(4) == 0 { numbers.swap(at, other) }
            if next(20) == 0 { numbers[other] = numbers[at] }
        }
        let packets = numbers.iter().map(|&n| vdif_packet(Some((start + u64::from(n), order)), &header(n, threads, 50, plain)));
        let format = learn(LearnOptions::default(), packets).unwrap().unwrap();
        prop_assert_eq!((format.threads.len() as u32, format.sequence), (threads, Some(order)));
    }

    #[test]
    fn any_octets_are_observed(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..40)) {
        let mut learner = Learner::new(LearnOptions::default());
        packets.iter().for_each(|packet| learner.observe(packet));
        let _ = learner.conclude(true);
    }
}
