//! What a recorder reports, while it runs and at its end: datastreams, disks, free space, events.
//!
//! Only data, with the names of the report's JSON: `--json` prints them, and the last record of each index contains them.
//! The sums that must hold are in [`RecordingReport::imbalance`].

use crate::irregular::kind_of_recorded;
use crate::ledger::FrameLedger;
use crate::recording::copies::CopyCounts;
use serde::{Deserialize, Serialize};
use skyhaul_core::measure::Histogram;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// State of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// It accepts chunks.
    #[default]
    Active,
    /// A write has been pending for long: it gets no chunks until that has finished.
    Stalled,
    /// No space is left for a chunk, down to the reserve.
    Full,
    /// It returned an error, and is not used for the rest of the scan.
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
    /// Options that could not be applied, with the remedy.
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
    /// Of these, bytes that chunks may still fill: beyond the reserve and the waiting chunks; 0 if the disk is not used.
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
    /// Events for the operator.
    pub events: Vec<Event>,
    /// Events that were not kept, because there were too many.
    pub events_dropped: u64,
    /// Free space, and how long it lasts.
    #[serde(default)]
    pub space: SpaceReport,
    /// The fate of all frames: the sum over the datastreams, except those of heaps and events.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Made from the files by `check --repair`, after the recorder had died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl RecordingReport {
    /// Whether every chunk that was given is durable, and was still there at the end; also with fewer copies than were asked for.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.datastreams.iter().all(|stream| {
            stream.acknowledged == stream.submitted && stream.gone == 0 && stream.ledger.discarded == 0
        })
    }

    /// Chunks that are durable, with fewer copies than were asked for, and their bytes.
    #[must_use]
    pub fn with_fewer_copies(&self) -> (u64, u64) {
        let counts = self.datastreams.iter().filter_map(|stream| stream.redundancy.as_ref());
        counts.fold((0, 0), |(chunks, bytes), of| {
            (chunks + of.chunks_with_fewer_copies, bytes + of.bytes_with_fewer_copies)
        })
    }

    /// Sums that do not hold, as text. There are some only if this program counts wrongly.
    #[must_use]
    pub fn imbalance(&self) -> Vec<String> {
        let of = |stream: &DatastreamReport| {
            let mut wrong = stream.ledger.imbalance(&stream.name);
            if let Some(copies) = &stream.redundancy {
                let chunks = ("chunks acknowledged", stream.acknowledged);
                let bytes = ("bytes acknowledged", stream.acknowledged_bytes);
                wrong.extend(copies.imbalance(&stream.name, chunks, bytes));
            }
            wrong
        };
        self.datastreams.iter().flat_map(of).chain(self.ledger.imbalance(&self.scan)).collect()
    }

    /// Bytes that are durable.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.datastreams.iter().map(|stream| stream.acknowledged_bytes).sum()
    }
}

/// One datastream's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatastreamReport {
    /// Its number in the session.
    pub datastream: u32,
    /// Its name on disk.
    pub name: String,
    /// Its sender.
    pub sender: Option<String>,
    /// Chunks given to the recorder.
    pub submitted: u64,
    /// Bytes given.
    pub submitted_bytes: u64,
    /// Chunks durable with their index record.
    pub acknowledged: u64,
    /// Bytes durable.
    pub acknowledged_bytes: u64,
    /// Units missing in chunks that were given.
    pub missing_units: u64,
    /// Times a chunk was given to a second disk because the first one failed it.
    pub rewritten: u64,
    /// Chunks that no disk could take.
    pub lost: u64,
    /// Bytes of these.
    #[serde(default)]
    pub lost_bytes: u64,
    /// Their numbers (the first 10 000).
    pub lost_numbers: Vec<u32>,
    /// Numbers of chunks that were still under way at the end.
    pub unacknowledged: Vec<u32>,
    /// Chunks that were durable, and are on no disk any more: looked for at the end.
    #[serde(default)]
    pub gone: u64,
    /// Their numbers (the first 10 000).
    #[serde(default)]
    pub gone_numbers: Vec<u32>,
    /// The copies of its durable chunks, if more than one of each was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<CopyCounts>,
    /// The fate of its frames; of its heaps or events if it is `keyed`. Its `packets_per_frame` says whether packets are counted.
    #[serde(default)]
    pub ledger: FrameLedger,
    /// Its chunks hold heaps or events, which the ledger counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keyed: bool,
}

/// Free space, and how long it lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpaceReport {
    /// Bytes of data that whole chunks may still fill on all working disks, beyond the reserves. If copies were asked for: with all of
    /// them, or as many as the disks with room can take.
    pub free_bytes: u64,
    /// Bytes per second that were submitted lately.
    pub bytes_per_second: f64,
    /// Seconds until all disks are full at that rate; `None` if nothing is being submitted.
    pub seconds_left: Option<f64>,
}

impl SpaceReport {
    /// The alarm as text.
    pub(super) fn alarm(&self) -> String {
        let megabytes = self.free_bytes as f64 / 1e6;
        match self.seconds_left {
            Some(left) => format!(
                "all disks will be full in {}: {megabytes:.0} MB are free beyond the reserve, {:.1} MB/s arrive",
                in_words(left),
                self.bytes_per_second / 1e6
            ),
            None => format!("all disks are nearly full: {megabytes:.0} MB are free beyond the reserve"),
        }
    }
}

/// A time as an operator reads it: `3 h 20 min`, `9 min 40 s`, `12 s`.
#[must_use]
pub fn in_words(seconds: f64) -> String {
    // A forecast of years is as good as any longer one.
    let all = seconds.clamp(0.0, 1e10) as u64;
    match (all / 86_400, all / 3600 % 24, all / 60 % 60, all % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, ..) => format!("{d} d {h} h"),
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

/// Equal if their written form is.
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

/// An event that an operator should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "RecordedEvent")]
pub struct Event {
    /// When (RFC 3339).
    pub at: String,
    /// A short name: `disk_failed`, `disk_full`, `disk_stalled`, `disk_resumed`, `restart`, …
    pub kind: String,
    /// The disk, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<PathBuf>,
    /// The sender, if it is about one stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The event in words.
    pub text: String,
}

/// An event as an index has it, of this version or an earlier one.
#[derive(Deserialize)]
struct RecordedEvent {
    at: String,
    kind: String,
    #[serde(default)]
    disk: Option<PathBuf>,
    #[serde(default)]
    sender: Option<String>,
    text: String,
}

impl From<RecordedEvent> for Event {
    fn from(recorded: RecordedEvent) -> Event {
        let RecordedEvent { at, kind, disk, sender, text } = recorded;
        Event { at, kind: kind_of_recorded(kind, &text), disk, sender, text }
    }
}

impl Event {
    pub(crate) fn now(kind: &str, disk: Option<PathBuf>, text: String) -> Event {
        Event { at: jiff::Timestamp::now().to_string(), kind: kind.to_owned(), disk, sender: None, text }
    }

    /// An event of the stream of `sender`.
    pub(crate) fn of_sender(kind: &str, sender: impl std::fmt::Display, text: &str) -> Event {
        let event = Event::now(kind, None, format!("{sender}: {text}"));
        Event { sender: Some(sender.to_string()), ..event }
    }

    /// Whether it is about the stream of `sender`. Earlier recorders wrote the sender in the text alone.
    pub(crate) fn is_of(&self, sender: &str) -> bool {
        match &self.sender {
            Some(of) => of == sender,
            None => self.text.strip_prefix(sender).is_some_and(|rest| rest.starts_with(": ")),
        }
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
