//! The rule that was learned against the head of each packet, as a receiver reads it.

use super::*;
use crate::placement::rule::{RuleAnswer, RuleTable};
use crate::wire::spead::packets::{HeapShape, Plan, Split};
use proptest::prelude::*;

const SLOTS: u32 = 8;

/// How a sender makes its heaps.
#[derive(Clone, Debug)]
struct Sender {
    flavour: Flavour,
    heap: u64,
    packet: usize,
    pointers: usize,
    repeat: bool,
    split: Split,
    first: u64,
    stride: u64,
}

impl Sender {
    fn heap(&self, n: u64) -> Vec<Vec<u8>> {
        let counter = self.first + n * self.stride;
        let pointers: Vec<u64> = (0..self.pointers as u64)
            .map(|at| match at % 2 {
                0 => self.flavour.addressed(0x1600 + at, at),
                _ => self.flavour.immediate(0x1600 + at, counter),
            })
            .collect();
        let plan = Plan::new(&HeapShape {
            flavour: self.flavour,
            counter,
            payload_bytes: self.heap,
            pointers: &pointers,
            packet_bytes: self.packet,
            repeat_pointers: self.repeat,
            split: self.split,
        })
        .unwrap();
        let packet = |n| {
            let mut head = vec![0; plan.head_bytes_max()];
            let part = plan.packet(&pointers, n, &mut head);
            head.truncate(part.head);
            head.extend((part.payload.start..part.payload.end).map(|at| at as u8 ^ counter as u8));
            head.resize(head.len() + part.dummy, 0);
            head
        };
        (0..plan.count()).map(packet).collect()
    }
}

fn senders() -> impl Strategy<Value = Sender> {
    let flavour = prop_oneof![Just(48u8), Just(40)].prop_map(|bits| Flavour::new(bits).unwrap());
    let split = prop_oneof![Just(Split::Full), Just(Split::Even)];
    let stride = prop_oneof![Just(1u64), 1u64..10, Just(1 << 21), 1u64..1 << 31];
    (flavour, 2000u64..20_000, 120usize..1500, 0usize..9, any::<bool>(), split, 0u64..1 << 38, stride)
        .prop_map(|(flavour, heap, packet, pointers, repeat, split, first, stride)| {
            // Counters that a pointer of the shorter flavour holds.
            let stride = stride.min(1 << 30);
            Sender { flavour, heap, packet, pointers, repeat, split, first, stride }
        })
}

fn learned(sender: &Sender, heaps: u64) -> LearnedHeaps {
    let mut learner = HeapLearner::default();
    (0..heaps).flat_map(|n| sender.heap(n)).for_each(|packet| learner.note(&packet));
    learner.learned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_is_placed_is_where_its_head_says(
        sender in senders(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..8, 0u8..4), 60),
    ) {
        let LearnedHeaps::Layout(layout) = learned(&sender, 20) else {
            // Such heaps go up, all of them.
            let packets = sender.heap(0);
            prop_assert!(packets.len() < 4 || sender.repeat, "{:?}", learned(&sender, 20));
            return Ok(());
        };
        let element = layout.element_bytes() as u32 + 100;
        let rule = layout.rule((element, SLOTS), (SLOTS, 1 << 16), RuleWake::default()).unwrap();
        let mut table = RuleTable::new(&rule);
        let base = layout.number(sender.first).unwrap();
        prop_assert_eq!(layout.number(sender.first + 1).is_some(), layout.stride == 1);
        for number in base..base + u64::from(SLOTS) {
            let slot = (number % u64::from(SLOTS)) as u32;
            table.open(&rule, slot, number);
            table.slot(&rule, slot)[crate::placement::rule::BLOCK] = u64::from(slot);
        }
        let mut packets: Vec<Vec<u8>> = (0..4).flat_map(|n| sender.heap(n)).collect();
        let whole = packets.len();
        for (which, bit, shift, kind) in damage {
            let mut packet = packets[which.index(whole)].clone();
            let head = (8 + 8 * usize::from(packet[7])).min(packet.len());
            match kind {
                0 => packet.truncate(bit.index(packet.len())),
                1 => packet.push(shift),
                _ => packet[bit.index(head)] ^= 1 << shift,
            }
            packets.push(packet);
        }
        let mut placed = 0;
        for packet in packets.iter().rev() {
            let answer = rule.judge(packet, &mut table);
            let RuleAnswer::Placed { slot, unit, address, start, length, .. } = answer else {
                prop_assert!(answer == RuleAnswer::Passed || packet.is_empty(), "{:?}", answer);
                continue;
            };
            placed += 1;
            let head = Head::read(packet).unwrap();
            prop_assert_eq!((head.start as u32, head.length, head.size), (start, length.into(), Some(layout.heap_bytes)));
            prop_assert_eq!((head.flavour, head.control), (layout.flavour, None));
            prop_assert_eq!(layout.number(head.counter).map(|n| (n % u64::from(SLOTS)) as u32), Some(slot));
            prop_assert_eq!(address, u64::from(slot) * u64::from(element) + head.offset);
            prop_assert_eq!(layout.range_of(unit), head.offset..head.offset + head.length);
            prop_assert_eq!(layout.units_of(layout.range_of(unit)), unit..unit + 1);
            let (logged, mut whole) = (&packet[..layout.head_bytes() as usize], Vec::new());
            let logged = layout.with_padding(logged, &mut whole).unwrap_or(logged);
            let again = Head { packet: head.packet, ..Head::peek(logged).unwrap().unwrap() };
            prop_assert_eq!(again, head);
        }
        // All but short ones.
        let short = packets[..whole].iter().filter(|packet| packet.len() < layout.head_bytes() as usize).count();
        prop_assert!(placed + short >= whole, "{} of {}, {} short: {:?}", placed, whole, short, layout);
    }
}

#[test]
fn heaps_without_a_common_layout_have_no_rule() {
    let sender = Sender {
        flavour: Flavour::SPEAD_64_48,
        heap: 8000,
        packet: 1000,
        pointers: 2,
        repeat: false,
        split: Split::Full,
        first: 7,
        stride: 1,
    };
    assert_eq!(learned(&sender, 3), LearnedHeaps::NotYet);
    let small = Sender { heap: 1500, ..sender.clone() };
    assert_eq!(learned(&small, 20), LearnedHeaps::Irregular("its heaps have fewer than four packets"));
    let mut learner = HeapLearner::default();
    for n in 0..1000 {
        let heap = Sender { heap: 8000 + n % 3 * 400, ..sender.clone() }.heap(n);
        heap.iter().for_each(|packet| learner.note(packet));
    }
    assert_eq!(learner.learned(), LearnedHeaps::Irregular("its heaps have several layouts or sizes"));
    let mut learner = HeapLearner::default();
    let mut counter = 1u64;
    for _ in 0..40 {
        counter = counter * 5 % (1 << 40) + 1;
        let heap = Sender { first: counter, ..sender.clone() }.heap(0);
        heap.iter().for_each(|packet| learner.note(packet));
    }
    assert_eq!(learner.learned(), LearnedHeaps::Irregular("its heaps are not counted in equal steps"));
    // Descriptors beside them do not matter.
    let mut learner = HeapLearner::default();
    for n in 0..20 {
        sender.heap(n).iter().for_each(|packet| learner.note(packet));
        Sender { heap: 300, first: 1 << 30, ..sender.clone() }
            .heap(n)
            .iter()
            .for_each(|packet| learner.note(packet));
    }
    assert!(matches!(learner.learned(), LearnedHeaps::Layout(layout) if layout.heap_bytes == 8000));
}
