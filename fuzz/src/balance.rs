//! The data plane of a balancer: whatever arrives is routed to a member with something to send, or refused and counted.

use crate::packets;
use core::net::IpAddr;
use skyhaul_core::balance::{
    AllowList, Calendar, Counters, Epoch, MEMBERS, Member, Occupant, PortRange, Prefix, Refusal, Route, Seat,
    SlotSelect, Table,
};
use skyhaul_core::wire::FAMILIES;
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use std::sync::Arc;

/// Three epochs, five members of which one was evicted and one is gone, slots that nobody has.
fn table() -> Table {
    let seat = |number: usize| Seat::new(number).expect("a seat");
    let mut calendar = Calendar::default();
    (0..500u16).for_each(|slot| calendar.set(slot, Some(seat(usize::from(slot) % 5))));
    let calendar = Arc::new(calendar);
    let epoch = |first, bits, xor| {
        let select = SlotSelect::new(bits, xor).expect("bits of a slot");
        Epoch { first, calendar: Arc::clone(&calendar), select }
    };
    let member = |number: usize, bits, keep| {
        let ports = PortRange::new(bits).expect("ports");
        let member = Member::new([10, 1, 0, number as u8].into(), 40_000, ports, keep).expect("a member");
        (seat(number), Occupant::Member(member))
    };
    let members =
        [member(0, 0, false), member(1, 14, true), member(2, 3, false), (seat(3), Occupant::Evicted)];
    let allow = AllowList::of(&[Prefix::host(ALLOWED.into())]);
    Table::new(allow, vec![epoch(64, 9, 0), epoch(77, 3, 0xFFFF), epoch(1 << 40, 9, 5)], &members)
}

const ALLOWED: [u8; 4] = [10, 0, 0, 1];

/// Packets of a train; the first octet is their length, the second chooses the sender.
pub(crate) fn balance(input: &[u8]) {
    struct Train<'a>(&'a [u8]);
    impl VisitLabelled for Train<'_> {
        type Out = ();
        fn visit<L: Labelled>(self) {
            let &[length, choice, ref rest @ ..] = self.0 else { return };
            let source = IpAddr::from(if choice % 8 == 0 { [11, 0, 0, 1] } else { ALLOWED });
            let packets: Vec<&[u8]> = rest.chunks(usize::from(length).max(1)).collect();
            let (table, mut counters) = (table(), Counters::default());
            let mut routes = vec![Err(Refusal::NoEpoch); packets.len()];
            let n = table.route_train::<L>(source, packets.iter().copied(), &mut routes, &mut counters);
            assert_eq!((n, counters.packets), (packets.len(), packets.len() as u64));
            let mut forwarded = 0;
            for (packet, route) in packets.iter().zip(&routes) {
                let alone =
                    if table.admits(source) { table.route::<L>(packet) } else { Err(Refusal::BlockedSource) };
                assert_eq!(*route, alone, "in a train it goes elsewhere");
                if let Ok(Route { skip, .. }) = *route {
                    assert!(usize::from(skip) < packet.len());
                    assert!(alone.is_ok_and(|route| table.address(route).is_some()));
                    forwarded += 1;
                }
            }
            assert_eq!(counters.packets, forwarded + counters.refused_total());
            let counted = (0..MEMBERS).filter_map(Seat::new).map(|seat| counters.member(seat).packets);
            assert_eq!(counted.sum::<u64>(), forwarded);
            let _ = L::sync(rest);
        }
    }
    FAMILIES.iter().for_each(|family| {
        family.visit_labelled(Train(input));
    });
}

/// What is read as a table is written as it was read, and routes without a panic.
pub(crate) fn balance_table(octets: &[u8]) {
    let Ok(table) = Table::from_bytes(octets) else { return };
    assert_eq!(table.to_bytes(), octets);
    let (mut routes, mut counters) = ([Err(Refusal::Empty); 4], Counters::default());
    for family in FAMILIES {
        struct Train<'a>(&'a Table, &'a mut [Result<Route, Refusal>; 4], &'a mut Counters);
        impl VisitLabelled for Train<'_> {
            type Out = ();
            fn visit<L: Labelled>(self) {
                let packets = packets::all();
                let packets = packets.iter().map(Vec::as_slice).take(4);
                let n = self.0.route_train::<L>(ALLOWED.into(), packets, self.1, self.2);
                assert!(self.1[..n].iter().flatten().all(|route| self.0.address(*route).is_some()));
            }
        }
        family.visit_labelled(Train(&table, &mut routes, &mut counters));
    }
}

pub(crate) fn balance_table_seeds() -> Vec<Vec<u8>> {
    vec![table().to_bytes(), Table::new(AllowList::anyone(), Vec::new(), &[]).to_bytes()]
}

pub(crate) fn balance_seeds() -> Vec<Vec<u8>> {
    let of = |packet: Vec<u8>| [&[packet.len() as u8, 1][..], &packet, &packet, &packet].concat();
    packets::all().into_iter().filter(|packet| packet.len() < 256).map(of).collect()
}
