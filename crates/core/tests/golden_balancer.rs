//! The packets of ESnet's simulated data plane (udplb, `p4/sim/test-1`), routed by tables like its own: two balancers, one
//! with calendars of 8 slots chosen with `xor`, one that keeps labels; versions 2 and 3; IPv4 and IPv6; senders that are not
//! allowed. What it sent on is known by a checksum of its capture: address, port, length and octets of each of 88 packets. The
//! kernel's program, in an interpreter, sends the same.

#[path = "xdp/frames.rs"]
mod frames;
#[path = "xdp/machine.rs"]
mod machine;

use machine::{Machine, Verdict};
use skyhaul_core::balance::xdp::{image, program};
use skyhaul_core::balance::{
    AllowList, Calendar, Counters, Epoch, Member, Occupant, PortRange, Prefix, Refusal, Seat, SlotSelect,
    Table,
};
use skyhaul_core::wire::ejfat::EjfatLabels;
use skyhaul_core::wire::labelled::Labelled;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Of the capture `expected/packets_out.pcap`, without the answers to ARP, pings and neighbour solicitations.
const SENT: (usize, u64) = (88, 0x6e1c_7c0b_0f4d_5427);
/// What is divided into segments, and how.
const EVENT: (usize, usize) = (1050, 100);

/// FNV-1a, of 64 bits.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    fn add(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// One side of one balancer: the worker it knows for an address family, and the senders it hears.
struct Side {
    allowed: &'static str,
    /// Allowed at the other balancer only.
    refused: &'static str,
    worker: (&'static str, u16, u8),
    keeps: bool,
    select: SlotSelect,
    /// The slots that the worker has: before tick 16, and from there.
    slots: (u16, u16),
    /// What is sent: tick, entropy, and the channel in the segments' head.
    tick: u64,
    entropy: u16,
    channel: u16,
}

impl Side {
    fn table(&self) -> Table {
        let seat = Seat::new(0).expect("a seat");
        let calendar = |slot| {
            let mut calendar = Calendar::default();
            calendar.set(slot, Some(seat));
            Arc::new(calendar)
        };
        let epoch = |first, slot| Epoch { first, calendar: calendar(slot), select: self.select };
        let (ip, port, bits) = self.worker;
        let member = Member::new(address(ip), port, PortRange::new(bits).expect("a range"), self.keeps)
            .expect("a member");
        let allow = AllowList::of(&[Prefix::host(address(self.allowed))]);
        let epochs = vec![epoch(0, self.slots.0), epoch(0x10, self.slots.1)];
        Table::new(allow, epochs, &[(seat, Occupant::Member(member))])
    }

    fn packet(&self, version: u8, offset: usize) -> Vec<u8> {
        let slot = if version == 3 { self.tick as u16 } else { 0 };
        let (all, most) = EVENT;
        let first = u16::from(offset == 0) << 1;
        let last = u16::from(offset + most > all);
        let mut packet = vec![b'L', b'B', version, 1];
        for word in [slot, self.entropy] {
            packet.extend(word.to_be_bytes());
        }
        packet.extend(self.tick.to_be_bytes());
        for word in [first | last, self.channel] {
            packet.extend(word.to_be_bytes());
        }
        packet.extend((offset as u32).to_be_bytes());
        packet.resize(packet.len() + most.min(all - offset), 0);
        packet
    }

    /// Send an event, and a segment from the sender that is not allowed.
    fn play(&self, version: u8, sent: &mut (usize, Checksum)) {
        let (table, mut counters) = (self.table(), Counters::default());
        let packets: Vec<Vec<u8>> =
            (0..EVENT.0).step_by(EVENT.1).map(|at| self.packet(version, at)).collect();
        let mut routes = [Err(Refusal::Empty); 16];
        let source = address(self.allowed);
        let train = packets.iter().map(Vec::as_slice);
        let count = table.route_train::<EjfatLabels>(source, train, &mut routes, &mut counters);
        for (packet, route) in packets.iter().zip(&routes[..count]) {
            let route = route.expect("forwarded");
            let to = table.address(route).expect("a member");
            match to.ip() {
                IpAddr::V4(ip) => sent.1.add(&ip.octets()),
                IpAddr::V6(ip) => sent.1.add(&ip.octets()),
            }
            let octets = &packet[usize::from(route.skip)..];
            assert_eq!(by_program(&table, source, packet), Some((to, octets.to_vec())));
            sent.1.add(&to.port().to_be_bytes());
            sent.1.add(&(octets.len() as u16).to_be_bytes());
            sent.1.add(octets);
            sent.0 += 1;
        }
        let stranger = address(self.refused);
        table.route_train::<EjfatLabels>(stranger, [packets[0].as_slice()], &mut routes, &mut counters);
        assert_eq!(routes[0], Err(Refusal::BlockedSource));
        assert_eq!((counters.packets, counters.refused_total()), (count as u64 + 1, 1));
        assert_eq!(by_program(&table, stranger, &packets[0]), None);
    }
}

/// Where the kernel's program sends a packet, and what of it.
fn by_program(table: &Table, source: IpAddr, packet: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
    let program = program::<EjfatLabels>(&frames::inlet(1)).expect("a program");
    let image = image(table, EjfatLabels::LAYOUT.bytes, |_| Some(frames::hop(9)));
    let listen = if source.is_ipv4() { frames::V4 } else { frames::V6 };
    let listen: SocketAddr = listen.parse().expect("an address");
    let mut frame = frames::frame(SocketAddr::new(source, 4000), listen, packet);
    if Machine::new(&program, image).run(&mut frame, 128) == Verdict::Pass {
        return None;
    }
    assert!(frames::is_sound(&frame));
    let (ip, udp): (IpAddr, usize) = match source {
        IpAddr::V4(_) => (<[u8; 4]>::try_from(&frame[30..34]).expect("four").into(), 34),
        IpAddr::V6(_) => (<[u8; 16]>::try_from(&frame[38..54]).expect("sixteen").into(), 54),
    };
    let port = u16::from_be_bytes([frame[udp + 2], frame[udp + 3]]);
    Some((SocketAddr::new(ip, port), frame[udp + 8..].to_vec()))
}

#[test]
fn packets_go_where_the_simulated_hardware_sent_them() {
    let eight = SlotSelect::new(3, 0xffff).unwrap();
    let all = SlotSelect::default();
    let v4 = |allowed, refused, worker, keeps, select, slots| Side {
        allowed,
        refused,
        worker,
        keeps,
        select,
        slots,
        tick: 10,
        entropy: 1,
        channel: 0xabc,
    };
    let v6 = |allowed, refused, worker, keeps, select, slots| Side {
        tick: 20,
        entropy: 9,
        channel: 0x123,
        ..v4(allowed, refused, worker, keeps, select, slots)
    };
    let first = [
        v4("10.1.2.2", "10.1.2.10", ("170.187.204.221", 0x4556, 4), false, eight, (5, 3)),
        v6("fe80::1", "fe80::10", ("fe80:aa00::3", 0x4556, 4), false, eight, (5, 3)),
    ];
    let second = [
        v4("10.1.2.10", "10.1.2.2", ("10.11.12.13", 0x4c42, 0), true, all, (0x00a, 0x014)),
        v6("fe80::10", "fe80::1", ("fe80:aa00::4", 0x4c42, 0), true, all, (0x00a, 0x014)),
    ];
    let mut sent = (0, Checksum(0xcbf2_9ce4_8422_2325));
    for sides in [first, second] {
        for version in [2, 3] {
            for side in &sides {
                side.play(version, &mut sent);
            }
        }
    }
    assert_eq!((sent.0, sent.1.0), SENT);
}
