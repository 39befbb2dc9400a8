//! The real iperf3 as client and as server: the same bytes and datagrams at both ends, for every option that is spoken.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use skyhaul::io::quantity::{Rate, Size};
use skyhaul_measure::probe::iperf3::{
    Iperf3ClientOptions, Iperf3Params, Iperf3Report, Iperf3Server, Iperf3ServerOptions, StreamTotals,
    TestDirection, run,
};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

fn missing() -> bool {
    let there = Command::new("iperf3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("SKIPPED: no iperf3 here (apt-get install iperf3)");
    }
    !there
}

fn server(options: Iperf3ServerOptions) -> (Iperf3Server, Receiver<Iperf3Report>) {
    let (give, reports) = channel();
    let report = Box::new(move |report| drop(give.send(report)));
    (Iperf3Server::start("127.0.0.1:0".parse().unwrap(), options, report).unwrap(), reports)
}

/// What a test ends with cannot be told, or its thread dies: its place is free all the same.
#[test]
fn a_test_whose_report_panics_gives_its_place_back() {
    let options = Iperf3ServerOptions { tests: 1, ..Iperf3ServerOptions::default() };
    let report = Box::new(|_| panic!("nobody takes it"));
    let server = Iperf3Server::start("127.0.0.1:0".parse().unwrap(), options, report).unwrap();
    for n in 0..3 {
        let params = Iperf3Params { time: Duration::ZERO, bytes: 1 << 20, ..Iperf3Params::default() };
        let client = Iperf3ClientOptions { params, ..Iperf3ClientOptions::new(server.local()) };
        let done = run(&client, &AtomicBool::new(false), &mut |_| {});
        assert!(done.is_ok(), "test {n}: {done:?}");
        let begun = Instant::now();
        while server.running() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "test {n} keeps its place");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(server.is_running());
}

fn start(port: u16, options: &str) -> Child {
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-J", "-p", &port.to_string()]).args(options.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

fn output(child: Child) -> Value {
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

fn number(json: &Value, path: &str) -> f64 {
    json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {json}"))
}

/// Rates are the same, as far as a busy machine lets both ends begin and end together: on a calm one within 1 %.
fn same_rate(what: &str, one: f64, other: f64) {
    assert!((one / other - 1.0).abs() <= 0.25, "{what}: {one} {other}");
}

#[test]
fn clients_of_iperf3_get_what_they_ask_for() {
    if missing() {
        return;
    }
    let (server, reports) = server(Iperf3ServerOptions::default());
    let port = server.local().port();
    // Those that end by a number of bytes or blocks move the same in every run.
    for options in [
        "-n 3M -l 10000",
        "-k 200 -l 8K -P 4",
        "-n 4M -R",
        "-k 100 -l 20000 -R -P 2",
        "-n 2M -w 200K -C reno -M 1000 -N -S 32",
        "-n 3M -b 100M",
        "-n 3M -Z -R",
        "-n 2M --get-server-output -T title",
        "-u -n 600K -b 20M -l 1000",
        "-u -k 300 -b 20M -l 1200 -P 2",
        // As much as waits in the default buffer of a client that is not on a processor: none is lost for that.
        "-u -n 80K -b 20M -l 1000 -R",
        "-u -n 600K -b 20M -l 1000 --udp-counters-64bit",
        "-u -k 240 -b 20M -l 1000 --udp-counters-64bit -R -P 3",
    ] {
        let json = output(start(port, options));
        let report = reports.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((json.get("error"), &report.error), (None, &None), "{options}");
        let udp = options.starts_with("-u");
        let ours_sends = options.contains("-R");
        let ours = report.sum(ours_sends, true);
        let name = if ours_sends { "sum_received" } else { "sum_sent" };
        let theirs = if udp { "sum" } else { name };
        let what = format!("{options}: {ours:?} {}", json["end"]);
        if ours_sends && !udp {
            assert_eq!(number(&json, "/end/sum_sent/bytes"), ours.bytes as f64, "{what}");
            // A client that receives stops counting when it has what it asked for, and each read is a block to it,
            // however little it got: of blocks it may stop well before the last.
            let received = number(&json, "/end/sum_received/bytes");
            let least = if options.contains("-k") { 1.0 } else { ours.bytes as f64 };
            assert!((least..=ours.bytes as f64).contains(&received), "{what}");
        } else if !udp {
            assert_eq!(number(&json, "/end/sum_sent/bytes"), ours.bytes as f64, "{what}");
            assert_eq!(number(&json, "/end/sum_received/bytes"), ours.bytes as f64, "{what}");
        } else {
            let streams = report.asked.streams as f64;
            let slack = if ours_sends { streams } else { 0.0 };
            let packets = number(&json, &format!("/end/{theirs}/packets"));
            assert!((packets - ours.packets as f64).abs() <= slack, "{what}");
            assert_eq!((number(&json, "/end/sum/lost_packets"), ours.lost), (0.0, 0), "{what}");
        }
        if options.contains("--get-server-output") {
            assert!(json["server_output_text"].as_str().unwrap().contains("bytes in"), "{json}");
        }
    }
    let stats = server.stats();
    assert_eq!((stats.failed, stats.garbage, stats.late_streams), (0, 0, 0));
}

#[test]
fn a_client_of_iperf3_that_runs_for_a_time_sees_the_rates_that_the_server_sees() {
    if missing() {
        return;
    }
    let (server, reports) = server(Iperf3ServerOptions::default());
    let port = server.local().port();
    for options in [
        "-t 3 -b 200M",
        "-t 3 -b 200M -R",
        "-t 2 -O 1 -b 100M",
        "-u -t 3 -b 50M -l 1200",
        "-t 2 --bidir -b 50M",
    ] {
        let json = output(start(port, options));
        let report = reports.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((json.get("error"), &report.error), (None, &None), "{options}");
        let reverse = options.contains("-R");
        let both = options.contains("--bidir");
        let received = report.sum(false, true);
        let sent = report.sum(true, true);
        let asked = report.asked.rate as f64;
        if !reverse || both {
            // What was sent in the omitted time may be counted here where the other end omits it, and the other way round.
            let (theirs, ours) = (number(&json, "/end/sum_sent/bits_per_second"), received.bits_per_second);
            same_rate(options, theirs, ours);
            assert!(ours <= asked * 1.05, "{options}: {ours}");
        }
        if reverse || both {
            let path = if both {
                "/end/sum_sent_bidir_reverse/bits_per_second"
            } else {
                "/end/sum_sent/bits_per_second"
            };
            same_rate(options, number(&json, path), sent.bits_per_second);
        }
        assert_eq!(report.streams.len(), if both { 2 } else { 1 });
    }
}

#[test]
fn eight_clients_of_iperf3_are_served_at_once() {
    if missing() {
        return;
    }
    let (server, reports) = server(Iperf3ServerOptions::default());
    let port = server.local().port();
    let options = |n: usize| match n % 4 {
        0 => "-n 1M -b 8M -l 10000",
        1 => "-u -n 1M -b 8M -l 1000",
        2 => "-n 1M -b 8M -l 10000 -R -P 2",
        _ => "-u -n 1M -b 8M -l 1000 -R",
    };
    let clients: Vec<Child> = (0..8).map(|n| start(port, options(n))).collect();
    let begun = Instant::now();
    let mut most = 0;
    while reports.try_recv().is_err() {
        most = most.max(server.running());
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(most, 8, "they ran at once");
    for (n, client) in clients.into_iter().enumerate() {
        let json = output(client);
        assert_eq!(json.get("error"), None, "{}", options(n));
        let path = if n % 2 == 1 { "/end/sum/bytes" } else { "/end/sum_received/bytes" };
        assert!(number(&json, path) >= 1_000_000.0, "{}: {}", options(n), json["end"]);
    }
}

/// A server of iperf3 for one test, on a free port.
struct Theirs {
    child: Child,
    at: SocketAddr,
}

impl Theirs {
    fn start() -> Self {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-J", "-B", "127.0.0.1", "-p", &at.port().to_string()]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let table = || std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let listens = format!("0100007F:{:04X} 00000000:0000 0A", at.port());
        let begun = Instant::now();
        while !table().contains(&listens) {
            assert!(begun.elapsed() < Duration::from_secs(10), "iperf3 does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, at }
    }

    /// Run a test with it; our report, and what it said of it.
    fn with(self, params: Iperf3Params) -> (Iperf3Report, Value) {
        let options = Iperf3ClientOptions { params, ..Iperf3ClientOptions::new(self.at) };
        let report = run(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
        (report, output(self.child))
    }
}

#[test]
fn a_server_of_iperf3_gets_and_gives_what_we_ask_for() {
    if missing() {
        return;
    }
    let tcp = Iperf3Params { bytes: 3_000_000, block: Size::from_bytes(10_000), ..Iperf3Params::default() };
    // No more than fits in the default socket buffer of an iperf3 that has no processor for a while, so that it loses none.
    let udp = Iperf3Params {
        udp: true,
        bytes: 80_000,
        block: Size::from_bytes(1000),
        rate: Rate::from_bits_per_second(2_000_000),
        ..Iperf3Params::default()
    };
    for params in [
        tcp.clone(),
        Iperf3Params { streams: 3, ..tcp.clone() },
        Iperf3Params { way: TestDirection::Reverse, ..tcp.clone() },
        Iperf3Params { bytes: 0, blocks: 100, zero_copy: true, ..tcp.clone() },
        Iperf3Params {
            window: Some(Size::from_bytes(200_000)),
            congestion: Some("reno".into()),
            segment: Some(1000),
            no_delay: true,
            tos: 32,
            ..tcp.clone()
        },
        Iperf3Params { server_output: true, title: Some("title".into()), ..tcp },
        udp.clone(),
        Iperf3Params { wide: true, streams: 2, ..udp.clone() },
        Iperf3Params { way: TestDirection::Reverse, ..udp.clone() },
        Iperf3Params { way: TestDirection::Reverse, wide: true, ..udp },
    ] {
        let (report, json) = Theirs::start().with(params.clone());
        let what = format!("{params:?}\n{:?}\n{}", report.streams, json["end"]);
        assert_eq!(report.error, None, "{what}");
        let sends = params.way == TestDirection::Forward;
        let (here, there) = (report.sum(sends, true), report.sum(sends, false));
        let wanted = params.amount().unwrap();
        // A server of iperf3 that sends goes on until it is told.
        let most = if sends { wanted + 4 * params.block.bytes() } else { u64::MAX };
        assert!(here.bytes >= wanted && here.bytes <= most, "{what}");
        if params.udp {
            no_more_came(&here, &there, sends, &what);
        } else {
            assert_eq!(here.bytes, there.bytes, "{what}");
        }
        if params.server_output {
            assert!(report.peer_output.is_some(), "{what}");
        }
        assert!(
            json["end"]["streams"].as_array().is_some_and(|streams| streams.len() == params.streams),
            "{what}"
        );
    }
}

/// Of datagrams, iperf3 reads none that still wait in its socket when it is told of the end: on a busy machine some do.
fn no_more_came(here: &StreamTotals, there: &StreamTotals, sends: bool, what: &str) {
    let (sent, came) = if sends { (here, there) } else { (there, here) };
    assert!(came.packets > 0 && came.packets <= sent.packets, "{what}");
    assert!(came.bytes > 0 && came.bytes <= sent.bytes, "{what}");
    assert_eq!((here.lost, there.lost), (0, 0), "{what}");
}

#[test]
fn a_test_in_both_directions_with_a_server_of_iperf3_has_four_sums() {
    if missing() {
        return;
    }
    let params = Iperf3Params {
        way: TestDirection::Both,
        time: Duration::from_secs(2),
        omit: Duration::from_secs(1),
        rate: Rate::from_bits_per_second(40_000_000),
        block: Size::from_bytes(20_000),
        ..Iperf3Params::default()
    };
    let (report, _) = Theirs::start().with(params);
    let json = skyhaul_measure::probe::iperf3::json(&report);
    for name in ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"] {
        let rate = number(&json, &format!("/end/{name}/bits_per_second"));
        assert!(rate > 20e6 && rate < 50e6, "{name} {rate}");
    }
    assert!(json["end"]["cpu_utilization_percent"]["remote_total"].as_f64().is_some());
}
