//! Calls as gRPC and REST make them, on balancers with real sockets.

use super::super::proto::token_permission::{PermissionType, ResourceType};
use super::super::proto::token_selector::TokenSelector as By;
use super::super::proto::*;
use super::super::registry::Limits;
use super::*;
use prost_types::Timestamp;
use skyhaul::balance::BalanceOptions;
use skyhaul::io::lock::lock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const OPERATOR: &str = "the operator's token";
const NOW: Millis = 1_700_000_000_000;

fn open(path: Option<&Path>, limits: Limits) -> Api {
    let registry = Registry::open(path, OPERATOR, limits, NOW).unwrap();
    let balance = BalanceOptions { threads: 1, ..BalanceOptions::default() };
    let instances = Instances {
        listen: vec!["127.0.0.1".parse().unwrap()],
        own: Vec::new(),
        shared: false,
        data_port: 0,
        sync_port: 0,
        balance,
        upstream: Default::default(),
        apart: None,
    };
    Api::open(registry, instances).unwrap()
}

fn api() -> Api {
    open(None, Limits::default())
}

fn at(token: &str, now: Millis) -> Caller {
    let server = ServerAddress { authority: "lb:18008".to_owned(), tls: false };
    Caller { token: Some(token.to_owned()), server, now }
}

fn by(token: &str) -> Caller {
    at(token, NOW)
}

fn reserve(api: &Api) -> ReserveLoadBalancerReply {
    let sender_addresses = vec!["127.0.0.1".to_owned()];
    let request = ReserveLoadBalancerRequest { name: "r".to_owned(), sender_addresses, ..Default::default() };
    api.reserve_load_balancer(&by(OPERATOR), request).unwrap()
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

fn status(api: &Api, caller: &Caller, lb_id: &str) -> Result<LoadBalancerStatusReply, Refusal> {
    api.load_balancer_status(caller, LoadBalancerStatusRequest { lb_id: lb_id.to_owned() })
}

fn kind<T: std::fmt::Debug>(done: Result<T, Refusal>) -> RefusalKind {
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
    let api = api();
    let reserved = reserve(&api);
    let (id, own) = (reserved.lb_id.clone(), by(&reserved.token));
    assert_eq!((id.as_str(), reserved.fpga_lb_id, reserved.strategy.as_str()), ("1", 0, "dynamic"));
    assert!(reserved.data_min_port > 0 && reserved.data_min_port == reserved.data_max_port);
    let uri = format!(
        "ejfat://{}@lb:18008/lb/1?data=127.0.0.1:{}&sync=127.0.0.1:{}",
        reserved.token, reserved.data_min_port, reserved.sync_udp_port
    );
    assert_eq!(reserved.ejfat_uri, uri);
    let got = api.get_load_balancer(&own, GetLoadBalancerRequest { lb_id: id.clone() }).unwrap();
    assert_eq!(
        got,
        ReserveLoadBalancerReply { token: String::new(), ejfat_uri: String::new(), ..reserved.clone() }
    );

    let registered = api.register(&own, worker(&id)).unwrap();
    let session = by(&registered.token);
    api.send_state(&session, ready(&registered)).unwrap();
    until("it has all slots", || {
        api.send_state(&session, ready(&registered)).unwrap();
        status(&api, &own, &id).unwrap().workers[0].slots_assigned == 512
    });
    let said = status(&api, &own, &id).unwrap();
    let one = &said.workers[0];
    assert_eq!(
        (said.sender_addresses.as_slice(), said.slot_resolution),
        (&["127.0.0.1".to_owned()][..], 512)
    );
    assert_eq!((one.name.as_str(), one.udp_port, one.session_id, one.total_events_recv), ("w", 17750, 1, 7));
    assert!((one.fill_percent - 0.25).abs() < 1e-6);

    assert_eq!(api.turn(NOW), Vec::<String>::new());
    let selector = vec!["/lb/1/session/*/slotsAssigned".to_owned(), "/lb/1/packets".to_owned()];
    let request = TimeseriesRequest { series_selector: selector, since: None };
    let series = api.timeseries(&own, request).unwrap().timeseries;
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["/lb/1/packets", "/lb/1/session/1/slotsAssigned"]);
    let overview = api.overview(&own, OverviewRequest {}).unwrap().load_balancers;
    assert_eq!(overview.len(), 1);
    assert!(api.version(&session, VersionRequest {}).unwrap().build.starts_with("skyhaul "));

    let leave = DeregisterRequest { lb_id: String::new(), session_id: registered.session_id.clone() };
    api.deregister(&session, leave.clone()).unwrap();
    assert_eq!(kind(api.deregister(&session, leave)), RefusalKind::Unauthenticated, "replayed");
    assert_eq!(status(&api, &own, &id).unwrap().workers, []);
    api.free_load_balancer(&own, FreeLoadBalancerRequest { lb_id: id.clone() }).unwrap();
    assert_eq!(kind(status(&api, &own, &id)), RefusalKind::Unauthenticated, "replayed");
    assert_eq!(kind(status(&api, &by(OPERATOR), &id)), RefusalKind::Missing);
    assert_eq!(api.stop().len(), 1);
}

#[test]
fn who_may_not_is_refused() {
    let api = api();
    let (one, two) = (reserve(&api), reserve(&api));
    let registered = api.register(&by(&one.token), worker(&one.lb_id)).unwrap();
    let nobody = Caller { token: None, ..by("") };
    for caller in [nobody, by(""), by("wrong"), by(&OPERATOR.to_uppercase())] {
        assert_eq!(kind(status(&api, &caller, &one.lb_id)), RefusalKind::Unauthenticated);
        assert_eq!(kind(api.overview(&caller, OverviewRequest {})), RefusalKind::Unauthenticated);
        assert_eq!(kind(api.version(&caller, VersionRequest {})), RefusalKind::Unauthenticated);
        assert_eq!(kind(api.timeseries(&caller, TimeseriesRequest::default())), RefusalKind::Unauthenticated);
        assert_eq!(kind(api.register(&caller, worker(&one.lb_id))), RefusalKind::Unauthenticated);
        assert_eq!(kind(api.send_state(&caller, ready(&registered))), RefusalKind::Unauthenticated);
        assert_eq!(
            kind(api.create_token(&caller, CreateTokenRequest::default())),
            RefusalKind::Unauthenticated
        );
        assert_eq!(
            kind(api.reserve_load_balancer(&caller, ReserveLoadBalancerRequest::default())),
            RefusalKind::Unauthenticated
        );
    }
    let (worker_of_one, owner_of_two) = (by(&registered.token), by(&two.token));
    for caller in [&worker_of_one, &owner_of_two] {
        let lb_id = one.lb_id.clone();
        assert_eq!(kind(status(&api, caller, &lb_id)), RefusalKind::Denied);
        assert_eq!(kind(api.register(caller, worker(&lb_id))), RefusalKind::Denied);
        assert_eq!(
            kind(api.free_load_balancer(caller, FreeLoadBalancerRequest { lb_id: lb_id.clone() })),
            RefusalKind::Denied
        );
        let senders = AddSendersRequest { lb_id, sender_addresses: vec!["::/0".to_owned()] };
        assert_eq!(kind(api.add_senders(caller, senders)), RefusalKind::Denied);
        assert_eq!(
            kind(api.reserve_load_balancer(caller, ReserveLoadBalancerRequest::default())),
            RefusalKind::Denied
        );
    }
    assert_eq!(kind(api.send_state(&owner_of_two, ready(&registered))), RefusalKind::Denied);
    assert_eq!(api.overview(&owner_of_two, OverviewRequest {}).unwrap().load_balancers.len(), 1);
    assert_eq!(api.overview(&worker_of_one, OverviewRequest {}).unwrap().load_balancers.len(), 0);
    api.turn(NOW);
    let all = |caller: &Caller| {
        let request = TimeseriesRequest { series_selector: vec!["*".to_owned()], since: None };
        api.timeseries(caller, request).unwrap().timeseries
    };
    assert!(all(&worker_of_one).iter().all(|series| series.name.starts_with("/lb/1/session/1/")));
    assert!(all(&owner_of_two).iter().all(|series| series.name.starts_with("/lb/2/")));
    assert_eq!(all(&worker_of_one).len(), 12);
}

#[test]
fn what_cannot_be_asked_for() {
    let api = api();
    let reserved = reserve(&api);
    let own = by(&reserved.token);
    let late = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let base = ReserveLoadBalancerRequest::default;
    for (request, wanted) in [
        (ReserveLoadBalancerRequest { until: late(1), ..base() }, RefusalKind::Invalid),
        (ReserveLoadBalancerRequest { until: late(i64::MAX), ..base() }, RefusalKind::Invalid),
        (ReserveLoadBalancerRequest { name: "a\nb".to_owned(), ..base() }, RefusalKind::Invalid),
        (ReserveLoadBalancerRequest { name: "a".repeat(129), ..base() }, RefusalKind::Invalid),
        (
            ReserveLoadBalancerRequest { sender_addresses: vec!["host".to_owned()], ..base() },
            RefusalKind::Invalid,
        ),
        (
            ReserveLoadBalancerRequest { sender_addresses: vec![String::new(); 1025], ..base() },
            RefusalKind::Exhausted,
        ),
        (ReserveLoadBalancerRequest { ip_family: 2, ..base() }, RefusalKind::Unfit),
        (ReserveLoadBalancerRequest { ip_family: 9, ..base() }, RefusalKind::Invalid),
        (ReserveLoadBalancerRequest { strategy: "best".to_owned(), ..base() }, RefusalKind::Invalid),
    ] {
        assert_eq!(kind(api.reserve_load_balancer(&by(OPERATOR), request.clone())), wanted, "{request:?}");
    }
    let base = || worker(&reserved.lb_id);
    for (request, wanted) in [
        (RegisterRequest { lb_id: "x".to_owned(), ..base() }, RefusalKind::Invalid),
        (RegisterRequest { lb_id: "9".to_owned(), ..base() }, RefusalKind::Denied),
        (RegisterRequest { ip_address: "host".to_owned(), ..base() }, RefusalKind::Invalid),
        (RegisterRequest { ip_address: "0.0.0.0".to_owned(), ..base() }, RefusalKind::Invalid),
        (RegisterRequest { ip_address: "fd00::1".to_owned(), ..base() }, RefusalKind::Unfit),
        (RegisterRequest { udp_port: 0, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { udp_port: 65536, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { udp_port: 65535, port_range: 1, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { port_range: 15, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { port_range: -1, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { weight: f32::NAN, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { weight: -1.0, ..base() }, RefusalKind::Invalid),
        (RegisterRequest { min_factor: 2.0, max_factor: 1.0, ..base() }, RefusalKind::Invalid),
        (
            RegisterRequest { slot_demands: vec![SlotRange { index: 512, length: 1 }], ..base() },
            RefusalKind::Invalid,
        ),
        (
            RegisterRequest { slot_demands: vec![SlotRange { index: -2, length: 1 }], ..base() },
            RefusalKind::Invalid,
        ),
        (
            RegisterRequest { slot_demands: vec![SlotRange { index: 0, length: 0 }], ..base() },
            RefusalKind::Invalid,
        ),
        (
            RegisterRequest { slot_demands: vec![SlotRange { index: 0, length: 70000 }], ..base() },
            RefusalKind::Invalid,
        ),
    ] {
        assert_eq!(kind(api.register(&own, request.clone())), wanted, "{request:?}");
    }
    let registered = api.register(&own, base()).unwrap();
    let session = by(&registered.token);
    let state = || ready(&registered);
    for (request, wanted) in [
        (SendStateRequest { fill_percent: f32::NAN, ..state() }, RefusalKind::Invalid),
        (SendStateRequest { lb_id: "2".to_owned(), ..state() }, RefusalKind::Invalid),
        (SendStateRequest { session_id: "x".to_owned(), ..state() }, RefusalKind::Invalid),
        (SendStateRequest { session_id: "2".to_owned(), ..state() }, RefusalKind::Denied),
    ] {
        assert_eq!(kind(api.send_state(&session, request.clone())), wanted, "{request:?}");
    }
    api.send_state(
        &session,
        SendStateRequest { lb_id: "1".to_owned(), total_events_dequeued: -5, ..state() },
    )
    .unwrap();
    assert_eq!(kind(api.chain_load_balancer(&own, Default::default())), RefusalKind::Invalid);
    assert_eq!(kind(api.unchain_load_balancer(&own, Default::default())), RefusalKind::Invalid);
    assert_eq!(kind(api.get_chain_graph(&own, Default::default())), RefusalKind::Invalid);
}

#[test]
fn a_reservation_ends_in_time() {
    let api = api();
    let reserved = reserve(&api);
    let own = by(&reserved.token);
    let extend = |seconds| {
        let until = Some(Timestamp { seconds, nanos: 500_000_000 });
        api.extend_reservation(&own, ExtendReservationRequest { lb_id: "1".to_owned(), until })
    };
    assert_eq!(kind(extend(NOW / 1000 - 1)), RefusalKind::Invalid);
    assert_eq!(extend(NOW / 1000).unwrap().until.unwrap().to_string(), "2023-11-14T22:13:20.500Z");
    assert_eq!(api.turn(NOW + 499), Vec::<String>::new());
    status(&api, &own, "1").unwrap();
    assert_eq!(api.turn(NOW + 500), Vec::<String>::new());
    assert_eq!(kind(status(&api, &own, "1")), RefusalKind::Unauthenticated, "expired");
    let never = ReserveLoadBalancerRequest { until: Some(Timestamp::default()), ..Default::default() };
    let next = api.reserve_load_balancer(&by(OPERATOR), never).unwrap();
    assert_eq!((next.lb_id.as_str(), next.fpga_lb_id), ("2", 0));
    assert_eq!(status(&api, &by(OPERATOR), "2").unwrap().expires_at, None);
}

#[test]
fn a_reservation_that_another_call_ends_is_refused_and_nothing_waits() {
    let api = Arc::new(api());
    let own = by(&reserve(&api).token);
    let instance = api.locked().reservation(1).unwrap().instance;
    let busy = api.busy_in(&mut api.locked(), instance).unwrap();
    let (done, answer) = mpsc::channel();
    let second = Arc::clone(&api);
    // A call that waits for a lock of its own never ends.
    std::thread::spawn(move || done.send(second.end(1)).unwrap());
    let Ok(refused) = answer.recv_timeout(Duration::from_secs(60)) else {
        std::mem::forget(busy);
        panic!("the second call does not end");
    };
    assert_eq!(kind(refused), RefusalKind::Missing);
    assert!(api.busy_in(&mut api.locked(), instance).is_none(), "the first call still has it");
    drop(busy);
    api.end(1).unwrap();
    assert_eq!(kind(status(&api, &own, "1")), RefusalKind::Unauthenticated);
}

#[test]
fn ten_thousand_registrations_take_all_seats_and_no_more() {
    let api = open(None, Limits { tokens: 2000, ..Limits::default() });
    let reserved = reserve(&api);
    let own = by(&reserved.token);
    let mut refused = 0;
    for _ in 0..10_000 {
        let done = api.register(&own, worker("1"));
        api.count(&done);
        refused += u64::from(done.is_err_and(|refusal| refusal.kind == RefusalKind::Exhausted));
    }
    let (calls, by_kind) = api.counts();
    assert_eq!((refused, calls), (10_000 - 1024, 10_000));
    assert!(by_kind.contains(&(RefusalKind::Exhausted, refused)));
    assert_eq!(api.numbers(), (2 + 1024, 1024));
    assert_eq!(status(&api, &own, "1").unwrap().workers.len(), 1024);
    // Sessions that leave make room.
    let reset = ResetLoadBalancerRequest { lb_id: "1".to_owned(), workers: true, ..Default::default() };
    assert!(api.reset_load_balancer(&own, reset).unwrap().workers);
    until("there are seats", || api.register(&own, worker("1")).is_ok());
}

#[test]
fn a_worker_that_registers_while_others_are_looked_at_stays() {
    let api = open(None, Limits { tokens: 2000, ..Limits::default() });
    let own = by(&reserve(&api).token);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(api.turn(NOW), Vec::<String>::new());
            }
        });
        let registering: Vec<_> = (0..4)
            .map(|_| threads.spawn(|| (0..100).for_each(|_| drop(api.register(&own, worker("1")).unwrap()))))
            .collect();
        registering.into_iter().for_each(|one| one.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(api.numbers().1, 400);
}

#[test]
fn senders_and_ticks_are_reset() {
    let api = api();
    let own = by(&reserve(&api).token);
    let lb_id = || "1".to_owned();
    let change = |add: bool, senders: &[&str]| {
        let sender_addresses = senders.iter().map(|&sender| sender.to_owned()).collect();
        match add {
            true => api.add_senders(&own, AddSendersRequest { lb_id: lb_id(), sender_addresses }).map(|_| ()),
            false => {
                let request = RemoveSendersRequest { lb_id: lb_id(), sender_addresses };
                api.remove_senders(&own, request).map(|_| ())
            }
        }
    };
    let now = || status(&api, &own, "1").unwrap().sender_addresses;
    change(true, &["10.1.0.0/16", "127.0.0.1", "fd00::1"]).unwrap();
    assert_eq!(now(), ["127.0.0.1", "10.1.0.0/16", "fd00::1"]);
    assert_eq!(kind(change(true, &["10.1.0.0/33"])), RefusalKind::Invalid);
    change(false, &["10.1.0.0/16", "10.9.9.9"]).unwrap();
    assert_eq!(now(), ["127.0.0.1", "fd00::1"]);
    let registered = api.register(&own, worker("1")).unwrap();
    let slots = || {
        api.send_state(&own, ready(&registered)).unwrap();
        status(&api, &own, "1").unwrap().workers[0].slots_assigned
    };
    until("it has all slots", || slots() == 512);
    let reset = ResetLoadBalancerRequest { lb_id: lb_id(), sync: true, senders: true, ..Default::default() };
    let done = api.reset_load_balancer(&own, reset).unwrap();
    assert_eq!(done, ResetLoadBalancerReply { sync: true, epochs: true, senders: true, workers: false });
    assert_eq!(now(), [""; 0]);
    until("it has them again", || slots() == 512);
    assert_eq!(status(&api, &own, "1").unwrap().current_epoch, 1, "counted anew");
}

/// Where a reservation receives.
fn data(api: &Api, lb_id: &str) -> u32 {
    let asked = GetLoadBalancerRequest { lb_id: lb_id.to_owned() };
    api.get_load_balancer(&by(OPERATOR), asked).unwrap().data_min_port
}

fn at_port(lb_id: &str, udp_port: u32) -> RegisterRequest {
    RegisterRequest { udp_port, keep_lb_header: true, ..worker(lb_id) }
}

#[test]
fn a_worker_that_leads_back_is_refused_directly_and_through_others() {
    let api = api();
    let all: Vec<String> = (0..3).map(|_| reserve(&api).lb_id).collect();
    let ports: Vec<u32> = all.iter().map(|id| data(&api, id)).collect();
    let register = |of: usize, to: usize| api.register(&by(OPERATOR), at_port(&all[of], ports[to]));
    let error = register(0, 0).unwrap_err();
    assert_eq!(error.kind, RefusalKind::Invalid);
    assert!(error.text.contains(&format!("itself receives on 127.0.0.1:{}", ports[0])), "{error}");
    // Balancers in a row. The last one would close the circle.
    register(0, 1).unwrap();
    register(1, 2).unwrap();
    for to in [0, 1] {
        let error = register(2, to).unwrap_err();
        assert_eq!(error.kind, RefusalKind::Unfit, "{error}");
        let said =
            format!("at this address already feeds reservation {}: packets would circulate; hint: ", all[2]);
        assert!(error.text.contains(&said), "{error}");
    }
    register(0, 2).unwrap();
    // A range of ports that includes the balancer's own port.
    let wide = RegisterRequest { port_range: 1, ..at_port(&all[2], ports[2] & !1) };
    assert_eq!(kind(api.register(&by(OPERATOR), wide)), RefusalKind::Invalid);
}

#[test]
fn addresses_of_no_single_host_are_refused() {
    let api = api();
    let id = reserve(&api).lb_id;
    for ip in [
        "255.255.255.255",
        "127.255.255.255",
        "0.0.0.0",
        "0.0.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "::ffff:255.255.255.255",
    ] {
        let asked = RegisterRequest { ip_address: ip.to_owned(), ..worker(&id) };
        let error = api.register(&by(OPERATOR), asked).unwrap_err();
        assert_eq!(error.kind, RefusalKind::Invalid, "{ip}: {error}");
    }
    assert_eq!(status(&api, &by(OPERATOR), &id).unwrap().workers.len(), 0);
}

fn permission(resource_type: ResourceType, id: &str, level: PermissionType) -> TokenPermission {
    TokenPermission {
        resource_type: resource_type.into(),
        resource_id: id.to_owned(),
        permission: level.into(),
    }
}

#[test]
fn tokens_give_no_more_than_they_have_and_go_with_their_parent() {
    let api = api();
    let one = reserve(&api);
    reserve(&api);
    let create = |caller: &Caller, permissions: Vec<TokenPermission>| {
        api.create_token(caller, CreateTokenRequest { name: "t".to_owned(), permissions })
    };
    let own = by(&one.token);
    use {PermissionType::*, ResourceType::*};
    let registering = create(&own, vec![permission(Reservation, "1", Register)]).unwrap();
    assert!(registering.ejfat_uri.contains("/lb/1?data="), "{}", registering.ejfat_uri);
    let registrar = by(&registering.token);
    for (wanted, refused) in [
        (permission(Reservation, "1", Update), RefusalKind::Denied),
        (permission(Reservation, "2", ReadOnly), RefusalKind::Denied),
        (permission(LoadBalancer, "1", ReadOnly), RefusalKind::Denied),
        (permission(All, "", ReadOnly), RefusalKind::Denied),
        (permission(Reservation, "", ReadOnly), RefusalKind::Invalid),
        (permission(Reservation, "-1", ReadOnly), RefusalKind::Invalid),
    ] {
        assert_eq!(kind(create(&registrar, vec![wanted])), refused);
    }
    assert_eq!(kind(create(&own, Vec::new())), RefusalKind::Invalid);
    assert_eq!(kind(create(&by(OPERATOR), vec![permission(Session, "77", ReadOnly)])), RefusalKind::Missing);
    let looking = create(&registrar, vec![permission(Reservation, "1", ReadOnly)]).unwrap();
    let onlooker = by(&looking.token);
    status(&api, &onlooker, "1").unwrap();
    assert_eq!(kind(api.register(&onlooker, worker("1"))), RefusalKind::Denied);
    let registered = api.register(&registrar, worker("1")).unwrap();

    let of = |token: &str| Some(TokenSelector { token_selector: Some(By::Token(token.to_owned())) });
    let list = |caller: &Caller, target| {
        api.list_token_permissions(caller, ListTokenPermissionsRequest { target }).map(|r| r.token.unwrap())
    };
    let details = list(&registrar, None).unwrap();
    assert_eq!(details.permissions, [permission(Reservation, "1", Register)]);
    assert_eq!(details.created_at, "2023-11-14T22:13:20Z");
    assert_eq!(list(&own, of(&looking.token)).unwrap().permissions, [permission(Reservation, "1", ReadOnly)]);
    assert_eq!(kind(list(&onlooker, of(&registering.token))), RefusalKind::Denied);
    assert_eq!(kind(list(&onlooker, of("unknown token"))), RefusalKind::Denied);
    assert_eq!(kind(list(&by(OPERATOR), of("unknown token"))), RefusalKind::Missing);
    let children = api.list_child_tokens(&registrar, ListChildTokensRequest { target: None }).unwrap().tokens;
    assert_eq!(children.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["t", "session-1"]);

    let revoke = |caller: &Caller, target| api.revoke_token(caller, RevokeTokenRequest { target });
    assert_eq!(kind(revoke(&onlooker, of(&registering.token))), RefusalKind::Denied);
    assert_eq!(kind(revoke(&by(OPERATOR), None)), RefusalKind::Unfit);
    let id = Some(TokenSelector { token_selector: Some(By::Id(details.id)) });
    revoke(&own, id.clone()).unwrap();
    assert_eq!(kind(revoke(&by(OPERATOR), id)), RefusalKind::Missing);
    for gone in [&registering.token, &looking.token, &registered.token] {
        assert_eq!(kind(status(&api, &by(gone), "1")), RefusalKind::Unauthenticated);
    }
    status(&api, &own, "1").unwrap();
}

/// A worker that someone else removes is told so, and does not take this for a restart; one that leaves is told
/// nothing.
#[test]
fn a_worker_that_another_removes_is_told() {
    let api = api();
    let own = by(&reserve(&api).token);
    let leave = |caller: &Caller, worker: &RegisterReply| {
        let request = DeregisterRequest { session_id: worker.session_id.clone(), ..Default::default() };
        api.deregister(caller, request).unwrap();
        kind(api.send_state(&by(&worker.token), ready(worker)))
    };
    let [removed, left] = [1, 2].map(|_| api.register(&own, worker("1")).unwrap());
    assert_eq!(leave(&own, &removed), RefusalKind::Ended);
    assert_eq!(leave(&by(&left.token), &left), RefusalKind::Unauthenticated);
    assert_eq!(api.known(Some(&removed.token)).unwrap_err().kind, RefusalKind::Ended, "at the door, too");
    assert!(api.known(Some(&left.token)).is_err_and(|refusal| refusal.kind == RefusalKind::Unauthenticated));
    // All workers have to register again.
    let again = api.register(&own, worker("1")).unwrap();
    let reset = ResetLoadBalancerRequest { lb_id: "1".to_owned(), workers: true, ..Default::default() };
    api.reset_load_balancer(&own, reset).unwrap();
    assert_eq!(kind(api.send_state(&by(&again.token), ready(&again))), RefusalKind::Unauthenticated);
}

#[test]
fn number_zero_is_the_callers_own_token() {
    let api = api();
    let own = by(&reserve(&api).token);
    let of = |target| api.list_token_permissions(&own, ListTokenPermissionsRequest { target }).unwrap();
    assert_eq!(of(Some(TokenSelector { token_selector: Some(By::Id(0)) })), of(None));
}

#[test]
fn uris_have_the_form_that_all_clients_read() {
    let server = |tls| ServerAddress { authority: "lb.example:18008".to_owned(), tls };
    let data = ["10.0.0.1:19522".parse().unwrap(), "[fd00::1]:19522".parse().unwrap()];
    assert_eq!(of_server(&server(true), "t"), "ejfats://t@lb.example:18008/");
    assert_eq!(
        of_reservation(&server(false), "t", 7, &data, &["10.0.0.1:19531".parse().unwrap()]),
        "ejfat://t@lb.example:18008/lb/7?data=10.0.0.1:19522&data=[fd00::1]:19522&sync=10.0.0.1:19531"
    );
}

#[test]
fn uris_are_as_all_clients_read_them() {
    let server = |tls| ServerAddress { authority: "lb.example:18008".to_owned(), tls };
    let data = ["10.0.0.1:19522".parse().unwrap(), "[fd00::1]:19522".parse().unwrap()];
    assert_eq!(super::of_server(&server(true), "t"), "ejfats://t@lb.example:18008/");
    assert_eq!(
        super::of_reservation(&server(false), "t", 7, &data, &["10.0.0.1:19531".parse().unwrap()]),
        "ejfat://t@lb.example:18008/lb/7?data=10.0.0.1:19522&data=[fd00::1]:19522&sync=10.0.0.1:19531"
    );
}

/// The state survives a restart.
mod restart {
    use super::*;

    #[test]
    fn a_restart_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let first = open(Some(&path), Limits::default());
        let (reserved, other) = (reserve(&first), reserve(&first));
        let own = by(&reserved.token);
        let workers: Vec<_> = (0..3).map(|_| first.register(&own, worker("1")).unwrap()).collect();
        let leave = DeregisterRequest { lb_id: "1".to_owned(), session_id: workers[1].session_id.clone() };
        first.deregister(&own, leave).unwrap();
        // As after kill -9: nothing is ended.
        drop(first);

        let next = open(Some(&path), Limits::default());
        let names = |api: &Api| {
            let said = status(api, &own, "1").unwrap();
            said.workers.iter().map(|worker| worker.session_id).collect::<Vec<_>>()
        };
        assert_eq!(names(&next), [1, 3]);
        assert_eq!(
            kind(next.send_state(&by(&workers[1].token), ready(&workers[1]))),
            RefusalKind::Unauthenticated,
            "replayed"
        );
        until("workers go on as they were", || {
            let said =
                [&workers[0], &workers[2]].map(|worker| next.send_state(&by(&worker.token), ready(worker)));
            assert!(said.iter().all(Result::is_ok), "{said:?}");
            status(&next, &own, "1").unwrap().workers.iter().all(|worker| worker.slots_assigned == 256)
        });
        assert_eq!(next.turn(NOW), Vec::<String>::new());
        assert_eq!(names(&next), [1, 3]);
        status(&next, &by(&other.token), "2").unwrap();
        let new = next.register(&own, worker("1")).unwrap();
        assert_eq!(new.session_id, "4");
    }

    #[test]
    fn a_named_reservation_is_made_once_and_has_one_uri() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let named = |api: &Api| {
            let request = ReserveLoadBalancerRequest { name: "run".to_owned(), ..Default::default() };
            api.reserve_named(&by(OPERATOR), request).unwrap()
        };
        let token = |uri: &str| uri.split(['/', '@']).nth(2).unwrap().to_owned();
        let first = open(Some(&path), Limits::default());
        let (id, uri) = named(&first);
        assert_eq!(named(&first), (id, uri.clone()));
        drop(first);
        let next = open(Some(&path), Limits::default());
        let (again, other) = named(&next);
        assert_eq!((again, token(&other)), (id, token(&uri)));
        next.register(&by(&token(&uri)), worker("1")).unwrap();
        assert_eq!(next.numbers().0, 4);
        next.free_load_balancer(&by(OPERATOR), FreeLoadBalancerRequest { lb_id: "1".to_owned() }).unwrap();
        assert_ne!(token(&named(&next).1), token(&uri), "what has ended does not come back");
    }

    #[test]
    fn a_full_database_refuses_changes_and_packets_go_on() {
        let api = api();
        let reserved = reserve(&api);
        let own = by(&reserved.token);
        let registered = api.register(&own, worker("1")).unwrap();
        lock(&api.store).fill();
        let mut refused = 0;
        let networks = |n: u32| vec![format!("10.{}.{}.0/24", n / 256, n % 256)];
        for n in 0..1000 {
            let done = api.add_senders(
                &own,
                AddSendersRequest { lb_id: "1".to_owned(), sender_addresses: networks(n) },
            );
            if let Err(refusal) = done {
                assert_eq!(refusal.kind, RefusalKind::Unavailable, "{refusal}");
                assert!(refusal.text.contains("disk is full; hint: free space on that disk"), "{refusal}");
                refused += 1;
            }
        }
        assert!(refused > 0);
        let senders = status(&api, &own, "1").unwrap().sender_addresses.len();
        assert_eq!(senders, 1 + 1000 - refused, "those that were written");
        until("it has all slots", || {
            api.send_state(&own, ready(&registered)).unwrap();
            status(&api, &own, "1").unwrap().workers[0].slots_assigned == 512
        });
        let before = api.numbers();
        let more = (0..1000).map(|_| api.register(&own, worker("1"))).filter(Result::is_err).count();
        assert!(more > 0);
        assert_eq!(api.numbers(), (before.0 + 1000 - more, before.1 + 1000 - more));
        api.send_state(&own, ready(&registered)).unwrap();
        assert_eq!(api.turn(NOW), Vec::<String>::new());
    }

    #[test]
    fn slots_that_are_demanded_are_had_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let first = open(Some(&path), Limits::default());
        let request = ReserveLoadBalancerRequest { strategy: "explicit".to_owned(), ..Default::default() };
        let reserved = first.reserve_load_balancer(&by(OPERATOR), request).unwrap();
        assert_eq!(reserved.strategy, "explicit");
        let own = by(&reserved.token);
        let range = |index, length| SlotRange { index, length };
        let demanding = |slots| RegisterRequest { slot_demands: slots, ..worker("1") };
        let a = first.register(&own, demanding(vec![range(8, 4), range(-1, 2)])).unwrap();
        let b = first.register(&own, worker("1")).unwrap();
        let full = first.register(&own, demanding(vec![range(-1, 512)])).unwrap_err();
        assert_eq!(full.kind, RefusalKind::Exhausted);
        let demand = |api: &Api, of: &RegisterReply, slots| {
            let session_id = of.session_id.clone();
            let slot_constraints = vec![SessionSlotRanges { session_id, slots }];
            api.set_slot_demands(&own, SetSlotDemandsRequest { lb_id: "1".to_owned(), slot_constraints })
        };
        let had = |api: &Api| {
            for one in [&a, &b] {
                api.send_state(&own, ready(one)).unwrap();
            }
            let said = status(api, &own, "1").unwrap().workers;
            said.into_iter().map(|one| (one.slots, one.slot_demands)).collect::<Vec<_>>()
        };
        let both = vec![range(0, 2), range(8, 4)];
        until("a has its slots", || had(&first) == [(both.clone(), both.clone()), (vec![], vec![])]);
        drop(first);

        let next = open(Some(&path), Limits::default());
        until("a has them again", || had(&next) == [(both.clone(), both.clone()), (vec![], vec![])]);
        assert_eq!(kind(demand(&next, &b, vec![range(500, 13)])), RefusalKind::Invalid);
        assert_eq!(had(&next)[0].1, both, "nothing changed");
        demand(&next, &b, vec![range(0, 512)]).unwrap();
        assert_eq!(had(&next)[1].1, [range(0, 512)]);
        assert_eq!(had(&next)[0].1, [], "no others demand any");
        let other = by(&reserve(&next).token);
        let request = SetSlotDemandsRequest { lb_id: "1".to_owned(), slot_constraints: Vec::new() };
        assert_eq!(kind(next.set_slot_demands(&other, request)), RefusalKind::Denied);
    }

    /// While a slow disk writes a change, queries and reports do not wait.
    #[test]
    fn only_changes_wait_for_the_disk() {
        let api = api();
        let reserved = reserve(&api);
        let own = by(&reserved.token);
        let registered = api.register(&own, worker("1")).unwrap();
        api.turn(NOW);
        let (done, did) = mpsc::channel();
        std::thread::scope(|threads| {
            let writing = lock(&api.store);
            let changing = threads.spawn(|| api.register(&own, worker("1")));
            threads.spawn(|| {
                status(&api, &own, "1").unwrap();
                api.send_state(&by(&registered.token), ready(&registered)).unwrap();
                api.overview(&own, OverviewRequest {}).unwrap();
                api.version(&own, VersionRequest {}).unwrap();
                let request = TimeseriesRequest { series_selector: vec!["*".to_owned()], since: None };
                assert!(!api.timeseries(&own, request).unwrap().timeseries.is_empty());
                api.get_load_balancer(&own, GetLoadBalancerRequest { lb_id: "1".to_owned() }).unwrap();
                let graph = GetChainGraphRequest { lb_id: "1".to_owned(), ..Default::default() };
                api.get_chain_graph(&own, graph).unwrap();
                api.list_token_permissions(&own, Default::default()).unwrap();
                assert_eq!((api.statuses().len(), api.numbers()), (1, (3, 1)));
                api.known(Some(&reserved.token)).unwrap();
                // No worker is removed, so nothing is written.
                assert_eq!(api.turn(NOW), Vec::<String>::new());
                done.send(()).unwrap();
            });
            let looked = did.recv_timeout(Duration::from_secs(60));
            let is_waiting = !changing.is_finished();
            drop(writing);
            looked.expect("who only looks waits for the disk");
            assert!(is_waiting, "a change is written before it holds");
            changing.join().unwrap().unwrap();
        });
    }

    #[test]
    fn fields_are_bounded_before_they_are_used() {
        let api = api();
        let own = by(&reserve(&api).token);
        let long = "a".repeat(300);
        let graph = |visited| GetChainGraphRequest { lb_id: "1".to_owned(), visited };
        assert_eq!(kind(api.get_chain_graph(&own, graph(vec![long.clone()]))), RefusalKind::Invalid);
        assert_eq!(kind(api.get_chain_graph(&own, graph(vec![String::new(); 34]))), RefusalKind::Invalid);
        api.get_chain_graph(&own, graph(vec![String::new(); 33])).unwrap();
        let ejfat_uri = format!("ejfat://{}@lb:1/lb/1", "t".repeat(5000));
        let chain =
            ChainLoadBalancerRequest { lb_id: "1".to_owned(), ip_family: 1, ejfat_uri, ..Default::default() };
        let refused = api.chain_load_balancer(&own, chain).unwrap_err();
        assert!(
            refused.kind == RefusalKind::Invalid && refused.text.contains("longer than 4096 bytes"),
            "{refused}"
        );
        let slot_constraints = vec![SessionSlotRanges::default(); 1025];
        let demands = SetSlotDemandsRequest { lb_id: "1".to_owned(), slot_constraints };
        assert_eq!(kind(api.set_slot_demands(&own, demands)), RefusalKind::Invalid);
        let slashes = TimeseriesRequest { series_selector: vec!["/".repeat(1 << 20)], since: None };
        assert_eq!(kind(api.timeseries(&own, slashes.clone())), RefusalKind::Invalid);
        assert_eq!(
            kind(api.timeseries(&by("wrong"), slashes)),
            RefusalKind::Unauthenticated,
            "rights come first"
        );
    }

    /// A request for more samples than a reply may have is refused before they are collected.
    #[test]
    fn an_answer_is_bounded() {
        let api = open(None, Limits::default());
        let own = by(&reserve(&api).token);
        for _ in 0..400 {
            api.register(&own, worker("1")).unwrap();
        }
        for second in 0..60 {
            api.turn(NOW + second * 1000);
        }
        let ask = |selector: &str| {
            let since = Some(Timestamp { seconds: NOW / 1000, nanos: 0 });
            api.timeseries(&own, TimeseriesRequest { series_selector: vec![selector.to_owned()], since })
        };
        assert_eq!(kind(ask("*")), RefusalKind::Exhausted, "400 workers × 12 series × 60 samples");
        assert_eq!(ask("/lb/1/session/*/bytes").unwrap().timeseries.len(), 400);
    }
}
