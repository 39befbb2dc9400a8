//! STAMP and udpmon as commands on loopback: both ends, reports, Ctrl-C, hints.

use super::site::{Done, Job, run, wait_for, words};
use serde_json::Value;

/// A server of both.
struct Server {
    job: Job,
    stamp: String,
    udpmon: String,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("token");
        let line = format!(
            "probe serve --listen 127.0.0.1 --port 0 --stamp 0 --udpmon 0 --json --token-file {}",
            token.display()
        );
        let mut job = Job::start(&words(&line));
        let mut at = |what: &str| {
            wait_for(what, || {
                let said = job.stderr();
                let found = said.lines().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
                assert!(found.is_some() || job.is_running(), "it ended: {said}");
                found
            })
        };
        let (stamp, udpmon) = (at("reflecting STAMP on "), at("serving udpmon on "));
        Self { job, stamp, udpmon, _directory: directory }
    }

    /// `--stamp` and `--udpmon` name the usual port, and HOST another.
    fn probe(&self, what: &str, line: &str) -> Done {
        let at = if what == "--stamp" { &self.stamp } else { &self.udpmon };
        run(&format!("probe {at} {what} --json {line}"))
    }

    fn stop(self) -> Value {
        self.job.signal(rustix::process::Signal::INT);
        self.job.finish().expect(0).json()
    }
}

const SLOW: &str = "--spacing 300us --packets 50 --settle 5s";

#[test]
fn test_packets_are_reflected_and_trains_of_udpmon_counted() {
    let server = Server::start();
    let report = server.probe("--stamp", &format!("--sizes 64,1000 {SLOW}")).expect(0).json();
    let points = report["points"].as_array().unwrap();
    assert_eq!((points.len(), &report["interrupted"]), (2, &false.into()));
    for (point, size) in points.iter().zip([64, 1000]) {
        assert_eq!(
            (&point["point"]["size"], &point["received"], &point["lost"]),
            (&size.into(), &50.into(), &0.into())
        );
        assert!(
            point["round_trip_ns"]["count"] == 50 && point["clock"]["error_ns"].as_u64().is_some(),
            "{point}"
        );
    }
    let report = server.probe("--udpmon", "--sizes 64,1472 --spacing 300us --packets 50").expect(0).json();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(
            (&point["received"], &point["lost"], &point["disordered"]),
            (&50.into(), &0.into(), &0.into())
        );
        assert!(
            point["user_bits_per_second"].as_f64().unwrap() > 0.0 && point["gaps_ns"].is_object(),
            "{point}"
        );
    }
    let report = server.probe("--udpmon", "--latency --sizes 64,9000 --packets 20").expect(0).json();
    for point in report["points"].as_array().unwrap() {
        assert_eq!((&point["asked"], &point["answered"]), (&20.into(), &20.into()), "{point}");
    }
    let stats = server.stop();
    assert_eq!((&stats["stamp"]["reflected"], &stats["stamp"]["sessions"]), (&100.into(), &2.into()));
    assert_eq!((&stats["udpmon"]["tests"], &stats["udpmon"]["packets"]), (&4.into(), &100.into()));
}

#[test]
fn ctrl_c_ends_both_with_what_was_measured() {
    let server = Server::start();
    for (what, at) in [("--stamp", &server.stamp), ("--udpmon", &server.udpmon)] {
        let mut client = Job::start(&words(&format!("probe {at} {what} --json --spacing 1ms --time 5min")));
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert!(client.is_running(), "{}", client.stderr());
        client.signal(rustix::process::Signal::INT);
        let done = client.finish().expect(1);
        let report = done.json();
        assert_eq!(report["interrupted"], true);
        assert!(report["points"][0]["received"].as_u64().unwrap() > 0, "{report}");
        assert!(done.stderr.contains("INTERRUPTED"), "{}", done.stderr);
    }
}

#[test]
fn who_is_not_there_and_what_cannot_be_is_said_with_a_hint() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = nobody.local_addr().unwrap();
    let said = run(&format!("probe {at} --stamp --packets 2 --spacing 1ms")).expect(2).stderr;
    assert!(said.contains("did not reply\nhint: "), "{said}");
    let said = run(&format!("probe {at} --stamp --sizes 40")).expect(2).stderr;
    assert!(said.contains("at least 44 bytes; got 40\nhint: "), "{said}");
    let said = run(&format!("probe {at} --udpmon --windows 1MiB")).expect(2).stderr;
    assert!(said.contains("--windows applies only to TCP\nhint: "), "{said}");
}
