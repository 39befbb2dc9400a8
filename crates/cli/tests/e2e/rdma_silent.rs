//! Peers that never answer: `--deadline` bounds the connection, too.

use crate::site::{run, wait_for};
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(300);

/// The command fails, names its deadline, and ends at most 50 ms after it; the time to start the program is that of a call with a deadline
/// of 1 ms. When this host is late, it is asked again: the lateness is not the command's.
#[track_caller]
fn ends_by_its_deadline(line: &str) {
    wait_for(line, || {
        let began = Instant::now();
        run(&line.replace("300ms", "1ms")).expect(2);
        let start = began.elapsed();
        let began = Instant::now();
        let done = run(line).expect(2);
        let took = began.elapsed();
        assert!(took >= DEADLINE, "{line} did not wait for its peer: {took:?}");
        assert!(took < Duration::from_secs(4), "{line} ended after {took:?}");
        assert!(done.said().contains("no answer within 300ms"), "{line}: {}", done.said());
        assert!(done.said().contains("hint:"), "{line}: {}", done.said());
        (took < start + DEADLINE + Duration::from_millis(50)).then_some(())
    });
}

#[test]
fn a_silent_socket_holds_no_call_beyond_its_deadline() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let region = format!("rdma+udp://{}/a", silent.local_addr().unwrap());
    ends_by_its_deadline(&format!("rdma read {region} --deadline 300ms"));
    ends_by_its_deadline(&format!("rdma write {region} --pattern --messages 1 --deadline 300ms"));
}

#[test]
fn a_listener_that_says_nothing_holds_no_call_beyond_its_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let region = format!("rdma+tcp://{}/a", silent.local_addr().unwrap());
    // It takes each connection, and keeps it open.
    std::thread::spawn(move || silent.incoming().flatten().collect::<Vec<_>>());
    ends_by_its_deadline(&format!("rdma read {region} --deadline 300ms"));
    ends_by_its_deadline(&format!("rdma write {region} --pattern --messages 1 --deadline 300ms"));
}
