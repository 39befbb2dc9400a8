//! Both ends of STAMP and of udpmon's protocol on real sockets.

use skyhaul::core::wire::header::Order;
use skyhaul::core::wire::stamp::{LEN, Reflection};
use skyhaul::core::wire::udpmon::{Command, Message};
use skyhaul_measure::probe::stamp::{Reflector, ReflectorOptions, StampOptions, measure};
use skyhaul_measure::probe::udp::Point;
use skyhaul_measure::probe::udpmon::{
    RequestOptions, RequestReport, Responder, ResponderOptions, latency, request,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn loopback(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Slow enough that nothing is lost on loopback, unless the machine stands still longer than a buffer lasts.
fn slow(size: u32) -> Point {
    Point { packets: 100, ..Point::even(size, 300_000_000, Duration::from_secs(60)) }
}

/// Wait for what another thread is about to count.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

#[test]
fn every_test_packet_is_reflected_over_both_families() {
    let reflector = Reflector::start(loopback("[::]:0"), ReflectorOptions::default()).unwrap();
    for to in ["127.0.0.1", "[::1]"] {
        let to = loopback(&format!("{to}:{}", reflector.local().port()));
        let options = StampOptions { settle: Duration::from_secs(5), ..StampOptions::new(to, slow(300)) };
        let report = measure(&options, &AtomicBool::new(false)).unwrap();
        assert_eq!((report.sent.packets, report.received, report.lost, report.rejected), (100, 100, 0, 0));
        assert_eq!((report.lost_there, report.lost_back), (Some(0), Some(0)));
        assert_eq!(report.reflector.hops, Some(0), "no router on loopback, to {to}");
        let (clock, there) = (report.clock.unwrap(), report.there_ns.unwrap());
        assert!(clock.offset_ns.unsigned_abs() <= clock.error_ns, "the same clock: {clock:?}");
        assert!(there.least >= -there.error && there.most > 0.0, "{there:?}");
        assert_eq!(report.round_trip_ns.count, 100);
    }
    until("the reflector counts", || reflector.stats().reflected == 200);
    let stats = reflector.stats();
    assert_eq!((stats.sessions, stats.bytes, stats.rejected, stats.beyond), (2, 60_000, 0, 0));
}

#[test]
fn a_reflector_answers_the_longest_packet_and_nothing_that_is_none() {
    let reflector = Reflector::start(loopback("127.0.0.1:0"), ReflectorOptions::default()).unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for length in [0, 1, LEN - 1] {
        stranger.send_to(&vec![7; length], reflector.local()).unwrap();
    }
    stranger.send_to(&vec![9; 65_507], reflector.local()).unwrap();
    let mut answer = vec![0; 1 << 16];
    let (length, from) = stranger.recv_from(&mut answer).unwrap();
    assert_eq!((length, from), (65_507, reflector.local()), "the only one that is answered");
    let (reflection, rest) = Reflection::read(&answer[..length]).unwrap();
    assert_eq!((reflection.sequence, reflection.sender_sequence), (0, 0x0909_0909));
    assert!(rest.iter().all(|octet| *octet == 9));
    until("the reflector counts", || reflector.stats().rejected == 3);
}

#[test]
fn who_does_not_answer_is_a_loss_and_no_error() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let point = Point { packets: 10, ..slow(44) };
    let options = StampOptions {
        settle: Duration::from_millis(50),
        ..StampOptions::new(nobody.local_addr().unwrap(), point)
    };
    let report = measure(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!((report.received, report.lost, report.clock), (0, 10, None));
    let short = StampOptions { point: Point { size: 43, ..point }, ..options };
    assert!(measure(&short, &AtomicBool::new(false)).unwrap_err().to_string().contains("hint: "));
}

#[test]
fn requesters_are_told_what_arrived_several_at_once_over_both_families() {
    let responder = Responder::start(loopback("[::]:0"), ResponderOptions::default()).unwrap();
    let port = responder.local().port();
    let run = |host: &str, size| {
        let to = loopback(&format!("{host}:{port}"));
        let options =
            RequestOptions { settle: Duration::from_secs(1), ..RequestOptions::new(to, slow(size)) };
        request(&options, &AtomicBool::new(false)).unwrap()
    };
    let reports: Vec<RequestReport> = std::thread::scope(|scope| {
        let tests = [("127.0.0.1", 64), ("[::1]", 1472), ("127.0.0.1", 40), ("127.0.0.1", 8972)];
        let threads = tests.map(|(host, size)| scope.spawn(move || run(host, size)));
        threads.map(|thread| thread.join().unwrap()).into_iter().collect()
    });
    for report in &reports {
        assert_eq!((report.sent.packets, report.received, report.lost), (100, 100, 0), "{report:?}");
        assert_eq!((report.lost_by_number, report.disordered, report.big_endian), (0, 0, false));
        let gaps = report.gaps_ns.as_ref().unwrap();
        assert_eq!(gaps.count + report.outside.0 + report.outside.1, 99);
        assert!(report.host_in_errors.is_some() && report.seconds > 0.02);
        assert!(report.wire_bits_per_second > report.user_bits_per_second);
    }
    until("all tests have ended", || responder.stats().packets == 400);
    let stats = responder.stats();
    assert_eq!((stats.tests, stats.busy, stats.unpaid, stats.rejected), (4, 0, 0, 0));
}

#[test]
fn every_request_is_answered_at_its_length() {
    let responder =
        Responder::start(loopback("127.0.0.1:0"), ResponderOptions { beyond: 0, ..<_>::default() }).unwrap();
    for (size, octets) in [(40, 64), (1472, 1472), (65_507, 65_507)] {
        let options = RequestOptions::new(responder.local(), Point { packets: 20, ..slow(size) });
        let report = latency(&options, &AtomicBool::new(false)).unwrap();
        assert_eq!((report.point.size, report.asked, report.answered), (octets, 20, 20));
        assert!(report.round_trip_ns.p50 > 0 && !report.interrupted);
    }
    until("all tests have ended", || responder.stats().answers == 3 * 22);
    assert_eq!((responder.stats().tests, responder.stats().unpaid), (3, 0));
}

/// Messages as they lie in the memory of udpmon 1.5.2, written by hand from its structure, to and from a responder.
#[test]
fn a_dialogue_octet_by_octet() {
    let responder = Responder::start(loopback("127.0.0.1:0"), ResponderOptions::default()).unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(responder.local()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = [0; 2048];
    // cmd 1, version 0; bin_width (octet 44) 10; the whole structure of 208 octets.
    let mut zero = [0; 208];
    (zero[0], zero[44]) = (1, 10);
    peer.send(&zero).unwrap();
    let length = peer.recv(&mut answer).unwrap();
    let mut ok = zero;
    (ok[0], ok[4]) = (0x20, 7);
    assert_eq!(answer[..length], ok);
    // Data: cmd 4, frame_num at 8, send_time at 16; packets of 64 octets; 2 and 3 are missing.
    for n in [0u8, 1, 4] {
        let mut data = [0xA5; 64];
        data[..24].fill(0);
        (data[0], data[8], data[16]) = (4, n, n * 10);
        peer.send(&data).unwrap();
    }
    let mut ask = [0; 208];
    (ask[0], ask[4]) = (2, 7);
    peer.send(&ask).unwrap();
    let length = peer.recv(&mut answer).unwrap();
    assert_eq!(length, 208);
    // num_recv at 60, num_lost at 64, num_badorder at 68, first_last_time at 72.
    assert_eq!(
        (answer[60..72].to_vec(), answer[72..80] != [0; 8]),
        (vec![3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], true)
    );
    // A response of 100 octets: cmd 8, resp_len at 32, and resp_time at 24 in the answer.
    let mut request = [0x5A; 64];
    request[..60].fill(0);
    (request[0], request[8], request[32]) = (8, 9, 100);
    peer.send(&request).unwrap();
    let length = peer.recv(&mut answer).unwrap();
    assert_eq!((length, answer[0], answer[4], answer[8], answer[32]), (100, 9, 7, 9, 100));
    assert!(answer[24..32] != [0; 8], "microseconds since it began");
    // The end, in the other byte order: it is answered in that.
    peer.send(&Message::new(Order::Big, Command::TestEnd, 0).octets()).unwrap();
    peer.recv(&mut answer).unwrap();
    assert_eq!(answer[..8], [0, 0, 0, 0x20, 0, 0, 0, 7]);
    until("the test has ended", || responder.stats().packets == 3);
    assert_eq!(responder.stats().lost, 2);
}
