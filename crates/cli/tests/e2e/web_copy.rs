//! `copy` with URLs: from and to a station, and a peer that does what it likes.

mod continued;
mod uploads;

use crate::device::Mounted;
use crate::site::{Done, Job, Site, number, wait_for, words};
use crate::third_party::peer::{Act, Peer, object};
use crate::third_party::{ranged, with_token};
use crate::webdav::{Files, address, adler32, bytes};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A directory for a test, and the command run on it.
struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Starts `copy` with these words; `@` stands for this directory.
    fn start(&self, line: &str) -> Job {
        let line = line.replace('@', self.0.path().to_str().unwrap());
        Job::start(&words(&format!("copy --json --quiet {line}")))
    }

    fn copy(&self, line: &str, code: i32) -> Value {
        self.start(line).finish().expect(code).json()
    }

    /// One that does not begin.
    fn refused(&self, line: &str) -> String {
        let done: Done = self.start(line).finish();
        assert_ne!(done.code, Some(0), "{line}: {}", done.said());
        done.stderr
    }

    /// Everything below it.
    fn names(&self) -> Vec<PathBuf> {
        let (mut open, mut all) = (vec![self.0.path().to_owned()], Vec::new());
        while let Some(path) = open.pop() {
            for entry in std::fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { all.push(path) }
            }
        }
        all.sort();
        all
    }
}

/// The one error of a report.
#[track_caller]
fn error(report: &Value) -> &str {
    let failed = report["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{report}");
    failed[0]["error"].as_str().unwrap()
}

#[test]
fn files_and_trees_are_downloaded_and_compared() {
    let (files, token) = with_token("");
    let here = Here::new();
    std::fs::write(here.at("token"), format!("{token}\n")).unwrap();
    let right = format!("Authorization: Bearer {token}");
    let data = bytes(3_000_017);
    for (name, length) in [("t/a", 3_000_017), ("t/sub/b%20c", 70_000), ("t/sub/deep/empty", 0)] {
        files.ask(&format!("PUT /exp/{name}"), &[&right], &data[..length]).expect(201);
    }
    files.ask("MKCOL /exp/t/none", &[&right], b"").expect(201);
    // What an unfinished copy has left there is not copied, and counted.
    std::fs::write(files.root.join("t/.a.skyhaul-part"), b"part").unwrap();
    let url = format!("http://{}/exp/t", files.address);
    let how = "--token-file @/token --range 256KiB --streams 3";
    // A file: into a directory, and under another name; with the time it has there.
    let report = here.copy(&format!("{url}/a @ {how}"), 0);
    assert_eq!((number(&report["files"]), number(&report["moved_bytes"])), (1, 3_000_017), "{report}");
    assert!(report["unchecked"].is_null(), "{report}");
    here.copy(&format!("{url}/a @/new/name {how}"), 0);
    for path in ["a", "new/name"] {
        assert!(std::fs::read(here.at(path)).unwrap() == data, "{path}");
        let time = |path: &Path| path.metadata().unwrap().modified().unwrap();
        let apart = time(&files.root.join("t/a")).duration_since(time(&here.at(path))).unwrap();
        assert!(apart.as_secs() == 0, "{apart:?}");
    }
    // A tree, whichever way it is written.
    assert_eq!(number(&here.copy(&format!("{url} @/dry/ {how} --dry-run"), 0)["to_copy"]["files"]), 3);
    assert!(!here.at("dry").exists());
    for (from, to) in [(url.clone(), "one"), (format!("{url}/"), "two")] {
        let report = here.copy(&format!("{from} @/{to}/ {how}"), 0);
        assert_eq!((number(&report["files"]), number(&report["temporary_names"])), (3, 1), "{report}");
        assert!(!here.at(&format!("{to}/t/.a.skyhaul-part")).exists());
        assert!(std::fs::read(here.at(&format!("{to}/t/sub/b c"))).unwrap() == data[..70_000]);
        assert!(std::fs::read(here.at(&format!("{to}/t/sub/deep/empty"))).unwrap().is_empty());
        assert!(here.at(&format!("{to}/t/none")).is_dir());
    }
    existing_files(&files, &here, (&url, how, &right), &data);
    // What does not apply is named; a token goes nowhere in plain text.
    for (line, why) in [
        (format!("{url}/a @ {how} --plan"), "--plan does nothing with URLs"),
        (format!("{url}/a @ {how} --cc bbr"), "--cc does nothing with URLs"),
        (format!("{url}/a @ --port 1"), "--port does nothing with URLs"),
        (format!("{url}/a http://127.0.0.2/x @ {how}"), "of different servers"),
        ("http://192.0.2.1/f @ --token-file @/token".to_owned(), "in plain text"),
        (format!("{url}/a @"), "answered 401"),
        (format!("{url}/nothing @ {how}"), "No such file or directory"),
        (format!("{url} @/file {how}"), "is a directory"),
        ("s3://bucket/f @".to_owned(), "the scheme must be"),
        ("https://user:secret@a.example/f @/x".replace("secret@", "secret%40"), "cannot be used"),
        (format!("{url}/../../etc/passwd @ {how}"), "`.` or `..`"),
    ] {
        let said = here.refused(&line);
        assert!(said.contains(why), "{line}: {said}");
        assert!(!said.contains(&token), "{said}");
    }
}

/// What is done where there is a file.
fn existing_files(files: &Files, here: &Here, (url, how, right): (&str, &str, &str), data: &[u8]) {
    let line = format!("{url} @/one/ {how}");
    let report = here.copy(&line, 0);
    assert_eq!((number(&report["kept_files"]), number(&report["moved_bytes"])), (3, 0), "{report}");
    let report = here.copy(&format!("{line} --verify"), 0);
    assert_eq!(report["compared"].as_array().unwrap().len(), 3, "{report}");
    let mut other = data.to_vec();
    other[2_000_000] ^= 1;
    std::fs::write(here.at("one/t/a"), &other).unwrap();
    let report = here.copy(&format!("{line} --verify"), 1);
    assert!(error(&report).contains("differs: Adler-32"), "{report}");
    let report = here.copy(&line, 1);
    assert!(error(&report).contains("a different file exists"), "{report}");
    assert_eq!(number(&here.copy(&format!("{line} --exists skip"), 0)["moved_bytes"]), 0);
    assert!(std::fs::read(here.at("one/t/a")).unwrap() == other);
    here.copy(&format!("{line} --exists replace"), 0);
    assert!(std::fs::read(here.at("one/t/a")).unwrap() == data);
    // The same size and time, and other bytes: the checksum tells.
    files.ask("PUT /exp/t/a", &[right], &other).expect(200);
    let time = files.root.join("t/a").metadata().unwrap().modified().unwrap();
    std::fs::File::options().write(true).open(here.at("one/t/a")).unwrap().set_modified(time).unwrap();
    here.copy(&format!("{line} --exists replace"), 0);
    assert!(std::fs::read(here.at("one/t/a")).unwrap() == other);
    std::fs::remove_file(here.at("one/t/a")).unwrap();
    let report = here.copy(&format!("{line} --verify"), 1);
    assert!(error(&report).contains("missing at the destination"), "{report}");
}

/// The server is killed in the middle, and the client too; only what is not proven comes again.
#[test]
fn a_download_is_resumed_after_the_server_was_killed() {
    let mut files = Files::of(Site::new(1), "");
    let data = bytes(20_000_017);
    files.ask("PUT /exp/f", &[], &data).expect(201);
    let here = Here::new();
    let how = "--range 256KiB --flows 2 --limit 40Mbps";
    let start = |files: &Files| here.start(&format!("http://{}/exp/f @/f {how}", files.address));
    let durable = || {
        let text = std::fs::read_to_string(here.at(".f.skyhaul-journal")).unwrap_or_default();
        text.lines().filter(|line| line.len() > 8).count().saturating_sub(1)
    };
    let job = start(&files);
    wait_for("ranges to be durable", || (durable() > 2).then_some(()));
    files.serving.kill();
    let ended = job.finish().expect(1).json();
    assert!(ended["stopped"].as_str().unwrap().contains("Connection refused"), "{ended}");
    assert!(!here.at("f").exists());
    files.serving.restart();
    files.address = address(&files.serving);
    let before = durable();
    let job = start(&files);
    wait_for("more ranges", || (durable() > before + 2).then_some(()));
    job.signal(Signal::INT);
    let ended = job.finish();
    assert!(ended.json()["stopped"].as_str().unwrap().contains("interrupted"), "{ended:?}");
    let job = start(&files);
    let more = durable();
    wait_for("more ranges", || (durable() > more + 2).then_some(()));
    job.signal(Signal::KILL);
    drop(job.finish());
    let there = durable() as u64;
    let report = here.copy(&format!("http://{}/exp/f @/f --range 256KiB", files.address), 0);
    // The last range is shorter.
    let resumed = number(&report["resumed_bytes"]);
    assert!(resumed >= (there - 1) * (256 << 10), "{there} ranges, {report}");
    assert_eq!(resumed + number(&report["moved_bytes"]), data.len() as u64, "{report}");
    assert!(std::fs::read(here.at("f")).unwrap() == data);
    assert_eq!(here.names(), [here.at("f")]);
}

#[test]
fn a_server_that_breaks_its_word_leaves_nothing_under_the_name() {
    let here = Here::new();
    let data = Arc::new(bytes(1_000_000));
    let right = format!("Digest: adler32={:08x}\r\n", adler32(&data));
    // How it answers, by the head of the request, and how the copy ends.
    type Answer = Box<dyn Fn(&str, &[u8]) -> Act + Send + Sync>;
    let etag = |head: &str| if head.contains("Range: bytes=0-") { "1" } else { "2" };
    let cases: Vec<(&str, Answer)> = vec![
        (
            "CHECKSUM MISMATCH: Adler-32 00000001",
            Box::new(|head, data| Act::Say(ranged(head, data, "Digest: adler32=00000001\r\n"))),
        ),
        (
            "CHECKSUM MISMATCH: Adler-32 00000001",
            Box::new(|head, data| Act::Say(ranged(head, data, "Repr-Digest: adler=:AAAAAQ==:\r\n"))),
        ),
        (
            "the digests differ",
            Box::new(|head, data| Act::Say(ranged(head, data, "Digest: crc32c=AAAAAA==\r\n"))),
        ),
        (
            "the source changed while it was copied",
            Box::new(move |head, data| match head.starts_with("GET") {
                true => Act::Say(ranged(head, data, &format!("ETag: \"{}\"\r\n", etag(head)))),
                false => Act::Say(ranged(head, data, "ETag: \"1\"\r\n")),
            }),
        ),
        (
            "does not send the range",
            Box::new(|head, data| {
                Act::Say(ranged(&head.replace("bytes=262144-", "bytes=262145-"), data, ""))
            }),
        ),
        (
            "the source changed while it was copied",
            Box::new(|head, data| match head.starts_with("GET") {
                true => Act::Say(ranged(head, &data[1..], "")),
                false => Act::Say(ranged(head, data, "")),
            }),
        ),
        (
            "Permission denied: the source",
            Box::new(|head, data| match head.starts_with("GET") {
                true => Act::Say(b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\n\x1b[2Jgo\x07 on".to_vec()),
                false => Act::Say(ranged(head, data, "")),
            }),
        ),
    ];
    for (at, (why, answer)) in cases.into_iter().enumerate() {
        let of = Arc::clone(&data);
        let peer = Peer::start(move |head| match head.starts_with("PROPFIND") {
            true => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            false => answer(head, &of),
        });
        let report = here.copy(&format!("{} @/f{at} --range 256KiB --flows 2", peer.url()), 1);
        assert!(error(&report).contains(why), "{why}: {report}");
        assert!(!error(&report).contains('\u{1b}'), "{report}");
        assert!(!here.at(&format!("f{at}")).exists(), "{why}");
    }
    // Of what was not what it should be, nothing is kept.
    assert!(!here.names().iter().any(|path| path.to_str().unwrap().contains(".f0.")), "{:?}", here.names());
    // The same bytes from a server that keeps its word; one that breaks off twice; one that is busy, and one without ranges.
    let broken = AtomicUsize::new(0);
    let busy = AtomicUsize::new(0);
    let answers: Vec<Answer> = vec![
        Box::new(move |head, data| Act::Say(ranged(head, data, &right))),
        Box::new(move |head, data| {
            let all = ranged(head, data, "");
            match head.starts_with("GET") && broken.fetch_add(1, Ordering::Relaxed) < 2 {
                true => Act::End(all[..all.len() / 2].to_vec()),
                false => Act::Say(all),
            }
        }),
        Box::new(move |head, data| match busy.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Act::Say(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n".to_vec()),
            _ => Act::Say(ranged(head, data, "")),
        }),
        Box::new(|head, data| Act::Say(object(head, "Content-Length: 1000000\r\n", data))),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        let of = Arc::clone(&data);
        let peer = Peer::start(move |head| match head.starts_with("PROPFIND") {
            true => Act::Say(b"HTTP/1.1 501 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            false => answer(head, &of),
        });
        let report = here.copy(&format!("{} @/g{at} --range 256KiB --flows 2", peer.url()), 0);
        assert!(std::fs::read(here.at(&format!("g{at}"))).unwrap() == *data, "{at}");
        let unchecked = report["unchecked"].as_array().map_or(0, Vec::len);
        assert_eq!(unchecked, usize::from(at > 0), "{report}");
    }
}

/// Each first request ends with its connection, and each second one is answered.
#[test]
fn requests_are_repeated_when_their_connection_breaks() {
    let here = Here::new();
    let data = bytes(1000);
    let seen = Arc::new(Mutex::new(Vec::<String>::new()));
    let of = data.clone();
    let peer = Peer::start(move |head| {
        let what: String = head.lines().next().unwrap().to_owned();
        let mut seen = seen.lock().unwrap();
        if !seen.contains(&what) {
            seen.push(what);
            return Act::End(Vec::new());
        }
        match head.starts_with("PROPFIND") {
            true => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            false => Act::Say(ranged(head, &of, "")),
        }
    });
    here.copy(&format!("{} @/f", peer.url()), 0);
    assert!(std::fs::read(here.at("f")).unwrap() == data);
    for method in ["PROPFIND", "HEAD", "GET"] {
        assert!(peer.count(method) >= 2, "{method}: {:?}", peer.heads());
    }
    // A server that was never there is not waited for as long as one that was.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(here.refused(&format!("http://{nobody}/f @/g")).contains("Connection refused"));
}

/// As any program that makes a file.
#[test]
fn files_have_the_permissions_that_the_umask_leaves() {
    let here = Here::new();
    let data = bytes(1000);
    let peer = Peer::start(move |head| Act::Say(ranged(head, &data, "")));
    for (umask, mode) in [("027", 0o640), ("002", 0o664)] {
        let to = here.at(umask);
        let line = format!("umask {umask}; exec \"$0\" copy --quiet {} {}", peer.url(), to.display());
        let mut shell = Command::new("sh");
        shell.env("SKYHAUL_CONFIG", "/dev/null").args(["-c", &line, env!("CARGO_BIN_EXE_skyhaul")]);
        Job::of(shell).finish().expect(0);
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, mode, "{umask}");
    }
}

#[test]
fn redirects_lists_and_heads_have_bounds() {
    let here = Here::new();
    std::fs::write(here.at("token"), "secret-token-of-a-test\n").unwrap();
    let data = bytes(1000);
    let looping = Peer::start(|_| {
        Act::Say(b"HTTP/1.1 307 Again\r\nLocation: /g\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    assert!(here.refused(&format!("{} @", looping.url())).contains("Too many redirects"));
    // A head without end.
    let endless = Peer::start(|_| {
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        (0..20_000).for_each(|at| head.extend(format!("X-{at}: abcdefghijklmnop\r\n").bytes()));
        Act::Hold(head)
    });
    assert!(here.refused(&format!("{} @", endless.url())).contains("Remote I/O error"));
    // Names that are not below what was asked for.
    for href in ["/f/../../x", "/f/%2e%2e", "/etc/passwd", "/f/a/b", "/f/a%2fb"] {
        let body = format!(
            "<D:multistatus xmlns:D='DAV:'><D:response><D:href>/f/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>\
             </D:resourcetype></D:prop></D:propstat></D:response><D:response><D:href>{href}</D:href></D:response></D:multistatus>"
        );
        let peer = Peer::start(move |_| {
            let length = body.len();
            Act::Say(format!("HTTP/1.1 207 Multi\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes())
        });
        let said = here.refused(&format!("{} @", peer.url()));
        assert!(said.contains("not below it"), "{href}: {said}");
    }
    // The token goes to the server that was named.
    let end = Peer::start(move |head| Act::Say(object(head, "Content-Length: 1000\r\n", &bytes(1000))));
    let to = end.url();
    let first = Peer::start(move |_| {
        Act::Say(format!("HTTP/1.1 302 There\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    here.copy(&format!("{} @/led --token-file @/token", first.url()), 0);
    assert!(std::fs::read(here.at("led")).unwrap() == data);
    assert!(first.heads().iter().all(|head| head.contains("Authorization: Bearer secret-token")));
    assert!(!end.heads().iter().any(|head| head.contains("Authorization")), "{:?}", end.heads());
}

#[test]
fn a_full_disk_is_told_and_nothing_has_the_name() {
    let here = Here::new();
    let small = here.at("small");
    std::fs::create_dir(&small).unwrap();
    let Some(_mounted) = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=3m"], &small) else {
        // An ordinary user may not mount, and no other disk here is small enough to fill.
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let data = Arc::new(bytes(2_000_000));
    let of = Arc::clone(&data);
    let peer = Peer::start(move |head| Act::Say(ranged(head, &of, "")));
    here.copy(&format!("{} @/small/f --range 256KiB", peer.url()), 0);
    let report = here.copy(&format!("{} @/small/g --range 256KiB", peer.url()), 1);
    assert!(error(&report).contains("bytes free"), "{report}");
    assert!(!here.at("small/g").exists());
}

/// Copies may connect to this host.
const INSIDE: &str = "[http.copy]\nallow = ['127.0.0.1']\n";

#[test]
fn one_of_two_servers_copies_to_the_other() {
    let ((a, token_a), (b, token_b)) = (with_token(INSIDE), with_token(INSIDE));
    let here = Here::new();
    std::fs::write(here.at("a"), &token_a).unwrap();
    std::fs::write(here.at("b"), &token_b).unwrap();
    let right = format!("Authorization: Bearer {token_a}");
    let data = bytes(3_000_017);
    for (name, length) in [("t/f", 3_000_017), ("t/sub/g%20h", 70_000), ("t/sub/empty", 0)] {
        a.ask(&format!("PUT /exp/{name}"), &[&right], &data[..length]).expect(201);
    }
    let (from, to) = (format!("http://{}/exp/t", a.address), format!("http://{}/exp", b.address));
    let how = "--third-party --token-file @/b --source-token-file @/a";
    for (at, mode) in ["--streams 3", "--mode pull", "--mode push"].iter().enumerate() {
        let report = here.copy(&format!("{from}/f {to}/f{at} {how} {mode}"), 0);
        assert_eq!((number(&report["files"]), number(&report["moved_bytes"])), (1, 3_000_017), "{report}");
        assert!(report["unchecked"].is_null(), "{report}");
        assert!(std::fs::read(b.root.join(format!("f{at}"))).unwrap() == data, "{mode}");
    }
    // A tree, and once more: all of it is there.
    let line = format!("{from} {to}/ {how}");
    let report = here.copy(&line, 0);
    assert_eq!((number(&report["files"]), number(&report["directories"])), (3, 2), "{report}");
    assert!(std::fs::read(b.root.join("t/sub/g h")).unwrap() == data[..70_000]);
    assert!(std::fs::read(b.root.join("t/sub/empty")).unwrap().is_empty());
    let report = here.copy(&line, 0);
    assert_eq!((number(&report["kept_files"]), number(&report["moved_bytes"])), (3, 0), "{report}");
    // Something else is there.
    std::fs::write(b.root.join("t/f"), b"other").unwrap();
    let report = here.copy(&line, 1);
    assert!(error(&report).contains("File exists at the destination"), "{report}");
    here.copy(&format!("{line} --exists skip"), 0);
    assert_eq!(std::fs::read(b.root.join("t/f")).unwrap(), b"other");
    here.copy(&format!("{line} --exists replace"), 0);
    assert!(std::fs::read(b.root.join("t/f")).unwrap() == data);
    for (line, why) in [
        (format!("{from}/none {to}/x {how}"), "No such file or directory"),
        (format!("{from}/f {to}/x --third-party --token-file @/b"), "answered 401"),
        (format!("{from}/f {to}/x --third-party --source-token-file @/a"), "answered 401"),
    ] {
        let said = here.start(&line).finish().expect(1).said();
        assert!(said.contains(why), "{line}: {said}");
        assert!(!said.contains(&token_a) && !said.contains(&token_b), "{said}");
    }
    for (line, why) in [
        (format!("{from}/f {to}/x {how} --verify"), "--verify does nothing with --third-party"),
        (format!("{from}/f {to}/x {how} --range 1MiB"), "--range does nothing with --third-party"),
        (format!("{from}/f {to}/x {how} --depth 2"), "--depth does nothing with --third-party"),
        (format!("{from}/f {to}/x {how} --buffered"), "--buffered does nothing with --third-party"),
        (
            format!("{from}/f {to}/x {how} --disk-engine plain"),
            "--disk-engine does nothing with --third-party",
        ),
        (format!("{from}/f @/x {how}"), "expected two URLs"),
        (format!("{from}/f http://192.0.2.1/x {how}"), "in plain text"),
    ] {
        let said = here.refused(&line);
        assert!(said.contains(why), "{line}: {said}");
    }
    assert!(!b.root.join("x").exists());
}

/// A server that copies with others as a test wants: what it has at first, its answer to COPY, what it has then.
fn active(answer: fn() -> Act, then: &'static str) -> Peer {
    let begun = AtomicUsize::new(0);
    Peer::start(move |head| match head.split(' ').next().unwrap() {
        "COPY" => {
            begun.store(1, Ordering::Relaxed);
            answer()
        }
        "HEAD" if begun.load(Ordering::Relaxed) > 0 => {
            Act::Say(format!("HTTP/1.1 {then}\r\n\r\n").into_bytes())
        }
        "DELETE" => Act::Say(b"HTTP/1.1 204 Gone\r\n\r\n".to_vec()),
        _ => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
    })
}

#[test]
fn a_copy_between_servers_that_fails_is_told_and_removed() {
    let here = Here::new();
    let source = Peer::start(|head| match head.starts_with("PROPFIND") {
        true => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        false => Act::Say(object(head, "Content-Length: 1000\r\nDigest: adler32=00000005\r\n", &[7; 1000])),
    });
    const MADE: &str = "HTTP/1.1 201 Created\r\n\r\n";
    // Its answer to COPY, what it has then, how the copy ends, and whether it is asked to remove something.
    type Case = (fn() -> Act, &'static str, &'static str, usize);
    let cases: [Case; 8] = [
        (
            || Act::End(format!("{MADE}Perf Marker\nEnd\nfailure: No space left \x1b[2J").into_bytes()),
            "200 OK\r\nContent-Length: 0",
            "No space left",
            1,
        ),
        (
            || Act::End(format!("{MADE}Perf Marker\nEnd\n").into_bytes()),
            "404 None\r\nContent-Length: 0",
            "without saying how",
            0,
        ),
        (
            || Act::End(format!("{MADE}success: Created").into_bytes()),
            "200 OK\r\nContent-Length: 999",
            "the source has 1000 bytes, and the destination 999",
            1,
        ),
        (
            || Act::End(format!("{MADE}success: Created").into_bytes()),
            "200 OK\r\nContent-Length: 1000\r\nDigest: adler32=00000006",
            "CHECKSUM MISMATCH",
            1,
        ),
        (
            || Act::End(format!("{MADE}success: Created").into_bytes()),
            "404 None\r\nContent-Length: 0",
            "has no such file",
            0,
        ),
        // Another client was faster: what is there is not of this copy.
        (
            || Act::Say(b"HTTP/1.1 412 Not now\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "200 OK\r\nContent-Length: 1000",
            "answered 412",
            0,
        ),
        (
            || Act::End(format!("{MADE}Perf Marker\nEnd\nfailure: File exists").into_bytes()),
            "200 OK\r\nContent-Length: 1001",
            "File exists",
            0,
        ),
        // It cannot, and nor can the source.
        (
            || Act::Say(b"HTTP/1.1 501 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "404 None\r\nContent-Length: 0",
            "answered 501",
            0,
        ),
    ];
    for (answer, then, why, removed) in cases {
        let peer = active(answer, then);
        let report = here.copy(&format!("{} {} --third-party --mode pull", source.url(), peer.url()), 1);
        assert!(error(&report).contains(why) && !error(&report).contains('\u{1b}'), "{why}: {report}");
        assert_eq!(peer.count("DELETE"), removed, "{why}: {:?}", peer.heads());
    }
    // Ctrl-C ends the copy at the server, and what that leaves is removed.
    let peer = active(
        || Act::Hold(format!("{MADE}Perf Marker\nStripe Bytes Transferred: 10\nEnd\n").into_bytes()),
        "200 OK\r\nContent-Length: 10",
    );
    let job = here.start(&format!("{} {} --third-party", source.url(), peer.url()));
    wait_for("the copy to begin", || (peer.count("COPY") > 0).then_some(()));
    job.signal(Signal::INT);
    let report = job.finish().expect(1).json();
    assert!(report["stopped"].as_str().unwrap().contains("interrupted"), "{report}");
    wait_for("the connection to be closed", || peer.heads().contains(&"closed".to_owned()).then_some(()));
    assert_eq!(peer.count("DELETE"), 1, "{:?}", peer.heads());
}

/// A server that copies from itself answers at once, without markers (RFC 4918, 9.8.5).
#[test]
fn a_server_copies_from_itself() {
    let (server, token) = with_token(INSIDE);
    let here = Here::new();
    std::fs::write(here.at("t"), &token).unwrap();
    let data = bytes(70_000);
    server.ask("PUT /exp/f", &[&format!("Authorization: Bearer {token}")], &data).expect(201);
    let at = format!("http://{}/exp", server.address);
    let line = format!("{at}/f {at}/g --third-party --token-file @/t --source-token-file @/t");
    let report = here.copy(&line, 0);
    assert_eq!((number(&report["files"]), number(&report["moved_bytes"])), (1, 70_000), "{report}");
    assert!(report["unchecked"].is_null(), "{report}");
    std::fs::write(server.root.join("g"), b"other").unwrap();
    here.copy(&format!("{line} --exists replace"), 0);
    assert!(std::fs::read(server.root.join("g")).unwrap() == data);
}

/// Each server gives one digest. Where the two are of different algorithms, each is asked for that of the other.
#[test]
fn digests_of_two_algorithms_are_compared() {
    let here = Here::new();
    let source = Peer::start(|head| match head.starts_with("PROPFIND") {
        true => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        false => Act::Say(object(head, "Content-Length: 5\r\nDigest: crc32c=AAAABQ==\r\n", &[7; 5])),
    });
    for (crc32c, is_same) in [("AAAABQ==", true), ("AAAABg==", false)] {
        let begun = AtomicUsize::new(0);
        let peer = Peer::start(move |head| match head.split(' ').next().unwrap() {
            "COPY" => {
                begun.store(1, Ordering::Relaxed);
                Act::End(b"HTTP/1.1 201 Created\r\n\r\nsuccess: Created".to_vec())
            }
            "HEAD" if begun.load(Ordering::Relaxed) > 0 => {
                let is_wanted = head.to_ascii_lowercase().contains("\r\nwant-digest: crc32c\r\n");
                let digest =
                    if is_wanted { format!("crc32c={crc32c}") } else { "adler32=00000007".to_owned() };
                Act::Say(
                    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDigest: {digest}\r\n\r\n").into_bytes(),
                )
            }
            "DELETE" => Act::Say(b"HTTP/1.1 204 Gone\r\n\r\n".to_vec()),
            _ => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
        });
        let line = format!("{} {} --third-party --mode pull", source.url(), peer.url());
        let report = here.copy(&line, i32::from(!is_same));
        if is_same {
            assert!(report["unchecked"].is_null(), "{report}");
        } else {
            assert!(error(&report).contains("CHECKSUM MISMATCH: crc32c=AAAABQ=="), "{report}");
        }
    }
}
