//! The queue of a station's copies to other hosts: with a real station and a real `copy serve`, killed, full, stalled and refused.

use crate::copied::{Place, noise};
use crate::device::{Device, Mounted};
use crate::serve::{Serving, frames, names};
use crate::site::{Job, Site, number, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const MIB: usize = 1 << 20;

/// A station with scans on its disks, and the host that they go to.
pub(crate) struct Pair {
    pub(crate) serving: Serving,
    pub(crate) place: Place,
}

/// Chunks of a scan on a disk, without an index: as a FlexBuff has them.
fn scan(disk: &Path, name: &str, bytes: &[u8]) {
    std::fs::create_dir(disk.join(name)).unwrap();
    for (number, chunk) in bytes.chunks(4 * MIB).enumerate() {
        std::fs::write(disk.join(format!("{name}/{name}.{number:08}")), chunk).unwrap();
    }
}

fn same(from: &Path, to: &Path) {
    let mut files = 0;
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        let (here, there) = (std::fs::read(from.join(&name)).unwrap(), std::fs::read(to.join(&name)));
        assert!(there.is_ok_and(|there| there == here), "{} is not equal", to.join(&name).display());
        files += 1;
    }
    assert!(files > 0, "{} is empty", from.display());
}

/// Bytes that the destination has got, confirmed or not.
pub(crate) fn got(copy: &Value) -> u64 {
    number(&copy["there_bytes"]) + number(&copy["unconfirmed_bytes"])
}

impl Pair {
    /// A station with these scans of so many MiB on its first disk.
    pub(crate) fn new(disks: usize, scans: &[(&str, usize)]) -> Self {
        Self::on(Site::new(disks), 0, scans)
    }

    /// The same, on one of these disks.
    fn on(site: Site, disk: usize, scans: &[(&str, usize)]) -> Self {
        let place = Place::new();
        for (name, size) in scans {
            scan(&site.disks[disk], name, &noise(size * MIB));
        }
        let destination = |name: &str, port: u16, token: &str| {
            let token = place.at(token);
            format!(
                "[[station.destination]]\nname = '{name}'\nhost = '127.0.0.1'\nport = {port}\ntoken_file = '{}'\nflows = 2\n",
                token.display()
            )
        };
        std::fs::write(place.at("wrong"), "another-token-of-16-or-more\n").unwrap();
        let more = destination("correlator", place.port, "token")
            + &destination("wrong", place.port, "wrong")
            + &destination("nobody", 1, "token")
            // In which little is moved before it counts as hanging.
            + &(destination("hasty", place.port, "token") + "stall = '4s'\n");
        Self { serving: Serving::start(site, &more), place }
    }

    fn add(&self, line: &str) -> Value {
        self.serving.call(&format!("transfers add {line}")).expect(0).json()
    }

    pub(crate) fn queue(&self) -> Vec<Value> {
        self.serving.call("transfers").expect(0).json()["queue"].as_array().unwrap().clone()
    }

    pub(crate) fn copy(&self, copy: u64) -> Value {
        let found = self.queue().into_iter().find(|one| number(&one["copy"]) == copy);
        found.unwrap_or_else(|| panic!("copy {copy} is lost"))
    }

    pub(crate) fn until(&self, copy: u64, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || Some(self.copy(copy)).filter(|one| is(one)))
    }

    pub(crate) fn until_done(&self, copy: u64) -> Value {
        self.until(copy, "the copy", |one| {
            assert!(!matches!(one["state"].as_str(), Some("failed" | "cancelled")), "{one}");
            one["state"] == "done"
        })
    }

    /// Copy 1 is tried again at once, as often as it must be.
    fn until_done_with_retries(&self) {
        self.until(1, "the disk to answer", |one| {
            if one["state"] == "backing_off" {
                // It may have begun by itself meanwhile.
                self.serving.call("transfers retry 1");
            }
            one["state"] == "done"
        });
    }

    fn refused(&self, line: &str) -> String {
        self.serving.call(line).expect(2).stderr
    }

    /// Reads every file at both ends, and trusts the report of neither.
    pub(crate) fn same(&self, disk: usize, scan: &str, directory: &str) {
        let from = self.serving.site.disks[disk].join(scan);
        same(&from, &self.place.at("root").join(directory).join(scan));
    }
}

#[test]
fn scans_are_copied_and_only_then_done() {
    let pair = Pair::new(2, &[("exp_mh_no0001", 5), ("exp_mh_no0002", 1), ("other", 1)]);
    // One that is on both disks.
    scan(&pair.serving.site.disks[1], "exp_mh_no0002", &noise(2 * MIB));
    // What cannot be is refused before anything is queued.
    for (line, text) in [
        ("'exp_mh_*' correlator:d1", "scan exp_mh_no0002 is on 2 disks, and 1 directory given"),
        ("nothing correlator:d1", "no scan is named `nothing`"),
        ("n* correlator:d1", "no scan is named `n*`"),
        ("other elsewhere:d1", "the destinations are: correlator, wrong, nobody, hasty"),
        ("other wrong:d1", "wrong (127.0.0.1:"),
        ("other wrong:d1", "token"),
        ("other nobody:d1", "nobody (127.0.0.1:1): "),
        ("other correlator:../d1", "outside the served directories"),
        ("other correlator:d1 --at 25:00", "or a time of day, 22:00"),
        ("other correlator:d1 correlator:d1", "is given twice"),
    ] {
        let said = pair.refused(&format!("transfers add {}", line.replace('\'', "")));
        assert!(said.contains(text), "{line}: {said}");
    }
    assert!(pair.queue().is_empty());
    let accepted = pair.add("exp_mh_* correlator:d1 correlator:d2");
    assert!(
        number(&accepted["path"]["free_bytes"][1]) > 0 && accepted["left_out"] == Value::Array(Vec::new())
    );
    assert_eq!(accepted["copies"].as_array().unwrap().len(), 2);
    let first = pair.until_done(1);
    assert_eq!(
        (number(&first["size_bytes"]), number(&first["there_bytes"])),
        (5 * MIB as u64, 5 * MIB as u64)
    );
    assert_eq!((number(&first["files"]), number(&first["attempts"])), (2, 1));
    pair.until_done(2);
    pair.same(0, "exp_mh_no0001", "d1");
    pair.same(0, "exp_mh_no0002", "d1");
    pair.same(1, "exp_mh_no0002", "d2");
    // What is queued is left out by a pattern.
    let more = pair.add("* correlator:d1 correlator:d2 --at 2200-01-01T00:00:00Z --rate 40Mbps");
    assert_eq!(more["left_out"].as_array().unwrap().len(), 2, "{more}");
    let waiting = &more["copies"][0];
    assert_eq!((waiting["state"].as_str(), waiting["scan"].as_str()), (Some("waiting"), Some("other")));
    assert!(waiting["due_at"].as_str().unwrap().starts_with("2200-01-01T00:00:00"));
    assert!(
        pair.refused("transfers add other correlator:d1").contains("is queued for correlator already, as 3")
    );
    assert!(pair.refused("transfers rm 3").contains("cancel it first"));
    assert_eq!(pair.serving.call("transfers cancel 3").expect(0).json()["state"], "cancelled");
    assert!(pair.refused("transfers cancel 3").contains("copy 3 is cancelled"));
    assert!(pair.refused("transfers retry 1").contains("it is at its destination"));
    assert!(pair.refused("transfers rm 9").contains("no copy in the queue has the number 9"));
    pair.serving.call("transfers rm 3").expect(0);
    assert_eq!(pair.queue().len(), 2);
    // Numbers are not used twice, also after a restart.
    let mut pair = pair;
    pair.serving.kill_and_restart();
    assert_eq!(number(&pair.add("other correlator:d1")["copies"][0]["copy"]), 4);
    pair.until_done(4);
    let said = crate::site::run(&format!("transfers --station http://{}", pair.serving.api)).expect(0).told();
    assert!(said.contains("1 exp_mh_no0001 to correlator (d1): done, 5.24 MB of 5.24 MB"), "{said}");
}

/// Between a station and the host that it copies to: it keeps all that passes.
fn listening(to: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<u8>>>::default());
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { return };
            for (mut from, mut into) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let mut piece = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = from.read(&mut piece) {
                        kept.lock().unwrap().extend_from_slice(&piece[..count]);
                        if into.write_all(&piece[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (port, heard)
}

/// Whether these words (two bytes or more) are somewhere in it. Megabytes are searched: from one first byte to the next the standard
/// library looks, which is optimised, as this test is not.
fn holds(mut bytes: &[u8], words: &[u8]) -> bool {
    let (first, rest) = words.split_first().filter(|(_, rest)| !rest.is_empty()).unwrap();
    while bytes.skip_until(*first).unwrap() > 0 {
        if bytes.starts_with(rest) {
            return true;
        }
    }
    false
}

#[test]
fn contents_are_encrypted_where_the_destination_or_the_order_says_so() {
    let (site, place) = (Site::new(1), Place::new());
    let secret = b"contents that are secret";
    for name in ["plain", "by_order", "by_destination"] {
        scan(&site.disks[0], name, &[&noise(5000)[..], secret].concat());
    }
    let (port, heard) = listening(place.port);
    let token = place.at("token");
    let destination = |name: &str, more: &str| {
        let token = token.display();
        format!(
            "[[station.destination]]\nname = '{name}'\nhost = '127.0.0.1'\nport = {port}\ntoken_file = '{token}'\n{more}\n"
        )
    };
    let more = destination("plain", "") + &destination("secret", "encrypt = true");
    let mut pair = Pair { serving: Serving::start(site, &more), place };
    for (copy, line, is_encrypted) in [
        (1, "by_order plain:in --encrypt", true),
        (2, "by_destination secret:in", true),
        (3, "plain plain:in", false),
    ] {
        heard.lock().unwrap().clear();
        let accepted = pair.add(line)["copies"][0].clone();
        assert!(accepted["data_encrypted"].is_null(), "{accepted}");
        let done = pair.until_done(copy);
        assert_eq!(done["data_encrypted"], is_encrypted, "{done}");
        let passed = heard.lock().unwrap();
        let is_read = holds(&passed, secret);
        assert_eq!(is_read, !is_encrypted, "{line}");
        drop(passed);
        pair.same(0, line.split(' ').next().unwrap(), "in");
    }
    pair.serving.kill_and_restart();
    assert_eq!((&pair.copy(1)["data_encrypted"], &pair.copy(1)["encrypt"]), (&true.into(), &true.into()));
    let said = crate::site::run(&format!("transfers --station http://{}", pair.serving.api)).expect(0).told();
    assert!(said.contains("1 by_order to plain (in): done, ") && said.contains(", encrypted"), "{said}");
}

#[test]
fn a_copy_whose_destination_is_gone_goes_to_another_or_is_forgotten() {
    let mut pair = Pair::new(1, &[("s", 1), ("t", 1)]);
    pair.add("s t hasty:in --at 2200-01-01T00:00:00Z --priority 3");
    let config = pair.serving.site.disks[0].parent().unwrap().join("station.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(pair.refused("transfers retry 1 correlator:in").contains("cancel it first"));
    std::fs::write(&config, text.replace("name = 'hasty'", "name = 'other'")).unwrap();
    pair.serving.kill_and_restart();
    for copy in [1, 2] {
        let lost = pair.until(copy, "its failure", |one| one["state"] == "failed");
        let reason = lost["reason"].as_str().unwrap();
        assert!(reason.contains("no destination hasty any more; hint: `skyhaul transfers retry"), "{lost}");
    }
    // Again to where it was: nothing has changed.
    pair.serving.call("transfers retry 1");
    pair.until(1, "its failure", |one| one["state"] == "failed");
    for (line, why) in [
        ("1 elsewhere:in", "the destinations are: correlator, wrong, nobody, other"),
        ("1 nobody:in", "nobody (127.0.0.1:1): "),
        ("9 correlator:in", "no copy in the queue has the number 9"),
    ] {
        let said = pair.refused(&format!("transfers retry {line}"));
        assert!(said.contains(why), "{line}: {said}");
    }
    assert_eq!(pair.queue().len(), 2);
    let moved = pair.serving.call("transfers retry 1 correlator:in").expect(0).json();
    assert_eq!((number(&moved["copy"]), &moved["order"]), (3, &Value::from(3)), "{moved}");
    pair.until_done(3);
    pair.same(0, "s", "in");
    assert!(pair.refused("transfers retry 3 other:in").contains("it is at its destination"));
    pair.serving.call("transfers rm 2").expect(0);
    let left: Vec<u64> = pair.queue().iter().map(|one| number(&one["copy"])).collect();
    assert_eq!(left, [3]);
}

#[test]
fn either_end_may_be_killed() {
    let mut pair = Pair::new(1, &[("s", 24)]);
    pair.add("s correlator:in --rate 40Mbps");
    let come = |one: &Value| number(&one["there_bytes"]) > 6 * MIB as u64;
    pair.until(1, "some of it", come);
    pair.serving.kill_and_restart();
    // The copy resumes without a command, and does not send again what has arrived.
    let resumed = pair.until(1, "the rest to begin", |one| one["state"] == "running" && come(one));
    assert_eq!(number(&resumed["attempts"]), 2, "{resumed}");
    pair.place.server.signal(Signal::KILL);
    let broken = pair.until(1, "the end of the server to be seen", |one| one["state"] == "backing_off");
    assert!(broken["reason"].as_str().is_some_and(|why| !why.is_empty()), "{broken}");
    pair.place.restart_here();
    pair.serving.call("transfers retry 1").expect(0);
    pair.until_done(1);
    pair.same(0, "s", "in");
    // The token is in its own file only.
    let token = std::fs::read_to_string(pair.place.at("token")).unwrap();
    let kept = std::fs::read_to_string(pair.serving.site.disks[0].join("station_queue.json")).unwrap();
    assert!(kept.contains("\"correlator\"") && !kept.contains(token.trim()));
    assert!(!pair.serving.job.stderr().contains(token.trim()));
}

#[test]
fn a_cancelled_copy_ends_also_where_the_other_end_stalls() {
    let pair = Pair::new(1, &[("s", 64)]);
    pair.add("s correlator:in --rate 200Mbps");
    pair.until(1, "some of it", |one| got(one) > MIB as u64);
    pair.place.server.signal(Signal::STOP);
    let cancelled = pair.serving.call("transfers cancel 1").expect(0).json();
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    pair.place.server.signal(Signal::CONT);
    // What is there is used by the next one.
    wait_for("the server to notice", || {
        pair.serving.call("transfers retry 1").expect(0);
        let one = pair.until(1, "an end", |one| {
            matches!(one["state"].as_str(), Some("done" | "backing_off" | "failed"))
        });
        (one["state"] == "done").then_some(())
    });
    pair.same(0, "s", "in");
}

#[test]
fn a_copy_from_a_disk_that_hangs_can_be_cancelled_and_is_not_begun_twice() {
    let site = Site::new(2);
    let mut device = match Device::new(&site.disks[1]) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let mut pair = Pair::on(site, 1, &[("s", 24)]);
    pair.add("s correlator:in --rate 40Mbps");
    pair.until(1, "some of it", |one| got(one) > MIB as u64);
    device.forget();
    let hanging = device.hang();
    // What was read ahead goes out yet.
    wait_for("the disk to be missed", || {
        let there = || got(&pair.copy(1));
        let before = there();
        std::thread::sleep(Duration::from_secs(2));
        (there() == before).then_some(())
    });
    assert_eq!(pair.serving.call("transfers cancel 1").expect(0).json()["state"], "cancelled");
    drop(hanging);
    // Now it hangs with its names already, where no thread can be called back.
    pair.serving.call("transfers retry 1").expect(0);
    pair.serving.kill();
    device.mount_again();
    let hanging = device.hang();
    pair.serving.restart();
    pair.until(1, "the next attempt", |one| one["state"] == "running");
    assert_eq!(pair.serving.call("transfers cancel 1").expect(0).json()["state"], "cancelled");
    pair.serving.call("transfers retry 1").expect(0);
    let held = pair.until(1, "the disk to be named", |one| one["state"] == "backing_off");
    assert!(held["reason"].as_str().unwrap().contains("the last attempt has not ended"), "{held}");
    drop(hanging);
    pair.until_done_with_retries();
    pair.same(1, "s", "in");
}

/// A range takes half a minute, and what has come of it shows at once: as unconfirmed, in the rate, and not as there.
#[test]
fn what_has_come_of_a_range_shows_before_the_range_is_there() {
    let pair = Pair::new(1, &[("s", 4)]);
    pair.add("s correlator:in --rate 1Mbps");
    let begun = pair.until(1, "its rate", |one| number(&one["rate_bits"]) > 0 && got(one) > 0);
    assert_eq!((number(&begun["there_bytes"]), begun["state"].as_str()), (0, Some("running")), "{begun}");
    let said = crate::site::run(&format!("transfers --station http://{}", pair.serving.api)).expect(0).told();
    assert!(said.contains("running, 0 B of 4.19 MB and ") && said.contains(" unconfirmed, "), "{said}");
    assert_eq!(pair.serving.call("transfers cancel 1").expect(0).json()["state"], "cancelled");
}

#[test]
fn a_copy_at_which_nothing_moves_ends_by_itself_and_goes_on_when_the_disk_answers() {
    let site = Site::new(2);
    let device = match Device::new(&site.disks[1]) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let pair = Pair::on(site, 1, &[("s", 24)]);
    pair.add("s hasty:in --rate 40Mbps");
    pair.until(1, "some of it", |one| got(one) > MIB as u64);
    device.forget();
    let hanging = device.hang();
    let held = pair.until(1, "the attempt to end by itself", |one| one["state"] == "backing_off");
    let reason = held["reason"].as_str().unwrap();
    assert!(reason.contains("nothing moved for 4 s: a disk of this host does not respond"), "{held}");
    let next = pair
        .until(1, "the next attempt", |one| number(&one["attempts"]) > 1 && one["state"] == "backing_off");
    assert!(next["reason"].as_str().unwrap().contains("the last attempt has not ended"), "{next}");
    drop(hanging);
    pair.until_done_with_retries();
    pair.same(1, "s", "in");
}

#[test]
fn a_destination_whose_disk_hangs_is_given_up_and_goes_on_when_it_answers() {
    let pair = Pair::new(1, &[("s", 24)]);
    let device = match Device::new(&pair.place.at("root")) {
        Ok(device) => device,
        // Needs root, FUSE and a loop device.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    pair.add("s hasty:in --rate 40Mbps");
    pair.until(1, "some of it", |one| got(one) > MIB as u64);
    let hanging = device.hang();
    // The server takes all of it into its memory, says that it is there, and nothing is durable.
    let held = pair.until(1, "the attempt to end by itself", |one| one["state"] == "backing_off");
    let reason = held["reason"].as_str().unwrap();
    assert!(reason.contains("nothing moved for 4 s: 127.0.0.1:"), "{held}");
    drop(hanging);
    pair.until_done_with_retries();
    pair.same(0, "s", "in");
}

#[test]
fn too_little_space_is_refused_with_the_numbers_and_what_fills_meanwhile_is_waited_for() {
    let pair = Pair::new(1, &[("large", 24), ("small", 6)]);
    let root = pair.place.at("root");
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=16m"], &root) else {
        // Only root may mount a disk that is soon full.
        eprintln!("SKIPPED: a full destination needs a mount (sudo)");
        return;
    };
    let said = pair.refused("transfers add large correlator:in");
    assert!(
        said.contains("not enough space at correlator in in: 25.2 MB requested, 0 B of 16.8 MB free"),
        "{said}"
    );
    // Both together are too much, and so none is taken.
    let said = pair.refused("transfers add * correlator:in");
    assert!(said.contains("31.5 MB requested"), "{said}");
    assert!(pair.queue().is_empty());
    pair.add("small correlator:in --rate 20Mbps");
    pair.until(1, "some of it", |one| got(one) > 0);
    let filler = root.join("filler");
    // As much as there is.
    let _ = std::fs::write(&filler, noise(16 * MIB));
    let full = pair.until(1, "the full disk to be seen", |one| one["state"] == "backing_off");
    assert!(full["reason"].as_str().unwrap().contains("space"), "{full}");
    std::fs::remove_file(&filler).unwrap();
    pair.serving.call("transfers retry 1").expect(0);
    pair.until_done(1);
    pair.same(0, "small", "in");
}

#[test]
fn a_recording_beside_a_copy_loses_nothing() {
    let pair = Pair::new(1, &[("s", 64)]);
    pair.serving.call("station start rec --input a").expect(0);
    let said = pair.refused("transfers add rec correlator:in");
    assert!(said.contains("scan rec is being recorded"), "{said}");
    pair.add("s correlator:in");
    let path = frames(&pair.serving.site, "f", 1, 8000);
    let line = format!(
        "send --input {} --rate 32Mbps --to udp://127.0.0.1:{}",
        path.display(),
        pair.serving.ports[0]
    );
    Job::start(&words(&line)).finish().expect(0);
    let sent = std::fs::read(&path).unwrap();
    wait_for("all to arrive", || {
        (number(&pair.serving.recording("rec")["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    let stopped = pair.serving.call("station stop rec").expect(0).json();
    assert_eq!(stopped["outcome"], "complete", "{stopped}");
    pair.until_done(1);
    pair.same(0, "s", "in");
    // Now that it has ended, it may go, too.
    pair.add("rec correlator:in");
    pair.until_done(2);
    pair.same(0, "rec", "in");
    assert_eq!(names(&pair.serving.status()["ended"]), ["rec"]);
}

/// A schedule of scans that are over soon, and where they go.
pub(crate) fn session(pair: &Pair, scans: &[(i64, i64)], deliveries: &str) -> std::path::PathBuf {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut text = "experiment = 'x'\nstation = 'Mh'\n".to_owned();
    for (at, (begin, seconds)) in scans.iter().enumerate() {
        let start = skyhaul::time::format(now + begin);
        text += &format!("[[scan]]\nname = 'no{at}'\nstart = {start}\nduration = '{seconds}s'\n");
    }
    let path = pair.serving.site.disks[0].parent().unwrap().join("x.toml");
    std::fs::write(&path, text + deliveries).unwrap();
    path
}

impl Pair {
    pub(crate) fn schedule(&self, line: &str) -> crate::site::Done {
        crate::site::run(&format!("schedule {line} --server http://{}", self.serving.api))
    }

    /// The state of the delivery of a scan with this number, and the numbers of its copies.
    pub(crate) fn delivery(&self, scan: usize, delivery: usize) -> (String, Vec<u64>) {
        let list = self.schedule("list x_mh --json").expect(0).json();
        let one = &list["scans"][scan]["deliveries"][delivery];
        let copies = one["copies"].as_array().unwrap().iter().map(|copy| number(&copy["copy"]));
        (one["state"].as_str().unwrap().to_owned(), copies.collect())
    }
}

#[test]
fn a_session_is_delivered_once_over_kills_and_in_its_hours() {
    let mut pair = Pair::new(1, &[]);
    // An hour that is not now, and one that is.
    let minute = |hours: u64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let minute = (now / 60 + hours * 60) % 1440;
        format!("{:02}:{:02}", minute / 60, minute % 60)
    };
    // The test may end in the next minute.
    let begin = minute(11);
    let deliveries = format!(
        "[[delivery]]\nto = ['correlator:in']\n[[delivery]]\nto = ['hasty:late']\nafter = 'session'\nfrom = '{}'\nuntil = '{}'\npriority = 3\n",
        begin,
        minute(12)
    );
    let path = session(&pair, &[(-60, 10), (0, 8)], &deliveries);
    let checked = crate::site::run(&format!("schedule check {}", path.display()));
    let said = checked.told();
    assert!(said.contains("delivery of each scan, to correlator:in: 2 scans"), "{said}");
    assert!(said.contains("delivery of all scans, after the last, to hasty:late, "), "{said}");
    let refused = pair.schedule(&format!("load {} --deliver elsewhere:d", path.display())).expect(2).stderr;
    assert!(refused.contains("no destination is named `elsewhere`"), "{refused}");
    let said = pair.schedule(&format!("load {}", path.display())).expect(0).told();
    assert!(said.contains("delivery to correlator:in after each scan: 1 not recorded, 1 waiting"), "{said}");
    let line = format!(
        "send --pattern --payload 2000 --rate 40Mbps --duration 4s --to udp://127.0.0.1:{}",
        pair.serving.ports[0]
    );
    crate::site::run(&line).expect(0);
    // What was missed is named; what was recorded is queued when its scan is over, and copied.
    wait_for("the scan to be over and queued", || (pair.delivery(1, 1).0 == "queued").then_some(()));
    assert_eq!(pair.delivery(0, 0), ("not_recorded".into(), Vec::new()));
    let (state, copies) = pair.delivery(1, 0);
    assert_eq!((state.as_str(), copies.len()), ("queued", 1));
    pair.until_done(copies[0]);
    pair.same(0, "x_mh_no1", "in");
    let late = pair.delivery(1, 1).1[0];
    assert_eq!((pair.copy(late)["state"].as_str(), number(&pair.copy(late)["order"])), (Some("waiting"), 3));
    assert_eq!(pair.copy(late)["waiting_for_hours"], true);
    let before = pair.queue();
    assert_eq!(before.len(), 2);
    // All of it is seen in one place: what was copied, what waits for its hours, and why the rest was not.
    let status = pair.serving.status();
    let of = |at: usize| status["schedules"][0]["deliveries"][at].clone();
    let missed = serde_json::json!({ "it was never begun": 1 });
    assert_eq!(
        (&of(0)["destination"], &of(0)["copies"]),
        (&"correlator".into(), &serde_json::json!({ "done": 1 }))
    );
    assert_eq!(
        (&of(1)["copies"], &of(1)["not_recorded"]),
        (&serde_json::json!({ "waiting_for_hours": 1 }), &missed)
    );
    let said = crate::site::run(&format!("status --station http://{}", pair.serving.api)).expect(0).told();
    assert!(
        said.contains(": 1 not recorded, 1 queued; copies: 1 copied; 1 not recorded: it was never begun\n"),
        "{said}"
    );
    assert!(
        said.contains("; copies: 1 waiting for the hours; ") && said.contains(", for its hours, at "),
        "{said}"
    );
    let top = crate::site::run(&format!("top --once --station http://{}", pair.serving.api)).expect(0).told();
    let row = top.lines().find(|line| line.starts_with("x_mh  ") && line.contains("hasty")).unwrap();
    assert!(row.contains(&begin) && row.ends_with("it was never begun"), "{top}");
    let metrics = pair.serving.metrics();
    for (to, state) in [("correlator", "done"), ("hasty", "waiting_for_hours")] {
        let line = format!(
            "skyhaul_station_delivery_copies{{destination=\"{to}\",schedule=\"x_mh\",state=\"{state}\"}} 1\n"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    // Not again after kills, nor when the schedule is loaded again, nor when the queue has forgotten the copy.
    pair.serving.kill_and_restart();
    pair.schedule(&format!("load {} --replace", path.display())).expect(0);
    pair.serving.call(&format!("transfers rm {}", copies[0])).expect(0);
    pair.serving.kill_and_restart();
    let again = wait_for("the schedule", || Some(pair.delivery(1, 0)).filter(|of| of.0 == "queued"));
    assert_eq!(again.1, copies);
    assert!(
        !pair.place.at("root/late").exists()
            || std::fs::read_dir(pair.place.at("root/late")).unwrap().count() == 0
    );
    let numbers: Vec<u64> = pair.queue().iter().map(|copy| number(&copy["copy"])).collect();
    assert_eq!(numbers, [late]);
    let journal = std::fs::read_to_string(pair.serving.site.disks[0].join("x_mh_schedule.journal")).unwrap();
    let noted: Vec<&str> = journal.lines().filter(|line| line.starts_with("queued ")).collect();
    assert_eq!(
        noted,
        [format!("queued {} correlator x_mh_no1", copies[0]), format!("queued {late} hasty x_mh_no1")]
    );
    let said = pair.schedule("list x_mh").expect(0).told();
    assert!(said.contains("to correlator: not recorded, it was never begun"), "{said}");
    assert!(
        said.contains(&format!("to correlator: queued as {} (removed from the queue)", copies[0])),
        "{said}"
    );
    // By hand, for all scans of the schedule.
    let added = pair.add("--schedule x_mh correlator:in --priority -1 --hours 00:00-00:00");
    assert_eq!(
        (added["copies"].as_array().unwrap().len(), added["copies"][0]["scan"].as_str()),
        (1, Some("x_mh_no1"))
    );
    let left_out = &added["left_out"][0];
    assert_eq!(left_out["scan"], "x_mh_no0");
    assert_eq!(left_out["reason"], "there is no recording of it, it is missed");
    let refused = pair.refused("transfers add --schedule y correlator:in");
    assert!(refused.contains("no schedule is named `y`"), "{refused}");
}
