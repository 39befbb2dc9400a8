//! An operator's calls, as commands: to a balancer that runs, and to what is none.
//!
//! A sender, a balancer and workers, each a process, with one of them killed; and the sweep of all combinations.

use crate::balance::{FREE, Place, Running};
use crate::device::Mounted;
use crate::site::{Done, Job, number, run, wait_for, words};
use serde_json::Value;
use std::path::Path;

/// A balancer, with the operator's way to it.
struct Facility {
    place: Place,
    running: Running,
}

impl Facility {
    #[track_caller]
    fn start(more: &str) -> Facility {
        let place = Place::new();
        let running = place.start(more);
        Facility { place, running }
    }

    /// A path of a file, as text.
    fn file(&self, name: &str) -> String {
        self.place.path(name).display().to_string()
    }

    /// A call of the operator.
    #[track_caller]
    fn operator(&self, line: &str) -> Done {
        let (api, token) = (&self.running.api, self.file("token"));
        run(&format!("balancer --balancer ejfat://{api}/ --token-file {token} {line}"))
    }

    /// A call with the URI in a file.
    #[track_caller]
    fn by(&self, file: &str, line: &str) -> Done {
        let done = run(&format!("balancer --balancer-file {} {line}", self.file(file)));
        assert!(!done.stderr.contains(&token_in(&self.place.path(file))), "{}", done.stderr);
        done
    }
}

/// The token of a URI in a file.
#[track_caller]
fn token_in(path: &Path) -> String {
    let uri = std::fs::read_to_string(path).unwrap();
    uri.split_once("://").unwrap().1.split_once('@').unwrap().0.to_owned()
}

fn out(done: &Done) -> String {
    String::from_utf8(done.stdout.clone()).unwrap()
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

#[test]
fn from_a_reservation_to_its_end() {
    let facility = Facility::start("");
    let reserved = facility.operator("reserve x --for 1h --sender 127.0.0.1").expect(0);
    let uri = out(&reserved);
    has(&uri, &[&format!("@{}/lb/2?data=127.0.0.1:", facility.running.api), "&sync=127.0.0.1:"]);
    assert_eq!(uri.lines().count(), 1, "as `export EJFAT_URI=$(…)` takes it");
    has(&reserved.stderr, &["reserved: 2 as `x`, for 1h"]);
    std::fs::write(facility.place.path("x"), &uri).unwrap();
    let noted = facility.by("x", "status").expect(0);
    has(&noted.stderr, &["other users can read", "hint: chmod 600"]);
    has(&out(&noted), &["reservation 2: until 20", "senders: 127.0.0.1", "no workers"]);
    let changed = out(&facility.by("x", "senders add 10.1.0.0/16 fd00::1").expect(0));
    has(&changed, &["senders: 127.0.0.1, 10.1.0.0/16, fd00::1"]);
    let changed = out(&facility.by("x", "senders remove 127.0.0.1 fd00::1").expect(0));
    assert_eq!(changed, "senders: 10.1.0.0/16\n");
    has(&out(&facility.by("x", "extend --for 2d").expect(0)), &["it is reserved until 20"]);
    has(&out(&facility.by("x", "extend --forever").expect(0)), &["it is reserved without an end"]);
    has(&facility.by("x", "extend").expect(2).stderr, &["no end given\nhint: add --for 2h"]);
    has(&out(&facility.by("x", "reset --senders --ticks").expect(0)), &["reset: senders, ticks, calendars"]);
    let all = out(&facility.operator("overview").expect(0));
    has(&all, &["1    run ", "2    x ", "0 workers  0 senders", "dynamic  without an end"]);
    has(&out(&facility.operator("version").expect(0)), &["skyhaul ", "; protocol "]);
    facility.by("x", "free").expect(0);
    has(&facility.by("x", "status").expect(2).stderr, &["the token is not valid", "hint: "]);
    has(&facility.operator("status").expect(2).stderr, &["EJFAT_URI names none\nhint: reserve one"]);
}

/// What was reserved for a time ends with it, and so do its tokens: URI, worker, shift.
#[test]
fn what_is_over_is_refused_to_everybody() {
    let facility = Facility::start("");
    let file = facility.file("short");
    facility.operator(&format!("reserve short --for 3s --uri-file {file}")).expect(0);
    let shift = facility.file("shift");
    let made = facility.by("short", &format!("tokens create shift --allow update --uri-file {shift}"));
    // On a machine that is very busy it is over before.
    let before = made.code == Some(0);
    let over = wait_for("it to be over", || {
        let done = facility.by("short", "status");
        (done.code != Some(0)).then_some(done)
    });
    has(
        &over.expect(2).stderr,
        &["the token is not valid", "its reservation or session has ended", "hint: "],
    );
    if before {
        has(&facility.by("shift", "extend --for 1h").expect(2).stderr, &["the token is not valid"]);
    }
    let all = out(&facility.operator("overview").expect(0));
    assert!(!all.contains("short"), "{all}");
}

#[test]
fn a_worker_with_its_share_and_what_it_was_sent() {
    let facility = Facility::start("");
    let worker = facility.running.join();
    crate::balance::send(&facility.running.data, 0..20);
    crate::balance::whole(&worker, 0..20);
    let said = wait_for("the counters", || {
        worker.ready(&facility.running);
        let said = out(&facility.by("uri", "status").expect(0));
        said.contains(", 60 forwarded").then_some(said)
    });
    has(&said, &["calendar 1", "100.0 %   10 %", " w  "]);
    let status: Value = facility.by("uri", "status --json").expect(0).json();
    assert_eq!(
        (&status["workers"][0]["slotsAssigned"], &status["slotResolution"]),
        (&512.into(), &512.into())
    );
    let session = status["workers"][0]["sessionId"].as_str().unwrap();
    facility.by("uri", &format!("workers remove {session}")).expect(0);
    has(&out(&facility.by("uri", "status").expect(0)), &["no workers"]);
    has(&facility.by("uri", &format!("workers remove {session}")).expect(2).stderr, &["hint: "]);
}

#[test]
fn tokens_are_made_shown_and_revoked() {
    let facility = Facility::start("");
    let file = facility.file("worker");
    let made = facility.by("uri", &format!("tokens create w --allow register --uri-file {file}")).expect(0);
    assert_eq!(out(&made), "", "it is in the file");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    has(&std::fs::read_to_string(&file).unwrap(), &["/lb/1?data=", "&sync="]);
    let listed = out(&facility.by("uri", "tokens list").expect(0));
    has(&listed, &[" w ", "register:reservation/1"]);
    has(&out(&facility.by("worker", "tokens show").expect(0)), &["register:reservation/1"]);
    facility.by("worker", "status").expect(0);
    has(
        &facility.by("worker", "free").expect(2).stderr,
        &["does not permit changing reservation 1", "hint: "],
    );
    let more = facility.by("worker", "tokens create m --allow update:all").expect(2);
    has(&more.stderr, &["does not permit changing the whole facility"]);
    let id = listed.split_whitespace().next().unwrap();
    facility.by("uri", &format!("tokens revoke {id}")).expect(0);
    has(&facility.by("worker", "status").expect(2).stderr, &["the token is not valid"]);
    assert_eq!(out(&facility.by("uri", "tokens list").expect(0)), "none\n");
    has(&facility.operator("tokens revoke 1").expect(2).stderr, &["the operator's token cannot be revoked"]);
    let json = facility.operator("tokens create o --allow read:all --json").expect(0).json();
    assert!(json["ejfatUri"].as_str().unwrap().contains(json["token"].as_str().unwrap()));
    has(
        &run("balancer tokens create x --allow write").expect(2).stderr,
        &["unknown level `write`", "hint: read"],
    );
}

#[test]
fn a_uri_that_is_wrong_in_each_part_says_which() {
    for (uri, why) in [
        ("", "no load balancer\nhint: set EJFAT_URI"),
        ("http://t0ken@lb:1/lb/1", "`http` is no scheme"),
        ("ejfat:/t0ken@lb:1/lb/1", "scheme"),
        ("ejfat://lb:1/lb/1", "no token"),
        ("ejfat://t0%Zken@lb:1/lb/1", "the token cannot be read"),
        ("ejfat://t0ken@:1/lb/1", "no host"),
        ("ejfat://t0ken@[fe80::zz]:1/lb/1", "is no host"),
        ("ejfat://t0ken@lb/lb/1", "no port"),
        ("ejfat://t0ken@lb:99999/lb/1", "`99999` is no port"),
        ("ejfat://t0ken@lb:0/lb/1", "`0` is no port"),
        ("ejfat://t0ken@lb:1/nowhere", "is no balancer"),
        ("ejfat://t0ken@lb:1/lb/", "balancer"),
        ("ejfat://t0ken@lb:1/lb/1?date=10.0.0.1", "is no parameter"),
        ("ejfat://t0ken@lb:1/lb/1?data=nowhere", "is no data address"),
        ("ejfat://t0ken@lb:1/lb/1?data=10.0.0.1:9-5", "is no data address"),
        ("ejfat://t0ken@lb:1/lb/1?sync=10.0.0.1", "is no sync address"),
        ("ejfat://t0ken@lb:1/lb/1?sync=10.0.0.1:0", "is no sync address"),
        ("ejfat://t0ken@lb:1/lb/1?sessionid=", "session"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("uri");
        std::fs::write(&file, uri).unwrap();
        for line in ["status", "free", "reserve x"] {
            let done = run(&format!("balancer {line} --balancer-file {}", file.display())).expect(2);
            has(&done.stderr, &[why, "hint: "]);
            assert!(!done.stderr.contains("t0ken") && done.stdout.is_empty(), "{uri}: {}", done.stderr);
        }
    }
}

#[test]
fn whoever_is_not_there_or_not_trusted_is_said() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = nobody.local_addr().unwrap();
    let silent = run(&format!("balancer version --balancer ejfat://t0ken@{at}/ --timeout 200ms")).expect(2);
    has(&silent.stderr, &["control plane", "hint: "]);
    drop(nobody);
    let refused = run(&format!("balancer version --balancer ejfat://t0ken@{at}/")).expect(2);
    has(&refused.stderr, &["cannot be reached", "hint: check host and port"]);
    let facility = Facility::start("");
    let wrong =
        run(&format!("balancer overview --balancer ejfat://wr0ng@{}/", facility.running.api)).expect(2);
    has(&wrong.stderr, &["the token is not valid", "hint: "]);
    let tls =
        run(&format!("balancer overview --balancer ejfats://wr0ng@{}/", facility.running.api)).expect(2);
    has(&tls.stderr, &["cannot be reached", "hint: "]);
    for said in [&silent, &refused, &wrong, &tls] {
        assert!(!said.stderr.contains("t0ken") && !said.stderr.contains("wr0ng"), "{}", said.stderr);
    }
    let none = run("balancer overview --balancer ejfat://127.0.0.1:1/").expect(2);
    has(&none.stderr, &["no token", "hint: ejfat://TOKEN@"]);
}

/// With TLS: who trusts the certificate gets in, everybody else is told why not.
#[test]
fn tls_is_for_who_trusts_it() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let place = Place::new();
    let file = |name: &str, text: String| {
        std::fs::write(place.path(name), text).unwrap();
        place.path(name).display().to_string()
    };
    let (pem, key) = (file("lb.pem", made.cert.pem()), file("lb.key", made.signing_key.serialize_pem()));
    let token = place.path("token").display().to_string();
    let mut job =
        Job::start(&words(&format!("{FREE} --token-file {token} --tls-cert {pem} --tls-key {key}")));
    let port = wait_for("it to listen", || {
        let said = job.stderr();
        assert!(job.is_running(), "it ended: {said}");
        said.lines().find_map(|line| Some(line.split_once("https://127.0.0.1:")?.1.to_owned()))
    });
    let ask = |scheme: &str, host: &str, more: &str| {
        let uri = format!("{scheme}://{host}:{port}/");
        run(&format!("balancer version --balancer {uri} --token-file {token} --timeout 5s {more}"))
    };
    ask("ejfats", "localhost", &format!("--certificate {pem}")).expect(0);
    ask("ejfats", "127.0.0.1", "--any-certificate").expect(0);
    for (scheme, host, more, why) in [
        ("ejfats", "localhost", String::new(), "certificate"),
        ("ejfats", "127.0.0.1", format!("--certificate {pem}"), "certificate"),
        ("ejfats", "localhost", format!("--certificate {key}"), "hint: "),
        ("ejfat", "localhost", String::new(), "ejfats://"),
    ] {
        let done = ask(scheme, host, &more).expect(2);
        has(&done.stderr, &[why, "hint: "]);
    }
}

/// A disk that is full refuses what would change something, and says so; packets, reports and queries go on.
#[test]
fn a_full_disk_under_the_state() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("small");
    std::fs::create_dir(&at).unwrap();
    let Some(_small) = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=256k"], &at) else {
        eprintln!("SKIPPED: nothing can be mounted here");
        return;
    };
    let facility = Facility::start(&format!("--state {}", at.join("state.db").display()));
    let worker = facility.running.join();
    std::fs::write(at.join("other"), vec![1; 1 << 20]).expect_err("the disk fills");
    let mut refused = None;
    for n in 0..200 {
        let done = facility.by("uri", &format!("senders add 10.{}.{}.0/24", n / 256, n % 256));
        if done.code != Some(0) {
            refused = Some(done.expect(2).stderr);
            break;
        }
    }
    has(&refused.expect("no room for more"), &["disk is full", "hint: free space on that disk"]);
    has(&facility.operator("reserve y").expect(2).stderr, &["disk is full"]);
    wait_for("nobody to forward for what was refused", || {
        (!at.join("state.db.plane-2").exists()).then_some(())
    });
    has(&facility.by("uri", "free").expect(2).stderr, &["disk is full"]);
    worker.ready(&facility.running);
    crate::balance::send(&facility.running.data, 0..20);
    crate::balance::whole(&worker, 0..20);
    let status = facility.by("uri", "status --json").expect(0).json();
    assert_eq!(status["workers"].as_array().unwrap().len(), 1, "{status}");
    // With room, it goes on as before.
    std::fs::remove_file(at.join("other")).unwrap();
    facility.by("uri", "senders add 10.9.0.0/16").expect(0);
    facility.by("uri", "free").expect(0);
    let report = facility.running.stop();
    assert!(report["calls_refused"]["unavailable"].as_u64().unwrap() >= 3, "{report}");
}

/// A load balancer that is a worker of another one: made, killed, gone on with, and ended.
#[test]
fn a_chain_goes_on_after_the_control_plane_was_killed() {
    let up = Facility::start("");
    let place = Place::new();
    let state = format!("--state {}", place.path("state.db").display());
    let down = place.start(&state);
    let worker = down.join();
    let by = |line: &str| run(&format!("balancer --balancer-file {} {line}", place.path("uri").display()));
    let chained = by(&format!("chain --from-file {}", up.file("uri"))).expect(0);
    has(&out(&chained), &[&format!("chain 1: load balancer 1 of {} sends to this one", up.running.api)]);
    has(&out(&by("chains").expect(0)), &["chain 1: 1 at 127.0.0.1 feeds 1 at 127.0.0.1"]);
    let circle = up.by("uri", &format!("chain --from-file {}", place.path("uri").display())).expect(2);
    has(&circle.stderr, &["events would circulate\nhint: "]);
    // Its session at the other one, once it has a share that is in use.
    let session = |down: &Running| {
        wait_for("the chain to have a share", || {
            worker.ready(down);
            let status = up.by("uri", "status --json").expect(0).json();
            let one = status["workers"].as_array()?.first()?.clone();
            let (_, text) = up.running.http("GET", "/metrics", "", &Value::Null);
            let known = text.contains("skyhaul_balance_tables_behind{lb=\"1\"} 0\n");
            (one["slotsAssigned"].as_u64()? > 0 && known).then(|| one["sessionId"].clone())
        })
    };
    let first = session(&down);
    crate::balance::send(&up.running.data, 0..20);
    crate::balance::whole(&worker, 0..20);
    down.job.signal(rustix::process::Signal::KILL);
    assert_eq!(down.job.finish().code, None);
    let next = place.start(&state);
    next.shared(&[&worker]);
    assert_eq!(session(&next), first, "it goes on with its session");
    crate::balance::send(&up.running.data, 20..40);
    crate::balance::whole(&worker, 20..40);
    by("unchain 1").expect(0);
    has(&by("unchain 1").expect(2).stderr, &["has no chain `1`", "hint: "]);
    has(&out(&by("chains").expect(0)), &["no load balancer feeds this one"]);
    wait_for("it to have left", || {
        worker.ready(&next);
        out(&up.by("uri", "status").expect(0)).contains("no workers").then_some(())
    });
}

#[test]
fn every_event_of_the_demo_is_accounted_for() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let line = format!("demo ejfat --duration 4s --rate 200Mbps --directory {at} --json --quiet");
    let done = run(&line);
    let report = done.json();
    let account = &report["account"];
    done.expect(0);
    let n = |name: &str| number(&account[name]);
    assert!(n("whole") > 0 && n("whole") + n("with_the_killed") == n("sent"), "{account}");
    assert_eq!((n("split"), n("incomplete"), n("wrong"), n("unexplained")), (0, 0, 0, 0), "{account}");
    let whole = |worker: usize| number(&account["parts"][worker]["whole"]);
    assert!(whole(0) > 0 && whole(3) > 0, "{account}");
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.matches("<svg").count() == 2 && page.ends_with("</html>\n"), "{page}");
}

#[test]
fn a_sweep_has_a_row_for_each_combination() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let sweep = "--mtus 1500,9000 --events 20KiB --workers 2 --rates 50Mbps --time 100ms --rounds 1";
    let report = run(&format!("bench ejfat {sweep} --report {at} --json --quiet")).expect(0).json();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{report}");
    assert!(points.iter().all(|point| number(&point["events"]) > 0), "{report}");
    for name in ["README.md", "figures.json", "whole.svg", "lost.svg", "balance-cpu.svg"] {
        assert!(directory.path().join(name).exists(), "{name}");
    }
}
