//! Both ends of this implementation with each other, and clients that are none. With the real iperf3: `tests/interop`.

use super::*;
use crate::probe::TestDirection;
use skyhaul_io::quantity::{Rate, Size};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Reports = Arc<Mutex<Vec<Iperf3Report>>>;

fn server(options: Iperf3ServerOptions) -> (Iperf3Server, Reports) {
    let reports = Reports::default();
    let kept = reports.clone();
    let keep = Box::new(move |report| kept.lock().unwrap().push(report));
    (Iperf3Server::start("127.0.0.1:0".parse().unwrap(), options, keep).unwrap(), reports)
}

fn client(to: SocketAddr, params: Iperf3Params) -> Result<Iperf3Report, Iperf3Error> {
    run(&Iperf3ClientOptions { params, ..Iperf3ClientOptions::new(to) }, &AtomicBool::new(false), &mut |_| {})
}

fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn bytes_and_datagrams_are_equal_at_both_ends_in_every_direction() {
    let (server, reports) = server(Iperf3ServerOptions::default());
    for udp in [false, true] {
        for way in [TestDirection::Forward, TestDirection::Reverse, TestDirection::Both] {
            let params = Iperf3Params {
                udp,
                way,
                streams: 2,
                bytes: 400_000,
                block: Size::from_bytes(1000),
                rate: Rate::from_bits_per_second(if udp { 20_000_000 } else { 0 }),
                wide: way == TestDirection::Reverse,
                ..Iperf3Params::default()
            };
            let report = client(server.local(), params).unwrap();
            let streams = if way == TestDirection::Both { 4 } else { 2 };
            assert_eq!(report.streams.len(), streams, "{udp} {way:?}");
            for stream in &report.streams {
                let (here, there) = (stream.here, stream.there.unwrap());
                let what = format!("{udp} {way:?} {} {here:?} {there:?}", stream.id);
                // Of both directions, the first that is through ends the other.
                if way != TestDirection::Both || !udp {
                    assert_eq!(here.bytes, there.bytes, "{what}");
                    assert_eq!((here.packets, here.lost), (there.packets, there.lost), "{what}");
                }
            }
            if way != TestDirection::Both {
                assert_eq!(report.sum(way == TestDirection::Forward, true).bytes, 400_000, "{udp} {way:?}");
            }
            assert!(json(&report)["end"]["sum_sent"]["bytes"].as_u64().unwrap() > 0);
            assert!(!lines(&report).is_empty());
        }
    }
    until(|| server.stats().done == 6);
    assert_eq!((reports.lock().unwrap().len(), server.stats().failed), (6, 0));
}

#[test]
fn blocks_time_omission_and_the_servers_report_are_what_was_asked_for() {
    let (server, reports) = server(Iperf3ServerOptions::default());
    let blocks = Iperf3Params {
        blocks: 50,
        block: Size::from_bytes(2000),
        server_output: true,
        ..Iperf3Params::default()
    };
    let report = client(server.local(), blocks).unwrap();
    assert_eq!((report.sum(true, true).bytes, report.sum(true, false).bytes), (100_000, 100_000));
    let output = report.peer_output.as_ref().and_then(|output| output.as_str()).unwrap();
    assert!(output.contains("100000 bytes"), "{output}");
    let timed = Iperf3Params {
        time: Duration::from_secs(1),
        omit: Duration::from_secs(1),
        rate: Rate::from_bits_per_second(40_000_000),
        block: Size::from_bytes(10_000),
        title: Some("a title".into()),
        ..Iperf3Params::default()
    };
    let report = client(server.local(), timed).unwrap();
    assert_eq!(json(&report)["title"], "a title");
    let intervals = &report.streams[0].intervals;
    assert!(intervals.iter().any(|i| i.omitted) && intervals.iter().any(|i| !i.omitted), "{intervals:?}");
    // Both ends omit the first second by their own clocks: some blocks may fall on either side.
    let (here, there) = (report.sum(true, true).bytes, report.sum(true, false).bytes);
    assert!(here.abs_diff(there) <= 2_500_000, "{here} {there}");
    until(|| reports.lock().unwrap().len() == 2);
    assert_eq!(reports.lock().unwrap()[1].asked.omit, 1);
}

#[test]
fn eight_clients_are_served_at_once_and_one_more_is_told_to_come_later() {
    let (server, _) = server(Iperf3ServerOptions { tests: 8, ..Iperf3ServerOptions::default() });
    let to = server.local();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|n| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let params = Iperf3Params {
                    udp: n % 2 == 1,
                    time: Duration::from_secs(60),
                    rate: Rate::from_bits_per_second(4_000_000),
                    block: Size::from_bytes(1000),
                    ..Iperf3Params::default()
                };
                run(&Iperf3ClientOptions { params, ..Iperf3ClientOptions::new(to) }, &stop, &mut |_| {})
                    .unwrap()
            })
        })
        .collect();
    until(|| server.stats().tests == 8);
    assert!(matches!(client(to, Iperf3Params::default()), Err(Iperf3Error::Busy)));
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Relaxed);
    for report in clients.into_iter().map(|client| client.join().unwrap()) {
        let (here, there) = (report.sum(true, true), report.sum(true, false));
        assert!(here.bytes > 0);
        assert_eq!((here.bytes, here.packets), (there.bytes, there.packets), "{}", report.asked.udp);
    }
    until(|| server.stats().done == 8);
    let stats = server.stats();
    assert_eq!((stats.denied, stats.failed), (1, 0));
}

#[test]
fn what_a_server_does_not_permit_is_refused_with_its_number() {
    let options = Iperf3ServerOptions {
        longest: Duration::from_secs(5),
        rate: Rate::from_bits_per_second(1_000_000),
        ..Iperf3ServerOptions::default()
    };
    let (server, reports) = server(options);
    let refused = |params| match client(server.local(), params) {
        Err(Iperf3Error::Server(code)) => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Iperf3Params::default()), control::code::TOO_LONG_HERE);
    let short = Iperf3Params { time: Duration::from_secs(1), ..Iperf3Params::default() };
    assert_eq!(refused(short.clone()), control::code::RATE, "as fast as possible is faster than any limit");
    assert_eq!(refused(Iperf3Params { streams: 200, ..short }), control::code::STREAMS);
    until(|| server.stats().failed == 3);
    assert!(reports.lock().unwrap().iter().all(|report| report.error.is_some()));
}

#[test]
fn clients_that_are_none_are_counted_and_disturb_nobody() {
    let (server, _) = server(Iperf3ServerOptions {
        guests: 20,
        idle: Duration::from_secs(1),
        ..Iperf3ServerOptions::default()
    });
    let to = server.local();
    let connect = || TcpStream::connect(to).unwrap();
    // Something else than a cookie.
    connect().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(connect());
    // Many that say nothing.
    let silent: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    let cookie = |letter: u8| [&[letter; 36][..], &[0]].concat();
    // A length of four gigabytes.
    let mut huge = connect();
    huge.write_all(&cookie(b'h')).unwrap();
    huge.write_all(&[0xFF; 8]).unwrap();
    // One that vanishes in the middle of the test, and one that does not go on.
    let begin = |letter: u8| {
        let mut control = connect();
        control.write_all(&cookie(letter)).unwrap();
        let text = Iperf3Params::default().write().to_string();
        control.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
        control.write_all(text.as_bytes()).unwrap();
        let mut state = [0];
        while state[0] != control::Iperf3State::CreateStreams.octet() {
            control.read_exact(&mut state).unwrap();
        }
        let mut stream = connect();
        stream.write_all(&cookie(letter)).unwrap();
        while state[0] != control::Iperf3State::TestRunning.octet() {
            control.read_exact(&mut state).unwrap();
        }
        (control, stream)
    };
    drop(begin(b'v'));
    let stuck = begin(b's');
    // A stream that no test waits for.
    connect().write_all(&cookie(b's')).unwrap();
    until(|| server.stats().failed == 3 && server.stats().late_streams == 1);
    let stats = server.stats();
    assert!(stats.garbage >= 2 && stats.pushed_out >= 180, "{stats:?}");
    // Words of nobody who is waited for are not answered.
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(&datagram::HELLO, to).unwrap();
    stranger.send_to(b"x", to).unwrap();
    until(|| server.stats().stray_datagrams == 2);
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut [0; 10]).is_err());
    let whole = client(to, Iperf3Params { bytes: 100_000, ..Iperf3Params::default() }).unwrap();
    assert_eq!(whole.sum(true, false).bytes, 100_000);
    drop((silent, stuck, huge));
}

#[test]
fn a_server_that_ends_tells_its_clients() {
    let (server, _) = server(Iperf3ServerOptions::default());
    let to = server.local();
    let client = std::thread::spawn(move || {
        client(to, Iperf3Params { time: Duration::from_secs(60), ..Iperf3Params::default() })
    });
    until(|| server.stats().tests == 1 && server.running() == 1);
    std::thread::sleep(Duration::from_millis(200));
    drop(server);
    let ended = client.join().unwrap();
    assert!(matches!(ended, Err(Iperf3Error::Terminated | Iperf3Error::Gone)), "{ended:?}");
}
