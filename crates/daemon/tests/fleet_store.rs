//! The client of a fleet's store against a real etcd: three members that fail, rights, certificates, and a store that is full.
#![allow(clippy::unwrap_used)]

mod etcd;

use etcd::Etcd;
use etcd::authority::Authority;
use skyhaul_core::fleet::{FencingGuard, FencingToken, MAX_FLEET_VALUE_BYTES, MAX_VEX_PART_BYTES};
use skyhaul_daemon::fleet::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Waits until something is so, at most a minute.
#[track_caller]
fn until<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = is_so() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a file with a text.
fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn open(endpoints: &[String]) -> FleetStore {
    let options = FleetStoreOptions { endpoints: endpoints.to_vec(), ..FleetStoreOptions::default() };
    FleetStore::open(&options).expect("a client")
}

/// Waits until a store takes writes.
fn ready(store: &FleetStore) {
    until("a leader", || store.put("ready", b"", None).ok());
}

fn written(outcome: ConditionalWrite) -> i64 {
    match outcome {
        ConditionalWrite::Written { mod_revision, .. } => mod_revision,
        ConditionalWrite::Refused(current) => panic!("refused: {current:?}"),
    }
}

/// What a reader of a watch knows, from its events alone.
#[derive(Default)]
struct Mirror {
    keys: BTreeMap<String, String>,
    revisions: BTreeMap<String, i64>,
    is_current: bool,
    cuts: usize,
}

impl Mirror {
    fn take(&mut self, event: PrefixEvent) {
        match event {
            PrefixEvent::Put(value) => {
                let before = self.revisions.insert(value.key.clone(), value.mod_revision);
                assert!(before.is_none_or(|before| before < value.mod_revision), "{value:?} came again");
                self.keys.insert(value.key, String::from_utf8(value.value).unwrap());
            }
            PrefixEvent::TooLong { key, bytes, .. } => {
                self.keys.insert(key, format!("{bytes} bytes"));
            }
            PrefixEvent::Deleted { key, .. } => {
                assert!(self.keys.remove(&key).is_some(), "{key} was never reported");
            }
            PrefixEvent::Current { .. } => self.is_current = true,
            PrefixEvent::Away(_) => (self.is_current, self.cuts) = (false, self.cuts + 1),
        }
    }

    fn take_next(&mut self, watch: &mut PrefixWatch) {
        if let Some(event) = watch.next(Duration::from_millis(100)) {
            self.take(event);
        }
    }

    /// Reads until the keys are these.
    #[track_caller]
    fn expect(&mut self, watch: &mut PrefixWatch, keys: &[(&str, &str)]) {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let begun = Instant::now();
        while self.keys != keys {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.keys);
            self.take_next(watch);
        }
    }
}

#[test]
fn three_members_that_fail() {
    let Some(mut etcd) = Etcd::start(3, "http", &[]) else { return };
    let store = open(&etcd.endpoints());
    ready(&store);
    reads_and_writes(&store);
    a_watch_lists_first(&store);
    one_of_two_movers_wins(&etcd);
    a_paused_holder_finds_out(&store, &etcd);
    a_lease_is_lost_with_its_keys(&store);
    a_leader_is_killed(&store, &mut etcd);
    all_members_are_killed_and_started_again(&store, &mut etcd);
    keys_change_and_are_compacted_during_a_cut(&store, &etcd);
}

fn reads_and_writes(store: &FleetStore) {
    assert_eq!(store.get("k/none").unwrap(), None);
    let first = written(store.put_if_absent("k/a", b"1", None).unwrap());
    let ConditionalWrite::Refused(Some(present)) = store.put_if_absent("k/a", b"2", None).unwrap() else {
        panic!("it was written over")
    };
    assert_eq!((present.value.as_slice(), present.mod_revision), (&b"1"[..], first));
    let second = written(store.replace("k/a", b"3", first, None).unwrap());
    assert!(matches!(store.replace("k/a", b"4", first, None).unwrap(), ConditionalWrite::Refused(Some(_))));
    assert!(!store.delete_unchanged("k/a", first).unwrap());
    assert!(store.delete_unchanged("k/a", second).unwrap());
    // Several pages, of values that are too long for one message together.
    let long = vec![b'x'; 300 << 10];
    for n in 0..600 {
        store.put(&format!("pages/{n:03}"), if n < 20 { &long } else { b"" }, None).unwrap();
    }
    let list = store.list("pages/", 1000).unwrap();
    let keys: Vec<_> = list.values.iter().map(|value| value.key.clone()).collect();
    assert_eq!(keys, (0..600).map(|n| format!("pages/{n:03}")).collect::<Vec<_>>());
    assert!(list.values[..20].iter().all(|value| value.value == long));
    let error = store.list("pages/", 599).unwrap_err();
    assert_eq!(error.why, StoreProblem::TooManyKeys(599));
    let error = store.put("k/b", &vec![0; MAX_VEX_PART_BYTES + 1], None).unwrap_err();
    assert!(matches!(error.why, StoreProblem::Unsent { .. }), "{error}");
    let members: Vec<_> = store.members().into_iter().map(Result::unwrap).collect();
    assert_eq!((members.len(), members.iter().filter(|member| member.is_leader).count()), (3, 1));
}

fn a_watch_lists_first(store: &FleetStore) {
    store.put("w/old", b"1", None).unwrap();
    let (mut watch, mut mirror) = (store.watch("w/"), Mirror::default());
    mirror.expect(&mut watch, &[("w/old", "1")]);
    store.put("w/new", b"2", None).unwrap();
    store.put("w/old", &vec![b'x'; MAX_FLEET_VALUE_BYTES + 1], None).unwrap();
    store.put("x/other", b"3", None).unwrap();
    mirror.expect(&mut watch, &[("w/old", "65537 bytes"), ("w/new", "2")]);
    store.delete("w/old").unwrap();
    mirror.expect(&mut watch, &[("w/new", "2")]);
}

fn one_of_two_movers_wins(etcd: &Etcd) {
    let endpoints = etcd.endpoints();
    let held: Vec<FleetClaim> = std::thread::scope(|scope| {
        let mover = |name: &'static str| {
            let endpoints = &endpoints;
            scope.spawn(move || {
                open(endpoints)
                    .claim("claims/link/ON-JIVE", name.as_bytes(), Duration::from_secs(30))
                    .unwrap()
            })
        };
        let movers = ["one", "two", "three"].map(mover);
        let outcomes = movers.map(|mover| mover.join().unwrap());
        let held = outcomes.into_iter().filter_map(|outcome| match outcome {
            ClaimOutcome::Held(claim) => Some(claim),
            ClaimOutcome::Taken(_) => None,
        });
        held.collect()
    });
    assert_eq!(held.len(), 1);
    let claim = held.into_iter().next().unwrap();
    assert!(claim.is_held() && claim.put("r/1", b"mine").unwrap());
    let first = claim.token();
    claim.release().unwrap();
    let next = open(&endpoints).claim("claims/link/ON-JIVE", b"four", Duration::from_secs(30)).unwrap();
    let ClaimOutcome::Held(next) = next else { panic!("it was given back") };
    let mut guard = FencingGuard::restored(first);
    assert!(guard.admit(next.token()).is_ok() && guard.admit(first).is_err());
}

const HELD: &str = "claims/buffer/JIVE";

/// The process of a holder, started by the test below.
#[test]
#[ignore = "the process of a holder, which another test starts, stops and kills"]
fn holder() {
    let endpoints: Vec<_> = std::env::var("FLEET_ENDPOINTS").unwrap().split(',').map(str::to_owned).collect();
    let store = open(&endpoints);
    let outcome = store.claim(HELD, b"holder", Duration::from_secs(2)).unwrap();
    let ClaimOutcome::Held(claim) = outcome else { panic!("{outcome:?}") };
    println!("\ntoken {}", claim.token().0);
    let begun = Instant::now();
    while claim.is_held() && begun.elapsed() < Duration::from_secs(50) {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Nothing was done between the pause and this. Had it not asked, the store would refuse it.
    println!("\nstale {} {}", !claim.is_held(), claim.put("r/2", b"stale").unwrap());
}

fn a_paused_holder_finds_out(store: &FleetStore, etcd: &Etcd) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "holder", "--nocapture"])
        .env("FLEET_ENDPOINTS", etcd.endpoints().join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut line = |start: &str| lines.find_map(|line| Some(line.strip_prefix(start)?.to_owned())).unwrap();
    let token = FencingToken(line("token ").parse().unwrap());
    // For longer than its lease: it is kept alive.
    std::thread::sleep(Duration::from_millis(3500));
    let taken = store.claim(HELD, b"second", Duration::from_secs(5)).unwrap();
    assert!(matches!(&taken, ClaimOutcome::Taken(by) if by.value == b"holder"), "{taken:?}");
    let signal = |name: &str| {
        let done = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(done.unwrap().success());
    };
    signal("-STOP");
    let second = until("the end of the lease", || {
        match store.claim(HELD, b"second", Duration::from_secs(30)).unwrap() {
            ClaimOutcome::Held(claim) => Some(claim),
            ClaimOutcome::Taken(_) => None,
        }
    });
    signal("-CONT");
    assert_eq!(line("stale "), "true false");
    assert!(child.wait().unwrap().success());
    assert!(second.token() > token && second.is_held());
    assert_eq!(store.get("r/2").unwrap(), None);
}

fn a_lease_is_lost_with_its_keys(store: &FleetStore) {
    let lease = store.lease(Duration::from_secs(2)).unwrap();
    let (mut watch, mut mirror) = (store.watch("l/"), Mirror::default());
    store.put("l/live", b"1", Some(lease.id())).unwrap();
    mirror.expect(&mut watch, &[("l/live", "1")]);
    lease.release().unwrap();
    mirror.expect(&mut watch, &[]);
    let error = store.put("l/live", b"1", Some(1)).unwrap_err();
    assert_eq!(error.why, StoreProblem::LeaseExpired);
}

fn a_leader_is_killed(store: &FleetStore, etcd: &mut Etcd) {
    let (mut watch, mut mirror) = (store.watch("f/"), Mirror::default());
    let lease = store.lease(Duration::from_secs(20)).unwrap();
    store.put("f/live", b"1", Some(lease.id())).unwrap();
    let members: Vec<_> = store.members().into_iter().map(Result::unwrap).collect();
    let leader = members.iter().find(|member| member.is_leader).unwrap().at.clone();
    let leader = etcd.endpoints().iter().position(|url| *url == leader).unwrap();
    etcd.kill_member(leader);
    // Within the deadline of one call.
    store.put("f/after", b"2", None).unwrap();
    mirror.expect(&mut watch, &[("f/live", "1"), ("f/after", "2")]);
    assert!(lease.is_held());
    etcd.start_member(leader);
    until("three members", || store.members().iter().all(Result::is_ok).then_some(()));
}

fn all_members_are_killed_and_started_again(store: &FleetStore, etcd: &mut Etcd) {
    let lease = store.lease(Duration::from_secs(2)).unwrap();
    store.put("c/0", b"1", None).unwrap();
    let (mut watch, mut mirror) = (store.watch("c/"), Mirror::default());
    mirror.expect(&mut watch, &[("c/0", "1")]);
    etcd.kill_all();
    until("the cut to be seen", || {
        mirror.take_next(&mut watch);
        (mirror.cuts > 0).then_some(())
    });
    let error = store.put("c/0", b"2", None).unwrap_err();
    assert!(error.is_away() && error.to_string().contains("hint: "), "{error}");
    until("the end of the lease by this host's clock", || (!lease.is_held()).then_some(()));
    etcd.start_all();
    ready(store);
    store.put("c/1", b"3", None).unwrap();
    mirror.expect(&mut watch, &[("c/0", "1"), ("c/1", "3")]);
    assert!(mirror.is_current && !lease.is_held());
}

/// Passes connections on to a member, until it is cut.
fn passage(to: String) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, is_cut) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&is_cut);
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(&to).unwrap();
            for (from, into) in [(&near, &far), (&far, &near)] {
                let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                let is_cut = Arc::clone(&seen);
                std::thread::spawn(move || {
                    let mut bytes = [0; 65536];
                    let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
                    while !is_cut.load(Ordering::SeqCst) {
                        match from.read(&mut bytes) {
                            Ok(0) => break,
                            Ok(count) if into.write_all(&bytes[..count]).is_err() => break,
                            Ok(_) => {}
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                            Err(_) => break,
                        }
                    }
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (format!("http://{at}"), is_cut)
}

fn keys_change_and_are_compacted_during_a_cut(store: &FleetStore, etcd: &Etcd) {
    for is_compacted in [true, false] {
        for n in 0..3 {
            store.put(&format!("d/{n}"), b"1", None).unwrap();
        }
        let (at, is_cut) = passage(etcd.endpoints()[0].trim_start_matches("http://").to_owned());
        let (mut watch, mut mirror) = (open(&[at]).watch("d/"), Mirror::default());
        mirror.expect(&mut watch, &[("d/0", "1"), ("d/1", "1"), ("d/2", "1")]);
        is_cut.store(true, Ordering::SeqCst);
        until("the cut to be seen", || {
            mirror.take_next(&mut watch);
            (mirror.cuts > 0).then_some(())
        });
        store.delete("d/0").unwrap();
        store.put("d/1", b"2", None).unwrap();
        store.put("d/3", b"1", None).unwrap();
        store.put("d/9", b"made and deleted during the cut", None).unwrap();
        store.delete("d/9").unwrap();
        let revision = store.put("unrelated", b"", None).unwrap();
        if is_compacted {
            store.compact(revision).unwrap();
        }
        is_cut.store(false, Ordering::SeqCst);
        mirror.expect(&mut watch, &[("d/1", "2"), ("d/2", "1"), ("d/3", "1")]);
        store.put("d/4", b"1", None).unwrap();
        mirror.expect(&mut watch, &[("d/1", "2"), ("d/2", "1"), ("d/3", "1"), ("d/4", "1")]);
        // A list knows nothing of it; the changes since do.
        assert_eq!(mirror.revisions.contains_key("d/9"), !is_compacted);
        store.delete("d/3").unwrap();
        store.delete("d/4").unwrap();
    }
}

#[test]
fn users_and_a_store_that_is_full() {
    let Some(etcd) = Etcd::start(1, "http", &["--quota-backend-bytes=2000000".to_owned()]) else { return };
    let store = open(&etcd.endpoints());
    ready(&store);
    let value = vec![b'x'; MAX_FLEET_VALUE_BYTES];
    let error = (0..200).find_map(|n| store.put(&format!("full/{n}"), &value, None).err());
    assert_eq!(error.expect("a store has an end").why, StoreProblem::Full);
    assert!(store.list("full/", 1000).unwrap().values.len() > 5, "what is there can be read");
    let member = store.members().remove(0).unwrap();
    assert!(member.problems.iter().any(|problem| problem.contains("NOSPACE")), "{member:?}");
    users(&etcd);
}

fn users(etcd: &Etcd) {
    let url = etcd.endpoints().remove(0);
    let control = |words: &str| {
        let mut command = Command::new("etcdctl");
        let words = format!("--endpoints {url} {words}");
        command.args(words.split(' ')).env("ETCDCTL_API", "3").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if Command::new("etcdctl").arg("--help").output().is_err() {
        eprintln!("SKIPPED: etcdctl is not installed (apt-get install etcd-client)");
        return;
    }
    for words in [
        "compact 1",
        "alarm disarm",
        "user add root:secret",
        "role add root",
        "user grant-role root root",
        "user add on:right",
        "role add station",
        "role grant-permission station --prefix=true read full/",
        "role grant-permission station --prefix=true readwrite acks/ON/",
        "user grant-role on station",
        "auth enable",
    ] {
        // There may be nothing to compact.
        assert!(control(words) || words == "compact 1", "etcdctl {words}");
    }
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &str| {
        let user_file = (!text.is_empty()).then(|| file(directory.path(), name, text));
        let endpoints = etcd.endpoints();
        FleetStore::open(&FleetStoreOptions { endpoints, user_file, ..FleetStoreOptions::default() })
    };
    let station = open("right", "on:right\n").unwrap();
    let (mut watch, mut mirror) = (station.watch("acks/ON/"), Mirror::default());
    until("the first event", || {
        mirror.take_next(&mut watch);
        mirror.is_current.then_some(())
    });
    assert_eq!(mirror.cuts, 0);
    // The rights of users change: its token is of before.
    assert!(control("--user root:secret role grant-permission station read current/ON"));
    assert_eq!(station.get("current/ON").unwrap(), None);
    for (client, name) in [
        (open("wrong", "on:wrong").unwrap(), "a wrong password"),
        (open("none", "").unwrap(), "no user"),
        (station, "a key of others"),
    ] {
        let error = client.get("stations/MH").unwrap_err();
        assert!(matches!(error.why, StoreProblem::NotPermitted(_)), "{name}: {error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
        let event = client.watch("stations/").next(Duration::from_secs(20));
        let Some(PrefixEvent::Away(error)) = event else { panic!("{name}: {event:?}") };
        assert!(matches!(error.why, StoreProblem::NotPermitted(_)), "{name}: {error}");
    }
    assert!(matches!(open("bad", "no colon").unwrap_err().why, StoreProblem::Unsent { .. }));
}

#[test]
fn certificates_of_both_sides() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(), Authority::new());
    let write = |name: &str, text: &str| file(directory.path(), name, text);
    let [(member, member_key), (own, own_key)] = [ours.sign(), ours.sign()];
    let (foreign, foreign_key) = others.sign();
    let authority = write("ca.pem", &ours.pem);
    let more = [
        ("cert-file", write("member.pem", &member)),
        ("key-file", write("member.key", &member_key)),
        ("trusted-ca-file", authority.clone()),
    ];
    let mut more: Vec<_> = more.iter().map(|(name, path)| format!("--{name}={}", path.display())).collect();
    more.push("--client-cert-auth".to_owned());
    let Some(etcd) = Etcd::start(1, "https", &more) else { return };
    let open = |authority: &Path, pair: Option<(&str, &str)>| {
        let (own, key) = pair.unzip();
        let certificates = StoreCertificates {
            authority: Some(authority.to_owned()),
            own: own.map(|text| write("own.pem", text)),
            key: key.map(|text| write("own.key", text)),
        };
        let (endpoints, deadline) = (etcd.endpoints(), Duration::from_secs(2));
        let options = FleetStoreOptions { endpoints, certificates, deadline, ..FleetStoreOptions::default() };
        FleetStore::open(&options).unwrap()
    };
    ready(&open(&authority, Some((&own, &own_key))));
    let others = write("others.pem", &others.pem);
    let error = open(&others, Some((&own, &own_key))).get("k").unwrap_err();
    assert!(matches!(&error.why, StoreProblem::Untrusted(_)), "{error}");
    for pair in [None, Some((foreign.as_str(), foreign_key.as_str()))] {
        // A connection that is reset may lose the alert that says why.
        let is_named = (0..50).any(|_| {
            let error = open(&authority, pair).get("k").unwrap_err();
            let is_refused = matches!(&error.why, StoreProblem::NotPermitted(_));
            assert!(is_refused || matches!(&error.why, StoreProblem::Unreachable(_)), "{error}");
            is_refused
        });
        assert!(is_named, "no alert in 50 refusals");
    }
}

#[test]
fn an_address_that_is_no_etcd_has_one_clear_error() {
    let options = |at: String, deadline| FleetStoreOptions {
        endpoints: vec![at],
        deadline: Duration::from_millis(deadline),
        ..FleetStoreOptions::default()
    };
    // Nobody listens; a web server; a peer that never answers.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let at_web = web.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in web.incoming().flatten() {
            let (mut stream, mut head) = (stream, [0; 16]);
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at_silent = silent.local_addr().unwrap();
    for at in [closed, at_web, at_silent] {
        let store = FleetStore::open(&options(format!("http://{at}"), 1000)).unwrap();
        let begun = Instant::now();
        let error = store.get("k").unwrap_err();
        assert!(error.is_away(), "{error}");
        assert!(
            error.to_string().contains(&at.to_string()) && begun.elapsed() < Duration::from_secs(10),
            "{error}"
        );
        let (mut watch, begun) = (store.watch("k"), Instant::now());
        let event = watch.next(Duration::from_secs(20));
        assert!(matches!(event, Some(PrefixEvent::Away(_))), "{event:?} after {:?}", begun.elapsed());
    }
    for at in [
        "",
        "ftp://a:1",
        "http://a",
        "http://u:p@127.0.0.1:1",
        "http://example.org:2379",
        "http://127.0.0.1:1/x",
    ] {
        let error = FleetStore::open(&options(at.to_owned(), 1000)).unwrap_err();
        assert!(matches!(error.why, StoreProblem::Unsent { .. }), "{error}");
    }
    assert!(FleetStore::open(&FleetStoreOptions::default()).is_err());
}
