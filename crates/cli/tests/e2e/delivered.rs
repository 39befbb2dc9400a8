//! Deliveries of schedules to a host that stops, dies, fills and disappears: what is said of them is the same, and true, in each list.

use crate::device::Mounted;
use crate::site::{number, wait_for};
use crate::transfers::{MIB, Pair, got, session};
use rustix::process::Signal;
use serde_json::{Value, json};

impl Pair {
    /// The only copy, in this state wherever it is shown; once in the journal.
    fn agreed(&self, state: &str) -> Value {
        let wait = format!("{state} in each list");
        let copy = wait_for(&wait, || {
            let copy = self.queue().pop()?;
            if copy["state"] != state {
                return None;
            }
            let status = self.serving.status();
            let is_over = matches!(state, "done" | "cancelled");
            let in_status = status["queue"].as_array()?.iter().any(|one| one["state"] == state);
            let counts = status["schedules"][0]["deliveries"][0]["copies"] == json!({ state: 1 });
            let list = self.schedule("list x_mh --json").expect(0).json();
            let of_scan = list["scans"][0]["deliveries"][0]["copies"][0]["state"] == state;
            let metrics = self.serving.metrics();
            let line = format!(
                "skyhaul_station_delivery_copies{{destination=\"hasty\",schedule=\"x_mh\",state=\"{state}\"}} 1\n"
            );
            // Between two calls it may have gone on.
            ((in_status != is_over) && counts && of_scan && metrics.contains(&line)).then_some(copy)
        });
        let said =
            crate::site::run(&format!("transfers --station http://{}", self.serving.api)).expect(0).told();
        let reason = copy["reason"].as_str().unwrap_or_default();
        assert!(said.contains(" x_mh_no0 to hasty (in): ") && said.contains(reason), "{reason}: {said}");
        let journal = self.serving.site.disks[0].join("x_mh_schedule.journal");
        let journal = std::fs::read_to_string(journal).unwrap();
        assert_eq!(journal.lines().filter(|line| line.starts_with("queued ")).count(), 1, "{journal}");
        copy
    }

    fn retry_until_running(&self) {
        wait_for("it to run", || {
            self.serving.call("transfers retry 1");
            (self.copy(1)["state"] == "running").then_some(())
        });
    }
}

#[test]
fn a_delivery_to_a_host_that_stops_dies_and_disappears_is_told_truly() {
    let mut pair = Pair::new(1, &[]);
    let path = session(&pair, &[(0, 6)], "[[delivery]]\nto = ['hasty:in']\nrate = '8Mbps'\n");
    pair.schedule(&format!("load {}", path.display())).expect(0);
    let line = format!(
        "send --pattern --payload 2000 --rate 80Mbps --duration 4s --to udp://127.0.0.1:{}",
        pair.serving.ports[0]
    );
    crate::site::run(&line).expect(0);
    wait_for("the scan to be queued", || (pair.delivery(0, 0).0 == "queued").then_some(()));
    pair.until(1, "some of it", |one| got(one) > MIB as u64);

    // It stops, as a host does that pages.
    pair.place.server.signal(Signal::STOP);
    let held = pair.agreed("backing_off");
    assert!(held["reason"].as_str().unwrap().contains("nothing moved for 4 s: 127.0.0.1:"), "{held}");
    pair.place.server.signal(Signal::CONT);

    // It dies in the middle of the next attempt.
    pair.retry_until_running();
    let there = got(&pair.copy(1));
    pair.until(1, "more of it", |one| got(one) > there);
    pair.place.server.signal(Signal::KILL);
    let broken = pair.agreed("backing_off");
    assert!(!broken["reason"].as_str().unwrap().is_empty(), "{broken}");
    pair.place.restart_here();

    // Its name is taken out of the configuration: what is queued fails by name, and what is to be queued waits for the name.
    let config = pair.serving.site.disks[0].parent().unwrap().join("station.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("name = 'hasty'", "name = 'other'")).unwrap();
    pair.serving.kill_and_restart();
    let lost = pair.agreed("failed");
    let reason = lost["reason"].as_str().unwrap();
    let hint = "`skyhaul transfers retry 1 NAME:DIR` copies to another, `skyhaul transfers rm 1` forgets it";
    assert_eq!(
        reason,
        format!("the configuration has no destination hasty any more; hint: {hint}"),
        "{lost}"
    );
    pair.schedule("list x_mh").expect(0);
    std::fs::write(&config, text).unwrap();
    pair.serving.kill_and_restart();
    pair.agreed("failed");
    pair.retry_until_running();
    pair.agreed("running");
    pair.until_done(1);
    pair.agreed("done");
    pair.same(0, "x_mh_no0", "in");
    assert_eq!(pair.delivery(0, 0), ("queued".into(), vec![1]));
}

#[test]
fn a_delivery_to_a_full_disk_waits_and_is_finished_when_there_is_room() {
    let pair = Pair::new(1, &[]);
    let root = pair.place.at("root");
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=48m"], &root) else {
        return println!("SKIPPED: a full destination needs a mount (sudo)");
    };
    let path = session(&pair, &[(0, 6)], "[[delivery]]\nto = ['hasty:in']\nrate = '20Mbps'\n");
    pair.schedule(&format!("load {}", path.display())).expect(0);
    let line = format!(
        "send --pattern --payload 2000 --rate 40Mbps --duration 4s --to udp://127.0.0.1:{}",
        pair.serving.ports[0]
    );
    crate::site::run(&line).expect(0);
    wait_for("the scan to be queued", || (pair.delivery(0, 0).0 == "queued").then_some(()));
    pair.until(1, "some of it", |one| got(one) > 0);
    // As much as there is.
    let filler = root.join("filler");
    let _ = std::fs::write(&filler, vec![7; 48 * MIB]);
    let full = pair.agreed("backing_off");
    assert!(full["reason"].as_str().unwrap().contains("space"), "{full}");
    assert!(number(&full["there_bytes"]) < number(&full["size_bytes"]));
    std::fs::remove_file(&filler).unwrap();
    pair.retry_until_running();
    pair.until_done(1);
    pair.agreed("done");
    pair.same(0, "x_mh_no0", "in");
}
