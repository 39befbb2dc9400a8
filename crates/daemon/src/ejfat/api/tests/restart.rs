//! The state survives a restart.

use super::*;
use std::sync::mpsc;

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
    locked(&api.store).fill();
    let mut refused = 0;
    let networks = |n: u32| vec![format!("10.{}.{}.0/24", n / 256, n % 256)];
    for n in 0..1000 {
        let done =
            api.add_senders(&own, AddSendersRequest { lb_id: "1".to_owned(), sender_addresses: networks(n) });
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
        let writing = locked(&api.store);
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
