//! `skyhaul fleet` against a real etcd: status, load, start, stop, and an experiment from its schedule to its closed scans.

use crate::fleet::etcd::{Etcd, authority::Authority};
use crate::fleet::{ROOT, Scheduler, fleet_of, member, vex};
use crate::serve::Serving;
use crate::site::{Done, Job, number, run, wait_for, words};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;

/// The command with the options of the store.
fn line(etcd: &Etcd, line: &str) -> String {
    let endpoints: String = etcd.endpoints().iter().map(|url| format!(" --endpoint {url}")).collect();
    format!("fleet {line} --fleet evn{endpoints}")
}

fn fleet(etcd: &Etcd, of: &str) -> Done {
    run(&line(etcd, of))
}

fn online(scheduler: &Scheduler, station: &str) {
    scheduler.expect(&format!("recorders/{station}/rec1/live"), "activity", "idle");
}

fn directory(serving: &Serving) -> &Path {
    serving.site.disks[0].parent().unwrap()
}

#[test]
fn a_scan_is_started_and_stopped_at_all_stations() {
    let Some(mut etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let stations = ["On", "Mh"].map(|station| member(&etcd, station));
    ["On", "Mh"].iter().for_each(|station| online(&scheduler, station));
    // What others have written cannot command a terminal, and is counted.
    let huge = vec![b'x'; 100 << 10];
    for (key, value) in [
        ("recorders/On/rec2/live", &b"\x1b[2J\xff\xfe"[..]),
        ("acks/../x", b"{}"),
        ("alarms/On/rec1/\x1b]0;x\x07", b"{}"),
        ("scans/N26C3/No0001/Xx", &huge),
        ("stations/Xx", b"{\"v\":2}"),
    ] {
        scheduler.0.put(&format!("{ROOT}{key}"), value, None).unwrap();
    }
    let alarm = json!({ "v": 1, "text": "full \x1b[31m", "since": "2026-11-29T12:00:00Z" });
    scheduler.put("alarms/On/rec1/disk", &alarm);
    let status = fleet(&etcd, "status --json").expect(0).json();
    assert_eq!(number(&status["unreadable_keys"]), 5, "{status}");
    let shown = fleet(&etcd, "status").expect(0);
    assert!(!shown.said().contains(['\x1b', '\x07']), "{:?}", shown.said());
    for text in ["fleet evn: 2 stations, 2 online", "ALARM On/rec1 disk: full", "cannot be read: 5 keys"] {
        assert!(shown.told().contains(text), "{text}: {}", shown.told());
    }
    // The configuration of a station says where its store is.
    let config = directory(&stations[0]).join("station.toml");
    let status = run(&format!("fleet status --json --config {}", config.display())).expect(0).json();
    assert_eq!(status["stations"].as_array().unwrap().len(), 2, "{status}");

    // The same in a terminal, and as text where there is none.
    let top = run(&format!("top --fleet --once --config {}", config.display())).expect(0).told();
    assert!(top.contains("stations 2 of 2 online"), "{top}");
    assert!(top.contains("ALARM  On/rec1 disk: full") && !top.contains('\x1b'), "{top}");
    assert!(top.contains("On/rec2   OFFLINE") || top.contains("On/rec1   idle"), "{top}");
    assert!(top.lines().any(|line| line.starts_with("Mh/rec1   idle")), "{top}");
    let json = run(&format!("top --fleet --json --config {}", config.display())).expect(0).json();
    assert_eq!(json["stations"].as_array().unwrap().len(), 2, "{json}");
    let refused = run(&format!("top --fleet --config {}", config.display())).expect(2);
    assert!(refused.stderr.contains("is no terminal"), "{}", refused.stderr);
    let refused = run("top --fleet --once --config /dev/null").expect(2);
    assert!(refused.stderr.contains("--config FILE with a section [fleet]"), "{}", refused.stderr);

    let started = fleet(&etcd, "start N26C3 No0001 --source 3C84 --json").expect(0).json();
    let answers = started["answers"].as_array().unwrap();
    assert!(answers.iter().all(|one| one["answer"] == "started") && answers.len() == 2, "{started}");
    wait_for("both to record", || {
        let status = fleet(&etcd, "status --json").expect(0).json();
        let recorders = status["stations"].as_array().unwrap().clone();
        recorders.iter().all(|one| one["recorders"][0]["activity"] == "recording").then_some(())
    });
    // The input is in use: a reason, and exit status 1. A name is given once.
    let refused = fleet(&etcd, "start N26C3 No0002 --station On --timeout 2s").expect(1);
    assert!(refused.told().contains("recording n26c3_on_no0001"), "{}", refused.told());
    let again = fleet(&etcd, "start N26C3 No0001 --station On").expect(1);
    assert!(again.told().contains("desired already"), "{}", again.told());
    let unknown = fleet(&etcd, "start N26C3 No0003 --station Xx");
    assert!(
        unknown.code != Some(0) && unknown.stderr.contains("no recorder of Xx is known"),
        "{}",
        unknown.stderr
    );

    let stopped = fleet(&etcd, "stop No0001 --station On").expect(0);
    assert!(stopped.told().contains("ended"), "{}", stopped.told());
    fleet(&etcd, "stop No0001 --station Mh").expect(0);
    let unknown = fleet(&etcd, "stop No0009").expect(1);
    assert!(unknown.stderr.contains("No0009 is not desired"), "{}", unknown.stderr);
    // A store that is away: one line with its hint, exit status 1.
    etcd.kill_all();
    for what in ["status", "start N26C3 No0004", "stop No0001"] {
        let away = fleet(&etcd, what).expect(1);
        assert!(away.stderr.contains("the fleet's store at"), "{}", away.stderr);
        assert_eq!(
            away.stderr.lines().filter(|line| line.starts_with("error: ")).count(),
            1,
            "{}",
            away.stderr
        );
    }
}

#[test]
fn a_schedule_is_checked_loaded_and_followed() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let station = member(&etcd, "On");
    online(&scheduler, "On");
    let path = vex(directory(&station), &["On", "Xx"], &[(600, 60), (700, 60)]);
    let load = format!("load {}", path.display());
    // Nothing is written by a dry run, nor if scans overlap.
    let dry = fleet(&etcd, &format!("{load} --dry-run --json")).expect(0).json();
    let plans = dry["schedules"][0]["stations"].as_array().unwrap();
    assert_eq!(
        (plans.len(), &plans[0]["online"], &plans[1]["online"]),
        (2, &json!(true), &json!(false)),
        "{dry}"
    );
    assert_eq!(plans[0]["scans"].as_array().unwrap().len(), 2);
    assert!(scheduler.get("schedules/N26C3/meta").is_none() && scheduler.get("current/On").is_none());
    let overlapping = vex(directory(&station), &["On"], &[(600, 60), (630, 60)]);
    let refused = fleet(&etcd, &format!("load {}", overlapping.display())).expect(1);
    assert!(refused.told().contains("PROBLEM: On No0001: overlaps"), "{}", refused.told());
    assert!(scheduler.get("current/On").is_none());
    // It is followed by the station that is there, and waits for the other.
    vex(directory(&station), &["On", "Xx"], &[(600, 60), (700, 60)]);
    fleet(&etcd, &load).expect(0);
    wait_for("the station to follow it", || (fleet_of(&station)["schedule"] == "N26C3").then_some(()));
    let status = fleet(&etcd, "status").expect(0).told();
    assert!(status.contains("ABSENT") && status.contains("N26C3"), "{status}");
    assert!(scheduler.get("current/Xx").is_some());
}

/// Certificates of both sides, by the options and by a configuration.
#[test]
fn the_command_reaches_an_etcd_with_certificates() {
    let (ours, others) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let pair = |name: &str, (certificate, key): (String, String)| {
        (write(&format!("{name}.pem"), &certificate), write(&format!("{name}.key"), &key))
    };
    let (member, own, foreign) =
        (pair("member", ours.sign()), pair("own", ours.sign()), pair("foreign", others.sign()));
    let (authority, other) = (write("ca.pem", &ours.pem), write("other.pem", &others.pem));
    let more = [
        format!("--cert-file={}", member.0),
        format!("--key-file={}", member.1),
        format!("--trusted-ca-file={authority}"),
        "--client-cert-auth".to_owned(),
    ];
    let Some(etcd) = Etcd::start(1, "https", &more) else { return };
    let shown = |authority: &str, (own, key): &(String, String)| {
        fleet(&etcd, &format!("status --authority {authority} --certificate {own} --key {key}"))
    };
    wait_for("the store", || (shown(&authority, &own).code == Some(0)).then_some(()));
    assert!(shown(&authority, &own).expect(0).told().contains("fleet evn: 0 stations, 0 online"));
    // One that is not trusted, on either side, and none: what is wrong, and nothing of the key.
    for (authority, pair, text) in [
        (&other, &own, "the certificate of the authority"),
        (&authority, &foreign, "the client certificate is missing or not accepted"),
    ] {
        // A connection that is reset may lose the alert that says why.
        wait_for(text, || {
            let refused = shown(authority, pair).expect(1);
            assert!(!refused.said().contains("PRIVATE KEY"), "{}", refused.said());
            refused.stderr.contains(text).then_some(())
        });
    }
    fleet(&etcd, &format!("status --authority {authority}")).expect(1);
    let config = write(
        "fleet.toml",
        &format!(
            "[fleet]\nname = 'evn'\nendpoints = {:?}\nauthority = '{authority}'\ncertificate = '{}'\nkey = '{}'\n",
            etcd.endpoints(),
            own.0,
            own.1
        ),
    );
    assert!(run(&format!("fleet status --config {config}")).expect(0).told().contains("fleet evn"));
}

/// Ctrl-C: the command ends with what it knows, and nothing changes for the stations.
#[test]
fn ctrl_c_ends_the_following_and_stations_record() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let station = member(&etcd, "On");
    online(&scheduler, "On");
    let path = vex(directory(&station), &["On"], &[(0, 600)]);
    let following = Job::start(&words(&line(&etcd, &format!("run {} --json", path.display()))));
    let is_recording = || station.recording("n26c3_on_no0000")["state"] == "recording";
    wait_for("the scan", || is_recording().then_some(()));
    following.signal(Signal::INT);
    let done = following.finish().expect(1);
    let report = done.json();
    assert_eq!((&report["interrupted"], &result(&report, "On")["result"]), (&json!(true), &json!("open")));
    assert!(done.stderr.contains("the stations record what is scheduled"), "{}", done.stderr);
    let current = scheduler.get("current/On").unwrap();
    assert_eq!((&current["experiment"], &current["revision"]), (&json!("N26C3"), &report["revision"]));
    assert!(is_recording() && fleet_of(&station)["schedule"] == "N26C3");
}

/// What the summary says of a station.
fn result<'a>(report: &'a Value, station: &str) -> &'a Value {
    let all = report["stations"].as_array().unwrap();
    all.iter().find(|one| one["station"] == station).unwrap()
}

#[test]
fn an_experiment_is_followed_over_a_cut_of_the_store() {
    let Some(mut etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let stations = ["On", "Mh"].map(|station| member(&etcd, station));
    ["On", "Mh"].iter().for_each(|station| online(&scheduler, station));
    let path = vex(directory(&stations[0]), &["On", "Mh", "Xx"], &[(8, 3)]);
    let of = line(&etcd, &format!("run {} --grace 20s --json", path.display()));
    let following = Job::start(&words(&of));
    for station in &stations {
        wait_for("the schedule to be followed", || (fleet_of(station)["schedule"] == "N26C3").then_some(()));
    }
    let is_recording = |station: &Serving, name: &str| station.recording(name)["state"] == "recording";
    wait_for("the scans", || {
        let [on, mh] = &stations;
        (is_recording(on, "n26c3_on_no0000") && is_recording(mh, "n26c3_mh_no0000")).then_some(())
    });
    etcd.kill_all();
    wait_for("the cut to be said", || following.stderr().contains("following continues").then_some(()));
    etcd.start_all();
    // No data come: both have closed nothing that is whole, and the third was never there.
    let report = following.finish().expect(1).json();
    assert_eq!(result(&report, "Xx")["result"], "absent", "{report}");
    for station in ["On", "Mh"] {
        let one = result(&report, station);
        assert_eq!((&one["result"], number(&one["scheduled_scans"])), (&json!("incomplete"), 1), "{report}");
    }
    assert!(report["problem"].is_null(), "{report}");
}

#[test]
fn an_experiment_whose_data_are_whole_is_a_success() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let station = member(&etcd, "On");
    online(&scheduler, "On");
    // Data of before, in and after the scans, as fast as their times.
    let to = station.ports[0];
    let sender =
        format!("send --pattern --payload 1000 --rate 4Mbps --frame-rate 500 --to udp://127.0.0.1:{to}");
    let _sender = Job::start(&words(&sender));
    let path = vex(directory(&station), &["On"], &[(6, 2), (10, 2)]);
    let done = fleet(&etcd, &format!("run {} --json", path.display())).expect(0);
    let report = done.json();
    let one = result(&report, "On");
    assert_eq!(
        (&one["result"], number(&one["closed_scans"]), number(&one["lost_frames"])),
        (&json!("complete"), 2, 0)
    );
    // Two seconds of each: 500 frames of 1000 bytes and a head.
    assert_eq!(number(&one["received_bytes"]), 2 * 2 * 500 * 1032, "{report}");
    assert!(done.stderr.contains("On no0001: complete"), "{}", done.stderr);
    let status = fleet(&etcd, "status --experiment N26C3").expect(0).told();
    assert!(status.contains("n26c3_on_no0000") && status.contains("n26c3_on_no0001"), "{status}");
}
