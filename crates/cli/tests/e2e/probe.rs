//! Both ends of a measurement as commands on loopback.
//!
//! Causes really made in a lab, and named by what the ends see; a clean path, of which nothing is named. More causes and severities:
//! `tests/interop/bench_diagnosis.py`.

use crate::lab::permitted;
use crate::site::{Done, Job, run, wait_for, words};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// A server, its port and its token.
pub(crate) struct Server {
    pub(crate) job: Job,
    pub(crate) at: String,
    pub(crate) token: PathBuf,
    _directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(more: &str) -> Self {
        Self::start_at("0", None, more)
    }

    /// On this port, with this token and key, or new ones.
    pub(crate) fn start_at(port: &str, known: Option<(&str, &str)>, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("token");
        if let Some((text, key)) = known {
            std::fs::write(&token, text).unwrap();
            std::fs::write(directory.path().join("token.key"), key).unwrap();
        }
        let line = format!(
            "probe serve --listen 127.0.0.1 --port {port} --json --token-file {} {more}",
            token.display()
        );
        let mut job = Job::start(&words(&line));
        let at = wait_for("the server to serve", || {
            let said = job.stderr();
            let found = said.lines().find_map(|line| line.strip_prefix("serving on ")).map(str::to_owned);
            assert!(found.is_some() || job.is_running(), "it ended: {said}");
            found
        });
        Self { job, at, token, _directory: directory }
    }

    fn line(&self, line: &str) -> String {
        format!("probe {} --token-file {} --json {line}", self.at, self.token.display())
    }

    fn probe(&self, line: &str) -> Done {
        run(&self.line(line))
    }

    pub(crate) fn stop(self) -> Value {
        self.job.signal(rustix::process::Signal::INT);
        self.job.finish().expect(0).json()
    }
}

/// Nothing is lost slowly on loopback, unless the machine stands still longer than a buffer lasts.
const SLOW: &str = "--spacing 200us --packets 50 --settle 5s";

#[test]
fn a_sweep_measures_each_point_and_accounts_for_each_packet() {
    let server = Server::start("");
    let report = server.probe(&format!("--sizes 64,1472 {SLOW} --both")).expect(0).json();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for (point, size) in points.iter().zip([64, 1472]) {
        assert_eq!(point["point"]["size"], size);
        for way in ["forward", "reverse"] {
            let way = &point[way];
            assert_eq!(
                (&way["sent"], &way["arrived"], &way["lost"]),
                (&50.into(), &50.into(), &0.into()),
                "{way}"
            );
            assert!(way["account"].as_array().unwrap().len() >= 6);
        }
    }
    assert!(report["round_trip_seconds"].as_f64().unwrap() > 0.0);
    let stats = server.stop();
    assert_eq!((&stats["done"], &stats["failed"]), (&1.into(), &0.into()));
}

#[test]
fn further_tests_find_the_longest_datagram_and_round_trips() {
    let server = Server::start("");
    // Loopback takes the longest there are.
    assert_eq!(server.probe("--mtu").expect(0).json()["mtu"]["payload"], 65_507);
    let report = server.probe("--latency --sizes 64,1000 --packets 20").expect(0).json();
    for point in report["points"].as_array().unwrap() {
        let trips = &point["forward"]["round_trip_ns"];
        assert!(trips["count"].as_u64().unwrap() > 0 && trips["p50"].as_u64().unwrap() > 0, "{trips}");
    }
    let trace = server.token.with_file_name("trace.csv");
    server.probe(&format!("--trace {} {SLOW}", trace.display())).expect(0);
    let lines = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(
        (lines.lines().count(), lines.lines().next()),
        (51, Some("point,flow,number,sent_ns,under_way_ns"))
    );
}

#[test]
fn ctrl_c_ends_with_what_was_measured_and_a_client_that_is_killed_frees_its_slot() {
    let server = Server::start("");
    let long = words(&server.line("--time 5min --spacing 1ms"));
    let measuring = |client: &mut Job| {
        wait_for("the test to begin", || {
            assert!(client.is_running(), "{}", client.stderr());
            client.stderr().contains("measuring the path").then_some(())
        });
        // Some packets of 1 ms each.
        std::thread::sleep(std::time::Duration::from_secs(1));
    };
    let mut client = Job::start(&long);
    measuring(&mut client);
    client.signal(rustix::process::Signal::INT);
    let done = client.finish().expect(1);
    let report = done.json();
    assert_eq!(report["interrupted"], true);
    assert!(report["points"][0]["forward"]["arrived"].as_u64().unwrap() > 0, "{report}");
    assert!(done.stderr.contains("INTERRUPTED"), "{}", done.stderr);
    // A diagnosis tells its points, too, as JSON, in words and on a page.
    let page = server.token.with_file_name("page");
    let diagnosis =
        format!("--udp --diagnose --time 30s --rates 2Mbps --sizes 1000 --report {}", page.display());
    let mut client = Job::start(&words(&server.line(&diagnosis)));
    measuring(&mut client);
    client.signal(rustix::process::Signal::INT);
    let report = client.finish().expect(1).json();
    let found = &report["diagnosis"];
    assert!(report["points"][0]["forward"]["arrived"].as_u64().unwrap() > 0, "{report}");
    assert_eq!((&report["interrupted"], &found["cut_short"]), (&true.into(), &"interrupted".into()));
    let page = std::fs::read_to_string(page.join("index.html")).unwrap();
    assert!(page.contains("the diagnosis ended early: interrupted"), "{page}");
    let mut client = Job::start(&long);
    measuring(&mut client);
    client.signal(rustix::process::Signal::KILL);
    let _ = client.finish();
    server.probe(SLOW).expect(0);
}

#[test]
fn a_wrong_token_a_wrong_host_and_too_much_are_refused_with_a_hint() {
    let server = Server::start("--most 10Mbps");
    let other = server.token.with_file_name("other");
    std::fs::write(&other, "another-token-of-theirs\n").unwrap();
    let line = format!("probe {} --token-file {}", server.at, other.display());
    let said = run(&line).expect(2).stderr;
    assert!(said.contains("has a different token, or another host answers in its place\nhint: "), "{said}");
    let said = server.probe("--spacing 10us").expect(2).stderr;
    assert!(said.contains("exceeds the server's limit of 10.0 Mb/s"), "{said}");
    let nobody = format!("probe 127.0.0.1:1 --token-file {}", other.display());
    let said = run(&nobody).expect(2).stderr;
    assert!(said.contains("connect to 127.0.0.1:1: Connection refused\nhint: "), "{said}");
}

#[test]
fn one_way_needs_no_control_connection() {
    let at = {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap()
    };
    let receiver = Job::start(&words(&format!("probe receive udp://{at} --idle 3s --time 60s --json")));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let sent = run(&format!("probe send {at} --spacing 1ms --time 200ms --json")).expect(0).json();
    let got = receiver.finish().expect(0).json();
    assert!(sent["packets"].as_u64().unwrap() > 0);
    assert!(got["packets"].as_u64().unwrap() > 0 && got["lost"] == 0, "{got}");
}

#[test]
fn what_this_end_measured_is_reported_though_the_server_is_gone() {
    let server = Server::start("");
    let mut client = Job::start(&words(&server.line("--tcp --time 30s --diagnose")));
    wait_for("the flow to begin", || {
        assert!(client.is_running(), "{}", client.stderr());
        client.stderr().contains(" s  sent ").then_some(())
    });
    server.job.signal(rustix::process::Signal::KILL);
    let done = client.finish().expect(1);
    let report = done.json();
    let point = &report["points"][0];
    assert!(point["here"]["flows"][0]["bytes"].as_u64().unwrap() > 0, "{point}");
    assert!(point.get("there").is_none(), "{}", point["there"]);
    assert!(point["missing"].as_str().unwrap().contains("closed the connection"), "{}", point["missing"]);
    assert!(report["diagnosis"][0][0]["causes"].is_array(), "{report}");
    assert!(done.stderr.contains("warning: the server's report is missing"), "{}", done.stderr);
    let _ = server.job.finish();
}

#[test]
fn ctrl_c_while_the_servers_report_is_awaited_ends_the_wait_and_reports_this_end() {
    let server = Server::start("");
    let interrupted = |line: &str| {
        let mut client = Job::start(&words(&server.line(line)));
        wait_for("the flow to begin", || {
            assert!(client.is_running(), "{}", client.stderr());
            client.stderr().contains(" s  sent ").then_some(())
        });
        server.job.signal(rustix::process::Signal::STOP);
        // It ends after its time, and a report is awaited for 10 s, of TCP for 20 s.
        std::thread::sleep(std::time::Duration::from_secs(3));
        client.signal(rustix::process::Signal::INT);
        let done = client.finish().expect(1);
        server.job.signal(rustix::process::Signal::CONT);
        assert!(done.stderr.contains("INTERRUPTED"), "{}", done.stderr);
        done.json()
    };
    let report = interrupted("--tcp --time 2s --diagnose");
    let point = &report["points"][0];
    assert_eq!((&report["interrupted"], &point["missing"]), (&true.into(), &"interrupted".into()), "{point}");
    assert!(point["here"]["flows"][0]["bytes"].as_u64().unwrap() > 0, "{point}");
    // What arrived of datagrams is unknown without the server.
    let report = interrupted("--time 2s --spacing 1ms");
    assert_eq!(
        (&report["interrupted"], &report["points"]),
        (&true.into(), &serde_json::json!([])),
        "{report}"
    );
}

/// What is measured is the result: a pipe gets it. What is said meanwhile is not.
#[test]
fn results_go_to_standard_output_and_the_rest_to_standard_error() {
    let server = Server::start("");
    let text = |line: &str| {
        run(&format!("probe {} --token-file {} {line}", server.at, server.token.display())).expect(0)
    };
    for (line, heading) in [
        (SLOW, "user rate"),
        ("--tcp --time 300ms", "most cwnd"),
        ("--latency --sizes 64 --packets 20", "round trip mean"),
        ("--mtu", "pass whole"),
        ("--tcp --diagnose --time 300ms", "point 1, flow 1:"),
    ] {
        let done = text(line);
        assert!(done.told().contains(heading), "{line}: {}\n{}", done.told(), done.stderr);
        assert!(!done.stderr.contains(heading), "{line}: {}", done.stderr);
    }
    let done = text(SLOW);
    assert!(
        done.stderr.contains("measuring the path") && !done.told().contains("measuring"),
        "{}",
        done.stderr
    );
    // A line each second, of what is not over before.
    let done = text("--spacing 1ms --time 3s");
    assert!(done.stderr.lines().filter(|line| line.contains(" s  sent ")).count() >= 2, "{}", done.stderr);
    assert!(!done.told().contains(" s  sent "), "{}", done.told());
}

#[test]
fn every_address_of_a_name_is_tried() {
    use std::net::ToSocketAddrs as _;
    let addresses: Vec<_> = ("localhost", 1).to_socket_addrs().unwrap().collect();
    if addresses.len() < 2 {
        println!("SKIPPED: localhost has one address (lines for 127.0.0.1 and ::1 in /etc/hosts)");
        return;
    }
    // The server is at one of them, whichever comes first.
    for listen in addresses.iter().map(|at| at.ip()) {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("token");
        let line = format!("probe serve --listen {listen} --port 0 --token-file {}", token.display());
        let server = Job::start(&words(&line));
        let at = wait_for("the server to serve", || {
            server.stderr().lines().find_map(|line| line.strip_prefix("serving on ")).map(str::to_owned)
        });
        let port = at.rsplit_once(':').unwrap().1;
        for more in [SLOW, "--tcp --time 200ms"] {
            let done = run(&format!("probe localhost:{port} --token-file {} --json {more}", token.display()));
            let report = done.expect(0).json();
            assert!(report["server"].as_str().unwrap().contains(&listen.to_string()), "{report}");
        }
        server.signal(rustix::process::Signal::INT);
        server.finish().expect(0);
    }
}

#[test]
fn what_is_sent_without_a_size_is_not_cut_whatever_the_version_of_ip() {
    let Ok(socket) = std::net::UdpSocket::bind("[::1]:0") else {
        println!("SKIPPED: no IPv6 here (a kernel with IPv6)");
        return;
    };
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (to, size) in [(socket.local_addr().unwrap(), 1452), (other.local_addr().unwrap(), 1472)] {
        let report = run(&format!("probe send {to} --spacing 1ms --time 100ms --json")).expect(0).json();
        let [packets, bytes] = ["packets", "bytes"].map(|name| report[name].as_u64().unwrap());
        assert_eq!(bytes, packets * size, "{to}");
    }
}

const BINARY: &str = env!("CARGO_BIN_EXE_skyhaul");
/// The far command.
const SERVE: &str = "skyhaul probe serve --token-file t";

/// One lab at a time: each needs a processor for its router, and others that send and receive.
static ALONE: Mutex<()> = Mutex::new(());

/// A lab with a probe from its near end; options of the lab, of the probe, and the command of the far end.
struct Lab<'a> {
    path: &'a str,
    lab: &'a [&'a str],
    far: &'a str,
    probe: &'a str,
}

impl Lab<'_> {
    /// The report of the probe, what was said, and the directory in which it ran.
    fn run(&self) -> (Value, String, TempDir) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(BINARY)
            .env("SKYHAUL_CONFIG", "/dev/null")
            .current_dir(directory.path())
            .args(["lab", "run", self.path, "--far", self.far])
            .args(self.lab)
            .args(["--", "skyhaul", "probe", "far", "--token-file", "t", "--diagnose", "--json"])
            .args(self.probe.split_whitespace())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Whether this machine kept the lab's times changes what was measured, not what is printed.
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        (report, said, directory)
    }
}

/// Runs after which a machine that is never in time is let go.
const RUNS: usize = 6;

/// A diagnosis, as `run` makes it, names just these causes. It is right in 95 of 100 runs, so one may be wrong, and then two must be
/// right. A run that went wrong while the lab was late has measured this machine, and does not count.
fn names(path: &str, expected: &[&str], mut run: impl FnMut() -> (Value, bool)) {
    let (mut right, mut wrong) = (0, Vec::new());
    for _ in 0..RUNS {
        let (diagnosis, late) = run();
        let causes = diagnosis["causes"].as_array().unwrap();
        // Where nothing is to be named, nothing may be left unexplained.
        let explained = !expected.is_empty() || diagnosis["unexplained"].as_u64().unwrap_or(0) == 0;
        if explained && causes.iter().map(|cause| &cause["cause"]).eq(expected) {
            right += 1;
            if wrong.is_empty() || right == 2 {
                return;
            }
        } else if !late {
            wrong.push(diagnosis);
            assert!(wrong.len() < 2, "{path}: not {expected:?}: {wrong:?}");
        }
    }
    // A router that is late loses and delays packets itself: then the path is not the one whose cause is to be named.
    println!("SKIPPED: {path}: the lab was late in most of {RUNS} runs (a machine that is idle)");
}

/// Whether the lab did not keep its times.
fn late(said: &str) -> bool {
    said.contains("FAILED: ")
}

/// What is said of a path for datagrams, at a load that a slow machine keeps.
fn of_udp(path: &str, lab: &[&str], far: &str) -> (Value, bool) {
    let (report, said, _) = Lab { path, lab, far, probe: "--udp --rates 80Mbps" }.run();
    (report["diagnosis"].clone(), late(&said))
}

#[test]
fn a_policer_is_named_with_its_rate_and_a_page_shows_why() {
    if !permitted() {
        return;
    }
    let path = "rate=400Mbps,delay=15ms,police=40Mbps/128KiB,seed=7";
    let mut last = None;
    names(path, &["policer"], || {
        let (report, said, directory) =
            Lab { path, lab: &[], far: SERVE, probe: "--udp --rates 80Mbps --report page" }.run();
        let outcome = (report["diagnosis"].clone(), late(&said));
        last = Some((report, directory));
        outcome
    });
    let (report, directory) = last.unwrap();
    let found = &report["diagnosis"];
    if found["causes"][0]["cause"] != "policer" {
        return; // skipped, and said
    }
    let rate = found["limit"]["bits_per_second"].as_f64().unwrap();
    assert!((rate / 40e6 - 1.0).abs() < 0.02, "{rate}");
    assert!(
        found["causes"][0]["next"][0]
            .as_str()
            .unwrap()
            .starts_with("skyhaul probe far --token-file t --udp --rates")
    );
    let page = std::fs::read_to_string(directory.path().join("page/index.html")).unwrap();
    for part in
        ["a policer drops what exceeds a rate", "Loss by offered rate", "Where packets went", "</html>"]
    {
        assert!(page.contains(part), "{part}");
    }
    for file in ["loss.svg", "packets.svg"] {
        assert!(std::fs::read_to_string(directory.path().join("page").join(file)).unwrap().contains("<svg"));
    }
    let written = std::fs::read(directory.path().join("page/report.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap()["diagnosis"], report["diagnosis"]);
}

#[test]
fn nothing_is_named_on_a_clean_path() {
    if !permitted() {
        return;
    }
    let path = "rate=400Mbps,delay=15ms,seed=7";
    names(path, &[], || of_udp(path, &[], SERVE));
}

/// The flow is over when the path goes down for longer than any answer is waited for.
#[test]
fn a_path_that_is_down_when_a_test_ends_does_not_cost_its_results() {
    if !permitted() {
        return;
    }
    let path = "rate=50Mbps,delay=5ms,seed=7; at=2s: loss=1; at=17s: loss=0";
    let (report, said, _) = Lab { path, lab: &[], far: SERVE, probe: "--tcp --cc cubic --time 3s" }.run();
    let point = &report["points"][0];
    for end in ["here", "there"] {
        assert!(point[end]["flows"][0]["bytes"].as_u64().unwrap_or(0) > 0, "{end}: {said}");
    }
    assert!(point.get("missing").is_none(), "{}", point["missing"]);
}

/// A server that is stopped for most of the time, from a second on.
fn paused() -> String {
    format!("{SERVE} & P=$!; sleep 1; while sleep 0.05; do kill -STOP $P; sleep 0.5; kill -CONT $P; done")
}

#[test]
fn causes_of_loss_order_and_delay_are_named() {
    if !permitted() {
        return;
    }
    let tbf: &[&str] = &["--queue", "tbf=30Mbps/64KiB/250KiB"];
    for (path, lab, causes) in [
        ("rate=400Mbps,delay=15ms,loss=0.01,seed=7", &[][..], &["bit-errors"][..]),
        ("rate=40Mbps,buffer=300KiB,delay=15ms,seed=7", &[], &["full-queue"]),
        ("rate=400Mbps,delay=15ms,reorder=5@0.02,duplicate=0.01,seed=7", &[], &["duplication", "spraying"]),
        ("rate=400Mbps,delay=15ms,seed=7; fwd: mtu-blackhole=1300", &[], &["mtu"]),
        ("rate=400Mbps,delay=15ms,seed=7; mtu-blackhole=1300", &[], &["mtu"]),
        ("rate=400Mbps,delay=15ms,seed=7,burst=80@0.0003", &[], &["burst-loss"]),
        ("rate=400Mbps,delay=15ms,seed=7", tbf, &["sender"]),
    ] {
        names(path, causes, || of_udp(path, lab, SERVE));
    }
}

/// What is said of a flow of TCP.
fn of_tcp(path: &str, far: &str) -> (Value, bool) {
    let probe = "--tcp --cc cubic --time 4s --report page";
    let (report, said, directory) = Lab { path, lab: &[], far, probe }.run();
    let page = std::fs::read_to_string(directory.path().join("page/index.html")).unwrap();
    for part in ["What bounds it", "Throughput by window", "Over time", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    (report["diagnosis"][0][0].clone(), late(&said))
}

#[test]
fn what_bounds_a_connection_is_named_and_a_page_shows_it() {
    if !permitted() {
        return;
    }
    let path = "rate=100Mbps,delay=20ms,seed=7";
    let small = format!("sysctl -qw net.ipv4.tcp_rmem='4096 65536 65536'; {SERVE}");
    let stops = format!("sysctl -qw net.ipv4.tcp_rmem='4096 131072 1048576'; {}", paused());
    let lossy = "rate=100Mbps,delay=20ms,loss=0.01,seed=7";
    for (path, far, cause) in [
        (path, small.as_str(), "receiver-window"),
        (path, stops.as_str(), "slow-application"),
        (lossy, SERVE, "loss"),
        // Each of the three paths has this rate: together no more than a slow machine sends.
        ("rate=100Mbps,delay=10ms,paths=3/spray/1ms,seed=7", SERVE, "spraying"),
        ("rate=400Mbps,delay=10ms,seed=7; mtu-blackhole=1300", SERVE, "mtu"),
        ("rate=400Mbps,delay=10ms,seed=7; rev: mtu-blackhole=1300", SERVE, "mtu"),
    ] {
        names(path, &[cause], || of_tcp(path, far));
    }
    names(path, &[], || of_tcp(path, SERVE));
}
