//! Stations as members of a fleet, on a real etcd of three members that is killed in the middle of a scan.

#[path = "../../../daemon/tests/etcd/mod.rs"]
mod etcd;

use crate::serve::{Serving, frames};
use crate::site::{Job, Site, number, wait_for, words};
use etcd::Etcd;
use serde_json::{Value, json};
use skyhaul_daemon::fleet::{FleetStore, FleetStoreOptions};

const ROOT: &str = "/skyhaul/v1/evn/";

/// The store as the scheduler sees it.
struct Scheduler(FleetStore);

impl Scheduler {
    fn new(etcd: &Etcd) -> Self {
        let options = FleetStoreOptions { endpoints: etcd.endpoints(), ..FleetStoreOptions::default() };
        let store = FleetStore::open(&options).unwrap();
        wait_for("a leader", || store.put("ready", b"", None).ok());
        Self(store)
    }

    fn put(&self, key: &str, value: &Value) -> i64 {
        self.0.put(&format!("{ROOT}{key}"), value.to_string().as_bytes(), None).unwrap()
    }

    fn get(&self, key: &str) -> Option<Value> {
        let found = self.0.get(&format!("{ROOT}{key}")).ok()??;
        serde_json::from_slice(&found.value).ok()
    }

    /// Waits until a field of a key has this value.
    #[track_caller]
    fn expect(&self, key: &str, field: &str, value: &str) -> Value {
        wait_for(&format!("{field} of {key} to be {value}"), || {
            self.get(key).filter(|found| found[field] == value)
        })
    }
}

fn member(etcd: &Etcd, station: &str) -> Serving {
    let endpoints = etcd.endpoints();
    Serving::start(
        Site::new(1),
        &format!(
            "[fleet]\nname = 'evn'\nstation = '{station}'\nrecorder = 'rec1'\nlease = '10s'\nendpoints = {endpoints:?}\n[station.schedule]\n"
        ),
    )
}

fn fleet_of(serving: &Serving) -> Value {
    serving.status()["fleet"].clone()
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
        // Once: it was made and never changed. It is not recorded again.
        let key = scheduler.0.get(&format!("{ROOT}scans/N26C3/No0001/{station}")).unwrap().unwrap();
        assert_eq!(key.create_revision, key.mod_revision);
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
