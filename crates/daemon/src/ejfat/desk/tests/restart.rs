//! The state survives a restart.

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
    let names = |desk: &Desk| {
        let said = status(desk, &own, "1").unwrap();
        said.workers.iter().map(|worker| worker.session_id).collect::<Vec<_>>()
    };
    assert_eq!(names(&next), [1, 3]);
    assert_eq!(
        kind(next.send_state(&by(&workers[1].token), ready(&workers[1]))),
        Kind::Unauthenticated,
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
    let named = |desk: &Desk| {
        let request = ReserveLoadBalancerRequest { name: "run".to_owned(), ..Default::default() };
        desk.reserve_named(&by(OPERATOR), request).unwrap()
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
    let desk = desk();
    let reserved = reserve(&desk);
    let own = by(&reserved.token);
    let registered = desk.register(&own, worker("1")).unwrap();
    locked(&desk.store).fill();
    let mut refused = 0;
    let networks = |n: u32| vec![format!("10.{}.{}.0/24", n / 256, n % 256)];
    for n in 0..1000 {
        let done = desk
            .add_senders(&own, AddSendersRequest { lb_id: "1".to_owned(), sender_addresses: networks(n) });
        if let Err(refusal) = done {
            assert_eq!(refusal.kind, Kind::Unavailable, "{refusal}");
            assert!(refusal.text.contains("disk is full; hint: make room"), "{refusal}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    let senders = status(&desk, &own, "1").unwrap().sender_addresses.len();
    assert_eq!(senders, 1 + 1000 - refused, "those that were written");
    until("it has all slots", || {
        desk.send_state(&own, ready(&registered)).unwrap();
        status(&desk, &own, "1").unwrap().workers[0].slots_assigned == 512
    });
    let before = desk.numbers();
    let more = (0..1000).map(|_| desk.register(&own, worker("1"))).filter(Result::is_err).count();
    assert!(more > 0);
    assert_eq!(desk.numbers(), (before.0 + 1000 - more, before.1 + 1000 - more));
    desk.send_state(&own, ready(&registered)).unwrap();
    assert_eq!(desk.turn(NOW), Vec::<String>::new());
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
    assert_eq!(full.kind, Kind::Exhausted);
    let demand = |desk: &Desk, of: &RegisterReply, slots| {
        let session_id = of.session_id.clone();
        let slot_constraints = vec![SessionSlotRanges { session_id, slots }];
        desk.set_slot_demands(&own, SetSlotDemandsRequest { lb_id: "1".to_owned(), slot_constraints })
    };
    let had = |desk: &Desk| {
        for one in [&a, &b] {
            desk.send_state(&own, ready(one)).unwrap();
        }
        let said = status(desk, &own, "1").unwrap().workers;
        said.into_iter().map(|one| (one.slots, one.slot_demands)).collect::<Vec<_>>()
    };
    let both = vec![range(0, 2), range(8, 4)];
    until("a has its slots", || had(&first) == [(both.clone(), both.clone()), (vec![], vec![])]);
    drop(first);

    let next = open(Some(&path), Limits::default());
    until("a has them again", || had(&next) == [(both.clone(), both.clone()), (vec![], vec![])]);
    assert_eq!(kind(demand(&next, &b, vec![range(500, 13)])), Kind::Invalid);
    assert_eq!(had(&next)[0].1, both, "nothing changed");
    demand(&next, &b, vec![range(0, 512)]).unwrap();
    assert_eq!(had(&next)[1].1, [range(0, 512)]);
    assert_eq!(had(&next)[0].1, [], "no others demand any");
    let other = by(&reserve(&next).token);
    let request = SetSlotDemandsRequest { lb_id: "1".to_owned(), slot_constraints: Vec::new() };
    assert_eq!(kind(next.set_slot_demands(&other, request)), Kind::Denied);
}
