//! Flows over loopback: what one end says it sent, the other received.

use super::*;
use crate::probe::TestDirection;
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::bulk::{Put, Take};
use skyhaul_io::tcp::setup::Setup;
use std::io::Read as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn pairs(n: usize, setup: &Setup) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let listener = setup.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    (0..n)
        .map(|_| {
            let stream = setup.connect(to, Duration::from_secs(5)).unwrap();
            (stream, listener.accept().unwrap().0)
        })
        .unzip()
}

fn flows(streams: Vec<TcpStream>, direction: FlowDirection) -> Vec<TcpFlow> {
    streams.into_iter().map(|stream| TcpFlow::new(stream, direction)).collect()
}

/// Run both ends; the sender's and the receiver's report.
fn both(n: usize, send: TcpRunOptions, receive: TcpRunOptions) -> (TcpReport, TcpReport) {
    // Small writes that wait for acknowledgements (Nagle) would be the path's, not the application's.
    let (out, into) = pairs(n, &Setup { no_delay: true, ..Setup::default() });
    let receiver = std::thread::spawn(move || run(flows(into, FlowDirection::Receive), receive).unwrap());
    let sent = run(flows(out, FlowDirection::Send), send).unwrap();
    (sent, receiver.join().unwrap())
}

#[test]
fn every_way_of_moving_bytes_moves_the_amount_and_no_more() {
    for (put, take, flows) in
        [(Put::Copy, Take::Copy, 1), (Put::File, Take::Drop, 2), (Put::Copy, Take::Drop, 3)]
    {
        let bytes = 10_000_001;
        let send = TcpRunOptions {
            amount: TestAmount::Bytes(bytes),
            block: Size::from_bytes(64 << 10),
            put,
            ..TcpRunOptions::default()
        };
        let (sent, received) = both(flows, send, TcpRunOptions { take, ..TcpRunOptions::default() });
        assert_eq!((sent.bytes, received.bytes), (bytes, bytes), "{put:?} {take:?}");
        assert_eq!((sent.flows.len(), received.flows.len()), (flows, flows));
        assert!(sent.flows.iter().chain(&received.flows).all(|flow| flow.error.is_none()));
        assert!(sent.seconds > 0.0 && sent.bits_per_second > 0.0);
    }
}

#[test]
fn blocks_are_whole_and_counted_over_all_flows() {
    let send = TcpRunOptions {
        amount: TestAmount::Blocks(100),
        block: Size::from_bytes(3000),
        ..TcpRunOptions::default()
    };
    let (sent, received) = both(4, send, TcpRunOptions::default());
    assert_eq!((sent.bytes, received.bytes), (300_000, 300_000));
}

#[test]
fn time_rate_and_omission_are_kept() {
    let send = TcpRunOptions {
        amount: TestAmount::Time(Duration::from_millis(400)),
        omit: Duration::from_millis(200),
        rate: Rate::from_bits_per_second(80_000_000),
        block: Size::from_bytes(10_000),
        interval: Duration::from_millis(100),
        ..TcpRunOptions::default()
    };
    let (sent, received) = both(1, send, TcpRunOptions::default());
    let flow = &sent.flows[0];
    // 600 ms at 10 MB/s; how late a busy machine ends it is not tested, only that the rate is not exceeded.
    let total = flow.bytes + flow.omitted_bytes;
    assert!(total <= (flow.end * 10e6) as u64 + 20_000, "{total} in {} s", flow.end);
    assert!(flow.omitted_bytes > 0 && flow.bytes > 0, "{} {}", flow.omitted_bytes, flow.bytes);
    assert_eq!(total, received.bytes, "the other end omits nothing");
    assert!(flow.intervals.iter().any(|i| i.omitted) && flow.intervals.iter().any(|i| !i.omitted));
    assert_eq!(flow.intervals.iter().map(|i| i.bytes).sum::<u64>(), total);
    assert_eq!(flow.verdict.as_ref().unwrap().bound, TcpBottleneck::Application, "{:?}", flow.verdict);
}

#[test]
fn a_small_window_of_the_receiver_is_named() {
    let small = Setup { window: Some(Size::from_bytes(8_000)), ..Setup::default() };
    let listener = small.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let out = Setup::default().connect(listener.local_addr().unwrap(), Duration::from_secs(5)).unwrap();
    let mut into = listener.accept().unwrap().0;
    let done = AtomicBool::new(false);
    let flow = std::thread::scope(|scope| {
        // Opens the window by so little and so seldom that the loopback has no share in it, however busy the machine is.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && into.read(&mut [0; 1_000]).is_ok_and(|n| n > 0) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let send = TcpRunOptions {
            amount: TestAmount::Time(Duration::from_millis(500)),
            ..TcpRunOptions::default()
        };
        let sent = run(flows(vec![out], FlowDirection::Send), send).unwrap();
        done.store(true, Ordering::Relaxed);
        sent.flows.into_iter().next().unwrap()
    });
    let parts = flow.waited.unwrap();
    let sum = parts.application + parts.receive_window + parts.send_buffer + parts.path;
    assert!((sum - 1.0).abs() < 1e-9, "{parts:?}");
    let verdict = flow.verdict.unwrap();
    assert!(
        matches!(verdict.bound, TcpBottleneck::ReceiveWindow | TcpBottleneck::SlowReceiver),
        "{verdict:?}"
    );
    assert!(verdict.text.contains("receiver's window") && verdict.hint.is_some(), "{verdict:?}");
}

/// A receiver with a buffer of 64 KiB, and the reader of this habit: parts of its time away for a short while, and in pauses.
fn away(reader: ReaderHabit) -> (f64, f64, ReaderReport) {
    let small = Setup { window: Some(Size::from_bytes(64 << 10)), ..Setup::default() };
    let (out, into) = pairs(1, &small);
    let receive = TcpRunOptions { reader, ..TcpRunOptions::default() };
    let receiving = TcpRun::start(flows(into, FlowDirection::Receive), receive).unwrap();
    // A rate that a quick reader keeps up with, and a slow one does not.
    let send = TcpRunOptions {
        amount: TestAmount::Time(Duration::from_millis(700)),
        rate: Rate::from_bits_per_second(200_000_000),
        block: Size::from_bytes(10_000),
        ..TcpRunOptions::default()
    };
    let sent = run(flows(out, FlowDirection::Send), send).unwrap();
    let received = receiving.finish();
    assert!(sent.flows[0].reader.is_none(), "a sender reads nothing");
    let report = received.flows[0].reader.unwrap();
    assert_eq!(report.buffer_limit, received.flows[0].receive_buffer, "a buffer that was set is not tuned");
    (report.short_seconds / report.seconds, report.paused_seconds / report.seconds, report)
}

#[test]
fn a_receiver_reports_what_its_thread_did() {
    // A busy machine makes anything pause, but no pause vanish.
    let (length, period) = (Duration::from_millis(60), Duration::from_millis(100));
    let (_, paused, report) = away(ReaderHabit::Pauses { length, period });
    assert!(paused > 0.4 && report.pauses >= 4 && report.longest_pause > 0.055, "{report:?}");
    let (short, paused, report) = away(ReaderHabit::Slow(Rate::from_bits_per_second(8_000_000)));
    assert!(short + paused > 0.7, "{report:?}");
}

#[test]
fn flows_end_when_stopped_and_the_drain_takes_what_is_under_way() {
    let (out, into) = pairs(1, &Setup::default());
    let options = TcpRunOptions { drain: Duration::from_millis(100), ..TcpRunOptions::default() };
    let receiving = TcpRun::start(flows(into, FlowDirection::Receive), options).unwrap();
    let sending = TcpRun::start(flows(out, FlowDirection::Send), TcpRunOptions::default()).unwrap();
    while receiving.moved().1 < 1 << 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!sending.is_done() && !receiving.is_done());
    sending.stop();
    while !sending.is_done() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The sender's socket stays open: the receiver ends because it is stopped.
    receiving.stop();
    let received = receiving.finish();
    let sent = sending.finish();
    assert_eq!(sent.bytes, received.bytes);
    assert!(sent.flows[0].trace.len() > 1);
}

#[test]
fn staggered_flows_begin_one_after_the_other() {
    let send = TcpRunOptions {
        amount: TestAmount::Time(Duration::from_millis(300)),
        stagger: Duration::from_millis(50),
        ..TcpRunOptions::default()
    };
    let (sent, _) = both(3, send, TcpRunOptions::default());
    let begins: Vec<f64> = sent.flows.iter().map(|flow| flow.begin).collect();
    assert!(begins[1] >= 0.05 && begins[2] >= 0.1, "{begins:?}");
}

#[test]
fn no_flows_and_too_many_are_errors() {
    assert!(TcpRun::start(Vec::new(), TcpRunOptions::default()).is_err());
    let (out, into) = pairs(1, &Setup::default());
    drop(into);
    let options = TcpRunOptions { cpus: vec![100_000], ..TcpRunOptions::default() };
    let report = run(flows(out, FlowDirection::Send), options).unwrap();
    assert!(report.flows[0].error.as_ref().is_some_and(|error| error.contains("CPU 100000")));
}

#[test]
fn two_hosts_measure_points_in_every_direction() {
    use skyhaul::peer::{Server, ServerOptions, Token};
    let token = Token::new("a-token-for-this-test").unwrap();
    let services: Vec<Box<dyn skyhaul::peer::Service>> = vec![Box::new(TcpService::default())];
    let at = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(at, token.clone(), ServerOptions::default(), services).unwrap();
    let point = TcpPoint { flows: 2, block: 50_000, bytes: Some(4_000_000), ..TcpPoint::default() };
    let timed =
        TcpPoint { bytes: None, seconds: 0.3, pacing: 40_000_000, window: Some(200_000), ..point.clone() };
    let points = [
        point.clone(),
        TcpPoint { way: TestDirection::Reverse, zero_copy: true, discard: true, ..point.clone() },
        timed.clone(),
        TcpPoint { way: TestDirection::Reverse, congestion: Some("reno".into()), ..timed.clone() },
        TcpPoint { way: TestDirection::Both, flows: 1, ..timed },
    ];
    let mut client = TcpClient::open(&[server.local()], &token, &points, &mut |_| true).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    for point in points {
        let report = client.point(&point, &stop).unwrap();
        // A window of 1 GiB over a round trip of loopback is more than any rate.
        let expected = report.expected.iter().flatten();
        assert!(expected.clone().count() > 0);
        assert!(expected.clone().all(|e| e.largest_window > e.bits_per_second && e.flows_needed == 1.0));
        let (here, there) = (report.here, report.there);
        assert_eq!((here.flows.len(), there.flows.len()), (point.connections(), point.connections()));
        assert!(here.flows.iter().chain(&there.flows).all(|flow| flow.error.is_none()), "{point:?}");
        for (one, other) in here.flows.iter().zip(&there.flows) {
            assert_ne!(one.direction, other.direction);
            assert_eq!(one.bytes, other.bytes, "{point:?} {one:?} {other:?}");
        }
        if let Some(bytes) = point.bytes {
            assert_eq!(here.bytes, bytes);
        }
        if point.congestion.is_some() {
            assert!(here.flows.iter().all(|flow| flow.congestion == "reno"));
        }
    }
    let wrong = TcpPoint { flows: 1000, ..point.clone() };
    let refused = client.point(&wrong, &stop).unwrap_err().to_string();
    assert!(refused.contains("1000 flows"), "{refused}");
    assert!(client.point(&point, &stop).is_ok(), "it goes on");
    client.end().unwrap();
}

/// A server that measures, and then never reports.
struct Silent(std::sync::Arc<AtomicBool>);

impl skyhaul::peer::Service for Silent {
    fn name(&self) -> &'static str {
        super::protocol::NAME
    }
    fn admit(
        &self,
        _: &serde_json::Value,
        _: &skyhaul::peer::Limits,
    ) -> Result<skyhaul::peer::Admission, String> {
        Ok(skyhaul::peer::Admission::slot(Duration::from_secs(60)))
    }
    fn run(
        &self,
        session: &mut skyhaul::peer::Session<'_>,
        _: serde_json::Value,
    ) -> Result<(), skyhaul::peer::PeerError> {
        use super::protocol::{TcpCommand, TcpReply};
        let _: TcpCommand = session.connection.receive(Duration::from_secs(20))?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let (port, cookie) = (listener.local_addr()?.port(), "c".repeat(super::protocol::COOKIE_BYTES));
        session.connection.send(&TcpReply::Open { port, cookie })?;
        let mut flow = listener.accept()?.0;
        session.connection.send(&TcpReply::Ready)?;
        let reader = std::thread::spawn(move || while flow.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
        let _: TcpCommand = session.connection.receive(Duration::from_secs(20))?;
        self.0.store(true, Ordering::Relaxed);
        while !session.connection.is_gone() {
            std::thread::sleep(Duration::from_millis(5));
        }
        reader.join().map_err(|_| session.connection.unexpected("the reader"))
    }
}

#[test]
fn a_stop_while_the_report_is_awaited_ends_the_wait_and_keeps_what_this_end_measured() {
    use skyhaul::peer::{Server, ServerOptions, Token};
    let token = Token::new("a-token-for-this-test").unwrap();
    let (awaited, stop) = (std::sync::Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let at = "127.0.0.1:0".parse().unwrap();
    let services: Vec<Box<dyn skyhaul::peer::Service>> = vec![Box::new(Silent(awaited.clone()))];
    let server = Server::start(at, token.clone(), ServerOptions::default(), services).unwrap();
    let point = TcpPoint { bytes: Some(1_000_000), ..TcpPoint::default() };
    let mut client =
        TcpClient::open(&[server.local()], &token, std::slice::from_ref(&point), &mut |_| true).unwrap();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !awaited.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        client.point_live(&point, &stop, &mut |_, _| {}).unwrap()
    });
    assert_eq!((report.missing.as_deref(), report.here.bytes), (Some("interrupted"), 1_000_000));
}
