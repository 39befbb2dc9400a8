//! The file of requests: lines wait in memory of fixed size for a thread that writes them, so that no request waits for the disk.
//!
//! ```text
//!   request over ─▶ line ─▶ queue (4 MiB; full: the line is lost, and counted) ─▶ thread ─▶ file, rotated by its size
//! ```
//!
//! Limits: [`MAX_WAITING_BYTES`]; a disk that takes nothing is tried each [`RETRY_INTERVAL`], and the end of the server waits for it for
//! [`CLOSE_TIMEOUT`] at most. What a power cut takes are the last seconds: lines are not synchronised to the disk.

use skyhaul::io::lock::{lock, wait, wait_while};
use skyhaul::io::say;
use skyhaul::line_log::{LineLog, LineLogOptions, Retention};
use skyhaul::metrics::{Kind, Metric};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Bytes of lines that wait for the disk.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Bytes that are written in one call.
const BATCH_BYTES: usize = 64 << 10;
/// Pause between two calls, in which lines gather.
const GATHER_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after which a disk that refused is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long the end of the server waits for the last lines.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogOptions {
    /// The file; rotated ones are `FILE.1`, `FILE.2`, ….
    pub file: PathBuf,
    /// How many of them are kept.
    pub keep: Retention,
}

/// The log of a server.
pub(super) struct AccessLog(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    /// Bytes of lines that are not written, those that the thread holds included.
    bytes: usize,
    counts: Counted,
    is_closing: bool,
    /// The thread has ended.
    is_over: bool,
}

/// What became of lines.
#[derive(Clone, Copy, Default)]
struct Counted {
    written: u64,
    waiting: u64,
    lost: u64,
    failures: u64,
}

impl AccessLog {
    /// Opens the file, and starts the thread that writes it.
    pub(super) fn start(options: &AccessLogOptions) -> io::Result<Self> {
        let how = LineLogOptions {
            keep: options.keep,
            is_durable: false,
            // It names users and files.
            mode: 0o640,
            remedy: "give each server a `file` of its own in [http.log]",
        };
        let log = LineLog::open(&options.file, how)?;
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let of = Arc::clone(&shared);
        std::thread::Builder::new().name("webdav-log".into()).spawn(move || of.run(log))?;
        Ok(Self(shared))
    }

    /// Adds a line. It never waits for the disk.
    pub(super) fn push(&self, line: String) {
        let mut queue = lock(&self.0.queue);
        if queue.is_over || queue.bytes + line.len() > MAX_WAITING_BYTES {
            queue.counts.lost += 1;
            return;
        }
        queue.bytes += line.len();
        queue.counts.waiting += 1;
        queue.lines.push_back(line);
        if queue.lines.len() == 1 {
            self.0.changed.notify_all();
        }
    }

    pub(super) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        let counts = lock(&self.0.queue).counts;
        [
            ("log_lines_total", Kind::Counter, "Lines of the access log that were written.", counts.written),
            (
                "log_lines_waiting",
                Kind::Gauge,
                "Lines of the access log that wait for the disk.",
                counts.waiting,
            ),
            (
                "log_lines_lost_total",
                Kind::Counter,
                "Lines of the access log that the disk did not take in time.",
                counts.lost,
            ),
            (
                "log_failures_total",
                Kind::Counter,
                "Times that the disk refused the access log.",
                counts.failures,
            ),
        ]
        .into_iter()
        .map(|(name, kind, help, value)| {
            let mut metric = metric(name, kind, help);
            metric.add(&[], value);
            metric
        })
        .collect()
    }
}

impl AccessLog {
    /// Writes the last lines; later ones are lost, and counted.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.0.queue);
        if std::mem::replace(&mut queue.is_closing, true) {
            return;
        }
        self.0.changed.notify_all();
        let queue = wait_while(&self.0.changed, queue, CLOSE_TIMEOUT, |queue| !queue.is_over);
        let missing = queue.counts.waiting;
        drop(queue);
        if missing > 0 {
            say!("the access log lacks its last {missing} lines: its disk does not take them");
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Waits so long, or until the end is asked for; `false` then.
    fn pause(&self, time: Duration) -> bool {
        !wait_while(&self.changed, lock(&self.queue), time, |queue| !queue.is_closing).is_closing
    }

    /// The next lines, with their ends; `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut queue = lock(&self.queue);
        while queue.lines.is_empty() {
            if queue.is_closing {
                return None;
            }
            queue = wait(&self.changed, queue);
        }
        let mut text = Vec::new();
        while text.len() < BATCH_BYTES
            && let Some(line) = queue.lines.pop_front()
        {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        Some(text)
    }

    /// Notes that these lines, and their bytes without the ends, are written.
    fn wrote(&self, lines: u64, bytes: usize) {
        let mut queue = lock(&self.queue);
        queue.bytes -= bytes;
        queue.counts.waiting -= lines;
        queue.counts.written += lines;
    }

    /// Writes until the end.
    fn run(&self, mut log: LineLog) {
        let mut is_failing = false;
        while let Some(text) = self.next() {
            let (bytes, before) = (text.len(), log.counts().written);
            let mut done = log.write_text(text);
            while let Err(error) = &done {
                lock(&self.queue).counts.failures += 1;
                if !std::mem::replace(&mut is_failing, true) {
                    say!("the access log cannot be written: {error}");
                }
                // After a rotation that failed, nothing is left to be written.
                if log.counts().waiting == 0 || !self.pause(RETRY_INTERVAL) {
                    break;
                }
                done = log.flush();
            }
            if done.is_ok() && std::mem::take(&mut is_failing) {
                say!("the access log is written again");
            }
            if log.counts().waiting > 0 {
                break;
            }
            let lines = log.counts().written - before;
            self.wrote(lines, bytes - lines as usize);
            self.pause(GATHER_INTERVAL);
        }
        lock(&self.queue).is_over = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::path::Path;
    use std::process::Command;

    fn start(file: &Path) -> AccessLog {
        let keep = Retention { bytes: 1 << 30, files: 1, age: None };
        AccessLog::start(&AccessLogOptions { file: file.to_owned(), keep }).unwrap()
    }

    fn counts(log: &AccessLog) -> (u64, u64, u64) {
        let counts = lock(&log.0.queue).counts;
        (counts.written, counts.waiting, counts.lost)
    }

    #[test]
    fn what_waits_at_the_end_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.jsonl");
        let log = start(&path);
        (0..10_000).for_each(|n| log.push(format!("line {n}")));
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().eq((0..10_000).map(|n| format!("line {n}"))));
    }

    /// A pipe that nobody reads is a disk that hangs: requests do not wait for it, what fits waits, and the rest is counted.
    #[test]
    fn a_disk_that_hangs_costs_lines_and_no_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let log = start(&path);
        let line = "x".repeat(999);
        let pushed = 3 * MAX_WAITING_BYTES / line.len();
        (0..pushed).for_each(|_| log.push(line.clone()));
        let (written, waiting, lost) = counts(&log);
        assert_eq!((written + waiting + lost) as usize, pushed);
        assert!(lost > 0 && waiting as usize * line.len() <= MAX_WAITING_BYTES, "{waiting} {lost}");
        // It answers again: what waited is written.
        let mut pipe = std::fs::File::open(&path).unwrap();
        let mut arrived = vec![0; (written + waiting) as usize * (line.len() + 1)];
        pipe.read_exact(&mut arrived).unwrap();
        assert!(
            arrived
                .chunks(line.len() + 1)
                .all(|one| &one[..line.len()] == line.as_bytes() && one.ends_with(b"\n"))
        );
        drop(log);
    }

    #[test]
    fn a_disk_that_refuses_is_counted_and_holds_no_end_up() {
        if !Path::new("/dev/full").exists() {
            return println!("SKIPPED: a disk that is full (needs /dev/full)");
        }
        let log = start(Path::new("/dev/full"));
        log.push("a".to_owned());
        log.push("b".to_owned());
        while lock(&log.0.queue).counts.failures == 0 {
            std::thread::yield_now();
        }
        assert_eq!(counts(&log), (0, 2, 0));
        drop(log);
    }
}
