//! `bench peers`: one row with a peer that fails and one with none, and a stop that leaves nothing behind.

use crate::limited::{children, cpus};
use crate::site::{Job, run, wait_for, words};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_row_is_measured_beside_a_peer_that_fails_and_kept_for_comparison() {
    let directory = tempfile::tempdir().unwrap();
    let (peer, kept) = (directory.path().join("peer"), directory.path().join("kept"));
    std::fs::write(&peer, "#!/bin/sh\necho usage\necho unknown option >&2\nexit 2\n").unwrap();
    std::fs::set_permissions(&peer, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (peer, kept, cpus) = (peer.display(), kept.display(), cpus());
    let line = format!(
        "bench peers --only heaps-64k-8g,tcp-zerocopy --time 200ms --rounds 1 --cpus {cpus} --report {kept} --json \
         --spead2-recv {peer} --iperf3 {peer}s"
    );
    let report = run(&line).expect(0).json();
    let rows = report["rows"].as_array().unwrap();
    let why = |row: usize| rows[row]["candidates"][0]["skipped"].as_str().unwrap();
    let told = "failed: the receiver ended before it listened: exit status: 2: unknown option";
    assert_eq!((rows.len(), why(0)), (2, told), "{report}");
    assert!(why(1).starts_with("not run: ") && why(1).contains("install the package iperf3"), "{report}");
    for row in rows {
        let own = &row["candidates"][1];
        assert_eq!(
            (&own["candidate"], own["runs"].as_array().unwrap().len()),
            (&"skyhaul".into(), 1),
            "{row}"
        );
        for figure in ["receive_cpu", "send_cpu", "bits_per_second"] {
            assert!(own[figure]["median"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_eq!(row["ratio"], serde_json::Value::Null, "{row}");
    }
    assert_eq!(rows[0]["candidates"][1]["sent"].as_u64().unwrap(), 3052 * 8, "200 ms at 8 Gb/s");
    assert!(report["machine"]["family"].is_string() && report["machine"]["l2"].is_u64(), "{report}");
    let said = run(&format!("report diff {kept} {kept}")).expect(0).told();
    assert!(said.contains("figures compared: 0 worse, 0 better, 0 different"), "{said}");
}

#[test]
fn a_stop_leaves_no_program_behind() {
    let directory = tempfile::tempdir().unwrap();
    let line = format!(
        "bench peers --only heaps-4k --time 100s --rounds 1 --cpus {} --report {} --json --spead2-recv /nonexistent/peer",
        cpus(),
        directory.path().display()
    );
    let mut job = Job::start(&words(&line));
    let programs = wait_for("a receiver and a sender", || {
        assert!(job.is_running(), "it ended: {}", job.stderr());
        Some(children(job.pid())).filter(|all| all.len() == 2)
    });
    job.signal(Signal::INT);
    let report = job.finish().expect(1).json();
    assert_eq!(report["interrupted"], true, "{report}");
    assert!(programs.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
}
