//! Heaps and events through the receiver of frames: tables that sockets share, limits, sinks that fail.

use crate::inproc::InprocQueue;
use crate::receive::keyed::{StopRule, StreamConfig};
use crate::receive::{Nowhere, ObjectOptions, ObjectSink, Received, Receiver, ReceiverOptions, Running};
use crate::report::{ReceiveReport, RejectCounts};
use skyhaul_core::pattern;
use skyhaul_core::wire::ejfat::Reassembly;
use skyhaul_core::wire::spead::stored::NewHead;
use skyhaul_core::wire::spead::{Flavour, SpeadStream};
use skyhaul_core::wire::{Format, Known, LearnOptions};
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_io::source::{Source, SourceStats, Train};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A packet of heap `counter`, which has `parts` of 1000 bytes.
fn spead(counter: u64, part: u64, parts: u64) -> Vec<u8> {
    let flavour = Flavour::SPEAD_64_48;
    let (size, offset) = (Some(1000 * parts), 1000 * part);
    let pointers = [flavour.addressed(0x1000, 0)];
    let mut packet = Vec::new();
    NewHead { flavour, counter, size, offset, length: 1000, pointers: &pointers }.write(&mut packet);
    packet.extend_from_slice(pattern::slice(counter, offset, 1000));
    packet
}

/// A segment of an event of four.
fn ejfat(data_id: u16, tick: u64, part: u32) -> Vec<u8> {
    let offset = 500 * part;
    let head = Reassembly { version: 1, data_id, offset, length: 2000, tick, ..Reassembly::default() };
    let mut packet = head.write().to_vec();
    packet.extend_from_slice(pattern::slice(tick, u64::from(offset), 500));
    packet
}

fn start(queues: &[InprocQueue], most: Option<u64>, sink: Box<dyn ObjectSink>) -> Running {
    start_with(queues, most, true, sink)
}

fn start_with(queues: &[InprocQueue], most: Option<u64>, verify: bool, sink: Box<dyn ObjectSink>) -> Running {
    let pool =
        Pool::new(&PoolOptions { total_bytes: 64 << 16, block_bytes: 1 << 16, shared: false }).unwrap();
    let learn = LearnOptions { object_bytes: 1 << 16, ..LearnOptions::default() };
    let stream =
        StreamConfig { incomplete: true, stop: StopRule::Never, ring: 64, ..StreamConfig::default() };
    let objects = Some(ObjectOptions { stream, most, verify, ..ObjectOptions::default() });
    let options = ReceiverOptions { learn, objects, ..ReceiverOptions::default() };
    let mut receiver = Receiver::open(options, pool).unwrap();
    for (n, queue) in queues.iter().enumerate() {
        receiver.add_source(format!("queue {n}"), Box::new(queue.clone()), true);
    }
    receiver.start_with(|_| Box::new(Nowhere), sink).unwrap()
}

/// Wait for its own end.
fn ended(running: Running) -> ReceiveReport {
    let begun = Instant::now();
    while !running.is_over() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.finish()
}

fn push(queue: &InprocQueue, packet: &[u8]) {
    // One that is full, or closed by the receiver's end, is no matter here.
    let _ = queue.push(packet, Duration::from_secs(10));
}

#[test]
fn the_parts_of_an_object_come_by_any_socket() {
    // Three sockets of heaps, three of events: a queue is one sender.
    let queues: Vec<InprocQueue> = (0..6).map(|_| InprocQueue::default()).collect();
    let running = start(&queues, None, Box::new(Nowhere));
    for n in 0..60u64 {
        // Each socket gets a third of every heap and of every event.
        for part in 0..6 {
            push(&queues[(part % 3) as usize], &spead(n, part, 6));
        }
        for part in 0..4u32 {
            push(&queues[3 + ((n + u64::from(part)) % 3) as usize], &ejfat(9, 5 * n, part));
        }
        // Nobody is left behind by more than the window: a reader without a processor has not lost anything.
        while queues.iter().any(|queue| queue.waiting() > 0) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    queues.iter().for_each(InprocQueue::close);
    let report = ended(running);
    let copy = report.copy.as_ref().unwrap();
    assert!(copy.chosen.ends_with("streamed") || copy.chosen == "streamed copy", "{copy:?}");
    assert!(!copy.because.is_empty() && copy.warm_bytes == skyhaul_io::copy::warm_limit().bytes, "{copy:?}");
    let complete = |name: &str| report.objects[name].complete;
    assert_eq!((complete("heaps"), complete("events")), (60, 60), "{report:?}");
    assert_eq!((report.pattern_errors, report.rejects.len()), (Some(0), 0), "{report:?}");
    assert_eq!(report.objects["events"].missing, Some(0), "its ticks go on by five: {report:?}");
    // Whoever sends a part of a heap has not left it out, though another socket had its first part.
    assert!(matches!(report.objects["heaps"].missing, Some(0) | None), "{report:?}");
    assert!(report.is_whole() && report.streams.is_empty(), "{report:?}");
}

#[test]
fn a_limit_ends_the_receiver() {
    let queue = InprocQueue::default();
    let running = start(std::slice::from_ref(&queue), Some(7), Box::new(Nowhere));
    (0..300).for_each(|n| push(&queue, &spead(n, 0, 1)));
    let report = ended(running);
    assert_eq!((report.objects["heaps"].complete, report.ended.as_str()), (7, "limit"), "{report:?}");
}

/// Fails, in one way or another, at its third object.
struct Failing(u32, Option<io::ErrorKind>);

impl ObjectSink for Failing {
    fn object(&mut self, _: &Received<'_>) -> io::Result<()> {
        self.0 += 1;
        match self.1 {
            _ if self.0 < 3 => Ok(()),
            Some(kind) => Err(kind.into()),
            None => panic!("a fault of the sink"),
        }
    }
}

#[test]
fn a_sink_that_fails_ends_the_receiver_and_is_told() {
    for (kind, ended_by, told) in [
        (Some(io::ErrorKind::BrokenPipe), "reader gone", None),
        (Some(io::ErrorKind::StorageFull), "write failed", Some("no storage space")),
        (None, "write failed", Some("a fault of the sink")),
    ] {
        let queue = InprocQueue::default();
        let running = start(std::slice::from_ref(&queue), None, Box::new(Failing(0, kind)));
        // More than the ring holds: who waits for room must not wait for ever.
        (0..300).for_each(|n| push(&queue, &spead(n, 0, 1)));
        let report = ended(running);
        assert_eq!(report.ended, ended_by, "{report:?}");
        let is_told = report.errors.iter().any(|error| told.is_some_and(|told| error.contains(told)));
        assert_eq!((is_told, report.errors.is_empty()), (told.is_some(), told.is_none()), "{report:?}");
    }
}

/// Takes every object.
struct Taking;

impl ObjectSink for Taking {
    fn object(&mut self, _: &Received<'_>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn objects_that_nobody_wants_are_counted_as_those_that_are_taken() {
    let sinks: [Box<dyn ObjectSink>; 2] = [Box::new(Nowhere), Box::new(Taking)];
    let [discarded, taken] = sinks.map(|sink| {
        let queues = [InprocQueue::default(), InprocQueue::default()];
        let running = start_with(&queues, None, false, sink);
        for n in 0..200u64 {
            // Of every seventh heap a part is missing, and every eleventh event is missing whole.
            (0..3)
                .filter(|part| n % 7 > 0 || *part != 1)
                .for_each(|part| push(&queues[0], &spead(n, part, 3)));
            (0..4).filter(|_| n % 11 > 0).for_each(|part| push(&queues[1], &ejfat(9, n, part)));
        }
        queues.iter().for_each(InprocQueue::close);
        let report = ended(running);
        assert_eq!(report.counters.get("waiting_heaps"), None, "{report:?}");
        report.objects
    });
    assert_eq!(discarded, taken);
    let heaps = &taken["heaps"];
    assert_eq!((heaps.complete, heaps.incomplete, heaps.missing_bytes), (171, 29, 29_000), "{heaps:?}");
    assert_eq!(taken["events"].complete, 181, "{taken:?}");
}

/// What an event of these bytes is to a receiver with so much memory, and nothing else in it: whether it is complete, and what was
/// refused.
fn event_of(size: u32, memory: u64) -> (bool, RejectCounts, u64) {
    const EACH: u32 = 60_000;
    let stream =
        StreamConfig { memory: HeapMemory::new(memory), stop: StopRule::Never, ..StreamConfig::default() };
    let learn = LearnOptions { object_bytes: 1 << 16, ..LearnOptions::default() };
    let objects = Some(ObjectOptions { stream, ..ObjectOptions::default() });
    let pool =
        Pool::new(&PoolOptions { total_bytes: 64 << 16, block_bytes: 1 << 16, shared: false }).unwrap();
    let mut receiver =
        Receiver::open(ReceiverOptions { learn, objects, ..ReceiverOptions::default() }, pool).unwrap();
    let queue = InprocQueue::default();
    receiver.add_source("queue".to_owned(), Box::new(queue.clone()), true);
    let running = receiver.start_with(|_| Box::new(Nowhere), Box::new(Nowhere)).unwrap();
    let payload = vec![7; EACH as usize];
    for offset in (0..size).step_by(EACH as usize) {
        let head =
            Reassembly { version: 1, data_id: 0, offset, length: size, tick: 1, ..Reassembly::default() };
        let mut packet = head.write().to_vec();
        packet.extend_from_slice(&payload[..EACH.min(size - offset) as usize]);
        push(&queue, &packet);
    }
    queue.close();
    let report = ended(running);
    let complete = report.objects.get("events").is_some_and(|events| events.complete == 1);
    (complete, report.rejects, u64::from(size.div_ceil(EACH)))
}

#[test]
fn an_event_that_memory_cannot_hold_is_too_large_from_its_first_packet() {
    const MEMORY: u64 = 48 << 20;
    let mut whole = 0;
    for size in (8..=48).step_by(4).map(|mib| (mib << 20) - 1) {
        let (complete, rejects, packets) = event_of(size, MEMORY);
        let wanted = if complete { None } else { Some(("outside", packets)) };
        let all: Vec<(&str, u64)> = rejects.iter().map(|(why, &count)| (&why[..], count)).collect();
        assert_eq!(all, Vec::from_iter(wanted), "{size}: {complete}");
        whole += u64::from(complete);
    }
    assert!(whole >= 8, "{whole}");
}

/// Gives many trains in one poll, each a heap of four packets.
struct ManyTrains {
    heaps: u64,
}

impl Source for ManyTrains {
    fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let sender = SocketAddr::from(([10, 0, 0, 1], 9));
        let heaps = std::mem::take(&mut self.heaps);
        for n in 0..heaps {
            let packets: Vec<_> = (0..4).map(|part| spead(n, part, 4)).collect();
            let train = packets.concat();
            each(Train { stride: packets[0].len(), ..Train::single(&train, &sender) });
        }
        Ok(4 * heaps as usize)
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    fn describe(&self) -> String {
        "many trains".into()
    }

    fn is_finished(&self) -> bool {
        self.heaps == 0
    }
}

/// The table stays locked for all trains of a poll, but heaps that are only counted do not wait for its end.
#[test]
fn heaps_that_are_only_counted_use_the_same_memory_again_within_a_poll() {
    let pool =
        Pool::new(&PoolOptions { total_bytes: 64 << 16, block_bytes: 1 << 16, shared: false }).unwrap();
    let format = Format::Of(SpeadStream::FAMILY);
    let learn = LearnOptions { object_bytes: 1 << 16, format, ..LearnOptions::default() };
    let memory = HeapMemory::new(256 << 20);
    let stream = StreamConfig { memory: memory.clone(), ahead: 0, ..StreamConfig::default() };
    let objects = Some(ObjectOptions { stream, ..ObjectOptions::default() });
    let options = ReceiverOptions { learn, objects, ..ReceiverOptions::default() };
    let mut receiver = Receiver::open(options, pool).unwrap();
    receiver.add_source("many trains".into(), Box::new(ManyTrains { heaps: 5000 }), false);
    let report = ended(receiver.start(|_| Box::new(Nowhere)).unwrap());
    let heaps = &report.objects["heaps"];
    assert_eq!(
        (heaps.complete, heaps.payload_bytes, report.rejects.len()),
        (5000, 20_000_000, 0),
        "{report:?}"
    );
    assert!(memory.used() <= 4 << 20, "{} bytes for heaps of 4000", memory.used());
}
