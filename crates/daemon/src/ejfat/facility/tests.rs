mod crowds;

use super::*;
use skyhaul_core::balance::{Prefix, Strategy};

const NOW: Millis = 1_700_000_000_000;

/// A facility with its store: changes are planned, written and made in one step.
struct Whole(Facility, Store);

impl std::ops::Deref for Whole {
    type Target = Facility;
    fn deref(&self) -> &Facility {
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
    let (facility, store) = Facility::open(path, operator, limits, NOW).unwrap();
    Whole(facility, store)
}

fn new<'a>(parent: i64, text: &str, name: &'a str) -> NewToken<'a> {
    NewToken { parent, hash: Hash::of(text), name, now: NOW }
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
fn all(facility: &Facility) -> (Vec<Reservation>, Vec<Session>, Vec<Token>) {
    let sessions = facility.sessions.values().cloned().collect();
    (facility.reservations().cloned().collect(), sessions, facility.tokens().iter().cloned().collect())
}

#[test]
fn it_is_the_same_when_it_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let before = {
        let mut facility = open(Some(&path));
        let id = facility.reserve(&reservation(2), &new(OPERATOR, "r", "reservation")).unwrap();
        let other = facility.reserve(&reservation(3), &new(OPERATOR, "other", "reservation")).unwrap();
        let token = facility.tokens().find("r").unwrap().id;
        facility.register(&session(id, u64::MAX), &new(token, "s", "session")).unwrap();
        let gone = facility.register(&session(id, 2), &new(token, "gone", "session")).unwrap();
        facility.extend(id, None).unwrap();
        facility.set_senders(id, vec!["10.1.0.0/16".parse().unwrap()]).unwrap();
        facility.deregister(&[gone]).unwrap();
        let third = facility.register(&session(id, 3), &new(token, "third", "session")).unwrap();
        facility.set_demands(id, &BTreeMap::from([(third, vec![(7, 9)])])).unwrap();
        facility.deregister(&[third]).unwrap();
        facility.free(other).unwrap();
        let on = Permission { resource: Resource::Session(1), level: Level::ReadOnly };
        facility.create_token(&new(token, "look", "look"), &[on, on]).unwrap();
        all(&facility)
    };
    let mut facility = open(Some(&path));
    assert_eq!(all(&facility), before);
    assert_eq!((before.0.len(), before.1.len(), before.2.len()), (1, 1, 4));
    // No number is used twice.
    assert_eq!(facility.reserve(&reservation(3), &new(OPERATOR, "again", "reservation")).unwrap(), 3);
    assert_eq!(facility.register(&session(1, 2), &new(OPERATOR, "new", "session")).unwrap(), 4);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn another_operator_takes_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut facility = open(Some(&path));
    facility.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    drop(facility);
    let kept = |operator: &str, others| {
        let (facility, store) =
            Facility::open_with(Some(&path), operator, Limits::default(), NOW, others).unwrap();
        Whole(facility, store)
    };
    let facility = kept("another one", Others::Kept);
    assert_eq!(facility.tokens().find("operator's token"), None);
    assert_eq!(facility.tokens().find("another one").unwrap().id, OPERATOR);
    assert!(facility.tokens().find("r").is_some() && facility.revoked() == 0);
    drop(facility);
    // The same operator again revokes nothing.
    assert_eq!(opened(Some(&path), "another one", Limits::default()).revoked(), 0);
    // Tokens derived from a token that others may know end with it; the reservation stays.
    let facility = opened(Some(&path), "a third", Limits::default());
    assert!(facility.tokens().find("r").is_none() && facility.tokens().find("another one").is_none());
    assert_eq!((facility.revoked(), facility.tokens().len(), facility.reservations().count()), (1, 1, 1));
    drop(facility);
    let mut facility = opened(Some(&path), "a third", Limits::default());
    let on = Permission { resource: Resource::Reservation(1), level: Level::Update };
    facility.create_token(&new(OPERATOR, "r", "r"), &[on]).unwrap();
    drop(facility);
    // A token that already exists does not become two.
    let facility = kept("r", Others::Kept);
    assert_eq!(facility.tokens().find("r").unwrap().id, OPERATOR);
    assert_eq!(facility.tokens().len(), 1);
}

#[test]
fn a_permission_holds_for_what_is_inside_and_for_lower_levels() {
    let mut facility = open(None);
    let id = facility.reserve(&reservation(2), &new(OPERATOR, "r", "reservation")).unwrap();
    let worker = facility.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    let inside = [Resource::All, Resource::Instance(2), Resource::Reservation(id), Resource::Session(worker)];
    for (outer, &resource) in inside.iter().enumerate() {
        for level in Level::ALL {
            let text = format!("{outer}{level:?}");
            let permission = Permission { resource, level };
            facility.create_token(&new(OPERATOR, &text, "t"), &[permission]).unwrap();
            let token = facility.tokens().find(&text).unwrap();
            for (inner, &of) in inside.iter().enumerate() {
                for wanted in Level::ALL {
                    let may = facility.may(token, of, wanted);
                    assert_eq!(may, inner >= outer && wanted <= level, "{token:?} {of:?} {wanted:?}");
                }
            }
            assert!(!facility.may(token, Resource::Instance(3), Level::ReadOnly) || outer == 0);
            assert!(!facility.may(token, Resource::Reservation(9), Level::ReadOnly) || outer == 0);
        }
    }
    let nothing = Token { permissions: Vec::new(), ..facility.tokens().find("s").unwrap().clone() };
    assert!(!facility.may(&nothing, Resource::Session(worker), Level::ReadOnly));
}

#[test]
fn what_ends_takes_its_tokens_along_and_no_others() {
    let mut facility = open(None);
    let one = facility.reserve(&reservation(1), &new(OPERATOR, "one", "reservation")).unwrap();
    let two = facility.reserve(&reservation(2), &new(OPERATOR, "two", "reservation")).unwrap();
    let parent = facility.tokens().find("one").unwrap().id;
    let a = facility.register(&session(one, 1), &new(parent, "a", "session")).unwrap();
    facility.register(&session(one, 2), &new(parent, "b", "session")).unwrap();
    let on = |id| Permission { resource: Resource::Reservation(id), level: Level::ReadOnly };
    facility.create_token(&new(OPERATOR, "both", "both"), &[on(one), on(two)]).unwrap();
    facility.create_token(&new(OPERATOR, "only", "only"), &[on(one)]).unwrap();
    let of_a = Permission { resource: Resource::Session(a), level: Level::ReadOnly };
    facility.create_token(&new(OPERATOR, "of a", "of a"), &[of_a]).unwrap();
    facility.deregister(&[a]).unwrap();
    let valid = |facility: &Facility| -> Vec<String> {
        facility.tokens().iter().skip(1).map(|token| token.name.clone()).collect()
    };
    assert_eq!(valid(&facility), ["reservation-1", "reservation-2", "session-2", "both", "only"]);
    facility.free(one).unwrap();
    assert_eq!(valid(&facility), ["reservation-2", "both"]);
    assert_eq!((facility.sessions(one).count(), facility.free_instance(|_| true).unwrap()), (0, 1));
    assert!(matches!(facility.free(one), Err(ChangeError::Gone("reservation", _))));
    assert_eq!((facility.over(NOW + 999), facility.over(NOW + 1000)), (vec![], vec![two]));
    let root = facility.tokens().find("two").unwrap().id;
    assert_eq!(facility.revoke(root).unwrap(), 1);
    assert_eq!(valid(&facility), ["both"]);
}

#[test]
fn limits_are_refusals_and_nothing_changes() {
    let limits = Limits { instances: 1, tokens: 3, senders: 2, ..Limits::default() };
    let mut facility = opened(None, "o", limits);
    let id = facility.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    let full = facility.free_instance(|_| true).unwrap_err().to_string();
    assert_eq!(full, "all 1 load balancers are in use; hint: end those that are not needed");
    let networks: Vec<Prefix> = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| ip.parse().unwrap()).into();
    assert!(matches!(facility.set_senders(id, networks), Err(ChangeError::Full(..))));
    facility.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    let before = all(&facility);
    assert!(matches!(
        facility.register(&session(id, 2), &new(OPERATOR, "t", "session")),
        Err(ChangeError::Full("tokens", 3))
    ));
    assert!(matches!(facility.create_token(&new(OPERATOR, "t", "t"), &[]), Err(ChangeError::Full(..))));
    assert_eq!(all(&facility), before);
}

#[test]
fn a_full_disk_refuses_changes_and_keeps_what_there_is() {
    let mut facility = open(None);
    let id = facility.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    facility.fill();
    let before = all(&facility);
    let mut worker = session(id, 1);
    worker.name = "w".repeat(20_000);
    let full = facility.register(&worker, &new(OPERATOR, "s", "session")).unwrap_err().to_string();
    assert!(full.contains("disk is full; hint: make room"), "{full}");
    assert_eq!(all(&facility), before);
    assert!(facility.tokens().find("s").is_none());
    facility.free(id).expect("what needs no room goes on");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let error = |path: &Path| {
        let error = Facility::open(Some(path), "o", Limits::default(), NOW).unwrap_err().to_string();
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
    assert!(error(&path).contains("something else"));
    std::fs::remove_file(&path).unwrap();
    let mut facility = open(Some(&path));
    let id = facility.reserve(&reservation(1), &new(OPERATOR, "r", "reservation")).unwrap();
    facility.register(&session(id, 1), &new(OPERATOR, "s", "session")).unwrap();
    assert!(error(&path).contains("another balancer uses it"));
    drop(facility);
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
            Facility::open(Some(&path), "operator's token", Limits::default(), NOW).unwrap_err().to_string();
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
    let mut facility = open(Some(&path));
    let id = facility.reserve(&reservation(1), &new(OPERATOR, "r", "r")).unwrap();
    let other = facility.reserve(&reservation(2), &new(OPERATOR, "o", "o")).unwrap();
    let (first, second) = (facility.chain(chain(id)).unwrap(), facility.chain(chain(id)).unwrap());
    facility.chain(chain(other)).unwrap();
    facility.rechain(second, "8", "another").unwrap();
    facility.unchain(first).unwrap();
    drop(facility);
    let mut facility = open(Some(&path));
    let kept: Vec<Chain> = facility.chains(id).cloned().collect();
    let expected = Chain { id: second, session: "8".to_owned(), token: "another".to_owned(), ..chain(id) };
    assert_eq!(kept, [expected]);
    assert!(!format!("{kept:?}").contains("another"), "nobody is shown a token");
    while facility.chain(chain(id)).is_ok() {}
    assert_eq!(facility.chains(id).count(), 16);
    assert!(matches!(facility.rechain(999, "", ""), Err(ChangeError::Gone("chain", 999))));
    facility.free(id).unwrap();
    assert_eq!((facility.chains(id).count(), facility.chains(other).count()), (0, 1));
    drop(facility);
    assert_eq!(open(Some(&path)).chains(id).count(), 0);
}

#[test]
fn a_state_from_before_there_were_chains_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let mut facility = open(Some(&path));
    let id = facility.reserve(&reservation(1), &new(OPERATOR, "r", "r")).unwrap();
    let before = all(&facility);
    drop(facility);
    let older = rusqlite::Connection::open(&path).unwrap();
    older.execute_batch("DROP TABLE chain; PRAGMA user_version = 1").unwrap();
    drop(older);
    let mut facility = open(Some(&path));
    assert_eq!(all(&facility), before);
    facility.chain(chain(id)).unwrap();
    drop(facility);
    assert_eq!(open(Some(&path)).chains(id).count(), 1);
}
