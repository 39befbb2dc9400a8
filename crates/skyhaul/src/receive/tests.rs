//! The engine without a socket: packets in, parts out, every count exact.

mod hostile;
mod joining;
mod objects;
mod rejects;
mod watch;

use super::engine::{Engine, EngineOptions};
use super::{Allow, Gate};
use crate::frames::FramesOf;
use crate::receive::{Nowhere, Receiver, ReceiverOptions, Sink, StreamInfo, StreamPart};
use crate::report::ReceiveReport;
use crate::send::{HEAD, Packetize, Sequence, SynthOptions, SynthSupply};
use proptest::prelude::*;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Geometry, Grain, Nanos, Reject};
use skyhaul_core::wire::fila10g::Fila10gStream;
use skyhaul_core::wire::{Known, LearnOptions, Order, Place, SynthPayload};
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_io::source::{Source, SourceStats, Train};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BLOCK: usize = 64 << 10;
const START: i64 = 1_795_402_800;

/// What became of the parts: stream, first frame's number in the part list, frames present.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Seen>>>);

struct Seen {
    stream: u32,
    units: u32,
    missing: u32,
    gap: u64,
    epoch: u32,
    wrong: u32,
}

impl Sink for Kept {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}
    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        let unit = stream.unit_bytes as usize;
        let frames = FramesOf::stream(&stream.format, true);
        // Half frames cannot be looked into one by one.
        assert_eq!(frames.is_none(), stream.format.family == Fila10gStream::FAMILY);
        let Some(frames) = frames else { return };
        let is_missing = |u: u32| part.missing.iter().any(|m| m.contains(&u));
        let wrong = (0..part.units(stream.unit_bytes)).filter(|&u| !is_missing(u)).filter(|&u| {
            let at = part.range.start + u as usize * unit;
            frames.see(&part.block[at..at + unit]).illegal.is_some()
        });
        self.0.lock().unwrap().push(Seen {
            stream: stream.id,
            units: part.units(stream.unit_bytes),
            missing: part.missing.iter().map(|m| m.end - m.start).sum(),
            gap: part.gap + part.settled,
            epoch: part.epoch,
            wrong: wrong.count() as u32,
        });
    }
}

/// The options of an engine that learns formats, with a change, and its pool.
fn begin(change: impl FnOnce(&mut EngineOptions)) -> (EngineOptions, Pool) {
    let pool = Pool::new(&PoolOptions { total_bytes: 64 << 16, block_bytes: BLOCK, shared: false }).unwrap();
    let mut options = EngineOptions {
        learn: LearnOptions { object_bytes: BLOCK as u64, ..LearnOptions::default() },
        assembly: OrderedConfig::new(Geometry { object_bytes: 1, grain: Grain::Bytes(1) }),
        gate: Gate::default(),
        allow: Allow::default(),
        max_streams: 4,
        listen: "test".into(),
        split_threads: false,
        keep_partial_sets: false,
        next_stream: Arc::default(),
    };
    change(&mut options);
    (options, pool)
}

struct Bed {
    engine: Engine<Kept>,
    kept: Kept,
    pool: Pool,
    now: Nanos,
    /// When timeouts were looked at last.
    ticked: Nanos,
}

impl Bed {
    fn new(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let (options, pool) = begin(change);
        let kept = Kept::default();
        let engine = Engine::new(options, pool.clone(), kept.clone(), None);
        Self { engine, kept, pool, now: Nanos::SECOND, ticked: Nanos::SECOND }
    }

    fn send(&mut self, port: u16, packet: &[u8]) {
        self.send_from(SocketAddr::from(([127, 0, 0, 1], port)), packet);
        self.now = self.now.plus(Nanos(1000));
    }

    fn send_from(&mut self, sender: SocketAddr, packet: &[u8]) {
        self.engine.handle_train(&Train::single(packet, &sender), self.now);
    }

    /// Time passes, as the receiving thread sees it pass.
    fn pass(&mut self, nanos: u64) {
        const TICK: u64 = 50_000_000;
        let end = self.now.plus(Nanos(nanos));
        while self.ticked.plus(Nanos(TICK)) <= end {
            self.ticked = self.ticked.plus(Nanos(TICK));
            self.engine.handle_timeout(self.ticked);
        }
        self.now = end;
    }

    fn finish(&mut self) -> (u64, u64, u64) {
        self.engine.finish(self.now);
        let seen = self.kept.0.lock().unwrap();
        assert_eq!(seen.iter().map(|s| s.wrong).sum::<u32>(), 0, "a frame is not where it belongs");
        assert_eq!(self.pool.free(), self.pool.blocks(), "a block was kept");
        let present = seen.iter().map(|s| u64::from(s.units - s.missing)).sum();
        let missing = seen.iter().map(|s| u64::from(s.missing) + s.gap).sum();
        (present, missing, self.engine.tally(true).streams.len() as u64)
    }

    fn rejected(&mut self, why: Reject) -> u64 {
        let tally = self.engine.tally(true);
        tally.rejects.get(why) + tally.streams.iter().map(|(_, r)| r.rejects.get(why)).sum::<u64>()
    }
}

fn supply(threads: u16, order: Option<Order>) -> SynthSupply {
    SynthSupply::new(SynthOptions {
        payload: 1000,
        threads,
        frames_per_second: 500,
        start: START,
        station: "Sk".into(),
        payloads: SynthPayload::Pattern,
        sequence: Sequence { order, first: 77 },
        packets: None,
    })
    .unwrap()
}

fn packet(supply: &SynthSupply, n: u64) -> Vec<u8> {
    let mut head = [0; HEAD];
    let (length, payload) = supply.packet(n, &mut head);
    [&head[..length], payload].concat()
}

#[test]
fn the_first_packets_are_not_lost_while_the_format_is_learned() {
    for (threads, order) in [(1, Some(Order::Little)), (4, Some(Order::Big)), (1, None), (4, None)] {
        let (mut bed, supply) = (Bed::new(|_| {}), supply(threads, order));
        (0..2000).for_each(|n| bed.send(1, &packet(&supply, n)));
        assert_eq!(bed.finish(), (2000, 0, 1), "{threads} threads, {order:?}");
    }
}

#[test]
fn lost_doubled_and_reordered_packets_are_counted_exactly() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(2, Some(Order::Little)));
    for n in 0..2000u64 {
        let swapped = if n % 20 < 10 { n / 10 * 10 + 9 - n % 10 } else { n };
        if swapped % 100 != 33 {
            bed.send(1, &packet(&supply, swapped));
        }
        if swapped % 100 == 50 {
            bed.send(1, &packet(&supply, swapped));
        }
    }
    assert_eq!(bed.finish(), (1980, 20, 1));
    assert_eq!(bed.rejected(Reject::Duplicate), 20);
    let report = bed.engine.tally(true).streams.remove(0).1;
    let lost: Vec<_> = (0..20).map(|i| 77 + i * 100 + 33..77 + i * 100 + 34).collect();
    assert_eq!(report.loss_map, lost);
    assert_eq!(report.frames_per_second, Some(500));
}

#[test]
fn a_long_outage_is_counted_frame_by_frame() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(1, Some(Order::Little)));
    (0..300).chain(5000..5300).for_each(|n| bed.send(1, &packet(&supply, n)));
    assert_eq!(bed.finish(), (600, 4700, 1));
}

#[test]
fn an_outage_of_a_stream_without_numbers_is_counted_by_its_times() {
    let mut bed = Bed::new(|o| o.learn.frames_per_second = None);
    let supply = supply(2, None);
    // Without the rate in the header: the extended data go.
    let plain = |n| {
        let mut bytes = packet(&supply, n);
        bytes[16..32].fill(0);
        bytes
    };
    (0..6000).chain(6100..6400).for_each(|n| bed.send(1, &plain(n)));
    assert_eq!(bed.finish(), (6300, 100, 1));
    assert_eq!(bed.engine.tally(true).streams[0].1.frames_per_second, Some(500));
}

#[test]
fn the_last_frame_of_a_second_is_missed_though_nobody_told_the_rate() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(2, None));
    let plain = |n| {
        let mut bytes = packet(&supply, n);
        bytes[16..32].fill(0);
        bytes
    };
    // The second thread's last frame of the sixth second, when the rate is known by then.
    (0..8000).filter(|&n| n != 5999).for_each(|n| bed.send(1, &plain(n)));
    assert_eq!(bed.finish(), (7999, 1, 1));
}

#[test]
fn strangers_are_counted_and_give_way() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(1, Some(Order::Little)));
    for round in 0..600u64 {
        bed.send(9, &[round as u8; 100]);
        if round < 200 {
            bed.send(1, &packet(&supply, round));
        }
    }
    assert_eq!(bed.rejected(Reject::Unrecognised), 600);
    assert_eq!(bed.finish(), (200, 0, 1));
}

#[test]
fn more_senders_than_allowed_are_refused() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(1, Some(Order::Little)));
    (0..100).for_each(|n| (0..6).for_each(|port| bed.send(port, &packet(&supply, n))));
    assert_eq!(bed.finish(), (400, 0, 4), "none is richer than another");
    assert_eq!(bed.rejected(Reject::TooManyStreams), 200);
    let event = bed.engine.poll_event().unwrap();
    assert!(event.kind == "senders_refused" && event.text.contains("--max-streams"), "{event:?}");
}

#[test]
fn only_the_asked_seconds_pass() {
    let gate = Gate { start: Some(START + 1), stop: Some(START + 2) };
    let (mut bed, supply) = (Bed::new(|o| o.gate = gate), supply(1, Some(Order::Little)));
    (0..1500).for_each(|n| bed.send(1, &packet(&supply, n)));
    assert!(bed.engine.past_stop());
    assert_eq!((bed.rejected(Reject::BeforeStart), bed.rejected(Reject::AfterStop)), (500, 500));
    assert_eq!(bed.finish(), (500, 0, 1));
}

#[test]
fn threads_become_streams_where_asked() {
    let (mut bed, supply) = (Bed::new(|o| o.split_threads = true), supply(4, Some(Order::Little)));
    (0..2000).for_each(|n| bed.send(1, &packet(&supply, n)));
    assert_eq!(bed.finish(), (2000, 0, 4));
    assert!(bed.engine.tally(true).streams.iter().all(|(info, r)| {
        info.format.place == Place::Time && r.placed == 500 && info.format.threads.len() == 1
    }));
}

#[test]
fn a_stream_of_several_threads_begins_and_ends_with_whole_sets() {
    for order in [None, Some(Order::Little)] {
        for lost in [vec![], vec![8], vec![9, 11, 12, 13, 14, 15, 17]] {
            let (mut bed, supply) = (Bed::new(|_| {}), supply(8, order));
            // Joined at the fourth frame of a set, left behind the fifth.
            let came = (3..2005).filter(|n| !lost.contains(n));
            let sent = came.map(|n| bed.send(1, &packet(&supply, n))).count() as u64;
            let (present, missing, _) = bed.finish();
            assert_eq!(bed.rejected(Reject::PartialSet), 5 + 5, "{order:?} {lost:?}");
            assert_eq!((present, missing), (sent - 10, lost.len() as u64), "{order:?} {lost:?}");
            assert_eq!((present + missing) % 8, 0, "{order:?} {lost:?}");
        }
        let (mut bed, supply) = (Bed::new(|o| o.keep_partial_sets = true), supply(8, order));
        (3..2005).for_each(|n| bed.send(1, &packet(&supply, n)));
        assert_eq!((bed.finish(), bed.rejected(Reject::PartialSet)), ((2002, 0, 1), 0), "{order:?}");
    }
}

#[test]
fn a_restarted_sender_begins_a_new_epoch() {
    // Blocks as small as here hold fewer packets than it usually takes to be sure.
    let (mut bed, supply) = (Bed::new(|o| o.assembly.resync = 32), supply(1, Some(Order::Little)));
    (2000..3000).for_each(|n| bed.send(1, &packet(&supply, n)));
    (0..1000).for_each(|n| bed.send(1, &packet(&supply, n)));
    let (present, missing, _) = bed.finish();
    assert!(
        present >= 1992 && missing == 0,
        "{present} {missing} {:?}",
        bed.engine.tally(true).streams[0].1.rejects.iter().collect::<Vec<_>>()
    );
    let seen = bed.kept.0.lock().unwrap();
    assert!(seen.iter().any(|s| s.epoch == 1) && seen.is_sorted_by_key(|s| (s.stream, s.epoch)));
}

#[test]
fn a_restart_is_reported_with_a_number_that_the_sender_sent() {
    let (mut bed, supply) = (Bed::new(|o| o.assembly.resync = 32), supply(1, Some(Order::Little)));
    (100_000..101_000).for_each(|n| bed.send(1, &packet(&supply, n)));
    (50_000..51_000).for_each(|n| bed.send(1, &packet(&supply, n)));
    bed.finish();
    let restart =
        std::iter::from_fn(|| bed.engine.poll_event()).find(|event| event.kind == "restart").unwrap();
    let number = restart.text.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap();
    // The first of the object that it began with.
    assert!((49_900..50_000 + 100).contains(&number), "{restart:?}");
    let report = &bed.engine.tally(true).streams[0].1;
    assert_eq!((report.sequence.reordered, report.epochs), (0, 1), "after a restart, all is in order");
}

#[test]
fn a_damaged_number_far_ahead_makes_no_packet_after_it_a_late_one() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(1, Some(Order::Little)));
    for n in 0..3000 {
        let mut sent = packet(&supply, n);
        if n == 1000 {
            sent[5] ^= 0x80;
        }
        bed.send(1, &sent);
    }
    assert_eq!((bed.finish(), bed.rejected(Reject::Stray)), ((2999, 1, 1), 1));
    let report = bed.engine.tally(true).streams[0].1.clone();
    assert_eq!((report.placed, report.sequence.reordered, report.sequence.extent.count()), (2999, 0, 0));
}

#[test]
fn without_memory_packets_are_refused_and_the_stream_recovers() {
    let (mut bed, supply) = (Bed::new(|_| {}), supply(1, Some(Order::Little)));
    (0..200).for_each(|n| bed.send(1, &packet(&supply, n)));
    let mut hoard = Vec::new();
    for n in 200..600 {
        hoard.extend(std::iter::from_fn(|| bed.pool.take()));
        bed.send(1, &packet(&supply, n));
    }
    drop(hoard);
    (600..1000).for_each(|n| bed.send(1, &packet(&supply, n)));
    let refused = bed.rejected(Reject::NoBuffer);
    assert!(refused > 0);
    assert_eq!(bed.finish(), (1000 - refused, refused, 1));
}

/// What a part held: stream, object, epoch, first byte, its bytes where they came, what is missing, and the gap before it.
type Held = (u32, u64, u32, usize, Vec<u8>, Vec<(u32, u32)>, u64);

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<Held>>>);

impl Sink for Bytes {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}
    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        let mut bytes = part.block[part.range.clone()].to_vec();
        for hole in &part.missing {
            let unit = stream.unit_bytes as usize;
            bytes[hole.start as usize * unit..hole.end as usize * unit].fill(0);
        }
        let StreamPart { object, epoch, range, missing, gap, .. } = part;
        let missing = missing.into_iter().map(|hole| (hole.start, hole.end)).collect();
        self.0.lock().unwrap().push((stream.id, object, epoch, range.start, bytes, missing, gap));
    }
}

/// What an engine makes of groups of packets, each group given at one time: as a train, or one after the other.
fn outcome(groups: &[Group], together: bool) -> (Vec<Held>, String, String) {
    let sender = SocketAddr::from(([127, 0, 0, 1], 1));
    let (sink, mut now) = (Bytes::default(), Nanos::SECOND);
    let (options, pool) = begin(|o| o.assembly.resync = 64);
    let mut engine = Engine::new(options, pool, sink.clone(), None);
    for Group { bytes, stride } in groups {
        let train = Train { bytes, stride: *stride, ..Train::single(&[], &sender) };
        if together {
            engine.handle_train(&train, now);
        } else {
            train.packets().for_each(|packet| engine.handle_train(&Train::single(packet, &sender), now));
        }
        now = now.plus(Nanos(50_000));
    }
    engine.finish(now);
    let tally = engine.tally(true);
    let mut streams: Vec<_> = tally.streams.into_iter().map(|(_, report)| report).collect();
    let order: Vec<_> = streams.iter_mut().map(|report| std::mem::take(&mut report.sequence)).collect();
    let counts = format!("{streams:?} {:?}", tally.rejects);
    (std::mem::take(&mut sink.0.lock().unwrap()), counts, format!("{order:?}"))
}

/// Packets of one length but for the last.
#[derive(Clone, Debug)]
struct Group {
    bytes: Vec<u8>,
    stride: usize,
}

/// What happens to one packet of a stream.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Sent,
    Lost,
    Twice,
    /// It changes places with one so many before it.
    Early(usize),
    /// A byte of its head is another.
    Damaged(usize),
    /// The sender's counter jumps.
    Jump(i64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        60 => Just(Fate::Sent),
        3 => Just(Fate::Lost),
        2 => Just(Fate::Twice),
        2 => (1usize..40).prop_map(Fate::Early),
        1 => (0usize..40).prop_map(Fate::Damaged),
        1 => prop_oneof![Just(-400i64), Just(-90), Just(70), Just(3000)].prop_map(Fate::Jump),
    ]
}

fn groups(fates: &[Fate], lengths: &[(usize, bool)], threads: u16, order: Option<Order>) -> Vec<Group> {
    let supply = supply(threads, order);
    let (mut number, mut packets) = (1000i64, Vec::<Vec<u8>>::new());
    for &fate in fates {
        let mut whole = packet(&supply, number as u64);
        match fate {
            Fate::Sent | Fate::Early(_) => packets.push(whole),
            Fate::Lost => {}
            Fate::Twice => packets.extend([whole.clone(), whole]),
            Fate::Damaged(at) => {
                whole[at] ^= 0x55;
                packets.push(whole);
            }
            Fate::Jump(by) => number = (number + by).max(0),
        }
        if let Fate::Early(by) = fate {
            let last = packets.len() - 1;
            packets.swap(last, last.saturating_sub(by));
        }
        number += 1;
    }
    let (mut rest, mut groups) = (packets.as_slice(), Vec::new());
    for &(length, short) in lengths.iter().cycle() {
        if rest.is_empty() {
            return groups;
        }
        let (these, left) = rest.split_at(length.min(rest.len()));
        let stride = these[0].len();
        let mut bytes = these.concat();
        if short {
            // As the kernel joins them: only the last of a train may be shorter.
            bytes.extend_from_slice(&these[0][..stride / 2]);
        }
        groups.push(Group { bytes, stride });
        rest = left;
    }
    unreachable!()
}

/// Reports without the number of long rows of refused packets.
fn without_refusals(reports: &str) -> String {
    let (first, others) = reports.split_once("refusals: ").unwrap_or((reports, ""));
    let others = others.split("refusals: ").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    std::iter::once(first).chain(others).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_run_leaves_what_its_packets_leave(
        fates in proptest::collection::vec(fate(), 200..1200),
        lengths in proptest::collection::vec((1usize..50, proptest::bool::weighted(0.1)), 1..20),
        threads in prop_oneof![Just(1u16), Just(4)],
        order in prop_oneof![Just(Some(Order::Little)), Just(None)],
    ) {
        let groups = groups(&fates, &lengths, threads, order);
        let (together, one_by_one) = (outcome(&groups, true), outcome(&groups, false));
        // Where the counter goes back, it begins anew for the order when its part is handed on: at the end of a train. And packets that are
        // refused behind a placed one of their train count as a row from the next train on: whether it is long may differ by that.
        if fates.iter().any(|fate| matches!(fate, Fate::Jump(..0))) {
            prop_assert_eq!(without_refusals(&together.1), without_refusals(&one_by_one.1));
        } else {
            prop_assert_eq!(&together.1, &one_by_one.1);
            prop_assert_eq!(&together.2, &one_by_one.2);
        }
        // When a part is handed on does not matter, and which of two streams is first.
        let sorted = |mut held: Vec<Held>| { held.sort(); held };
        prop_assert!(sorted(together.0) == sorted(one_by_one.0));
    }
}

/// How a source ends.
#[derive(Clone, Copy)]
enum End {
    Panic,
    Error,
    /// It runs until it is stopped.
    Never,
}

/// Sends frames from a port, and then ends.
struct Script {
    port: u16,
    next: u64,
    packets: u64,
    end: End,
    supply: SynthSupply,
    gone: Arc<AtomicBool>,
}

impl Script {
    fn new(port: u16, packets: u64, end: End) -> Self {
        Self { port, next: 0, packets, end, supply: supply(1, Some(Order::Little)), gone: Arc::default() }
    }
}

impl Source for Script {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        if self.next < self.packets {
            let sender = SocketAddr::from(([127, 0, 0, 1], self.port));
            each(Train::single(&packet(&self.supply, self.next), &sender));
            self.next += 1;
            return Ok(1);
        }
        match self.end {
            End::Panic => panic!("a fault of the test"),
            End::Error => Err(io::Error::other("the network is gone")),
            End::Never => {
                std::thread::sleep(wait);
                Ok(0)
            }
        }
    }
    fn stats(&self) -> SourceStats {
        SourceStats { packets: self.next, ..SourceStats::default() }
    }
    fn describe(&self) -> String {
        "script".into()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
    }
}

fn receiver(scripts: Vec<Script>) -> Receiver {
    let pool = Pool::new(&PoolOptions { total_bytes: 64 << 16, block_bytes: BLOCK, shared: false }).unwrap();
    let learn = LearnOptions { object_bytes: BLOCK as u64, ..LearnOptions::default() };
    let mut receiver = Receiver::open(ReceiverOptions { learn, ..ReceiverOptions::default() }, pool).unwrap();
    for script in scripts {
        receiver.add_source(format!("script {}", script.port), Box::new(script), true);
    }
    receiver
}

/// Run until all threads have ended, or one of two.
fn run(scripts: Vec<Script>, kept: &Kept) -> ReceiveReport {
    let living = scripts.iter().filter(|script| matches!(script.end, End::Never)).count();
    let packets: u64 = scripts.iter().map(|script| script.packets).sum();
    let mut running = receiver(scripts).start(|_| Box::new(kept.clone())).unwrap();
    let begun = Instant::now();
    while (living == 0 && !running.is_over()) || running.progress().placed() < packets {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end: {:?}", running.progress());
        std::thread::sleep(Duration::from_millis(5));
    }
    running.finish()
}

#[test]
fn a_panic_is_an_error_and_an_event_and_the_data_are_saved() {
    let kept = Kept::default();
    let scripts = vec![Script::new(1, 500, End::Panic), Script::new(2, 700, End::Never)];
    let report = run(scripts, &kept);
    assert!(report.errors.len() == 1 && report.errors[0].contains("script 1"), "{:?}", report.errors);
    assert!(report.errors[0].contains("a fault of the test") && report.errors[0].contains("hint:"));
    assert!(report.events.iter().any(|event| event.kind == "receiver_failed"));
    let placed: Vec<u64> = report.streams.iter().map(|s| s.placed).collect();
    assert_eq!(placed.iter().sum::<u64>(), 1200);
    let units: u32 = kept.0.lock().unwrap().iter().map(|seen| seen.units - seen.missing).sum();
    assert_eq!(units, 1200, "what was received is handed on");
}

#[test]
fn an_error_of_the_source_is_one_too_and_the_receiver_is_over() {
    let kept = Kept::default();
    let report = run(vec![Script::new(1, 500, End::Error)], &kept);
    assert!(report.errors[0].contains("the network is gone"), "{:?}", report.errors);
    assert_eq!(report.placed(), 500);
}

/// A sink that has a fault.
struct Faulty(u32);

impl Sink for Faulty {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}
    fn part(&mut self, _: &Arc<StreamInfo>, _: StreamPart) {
        self.0 += 1;
        assert!(self.0 < 3, "a fault of the sink");
    }
}

#[test]
fn a_sink_that_panics_at_every_part_ends_all_the_same() {
    let running = receiver(vec![Script::new(1, 500, End::Never)]).start(|_| Box::new(Faulty(0))).unwrap();
    let begun = Instant::now();
    while !running.is_over() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = running.finish();
    assert!(report.errors[0].contains("a fault of the sink"), "{:?}", report.errors);
}

#[test]
fn a_receiver_that_nobody_waits_for_ends_its_threads() {
    let script = Script::new(1, 100, End::Never);
    let gone = script.gone.clone();
    let running = receiver(vec![script]).start(|_| Box::new(Nowhere)).unwrap();
    drop(running);
    assert!(gone.load(Ordering::Acquire), "its thread still receives");
}
