//! Both ends of a measurement as commands on loopback.

use crate::site::{Done, Job, run, wait_for, words};
use serde_json::Value;
use std::path::PathBuf;

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
