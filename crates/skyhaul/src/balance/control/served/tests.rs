use super::*;
use skyhaul_core::balance::{Balancer, BalancerConfig, Member, PortRange, Seat, Table};
use skyhaul_core::placement::Nanos;

fn counters(sent: &[(Seat, Traffic)]) -> Counters {
    Counters::of(0, &[], sent.iter().copied())
}

fn traffic(packets: u64) -> Traffic {
    Traffic { packets, bytes: packets * 100 }
}

fn registration(port: u16) -> Registration {
    let member = Member::new([127, 0, 0, 1].into(), port, PortRange::default(), false).unwrap();
    Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 }
}

#[test]
fn what_a_seat_was_sent_before_is_not_the_next_workers() {
    let mut served = Served::default();
    let (first, next) = (Session::new(5), Session::new(5 + MEMBERS as u64));
    assert_eq!(first.seat(), next.seat());
    served.begin(first, registration(1), Traffic::default());
    assert_eq!(served.sent(first, traffic(7)), (7, 700));
    served.remember(&[], || counters(&[(first.seat(), traffic(9))]));
    served.begin(next, registration(2), traffic(9));
    assert_eq!(served.sent(next, traffic(9)), (0, 0));
    assert_eq!(served.sent(next, traffic(12)), (3, 300));
    assert_eq!(served.sent(next, traffic(4)), (0, 0), "planes that count anew");
    let left = served.left(&counters(&[(first.seat(), traffic(12))]));
    let expected = WorkerLeft { session: first, registration: registration(1), packets: 9, bytes: 900 };
    assert_eq!(left, [expected]);
}

/// A thread that got no processor counts what it forwarded after its worker left: that is no other worker's.
#[test]
fn what_is_counted_late_is_that_of_the_worker_that_left() {
    let mut served = Served::default();
    let (first, next) = (Session::new(5), Session::new(5 + MEMBERS as u64));
    served.begin(first, registration(1), traffic(2));
    served.remember(&[], || counters(&[(first.seat(), traffic(9))]));
    let packets = |served: &Served, sent: u64| {
        let left = served.left(&counters(&[(first.seat(), traffic(sent))]));
        left.iter().map(|left| (left.packets, left.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(packets(&served, 9), [(7, 700)]);
    assert_eq!(packets(&served, 49), [(47, 4700)]);
    assert_eq!(packets(&served, 1), [(7, 700)], "planes that count anew");
    served.begin(next, registration(2), traffic(50));
    assert_eq!(packets(&served, 80), [(48, 4800)], "the rest is the next one's");
    assert_eq!(served.sent(next, traffic(80)), (30, 3000));
}

#[test]
fn only_those_that_are_gone_have_left_and_each_once() {
    let (stays, goes) = (Session::new(1), Session::new(2));
    let table = Table::new(Default::default(), Vec::new(), &[]);
    let known = [(stays, registration(1)), (goes, registration(2))];
    let balancer = Balancer::resume(BalancerConfig::default(), &table, &known, Nanos(0));
    let mut served = Served::of(balancer.workers());
    let sent = [(stays.seat(), traffic(3)), (goes.seat(), traffic(4))];
    served.remember(balancer.workers(), || counters(&sent));
    assert!(served.left(&counters(&sent)).is_empty());
    let one = Balancer::resume(BalancerConfig::default(), &table, &known[..1], Nanos(0));
    for _ in 0..2 {
        served.remember(one.workers(), || counters(&sent));
    }
    let left: Vec<_> = served.left(&counters(&sent));
    let left: Vec<_> = left.iter().map(|left| (left.session, left.packets, left.bytes)).collect();
    assert_eq!(left, [(goes, 4, 400)]);
    assert_eq!(served.sent(stays, traffic(3)), (3, 300));
}

#[test]
fn the_last_that_left_are_remembered_and_no_more() {
    let mut served = Served::default();
    let all = MAX_LEFT_WORKERS as u64 + 10;
    for n in 0..all {
        served.begin(Session::new(n), registration(1), Traffic::default());
        served.remember(&[], Counters::default);
    }
    let left: Vec<u64> = served.left(&counters(&[])).iter().map(|left| left.session.number()).collect();
    assert_eq!(left, (10..all).collect::<Vec<_>>(), "the earliest are forgotten first");
    assert!(served.here.is_empty());
}
