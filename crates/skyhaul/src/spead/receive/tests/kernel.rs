//! What the kernel places is received as what this process places, packet by packet, and a sender has its program where it sends.

use super::super::chunk::{Chunk, ChunkConfig, ChunkRule, ChunkStream, HeapHead};
use super::super::placed::{PlacedStream, Placing};
use super::*;
use skyhaul_io::address::Endpoint;
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of a heap, of the payload of its packets, and of a packet; heaps of a chunk.
const HEAP: usize = 16384;
const PAYLOAD: usize = 1416;
const PACKET: usize = 8 + 6 * 8 + PAYLOAD;
const HEAPS: u64 = 16;

/// The packets of a heap. Each says its chunk and its place there.
fn heap(counter: u64) -> Vec<Vec<u8>> {
    let own = [flavour().immediate(0x1600, counter / HEAPS), flavour().immediate(0x4103, counter % HEAPS)];
    packets_with(counter, &payload(counter, HEAP), &own, PACKET, true)
}

/// Packets of these heaps: some are lost, late, or sent twice with different bytes.
fn disturbed(heaps: Range<u64>, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut sent = Vec::new();
    for (at, packet) in heaps.flat_map(heap).enumerate() {
        let at = at as u64 * 4;
        match random(100) {
            0..3 => continue,
            // By a packet or two, or by the packets of several heaps.
            3..8 => sent.push((at + 4 * random(24) + 1, packet)),
            8..10 => sent.push((at + 4 * random(600) + 1, packet)),
            10..14 => {
                let mut other = packet.clone();
                other[PACKET.min(packet.len()) - 100..].iter_mut().for_each(|byte| *byte = !*byte);
                sent.extend([(at, packet), (at + 4 * random(30) + 2, other)]);
            }
            _ => sent.push((at, packet)),
        }
    }
    sent.sort_by_key(|(at, _)| *at);
    sent.into_iter().map(|(_, packet)| packet).collect()
}

fn options(tier: Tier) -> UdpOptions {
    UdpOptions { tier, ..UdpOptions::default() }
}

/// Nothing ends by its time, which is not the same for both.
fn timeless() -> StreamConfig {
    let mut config = StreamConfig { stop: StopRule::Never, ring: 64, ..config() };
    config.heaps.timeout = None;
    config
}

/// Sends to streams that receive as this process and as the kernel places.
struct Twin<'a> {
    sender: UdpSocket,
    to: [SocketAddr; 2],
    stats: [&'a dyn Fn() -> Stats; 2],
    sent: u64,
}

impl Twin<'_> {
    fn send(&mut self, packets: &[Vec<u8>]) {
        for packet in packets {
            for to in self.to {
                self.sender.send_to(packet, to).unwrap();
            }
            self.sent += 1;
            if self.sent.is_multiple_of(64) {
                self.wait();
            }
        }
        self.wait();
    }

    /// Until all that was sent has been taken.
    fn wait(&self) {
        for stats in self.stats {
            until("what was sent is received", || stats().total.packets >= self.sent);
        }
    }

    /// Heaps from the first one on, until the kernel places those of one of them. Returns the next heap.
    fn begin(&mut self, mut taken: impl FnMut()) -> u64 {
        let mut next = 0;
        until("the kernel places", || {
            self.send(&(next..next + 4).flat_map(heap).collect::<Vec<_>>());
            next += 4;
            taken();
            std::thread::sleep(Duration::from_millis(10));
            self.stats[1]().readers[0].source.tier == "bpf"
        });
        next
    }

    /// What must be the same.
    fn same(&self) {
        let [stage, kernel] = self.stats.map(|stats| {
            let stats = stats();
            let (counts, source) = (&stats.total, &stats.readers[0].source);
            assert_eq!((source.packets, source.socket_drops), (self.sent, 0), "{source:?}");
            let sums =
                [counts.packets, counts.bytes, counts.heaps, counts.heap_bytes, counts.incomplete_dropped];
            let ended =
                (counts.retired, counts.refused_bytes, counts.pointers_refused, counts.incomplete_heaps);
            format!("{sums:?} {ended:?} {:?} {:?}", counts.rejects, stats.missing)
        });
        assert_eq!(kernel, stage);
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG.unwrap();
    while !is_so() {
        assert!(Instant::now() < until, "in a minute: {what}");
        std::thread::yield_now();
    }
}

/// `None`: this process may not load programs.
fn opened(added: std::io::Result<SocketAddr>) -> Option<SocketAddr> {
    match added {
        Err(error) if error.to_string().contains("CAP_BPF") => {
            println!("SKIPPED: {error}");
            None
        }
        added => Some(added.unwrap()),
    }
}

fn chunk(mut data: Vec<u8>, marks: usize) -> Chunk {
    data.fill(0xEE);
    Chunk::new(data, marks, 0)
}

/// A chunk: its number, marks, counts and bytes.
type Got = (u64, Vec<u8>, u64, u64, Vec<u8>);

fn take(stream: &ChunkStream, got: &mut Vec<Got>, timeout: Option<Duration>) {
    while let Ok(Chunk { id, data, present, heaps, bytes, .. }) = stream.get(timeout) {
        let data = *data.into_any().downcast::<Vec<u8>>().unwrap();
        got.push((id, present.clone(), heaps, bytes, data.clone()));
        stream.add_free(chunk(data, present.len()));
    }
}

#[test]
fn chunks_are_the_same_by_either_tier() {
    for (presence, seed) in [(0, 1), (0, 2), (PAYLOAD as u64, 3)] {
        let marks = if presence == 0 { 1 } else { HEAP.div_ceil(PAYLOAD) };
        let rule = ChunkRule::declared(
            "item(0x1600)",
            &format!("item(0x4103) * {marks}"),
            &format!("item(0x4103) * {HEAP}"),
        );
        let chunks = ChunkConfig { packet_presence: presence, ..ChunkConfig::new(rule.unwrap()) };
        let streams = [(); 2].map(|()| ChunkStream::new(&timeless(), &chunks));
        let mut to = Vec::new();
        for (stream, tier) in streams.iter().zip([Tier::Stage, Tier::Bpf]) {
            let room = || chunk(vec![0; HEAP * HEAPS as usize], marks * HEAPS as usize);
            (0..60).for_each(|_| stream.add_free(room()));
            let Some(at) = opened(stream.add_udp(&"udp://127.0.0.1:0".parse().unwrap(), &options(tier)))
            else {
                return;
            };
            to.push(at);
        }
        let mut got = [Vec::new(), Vec::new()];
        let stats = [&|| streams[0].stats(), &|| streams[1].stats()] as [&dyn Fn() -> Stats; 2];
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut twin = Twin { sender, to: to.try_into().unwrap(), stats, sent: 0 };
        let soon = Some(Duration::ZERO);
        let first =
            twin.begin(|| streams.iter().zip(&mut got).for_each(|(stream, got)| take(stream, got, soon)));
        for part in disturbed(first..first + 600, seed).chunks(1000) {
            twin.send(part);
            streams.iter().zip(&mut got).for_each(|(stream, got)| take(stream, got, soon));
        }
        for (stream, got) in streams.iter().zip(&mut got) {
            stream.stop();
            take(stream, got, LONG);
        }
        twin.same();
        let [stage, kernel] = got;
        assert_eq!(kernel.len(), stage.len());
        for (one, other) in kernel.iter().zip(&stage) {
            assert_eq!((&one.0, &one.1, one.2, one.3), (&other.0, &other.1, other.2, other.3));
            assert!(one.4 == other.4, "chunk {} has the same bytes", one.0);
        }
        assert!(
            stage.iter().any(|chunk| chunk.1.contains(&0)) && stage.len() as u64 >= (first + 600) / HEAPS
        );
        assert_eq!(streams[1].chunk_counts(), streams[0].chunk_counts());
    }
}

/// By counter: the bytes of a heap, and whether it ended complete.
type Placed = BTreeMap<u64, (Vec<u8>, Option<bool>)>;

/// Heaps in memory of the program, which opens that of some of them late.
#[derive(Clone, Default)]
struct Copies(Arc<Mutex<Placed>>);

impl Placing for Copies {
    type Place = u64;

    fn place(&mut self, heap: &HeapHead<'_>) -> Option<u64> {
        let counter = heap.head.counter;
        let mut all = self.0.lock().unwrap();
        let is_asked_again = all.contains_key(&counter);
        all.entry(counter).or_insert_with(|| (vec![0xEE; HEAP], None));
        (is_asked_again || !counter.is_multiple_of(50)).then_some(counter)
    }

    fn write(&mut self, place: &u64, offset: u64, bytes: &[u8], stride: usize, each: usize) {
        let mut all = self.0.lock().unwrap();
        let (heap, mut at) = (&mut all.get_mut(place).unwrap().0, offset as usize);
        for payload in bytes.chunks(stride) {
            heap[at..at + each].copy_from_slice(&payload[..each]);
            at += each;
        }
    }

    fn ended(&mut self, place: u64, is_complete: bool) {
        self.0.lock().unwrap().get_mut(&place).unwrap().1 = Some(is_complete);
    }

    fn finished(&mut self) {}
}

#[test]
fn heaps_in_memory_that_the_program_opens_are_the_same_by_either_tier() {
    let copies = [(); 2].map(|()| Copies::default());
    let streams = [0, 1].map(|n: usize| PlacedStream::new(&timeless(), copies[n].clone()));
    let mut to = Vec::new();
    for (stream, tier) in streams.iter().zip([Tier::Stage, Tier::Bpf]) {
        let Some(at) = opened(stream.add_udp(&"udp://127.0.0.1:0".parse().unwrap(), &options(tier))) else {
            return;
        };
        to.push(at);
    }
    let stats = [&|| streams[0].stats(), &|| streams[1].stats()] as [&dyn Fn() -> Stats; 2];
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut twin = Twin { sender, to: to.try_into().unwrap(), stats, sent: 0 };
    let first = twin.begin(|| {});
    twin.send(&disturbed(first..first + 600, 4));
    streams.iter().for_each(PlacedStream::stop);
    twin.same();
    let [stage, kernel] = copies.map(|copies| std::mem::take(&mut *copies.0.lock().unwrap()));
    assert!(kernel == stage, "the same heaps, ends and bytes");
    let ended = |is_whole| stage.values().filter(|(_, ended)| *ended == Some(is_whole)).count();
    assert!(ended(true) > 300 && ended(false) > 50, "{} and {}", ended(true), ended(false));
}

/// A stream of chunks is stopped amid heaps, and its address used again; chunks that it gave are not written any more.
#[test]
fn a_stream_of_chunks_that_is_stopped_writes_nothing_more() {
    let rule =
        ChunkRule::declared("item(0x1600)", "item(0x4103)", &format!("item(0x4103) * {HEAP}")).unwrap();
    let mut at: Endpoint = "udp://127.0.0.1:0".parse().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..2 {
        let stream = ChunkStream::new(&timeless(), &ChunkConfig::new(rule.clone()));
        (0..60).for_each(|_| stream.add_free(chunk(vec![0; HEAP * HEAPS as usize], HEAPS as usize)));
        let Some(to) = opened(stream.add_udp(&at, &options(Tier::Bpf))) else { return };
        let (mut next, mut taken) = (0, Vec::new());
        until("the kernel places", || {
            for packet in (next..next + 4).flat_map(heap) {
                sender.send_to(&packet, to).unwrap();
            }
            next += 4;
            std::thread::sleep(Duration::from_millis(10));
            while let Ok(chunk) = stream.get(Some(Duration::ZERO)) {
                taken.push(chunk);
                stream.add_free(self::chunk(vec![0; HEAP * HEAPS as usize], HEAPS as usize));
            }
            stream.stats().readers[0].source.tier == "bpf"
        });
        // Half of a heap is under way.
        for packet in (next..next + 20).flat_map(heap).chain(heap(next + 20).drain(..6)) {
            sender.send_to(&packet, to).unwrap();
        }
        stream.stop();
        while let Ok(chunk) = stream.get(LONG) {
            taken.push(chunk);
        }
        assert_eq!(stream.ended(), Some(StreamEnd::Stopped));
        let bytes: Vec<Vec<u8>> = taken.iter().map(|chunk| chunk.data.bytes().unwrap().to_vec()).collect();
        for packet in (next..next + 40).flat_map(heap) {
            // Nobody may be there any more.
            let _ = sender.send_to(&packet, to);
        }
        for (chunk, before) in taken.iter().zip(&bytes) {
            assert!(chunk.data.bytes().unwrap() == before, "chunk {}", chunk.id);
            for (n, _) in chunk.present.iter().enumerate().filter(|(_, present)| **present == 1) {
                let there = &before[n * HEAP..][..HEAP];
                assert!(there == payload(chunk.id * HEAPS + n as u64, HEAP), "chunk {} heap {n}", chunk.id);
            }
        }
        // The same port.
        at = format!("udp://{to}").parse().unwrap();
    }
}

/// A sender whose program is at one socket sends to another: when the first gives its program up, the other gets one.
#[test]
fn a_sender_that_moves_to_another_socket_has_its_program_there() {
    let stream = Stream::new(&StreamConfig { ring: 4096, ..timeless() });
    let mut to = Vec::new();
    for _ in 0..2 {
        let added = stream.add_udp(&"udp://127.0.0.1:0".parse().unwrap(), &options(Tier::Bpf));
        let Some(at) = opened(added) else { return };
        to.push(at);
    }
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut next = 0;
    let mut send = |to: SocketAddr| {
        for packet in (next..next + 4).flat_map(heap) {
            sender.send_to(&packet, to).unwrap();
        }
        next += 4;
        std::thread::sleep(Duration::from_millis(10));
        while stream.get(Some(Duration::ZERO)).is_ok() {}
    };
    let source = |n: usize| stream.stats().readers[n].source.clone();
    until("the kernel places at the first socket", || {
        send(to[0]);
        source(0).tier == "bpf"
    });
    until("the other says who has the program", || {
        send(to[1]);
        source(1).because.contains("the kernel places what it sends to another socket")
    });
    // The first is silent for ten seconds.
    until("the kernel places at the other socket", || {
        send(to[1]);
        source(1).tier == "bpf"
    });
    stream.stop();
    assert_ne!(source(0).tier, "bpf", "{}", source(0).because);
    let stats = stream.stats();
    assert_eq!((stats.total.packets, stats.total.rejects.total()), (next * 12, 0), "{stats:?}");
}

/// A socket that fails once the test sets its flag.
struct Failing {
    source: UdpSource,
    fails: Arc<AtomicBool>,
}

impl Source for Failing {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> std::io::Result<usize> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("the socket failed"));
        }
        self.source.poll(wait, each)
    }

    fn stats(&self) -> SourceStats {
        self.source.stats()
    }

    fn describe(&self) -> String {
        self.source.describe()
    }
}

/// The socket at which a sender's heaps are placed fails: the sender keeps sending, and has its program at the other socket, which still receives.
#[test]
fn a_socket_that_fails_gives_its_sender_to_another() {
    let stream = Stream::new(&StreamConfig { ring: 4096, ..timeless() });
    let fails = Arc::new(AtomicBool::new(false));
    let any = "udp://127.0.0.1:0".parse().unwrap();
    let first = UdpSource::open(&any, &options(Tier::Bpf)).unwrap();
    let through = |source| Box::new(Failing { source, fails: fails.clone() }) as Box<dyn Source>;
    let Some(first) = opened(stream.readers().udp_through(first, &options(Tier::Bpf), through)) else {
        return;
    };
    let other = stream.add_udp(&any, &options(Tier::Bpf)).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut next = 0;
    let mut send = |to: SocketAddr| {
        for packet in (next..next + 4).flat_map(heap) {
            sender.send_to(&packet, to).unwrap();
        }
        next += 4;
        std::thread::sleep(Duration::from_millis(10));
        while stream.get(Some(Duration::ZERO)).is_ok() {}
    };
    let reader = |n: usize| stream.stats().readers[n].clone();
    until("the kernel places at the first socket", || {
        send(first);
        reader(0).source.tier == "bpf"
    });
    until("the other says who has the program", || {
        send(other);
        reader(1).source.because.contains("the kernel places what it sends to another socket")
    });
    fails.store(true, Ordering::Relaxed);
    until("the first socket has failed", || reader(0).ended);
    assert_eq!(reader(0).error.as_deref(), Some("the socket failed"));
    until("the kernel places at the other socket", || {
        send(other);
        reader(1).source.tier == "bpf"
    });
    stream.stop();
    let stats = stream.stats();
    assert_eq!((stats.total.packets, stats.total.rejects.total()), (next * 12, 0), "{stats:?}");
}
