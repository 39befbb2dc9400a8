//! How fast heaps go out by UDP, beside a loop that sends ready trains: for `taskset -c 0`, with nothing listening
//! longer than its buffer.
//!
//! ```text
//!   spead_send HEAP_BYTES PACKET_BYTES [ROUNDS [WAY…]]        ways: bare one list batch queue end
//! ```
//!
//! *bare* sends full trains that lie in one piece; *one* a heap to a call, *list* 256 heaps to a call, *batch* 256
//! prepared ones, *queue* single heaps through the queue. *end* sends lists to a receiving stream on CPU 1, waiting
//! while more than 2 MiB are on their way. The ways take turns; what is printed are medians. In the
//! environment, `FULL=1` sends full packets instead of equal ones, `RATE=16000000000` paces (not *bare*).

use skyhaul::core::wire::spead::Flavour;
use skyhaul::io::host::thread::cpu_time;
use skyhaul::io::udp::send::{SendOptions, UdpSender};
use skyhaul::io::udp::{UdpOptions, UdpSource};
use skyhaul::spead::receive;
use skyhaul::spead::send::{Batch, Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Split, Stream};
use std::error::Error;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(300);
const HEAPS: usize = 256;

/// Heaps, bytes on the wire and CPU seconds of one turn.
struct Turn {
    heaps: u64,
    bytes: u64,
    cpu: f64,
    wall: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, or: usize| args.get(n).map_or(Ok(or), |text| text.parse::<usize>());
    let (heap_bytes, packet_bytes, rounds) = (number(0, 4096)?, number(1, 1472)?, number(2, 7)?);
    let all = ["bare", "one", "list", "batch", "queue"].map(String::from).to_vec();
    let ways = if args.len() > 3 { args[3..].to_vec() } else { all };
    // Never read: its buffer fills, and the kernel drops what comes then.
    let sink = UdpSource::open(&"udp://127.0.0.1:0?rcvbuf=64KiB".parse()?, &UdpOptions::default())?;
    let to = [format!("udp://{}", sink.local()).parse()?];
    let split = if std::env::var_os("FULL").is_some() { Split::Full } else { Split::Even };
    let rate = std::env::var("RATE").map_or(Ok(0), |text| text.parse())?;
    let config = SendConfig {
        rate,
        packet: PacketSize::Packet(packet_bytes),
        split,
        max_heaps: 4096,
        ..SendConfig::default()
    };
    let flavour = Flavour::new(48).ok_or("no flavour")?;
    let heaps = (0..HEAPS as u64)
        .map(|n| {
            let mut heap = Heap::pattern(flavour, 0x1600, n, heap_bytes as u64)?;
            heap.add_immediate(0x1700, n)?;
            heap.add_immediate(0x1701, n)?;
            Ok((Arc::new(heap), HeapOptions::default()))
        })
        .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let mut turns: Vec<Vec<Turn>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (way, turns) in ways.iter().zip(&mut turns) {
            turns.push(match way.as_str() {
                "end" => end(&config, &heaps)?,
                "bare" => bare(UdpSender::open(&to[0], &SendOptions::default())?, packet_bytes)?,
                way => {
                    let outlet = Outlet::udp(&to, &SendOptions::default())?;
                    heap_turn(&Stream::new(outlet, config.clone())?, way, &heaps)?
                }
            });
        }
    }
    for (way, turns) in ways.iter().zip(&turns) {
        let median = |of: &dyn Fn(&Turn) -> f64| {
            let mut all: Vec<f64> = turns.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{way:6} {heap_bytes:8} B {packet_bytes:5} B  {:8.0} k heaps/s  {:5.1} Gb/s  {:.3} CPU s/GB  {:6.0} ns/heap",
            median(&|t| t.heaps as f64 / t.wall / 1e3),
            median(&|t| t.bytes as f64 * 8.0 / t.wall / 1e9),
            median(&|t| t.cpu * 1e9 / t.bytes as f64),
            median(&|t| t.cpu * 1e9 / t.heaps as f64),
        );
    }
    Ok(())
}

fn bare(mut sender: UdpSender, packet_bytes: usize) -> Result<Turn, Box<dyn Error>> {
    let per_train = (65_507 / packet_bytes).min(64);
    let bytes = vec![7u8; 4 * per_train * packet_bytes];
    let packets: Vec<[IoSlice<'_>; 1]> = bytes.chunks(packet_bytes).map(|p| [IoSlice::new(p)]).collect();
    let (cpu, clock) = (cpu_time(), Instant::now());
    while clock.elapsed() < TIME {
        sender.send_train(&packets)?;
    }
    let bytes = sender.stats().bytes;
    let packets = sender.stats().packets;
    Ok(Turn {
        heaps: packets,
        bytes,
        cpu: (cpu_time() - cpu).as_secs_f64(),
        wall: clock.elapsed().as_secs_f64(),
    })
}

fn heap_turn(stream: &Stream, way: &str, heaps: &[(Arc<Heap>, HeapOptions)]) -> Result<Turn, Box<dyn Error>> {
    let batch = Batch::new(heaps.to_vec(), stream.config())?;
    let list: Vec<(&Heap, HeapOptions)> = heaps.iter().map(|(heap, options)| (&**heap, *options)).collect();
    let clock = Instant::now();
    while clock.elapsed() < TIME {
        match way {
            "one" => {
                for (heap, options) in &list {
                    stream.send(heap, options)?;
                }
            }
            "list" => drop(stream.send_all(&list, Order::Serial)?),
            "batch" => drop(stream.send_batch(&batch, Order::Serial)?),
            "queue" => {
                for (heap, options) in heaps {
                    while let Err(_full) = stream.queue(vec![(heap.clone(), *options)], Order::Serial) {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            }
            other => return Err(format!("no way '{other}'").into()),
        }
    }
    stream.flush(None).then_some(()).ok_or("not flushed")?;
    let wall = clock.elapsed().as_secs_f64();
    let stats = stream.stats();
    Ok(Turn { heaps: stats.objects, bytes: stats.wire_bytes, cpu: stats.cpu_seconds, wall })
}

/// To a receiver that gets every heap.
fn end(config: &SendConfig, heaps: &[(Arc<Heap>, HeapOptions)]) -> Result<Turn, Box<dyn Error>> {
    let receiver = receive::Stream::new(&receive::StreamConfig { cpus: vec![1], ..Default::default() });
    let at = receiver.add_udp(&"udp://127.0.0.1:0?rcvbuf=64MiB".parse()?, &UdpOptions::default())?;
    let got = Arc::new(AtomicU64::new(0));
    let count = got.clone();
    let consumer = std::thread::spawn(move || {
        let mut some = Vec::new();
        while let Ok(first) = receiver.get(None) {
            some.push(first);
            receiver.get_many(&mut some, 1000);
            count.fetch_add(some.len() as u64, Ordering::Relaxed);
            some.clear();
        }
        receiver.stats()
    });
    let stream = Stream::new(
        Outlet::udp(&[format!("udp://{at}").parse()?], &SendOptions::default())?,
        config.clone(),
    )?;
    let heap_bytes = heaps[0].0.payload_bytes();
    let at_once = ((1 << 20) / heap_bytes).clamp(1, HEAPS as u64);
    let list: Vec<(&Heap, HeapOptions)> =
        heaps[..at_once as usize].iter().map(|(heap, options)| (&**heap, *options)).collect();
    let (clock, mut sent) = (Instant::now(), 0);
    while clock.elapsed() < TIME {
        stream.send_all(&list, Order::Serial)?;
        sent += at_once;
        let waits = Instant::now();
        while (sent - got.load(Ordering::Relaxed)) * heap_bytes > 2 << 20 {
            std::hint::spin_loop();
            if waits.elapsed() > Duration::from_secs(2) {
                return Err(format!("{} of {sent} heaps lost", sent - got.load(Ordering::Relaxed)).into());
            }
        }
    }
    let wall = clock.elapsed().as_secs_f64();
    let mut stop = Heap::new(heaps[0].0.flavour());
    stop.add_end();
    stream.send(&stop, &HeapOptions::default())?;
    drop(consumer.join());
    let stats = stream.stats();
    Ok(Turn { heaps: stats.objects, bytes: stats.wire_bytes, cpu: stats.cpu_seconds, wall })
}
