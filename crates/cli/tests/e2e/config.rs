//! A station's file: what it says counts in every verb, and less than what is typed.

use crate::site::{LIMIT, Site, number, run, send, words};
use std::process::{Command, Stdio};

/// A scan onto the disks, with the memory, and from the address that a file names; then found again with the same file.
#[test]
fn a_station_in_a_file() {
    let site = Site::new(2);
    let file = site.disks[0].with_file_name("station.toml");
    let disks: Vec<String> =
        site.disks.iter().map(|disk| format!("{:?}", disk.display().to_string())).collect();
    let text = format!(
        "disk = [{}]\n[record]\nlisten = 'udp://127.0.0.1:0'\nmemory = '128MiB'\nchunk = '1MiB'\nwait = '1ms'\n",
        disks.join(", ")
    );
    std::fs::write(&file, text).unwrap();
    let file = file.display();
    let line = format!("--config {file} record --scan trial --json --wait {}s", LIMIT.as_secs());
    let mut recorder = crate::site::Job::start(&words(&line));
    send(&recorder.address(), "--pattern --payload 2000 --packets 2000 --rate 100Mbps");
    let report = recorder.stop().expect(0).json();
    assert_eq!(report["recording"]["disks"].as_array().unwrap().len(), 2, "{report}");
    let found = run(&format!("ls --json --config {file}")).expect(0).json();
    assert_eq!(found[0]["scan"], "trial", "{found}");
    let checked = run(&format!("check trial --verify --json --config {file}")).expect(0).json();
    assert_eq!(number(&checked["datastreams"][0]["frames_seen"]), 2000, "{checked}");

    let shown = run(&format!("record --show-config --memory 1GiB --config {file}")).expect(0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let from =
        |start: &str, place: &str| shown.lines().any(|line| line.starts_with(start) && line.ends_with(place));
    assert!(from("memory = \"1GiB\"", "# command line"), "{shown}");
    assert!(from("chunk = \"1MiB\"", &format!("# {file}:5")), "{shown}");
}

/// A mistake in the file that the environment names ends the command as wrong use, with the line.
#[test]
fn a_mistake_in_the_file_of_the_environment() {
    let site = Site::new(1);
    let file = site.disks[0].join("station.toml");
    std::fs::write(&file, "# ours\nmemroy = '8GiB'\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_skyhaul"));
    command.args(["ls", "--disk", "/tmp"]).env("SKYHAUL_CONFIG", &file).stdin(Stdio::null());
    let done = command.output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{}:2: unknown key `memroy`", file.display())), "{said}");
    assert!(said.contains("hint: the keys are ") && said.contains(" memory, "), "{said}");
}
