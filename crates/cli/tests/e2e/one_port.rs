//! A station that serves files, copies and measurements on one port: with real clients of each, clients without the right, and slow ones.

mod refusals;

use crate::copied::noise;
use crate::serve::Serving;
use crate::site::{Done, Job, Site, number, run, wait_for, words};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A station with a scan, a directory, and clients with different rights.
struct OnePort {
    serving: Serving,
    at: PathBuf,
    port: u16,
}

const CLIENTS: &str = "
[[peers.client]]
name = 'mover'
token_file = 'AT/mover'
scopes = ['storage.read:/recordings', 'storage.read:/exp/out', 'storage.create:/exp/in', 'storage.modify:/exp/work']
[[peers.client]]
name = 'prober'
token_file = 'AT/prober'
probe = 'idle'
[[peers.client]]
name = 'always'
token_file = 'AT/always'
probe = 'always'
";

impl OnePort {
    fn start(tls: &str) -> Self {
        let site = Site::new(2);
        let at = site.disks[0].parent().unwrap().to_owned();
        let scan = site.disks[0].join("s");
        std::fs::create_dir(&scan).unwrap();
        std::fs::write(scan.join("s.00000000"), noise(3 << 20)).unwrap();
        std::fs::write(scan.join("s.00000001"), noise(1 << 20)).unwrap();
        for name in ["out", "other", "work"] {
            std::fs::create_dir_all(at.join("exp").join(name)).unwrap();
            std::fs::write(at.join("exp").join(name).join("f"), name).unwrap();
        }
        std::fs::create_dir(at.join("here")).unwrap();
        std::fs::write(at.join("here/new"), noise(2 << 20)).unwrap();
        std::fs::write(at.join("here/f"), "changed").unwrap();
        let here = at.display().to_string();
        let more = format!(
            "[http]\nlisten = '127.0.0.1:0'\nrecordings = true\n{tls}\n[http.log]\nfile = 'AT/access.jsonl'\n[[http.root]]\nname = 'exp'\ndirectory = 'AT/exp'\nwrite = true\n{CLIENTS}"
        );
        let serving = Serving::start(site, &more.replace("AT", &here));
        let port = wait_for("files to be served", || {
            let said = serving.job.stderr();
            let line = said.lines().find(|line| line.starts_with("files on "))?.to_owned();
            line.rsplit(':').next().unwrap().parse().ok()
        });
        wait_for("copies to be served", || {
            serving.job.stderr().contains("copies and measurements on ").then_some(())
        });
        Self { serving, at, port }
    }

    fn path(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }

    /// A copy with the token of a client; `@` is the station.
    fn copy(&self, client: &str, line: &str) -> Done {
        let line = line.replace('@', "127.0.0.1:");
        run(&format!("copy {line} --port {} --token-file {} --json", self.port, self.path(client)))
    }

    fn probe_line(&self, client: &str, line: &str) -> String {
        format!("probe 127.0.0.1:{} --token-file {} --json {line}", self.port, self.path(client))
    }

    /// The account of a client.
    fn account(&self, client: &str) -> Value {
        let clients = self.serving.status()["peers"]["clients"].clone();
        let found = clients.as_array().unwrap().iter().find(|one| one["client"] == client).cloned();
        found.unwrap_or_else(|| panic!("{client} is missing: {clients}"))
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", self.port);
        stream.write_all(head.as_bytes()).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

fn same(from: &Path, to: &Path) {
    let files: Vec<_> = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!files.is_empty());
    for name in files {
        let (here, there) = (std::fs::read(from.join(&name)).unwrap(), std::fs::read(to.join(&name)));
        assert!(there.is_ok_and(|there| there == here), "{} is not equal", to.join(&name).display());
    }
}

#[test]
fn files_copies_and_measurements_are_served_on_one_port() {
    let one = OnePort::start("");
    let (scan, back) = (one.serving.site.disks[0].join("s"), one.path("back"));
    let report = one.copy("mover", &format!("@/disks/1/s {back}")).expect(0).json();
    assert_eq!((number(&report["files"]), &report["data_encrypted"]), (2, &Value::Bool(false)), "{report}");
    same(&scan, &one.at.join("back/s"));
    let report = one.copy("mover", &format!("{} @/exp/in --encrypt", one.path("here/new"))).expect(0).json();
    assert_eq!(report["data_encrypted"], true, "{report}");
    assert!(
        std::fs::read(one.at.join("exp/in/new")).unwrap() == std::fs::read(one.at.join("here/new")).unwrap()
    );
    assert!(one.get("/exp/out/f").ends_with("\r\n\r\nout"), "{}", one.get("/exp/out/f"));
    run(&one.probe_line("prober", "--spacing 200us --packets 50 --settle 5s")).expect(0);

    wait_for("both copies to be counted", || {
        let account = one.account("mover");
        ((number(&account["done"]), number(&account["running"])) == (2, 0)).then_some(())
    });
    assert_eq!(one.account("prober")["service"], "probe");
    let metrics = one.serving.metrics();
    let line = "skyhaul_station_peer_sessions_total{client=\"mover\",service=\"copy\",outcome=\"done\"} 2\n";
    assert!(metrics.contains(line), "{metrics}");
    let (_, figures) =
        one.serving.http(&format!("GET /api/v1/figures HTTP/1.1\r\nHost: {}", one.serving.api), "");
    let log = figures["log"].as_array().unwrap();
    let entry = log.iter().find(|one| one["kind"] == "peer" && one["subject"] == "mover").unwrap();
    assert!(entry["text"].as_str().unwrap().starts_with("copy with 127.0.0.1: done, "), "{entry}");
    let said = run(&format!("status --station http://{}", one.serving.api)).expect(0).told();
    assert!(said.contains("peer mover: copy: 0 running, 2 done"), "{said}");
}

/// Whatever a client asks for without the right is refused with the reason, and changes nothing.
#[test]
fn a_client_copies_only_what_its_scopes_permit() {
    let one = OnePort::start("");
    let (here, back) = (one.path("here"), one.path("back"));
    let denied = "the token does not permit to";
    for (client, line, why) in [
        ("mover", format!("@/exp/other {back}"), denied),
        ("mover", format!("@/exp {back}"), denied),
        ("mover", format!("@/exp/in {back}"), denied),
        ("mover", format!("@/exp/out/../other {back}"), "outside the served directories"),
        ("mover", format!("@/exp/outer {back}"), denied),
        ("mover", format!("@/etc/passwd {back}"), "outside the served directories"),
        ("mover", format!("@/disks/1 {back}"), "is a disk: give the directory of a scan"),
        ("mover", format!("@/disks/1/station_queue.json {back}"), "is no scan"),
        ("mover", format!("@/disks/3/s {back}"), "outside the served directories"),
        ("mover", format!("{here}/new @/exp/out"), denied),
        ("mover", format!("{here}/new @/exp"), denied),
        ("mover", format!("{here}/new @/exp/in/../other"), "outside the served directories"),
        ("mover", format!("{here}/new @/disks/1/s"), "/disks/1 is read-only"),
        ("mover", format!("{here}/new @/disks/2"), "is a disk"),
        (
            "mover",
            format!("{here}/new @/exp/in --exists replace"),
            "does not permit to replace files in /exp/in",
        ),
        ("mover", format!("{here}/new @/exp/other --verify"), denied),
        (
            "prober",
            format!("@/exp/out {back}"),
            "the token does not permit `copy`; it permits udp, tcp, host",
        ),
    ] {
        std::fs::write(one.serving.site.disks[0].join("station_queue.json"), "{}").unwrap();
        let said = one.copy(client, &line);
        assert!(said.code != Some(0) && said.stderr.contains(why), "{client}: {line}: {}", said.stderr);
        assert!(!one.at.join("back").join("s").exists(), "{line}");
    }
    let said = run(&one.probe_line("mover", "--packets 10")).expect(2).stderr;
    assert!(said.contains("the token does not permit `udp`; it permits copy"), "{said}");
    let wrong = one.path("wrong");
    std::fs::write(&wrong, "another-token-of-16-or-more\n").unwrap();
    assert!(one.copy("wrong", &format!("@/exp/out {back}")).expect(2).stderr.contains("token"));
    let exp = |name: &str| std::fs::read_to_string(one.at.join("exp").join(name)).unwrap();
    assert_eq!((exp("out/f"), exp("other/f"), exp("work/f")), ("out".into(), "other".into(), "work".into()));
    assert!(!one.at.join("exp/in").exists() && !one.at.join("exp/new").exists());
    // What may be changed is.
    one.copy("mover", &format!("{here}/f @/exp/work")).expect(1);
    assert_eq!(exp("work/f"), "work");
    one.copy("mover", &format!("{here}/f @/exp/work --exists replace")).expect(0);
    assert_eq!(exp("work/f"), "changed");
    // A directory that exists keeps its permissions where nothing may be modified.
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir(one.at.join("here/d")).unwrap();
    one.copy("mover", &format!("{here}/d @/exp/in")).expect(0);
    std::fs::set_permissions(one.at.join("here/d"), std::fs::Permissions::from_mode(0o700)).unwrap();
    one.copy("mover", &format!("{here}/d @/exp/in")).expect(0);
    let mode = std::fs::metadata(one.at.join("exp/in/d")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(number(&one.account("mover")["refused"]) >= 14, "{}", one.account("mover"));
}

#[test]
fn measurements_yield_to_recordings_and_copies_do_not() {
    let one = OnePort::start("");
    let long = Job::start(&words(&one.probe_line("prober", "--spacing 1ms --packets 8000 --settle 1s")));
    let always = Job::start(&words(&one.probe_line("always", "--spacing 1ms --packets 1000 --settle 5s")));
    wait_for("the measurement to begin", || (number(&one.account("prober")["running"]) == 1).then_some(()));
    one.serving.call("station start scan --input a").expect(0);
    let ended = long.finish();
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    let account = wait_for("its end to be counted", || {
        Some(one.account("prober")).filter(|account| number(&account["running"]) == 0)
    });
    assert_eq!((number(&account["yielded"]), number(&account["failed"])), (1, 0), "{account}");
    let said = run(&one.probe_line("prober", "--packets 10")).expect(2).stderr;
    assert!(said.contains("the station is recording, and measures nothing meanwhile"), "{said}");
    assert_eq!(number(&one.account("prober")["refused"]), 1);
    always.finish().expect(0);
    one.copy("mover", &format!("@/disks/1/s {}", one.path("back"))).expect(0);
    one.serving.call("station stop scan");
    run(&one.probe_line("prober", "--packets 10 --spacing 200us --settle 5s")).expect(0);
}

#[test]
fn the_port_of_https_takes_control_connections_and_slow_ones_are_closed() {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("host.pem");
    std::fs::write(&file, pair.cert.pem() + &pair.signing_key.serialize_pem()).unwrap();
    let one =
        OnePort::start(&format!("certificate = '{0}'\nkey = '{0}'\ntoken_file = 'AT/http'", file.display()));
    // Less than a hello, and nothing at all.
    let slow: Vec<TcpStream> = [&b"\x16\x03\x01\x00"[..], b"\x16\x03\x01\x01\x00\x01", b""]
        .iter()
        .map(|bytes| {
            let mut stream = TcpStream::connect(("127.0.0.1", one.port)).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    for encrypt in ["", " --encrypt"] {
        let into = one.path(&format!("back{}", encrypt.len()));
        one.copy("mover", &format!("@/disks/1/s {into}{encrypt}")).expect(0);
        same(&one.serving.site.disks[0].join("s"), &PathBuf::from(into).join("s"));
    }
    run(&one.probe_line("prober", "--spacing 200us --packets 50 --settle 5s")).expect(0);
    let token = std::fs::read_to_string(one.at.join("http")).unwrap();
    let url = format!("https://127.0.0.1:{}/exp/out/f", one.port);
    let curl = Command::new("curl")
        .args(["-sk", "-H", &format!("Authorization: Bearer {}", token.trim()), &url])
        .output();
    match curl {
        Ok(said) => assert_eq!(String::from_utf8_lossy(&said.stdout), "out"),
        Err(why) => println!("SKIPPED: curl is not installed (apt-get install curl): {why}"),
    }
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)));
    }
    let line = |name: &str| {
        let (metrics, name) = (one.serving.metrics(), format!("skyhaul_station_files_{name} "));
        metrics.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned)).unwrap()
    };
    wait_for("all to be closed", || (line("connections") == "0").then_some(()));
    assert_eq!(line("handshakes_failed_total"), "3");
}

/// Copies and measurements are lines of the access log beside the requests: who, what, how it ended, how much and how long; without a secret.
#[test]
fn copies_and_measurements_are_lines_of_the_access_log() {
    let one = OnePort::start("");
    let lines = || {
        let text = std::fs::read_to_string(one.at.join("access.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let sessions = |count: usize| {
        wait_for("the lines to be written", || {
            let all: Vec<Value> = lines().into_iter().filter(|line| line["auth"] == "peer").collect();
            (all.len() == count).then_some(all)
        })
    };
    one.copy("mover", &format!("@/disks/1/s {}", one.path("back"))).expect(0);
    let line = sessions(1).remove(0);
    let seen = ["subject", "service", "direction", "path", "result"].map(|name| line[name].as_str().unwrap());
    assert_eq!(seen, ["mover", "copy", "out", "/disks/1/s", "done"], "{line}");
    assert_eq!((number(&line["sent_bytes"]), number(&line["received_bytes"])), (4 << 20, 0), "{line}");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:") && line["time"].is_string(), "{line}");
    assert!(line["seconds"].as_f64().unwrap() > 0.0, "{line}");
    one.copy("mover", &format!("{} @/exp/in --encrypt", one.path("here/new"))).expect(0);
    let line = sessions(2).remove(1);
    assert_eq!(
        (line["direction"].as_str(), number(&line["received_bytes"])),
        (Some("in"), 2 << 20),
        "{line}"
    );
    run(&one.probe_line("prober", "--spacing 200us --packets 50 --sizes 1000 --settle 5s")).expect(0);
    let line = sessions(3).remove(2);
    assert_eq!((line["subject"].as_str(), line["service"].as_str()), (Some("prober"), Some("udp")), "{line}");
    assert!(number(&line["received_bytes"]) >= 50 * 900, "{line}");
    // What is refused, and what a recording ends.
    assert_ne!(one.copy("mover", &format!("@/exp/other {}", one.path("back"))).code, Some(0));
    assert_eq!(sessions(4)[3]["result"], "refused");
    assert_eq!(sessions(4)[3]["path"], "/exp/other");
    let long = Job::start(&words(&one.probe_line("prober", "--spacing 1ms --packets 8000 --settle 1s")));
    wait_for("the measurement to begin", || (number(&one.account("prober")["running"]) == 1).then_some(()));
    one.serving.call("station start scan --input a").expect(0);
    assert_ne!(long.finish().code, Some(0));
    assert_eq!(sessions(5)[4]["result"], "yielded");
    one.serving.call("station stop scan");
    // A copy that is cut off has failed, and its line has what it moved.
    std::fs::write(one.at.join("exp/out/large"), noise(64 << 20)).unwrap();
    let line =
        format!("copy 127.0.0.1:/exp/out/large {} --limit 80Mbps --port {}", one.path("back"), one.port);
    let job = Job::start(&words(&format!("{line} --token-file {}", one.path("mover"))));
    wait_for("the copy to move", || {
        let running = number(&one.account("mover")["running"]) == 1;
        (running && one.at.join("back").is_dir()).then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    drop(job);
    let line = sessions(6).remove(5);
    assert_eq!(line["result"], "failed", "{line}");
    assert!((1..64 << 20).contains(&number(&line["sent_bytes"])), "{line}");
    // Beside the requests, and with no token of anyone.
    one.get("/exp/out/f");
    wait_for("the request to be logged", || lines().iter().any(|line| line["method"] == "GET").then_some(()));
    let text = std::fs::read_to_string(one.at.join("access.jsonl")).unwrap();
    for name in ["mover", "prober", "always"] {
        let token = std::fs::read_to_string(one.at.join(name)).unwrap();
        assert!(!text.contains(token.trim()), "{name}");
    }
}

/// The end of the station: a session that it ends is in the log.
#[test]
fn a_session_that_the_end_of_the_station_ends_is_logged() {
    let mut one = OnePort::start("");
    std::fs::write(one.at.join("exp/out/large"), noise(64 << 20)).unwrap();
    let line =
        format!("copy 127.0.0.1:/exp/out/large {} --limit 80Mbps --port {}", one.path("back"), one.port);
    let _job = Job::start(&words(&format!("{line} --token-file {}", one.path("mover"))));
    wait_for("the copy to begin", || (number(&one.account("mover")["running"]) == 1).then_some(()));
    one.serving.job.signal(Signal::INT);
    wait_for("the station to end", || (!one.serving.job.is_running()).then_some(()));
    let text = std::fs::read_to_string(one.at.join("access.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["service"] == "copy" && line["result"] == "failed"), "{text}");
}
