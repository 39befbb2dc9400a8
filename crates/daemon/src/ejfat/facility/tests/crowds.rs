//! The limits on tokens, and that many tokens end quickly.

use super::*;
use std::time::{Duration, Instant};

fn on(id: i64) -> Permission {
    Permission { resource: Resource::Reservation(id), level: Level::Update }
}

/// Create children of `parent` with these permissions until that is refused; returns their number and the reason.
fn fill(facility: &mut Whole, parent: i64, has: Permission, mark: &str) -> (usize, ChangeError) {
    for n in 0.. {
        let text = format!("{mark}{n}");
        if let Err(error) = facility.create_token(&new(parent, &text, "t"), &[has]) {
            return (n, error);
        }
    }
    unreachable!()
}

#[test]
fn each_reservation_has_room_of_its_own() {
    let limits = Limits { made: 20, children: 8, generations: 4, of_worker: 4, ..Limits::of(2) };
    let mut facility = opened(None, "operator's token", limits);
    let one = facility.reserve(&reservation(1), &new(OPERATOR, "one", "r")).unwrap();
    let two = facility.reserve(&reservation(2), &new(OPERATOR, "two", "r")).unwrap();
    let token = |facility: &Whole, text: &str| facility.tokens().find(text).unwrap().id;
    let owner = token(&facility, "one");
    // A worker's token: depth and width together.
    let session = facility.register(&session(one, 1), &new(owner, "s", "session")).unwrap();
    let of_session = Permission { resource: Resource::Session(session), level: Level::Update };
    let worker = token(&facility, "s");
    facility.create_token(&new(worker, "below", "t"), &[of_session]).unwrap();
    let below = token(&facility, "below");
    let (n, why) = fill(&mut facility, below, of_session, "w");
    assert!(
        n == 3 && matches!(why, ChangeError::Full("tokens that come from one of a worker", 4)),
        "{n} {why}"
    );
    assert_eq!(fill(&mut facility, worker, of_session, "v").0, 0, "all that come from it count together");
    // Children of one token: the token of its worker does not count.
    let (n, why) = fill(&mut facility, owner, on(one), "o");
    assert!(n == 8 && matches!(why, ChangeError::Full("tokens that this one may make", 8)), "{n} {why}");
    // Generations.
    let mut last = "o0".to_owned();
    for text in ["third", "fourth"] {
        let parent = token(&facility, &last);
        facility.create_token(&new(parent, text, "t"), &[on(one)]).unwrap();
        last = text.to_owned();
    }
    let fourth = token(&facility, &last);
    let why = fill(&mut facility, fourth, on(one), "x").1;
    assert!(matches!(why, ChangeError::Deep(4)) && why.to_string().contains("; hint: "), "{why}");
    // The operator's children have no such limit, only that of the reservation: 4 + 8 + 2 are created.
    let (n, why) = fill(&mut facility, OPERATOR, on(one), "p");
    assert!(n == 20 - 14 && matches!(why, ChangeError::Full("tokens of the reservation", 20)), "{n} {why}");
    // The other reservation has all of its own room; so has the facility, and every worker has a token.
    assert_eq!(fill(&mut facility, OPERATOR, on(two), "q").0, 20);
    let all = Permission { resource: Resource::All, level: Level::Reserve };
    assert_eq!(fill(&mut facility, OPERATOR, all, "r").0, 20 - 1, "the operator's is one");
    facility.register(&super::session(one, 2), &new(owner, "s2", "session")).unwrap();
    let (of_one, of_two, of_facility) = (1 + 2 + 20, 1 + 20, 1 + 19);
    assert_eq!(facility.tokens().len(), of_one + of_two + of_facility);
}

#[test]
fn a_long_line_of_tokens_from_before_there_were_bounds_ends_quickly() {
    const LONG: i64 = 16_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut facility = open(Some(&path));
    let id = facility.reserve(&reservation(1), &new(OPERATOR, "r", "r")).unwrap();
    facility.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    let last = facility.tokens().find("s").unwrap().id;
    drop(facility);
    let older = rusqlite::Connection::open(&path).unwrap();
    older
        .execute_batch(&format!(
            "BEGIN;
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {LONG})
             INSERT INTO token (id, parent, hash, name, created)
                 SELECT {last} + x, {last} + x - 1, CAST(printf('%032d', x) AS BLOB), 'c', 0 FROM n;
             INSERT INTO permission SELECT id, 3, 1, 3 FROM token WHERE name = 'c';
             COMMIT"
        ))
        .unwrap();
    drop(older);
    let begun = Instant::now();
    let mut facility = open(Some(&path));
    assert_eq!(facility.tokens().len() as i64, 3 + LONG);
    facility.free(id).unwrap();
    assert_eq!(facility.tokens().len(), 1);
    // It took 50 s when the descendants of each token were searched anew.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(facility);
    assert_eq!(open(Some(&path)).tokens().len(), 1);
}
