//! The results.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skyhaul::stop::StopFlag;
use skyhaul_core::measure::Histogram;
use skyhaul_io::disk::{Engine, Faults};
use std::path::PathBuf;

/// All results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Load average of the last minute, before and after: above 0, other programs were running.
    pub others: (f64, f64),
    /// The directories.
    pub disks: Vec<PathBuf>,
    /// One for each setting and operation, in the order measured.
    pub points: Vec<DiskPoint>,
    /// The disks beside a network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget: Option<TransferBudget>,
    /// What else should be known.
    pub notes: Vec<String>,
    /// Whether it was stopped before all was measured.
    pub interrupted: bool,
}

impl DiskReport {
    /// Whether every disk did all that was asked of it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let fine = |point: &DiskPoint| point.disks.iter().all(|disk| disk.error.is_none());
        !self.interrupted && self.points.iter().all(fine)
    }
}

/// What a measurement measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredLayer {
    /// The disk: at least 95 % of the bytes passed through the block layer.
    Disk,
    /// The page cache, or a file system in memory: at most 5 % did.
    PageCache,
    /// Both.
    Mixed,
    /// The kernel does not count.
    #[default]
    Unknown,
}

impl MeasuredLayer {
    /// Judge from the bytes asked for and those that passed through the block layer.
    #[must_use]
    pub fn of(bytes: u64, device: Option<u64>) -> Self {
        match device {
            None => Self::Unknown,
            Some(_) if bytes == 0 => Self::Unknown,
            Some(device) if device as f64 >= 0.95 * bytes as f64 => Self::Disk,
            Some(device) if device as f64 <= 0.05 * bytes as f64 => Self::PageCache,
            Some(_) => Self::Mixed,
        }
    }

    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::PageCache => "page cache",
            Self::Mixed => "disk and page cache",
            Self::Unknown => "unknown",
        }
    }
}

/// One setting, one operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskPoint {
    /// Writing or reading.
    pub operation: DiskOperation,
    /// As asked for.
    pub mode: CacheMode,
    /// `io_uring` or `pwrite`.
    pub engine: String,
    /// Whether the page cache was bypassed: some file systems refuse that.
    pub direct: bool,
    /// Bytes of each file.
    pub size: u64,
    /// Bytes of a request.
    pub block: usize,
    /// Requests in flight for each file.
    pub depth: usize,
    /// Files on each disk.
    pub streams: usize,
    /// Bytes moved, on all disks.
    pub bytes: u64,
    /// From the first request until all was done, and for writes durable.
    pub seconds: f64,
    /// Bytes a second of all disks.
    pub bytes_per_second: f64,
    /// Requests a second of all disks.
    pub iops: f64,
    /// Of the time, that of the last flush.
    pub sync_seconds: f64,
    /// CPU seconds of this process, user and system, for 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// CPU seconds in its own code.
    pub user_seconds: f64,
    /// CPU seconds in the kernel on its behalf.
    pub system_seconds: f64,
    /// From submission to completion of a request.
    pub latency: LatencySummary,
    /// What was measured, from `device_bytes`.
    pub measured: MeasuredLayer,
    /// Bytes that passed through the block layer, as the kernel counted them.
    pub device_bytes: Option<u64>,
    /// Seconds of one value of `series`.
    pub interval: f64,
    /// Bytes a second of all disks, over time.
    pub series: Vec<f64>,
    /// Each disk by itself, while all were working.
    pub disks: Vec<DiskResult>,
}

/// One disk of a point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskResult {
    /// Its directory.
    pub path: PathBuf,
    /// Bytes moved.
    pub bytes: u64,
    /// Until its last file was done.
    pub seconds: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Why it did not do all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Requests.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 % are no longer.
    pub p90_ns: u64,
    /// 99 % are no longer.
    pub p99_ns: u64,
    /// 99.9 % are no longer.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Non-empty buckets: smallest value, count.
    pub histogram: Vec<(u64, u64)>,
}

impl From<&Histogram> for LatencySummary {
    fn from(of: &Histogram) -> Self {
        Self {
            count: of.count(),
            min_ns: of.min(),
            mean_ns: of.mean(),
            p50_ns: of.quantile(0.5),
            p90_ns: of.quantile(0.9),
            p99_ns: of.quantile(0.99),
            p999_ns: of.quantile(0.999),
            max_ns: of.max(),
            histogram: of.iter().collect(),
        }
    }
}

/// The part that bounds a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferBottleneck {
    /// Reading the disks.
    Read,
    /// The network, at the rate given.
    Network,
    /// Writing the disks.
    Write,
    /// This host: its CPUs, memory or loopback.
    Host,
}

impl TransferBottleneck {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            TransferBottleneck::Read => "reading the disks",
            TransferBottleneck::Network => "the network",
            TransferBottleneck::Write => "writing the disks",
            TransferBottleneck::Host => "this host (CPUs, memory, loopback)",
        }
    }
}

/// A transfer with all its parts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TransferBudget {
    /// Bits a second of the network, as given.
    pub network_bits_per_second: f64,
    /// Bits a second of reading, as measured.
    pub read_bits_per_second: Option<f64>,
    /// Bits a second of writing, as measured.
    pub write_bits_per_second: Option<f64>,
    /// From these disks to the network.
    pub sending: Option<TransferRate>,
    /// From the network to these disks.
    pub receiving: Option<TransferRate>,
    /// From disks like these through the network to disks like these: bits a second, predicted.
    pub through_bits_per_second: Option<f64>,
    /// What bounds that.
    pub bound: Option<TransferBottleneck>,
}

/// One way between disk and network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransferRate {
    /// Bits a second, predicted: that of the slower part.
    pub predicted_bits_per_second: f64,
    /// The slower part.
    pub predicted_bound: TransferBottleneck,
    /// Bits a second, measured.
    pub measured_bits_per_second: f64,
    /// The part that the others waited for.
    pub measured_bound: TransferBottleneck,
    /// Seconds measured.
    pub seconds: f64,
    /// Fraction of the time in which disks waited for the network.
    pub disk_waited: f64,
    /// Fraction of the time in which the network waited for disks.
    pub network_waited: f64,
    /// Fraction of the time in which the network was held to its rate.
    pub paced: f64,
    /// CPU seconds for 10⁹ bytes, of both ends of the loopback.
    pub cpu_seconds_per_gb: f64,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// fio's percentiles.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The report as fio would write it: one job for each point.
#[must_use]
pub fn fio_json(report: &DiskReport) -> Value {
    json!({
        "fio version": format!("skyhaul-{}", env!("CARGO_PKG_VERSION")),
        "global options": { "filename": report.disks },
        "jobs": report.points.iter().enumerate().map(|(at, point)| job(at, point)).collect::<Vec<_>>(),
    })
}

fn job(at: usize, point: &DiskPoint) -> Value {
    let word = match point.operation {
        DiskOperation::Write => "write",
        DiskOperation::Read => "read",
    };
    let percent = |seconds: f64| if point.seconds > 0.0 { seconds / point.seconds * 100.0 } else { 0.0 };
    let failed = point.disks.iter().any(|disk| disk.error.is_some());
    let mut job = json!({
        "jobname": format!("{word}-{at}"),
        "groupid": 0,
        // EIO, whatever the reason was; our own report has it in words.
        "error": if failed { 5 } else { 0 },
        "elapsed": point.seconds.ceil() as u64,
        "job options": {
            "rw": word,
            "bs": point.block.to_string(),
            "iodepth": point.depth.to_string(),
            "size": point.size.to_string(),
            "direct": u8::from(point.direct).to_string(),
            "invalidate": u8::from(point.mode != CacheMode::Cached).to_string(),
            "ioengine": if point.engine == "io_uring" { "io_uring" } else { "psync" },
            "numjobs": (point.streams * point.disks.len()).to_string(),
            "end_fsync": "1",
        },
        "job_runtime": (point.seconds * 1e3) as u64,
        "usr_cpu": percent(point.user_seconds),
        "sys_cpu": percent(point.system_seconds),
    });
    if let Some(job) = job.as_object_mut() {
        for name in ["read", "write", "trim"] {
            let mine = name == word;
            job.insert(name.into(), direction(mine.then_some(point)));
        }
    }
    job
}

fn direction(point: Option<&DiskPoint>) -> Value {
    let latency = point.map(|point| point.latency.clone()).unwrap_or_default();
    let number = |of: fn(&DiskPoint) -> f64| point.map_or(0.0, of);
    let rates = point.map(|point| &point.series[..]).unwrap_or_default();
    let kib = |bytes: f64| bytes / 1024.0;
    let mean = if rates.is_empty() { 0.0 } else { rates.iter().sum::<f64>() / rates.len() as f64 };
    let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
    let deviation = if rates.len() > 1 { (square / (rates.len() - 1) as f64).sqrt() } else { 0.0 };
    json!({
        "io_bytes": point.map_or(0, |point| point.bytes),
        "io_kbytes": point.map_or(0, |point| point.bytes / 1024),
        "bw_bytes": number(|point| point.bytes_per_second) as u64,
        "bw": kib(number(|point| point.bytes_per_second)) as u64,
        "iops": number(|point| point.iops),
        "runtime": (number(|point| point.seconds) * 1e3) as u64,
        "total_ios": latency.count,
        "short_ios": 0,
        "drop_ios": 0,
        "clat_ns": times(&latency, true),
        "lat_ns": times(&latency, false),
        "bw_min": kib(rates.iter().copied().reduce(f64::min).unwrap_or(0.0)) as u64,
        "bw_max": kib(rates.iter().copied().reduce(f64::max).unwrap_or(0.0)) as u64,
        "bw_mean": kib(mean),
        "bw_dev": kib(deviation),
        "bw_samples": rates.len(),
    })
}

fn times(of: &LatencySummary, percentiles: bool) -> Value {
    let square: f64 = of.histogram.iter().map(|&(at, n)| (at as f64 - of.mean_ns).powi(2) * n as f64).sum();
    let deviation = if of.count > 1 { (square / (of.count - 1) as f64).sqrt() } else { 0.0 };
    let mut times =
        json!({ "min": of.min_ns, "max": of.max_ns, "mean": of.mean_ns, "stddev": deviation, "N": of.count });
    if percentiles && of.count > 0 {
        let mut all = Map::new();
        for percent in PERCENTILES {
            all.insert(format!("{percent:.6}"), quantile(of, percent / 100.0).into());
        }
        times["percentile"] = Value::Object(all);
    }
    times
}

/// The bucket in which a fraction `q` of all values lie.
fn quantile(of: &LatencySummary, q: f64) -> u64 {
    let want = ((of.count as f64 * q).ceil() as u64).max(1);
    let mut seen = 0u64;
    for &(at, n) in &of.histogram {
        seen = seen.saturating_add(n);
        if seen >= want {
            return at.clamp(of.min_ns, of.max_ns);
        }
    }
    of.max_ns
}

/// Writing or reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskOperation {
    /// Write new files, until they are durable.
    Write,
    /// Read files.
    Read,
}

/// How files are opened, and what the page cache holds of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache; before a read it forgets the file.
    Buffered,
    /// Reads through a page cache that holds what fits of the file.
    Cached,
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// A directory on each disk. All are measured in parallel.
    pub disks: Vec<PathBuf>,
    /// What is done, in this order.
    pub operations: Vec<DiskOperation>,
    /// Bytes of a file, each in turn.
    pub sizes: Vec<u64>,
    /// Bytes of a request, each in turn; multiples of 4096.
    pub blocks: Vec<usize>,
    /// Requests in flight for each file, each in turn.
    pub depths: Vec<usize>,
    /// Files on each disk at a time, each in turn.
    pub streams: Vec<usize>,
    /// Modes, each in turn.
    pub modes: Vec<CacheMode>,
    /// Times all of this is done.
    pub rounds: usize,
    /// Which system calls.
    pub engine: Engine,
    /// Bytes to leave free on each disk.
    pub reserve: u64,
    /// A network rate in bits per second to compare the disks with.
    pub against: Option<u64>,
    /// Injected faults of disks, for tests.
    pub faults: Vec<(PathBuf, Faults)>,
    /// Ends it early.
    pub stop: StopFlag,
}

impl MeasureOptions {
    /// A first look at these disks: seconds, not hours.
    #[must_use]
    pub fn new(disks: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            disks: disks.into_iter().map(Into::into).collect(),
            operations: vec![DiskOperation::Write, DiskOperation::Read],
            sizes: vec![1 << 30],
            blocks: vec![1 << 20],
            depths: vec![16],
            streams: vec![1],
            modes: vec![CacheMode::Direct],
            rounds: 1,
            engine: Engine::Auto,
            reserve: 64 << 20,
            against: None,
            faults: Vec::new(),
            stop: StopFlag::default(),
        }
    }

    /// The faults to inject into a disk.
    pub(super) fn faults_of(&self, disk: &std::path::Path) -> Faults {
        let fault = self.faults.iter().find(|(path, _)| path == disk);
        fault.map(|(_, faults)| faults.clone()).unwrap_or_default()
    }
}
