//! Uploads: to a station, and to a peer that does what it likes.

use super::{Here, error};
use crate::site::{Site, number, wait_for};
use crate::third_party::peer::{Act, Peer};
use crate::third_party::with_token;
use crate::webdav::{Files, address, bytes};
use rustix::process::Signal;
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const LEAVE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const MADE: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

#[test]
fn files_and_trees_are_uploaded_and_compared() {
    let (files, token) = with_token("");
    let here = Here::new();
    std::fs::write(here.at("token"), format!("{token}\n")).unwrap();
    let data = bytes(3_000_017);
    std::fs::create_dir_all(here.at("t/sub/deep")).unwrap();
    std::fs::create_dir_all(here.at("t/none")).unwrap();
    for (name, length) in [("t/a", 3_000_017), ("t/sub/b c", 70_000), ("t/sub/deep/empty", 0)] {
        std::fs::write(here.at(name), &data[..length]).unwrap();
    }
    symlink("a", here.at("t/link")).unwrap();
    std::fs::write(here.at("t/.a.skyhaul-part"), b"part").unwrap();
    let url = format!("http://{}/exp", files.address);
    let how = "--token-file @/token --streams 3";
    // A file: into a directory, and under another name.
    let report = here.copy(&format!("@/t/a {url}/new/ {how}"), 0);
    assert_eq!((number(&report["files"]), number(&report["moved_bytes"])), (1, 3_000_017), "{report}");
    assert!(report["unchecked"].is_null() && report["copied"][0]["crc32c"].is_u64(), "{report}");
    here.copy(&format!("@/t/a {url}/other/name {how}"), 0);
    for path in ["new/a", "other/name"] {
        assert!(std::fs::read(files.root.join(path)).unwrap() == data, "{path}");
    }
    // A tree.
    let report = here.copy(&format!("@/t {url}/dry/ {how} --dry-run"), 0);
    assert_eq!((number(&report["to_copy"]["files"]), files.root.join("dry").exists()), (3, false));
    let line = format!("@/t {url}/one/ {how}");
    let report = here.copy(&line, 0);
    assert_eq!((number(&report["files"]), number(&report["directories"])), (3, 4), "{report}");
    let left = (report["dropped_links"].as_array().unwrap().len(), number(&report["temporary_names"]));
    assert_eq!(left, (1, 1), "{report}");
    assert!(std::fs::read(files.root.join("one/t/sub/b c")).unwrap() == data[..70_000]);
    assert!(std::fs::read(files.root.join("one/t/sub/deep/empty")).unwrap().is_empty());
    assert!(files.root.join("one/t/none").is_dir() && !files.root.join("one/t/link").exists());
    // Once more, and only compared.
    let report = here.copy(&line, 0);
    assert_eq!((number(&report["kept_files"]), number(&report["moved_bytes"])), (3, 0), "{report}");
    let report = here.copy(&format!("{line} --verify"), 0);
    assert_eq!(report["compared"].as_array().unwrap().len(), 3, "{report}");
    // Into a directory that is there, however it is written.
    assert_eq!(number(&here.copy(&format!("@/t/a {url}/one/t {how}"), 0)["kept_files"]), 1);
    existing_files(&files, &here, &line, data);
    let failed = here.copy(&format!("@/t/a {url}/x"), 1);
    assert!(error(&failed).contains("answered 401"), "{failed}");
    for (line, why) in [
        (format!("@/t/a {url}/x {how} --range 1MiB"), "--range does nothing with uploads"),
        (format!("@/t/a {url}/x {how} --buffered"), "--buffered does nothing with uploads"),
        (format!("@/t/a {url}/x {how} --plan"), "--plan does nothing with URLs"),
        (format!("@/t/a {url}/x {how} --limit 1kbps"), "must be at least"),
        (format!("@/t {url}/one/t/a {how}"), "is no directory"),
        (format!("@/none {url}/x {how}"), "no such file"),
        (format!("@/t/a {url}/../x {how}"), "`.` or `..`"),
        ("@/t/a http://192.0.2.1/x --token-file @/token".to_owned(), "in plain text"),
    ] {
        let said = here.refused(&line);
        assert!(said.contains(why) && !said.contains(&token), "{line}: {said}");
    }
    assert!(!files.root.join("x").exists() && files.uploads().is_empty());
}

/// What is done where there is a file.
fn existing_files(files: &Files, here: &Here, line: &str, mut data: Vec<u8>) {
    let there = files.root.join("one/t/a");
    let before = data.clone();
    data[2_000_000] ^= 1;
    for _ in 0..2 {
        std::fs::write(here.at("t/a"), &data).unwrap();
        let report = here.copy(&format!("{line} --verify"), 1);
        assert!(error(&report).contains("differs: "), "{report}");
        let report = here.copy(line, 1);
        assert!(error(&report).contains("a different file exists: "), "{report}");
        assert_eq!(number(&here.copy(&format!("{line} --exists skip"), 0)["moved_bytes"]), 0);
        // Then of another size.
        data.push(0);
    }
    assert!(std::fs::read(&there).unwrap() == before);
    here.copy(&format!("{line} --exists replace"), 0);
    assert!(std::fs::read(&there).unwrap() == data[..before.len() + 1]);
    std::fs::remove_file(there).unwrap();
    let report = here.copy(&format!("{line} --verify"), 1);
    assert!(error(&report).contains("missing at the destination"), "{report}");
}

/// A server that has nothing at first: its answer to PUT, by its number, and what it has after each.
fn destination(put: fn(usize) -> Act, then: &'static [&'static str]) -> Peer {
    let (puts, is_removed) = (AtomicUsize::new(0), AtomicBool::new(false));
    Peer::start(move |head| match head.split(' ').next().unwrap() {
        "PUT" => {
            is_removed.store(false, Ordering::Relaxed);
            put(puts.fetch_add(1, Ordering::Relaxed))
        }
        "HEAD" if puts.load(Ordering::Relaxed) > 0 && !is_removed.load(Ordering::Relaxed) => {
            let then = then[puts.load(Ordering::Relaxed).min(then.len()) - 1];
            Act::Say(format!("HTTP/1.1 {then}\r\n\r\n").into_bytes())
        }
        "HEAD" => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
        "DELETE" => {
            is_removed.store(true, Ordering::Relaxed);
            Act::Say(b"HTTP/1.1 204 Gone\r\n\r\n".to_vec())
        }
        _ => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
    })
}

const SIZE: usize = 3 << 20;
const WHOLE: fn(usize) -> Act = |_| Act::Take(LEAVE, SIZE, MADE);
/// The first body breaks off, and the second one comes whole.
const SECOND: fn(usize) -> Act = |at| match at {
    0 => Act::Take(LEAVE, 1 << 20, ""),
    _ => Act::Take(LEAVE, SIZE, MADE),
};
/// The first body breaks off, and the second one is refused for what is there.
const REFUSED: fn(usize) -> Act = |at| match at {
    0 => Act::Take(LEAVE, 1 << 20, ""),
    _ => Act::Say(b"HTTP/1.1 412 Not now\r\nContent-Length: 0\r\n\r\n".to_vec()),
};

#[test]
fn an_upload_that_fails_is_told_and_what_it_left_removed() {
    let here = Here::new();
    std::fs::write(here.at("f"), vec![0; SIZE]).unwrap();
    // Its answers to PUT, what it has then; how the copy ends ("": well), and how often it is asked to remove something.
    type Case = (fn(usize) -> Act, &'static [&'static str], &'static str, usize);
    let cases: [Case; 11] = [
        (
            |_| Act::Say(b"HTTP/1.1 507 Full\r\nContent-Length: 4\r\n\r\nfull".to_vec()),
            &["404 None"],
            "No space left on device: the destination",
            0,
        ),
        (
            |_| Act::Say(b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\n\x1b[2Jgo\x07 on".to_vec()),
            &["404 None"],
            "Permission denied",
            0,
        ),
        (WHOLE, &["200 OK\r\nContent-Length: 0"], "3145728 bytes were sent, and the destination has 0", 1),
        (
            WHOLE,
            &["200 OK\r\nDigest: adler32=00000001\r\nContent-Length: 3145728"],
            "CHECKSUM MISMATCH: adler32=",
            1,
        ),
        (
            WHOLE,
            &["200 OK\r\nDigest: md5=AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 3145728"],
            "CHECKSUM MISMATCH: md5=",
            1,
        ),
        (WHOLE, &["404 None"], "No such file or directory", 0),
        // Another client was faster: what is there is not of this copy.
        (
            |_| Act::Take(LEAVE, SIZE, "HTTP/1.1 412 Not now\r\nContent-Length: 0\r\n\r\n"),
            &["200 OK\r\nContent-Length: 3145728"],
            "412",
            0,
        ),
        (REFUSED, &["200 OK\r\nContent-Length: 3145729"], "412", 0),
        // MD5 of these bytes by coreutils.
        (WHOLE, &["200 OK\r\nDigest: md5=0d0hDWsTEss0K1bQK9XmUQ==\r\nContent-Length: 3145728"], "", 0),
        // Some servers keep a part of the body.
        (SECOND, &["200 OK\r\nContent-Length: 1048576", "200 OK\r\nContent-Length: 3145728"], "", 1),
        (SECOND, &["404 None"], "No such file or directory", 0),
    ];
    std::thread::scope(|scope| {
        for (put, then, why, removed) in cases {
            let here = &here;
            scope.spawn(move || {
                let peer = destination(put, then);
                let report = here.copy(&format!("@/f {}", peer.url()), i32::from(!why.is_empty()));
                if why.is_empty() {
                    let is_unchecked = report["unchecked"].is_array();
                    assert_eq!(is_unchecked, !then[0].contains("Digest"), "{then:?}: {report}");
                } else {
                    assert!(error(&report).contains(why), "{why}: {report}");
                    assert!(!error(&report).contains('\u{1b}'), "{report}");
                }
                assert_eq!(peer.count("DELETE"), removed, "{why}: {:?}", peer.heads());
                let put = peer.heads().into_iter().find(|head| head.starts_with("PUT")).unwrap();
                for header in ["Expect: 100-continue", "Content-Length: 3145728", "If-None-Match: *"] {
                    assert!(put.contains(&format!("\r\n{header}\r\n")), "{put}");
                }
            });
        }
    });
    // A request without content asks for no leave (RFC 9110, 10.1.1).
    std::fs::write(here.at("empty"), b"").unwrap();
    let peer = destination(|_| Act::Say(MADE.into()), &["200 OK\r\nContent-Length: 0"]);
    here.copy(&format!("@/empty {}", peer.url()), 0);
    let put = peer.heads().into_iter().find(|head| head.starts_with("PUT")).unwrap();
    assert!(put.contains("\r\nContent-Length: 0\r\n") && !put.contains("Expect"), "{put}");
}

#[test]
fn directories_are_made_as_a_server_needs_them() {
    let here = Here::new();
    std::fs::write(here.at("f"), [7; 1000]).unwrap();
    let made = AtomicUsize::new(0);
    // It makes no directory in one that is missing, and takes no file.
    let peer = Peer::start(move |head| {
        let conflict = || Act::Say(b"HTTP/1.1 409 Missing\r\nContent-Length: 0\r\n\r\n".to_vec());
        let words: Vec<&str> = head.split(' ').take(2).collect();
        match (&words[..], made.load(Ordering::Relaxed)) {
            (["MKCOL", "/d/e/"], 1) | (["MKCOL", "/d/"], 0) => {
                made.fetch_add(1, Ordering::Relaxed);
                Act::Say(MADE.into())
            }
            (["MKCOL", "/d/e/"], 0) | (["PUT", _], 0 | 1) => conflict(),
            (["PUT", _], _) => {
                made.store(3, Ordering::Relaxed);
                Act::Take(LEAVE, 1000, MADE)
            }
            (["HEAD", _], 3) => Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec()),
            (["HEAD", _], _) => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
            _ => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        }
    });
    here.copy(&format!("@/f http://{}/d/e/f", peer.address), 0);
    assert_eq!(
        (peer.count("MKCOL"), peer.count("PUT"), peer.count("DELETE")),
        (3, 2, 0),
        "{:?}",
        peer.heads()
    );
}

#[test]
fn an_upload_that_is_interrupted_has_no_name() {
    let mut files = Files::of(Site::new(1), "");
    let here = Here::new();
    let data = bytes(20_000_017);
    std::fs::write(here.at("f"), &data).unwrap();
    let start = |files: &Files, how: &str| here.start(&format!("@/f http://{}/exp/f {how}", files.address));
    let arrived = |files: &Files| {
        files.uploads().iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum::<u64>()
    };
    let arrives = |files: &Files| {
        let before = arrived(files);
        wait_for("bytes to arrive", || (arrived(files) > before).then_some(()));
    };
    let job = start(&files, "--limit 20Mbps");
    arrives(&files);
    job.signal(Signal::INT);
    let report = job.finish().expect(1).json();
    assert_eq!(report["stopped"], "interrupted", "{report}");
    assert!(report["copied"].as_array().unwrap().is_empty(), "{report}");
    assert!(!files.root.join("f").exists());
    // The server is killed, and does not come back at this address.
    let job = start(&files, "--limit 20Mbps");
    arrives(&files);
    files.serving.kill();
    let report = job.finish().expect(1).json();
    assert!(report["stopped"].as_str().unwrap().contains("Connection refused"), "{report}");
    files.serving.restart();
    files.address = address(&files.serving);
    assert!(!files.root.join("f").exists());
    here.copy(&format!("@/f http://{}/exp/f", files.address), 0);
    assert!(std::fs::read(files.root.join("f")).unwrap() == data);
    // A file that is written meanwhile is not what was sent.
    let mut file = std::fs::File::options().append(true).open(here.at("f")).unwrap();
    file.write_all(b"new").unwrap();
    let job = start(&files, "--limit 40Mbps --exists replace");
    arrives(&files);
    file.write_all(b"more").unwrap();
    let report = job.finish().expect(1).json();
    assert!(error(&report).contains("the file changed while it was sent"), "{report}");
    assert!(!files.root.join("f").exists());
}

/// A server with which many small files are put; `put` is its answer to the PUT of this number, if it is the first one for its path.
fn many(put: impl Fn(usize) -> Act + Send + Sync + 'static) -> Peer {
    let (puts, there) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    Peer::start(move |head| {
        let path = head.split(' ').nth(1).unwrap().to_owned();
        match head.split(' ').next().unwrap() {
            "PUT" => {
                let number = puts.fetch_add(1, Ordering::Relaxed);
                if there.lock().unwrap().insert(path) { put(number) } else { Act::Take(LEAVE, SMALL, MADE) }
            }
            "HEAD" if there.lock().unwrap().contains(&path) => {
                Act::Say(format!("HTTP/1.1 200 OK\r\nContent-Length: {SMALL}\r\n\r\n").into_bytes())
            }
            "HEAD" => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
            _ => Act::Say(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        }
    })
}

const SMALL: usize = 1000;
const FILES: usize = 60;

#[test]
fn files_of_one_job_share_connections() {
    let here = Here::new();
    std::fs::create_dir(here.at("t")).unwrap();
    for file in 0..FILES {
        std::fs::write(here.at(&format!("t/f{file}")), vec![file as u8; SMALL]).unwrap();
    }
    let copy = |peer: &Peer| {
        let report = here.copy(&format!("@/t/ http://{}/d/ --streams 3", peer.address), 0);
        assert_eq!(
            (number(&report["files"]), number(&report["moved_bytes"])),
            (FILES as u64, 60_000),
            "{report}"
        );
        assert_eq!(peer.count("DELETE"), 0);
    };
    // One for each stream; HEAD, PUT and HEAD of all files follow each other there.
    let peer = many(|_| Act::Take(LEAVE, SMALL, MADE));
    copy(&peer);
    assert_eq!(peer.count("PUT"), FILES);
    assert!(peer.connections() <= 3, "{} connections", peer.connections());
    // A reply with a body says nothing that is needed, and is read.
    let peer = many(|_| Act::Take(LEAVE, SMALL, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n:-)\n"));
    copy(&peer);
    assert!(peer.connections() <= 3, "{} connections", peer.connections());
    // One that says that it closes, and one that closes without a word after each file.
    const CLOSES: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for last in [CLOSES, MADE] {
        let peer = many(move |_| Act::TakeAndEnd(LEAVE, SMALL, last));
        copy(&peer);
        assert_eq!(peer.count("PUT"), FILES);
        let connections = peer.connections();
        assert!((FILES..=2 * FILES + 3).contains(&connections), "{connections} connections");
    }
    // One that closes when the next file comes, before it has taken anything: it is sent again at once.
    let peer = many(|number| match number % 4 {
        2 => Act::End(Vec::new()),
        _ => Act::Take(LEAVE, SMALL, MADE),
    });
    copy(&peer);
    let (puts, connections) = (peer.count("PUT"), peer.connections());
    assert!(puts > FILES && connections <= 3 + puts - FILES, "{puts} PUT on {connections} connections");
}
