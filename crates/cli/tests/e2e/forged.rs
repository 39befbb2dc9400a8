//! Single packets that announce much.

use crate::site::{ANY, Job, number, port, send, wait_for, words};
use std::net::UdpSocket;

/// A packet of a SPEAD heap (64-48) of `size` bytes, with `payload` at `offset`.
fn packet(heap: u64, size: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, 4];
    for (id, value) in [(1, heap), (2, size), (3, offset), (4, payload.len() as u64)] {
        packet.extend(((1 << 63) | (id << 48) | value).to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// The most memory that a process had so far, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One packet took 256 MiB, and some of them all memory, so that honest heaps were refused.
#[test]
fn a_packet_that_announces_a_huge_heap_takes_no_memory_from_others() {
    const HUGE: u64 = 256 << 20;
    let line =
        format!("receive {ANY} --format spead --json --heap-timeout 2s --stop-items never --memory 1GiB");
    let mut receiver = Job::start(&words(&line));
    let address = receiver.address();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = peak(receiver.pid());
    let forged = 40;
    for n in 0..forged {
        // The last packet of it, so that it is nowhere near the beginning.
        let packet = packet((1 << 40) + n, HUGE, HUGE - 1000, &[n as u8; 1000]);
        socket.send_to(&packet, ("127.0.0.1", port(&address))).unwrap();
    }
    // Their second packets do not come, and most of their memory is given to others.
    std::thread::sleep(std::time::Duration::from_millis(900));
    let sent = send(&address, "--format spead --heap-size 4MiB --heaps 20 --packet 8192 --rate 400Mbps");
    receiver.drained();
    // Those that were not displaced time out, and are delivered.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let after = wait_for("the memory", || Some(peak(receiver.pid())));
    let report = receiver.stop().json();
    assert_eq!(number(&sent["heaps"]), 20);
    let dropped: u64 = report["sources"].as_array().unwrap().iter().map(|s| number(&s["socket_drops"])).sum();
    let complete = number(&report["objects"]["heaps"]["complete"]);
    assert!(complete >= 19 || dropped > 0, "{complete} honest heaps: {report}");
    assert!(after - before < 200 << 10, "{} KiB more", after - before);
}
