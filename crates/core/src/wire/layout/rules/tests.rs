//! The interpreter of a rule against the layout that it stands for.

use super::LayoutRule;
use crate::placement::rule::{RuleAnswer, RuleTable, RuleWake};
use crate::placement::{Layout, Reject};
use crate::wire::header::Order;
use crate::wire::layout::Blocks;
use crate::wire::lofar::{LofarLayout, Rsp, SLICES};
use crate::wire::vdif::{Vdif, VdifLayout};
use crate::wire::vtp;

const SLOTS: u32 = 8;

/// Numbers from a seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Flips a bit of the head, cuts or extends one packet in four.
    fn damage(&mut self, packet: &mut Vec<u8>, head: u64) {
        match self.below(16) {
            0 | 1 => packet[self.below(head) as usize] ^= 1 << self.below(8),
            2 => packet.truncate(self.below(packet.len() as u64 + 1) as usize),
            3 => packet.resize(packet.len() + self.below(9) as usize, 0),
            _ => {}
        }
    }
}

/// Packets of each stream.
const PACKETS: u64 = 100_000;

/// Plays packets to both. Every placed packet is where the layout places it; every refusal that is not about slots has the
/// layout's reason; a packet is passed only for its length, if `may_pass` says so, or if its slot is not open for it.
fn agree(
    layout: &dyn Layout,
    LayoutRule { rule, parameters }: &LayoutRule,
    base: u64,
    may_pass: impl Fn(&[u8]) -> bool,
    mut packet: impl FnMut(&mut Seeded) -> Vec<u8>,
) {
    let mut table = RuleTable::new(rule);
    table.parameters.clone_from(parameters);
    let (mut random, mut placed, mut refused, mut passed) = (Seeded(33), 0u64, 0u64, 0u64);
    let bytes = u64::from(rule.shape.units) * u64::from(rule.shape.unit_bytes);
    for n in 0..PACKETS {
        if n % 500 == 0 {
            for number in base..base + u64::from(SLOTS) {
                table.open(rule, (number % u64::from(SLOTS)) as u32, number);
            }
        }
        let packet = packet(&mut random);
        let expected = layout.place(&packet);
        match (rule.judge(&packet, &mut table), expected) {
            (RuleAnswer::Placed { slot, address, length, .. }, Ok(place)) => {
                placed += 1;
                assert_eq!(u64::from(slot), place.key.number % u64::from(SLOTS), "packet {n}");
                assert!((base..base + u64::from(SLOTS)).contains(&place.key.number), "packet {n}");
                let start = u64::from(slot) * rule.shape.slot_bytes() as u64;
                assert_eq!((address - start, u64::from(length)), (place.offset, place.length), "packet {n}");
                assert_eq!((rule.start, Some(bytes)), (place.start, place.size));
            }
            (RuleAnswer::Refused(Reject::Late), Ok(place)) => assert!(place.key.number < base, "packet {n}"),
            (RuleAnswer::Refused(Reject::Duplicate), Ok(_)) => {}
            (RuleAnswer::Refused(why), Err(reason)) => {
                refused += 1;
                assert_eq!(why, reason, "packet {n}");
            }
            (RuleAnswer::Passed, expected) => {
                passed += 1;
                let is_open = expected.is_ok_and(|p| (base..base + u64::from(SLOTS)).contains(&p.key.number));
                assert!(may_pass(&packet) || (expected.is_ok() && !is_open), "packet {n} was passed");
            }
            (answer, expected) => panic!("packet {n}: {answer:?}, {expected:?}"),
        }
    }
    assert!(placed > PACKETS / 10 && refused > PACKETS / 100 && passed > PACKETS / 100);
}

#[test]
fn lofar_is_placed_as_its_layout_places() {
    for (clock, sample, lanes) in [(1, 1, &[3u16, 0, 7][..]), (0, 0, &[31]), (1, 2, &[0, 1, 2, 3])] {
        let like =
            Rsp { version: 3, clock, sample, beamlets: 2, slices: SLICES, station: 214, ..Rsp::default() };
        let bytes = Rsp::LEN + like.payload_bytes().unwrap();
        let blocks = Blocks::new(bytes, 0, lanes.len(), 12 * bytes as u64).unwrap();
        let layout = LofarLayout::new(blocks, &like, lanes).unwrap();
        let slices = 1_656_500_000u64 * 195_312;
        let base = slices / u64::from(SLICES) * lanes.len() as u64 / blocks.units;
        for station in [None, Some(214)] {
            let rule = layout.rule(station, SLOTS, RuleWake::default()).unwrap();
            let of_another = |packet: &[u8]| {
                packet.len() != bytes
                    || Rsp::read(packet).is_some_and(|(h, _)| station.is_some_and(|s| s != h.station))
            };
            agree(&layout, &rule, base, of_another, |random| {
                let later = random.below(u64::from(SLOTS + 4) * 12 / lanes.len() as u64) * u64::from(SLICES);
                let lane = lanes[random.below(lanes.len() as u64) as usize];
                let payload_error = u8::from(random.below(9) == 0);
                let header = Rsp { lane, payload_error, ..like }.at(slices + later).unwrap();
                let mut packet = header.write().to_vec();
                packet.resize(bytes, 0);
                random.damage(&mut packet, Rsp::LEN as u64);
                packet
            });
        }
    }
}

#[test]
fn vdif_with_a_sequence_number_is_placed_as_its_layout_places() {
    for (order, is_legacy, start) in
        [(Order::Little, false, 8), (Order::Big, true, 0), (Order::Little, true, 8)]
    {
        let frame = Vdif::shape(64, 1, 2, false, is_legacy).unwrap();
        let bytes = 8 + frame.frame_bytes();
        let blocks = Blocks::new(bytes, start, 1, 12 * bytes as u64).unwrap();
        let layout = VdifLayout::by_sequence(blocks, &frame, order).unwrap();
        let rule = layout.rule(0, SLOTS, RuleWake::default()).unwrap();
        let base = 1 << 40;
        agree(
            &layout,
            &rule,
            base,
            |packet| packet.len() != bytes,
            |random| {
                let psn = base * blocks.units + random.below(u64::from(SLOTS + 4) * blocks.units);
                let mut packet = [&vtp::write(psn, order)[..], &frame.write()].concat();
                packet.resize(bytes, 0);
                random.damage(&mut packet, 24);
                packet
            },
        );
    }
}

#[test]
fn vdif_by_time_is_placed_as_its_layout_places() {
    let frame = Vdif::shape(64, 1, 2, false, false).unwrap();
    let (bytes, fps, threads) = (frame.frame_bytes(), 25, [(5, 0), (0, 0), (1023, 0)]);
    let blocks = Blocks::new(bytes, 0, threads.len(), 12 * bytes as u64).unwrap();
    let layout = VdifLayout::by_time(blocks, &frame, &threads, Some(fps)).unwrap();
    let first = frame.at(1_767_225_600 + 12_345, 0).unwrap();
    let rule = layout.rule(first.epoch as u8, SLOTS, RuleWake::default()).unwrap();
    let base = first.seconds_since_2000() * u64::from(fps) * 3 / blocks.units;
    let is_other = |packet: &[u8]| {
        packet.len() != bytes || Vdif::read(packet).is_some_and(|(v, _)| v.epoch != first.epoch)
    };
    agree(&layout, &rule, base, is_other, |random| {
        let (later, frame) = (random.below(2) as u32, random.below(u64::from(fps) + 2) as u32);
        let thread = u32::from(threads[random.below(3) as usize].0);
        let mut packet = Vdif { seconds: first.seconds + later, frame, thread, ..first }.write().to_vec();
        packet.resize(bytes, 0);
        random.damage(&mut packet, 16);
        packet
    });
    for (fps, threads) in [(None, [(0, 0)]), (Some(25), [(0, 7)])] {
        let layout = VdifLayout::by_time(blocks, &frame, &threads, fps).unwrap();
        assert!(layout.rule(52, SLOTS, RuleWake::default()).is_err(), "no rule can be this layout");
    }
}
