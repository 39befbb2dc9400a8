//! The file of a monitor, its metrics, and a monitor whose server goes and comes back.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use skyhaul::core::schedule::Period;
use skyhaul::peer::{Server, ServerOptions, Token};
use skyhaul_measure::probe::monitor::{
    HELD, Journal, Keep, Line, Monitor, MonitorOptions, Outcome, Test, Told, What,
};
use skyhaul_measure::probe::tcp::{TcpPoint, TcpService};
use skyhaul_measure::probe::udp::{Direction, Point, UdpService};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEEP: Keep = Keep { bytes: 100, files: 2, age: None };

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn files_of_lines_are_bounded_in_size_and_number() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.jsonl");
    let mut journal = Journal::open(&path, KEEP).unwrap();
    for n in 0..100 {
        journal.write(&format!("{{\"n\":{n:09}}}")).unwrap();
        for file in std::fs::read_dir(directory.path()).unwrap() {
            assert!(file.unwrap().metadata().unwrap().len() <= 100 + 16);
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
    let counts = journal.counts();
    assert_eq!((counts.written, counts.lost, counts.waiting), (100, 0, 0));
    // The newest are there, in order, none twice.
    let of = |name: &str| lines(&directory.path().join(name));
    let all: Vec<String> = [of("m.jsonl.2"), of("m.jsonl.1"), of("m.jsonl")].concat();
    let wanted: Vec<String> = (100 - all.len()..100).map(|n| format!("{{\"n\":{n:09}}}")).collect();
    assert_eq!(all, wanted);
    drop(journal);
    // None is kept, and old ones go.
    let mut journal = Journal::open(&path, Keep { files: 0, ..KEEP }).unwrap();
    (0..20).for_each(|n| journal.write(&format!("{n:09}")).unwrap());
    assert!(lines(&path).len() < 12);
    drop(journal);
    let mut journal = Journal::open(&path, Keep { age: Some(Duration::ZERO), ..KEEP }).unwrap();
    (0..40).for_each(|n| journal.write(&format!("{n:09}")).unwrap());
    assert!(!directory.path().join("m.jsonl.2").exists());
}

#[test]
fn only_one_monitor_writes_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.jsonl");
    let journal = Journal::open(&path, KEEP).unwrap();
    let said = Journal::open(&path, KEEP).unwrap_err().to_string();
    assert!(said.contains("another monitor") && said.contains("hint: "), "{said}");
    drop(journal);
    Journal::open(&path, KEEP).unwrap();
}

proptest! {
    #[test]
    fn what_a_kill_has_left_of_a_line_is_removed(text in "[a\n]{0,40}", long in 0usize..200_000, cut in 0usize..60) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.jsonl");
        let mut before = text.into_bytes();
        before.extend(std::iter::repeat_n(b'x', long * usize::from(cut % 3 == 0)));
        std::fs::write(&path, &before).unwrap();
        let whole = before.iter().rposition(|&o| o == b'\n').map_or(0, |at| at + 1);
        let mut journal = Journal::open(&path, Keep { bytes: 1 << 30, ..KEEP }).unwrap();
        prop_assert_eq!(journal.counts().cut_bytes, (before.len() - whole) as u64);
        journal.write("b\nc").unwrap();
        let after = std::fs::read(&path).unwrap();
        prop_assert_eq!(&after[..whole], &before[..whole]);
        prop_assert_eq!(&after[whole..], b"bc\n", "no line is two");
    }
}

#[test]
fn where_the_disk_takes_no_line_some_wait_and_the_rest_is_counted() {
    if !Path::new("/dev/full").exists() {
        println!("SKIPPED: a disk that is full (needs /dev/full)");
        return;
    }
    let mut journal = Journal::open(Path::new("/dev/full"), KEEP).unwrap();
    for n in 0..(HELD as u64 + 10) {
        let error = journal.write("{}").unwrap_err();
        assert!(error.to_string().contains("hint: free some space"), "{error}");
        let counts = journal.counts();
        assert_eq!((counts.written, counts.failures), (0, n + 1));
        assert_eq!(
            (counts.waiting, counts.lost),
            ((n + 1).min(HELD as u64), (n + 1).saturating_sub(HELD as u64))
        );
    }
}

fn serve(at: SocketAddr, token: &Token) -> Server {
    let services: Vec<Box<dyn skyhaul::peer::Service>> =
        vec![Box::new(UdpService::new().unwrap()), Box::new(TcpService)];
    Server::start(at, token.clone(), ServerOptions::default(), services).unwrap()
}

#[test]
fn a_server_that_goes_and_comes_back_is_counted_and_ends_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let token = Token::new("the-token-of-a-monitor").unwrap();
    let server = serve("127.0.0.1:0".parse().unwrap(), &token);
    let at = server.local();
    let period = Period { every: 50_000_000, jitter: 5_000_000 };
    let udp = What::Udp(Point::even(200, 1_000_000_000, Duration::from_millis(10)), Direction::Both, 1);
    let tcp = What::Tcp(TcpPoint { seconds: 0.05, ..TcpPoint::default() });
    let test = |name: &str, what| Test {
        name: name.to_owned(),
        server: "dtn2".to_owned(),
        period,
        what,
        fit: false,
    };
    let options = MonitorOptions {
        tests: vec![test("u \"1\"", udp), test("t", tcp)],
        token: token.clone(),
        lines: directory.path().join("m.jsonl"),
        keep: Keep { bytes: 1 << 30, ..KEEP },
        metrics: Some(directory.path().join("m.prom")),
        seed: 1,
        find: Box::new(move |host| if host == "dtn2" { Ok(vec![at]) } else { Err("who?".into()) }),
    };
    let mut monitor = Monitor::new(options).unwrap();
    let (stop, mut server, mut seen, mut back) = (AtomicBool::new(false), Some(server), Vec::new(), 0);
    let mut last = std::collections::BTreeMap::new();
    monitor.run(&stop, Some(Duration::from_secs(120)), &mut |told| {
        let Told::Ran(line) = told else { return };
        seen.push(line.outcome);
        last.insert(line.test.clone(), line.outcome);
        let both = |outcome| seen.iter().filter(|&&one| one == outcome).count();
        if server.is_some() && seen.len() >= 6 && back == 0 {
            server = None;
        } else if server.is_none() && both(Outcome::Away) >= 4 {
            back = seen.len();
            server = Some(serve(at, &token));
        } else if back > 0 && seen.len() >= back + 6 && last.values().all(|&one| one == Outcome::Done) {
            // On a busy machine the server may still have the test before, and one more is refused for that.
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(stop.load(Ordering::Relaxed), "{seen:?}");
    let report = monitor.report();
    let text = std::fs::read_to_string(directory.path().join("m.prom")).unwrap();
    assert_eq!(text, (monitor.metrics())(), "in both places the same");
    let read: Vec<Line> =
        lines(&directory.path().join("m.jsonl")).iter().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(read.iter().map(|line| line.outcome).collect::<Vec<_>>(), seen, "a line of each, in order");
    assert!(read.iter().any(|line| line.outcome == Outcome::Away && line.why.is_some()));
    for (n, of) in report.totals.tests.iter().enumerate() {
        let mine: Vec<&Line> = read.iter().filter(|line| line.test == of.test).collect();
        assert_eq!(of.runs.values().sum::<u64>(), mine.len() as u64);
        let last = mine.last().unwrap();
        assert_eq!(last.outcome, Outcome::Done, "it is back: {last:?}");
        assert!(last.slot < mine.len() as u64 + of.missed, "every slot ran or is counted");
        let lost: u64 = mine.iter().flat_map(|line| &line.udp).map(|way| way.lost).sum();
        assert_eq!(of.lost.values().sum::<u64>(), lost);
        match n {
            0 => {
                assert_eq!(last.udp.len(), 2);
                assert!(last.udp.iter().all(|way| way.sent > 0 && way.jitter_seconds.is_some()));
            }
            _ => {
                let flow = &last.tcp[0];
                assert!(
                    flow.bytes > 0 && flow.congestion_window_mean > 0 && flow.rtt_mean_seconds > 0.0,
                    "{flow:?}"
                );
                assert!(flow.moments.len() <= 20 && !flow.moments.is_empty());
            }
        }
    }
    assert!(
        text.contains(
            "skyhaul_monitor_runs_total{test=\"u \\\"1\\\"\",server=\"dtn2\",kind=\"udp\",outcome=\"away\"}"
        ),
        "{text}"
    );
}
