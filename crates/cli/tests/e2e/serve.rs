//! The station as a service: recordings through its API, refusals with their numbers, and its ends.

use crate::device::Mounted;
use crate::site::{Done, Job, Site, free_port, number, run, see, vdif, wait_for, words};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;

/// Time of the first frame.
pub(crate) const SECOND: i64 = 1_790_000_000;
/// Frames of a thread in a second.
pub(crate) const FPS: u32 = 1000;

/// A station with two inputs that runs.
pub(crate) struct Serving {
    pub(crate) site: Site,
    pub(crate) job: Job,
    pub(crate) api: String,
    pub(crate) ports: [u16; 2],
}

/// Writes the configuration of a station.
pub(crate) fn config(site: &Site, ports: [u16; 2], more: &str) -> PathBuf {
    let mut text =
        format!("[station]\nlisten = '127.0.0.1:0'\nmemory = '160MiB'\nreserve = '8MiB'\n{more}\n");
    for disk in &site.disks {
        text += &format!("[[station.disk]]\npath = '{}'\n", disk.display());
    }
    for (name, port) in ["a", "b"].iter().zip(ports) {
        text += &format!(
            "[[station.input]]\nname = '{name}'\nlisten = ['udp://127.0.0.1:{port}']\nmemory = '64MiB'\n"
        );
    }
    let path = site.disks[0].parent().unwrap().join("station.toml");
    std::fs::write(&path, text).unwrap();
    path
}

impl Serving {
    #[track_caller]
    pub(crate) fn start(site: Site, more: &str) -> Self {
        let ports = [free_port(), free_port()];
        let path = config(&site, ports, more);
        let mut serving = Self { job: begin(&path), api: String::new(), site, ports };
        serving.find_api();
        serving
    }

    pub(crate) fn find_api(&mut self) {
        self.api = wait_for("the station to serve", || {
            let said = self.job.stderr();
            assert!(self.job.is_running(), "it ended: {said}");
            Some(said.split_once("http://")?.1.lines().next()?.to_owned())
        });
    }

    pub(crate) fn metrics(&self) -> String {
        raw(&self.api, "GET /metrics HTTP/1.0\r\n\r\n")
    }

    /// Kills it, and starts it again.
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    pub(crate) fn kill(&mut self) {
        self.job.signal(Signal::KILL);
        wait_for("its end", || (!self.job.is_running()).then_some(()));
    }

    pub(crate) fn restart(&mut self) {
        self.job = begin(&self.site.disks[0].parent().unwrap().join("station.toml"));
        self.find_api();
    }

    /// A call of the command.
    pub(crate) fn call(&self, line: &str) -> Done {
        run(&format!("{line} --station http://{} --json", self.api))
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.call("status").expect(0).json()
    }

    /// A call of HTTP with any head.
    pub(crate) fn http(&self, head: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let said =
            raw(&self.api, &format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"));
        let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    pub(crate) fn recording(&self, name: &str) -> Value {
        let (_, value) =
            self.http(&format!("GET /api/v1/recordings/{name} HTTP/1.1\r\nHost: {}", self.api), "");
        value
    }
}

fn begin(path: &std::path::Path) -> Job {
    Job::start(&words(&format!("serve --config {}", path.display())))
}

fn raw(api: &str, bytes: &str) -> String {
    let mut stream = TcpStream::connect(api).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// A file with frames of one thread.
pub(crate) fn frames(site: &Site, name: &str, thread: u16, count: u32) -> PathBuf {
    let all: Vec<u8> =
        (0..count).flat_map(|n| vdif(SECOND + i64::from(n / FPS), n % FPS, thread, 1000)).collect();
    let path = site.disks[0].parent().unwrap().join(name);
    std::fs::write(&path, all).unwrap();
    path
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn two_streams_at_a_time_are_recorded_byte_for_byte() {
    let serving = Serving::start(Site::new(2), "");
    let started = serving.call("station start s_a --input a").expect(0).json();
    assert_eq!((started["state"].as_str(), started["input"].as_str()), (Some("recording"), Some("a")));
    serving.call("station start s_b --input b").expect(0);
    // What cannot be met is refused with the numbers, before anything is opened.
    for (line, text) in [
        ("station start s_c --input a", "input a is recording s_a"),
        ("station start s_b --input a", "scan s_b exists already"),
        ("station start s_c --input c", "no input is named `c`\nhint: the inputs are: a, b"),
        ("station start ../c --input b", "cannot name a scan"),
        ("station stop s_c", "no recording is named `s_c`\nhint: being recorded: s_a, s_b"),
        ("station start s_c --stop 2020-01-01T00:00:00Z --input b", "input b is recording s_b"),
    ] {
        let done = serving.call(line).expect(2);
        assert!(done.stderr.contains(text), "{line}: {}", done.stderr);
    }
    let files =
        [(frames(&serving.site, "fa", 1, 4000), "s_a"), (frames(&serving.site, "fb", 2, 4000), "s_b")];
    let senders = files.iter().zip(serving.ports).map(|((path, _), port)| {
        let line = format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{port}", path.display());
        Job::start(&words(&line))
    });
    let senders: Vec<Job> = senders.collect();
    senders.into_iter().for_each(|sender| drop(sender.finish().expect(0)));
    for (path, scan) in &files {
        let sent = std::fs::read(path).unwrap();
        wait_for("all to arrive", || {
            (number(&serving.recording(scan)["received_bytes"]) >= sent.len() as u64).then_some(())
        });
        let stopped = serving.call(&format!("station stop {scan}")).expect(0).json();
        assert_eq!(stopped["outcome"], "complete", "{stopped}");
        assert_eq!(number(&stopped["written_bytes"]), sent.len() as u64);
        let cat = serving.site.run(&format!("cat {scan}")).expect(0).stdout;
        assert!(cat == sent, "{scan}: not what was sent");
        assert_eq!(
            serving.site.run(&format!("check {scan} --verify --json")).expect(0).json()["state"],
            "ended"
        );
    }
    let (_, scans) = serving.http(&format!("GET /api/v1/scans HTTP/1.1\r\nHost: {}", serving.api), "");
    let listed: Vec<&str> =
        scans["scans"].as_array().unwrap().iter().map(|scan| scan["scan"].as_str().unwrap()).collect();
    assert_eq!(listed, ["s_a", "s_b"]);
    let status = serving.status();
    assert_eq!(number(&status["reserved"]["memory_bytes"]), 0);
    assert_eq!(names(&status["ended"]), ["s_a", "s_b"]);
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
}

#[test]
fn more_memory_than_there_is_is_refused_with_the_numbers() {
    let serving = Serving::start(Site::new(1), "");
    serving.call("station start s_a --input a").expect(0);
    let refused = serving.call("station start s_b --input b --memory 100MiB").expect(2);
    let text = "not enough memory: 105 MB requested, 67.1 MB of 168 MB reserved";
    assert!(refused.stderr.contains(text), "{}", refused.stderr);
    // Once stopped, what it held is free; without data it says so.
    let stopped = serving.call("station stop s_a").expect(1).json();
    assert_eq!(stopped["outcome"], "empty");
    serving.call("station start s_b --input b --memory 100MiB").expect(0);
    // A port that another program has fails this recording alone.
    let taken = UdpSocket::bind(("127.0.0.1", serving.ports[0])).unwrap();
    let failed = serving.call("station start s_c --input a --memory 32MiB").expect(2);
    assert!(failed.stderr.contains("s_c cannot be recorded: "), "{}", failed.stderr);
    drop(taken);
    assert_eq!(names(&serving.status()["recordings"]), ["s_b"]);
}

#[test]
fn a_signal_ends_recordings_with_their_reports() {
    let site = Site::new(1);
    let reports = site.disks[0].parent().unwrap().join("reports");
    std::fs::create_dir(&reports).unwrap();
    let serving = Serving::start(site, &format!("reports = '{}'", reports.display()));
    serving.call("station start s_a").expect(0);
    let path = frames(&serving.site, "fa", 1, 2000);
    let line =
        format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{}", path.display(), serving.ports[0]);
    run(&line).expect(0);
    let sent = std::fs::read(&path).unwrap();
    wait_for("all to arrive", || {
        (number(&serving.recording("s_a")["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    serving.job.signal(Signal::TERM);
    serving.job.finish().expect(0);
    let report: Value = serde_json::from_slice(&std::fs::read(reports.join("s_a.json")).unwrap()).unwrap();
    assert_eq!(
        (report["ended"].as_str(), report["recording"]["scan"].as_str()),
        (Some("requested"), Some("s_a"))
    );
    assert!(serving.site.run("cat s_a").expect(0).stdout == sent);
}

#[test]
fn a_killed_station_shows_what_was_cut_and_records_again() {
    let mut serving = Serving::start(Site::new(1), "");
    serving.call("station start s_a").expect(0);
    let line =
        format!("send --pattern --payload 2000 --rate 40Mbps --to udp://127.0.0.1:{}", serving.ports[0]);
    let sender = Job::start(&words(&line));
    wait_for("some to be written", || (number(&serving.recording("s_a")["written_bytes"]) > 0).then_some(()));
    serving.kill_and_restart();
    drop(sender);
    let cut = wait_for("the cut scan to be found", || {
        let status = serving.status();
        (status["interrupted"] != json!([])).then_some(status)
    });
    assert_eq!(cut["interrupted"], json!(["s_a"]));
    let refused = serving.call("station start s_a").expect(2);
    assert!(refused.stderr.contains("nothing is recorded twice under a name"), "{}", refused.stderr);
    serving.call("station start s_b").expect(0);
    let kept = serving.site.run("cat s_a");
    assert!(see(&kept.stdout, 2032).good > 0, "{}", kept.stderr);
}

#[test]
fn a_full_disk_is_seen_and_refuses() {
    let site = Site::new(1);
    let Some(_mounted) = Mounted::new("tmpfs".as_ref(), &["-t", "tmpfs", "-o", "size=24m"], &site.disks[0])
    else {
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let serving = Serving::start(site, "");
    let mut other = std::fs::File::create(serving.site.disks[0].join("other")).unwrap();
    while other.write_all(&[1; 1 << 16]).is_ok() {}
    wait_for("the station to see it", || (serving.status()["disks"][0]["condition"] == "full").then_some(()));
    let refused = serving.call("station start s_a").expect(2);
    assert!(refused.stderr.contains("none of 1 disks can be written to"), "{}", refused.stderr);
    drop(other);
    std::fs::remove_file(serving.site.disks[0].join("other")).unwrap();
    wait_for("space", || (serving.status()["disks"][0]["condition"] == "usable").then_some(()));
}

#[test]
fn requests_that_are_none_and_those_of_others_are_refused() {
    let serving = Serving::start(Site::new(1), "");
    let host = format!("Host: {}", serving.api);
    let post = format!("POST /api/v1/recordings HTTP/1.1\r\n{host}");
    for (head, body, status) in [
        (post.clone(), "{", 400),
        (post.clone(), "[]", 400),
        (post.clone(), "{\"name\": 7}", 400),
        (post.clone(), "{\"name\": \"s\", \"more\": 1}", 400),
        (post.clone(), "{\"name\": \"s\", \"stop\": \"soon\"}", 400),
        (post.clone(), &" ".repeat(70_000), 400),
        (format!("GET /api/v1/scans?limit=0 HTTP/1.1\r\n{host}"), "", 400),
        (format!("GET /api/v1/recordings/none HTTP/1.1\r\n{host}"), "", 404),
        (format!("GET /api/v2 HTTP/1.1\r\n{host}"), "", 404),
        (format!("PUT /api/v1/status HTTP/1.1\r\n{host}"), "", 405),
        ("GET /api/v1/status HTTP/1.1\r\nHost: rebound.example.org".to_owned(), "", 403),
        (format!("{post}\r\nOrigin: http://example.org"), "{\"name\": \"s\"}", 403),
    ] {
        let (got, reply) = serving.http(&head, body);
        assert_eq!(got, status, "{head} {body:.40}");
        assert!(reply["error"]["message"].is_string(), "{head}: {reply}");
    }
    for garbage in ["\0\u{1}\u{2}\r\n\r\n", "GET\r\n\r\n", "POST / HTTP/9.9\r\n\r\n"] {
        raw(&serving.api, garbage);
    }
    // Every call of the document is there.
    let (_, document) = serving.http(&format!("GET /api/v1/openapi.json HTTP/1.1\r\n{host}"), "");
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|_| !path.ends_with("events")) {
            let path = path.replace("{name}", "none");
            let (status, reply) =
                serving.http(&format!("{} {path} HTTP/1.1\r\n{host}", method.to_uppercase()), "");
            let is_served = status != 405 && reply["error"]["code"] != "not_found";
            assert!(is_served, "{method} {path}: {status} {reply}");
        }
    }
    assert_eq!(names(&serving.status()["recordings"]), Vec::<String>::new());
}

#[test]
fn changes_are_sent_as_they_happen() {
    let serving = Serving::start(Site::new(1), "");
    let mut stream = TcpStream::connect(&serving.api).unwrap();
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", serving.api).unwrap();
    let mut said = String::new();
    let mut until = |text: &str| {
        wait_for(text, || {
            let mut bytes = [0; 4096];
            let n = stream.read(&mut bytes).unwrap();
            assert!(n > 0, "it ended: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..n]));
            said.contains(text).then_some(())
        });
    };
    until("event: status\ndata: {");
    serving.call("station start s_a").expect(0);
    until("\"state\":\"recording\"");
    serving.call("station stop s_a").expect(1);
    until("\"outcome\":\"empty\"");
}

#[test]
fn other_hosts_need_the_token() {
    let site = Site::new(1);
    let path = config(&site, [free_port(), free_port()], "");
    let line = format!("serve --config {} --listen 0.0.0.0:0", path.display());
    let refused = run(&line).expect(2);
    assert!(
        refused.stderr.contains("can be reached from other hosts, and there is no token"),
        "{}",
        refused.stderr
    );
    let token = site.disks[0].parent().unwrap().join("token");
    let serving = Serving::start(site, &format!("token_file = '{}'", token.display()));
    let (status, reply) = serving.http(&format!("GET /api/v1/status HTTP/1.1\r\nHost: {}", serving.api), "");
    assert_eq!((status, reply["error"]["code"].as_str()), (401, Some("no_token")));
    serving.call("status").expect(2);
    serving.call(&format!("status --token-file {}", token.display())).expect(0);
    let metrics = raw(&serving.api, "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(metrics.contains("skyhaul_station_memory_bytes 167772160"), "{metrics}");
}

#[test]
fn a_wrong_configuration_is_named_with_its_line() {
    let site = Site::new(1);
    let path = config(&site, [free_port(), free_port()], "memry = '1GiB'");
    let refused = run(&format!("serve --config {}", path.display())).expect(2);
    assert!(refused.stderr.contains("line 5: memry: unknown key"), "{}", refused.stderr);
    run(&format!("serve --check --config {}", config(&site, [free_port(), free_port()], "").display()))
        .expect(0);
    // Other verbs leave the section alone.
    let ls = format!("--config {} ls --disk {}", path.display(), site.disks[0].display());
    run(&ls).expect(0);
}
