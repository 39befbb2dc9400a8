//! A backlog that really overflows at the far end of a lab, and the account of a probe that shows it.
//!
//! ```text
//!   near: probe ─▶ router ─▶ far: path0 ─┐ rps
//!                  one datagram to many sockets: lo ─┴─▶ backlog of one processor ─▶ IP
//! ```
//!
//! By itself: while it is full, whatever comes to this processor of the machine is dropped, of other networks too.

#![allow(clippy::unwrap_used)]

use skyhaul::io::host::thread;
use skyhaul::io::namespace::Network;
use skyhaul::peer::{Server, ServerOptions, Token};
use skyhaul_measure::lab::{FAR, Lab, LabOptions};
use skyhaul_measure::probe::udp::{ClientOptions, Direction, Point, UdpClient, UdpService};
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What goes to so many sockets at once takes its processor long.
const MEMBERS: usize = 300;

/// Ends a thread, after a panic too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Send more to all of them than their processor can do, on and off.
fn flood(far: &Network, stop: &AtomicBool) {
    let members = SockAddr::from(SocketAddr::from(([127, 255, 255, 255], 9999)));
    let open = || {
        let all: Vec<Socket> =
            (0..=MEMBERS).map(|_| Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap()).collect();
        for member in &all[1..] {
            member.set_reuse_address(true).unwrap();
            member.set_recv_buffer_size(1).unwrap();
            member.bind(&members).unwrap();
        }
        all[0].set_broadcast(true).unwrap();
        all
    };
    let all = far.inside(open).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let (begin, mut sent) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_millis(50) {
            let due = begin.elapsed().as_micros() / 10;
            for _ in sent..due {
                all[0].send_to(b"x", &members).unwrap();
            }
            sent = due;
            std::thread::sleep(Duration::from_micros(300));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_a_full_backlog_drops_is_in_the_account_of_a_probe() {
    let last = std::thread::available_parallelism().unwrap().get().min(32) - 1;
    if last == 0 {
        println!("SKIPPED: one processor works on all that comes as it is sent (a machine with two)");
        return;
    }
    // All threads from here on: one on the processor that is to be flooded would wait until its backlog is empty.
    if let Err(error) = thread::pin(0) {
        println!("SKIPPED: {error} (let it use processor 0)");
        return;
    }
    let far = format!("rps={last}").parse().unwrap();
    let lab = match Lab::new(&LabOptions { far, ..LabOptions::default() }) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: {error} (run as root)");
            return;
        }
        lab => lab.unwrap(),
    };
    // What the far end sends to itself goes the same way.
    let steer = format!("echo {:x} > /sys/class/net/lo/queues/rx-0/rps_cpus", 1u32 << last);
    assert!(lab.far().command("sh").args(["-c", &steer]).status().unwrap().success());
    let running = lab.forward(&"delay=1ms".parse().unwrap(), None).unwrap();
    let token = || Token::new("the-token-of-both-ends").unwrap();
    let serve = || {
        Server::start(
            (FAR, 0).into(),
            token(),
            ServerOptions::default(),
            vec![Box::new(UdpService::new().unwrap())],
        )
    };
    let server = lab.far().inside(serve).unwrap().unwrap();
    let open = || UdpClient::open(&[server.local()], &token(), ClientOptions::default(), &mut |_| true);
    let mut client = lab.near().inside(open).unwrap().unwrap();
    let stop = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        let ends = Ends(&stop);
        scope.spawn(|| flood(lab.far(), &stop));
        let point = Point::even(500, 200_000_000, Duration::from_millis(400));
        let mut rounds = Vec::new();
        let found = (0..20).find_map(|_| {
            let report = client.point(&point, Direction::Forward, &AtomicBool::new(false)).unwrap();
            let way = report.forward.clone().unwrap();
            let mut stages = way.account.iter();
            let lost = stages.find(|stage| stage.between == "receiver: interface and backlog").unwrap().lost;
            rounds.push((way.lost, report.server.counters["backlog.dropped"]));
            (lost > 0).then_some((lost, way, report.server.counters))
        });
        drop(ends);
        found.ok_or(rounds)
    });
    let (lost, way, counters) = found.expect("a backlog that overflows");
    let (dropped, seen) = (counters["backlog.dropped"], counters["network.receive_dropped"]);
    println!(
        "{} of {} lost, {lost} at the backlog: {dropped} dropped, {seen} of this end",
        way.lost, way.sent
    );
    assert!(dropped > 0 && dropped <= seen, "{counters:?}");
    assert_eq!(way.account.iter().map(|stage| stage.lost).sum::<u64>(), way.lost);
    client.end().unwrap();
    running.finish().unwrap();
}
