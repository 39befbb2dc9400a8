//! One recording to one disk, compared with `fio`.
//!
//! The sender waits for the disk: at most a quarter of the memory is not durable yet, so the disk sets the rate and
//! nothing is lost. The time is from the first packet until the last byte is durable and indexed, as with `end_fsync` of
//! `fio`.

use super::flow::Flow;
use super::flow::{Metered, Times};
use super::options::BenchResult;
use super::options::{BenchLoad, BenchOptions, wrong};
use super::receive::{Given, Received, account, join, listen, object_options, start_giver, start_receiver};
use skyhaul::receive::ReceiverOptions;
use skyhaul::recorder::{RecordReport, Recorder, RecorderOptions};
use skyhaul::recording::{DiskStatus, Existing, WriterOptions};
use skyhaul::stop::StopFlag;
use skyhaul_core::hint::Hint;
use skyhaul_io::baseline::Give;
use skyhaul_io::host::thread;
use skyhaul_io::memory::PoolOptions;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Memory of the recorder: the default.
const POOL: PoolOptions = PoolOptions { total_bytes: 4 << 30, block_bytes: 16 << 20, shared: false };
/// Bytes that may be sent before they are durable: a block is kept until then, in case it must be written elsewhere.
const AHEAD: u64 = POOL.total_bytes / 4;
/// Memory for heaps under construction.
const HEAPS: u64 = 64 << 20;
/// How long the disk may take for the rest.
const FINISH: Duration = Duration::from_secs(120);

pub(super) fn run(options: &BenchOptions, candidate: &str, size: usize) -> io::Result<BenchResult> {
    let directory = options.directory.as_deref().ok_or_else(|| {
        wrong(format_args!("a recording benchmark needs a disk{}", Hint("name one with --directory")))
    })?;
    if options.networks.is_some() || options.load == BenchLoad::Search {
        return Err(wrong(format_args!(
            "a recording benchmark runs on loopback, closed loop or at a rate{}",
            Hint("omit --netns and --search")
        )));
    }
    match candidate {
        "fio" => fio(directory, options.record_bytes, &options.stop),
        _ => record(options, directory, candidate == "forward", size),
    }
}

fn record(options: &BenchOptions, directory: &Path, forward: bool, size: usize) -> io::Result<BenchResult> {
    let flow = Arc::new(Flow::default());
    let onward = Arc::new(Flow::default());
    let mut receiver = ReceiverOptions { cpus: vec![options.cpus.1], ..ReceiverOptions::default() };
    let mut drain = None;
    if forward {
        // No CPU has this number: the other host is not bound to one.
        let other = BenchOptions { cpus: (options.cpus.0, usize::MAX), ..options.clone() };
        let (at, thread) = start_receiver(&other, "drain", size, &onward)?;
        receiver.forward = vec![at];
        drain = Some(thread);
    }
    let mut writer = WriterOptions::new([directory], "skyhaul_bench");
    writer.existing = Existing::Letter;
    let shape = options.shape(size)?;
    receiver.learn.format = options.format;
    receiver.objects = shape.object().map(|_| object_options(HEAPS));
    let recorder = RecorderOptions { receiver, writer, pool: POOL, fill: true, quality: None };
    let mut recorder = Recorder::open(recorder).map_err(|e| io::Error::other(e.to_string()))?;
    let scan = directory.join(recorder.scan());
    let inner = UdpSource::open(&listen(options), &UdpOptions::default())?;
    let to = listen(options).at(inner.local());
    let metered = Metered::new(inner, flow.clone(), Times::default());
    recorder.receiver().add_source(to.to_string(), Box::new(metered), false);
    let process = thread::process_cpu_time();
    flow.limit.0.store(AHEAD, Ordering::Relaxed);
    let mut recording = recorder.start()?;
    let started = Instant::now();
    let give = if options.gso { Give::Trains } else { Give::Many };
    let sender = start_giver(options, to, size, options.load, &flow, give)?;
    while !sender.is_finished() {
        std::thread::sleep(Duration::from_millis(2));
        let durable: u64 = recording.disks().iter().map(|disk: &DiskStatus| disk.acknowledged_bytes).sum();
        flow.limit.0.store(durable + AHEAD, Ordering::Relaxed);
    }
    let given: Given = join(sender)??;
    let first = recording.running().first_packet().unwrap_or_default();
    let report = recording.finish(FINISH);
    let wall = started.elapsed().saturating_sub(Duration::from_secs_f64(first));
    onward.done.store(true, Ordering::Release);
    let onward = drain.map(|thread| join(thread)?).transpose()?;
    std::fs::remove_dir_all(&scan)?;
    let placed = match report.receive.objects.values().next() {
        Some(objects) => objects.payload_bytes / shape.payload as u64,
        None => report.receive.streams.iter().map(|stream| stream.placed).sum(),
    };
    // A frame is recorded whole; a heap at least with its payload.
    let each = if shape.object().is_some() { shape.payload } else { size - shape.prefix() };
    let durable = report.recording.acknowledged_bytes() / each as u64;
    let received = Received {
        packets: placed.min(durable),
        bytes: given.bytes,
        wall,
        cpu: Duration::from_secs_f64(report.receive.cpu.path_seconds),
        how: how(&report, onward.as_ref(), &given),
    };
    Ok(account(given, &received, thread::process_cpu_time() - process))
}

fn how(report: &RecordReport, onward: Option<&Received>, given: &Given) -> String {
    let mut text = String::from("Skyhaul's recorder, until data are durable");
    for disk in &report.recording.disks {
        let direct = if disk.direct { ", O_DIRECT" } else { "" };
        text.push_str(&format!(", {}{direct}", disk.engine));
    }
    if !report.is_whole() {
        let (drops, no_buffer) = (report.receive.kernel_drops(), report.no_buffer());
        text.push_str(&format!(
            ", INCOMPLETE: {drops} arrivals dropped by the kernel, {no_buffer} packets without memory"
        ));
        for event in report.recording.events.iter().take(3) {
            text.push_str(&format!("; {}", event.text));
        }
    }
    if let Some(onward) = onward {
        let arrived = onward.packets as f64 / given.packets.max(1) as f64;
        text.push_str(&format!(", forwarded over UDP ({:.2} % of it arrived)", arrived * 100.0));
    }
    text
}

/// Run a program to its end, or kill it at a requested stop.
fn output(command: &mut Command, stop: &StopFlag) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Read meanwhile, so that its output does not block.
    let all = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            from.map_or(Ok(0), |mut from| from.read_to_end(&mut said)).map(|_| said)
        })
    };
    let stdout = all(child.stdout.take().map(|from| Box::new(from) as _));
    let stderr = all(child.stderr.take().map(|from| Box::new(from) as _));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stop.is_set() {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ok(Output { status, stdout: join(stdout)??, stderr: join(stderr)?? })
}

/// A single sequential write with fio, past the page cache, until it is durable.
fn fio(directory: &Path, bytes: u64, stop: &StopFlag) -> io::Result<BenchResult> {
    let file = directory.join("skyhaul_bench.fio");
    let arguments = [
        "--name=skyhaul_bench",
        &format!("--filename={}", file.display()),
        "--rw=write",
        "--bs=4M",
        "--iodepth=8",
        "--ioengine=io_uring",
        "--direct=1",
        &format!("--size={bytes}"),
        "--end_fsync=1",
        // A single process, so that killing it ends everything.
        "--thread",
        "--output-format=json",
    ];
    let output = output(Command::new("fio").args(arguments), stop).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            io::ErrorKind::Unsupported,
            format!("fio is not installed{}", Hint("apt-get install fio")),
        ),
        _ => e,
    });
    let _ = std::fs::remove_file(&file);
    let output = output?;
    if !output.status.success() {
        return Err(io::Error::other(format!("fio: {}", String::from_utf8_lossy(&output.stderr).trim())));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let job = &report["jobs"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
    let milliseconds = number(&job["write"]["runtime"]).max(1.0);
    let cpu = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0 * milliseconds / 1e3;
    let received =
        Received { bytes, wall: Duration::from_secs_f64(milliseconds / 1e3), ..Received::default() };
    let mut ran = account(Given::default(), &received, Duration::from_secs_f64(cpu));
    ran.how = format!("fio {}", arguments[2..].join(" "));
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_heard_to_its_end_and_killed_at_a_stop() {
        let stop = StopFlag::default();
        let long =
            output(Command::new("sh").args(["-c", "seq 100000; echo wrong >&2; exit 3"]), &stop).unwrap();
        assert_eq!(
            (long.stdout.len(), &long.stderr[..], long.status.code()),
            (588_895, &b"wrong\n"[..], Some(3))
        );
        stop.stop();
        let begun = Instant::now();
        assert!(!output(Command::new("sleep").arg("60"), &stop).unwrap().status.success());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
