//! A place to record: temporary disks, and the command run on them as a user runs it.
//!
//! Packets made by the tests themselves, from the library's wire module.

use serde_json::Value;
use skyhaul::core::pattern;
use skyhaul::io::disk::is_locked;
use skyhaul::wire::vdif::{Header, Vdif};
use skyhaul::wire::{Order, fila10g, mark5b, vtp};
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Only a hang lasts this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// Where everything here listens, on a port that the system gives.
pub(crate) const ANY: &str = "--listen udp://127.0.0.1:0";

/// Between two looks of [`wait_for`]: eight times as long as the look took, which may be a command, so that waiting leaves the processors to
/// what is waited for.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(300);

/// Wait until `done` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        let look = Instant::now();
        if let Some(found) = done() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "waited too long for {what}");
        std::thread::sleep((8 * look.elapsed()).clamp(*PAUSE.start(), *PAUSE.end()));
    }
}

/// A port that nothing has, to be opened later: below those that the kernel gives to tests which ask for any (ip_local_port_range).
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port =
            10_000 + (std::process::id() as u16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The words of a command line.
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    /// Its result as text.
    pub(crate) fn told(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// All it said, on both streams.
    pub(crate) fn said(&self) -> String {
        self.told() + &self.stderr
    }

    /// Its report; standard output must hold nothing else.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| {
            let text = String::from_utf8_lossy(&self.stdout);
            panic!("no JSON ({e}), exit {:?}: {text}\n{}", self.code, self.stderr)
        })
    }

    /// It must have ended with this status.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        // A recording on standard output is long, and read as text only if it is to be shown.
        let text = || String::from_utf8_lossy(&self.stdout[..self.stdout.len().min(20_000)]);
        assert_eq!(self.code, Some(code), "{}\n{}", self.stderr, text());
        self
    }
}

/// Run the command to its end.
#[track_caller]
pub(crate) fn run(line: &str) -> Done {
    Job::start(&words(line)).finish()
}

/// Send to an address; the report.
#[track_caller]
pub(crate) fn send(to: &str, line: &str) -> Value {
    run(&format!("send --json --to {to} {line}")).expect(0).json()
}

/// Whatever file the host has.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/settings.toml");

/// A command that runs. It is killed when it is dropped.
pub(crate) struct Job {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Job {
    #[track_caller]
    pub(crate) fn start(words: &[String]) -> Self {
        let binary = std::env::var_os("SKYHAUL_BINARY");
        let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_skyhaul").into()));
        command.env("SKYHAUL_CONFIG", SETTINGS);
        command.args(words);
        Self::of(command)
    }

    /// The same, with standard error in a file.
    #[track_caller]
    pub(crate) fn logged(words: &[String], log: &std::path::Path) -> Self {
        Self::redirected(words, "2>>\"$LOG\"", &[("LOG", log)])
    }

    /// The same, with a redirection of the shell and its variables.
    #[track_caller]
    pub(crate) fn redirected(words: &[String], how: &str, variables: &[(&str, &std::path::Path)]) -> Self {
        let binary = std::env::var_os("SKYHAUL_BINARY");
        let binary = binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_skyhaul").into());
        let mut command = Command::new("sh");
        command.env("SKYHAUL_CONFIG", SETTINGS).envs(variables.iter().copied());
        command.args(["-c", &format!("exec \"$0\" \"$@\" {how}")]).arg(binary).args(words);
        Self::of(command)
    }

    /// Any command.
    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let err = child.stderr.take().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let said = stderr.clone();
        Self {
            child,
            stdout: Some(std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = out.read_to_end(&mut bytes);
                bytes
            })),
            stderr,
            reader: Some(std::thread::spawn(move || {
                for line in BufReader::new(err).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.push_str(&line);
                    said.push('\n');
                }
            })),
        }
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The addresses it listens on, once it does.
    #[track_caller]
    pub(crate) fn listening(&mut self) -> Vec<String> {
        wait_for("the receiver to listen", || {
            let said = self.stderr();
            let line = said.lines().find(|l| l.starts_with("recording ") || l.starts_with("receiving "));
            if let Some((_, list)) = line.and_then(|line| line.split_once(" from ")) {
                return Some(list.split(", ").map(str::to_owned).collect());
            }
            assert!(self.is_running(), "it ended: {said}");
            None
        })
    }

    /// The first address it listens on.
    #[track_caller]
    pub(crate) fn address(&mut self) -> String {
        self.listening().swap_remove(0)
    }

    /// Wait until the kernel holds nothing for it any more.
    #[track_caller]
    pub(crate) fn drained(&mut self) {
        let addresses = self.listening();
        let ports: Vec<u16> = addresses.iter().map(|address| port(address)).collect();
        // To list all TCP sockets takes the kernel 16 ms.
        let is_udp = addresses.iter().all(|address| address.starts_with("udp://"));
        let tables = if is_udp { &TABLES[..2] } else { &TABLES[..] };
        wait_for("the kernel's queues to be empty", || {
            (0..5).all(|_| queues_empty(&ports, tables)).then_some(())
        });
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Let it take in what the kernel holds, and end it as Ctrl-C does.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Done {
        self.drained();
        self.signal(rustix::process::Signal::INT);
        self.finish()
    }

    /// Wait for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        let status = wait_for("the command to end", || self.child.try_wait().unwrap());
        let (stdout, reader) = (self.stdout.take().unwrap(), self.reader.take().unwrap());
        wait_for("the end of what it says, which a child of its own may hold", || {
            (stdout.is_finished() && reader.is_finished()).then_some(())
        });
        let stdout = stdout.join().unwrap();
        reader.join().unwrap();
        Done { code: status.code(), stdout, stderr: self.stderr() }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // One that waits for a disk that hangs does not end: it is left behind.
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The port at the end of an address.
pub(crate) fn port(address: &str) -> u16 {
    let digits = address.split('?').next().unwrap().rsplit(':').next().unwrap();
    digits.parse().unwrap()
}

/// The kernel's tables of sockets.
const TABLES: [&str; 4] = ["udp", "udp6", "tcp", "tcp6"];

/// Whether nothing waits in any socket of these ports, on either side.
fn queues_empty(ports: &[u16], tables: &[&str]) -> bool {
    std::thread::sleep(Duration::from_millis(4));
    tables.iter().all(|table| {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        text.lines().skip(1).all(|line| {
            let field: Vec<&str> = line.split_whitespace().take(5).collect();
            let [_, local, remote, _, queues] = field[..] else { return true };
            let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap(), 16).unwrap();
            let (tx, rx) = queues.split_once(':').unwrap();
            let mine = ports.contains(&port(local)) && u64::from_str_radix(rx, 16) != Ok(0);
            let theirs = ports.contains(&port(remote)) && u64::from_str_radix(tx, 16) != Ok(0);
            !mine && !theirs
        })
    })
}

/// Temporary disks.
pub(crate) struct Site {
    pub(crate) disks: Vec<PathBuf>,
    /// Removed when this is dropped.
    #[allow(dead_code)]
    directory: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new(disks: usize) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let disks: Vec<PathBuf> = (0..disks).map(|n| directory.path().join(format!("d{n}"))).collect();
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        Self { disks, directory }
    }

    pub(crate) fn disk_words(&self) -> Vec<String> {
        self.disks.iter().flat_map(|disk| ["--disk".to_owned(), disk.display().to_string()]).collect()
    }

    /// The words of a verb on these disks.
    pub(crate) fn words(&self, line: &str) -> Vec<String> {
        let mut all = words(line);
        all.splice(1..1, self.disk_words());
        all
    }

    /// Start a verb on these disks.
    #[track_caller]
    pub(crate) fn start(&self, line: &str) -> Job {
        Job::start(&self.words(line))
    }

    /// Record as scan `trial`, with a report.
    #[track_caller]
    pub(crate) fn record(&self, line: &str) -> Job {
        let memory = if line.contains("--memory") { "" } else { "--memory 128MiB --chunk 1MiB" };
        self.start(&format!("record --scan trial --json {memory} {line}"))
    }

    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Done {
        self.start(line).finish()
    }

    /// Wait until nobody writes scan `trial` any more: what a killed recorder's ring still has in the kernel holds the files
    /// a moment longer than the process.
    #[track_caller]
    pub(crate) fn released(&self) {
        let written = |disk: &PathBuf| is_locked(&disk.join("trial/trial.index"));
        wait_for("the kernel to let go", || (!self.disks.iter().any(written)).then_some(()));
    }

    /// The report of `check --verify` on scan `trial`.
    #[track_caller]
    pub(crate) fn check(&self, code: i32) -> Value {
        self.run("check trial --verify --json").expect(code).json()
    }

    /// The bytes of the only stream of scan `trial`.
    #[track_caller]
    pub(crate) fn cat(&self) -> Vec<u8> {
        self.run("cat trial").expect(0).stdout
    }
}

/// The sum of a field over an array of a report.
#[track_caller]
pub(crate) fn sum(array: &Value, field: &str) -> u64 {
    array.as_array().unwrap().iter().map(|entry| number(&entry[field])).sum()
}

/// A number of a report.
#[track_caller]
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// A counter that is left out where it is zero.
pub(crate) fn counter(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// What the kernel dropped at the receiver's sockets.
#[track_caller]
pub(crate) fn drops(report: &Value) -> u64 {
    sum(&report["sources"], "socket_drops")
}

/// All refusals of a stream.
pub(crate) fn refused(stream: &Value) -> u64 {
    stream["rejects"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
}

/// Every chunk that was given is durable.
#[track_caller]
pub(crate) fn all_acknowledged(report: &Value) {
    for stream in report["recording"]["datastreams"].as_array().unwrap() {
        assert_eq!(stream["acknowledged"], stream["submitted"], "{stream}");
        assert_eq!(number(&stream["lost"]), 0, "{stream}");
    }
}

/// Ranges of numbers as a report has them.
pub(crate) fn ranges(value: &Value) -> Vec<(u64, u64)> {
    let pair = |range: &Value| (number(&range[0]), number(&range[1]));
    value.as_array().unwrap().iter().map(pair).collect()
}

/// A VDIF frame of the pattern.
pub(crate) fn vdif(second: i64, frame: u32, thread: u16, payload: usize) -> Vec<u8> {
    let shape = Vdif::shape(payload, 1, 2, false, false).unwrap();
    let vdif = Vdif { thread: u32::from(thread), ..shape.at(second, frame).unwrap() };
    let header = Header { vdif, extended: skyhaul::wire::vdif::Extended::Plain(Default::default()) };
    let (bytes, length) = header.write();
    let mut out = bytes[..length].to_vec();
    out.extend_from_slice(pattern::slice(pattern::frame_object(second, frame, thread), 0, payload));
    out
}

/// A sequence number and a frame.
pub(crate) fn numbered(number: u64, order: Order, frame: &[u8]) -> Vec<u8> {
    let mut out = vtp::write(number, order).to_vec();
    out.extend_from_slice(frame);
    out
}

/// A Mark 5B frame, its payload told by `second` and `frame`.
pub(crate) fn mark5b(day: u32, second: u32, frame: u32, rate: u32) -> Vec<u8> {
    let fraction = frame * 10_000 / rate;
    let header = mark5b::Mark5b::new(mark5b::Time { day, second, frame }, fraction);
    let mut out = header.write().to_vec();
    let object = u64::from(second) << 32 | u64::from(frame);
    out.extend_from_slice(pattern::slice(object, 0, mark5b::PAYLOAD));
    out
}

/// The two datagrams of a frame as a FILA10G sends them.
pub(crate) fn halves(counter: u32, frame: &[u8]) -> [Vec<u8>; 2] {
    let (first, second) = frame.split_at(fila10g::HALF);
    [(counter, first), (counter + 1, second)].map(|(counter, half)| {
        let mut out = fila10g::Fila10g { counter, ..Default::default() }.write().to_vec();
        out.extend_from_slice(half);
        out
    })
}

/// What a run of VDIF frames is: each must be legal, and either the pattern or marked invalid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) good: u64,
    pub(crate) invalid: u64,
    /// Second, frame and thread of each valid one.
    pub(crate) times: Vec<(i64, u32, u16)>,
}

#[track_caller]
pub(crate) fn see(bytes: &[u8], frame_bytes: usize) -> Seen {
    assert_eq!(bytes.len() % frame_bytes, 0, "whole frames");
    let mut seen = Seen::default();
    for (at, frame) in bytes.chunks(frame_bytes).enumerate() {
        let vdif = Header::read(frame).unwrap_or_else(|e| panic!("frame {at}: {e:?}")).vdif;
        assert_eq!(vdif.frame_bytes(), frame_bytes, "frame {at}");
        let payload = &frame[vdif.header_bytes()..];
        if vdif.invalid == 1 {
            assert!(payload.chunks(4).all(|word| word == skyhaul::wire::FILL), "fill of frame {at}");
            seen.invalid += 1;
            continue;
        }
        let time = (vdif.unix_seconds(), vdif.frame, vdif.thread as u16);
        let object = pattern::frame_object(time.0, time.1, time.2);
        assert_eq!(pattern::first_error(object, 0, payload), None, "frame {at}");
        seen.good += 1;
        seen.times.push(time);
    }
    seen
}
