//! One run of a receiver and a sender, each a program of its own.
//!
//! ```text
//!   start receiver ─▶ it listens, and rests ─▶ start sender ─ every 5 ms: CPU time of all threads, drops ─▶ sender ends,
//!   the socket is empty or closed ─▶ Ctrl-C to the receiver ─▶ what both wrote
//! ```
//!
//! Only what is read while the receiver's socket is open counts, so that neither start nor end of a program does; up to one
//! interval of 5 ms is missing. Both programs are killed when this returns, whatever happens.

use super::super::options::{BenchResult, BenchRun, wrong};
use super::options::PeerOptions;
use super::rows::{self, Commands, Row, Work};
use super::tools::Tools;
use serde_json::Value;
use skyhaul_core::hint::Hint;
use skyhaul_io::host::limit::Limit;
use skyhaul_io::host::program::{Place, Program};
use skyhaul_io::host::sockets::{UdpPort, tcp_listens};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval at which CPU time is read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);
/// A program that used less CPU time than this in an interval had nothing to do.
const IDLE_CPU: Duration = Duration::from_micros(100);
/// A receiver that had nothing to do for this long has started, or has ended its work.
const REST_TIME: Duration = Duration::from_millis(100);
/// A receiver that never rests looks for packets all the time; it is measured as it is.
const REST_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for a receiver to write its report after Ctrl-C.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// What one run showed.
#[derive(Debug, Default)]
struct Seen {
    receive_cpu: Duration,
    send_cpu: Duration,
    /// From the first packet to the last, roughly.
    seconds: f64,
    /// Datagrams, or trains, that the kernel dropped at the receiver's socket.
    drops: u64,
    received: String,
    sent: String,
    /// How the receiver ended, if by itself.
    ended: Option<String>,
}

/// One run of a candidate.
pub(super) fn run(
    options: &PeerOptions,
    tools: &Tools,
    row: &Row,
    candidate: &str,
) -> io::Result<BenchResult> {
    let tcp = matches!(row.work, Work::Tcp);
    let at = free_port(options, tcp)?;
    let token = Token::new(at);
    let commands = rows::commands(options, tools, row, candidate, at, &token.0)?;
    let how = format!("{} | {}", line(&commands.sender), line(&commands.receiver));
    let how = how.replace(&at.to_string(), "ADDRESS:PORT").replace(&at.port().to_string(), "PORT");
    let seen = watch(options, commands, tcp)?;
    let run = if tcp { of_flow(&seen)? } else { of_objects(options, row, candidate, &seen)? };
    if run.receive_cpu == 0.0 {
        let hint = Hint("give the program itself, not a script that starts it");
        return Err(io::Error::other(format!("the receiver used no CPU time{hint}")));
    }
    Ok(BenchResult { run, how })
}

/// Figures of heaps or events.
fn of_objects(options: &PeerOptions, row: &Row, candidate: &str, seen: &Seen) -> io::Result<BenchRun> {
    let (count, bytes, packets) = row.objects(options.time.as_secs_f64());
    let complete = match (candidate, row.work) {
        ("skyhaul", _) => reported_objects(&seen.received),
        (_, Work::Heaps { .. }) => counted_heaps(&seen.received),
        // It counts nothing that could be read.
        _ => Some(count),
    };
    let complete = match complete {
        Some(complete) => complete,
        // The end of the stream was lost, and it reports nothing when it is interrupted.
        None if seen.drops > 0 && seen.ended.is_none() => count,
        None => return Err(garbage(&seen.received, &seen.ended, "count of heaps or events")),
    };
    let incomplete = count.saturating_sub(complete);
    let bytes = count * bytes;
    let per_gb = |cpu: Duration| cpu.as_secs_f64() * 1e9 / bytes as f64;
    Ok(BenchRun {
        bits_per_second: bytes as f64 * 8.0 / seen.seconds.max(1e-3),
        packets_per_second: (count * packets) as f64 / seen.seconds.max(1e-3),
        // Of an incomplete object, at least one packet is lost; the kernel counts a train as one datagram.
        lost: seen.drops.max(incomplete),
        sent: count * packets,
        receive_cpu: per_gb(seen.receive_cpu),
        send_cpu: per_gb(seen.send_cpu),
        process_cpu: per_gb(seen.receive_cpu + seen.send_cpu),
    })
}

/// Figures of a TCP flow, as its sender reports them.
fn of_flow(seen: &Seen) -> io::Result<BenchRun> {
    let (bytes, bits_per_second) =
        flow(&seen.sent).ok_or_else(|| garbage(&seen.sent, &seen.ended, "figures of a flow"))?;
    let per_gb = |cpu: Duration| cpu.as_secs_f64() * 1e9 / bytes;
    Ok(BenchRun {
        bits_per_second,
        receive_cpu: per_gb(seen.receive_cpu),
        send_cpu: per_gb(seen.send_cpu),
        process_cpu: per_gb(seen.receive_cpu + seen.send_cpu),
        ..BenchRun::default()
    })
}

/// The count in `Received 12 heaps`.
fn counted_heaps(text: &str) -> Option<u64> {
    let line = text.lines().rev().find_map(|line| line.trim().strip_prefix("Received "))?;
    line.strip_suffix(" heaps")?.parse().ok()
}

/// Complete objects in the report of `skyhaul receive --json`.
fn reported_objects(text: &str) -> Option<u64> {
    let report: Value = serde_json::from_str(text).ok()?;
    let objects = report.get("objects")?.as_object()?;
    Some(objects.values().filter_map(|counts| counts.get("complete")?.as_u64()).sum())
}

/// Bytes and bits per second of a flow, from `iperf3 -J` or `skyhaul probe --json`.
fn flow(text: &str) -> Option<(f64, f64)> {
    let report: Value = serde_json::from_str(text).ok()?;
    let of = report.pointer("/end/sum_received").or_else(|| report.pointer("/points/0/here"))?;
    let number = |name: &str| of.get(name)?.as_f64().filter(|number| *number > 0.0);
    Some((number("bytes")?, number("bits_per_second")?))
}

fn garbage(text: &str, ended: &Option<String>, wanted: &str) -> io::Error {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let last: String = last.chars().take(200).collect();
    let ended = ended.as_ref().map(|how| format!(" ({how})")).unwrap_or_default();
    io::Error::other(format!("no {wanted} in what it wrote{ended}; last line: {last}"))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A path for the token of a probe; the file goes with it.
struct Token(PathBuf);

impl Token {
    fn new(at: SocketAddr) -> Self {
        let name = format!("skyhaul-bench-{}-{}", std::process::id(), at.port());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn free_port(options: &PeerOptions, tcp: bool) -> io::Result<SocketAddr> {
    let at = SocketAddr::new(options.address, 0);
    let bound = if tcp {
        TcpListener::bind(at).and_then(|socket| socket.local_addr())
    } else {
        UdpSocket::bind(at).and_then(|socket| socket.local_addr())
    };
    bound.map_err(|error| {
        wrong(format_args!("cannot listen on {}: {error}{}", at.ip(), Hint("give an --address of this host")))
    })
}

/// Two programs while they run.
struct Pair<'a> {
    options: &'a PeerOptions,
    receiver: Program,
    at: SocketAddr,
    tcp: bool,
    deadline: Instant,
}

/// Run both to their end.
fn watch(options: &PeerOptions, commands: Commands, tcp: bool) -> io::Result<Seen> {
    let start =
        |command, cpu| Program::start(command, &Place { cpu: Some(cpu), network: None }, Limit::none());
    let (name, sender_name) = (line(&commands.receiver), line(&commands.sender));
    let receiver = start(commands.receiver, options.cpus.1)?;
    let deadline = Instant::now() + options.time + options.timeout;
    let mut pair = Pair { options, receiver, at: commands.at, tcp, deadline };
    pair.wait_until_open(&name)?;
    let rests = pair.rest()?;
    let idle = pair.receiver.cpu_time().unwrap_or_default();
    let mut sender = start(commands.sender, options.cpus.0)?;
    let mut meter = Meter::new(idle);
    let how = loop {
        pair.check(&sender_name)?;
        meter.sample(&pair, Some(&sender));
        if let Some(how) = sender.ended()? {
            break how;
        }
        std::thread::sleep(SAMPLE_INTERVAL);
    };
    let mut seen = Seen::default();
    let sent = sender.finish(FINISH_TIMEOUT)?;
    seen.sent = String::from_utf8_lossy(&sent.stdout).into_owned();
    if !sent.status.is_some_and(|status| status.success()) {
        // Some write their reason to standard output.
        let last = seen.sent.lines().rev().find(|line| line.contains("error")).unwrap_or_default().trim();
        return Err(io::Error::other(format!("the sender ended with {how} {last}").trim_end().to_owned()));
    }
    while !pair.tcp && pair.receiver.ended()?.is_none() && !pair.is_done(&meter, rests) {
        pair.check(&name)?;
        meter.sample(&pair, None);
        std::thread::sleep(SAMPLE_INTERVAL);
    }
    seen.ended = pair.receiver.ended()?;
    let received = pair.receiver.finish(FINISH_TIMEOUT)?;
    seen.received = String::from_utf8_lossy(&received.stdout).into_owned();
    seen.receive_cpu = meter.receive_cpu.saturating_sub(idle);
    seen.send_cpu = meter.send_cpu;
    seen.drops = meter.drops;
    seen.seconds = meter.first.map_or(0.0, |first| (meter.last - first).as_secs_f64());
    Ok(seen)
}

impl Pair<'_> {
    fn check(&self, name: &str) -> io::Result<()> {
        if self.options.stop.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() > self.deadline {
            return Err(io::Error::other(format!("did not end in time: {name}")));
        }
        Ok(())
    }

    /// What is queued and was dropped at the receiver's socket; `None`: it is not open.
    fn port(&self) -> Option<UdpPort> {
        let (pid, port) = (self.receiver.id(), self.at.port());
        if self.tcp { tcp_listens(pid, port).then(UdpPort::default) } else { UdpPort::of(pid, port) }
    }

    fn wait_until_open(&mut self, name: &str) -> io::Result<()> {
        while self.port().is_none() {
            if let Some(how) = self.receiver.ended()? {
                return Err(io::Error::other(format!("the receiver ended before it listened: {how}")));
            }
            if Instant::now() > self.deadline {
                return Err(io::Error::other(format!("does not listen on its port: {name}")));
            }
            self.check(name)?;
            std::thread::sleep(SAMPLE_INTERVAL);
        }
        Ok(())
    }

    /// Whether the receiver has taken what was sent.
    fn is_done(&self, meter: &Meter, rests: bool) -> bool {
        // One that has closed its socket is about to end and to write its report.
        let is_empty = self.port().is_some_and(|port| port.waiting == 0);
        is_empty && (!rests || meter.last.elapsed() >= REST_TIME)
    }

    /// Wait until the receiver has touched its memory; returns whether it rests then.
    fn rest(&self) -> io::Result<bool> {
        let begun = Instant::now();
        let mut meter = Meter::new(Duration::ZERO);
        while meter.last.elapsed() < REST_TIME {
            if begun.elapsed() > REST_TIMEOUT {
                return Ok(false);
            }
            if self.options.stop.is_set() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            meter.sample(self, None);
            std::thread::sleep(SAMPLE_INTERVAL);
        }
        Ok(true)
    }
}

/// CPU times as they grow.
struct Meter {
    receive_cpu: Duration,
    send_cpu: Duration,
    drops: u64,
    first: Option<Instant>,
    /// When the receiver last had something to do.
    last: Instant,
}

impl Meter {
    fn new(idle: Duration) -> Self {
        Self { receive_cpu: idle, send_cpu: Duration::ZERO, drops: 0, first: None, last: Instant::now() }
    }

    fn sample(&mut self, pair: &Pair<'_>, sender: Option<&Program>) {
        let (now, cpu) = (Instant::now(), pair.receiver.cpu_time());
        if let Some(cpu) = sender.and_then(|sender| sender.cpu_time().ok()) {
            self.send_cpu = self.send_cpu.max(cpu);
        }
        // Looked at afterwards: the end of a program, which frees its memory, does not count.
        let (Ok(cpu), Some(port)) = (cpu, pair.port()) else { return };
        self.drops = self.drops.max(port.drops);
        if cpu > self.receive_cpu + IDLE_CPU {
            self.first.get_or_insert(now);
            self.last = now;
        }
        self.receive_cpu = self.receive_cpu.max(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    /// A run of two scripts; the socket of the receiver is this test's.
    fn watched(receiver: &str, sender: &str, open: bool) -> Result<Seen, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        if !open {
            drop(socket);
        }
        let commands = Commands { receiver: shell(receiver), sender: shell(sender), at };
        watch(&options(&[]), commands, false).map_err(|error| error.to_string())
    }

    #[test]
    fn programs_that_fail_or_never_end_are_told_by_their_last_line_and_do_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let deaf = format!("trap '' INT TERM; echo $$ > {}; while :; do sleep 0.05; done", pid.display());
        for (receiver, sender, open, told) in [
            (
                "echo usage; echo no such option >&2; exit 2",
                "exit 0",
                false,
                "before it listened: exit status: 2: no such option",
            ),
            ("sleep 600", "exit 0", false, "does not listen on its port: sh -c sleep 600"),
            (
                "sleep 600",
                "echo begun >&2; echo no route >&2; exit 3",
                true,
                "the sender ended with exit status: 3: no route",
            ),
            (
                "sleep 600",
                "echo '  \"error\": \"refused\"'; exit 1",
                true,
                "no output \"error\": \"refused\"",
            ),
            ("sleep 600", deaf.as_str(), true, "did not end in time: sh -c trap"),
        ] {
            let said = watched(receiver, sender, open).unwrap_err();
            assert!(said.contains(told), "{sender}: {said}");
        }
        let pid = std::fs::read_to_string(pid).unwrap();
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "it was killed");
    }

    #[test]
    fn cpu_time_and_output_are_those_of_the_programs() {
        // The receiver has something to do for a while after the sender has begun.
        let seen = watched(
            "sleep 0.5; n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; echo Received 3 heaps",
            "echo sent; sleep 1",
            true,
        );
        let seen = seen.unwrap();
        assert!(seen.receive_cpu > Duration::ZERO && seen.seconds > 0.0, "{seen:?}");
        assert_eq!((counted_heaps(&seen.received), &*seen.sent), (Some(3), "sent\n"));
    }

    #[test]
    fn reports_are_read_and_garbage_is_shown() {
        assert_eq!(counted_heaps("heap 1\nReceived 12 heaps\n"), Some(12));
        assert_eq!(counted_heaps("Received many heaps"), None);
        let own = r#"{"objects": {"heaps": {"complete": 7, "incomplete": 1}, "events": {"complete": 2}}}"#;
        assert_eq!((reported_objects(own), reported_objects("{}")), (Some(9), None));
        let iperf3 = r#"{"end": {"sum_received": {"bytes": 1000, "bits_per_second": 8e9}}}"#;
        assert_eq!(flow(iperf3), Some((1000.0, 8e9)));
        let probe = r#"{"points": [{"here": {"bytes": 10, "bits_per_second": 80.5}}]}"#;
        assert_eq!(flow(probe), Some((10.0, 80.5)));
        assert_eq!(flow(r#"{"end": {}, "error": "unable to connect"}"#), None);
        assert_eq!(flow(r#"{"end": {"sum_received": {"bytes": 0, "bits_per_second": 0}}}"#), None);
        let row = rows::chosen(&["heaps-64k-8g".into()]).unwrap()[0];
        let options = options(&[]);
        let (count, bytes, packets) = row.objects(options.time.as_secs_f64());
        assert_eq!((count, bytes, packets), (763, 65_536, 8), "50 ms at 8 Gb/s");
        let mut seen =
            Seen { received: "\u{7}xx\nSegmentation fault\n\n".into(), seconds: 0.05, ..Seen::default() };
        let said = of_objects(&options, row, "spead2_recv", &seen).unwrap_err().to_string();
        assert_eq!(said, "no count of heaps or events in what it wrote; last line: Segmentation fault");
        seen.ended = Some("signal: 11".into());
        let said = of_objects(&options, row, "skyhaul", &seen).unwrap_err().to_string();
        assert!(said.starts_with("no count of heaps or events in what it wrote (signal: 11)"), "{said}");
        (seen.drops, seen.ended) = (9, None);
        assert_eq!(of_objects(&options, row, "spead2_recv", &seen).unwrap().lost, 9, "the end was lost");
        seen.drops = 0;
        seen.received = "Received 760 heaps\n".into();
        seen.receive_cpu = Duration::from_millis(5);
        let run = of_objects(&options, row, "spead2_recv", &seen).unwrap();
        assert_eq!((run.lost, run.sent), (3, 763 * 8));
        assert!((run.receive_cpu - 0.1).abs() < 0.01 && (run.bits_per_second - 8e9).abs() < 0.1e9, "{run:?}");
        seen.drops = 40;
        assert_eq!(of_objects(&options, row, "spead2_recv", &seen).unwrap().lost, 40);
    }
}
