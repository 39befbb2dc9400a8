use super::*;
use skyhaul_core::balance::{Prefix, Strategy};
use std::time::{Duration, Instant};

const NOW: Millis = 1_700_000_000_000;

/// A registry with its database: changes are planned, written and made in one step.
struct Whole(Registry, Database);

impl std::ops::Deref for Whole {
    type Target = Registry;
    fn deref(&self) -> &Registry {
        &self.0
    }
}

impl Whole {
    fn make<T>(&mut self, change: Change<T>) -> Result<T, ChangeError> {
        Ok(change.write(&mut self.1)?.hold(&mut self.0))
    }

    fn fill(&self) {
        self.1.fill();
    }

    fn revoke(&mut self, id: i64) -> Result<usize, ChangeError> {
        self.make(self.0.revoke(id))
    }

    fn deregister(&mut self, ids: &[i64]) -> Result<(), ChangeError> {
        self.make(self.0.deregister(ids))
    }

    fn unchain(&mut self, id: i64) -> Result<(), ChangeError> {
        self.make(self.0.unchain(id))
    }

    fn set_demands(&mut self, id: i64, demands: &BTreeMap<i64, Vec<(u16, u16)>>) -> Result<(), ChangeError> {
        self.make(self.0.set_demands(id, demands))
    }
}

macro_rules! made_at_once {
    ($($name:ident($($arg:ident: $of:ty),*) -> $gives:ty;)*) => {
        impl Whole {
            $(fn $name(&mut self, $($arg: $of),*) -> Result<$gives, ChangeError> {
                self.make(self.0.$name($($arg),*)?)
            })*
        }
    };
}

made_at_once! {
    create_token(new: &NewToken<'_>, permissions: &[Permission]) -> i64;
    reserve(wanted: &Reservation, new: &NewToken<'_>) -> i64;
    register(wanted: &Session, new: &NewToken<'_>) -> i64;
    free(id: i64) -> ();
    extend(id: i64, until: Option<Millis>) -> ();
    set_senders(id: i64, senders: Vec<Prefix>) -> ();
    chain(wanted: Chain) -> i64;
    rechain(id: i64, session: &str, token: &str) -> ();
}

fn open(path: Option<&Path>) -> Whole {
    opened(path, "operator's token", Limits::default())
}

fn opened(path: Option<&Path>, operator: &str, limits: Limits) -> Whole {
    let (registry, store) = Registry::open(path, operator, limits, NOW).unwrap();
    Whole(registry, store)
}

fn new<'a>(parent: i64, text: &str, name: &'a str) -> NewToken<'a> {
    NewToken { parent, hash: TokenHash::of(text), name, now: NOW }
}

fn reservation(instance: i64) -> Reservation {
    let senders = vec!["10.0.0.0/8".parse().unwrap(), "fd00::1".parse().unwrap()];
    let (until, name) = (Some(NOW + 1000), "r".to_owned());
    Reservation { id: 0, instance, name, family: 1, strategy: Strategy::Static, created: NOW, until, senders }
}

fn session(reservation: i64, number: u64) -> Session {
    Session {
        id: 0,
        reservation,
        number,
        name: "w".to_owned(),
        ip: "10.0.0.7".parse().unwrap(),
        port: 17750,
        bits: 4,
        keep_label: true,
        weight: 1.5,
        min_factor: 0.25,
        max_factor: 2.0,
        demands: vec![(3, 2), (511, 1)],
    }
}

/// The whole state.
fn all(registry: &Registry) -> (Vec<Reservation>, Vec<Session>, Vec<Token>) {
    let sessions = registry.sessions.values().cloned().collect();
    (registry.reservations().cloned().collect(), sessions, registry.tokens().iter().cloned().collect())
}

#[test]
fn it_is_the_same_when_it_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let before = {
        let mut registry = open(Some(&path));
        let id = registry.reserve(&reservation(2), &new(OPERATOR, "r", "reservation")).unwrap();
        let other = registry.reserve(&reservation(3), &new(OPERATOR, "other", "reservation")).unwrap();
        let token = registry.tokens().find("r").unwrap().id;
        registry.register(&session(id, u64::MAX), &new(token, "s", "session")).unwrap();
        let gone = registry.register(&session(id, 2), &new(token, "gone", "session")).unwrap();
        registry.extend(id, None).unwrap();
        registry.set_senders(id, vec!["10.1.0.0/16".parse().unwrap()]).unwrap();
        registry.deregister(&[gone]).unwrap();
        let third = registry.register(&session(id, 3), &new(token, "third", "session")).unwrap();
        registry.set_demands(id, &BTreeMap::from([(third, vec![(7, 9)])])).unwrap();
        registry.deregister(&[third]).unwrap();
        registry.free(other).unwrap();
        let on = Permission { resource: Resource::Session(1), level: Level::ReadOnly };
        registry.create_token(&new(token, "look", "look"), &[on, on]).unwrap();
        all(&registry)
    };
    let mut registry = open(Some(&path));
    assert_eq!(all(&registry), before);
    assert_eq!((before.0.len(), before.1.len(), before.2.len()), (1, 1, 4));
    // No number is used twice.
    assert_eq!(registry.reserve(&reservation(3), &new(OPERATOR, "again", "reservation")).unwrap(), 3);
    assert_eq!(registry.register(&session(1, 2), &new(OPERATOR, "new", "session")).unwrap(), 4);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn another_operator_takes_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut registry = open(Some(&path));
    registry.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    drop(registry);
    let kept = |operator: &str, others| {
        let (registry, store) =
            Registry::open_with(Some(&path), operator, Limits::default(), NOW, others).unwrap();
        Whole(registry, store)
    };
    let registry = kept("another one", DerivedTokens::Kept);
    assert_eq!(registry.tokens().find("operator's token"), None);
    assert_eq!(registry.tokens().find("another one").unwrap().id, OPERATOR);
    assert!(registry.tokens().find("r").is_some() && registry.revoked() == 0);
    drop(registry);
    // The same operator again revokes nothing.
    assert_eq!(opened(Some(&path), "another one", Limits::default()).revoked(), 0);
    // Tokens derived from a token that others may know end with it; the reservation stays.
    let registry = opened(Some(&path), "a third", Limits::default());
    assert!(registry.tokens().find("r").is_none() && registry.tokens().find("another one").is_none());
    assert_eq!((registry.revoked(), registry.tokens().len(), registry.reservations().count()), (1, 1, 1));
    drop(registry);
    let mut registry = opened(Some(&path), "a third", Limits::default());
    let on = Permission { resource: Resource::Reservation(1), level: Level::Update };
    registry.create_token(&new(OPERATOR, "r", "r"), &[on]).unwrap();
    drop(registry);
    // A token that already exists does not become two.
    let registry = kept("r", DerivedTokens::Kept);
    assert_eq!(registry.tokens().find("r").unwrap().id, OPERATOR);
    assert_eq!(registry.tokens().len(), 1);
}

#[test]
fn a_permission_holds_for_what_is_inside_and_for_lower_levels() {
    let mut registry = open(None);
    let id = registry.reserve(&reservation(2), &new(OPERATOR, "r", "reservation")).unwrap();
    let worker = registry.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    let inside = [Resource::All, Resource::Instance(2), Resource::Reservation(id), Resource::Session(worker)];
    for (outer, &resource) in inside.iter().enumerate() {
        for level in Level::ALL {
            let text = format!("{outer}{level:?}");
            let permission = Permission { resource, level };
            registry.create_token(&new(OPERATOR, &text, "t"), &[permission]).unwrap();
            let token = registry.tokens().find(&text).unwrap();
            for (inner, &of) in inside.iter().enumerate() {
                for wanted in Level::ALL {
                    let may = registry.may(token, of, wanted);
                    assert_eq!(may, inner >= outer && wanted <= level, "{token:?} {of:?} {wanted:?}");
                }
            }
            assert!(!registry.may(token, Resource::Instance(3), Level::ReadOnly) || outer == 0);
            assert!(!registry.may(token, Resource::Reservation(9), Level::ReadOnly) || outer == 0);
        }
    }
    let nothing = Token { permissions: Vec::new(), ..registry.tokens().find("s").unwrap().clone() };
    assert!(!registry.may(&nothing, Resource::Session(worker), Level::ReadOnly));
}

#[test]
fn what_ends_takes_its_tokens_along_and_no_others() {
    let mut registry = open(None);
    let one = registry.reserve(&reservation(1), &new(OPERATOR, "one", "reservation")).unwrap();
    let two = registry.reserve(&reservation(2), &new(OPERATOR, "two", "reservation")).unwrap();
    let parent = registry.tokens().find("one").unwrap().id;
    let a = registry.register(&session(one, 1), &new(parent, "a", "session")).unwrap();
    registry.register(&session(one, 2), &new(parent, "b", "session")).unwrap();
    let on = |id| Permission { resource: Resource::Reservation(id), level: Level::ReadOnly };
    registry.create_token(&new(OPERATOR, "both", "both"), &[on(one), on(two)]).unwrap();
    registry.create_token(&new(OPERATOR, "only", "only"), &[on(one)]).unwrap();
    let of_a = Permission { resource: Resource::Session(a), level: Level::ReadOnly };
    registry.create_token(&new(OPERATOR, "of a", "of a"), &[of_a]).unwrap();
    registry.deregister(&[a]).unwrap();
    let valid = |registry: &Registry| -> Vec<String> {
        registry.tokens().iter().skip(1).map(|token| token.name.clone()).collect()
    };
    assert_eq!(valid(&registry), ["reservation-1", "reservation-2", "session-2", "both", "only"]);
    registry.free(one).unwrap();
    assert_eq!(valid(&registry), ["reservation-2", "both"]);
    assert_eq!((registry.sessions(one).count(), registry.free_instance(|_| true).unwrap()), (0, 1));
    assert!(matches!(registry.free(one), Err(ChangeError::Gone("reservation", _))));
    assert_eq!((registry.over(NOW + 999), registry.over(NOW + 1000)), (vec![], vec![two]));
    let root = registry.tokens().find("two").unwrap().id;
    assert_eq!(registry.revoke(root).unwrap(), 1);
    assert_eq!(valid(&registry), ["both"]);
}

#[test]
fn limits_are_refusals_and_nothing_changes() {
    let limits = Limits { instances: 1, tokens: 3, senders: 2, ..Limits::default() };
    let mut registry = opened(None, "o", limits);
    let id = registry.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    let full = registry.free_instance(|_| true).unwrap_err().to_string();
    assert_eq!(full, "all 1 load balancers are in use; hint: end those that are not needed");
    let networks: Vec<Prefix> = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| ip.parse().unwrap()).into();
    assert!(matches!(registry.set_senders(id, networks), Err(ChangeError::Full(..))));
    registry.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    let before = all(&registry);
    assert!(matches!(
        registry.register(&session(id, 2), &new(OPERATOR, "t", "session")),
        Err(ChangeError::Full("tokens", 3))
    ));
    assert!(matches!(registry.create_token(&new(OPERATOR, "t", "t"), &[]), Err(ChangeError::Full(..))));
    assert_eq!(all(&registry), before);
}

#[test]
fn a_full_disk_refuses_changes_and_keeps_what_there_is() {
    let mut registry = open(None);
    let id = registry.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    registry.fill();
    let before = all(&registry);
    let mut worker = session(id, 1);
    worker.name = "w".repeat(20_000);
    let full = registry.register(&worker, &new(OPERATOR, "s", "session")).unwrap_err().to_string();
    assert!(full.contains("disk is full; hint: free space on that disk"), "{full}");
    assert_eq!(all(&registry), before);
    assert!(registry.tokens().find("s").is_none());
    registry.free(id).expect("what needs no room goes on");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let error = |path: &Path| {
        let error = Registry::open(Some(path), "o", Limits::default(), NOW).unwrap_err().to_string();
        assert!(error.contains("; hint: "), "{error}");
        error
    };
    std::fs::write(&path, b"no database, but long enough for the header of one, at least a hundred octets in all, or so it is said").unwrap();
    assert!(error(&path).contains("not a database"));
    assert!(error(&directory.path().join("no/state.db")).contains("unable to open"));
    std::fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    assert!(error(&path).contains("another program"));
    std::fs::remove_file(&path).unwrap();
    let mut registry = open(Some(&path));
    let id = registry.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    registry.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    assert!(error(&path).contains("stop the balancer that uses it"));
    drop(registry);
    let damage = |change: &str| {
        let theirs = rusqlite::Connection::open(&path).unwrap();
        theirs.execute_batch(&format!("PRAGMA foreign_keys = off; {change}")).unwrap();
    };
    for (change, told) in [
        ("UPDATE session SET ip = 'nowhere'", "corrupt: session 1"),
        ("UPDATE session SET ip = '::1', port = 70000", "read the state"),
        ("UPDATE session SET port = 1, reservation = 9", "corrupt: session 1"),
        (
            "UPDATE session SET reservation = 1; UPDATE permission SET level = 9 WHERE token = 2",
            "corrupt: a permission of token 2",
        ),
        (
            "UPDATE permission SET level = 3; UPDATE sender SET network = 'x' WHERE network LIKE 'fd%'",
            "corrupt: the sender x",
        ),
        ("PRAGMA user_version = 3", "newer skyhaul"),
    ] {
        damage(change);
        let error =
            Registry::open(Some(&path), "operator's token", Limits::default(), NOW).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

fn chain(reservation: i64) -> Chain {
    Chain {
        id: 0,
        reservation,
        uri: "ejfat://t@lb:1/lb/1".to_owned(),
        session: "7".to_owned(),
        token: "of the session".to_owned(),
        addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        ip: "10.0.0.2".parse().unwrap(),
        port: 19522,
        weight: 2.0,
        min_factor: 0.5,
        max_factor: 3.0,
    }
}

#[test]
fn chains_are_kept_and_end_with_their_reservation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut registry = open(Some(&path));
    let id = registry.reserve(&reservation(1), &new(OPERATOR, "r", "r")).unwrap();
    let other = registry.reserve(&reservation(2), &new(OPERATOR, "o", "o")).unwrap();
    let (first, second) = (registry.chain(chain(id)).unwrap(), registry.chain(chain(id)).unwrap());
    registry.chain(chain(other)).unwrap();
    registry.rechain(second, "8", "another").unwrap();
    registry.unchain(first).unwrap();
    drop(registry);
    let mut registry = open(Some(&path));
    let kept: Vec<Chain> = registry.chains(id).cloned().collect();
    let expected = Chain { id: second, session: "8".to_owned(), token: "another".to_owned(), ..chain(id) };
    assert_eq!(kept, [expected]);
    assert!(!format!("{kept:?}").contains("another"), "nobody is shown a token");
    while registry.chain(chain(id)).is_ok() {}
    assert_eq!(registry.chains(id).count(), 16);
    assert!(matches!(registry.rechain(999, "", ""), Err(ChangeError::Gone("chain", 999))));
    registry.free(id).unwrap();
    assert_eq!((registry.chains(id).count(), registry.chains(other).count()), (0, 1));
    drop(registry);
    assert_eq!(open(Some(&path)).chains(id).count(), 0);
}

#[test]
fn a_state_from_before_there_were_chains_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut registry = open(Some(&path));
    let id = registry.reserve(&reservation(1), &new(OPERATOR, "r", "r")).unwrap();
    let before = all(&registry);
    drop(registry);
    let older = rusqlite::Connection::open(&path).unwrap();
    older.execute_batch("DROP TABLE chain; PRAGMA user_version = 1").unwrap();
    drop(older);
    let mut registry = open(Some(&path));
    assert_eq!(all(&registry), before);
    registry.chain(chain(id)).unwrap();
    drop(registry);
    assert_eq!(open(Some(&path)).chains(id).count(), 1);
}

fn on(id: i64) -> Permission {
    Permission { resource: Resource::Reservation(id), level: Level::Update }
}

/// Create children of `parent` with these permissions until that is refused; returns their number and the reason.
fn fill(registry: &mut Whole, parent: i64, has: Permission, mark: &str) -> (usize, ChangeError) {
    for n in 0.. {
        let text = format!("{mark}{n}");
        if let Err(error) = registry.create_token(&new(parent, &text, "t"), &[has]) {
            return (n, error);
        }
    }
    unreachable!()
}

#[test]
fn each_reservation_has_room_of_its_own() {
    let limits = Limits { made: 20, children: 8, generations: 4, of_worker: 4, ..Limits::of(2) };
    let mut registry = opened(None, "operator's token", limits);
    let one = registry.reserve(&reservation(1), &new(OPERATOR, "one", "r")).unwrap();
    let two = registry.reserve(&reservation(2), &new(OPERATOR, "two", "r")).unwrap();
    let token = |registry: &Whole, text: &str| registry.tokens().find(text).unwrap().id;
    let owner = token(&registry, "one");
    // A worker's token: depth and width together.
    let worker = registry.register(&session(one, 1), &new(owner, "s", "session")).unwrap();
    let of_session = Permission { resource: Resource::Session(worker), level: Level::Update };
    let worker = token(&registry, "s");
    registry.create_token(&new(worker, "below", "t"), &[of_session]).unwrap();
    let below = token(&registry, "below");
    let (n, why) = fill(&mut registry, below, of_session, "w");
    assert!(
        n == 3 && matches!(why, ChangeError::Full("tokens that come from one of a worker", 4)),
        "{n} {why}"
    );
    assert_eq!(fill(&mut registry, worker, of_session, "v").0, 0, "all that come from it count together");
    // Children of one token: the token of its worker does not count.
    let (n, why) = fill(&mut registry, owner, on(one), "o");
    assert!(n == 8 && matches!(why, ChangeError::Full("tokens that this one may make", 8)), "{n} {why}");
    // Generations.
    let mut last = "o0".to_owned();
    for text in ["third", "fourth"] {
        let parent = token(&registry, &last);
        registry.create_token(&new(parent, text, "t"), &[on(one)]).unwrap();
        last = text.to_owned();
    }
    let fourth = token(&registry, &last);
    let why = fill(&mut registry, fourth, on(one), "x").1;
    assert!(matches!(why, ChangeError::Deep(4)) && why.to_string().contains("; hint: "), "{why}");
    // The operator's children have no such limit, only that of the reservation: 4 + 8 + 2 are created.
    let (n, why) = fill(&mut registry, OPERATOR, on(one), "p");
    assert!(n == 20 - 14 && matches!(why, ChangeError::Full("tokens of the reservation", 20)), "{n} {why}");
    // The other reservation has all of its own room; so has the control plane, and every worker has a token.
    assert_eq!(fill(&mut registry, OPERATOR, on(two), "q").0, 20);
    let all = Permission { resource: Resource::All, level: Level::Reserve };
    assert_eq!(fill(&mut registry, OPERATOR, all, "r").0, 20 - 1, "the operator's is one");
    registry.register(&session(one, 2), &new(owner, "s2", "session")).unwrap();
    let (of_one, of_two, of_facility) = (1 + 2 + 20, 1 + 20, 1 + 19);
    assert_eq!(registry.tokens().len(), of_one + of_two + of_facility);
}

#[test]
fn a_long_line_of_tokens_from_before_there_were_bounds_ends_quickly() {
    const LONG: i64 = 16_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut registry = open(Some(&path));
    let id = registry.reserve(&reservation(1), &new(OPERATOR, "r", "r")).unwrap();
    registry.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    let last = registry.tokens().find("s").unwrap().id;
    drop(registry);
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
    let mut registry = open(Some(&path));
    assert_eq!(registry.tokens().len() as i64, 3 + LONG);
    registry.free(id).unwrap();
    assert_eq!(registry.tokens().len(), 1);
    // It took 50 s when the descendants of each token were searched anew.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(registry);
    assert_eq!(open(Some(&path)).tokens().len(), 1);
}
