//! The kernel's program against the table that it is made from, in an interpreter: what it forwards is what the table says,
//! octet for octet, and everything else it leaves alone.
#![allow(clippy::unwrap_used)]

mod frames;
mod machine;

use frames::{V4, V6, expected, folded, frame, hop, inlet, is_sound, pseudo};
use machine::{Machine, Verdict};
use proptest::prelude::*;
use skyhaul_core::balance::xdp::{Counts, Hop, LEASE_BYTES, image, program};
use skyhaul_core::balance::{
    AllowList, Calendar, Epoch, Member, Occupant, PortRange, Prefix, Refusal, Seat, SlotSelect, Table,
};
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::ejfat::{Addressing, BalancerVersion, EjfatLabels, PortRule};
use skyhaul_core::wire::labelled::{LabelLayout, Labelled, VisitLabelled};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const INTERFACE: u32 = 7;
const LABEL: u16 = EjfatLabels::LAYOUT.bytes;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn packet(tick: u64, port: u16, version: BalancerVersion, payload: usize) -> Vec<u8> {
    let addressing = Addressing { version, port: PortRule::Fixed(port), ..Addressing::default() };
    let mut packet = addressing.header(tick, 0).to_vec();
    packet.extend((0..payload).map(|n| (n * 7) as u8));
    packet
}

/// Some seats of both versions of IP, one that keeps labels, one evicted, one to whom the way is not known.
fn table(boundaries: &[u64], networks: &[&str], select: SlotSelect) -> Table {
    let allow = AllowList::of(&networks.iter().map(|text| text.parse().unwrap()).collect::<Vec<Prefix>>());
    let member = |ip: &str, bits, keep| {
        Occupant::Member(
            Member::new(ip.parse().unwrap(), 17_000, PortRange::new(bits).unwrap(), keep).unwrap(),
        )
    };
    let seat = |n| Seat::new(n).unwrap();
    let members = [
        (seat(0), member("10.9.1.1", 3, false)),
        (seat(1), member("fd09::9", 3, false)),
        (seat(2), member("10.9.1.2", 0, true)),
        (seat(3), Occupant::Evicted),
        (seat(4), member("fd09::8", 14, true)),
        (seat(1023), member("10.9.9.9", 0, false)),
        (seat(1022), member("10.9.1.3", 0, false)),
    ];
    let seats = [0, 1, 2, 3, 4, 1023, 1022, 9];
    let epochs = boundaries.iter().enumerate().map(|(n, &first)| {
        let mut calendar = Calendar::default();
        // Each calendar differs from the one before in every slot.
        (0..500)
            .for_each(|slot| calendar.set(slot, Some(seat(seats[(usize::from(slot) + n) % seats.len()]))));
        Epoch { first, calendar: Arc::new(calendar), select }
    });
    Table::new(allow, epochs.collect(), &members)
}

/// 10.9.9.9 is where nobody knows the way to; one worker is behind the interface that packets come from.
fn way(ip: IpAddr) -> Option<Hop> {
    match ip.to_string().as_str() {
        "10.9.9.9" => None,
        "10.9.1.3" => Some(hop(INTERFACE)),
        "10.9.1.2" => Some(Hop { mtu: 120, ..hop(9) }),
        _ => Some(hop(9)),
    }
}

fn machine(table: &Table) -> Machine {
    Machine::new(&program::<EjfatLabels>(&inlet(INTERFACE)).unwrap(), image(table, LABEL, way))
}

/// Run, and compare with what the table says.
fn check(machine: &mut Machine, table: &Table, octets: &[u8]) -> bool {
    let mut came = octets.to_vec();
    let verdict = machine.run(&mut came, 128);
    match expected(table, octets, way) {
        None => {
            assert_eq!((verdict, &came[..]), (Verdict::Pass, octets));
            false
        }
        Some((_, hop, out)) => {
            let right = if hop.interface == INTERFACE { Verdict::Back } else { Verdict::Redirect(9) };
            assert_eq!(verdict, right);
            assert!(is_sound(&came), "checksums");
            assert_eq!(came, out);
            true
        }
    }
}

fn all() -> Table {
    table(&[0, 100, 200], &["10.1.0.0/16", "fd01::/16", "10.3.0.7"], SlotSelect::default())
}

#[test]
fn every_seat_and_epoch_is_routed_as_the_table_says_and_counted() {
    let table = all();
    let mut machine = machine(&table);
    let (mut forwarded, mut bytes, mut newest) = (0, 0, None);
    for version in [BalancerVersion::V2, BalancerVersion::V3] {
        for tick in (0..700).chain([u64::MAX - 12, u64::MAX]) {
            for (from, to) in [("10.1.2.3:4000", V4), ("[fd01::2]:4001", V6), ("10.4.0.1:4000", V4)] {
                let payload = packet(tick, tick as u16, version, 40 + tick as usize % 90);
                let octets = frame(at(from), at(to), &payload);
                if check(&mut machine, &table, &octets) {
                    forwarded += 1;
                    newest = newest.max(Some(tick));
                    let route = table.route::<EjfatLabels>(&payload).unwrap();
                    bytes += payload.len() as u64 - u64::from(route.skip);
                }
            }
        }
    }
    assert!(forwarded > 700, "{forwarded}");
    let counts = Counts::read(&machine.counts, 1);
    assert_eq!((counts.counters.packets, counts.bytes), (forwarded, bytes));
    assert_eq!(counts.newest, newest);
}

#[test]
fn members_that_lead_back_are_left_to_the_sockets_which_refuse_them() {
    let mut table = all();
    // As if the balancer itself, and nobody, were at these.
    let unusable =
        |member: &Member| ["10.9.1.3", "10.9.1.1"].contains(&member.address().ip().to_string().as_str());
    assert_eq!(table.bar(unusable), 2);
    let mut machine = machine(&table);
    let (mut forwarded, mut refused) = (0, 0);
    for tick in 0..700 {
        let payload = packet(tick, 0, BalancerVersion::V3, 40);
        let came = check(&mut machine, &table, &frame(at("10.1.2.3:4000"), at(V4), &payload));
        let is_barred = table.route::<EjfatLabels>(&payload) == Err(Refusal::Unusable);
        assert!(!(came && is_barred));
        (forwarded, refused) = (forwarded + u32::from(came), refused + u32::from(is_barred));
    }
    assert!(forwarded > 30 && refused > 100, "{forwarded} {refused}");
}

#[test]
fn a_lease_that_is_over_or_never_was_passes_all() {
    let table = all();
    let mut machine = machine(&table);
    let octets = frame(at("10.1.2.3:4000"), at(V4), &packet(0, 0, BalancerVersion::V3, 9));
    assert!(check(&mut machine, &table, &octets));
    machine.now += 1;
    assert_eq!(machine.run(&mut octets.clone(), 128), Verdict::Pass);
    machine.lease = [0; LEASE_BYTES];
    assert_eq!(machine.run(&mut octets.clone(), 128), Verdict::Pass);
}

#[test]
fn ticks_that_are_not_settled_are_passed() {
    let table = all();
    let mut machine = machine(&table);
    let mut verdict = |(first, last): (u64, u64), tick| {
        machine.lease[16..24].copy_from_slice(&first.to_ne_bytes());
        machine.lease[24..].copy_from_slice(&last.to_ne_bytes());
        let payload = packet(tick, 0, BalancerVersion::V3, 9);
        assert!(table.route::<EjfatLabels>(&payload).is_ok(), "{tick}");
        machine.run(&mut frame(at("10.1.2.3:4000"), at(V4), &payload), 128)
    };
    let forwarded =
        (0..300).filter(|&tick| table.route::<EjfatLabels>(&packet(tick, 0, BalancerVersion::V3, 9)).is_ok());
    let mut seen = 0;
    for tick in forwarded.collect::<Vec<_>>() {
        let settled = verdict((0, u64::MAX), tick);
        seen += u64::from(settled != Verdict::Pass);
        assert_eq!(verdict((tick, tick), tick), settled);
        for others in
            [(tick + 1, u64::MAX), (0, tick.wrapping_sub(1)), (1, 0), (u64::MAX, tick), (u64::MAX, u64::MAX)]
        {
            let is_all = others == (0, u64::MAX);
            assert!(is_all || verdict(others, tick) == Verdict::Pass, "{others:?} {tick}");
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_is_unusual_is_passed_as_it_is() {
    let table = all();
    let mut machine = machine(&table);
    let v4 = frame(at("10.1.2.3:4000"), at(V4), &packet(0, 0, BalancerVersion::V3, 60));
    // Its slot is of seat 1, which has an address of version 6.
    let v6 = frame(at("[fd01::2]:4000"), at(V6), &packet(1, 0, BalancerVersion::V3, 60));
    for octets in [&v4, &v6] {
        assert!(check(&mut machine, &table, octets));
        let mut passes = |octets: &[u8], linear: usize| {
            let mut came = octets.to_vec();
            assert_eq!(machine.run(&mut came, linear), Verdict::Pass);
            assert_eq!(came, octets);
        };
        for length in 0..octets.len() {
            passes(&octets[..length], length);
        }
        let udp = if octets[12] == 8 { 34 } else { 54 };
        for linear in 0..udp + 8 + 16 {
            passes(octets, linear);
        }
        let with = |at: usize, value: &[u8]| {
            let mut changed = octets.clone();
            changed[at..at + value.len()].copy_from_slice(value);
            changed
        };
        // Somebody else's frame, a VLAN tag, another port, lengths that disagree, a checksum that is only begun.
        let begun = folded(pseudo(octets)).to_be_bytes();
        for (at, value) in [
            (5, &[9][..]),
            (0, &[9]),
            (12, &[0x81, 0]),
            (udp + 3, &[1]),
            (udp + 5, &[60]),
            (udp + 4, &[0, 24]),
            (udp + 6, &begun),
            (udp + 8, b"XB"),
            (udp + 10, &[4]),
            (udp + 10, &[1]),
        ] {
            passes(&with(at, value), 128);
        }
        let of_this: &[(usize, &[u8])] = if octets[12] == 8 {
            &[
                (14, &[0x46]),
                (14, &[0x65]),
                (20, &[0x20]),
                (21, &[1]),
                (20, &[0x80]),
                (22, &[1]),
                (22, &[0]),
                (23, &[6]),
                (17, &[50]),
                (26, &[127]),
                (26, &[0]),
                (26, &[224]),
                (33, &[2]),
                (30, &[11]),
            ]
        } else {
            &[
                (14, &[0x45]),
                (18, &[1]),
                (19, &[60]),
                (20, &[0]),
                (20, &[44]),
                (21, &[1]),
                (22, &[0xFF]),
                (22, &[0; 8]),
                (53, &[2]),
                (60, &[0, 0]),
            ]
        };
        for (at, value) in of_this {
            passes(&with(*at, value), 128);
        }
    }
    // In IPv4 there may be no checksum; then there is none afterwards. Unless it could be a train.
    let mut unsummed = v4.clone();
    unsummed[40..42].fill(0);
    let mut came = unsummed.clone();
    assert_eq!(machine.run(&mut came, 128), Verdict::Redirect(9));
    assert!(came[40..42] == [0, 0] && is_sound(&came));
    let joined = skyhaul_core::balance::xdp::Inlet { single: false, ..inlet(INTERFACE) };
    let mut machine = Machine::new(&program::<EjfatLabels>(&joined).unwrap(), image(&table, LABEL, way));
    assert_eq!(machine.run(&mut unsummed.clone(), 128), Verdict::Pass);
    assert_eq!(machine.run(&mut v4.clone(), 128), Verdict::Redirect(9));
    // A way that only takes packets in one piece.
    let whole = |ip| way(ip).map(|hop| Hop { whole: true, ..hop });
    machine.image = image(&table, LABEL, whole);
    assert_eq!(machine.run(&mut v4.clone(), v4.len() - 1), Verdict::Pass);
    assert_eq!(machine.run(&mut v4.clone(), v4.len()), Verdict::Redirect(9));
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let table = all();
    let mut machine = machine(&table);
    for octet in [24, 41, 90] {
        let mut octets = frame(at("10.1.2.3:4000"), at(V4), &packet(0, 0, BalancerVersion::V3, 60));
        octets[octet] ^= 0x10;
        assert_eq!(machine.run(&mut octets, 128), Verdict::Redirect(9));
        assert!(!is_sound(&octets), "{octet}");
    }
}

#[test]
fn a_list_of_senders_that_is_too_long_is_nobodys() {
    let networks: Vec<String> = (0..1025).map(|n| format!("10.{}.{}.0/25", n / 256, n % 256)).collect();
    for (count, admitted) in [(1024, true), (1025, false)] {
        let networks: Vec<&str> = networks[..count].iter().map(String::as_str).collect();
        let table = table(&[0], &networks, SlotSelect::default());
        let mut machine = machine(&table);
        let mut octets = frame(at("10.3.255.3:4000"), at(V4), &packet(0, 0, BalancerVersion::V3, 60));
        let verdict = machine.run(&mut octets, 128);
        assert_eq!(verdict == Verdict::Redirect(9), admitted, "{verdict:?}");
    }
}

/// The declared layout of every labelled family reads what its function reads.
#[test]
fn layouts_say_where_labels_are_read() {
    struct Compare;
    impl VisitLabelled for Compare {
        type Out = ();
        fn visit<L: Labelled>(self) {
            let LabelLayout { bytes, magic, version_at, slots, port_at, tick_at } = L::LAYOUT;
            let mut packet: Vec<u8> = (1..=u8::try_from(bytes).unwrap()).map(|n| n * 11).collect();
            packet[..magic.len()].copy_from_slice(magic);
            for version in 0..=255 {
                packet[usize::from(version_at)] = version;
                let half =
                    |at: u16| u16::from_be_bytes([packet[usize::from(at)], packet[usize::from(at) + 1]]);
                let Some((_, slot_at)) = slots.iter().find(|(known, _)| *known == version) else {
                    assert_eq!(L::label(&packet), Err(Reject::BadVersion));
                    continue;
                };
                let label = L::label(&packet).unwrap();
                let tick = packet[usize::from(tick_at)..][..8].try_into().unwrap();
                let said = (label.tick, label.slot, label.port, label.bytes);
                assert_eq!(said, (u64::from_be_bytes(tick), half(*slot_at), half(port_at), bytes));
            }
            packet[0] ^= 1;
            assert_eq!(L::label(&packet), Err(Reject::BadMagic));
        }
    }
    let seen =
        skyhaul_core::wire::FAMILIES.iter().filter_map(|family| family.visit_labelled(Compare)).count();
    assert!(seen > 0);
}

proptest! {
    #[test]
    fn any_table_and_packet(
        boundaries in proptest::collection::btree_set(0u64..2000, 0..40),
        bits in 0u8..=9, xor: u16,
        networks in proptest::collection::vec((any::<u16>(), 0u8..=128, any::<bool>()), 0..30),
        packets in proptest::collection::vec((0u64..2100, any::<u16>(), 1usize..200, any::<bool>(), any::<u16>(), any::<bool>()), 1..60),
    ) {
        let networks: Vec<String> = networks.iter().map(|&(host, bits, v4)| match v4 {
            true => format!("10.1.{}.{}/{}", host >> 8, host & 255, 16 + bits % 17),
            false => format!("fd01::{host:x}:{host:x}/{}", bits.max(16)),
        }).collect();
        let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
        let boundaries: Vec<u64> = boundaries.into_iter().collect();
        let table = table(&boundaries, &networks, SlotSelect::new(bits, xor).unwrap());
        let mut machine = machine(&table);
        for (tick, port, payload, v3, host, v4) in packets {
            let version = if v3 { BalancerVersion::V3 } else { BalancerVersion::V2 };
            let payload = packet(tick, port, version, payload);
            let octets = match v4 {
                true => frame(at(&format!("10.1.{}.{}:77", host >> 8, host & 255)), at(V4), &payload),
                false => frame(at(&format!("[fd01::{host:x}:{host:x}]:77")), at(V6), &payload),
            };
            check(&mut machine, &table, &octets);
        }
    }

    #[test]
    fn any_octets_are_passed_or_forwarded_without_an_access_beyond(
        mut octets in proptest::collection::vec(any::<u8>(), 0..160),
        linear in 0usize..200,
        like: bool,
    ) {
        let table = all();
        let mut machine = machine(&table);
        if like {
            let good = frame(at("10.1.2.3:4000"), at(V4), &packet(0, 0, BalancerVersion::V3, 60));
            for (n, octet) in good.iter().enumerate().take(58) {
                // One in eight octets is not what it should be.
                if let Some(to) = octets.get_mut(n) && *to % 8 != 0 { *to = *octet; }
            }
        }
        machine.run(&mut octets, linear);
    }
}
