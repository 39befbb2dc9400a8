mod remote;

use super::control::{Own, Planes, Shared};
use super::data_plane::Plane;
use super::*;
use skyhaul_core::balance::{
    Calendar, Epoch, Kind, Load, Member, Occupant, PortRange, Reach, Refusal, Seat, SlotSelect, Standing,
    Unusable,
};
use skyhaul_core::packetize::Divided;
use skyhaul_core::wire::FAMILIES;
use skyhaul_core::wire::ejfat::{Addressing, EjfatLabels, EventPackets, EventShape, Reassembly};
use skyhaul_core::wire::labelled::Sync;
use skyhaul_io::source::Train;
use skyhaul_io::udp::forward::Forwarder;
use skyhaul_io::udp::send::SendOptions;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

/// The packets of an event whose octets are its number.
fn event(tick: u64, data_id: u16, bytes: u64) -> Vec<Vec<u8>> {
    let shape = EventShape {
        tick,
        data_id,
        event_bytes: bytes,
        packet_bytes: 1000,
        addressing: Some(Addressing::default()),
        ..EventShape::default()
    };
    let packets = EventPackets::new(&shape).unwrap();
    let octets = vec![tick as u8; bytes as usize];
    (0..packets.count()).map(|n| packets.datagram(n, &octets)).collect()
}

struct Worker {
    socket: UdpSocket,
    session: Session,
}

impl Worker {
    fn join(balance: &Balance, ip: &str, keep_label: bool, weight: f64) -> Worker {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let at = socket.local_addr().unwrap();
        let member = Member::new(at.ip(), at.port(), PortRange::default(), keep_label).unwrap();
        let like = Registration { member, weight, min_factor: 0.0, max_factor: 0.0 };
        Worker { socket, session: balance.register(like).unwrap() }
    }

    fn ready(&self, balance: &Balance) {
        let state = WorkerState { ready: true, signal: 0.0, load: Load::default() };
        balance.handle_state(self.session, state).unwrap();
    }

    /// Everything that has arrived.
    fn take(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut octets = [0; 2000];
        while let Ok(n) = self.socket.recv(&mut octets) {
            all.push(octets[..n].to_vec());
        }
        all
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn loopback(threads: usize) -> BalanceOptions {
    let any = "127.0.0.1:0".parse().unwrap();
    let allow = AllowList::of(&["127.0.0.1".parse().unwrap()]);
    BalanceOptions { data: vec![any], sync: vec![any], threads, allow, ..BalanceOptions::default() }
}

/// A table that has these workers is in use everywhere.
fn in_use(balance: &Balance, workers: &[&Worker]) {
    until("all threads use a table with the workers", || {
        workers.iter().for_each(|worker| worker.ready(balance));
        let status = balance.status();
        let served =
            |worker: &&Worker| status.workers.iter().any(|w| w.session == worker.session && w.slots > 0);
        workers.iter().all(served) && status.tables.0 == status.tables.1
    });
}

fn refused(status: &BalanceStatus) -> BTreeMap<&'static str, u64> {
    status.refused.iter().copied().filter(|(_, n)| *n > 0).collect()
}

#[test]
fn events_reach_one_worker_each_and_every_packet_is_counted() {
    let balance = Balance::start(&loopback(2)).unwrap();
    let workers = [("127.0.0.1", false, 1.0), ("127.0.0.1", true, 3.0)]
        .map(|(ip, keep, weight)| Worker::join(&balance, ip, keep, weight));
    in_use(&balance, &[&workers[0], &workers[1]]);
    // Several ports, so that both threads have some.
    let senders: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let (mut sent, mut came) = (0u64, [Vec::new(), Vec::new()]);
    for tick in 0..200 {
        for packet in event(tick, 7, 3500) {
            senders[tick as usize % 4].send_to(&packet, balance.data()[0]).unwrap();
            sent += 1;
        }
        workers.iter().for_each(|worker| worker.ready(&balance));
        // No socket overflows.
        until("it is forwarded", || balance.status().packets == sent);
        workers.iter().zip(&mut came).for_each(|(worker, came)| came.extend(worker.take()));
    }
    let (mut all, mut taken) = (BTreeMap::new(), [0u64; 2]);
    for (n, came) in came.iter().enumerate() {
        for packet in came {
            let packet: &[u8] = if n == 1 { &packet[16..] } else { packet };
            let (head, payload) = Reassembly::read(packet).unwrap();
            assert!(payload.iter().all(|&octet| octet == head.tick as u8));
            let (by, octets) = all.entry(head.tick).or_insert((n, 0));
            assert_eq!(*by, n, "event {} is split", head.tick);
            *octets += payload.len();
            taken[n] += 1;
        }
    }
    assert_eq!(all.len(), 200);
    assert!(all.values().all(|&(_, octets)| octets == 3500));
    let status = balance.stop();
    assert_eq!((status.packets, status.forwarded.packets, status.forwarded.unsent()), (sent, sent, 0));
    assert_eq!(status.workers.iter().map(|worker| worker.packets).collect::<Vec<_>>(), taken);
    assert_eq!(status.workers.iter().map(|worker| worker.slots).sum::<u16>(), 512);
    // Ticks 0 to 199 take slots 0 to 199 of a calendar that spreads three quarters evenly.
    assert!((500..700).contains(&taken[1]), "{taken:?}");
    assert_eq!(refused(&status), BTreeMap::new());
    assert_eq!(status.notes, Vec::<String>::new());
}

#[test]
fn what_is_refused_is_counted_by_its_reason() {
    let balance = Balance::start(&loopback(1)).unwrap();
    let (to, sync) = (balance.data()[0], balance.sync()[0]);
    let allowed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let blocked = UdpSocket::bind("127.0.0.2:0").unwrap();
    let good = event(1, 0, 100).remove(0);
    let mut sent = 0;
    let mut send = |socket: &UdpSocket, packet: &[u8]| {
        sent += 1;
        socket.send_to(packet, to).unwrap();
        until("it is counted", || balance.status().packets == sent);
    };
    send(&allowed, &good);
    let worker = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&worker]);
    send(&blocked, &good);
    send(&allowed, &good[..15]);
    send(&allowed, &good[..16]);
    send(&allowed, &[b'X'; 40]);
    send(&allowed, &[&b"LB\x04\x01"[..], &good[4..]].concat());
    send(&allowed, &good);
    let tables = balance.status().tables.0;
    balance.evict(worker.session).unwrap();
    until("nobody is sent anything", || {
        let status = balance.status();
        status.workers.iter().all(|worker| worker.standing == Standing::Evicted)
            && status.tables.0 == status.tables.1
            && status.tables.0 > tables
    });
    assert_eq!(worker.take().len(), 1, "only the packet that is right");
    send(&allowed, &good);

    let message = EjfatLabels::write_sync(&Sync { source: 3, tick: 5, rate: 1000, sent: 9 });
    for (socket, message) in
        [(&allowed, &message[..]), (&blocked, &message), (&allowed, &message[1..]), (&allowed, &[0; 28])]
    {
        socket.send_to(message, sync).unwrap();
    }
    until("messages are counted", || {
        let status = balance.status();
        status.syncs + status.refused_syncs.iter().map(|(_, n)| n).sum::<u64>() == 4
    });
    let status = balance.stop();
    let right = [
        ("no_epoch", 1),
        ("blocked_source", 1),
        ("truncated", 1),
        ("empty", 1),
        ("bad_magic", 1),
        ("bad_version", 1),
        ("evicted", 1),
    ];
    let mut now = refused(&status);
    // A calendar without the evicted worker may already be in use.
    if let Some(n) = now.remove("unassigned_slot").or(now.remove("no_member")) {
        *now.entry("evicted").or_default() += n;
    }
    assert_eq!(now, BTreeMap::from(right));
    assert_eq!((status.syncs, status.forwarded.packets), (1, 1));
    assert_eq!(status.refused_syncs, [("bad_magic", 1), ("blocked_source", 1), ("wrong_size", 1)]);
    assert_eq!(worker.take(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_worker_leaves_and_another_joins_without_a_split_event() {
    let mut options = loopback(2);
    // Times of a test, not of a network.
    options.config.period = skyhaul_core::placement::Nanos(100_000_000);
    let balance = Balance::start(&options).unwrap();
    let first = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&first]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let mut ticks = 0u64;
    let mut taken: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    let mut second = None;
    let mut left = false;
    loop {
        // Ticks are milliseconds; the packets of one are sent with a pause in between.
        let tick = begun.elapsed().as_millis() as u64;
        if tick > ticks {
            ticks = tick;
            for packet in event(tick, 0, 1800) {
                sender.send_to(&packet, balance.data()[0]).unwrap();
                std::thread::sleep(Duration::from_micros(300));
            }
            taken.entry(tick).or_insert((usize::MAX, 0));
        }
        let workers: Vec<&Worker> = std::iter::once(&first).chain(&second).collect();
        for (n, worker) in workers.iter().enumerate() {
            for packet in worker.take() {
                let (head, payload) = Reassembly::read(&packet).unwrap();
                let (by, octets) = taken.get_mut(&head.tick).unwrap();
                assert!(*by == usize::MAX || *by == n, "event {} is split", head.tick);
                (*by, *octets) = (n, *octets + payload.len());
            }
        }
        let by = |n: usize| taken.values().filter(|(by, _)| *by == n).count();
        if !left {
            first.ready(&balance);
        }
        if let Some(second) = &second {
            second.ready(&balance);
        }
        match &second {
            None if by(0) > 100 => second = Some(Worker::join(&balance, "127.0.0.1", false, 1.0)),
            Some(_) if !left && by(1) > 100 => {
                balance.deregister(first.session).unwrap();
                left = true;
            }
            Some(_) if left && balance.status().workers.len() == 1 => break,
            _ => {}
        }
        assert!(begun.elapsed() < LONG * 2, "{:?}", balance.status());
    }
    let status = balance.stop();
    assert!(status.epoch >= 3, "{status:?}");
    assert_eq!(refused(&status), BTreeMap::new());
    std::thread::sleep(Duration::from_millis(1));
    let last = second.unwrap();
    for packet in last.take() {
        let (head, payload) = Reassembly::read(&packet).unwrap();
        let (by, octets) = taken.get_mut(&head.tick).unwrap();
        assert!(*by == usize::MAX || *by == 1);
        (*by, *octets) = (1, *octets + payload.len());
    }
    assert_eq!(taken.values().find(|(_, octets)| *octets != 1800), None);
}

#[test]
fn what_cannot_start() {
    let nowhere = BalanceOptions { data: Vec::new(), ..loopback(1) };
    assert!(matches!(Balance::start(&nowhere), Err(BalanceError::NoData)));
    let frames = FAMILIES.iter().find(|family| family.name() == "vdif").unwrap();
    let error = Balance::start(&BalanceOptions { family: *frames, ..loopback(1) }).unwrap_err();
    assert_eq!(error.to_string(), "packets of vdif have no label that a balancer could read");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    for taken_is_data in [true, false] {
        let mut options = loopback(1);
        let at = if taken_is_data { &mut options.data } else { &mut options.sync };
        *at = vec![taken.local_addr().unwrap()];
        let error = Balance::start(&options).unwrap_err().to_string();
        assert!(error.contains("bind"), "{error}");
    }
}

#[test]
fn a_worker_is_told_only_of_what_it_was_sent() {
    let balance = Balance::start(&loopback(1)).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let first = Worker::join(&balance, "127.0.0.1", false, 1.0);
    in_use(&balance, &[&first]);
    let begun = Instant::now();
    sender.send_to(&event(1, 0, 10)[0], balance.data()[0]).unwrap();
    until("it is counted", || balance.status().workers[0].packets == 1);
    balance.evict(first.session).unwrap();
    until("its seat is free", || {
        // Data go on, so its calendars are over at some time.
        let tick = 2 + begun.elapsed().as_millis() as u64;
        sender.send_to(&event(tick, 0, 10)[0], balance.data()[0]).unwrap();
        balance.status().workers.is_empty()
    });
    let next = Worker::join(&balance, "127.0.0.1", false, 1.0);
    assert_eq!(next.session.seat(), first.session.seat());
    assert_ne!(next.session, first.session);
    assert_eq!(balance.status().workers[0].packets, 0);
    assert_eq!(balance.handle_state(first.session, WorkerState::default()), Err(StateError::NoSession));
    until("the next one is sent events, though nobody had any for a while", || {
        next.ready(&balance);
        let tick = 2 + begun.elapsed().as_millis() as u64;
        sender.send_to(&event(tick, 0, 10)[0], balance.data()[0]).unwrap();
        !next.take().is_empty()
    });
}

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
    assert_eq!(super::control::kind("127.255.255.255".parse().unwrap()), Kind::Broadcast);
}
