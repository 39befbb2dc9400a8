//! `bench rdma`: small experiments, whose counts are added up a second time.

use crate::limited::cpus;
use crate::site::{Job, number, run, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;

fn rows<'a>(report: &'a Value, experiment: &'a str) -> impl Iterator<Item = &'a Value> {
    report["rows"].as_array().unwrap().iter().filter(move |row| row["experiment"] == experiment)
}

fn runs(row: &Value) -> &Vec<Value> {
    row["runs"].as_array().unwrap()
}

#[test]
fn every_figure_follows_from_the_counts_of_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("rdma.html");
    let line = format!(
        "bench rdma --messages 8KiB,64KiB --losses 0.05 --time 300ms --rounds 1 --rate 200Mbps --cpus {} --json --report {}",
        cpus(),
        page.display()
    );
    let done = run(&line).expect(0);
    assert!(done.said().contains("this takes about "), "{}", done.said());
    let report = done.json();
    assert_eq!(report["rows"].as_array().unwrap().len(), 2 * 7 + 2 + 3);
    let html = std::fs::read_to_string(&page).unwrap();
    for row in report["rows"].as_array().unwrap() {
        let candidate = row["candidate"].as_str().unwrap();
        assert!(html.contains(&format!("<td>{candidate}")), "{candidate}");
        if let Some(why) = row["skipped"].as_str() {
            assert!(candidate == "write-bpf" && !why.is_empty() && runs(row).is_empty(), "{row}");
            continue;
        }
        assert_eq!(runs(row).len(), 1, "{row}");
        let own = &runs(row)[0];
        let accounted = number(&own["placed"]) + number(&own["lost"]) + number(&own["refused"]);
        assert_eq!(number(&own["sent"]), accounted, "{row}");
        let (rate, seconds) = (own["bits_per_second"].as_f64().unwrap(), own["seconds"].as_f64().unwrap());
        let placed = number(&own["placed_bytes"]) as f64;
        assert!((rate * seconds / 8.0 - placed).abs() < 1.0, "goodput times time are the bytes: {row}");
        assert_eq!(own["is_lossy"] == true, number(&row["lossy_runs"]) == 1, "{row}");
        if candidate == "write-bpf" {
            assert!(number(&own["placed_by_kernel"]) > 0, "{row}");
        }
        if candidate.ends_with("-tcp") && candidate != "tcp" {
            let [sent, placed] = ["sent_bytes", "placed_bytes"].map(|name| number(&own[name]));
            assert!(sent == placed && number(&own["sent"]) > 0 && own["is_lossy"] == false, "{row}");
        }
        if candidate == "write-stage" {
            assert_eq!(number(&own["placed_by_kernel"]), 0, "{row}");
        }
    }
    let loss: Vec<&Value> = rows(&report, "loss").collect();
    let own = &runs(loss[0])[0];
    assert_eq!(loss[0]["candidate"], "write-stage");
    // What the faults withheld is what the server missed, unless this host lost more.
    assert!(number(&own["lost_on_purpose"]) > 0, "{own}");
    if own["is_lossy"] == false {
        assert_eq!(number(&own["lost"]), number(&own["lost_on_purpose"]), "{own}");
        let kept = number(&own["placed_bytes"]) as f64 / number(&own["sent_bytes"]) as f64;
        assert!((loss[0]["kept"]["median"].as_f64().unwrap() - kept).abs() < 1e-9 && kept < 1.0, "{own}");
    }
    for row in rows(&report, "latency").filter(|row| row["skipped"].is_null()) {
        let own = &runs(row)[0];
        assert_eq!(own["latency"]["samples"], own["placed"], "{own}");
        let [p50, p99, p999] = ["p50", "p99", "p999"].map(|name| own["latency"][name].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p99 && p99 <= p999, "{own}");
    }
    if report["energy"].as_str().unwrap().starts_with("no meter") {
        assert!(report["rows"].as_array().unwrap().iter().all(|row| row["joules"].is_null()));
        assert!(html.contains("no meter: CPU seconds per GB stand for it"));
    }
}

#[test]
fn without_the_privilege_the_kernel_is_skipped_with_the_reason() {
    let line = format!("bench rdma --only latency --time 100ms --rounds 1 --cpus {} --json --quiet", cpus());
    // As root this takes every capability away; of another user it takes none.
    let mut command = std::process::Command::new("setpriv");
    let program = env!("CARGO_BIN_EXE_skyhaul");
    command.args(["--bounding-set=-all", "--inh-caps=-all", program]).args(words(&line));
    let done = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        done => done.unwrap(),
    };
    // Without CAP_SETPCAP it cannot be done, nor is it needed.
    let report: Value = match done.status.success() {
        true => serde_json::from_slice(&done.stdout).unwrap(),
        false => run(&line).expect(0).json(),
    };
    let row = rows(&report, "latency").find(|row| row["candidate"] == "write-bpf").unwrap();
    assert!(row["skipped"].as_str().unwrap().contains("CAP_BPF"), "{row}");
    assert!(rows(&report, "latency").filter(|row| runs(row).len() == 1).count() == 2, "{report}");
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let line = format!(
        "bench rdma --only messages --messages 8KiB --time 10ms --rounds 100000 --rate 100Mbps --cpus {} --json",
        cpus()
    );
    let mut job = Job::start(&words(&line));
    wait_for("it to begin", || {
        assert!(job.is_running(), "it ended: {}", job.stderr());
        job.stderr().contains("this takes about").then_some(())
    });
    // Some rounds of 10 ms.
    std::thread::sleep(std::time::Duration::from_secs(3));
    job.signal(Signal::INT);
    let report = job.finish().expect(1).json();
    assert_eq!(report["interrupted"], true, "{report}");
    let udp = &report["rows"][0];
    assert!(!runs(udp).is_empty() && udp["incomplete"] == true, "{udp}");
}
