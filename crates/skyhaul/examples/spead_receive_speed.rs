//! What a reader's thread costs for a heap, without any socket: packets from a warm scratch, as a socket leaves them.
//!
//! ```text
//! cargo run --release -p skyhaul --example spead_receive_speed -- [HEAP BYTES] [PACKET PAYLOAD] [TRAIN PACKETS] [SECONDS]
//! cargo run --release -p skyhaul --example spead_receive_speed -- tcp [HEAP BYTES]
//! ```
//!
//! The scratch is made anew for each round (counters are put into the heads); what that costs is measured alone and
//! subtracted. The other thread gets the heaps and drops them.

use skyhaul::core::wire::spead::{Flavour, id};
use skyhaul::io::address::Endpoint;
use skyhaul::io::host::thread::cpu_time;
use skyhaul::io::source::{Source, SourceStats, Train};
use skyhaul::spead::receive::{Full, HeapMemory, Stream, StreamConfig, TcpReaderOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of a scratch that stays in the cache.
const SCRATCH: usize = 256 << 10;

struct Scratch {
    bytes: Vec<u8>,
    packet: usize,
    train: usize,
    packets_of_heap: usize,
    heap: usize,
    payload: usize,
    next: u64,
    packets: u64,
    until: Instant,
}

const HEAD: usize = 8 + 5 * 8;

impl Scratch {
    fn new(heap: usize, payload: usize, train: usize, time: Duration) -> Self {
        let payload = payload.min(heap);
        let packets_of_heap = heap / payload;
        let packet = HEAD + payload;
        let heaps = (SCRATCH / (packet * packets_of_heap)).max(1);
        let bytes = vec![1; heaps * packets_of_heap * packet];
        let heap = payload * packets_of_heap;
        let until = Instant::now() + time;
        Self { bytes, packet, train, packets_of_heap, heap, payload, next: 1, packets: 0, until }
    }

    /// Give every packet its heap's next number.
    fn renew(&mut self) {
        let flavour = Flavour::new(48).expect("a flavour");
        for heap in self.bytes.chunks_mut(self.packet * self.packets_of_heap) {
            for (n, packet) in heap.chunks_mut(self.packet).enumerate() {
                packet[..8].copy_from_slice(&[0x53, 4, 2, 6, 0, 0, 0, 5]);
                let values = [
                    (id::HEAP_COUNTER, self.next),
                    (id::HEAP_SIZE, self.heap as u64),
                    (id::HEAP_OFFSET, (n * self.payload) as u64),
                    (id::PAYLOAD_LENGTH, self.payload as u64),
                    (0x1600, self.next),
                ];
                for (at, (id, value)) in values.into_iter().enumerate() {
                    packet[8 + at * 8..][..8].copy_from_slice(&flavour.immediate(id, value).to_be_bytes());
                }
            }
            self.next += 1;
        }
        self.packets += (self.bytes.len() / self.packet) as u64;
    }
}

impl Source for Scratch {
    fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        self.renew();
        let sender = SocketAddr::from(([127, 0, 0, 1], 1));
        for bytes in self.bytes.chunks(self.packet * self.train) {
            each(Train { bytes, stride: self.packet, ..Train::single(&[], &sender) });
        }
        Ok(self.bytes.len() / self.packet)
    }
    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
    fn describe(&self) -> String {
        "scratch".into()
    }
    fn is_finished(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Whole heaps, each as one packet on TCP, written from memory over and over.
fn write_heaps(to: SocketAddr, heap: usize, until: Instant) -> io::Result<()> {
    let mut scratch = Scratch::new(heap, heap, 1, Duration::ZERO);
    scratch.bytes.truncate(scratch.packet);
    let mut connection = TcpStream::connect(to)?;
    while Instant::now() < until {
        scratch.renew();
        connection.write_all(&scratch.bytes)?;
    }
    Ok(())
}

/// What a reader's thread costs for whole heaps over TCP on loopback.
fn tcp(heap: usize, time: Duration) -> io::Result<()> {
    let memory = HeapMemory::new(2 << 30);
    memory.prepare(heap, ((512 << 20) / heap).max(4));
    let stream = Stream::new(&StreamConfig { memory, ..StreamConfig::default() });
    let at = stream
        .add_tcp(&Endpoint::tcp(SocketAddr::from(([127, 0, 0, 1], 0))), &TcpReaderOptions::default())?;
    let begin = Instant::now();
    let sender = std::thread::spawn(move || write_heaps(at, heap, Instant::now() + time));
    let (mut heaps, mut bytes) = (0u64, 0);
    while let Ok(heap) = stream.get(None) {
        heaps += 1;
        bytes += heap.payload().len();
    }
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), stream.stats().readers[0].cpu.as_secs_f64());
    sender.join().map_err(|_| io::ErrorKind::Other)??;
    println!(
        "whole heaps of {heap} B over TCP: {heaps} heaps, {:.2} GB/s; reader's CPU {:.3} s/GB",
        bytes as f64 / wall / 1e9,
        cpu / bytes as f64 * 1e9
    );
    Ok(())
}

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("tcp") {
        let heap = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(16 << 20);
        return tcp(heap, Duration::from_secs(3));
    }
    let number =
        |n: usize, default: usize| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (heap, payload, train) = (number(1, 1024), number(2, 1024), number(3, 44));
    let time = Duration::from_secs(number(4, 3) as u64);
    let mut alone = Scratch::new(heap, payload, train, time);
    let before = cpu_time();
    for _ in 0..2000 {
        alone.renew();
    }
    let renewing = (cpu_time() - before).as_secs_f64() / alone.packets as f64;

    let memory = HeapMemory::new(1 << 30);
    memory.prepare(heap, ((256 << 20) / heap).max(4));
    let stream =
        Stream::new(&StreamConfig { memory, ring: 8192, full: Full::Wait, ..StreamConfig::default() });
    let begin = Instant::now();
    stream.add_source("scratch", Box::new(Scratch::new(heap, payload, train, time)), true)?;
    let (mut heaps, mut got, mut bytes) = (Vec::new(), 0u64, 0u64);
    while let Ok(first) = stream.get(None) {
        stream.get_many(&mut heaps, 4096);
        got += 1 + heaps.len() as u64;
        bytes += first.payload().len() as u64 * (1 + heaps.len() as u64);
        heaps.clear();
    }
    let wall = begin.elapsed().as_secs_f64();
    let stats = stream.stats();
    let cpu = stats.readers[0].cpu.as_secs_f64() - renewing * stats.total.packets as f64;
    println!(
        "heap {heap} B, payload {payload} B, trains of {train}: {:.2} Mheaps/s, {:.2} GB/s; reader's CPU {:.0} ns a heap, \
         {:.3} s/GB; {} heaps, waited {} times, refused {}",
        got as f64 / wall / 1e6,
        bytes as f64 / wall / 1e9,
        cpu / got as f64 * 1e9,
        cpu / bytes as f64 * 1e9,
        got,
        stats.total.blocked,
        stats.total.rejects.total(),
    );
    Ok(())
}
