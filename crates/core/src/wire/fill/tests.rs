// These are really lists of one hole.
#![allow(clippy::single_range_in_vec_init)]

use super::*;
use crate::wire::{
    FamilyRef, Known, LearnOptions,
    fila10g::{Fila10g, Fila10gStream},
    header::Order,
    layout::Keep,
    learn::Learner,
    mark5b::{self, Mark5b, Mark5bStream},
    vdif::{Extended, Header, Vdif, extended::Words},
    vtp,
};
use proptest::prelude::*;

const T0: i64 = 1_767_225_600;
const PAYLOAD: usize = 40;

fn header(n: u32, threads: u32, fps: u32, extended: Extended) -> Header {
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, extended == Extended::Legacy).unwrap();
    let vdif = shape.at(T0 + i64::from(n / threads / fps), n / threads % fps).unwrap();
    let mut header = Header { vdif: Vdif { thread: 5 * (n % threads), station: 0x577A, ..vdif }, extended };
    if let Extended::R2dbe(r2dbe) = &mut header.extended {
        r2dbe.psn = u64::from(n) + 77;
    }
    header
}

fn packet(n: u32, threads: u32, fps: u32, extended: Extended) -> Vec<u8> {
    let (octets, length) = header(n, threads, fps, extended).write();
    let mut packet = vtp::write(u64::from(n), Order::Little).to_vec();
    packet.extend(&octets[..length]);
    packet.resize(packet.len() + PAYLOAD, 0xEE);
    packet
}

struct Stream {
    threads: u32,
    fps: u32,
    extended: Extended,
    options: LearnOptions,
}

impl Stream {
    fn packets(&self, count: u32) -> Vec<Vec<u8>> {
        (0..count).map(|n| packet(n, self.threads, self.fps, self.extended)).collect()
    }

    /// A block of the packets from the first on, holed and filled.
    fn filled(&self, count: u32, missing: &[Range<u32>]) -> (StreamFormat, Vec<Vec<u8>>, Filled) {
        let mut learner = Learner::new(self.options.clone());
        self.packets(400).iter().for_each(|packet| learner.observe(packet));
        let format = learner.conclude(true).unwrap().unwrap();
        let cut = self.options.keep.stripped(8);
        let mut block: Vec<u8> = self.packets(count).iter().flat_map(|p| p[cut..].to_vec()).collect();
        let unit = format.unit_bytes();
        for index in missing.iter().flat_map(|r| r.start..r.end.min(count)) {
            block[index as usize * unit..][..unit].fill(0xCC);
        }
        let filled = format.filler().fill(block.as_mut_slice(), missing);
        (format, block.chunks(unit).map(<[u8]>::to_vec).collect(), filled)
    }

    /// What a predicted unit must be.
    fn want(&self, n: u32) -> Vec<u8> {
        let mut packet = packet(n, self.threads, self.fps, self.extended);
        let header = if self.extended == Extended::Legacy { 16 } else { 32 };
        packet[8 + 3] |= 0x80;
        packet[8 + header..].chunks_mut(4).for_each(|word| word.copy_from_slice(&[0x44, 0x33, 0x22, 0x11]));
        packet[self.options.keep.stripped(8)..].to_vec()
    }
}

fn plain(threads: u32, place: Place, keep: Keep) -> Stream {
    let options = LearnOptions { place, keep, frames_per_second: Some(7), ..LearnOptions::default() };
    Stream { threads, fps: 7, extended: Extended::Plain(Words::default()), options }
}

#[test]
fn a_hole_is_filled_across_the_second() {
    for place in [Place::Time, Place::Sequence] {
        let stream = plain(2, place, Keep::StripNetwork);
        let (_, units, filled) = stream.filled(40, &[10..18]);
        assert_eq!(filled, Filled { predicted: 8, unpredicted: 0 });
        (10..18).for_each(|n| assert_eq!(units[n as usize], stream.want(n), "unit {n}"));
        assert_eq!(units[9], packet(9, 2, 7, stream.extended)[8..]);
    }
}

#[test]
fn the_rate_is_found_in_the_block() {
    let mut stream = plain(2, Place::Sequence, Keep::StripNetwork);
    stream.options.frames_per_second = None;
    let (format, units, filled) = stream.filled(40, &[0..3, 12..18, 39..40]);
    assert_eq!((format.frames_per_second, filled.predicted), (None, 10));
    (0..3)
        .chain(12..18)
        .chain(39..40)
        .for_each(|n| assert_eq!(units[n as usize], stream.want(n), "unit {n}"));
}

/// Without a rate, the end of a second is unknown: with 500 frames a second, no frame 500 may follow 499.
#[test]
fn without_a_rate_no_frame_is_numbered_beyond_those_of_its_second_that_came() {
    for threads in [1, 2] {
        let mut stream = Stream { fps: 100, ..plain(threads, Place::Sequence, Keep::StripNetwork) };
        stream.options.frames_per_second = None;
        let (format, units, filled) = stream.filled(40, &[0..3, 10..14, 30..40]);
        assert_eq!(format.frames_per_second, None);
        assert_eq!(filled, Filled { predicted: 7, unpredicted: 10 }, "{threads} threads");
        (0..3).chain(10..14).for_each(|n| assert_eq!(units[n as usize], stream.want(n), "unit {n}"));
        (30..40).for_each(|n| assert_eq!(units[n][..4], FILL, "unit {n}"));
    }
}

#[test]
fn sequence_numbers_count_on() {
    let r2dbe = Extended::read(&Words { edv: 2, ..Words::default() }.write()).unwrap();
    let stream = Stream { extended: r2dbe, ..plain(1, Place::Sequence, Keep::All) };
    let (_, units, _) = stream.filled(20, &[0..2, 9..11]);
    [0, 1, 9, 10].iter().for_each(|&n| assert_eq!(units[n as usize], stream.want(n), "unit {n}"));
}

#[test]
fn a_thread_without_a_frame_is_filled_from_what_was_learned() {
    let stream = plain(3, Place::Time, Keep::StripNetwork);
    // All of rank 1 is lost.
    let missing: Vec<Range<u32>> = (0..10).map(|frame| 3 * frame + 1..3 * frame + 2).collect();
    let (_, units, filled) = stream.filled(30, &missing);
    assert_eq!(filled, Filled { predicted: 10, unpredicted: 0 });
    (0..10).map(|f| 3 * f + 1).for_each(|n| assert_eq!(units[n as usize], stream.want(n), "unit {n}"));
    let by_number = plain(3, Place::Sequence, Keep::StripNetwork);
    let (_, units, filled) = by_number.filled(30, &missing);
    assert_eq!(
        filled,
        Filled { predicted: 10, unpredicted: 0 },
        "it is the thread that is in no other place"
    );
    (0..10).map(|f| 3 * f + 1).for_each(|n| assert_eq!(units[n as usize], by_number.want(n), "unit {n}"));
}

/// A requested thread that was never seen still has a valid header with its own number.
#[test]
fn a_thread_that_was_never_seen_is_filled_with_its_own_number() {
    for place in [Place::Time, Place::Sequence] {
        let mut stream = plain(3, place, Keep::StripNetwork);
        stream.options.threads = Some(vec![0, 5, 10]);
        let (mut format, mut units, _) = stream.filled(30, &[]);
        format.threads[1].header.clear();
        let unit = format.unit_bytes();
        let holes: Vec<Range<u32>> = (0..10).map(|frame| 3 * frame + 1..3 * frame + 2).collect();
        holes.iter().for_each(|hole| units[hole.start as usize].fill(0xCC));
        let mut block = units.concat();
        assert_eq!(
            Filler::new(format).fill(&mut block[..], &holes),
            Filled { predicted: 10, unpredicted: 0 }
        );
        for n in holes.iter().map(|hole| hole.start) {
            assert_eq!(block[n as usize * unit..][..unit], stream.want(n), "unit {n}");
        }
    }
}

/// Where a thread vanished or joined, frames are predicted from those that alternate there.
#[test]
fn fill_follows_the_threads_that_alternate_around_a_gap() {
    let (one, two) =
        (plain(1, Place::Sequence, Keep::StripNetwork), plain(2, Place::Sequence, Keep::StripNetwork));
    let (_, alone, _) = one.filled(20, &[]);
    let (format, _, _) = two.filled(2, &[]);
    let unit = format.unit_bytes();
    // Two threads were learned, and only one sends.
    let mut block = alone.concat();
    block[7 * unit..12 * unit].fill(0xCC);
    assert_eq!(Filler::new(format).fill(&mut block[..], &[7..12]).predicted, 5);
    (7..12).for_each(|n| assert_eq!(block[n as usize * unit..][..unit], one.want(n), "unit {n}"));
}

#[test]
fn what_cannot_be_predicted_is_fill_altogether() {
    let stream = plain(2, Place::Time, Keep::StripNetwork);
    let (_, units, filled) = stream.filled(10, &[0..20]);
    assert_eq!(filled, Filled { predicted: 0, unpredicted: 10 });
    assert!(units.concat().chunks(4).all(|word| word == FILL));
    let stripped = plain(2, Place::Time, Keep::StripLeading(9));
    let (_, units, filled) = stripped.filled(10, &[4..5]);
    assert_eq!((filled.unpredicted, &units[4][68..]), (1, &FILL[..3]));
}

#[test]
fn legacy_headers_stay_legacy() {
    let stream = Stream { extended: Extended::Legacy, ..plain(2, Place::Time, Keep::StripNetwork) };
    let (_, units, _) = stream.filled(10, &[4..5]);
    assert_eq!(units[4], stream.want(4));
}

fn mark5b_format(family: FamilyRef, network: usize, packet_bytes: usize, keep: Keep) -> StreamFormat {
    let mut learner =
        Learner::new(LearnOptions { frames_per_second: Some(6400), keep, ..LearnOptions::default() });
    for n in 0..8 {
        let prefix = Fila10g { filler: 9, counter: n }.write();
        let whole = mark5b_frame(if family == Fila10gStream::FAMILY { n / 2 } else { n });
        let part =
            if family == Fila10gStream::FAMILY { &whole[n as usize % 2 * 5008..][..5008] } else { &whole };
        learner.observe(&[&prefix[8 - network..], part].concat());
    }
    let learned = learner.conclude(true).unwrap().unwrap();
    assert_eq!((learned.family, learned.packet_bytes), (family, packet_bytes));
    learned
}

fn mark5b_frame(n: u32) -> Vec<u8> {
    let frame = (n + 6398) % 6400;
    let time = mark5b::Time { day: 60, second: 100 + (n + 6398) / 6400, frame };
    [&Mark5b::new(time, frame * 10_000 / 6400).write()[..], &[5; mark5b::PAYLOAD]].concat()
}

fn mark5b_fill(n: u32) -> Vec<u8> {
    [&mark5b_frame(n)[..16], &FILL.repeat(2500)].concat()
}

#[test]
fn mark5b_frames_have_their_time_and_crc() {
    let format = mark5b_format(Mark5bStream::FAMILY, 0, mark5b::FRAME, Keep::StripNetwork);
    let mut block: Vec<u8> = (0..6).flat_map(mark5b_frame).collect();
    block[mark5b::FRAME..4 * mark5b::FRAME].fill(0);
    assert_eq!(format.filler().fill(block.as_mut_slice(), &[1..4]).predicted, 3);
    (1..4).for_each(|n| assert_eq!(block[n as usize * mark5b::FRAME..][..mark5b::FRAME], mark5b_fill(n)));
    // Nothing before it: from the frame after.
    block[..mark5b::FRAME].fill(0);
    format.filler().fill(block.as_mut_slice(), &[0..1]);
    assert_eq!(block[..mark5b::FRAME], mark5b_fill(0));
}

#[test]
fn half_frames_are_filled_and_counted() {
    let format = mark5b_format(Fila10gStream::FAMILY, 8, 5016, Keep::StripNetwork);
    let whole: Vec<u8> = (0..6).flat_map(mark5b_frame).collect();
    let mut block = whole.clone();
    block[4 * 5008..7 * 5008].fill(0);
    assert_eq!(format.filler().fill(block.as_mut_slice(), &[4..7]).predicted, 3);
    assert_eq!(block[4 * 5008..6 * 5008], mark5b_fill(2));
    assert_eq!(block[6 * 5008..7 * 5008], mark5b_fill(3)[..5008]);
    assert_eq!(block[7 * 5008..], whole[7 * 5008..]);

    let format = mark5b_format(Fila10gStream::FAMILY, 8, 5016, Keep::All);
    let unit = |n: u32| {
        [&Fila10g { filler: 9, counter: n }.write()[..], &whole[n as usize * 5008..][..5008]].concat()
    };
    let mut block: Vec<u8> = (0..12).flat_map(unit).collect();
    block[4 * 5016..6 * 5016].fill(0);
    format.filler().fill(block.as_mut_slice(), &[4..6]);
    assert_eq!(block[4 * 5016..][..8], unit(4)[..8]);
    assert_eq!(block[5 * 5016..][..8], unit(5)[..8]);
}

#[test]
fn octets_of_heaps_become_zero() {
    let mut learner = Learner::new(LearnOptions::default());
    let header = crate::wire::ejfat::Reassembly { version: 1, length: 50, ..Default::default() };
    learner.observe(&[&header.write()[..], &[0; 50]].concat());
    let filler = learner.conclude(true).unwrap().unwrap().filler();
    let mut block = [7; 10];
    assert_eq!(filler.fill(block.as_mut_slice(), &[2..4, 9..99, 50..60]).unpredicted, 3);
    assert_eq!(block, [7, 7, 0, 0, 7, 7, 7, 7, 7, 0]);
}

proptest! {
    #[test]
    fn any_holes_are_filled_as_they_were_sent(
        lost in proptest::collection::vec(any::<bool>(), 60), threads in 1u32..5, all: bool, by_time: bool,
    ) {
        let (place, keep) = (if by_time { Place::Time } else { Place::Sequence }, if all { Keep::All } else { Keep::StripNetwork });
        let count = 60 / threads * threads;
        let stream = plain(threads, place, keep);
        let missing: Vec<Range<u32>> = (0..count).filter(|&n| lost[n as usize]).map(|n| n..n + 1).collect();
        let (_, units, filled) = stream.filled(count, &missing);
        let every_rank = (0..threads).all(|r| (r..count).step_by(threads as usize).any(|n| !lost[n as usize]));
        if every_rank {
            prop_assert_eq!(filled, Filled { predicted: missing.len() as u64, unpredicted: 0 });
            for n in 0..count {
                let sent = || packet(n, threads, 7, stream.extended)[keep.stripped(8)..].to_vec();
                let want = if lost[n as usize] { stream.want(n) } else { sent() };
                prop_assert_eq!(&units[n as usize], &want, "unit {}", n);
            }
        }
        prop_assert_eq!(filled.predicted + filled.unpredicted, missing.len() as u64);
    }

    #[test]
    fn any_block_with_any_holes_is_survived(
        block in proptest::collection::vec(any::<u8>(), 0..900), holes in proptest::collection::vec((0u32..20, 0u32..20), 0..6),
        all: bool, by_time: bool,
    ) {
        let place = if by_time { Place::Time } else { Place::Sequence };
        let stream = plain(2, place, if all { Keep::All } else { Keep::StripNetwork });
        let mut learner = Learner::new(stream.options.clone());
        stream.packets(40).iter().for_each(|packet| learner.observe(packet));
        let mut block = block;
        let holes: Vec<Range<u32>> = holes.into_iter().map(|(a, b)| a..b).collect();
        learner.conclude(true).unwrap().unwrap().filler().fill(block.as_mut_slice(), &holes);
    }
}
