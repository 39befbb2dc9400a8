//! Both ends on loopback.

use super::*;
use crate::probe::TestDirection;
use skyhaul::peer::{PeerError, Server, ServerOptions, Token};
use skyhaul_io::udp::UdpOptions;
use skyhaul_io::udp::both::Both;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn token() -> Token {
    Token::new("the-token-of-these-tests").unwrap()
}

fn serve(options: ServerOptions, at: &str) -> Server {
    let service = Box::new(UdpService::new().unwrap());
    Server::start(at.parse().unwrap(), token(), options, vec![service]).unwrap()
}

fn open(server: &Server, options: UdpClientOptions) -> Result<UdpClient, PeerError> {
    UdpClient::open(&[server.local()], &token(), options, &mut |_| true)
}

/// Ask for a test of so many flows, as a client does before it meets the server on UDP.
fn ask(server: &Server, flows: u16) -> (skyhaul::peer::Connection, UdpSession) {
    let mut control = skyhaul::peer::connect(server.local(), &token(), Duration::from_secs(5)).unwrap();
    let request = UdpRequest { flows, seconds: 1.0, rate: None, join: false };
    control.ask(NAME, &request, &mut |_| true).unwrap();
    let opened = control.receive(Duration::from_secs(5)).unwrap();
    (control, opened)
}

static GO: AtomicBool = AtomicBool::new(false);

/// 200 packets of 500 octets, 100 µs apart.
fn small() -> UdpPoint {
    UdpPoint { packets: 200, ..UdpPoint::even(500, 100_000_000, Duration::from_secs(5)) }
}

/// Nothing is lost, and all counts agree.
fn whole(way: &UdpDirectionReport, packets: u64) {
    assert_eq!((way.sent, way.arrived, way.lost, way.duplicates), (packets, packets, 0, 0), "{way:?}");
    assert!(way.account.iter().all(|stage| stage.lost == 0), "{:?}", way.account);
}

#[test]
fn a_point_is_measured_each_way_and_both_with_several_flows() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let server = serve(ServerOptions::default(), at);
        let options =
            UdpClientOptions { flows: 2, settle: Duration::from_secs(5), ..UdpClientOptions::default() };
        let mut client = open(&server, options).unwrap();
        assert!(client.round_trip().is_some(), "clocks were compared");
        for direction in [TestDirection::Forward, TestDirection::Reverse, TestDirection::Both] {
            let report = client.point(&small(), direction, &GO).unwrap();
            assert_eq!(
                (report.forward.is_some(), report.reverse.is_some()),
                (direction.forward(), direction.reverse())
            );
            for way in report.forward.iter().chain(&report.reverse) {
                whole(way, 400);
                assert!(
                    way.user_bits_per_second > 0.0 && way.wire_bits_per_second > way.user_bits_per_second
                );
            }
            let ends = [
                (direction.forward(), &report.client, &report.server),
                (direction.reverse(), &report.server, &report.client),
            ];
            for (_, sender, receiver) in ends.into_iter().filter(|end| end.0) {
                assert_eq!((sender.sent.len(), receiver.received.len()), (2, 2));
                let received = &receiver.received[0];
                assert_eq!((received.bytes, received.arrivals), (200 * 500, 200));
                assert!(received.kernel.is_some() && received.samples.len() > 100);
                assert_eq!(sender.sent[0].gaps_ns.count, 199);
                assert!(sender.counters["udp.sent"] >= 400, "{:?}", sender.counters);
            }
        }
        client.end().unwrap();
    }
}

#[test]
fn trains_bursts_and_the_longest_datagrams_arrive() {
    let server = serve(ServerOptions::default(), "127.0.0.1:0");
    let options =
        UdpClientOptions { join: true, settle: Duration::from_secs(5), ..UdpClientOptions::default() };
    let mut client = open(&server, options).unwrap();
    let trains = UdpPoint { mode: SpacingMode::Trains, train: 8, ..small() };
    let report = client.point(&trains, TestDirection::Forward, &GO).unwrap();
    whole(&report.forward.unwrap(), 200);
    assert!(report.client.sent[0].how.starts_with("trains of 8, "), "{}", report.client.sent[0].how);
    let burst = Some(Burst { packets: 10, period_ps: 2_000_000_000 });
    let bursts = UdpPoint { burst, spacing_ps: 0, packets: 100, ..small() };
    whole(&client.point(&bursts, TestDirection::Forward, &GO).unwrap().forward.unwrap(), 100);
    let long = UdpPoint { size: MAX_DATAGRAM, packets: 20, spacing_ps: 1_000_000_000, ..small() };
    whole(&client.point(&long, TestDirection::Both, &GO).unwrap().reverse.unwrap(), 20);
    let short = UdpPoint { size: MIN_DATAGRAM, ..small() };
    whole(&client.point(&short, TestDirection::Forward, &GO).unwrap().forward.unwrap(), 200);
    let kernel = UdpPoint { mode: SpacingMode::Kernel, packets: 50, ..small() };
    whole(&client.point(&kernel, TestDirection::Forward, &GO).unwrap().forward.unwrap(), 50);
}

#[test]
fn a_point_that_is_stopped_reports_what_was_measured() {
    let server = serve(ServerOptions::default(), "127.0.0.1:0");
    let mut client =
        open(&server, UdpClientOptions { seconds: 300.0, ..UdpClientOptions::default() }).unwrap();
    for direction in [TestDirection::Forward, TestDirection::Reverse] {
        let stop = AtomicBool::new(false);
        let long = UdpPoint::even(500, 1_000_000_000, Duration::from_secs(100));
        let begun = Instant::now();
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                stop.store(true, Ordering::Relaxed);
            });
            client.point(&long, direction, &stop).unwrap()
        });
        assert!(begun.elapsed() < Duration::from_secs(30));
        let way = report.forward.or(report.reverse).unwrap();
        assert!(way.sent > 10 && way.sent < 100_000 && way.arrived > 10, "{way:?}");
    }
    client.end().unwrap();
}

#[test]
fn limits_of_the_operator_hold() {
    let mut options = ServerOptions::default();
    options.limits.rate = Some(10_000_000);
    options.limits.duration = Duration::from_secs(60);
    let server = serve(options, "127.0.0.1:0");
    let said = |options: UdpClientOptions| open(&server, options).unwrap_err().to_string();
    assert!(said(UdpClientOptions::default()).contains("allows at most 10.0 Mb/s, so a rate is needed"));
    let fast = UdpClientOptions { rate: Some(1e9), ..UdpClientOptions::default() };
    assert!(said(fast).contains("1.00 Gb/s exceeds the server's limit of 10.0 Mb/s"));
    let slow = UdpClientOptions { rate: Some(9e6), ..UdpClientOptions::default() };
    assert!(said(UdpClientOptions { seconds: 61.0, ..slow }).contains("the limit is 60 s"));
    assert!(said(UdpClientOptions { flows: 0, ..slow }).contains("expected 1 to 128"));
    let mut client = open(&server, slow).unwrap();
    let error = client.point(&small(), TestDirection::Forward, &GO).unwrap_err().to_string();
    assert!(error.contains("40.0 Mb/s exceeds"), "a promise of less does not help: {error}");
    let slower = UdpPoint { spacing_ps: 1_000_000_000, packets: 50, ..small() };
    whole(&client.point(&slower, TestDirection::Reverse, &GO).unwrap().reverse.unwrap(), 50);
}

#[test]
fn nothing_is_sent_to_an_address_that_did_not_show_that_it_receives() {
    let server = serve(ServerOptions::default(), "127.0.0.1:0");
    let (_control, opened) = ask(&server, 1);
    let victim = Both::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let at = std::net::SocketAddr::new(server.local().ip(), opened.ports[0]);
    let small = |meeting| ControlDatagram { test: opened.test, flow: 0, meeting }.octets();
    let mut answer = [0; 128];
    let hear = |answer: &mut [u8]| victim.receive_from(answer, Duration::from_millis(200)).unwrap();
    // Whoever is not on the control connection gets no answer at all.
    for wrong in [
        small(Handshake::Knock([0; 16])).to_vec(),
        small(Handshake::Echo([0; 16])).to_vec(),
        vec![7; 64],
        vec![],
    ] {
        victim.send_to(&wrong, at).unwrap();
        assert_eq!(hear(&mut answer), None);
    }
    let cookie = skyhaul::auth::unhex(&opened.cookie).unwrap();
    let knock = small(Handshake::Knock(cookie));
    victim.send_to(&knock, at).unwrap();
    let (length, _) = hear(&mut answer).expect("a cookie");
    assert_eq!(length, knock.len(), "nothing is amplified");
    assert_eq!(hear(&mut answer), None, "and nothing more comes before it came back");
}

#[test]
fn a_client_that_did_not_hear_that_it_may_begin_is_told_again() {
    use super::Handshake::{Cookie, Echo, Knock, Ready};
    let server = serve(ServerOptions::default(), "127.0.0.1:0");
    // A second flow, in which nobody knocks yet.
    let (_control, opened) = ask(&server, 2);
    let client = Both::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let at = std::net::SocketAddr::new(server.local().ip(), opened.ports[0]);
    let mut answer = [0; 128];
    let mut say = |meeting| {
        client.send_to(&ControlDatagram { test: opened.test, flow: 0, meeting }.octets(), at).unwrap();
        let (length, _) =
            client.receive_from(&mut answer, Duration::from_secs(5)).unwrap().expect("an answer");
        ControlDatagram::read(&answer[..length]).unwrap().meeting
    };
    let Cookie(cookie) = say(Knock(skyhaul::auth::unhex(&opened.cookie).unwrap())) else {
        panic!("no cookie")
    };
    for _ in 0..3 {
        assert_eq!(say(Echo(cookie)), Ready);
    }
}
