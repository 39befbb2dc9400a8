//! Calls as gRPC and REST make them, on balancers with real sockets.

mod circling;
mod restart;
mod tokens;
mod waits;

use super::*;
use crate::ejfat::facility::Limits;
use crate::ejfat::proto::*;
use prost_types::Timestamp;
use skyhaul::balance::BalanceOptions;
use std::path::Path;
use std::time::{Duration, Instant};

const OPERATOR: &str = "the operator's token";
const NOW: Millis = 1_700_000_000_000;

fn open(path: Option<&Path>, limits: Limits) -> Desk {
    let facility = Facility::open(path, OPERATOR, limits, NOW).unwrap();
    let balance = BalanceOptions { threads: 1, ..BalanceOptions::default() };
    let ground = Ground {
        listen: vec!["127.0.0.1".parse().unwrap()],
        own: Vec::new(),
        shared: false,
        data_port: 0,
        sync_port: 0,
        balance,
        upstream: Default::default(),
        apart: None,
    };
    Desk::open(facility, ground).unwrap()
}

fn desk() -> Desk {
    open(None, Limits::default())
}

fn at(token: &str, now: Millis) -> Caller {
    let place = Place { authority: "lb:18008".to_owned(), tls: false };
    Caller { token: Some(token.to_owned()), place, now }
}

fn by(token: &str) -> Caller {
    at(token, NOW)
}

fn reserve(desk: &Desk) -> ReserveLoadBalancerReply {
    let sender_addresses = vec!["127.0.0.1".to_owned()];
    let request = ReserveLoadBalancerRequest { name: "r".to_owned(), sender_addresses, ..Default::default() };
    desk.reserve_load_balancer(&by(OPERATOR), request).unwrap()
}

fn worker(lb_id: &str) -> RegisterRequest {
    let (ip_address, name) = ("127.0.0.1".to_owned(), "w".to_owned());
    RegisterRequest { lb_id: lb_id.to_owned(), name, ip_address, udp_port: 17750, ..Default::default() }
}

fn ready(worker: &RegisterReply) -> SendStateRequest {
    let session_id = worker.session_id.clone();
    SendStateRequest {
        session_id,
        is_ready: true,
        fill_percent: 0.25,
        total_events_recv: 7,
        ..Default::default()
    }
}

fn status(desk: &Desk, caller: &Caller, lb_id: &str) -> Result<LoadBalancerStatusReply, Refusal> {
    desk.load_balancer_status(caller, LoadBalancerStatusRequest { lb_id: lb_id.to_owned() })
}

fn kind<T: std::fmt::Debug>(done: Result<T, Refusal>) -> Kind {
    let refusal = done.unwrap_err();
    assert!(!refusal.text.is_empty());
    refusal.kind
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn from_a_reservation_to_slots_and_back() {
    let desk = desk();
    let reserved = reserve(&desk);
    let (id, own) = (reserved.lb_id.clone(), by(&reserved.token));
    assert_eq!((id.as_str(), reserved.fpga_lb_id, reserved.strategy.as_str()), ("1", 0, "dynamic"));
    assert!(reserved.data_min_port > 0 && reserved.data_min_port == reserved.data_max_port);
    let uri = format!(
        "ejfat://{}@lb:18008/lb/1?data=127.0.0.1:{}&sync=127.0.0.1:{}",
        reserved.token, reserved.data_min_port, reserved.sync_udp_port
    );
    assert_eq!(reserved.ejfat_uri, uri);
    let got = desk.get_load_balancer(&own, GetLoadBalancerRequest { lb_id: id.clone() }).unwrap();
    assert_eq!(
        got,
        ReserveLoadBalancerReply { token: String::new(), ejfat_uri: String::new(), ..reserved.clone() }
    );

    let registered = desk.register(&own, worker(&id)).unwrap();
    let session = by(&registered.token);
    desk.send_state(&session, ready(&registered)).unwrap();
    until("it has all slots", || {
        desk.send_state(&session, ready(&registered)).unwrap();
        status(&desk, &own, &id).unwrap().workers[0].slots_assigned == 512
    });
    let said = status(&desk, &own, &id).unwrap();
    let one = &said.workers[0];
    assert_eq!(
        (said.sender_addresses.as_slice(), said.slot_resolution),
        (&["127.0.0.1".to_owned()][..], 512)
    );
    assert_eq!((one.name.as_str(), one.udp_port, one.session_id, one.total_events_recv), ("w", 17750, 1, 7));
    assert!((one.fill_percent - 0.25).abs() < 1e-6);

    assert_eq!(desk.turn(NOW), Vec::<String>::new());
    let selector = vec!["/lb/1/session/*/slotsAssigned".to_owned(), "/lb/1/packets".to_owned()];
    let request = TimeseriesRequest { series_selector: selector, since: None };
    let series = desk.timeseries(&own, request).unwrap().timeseries;
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["/lb/1/packets", "/lb/1/session/1/slotsAssigned"]);
    let overview = desk.overview(&own, OverviewRequest {}).unwrap().load_balancers;
    assert_eq!(overview.len(), 1);
    assert!(desk.version(&session, VersionRequest {}).unwrap().build.starts_with("skyhaul "));

    let leave = DeregisterRequest { lb_id: String::new(), session_id: registered.session_id.clone() };
    desk.deregister(&session, leave.clone()).unwrap();
    assert_eq!(kind(desk.deregister(&session, leave)), Kind::Unauthenticated, "replayed");
    assert_eq!(status(&desk, &own, &id).unwrap().workers, []);
    desk.free_load_balancer(&own, FreeLoadBalancerRequest { lb_id: id.clone() }).unwrap();
    assert_eq!(kind(status(&desk, &own, &id)), Kind::Unauthenticated, "replayed");
    assert_eq!(kind(status(&desk, &by(OPERATOR), &id)), Kind::Missing);
    assert_eq!(desk.stop().len(), 1);
}

#[test]
fn who_may_not_is_refused() {
    let desk = desk();
    let (one, two) = (reserve(&desk), reserve(&desk));
    let registered = desk.register(&by(&one.token), worker(&one.lb_id)).unwrap();
    let nobody = Caller { token: None, ..by("") };
    for caller in [nobody, by(""), by("wrong"), by(&OPERATOR.to_uppercase())] {
        assert_eq!(kind(status(&desk, &caller, &one.lb_id)), Kind::Unauthenticated);
        assert_eq!(kind(desk.overview(&caller, OverviewRequest {})), Kind::Unauthenticated);
        assert_eq!(kind(desk.version(&caller, VersionRequest {})), Kind::Unauthenticated);
        assert_eq!(kind(desk.timeseries(&caller, TimeseriesRequest::default())), Kind::Unauthenticated);
        assert_eq!(kind(desk.register(&caller, worker(&one.lb_id))), Kind::Unauthenticated);
        assert_eq!(kind(desk.send_state(&caller, ready(&registered))), Kind::Unauthenticated);
        assert_eq!(kind(desk.create_token(&caller, CreateTokenRequest::default())), Kind::Unauthenticated);
        assert_eq!(
            kind(desk.reserve_load_balancer(&caller, ReserveLoadBalancerRequest::default())),
            Kind::Unauthenticated
        );
    }
    let (worker_of_one, owner_of_two) = (by(&registered.token), by(&two.token));
    for caller in [&worker_of_one, &owner_of_two] {
        let lb_id = one.lb_id.clone();
        assert_eq!(kind(status(&desk, caller, &lb_id)), Kind::Denied);
        assert_eq!(kind(desk.register(caller, worker(&lb_id))), Kind::Denied);
        assert_eq!(
            kind(desk.free_load_balancer(caller, FreeLoadBalancerRequest { lb_id: lb_id.clone() })),
            Kind::Denied
        );
        let senders = AddSendersRequest { lb_id, sender_addresses: vec!["::/0".to_owned()] };
        assert_eq!(kind(desk.add_senders(caller, senders)), Kind::Denied);
        assert_eq!(
            kind(desk.reserve_load_balancer(caller, ReserveLoadBalancerRequest::default())),
            Kind::Denied
        );
    }
    assert_eq!(kind(desk.send_state(&owner_of_two, ready(&registered))), Kind::Denied);
    assert_eq!(desk.overview(&owner_of_two, OverviewRequest {}).unwrap().load_balancers.len(), 1);
    assert_eq!(desk.overview(&worker_of_one, OverviewRequest {}).unwrap().load_balancers.len(), 0);
    desk.turn(NOW);
    let all = |caller: &Caller| {
        let request = TimeseriesRequest { series_selector: vec!["*".to_owned()], since: None };
        desk.timeseries(caller, request).unwrap().timeseries
    };
    assert!(all(&worker_of_one).iter().all(|series| series.name.starts_with("/lb/1/session/1/")));
    assert!(all(&owner_of_two).iter().all(|series| series.name.starts_with("/lb/2/")));
    assert_eq!(all(&worker_of_one).len(), 12);
}

#[test]
fn what_cannot_be_asked_for() {
    let desk = desk();
    let reserved = reserve(&desk);
    let own = by(&reserved.token);
    let late = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let base = ReserveLoadBalancerRequest::default;
    for (request, wanted) in [
        (ReserveLoadBalancerRequest { until: late(1), ..base() }, Kind::Invalid),
        (ReserveLoadBalancerRequest { until: late(i64::MAX), ..base() }, Kind::Invalid),
        (ReserveLoadBalancerRequest { name: "a\nb".to_owned(), ..base() }, Kind::Invalid),
        (ReserveLoadBalancerRequest { name: "a".repeat(129), ..base() }, Kind::Invalid),
        (ReserveLoadBalancerRequest { sender_addresses: vec!["host".to_owned()], ..base() }, Kind::Invalid),
        (
            ReserveLoadBalancerRequest { sender_addresses: vec![String::new(); 1025], ..base() },
            Kind::Exhausted,
        ),
        (ReserveLoadBalancerRequest { ip_family: 2, ..base() }, Kind::Unfit),
        (ReserveLoadBalancerRequest { ip_family: 9, ..base() }, Kind::Invalid),
        (ReserveLoadBalancerRequest { strategy: "best".to_owned(), ..base() }, Kind::Invalid),
    ] {
        assert_eq!(kind(desk.reserve_load_balancer(&by(OPERATOR), request.clone())), wanted, "{request:?}");
    }
    let base = || worker(&reserved.lb_id);
    for (request, wanted) in [
        (RegisterRequest { lb_id: "x".to_owned(), ..base() }, Kind::Invalid),
        (RegisterRequest { lb_id: "9".to_owned(), ..base() }, Kind::Denied),
        (RegisterRequest { ip_address: "host".to_owned(), ..base() }, Kind::Invalid),
        (RegisterRequest { ip_address: "0.0.0.0".to_owned(), ..base() }, Kind::Invalid),
        (RegisterRequest { ip_address: "fd00::1".to_owned(), ..base() }, Kind::Unfit),
        (RegisterRequest { udp_port: 0, ..base() }, Kind::Invalid),
        (RegisterRequest { udp_port: 65536, ..base() }, Kind::Invalid),
        (RegisterRequest { udp_port: 65535, port_range: 1, ..base() }, Kind::Invalid),
        (RegisterRequest { port_range: 15, ..base() }, Kind::Invalid),
        (RegisterRequest { port_range: -1, ..base() }, Kind::Invalid),
        (RegisterRequest { weight: f32::NAN, ..base() }, Kind::Invalid),
        (RegisterRequest { weight: -1.0, ..base() }, Kind::Invalid),
        (RegisterRequest { min_factor: 2.0, max_factor: 1.0, ..base() }, Kind::Invalid),
        (
            RegisterRequest { slot_demands: vec![SlotRange { index: 512, length: 1 }], ..base() },
            Kind::Invalid,
        ),
        (RegisterRequest { slot_demands: vec![SlotRange { index: -2, length: 1 }], ..base() }, Kind::Invalid),
        (RegisterRequest { slot_demands: vec![SlotRange { index: 0, length: 0 }], ..base() }, Kind::Invalid),
        (
            RegisterRequest { slot_demands: vec![SlotRange { index: 0, length: 70000 }], ..base() },
            Kind::Invalid,
        ),
    ] {
        assert_eq!(kind(desk.register(&own, request.clone())), wanted, "{request:?}");
    }
    let registered = desk.register(&own, base()).unwrap();
    let session = by(&registered.token);
    let state = || ready(&registered);
    for (request, wanted) in [
        (SendStateRequest { fill_percent: f32::NAN, ..state() }, Kind::Invalid),
        (SendStateRequest { lb_id: "2".to_owned(), ..state() }, Kind::Invalid),
        (SendStateRequest { session_id: "x".to_owned(), ..state() }, Kind::Invalid),
        (SendStateRequest { session_id: "2".to_owned(), ..state() }, Kind::Denied),
    ] {
        assert_eq!(kind(desk.send_state(&session, request.clone())), wanted, "{request:?}");
    }
    desk.send_state(
        &session,
        SendStateRequest { lb_id: "1".to_owned(), total_events_dequeued: -5, ..state() },
    )
    .unwrap();
    assert_eq!(kind(desk.chain_load_balancer(&own, Default::default())), Kind::Invalid);
    assert_eq!(kind(desk.unchain_load_balancer(&own, Default::default())), Kind::Invalid);
    assert_eq!(kind(desk.get_chain_graph(&own, Default::default())), Kind::Invalid);
}

#[test]
fn a_reservation_ends_in_time() {
    let desk = desk();
    let reserved = reserve(&desk);
    let own = by(&reserved.token);
    let extend = |seconds| {
        let until = Some(Timestamp { seconds, nanos: 500_000_000 });
        desk.extend_reservation(&own, ExtendReservationRequest { lb_id: "1".to_owned(), until })
    };
    assert_eq!(kind(extend(NOW / 1000 - 1)), Kind::Invalid);
    assert_eq!(extend(NOW / 1000).unwrap().until.unwrap().to_string(), "2023-11-14T22:13:20.500Z");
    assert_eq!(desk.turn(NOW + 499), Vec::<String>::new());
    status(&desk, &own, "1").unwrap();
    assert_eq!(desk.turn(NOW + 500), Vec::<String>::new());
    assert_eq!(kind(status(&desk, &own, "1")), Kind::Unauthenticated, "expired");
    let never = ReserveLoadBalancerRequest { until: Some(Timestamp::default()), ..Default::default() };
    let next = desk.reserve_load_balancer(&by(OPERATOR), never).unwrap();
    assert_eq!((next.lb_id.as_str(), next.fpga_lb_id), ("2", 0));
    assert_eq!(status(&desk, &by(OPERATOR), "2").unwrap().expires_at, None);
}

#[test]
fn ten_thousand_registrations_take_all_seats_and_no_more() {
    let desk = open(None, Limits { tokens: 2000, ..Limits::default() });
    let reserved = reserve(&desk);
    let own = by(&reserved.token);
    let mut refused = 0;
    for _ in 0..10_000 {
        let done = desk.register(&own, worker("1"));
        desk.count(&done);
        refused += u64::from(done.is_err_and(|refusal| refusal.kind == Kind::Exhausted));
    }
    let (calls, by_kind) = desk.counts();
    assert_eq!((refused, calls), (10_000 - 1024, 10_000));
    assert!(by_kind.contains(&(Kind::Exhausted, refused)));
    assert_eq!(desk.numbers(), (2 + 1024, 1024));
    assert_eq!(status(&desk, &own, "1").unwrap().workers.len(), 1024);
    // Sessions that leave make room.
    let reset = ResetLoadBalancerRequest { lb_id: "1".to_owned(), workers: true, ..Default::default() };
    assert!(desk.reset_load_balancer(&own, reset).unwrap().workers);
    until("there are seats", || desk.register(&own, worker("1")).is_ok());
}

#[test]
fn senders_and_ticks_are_reset() {
    let desk = desk();
    let own = by(&reserve(&desk).token);
    let lb_id = || "1".to_owned();
    let change = |add: bool, senders: &[&str]| {
        let sender_addresses = senders.iter().map(|&sender| sender.to_owned()).collect();
        match add {
            true => {
                desk.add_senders(&own, AddSendersRequest { lb_id: lb_id(), sender_addresses }).map(|_| ())
            }
            false => {
                let request = RemoveSendersRequest { lb_id: lb_id(), sender_addresses };
                desk.remove_senders(&own, request).map(|_| ())
            }
        }
    };
    let now = || status(&desk, &own, "1").unwrap().sender_addresses;
    change(true, &["10.1.0.0/16", "127.0.0.1", "fd00::1"]).unwrap();
    assert_eq!(now(), ["127.0.0.1", "10.1.0.0/16", "fd00::1"]);
    assert_eq!(kind(change(true, &["10.1.0.0/33"])), Kind::Invalid);
    change(false, &["10.1.0.0/16", "10.9.9.9"]).unwrap();
    assert_eq!(now(), ["127.0.0.1", "fd00::1"]);
    let registered = desk.register(&own, worker("1")).unwrap();
    let slots = || {
        desk.send_state(&own, ready(&registered)).unwrap();
        status(&desk, &own, "1").unwrap().workers[0].slots_assigned
    };
    until("it has all slots", || slots() == 512);
    let reset = ResetLoadBalancerRequest { lb_id: lb_id(), sync: true, senders: true, ..Default::default() };
    let done = desk.reset_load_balancer(&own, reset).unwrap();
    assert_eq!(done, ResetLoadBalancerReply { sync: true, epochs: true, senders: true, workers: false });
    assert_eq!(now(), [""; 0]);
    until("it has them again", || slots() == 512);
    assert_eq!(status(&desk, &own, "1").unwrap().current_epoch, 1, "counted anew");
}
