//! How fast this machine can carry UDP through our own tiers, with nothing parsed: the floor for everything above.
//!
//! `cargo run --release -p skyhaul-io --example ceiling -- TIER MODE BYTES [SECONDS] [Gb/s] [ADDRESS]`
//!
//! One thread sends (CPU 0), one receives (CPU 1) and copies each payload, less 64 bytes of header, to its place in
//! 64 MiB. Without a rate the sender stays at most 1 MiB ahead of the receiver (closed loop); with one it does not
//! look back. Prints rate, loss, and CPU seconds per GB of both threads; the sender's without its waiting.

use skyhaul_io::{
    address::Endpoint,
    copy,
    host::thread::{cpu_time, pin},
    source::Source,
    udp::{
        Tier, UdpOptions, UdpSource,
        send::{SendMode, SendOptions, UdpSender},
    },
};
use std::{
    error::Error,
    io::IoSlice,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

const HEADER: usize = 64;
const WINDOW: u64 = 1 << 20;

#[derive(Default)]
struct Shared {
    received: AtomicU64,
    packets: AtomicU64,
    done: AtomicBool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |n: usize, default: &str| arguments.get(n).map_or(default, String::as_str).to_owned();
    let tier = match &*word(0, "stage") {
        "plain" => Tier::Plain,
        "ring" => Tier::Ring,
        "auto" => Tier::Auto,
        _ => Tier::Stage,
    };
    let mode = match &*word(1, "gso") {
        "mmsg" => SendMode::Mmsg,
        "plain" => SendMode::Plain,
        _ => SendMode::Gso,
    };
    let length: usize = word(2, "1472").parse()?;
    let seconds = Duration::from_secs_f64(word(3, "2").parse()?);
    let rate: f64 = word(4, "0").parse()?;
    let at: Endpoint = word(5, "udp://127.0.0.1:0?rcvbuf=64MiB").parse()?;
    let shared = Shared::default();
    let source = UdpSource::open(&at, &UdpOptions { tier, ..UdpOptions::default() })?;
    let to = Endpoint::udp(source.local());
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(source, &shared));
        let sent = send(&to, mode, length, seconds, rate, &shared);
        std::thread::sleep(Duration::from_millis(100));
        shared.done.store(true, Relaxed);
        let received = receiver.join().map_err(|_| "the receiver panicked")?;
        report(&word(0, "stage"), &word(1, "gso"), length, &sent?, &received?);
        Ok(())
    })
}

struct Side {
    bytes: u64,
    packets: u64,
    cpu: Duration,
    took: Duration,
    said: String,
}

fn report(tier: &str, mode: &str, length: usize, sent: &Side, received: &Side) {
    let per_gb = |side: &Side| side.cpu.as_secs_f64() / (side.bytes as f64 / 1e9);
    println!(
        "{tier} {mode} {length}: {:.1} Gb/s {:.0} kpps lost {} of {} rx {:.3} s/GB tx {:.3} s/GB | {} | {}",
        received.bytes as f64 * 8.0 / received.took.as_secs_f64() / 1e9,
        received.packets as f64 / received.took.as_secs_f64() / 1e3,
        sent.packets.saturating_sub(received.packets),
        sent.packets,
        per_gb(received),
        per_gb(sent),
        received.said,
        sent.said,
    );
}

fn receive(mut source: UdpSource, shared: &Shared) -> Result<Side, String> {
    pin(1).map_err(|e| e.to_string())?;
    let mut slots = vec![1u8; 64 << 20];
    let (mut at, mut bytes, mut packets) = (0, 0u64, 0u64);
    let mut began: Option<(Instant, Duration)> = None;
    let (mut last, mut used) = (Instant::now(), Duration::ZERO);
    while !shared.done.load(Relaxed) {
        let polled = source.poll(Duration::from_millis(50), &mut |train| {
            began.get_or_insert_with(|| (Instant::now(), cpu_time()));
            for packet in train.packets() {
                let payload = packet.get(HEADER..).unwrap_or_default();
                if at + payload.len() > slots.len() {
                    at = 0;
                }
                copy::place(&mut slots[at..at + payload.len()], payload);
                at += payload.len();
            }
            copy::fence();
            packets += train.count() as u64;
            bytes += train.bytes.len() as u64;
            shared.packets.store(packets, Relaxed);
            shared.received.store(bytes, Relaxed);
        });
        if polled.map_err(|e| e.to_string())? > 0 {
            last = Instant::now();
            used = cpu_time();
        }
    }
    let (start, cpu) = began.ok_or("nothing came")?;
    let stats = source.stats();
    let said = format!(
        "{} ({}), {:.1} packets to a train, {} dropped",
        stats.tier,
        copy::name(),
        packets as f64 / stats.trains.max(1) as f64,
        stats.socket_drops
    );
    Ok(Side { bytes, packets, cpu: used - cpu, took: last - start, said })
}

fn send(
    to: &Endpoint,
    mode: SendMode,
    length: usize,
    seconds: Duration,
    rate: f64,
    shared: &Shared,
) -> Result<Side, String> {
    pin(0).map_err(|e| e.to_string())?;
    let mut sender =
        UdpSender::open(to, &SendOptions { mode, ..SendOptions::default() }).map_err(|e| e.to_string())?;
    let headers = vec![7u8; HEADER * 64];
    let payloads = vec![1u8; 8 << 20];
    let payload = length - HEADER;
    let each = if mode == SendMode::Gso { (65_507 / length).clamp(1, 64) } else { 32 };
    let per_call = (each * length) as u64;
    let (mut at, mut sent, mut packets, mut waited) = (0, 0u64, 0u64, Duration::ZERO);
    let (start, cpu) = (Instant::now(), cpu_time());
    while start.elapsed() < seconds {
        let before = Instant::now();
        let mut busy = None;
        loop {
            let ahead = if rate > 0.0 {
                start.elapsed().as_secs_f64() * rate * 1e9 / 8.0 < sent as f64
            } else {
                sent + per_call > shared.received.load(Relaxed) + WINDOW
            };
            if !ahead || before.elapsed() > Duration::from_millis(200) {
                break;
            }
            busy.get_or_insert_with(cpu_time);
            std::hint::spin_loop();
        }
        waited += busy.map_or(Duration::ZERO, |busy| cpu_time() - busy);
        let train: Vec<[IoSlice<'_>; 2]> = (0..each)
            .map(|n| {
                if at + payload > payloads.len() {
                    at = 0;
                }
                at += payload;
                [IoSlice::new(&headers[n * HEADER..][..HEADER]), IoSlice::new(&payloads[at - payload..at])]
            })
            .collect();
        sender.send_train(&train).map_err(|e| e.to_string())?;
        sent += per_call;
        packets += each as u64;
    }
    let cpu = (cpu_time() - cpu).saturating_sub(waited);
    Ok(Side { bytes: sent, packets, cpu, took: start.elapsed(), said: sender.describe() })
}
