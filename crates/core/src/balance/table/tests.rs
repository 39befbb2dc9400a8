use super::super::member::PortRange;
use super::*;
use crate::wire::ejfat::{Addressing, BalancerV2, BalancerV3, BalancerVersion, EjfatLabels, MAGIC, PortRule};
use proptest::prelude::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn seat(number: usize) -> Seat {
    Seat::new(number).unwrap()
}

fn member(address: &str, port: u16, bits: u8, keep: bool) -> Occupant {
    Occupant::Member(Member::new(ip(address), port, PortRange::new(bits).unwrap(), keep).unwrap())
}

fn v2(tick: u64, entropy: u16) -> Vec<u8> {
    let like = BalancerV2 { magic: MAGIC, version: 2, protocol: 1, ..BalancerV2::default() };
    [&BalancerV2 { tick, entropy, ..like }.write()[..], b"payload"].concat()
}

fn v3(tick: u64, slot_select: u16, port_select: u16) -> Vec<u8> {
    let header = BalancerV3 { magic: MAGIC, version: 3, protocol: 1, slot_select, port_select, tick };
    [&header.write()[..], b"payload"].concat()
}

fn calendar(slots: &[(u16, usize)]) -> Arc<Calendar> {
    let mut calendar = Calendar::default();
    slots.iter().for_each(|&(slot, number)| calendar.set(slot, Some(seat(number))));
    Arc::new(calendar)
}

/// The tables with which ESnet tests its data plane. There are two epochs; the newer is 16 ticks long. The first
/// balancer uses 3 inverted bits of the slot and 4 bits of the port; the second uses 9 bits and one port, and keeps the
/// label.
fn esnet(second: bool) -> Table {
    let (allow, select, slots, occupant) = if second {
        let member = member("fe80:aa00::4", 0x4C42, 0, true);
        (["10.1.2.10", "fe80::10"], SlotSelect::default(), [0x00A, 0x014], member)
    } else {
        let member = member("170.187.204.221", 0x4556, 4, false);
        (["10.1.2.2", "fe80::1"], SlotSelect::new(3, 0xFFFF).unwrap(), [5, 3], member)
    };
    let epoch = |first, slot| Epoch { first, calendar: calendar(&[(slot, 0)]), select };
    let epochs = vec![epoch(32, slots[0]), epoch(0, slots[0]), epoch(16, slots[1])];
    Table::new(AllowList::of(&allow.map(|text| text.parse().unwrap())), epochs, &[(seat(0), occupant)])
}

#[test]
fn as_esnets_tables_do() {
    let first = esnet(false);
    assert!(first.admits(ip("10.1.2.2")) && first.admits(ip("fe80::1")) && !first.admits(ip("10.1.2.10")));
    let route = |packet: &[u8]| first.route::<EjfatLabels>(packet);
    // Slot 5 is tick …010 inverted, slot 3 is …100.
    for (packet, port) in [
        (v2(2, 0), 0x4556),
        (v2(10, 15), 0x4565),
        (v2(16 | 4, 0xFFF3), 0x4559),
        (v2(32 | 2, 1), 0x4557),
        (v3(9, 2, 7), 0x455D),
        (v3(19, 0xFFFC, 16), 0x4556),
    ] {
        let found = route(&packet).unwrap();
        assert_eq!(found, Route { seat: seat(0), port, skip: 16 });
        assert_eq!(first.address(found).unwrap().to_string(), format!("170.187.204.221:{port}"));
    }
    for packet in [v2(4, 0), v2(16 | 2, 0), v3(2, 4, 0), v3(16, 2, 0)] {
        assert_eq!(route(&packet), Err(Refusal::UnassignedSlot));
    }
    let second = esnet(true);
    let found = second.route::<EjfatLabels>(&v2(10, 0xFFFF)).unwrap();
    assert_eq!(found, Route { seat: seat(0), port: 0x4C42, skip: 0 });
    assert_eq!(second.address(found).unwrap().to_string(), "[fe80:aa00::4]:19522");
    assert_eq!(second.route::<EjfatLabels>(&v2(20, 0)), Ok(found));
    assert_eq!(second.route::<EjfatLabels>(&v3(20, 20 | 512, 3)), Ok(found));
    assert_eq!(second.route::<EjfatLabels>(&v2(10 | 256, 0)), Err(Refusal::UnassignedSlot));
}

/// Each reason alone, and its counter.
#[test]
fn each_refusal() {
    let provoke = |why: Refusal| -> (Table, IpAddr, Vec<u8>) {
        let (table, source, good) = (esnet(false), ip("10.1.2.2"), v2(2, 0));
        let from = |epochs, occupant| Table::new(AllowList::anyone(), epochs, &[(seat(0), occupant)]);
        let epoch = |first| Epoch { first, calendar: calendar(&[(2, 0)]), select: SlotSelect::default() };
        let present = member("10.0.0.1", 1, 0, false);
        let changed = |at: usize, octet: u8| {
            let mut packet = good.clone();
            packet[at] = octet;
            packet
        };
        match why {
            Refusal::BlockedSource => (table, ip("10.1.2.3"), good),
            Refusal::Truncated => (table, source, good[..15].to_vec()),
            Refusal::BadMagic => (table, source, changed(1, b'C')),
            Refusal::BadVersion => (table, source, changed(2, 1)),
            Refusal::Empty => (table, source, good[..16].to_vec()),
            Refusal::NoEpoch => (from(Vec::new(), present), source, good),
            Refusal::TooOld => (from(vec![epoch(3)], present), source, good),
            Refusal::UnassignedSlot => (table, source, v2(3, 0)),
            Refusal::NoMember => (from(vec![epoch(0)], Occupant::None), source, good),
            Refusal::Evicted => (from(vec![epoch(0)], Occupant::Evicted), source, good),
            Refusal::Unusable => {
                let mut table = from(vec![epoch(0)], present);
                assert_eq!((table.bar(|_| false), table.bar(|_| true), table.members().count()), (0, 1, 0));
                (table, source, good)
            }
            // Counted before the look-up: `balance/tests.rs` of the library provokes them.
            Refusal::OwnPacket | Refusal::HopLimit => unreachable!(),
        }
    };
    for &why in Refusal::ALL.iter().filter(|why| !matches!(why, Refusal::OwnPacket | Refusal::HopLimit)) {
        let (table, source, packet) = provoke(why);
        let (mut counters, mut routes) = (Counters::default(), [Err(Refusal::Truncated); 3]);
        let n = table.route_train::<EjfatLabels>(source, [&packet[..]; 3], &mut routes, &mut counters);
        assert_eq!((n, routes), (3, [Err(why); 3]));
        assert_eq!((counters.packets, counters.refused(why), counters.refused_total()), (3, 3, 3));
        let tick = EjfatLabels::label(&packet).map(|label| label.tick).ok();
        let counts = why.is_for_want_of_a_member();
        assert_eq!(counters.take_ticks().newest, tick.filter(|_| counts), "{why:?}");
    }
}

#[test]
fn the_oldest_epochs_make_room() {
    let epoch = |first| Epoch { first, calendar: calendar(&[(2, 0)]), select: SlotSelect::default() };
    let table = Table::new(AllowList::anyone(), (0..EPOCHS as u64 + 3).map(|n| epoch(n * 10)).collect(), &[]);
    assert_eq!((table.epochs().len(), table.epochs()[0].first), (EPOCHS, 30));
}

#[test]
fn selects_have_at_most_nine_bits() {
    assert_eq!(SlotSelect::new(9, 0), Some(SlotSelect::default()));
    assert_eq!(SlotSelect::new(10, 0), None);
}

/// A table in which every slot has a member.
fn full() -> Table {
    let mut all = Calendar::default();
    (0..512u16).for_each(|slot| all.set(slot, Some(seat(usize::from(slot) % 5))));
    let epochs = (0..4).map(|n| Epoch {
        first: 50 + n * 100,
        calendar: Arc::new(all.clone()),
        select: SlotSelect::new(9, n as u16).unwrap(),
    });
    let members: Vec<_> =
        (0..4).map(|n| (seat(n), member("10.0.0.1", 1000 * n as u16 + 1, 3, n == 2))).collect();
    Table::new(AllowList::of(&["10.0.0.0/8".parse().unwrap()]), epochs.collect(), &members)
}

proptest! {
    /// A train gives the same result as its packets one by one, and each packet the result of the reference rule.
    #[test]
    fn a_train_is_its_packets(packets in proptest::collection::vec((0u64..500, any::<u16>(), 0usize..30, any::<bool>(), 0u8..20), 0..60), blocked: bool) {
        let table = full();
        let packets: Vec<Vec<u8>> = packets.iter().flat_map(|&(tick, other, length, version, damage)| {
            let version = if version { BalancerVersion::V2 } else { BalancerVersion::V3 };
            let addressing = Addressing { version, port: PortRule::Fixed(other), ..Addressing::default() };
            let mut packet = addressing.header(tick, 0).to_vec();
            packet.resize(16 + length, 0xEE);
            match damage {
                0 => packet[0] ^= 1,
                1 => packet[2] ^= 4,
                2 => packet.truncate(usize::from(other) % 16),
                _ => {}
            }
            // Runs of the same label, of different lengths.
            vec![packet; 1 + length % 3]
        }).collect();
        let source = ip(if blocked { "11.0.0.1" } else { "10.0.0.1" });
        let (mut counters, mut alone) = (Counters::default(), Counters::default());
        let mut routes = vec![Err(Refusal::NoEpoch); packets.len()];
        let n = table.route_train::<EjfatLabels>(source, packets.iter().map(Vec::as_slice), &mut routes, &mut counters);
        prop_assert_eq!(n, packets.len());
        for (packet, route) in packets.iter().zip(&routes) {
            let one = if blocked { Err(Refusal::BlockedSource) } else { table.route::<EjfatLabels>(packet) };
            prop_assert_eq!(*route, one);
            let Ok(Route { seat, port, skip }) = one else {
                let why = one.unwrap_err();
                let tick = EjfatLabels::label(packet).map(|label| label.tick);
                match tick {
                    Ok(tick) if why.is_for_want_of_a_member() || why == Refusal::TooOld => alone.refuse_tick(why, tick),
                    _ => alone.refuse(why),
                }
                continue;
            };
            let header = BalancerV3::read(packet).unwrap().0;
            alone.forward(seat, packet.len() as u64 - u64::from(skip), header.tick);
            let xor = (header.tick - 50) / 100;
            let slot = (header.tick ^ xor.min(3)) % 512;
            prop_assert_eq!(seat.number() as u64, slot % 5);
            prop_assert_eq!(port, 1000 * seat.number() as u16 + 1 + header.port_select % 8);
            prop_assert_eq!(skip, if seat.number() == 2 { 0 } else { 16 });
        }
        prop_assert_eq!(&counters, &alone);
        let forwarded: u64 = (0..MEMBERS).map(|n| counters.member(seat(n)).packets).sum();
        prop_assert_eq!(counters.packets, forwarded + counters.refused_total());
    }

    #[test]
    fn any_octets_are_routed_or_refused(packet in proptest::collection::vec(any::<u8>(), 0..40), label: bool) {
        let mut packet = packet;
        if label && packet.len() > 3 { let version = 2 | packet[2] & 1; packet[..4].copy_from_slice(&[0x4C, 0x42, version, 1]); }
        let (mut counters, mut routes) = (Counters::default(), [Err(Refusal::NoEpoch)]);
        let table = full();
        table.route_train::<EjfatLabels>(ip("10.0.0.1"), [&packet[..]], &mut routes, &mut counters);
        if let [Ok(route)] = routes {
            prop_assert!(usize::from(route.skip) < packet.len() && table.address(route).is_some());
        }
        prop_assert_eq!(counters.packets, 1);
    }
}

fn table(networks: &[(u32, u8)], epochs: &[(u64, u16)], members: &[(u16, u16, u8, bool)]) -> Table {
    let prefix =
        |&(ip, bits): &(u32, u8)| super::super::allow::Prefix::new(Ipv4Addr::from(ip).into(), bits).unwrap();
    let mut prefixes: Vec<_> = networks.iter().map(prefix).collect();
    prefixes.push("fd00::/64".parse().unwrap());
    let mut firsts: Vec<_> = epochs.to_vec();
    firsts.sort_unstable();
    firsts.dedup_by_key(|epoch| epoch.0);
    let epoch = |&(first, owner): &(u64, u16)| {
        let mut calendar = Calendar::default();
        (0..SLOTS as u16)
            .filter(|slot| slot % 3 != 0)
            .for_each(|slot| calendar.set(slot, Seat::new((owner ^ slot).into())));
        Epoch {
            first,
            calendar: Arc::new(calendar),
            select: SlotSelect::new((owner % 10) as u8, owner).unwrap(),
        }
    };
    let member = |&(seat, port, bits, keep): &(u16, u16, u8, bool)| {
        let ip: IpAddr = if keep {
            Ipv6Addr::from(u128::from(port) << 90).into()
        } else {
            Ipv4Addr::from(u32::from(port)).into()
        };
        let member = Member::new(ip, port, PortRange::new(bits % 15).unwrap(), keep);
        (Seat::new(usize::from(seat) % MEMBERS).unwrap(), member.map_or(Occupant::Evicted, Occupant::Member))
    };
    let members: Vec<_> = members.iter().map(member).collect();
    Table::new(AllowList::of(&prefixes), firsts.iter().map(epoch).collect(), &members)
}

proptest! {
    #[test]
    fn every_table_comes_back(networks in proptest::collection::vec((any::<u32>(), 0u8..=32), 0..9), epochs in proptest::collection::vec(any::<(u64, u16)>(), 0..9), members in proptest::collection::vec(any::<(u16, u16, u8, bool)>(), 0..9), flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>()) {
        let table = table(&networks, &epochs, &members);
        let octets = table.to_bytes();
        let again = Table::from_bytes(&octets).unwrap();
        prop_assert_eq!(&again.allow, &table.allow);
        prop_assert_eq!(&again.members, &table.members);
        prop_assert_eq!(again.epochs.len(), table.epochs.len());
        prop_assert_eq!(again.to_bytes(), octets.clone());
        prop_assert!(Table::from_bytes(&octets[..cut.index(octets.len())]).is_err());
        // Damaged bytes are another table, or none.
        let mut damaged = octets;
        for (at, with) in flips {
            let at = at.index(damaged.len());
            damaged[at] ^= with;
        }
        if let Ok(other) = Table::from_bytes(&damaged) {
            prop_assert_eq!(other.to_bytes(), damaged);
        }
    }
}

#[test]
fn what_is_no_table() {
    let good = table(&[], &[(5, 7)], &[(3, 17750, 2, false)]).to_bytes();
    let error = |at: usize, with: u8| {
        let mut octets = good.clone();
        octets[at] = with;
        Table::from_bytes(&octets).unwrap_err().to_string()
    };
    // 7 magic, anyone, 4 (no IPv4), 4 + 32 (one of IPv6), 4 epochs, 8 + 4 + 1024, 4 members, 2 + 1 + 4 + 4 + 1, 8.
    assert_eq!(good.len(), 7 + 1 + 4 + 36 + 4 + 1036 + 4 + 12 + 8);
    assert!(error(6, 1).contains("another version"));
    assert!(error(7, 2).contains("neither"));
    assert!(error(8, 255).contains("more elements"));
    assert!(error(16, 255).contains("out of order"), "from beyond to");
    assert!(error(52 + 8, 4).contains("slots that do not exist"));
    assert!(error(52 + 12 + 2, 200).contains("a slot is of a seat"));
    assert!(error(1092, 200).contains("a member has a seat"));
    assert!(error(1094, 9).contains("kind of address"));
    assert!(error(1101, 9).contains("ports that do not exist"));
    assert!(error(1103, 9).contains("neither"));
    let left_over = [&good[..], &[0]].concat();
    assert!(Table::from_bytes(&left_over).unwrap_err().to_string().contains("left over"));
}
