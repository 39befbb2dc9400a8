//! Stations as members of a fleet, on a real etcd of three members that is killed in the middle of a scan.

#[path = "../../../daemon/tests/etcd/mod.rs"]
pub(crate) mod etcd;

use crate::device::Mounted;
use crate::serve::{SECOND, Serving, frames};
use crate::site::{Job, Site, number, see, wait_for, words};
use crate::webdav::adler32;
use etcd::Etcd;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use skyhaul::io::disk::is_locked;
use skyhaul_daemon::fleet::{FleetStore, FleetStoreOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const ROOT: &str = "/skyhaul/v1/evn/";

/// The store as the scheduler sees it.
pub(crate) struct Scheduler(pub(crate) FleetStore);

impl Scheduler {
    pub(crate) fn new(etcd: &Etcd) -> Self {
        let options = FleetStoreOptions { endpoints: etcd.endpoints(), ..FleetStoreOptions::default() };
        let store = FleetStore::open(&options).unwrap();
        wait_for("a leader", || store.put("ready", b"", None).ok());
        Self(store)
    }

    pub(crate) fn put(&self, key: &str, value: &Value) -> i64 {
        self.0.put(&format!("{ROOT}{key}"), value.to_string().as_bytes(), None).unwrap()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        let found = self.0.get(&format!("{ROOT}{key}")).ok()??;
        serde_json::from_slice(&found.value).ok()
    }

    /// Waits until a field of a key has this value.
    #[track_caller]
    pub(crate) fn expect(&self, key: &str, field: &str, value: &str) -> Value {
        wait_for(&format!("{field} of {key} to be {value}"), || {
            self.get(key).filter(|found| found[field] == value)
        })
    }
}

pub(crate) fn member(etcd: &Etcd, station: &str) -> Serving {
    let endpoints = etcd.endpoints();
    Serving::start(
        Site::new(1),
        &format!(
            "[fleet]\nname = 'evn'\nstation = '{station}'\nrecorder = 'rec1'\nlease = '10s'\nendpoints = {endpoints:?}\n[station.schedule]\n"
        ),
    )
}

pub(crate) fn fleet_of(serving: &Serving) -> Value {
    serving.status()["fleet"].clone()
}

/// A VEX schedule with scans of these stations, which begin so many seconds from now and last so long.
pub(crate) fn vex(directory: &Path, stations: &[&str], scans: &[(i64, i64)]) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let defined: String = stations.iter().map(|station| format!("def {station}; enddef; ")).collect();
    let mut text = format!(
        "VEX_rev = 1.5;\n$GLOBAL; ref $EXPER = N26C3;\n$EXPER; def N26C3; exper_name = N26C3; enddef;\n$STATION; {defined}\n\
         $FREQ; def f; sample_rate = 4.000 Ms/sec; enddef;\n\
         $TRACKS; def t; track_frame_format = VDIF/8032/2;\n  fanout_def = : &CH01 : sign : 1 : 2; enddef;\n\
         $MODE; def m; ref $FREQ = f{0}; ref $TRACKS = t{0}; enddef;\n$SCHED;\n",
        stations.iter().map(|station| format!(" : {station}")).collect::<String>()
    );
    for (number, (begin, seconds)) in scans.iter().enumerate() {
        let start = skyhaul::time::format(now + begin);
        let day = day_of_year(&start);
        let each: String = stations
            .iter()
            .map(|station| format!(" station = {station} : 0 sec : {seconds} sec : : : : 1;"))
            .collect();
        text += &format!(
            "scan No{number:04}; start = {}y{day:03}d{}h{}m{}s; mode = m; source = 3C84;{each} endscan;\n",
            &start[..4],
            &start[11..13],
            &start[14..16],
            &start[17..19]
        );
    }
    let path = directory.join("n26c3.vex");
    std::fs::write(&path, text).unwrap();
    path
}

/// The day of the year of a time such as 2026-11-29T12:00:00Z.
fn day_of_year(time: &str) -> i64 {
    let first = skyhaul::time::parse(&format!("{}-01-01T00:00:00Z", &time[..4])).unwrap();
    (skyhaul::time::parse(time).unwrap() - first) / 86_400 + 1
}

#[test]
fn a_desired_scan_outlives_the_store() {
    let Some(mut etcd) = Etcd::start(3, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let mut stations = ["On", "Mh"].map(|station| member(&etcd, station));
    let scan = |action: &str| json!({ "v": 1, "action": action, "experiment": "N26C3", "source": "3C84", "mode": "" });
    for station in ["On", "Mh"] {
        scheduler.expect(&format!("recorders/{station}/rec1/live"), "activity", "idle");
        assert!(scheduler.get(&format!("recorders/{station}/rec1/info")).is_some());
        scheduler.put(&format!("desired/{station}/rec1/No0001"), &scan("start"));
    }
    // What cannot be done has its reason.
    scheduler.put("desired/On/rec1/No0002", &json!({ "v": 1, "action": "sing" }));
    let refused = scheduler.expect("acks/On/rec1/No0002", "state", "refused");
    assert!(refused["reason"].as_str().unwrap().contains("action"), "{refused}");
    for station in ["On", "Mh"] {
        let ack = scheduler.expect(&format!("acks/{station}/rec1/No0001"), "state", "started");
        assert_eq!(ack["recording"], format!("n26c3_{}_no0001", station.to_lowercase()));
        scheduler.expect(&format!("recorders/{station}/rec1/live"), "activity", "recording");
    }
    let path = frames(&stations[0].site, "fa", 1, 4000);
    let sent = std::fs::read(&path).unwrap();
    let send = |serving: &Serving| {
        let to = serving.ports[0];
        Job::start(&words(&format!(
            "send --input {} --rate 24Mbps --to udp://127.0.0.1:{to}",
            path.display()
        )))
    };
    let senders = [send(&stations[0]), send(&stations[1])];
    etcd.kill_all();
    senders.into_iter().for_each(|sender| drop(sender.finish().expect(0)));
    for (serving, name) in stations.iter().zip(["n26c3_on_no0001", "n26c3_mh_no0001"]) {
        wait_for("all to arrive", || {
            (number(&serving.recording(name)["received_bytes"]) >= sent.len() as u64).then_some(())
        });
        // The station's own people stop it: nothing waits for the store.
        let stopped = serving.call(&format!("station stop {name}")).expect(0).json();
        assert_eq!(
            (&stopped["outcome"], number(&stopped["written_bytes"])),
            (&json!("complete"), sent.len() as u64)
        );
        let fleet = wait_for("the station to say that the store is away", || {
            let fleet = fleet_of(serving);
            (fleet["connected"] == false && number(&fleet["unpublished_scans"]) == 1).then_some(fleet)
        });
        assert!(fleet["problem"].as_str().unwrap().contains("the fleet's store"), "{fleet}");
        assert!(serving.site.run(&format!("cat {name}")).expect(0).stdout == sent);
    }
    // One of them does not even live through the cut.
    stations[1].kill_and_restart();
    etcd.start_all();
    for (serving, station) in stations.iter().zip(["On", "Mh"]) {
        let closed = scheduler.expect(&format!("scans/N26C3/No0001/{station}"), "outcome", "complete");
        assert_eq!(number(&closed["bytes"]), sent.len() as u64, "{closed}");
        assert!(closed["crc32c"].is_string() && closed["valid_fraction"] == 1.0, "{closed}");
        wait_for("nothing to be left", || {
            let fleet = fleet_of(serving);
            (fleet["connected"] == true && number(&fleet["unpublished_scans"]) == 0).then_some(())
        });
        // Once, and once more with the sum that the service has read from the disks. It is not recorded again.
        let key = format!("scans/N26C3/No0001/{station}");
        let mut summed =
            wait_for("its Adler-32", || scheduler.get(&key).filter(|closed| closed["adler32"].is_string()));
        assert_eq!(summed["adler32"], format!("{:08x}", adler32(&sent)));
        let mut before = closed.clone();
        for value in [&mut summed, &mut before] {
            value.as_object_mut().unwrap().remove("adler32");
        }
        assert_eq!(summed, before);
        assert_eq!(scheduler.get(&format!("alarms/{station}/rec1/fleet-scan-differs")), None);
        scheduler.expect(&format!("acks/{station}/rec1/No0001"), "state", "ended");
        scheduler.expect(&format!("recorders/{station}/rec1/live"), "activity", "idle");
    }
    let scans = scheduler.0.list(&format!("{ROOT}scans/"), 100).unwrap();
    assert_eq!(scans.values.len(), 2);
    // A station that ends is offline at once.
    let [on, mh] = stations;
    on.job.signal(rustix::process::Signal::TERM);
    on.job.finish().expect(0);
    assert_eq!(scheduler.get("recorders/On/rec1/live"), None);
    drop(mh);
}

/// Times, losses and missing ranges of a scan with losses, beside its bytes.
#[test]
fn what_is_published_of_a_scan_is_what_its_disks_have() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let station = member(&etcd, "On");
    scheduler.expect("recorders/On/rec1/live", "activity", "idle");
    let scan = json!({ "v": 1, "action": "start", "experiment": "N26C3", "source": "3C84", "mode": "" });
    scheduler.put("desired/On/rec1/No0001", &scan);
    scheduler.expect("acks/On/rec1/No0001", "state", "started");
    let path = frames(&station.site, "fa", 1, 3500);
    let to = station.ports[0];
    let send = format!(
        "send --input {} --rate 2Mbps --faults loss=0.01,seed=7 --to udp://127.0.0.1:{to}",
        path.display()
    );
    let sender = Job::start(&words(&send));
    // While data arrive, others see how they stand to the clock and to the disks.
    let live = |field: &str| {
        wait_for(&format!("{field} in the live state"), || {
            scheduler.get("recorders/On/rec1/live").filter(|live| live[field].is_i64())
        })
    };
    assert!(number(&live("disk_lag_ms")["disk_lag_ms"]) < 60_000);
    let live = live("clock_offset_ns");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let offset = live["clock_offset_ns"].as_i64().unwrap() / 1_000_000_000;
    assert!((offset - (SECOND - now)).abs() < 60, "{live}");
    drop(sender.finish().expect(0));
    let stopped = station.call("station stop n26c3_on_no0001").expect(0).json();
    let closed = scheduler.expect("scans/N26C3/No0001/On", "outcome", "gaps");
    let bytes = station.site.run("cat n26c3_on_no0001").stdout;
    let seen = see(&bytes, 1032);
    let lost = number(&closed["lost_frames"]);
    assert_eq!((seen.invalid, number(&stopped["lost_frames"])), (lost, lost), "{closed}");
    let fraction = seen.good as f64 / (seen.good + lost) as f64;
    assert!(lost > 0 && (closed["valid_fraction"].as_f64().unwrap() - fraction).abs() < 1e-12, "{closed}");
    let times = [SECOND, SECOND + 3].map(skyhaul::time::format);
    assert_eq!([&closed["start"], &closed["stop"]], [&json!(times[0]), &json!(times[1])]);
    // The ranges of fill, as anyone with a copy of the file finds them.
    let mut ranges = Vec::<(usize, usize)>::new();
    for (at, frame) in bytes.chunks(1032).enumerate().filter(|(_, frame)| frame[3] & 0x80 != 0) {
        match ranges.last_mut() {
            Some((_, end)) if *end == at * 1032 => *end += frame.len(),
            _ => ranges.push((at * 1032, at * 1032 + frame.len())),
        }
    }
    let list: String = ranges.iter().map(|(first, end)| format!("{first}-{}\n", end - 1)).collect();
    assert_eq!(closed["missing_sha256"], sha256(&list), "{list}");
}

/// After a kill, the kernel may write for a while: a scan that looks as if it were recorded then is published once it does not.
#[test]
fn a_scan_that_is_still_being_written_at_the_restart_is_published_afterwards() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let mut station = member(&etcd, "On");
    scheduler.expect("recorders/On/rec1/live", "activity", "idle");
    let scan = json!({ "v": 1, "action": "start", "experiment": "N26C3", "source": "3C84", "mode": "" });
    scheduler.put("desired/On/rec1/No0001", &scan);
    scheduler.expect("acks/On/rec1/No0001", "state", "started");
    let to = station.ports[0];
    let sender =
        Job::start(&words(&format!("send --pattern --payload 2000 --rate 40Mbps --to udp://127.0.0.1:{to}")));
    wait_for("some to be written", || {
        (number(&station.recording("n26c3_on_no0001")["written_bytes"]) > 0).then_some(())
    });
    station.kill();
    drop(sender);
    let index = station.site.disks[0].join("n26c3_on_no0001/n26c3_on_no0001.index");
    wait_for("the kernel to let go", || (!is_locked(&index)).then_some(()));
    let held = std::fs::File::open(&index).unwrap();
    held.lock().unwrap();
    station.restart();
    scheduler.expect("acks/On/rec1/No0001", "state", "cut");
    assert!(scheduler.get("scans/N26C3/No0001/On").is_none());
    drop(held);
    let closed = scheduler.expect("scans/N26C3/No0001/On", "outcome", "interrupted");
    let cat = station.site.run("cat n26c3_on_no0001").stdout;
    assert_eq!((number(&closed["bytes"]), see(&cat, 2032).good * 2032), (cat.len() as u64, cat.len() as u64));
}

/// The station needs no fleet: what is wrong with its member's database is shown, and recording begins.
#[test]
fn a_damaged_database_of_the_member_keeps_no_station_from_recording() {
    let site = Site::new(1);
    let database = site.disks[0].join("station_fleet.db");
    std::fs::write(&database, "not a database at all, and longer than the head of one".repeat(40)).unwrap();
    let setup =
        "[fleet]\nname = 'evn'\nstation = 'On'\nrecorder = 'rec1'\nendpoints = ['http://127.0.0.1:9']\n";
    let serving = Serving::start(site, setup);
    let fleet = wait_for("the reason in the status", || {
        Some(fleet_of(&serving)).filter(|fleet| fleet["connected"] == false && fleet["problem"].is_string())
    });
    assert!(fleet["problem"].as_str().unwrap().contains("fleet database"), "{fleet}");
    assert!(fleet["unwritten_keys"].is_null() && fleet["unpublished_scans"].is_null(), "{fleet}");
    serving.call("station start n1").expect(0);
    assert_eq!(serving.recording("n1")["name"], "n1");
    serving.call("station stop n1");
    // Once it is out of the way, the member begins.
    std::fs::remove_file(&database).unwrap();
    wait_for("the member to begin", || fleet_of(&serving)["unwritten_keys"].is_number().then_some(()));
}

/// Puts a schedule into the store as a scheduler does, in two parts; returns the revision of its meta.
fn put_schedule(scheduler: &Scheduler, text: &str, sha256: &str) -> i64 {
    let (first, second) = text.split_at(text.len() / 2);
    for (part, text) in [first, second].iter().enumerate() {
        scheduler.0.put(&format!("{ROOT}schedules/N26C3/vex/{part}"), text.as_bytes(), None).unwrap();
    }
    let meta = json!({ "v": 1, "sha256": sha256, "bytes": text.len(), "parts": 2, "author": "me", "at": "2026-11-29T12:00:00Z" });
    let revision = scheduler.put("schedules/N26C3/meta", &meta);
    scheduler.put("current/On", &json!({ "v": 1, "experiment": "N26C3", "revision": revision }));
    revision
}

fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the station's schedules have these numbers of scans.
#[track_caller]
fn expect_schedules(serving: &Serving, scans: &[u64]) {
    wait_for(&format!("schedules with {scans:?} scans"), || {
        let list = serving.http(&format!("GET /api/v1/schedules HTTP/1.1\r\nHost: {}", serving.api), "").1;
        let found: Vec<u64> = list.as_array()?.iter().map(|one| number(&one["scans"])).collect();
        (found == scans).then_some(())
    });
}

#[test]
fn a_schedule_of_the_fleet_is_taken_changed_and_withdrawn() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let scheduler = Scheduler::new(&etcd);
    let station = member(&etcd, "On");
    scheduler.expect("recorders/On/rec1/live", "activity", "idle");
    let directory = station.site.disks[0].parent().unwrap();
    let text_of =
        |scans: &[(i64, i64)]| std::fs::read_to_string(vex(directory, &["On", "Mh"], scans)).unwrap();
    let alarm = |text: &str| {
        wait_for(text, || {
            scheduler
                .get("alarms/On/rec1/fleet-schedule")
                .filter(|alarm| alarm["text"].as_str().unwrap().contains(text))
        });
    };
    // A damaged part: the digest differs, and nothing is followed.
    let text = text_of(&[(0, 600), (700, 60)]);
    put_schedule(&scheduler, &text, &sha256("other"));
    alarm("its parts have digest");
    expect_schedules(&station, &[]);
    // Once it is whole, its scans are recorded.
    let revision = put_schedule(&scheduler, &text, &sha256(&text));
    expect_schedules(&station, &[2]);
    wait_for("the scan to be recorded", || {
        (station.recording("n26c3_on_no0000")["state"] == "recording").then_some(())
    });
    wait_for("the live state to have it", || {
        let live = scheduler.get("recorders/On/rec1/live")?;
        (live["schedule"]["revision"] == revision && live["scans"] == json!(["n26c3_on_no0000"]))
            .then_some(())
    });
    wait_for("the alarm to be cleared", || {
        scheduler.get("alarms/On/rec1/fleet-schedule").is_none().then_some(())
    });
    // Changed: the new one takes its place, and what is recorded of it continues.
    let changed = text_of(&[(0, 600), (700, 60), (800, 60)]);
    put_schedule(&scheduler, &changed, &sha256(&changed));
    expect_schedules(&station, &[3]);
    assert_eq!(station.recording("n26c3_on_no0000")["state"], "recording");
    // A text of another experiment could take the place of others' schedules.
    let other = changed.replace("N26C3", "N26C4");
    put_schedule(&scheduler, &other, &sha256(&other));
    alarm("its text is of experiment N26C4");
    expect_schedules(&station, &[3]);
    // Withdrawn: what is recorded of it continues to its end.
    assert!(scheduler.0.delete(&format!("{ROOT}current/On")).unwrap());
    expect_schedules(&station, &[]);
    wait_for("the member to say so", || fleet_of(&station)["schedule"].is_null().then_some(()));
}

/// A full disk under the member's database: what runs continues, nothing is begun for the fleet, and an alarm says why.
#[test]
fn a_database_that_cannot_be_written_keeps_no_station_from_recording() {
    let Some(etcd) = Etcd::start(1, "http", &[]) else { return };
    let site = Site::new(1);
    let small = site.disks[0].parent().unwrap().join("small");
    std::fs::create_dir(&small).unwrap();
    let Some(_mounted) = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=1m"], &small) else {
        eprintln!("SKIPPED: mounting needs root");
        return;
    };
    let scheduler = Scheduler::new(&etcd);
    let serving = Serving::start(
        site,
        &format!(
            "[fleet]\nname = 'evn'\nstation = 'On'\nrecorder = 'rec1'\nlease = '10s'\ndatabase = '{}'\nendpoints = {:?}\n",
            small.join("fleet.db").display(),
            etcd.endpoints()
        ),
    );
    scheduler.expect("recorders/On/rec1/live", "activity", "idle");
    serving.call("station start n1").expect(0);
    let filling = small.join("filling");
    let mut file = std::fs::File::create(&filling).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let scan = json!({ "v": 1, "action": "start", "experiment": "N26C3", "source": "3C84", "mode": "" });
    scheduler.put("desired/On/rec1/No0001", &scan);
    wait_for("the reason in the status", || {
        let fleet = fleet_of(&serving);
        (fleet["connected"] == false && fleet["problem"].as_str()?.contains("fleet database")).then_some(())
    });
    wait_for("the alarm", || {
        let figures = serving.http(&format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", serving.api), "").1;
        figures["alarms"].as_array()?.iter().any(|alarm| alarm["kind"] == "fleet_away").then_some(())
    });
    assert_eq!(serving.recording("n1")["state"], "recording");
    serving.call("station start n2 --input b").expect(0);
    assert!(scheduler.get("acks/On/rec1/No0001").is_none());
    // With space, the member continues, and the scan is recorded once.
    drop(file);
    std::fs::remove_file(&filling).unwrap();
    serving.call("station stop n1");
    scheduler.expect("acks/On/rec1/No0001", "state", "started");
    assert_eq!(serving.recording("n2")["state"], "recording");
}
