//! Sessions in which packets came and none was accepted: they fail, and say so, whatever the reason.

use crate::site::{ANY, Done, Job, Site, drops, number, port, words};
use crate::site::{numbered, vdif};
use skyhaul::wire::Order;
use std::net::UdpSocket;
use std::time::Duration;

const PACKETS: u64 = 300;

fn frame(n: u64) -> Vec<u8> {
    numbered(n, Order::Little, &vdif(1_790_000_000, n as u32, 0, 1000))
}

fn noise(n: u64) -> Vec<u8> {
    vec![n as u8 | 1; 100]
}

/// Send to a receiver that then ends as by Ctrl-C.
#[track_caller]
fn heard(mut job: Job, packet: fn(u64) -> Vec<u8>) -> Done {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port(&job.address()))).unwrap();
    for n in 0..PACKETS {
        socket.send(&packet(n)).unwrap();
        if n % 10 == 9 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    job.stop()
}

#[test]
fn a_session_without_an_accepted_packet_fails_and_says_so() {
    type Case = (&'static str, &'static str, fn(u64) -> Vec<u8>);
    let cases: [Case; 8] = [
        ("--format auto", "unrecognised", noise),
        ("--format vdif", "unrecognised", noise),
        ("--format mark5b", "unrecognised", frame),
        ("--format fila10g", "unrecognised", frame),
        ("--format lofar", "unrecognised", frame),
        ("--format spead", "", noise),
        ("--from 127.0.0.2", "not_allowed", frame),
        ("--start 1900000000", "before_start", frame),
    ];
    for (line, why, packet) in cases {
        let site = Site::new(1);
        let received =
            heard(Job::start(&words(&format!("receive --json --memory 96MiB {ANY} {line}"))), packet);
        let recorded = heard(site.record(&format!("{ANY} {line}")), packet);
        for (verb, done) in [("receive", received), ("record", recorded)] {
            let done = done.expect(1);
            let report = done.json();
            let came = PACKETS - drops(&report);
            assert_eq!(number(&report["packets"]), came, "{verb} {line}");
            assert!(why.is_empty() || report["rejects"][why] == came, "{verb} {line}: {}", report["rejects"]);
            let text = format!("error: nothing was received: {came} packets came, none was accepted (");
            assert!(
                done.stderr.contains(&text) && done.stderr.contains("hint: "),
                "{verb} {line}: {}",
                done.stderr
            );
        }
        let check = site.run("check trial").expect(1);
        assert!(check.told().contains("EMPTY"), "{line}: {}", check.said());
    }
}

/// Some packets that fit are a session.
#[test]
fn a_session_with_strangers_beside_its_stream_is_one() {
    let packet = |n: u64| if n.is_multiple_of(3) { noise(n) } else { frame(n - n / 3 - 1) };
    let done =
        heard(Job::start(&words(&format!("receive --json --memory 96MiB {ANY} --format vdif"))), packet);
    let report = done.expect(0).json();
    assert!(number(&report["streams"][0]["placed"]) > 0, "{report}");
    assert!(number(&report["rejects"]["truncated"]) > 0, "{report}");
}
