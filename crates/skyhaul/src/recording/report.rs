//! What a recorder says of itself, while it runs and at its end.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ledger::DatastreamReport;
use super::record::Event;

/// How a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// It takes chunks.
    #[default]
    Active,
    /// It did not finish a write for long: it gets nothing until it does.
    Stalled,
    /// No space is left, down to the reserve.
    Full,
    /// It gave an error: out for this scan.
    Failed,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its directory.
    pub path: PathBuf,
    /// How it is.
    pub state: DiskState,
    /// `io_uring` or `pwrite`.
    pub engine: String,
    /// Written past the page cache.
    pub direct: bool,
    /// Written from memory that is registered with the kernel.
    pub registered: bool,
    /// What was tried and refused, with the remedy.
    pub notes: Vec<String>,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Of these, durable with their index record.
    pub acknowledged_bytes: u64,
    /// Chunks waiting or being written.
    pub queue_chunks: u64,
    /// Bytes waiting or being written.
    pub queue_bytes: u64,
    /// Measured while busy, in bytes a second.
    pub rate: f64,
    /// From a chunk's first write to its name.
    pub latency: Histogram,
    /// Bytes free on it.
    pub free_bytes: u64,
    /// Its last error.
    pub error: Option<String>,
}

/// A recorder's account, written at the end of each index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingReport {
    /// The scan's label, as it is on disk.
    pub scan: String,
    /// The session's number.
    pub session: String,
    /// When it began (RFC 3339).
    pub started: String,
    /// When it ended (RFC 3339).
    pub ended: String,
    /// How long it took.
    pub seconds: f64,
    /// Each datastream.
    pub datastreams: Vec<DatastreamReport>,
    /// Each disk.
    pub disks: Vec<DiskStatus>,
    /// What an operator should know.
    pub events: Vec<Event>,
    /// Events that were not kept, because there were too many.
    pub events_dropped: u64,
    /// Made from the files by `check --repair`, after the recorder had died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl RecordingReport {
    /// Whether every chunk that was given is durable, and was still there at the end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.datastreams.iter().all(|stream| stream.acknowledged == stream.submitted && stream.gone == 0)
    }

    /// Bytes that are durable.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.datastreams.iter().map(|stream| stream.acknowledged_bytes).sum()
    }
}

const OCTAVES: usize = 32;
const STEPS: usize = 4;

/// Times, counted in buckets a quarter of an octave wide: 1 µs to more than an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Buckets", into = "Buckets")]
pub struct Histogram {
    counts: [u64; OCTAVES * STEPS],
    largest: u64,
}

/// A histogram as it is written: only buckets that counted.
#[derive(Serialize, Deserialize)]
struct Buckets {
    count: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    /// Upper end of the bucket in µs, and its count.
    buckets: Vec<(u64, u64)>,
}

impl Histogram {
    /// Count one.
    pub fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.largest = self.largest.max(micros);
        self.counts[Self::bucket(micros)] += 1;
    }

    fn bucket(micros: u64) -> usize {
        let value = micros.max(1);
        let octave = value.ilog2() as usize;
        // The two bits below the highest one.
        let step = if octave >= 2 { (value >> (octave - 2)) & 3 } else { (value << (2 - octave)) & 3 };
        (octave * STEPS + step as usize).min(OCTAVES * STEPS - 1)
    }

    /// Upper end of a bucket in µs.
    fn end(bucket: usize) -> u64 {
        let (octave, step) = (bucket / STEPS, (bucket % STEPS) as u64);
        ((4 + step + 1) << octave).div_ceil(4)
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that `part` (0 to 1) of them do not exceed, to a quarter of an octave.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut sum = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= rank {
                return Duration::from_micros(Self::end(bucket).min(self.largest));
            }
        }
        Duration::ZERO
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.largest)
    }

    /// Upper end in µs and count of each bucket that counted.
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let counted = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        counted.map(|(bucket, &count)| (Self::end(bucket), count)).collect()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; OCTAVES * STEPS], largest: 0 }
    }
}

impl From<Histogram> for Buckets {
    fn from(histogram: Histogram) -> Buckets {
        let micros = |part| histogram.quantile(part).as_micros() as u64;
        Buckets {
            count: histogram.count(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            max_us: histogram.largest,
            buckets: histogram.buckets(),
        }
    }
}

impl From<Buckets> for Histogram {
    fn from(buckets: Buckets) -> Histogram {
        let mut histogram = Histogram { largest: buckets.max_us, ..Histogram::default() };
        for (end, count) in buckets.buckets {
            histogram.counts[Histogram::bucket(end.saturating_sub(1))] += count;
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_quarter_octave() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.add(Duration::from_micros(n * 10)));
        assert_eq!((histogram.count(), histogram.max()), (1000, Duration::from_millis(10)));
        let median = histogram.quantile(0.5).as_micros();
        assert!((5000..6300).contains(&median), "{median}");
        assert_eq!(histogram.quantile(1.0), Duration::from_millis(10));
        histogram.add(Duration::from_secs(1 << 40));
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
}
