//! The balancer as a program: packets through it to workers that registered by REST, ends, restarts, and bad starts.
//!
//! The control plane or the data plane, which is a process of its own, is stopped for a while (SIGSTOP; a paused guest does the
//! same), dies or is left alone; and its fast path is gone with the process, whatever ends it.

use crate::site::{Done, Job, run, wait_for, words};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skyhaul::core::packetize::Divided;
use skyhaul::core::wire::ejfat::{Addressing, EventPackets, EventShape, Reassembly};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Anywhere that is free.
pub(crate) const FREE: &str = "balance --api 127.0.0.1:0 --data-port 0 --sync-port 0 --threads 2";

pub(crate) struct Place {
    directory: tempfile::TempDir,
}

/// A balancer that runs, with one reservation.
pub(crate) struct Running {
    pub(crate) job: Job,
    pub(crate) api: String,
    pub(crate) token: String,
    pub(crate) data: String,
    /// With the token.
    pub(crate) uri: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn line(&self, more: &str) -> Vec<String> {
        let [token, uri] = ["token", "uri"].map(|name| self.path(name).display().to_string());
        words(&format!("{FREE} --token-file {token} --reserve run --uri-file {uri} --json {more}"))
    }

    #[track_caller]
    pub(crate) fn start(&self, more: &str) -> Running {
        self.listening(Job::start(&self.line(more)))
    }

    #[track_caller]
    fn listening(&self, mut job: Job) -> Running {
        let api = wait_for("the balancer to listen", || {
            let said = job.stderr();
            if let Some((_, api)) = said.lines().find_map(|line| line.split_once("control plane on ")) {
                return Some(api.to_owned());
            }
            assert!(job.is_running(), "it ended: {said}");
            None
        });
        let uri = std::fs::read_to_string(self.path("uri")).unwrap().trim().to_owned();
        let (token, rest) = uri.strip_prefix("ejfat://").unwrap().split_once('@').unwrap();
        let (host, rest) = rest.split_once("/lb/1?data=").unwrap();
        let (data, _) = rest.split_once("&sync=").unwrap();
        assert_eq!(api, format!("http://{host}"));
        Running {
            job,
            api: host.to_owned(),
            token: token.to_owned(),
            data: data.to_owned(),
            uri: uri.clone(),
        }
    }
}

impl Drop for Place {
    /// End what a failed test leaves behind: once it has noticed that its controller is gone.
    fn drop(&mut self) {
        let plane = self.path("state.db.plane-1");
        for _ in 0..100 {
            if !plane.exists() {
                return;
            }
            let left = skyhaul::balance::Balance::attach(&Default::default(), &plane, &[], None);
            drop(left.map(|left| left.stop()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Running {
    /// A call of REST, with a token.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.http(method, path, token, body);
        (status, serde_json::from_str(&text).unwrap())
    }

    #[track_caller]
    pub(crate) fn http(&self, method: &str, path: &str, token: &str, body: &Value) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.api).unwrap();
        let (api, body) = (&self.api, body.to_string());
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// A worker that is ready and has a share.
    #[track_caller]
    pub(crate) fn join(&self) -> Worker {
        let worker = self.join_only();
        self.shared(&[&worker]);
        worker
    }

    /// A worker that has registered.
    #[track_caller]
    fn join_only(&self) -> Worker {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = socket.local_addr().unwrap().port();
        let wanted = json!({"name": "w", "ipAddress": "127.0.0.1", "udpPort": port});
        let (status, said) = self.ask("POST", "/lb/1/sessions", &self.token, &wanted);
        assert_eq!(status, 200, "{said}");
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        Worker { socket, token: text("token"), session: text("sessionId") }
    }

    /// Each of these has a share, and every thread that forwards knows it.
    #[track_caller]
    pub(crate) fn shared(&self, workers: &[&Worker]) {
        wait_for("workers to have slots", || {
            workers.iter().for_each(|worker| worker.ready(self));
            let (_, said) = self.ask("GET", "/lb/1/status", &self.token, &json!({}));
            let slots = |worker: &&Worker| {
                said["workers"].as_array().unwrap().iter().any(|one| {
                    one["sessionId"] == worker.session.as_str() && one["slotsAssigned"].as_u64().unwrap() > 0
                })
            };
            let known = || {
                let (_, text) = self.http("GET", "/metrics", "", &json!({}));
                text.contains("skyhaul_balance_tables_behind{lb=\"1\"} 0\n")
            };
            (workers.iter().all(slots) && known()).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn stop(self) -> Value {
        self.stop_expecting(0)
    }

    /// Interrupt it; the report, if it ends with this status.
    #[track_caller]
    pub(crate) fn stop_expecting(self, code: i32) -> Value {
        self.job.signal(rustix::process::Signal::INT);
        self.job.finish().expect(code).json()
    }
}

pub(crate) struct Worker {
    socket: UdpSocket,
    token: String,
    session: String,
}

impl Worker {
    #[track_caller]
    pub(crate) fn ready(&self, at: &Running) {
        let state = json!({"isReady": true, "fillPercent": 0.1});
        let (status, said) =
            at.ask("POST", &format!("/sessions/{}/state", self.session), &self.token, &state);
        assert_eq!(status, 200, "{said}");
    }

    /// Events that have arrived, with the octets of each.
    pub(crate) fn take(&self, into: &mut BTreeMap<u64, usize>) {
        let mut octets = [0; 2000];
        while let Ok(n) = self.socket.recv(&mut octets) {
            let (head, payload) = Reassembly::read(&octets[..n]).unwrap();
            *into.entry(head.tick).or_default() += payload.len();
        }
    }
}

/// Send events of 2500 octets.
pub(crate) fn send(data: &str, ticks: std::ops::Range<u64>) {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for tick in ticks {
        let shape = EventShape {
            tick,
            data_id: 7,
            event_bytes: 2500,
            packet_bytes: 1000,
            addressing: Some(Addressing::default()),
            ..EventShape::default()
        };
        let packets = EventPackets::new(&shape).unwrap();
        for n in 0..packets.count() {
            sender.send_to(&packets.datagram(n, &[tick as u8; 2500]), data).unwrap();
        }
    }
}

/// Wait until a worker has these events, whole.
#[track_caller]
pub(crate) fn whole(worker: &Worker, ticks: std::ops::Range<u64>) {
    let mut came = BTreeMap::new();
    wait_for("events to arrive", || {
        worker.take(&mut came);
        (came.values().sum::<usize>() as u64 >= 2500 * (ticks.end - ticks.start)).then_some(())
    });
    assert!(ticks.clone().all(|tick| came.get(&tick) == Some(&2500)), "{came:?}");
}

#[test]
fn packets_reach_a_worker_and_every_one_is_in_the_report() {
    let place = Place::new();
    let running = place.start("--report");
    let operator = std::fs::read_to_string(place.path("token")).unwrap();
    for name in ["token", "uri"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(place.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!running.job.stderr().contains(operator.trim()), "the token is nobody's to read");
    let worker = running.join();
    send(&running.data, 0..20);
    whole(&worker, 0..20);
    let (status, _) = running.ask("GET", "/lb/1/status", "wrong", &json!({}));
    assert_eq!(status, 401);
    let report = running.stop();
    let one = &report["reservations"][0];
    assert_eq!(
        (&one["name"], &one["packets"], &one["forwarded"]),
        (&json!("run"), &json!(60), &json!(60)),
        "{report}"
    );
    assert_eq!((&one["workers"][0]["packets"], &one["refused"]), (&json!(60), &json!({})));
    assert_eq!(report["calls_refused"], json!({"unauthenticated": 1}));
}

/// Kill it, and start it again with `state`: workers and the URI are as they were.
#[track_caller]
fn resume(place: &Place, running: Running, state: &str, worker: &Worker, gone: &Worker) -> Running {
    running.job.signal(rustix::process::Signal::KILL);
    assert_eq!(running.job.finish().code, None);
    // Those that forward by themselves do.
    if !state.contains("--in-process") {
        send(&running.data, 5..10);
        whole(worker, 5..10);
    }
    let next = place.start(state);
    assert_eq!(next.token, running.token, "the reservation and its URI are as they were");
    let reported = |worker: &Worker| {
        let path = format!("/sessions/{}/state", worker.session);
        next.ask("POST", &path, &worker.token, &json!({"isReady": true})).0
    };
    assert_eq!((reported(worker), reported(gone)), (200, 401));
    next.shared(&[worker]);
    next
}

#[test]
fn killed_and_started_again_it_has_lost_nothing() {
    for how in ["", "--in-process"] {
        let place = Place::new();
        let state = format!("--state {} {how}", place.path("state.db").display());
        let running = place.start(&state);
        let worker = running.join();
        send(&running.data, 0..5);
        whole(&worker, 0..5);
        let gone = running.join_only();
        let path = format!("/sessions/{}", gone.session);
        assert_eq!(running.ask("DELETE", &path, &gone.token, &json!({})).0, 200);
        let next = resume(&place, running, &state, &worker, &gone);
        send(&next.data, 10..15);
        whole(&worker, 10..15);
        let report = next.stop();
        let packets = if how.is_empty() { 45 } else { 15 };
        assert_eq!(report["reservations"][0]["forwarded"], packets, "{report}");
        assert!(!place.path("state.db.plane-1").exists(), "Ctrl-C ends all of it");
    }
}

#[test]
fn what_cannot_start_says_why() {
    let place = Place::new();
    let refused = |more: &str, told: &str| {
        let Done { code, stderr, .. } = Job::start(&place.line(more)).finish();
        assert_eq!(code, Some(2), "{more}: {stderr}");
        assert!(stderr.contains(told) && !stderr.contains("panicked"), "{more}: {stderr}");
    };
    let file = |name: &str, text: &str| {
        std::fs::write(place.path(name), text).unwrap();
        place.path(name).display().to_string()
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = udp.local_addr().unwrap().port();
    let none = place.path("none/state.db").display().to_string();
    let swapped = |line: &str, from: &str, to: String| line.replacen(from, &to, 1);
    let line = place.line("").join(" ");
    for (line, told) in [
        (swapped(&line, "--api 127.0.0.1:0", format!("--api {}", taken.local_addr().unwrap())), "listen on"),
        (swapped(&line, "--data-port 0", format!("--data-port {port}")), "bind"),
    ] {
        let done = run(&line);
        assert!(done.code == Some(2) && done.stderr.contains(told), "{line}: {}", done.stderr);
    }
    let token = |name: &str, text: &str| {
        let path = file(name, text);
        let done = run(&format!("{FREE} --token-file {path}"));
        assert!(done.code == Some(2) && done.stderr.contains("holds no token"), "{text}: {}", done.stderr);
        assert!(done.stderr.contains("hint: "), "{}", done.stderr);
    };
    token("empty", "");
    token("short", "too-short");
    token("spaces", "one two three four five");
    token("lines", "0123456789abcdef\n0123456789abcdef\n");
    let directory = run(&format!("{FREE} --token-file {}", place.directory.path().display()));
    assert_eq!(directory.code, Some(2));
    refused("--listen 0.0.0.0", "hint: give each address");
    refused(&format!("--state {none}"), "hint: check that this user may write");
    refused(&format!("--state {}", file("other.db", "no database at all")), "not a database");
    let nonsense = file("nonsense.pem", "nonsense");
    refused(&format!("--tls-cert {nonsense} --tls-key {nonsense}"), "is not a valid certificate");
    refused(&format!("--tls-cert {nonsense}"), "--tls-key");
    refused("--duration 0s", "greater than zero");
    refused("--instances 0", "from 1 to 64");
    assert!(!Path::new(&none).exists());
}

#[test]
fn a_state_that_is_in_use_is_not_taken() {
    let place = Place::new();
    let state = format!("--state {}", place.path("state.db").display());
    let running = place.start(&state);
    let second = Job::start(&place.line(&state)).finish();
    assert!(
        second.code == Some(2) && second.stderr.contains("stop the balancer that uses it"),
        "{}",
        second.stderr
    );
    let worker = running.join();
    send(&running.data, 0..1);
    whole(&worker, 0..1);
    running.stop();
}

#[test]
fn it_ends_when_its_time_is_over() {
    let place = Place::new();
    let begun = std::time::Instant::now();
    let done = Job::start(&place.line("--duration 300ms")).finish().expect(0);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(done.json()["reservations"][0]["packets"], 0);
    // As text, the report is a result too: notes and progress are beside it.
    let token = place.path("other").display().to_string();
    let done = run(&format!("{FREE} --token-file {token} --duration 100ms")).expect(0);
    assert!(done.told().starts_with("balanced 0 packets, 0 forwarded"), "{}", done.told());
    let notes = &done.stderr;
    assert!(notes.contains("balancing on") && !notes.contains("balanced"), "{notes}");
}

/// Processes that forward and were started by this one.
fn planes(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let all: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    let forwards = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("data-plane")
    };
    all.into_iter().filter(forwards).collect()
}

/// Send an event each 20 ms for this time; which is next.
fn stream(at: &str, mut tick: u64, time: Duration, worker: &Worker, came: &mut BTreeMap<u64, usize>) -> u64 {
    let begun = Instant::now();
    while begun.elapsed() < time {
        send(at, tick..tick + 1);
        tick += 1;
        std::thread::sleep(Duration::from_millis(20));
        worker.take(came);
    }
    tick
}

/// Every event came whole, once, and is counted once; nothing was started again.
#[track_caller]
fn all_of(running: Running, sent: u64, worker: &Worker, mut came: BTreeMap<u64, usize>) {
    wait_for("all events", || {
        worker.take(&mut came);
        (came.len() as u64 == sent && came.values().all(|bytes| *bytes >= 2500)).then_some(())
    });
    assert!(came.values().all(|bytes| *bytes == 2500), "nothing comes twice: {came:?}");
    wait_for("all packets to be counted", || {
        let (_, text) = running.http("GET", "/metrics", "", &json!({}));
        text.contains(&format!("skyhaul_balance_packets_forwarded_total{{lb=\"1\"}} {}\n", 3 * sent))
            .then_some(())
    });
    let report = running.stop();
    let one = &report["reservations"][0];
    assert_eq!((&one["packets"], &one["forwarded"]), (&json!(3 * sent), &json!(3 * sent)), "{report}");
    assert_eq!((&one["plane_restarts"], &one["plane_away_seconds"]), (&json!(0), &json!(0.0)), "{report}");
    assert_eq!(one["refused"], json!({}), "{report}");
}

#[test]
fn a_control_plane_that_is_stopped_loses_and_doubles_nothing() {
    let place = Place::new();
    let running = place.start(&format!("--state {}", place.path("state.db").display()));
    let worker = running.join();
    let (forwards, mut came) = (plane_of(running.job.pid()), BTreeMap::new());
    let sent = stream(&running.data, 0, Duration::from_secs(1), &worker, &mut came);
    running.job.signal(Signal::STOP);
    // Longer than its socket has room for what it is told.
    let sent = stream(&running.data, sent, Duration::from_secs(16), &worker, &mut came);
    running.job.signal(Signal::CONT);
    let sent = stream(&running.data, sent, Duration::from_secs(2), &worker, &mut came);
    assert_eq!(planes(running.job.pid()), [forwards.as_raw_pid() as u32], "one forwards, the same as before");
    let (_, status) = running.ask("GET", "/lb/1/status", &running.token, &json!({}));
    assert_eq!(status["workers"][0]["slotsAssigned"], 512, "{status}");
    all_of(running, sent, &worker, came);
}

#[test]
fn a_data_plane_that_is_stopped_is_not_replaced_and_goes_on() {
    let place = Place::new();
    let running = place.start(&format!("--state {}", place.path("state.db").display()));
    let worker = running.join();
    let (forwards, mut came) = (plane_of(running.job.pid()), BTreeMap::new());
    let sent = stream(&running.data, 0, Duration::from_secs(1), &worker, &mut came);
    kill_process(forwards, Signal::STOP).unwrap();
    // What it is told does not reach it: the connection breaks in the middle of a table.
    let (begun, mut add) = (Instant::now(), true);
    while begun.elapsed() < Duration::from_secs(8) {
        // Networks that do not touch: a table with all of them is large.
        let networks: Vec<String> = (0..1000).map(|n| format!("10.{}.{}.1", n / 250, n % 250)).collect();
        let senders = json!({ "senderAddresses": networks });
        let method = if add { "POST" } else { "DELETE" };
        add = !add;
        assert_eq!(running.ask(method, "/lb/1/senders", &running.token, &senders).0, 200);
        std::thread::sleep(Duration::from_millis(100));
        worker.ready(&running);
    }
    assert_eq!(planes(running.job.pid()), [forwards.as_raw_pid() as u32], "it lives");
    send(&running.data, sent..sent + 10);
    kill_process(forwards, Signal::CONT).unwrap();
    wait_for("control to be there again", || {
        worker.ready(&running);
        let (_, text) = running.http("GET", "/metrics", "", &json!({}));
        text.contains("skyhaul_balance_tables_behind{lb=\"1\"} 0\n").then_some(())
    });
    let sent = stream(&running.data, sent + 10, Duration::from_secs(1), &worker, &mut came);
    assert_eq!(planes(running.job.pid()), [forwards.as_raw_pid() as u32]);
    all_of(running, sent, &worker, came);
}

/// Ctrl-C while processes that forward are stopped, one for a moment and one for long, so that its connection is broken: both
/// are killed, within the time of one, and the report says so. What they counted last is missing, so that is no success.
#[test]
fn data_planes_that_are_stopped_do_not_hold_up_ctrl_c() {
    let place = Place::new();
    let running = place.start(&format!("--state {} --instances 2", place.path("state.db").display()));
    let operator = std::fs::read_to_string(place.path("token")).unwrap();
    let (code, other) = running.ask("POST", "/lb", operator.trim(), &json!({ "name": "second" }));
    assert_eq!(code, 200, "{other}");
    let forward = planes(running.job.pid());
    assert_eq!(forward.len(), 2, "{forward:?}");
    forward.iter().for_each(|&pid| kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::STOP).unwrap());
    let mut add = true;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        let networks: Vec<String> = (0..1000).map(|n| format!("10.{}.{}.1", n / 250, n % 250)).collect();
        let method = if add { "POST" } else { "DELETE" };
        add = !add;
        let senders = json!({ "senderAddresses": networks });
        assert_eq!(running.ask(method, "/lb/1/senders", &running.token, &senders).0, 200);
        std::thread::sleep(Duration::from_millis(100));
    }
    let begun = Instant::now();
    let report = running.stop_expecting(1);
    let took = begun.elapsed();
    for one in report["reservations"].as_array().unwrap() {
        let notes = one["notes"].to_string();
        assert!(
            notes.contains("did not end within 5 s")
                && notes.contains("was killed")
                && notes.contains("the counters may be incomplete"),
            "{took:?} {report}"
        );
        assert_eq!(one["counters_incomplete"], true, "{report}");
    }
    for pid in forward {
        let is_left = std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists();
        assert!(!is_left, "process {pid} is left behind");
    }
}

/// Another operator's token: what the former one gave out ends, and is kept only if that is asked for.
#[test]
fn a_new_operators_token_revokes_what_the_former_one_gave_out() {
    let place = Place::new();
    let state = format!("--state {}", place.path("state.db").display());
    let replace = |token: &str| std::fs::write(place.path("token"), token).unwrap();
    let look = |at: &Running, token: &str| at.ask("GET", "/lb/1/status", token, &json!({})).0;
    let running = place.start(&state);
    let (first, operator) = (running.token.clone(), std::fs::read_to_string(place.path("token")).unwrap());
    assert_eq!(look(&running, &first), 200);
    running.stop();
    replace("another-operators-token");
    let running = place.start(&format!("{state} --keep-tokens"));
    assert_eq!((look(&running, &first), look(&running, operator.trim())), (200, 401));
    running.stop();
    replace("a-third-operators-token");
    let running = place.start(&state);
    assert_eq!(look(&running, &first), 401);
    assert_eq!((look(&running, &running.token), look(&running, "a-third-operators-token")), (200, 200));
    let said = running.job.stderr();
    assert!(said.contains("tokens derived from the previous one are revoked"), "{said}");
    running.stop();
}

/// The service has as many descriptors as it may, so that connections do not take those that it needs.
#[test]
fn it_may_open_as_many_files_as_the_system_allows() {
    let place = Place::new();
    // As most systems start programs.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 1024; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_skyhaul")]);
    command.args(place.line(&format!("--state {}", place.path("state.db").display())));
    let running = place.listening(Job::of(command));
    let forwards = plane_of(running.job.pid());
    for pid in [Pid::from_raw(running.job.pid() as i32).unwrap(), forwards] {
        let text = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[3], words[4], "{line}");
    }
    running.stop();
}

/// The process that forwards for load balancer 1: a child of the balancer.
#[track_caller]
fn plane(of: &Job) -> rustix::process::Pid {
    plane_of(of.pid())
}

/// The same, of the balancer with this process id.
#[track_caller]
pub(crate) fn plane_of(parent: u32) -> rustix::process::Pid {
    wait_for("the data plane", || {
        let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        // A process starts on any thread.
        let all = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
        let others = all.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let mut all = std::iter::once(text).chain(others);
        let pid = all.find_map(|text| text.split_whitespace().next()?.parse().ok())?;
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        line.contains("data-plane").then(|| rustix::process::Pid::from_raw(pid))?
    })
}

/// Whether the process has this file open.
fn has(pid: u32, path: &Path) -> bool {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    all.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|open| open == path)
}

#[test]
fn a_data_plane_that_is_killed_under_traffic_is_started_again_and_said() {
    let place = Place::new();
    // Left open to all programs that are started here.
    let left = std::fs::File::create(place.path("left")).unwrap();
    rustix::io::fcntl_setfd(&left, rustix::io::FdFlags::empty()).unwrap();
    let running = place.start(&format!("--state {}", place.path("state.db").display()));
    let worker = running.join();
    let first = plane(&running.job);
    assert!(
        has(running.job.pid(), &place.path("left")) && !has(first.as_raw_pid() as u32, &place.path("left"))
    );
    send(&running.data, 0..20);
    whole(&worker, 0..20);
    let told = wait_for("the packets to be counted", || {
        let (_, text) = running.http("GET", "/metrics", "", &json!({}));
        text.contains("skyhaul_balance_packets_forwarded_total{lb=\"1\"} 60\n").then_some(text)
    });
    assert!(told.contains("skyhaul_balance_plane_restarts_total{lb=\"1\"} 0\n"), "{told}");
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    // Packets are sent all the time; those that came through nobody are lost.
    let (mut sent, mut came) = (20, BTreeMap::new());
    wait_for("packets to go on", || {
        send(&running.data, sent..sent + 1);
        sent += 1;
        worker.ready(&running);
        worker.take(&mut came);
        came.values().any(|octets| *octets == 2500).then_some(())
    });
    assert_ne!(plane(&running.job), first);
    send(&running.data, sent..sent + 20);
    wait_for("all of the next ones", || {
        worker.take(&mut came);
        (sent..sent + 20).all(|tick| came.get(&tick) == Some(&2500)).then_some(())
    });
    assert!(came.values().all(|octets| *octets <= 2500), "nothing came twice: {came:?}");
    let arrived =
        60 + came.values().map(|octets| (octets / 1000 + usize::from(octets % 1000 > 0)) as u64).sum::<u64>();
    wait_for("it to be told", || {
        let (_, text) = running.http("GET", "/metrics", "", &json!({}));
        let has = |line: String| text.contains(&line).then_some(());
        has("skyhaul_balance_plane_restarts_total{lb=\"1\"} 1\n".to_owned())?;
        has(format!("skyhaul_balance_packets_forwarded_total{{lb=\"1\"}} {arrived}\n"))
    });
    let (_, status) = running.ask("GET", "/lb/1/status", &running.token, &json!({}));
    let issue = status["healthIssues"][0]["message"].as_str().unwrap_or_default();
    assert!(issue.contains("was started again"), "{status}");
    wait_for("a note", || running.job.stderr().contains("was started again").then_some(()));
    let report = running.stop();
    let one = &report["reservations"][0];
    assert_eq!((&one["plane_restarts"], &one["forwarded"]), (&json!(1), &json!(arrived)), "{report}");
    assert!(one["plane_away_seconds"].as_f64().unwrap() > 0.0 && arrived <= 3 * (sent + 20), "{report}");
    assert!(!place.path("state.db.plane-1").exists(), "Ctrl-C ends the new one");
}

#[test]
fn a_plane_of_nobody_ends() {
    let place = Place::new();
    let state = format!("--state {}", place.path("state.db").display());
    let running = place.start(&state);
    running.job.signal(rustix::process::Signal::KILL);
    running.job.finish();
    assert!(place.path("state.db.plane-1").exists());
    // The state is lost, and so is the reservation.
    for end in ["", "-wal"] {
        let _ = std::fs::remove_file(place.path(&format!("state.db{end}")));
    }
    let next = Job::start(&words(&format!(
        "{FREE} --token-file {} {state} --json --duration 100ms",
        place.path("token").display()
    )));
    assert_eq!(next.finish().expect(0).json()["reservations"], json!([]));
    assert!(!place.path("state.db.plane-1").exists());
}

/// A network without interfaces but its own loopback; it is removed when this is dropped.
pub(crate) struct Network(String);

impl Network {
    /// None, with a visible reason, where it is not allowed.
    pub(crate) fn new(tag: &str) -> Option<Self> {
        let network = Self(format!("sky{tag}{}", std::process::id()));
        let made = ip(&format!("netns add {}", network.0));
        if made.is_none() {
            eprintln!("SKIPPED: no network namespaces here (ip netns add; run as root)");
        }
        made.map(|_| network)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

pub(crate) fn ip(words: &str) -> Option<String> {
    let output = Command::new("ip").args(words.split_whitespace()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A network with a link; `None`, with a visible reason, where it is not allowed.
fn network(tag: &str) -> Option<Network> {
    let network = Network::new(tag)?;
    let name = network.name();
    for step in [
        format!("-n {name} link add b0 type veth peer name b1"),
        format!("-n {name} addr add 10.80.0.1/24 dev b0"),
        format!("-n {name} link set b0 up"),
        format!("-n {name} link set b1 up"),
        format!("-n {name} link set lo up"),
    ] {
        if ip(&step).is_none() {
            eprintln!("SKIPPED: no network namespaces here (ip {step}; run as root)");
            return None;
        }
    }
    Some(network)
}

/// A data plane in the network; `None`, with a visible reason, if it cannot have a program.
fn fast_plane(name: &str, socket: &Path, has_program: &dyn Fn() -> bool) -> Option<Child> {
    let mut plane = Command::new("ip")
        .args(["netns", "exec", name, env!("CARGO_BIN_EXE_skyhaul"), "data-plane", "--socket"])
        .arg(socket)
        .args(["--listen", "10.80.0.1:19522", "--threads", "1", "--fast-path", "xdp"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // It listens when it has its program.
    while !(has_program() && UnixStream::connect(socket).is_ok()) {
        if plane.try_wait().unwrap().is_some() {
            let said = plane.wait_with_output().unwrap().stderr;
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(said.contains("hint: "), "{said}");
            eprintln!("SKIPPED: {said}");
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never attached");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(plane)
}

fn end(mut plane: Child, signal: Signal) {
    // `ip netns exec` becomes the program.
    rustix::process::kill_process(Pid::from_child(&plane), signal).unwrap();
    plane.wait().unwrap();
}

#[test]
fn a_data_plane_that_is_killed_leaves_no_program_and_the_next_has_one() {
    let Some(network) = network("k") else { return };
    let name = &network.0;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("plane");
    let has_program = || ip(&format!("-n {name} link show b0")).unwrap().contains("xdp");
    let Some(first) = fast_plane(name, &socket, &has_program) else { return };
    end(first, Signal::KILL);
    for signal in [Signal::KILL, Signal::TERM] {
        // At once: the kernel takes the program away a moment after its process.
        let next = fast_plane(name, &socket, &has_program).expect("a program was allowed before");
        end(next, signal);
    }
    let ended = Instant::now();
    while has_program() {
        assert!(ended.elapsed() < Duration::from_secs(30), "it is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// With all that a balancer is: it starts the next one itself, and that has a program again.
#[test]
fn a_balancer_whose_data_plane_is_killed_has_a_program_again() {
    let Some(network) = network("b") else { return };
    let (name, directory) = (&network.0, tempfile::tempdir().unwrap());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let line = format!(
        "netns exec {name} {} balance --listen 10.80.0.1 --api 127.0.0.1:18008 --threads 1 --fast-path xdp --json --reserve run \
         --token-file {} --uri-file {} --state {}",
        env!("CARGO_BIN_EXE_skyhaul"),
        file("token"),
        file("uri"),
        file("state.db"),
    );
    let mut balance = Command::new("ip")
        .args(line.split_whitespace())
        .env("SKYHAUL_CONFIG", "/dev/null")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(file("said")).unwrap())
        .spawn()
        .unwrap();
    let has_program = || ip(&format!("-n {name} link show b0")).unwrap().contains("xdp");
    let said = || std::fs::read_to_string(file("said")).unwrap();
    let begun = Instant::now();
    while !(has_program() && said().contains("balancing on")) {
        if balance.try_wait().unwrap().is_some() {
            let said = said();
            assert!(said.contains("hint: "), "{said}");
            eprintln!("SKIPPED: {said}");
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never attached");
        std::thread::sleep(Duration::from_millis(10));
    }
    let first = plane_of(balance.id());
    rustix::process::kill_process(first, Signal::KILL).unwrap();
    wait_for("another", || said().contains("was started again").then_some(()));
    assert_ne!(plane_of(balance.id()), first);
    wait_for("its program", || has_program().then_some(()));
    rustix::process::kill_process(Pid::from_child(&balance), Signal::INT).unwrap();
    let output = balance.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = &report["reservations"][0];
    assert_eq!(one["plane_restarts"], 1, "{report}");
    assert!(one["mode"].as_str().unwrap().contains("XDP in the driver of b0"), "{report}");
    wait_for("the program to be gone", || (!has_program()).then_some(()));
}
