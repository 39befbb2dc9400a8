use super::*;
use crate::wire::spead::{Flavour, Head, Items};
use proptest::prelude::*;

fn flavour() -> Flavour {
    Flavour::new(48).unwrap()
}

/// All packets of a heap whose payload counts up.
fn packets(shape: HeapShape<'_>) -> Result<Vec<Vec<u8>>, PacketError> {
    let packets = HeapPackets::new(shape)?;
    let all = crate::packetize::tests::packets(&packets);
    assert_eq!(packets.equal(), all.iter().all(|p| p.len() == all[0].len()));
    Ok(all)
}

fn shape(pointers: &[u64], payload_bytes: u64, packet_bytes: usize) -> HeapShape<'_> {
    HeapShape {
        flavour: flavour(),
        counter: 7,
        pointers,
        payload_bytes,
        packet_bytes,
        repeat_pointers: false,
        split: Split::Full,
    }
}

/// `packets` are those of spead2 4.5.1 (`PacketGenerator`) for a heap whose payload counts up.
#[track_caller]
fn golden(
    bits: u8,
    counter: u64,
    packet_bytes: usize,
    pointers: &[u64],
    bytes: u64,
    repeat: bool,
    hex: &[&str],
) {
    let flavour = Flavour::new(bits).unwrap();
    let shape =
        HeapShape { flavour, counter, repeat_pointers: repeat, ..shape(pointers, bytes, packet_bytes) };
    let shown = |packet: &Vec<u8>| packet.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    assert_eq!(packets(shape).unwrap().iter().map(shown).collect::<Vec<_>>(), hex);
}

#[test]
#[rustfmt::skip]
fn full_packets_are_those_of_spead2() {
    golden(48, 7, 1472, &[], 0, false, &[
        "53040206000000058001000000000007800200000000000180030000000000008004000000000001000000000000000000",
    ]);
    golden(40, 7, 1472, &[0x8000400000000005, 0x410000000000], 9, false, &[
        "5304030500000006800001000000000780000200000000098000030000000000800004000000000980004000000000050000410000000000000102030405060708",
    ]);
    golden(48, 20015998343868, 56, &[0x40000000000000, 0x8041000000000005], 17, false, &[
        "53040206000000058001123456789abc80020000000000118003000000000000800400000000000800400000000000000001020304050607",
        "53040206000000058001123456789abc800200000000001180030000000000088004000000000008804100000000000508090a0b0c0d0e0f",
        "53040206000000048001123456789abc80020000000000118003000000000010800400000000000110",
    ]);
    golden(56, 1, 72, &[0x4000000000000000], 50, true, &[
        "530401070000000581000000000000018200000000000032830000000000000084000000000000184000000000000000000102030405060708090a0b0c0d0e0f1011121314151617",
        "53040107000000058100000000000001820000000000003283000000000000188400000000000018400000000000000018191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f",
        "5304010700000005810000000000000182000000000000328300000000000030840000000000000240000000000000003031",
    ]);
    golden(48, 2, 64, &[0x8040000000000005, 0x8041000000000005, 0x8042000000000005, 0x8043000000000005], 0, false, &[
        "53040206000000068001000000000002800200000000001180030000000000008004000000000008804000000000000580410000000000050000000000000000",
        "53040206000000068001000000000002800200000000001180030000000000088004000000000008804200000000000580430000000000050000000000000000",
        "53040206000000058001000000000002800200000000001180030000000000108004000000000001000000000000000000",
    ]);
    golden(32, 3, 79, &[0x8000004000000005, 0x4100000000, 0x8000004200000005, 0x4300000010], 24, false, &[
        "530404040000000780000001000000038000000200000018800000030000000080000004000000088000004000000005000000410000000080000042000000050001020304050607",
        "53040404000000058000000100000003800000020000001880000003000000088000000400000010000000430000001008090a0b0c0d0e0f1011121314151617",
    ]);
}

/// A heap of 6 bytes in packets of 56 needs a second packet, with dummies in both. spead2 4.5.1 sends `0000` before
/// the payload, so its receivers read a damaged item; the heads are the same.
#[test]
fn dummies_come_after_the_payload() {
    let all = packets(shape(&[flavour().addressed(0x40, 0)], 6, 56)).unwrap();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [56, 49]);
    assert_eq!(all[0][48..], [0, 1, 2, 3, 4, 5, 0, 0]);
    assert_eq!(all[1][40..], [0, 0, 0, 0, 0, 0, 0, 6, 0]);
}

#[test]
fn too_small_packets_are_refused() {
    assert_eq!(packets(shape(&[], 9, 55)), Err(PacketError::TooSmall { packet_bytes: 55 }));
    assert_eq!(packets(shape(&[], 9, 56)).unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [49]);
    let pointers = [flavour().immediate(0x1000, 1); 10];
    let repeat = |packet_bytes| HeapShape { repeat_pointers: true, ..shape(&pointers, 9, packet_bytes) };
    let refused = PacketError::CannotRepeat { packet_bytes: 135, needed: 136 };
    assert_eq!(packets(repeat(135)), Err(refused));
    assert_eq!(packets(repeat(136)).unwrap().len(), 1);
    assert!(refused.to_string().ends_with("hint: a packet size of at least 136, or do not repeat them"));
    let narrow = HeapShape { flavour: Flavour::new(8).unwrap(), ..shape(&[], 256, 1472) };
    assert_eq!(packets(narrow), Err(PacketError::TooLarge { bytes: 256, most: 255 }));
    let widest = packets(HeapShape { payload_bytes: 255, ..narrow }).unwrap();
    assert_eq!(widest.iter().map(Vec::len).collect::<Vec<_>>(), [295]);
    let many = vec![pointers[0]; 70_000];
    let all = HeapShape { repeat_pointers: true, ..shape(&many, 9, 1 << 30) };
    assert_eq!(packets(all), Err(PacketError::CannotRepeat { packet_bytes: 1 << 30, needed: 0 }));
}

#[test]
fn a_whole_heap_is_one_packet() {
    for bytes in [0, 1, 7, 8, 1_000_001] {
        let pointers = [flavour().addressed(0x1000, 0), flavour().immediate(0x1001, 5)];
        let whole = shape(&pointers, bytes, 0);
        let whole = HeapShape { packet_bytes: whole.whole(), ..whole };
        assert_eq!(packets(whole).unwrap().len(), 1);
        assert_eq!(packets(HeapShape { repeat_pointers: true, ..whole }).unwrap().len(), 1);
    }
    let huge = shape(&[], u64::MAX, 0);
    assert_eq!(huge.whole(), usize::MAX & !7);
}

#[test]
fn more_pointers_than_a_packet_can_count() {
    let pointers: Vec<u64> = (0..70_000).map(|n| flavour().immediate(0x1000, n)).collect();
    let all = packets(shape(&pointers, 100, 1 << 30)).unwrap();
    let heads: Vec<Head<'_>> = all.iter().map(|p| Head::read(p).unwrap()).collect();
    assert_eq!(heads.iter().map(|h| h.pointers.len() / 8).collect::<Vec<_>>(), [65_535, 4 + 70_000 - 65_531]);
    assert_eq!(heads.iter().map(|h| h.length).collect::<Vec<_>>(), [8, 92]);
}

#[test]
fn even_packets_let_trains_go_on() {
    let pointers = [flavour().addressed(0x1000, 0), flavour().immediate(0x1001, 5), 0x8006_0000_0000_0001];
    let lengths = |split, bytes, packet| -> Vec<usize> {
        let packets = packets(HeapShape { split, ..shape(&pointers, bytes, packet) }).unwrap();
        packets.iter().map(Vec::len).collect()
    };
    assert_eq!(lengths(Split::Full, 4096, 1472), [1472, 1472, 1296]);
    assert_eq!(lengths(Split::Even, 4096, 1472), [1416; 3]);
    assert_eq!(lengths(Split::Even, 4097, 1472), [1419; 3], "three divides every residue");
    assert_eq!(lengths(Split::Even, 2049, 1472), [1472, 681], "two does not");
    assert_eq!(lengths(Split::Even, 2052, 1472), [1078; 2]);
    assert_eq!(lengths(Split::Even, 2044, 1472), [1074; 2]);
    assert_eq!(lengths(Split::Even, 1000, 1472), [1064]);
    assert_eq!(lengths(Split::Even, 1 << 16, 1472), [1472; 46], "words stay whole");
    assert_eq!(lengths(Split::Even, 1 << 20, 8972), [8928; 118]);
}

/// Payload and pointers of packets in any order, put together with nothing but their heads.
#[test]
fn packets_of_a_given_payload() {
    let pointers = [flavour().immediate(0x1000, 5), flavour().addressed(0x1001, 0)];
    for (bytes, payload, repeat) in
        [(8192, 8192, true), (8192, 1024, true), (100_000, 8192, false), (0, 64, false), (5, 1 << 40, true)]
    {
        let shape = HeapShape { repeat_pointers: repeat, ..shape(&pointers, bytes, 0) };
        let plan = Plan::with_payload(&shape, payload).unwrap().with_counter(1 << 48 | 99);
        let mut head = vec![0; plan.head_bytes_max()];
        let (mut at, mut on_wire) = (0, 0);
        for n in 0..plan.count() {
            let part = plan.packet(&pointers, n, &mut head);
            let mut packet = head[..part.head].to_vec();
            packet.resize(part.bytes() as usize, 0);
            let read = Head::read(&packet).unwrap();
            assert_eq!((read.counter, read.offset, read.start), (99, at, part.head));
            assert_eq!(read.has_items || read.pointers.len() > 32, repeat || n == 0);
            let last = n + 1 == plan.count();
            assert!(read.length == payload || (last && read.length <= payload), "{n}: {}", read.length);
            assert_eq!(plan.bytes_of(n), part.bytes());
            (at, on_wire) = (at + read.length, on_wire + part.bytes());
        }
        assert_eq!((at, on_wire), (bytes.max(1), plan.bytes_on_wire()));
    }
    assert_eq!(
        Plan::with_payload(&shape(&pointers, 9, 0), 0),
        Err(PacketError::TooSmall { packet_bytes: 0 })
    );
    let many = vec![0; 70_000];
    let error = Plan::with_payload(&shape(&many, 9, 0), 8).unwrap_err();
    assert_eq!(error, PacketError::TooManyPointers { pointers: 70_000 });
    assert!(error.to_string().contains("hint: "));
    let large = Plan::with_payload(&shape(&[], 1 << 48, 0), 8);
    assert!(matches!(large, Err(PacketError::TooLarge { .. })));
}

fn put_together(packets: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let (mut payload, mut pointers) = (Vec::new(), None);
    for packet in packets {
        let head = Head::read(packet).unwrap();
        assert!(head.length > 0 && head.counter == 7);
        payload.resize(head.size.unwrap() as usize, 0xFF);
        payload[head.offset as usize..][..head.length as usize].copy_from_slice(&packet[head.start..]);
        pointers.get_or_insert_with(|| Items::new(head.flavour)).add(&head);
    }
    (payload, pointers.map_or(Vec::new(), |items| items.pointers().to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_heap_comes_back(width in 2u8..8, count in 0u64..40, bytes in prop_oneof![0u64..300, 0u64..20_000],
            packet_bytes in prop_oneof![56usize..200, 56usize..1600], repeat_pointers: bool, even: bool, order: u64) {
        let flavour = Flavour::new(width * 8).unwrap();
        let pointers: Vec<u64> = (0..count).map(|n| match n % 3 {
            0 => flavour.addressed(0x30 + n, bytes * n / 40),
            _ => flavour.immediate(0x30 + n, n),
        }).collect();
        let split = if even { Split::Even } else { Split::Full };
        let shape = HeapShape { flavour, pointers: &pointers, repeat_pointers, split, ..shape(&[], bytes, packet_bytes) };
        let Ok(all) = packets(shape) else {
            prop_assert!(repeat_pointers && packet_bytes & !7 < 40 + 8 * (pointers.len() + 2));
            return Ok(());
        };
        prop_assert!(all.iter().all(|packet| packet.len() <= packet_bytes));
        let full = packets(HeapShape { split: Split::Full, ..shape }).unwrap();
        let full_plan = Plan::new(&HeapShape { split: Split::Full, ..shape }).unwrap();
        prop_assert_eq!(all.len(), full.len());
        let (last, others) = all.split_last().unwrap();
        prop_assert!(others.iter().all(|packet| packet.len() == all[0].len()));
        if even {
            let same = |packet| Plan::of(&shape, packet).is_ok_and(|p| {
                p.count == all.len() as u64 && p.total == full_plan.total && p.leading == 1 && p.padded().is_some()
            });
            let can = (56..=packet_bytes as u64 & !7).any(same);
            let equal = last.len() == all[0].len();
            prop_assert!(equal || !can, "{:?}", all.iter().map(Vec::len).collect::<Vec<_>>());
            prop_assert!(equal || all == full);
        }
        let mut shuffled: Vec<(u64, Vec<u8>)> = (1..).map(|n: u64| order.wrapping_mul(2 * n + 1)).zip(all.clone()).collect();
        shuffled.sort();
        let shuffled: Vec<Vec<u8>> = shuffled.into_iter().map(|(_, packet)| packet).collect();
        let (payload, mut found) = put_together(&shuffled);
        prop_assert!(payload[..bytes as usize].iter().enumerate().all(|(at, &octet)| octet == at as u8));
        prop_assert!(payload[bytes as usize..].iter().all(|&octet| octet == 0));
        let mut want = pointers.clone();
        if payload.len() as u64 > bytes { want.push(flavour.addressed(0, bytes)); }
        want.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, want);
    }
}
