//! Ten thousand workers that register at once, over the network: as many as there are seats, and memory stays as it is.
#![allow(clippy::unwrap_used)]

use skyhaul::balance::BalanceOptions;
use skyhaul_daemon::balancer::{Desk, Facility, Ground, Limits, Server};
use skyhaul_daemon::client::{ClientOptions, ControlPlane};
use skyhaul_daemon::ejfat::proto::{RegisterRequest, ReserveLoadBalancerRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const OPERATOR: &str = "the-operators-token";
/// Seats of a load balancer.
const SEATS: usize = 1024;

/// Memory of this process, octets.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// 10 000 registrations from 8 clients; how many were taken.
fn register_all(plane: &ControlPlane) -> usize {
    let (taken, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for n in 0..1250 {
                    let ask = RegisterRequest {
                        name: format!("w{n}"),
                        ip_address: "127.0.0.1".to_owned(),
                        udp_port: 17_750,
                        ..Default::default()
                    };
                    match plane.register(ask) {
                        Ok(_) => taken.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            let said = error.to_string();
                            assert!(!error.is_away() && said.contains("hint: "), "{said}");
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    });
    assert_eq!(taken.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed), 10_000);
    taken.load(Ordering::Relaxed)
}

#[test]
fn ten_thousand_registrations_over_the_network() {
    let facility = Facility::open(None, OPERATOR, Limits::default(), 0).unwrap();
    let balance = BalanceOptions { threads: 1, ..BalanceOptions::default() };
    let listen = vec!["127.0.0.1".parse().unwrap()];
    let ground = Ground {
        listen,
        own: Vec::new(),
        shared: false,
        data_port: 0,
        sync_port: 0,
        balance,
        upstream: Default::default(),
        apart: None,
    };
    let desk = Arc::new(Desk::open(facility, ground).unwrap());
    let server = Server::start(Arc::clone(&desk), "127.0.0.1:0".parse().unwrap(), None, |_| {}).unwrap();
    let options = ClientOptions { deadline: std::time::Duration::from_secs(120), ..ClientOptions::default() };
    let uri = format!("ejfat://{OPERATOR}@{}/", server.address()).parse().unwrap();
    let operator = ControlPlane::new(&uri, &options).unwrap();
    let reserved = operator.reserve(ReserveLoadBalancerRequest::default()).unwrap();
    let plane = ControlPlane::new(&operator.uri_of(&reserved), &options).unwrap();

    assert_eq!(register_all(&plane), SEATS);
    let before = resident();
    assert_eq!(register_all(&plane), 0, "there are no more seats");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "refusals took {grown} octets");
    assert_eq!(plane.status().unwrap().workers.len(), SEATS);
    // Nobody of them is left, with its token, when the reservation ends.
    plane.free().unwrap();
    assert_eq!(desk.numbers(), (1, 0));
    assert!(plane.register(RegisterRequest::default()).unwrap_err().is_unknown());
}
