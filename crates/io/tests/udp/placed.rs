//! The program in the kernel and the interpreter of its rule give the same packets the same fate: bytes, slots, counters.

use skyhaul_core::placement::rule::{
    BLOCK, LoggedPacket, PlacementRule, RuleAnswer, RuleCounts, RuleStep, RuleTable, RuleTarget, RuleWake,
    SlotShape,
};
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::layout::{Blocks, LayoutRule};
use skyhaul_core::wire::lofar::{LofarLayout, Rsp, SLICES};
use skyhaul_core::wire::rdma::ddp::DdpHeader;
use skyhaul_core::wire::rdma::rdmap::RdmapOpcode;
use skyhaul_core::wire::rdma::rules::{CONNECTION, RuleRegion, WriteRule};
use skyhaul_core::wire::rdma::shim::{self, UcShim};
use skyhaul_core::wire::spead::packets::{HeapShape, Plan, Split};
use skyhaul_core::wire::spead::{Flavour, HeapLearner, LearnedHeaps};
use skyhaul_core::wire::vdif::{Vdif, VdifLayout};
use skyhaul_core::wire::vtp;
use skyhaul_io::udp::bpf::{NoPlacement, PlacedObjects, PlacementProgram};
use skyhaul_io::udp::send::SendMode;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const UNIT: u32 = 256;
const UNITS: u32 = 20;
const WAKE: RuleWake = RuleWake { completed: 2, begun: 3 };
const SLOTS: u32 = 8;
const CONNECTION_NUMBER: u32 = 0x00C0_FFEE;
const REGION: RuleRegion = RuleRegion { stag: 0x1234_5678, start: 512, length: 40_000, slot: 3 };

type MakePacket = Box<dyn Fn(&mut Seeded, u64) -> Vec<u8>>;

/// Packets, often damaged: mostly of the objects for which slots are open.
struct Packets {
    rule: PlacementRule,
    parameters: Vec<(u16, u64)>,
    /// The oldest object for which a slot is open at first.
    base: u64,
    /// Numbers of objects are these bits.
    mask: u64,
    /// The slot that is taken next, when this is the oldest object.
    taken: fn(u64) -> u32,
    /// A packet, of an object near this one.
    packet: MakePacket,
}

/// Writes of the connection, bare or not.
fn of_writes(is_uc: bool) -> Packets {
    let writes = writes(is_uc);
    let region = (RuleRegion::parameter(1)..).zip(REGION.row());
    Packets {
        rule: if is_uc { writes.uc() } else { writes.bare() },
        parameters: std::iter::once((CONNECTION, CONNECTION_NUMBER.into())).chain(region).collect(),
        base: u64::from(u32::MAX) - 40,
        mask: u64::from(u32::MAX),
        // UC: of the oldest message. Bare: the region's record begins anew.
        taken: if is_uc { |base| (base % u64::from(SLOTS)) as u32 } else { |_| REGION.slot },
        packet: Box::new(move |random, base| packet(random, is_uc, base)),
    }
}

/// Packets of equal length that a layout places, from the object `base` on. `packet` makes the one at a position.
fn of_layout(
    LayoutRule { rule, parameters }: LayoutRule,
    base: u64,
    packet: impl Fn(&mut Seeded, u64) -> Vec<u8> + 'static,
) -> Packets {
    let units = u64::from(rule.shape.units);
    let head = u64::from(rule.head_bytes);
    Packets {
        rule,
        parameters: (0..).zip(parameters).collect(),
        base,
        mask: u64::MAX >> 1,
        taken: |base| (base % u64::from(SLOTS)) as u32,
        packet: Box::new(move |random, base| {
            let position = base * units + random.below(u64::from(SLOTS + 3) * units);
            let mut bytes = packet(random, position);
            let filled = bytes.len() - head as usize;
            bytes[head as usize..].copy_from_slice(&noise(random, filled));
            match random.below(12) {
                0 => bytes[random.below(head) as usize] ^= 1 << random.below(8),
                1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                _ => {}
            }
            bytes
        }),
    }
}

fn noise(random: &mut Seeded, bytes: usize) -> Vec<u8> {
    let first = random.below(256);
    (0..bytes).map(|at| (at as u64 ^ first) as u8).collect()
}

/// One of each kind of layout: LOFAR lanes; VDIF by a sequence number; VDIF threads by time.
fn of_layouts() -> [Packets; 3] {
    let like =
        Rsp { version: 3, clock: 1, sample: 1, beamlets: 2, slices: SLICES, station: 214, ..Rsp::default() };
    let lanes = [3u16, 0, 7];
    let bytes = Rsp::LEN + like.payload_bytes().unwrap();
    let blocks = Blocks::new(bytes, 0, lanes.len(), 12 * bytes as u64).unwrap();
    let rule = LofarLayout::new(blocks, &like, &lanes).unwrap().rule(Some(214), SLOTS, WAKE).unwrap();
    let units = u64::from(rule.rule.shape.units);
    let slices = 1_656_500_000u64 * 195_312 / u64::from(SLICES) * u64::from(SLICES);
    let first = slices / u64::from(SLICES) * 3;
    let lofar = of_layout(rule, first.div_ceil(units), move |_, position| {
        let (time, lane) = (position / 3 * u64::from(SLICES), lanes[(position % 3) as usize]);
        let mut packet = Rsp { lane, ..like }.at(time).unwrap().write().to_vec();
        packet.resize(bytes, 0);
        packet
    });

    let frame = Vdif::shape(64, 1, 2, false, false).unwrap();
    let numbered = 8 + frame.frame_bytes();
    let blocks = Blocks::new(numbered, 8, 1, 12 * numbered as u64).unwrap();
    let layout = VdifLayout::by_sequence(blocks, &frame, Order::Little).unwrap();
    let by_sequence = of_layout(layout.rule(0, SLOTS, WAKE).unwrap(), 1 << 40, move |_, position| {
        let mut packet = [&vtp::write(position, Order::Little)[..], &frame.write()].concat();
        packet.resize(numbered, 0);
        packet
    });

    let (bytes, fps, threads) = (frame.frame_bytes(), 25u32, [(5u16, 0), (0, 0), (1023, 0)]);
    let blocks = Blocks::new(bytes, 0, threads.len(), 12 * bytes as u64).unwrap();
    let layout = VdifLayout::by_time(blocks, &frame, &threads, Some(fps)).unwrap();
    let first = frame.at(1_767_225_600 + 12_345, 0).unwrap();
    let rule = layout.rule(first.epoch as u8, SLOTS, WAKE).unwrap();
    let begin = first.seconds_since_2000() * u64::from(fps) * 3;
    let base = begin.div_ceil(u64::from(rule.rule.shape.units));
    let by_time = of_layout(rule, base, move |_, position| {
        let (frames, thread) = ((position - begin) / 3, threads[(position % 3) as usize].0.into());
        let (later, number) = ((frames / u64::from(fps)) as u32, (frames % u64::from(fps)) as u32);
        let header = Vdif { seconds: first.seconds + later, frame: number, thread, ..first };
        let mut packet = header.write().to_vec();
        packet.resize(bytes, 0);
        packet
    });
    [lofar, by_sequence, by_time]
}

/// Bare Writes are recorded by region, others by message.
fn writes(is_uc: bool) -> WriteRule {
    let units = if is_uc { UNITS } else { (REGION.length as u32).div_ceil(UNIT) };
    WriteRule {
        shape: SlotShape { slots: SLOTS, units, unit_bytes: UNIT },
        regions: 2,
        element_bytes: 1 << 14,
        elements: 3,
        wake: WAKE,
    }
}

/// The same for an engine that decides itself: blocks anywhere, and a log.
fn logged() -> [Packets; 4] {
    let [lofar, by_sequence, by_time] = of_layouts().map(|of| {
        let parameters = of.parameters.iter().map(|&(_, value)| value).collect();
        let element = of.rule.shape.slot_bytes() as u32 + 4096;
        let logged = LayoutRule { rule: of.rule, parameters }.logged((element, SLOTS + 5), 1 << 8).unwrap();
        Packets { rule: logged.rule, ..of }
    });
    [lofar, by_sequence, by_time, of_heaps()]
}

/// Heaps of one size, with two items in the first packet, whose layout is learned from some of them.
fn of_heaps() -> Packets {
    const STRIDE: u64 = 3;
    let flavour = Flavour::SPEAD_64_48;
    let packets = move |counter: u64| {
        let pointers = [flavour.immediate(0x1600, counter & 0xFF), flavour.addressed(0x1601, 0)];
        let shape = HeapShape {
            flavour,
            counter,
            payload_bytes: 4000,
            pointers: &pointers,
            packet_bytes: 256,
            repeat_pointers: false,
            split: Split::Even,
        };
        let plan = Plan::new(&shape).unwrap();
        let packet = |n| {
            let mut head = vec![0; plan.head_bytes_max()];
            let part = plan.packet(&pointers, n, &mut head);
            head.truncate(part.head);
            head.resize(part.head + (part.payload.end - part.payload.start) as usize + part.dummy, 0);
            (head, part.head)
        };
        (0..plan.count()).map(packet).collect::<Vec<_>>()
    };
    let base = 1u64 << 40;
    let mut learner = HeapLearner::default();
    (base..base + 20).flat_map(|n| packets(n * STRIDE + 1)).for_each(|(packet, _)| learner.note(&packet));
    let LearnedHeaps::Layout(layout) = learner.learned() else { panic!("{:?}", learner.learned()) };
    let element = layout.element_bytes().next_multiple_of(8) as u32;
    let rule = layout.rule((element, SLOTS + 5), (SLOTS, 1 << 12), WAKE).unwrap();
    let pads = rule.steps.iter().any(|step| matches!(step, RuleStep::Words { .. }));
    assert!(pads, "the last packet of a heap is padded with 13 pointers");
    Packets {
        rule,
        parameters: Vec::new(),
        base,
        mask: u64::MAX >> 1,
        taken: |base| (base % u64::from(SLOTS)) as u32,
        packet: Box::new(move |random, base| {
            let mut all = packets((base + random.below(u64::from(SLOTS + 3))) * STRIDE + 1);
            let (mut bytes, head) = all.swap_remove(random.below(all.len() as u64) as usize);
            let filled = bytes.len() - head;
            bytes[head..].copy_from_slice(&noise(random, filled));
            match random.below(12) {
                0 => bytes[random.below(head as u64) as usize] ^= 1 << random.below(8),
                1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                _ => {}
            }
            bytes
        }),
    }
}

/// Opens a slot of both; where blocks may be anywhere, in another one each time.
fn open(placer: &mut PlacementProgram, table: &mut RuleTable, rule: &PlacementRule, slot: u32, number: u64) {
    table.open(rule, slot, number);
    let RuleTarget::Block { elements, .. } = rule.target else { return placer.open(slot, number) };
    let element = (number % u64::from(elements)) as u32;
    placer.begin_in(slot, number, element);
    table.slot(rule, slot)[BLOCK] = element.into();
}

/// What the program has logged of the last train, if it had room, is what the interpreter did.
fn logs_agree(placer: &mut PlacementProgram, table: &mut RuleTable) {
    let Some((packets, passed)) = table.log.pop() else { return };
    let end = Instant::now() + Duration::from_secs(20);
    let mut seen = Vec::new();
    let run = loop {
        let bytes_of = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut each = |packet, head: &[u64]| {
            let is_placed = matches!(packet, LoggedPacket::Placed { .. });
            seen.push((packet, if is_placed { bytes_of(head) } else { Vec::new() }));
        };
        match placer.log().unwrap().take(&mut each) {
            Some(run) => break run,
            None => assert!(Instant::now() < end, "a run is not in the log"),
        }
    };
    assert_eq!((run.passed, run.packets, seen), (passed, passed + packets.len(), packets));
    assert!(run.time.0 > 0);
    let log = placer.log().unwrap();
    assert_eq!((log.peek(), log.tail()), (None, log.head()));
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
fn train(random: &mut Seeded, of: &Packets, base: u64, longest: u64) -> Vec<Vec<u8>> {
    let wanted = random.below(longest) as usize + 1;
    let mut packets = vec![(of.packet)(random, base)];
    while packets.len() < wanted {
        let next = (of.packet)(random, base);
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
fn agree(at: &str, of: &Packets, longest: u64) {
    let rule = &of.rule;
    let mut placer = match PlacementProgram::new(rule) {
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

    let mut table = RuleTable::new(rule);
    let mut set = |at: u16, value: u64| {
        placer.set_parameter(at, value);
        table.parameters[usize::from(at)] = value;
    };
    of.parameters.iter().for_each(|&(at, value)| set(at, value));
    let (element, elements) = rule.arena();
    let mut memory = vec![0u8; element * elements as usize];
    let mut counts = RuleCounts::default();
    let mut random = Seeded(33);
    let (mut base, first) = (of.base, (of.base % u64::from(SLOTS)) as u32);
    for slot in 0..SLOTS {
        let number = (base + u64::from((slot + SLOTS - first) % SLOTS)) & of.mask;
        open(&mut placer, &mut table, rule, slot, number);
    }
    let packets: u64 =
        std::env::var("SKYHAUL_PLACED_PACKETS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let mut buffer = vec![0u8; 1 << 16];
    let (mut n, mut turn) = (0, 0);
    while n < packets {
        turn += 1;
        if turn % (150 / longest.min(15)) == 0 {
            let slot = (of.taken)(base);
            let taken = placer.take(slot);
            let words = table.slot(rule, slot).to_vec();
            assert_eq!((taken.number, taken.arrived), (words[0] >> 1, words[1]), "packet {n}");
            let next = (base + u64::from(SLOTS)) & of.mask;
            open(&mut placer, &mut table, rule, slot, next);
            base = (base + 1) & of.mask;
        }
        let train = train(&mut random, of, base, longest);
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
        logs_agree(&mut placer, &mut table);
        for (address, length) in placed {
            let mut there = vec![0; length as usize];
            placer.read(address, &mut there);
            assert_eq!(there, memory[address as usize..][..length as usize], "before packet {n}");
        }
    }
    placer.quiesce();
    assert_eq!(placer.counts(), counts);
    assert_eq!(counts.packets(), n);
    for slot in 0..SLOTS {
        assert_eq!(placer.slot(slot), table.slot(rule, slot), "slot {slot}");
    }
    let mut all = vec![0; memory.len()];
    placer.read(0, &mut all);
    assert!(all == memory, "memory");
    assert!(counts.placed > n / 100, "{counts:?}");
    assert!(longest == 1 || counts.runs < n / 3, "trains are one run: {counts:?}");
    eprintln!("{at}, trains of {longest}: {counts:?}");
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
    agree("127.0.0.1:0", &of_writes(true), 1);
    agree("[::1]:0", &of_writes(true), 1);
    agree("127.0.0.1:0", &of_writes(false), 1);
}

#[test]
fn the_kernel_places_trains_as_the_interpreter_does() {
    // Some are longer than a program follows.
    agree("127.0.0.1:0", &of_writes(true), 60);
    agree("[::1]:0", &of_writes(true), 8);
    agree("127.0.0.1:0", &of_writes(false), 60);
}

#[test]
fn the_kernel_places_what_layouts_place_as_the_interpreter_does() {
    for of in of_layouts() {
        agree("127.0.0.1:0", &of, 1);
        agree("[::1]:0", &of, 30);
    }
}

#[test]
fn what_an_engine_is_to_decide_is_placed_and_logged_as_by_the_interpreter() {
    for of in logged() {
        assert!(!of.rule.refuses);
        agree("127.0.0.1:0", &of, 1);
        agree("[::1]:0", &of, 30);
    }
}

#[test]
fn of_a_log_that_is_full_nothing_is_placed() {
    let [_, of, ..] = logged();
    let mut placer = match PlacementProgram::new(&of.rule) {
        Ok(placer) => placer,
        Err(why) if why.why == NoPlacement::Forbidden => return eprintln!("SKIPPED: {why}"),
        Err(why) => panic!("{why}"),
    };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    placer.attach(receiver.as_fd()).unwrap();
    let to = receiver.local_addr().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = Seeded(7);
    let packets = 300;
    for _ in 0..packets {
        sender.send_to(&(of.packet)(&mut random, of.base), to).unwrap();
    }
    let end = Instant::now() + Duration::from_secs(20);
    while placer.counts().packets() < packets && Instant::now() < end {
        std::thread::yield_now();
    }
    placer.quiesce();
    let log = placer.log().unwrap();
    // Two words for each: a run, and its packet. Slots are closed, so all came up, logged or not.
    assert_eq!(log.head(), 130, "it is half full");
    let mut taken = 0;
    while log.take(|_, _| ()).is_some() {
        taken += 1;
    }
    assert_eq!((taken, log.tail()), (65, 130));
    let counts = placer.counts();
    assert_eq!((counts.passed + counts.refused.total(), counts.placed), (packets, 0));
}
