//! `schedule check` with files of each format; `record --schedule`, killed and started again.

use crate::disks;
use crate::site::{Job, Site, run, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const VEX: &str = r#"VEX_rev = 1.5;
$STATION; def Mh; enddef; def On; enddef;
$FREQ; def f; sample_rate = 32.000 Ms/sec; enddef;
$TRACKS; def t; track_frame_format = VDIF/8032/2;
  fanout_def = : &CH01 : sign : 1 : 2; fanout_def = : &CH01 : mag : 1 : 3; enddef;
$MODE; def narrow; ref $FREQ = f; ref $TRACKS = t : Mh; enddef;
$SCHED;
scan No0001; start = 2200y001d00h00m00s; mode = narrow; source = 3C84;
  station = Mh : 0 sec : 60 sec : : : : 1; endscan;
scan No0002; start = 2200y001d00h01m30s; mode = narrow; source = 3C84;
  station = Mh : 0 sec : 60 sec : : : : 1; station = On : 0 sec : 60 sec : : : : 1; endscan;
"#;

fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn problems(report: &Value) -> Vec<&str> {
    let scans = report["scans"].as_array().unwrap().iter();
    let problems = scans.flat_map(|scan| scan["problems"].as_array().unwrap());
    problems.map(|problem| problem["problem"].as_str().unwrap()).collect()
}

#[test]
fn what_a_station_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "n26c3.vex", VEX);
    let line = format!("schedule check {} --json", path.display());
    let report = run(&format!("{line} --station Mh --disk {}", directory.path().display())).expect(0).json();
    assert_eq!((report["format"].as_str(), report["station"].as_str()), (Some("VEX 1.5"), Some("Mh")));
    let first = &report["scans"][0];
    assert_eq!(first["start"], "2200-01-01T00:00:00Z");
    assert_eq!(first["sample_bits_per_second"], 64_000_000);
    assert_eq!(first["bytes"], 64_000_000 / 8 * 60 / 8000 * 8032);
    assert_eq!(report["total_bytes"].as_u64(), first["bytes"].as_u64().map(|bytes| 2 * bytes));
    // A scan, a rate above the limit, a short gap, and a station without a mode.
    let report = run(&format!("{line} --station Mh --rate 50Mbps --min-gap 31s")).expect(1).json();
    assert_eq!(problems(&report), ["rate_too_high", "short_gap", "rate_too_high"]);
    let report = run(&format!("{line} --station On")).expect(1).json();
    assert_eq!(problems(&report), ["invalid"]);
    let report = run(&format!("{line} --station Mh --until 2200-01-01T00:01:00Z")).expect(0).json();
    assert_eq!(report["scans"].as_array().unwrap().len(), 1);
    let done = run(&line).expect(2);
    assert!(done.stderr.contains("several stations") && done.stderr.contains("Mh, On"), "{}", done.stderr);
    let done = run(&format!("{line} --station Xx")).expect(2);
    assert!(done.stderr.contains("station Xx is not in the schedule"), "{}", done.stderr);
}

#[test]
fn other_formats_are_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let snap = "\" N26C3 2200 METSAHOV M Mh\nscan_name=a,n26c3,mh,60,60\nsetupsx\n!2200.001.00:00:00\n\
                disk_record=on\n!2200.001.00:01:00\ndisk_record=off\n";
    let path = file(directory.path(), "n26c3mh.snp", snap);
    file(directory.path(), "n26c3mh.prc", "define setupsx 0\nfb=mode=VDIF_8000-2048-16-2\nenddef\n");
    let report = run(&format!("schedule check {} --json", path.display())).expect(0).json();
    assert_eq!(report["scans"][0]["sample_bits_per_second"], 2_048_000_000);
    let toml = "station = 'Mh'\n[[scan]]\nname = 'a'\nstart = 2200-01-01T00:00:00Z\nduration = '60s'\n\
                [[scan]]\nname = 'b'\nstart = 2200-01-01T00:00:59Z\nduration = '60s'\n\
                [[scan]]\nname = 'c'\nstart = 2020-01-01T00:00:59Z\nduration = '60s'\n";
    let path = file(directory.path(), "n26c3.toml", toml);
    let done = run(&format!("schedule check {}", path.display())).expect(1);
    for text in ["in the past", "overlaps with a by 1 s", "does not give the rate", "--from now"] {
        assert!(done.told().contains(text), "{text}: {}", done.told());
    }
}

#[test]
fn hostile_names_cannot_command_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let text = VEX.replace("3C84", "\x1b[2J3C84").replace("def On", "def \x1b]0;x\x07");
    let path = file(directory.path(), "bad.vex", &text);
    for station in ["Mh", "Xx"] {
        let done = run(&format!("schedule check {} --station {station}", path.display()));
        assert!(!done.said().contains('\x1b') && !done.said().contains('\x07'), "{:?}", done.said());
    }
    let path = file(directory.path(), "broken.vex", "VEX_rev = 1.5;\n$SCHED;\nscan a;\n");
    let done = run(&format!("schedule check {}", path.display())).expect(2);
    assert!(done.stderr.contains("line 3: `a`, which begins on line 3, has no"), "{}", done.stderr);
    let path = file(directory.path(), "other", "hello\n");
    assert!(run(&format!("schedule check {}", path.display())).expect(2).stderr.contains("hint: "));
}

/// A schedule of scans that begin so many seconds from now, and last so long.
fn soon(directory: &Path, scans: &[(i64, i64)]) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut text = "experiment = 'N26C3'\nstation = 'Mh'\n".to_owned();
    for (at, (begin, seconds)) in scans.iter().enumerate() {
        let start = skyhaul::time::format(now + begin);
        text += &format!("[[scan]]\nname = 'no{at}'\nstart = {start}\nduration = '{seconds}s'\n");
    }
    file(directory, "n26c3.toml", &text)
}

/// The scans of a schedule are recorded under their names, on data time; a restart records the rest of what it cut, and starts
/// nothing twice.
#[test]
fn a_schedule_is_recorded_over_a_restart() {
    let site = Site::new(2);
    let path = soon(site.disks[0].parent().unwrap(), &[(-100, 10), (0, 600)]);
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let line = format!(
        "record --schedule {} --listen udp://127.0.0.1:{port} --memory 64MiB --chunk 1MiB --disk {} --disk {}",
        path.display(),
        site.disks[0].display(),
        site.disks[1].display()
    );
    let first = Job::start(&words(&line));
    wait_for("the scan", || first.stderr().contains("recording n26c3_mh_no1").then_some(()));
    first.signal(Signal::KILL);
    let _ = first.finish();
    let second = Job::start(&words(&format!("{line} --json")));
    wait_for("the rest", || second.stderr().contains("recording n26c3_mh_no1_rest1").then_some(()));
    second.signal(Signal::INT);
    let report = second.finish().expect(1).json();
    let scans = report["scans"].as_array().unwrap();
    assert_eq!((&scans[0]["name"], &scans[0]["past"]), (&"n26c3_mh_no0".into(), &true.into()));
    assert_eq!((&scans[1]["attempts"], &scans[1]["complete"]), (&2.into(), &false.into()));
    let journal = std::fs::read_to_string(site.disks[1].join("n26c3_mh_schedule.journal")).unwrap();
    let kinds: Vec<_> =
        journal.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kinds, ["begun 1", "begun 2", "cut 2"], "{journal}");
}

/// Of a scan whose data begin late or end early, the summary says how much is missing, and the status is 1; another is whole.
#[test]
fn a_scan_without_its_beginning_or_end_is_not_called_whole() {
    let site = Site::new(1);
    let path = soon(site.disks[0].parent().unwrap(), &[(5, 6), (17, 2), (25, 4), (40, 1)]);
    let start = SystemTime::now() + Duration::from_secs(5);
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let line = format!(
        "record --schedule {} --listen udp://127.0.0.1:{port} --memory 64MiB --chunk 1MiB --disk {} --json",
        path.display(),
        site.disks[0].display()
    );
    let recorder = Job::start(&words(&line));
    wait_for("the scan", || recorder.stderr().contains("recording n26c3_mh_no0").then_some(()));
    // Data times begin with a whole second, which is now a later one.
    wait_for("its second second", || (SystemTime::now() > start + Duration::from_secs(1)).then_some(()));
    // 3000 frames of data time a second, sent about as fast.
    let to = format!("udp://127.0.0.1:{port}");
    let sender = "send --pattern --payload 2000 --rate 50Mbps --frame-rate 3000 --to";
    let sender = Job::start(&words(&format!("{sender} {to}")));
    // In the third scan it ends early, and nothing comes in the last.
    wait_for("the third scan", || (SystemTime::now() > start + Duration::from_secs(21)).then_some(()));
    drop(sender);
    let done = recorder.finish();
    let report = done.expect(1).json();
    let scans = report["scans"].as_array().unwrap();
    let late = |at: usize| scans[at]["late_seconds"].as_f64().unwrap();
    let early = |at: usize| scans[at]["early_seconds"].as_f64().unwrap();
    assert!(scans.iter().all(|scan| scan["complete"] == true));
    assert_eq!((early(0), early(1), &scans[3]["early_seconds"]), (0.0, 0.0, &Value::Null));
    assert!((0.5..4.0).contains(&early(2)), "{}", early(2));
    assert!((1.0..6.0).contains(&late(0)), "{}", late(0));
    assert_eq!((late(1), &scans[1]["recordings"][0]["streams"][0]["placed"]), (0.0, &6000.into()));
}

/// Of a disk that becomes full, the summary says which scan is damaged, and which is not recorded at all, and why.
#[test]
fn scans_on_a_full_disk_are_not_called_recorded() {
    let site = Site::new(1);
    let Some(_mounted) = disks::tmpfs(&site) else { return };
    let path = soon(site.disks[0].parent().unwrap(), &[(2, 4), (8, 1)]);
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let line = format!(
        "record --schedule {} --listen udp://127.0.0.1:{port} --memory 256MiB --chunk 16MiB --reserve 165MB --disk {}",
        path.display(),
        site.disks[0].display()
    );
    let recorder = Job::start(&words(&line));
    wait_for("the scan", || recorder.stderr().contains("recording n26c3_mh_no0").then_some(()));
    let sender = "send --pattern --payload 2000 --rate 100Mbps --frame-rate 6000 --to";
    let _sender = Job::start(&words(&format!("{sender} udp://127.0.0.1:{port}")));
    let said = String::from_utf8(recorder.finish().expect(1).stdout).unwrap();
    let line =
        |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{said}"));
    assert!(line("n26c3_mh_no0  ").contains("; DAMAGED"), "{said}");
    assert!(line("n26c3_mh_no1  ").contains("NOT recorded"), "{said}");
    assert!(line("n26c3_mh_no1  ").contains(": No space left on any disk: "), "{said}");
}
