//! What one packet costs the table of heaps, without copying its payload:
//! `cargo run --release -p skyhaul-sim --example heap_speed`. In CPU time where the system tells it (Linux).

use skyhaul_core::assembly::{KeyedConfig, KeyedWindow, Slot, Window};
use skyhaul_core::placement::{Key, Nanos, Placement};
use std::hint::black_box;
use std::time::Instant;

const COUNT: u64 = 20_000_000;

/// Nanoseconds that this thread has run.
fn ran(began: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat");
    let nanos = told.ok().and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.unwrap_or_else(|| began.elapsed().as_nanos() as f64)
}

fn main() {
    let start = Instant::now();
    println!("reserve + commit + poll, ns for each packet");
    let mut from = 0u64;
    let mut time = |name: &str, config: KeyedConfig, part: &dyn Fn(u64) -> (u64, u64, Option<u64>)| {
        let mut heaps = KeyedWindow::<u64>::new(config);
        let (mut refused, mut retired) = (0u64, 0u64);
        let began = ran(start);
        for n in 0..COUNT {
            let (counter, offset, size) = part(n);
            let key = Key::of(from + counter);
            let part = Placement { key, offset, length: 8, size, ..Placement::default() };
            match heaps.reserve(part, Nanos(n), |bytes, _| Ok(bytes)) {
                Ok(mut slot) => {
                    black_box(slot.block());
                    slot.commit(Nanos(n));
                }
                Err(_) => refused += 1,
            }
            while let Some(heap) = heaps.poll_retired() {
                black_box(&heap);
                retired += 1;
            }
        }
        let each = (ran(start) - began) / COUNT as f64;
        println!("{name:<44} {each:>6.1}   {retired} heaps, {refused} refused");
        from += COUNT;
    };
    let config = KeyedConfig { timeout: None, remember_for: Nanos(u64::MAX), ..KeyedConfig::default() };
    let long = Some(8 << 16);
    time("heaps of one packet", config, &|n| (n, 0, Some(8)));
    let forgetful = KeyedConfig { remember: 0, ..config };
    time("heaps of one packet, none remembered", forgetful, &|n| (n, 0, Some(8)));
    time("heaps of three packets", config, &|n| (n / 3, n % 3 * 8, Some(24)));
    time("heaps of 65536 packets", config, &|n| (n >> 16, (n & 0xFFFF) * 8, long));
    let in_order = KeyedConfig { in_order: true, ..config };
    time("the same, in order only", in_order, &|n| (n >> 16, (n & 0xFFFF) * 8, long));
    time("the same, neighbours exchanged", config, &|n| (n >> 16, ((n & 0xFFFF) ^ 1) * 8, long));
    let sixteen = |n: u64| (((n >> 20) * 16 + n % 16), (n >> 4 & 0xFFFF) * 8, long);
    time("sixteen of them in turn", config, &sixteen);
    time("duplicates of one heap", config, &|n| (0, n.min(1) * 8, Some(8 + n.min(1) * 8)));
}
