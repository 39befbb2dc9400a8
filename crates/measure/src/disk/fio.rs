//! The results under the names that fio gives them in its JSON, for programs that read those.
//!
//! Only what was measured is there: no `slat_ns` (submission is not timed by itself), no `disk_util`. `usr_cpu` and
//! `sys_cpu` are of the whole process, in percent of one CPU, as fio's of a job with one thread.

use super::options::{Mode, Operation};
use super::report::{DiskReport, Latency, Point};
use serde_json::{Map, Value, json};

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

fn job(at: usize, point: &Point) -> Value {
    let word = match point.operation {
        Operation::Write => "write",
        Operation::Read => "read",
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
            "invalidate": u8::from(point.mode != Mode::Cached).to_string(),
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

fn direction(point: Option<&Point>) -> Value {
    let latency = point.map(|point| point.latency.clone()).unwrap_or_default();
    let number = |of: fn(&Point) -> f64| point.map_or(0.0, of);
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

fn times(of: &Latency, percentiles: bool) -> Value {
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
fn quantile(of: &Latency, q: f64) -> u64 {
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
