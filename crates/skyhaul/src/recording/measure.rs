//! How fast the recorder writes and reads, by hand:
//!
//! ```text
//! SKYHAUL_DISKS=/data/d1 SKYHAUL_GIB=16 cargo test --release -p skyhaul --lib -- --ignored --nocapture measure
//! ```
//!
//! Also: `SKYHAUL_CHUNK_MIB` (16), `SKYHAUL_ENGINE` (`uring` or `plain`), `SKYHAUL_SYNC` (`chunk` or `none`). Compare
//! with `fio` in the same directory, interleaved:
//! `fio --name=w --directory=/data/d1 --rw=write --bs=4M --iodepth=8 --ioengine=io_uring --direct=1 --size=16G --end_fsync=1`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use skyhaul_io::disk::Engine;
use skyhaul_io::memory::{Pool, PoolOptions};

use super::*;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// User and system time of this process, in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[test]
#[ignore = "a measurement, not a test: see the module"]
fn measure() {
    let disks: Vec<PathBuf> =
        std::env::var("SKYHAUL_DISKS").unwrap().split(',').map(|disk| PathBuf::from(disk.trim())).collect();
    let block_bytes = (number("SKYHAUL_CHUNK_MIB", 16) << 20) as usize;
    let bytes = number("SKYHAUL_GIB", 8) << 30;
    let word = |name| std::env::var(name).unwrap_or_default();
    let engine = match &word("SKYHAUL_ENGINE")[..] {
        "plain" => Engine::Plain,
        "uring" => Engine::Uring,
        _ => Engine::Auto,
    };
    let sync = if word("SKYHAUL_SYNC") == "none" { SyncPolicy::None } else { SyncPolicy::Chunk };
    let pool = Pool::new(&PoolOptions { total_bytes: 512 << 20, block_bytes, shared: false }).unwrap();
    let options = WriterOptions {
        engine,
        sync,
        pool: Some(pool.clone()),
        ..WriterOptions::new(disks.clone(), "measure")
    };
    let writer = Writer::create(&options).unwrap();
    let stream = writer.add_datastream(&DatastreamInfo::default());
    let (begun, before) = (Instant::now(), cpu());
    for number in 0..(bytes / block_bytes as u64) as u32 {
        let block = loop {
            match pool.take() {
                Some(block) => break block,
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        let meta = ChunkMeta::default();
        let chunk = Chunk { datastream: stream, number, block, range: 0..block_bytes, meta, finish: None };
        writer.submit(chunk).unwrap();
    }
    let report = writer.finish(Duration::from_secs(100));
    tell("write", bytes, begun, before);
    assert!(report.is_whole());
    for disk in &report.disks {
        let (p50, p99) = (disk.latency.quantile(0.5), disk.latency.quantile(0.99));
        println!(
            "  {} {} direct {} registered {}: {} chunks, p50 {p50:?}, p99 {p99:?}, max {:?}",
            disk.path.display(),
            disk.engine,
            disk.direct,
            disk.registered,
            disk.chunks,
            disk.latency.max()
        );
    }
    println!("  pool pages: {}", pool.pages().name());
    let recording = Recording::open(&disks, &report.scan).unwrap();
    for verify in [false, true] {
        let (begun, before) = (Instant::now(), cpu());
        let mut reader = recording.reader(0, &ReadOptions { verify, ..ReadOptions::default() }).unwrap();
        let mut sum = 0;
        while let Some(piece) = reader.next_piece().unwrap() {
            sum += piece.bytes().len() as u64;
        }
        assert_eq!(sum, bytes);
        tell(if verify { "read, checksums" } else { "read" }, bytes, begun, before);
    }
    let (begun, before) = (Instant::now(), cpu());
    assert_eq!(recording.check(&CheckOptions::default()).unwrap().verdict, Verdict::Whole);
    tell("check", bytes, begun, before);
    for disk in &disks {
        std::fs::remove_dir_all(disk.join(&report.scan)).unwrap();
    }
}

fn tell(what: &str, bytes: u64, begun: Instant, before: f64) {
    let (seconds, gb) = (begun.elapsed().as_secs_f64(), bytes as f64 / 1e9);
    println!("{what}: {:.0} MB/s, {:.3} CPU s/GB", gb * 1000.0 / seconds, (cpu() - before) / gb);
}
