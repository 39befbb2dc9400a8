//! Events to sockets: octets, ticks, ports and messages.

use super::*;
use crate::send::objects::{ObjectOptions, Order};
use crate::send::{Deliver, Outlet, Pacing, SendError};
use skyhaul_core::pattern;
use skyhaul_core::wire::ejfat::{BalancerV3, Reassembly, Segment, SyncMessage};
use skyhaul_core::wire::{Addressing, BalancerVersion, PortRule, SlotRule};
use skyhaul_io::gathered::Gathered;
use skyhaul_io::udp::send::Sent;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Only a hang lasts this long.
const LIMIT: Duration = Duration::from_secs(60);

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

/// The next datagram, and who sent it.
fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut packet = vec![0; 70_000];
    let (bytes, from) = socket.recv_from(&mut packet).unwrap();
    packet.truncate(bytes);
    (packet, from)
}

fn counted(next: u64, step: u64) -> EventSenderOptions {
    EventSenderOptions { ticks: Ticks::Counted { next, step }, ..EventSenderOptions::default() }
}

#[test]
fn a_receiver_gets_segments_and_a_balancer_its_header_too() {
    let (receiver, at) = socket();
    let direct = Target::read(&at.to_string(), false).unwrap();
    let uri = format!("ejfat://secret@127.0.0.1:1/lb/1?data={at}");
    let balanced = Target::read(&uri, false).unwrap();
    assert_eq!(balanced.to_string(), format!("udp://{at} (balancer)"));
    for (target, version) in
        [(&direct, None), (&balanced, Some(BalancerVersion::V2)), (&balanced, Some(BalancerVersion::V3))]
    {
        let mut options = counted(500, 7);
        options.config.division = EventDivision {
            packet_bytes: 100,
            addressing: version.map(|version| Addressing {
                version,
                slot: SlotRule::Tick,
                port: PortRule::Source,
            }),
            version: 2,
        };
        let sender = EventSender::open(target, options).unwrap();
        for tick in [500, 507] {
            let sent = sender.send(&Event::pattern(9, tick, 250), None).unwrap();
            let mut whole = vec![0; 250];
            let mut bytes = 0;
            while bytes < sent {
                let (packet, _) = receive(&receiver);
                bytes += packet.len() as u64;
                let head = if version.is_some() { 16 } else { 0 };
                if let Some(version) = version {
                    let (balancer, _) = BalancerV3::read(&packet).unwrap();
                    let slot = if version == BalancerVersion::V3 { tick as u16 } else { 0 };
                    assert_eq!((balancer.slot_select, balancer.port_select, balancer.tick), (slot, 9, tick));
                }
                let (segment, payload) = Reassembly::read(&packet[head..]).unwrap();
                assert_eq!(
                    (segment.version, segment.data_id, segment.length, segment.tick),
                    (2, 9, 250, tick)
                );
                whole[segment.offset as usize..][..payload.len()].copy_from_slice(payload);
            }
            assert_eq!(pattern::first_error(tick, 0, &whole), None);
        }
    }
}

#[test]
fn sockets_and_ports_are_used_in_turn() {
    let (first, at) = socket();
    let mut options = counted(0, 1);
    options.sockets = 3;
    let sender = EventSender::open(&Target::read(&at.to_string(), false).unwrap(), options).unwrap();
    for _ in 0..6 {
        sender.send(&Event::from(1, vec![1; 10]), None).unwrap();
    }
    let mut ports = BTreeMap::new();
    for _ in 0..6 {
        *ports.entry(receive(&first).1.port()).or_insert(0) += 1;
    }
    assert_eq!(ports.values().copied().collect::<Vec<i32>>(), [2, 2, 2]);
    let range = Target::read("ejfat://h:1/?data=127.0.0.1:20000-20002", false).unwrap();
    let used: Vec<u16> = range.endpoints(4).iter().map(|to| to.address.port()).collect();
    assert_eq!(used, [20000, 20001, 20002, 20000]);
}

#[test]
fn a_balancer_is_told_of_ticks() {
    let (data, data_at) = socket();
    let (sync, sync_at) = socket();
    let uri = format!("ejfat://127.0.0.1:1/lb/1?data={data_at}&sync={sync_at}");
    let target = Target::read(&uri, false).unwrap();
    let told = || SyncMessage::parse(&receive(&sync).0).unwrap();
    for ticks in [Ticks::Counted { next: 1000, step: 50 }, Ticks::default()] {
        let options = EventSenderOptions {
            ticks,
            syncs: SyncOptions { period: Duration::from_millis(20), source: 77 },
            warm_up: Duration::from_millis(50),
            ..EventSenderOptions::default()
        };
        let sender = EventSender::open(&target, options).unwrap();
        let before = told();
        assert_eq!(before.source, 77);
        sender.send(&Event::from(1, vec![1; 10]), None).unwrap();
        sender.send(&Event::from(1, vec![1; 10]), None).unwrap();
        receive(&data);
        let tick = BalancerV3::read(&receive(&data).0).unwrap().0.tick;
        if ticks == Ticks::default() {
            assert!(before.tick > 1_600_000_000_000_000 && tick > before.tick, "microseconds since 1970");
            assert_eq!(before.rate, 1_000_000);
        } else {
            assert_eq!((before.tick, before.rate, tick), (1000, 0, 1050), "nothing was sent yet");
            let last = std::iter::repeat_with(told).find(|sync| sync.tick == 1050).unwrap();
            assert!(last.rate > 0);
        }
        assert!(sender.syncs().unwrap().sent > 1);
        drop(sender);
        sync.set_nonblocking(true).unwrap();
        while sync.recv(&mut [0; 100]).is_ok() {}
        sync.set_nonblocking(false).unwrap();
    }
}

#[test]
fn ticks_of_a_clock_ascend_whatever_it_does() {
    let mut ticks = Ticks::default();
    let taken: Vec<u64> = [10, 10, 10, 50, 3, 60].map(|now| ticks.take(now)).into();
    assert_eq!(taken, [10, 11, 12, 50, 51, 60]);
    assert_eq!((ticks.peek(7), ticks.peek(7)), (61, 61));
    let mut ticks = Ticks::Counted { next: u64::MAX, step: 2 };
    assert_eq!((ticks.take(0), ticks.take(0)), (u64::MAX, 1));
}

/// Reads the heads, and does not touch the payload.
struct Heads(Arc<Mutex<(u64, BTreeSet<u64>)>>);

impl Deliver for Heads {
    fn deliver(&mut self, _: usize, packets: Gathered<'_>) -> io::Result<Sent> {
        let mut seen = self.0.lock().unwrap();
        for n in 0..packets.count() {
            let slices = packets.packet(n);
            let (segment, _) = Reassembly::read(&slices[0]).unwrap();
            assert_eq!(segment.length, u32::MAX);
            assert_eq!(u64::from(segment.offset), seen.0, "in order");
            seen.0 += packets.length(n) as u64 - 20;
            seen.1.insert(segment.tick);
        }
        Ok(Sent { packets: packets.count(), bytes: packets.bytes(), refused: 0 })
    }
}

#[test]
fn the_largest_event_goes_whole() {
    let seen = Arc::new(Mutex::default());
    let config = EventConfig {
        division: EventDivision { packet_bytes: 65_000, ..EventDivision::default() },
        ..EventConfig::default()
    };
    let stream = EventStream::new(Outlet::Custom(Box::new(Heads(seen.clone()))), config).unwrap();
    let largest = Event::pattern(1, 5, u64::from(u32::MAX));
    let options = ObjectOptions { counter: Some(5), ..ObjectOptions::default() };
    stream.send_all(&[(&largest, options)], Order::Serial).unwrap();
    assert_eq!(*seen.lock().unwrap(), (u64::from(u32::MAX), BTreeSet::from([5])));
}

#[test]
fn what_cannot_be_sent_is_explained() {
    let (_, at) = socket();
    let target = Target::read(&at.to_string(), false).unwrap();
    let open = |division: EventDivision, pacing| {
        let config = EventConfig { division, pacing, ..EventConfig::default() };
        EventSender::open(&target, EventSenderOptions { config, ..EventSenderOptions::default() })
    };
    let said = |division| open(division, Pacing::default()).unwrap_err().to_string();
    assert!(said(EventDivision { packet_bytes: 20, ..EventDivision::default() }).contains("at least 21"));
    assert!(said(EventDivision { packet_bytes: 70_000, ..EventDivision::default() }).contains("too large"));
    assert!(said(EventDivision { version: 3, ..EventDivision::default() }).contains("use 1, or 0 or 2"));
    let sender = open(EventDivision::default(), Pacing::default()).unwrap();
    let empty = sender.send(&Event::new(1), None).unwrap_err();
    assert!(matches!(&empty, SendError::Packets(text) if text.contains("0 bytes")), "{empty}");
    let read = |text: &str| Target::read(text, false).unwrap_err().to_string();
    assert!(read("tcp://127.0.0.1:9").contains("not tcp; hint: use a udp:// address"));
    assert!(read("ejfat://secret@lb:18008/lb/1").contains("lb:18008 has no data="));
    assert!(read("ejfat://secret@lb:18008/lb/1?data=x").contains("`x` is no data address"));
    for text in ["ejfat://secret@lb:18008/lb/1", "ejft://secret@lb:1", "secret@lb:1"] {
        assert!(!read(text).contains("secret"), "{text}");
    }
}

#[test]
fn a_v6_address_is_taken_where_it_is_asked_for() {
    let uri = "ejfat://h:1/?data=127.0.0.1:20000&data=[::1]:20001&sync=127.0.0.1:5&sync=[::1]:6";
    let (v4, v6) = (Target::read(uri, false).unwrap(), Target::read(uri, true).unwrap());
    assert_eq!((v4.first().address.port(), v4.overhead(), v4.sync.unwrap().address.port()), (20000, 28, 5));
    assert_eq!((v6.first().address.port(), v6.overhead(), v6.sync.unwrap().address.port()), (20001, 48, 6));
    let only = Target::read("ejfat://h:1/?data=[::1]:20001", false).unwrap();
    assert_eq!(only.first().address.port(), 20001);
}

#[test]
fn events_leave_at_their_rate() {
    let (receiver, at) = socket();
    let mut options = counted(0, 1);
    options.events_per_second = Some(1000.0);
    let sender = EventSender::open(&Target::read(&at.to_string(), false).unwrap(), options).unwrap();
    let begun = std::time::Instant::now();
    let event = Event::from(1, vec![1; 100]);
    let all: Vec<(&Event, u64)> = (0..51).map(|tick| (&event, tick)).collect();
    sender.send_all(&all).unwrap();
    // The first goes at once; a busy machine only makes it longer.
    assert!(begun.elapsed() >= Duration::from_millis(49), "{:?}", begun.elapsed());
    (0..51).for_each(|tick| assert_eq!(Segment::read(&receive(&receiver).0).unwrap().tick, tick));
}
