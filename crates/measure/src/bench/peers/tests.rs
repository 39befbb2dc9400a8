//! That what is missing or fails is in its row, and that a stop ends it soon.

use super::*;
use skyhaul::stop::StopFlag;
use std::path::Path;
use std::time::Duration;

/// A CPU that this process may use.
fn cpu() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    list.split(['-', ',']).next().unwrap().parse().unwrap()
}

/// Short runs of rows, with no peer that exists.
pub(super) fn options(only: &[&str]) -> PeerOptions {
    PeerOptions {
        program: "/nonexistent/skyhaul".into(),
        paths: PEER_PROGRAMS.map(|(name, _)| (name, Path::new("/nonexistent").join(name))).into(),
        only: only.iter().map(|&name| name.to_owned()).collect(),
        time: Duration::from_millis(50),
        rounds: 1,
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        cpus: (cpu(), cpu()),
        timeout: Duration::from_secs(2),
        stop: StopFlag::default(),
    }
}

#[test]
fn rows_without_their_programs_say_why_and_the_others_are_measured() {
    let report = run(&options(&["tcp-zerocopy", "heaps-4k-spead2", "send-8040"]), &mut |_| ()).unwrap();
    let names: Vec<&str> = report.rows.iter().map(|row| &*row.name).collect();
    assert_eq!(names, ["heaps-4k-spead2", "send-8040", "tcp-zerocopy"], "in the order of the table");
    let why = |row: usize, own: usize| report.rows[row].candidates[own].skipped.clone().unwrap_or_default();
    assert!(
        why(0, 0).starts_with("not run: /nonexistent/spead2_recv is not a program; hint: build"),
        "{}",
        why(0, 0)
    );
    assert!(why(0, 1).starts_with("not run: /nonexistent/spead2_send is not a program"), "{}", why(0, 1));
    assert!(why(2, 0).starts_with("not run: /nonexistent/iperf3"), "{}", why(2, 0));
    assert!(why(2, 1).starts_with("failed: start /nonexistent/skyhaul: No such file"), "{}", why(2, 1));
    let measured = &report.rows[1];
    assert_eq!((measured.candidates.len(), &*measured.compares), (2, "send CPU"), "{measured:?}");
    assert!(measured.ratio.is_some_and(|ratio| ratio.median > 0.0), "{measured:?}");
    assert!(report.peers.iter().all(|peer| peer.missing.is_some()) && !report.interrupted);
    assert!(report.machine.cores > 0 && report.machine.kernel.starts_with("Linux "), "{:?}", report.machine);
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<PeerReport>(&text).unwrap().rows.len(), 3);
}

#[test]
fn every_row_has_a_name_and_work_of_its_own() {
    let names: Vec<&str> = row_names().collect();
    let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for row in rows::chosen(&[]).unwrap() {
        let (count, bytes, packets) = row.objects(2.0);
        let streams = matches!(row.work, Work::Heaps { .. } | Work::Events { .. });
        assert_eq!(count > 0 && packets > 0 && bytes > 0, streams, "{}", row.name);
    }
    let said = run(&options(&["heaps"]), &mut |_| ()).unwrap_err().to_string();
    assert!(said.starts_with("unknown row 'heaps'; hint: choose from receive-8040 receive-1472"), "{said}");
}

#[test]
fn a_stop_ends_a_program_and_keeps_the_rows_before() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    // It neither listens nor ends.
    let program = folder.path().join("skyhaul");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options =
        PeerOptions { program, timeout: Duration::from_secs(600), ..options(&["receive-8040", "heaps-4k"]) };
    let begun = std::time::Instant::now();
    let stop = options.stop.clone();
    let report = run(&options, &mut |line| {
        if line.starts_with("heaps-4k") {
            let stop = stop.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                stop.stop();
            });
        }
    })
    .unwrap();
    assert!(report.interrupted && begun.elapsed() < Duration::from_secs(60), "{report:?}");
    assert_eq!(report.rows[0].candidates.len(), 2);
}

#[test]
fn two_machines_are_compared_row_by_row() {
    use crate::bench::{BenchRun, Spread};
    use skyhaul::report::compare::{Options, Verdict, compare};
    let spread = |median: f64| Spread { median, min: median * 0.99, max: median * 1.01 };
    let row = |name: &str, cpu: f64| PeerRow {
        name: name.into(),
        candidates: vec![BenchRow {
            candidate: "skyhaul".into(),
            receive_cpu: spread(cpu),
            runs: vec![BenchRun::default()],
            ..BenchRow::default()
        }],
        ..PeerRow::default()
    };
    let report = |cpu: &str, rows: Vec<PeerRow>| {
        let machine = PeerHost { cpu: cpu.into(), ..PeerHost::default() };
        serde_json::to_value(PeerReport { machine, rows, ..PeerReport::default() }).unwrap()
    };
    let a = report("EPYC", vec![row("heaps-4k", 0.2), row("send-1472", 0.3)]);
    let b = report("Xeon", vec![row("send-1472", 0.3), row("heaps-4k", 0.4), row("heaps-1m-8972", 0.1)]);
    let comparison = compare(&a, &b, &Options::default()).unwrap();
    let worse: Vec<&str> =
        comparison.figures.iter().filter(|f| f.verdict == Verdict::Worse).map(|f| &*f.path).collect();
    assert_eq!(worse.len(), 1, "{worse:?}");
    assert!(worse[0].contains("heaps-4k") && worse[0].ends_with("receive_cpu"), "{worse:?}");
    assert!(comparison.changes.iter().any(|change| change.path == "machine.cpu"), "{:?}", comparison.changes);
    assert!(comparison.only_b.iter().all(|path| path.contains("heaps-1m-8972")), "{:?}", comparison.only_b);
}
