//! The results.

use super::bound::Budget;
use super::options::{Mode, Operation};
use serde::{Deserialize, Serialize};
use skyhaul_core::measure::Histogram;
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
    pub points: Vec<Point>,
    /// The disks beside a network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget: Option<Budget>,
    /// What else should be known.
    pub notes: Vec<String>,
    /// Whether it was stopped before all was measured.
    pub interrupted: bool,
}

impl DiskReport {
    /// Whether every disk did all that was asked of it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let fine = |point: &Point| point.disks.iter().all(|disk| disk.error.is_none());
        !self.interrupted && self.points.iter().all(fine)
    }
}

/// What a measurement measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
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

impl Measured {
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
pub struct Point {
    /// Writing or reading.
    pub operation: Operation,
    /// As asked for.
    pub mode: Mode,
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
    pub latency: Latency,
    /// What was measured, from `device_bytes`.
    pub measured: Measured,
    /// Bytes that passed through the block layer, as the kernel counted them.
    pub device_bytes: Option<u64>,
    /// Seconds of one value of `series`.
    pub interval: f64,
    /// Bytes a second of all disks, over time.
    pub series: Vec<f64>,
    /// Each disk by itself, while all were working.
    pub disks: Vec<OneDisk>,
}

/// One disk of a point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OneDisk {
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
pub struct Latency {
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

impl From<&Histogram> for Latency {
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
