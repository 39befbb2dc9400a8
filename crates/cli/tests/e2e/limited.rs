//! Receivers with a share of a processor, ours and others, as programs of their own.

use crate::site::{Job, run, wait_for, words};
use rustix::process::Signal;

/// A processor for the sender and one for the receivers: two, where there are two.
pub(crate) fn cpus() -> String {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let first = cpus.next().unwrap();
    format!("{first},{}", cpus.next().unwrap_or(first))
}

fn bench(report: &tempfile::TempDir, line: &str) -> Vec<String> {
    let (cpus, report) = (cpus(), report.path().display());
    words(&format!(
        "bench --format spead --experiments limited --heap-size 64KiB --json --cpus {cpus} --report {report} {line}"
    ))
}

#[test]
fn limited_receivers_keep_to_their_share_and_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let mut line =
        bench(&directory, "--receiver-cpu 25% --packet 8972 --time 400ms --rounds 1 --rates 100Mbps");
    let other = "receive --format spead --listen udp://{address}:{port} --quiet --memory 64MiB";
    line.extend(["--against".to_owned(), format!("{} {other}", env!("CARGO_BIN_EXE_skyhaul"))]);
    let done = Job::start(&line).finish();
    if done.code == Some(2) && done.stderr.contains("hint: run as root") {
        return println!("SKIPPED: no control group can be made (run as root)");
    }
    let report = done.expect(0).json();
    let rows = report["limited"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{report}");
    for row in rows {
        assert_eq!(
            (&row["program"], &row["packet"], &row["heap"]),
            (&"skyhaul".into(), &8972.into(), &65_536.into())
        );
        assert_eq!((&row["share"], row["rounds"].as_array().unwrap().len()), (&0.25.into(), 1), "{row}");
        assert!(row["cpu_s_per_gb"]["median"].as_f64().unwrap() > 0.0, "{row}");
        // The kernel looks at its limit at ticks of 1 to 10 ms: some of them are little of a trial of 400 ms.
        assert!(row["most_used"].as_f64().unwrap() < 0.45, "{row}");
        assert!(row["limit"].as_str().unwrap().contains("control group"), "{row}");
    }
    let page = std::fs::read_to_string(directory.path().join("README.md")).unwrap();
    assert!(page.contains("## Receivers with 25 % of a CPU"), "{page}");
    assert!(page.contains(other), "{page}");
}

/// The children of a process: the fourth field of `/proc/PID/stat`, behind a name in brackets.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().nth(1);
        rest == Some(&parent.to_string())
    };
    numbers.filter(is_child).collect()
}

/// However it ends, no receiver stays behind.
#[test]
fn receivers_end_with_whoever_started_them() {
    for signal in [Signal::INT, Signal::KILL] {
        let directory = tempfile::tempdir().unwrap();
        let line = "--receiver-cpu 100% --time 100s --rates 100Mbps";
        let mut job = Job::start(&bench(&directory, line));
        let receivers = wait_for("a receiver", || {
            assert!(job.is_running(), "it ended: {}", job.stderr());
            Some(children(job.pid())).filter(|all| !all.is_empty())
        });
        job.signal(signal);
        let done = job.finish();
        if signal == Signal::INT {
            let told = done.expect(1).json();
            assert_eq!(
                (&told["interrupted"], &told["limited"]),
                (&true.into(), &serde_json::json!([])),
                "{told}"
            );
        }
        for receiver in receivers {
            let gone = || !std::path::Path::new(&format!("/proc/{receiver}")).exists();
            // Killed with its starter, it is a zombie until somebody else has waited for it.
            let dead = || {
                let text = std::fs::read_to_string(format!("/proc/{receiver}/stat")).unwrap_or_default();
                text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
            };
            wait_for("the receiver to end", || (gone() || dead()).then_some(()));
        }
    }
}

#[test]
fn what_cannot_be_compared_is_told_with_the_next_step() {
    for (line, hint) in [
        ("--format spead --receiver-cpu 50%", "add --experiments limited"),
        ("--format spead --experiments limited --receiver-cpu half", "50%"),
        ("--format spead --experiments limited --cpus 0,100000", "use one of the CPUs allowed"),
        ("--format spead --experiments limited --packet 63", "from 64 to 65507"),
        ("--format spead --experiments limited --receiver-cpu 100% --against=no-port", "{address}:{port}"),
        ("--against=other", "use `bench --format spead`"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let done = run(&format!("bench {line} --report {}", directory.path().display())).expect(2);
        assert!(done.stderr.contains("hint: ") && done.stderr.contains(hint), "{line}: {}", done.stderr);
    }
    let directory = tempfile::tempdir().unwrap();
    for (program, told) in [
        ("no-such-program {port}", "check the name"),
        ("sh -c exit {port}", "start it by hand to see its messages: sh -c exit {port}"),
    ] {
        let mut line = bench(&directory, "--receiver-cpu 100% --time 10ms --rounds 1");
        line.extend(["--against".to_owned(), program.to_owned()]);
        let done = Job::start(&line).finish().expect(2);
        assert!(done.stderr.contains("hint: ") && done.stderr.contains(told), "{program}: {}", done.stderr);
    }
}
