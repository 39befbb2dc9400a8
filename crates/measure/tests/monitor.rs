//! The file of a monitor, its metrics, and a monitor whose server goes and comes back.
#![allow(clippy::unwrap_used)]

use skyhaul::core::schedule::Period;
use skyhaul::peer::{Server, ServerOptions, Token};
use skyhaul_measure::probe::monitor::{
    Monitor, MonitorEvent, MonitorOptions, MonitorRecord, MonitorTest, Retention, TestOutcome, TestSpec,
};
use skyhaul_measure::probe::tcp::{TcpPoint, TcpService};
use skyhaul_measure::probe::udp::{TestDirection, UdpPoint, UdpService};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEEP: Retention = Retention { bytes: 100, files: 2, age: None };

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(str::to_owned).collect()
}

fn serve(at: SocketAddr, token: &Token) -> Server {
    let services: Vec<Box<dyn skyhaul::peer::Service>> =
        vec![Box::new(UdpService::new().unwrap()), Box::new(TcpService::default())];
    Server::start(at, token.clone(), ServerOptions::default(), services).unwrap()
}

#[test]
fn a_server_that_goes_and_comes_back_is_counted_and_ends_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let token = Token::new("the-token-of-a-monitor").unwrap();
    let server = serve("127.0.0.1:0".parse().unwrap(), &token);
    let at = server.local();
    let period = Period { every: 50_000_000, jitter: 5_000_000 };
    let udp =
        TestSpec::Udp(UdpPoint::even(200, 1_000_000_000, Duration::from_millis(10)), TestDirection::Both, 1);
    let tcp = TestSpec::Tcp(TcpPoint { seconds: 0.05, ..TcpPoint::default() });
    let test = |name: &str, what| MonitorTest {
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
        keep: Retention { bytes: 1 << 30, ..KEEP },
        metrics: Some(directory.path().join("m.prom")),
        seed: 1,
        find: Box::new(move |host| if host == "dtn2" { Ok(vec![at]) } else { Err("who?".into()) }),
    };
    let mut monitor = Monitor::new(options).unwrap();
    let (stop, mut server, mut seen, mut back) = (AtomicBool::new(false), Some(server), Vec::new(), 0);
    let mut last = std::collections::BTreeMap::new();
    monitor.run(&stop, Some(Duration::from_secs(120)), &mut |told| {
        let MonitorEvent::Ran(line) = told else { return };
        seen.push(line.outcome);
        last.insert(line.test.clone(), line.outcome);
        let both = |outcome| seen.iter().filter(|&&one| one == outcome).count();
        if server.is_some() && seen.len() >= 6 && back == 0 {
            server = None;
        } else if server.is_none() && both(TestOutcome::Away) >= 4 {
            back = seen.len();
            server = Some(serve(at, &token));
        } else if back > 0 && seen.len() >= back + 6 && last.values().all(|&one| one == TestOutcome::Done) {
            // On a busy machine the server may still have the test before, and one more is refused for that.
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(stop.load(Ordering::Relaxed), "{seen:?}");
    let report = monitor.report();
    let text = std::fs::read_to_string(directory.path().join("m.prom")).unwrap();
    assert_eq!(text, (monitor.metrics())(), "in both places the same");
    let read: Vec<MonitorRecord> =
        lines(&directory.path().join("m.jsonl")).iter().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(read.iter().map(|line| line.outcome).collect::<Vec<_>>(), seen, "a line of each, in order");
    assert!(read.iter().any(|line| line.outcome == TestOutcome::Away && line.why.is_some()));
    for (n, of) in report.totals.tests.iter().enumerate() {
        let mine: Vec<&MonitorRecord> = read.iter().filter(|line| line.test == of.test).collect();
        assert_eq!(of.runs.values().sum::<u64>(), mine.len() as u64);
        let last = mine.last().unwrap();
        assert_eq!(last.outcome, TestOutcome::Done, "it is back: {last:?}");
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
