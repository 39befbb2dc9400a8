//! The way of a packet on fixed inputs, for counting its instructions: nothing here depends on the time or the machine.
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='skyhaul_measure::bench::heaps::fixed::measured*' skyhaul packet-path CASE
//! ```
//!
//! | case | what is measured |
//! |---|---|
//! | `frames-8032`, `frames-1440` | VDIF frames with sequence numbers, in trains, from the train to the finished part |
//! | `threads-8032` | the same of four threads in turn |
//! | `heaps-1k` | SPEAD heaps of one packet, from the train to the reader's queue |
//! | `heaps-4k` | SPEAD heaps of three packets |
//! | `heaps-64k` | SPEAD heaps of eight packets |
//! | `sent-4k`, `sent-64k` | the same as `skyhaul send` divides them: items in the first packet, padding in the last |
//! | `singly-4k` | SPEAD heaps of three packets, which do not come in trains |
//! | `events-64k` | EJFAT events of eight segments |
//!
//! `cargo xtask instructions` divides by the number of packets, and compares with what it was. This file is also compiled by
//! `xtask/packet-path`, which has nothing else: so it uses nothing of this crate.

use skyhaul::receive::keyed::ObjectStream;
use skyhaul::receive::{Allow, Engine, EngineOptions, Gate, Nowhere};
use skyhaul::send::{HEAD, Packetize, Sequence, SynthOptions, SynthSupply};
use skyhaul::spead::receive::{Full, HeapMemory, StreamConfig};
use skyhaul_core::assembly::{KeyedConfig, OrderedConfig};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::{Geometry, Grain, Nanos};
use skyhaul_core::wire::ejfat::EjfatWire;
use skyhaul_core::wire::keyed::{Keyed, Part};
use skyhaul_core::wire::spead::packets::{HeapShape, Plan, Split};
use skyhaul_core::wire::spead::{Flavour, SpeadWire, id};
use skyhaul_core::wire::{LearnOptions, Order, SynthPayload};
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_io::source::{Source, SourceStats, Train};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a train, as the kernel coalesces them.
const TRAIN: usize = 64 << 10;
/// Packets that are measured, in whole trains.
const PACKETS: u64 = 40_000;

fn sender() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

/// What is counted: everything below this function.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

/// Frames of `threads` threads, from trains to parts.
fn frames(payload: usize, threads: u16) -> io::Result<u64> {
    let options = SynthOptions {
        payload,
        threads,
        frames_per_second: 125_000,
        start: 1_795_402_800,
        station: "Sk".into(),
        payloads: SynthPayload::Noise,
        sequence: Sequence { order: Some(Order::Little), first: 77 },
        packets: None,
    };
    let supply = SynthSupply::new(options).map_err(io::Error::other)?;
    let packet = |n: u64, into: &mut Vec<u8>| {
        let mut head = [0; HEAD];
        let (length, payload) = supply.packet(n, &mut head);
        into.extend_from_slice(&head[..length]);
        into.extend_from_slice(payload);
    };
    let pool = Pool::new(&PoolOptions { total_bytes: 64 << 20, block_bytes: 1 << 20, shared: false })?;
    let engine_options = EngineOptions {
        learn: LearnOptions { object_bytes: 1 << 20, ..LearnOptions::default() },
        assembly: OrderedConfig::new(Geometry { object_bytes: 1, grain: Grain::Bytes(1) }),
        gate: Gate::default(),
        allow: Allow::default(),
        max_streams: 4,
        listen: "memory".into(),
        split_threads: false,
        keep_partial_sets: false,
        next_stream: Arc::default(),
    };
    let mut engine = Engine::new(engine_options, pool, Nowhere, None);
    let (sender, mut bytes, mut now, mut n) = (sender(), Vec::new(), Nanos::SECOND, 0u64);
    packet(0, &mut bytes);
    let stride = bytes.len();
    let in_train = (TRAIN / stride).max(1) as u64;
    // The format is learned, and the first parts are done, before anything is counted.
    let (warm, all) = (4_000 / in_train * in_train, (4_000 + PACKETS) / in_train * in_train);
    while n < all {
        bytes.clear();
        (n..n + in_train).for_each(|n| packet(n, &mut bytes));
        let train = Train { bytes: &bytes, stride, ..Train::single(&[], &sender) };
        if n < warm {
            engine.handle_train(&train, now);
        } else {
            measured(|| engine.handle_train(&train, now));
        }
        (n, now) = (n + in_train, now.plus(Nanos(in_train * 1000)));
    }
    engine.finish(now);
    let tally = engine.tally(true);
    let placed: u64 = tally.streams.iter().map(|(_, report)| report.placed).sum();
    if placed != n {
        return Err(io::Error::other(format!("{placed} of {n} packets were placed")));
    }
    Ok(n - warm)
}

/// Bytes before the payload of a SPEAD packet, and of an EJFAT segment.
const SPEAD_HEAD: usize = 48;
const EJFAT_HEAD: usize = 20;

/// Objects of one size, in packets of one length.
#[derive(Clone, Copy)]
struct Shape {
    heap: usize,
    packet: usize,
    /// Packets of an object.
    of_heap: u64,
    /// Writes the head of packet `n` of a stream.
    head: fn(&mut [u8], n: u64, &Shape) -> io::Result<()>,
}

impl Shape {
    /// Packets with `payload` bytes each.
    fn new(
        start: usize,
        heap: usize,
        payload: usize,
        head: fn(&mut [u8], u64, &Shape) -> io::Result<()>,
    ) -> Self {
        Self { heap, packet: start + payload, of_heap: (heap / payload) as u64, head }
    }

    /// Of a sender, in packets of at most this length.
    fn sent(heap: usize, packet: usize) -> io::Result<Self> {
        let plan = plan(0, heap, packet)?;
        if !plan.equal() {
            return Err(io::Error::other("packets of several lengths"));
        }
        Ok(Self { heap, packet: plan.packet_bytes() as usize, of_heap: plan.count(), head: sent_head })
    }
}

/// The pointer of an item that is as long as its heap.
fn item() -> [u64; 1] {
    [Flavour::SPEAD_64_48.addressed(0x1600, 0)]
}

fn plan(counter: u64, heap: usize, packet_bytes: usize) -> io::Result<Plan> {
    let shape = HeapShape {
        flavour: Flavour::SPEAD_64_48,
        counter,
        payload_bytes: heap as u64,
        pointers: &item(),
        packet_bytes,
        repeat_pointers: false,
        split: Split::Even,
    };
    Plan::new(&shape).map_err(io::Error::other)
}

fn sent_head(packet: &mut [u8], n: u64, shape: &Shape) -> io::Result<()> {
    let plan = plan(1 + n / shape.of_heap, shape.heap, shape.packet)?;
    plan.packet(&item(), n % shape.of_heap, packet);
    Ok(())
}

fn spead_head(packet: &mut [u8], n: u64, shape: &Shape) -> io::Result<()> {
    let Some(flavour) = Flavour::new(48) else { return Err(io::ErrorKind::Other.into()) };
    let (heap, payload, of_heap) = (shape.heap, shape.packet - SPEAD_HEAD, shape.of_heap);
    packet[..8].copy_from_slice(&[0x53, 4, 2, 6, 0, 0, 0, 5]);
    let values = [
        (id::HEAP_COUNTER, 1 + n / of_heap),
        (id::HEAP_SIZE, heap as u64),
        (id::HEAP_OFFSET, n % of_heap * payload as u64),
        (id::PAYLOAD_LENGTH, payload as u64),
        (0x1600, n / of_heap),
    ];
    for (at, (id, value)) in values.into_iter().enumerate() {
        packet[8 + at * 8..][..8].copy_from_slice(&flavour.immediate(id, value).to_be_bytes());
    }
    Ok(())
}

fn ejfat_head(packet: &mut [u8], n: u64, shape: &Shape) -> io::Result<()> {
    let (heap, payload, of_heap) = (shape.heap, shape.packet - EJFAT_HEAD, shape.of_heap);
    let (size, offset) = (Some(heap as u64), n % of_heap * payload as u64);
    let part = Part {
        own: 7,
        number: 1 + n / of_heap,
        size,
        offset,
        payload: &packet[EJFAT_HEAD..],
        ..Part::default()
    };
    let head = EjfatWire::head(0, &part).ok_or(io::ErrorKind::Other)?;
    packet[..EJFAT_HEAD].copy_from_slice(&head);
    Ok(())
}

/// Trains of packets with keys. What the reader does with each is measured.
struct Heaps {
    shape: Shape,
    /// Each packet is a train for itself.
    singly: bool,
    next: u64,
    until: u64,
    warm: u64,
    bytes: Vec<u8>,
    /// Heaps that were taken and dropped.
    taken: Arc<AtomicU64>,
}

impl Source for Heaps {
    fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let (sender, stride) = (sender(), self.shape.packet);
        let in_train = TRAIN / stride;
        self.bytes.resize(in_train * stride, 1);
        let of_heap = self.shape.of_heap;
        // All memory is back before the next train, whichever thread is the faster.
        while self.taken.load(Ordering::Acquire) < self.next / of_heap {
            std::thread::yield_now();
        }
        for (at, packet) in self.bytes.chunks_exact_mut(stride).enumerate() {
            (self.shape.head)(packet, self.next + at as u64, &self.shape)?;
        }
        let mut give = |train| {
            if self.next < self.warm {
                each(train);
            } else {
                measured(|| each(train));
            }
        };
        if self.singly {
            self.bytes.chunks_exact(stride).for_each(|packet| give(Train::single(packet, &sender)));
        } else {
            give(Train { bytes: &self.bytes, stride, ..Train::single(&[], &sender) });
        }
        self.next += in_train as u64;
        Ok(in_train)
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }

    fn describe(&self) -> String {
        "memory".into()
    }

    fn is_finished(&self) -> bool {
        self.next >= self.until
    }
}

/// Objects from trains to the reader's queue, which another thread empties.
fn objects<W: Keyed>(shape: Shape, singly: bool) -> io::Result<u64> {
    let heap = shape.heap;
    // Whether a copy goes past the cache depends on the machine's otherwise, and on when the reader returns a heap.
    let memory = HeapMemory::with_warm_limit(1 << 30, 0);
    memory.prepare(heap, ((64 << 20) / heap).max(4));
    // By number, not by time: each heap lets the oldest be forgotten, however slow this runs.
    let heaps = KeyedConfig {
        remember: 4096,
        remember_for: Nanos(u64::MAX),
        timeout: None,
        ..StreamConfig::default().heaps
    };
    let config = StreamConfig { heaps, memory, ring: 8192, full: Full::Wait, ..StreamConfig::default() };
    let stream = ObjectStream::<W>::new(&config);
    let in_train = (TRAIN / shape.packet) as u64;
    let whole = |packets: u64| packets / in_train * in_train;
    let (warm, until) = (whole(4_000), whole(4_000 + PACKETS));
    let taken = Arc::new(AtomicU64::new(0));
    let (bytes, counted) = (Vec::new(), Arc::clone(&taken));
    let source = Heaps { shape, singly, next: 0, until, warm, bytes, taken: counted };
    stream.add_source("memory", Box::new(source), true)?;
    let (mut some, mut got) = (Vec::new(), 0);
    while stream.get(None).is_ok() {
        stream.get_many(&mut some, 4096);
        got += 1 + some.len();
        some.clear();
        taken.store(got as u64, Ordering::Release);
    }
    let wanted = (until / shape.of_heap) as usize;
    // The last heap may end behind the last train.
    if got.abs_diff(wanted) > 1 {
        return Err(io::Error::other(format!("{got} of {wanted} heaps came")));
    }
    Ok(until - warm)
}

fn heaps(heap: usize, payload: usize, singly: bool) -> io::Result<u64> {
    objects::<SpeadWire>(Shape::new(SPEAD_HEAD, heap, payload, spead_head), singly)
}

/// The cases of [`fixed_input`].
pub const FIXED_INPUTS: [&str; 10] = [
    "frames-8032",
    "frames-1440",
    "threads-8032",
    "heaps-1k",
    "heaps-4k",
    "heaps-64k",
    "sent-4k",
    "sent-64k",
    "singly-4k",
    "events-64k",
];

/// Passes the fixed packets of `case` from memory through the receive path, and returns how many were measured: what runs below the
/// function `measured` of this module, for callgrind to count.
///
/// # Errors
/// If there is no such case, memory is refused, or a packet was not placed.
pub fn fixed_input(case: &str) -> io::Result<u64> {
    match case {
        "frames-8032" => frames(8000, 1),
        "frames-1440" => frames(1408, 1),
        "threads-8032" => frames(8000, 4),
        "heaps-1k" => heaps(1 << 10, 1 << 10, false),
        "heaps-4k" => heaps(3 * 1408, 1408, false),
        "heaps-64k" => heaps(64 << 10, 8 << 10, false),
        "singly-4k" => heaps(3 * 1408, 1408, true),
        "sent-4k" => objects::<SpeadWire>(Shape::sent(4 << 10, 1472)?, false),
        "sent-64k" => objects::<SpeadWire>(Shape::sent(64 << 10, 8972)?, false),
        "events-64k" => objects::<EjfatWire>(Shape::new(EJFAT_HEAD, 64 << 10, 8 << 10, ejfat_head), false),
        _ => {
            let why = format!("no such case: {case}{}", Hint(FIXED_INPUTS.join(", ")));
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}
