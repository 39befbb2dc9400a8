//! Reports of a recorder, while it runs and at its end.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skyhaul_core::measure::Histogram;

use crate::ledger::FrameLedger;
use crate::recording::index::event::Event;
use crate::recording::write::ledger::DatastreamReport;
use crate::recording::write::space::SpaceReport;

/// State of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// It takes chunks.
    #[default]
    Active,
    /// A write has been pending for long: it gets no chunks until that has finished.
    Stalled,
    /// No space is left for a chunk, down to the reserve.
    Full,
    /// It gave an error: out for this scan.
    Failed,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its directory.
    pub path: PathBuf,
    /// Its state.
    pub state: DiskState,
    /// `io_uring` or `pwrite`.
    pub engine: String,
    /// Written past the page cache.
    pub direct: bool,
    /// Written from memory that is registered with the kernel.
    pub registered: bool,
    /// What was refused, with the remedy.
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
    pub latency: Latency,
    /// Bytes free on it.
    pub free_bytes: u64,
    /// Of these, bytes that chunks may still fill: beyond the reserve and what is waiting; 0 if it is out.
    #[serde(default)]
    pub room_bytes: u64,
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
    /// Free space, and how long it lasts.
    #[serde(default)]
    pub space: SpaceReport,
    /// What became of all frames: the sum over the datastreams, except those of heaps and events.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Made from the files by `check --repair`, after the recorder had died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl RecordingReport {
    /// Whether every chunk that was given is durable, and was still there at the end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.datastreams.iter().all(|stream| {
            stream.acknowledged == stream.submitted && stream.gone == 0 && stream.ledger.discarded == 0
        })
    }

    /// Sums that do not hold, as text: none, unless this program counts wrongly.
    #[must_use]
    pub fn imbalance(&self) -> Vec<String> {
        let of = |stream: &DatastreamReport| stream.ledger.imbalance(&stream.name);
        self.datastreams.iter().flat_map(of).chain(self.ledger.imbalance(&self.scan)).collect()
    }

    /// Bytes that are durable.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.datastreams.iter().map(|stream| stream.acknowledged_bytes).sum()
    }
}

/// Times, exact to three digits. Older reports counted them in eighths of a power of two; they are read as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Buckets", into = "Buckets")]
pub struct Latency(Histogram);

/// A latency as it is written: only buckets that counted.
#[derive(Serialize, Deserialize)]
struct Buckets {
    count: u64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    /// Upper end of the bucket in µs, and its count.
    buckets: Vec<(u64, u64)>,
}

impl Latency {
    /// Count one.
    pub fn add(&mut self, time: Duration) {
        self.0.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// The time that `part` (0 to 1) of them do not exceed.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_micros(self.0.quantile(part))
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    /// Each eighth of a power of two that counted, in µs, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.0.eighths()
    }
}

/// What is written of both is the same.
impl PartialEq for Latency {
    fn eq(&self, other: &Latency) -> bool {
        self.max() == other.max() && self.0.iter().eq(other.0.iter())
    }
}

impl From<Latency> for Buckets {
    fn from(latency: Latency) -> Buckets {
        let Latency(all) = latency;
        Buckets {
            count: all.count(),
            p50_us: all.quantile(0.5),
            p99_us: all.quantile(0.99),
            max_us: all.max(),
            buckets: all.buckets().map(|(bucket, count)| (bucket.end, count)).collect(),
        }
    }
}

impl From<Buckets> for Latency {
    fn from(buckets: Buckets) -> Latency {
        let mut all = Histogram::default();
        for (end, count) in buckets.buckets {
            // The longest is in the last bucket.
            all.record_many(end.saturating_sub(1).min(buckets.max_us), count);
        }
        Latency(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_and_what_is_written_is_read() {
        let mut histogram = Latency::default();
        (1..=1000).for_each(|n| histogram.add(Duration::from_micros(n * 10)));
        assert_eq!((histogram.count(), histogram.max()), (1000, Duration::from_millis(10)));
        let median = histogram.quantile(0.5).as_micros();
        assert!((5000..5005).contains(&median), "{median}");
        assert_eq!(histogram.quantile(1.0), Duration::from_millis(10));
        histogram.add(Duration::from_secs(1 << 40));
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Latency = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn a_report_of_older_buckets_is_read() {
        // As written when a bucket was an eighth: 640..704 µs, 704..768 µs, 1.5 to 1.625 ms of which 1600 is the longest.
        let text =
            r#"{"count":6,"p50_us":703,"p99_us":1600,"max_us":1600,"buckets":[[704,4],[768,1],[1664,1]]}"#;
        let old: Latency = serde_json::from_str(text).unwrap();
        assert_eq!((old.count(), old.max().as_micros(), old.quantile(0.5).as_micros()), (6, 1600, 703));
        assert_eq!(old.buckets().collect::<Vec<_>>(), [(640..704, 4), (704..768, 1), (1536..1664, 1)]);
        let again = serde_json::from_str::<Latency>(&serde_json::to_string(&old).unwrap()).unwrap();
        assert_eq!(again, old);
    }
}
