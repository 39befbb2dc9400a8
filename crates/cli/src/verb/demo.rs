//! `skyhaul demo`: the whole chain, on this machine alone.
//!
//! ```text
//!   sender ── UDP, packets lost, duplicated, out of order ─▶ recorder ──▶ disks ──▶ check
//!   pattern                                                  └── TCP ──▶ second receiver, verifying
//! ```
//!
//! Every claim is verified independently: the loss map against what the sender withheld, the disks by `check` with the
//! pattern, and what was forwarded by the second receiver with the pattern.

use super::receiving;
#[cfg(not(feature = "full"))]
use super::unbuilt as balanced;
use crate::args::{DemoArgs, DemoWhat};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::verb::demo::proofs::DemoReport;
use anyhow::{Context, Result};
use place::take;
use proofs::{FIRST, prove};
use skyhaul::frames::FramesOf;
use skyhaul::io::address::Endpoint;
use skyhaul::io::file::{failed, replace};
use skyhaul::io::host::machine::Machine;
use skyhaul::io::memory::{Pool, PoolOptions};
use skyhaul::io::udp::send::SendMode;
use skyhaul::receive::{Collector, Receiver, ReceiverOptions, Running};
use skyhaul::recorder::{self, Recorder, RecorderOptions};
use skyhaul::recording::{CheckOptions, CheckReport, Datastream, FrameReader, Recording, WriterOptions};
use skyhaul::report::{ReceiveReport, VERSION};
use skyhaul::send::{Pacing, Sender, SenderOptions, Sequence, Stop, SynthOptions, SynthSupply};
use skyhaul::wire::{LearnOptions, Order, SynthPayload};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[cfg(feature = "full")]
mod balanced;
mod page;
mod place;
mod proofs;

/// Payload of a frame, bytes: the usual one of a DBBC3.
const PAYLOAD: usize = 8000;
/// Length of a packet: sequence number, header, payload.
const PACKET: u64 = 8 + 32 + PAYLOAD as u64;
/// The scan.
const SCAN: &str = "demo_sk_no0001";
/// VDIF threads.
const THREADS: u16 = 4;
/// Memory of each side.
const MEMORY: u64 = 512 << 20;

pub(crate) fn run(args: &DemoArgs) -> Result<Outcome> {
    match args.what {
        DemoWhat::Recorder => recorder(args),
        DemoWhat::Balanced => balanced::run(args),
    }
}

fn recorder(args: &DemoArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let place = take(args.directory.as_deref(), "demo")?;
    let directory = &place.path;
    let disks: Vec<PathBuf> = (1..=args.disks).map(|n| directory.join(format!("disk{n}"))).collect();
    for disk in &disks {
        std::fs::create_dir_all(disk).map_err(|error| failed("create", disk, &error))?;
    }
    let report = measure(args, &disks, &interrupt)?;
    let file = directory.join("report.html");
    replace(&file, page::page(&report))?;
    if args.output.json {
        receiving::print_json(&report)?;
        say_text!("{}", summary(&report));
    } else {
        tell_text!("{}", summary(&report));
    }
    if !args.keep {
        disks.iter().for_each(|disk| clear(disk, SCAN));
    }
    say!("plots: {}", file.display());
    Ok(if report.proofs.iter().all(|p| p.held) { Outcome::Done } else { Outcome::Failed })
}

/// Rates to try in turn, until one is lossless on this host.
const RATES: [u64; 3] = [4_000_000_000, 2_000_000_000, 1_000_000_000];
/// Socket buffer below which the highest rate is not tried: it would hold only a few milliseconds of it.
const GOOD_BUFFER: u64 = 32 << 20;

fn measure(args: &DemoArgs, disks: &[PathBuf], interrupt: &Interrupt) -> Result<DemoReport> {
    if let Some(rate) = args.rate {
        return Stage::set(disks)?.play(args, rate.bits_per_second(), disks, interrupt);
    }
    let mut rates = RATES.iter().copied().peekable();
    loop {
        let stage = Stage::set(disks)?;
        if stage.buffer() < GOOD_BUFFER && rates.peek() == Some(&RATES[0]) {
            rates.next();
        }
        let rate = rates.next().unwrap_or(RATES[RATES.len() - 1]);
        let report = stage.play(args, rate, disks, interrupt)?;
        let drops = report.recorded.receive.kernel_drops();
        if drops == 0 || rates.peek().is_none() || interrupt.is_set() {
            return Ok(report);
        }
        say!(
            "the kernel dropped {} at {}, because this host is too busy or its socket buffers are too small; retrying at a lower rate",
            print::counted(drops, "packet"),
            print::rate(rate as f64)
        );
    }
}

/// Everything that must be ready before the stream starts.
struct Stage {
    second: Running,
    collector: Collector,
    recording: recorder::RunningRecorder,
    scan: String,
    to: Endpoint,
}

impl Stage {
    fn set(disks: &[PathBuf]) -> Result<Self> {
        let (second, collector) = second_receiver()?;
        let target = second.addresses().next().context("a receiver has an address")?.parse()?;
        let second = second.start(|_| collector.sink())?;
        let listen = vec!["udp://127.0.0.1:0".parse()?];
        let mut recorder = Recorder::open(RecorderOptions {
            receiver: ReceiverOptions { listen, forward: vec![target], ..learned() },
            writer: WriterOptions::new(disks, SCAN),
            pool: PoolOptions { total_bytes: MEMORY, block_bytes: 4 << 20, shared: true },
            fill: true,
            // The payload is a pattern, whose states are not those of a sky.
            quality: None,
        })?;
        let scan = recorder.scan();
        let to = recorder.receiver().addresses().next().context("a receiver has an address")?.parse()?;
        Ok(Self { second, collector, recording: recorder.start()?, scan, to })
    }

    /// Bytes of socket buffer that the kernel granted.
    fn buffer(&self) -> u64 {
        self.recording.socket_buffer()
    }

    fn play(
        mut self,
        args: &DemoArgs,
        rate: u64,
        disks: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<DemoReport> {
        say!(
            "a VDIF stream of {} over UDP for {}, onto {} disks, forwarded to a second receiver",
            print::rate(rate as f64),
            args.duration,
            disks.len()
        );
        say!("the network: {}", args.faults);
        let sender = sender(args, rate, self.to.clone())?;
        let stop = Stop::default();
        let of_thread = stop.clone();
        let thread = std::thread::Builder::new().name("send".into()).spawn(move || sender.run(&of_thread))?;
        let mut progress = Progress::new(args.output.quiet);
        let clock = Instant::now();
        let mut disks_over_time = Vec::new();
        while !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(100));
            if interrupt.is_set() {
                stop.stop();
            }
            let report = self.recording.running().progress();
            let written: Vec<u64> = self.recording.disks().iter().map(|d| d.bytes).collect();
            progress.show(&live_line(&report, &written, clock));
            disks_over_time.push((clock.elapsed().as_secs_f64(), written));
        }
        progress.clear();
        let sent = thread.join().map_err(|_| anyhow::anyhow!("the sending thread panicked"))?;
        let recorded = self.recording.finish(Duration::from_secs(60));
        settle(&self.second);
        let second = finish_second(self.second, self.collector);
        say!("reading the recording back");
        let check = check(disks, &self.scan)?;
        let machine = Machine::this();
        let mut report = DemoReport {
            version: VERSION,
            command: command(std::env::args().skip(1)),
            machine: format!("{} ({} CPUs), {}", machine.cpu, machine.cores, machine.kernel),
            faults: args.faults.to_string(),
            first_number: FIRST + sent.lost_ranges.first().filter(|r| r.0 == 0).map_or(0, |r| r.1),
            proofs: prove(&sent, &recorded, &second, &check),
            sent,
            recorded,
            second,
            check,
            disks_over_time,
        };
        report.proofs.push(page::prove_places(&report));
        Ok(report)
    }
}

fn sender(args: &DemoArgs, rate: u64, to: Endpoint) -> Result<Sender> {
    let supply = SynthSupply::new(SynthOptions {
        payload: PAYLOAD,
        threads: THREADS,
        frames_per_second: (rate / 8 / PACKET / u64::from(THREADS)).clamp(1, 1 << 24) as u32,
        start: receiving::nearest_second(),
        station: "Sk".into(),
        payloads: SynthPayload::Pattern,
        sequence: Sequence { order: Some(Order::Little), first: FIRST },
        packets: None,
    })?;
    let options = SenderOptions {
        to,
        mode: SendMode::Auto,
        pacing: Pacing { rate, ..Pacing::default() },
        faults: Some(args.faults),
        packets: None,
        duration: Some(args.duration.duration()),
        cpu: None,
    };
    Ok(Sender::open(options, Box::new(supply))?)
}

/// The command line, quoted for a shell.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+,.:/@%[]".contains(c);
    arguments.fold("skyhaul".into(), |line, word| {
        if !word.is_empty() && word.chars().all(plain) {
            format!("{line} {word}")
        } else {
            format!("{line} '{}'", word.replace('\'', "'\\''"))
        }
    })
}

fn learned() -> ReceiverOptions {
    ReceiverOptions {
        learn: LearnOptions { near: receiving::now(), ..LearnOptions::default() },
        ..ReceiverOptions::default()
    }
}

/// The other host: receives what is forwarded, and verifies it.
fn second_receiver() -> Result<(Receiver, Collector)> {
    let pool = Pool::new(&PoolOptions { total_bytes: MEMORY / 2, block_bytes: 4 << 20, shared: false })?;
    let mut options = ReceiverOptions { listen: vec!["tcp://127.0.0.1:0".parse()?], ..learned() };
    options.learn.object_bytes = pool.block_bytes() as u64;
    Ok((Receiver::open(options, pool)?, Collector::start(None, true)?))
}

/// Wait for data in flight.
fn settle(second: &Running) {
    let mut before = second.bytes();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(100));
        let now = second.bytes();
        if now == before {
            return;
        }
        before = now;
    }
}

fn finish_second(second: Running, collector: Collector) -> ReceiveReport {
    let mut report = second.finish();
    report.pattern_errors = Some(collector.finish().wrong);
    report
}

fn check(disks: &[PathBuf], scan: &str) -> Result<CheckReport> {
    let frames = |datastream: &Datastream| -> Option<Box<dyn FrameReader>> {
        FramesOf::datastream(datastream, true).map(|reader| Box::new(reader) as _)
    };
    let recording = Recording::open(disks.iter().map(Path::new), scan)?;
    Ok(recording.check(&CheckOptions { frames: Some(&frames), ..CheckOptions::default() })?)
}

fn live_line(report: &ReceiveReport, disks: &[u64], clock: Instant) -> String {
    let total: u64 = report.sources.iter().map(|s| s.bytes).sum();
    let shares: Vec<String> = disks.iter().map(|b| print::bytes(*b)).collect();
    let duplicates: u64 = report.streams.iter().filter_map(|s| s.rejects.get("duplicate")).sum();
    format!(
        "{:5.1} s  {:>9} received  never received {}  duplicates {}  disks {}",
        clock.elapsed().as_secs_f64(),
        print::bytes(total),
        print::count(report.lost()),
        print::count(duplicates),
        shares.join(" | ")
    )
}

/// The result as text.
fn summary(report: &DemoReport) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let receive = &report.recorded.receive;
    let _ = writeln!(
        out,
        "\n{} for {:.1} s on {}",
        print::rate(receive.bits_per_second),
        receive.seconds,
        report.machine
    );
    let _ = writeln!(
        out,
        "CPU: receiving {:.3} s/GB, whole recorder {:.3} s/GB",
        receive.cpu.path_seconds_per_gb, receive.cpu.process_seconds_per_gb
    );
    let total: u64 = report.recorded.recording.disks.iter().map(|d| d.bytes).sum();
    for d in &report.recorded.recording.disks {
        let share = d.bytes as f64 / total.max(1) as f64;
        let bar = "█".repeat((share * 40.0).round() as usize);
        let name = d.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let _ = writeln!(
            out,
            "  {name:<8} {bar:<24} {:>4.0} %  {:>8}  chunk latency p50 {:.0} ms, p99 {:.0} ms",
            share * 100.0,
            print::bytes(d.bytes),
            d.latency.quantile(0.5).as_secs_f64() * 1e3,
            d.latency.quantile(0.99).as_secs_f64() * 1e3
        );
    }
    for p in &report.proofs {
        let _ = writeln!(out, "{} {}: {}", if p.held { "✔" } else { "✘" }, p.claim, p.evidence);
    }
    out
}

/// Remove the scans of a demo from a disk, and the disk if nothing else is on it.
fn clear(disk: &Path, scan: &str) {
    let entries = fs::read_dir(disk).into_iter().flatten().flatten();
    // Attempts at other rates have a letter behind the name.
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(scan));
    own.for_each(|entry| drop(fs::remove_dir_all(entry.path())));
    let _ = fs::remove_dir(disk);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_the_demo_stays() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk1");
        for scan in ["demo_sk_no0001", "demo_sk_no0001a", "exp_st_no0007"] {
            fs::create_dir_all(disk.join(scan)).unwrap();
            fs::write(disk.join(scan).join("chunk"), "").unwrap();
        }
        clear(&disk, "demo_sk_no0001");
        assert!(disk.join("exp_st_no0007/chunk").exists() && !disk.join("demo_sk_no0001a").exists());
        fs::remove_dir_all(disk.join("exp_st_no0007")).unwrap();
        clear(&disk, "demo_sk_no0001");
        assert!(!disk.exists());
    }
}
