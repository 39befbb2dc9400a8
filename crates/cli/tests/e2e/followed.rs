//! A station that follows schedules: over kills and pauses, with disks that fill or hang, from requests and from a directory. No scan is
//! started twice, none is left out without a word.

use crate::device::{Device, Mounted};
use crate::serve::{Serving, names};
use crate::site::{Job, Site, number, wait_for, words};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A schedule whose scans begin so many seconds from now, and last so long.
fn soon(serving: &Serving, experiment: &str, scans: &[(i64, i64)]) -> PathBuf {
    let directory = serving.site.disks[0].parent().unwrap();
    let path = directory.join(format!("{experiment}.toml"));
    std::fs::write(&path, text(experiment, scans)).unwrap();
    path
}

fn text(experiment: &str, scans: &[(i64, i64)]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut text = format!("experiment = '{experiment}'\nstation = 'Mh'\n");
    for (at, (begin, seconds)) in scans.iter().enumerate() {
        let start = skyhaul::time::format(now + begin);
        text += &format!("[[scan]]\nname = 'no{at}'\nstart = {start}\nduration = '{seconds}s'\n");
    }
    text
}

/// A call of `schedule`.
fn schedule(serving: &Serving, line: &str) -> crate::site::Done {
    crate::site::run(&format!("schedule {line} --server http://{}", serving.api))
}

fn load(serving: &Serving, path: &Path, more: &str) -> Value {
    schedule(serving, &format!("load {} {more} --json", path.display())).expect(0).json()
}

fn states(serving: &Serving, name: &str) -> Vec<String> {
    let list = schedule(serving, &format!("list {name} --json")).expect(0).json();
    let scans = list["scans"].as_array().unwrap();
    scans.iter().map(|scan| scan["state"].as_str().unwrap().to_owned()).collect()
}

fn until_recorded(serving: &Serving, expected: &[&str]) {
    wait_for("recordings", || {
        let all = serving.status()["recordings"].as_array().unwrap().clone();
        let running = all.iter().filter(|recording| recording["state"] == "recording");
        let mut running: Vec<_> = running.map(|recording| recording["name"].as_str().unwrap()).collect();
        running.sort_unstable();
        (running == expected).then_some(())
    });
}

fn journal(site: &Site, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(site.disks[0].join(format!("{name}_schedule.journal"))).unwrap();
    text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn scans_on_two_inputs_are_resumed_after_a_kill() {
    let mut serving = Serving::start(Site::new(2), "");
    let (x, y) = (soon(&serving, "x", &[(-100, 10), (0, 600), (900, 10)]), soon(&serving, "y", &[(0, 600)]));
    let loaded = load(&serving, &x, "--station Mh");
    assert_eq!(loaded["schedule"]["states"], json!({ "missed": 1, "recording": 1, "waiting": 1 }));
    assert_eq!((loaded["schedule"]["next"].as_str(), &loaded["notes"]), (Some("x_mh_no2"), &json!([])));
    // On the same input at the same time, with the numbers; not twice; on another input it is recorded beside the first.
    let refused = schedule(&serving, &format!("load {}", y.display())).expect(2).stderr;
    assert!(refused.contains("y_mh_no0 overlaps with x_mh_no1 by "), "{refused}");
    let refused = schedule(&serving, &format!("load {}", x.display())).expect(2).stderr;
    assert!(refused.contains("schedule x_mh is loaded already"), "{refused}");
    load(&serving, &y, "--input b");
    until_recorded(&serving, &["x_mh_no1", "y_mh_no0"]);
    let line =
        format!("send --pattern --payload 2000 --rate 40Mbps --to udp://127.0.0.1:{}", serving.ports[0]);
    let sender = Job::start(&words(&line));
    let part = |serving: &Serving, name: &str| number(&serving.recording(name)["written_bytes"]);
    wait_for("some to be written", || (part(&serving, "x_mh_no1") > 0).then_some(()));
    let acknowledged = part(&serving, "x_mh_no1");

    serving.kill_and_restart();
    until_recorded(&serving, &["x_mh_no1_rest1", "y_mh_no0_rest1"]);
    wait_for("the rest to be written", || (part(&serving, "x_mh_no1_rest1") > 0).then_some(()));
    assert!(
        serving.site.run("cat x_mh_no1").stdout.len() as u64 >= acknowledged,
        "what was acknowledged is there"
    );
    drop(sender);
    // A schedule removed during a scan does not stop it, but the scan is not resumed after a restart. Nor is one that an operator stopped.
    schedule(&serving, "remove y_mh").expect(0);
    serving.call("station stop x_mh_no1_rest1");
    assert_eq!(states(&serving, "x_mh"), ["missed", "stopped", "waiting"]);
    until_recorded(&serving, &["y_mh_no0_rest1"]);
    let said = crate::site::run(&format!("status --station http://{}", serving.api)).expect(0).told();
    assert!(
        said.contains("schedule x_mh from a: 3 scans, 1 missed, 1 stopped, 1 waiting; next x_mh_no2 at "),
        "{said}"
    );
    serving.kill_and_restart();
    assert_eq!(names(&serving.status()["schedules"]), ["x_mh"]);
    assert_eq!(states(&serving, "x_mh"), ["missed", "stopped", "waiting"]);
    assert_eq!(names(&serving.status()["recordings"]), Vec::<String>::new());
    assert_eq!(journal(&serving.site, "x_mh"), ["begun 1", "begun 2", "dropped 2"]);
    assert_eq!(journal(&serving.site, "y_mh"), ["begun 1", "begun 2"]);
}

#[test]
fn a_directory_is_watched() {
    let site = Site::new(1);
    let directory = site.disks[0].parent().unwrap().join("schedules");
    std::fs::create_dir(&directory).unwrap();
    let mut serving = Serving::start(
        site,
        &format!("[station.schedule]\ndirectory = '{}'\ninput = 'b'", directory.display()),
    );
    std::fs::write(directory.join("x.toml"), text("x", &[(0, 600)])).unwrap();
    std::fs::write(directory.join("broken.vex"), "VEX_rev = 1.5;\n$SCHED;\nscan a;\n").unwrap();
    std::fs::write(directory.join("notes.txt"), "no schedule\n").unwrap();
    until_recorded(&serving, &["x_mh_no0"]);
    assert_eq!(serving.recording("x_mh_no0")["input"], "b");
    let problem =
        wait_for("the problem", || Some(serving.status()["schedule_problems"][0].as_str()?.to_owned()));
    assert!(problem.contains("broken.vex: line 3: "), "{problem}");
    let refused = schedule(&serving, "remove x_mh").expect(2).stderr;
    assert!(
        refused.contains("it is read from ") && refused.contains("remove or change the file"),
        "{refused}"
    );
    // A scan that is added; the one under way is the same.
    let changed = text("x", &[(0, 600)]).replace("no0", "no9");
    let kept = std::fs::read_to_string(directory.join("x.toml")).unwrap();
    let added = changed.split_once("[[scan]]").unwrap().1.replace("start = 20", "start = 21");
    std::fs::write(directory.join("x.toml"), format!("{kept}[[scan]]{added}")).unwrap();
    wait_for("the change", || (states(&serving, "x_mh") == ["recording", "waiting"]).then_some(()));
    serving.kill_and_restart();
    until_recorded(&serving, &["x_mh_no0_rest1"]);
    std::fs::remove_file(directory.join("x.toml")).unwrap();
    wait_for("its removal", || (serving.status()["schedules"] == json!([])).then_some(()));
    until_recorded(&serving, &["x_mh_no0_rest1"]);
}

/// SIGSTOP in one scan until after the end of another: on SIGCONT the station records on, and reports the scan that it missed.
#[test]
fn a_pause_of_the_service_leaves_nothing_out_silently() {
    let serving = Serving::start(Site::new(1), "");
    let path = soon(&serving, "x", &[(0, 600)]);
    load(&serving, &path, "");
    until_recorded(&serving, &["x_mh_no0"]);
    let other = soon(&serving, "y", &[(12, 1)]);
    load(&serving, &other, "--input b");
    serving.job.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(16));
    serving.job.signal(Signal::CONT);
    wait_for("what was missed", || (states(&serving, "y_mh") == ["missed"]).then_some(()));
    until_recorded(&serving, &["x_mh_no0"]);
    serving.job.signal(Signal::TERM);
    serving.job.finish();
    // To be continued.
    assert_eq!(journal(&serving.site, "x_mh"), ["begun 1", "cut 1"]);
}

/// A scan that cannot start on a full disk is reported and retried, and starts when there is room.
#[test]
fn a_schedule_waits_for_room() {
    let site = Site::new(1);
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=24m"], &site.disks[0])
    else {
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let serving = Serving::start(site, "");
    let filler = serving.site.disks[0].join("other");
    std::fs::write(&filler, vec![1; 18 << 20]).unwrap();
    wait_for("the station to see it", || (serving.status()["disks"][0]["condition"] == "full").then_some(()));
    let path = soon(&serving, "x", &[(0, 600)]);
    load(&serving, &path, "");
    let list = schedule(&serving, "list x_mh").expect(0).told();
    assert!(list.contains("waiting") && list.contains("none of 1 disks can be written to"), "{list}");
    std::fs::remove_file(&filler).unwrap();
    until_recorded(&serving, &["x_mh_no0"]);
    assert_eq!(journal(&serving.site, "x_mh"), ["begun 1"], "what could not begin has used no name");
}

/// One disk of two does not respond: requests are answered, the schedule is followed on the other.
#[test]
fn a_hung_disk_stops_neither_the_schedule_nor_the_answers() {
    let site = Site::new(2);
    // A disk that hangs is a file system of our own, which needs /dev/fuse and root.
    let mut device = match Device::new(&site.disks[0]) {
        Ok(device) => device,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let mut serving = Serving::start(site, "");
    let path = soon(&serving, "x", &[(9, 600)]);
    load(&serving, &path, "");
    let hanging = device.hang();
    let line =
        format!("send --pattern --payload 2000 --rate 40Mbps --to udp://127.0.0.1:{}", serving.ports[0]);
    let sender = Job::start(&words(&line));
    let mut slowest = Duration::ZERO;
    wait_for("the scan on the other disk", || {
        let asked = Instant::now();
        let status = serving.http(&format!("GET /api/v1/status HTTP/1.1\r\nHost: {}", serving.api), "").1;
        slowest = slowest.max(asked.elapsed());
        let running = status["recordings"].as_array().and_then(|all| all.first().cloned());
        (number(&running?["written_bytes"]) > 0).then_some(())
    });
    println!("slowest answer of the status: {slowest:?}");
    let journal = std::fs::read_to_string(serving.site.disks[1].join("x_mh_schedule.journal")).unwrap();
    assert!(journal.starts_with("begun 1 "), "{journal}");
    drop(hanging);
    drop(sender);
    serving.call("station stop x_mh_no0");
    assert_eq!(states(&serving, "x_mh"), ["stopped"]);

    // Neither does one that hangs from the beginning: the service starts, and its lists and the readers say what they lack.
    serving.kill();
    device.mount_again();
    let hanging = device.hang();
    serving.restart();
    let silent = serving.site.disks[0].display().to_string();
    let list = |serving: &Serving| {
        let asked = Instant::now();
        let (status, listed) =
            serving.http(&format!("GET /api/v1/scans HTTP/1.1\r\nHost: {}", serving.api), "");
        println!("the list was answered in {:?}", asked.elapsed());
        assert_eq!((status, &listed["scans"][0]["scan"]), (200, &json!("x_mh_no0")), "{listed}");
        listed["silent_disks"].clone()
    };
    assert_eq!(list(&serving), json!([silent]));
    wait_for("the alarm", || {
        let head = format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", serving.api);
        let alarms = serving.http(&head, "").1["alarms"].as_array()?.clone();
        alarms.iter().any(|one| one["kind"] == "disk_silent" && one["subject"] == json!(silent)).then_some(())
    });
    // The kernel ends a process when the device has answered its threads: what they say comes before.
    let disks: Vec<String> =
        serving.site.disks.iter().map(|disk| format!("--disk {}", disk.display())).collect();
    let start = |verb: &str, scan: &str| Job::start(&words(&format!("{verb} {} {scan}", disks.join(" "))));
    let (cat, ls) = (start("cat", "x_mh_no0"), start("ls", ""));
    wait_for("what cat lacks", || {
        cat.stderr().contains(&format!("{silent}: the disk does not respond")).then_some(())
    });
    wait_for("what ls lacks", || ls.stderr().contains(&format!("{silent} does not respond")).then_some(()));
    drop(hanging);
    ls.finish().expect(1);
    // Whether a chunk is on it depends on how soon it joined the scan.
    cat.finish();
    wait_for("the disk in the list", || (list(&serving) == json!([])).then_some(()));
    serving.site.run("check x_mh_no0").expect(0);
}
