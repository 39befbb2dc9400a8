//! etransfer: a station that serves files and scans, and a client that writes its lines by hand.

use crate::device::Mounted;
use crate::serve::{Serving, frames};
use crate::site::{Job, Site, number, run, wait_for, words};
use crate::webdav::bytes;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A station that serves a directory which may be written, and its recordings.
pub(crate) struct Station {
    serving: Serving,
    pub(crate) root: PathBuf,
    pub(crate) command: String,
    data: String,
}

impl Station {
    pub(crate) fn of(site: Site) -> Self {
        let root = site.disks[0].parent().unwrap().join("exp");
        let _ = std::fs::create_dir(&root);
        let section = format!(
            "[etransfer]\nlisten = '127.0.0.1:0'\nrecordings = true\n[[etransfer.root]]\ndirectory = '{}'\nwrite = true",
            root.display()
        );
        let serving = Serving::start(site, &section);
        let mut station = Self { serving, root, command: String::new(), data: String::new() };
        station.find_ports();
        station
    }

    fn find_ports(&mut self) {
        (self.command, self.data) = wait_for("etransfer to be served", || {
            let said = self.serving.job.stderr();
            let (command, rest) = said.split_once("etransfer on ")?.1.split_once(", data on ")?;
            Some((command.to_owned(), rest.lines().next()?.to_owned()))
        });
    }

    fn client(&self) -> Client {
        Client(BufReader::new(connect(&self.command)))
    }

    /// Opens a data channel and sends its head.
    fn channel(&self, head: &str) -> TcpStream {
        let mut stream = connect(&self.data);
        write!(stream, "{{ {head} }}").unwrap();
        stream
    }

    /// The unfinished uploads: their lengths.
    fn unfinished(&self) -> Vec<u64> {
        let all = std::fs::read_dir(self.root.join(".skyhaul-resumable")).unwrap();
        all.map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
    }

    fn names(&self) -> Vec<String> {
        let all = std::fs::read_dir(&self.root).unwrap();
        let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).collect()
    }
}

fn connect(to: &str) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// A command channel.
struct Client(BufReader<TcpStream>);

impl Client {
    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        self.next()
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        let _ = self.0.read_line(&mut line);
        line.trim_end().to_owned()
    }

    fn begin(&mut self, line: &str) -> (u64, String) {
        let first = self.ask(line);
        let number = first.split_once(':').and_then(|(_, number)| number.parse().ok());
        let uuid = self.next();
        assert_eq!(self.next(), "OK", "{first}");
        (number.unwrap_or_else(|| panic!("{first}")), uuid.replace("UUID:", ""))
    }
}

#[test]
fn an_upload_survives_the_kill_of_the_server() {
    let mut station = Station::of(Site::new(2));
    let sent = bytes(6 << 20);
    let path = station.root.join("sub/f").display().to_string();
    let mut client = station.client();
    let (have, uuid) = client.begin(&format!("write-file-New {path}"));
    assert_eq!(have, 0);
    let mut stream = station.channel(&format!("uuid:{uuid}, sz:{}", sent.len()));
    stream.write_all(&sent[..4 << 20]).unwrap();
    wait_for("some of it to be written", || {
        station.unfinished().iter().any(|size| *size >= 2 << 20).then_some(())
    });
    station.serving.kill();
    assert_eq!(rest(stream), b"");
    assert!(station.names().is_empty());
    let left = station.unfinished()[0];
    station.serving.restart();
    station.find_ports();
    let mut client = station.client();
    let (have, uuid) = client.begin(&format!("write-file-Resume {path}"));
    assert_eq!(have, left - 1);
    let mut stream = station.channel(&format!("uuid:{uuid}, sz:{}", sent.len() as u64 - have));
    stream.write_all(&sent[have as usize..]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(stream), b"y");
    assert!(std::fs::read(&path).unwrap() == sent && station.unfinished().is_empty());
    client.ask(&format!("remove-uuid {uuid}"));
    station.serving.job.signal(Signal::TERM);
    station.serving.job.finish().expect(0);
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_visible() {
    let site = Site::new(1);
    let root = site.disks[0].parent().unwrap().join("exp");
    std::fs::create_dir(&root).unwrap();
    let Some(_mounted) = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=4m"], &root) else {
        // Only root may mount a disk that is soon full.
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let station = Station::of(site);
    let path = |name: &str| station.root.join(name).display().to_string();
    // Known before a byte is taken.
    let mut client = station.client();
    let (_, uuid) = client.begin(&format!("write-file-New {}", path("f")));
    assert_eq!(rest(station.channel(&format!("uuid:{uuid}, sz:{}", 8 << 20))), b"");
    let why = client.ask(&format!("remove-uuid {uuid}"));
    assert!(why.starts_with("ERR No space left"), "{why}");
    // Known when it happens: two uploads that do not fit together.
    let sent = bytes(3 << 20);
    let mut others: Vec<_> = ["a", "b"]
        .map(|name| {
            let mut client = station.client();
            let (_, uuid) = client.begin(&format!("write-file-New {}", path(name)));
            let mut stream = station.channel(&format!("uuid:{uuid}, sz:{}", sent.len()));
            stream.write_all(&sent[..1]).unwrap();
            (client, uuid, stream)
        })
        .into();
    wait_for("both to begin", || (station.unfinished().len() >= 2).then_some(()));
    let backs: Vec<Vec<u8>> = others
        .iter_mut()
        .map(|(_, _, stream)| {
            let _ = stream.write_all(&sent[1..]);
            let _ = stream.shutdown(Shutdown::Write);
            rest(stream.try_clone().unwrap())
        })
        .collect();
    assert_eq!(backs, [&b"y"[..], b""]);
    let (client, uuid, _) = &mut others[1];
    let why = client.ask(&format!("remove-uuid {uuid}"));
    assert!(why.starts_with("ERR No space left"), "{why}");
    assert_eq!(station.names(), ["a"]);
    assert!(std::fs::read(path("a")).unwrap() == sent);
}

#[test]
fn a_closed_scan_is_one_file_and_one_that_is_recorded_is_none() {
    let station = Station::of(Site::new(2));
    let serving = &station.serving;
    serving.call("station start s_a --input a").expect(0);
    let path = frames(&serving.site, "fa", 1, 4000);
    let line =
        format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{}", path.display(), serving.ports[0]);
    Job::start(&words(&line)).finish().expect(0);
    let sent = std::fs::read(&path).unwrap();
    wait_for("all to arrive", || {
        (number(&serving.recording("s_a")["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    let mut client = station.client();
    assert_eq!(client.ask("list /recordings/"), "OK");
    assert!(client.ask("read-file 0 /recordings/s_a").starts_with("ERR No such file"));
    serving.call("station stop s_a").expect(0);
    assert_eq!([client.ask("list /recordings/s_*"), client.next()], ["OK /recordings/s_a", "OK"]);
    for have in [0, 1031, sent.len()] {
        let (remain, uuid) = client.begin(&format!("read-file {have} /recordings/s_a"));
        assert_eq!(remain as usize, sent.len() - have);
        let mut stream = station.channel(&format!("uuid:{uuid}, push:1, sz:{remain}"));
        let mut got = vec![0; sent.len() - have];
        stream.read_exact(&mut got).unwrap();
        assert!(got == sent[have..], "{have}");
        stream.write_all(b"y").unwrap();
        assert_eq!(rest(stream), b"");
        assert_eq!(client.ask(&format!("remove-uuid {uuid}")), "OK");
    }
    assert_eq!(client.ask("write-file-OverWrite /recordings/s_a"), "ERR Read-only file system");
    station.serving.job.signal(Signal::TERM);
    station.serving.job.finish().expect(0);
}

#[test]
fn skyhaul_copies_there_and_back() {
    let station = Station::of(Site::new(1));
    let here = station.root.parent().unwrap().join("here");
    std::fs::create_dir_all(here.join("exp/sub")).unwrap();
    let (big, small) = (bytes(20_000_003), bytes(5));
    std::fs::write(here.join("exp/a.vdif"), &big).unwrap();
    std::fs::write(here.join("exp/sub/b c.vdif"), &small).unwrap();
    std::fs::write(here.join("exp/empty"), b"").unwrap();
    let url = format!("etd://{}{}", station.command, station.root.display());
    let report = run(&format!("copy {} {url}/ --json", here.join("exp").display())).expect(0).json();
    assert_eq!((number(&report["files"]), number(&report["moved_bytes"])), (3, 20_000_008), "{report}");
    assert_eq!(report["unchecked"].as_array().unwrap().len(), 3, "{report}");
    let there = station.root.join("exp");
    assert!(std::fs::read(there.join("a.vdif")).unwrap() == big);
    assert!(std::fs::read(there.join("sub/b c.vdif")).unwrap() == small);
    assert_eq!(std::fs::read(there.join("empty")).unwrap(), b"");
    // What is there is dealt with as it was asked for.
    let again =
        |option: &str| run(&format!("copy {} {url}/exp/ --json {option}", here.join("exp/a.vdif").display()));
    let failed = again("").expect(1).json();
    assert!(
        failed["failed"][0]["error"].as_str().unwrap().contains("a file is at the destination"),
        "{failed}"
    );
    for option in ["--exists skip", "--exists resume"] {
        let kept = again(option).expect(0).json();
        assert_eq!((number(&kept["kept_files"]), number(&kept["moved_bytes"])), (1, 0), "{option}: {kept}");
    }
    std::fs::write(there.join("a.vdif"), &big[..7]).unwrap();
    let resumed = again("--exists resume").expect(0).json();
    assert_eq!(
        (number(&resumed["resumed_bytes"]), number(&resumed["moved_bytes"])),
        (7, 19_999_996),
        "{resumed}"
    );
    assert!(std::fs::read(there.join("a.vdif")).unwrap() == big);
    let replaced = again("--exists replace").expect(0).json();
    assert_eq!(number(&replaced["moved_bytes"]), 20_000_003, "{replaced}");
    // Back: a directory, files by wildcards, one with a new name.
    let back = here.join("back");
    let report = run(&format!("copy {url}/exp {}/ --json", back.display())).expect(0).json();
    assert_eq!((number(&report["files"]), number(&report["bytes"])), (3, 20_000_008), "{report}");
    assert!(std::fs::read(back.join("exp/a.vdif")).unwrap() == big);
    assert!(std::fs::read(back.join("exp/sub/b c.vdif")).unwrap() == small);
    run(&format!("copy {url}/exp/a.v* {}/", back.display())).expect(0);
    assert!(std::fs::read(back.join("a.vdif")).unwrap() == big);
    run(&format!("copy {url}/exp/a.vdif {}", back.join("new").display())).expect(0);
    assert!(std::fs::read(back.join("new")).unwrap() == big);
    for (line, why) in [
        (format!("copy {url}/exp/none {}/", back.display()), "No such file or directory"),
        (format!("copy {url}/../../x {}/", back.display()), ".. is not allowed"),
        (
            format!("copy etd://{}/etc/passwd {}/", station.command, back.display()),
            "outside of the directories",
        ),
        (format!("copy {url}/exp/a.vdif {}/ --verify", back.display()), "--verify does nothing with etd://"),
        (format!("copy {url}/exp/a.vdif {}/ --exists resume", back.display()), "is for uploads to etd://"),
        (format!("copy {} {url}/exp* ", here.join("exp/a.vdif").display()), "no wildcards"),
    ] {
        let done = run(line.trim());
        assert!(done.code != Some(0) && done.stderr.contains(why), "{line}: {}", done.stderr);
    }
}
