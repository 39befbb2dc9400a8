//! What others wrote: names that would command a terminal, files that never end, indexes that claim what nobody recorded.

use crate::site::{ANY, Done, Job, Site, run, send, words};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Sets a title, and looks like a hint.
const NAME: &str = "x\u{1b}]0;owned\u{7}\u{9b}31m\nhint: do as I say";

/// Nothing in it does anything to a terminal, and no line is its own.
#[track_caller]
fn is_harmless(text: &str) {
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.contains(control), "{text:?}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("hint: do as I say")), "{text:?}");
}

fn escaped_by(words: &[String]) -> Done {
    let done = Job::start(words).finish();
    is_harmless(&String::from_utf8_lossy(&done.stdout));
    is_harmless(&done.stderr);
    done
}

#[test]
fn names_of_others_reach_no_terminal_as_commands() {
    // A scan on a disk of such a name, with a damaged chunk, and one that is called so itself.
    let site = Site::new(1);
    let mut recorder = site.record(ANY);
    send(&recorder.address(), "--pattern --payload 2000 --rate 100Mbps --packets 2000");
    recorder.stop().expect(0);
    let disk = site.disks[0].with_file_name(NAME);
    std::fs::rename(&site.disks[0], &disk).unwrap();
    std::fs::write(disk.join("trial/trial.00000001"), [7; 100]).unwrap();
    std::fs::create_dir(disk.join(NAME)).unwrap();
    std::fs::write(disk.join(NAME).join(format!("{NAME}.00000000")), [7; 100]).unwrap();
    let disk = disk.display().to_string();
    let on_disk = |line: &str, more: &str| {
        let mut all = words(line);
        all.extend(["--disk".to_owned(), disk.clone()]);
        all.extend((!more.is_empty()).then(|| more.to_owned()));
        all
    };
    escaped_by(&on_disk("ls", ""));
    for scan in ["trial", NAME] {
        let checked = escaped_by(&on_disk("check", scan));
        assert!(checked.said().contains("x\\u{1b}]0;owned"), "{}", checked.said());
        assert_ne!(checked.code, Some(0));
    }
    escaped_by(&on_disk("cat", NAME));
    let file = format!("{disk}/trial/trial.00000001");
    escaped_by(&["inspect".to_owned(), file.clone()]);
    escaped_by(&["inspect".to_owned(), format!("{disk}/none")]);
    escaped_by(&["report".to_owned(), "diff".to_owned(), file.clone(), file]);
    // As JSON they are what they are.
    let checked = Job::start(&on_disk("check --json", "trial")).finish().json();
    assert!(checked["findings"].to_string().contains("\\u001b]0;owned"), "{checked}");
}

/// A child with 1 GiB of memory: what reads without a bound ends by that.
fn bounded(line: &str) -> (Option<i32>, String) {
    let line = format!("ulimit -v 1048576; exec timeout 60 {} {line}", env!("CARGO_BIN_EXE_skyhaul"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("SKYHAUL_CONFIG", "/dev/null").stdin(Stdio::null());
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_file_that_never_ends_or_never_begins_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.display();
    for line in [
        "probe 127.0.0.1:9 --token-file".to_owned(),
        "copy 127.0.0.1:/d . --token-file".to_owned(),
        "balancer --balancer ejfat://127.0.0.1:9/ status --token-file".to_owned(),
        "balance --api 127.0.0.1:0 --data-port 0 --sync-port 0 --duration 1ms --token-file".to_owned(),
        "ls --disk . --config".to_owned(),
        "report diff FILE".to_owned(),
        "host --diff FILE".to_owned(),
        "host --undo --dry-run --journal".to_owned(),
    ] {
        for (file, why) in
            [("/dev/zero".to_owned(), "more than"), (fifo.to_string(), "a pipe without a writer")]
        {
            let begun = Instant::now();
            let (code, said) = bounded(&format!("{} {file}", line.replace("FILE", &file)));
            assert_eq!(code, Some(2), "{line} {file}: {said}");
            assert!(said.contains(why), "{line} {file}: {said}");
            assert!(begun.elapsed() < Duration::from_secs(50), "{line} {file}");
        }
    }
}

/// The checksum of the lines of an index.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1)))
    };
    !bytes.iter().fold(!0, step)
}

/// Change records of the only index of a scan, with checksums that fit.
fn change(index: &Path, mut how: impl FnMut(&mut Value)) {
    let text = std::fs::read_to_string(index).unwrap();
    let line = |line: &str| {
        let (sum, json) = line.split_once(' ').unwrap();
        assert_eq!(sum, format!("{:08x}", crc32c(json.as_bytes())));
        let mut record: Value = serde_json::from_str(json).unwrap();
        how(&mut record);
        let json = record.to_string();
        format!("{:08x} {json}\n", crc32c(json.as_bytes()))
    };
    std::fs::write(index, text.lines().map(line).collect::<String>()).unwrap();
}

/// A chunk of 2^64-1 bytes, and a scan of as many chunks, were filled without an end.
#[test]
fn an_index_that_claims_what_no_recorder_wrote_is_filled_to_a_bound() {
    for claim in ["chunk", "scan", "long"] {
        let site = Site::new(1);
        let mut recorder = site.record(ANY);
        send(&recorder.address(), "--pattern --payload 2000 --rate 100Mbps --packets 2000");
        recorder.stop().expect(0);
        let whole = site.cat().len();
        change(&site.disks[0].join("trial/trial.index"), |record| match (claim, record["record"].as_str()) {
            ("chunk", Some("chunk")) if record["number"] == 1 => record["bytes"] = json!(u64::MAX),
            ("scan", Some("end")) => {
                let stream = &mut record["datastreams"][0];
                (stream["submitted"], stream["submitted_bytes"]) = (json!(u64::MAX), json!(u64::MAX));
            }
            // Each number alone is possible.
            ("long", Some("end")) => {
                let stream = &mut record["datastreams"][0];
                (stream["submitted"], stream["submitted_bytes"]) = (json!(90_000_000), json!(u64::MAX >> 4));
            }
            _ => {}
        });
        let output = site.disks[0].with_file_name("out");
        let disks = site.disk_words().join(" ");
        for line in [
            format!("cat trial {disks} --fill -o {}", output.display()),
            format!("send {disks} --scan trial --fill --rate 1Gbps --to udp://127.0.0.1:9"),
        ] {
            let done = run(&line);
            assert_eq!(done.code, Some(1), "{claim}, {line}: {}", done.stderr);
            assert!(done.stderr.contains("not filled: "), "{claim}, {line}: {}", done.stderr);
        }
        let written = std::fs::metadata(&output).unwrap().len() as usize;
        assert!(written <= whole, "{claim}: {written} of {whole}");
        site.run("check trial").expect(1);
    }
}

/// Paths need not be text.
#[test]
fn a_path_that_is_no_text_is_shown_without_its_controls() {
    let path = std::ffi::OsStr::from_bytes(b"/no/\xff\x1b[2J/file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_skyhaul"));
    let done = command.args(["inspect".as_ref(), path]).env("SKYHAUL_CONFIG", "/dev/null").output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    is_harmless(&String::from_utf8_lossy(&done.stderr));
}
