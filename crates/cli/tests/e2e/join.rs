//! `receive --join`: workers of a balancer whose control plane is a test's.

#[path = "../../../daemon/tests/plane/mod.rs"]
mod plane;

use crate::events::send_events;
use crate::site::{ANY, Done, Job, drops, number, port, run, wait_for, words};
use plane::{Api, Plane, TOKEN};
use rustix::process::Signal;
use serde_json::Value;
use std::net::UdpSocket;

const LINE: &str = "receive --format ejfat --json --verify --memory 128MiB --join";

/// A worker of `plane` that has registered.
fn worker(plane: &Plane, more: &str) -> Job {
    let mut job = Job::start(&words(&format!("{LINE} --balancer {} {more}", plane.uri())));
    said(&mut job, "joined balancer 1");
    job
}

#[track_caller]
fn said(job: &mut Job, text: &str) {
    wait_for(text, || {
        let said = job.stderr();
        assert!(said.contains(text) || job.is_running(), "it ended: {said}");
        said.contains(text).then_some(())
    });
}

/// Its report, after this signal.
#[track_caller]
fn ended(mut job: Job, signal: Signal) -> Done {
    job.drained();
    job.signal(signal);
    job.finish()
}

fn complete(report: &Value) -> u64 {
    number(&report["objects"]["events"]["complete"])
}

#[test]
fn a_worker_joins_reports_what_it_receives_and_leaves_on_sigterm() {
    let desk = Api::default();
    let plane = Plane::start(&desk);
    let more = "--name w1 --weight 2 --min-factor 0.5 --max-factor 3 --keep-label";
    let mut job = worker(&plane, &format!("{ANY} {more}"));
    let at = job.address();
    let registered = desk.known().sessions["1"].clone();
    assert_eq!((registered.name.as_str(), registered.ip_address.as_str()), ("w1", "127.0.0.1"));
    assert_eq!((registered.udp_port, registered.keep_lb_header), (u32::from(port(&at)), true));
    assert_eq!((registered.weight, registered.min_factor, registered.max_factor), (2.0, 0.5, 3.0));
    send_events(&at, 100);
    // An incomplete one ends with its time.
    let state = wait_for("the events to be reported", || {
        desk.last().filter(|state| state.total_events_recv >= 150 && state.total_events_reassembly_err == 1)
    });
    assert!(state.is_ready && state.total_packets_recv > 3000 && state.total_bytes_recv > 3_000_000);
    wait_for("them to be taken", || desk.last().filter(|s| s.total_events_dequeued == s.total_events_recv));
    let done = ended(job, Signal::TERM);
    let report = done.json();
    let known = desk.known();
    assert!(known.states.last().is_some_and(|state| !state.is_ready), "it said so before it left");
    assert_eq!(known.deregistered, ["1"]);
    if drops(&report) == 0 {
        assert_eq!(
            (complete(&report), number(&report["objects"]["events"]["incomplete"])),
            (199, 1),
            "{report}"
        );
    }
    assert_eq!(number(&report["pattern_errors"]), 0, "{report}");
    // Other workers may have what did not come here.
    assert!(report["objects"]["events"]["missing"].is_null(), "{report}");
    let session = &report["worker"];
    assert_eq!(
        (session["session"].as_str(), session["has_left"].as_bool()),
        (Some("1"), Some(true)),
        "{session}"
    );
    assert!(number(&session["reports"]) > 3 && number(&session["events"]) >= 150, "{session}");
    assert!(!done.stderr.contains(TOKEN) && !report.to_string().contains(TOKEN));
}

#[test]
fn several_workers_with_several_ports_share_a_host() {
    let desk = Api::default();
    let plane = Plane::start(&desk);
    // Four ports in a row that are free now.
    let free = || {
        wait_for("four free ports", || {
            let first = UdpSocket::bind("127.0.0.1:0").unwrap();
            let port = first.local_addr().unwrap().port();
            let rest: Option<Vec<_>> =
                (1..4).map(|n| UdpSocket::bind(("127.0.0.1", port.checked_add(n)?)).ok()).collect();
            rest.map(|_| port)
        })
    };
    let start = |port: u16| worker(&plane, &format!("--listen udp://127.0.0.1:{port} --ports 4"));
    let ports = [free(), free()];
    let jobs = ports.map(start);
    {
        let known = desk.known();
        let registered: Vec<_> = known.sessions.values().map(|w| (w.udp_port, w.port_range)).collect();
        assert_eq!(registered, ports.map(|port| (u32::from(port), 2)));
        let names: Vec<_> = known.sessions.values().map(|w| &w.name).collect();
        assert_ne!(names[0], names[1]);
    }
    for (n, mut job) in jobs.into_iter().enumerate() {
        assert_eq!(job.listening().len(), 4);
        send_events(&format!("127.0.0.1:{}", ports[n] + 3), 20);
        let report = ended(job, Signal::INT).json();
        if drops(&report) == 0 {
            assert_eq!(complete(&report), 39, "{report}");
        }
        assert_eq!(number(&report["worker"]["ports"]), 4, "{report}");
    }
    assert_eq!(desk.known().deregistered, ["1", "2"]);
}

#[test]
fn it_goes_on_receiving_while_the_control_plane_is_away_and_registers_again() {
    let desk = Api::default();
    let plane = Plane::start(&desk);
    let mut job = worker(&plane, ANY);
    let to = job.address();
    wait_for("a report", || desk.last());
    let at = plane.at;
    drop(plane);
    said(&mut job, "receiving continues");
    send_events(&to, 50);
    let desk = Api::default();
    let _plane = Plane::at(at, &desk, None);
    said(&mut job, "back after");
    said(&mut job, "registering again");
    wait_for("what came meanwhile", || desk.last().filter(|state| state.total_events_recv >= 99));
    let report = ended(job, Signal::INT).json();
    if drops(&report) == 0 {
        assert_eq!(complete(&report), 99, "{report}");
    }
    let session = &report["worker"];
    assert_eq!((number(&session["registrations"]), number(&session["times_away"])), (2, 1), "{session}");
}

#[test]
fn it_leaves_although_nobody_answers_and_says_so() {
    let plane = Plane::start(&Api::default());
    let mut job = worker(&plane, &format!("{ANY} --drain 200ms"));
    drop(plane);
    said(&mut job, "receiving continues");
    job.signal(Signal::INT);
    let done = job.finish();
    assert!(done.stderr.contains("left anyway"), "{}", done.stderr);
    assert_eq!(done.json()["worker"]["has_left"].as_bool(), Some(false));
}

#[test]
fn what_cannot_join_says_why_and_never_the_token() {
    let desk = Api::default();
    let plane = Plane::start(&desk);
    let uri = plane.uri();
    let secret = uri.replace(TOKEN, "s3cret");
    for (line, why) in [
        (format!("{LINE} {ANY}"), "no balancer given\nhint: set EJFAT_URI"),
        (format!("{LINE} {ANY} --balancer {secret}"), "token … is not known"),
        (format!("{LINE} {ANY} --balancer ejfat://s3cret@{}/", plane.at), "EJFAT_URI names none"),
        (format!("{LINE} {ANY} --balancer http://s3cret@{}/lb/1", plane.at), "`http` is no scheme"),
        (format!("{LINE} {ANY} --balancer {secret}&data=nowhere"), "no data address"),
        (format!("{LINE} {ANY} --balancer {uri} --ports 3"), "not a power of two"),
        (format!("{LINE} {ANY} --balancer {uri} --ports 4"), "exceed 65535"),
        (format!("{LINE} {ANY} --balancer {uri} --weight 0"), "weight 0\nhint: "),
        (format!("{LINE} {ANY} {ANY} --balancer {uri}"), "one --listen"),
        (format!("{LINE} --listen tcp://127.0.0.1:0 --balancer {uri}"), "one --listen udp://"),
        (format!("receive --join {ANY} --balancer {uri}"), "add --format ejfat"),
        (format!("receive --format vdif --join {ANY} --balancer {uri}"), "use --format ejfat"),
        (format!("receive --format ejfat {ANY} --ports 2"), "--join"),
        (format!("{LINE} {ANY} --balancer ejfats{}", &uri[5..]), "cannot be reached"),
    ] {
        let done = run(&line).expect(2);
        assert!(done.stderr.contains(why), "{line}: {}", done.stderr);
        assert!(!done.stderr.contains("s3cret"), "{line}: {}", done.stderr);
    }
    assert!(desk.known().sessions.is_empty());
}
