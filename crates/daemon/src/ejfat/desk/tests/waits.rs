//! Which calls wait for which.

use super::*;
use std::sync::mpsc;

/// While a slow disk writes a change, queries and reports do not wait.
#[test]
fn only_changes_wait_for_the_disk() {
    let desk = desk();
    let reserved = reserve(&desk);
    let own = by(&reserved.token);
    let registered = desk.register(&own, worker("1")).unwrap();
    desk.turn(NOW);
    let (done, did) = mpsc::channel();
    std::thread::scope(|threads| {
        let writing = locked(&desk.store);
        let changing = threads.spawn(|| desk.register(&own, worker("1")));
        threads.spawn(|| {
            status(&desk, &own, "1").unwrap();
            desk.send_state(&by(&registered.token), ready(&registered)).unwrap();
            desk.overview(&own, OverviewRequest {}).unwrap();
            desk.version(&own, VersionRequest {}).unwrap();
            let request = TimeseriesRequest { series_selector: vec!["*".to_owned()], since: None };
            assert!(!desk.timeseries(&own, request).unwrap().timeseries.is_empty());
            desk.get_load_balancer(&own, GetLoadBalancerRequest { lb_id: "1".to_owned() }).unwrap();
            let graph = GetChainGraphRequest { lb_id: "1".to_owned(), ..Default::default() };
            desk.get_chain_graph(&own, graph).unwrap();
            desk.list_token_permissions(&own, Default::default()).unwrap();
            assert_eq!((desk.statuses().len(), desk.numbers()), (1, (3, 1)));
            desk.known(Some(&reserved.token)).unwrap();
            // No worker is removed, so nothing is written.
            assert_eq!(desk.turn(NOW), Vec::<String>::new());
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
    let desk = desk();
    let own = by(&reserve(&desk).token);
    let long = "a".repeat(300);
    let graph = |visited| GetChainGraphRequest { lb_id: "1".to_owned(), visited };
    assert_eq!(kind(desk.get_chain_graph(&own, graph(vec![long.clone()]))), Kind::Invalid);
    assert_eq!(kind(desk.get_chain_graph(&own, graph(vec![String::new(); 34]))), Kind::Invalid);
    desk.get_chain_graph(&own, graph(vec![String::new(); 33])).unwrap();
    let ejfat_uri = format!("ejfat://{}@lb:1/lb/1", "t".repeat(5000));
    let chain =
        ChainLoadBalancerRequest { lb_id: "1".to_owned(), ip_family: 1, ejfat_uri, ..Default::default() };
    let refused = desk.chain_load_balancer(&own, chain).unwrap_err();
    assert!(refused.kind == Kind::Invalid && refused.text.contains("longer than 4096 bytes"), "{refused}");
    let slot_constraints = vec![SessionSlotRanges::default(); 1025];
    let demands = SetSlotDemandsRequest { lb_id: "1".to_owned(), slot_constraints };
    assert_eq!(kind(desk.set_slot_demands(&own, demands)), Kind::Invalid);
    let slashes = TimeseriesRequest { series_selector: vec!["/".repeat(1 << 20)], since: None };
    assert_eq!(kind(desk.timeseries(&own, slashes.clone())), Kind::Invalid);
    assert_eq!(kind(desk.timeseries(&by("wrong"), slashes)), Kind::Unauthenticated, "rights come first");
}

/// A request for more samples than a reply may have is refused before they are collected.
#[test]
fn an_answer_is_bounded() {
    let desk = open(None, Limits::default());
    let own = by(&reserve(&desk).token);
    for _ in 0..400 {
        desk.register(&own, worker("1")).unwrap();
    }
    for second in 0..60 {
        desk.turn(NOW + second * 1000);
    }
    let ask = |selector: &str| {
        let since = Some(Timestamp { seconds: NOW / 1000, nanos: 0 });
        desk.timeseries(&own, TimeseriesRequest { series_selector: vec![selector.to_owned()], since })
    };
    assert_eq!(kind(ask("*")), Kind::Exhausted, "400 workers × 12 series × 60 samples");
    assert_eq!(ask("/lb/1/session/*/bytes").unwrap().timeseries.len(), 400);
}
