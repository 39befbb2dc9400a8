//! Packets that a balancer would be sent again, and workers that lead back to it.

use super::super::data_plane::Plane;
use super::super::shared::Own;
use super::super::shared::{Planes, Shared};
use super::*;
use skyhaul_core::balance::{Calendar, Epoch, Kind, Occupant, Reach, Refusal, Seat, SlotSelect, Unusable};
use skyhaul_io::source::Train;
use skyhaul_io::udp::forward::Forwarder;
use skyhaul_io::udp::send::SendOptions;

fn registration(at: SocketAddr) -> Registration {
    let member = Member::new(at.ip(), at.port(), PortRange::default(), true).unwrap();
    Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 }
}

/// All slots of all ticks go there, with their labels.
fn table_to(at: SocketAddr) -> Table {
    let mut calendar = Calendar::default();
    let seat = Seat::new(3).unwrap();
    (0..512).for_each(|slot| calendar.set(slot, Some(seat)));
    let epoch = Epoch { first: 0, calendar: calendar.into(), select: SlotSelect::default() };
    Table::new(AllowList::anyone(), vec![epoch], &[(seat, Occupant::Member(registration(at).member))])
}

/// In place of the table that its control gave out at the start.
fn publish(balance: &Balance, table: Table) {
    until("control has given out its first table", || balance.planes.tables() > 0);
    balance.planes.publish(table);
    until("the threads use it", || balance.planes.merged().table == balance.planes.tables());
}

#[test]
fn a_worker_at_the_balancers_own_addresses_is_refused() {
    let balance = Balance::start(&loopback(1)).unwrap();
    for at in [balance.data()[0], balance.sync()[0]] {
        let error = balance.register(registration(at)).unwrap_err();
        assert_eq!(error, RegisterError::Unusable(Unusable::Own(at)));
        assert!(error.to_string().contains(&format!("itself receives on {at}")), "{error}");
    }
    for ip in ["255.255.255.255", "127.255.255.255", "0.0.0.0", "224.0.0.1", "ff02::1", "::"] {
        let error = balance.register(registration(SocketAddr::new(ip.parse().unwrap(), 9))).unwrap_err();
        assert!(matches!(error, RegisterError::Unusable(Unusable::NotOne(_))), "{ip}: {error}");
    }
    assert!(balance.status().workers.is_empty());
}

#[test]
fn a_data_plane_sends_nothing_where_it_receives_whoever_gave_it_the_table() {
    let balance = Balance::start(&loopback(1)).unwrap();
    let own = balance.data()[0];
    // As an older control plane would, or one with workers from its database.
    publish(&balance, table_to(own));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for packet in event(1, 0, 2500) {
        sender.send_to(&packet, own).unwrap();
    }
    until("it is refused", || balance.status().packets >= 3);
    std::thread::sleep(Duration::from_millis(200));
    let status = balance.status();
    assert_eq!((status.packets, status.forwarded.packets), (3, 0), "{status:?}");
    assert_eq!(refused(&status), BTreeMap::from([("unusable_member", 3)]));
    assert!(status.notes.iter().any(|note| note.contains("lead back here")), "{:?}", status.notes);
}

#[test]
fn what_balancers_send_each_other_in_a_circle_ends_with_its_time_to_live() {
    let (a, b) = (Balance::start(&loopback(1)).unwrap(), Balance::start(&loopback(1)).unwrap());
    for (from, to) in [(&a, &b), (&b, &a)] {
        publish(from, table_to(to.data()[0]));
    }
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.set_ttl(64).unwrap();
    sender.send_to(&event(1, 0, 10)[0], a.data()[0]).unwrap();
    let all =
        || (a.status().packets + b.status().packets, refused(&b.status()).len() + refused(&a.status()).len());
    until("its time to live is used up", || all().1 > 0);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(all().0, 64, "one packet, with 64 hops, arrived 64 times");
    let (a, b) = (a.stop(), b.stop());
    assert_eq!(a.forwarded.packets + b.forwarded.packets, 63);
    assert_eq!(refused(&b), BTreeMap::from([("hop_limit", 1)]), "{:?}", refused(&a));
}

#[test]
fn what_a_balancer_sent_itself_is_known_by_its_sender() {
    let open = |ip: [u8; 4]| Forwarder::open(ip.into(), &SendOptions::default()).unwrap();
    let (one, every) = (open([127, 0, 0, 1]), open([0; 4]));
    let own = Own::of([&one, &every].into_iter());
    let here = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let ports: Vec<u16> = [&one, &every].iter().flat_map(|f| f.locals()).map(|at| at.port()).collect();
    for port in &ports {
        assert!(
            own.sent(&here(*port)) || own.sent(&SocketAddr::new("::1".parse().unwrap(), *port)),
            "{port}"
        );
        assert!(!own.sent(&SocketAddr::from(([10, 9, 8, 7], *port))), "another host with that port");
    }
    let other = (1..).find(|port| !ports.contains(port)).unwrap();
    assert!(!own.sent(&here(other)));
    // A plane that is given such a packet, and one without hops.
    let first = one.locals().next().unwrap();
    let shared = Arc::new(Shared::new(1, AllowList::anyone()).guarded(Reach::new(Vec::new()), own));
    let taker = UdpSocket::bind("127.0.0.1:0").unwrap();
    shared.publish(table_to(taker.local_addr().unwrap()));
    let mut plane = Plane::<EjfatLabels>::new(0, Arc::clone(&shared), one);
    let packet = event(1, 0, 10).remove(0);
    let stranger = here(other);
    for (sender, hops) in [(first, Some(64)), (stranger, Some(1)), (stranger, Some(0)), (stranger, Some(64))]
    {
        plane.train(&Train { hops, ..Train::single(&packet, &sender) });
    }
    assert_eq!(plane.counters.refused(Refusal::OwnPacket), 1);
    assert_eq!((plane.counters.refused(Refusal::HopLimit), plane.counters.packets), (2, 4));
    assert_eq!(plane.forwarded.packets, 1);
    assert_eq!(super::super::shared::kind("127.255.255.255".parse().unwrap()), Kind::Broadcast);
}
