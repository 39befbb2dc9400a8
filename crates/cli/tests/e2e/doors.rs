//! Where services listen and for whom, and what others on the network can read.

use crate::probe::Server;
use crate::site::{Job, run, wait_for, words};
use rustix::process::Signal;
use std::path::Path;

/// A token file, as another program wrote it.
fn token(directory: &Path) -> String {
    let path = directory.join("token");
    std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
    format!("--token-file {}", path.display())
}

#[test]
fn a_server_says_where_it_listens_and_who_may_come() {
    let directory = tempfile::tempdir().unwrap();
    let token = token(directory.path());
    for (listen, reach, is_open) in
        [("127.0.0.1:0", "this host only", false), ("0.0.0.0:0", "every address of this host", true)]
    {
        let root = directory.path().display();
        let job = Job::start(&words(&format!("copy serve --root {root} --listen {listen} --json {token}")));
        let told = format!("on {reach}, for clients that hold the token in");
        wait_for("the server", || job.stderr().contains(&told).then_some(()));
        wait_for("what they may", || job.stderr().contains("copy from here").then_some(()));
        job.signal(Signal::INT);
        let done = job.finish().expect(0);
        assert_eq!(done.stderr.contains("traffic is not encrypted"), is_open, "{}", done.stderr);
        let door = &done.json()["listening"][0];
        assert_eq!((&door["service"], &door["encrypted"]), (&"copy".into(), &false.into()));
        assert!(door["admits"].as_str().unwrap().starts_with("clients that hold the token in "), "{door}");
    }
    let server = Server::start("--iperf3 0 --stamp 0 --udpmon 0");
    wait_for("all of them", || {
        (server.job.stderr().matches("for anyone, without a token").count() == 3).then_some(())
    });
    let report = server.stop();
    let services: Vec<_> =
        report["listening"].as_array().unwrap().iter().map(|door| &door["service"]).collect();
    assert_eq!(services, ["probe", "iperf3", "stamp", "udpmon"]);
}

#[test]
fn tokens_that_others_on_the_network_can_read_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let token = token(directory.path());
    let ports = "--listen 127.0.0.1 --data-port 0 --sync-port 0 --threads 1 --duration 1ms";
    for (api, warns) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let done = run(&format!("balance --api {api} {ports} {token}")).expect(0);
        assert_eq!(done.stderr.contains("tokens over the network in plain text"), warns, "{}", done.stderr);
    }
    // No control plane answers at any of them.
    for (uri, warns) in [
        ("ejfat://0123456789abcdef@127.0.0.1:9/lb/1", false),
        ("ejfats://0123456789abcdef@203.0.113.1:9/lb/1", false),
        ("ejfat://0123456789abcdef@203.0.113.1:9/lb/1", true),
    ] {
        let done = run(&format!("balancer status --timeout 100ms --balancer {uri}")).expect(2);
        assert_eq!(done.stderr.contains("is sent to 203.0.113.1 in plain text"), warns, "{}", done.stderr);
        assert!(!done.stderr.contains("0123456789abcdef"), "{}", done.stderr);
    }
}
