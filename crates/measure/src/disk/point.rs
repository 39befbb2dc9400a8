//! One setting, one operation, all disks in parallel.

use super::report::{CacheMode, DiskOperation, MeasureOptions};
use super::report::{DiskPoint, DiskResult, LatencySummary, MeasuredLayer};
use super::stream::{Stream, StreamResult, Task};
use skyhaul_core::hint::Hint;
use skyhaul_core::measure::Histogram;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::{DiskOptions, Scratch, device, device_bytes, free_bytes};
use skyhaul_io::host::thread::{Usage, usage};
use skyhaul_io::quantity::Size;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

/// One combination of what varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointSetting {
    pub(super) size: u64,
    pub(super) block: usize,
    pub(super) depth: usize,
    pub(super) streams: usize,
    pub(super) mode: CacheMode,
}

impl PointSetting {
    /// All combinations; sizes and blocks are whole pages, as `O_DIRECT` requires.
    pub(super) fn all(of: &MeasureOptions) -> Vec<PointSetting> {
        let mut all = Vec::new();
        for &mode in &of.modes {
            for &size in &of.sizes {
                for &block in &of.blocks {
                    for &depth in &of.depths {
                        for &streams in &of.streams {
                            let size = (size / PAGE).max(1) * PAGE;
                            let block = block.next_multiple_of(PAGE as usize).min(1 << 30);
                            let block = block.min(usize::try_from(size).unwrap_or(usize::MAX));
                            let (depth, streams) = (depth.clamp(1, 4096), streams.max(1));
                            let setting = PointSetting { size, block, depth, streams, mode };
                            if !all.contains(&setting) {
                                all.push(setting);
                            }
                        }
                    }
                }
            }
        }
        all
    }
}

/// Files that were written, kept for reading: by disk.
#[derive(Default)]
pub(super) struct Files(BTreeMap<usize, Vec<Scratch>>);

impl Files {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Measure one point. What a disk refuses is in its own result.
pub(super) fn run(
    options: &MeasureOptions,
    setting: &PointSetting,
    operation: DiskOperation,
    files: &mut Files,
    progress: &mut dyn FnMut(&str),
) -> DiskPoint {
    let mut disks: Vec<DiskResult> =
        options.disks.iter().map(|path| DiskResult { path: path.clone(), ..DiskResult::default() }).collect();
    match operation {
        DiskOperation::Write => prepare(options, setting, files, &mut disks),
        DiskOperation::Read => lay_out(options, setting, files, &mut disks, progress),
    }
    let what = label(setting, operation);
    let went =
        go(options, setting, operation, files, &mut disks, &mut |line| progress(&format!("{what}: {line}")));
    summarise(setting, operation, disks, &went)
}

fn label(setting: &PointSetting, operation: DiskOperation) -> String {
    let word = if operation == DiskOperation::Write { "write" } else { "read" };
    let (size, block) = (Size::from_bytes(setting.size), Size::from_bytes(setting.block as u64));
    let streams = if setting.streams == 1 { String::new() } else { format!(" × {} files", setting.streams) };
    format!("{word} {size}{streams}, block {block} × {}", setting.depth)
}

/// New files on every disk that has room.
fn prepare(options: &MeasureOptions, setting: &PointSetting, files: &mut Files, disks: &mut [DiskResult]) {
    files.clear();
    // Directories on one file system share its room.
    let mut asked: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, disk) in disks.iter_mut().enumerate() {
        let needs = setting.size.saturating_mul(setting.streams as u64);
        let made = device(&disk.path).and_then(|device| {
            let before = asked.entry(device).or_default();
            let needs = needs.saturating_add(*before);
            let free = free_bytes(&disk.path)?;
            if free < needs.saturating_add(options.reserve) {
                return Err(no_room(needs, free));
            }
            *before = needs;
            (0..setting.streams).map(|_| Scratch::create(&disk.path)).collect::<io::Result<Vec<_>>>()
        });
        match made {
            Ok(made) => drop(files.0.insert(at, made)),
            Err(error) => disk.error = Some(system_text(&error)),
        }
    }
}

fn no_room(needs: u64, free: u64) -> io::Error {
    let gb = |bytes: u64| bytes as f64 / 1e9;
    let text = format!(
        "{:.1} GB needed, {:.1} GB free{}",
        gb(needs),
        gb(free),
        Hint("use smaller --sizes or fewer --streams, or free some space")
    );
    io::Error::new(io::ErrorKind::StorageFull, text)
}

/// Files to be read: those just written, or new ones. The page cache forgets them unless it is what is measured.
fn lay_out(
    options: &MeasureOptions,
    setting: &PointSetting,
    files: &mut Files,
    disks: &mut [DiskResult],
    progress: &mut dyn FnMut(&str),
) {
    if files.0.is_empty() {
        prepare(options, setting, files, disks);
        let quick = PointSetting { block: (4 << 20).min(setting.size as usize), depth: 8, ..*setting };
        let show = &mut |line: &str| progress(&format!("writing files to read: {line}"));
        drop(go(options, &quick, DiskOperation::Write, files, disks, show));
        for disk in disks.iter_mut() {
            (disk.bytes, disk.seconds) = (0, 0.0);
        }
    }
    for (at, of) in &files.0 {
        let forgotten: io::Result<()> = match setting.mode {
            CacheMode::Cached => of.iter().try_for_each(warm),
            _ => of.iter().try_for_each(Scratch::forget),
        };
        if let Err(error) = forgotten {
            disks[*at].error.get_or_insert(system_text(&error));
        }
    }
}

/// Have the page cache hold what fits of a file.
fn warm(file: &Scratch) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.clone().set_direct(false)?;
    let (mut at, mut bytes) = (0, vec![0; 1 << 20]);
    loop {
        match file.file().read_at(&mut bytes, at)? {
            0 => return Ok(()),
            n => at += n as u64,
        }
    }
}

/// What all threads did.
#[derive(Default)]
struct PointResult {
    latency: Histogram,
    sync: Duration,
    time: Duration,
    user: Duration,
    system: Duration,
    device: Option<u64>,
    series: Series,
    engine: &'static str,
    direct: bool,
}

/// One thread for each file. They begin together.
fn go(
    options: &MeasureOptions,
    setting: &PointSetting,
    operation: DiskOperation,
    files: &mut Files,
    disks: &mut [DiskResult],
    progress: &mut dyn FnMut(&str),
) -> PointResult {
    let mut went = PointResult { direct: true, ..PointResult::default() };
    let mut streams = Vec::new();
    for (at, of) in &mut files.0 {
        if disks[*at].error.is_some() {
            continue;
        }
        for file in of {
            match ready(options, setting, operation, &options.disks[*at], file) {
                Ok(stream) => {
                    went.direct &= file.is_direct();
                    streams.push((*at, stream));
                }
                Err(error) => drop(disks[*at].error.get_or_insert(system_text(&error))),
            }
        }
    }
    if streams.is_empty() {
        return went;
    }
    let all = setting.size * streams.len() as u64;
    let threads = streams.len();
    let (moved, start) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(threads + 1)));
    let (tell, told) = mpsc::channel::<(usize, StreamResult)>();
    std::thread::scope(|scope| {
        for (at, stream) in streams {
            let (moved, start, tell) = (moved.clone(), start.clone(), tell.clone());
            scope.spawn(move || {
                start.wait();
                let _ = tell.send((at, stream.run(&moved)));
            });
        }
        drop(tell);
        start.wait();
        watch(&mut went, disks, operation, &told, &moved, all, progress);
    });
    went
}

/// A thread's file, memory and requests.
fn ready(
    options: &MeasureOptions,
    setting: &PointSetting,
    operation: DiskOperation,
    disk: &std::path::Path,
    file: &mut Scratch,
) -> io::Result<Stream> {
    file.set_direct(setting.mode == CacheMode::Direct)?;
    if operation == DiskOperation::Write {
        file.allocate(setting.size)?;
    }
    let task = Task {
        operation,
        size: setting.size,
        block: setting.block,
        options: DiskOptions {
            engine: options.engine,
            direct: setting.mode == CacheMode::Direct,
            write_bytes: setting.block,
            depth: setting.depth,
            faults: options.faults_of(disk),
        },
        stop: options.stop.clone(),
    };
    Stream::new(&task, file.clone())
}

/// Note the rate until all threads have ended, and gather their results.
fn watch(
    went: &mut PointResult,
    disks: &mut [DiskResult],
    operation: DiskOperation,
    told: &mpsc::Receiver<(usize, StreamResult)>,
    moved: &AtomicU64,
    all: u64,
    progress: &mut dyn FnMut(&str),
) {
    let device = || {
        device_bytes().map(|(read, written)| if operation == DiskOperation::Write { written } else { read })
    };
    let (before, cpu, begun) = (device(), usage(), Instant::now());
    // Kept until the figures are taken: giving memory back costs time of its own.
    let mut ended = Vec::new();
    loop {
        match told.recv_timeout(TICK) {
            Ok(ran) => ended.push(ran),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        let (bytes, seconds) = (moved.load(Ordering::Relaxed), begun.elapsed().as_secs_f64());
        went.series.note(seconds, bytes);
        let percent = bytes as f64 / all.max(1) as f64 * 100.0;
        progress(&format!("{percent:.0} %, {:.2} GB/s", bytes as f64 / 1e9 / seconds.max(1e-9)));
    }
    let Usage { user, system, .. } = usage();
    (went.user, went.system) = (user.saturating_sub(cpu.user), system.saturating_sub(cpu.system));
    went.device = before.zip(device()).map(|(before, after)| after.saturating_sub(before));
    for (at, ran) in &ended {
        let disk = &mut disks[*at];
        disk.bytes += ran.bytes;
        disk.seconds = disk.seconds.max(ran.time.as_secs_f64());
        if let Some(error) = &ran.error {
            disk.error.get_or_insert(error.clone());
        }
        went.latency.merge(&ran.latency);
        went.sync = went.sync.max(ran.sync);
        went.time = went.time.max(ran.time);
        went.engine = ran.engine;
    }
    went.series.note(went.time.as_secs_f64(), moved.load(Ordering::Relaxed));
}

fn summarise(
    setting: &PointSetting,
    operation: DiskOperation,
    mut disks: Vec<DiskResult>,
    went: &PointResult,
) -> DiskPoint {
    let seconds = went.time.as_secs_f64();
    let per = |n: f64, seconds: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
    for disk in &mut disks {
        disk.bytes_per_second = per(disk.bytes as f64, disk.seconds);
    }
    let bytes: u64 = disks.iter().map(|disk| disk.bytes).sum();
    let cpu = (went.user + went.system).as_secs_f64();
    DiskPoint {
        operation,
        mode: setting.mode,
        engine: went.engine.into(),
        direct: went.direct && setting.mode == CacheMode::Direct,
        size: setting.size,
        block: setting.block,
        depth: setting.depth,
        streams: setting.streams,
        bytes,
        seconds,
        bytes_per_second: per(bytes as f64, seconds),
        iops: per(went.latency.count() as f64, seconds),
        sync_seconds: if operation == DiskOperation::Write { went.sync.as_secs_f64() } else { 0.0 },
        cpu_seconds_per_gb: per(cpu, bytes as f64 / 1e9),
        user_seconds: went.user.as_secs_f64(),
        system_seconds: went.system.as_secs_f64(),
        latency: LatencySummary::from(&went.latency),
        measured: MeasuredLayer::of(bytes, went.device),
        device_bytes: went.device,
        interval: went.series.interval,
        series: went.series.rates(),
        disks,
    }
}

/// How often the rate is noted, at first.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Most values of a series; then two become one.
const VALUES: usize = 600;

/// Bytes done at regular times; twice the interval when there would be too many.
pub(super) struct Series {
    /// Seconds.
    pub(super) interval: f64,
    /// Bytes done until the end of each interval.
    bytes: Vec<u64>,
    last: (f64, u64),
}

impl Default for Series {
    fn default() -> Self {
        Self { interval: TICK.as_secs_f64(), bytes: Vec::new(), last: (0.0, 0) }
    }
}

impl Series {
    /// `bytes` were done after `seconds`; between two notes the rate is taken as even.
    pub(super) fn note(&mut self, seconds: f64, bytes: u64) {
        let (from, before) = self.last;
        loop {
            let end = (self.bytes.len() + 1) as f64 * self.interval;
            if end > seconds {
                break;
            }
            let part = if seconds > from { ((end - from) / (seconds - from)).clamp(0.0, 1.0) } else { 1.0 };
            self.bytes.push(before + ((bytes.saturating_sub(before)) as f64 * part) as u64);
            if self.bytes.len() > VALUES {
                self.bytes = self.bytes.chunks_exact(2).map(|two| two[1]).collect();
                self.interval *= 2.0;
            }
        }
        self.last = (seconds, bytes);
    }

    /// Bytes a second of each interval.
    pub(super) fn rates(&self) -> Vec<f64> {
        let before = std::iter::once(&0).chain(&self.bytes);
        before
            .zip(&self.bytes)
            .map(|(before, after)| after.saturating_sub(*before) as f64 / self.interval)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_rate_is_even_however_it_is_noted() {
        let mut series = Series::default();
        for second in [0.03, 0.25, 0.26, 0.9, 1.0] {
            series.note(second, (second * 1e9) as u64);
        }
        let rates = series.rates();
        assert_eq!(rates.len(), 10);
        assert!(rates.iter().all(|rate| (rate / 1e9 - 1.0).abs() < 1e-6), "{rates:?}");
    }

    #[test]
    fn hours_take_no_more_memory_than_minutes() {
        let mut series = Series::default();
        for second in 0..100_000u32 {
            series.note(f64::from(second), u64::from(second) * 7);
        }
        let rates = series.rates();
        assert!(rates.len() <= VALUES + 1 && series.interval > 100.0);
        assert!(rates[1..].iter().all(|rate| (rate - 7.0).abs() < 0.1), "{rates:?}");
    }
}
