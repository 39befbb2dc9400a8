//! The control plane, or the process that forwards, is stopped for a while (SIGSTOP; a paused guest does the same).

use super::plane::plane_of;
use super::{Place, Running, Worker, send};
use crate::site::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
    assert!(said.contains("tokens made under the former one are revoked"), "{said}");
    running.stop();
}

/// The service has as many descriptors as it may, so that connections do not take those that it needs.
#[test]
fn it_may_open_as_many_files_as_the_system_allows() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let place = Place::new();
    // As most systems start programs. What is started meanwhile by other tests has no need of more.
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1024), ..before }).unwrap();
    let running = place.start(&format!("--state {}", place.path("state.db").display()));
    setrlimit(Resource::Nofile, before).unwrap();
    let forwards = plane_of(running.job.pid());
    for pid in [Pid::from_raw(running.job.pid() as i32).unwrap(), forwards] {
        let text = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[3], words[4], "{line}");
    }
    running.stop();
}
