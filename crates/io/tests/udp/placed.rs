//! The program in the kernel and the interpreter of its rule give the same packets the same fate: bytes, slots, counters.

use skyhaul_core::placement::rule::{RuleAnswer, RuleCounts, RuleTable, RuleWake, SlotShape};
use skyhaul_core::wire::rdma::ddp::DdpHeader;
use skyhaul_core::wire::rdma::rdmap::RdmapOpcode;
use skyhaul_core::wire::rdma::rules::{CONNECTION, RuleRegion, WriteRule};
use skyhaul_core::wire::rdma::shim::{self, UcShim};
use skyhaul_io::udp::bpf::{NoPlacement, PlacedObjects, PlacementProgram};
use skyhaul_io::udp::send::SendMode;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const UNIT: u32 = 256;
const UNITS: u32 = 20;
const SLOTS: u32 = 8;
const CONNECTION_NUMBER: u32 = 0x00C0_FFEE;
const REGION: RuleRegion = RuleRegion { stag: 0x1234_5678, start: 512, length: 40_000, slot: 3 };

/// Bare Writes are recorded by region, others by message.
fn writes(is_uc: bool) -> WriteRule {
    let units = if is_uc { UNITS } else { (REGION.length as u32).div_ceil(UNIT) };
    WriteRule {
        shape: SlotShape { slots: SLOTS, units, unit_bytes: UNIT },
        regions: 2,
        element_bytes: 1 << 14,
        elements: 3,
        wake: RuleWake { completed: 2, begun: 3 },
    }
}

/// Numbers from a seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A segment of a message, often damaged: mostly of the messages for which slots are open.
fn packet(random: &mut Seeded, is_uc: bool, base: u64) -> Vec<u8> {
    if random.below(50) == 0 {
        let length = random.below(600) as usize;
        return (0..length).map(|_| random.below(256) as u8).collect();
    }
    let msn = (base + random.below(u64::from(SLOTS) + 3)) as u32;
    let units = msn % UNITS + 1;
    let unit = random.below(units.into()) as u32;
    let is_last = unit + 1 == units;
    let length = if is_last { msn % UNIT + 1 } else { UNIT };
    let offset = unit * UNIT;
    // Only what begins at a multiple of the unit is placed of bare Writes.
    let distance = if is_uc { 5000 } else { u64::from(UNITS * UNIT) };
    let to = u64::from(msn % 7) * distance + u64::from(offset);
    let mut bytes = Vec::new();
    if is_uc {
        let shim = UcShim {
            version: shim::VERSION,
            first: u16::from(unit == 0),
            conn_id: CONNECTION_NUMBER,
            // As its sender numbers them.
            psn: msn.wrapping_mul(UNITS).wrapping_add(unit),
            msn,
            offset,
            ..UcShim::default()
        };
        bytes.extend(shim.write());
    }
    bytes.extend(DdpHeader::tagged(RdmapOpcode::Write, is_last, REGION.stag, to).write());
    bytes.extend((0..length).map(|at| (at as u8) ^ msn as u8 ^ unit as u8));
    match random.below(12) {
        0 => {
            let at = random.below(32.min(bytes.len() as u64)) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        _ => {}
    }
    bytes
}

/// Packets that the kernel sends as one: of one length, but for the last, which may be shorter.
fn train(random: &mut Seeded, is_uc: bool, base: u64, longest: u64) -> Vec<Vec<u8>> {
    let wanted = random.below(longest) as usize + 1;
    let mut packets = vec![packet(random, is_uc, base)];
    while packets.len() < wanted {
        let next = packet(random, is_uc, base);
        let length = packets[0].len();
        if next.len() <= length && !next.is_empty() {
            let is_shorter = next.len() < length;
            packets.push(next);
            if is_shorter {
                break;
            }
        } else if packets.len() == 1 {
            packets[0] = next;
        }
    }
    packets
}

/// Plays random packets to program and interpreter, in trains of up to `longest`.
fn agree(at: &str, is_uc: bool, longest: u64) {
    let rule = if is_uc { writes(is_uc).uc() } else { writes(is_uc).bare() };
    let mut placer = match PlacementProgram::new(&rule) {
        Ok(placer) => placer,
        // An ordinary user may load no program; any other reason is a fault.
        Err(why) if why.why == NoPlacement::Forbidden => return eprintln!("SKIPPED: {why}"),
        Err(why) => panic!("{why}"),
    };
    let receiver = UdpSocket::bind(at).unwrap();
    placer.attach(receiver.as_fd()).unwrap();
    let to = format!("udp://{}", receiver.local_addr().unwrap()).parse().unwrap();
    let mut sender = crate::sender(&to, SendMode::Gso);
    if longest > 1 {
        // Sets UDP_GRO, without which the kernel takes trains apart before the program.
        let options = UdpOptions { tier: Tier::Stage, ..UdpOptions::default() };
        UdpSource::from_fd(receiver.try_clone().unwrap().into(), &options).unwrap();
    }

    // The other owner of the socket had made it wait.
    receiver.set_nonblocking(true).unwrap();

    let mut table = RuleTable::new(&rule);
    let mut set = |at: u16, value: u64| {
        placer.set_parameter(at, value);
        table.parameters[usize::from(at)] = value;
    };
    set(CONNECTION, CONNECTION_NUMBER.into());
    for (at, value) in (RuleRegion::parameter(1)..).zip(REGION.row()) {
        set(at, value);
    }
    let (element, elements) = rule.arena();
    let mut memory = vec![0u8; element * elements as usize];
    let mut counts = RuleCounts::default();
    let mut random = Seeded(33);
    let mut base = u64::from(u32::MAX) - 40;
    for slot in 0..SLOTS {
        let number = (base + u64::from((slot + SLOTS - base as u32 % SLOTS) % SLOTS)) & u64::from(u32::MAX);
        placer.open(slot, number);
        table.open(&rule, slot, number);
    }
    let packets: u64 =
        std::env::var("SKYHAUL_PLACED_PACKETS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mut buffer = vec![0u8; 1 << 16];
    let (mut n, mut turn) = (0, 0);
    while n < packets {
        turn += 1;
        if turn % (150 / longest.min(15)) == 0 {
            // UC: the oldest message is taken, and its slot given to the next. Bare: the region's record begins anew.
            let slot = if is_uc { (base as u32) % SLOTS } else { REGION.slot };
            let taken = placer.take(slot);
            let words = table.slot(&rule, slot).to_vec();
            assert_eq!((taken.number, taken.arrived), (words[0] >> 1, words[1]), "packet {n}");
            let next = (base + u64::from(SLOTS)) & u64::from(u32::MAX);
            placer.open(slot, next);
            table.open(&rule, slot, next);
            base = (base + 1) & u64::from(u32::MAX);
        }
        let train = train(&mut random, is_uc, base, longest);
        let slices: Vec<[IoSlice<'_>; 1]> = train.iter().map(|packet| [IoSlice::new(packet)]).collect();
        assert_eq!(sender.send_train(&slices).unwrap().packets, train.len());
        n += train.len() as u64;
        let mut placed = Vec::new();
        let whole: Vec<&[u8]> = train.iter().map(Vec::as_slice).collect();
        let answer = rule.judge_train(&whole, &mut table, &mut counts, |answer, payload| {
            if let RuleAnswer::Placed { address, length, .. } = *answer {
                memory[address as usize..][..payload.len()].copy_from_slice(payload);
                placed.push((address, length));
            }
        });
        let front = train[..answer.passed].concat();
        let expected = (answer.passed > 0 || answer.wakes).then_some(&front[..]);
        let arrived = received(&receiver, &placer, n, expected.is_some(), &mut buffer);
        assert_eq!(arrived, expected, "before packet {n}: {train:?}");
        for (address, length) in placed {
            let mut there = vec![0; length as usize];
            placer.read(address, &mut there);
            assert_eq!(there, memory[address as usize..][..length as usize], "before packet {n}");
        }
    }
    assert_eq!(placer.counts(), counts);
    assert_eq!(counts.packets(), n);
    for slot in 0..SLOTS {
        assert_eq!(placer.slot(slot), table.slot(&rule, slot), "slot {slot}");
    }
    let mut all = vec![0; memory.len()];
    placer.read(0, &mut all);
    assert!(all == memory, "memory");
    assert!(counts.placed > n / 100, "{counts:?}");
    assert!(longest == 1 || counts.runs < n / 3, "trains are one run: {counts:?}");
    eprintln!("{at}, {}, trains of {longest}: {counts:?}", if is_uc { "uc" } else { "bare" });
}

/// What the socket has after the program has seen so many packets. On a busy machine the kernel delivers later than `send` returns.
fn received<'a>(
    receiver: &UdpSocket,
    placer: &PlacementProgram,
    packets: u64,
    is_expected: bool,
    buffer: &'a mut [u8],
) -> Option<&'a [u8]> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let has_seen = placer.counts().packets() >= packets;
        match receiver.recv(buffer) {
            Ok(length) => return Some(&buffer[..length]),
            // The program counts a packet before the socket has it.
            Err(_) if has_seen && !is_expected => return None,
            Err(_) if Instant::now() > end => return None,
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn the_kernel_places_as_the_interpreter_does() {
    agree("127.0.0.1:0", true, 1);
    agree("[::1]:0", true, 1);
    agree("127.0.0.1:0", false, 1);
}

#[test]
fn the_kernel_places_trains_as_the_interpreter_does() {
    // Some are longer than a program follows.
    agree("127.0.0.1:0", true, 60);
    agree("[::1]:0", true, 8);
    agree("127.0.0.1:0", false, 60);
}
