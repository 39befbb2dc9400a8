use super::*;
use crate::{
    packetize::tests::packets,
    placement::Reject,
    wire::{
        ejfat::{BalancerVersion, EjfatLabels, PortRule, Segment, SlotRule},
        labelled::Labelled,
    },
};
use proptest::prelude::*;

fn shape(event_bytes: u64, packet_bytes: usize) -> EventShape {
    EventShape {
        tick: 0x1122_3344_5566_7788,
        data_id: 0xABCD,
        event_bytes,
        packet_bytes,
        ..EventShape::default()
    }
}

#[test]
fn payloads_are_those_of_the_reference() {
    let addressing = Some(Addressing::default());
    for (mtu, ip, payload) in [(1500, 20, 1436), (1500, 40, 1416), (9000, 20, 8936), (9000, 40, 8916)] {
        let packets = EventPackets::new(&EventShape { addressing, ..shape(1 << 20, mtu - ip - 8) }).unwrap();
        assert_eq!(packets.payload_of(0), payload);
    }
    // The blaster test: 89 kB in 10 packets of 9000.
    let blaster = EventPackets::new(&EventShape { addressing, ..shape(89_000, 8972) }).unwrap();
    assert_eq!(blaster.count(), 10);
}

#[test]
fn octets_of_two_packets() {
    let addressing = Some(Addressing { port: PortRule::Fixed(0x0A0B), ..Addressing::default() });
    let event = EventPackets::new(&EventShape { addressing, ..shape(5, 40) }).unwrap();
    let head = |offset| {
        let lb = [0x4C, 0x42, 2, 1, 0, 0, 0x0A, 0x0B, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
        let re = [
            0x10, 0, 0xAB, 0xCD, 0, 0, 0, offset, 0, 0, 0, 5, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
        ];
        [&lb[..], &re].concat()
    };
    assert_eq!(packets(&event), [[head(0), vec![0, 1, 2, 3]].concat(), [head(4), vec![4]].concat()]);
}

#[test]
fn each_error_says_what_would_do() {
    assert_eq!(EventPackets::new(&shape(0, 1472)), Err(EventError::Empty));
    let large = EventPackets::new(&shape(1 << 32, 1472)).unwrap_err();
    assert_eq!(large, EventError::TooLarge { bytes: 1 << 32 });
    assert!(large.to_string().ends_with("hint: at most 4294967295, so divide it"));
    assert_eq!(EventPackets::new(&shape(9, 20)), Err(EventError::TooSmall { packet_bytes: 20, needed: 21 }));
    let unknown = EventPackets::new(&EventShape { version: 3, ..shape(9, 100) }).unwrap_err();
    assert_eq!(unknown, EventError::NoVersion { version: 3 });
    assert!(unknown.to_string().ends_with("hint: use 1, or 0 or 2 for receivers that expect these"));
    let addressing = Some(Addressing::default());
    let small = EventPackets::new(&EventShape { addressing, ..shape(9, 36) }).unwrap_err();
    assert!(small.to_string().ends_with("hint: a packet size of at least 37"));
}

#[test]
fn the_largest_event_has_its_last_octet_in_place() {
    let event = EventPackets::new(&shape(MOST, 8972)).unwrap();
    let (mut head, last) = ([0; 20], event.count() - 1);
    let part = event.packet(last, &mut head);
    let (read, _) = Reassembly::read(&head).unwrap();
    assert_eq!(part.payload, u64::from(read.offset)..MOST);
    assert_eq!(event.bytes_on_wire(), MOST + event.count() * 20);
    let mut packet = head.to_vec();
    packet.resize(part.bytes() as usize, 0);
    assert_eq!(Segment::read(&packet).map(|segment| segment.length), Ok((part.bytes() - 20) as u32));
    packet.push(0);
    assert_eq!(Segment::read(&packet), Err(Reject::Outside));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn any_event_comes_back_in_any_order(tick: u64, data_id: u16, event_bytes in prop_oneof![1u64..100, 1u64..40_000],
            packet_bytes in prop_oneof![37usize..120, 37usize..9000], form in 0..3, version in 0u8..3, spread: bool, port in 0..3, order: u64) {
        let slot = if spread { SlotRule::Spread } else { SlotRule::Tick };
        let port = [PortRule::Fixed(7), PortRule::Source, PortRule::Event][port as usize];
        let header = if form == 1 { BalancerVersion::V2 } else { BalancerVersion::V3 };
        let addressing = (form > 0).then_some(Addressing { version: header, slot, port });
        let event = EventPackets::new(&EventShape { tick, data_id, event_bytes, packet_bytes, addressing, version }).unwrap();
        let other = EventPackets::new(&EventShape { tick: !tick, data_id, event_bytes, packet_bytes, addressing, version }).unwrap();
        prop_assert_eq!(other.with_tick(tick), event);
        let mut all = packets(&event);
        let (last, others) = all.split_last().unwrap();
        prop_assert!(others.iter().all(|packet| packet.len() == packet_bytes) && last.len() <= packet_bytes);
        let labels: Vec<_> = all.iter().map(|packet| EjfatLabels::label(packet)).collect();
        prop_assert!(form == 0 || labels.iter().all(|label| label.is_ok() && *label == labels[0]));
        let mut random = order;
        all.sort_by_cached_key(|_| { random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99); random >> 33 });
        let mut whole: Vec<Option<u8>> = vec![None; event_bytes as usize];
        for packet in &all {
            let segment = Segment::read(packet).unwrap();
            let place = segment.placement(0);
            prop_assert_eq!((segment.version, place.key.number, place.key.source), (version, tick, u64::from(data_id)));
            prop_assert_eq!(place.size, Some(event_bytes));
            for (at, octet) in (place.offset..).zip(&packet[place.start as usize..]) {
                prop_assert_eq!(whole[at as usize].replace(*octet), None, "no octet twice");
            }
        }
        prop_assert!(whole.iter().enumerate().all(|(at, &octet)| octet == Some(at as u8)));
    }
}
