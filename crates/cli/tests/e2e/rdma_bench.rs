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
        "bench rdma --only messages,loss,latency --messages 8KiB,64KiB --losses 0.05 --time 300ms --rounds 1 --rate 200Mbps --cpus {} --json --report {}",
        cpus(),
        page.display()
    );
    let done = run(&line).expect(0);
    assert!(done.said().contains("this takes about "), "{}", done.said());
    let report = done.json();
    assert_eq!(report["rows"].as_array().unwrap().len(), 2 * 8 + 2 + 4);
    let html = std::fs::read_to_string(&page).unwrap();
    for row in report["rows"].as_array().unwrap() {
        let candidate = row["candidate"].as_str().unwrap();
        assert!(html.contains(&format!("<td>{candidate}")), "{candidate}");
        if let Some(why) = row["skipped"].as_str() {
            assert!(
                ["write-bpf", "place"].contains(&candidate) && !why.is_empty() && runs(row).is_empty(),
                "{row}"
            );
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
        if candidate.contains("-tcp") {
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

/// The command without capabilities: they are taken away from root, and other users have none. `None`: they cannot be taken away here.
fn unprivileged(line: &str) -> Option<Job> {
    let drop_all = words("setpriv --bounding-set=-all --inh-caps=-all");
    let with = |program: &str| [&drop_all[..], &[program.to_owned()]].concat();
    let command = |all: &[String]| {
        let mut command = std::process::Command::new(&all[0]);
        command.args(&all[1..]);
        command
    };
    let program = env!("CARGO_BIN_EXE_skyhaul");
    if !rustix::process::geteuid().is_root() {
        return Some(Job::start(&words(line)));
    }
    // Tried with a program that cannot fail, so that a failure of the benchmark is not taken for one of `setpriv`.
    match command(&with("true")).output() {
        Ok(done) if done.status.success() => Some(Job::of(command(&[with(program), words(line)].concat()))),
        other => {
            println!("SKIPPED: capabilities cannot be taken away here (setpriv): {other:?}");
            None
        }
    }
}

#[test]
fn without_the_privilege_the_kernel_is_skipped_with_the_reason() {
    let line = format!(
        "bench rdma --only latency,receivers --candidates udp,write-stage,write-bpf,place,drop --time 100ms --rounds 1 --rate 50Mbps --memory 1MiB --cpus {} --json --quiet",
        cpus()
    );
    let Some(job) = unprivileged(&line) else { return };
    let report = job.finish().expect(0).json();
    for experiment in ["latency", "receivers"] {
        for row in rows(&report, experiment) {
            let needs_it = ["write-bpf", "place", "drop"].contains(&row["candidate"].as_str().unwrap());
            assert_eq!(runs(row).len(), usize::from(!needs_it), "{row}");
            if needs_it {
                assert!(row["skipped"].as_str().unwrap().contains("CAP_BPF"), "{row}");
            }
        }
    }
    assert_eq!((rows(&report, "latency").count(), rows(&report, "receivers").count()), (4, 4), "{report}");
}

#[test]
fn as_fast_as_it_goes_the_sender_waits_for_what_the_receiver_shows() {
    let line = format!(
        "bench rdma --only receivers --candidates scatter,write-stage --rate max --datagram 1472 --train 8 --time 200ms --rounds 1 --memory 4MiB --cpus {} --json --quiet",
        cpus()
    );
    let report = run(&line).expect(0).json();
    assert_eq!((number(&report["rate"]), rows(&report, "receivers").count()), (0, 2));
    rows(&report, "receivers").for_each(|row| {
        assert_eq!(runs(row).len(), 1, "{row}");
        add_up(row);
    });
}

/// The sums of a run, of any candidate.
fn add_up(row: &Value) {
    for own in runs(row) {
        let accounted = number(&own["placed"]) + number(&own["lost"]) + number(&own["refused"]);
        assert_eq!(number(&own["sent"]), accounted, "{row}");
        assert!(number(&own["placed"]) > 0, "{row}");
    }
}

#[test]
fn every_receiver_gets_the_datagrams_of_one_sender_single_and_in_trains() {
    for train in [1, 3] {
        let line = format!(
            "bench rdma --only receivers --datagram 1472 --train {train} --time 200ms --rounds 2 --rate 200Mbps --memory 1MiB --cpus {} --json --quiet",
            cpus()
        );
        let report = run(&line).expect(0).json();
        assert_eq!((report["train"].as_u64(), report["datagram_bytes"].as_u64()), (Some(train), Some(1472)));
        let names: Vec<&str> =
            rows(&report, "receivers").map(|row| row["candidate"].as_str().unwrap()).collect();
        assert_eq!(names, ["scatter", "bare", "ring", "place", "drop", "write-stage", "write-bpf"]);
        for row in rows(&report, "receivers") {
            let name = row["candidate"].as_str().unwrap();
            if let Some(why) = row["skipped"].as_str() {
                println!("SKIPPED: {name}: {why}");
                assert!(["ring", "place", "drop", "write-bpf"].contains(&name) && !why.is_empty(), "{row}");
                continue;
            }
            assert!(name != "ring" || train == 1, "the ring is for single datagrams: {row}");
            assert_eq!(runs(row).len(), 2, "{row}");
            add_up(row);
            // A message of about 64 KiB in payloads of 1440 bytes, whole trains.
            let datagrams = 65_536 / 1440 / train * train;
            assert_eq!(number(&row["message_bytes"]), datagrams * 1440, "{row}");
            for own in runs(row) {
                assert_eq!(number(&own["sent"]), number(&own["messages"]) * datagrams, "{row}");
                let by_kernel = number(&own["placed_by_kernel"]);
                let is_kernels = ["place", "write-bpf"].contains(&name);
                assert_eq!(by_kernel > 0, is_kernels, "{row}");
            }
            let clean = |name: &str| {
                let row = rows(&report, "receivers").find(|row| row["candidate"] == name).unwrap();
                let clean = runs(row).iter().filter(|own| own["is_lossy"] == false);
                clean.map(|own| number(&own["round"])).collect::<Vec<u64>>()
            };
            let (own, scatter) = (clean(name), clean("scatter"));
            let both = own.iter().filter(|round| scatter.contains(round)).count() as u64;
            let ratio = row["ratios"].as_array().unwrap().iter().find(|ratio| ratio["to"] == "scatter");
            match ratio {
                Some(ratio) => assert_eq!(number(&ratio["rounds"]), both, "{row}"),
                None => assert!(["scatter", "drop"].contains(&name) || both == 0, "{row}"),
            }
        }
    }
}

#[test]
fn solicited_events_are_measured_beside_none_and_tcp_without_a_checksum() {
    let line = format!(
        "bench rdma --only wakes,messages --candidates write-stage,write-stage-solicited,write-bpf,write-bpf-solicited,write-tcp-no-crc --messages 64KiB --time 300ms --rounds 1 --rate 200Mbps --memory 1MiB --cpus {} --json --quiet",
        cpus()
    );
    let report = run(&line).expect(0).json();
    for row in rows(&report, "wakes") {
        if let Some(why) = row["skipped"].as_str() {
            println!("SKIPPED: {}: {why}", row["candidate"]);
            continue;
        }
        add_up(row);
        let is_solicited = row["candidate"].as_str().unwrap().ends_with("-solicited");
        assert_eq!(row["how"].as_str().unwrap().contains("with immediate data"), is_solicited, "{row}");
        if is_solicited && row["switches_per_message"].is_object() {
            assert!(number(&runs(row)[0]["receive_switches"]) > 0, "each message wakes: {row}");
        }
    }
    let tcp = rows(&report, "messages").find(|row| row["candidate"] == "write-tcp-no-crc").unwrap();
    add_up(tcp);
    assert!(tcp["how"].as_str().unwrap().contains("without a CRC"), "{tcp}");
    assert_eq!(number(&runs(tcp)[0]["placed_bytes"]), number(&runs(tcp)[0]["sent_bytes"]), "{tcp}");
}

#[test]
fn lanes_in_real_time_are_those_of_which_the_ledger_has_all() {
    let line =
        format!("bench rdma --only lanes --lanes 2 --time 100ms --rounds 1 --cpus {} --json --quiet", cpus());
    let report = run(&line).expect(0).json();
    assert_eq!(rows(&report, "lanes").count(), 2);
    for row in rows(&report, "lanes") {
        if let Some(why) = row["skipped"].as_str() {
            println!("SKIPPED: {}: {why}", row["candidate"]);
            assert_eq!(row["candidate"], "bpf", "{row}");
            continue;
        }
        let own = &runs(row)[0];
        let (lanes, sent) = (number(&own["lanes"]), number(&own["sent"]));
        add_up(row);
        // A busy host may hold none, which is a result; one that holds has each packet of each lane.
        assert!(lanes <= 2 && (lanes == 0) == (own["is_lossy"] == true), "{row}");
        if lanes > 0 {
            assert_eq!((number(&own["lost"]), sent % lanes), (0, 0), "{row}");
            // 100 ms of packets of 81.92 µs.
            assert_eq!(sent / lanes, 1221, "{row}");
        }
    }
}

#[test]
fn two_networks_of_its_own_are_measured_or_skipped_with_the_reason() {
    let line = format!(
        "bench rdma --veth --only receivers,latency --candidates scatter,place,write-stage,udp --time 200ms --rounds 1 --rate 200Mbps --memory 1MiB --cpus {} --json --quiet",
        cpus()
    );
    let report = run(&line).expect(0).json();
    let path = report["path"].as_str().unwrap();
    assert!(path.contains("(veth)"), "{path}");
    assert_eq!((rows(&report, "receivers").count(), rows(&report, "latency").count()), (3, 3));
    for row in report["rows"].as_array().unwrap() {
        match row["skipped"].as_str() {
            Some(why) => {
                println!("SKIPPED: {}: {why}", row["candidate"]);
                assert!(why.contains("--veth: ") || row["candidate"] == "place", "{row}");
            }
            None => {
                assert_eq!(runs(row).len(), 1, "{row}");
                add_up(row);
            }
        }
    }
    let is_measured = |row: &&Value| !runs(row).is_empty();
    let sent: u64 = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(is_measured)
        .map(|row| number(&runs(row)[0]["sent"]))
        .sum();
    if sent > 0 {
        // Single datagrams, and a few of the connections: all of them over the interfaces, none within a network.
        let words: Vec<&str> = path.split(' ').collect();
        let at = words.iter().position(|word| *word == "packets").unwrap();
        let over: u64 = words[at - 1].parse().unwrap();
        assert!(over >= sent, "{over} of {sent} datagrams: {path}");
    }
    run("bench rdma --veth --address 127.0.0.1 --only latency").expect(2);
    // Without the privilege, each row says so.
    let Some(job) = unprivileged(&line) else { return };
    let report = job.finish().expect(0).json();
    let is_skipped = |row: &Value| row["skipped"].as_str().is_some_and(|why| why.starts_with("--veth: "));
    assert!(report["rows"].as_array().unwrap().iter().all(is_skipped), "{report}");
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let line = format!(
        "bench rdma --only messages --messages 8KiB --time 10ms --rounds 100000 --rate 100Mbps --cpus {} --json",
        cpus()
    );
    // A busy host takes longer until the first of a round has ended.
    for seconds in [2, 8, 32, 64] {
        let mut job = Job::start(&words(&line));
        wait_for("it to begin", || {
            assert!(job.is_running(), "it ended: {}", job.stderr());
            job.stderr().contains("this takes about").then_some(())
        });
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        job.signal(Signal::INT);
        let report = job.finish().expect(1).json();
        assert_eq!(report["interrupted"], true, "{report}");
        let udp = &report["rows"][0];
        if !runs(udp).is_empty() {
            return assert_eq!(udp["incomplete"], true, "{udp}");
        }
    }
    panic!("no run ended");
}
