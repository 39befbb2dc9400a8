//! A data plane, which is a process of its own, that dies or is left alone.

use super::{FREE, Place, send, whole};
use crate::site::{Job, wait_for, words};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

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
