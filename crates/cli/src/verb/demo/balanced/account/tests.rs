//! The account, of lists and counters that are right, and of some that are not.

use super::*;
use serde_json::json;

const PORTS: [u16; 2] = [1001, 1002];

fn ports() -> Ports {
    Ports { api: 1, data: 2, sync: 3, workers: PORTS.to_vec() }
}

/// Of ten events in three packets each; the second of two workers was killed.
fn account(lists: [&str; 2], packets: [u64; 2], refused: u64) -> Account {
    let send = json!({"events": 10, "ticks": [1, 10]});
    let worker = |n: usize| json!({"address": format!("127.0.0.1:{}", PORTS[n]), "packets": packets[n]});
    let all = json!({
        "packets": 30, "refused": {"too_old": refused}, "unsent": {}, "workers": [worker(0), worker(1)]
    });
    let balance = json!({"reservations": [all]});
    let lists = lists.map(|list| lines(&format!("number,source,bytes,missing\n{list}"))).to_vec();
    let told = CommandReport { send: &send, balance: &balance, workers: &[None, None], lists };
    Account::of(&told, &ports(), 1).expect("an account")
}

const FIRST: &str = "1,0,9,0\n3,0,9,0\n5,0,9,0\n7,0,9,0\n9,0,9,0\n";

#[test]
fn what_was_lost_with_the_killed_worker_is_what_it_was_sent() {
    let account = account([FIRST, "2,0,9,0\n4,0,9,0\n6,0"], [15, 15], 0);
    assert_eq!((account.whole, account.with_the_killed, account.unexplained), (7, 3, 0));
    assert!(account.holds(), "{account}");
    assert!(account.to_string().starts_with("10 events sent through a balancer: every event"));
}

#[test]
fn nothing_is_blamed_on_the_killed_that_went_elsewhere() {
    for (packets, refused) in [([18, 12], 0), ([15, 12], 3), ([15, 15], 1)] {
        let account = account([FIRST, "2,0,9,0\n4,0,9,0\n"], packets, refused);
        assert!(account.unexplained > 0 && !account.holds(), "{packets:?} {refused}: {account}");
    }
}

#[test]
fn split_and_partial_events_are_seen() {
    let list = format!("{FIRST}2,0,3,6\n");
    let account = account([&list, "2,0,6,3\n4,0,9,0\n6,0,9,0\n8,0,9,0\n10,0,9,0\n"], [16, 14], 0);
    assert_eq!((account.split, account.whole), (1, 9));
    assert!(!account.holds());
    let partial = super::tests::account([&list, "4,0,9,0\n6,0,9,0\n8,0,9,0\n10,0,9,0\n"], [18, 12], 0);
    assert_eq!((partial.incomplete, partial.holds()), (1, false));
}
