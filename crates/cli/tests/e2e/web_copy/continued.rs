//! Uploads and pushes that break off, and what a station keeps of them: no part has a name, and what is the same at both ends is not sent again.

use super::Here;
use crate::site::{Site, number, wait_for};
use crate::webdav::{Files, address, adler32, bytes};
use rustix::process::Signal;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const SIZE: usize = 12_000_017;
const KILLS: usize = 20;
/// The attribute with what has arrived.
const NOTE: &str = "user.skyhaul.received";
/// Time that a file takes at the limit of 100 Mb/s, in milliseconds.
const SENDING_MILLISECONDS: u64 = 900;

/// Any number below this one.
fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

/// Bytes of the uploads that have no name.
fn arrived(files: &Files) -> u64 {
    files.uploads().iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}

fn restart(files: &mut Files) {
    files.serving.restart();
    files.address = address(&files.serving);
}

#[test]
fn an_upload_continues_after_either_end_was_killed() {
    let mut files = Files::of(Site::new(1), "");
    let here = Here::new();
    let mut resumed = 0;
    for kill in 0..KILLS {
        let name = format!("d/f{kill}");
        let mut data = bytes(SIZE);
        data[kill] ^= 1;
        std::fs::write(here.at("f"), &data).unwrap();
        let job = here.start(&format!("@/f http://{}/exp/{name} --limit 100Mbps", files.address));
        wait_for("bytes to arrive", || (arrived(&files) > 0).then_some(()));
        let after = random(SENDING_MILLISECONDS);
        std::thread::sleep(Duration::from_millis(after));
        if kill % 2 == 0 {
            files.serving.kill();
            job.signal(Signal::KILL);
            drop(job.finish());
            restart(&mut files);
        } else {
            job.signal(Signal::KILL);
            drop(job.finish());
        }
        // It has no name, or all of it was there.
        let there = std::fs::read(files.root.join(&name)).ok();
        assert!(there.is_none_or(|there| there == data), "kill {kill} after {after} ms");
        let listed = files.ask("GET /exp/d", &[], b"");
        assert!(!listed.text().lines().any(|line| line.contains(".skyhaul")), "{}", listed.text());
        let report = here.copy(&format!("@/f http://{}/exp/{name}", files.address), 0);
        assert!(
            std::fs::read(files.root.join(&name)).unwrap() == data,
            "kill {kill} after {after} ms: {report}"
        );
        let digest = files.ask(&format!("HEAD /exp/{name}"), &["Want-Digest: adler32"], b"").expect(200);
        assert_eq!(digest.header("Digest"), Some(&*format!("adler32={:08x}", adler32(&data))), "kill {kill}");
        resumed += number(&report["resumed_bytes"]);
        wait_for("nothing to be left", || files.uploads().is_empty().then_some(()));
    }
    assert!(resumed > SIZE as u64, "{resumed} bytes were not sent again after {KILLS} kills");
}

#[test]
fn what_is_not_the_beginning_of_the_file_is_sent_again() {
    let files = Files::of(Site::new(1), "");
    let here = Here::new();
    let data = bytes(SIZE);
    std::fs::write(here.at("f"), &data).unwrap();
    let to = format!("@/f http://{}/exp/f", files.address);
    let job = here.start(&format!("{to} --limit 100Mbps"));
    wait_for("a part to arrive", || (arrived(&files) > 6_000_000).then_some(()));
    job.signal(Signal::KILL);
    drop(job.finish());
    // The server's part has another digest than the same bytes here.
    let part = files.uploads().remove(0);
    let note = wait_for("the end of the connection to be noted", || {
        let mut note = [0; 200];
        let length = rustix::fs::getxattr(&part, NOTE, &mut note[..]).ok()?;
        let note = String::from_utf8(note[..length].to_vec()).unwrap();
        let words: Vec<&str> = note.split(' ').collect();
        let is_all = words[1].parse() == Ok(arrived(&files));
        is_all.then(|| format!("{} {} 00000001 {}", words[0], words[1], words[3]))
    });
    rustix::fs::setxattr(&part, NOTE, note.as_bytes(), rustix::fs::XattrFlags::REPLACE).unwrap();
    let report = here.copy(&to, 0);
    assert_eq!(number(&report["resumed_bytes"]), 0, "{report}");
    assert!(std::fs::read(files.root.join("f")).unwrap() == data);
    // A client that continues without asking first, or that would leave a hole.
    let key = "Skyhaul-Upload: 0123456789abcdef0123456789abcdef";
    for (headers, status) in [
        (&["Content-Range: bytes 3-5/6"][..], 400),
        (&[key, "Content-Range: bytes 3-4/6"][..], 400),
        (&[key, "Content-Range: bytes 3-5/6"][..], 503),
    ] {
        let reply = files.ask("PUT /exp/hole", headers, b"abc").expect(status);
        assert!(!files.root.join("hole").exists() && files.uploads().is_empty(), "{}", reply.text());
    }
    let head = files.ask("HEAD /exp/hole", &[key], b"").expect(404);
    assert_eq!(head.header("Skyhaul-Received"), Some("0 - -"), "{}", head.head);
    assert!(files.ask("HEAD /exp/f", &[], b"").expect(200).header("Skyhaul-Received").is_none());
}

/// A server that pushes continues in the next copy that it is asked for.
#[test]
fn a_push_continues_after_its_destination_was_killed() {
    const PUSHED: u64 = 400 << 20;
    let a = Files::of(Site::new(1), "[http.copy]\nallow = ['127.0.0.1']\n");
    let mut b = Files::of(Site::new(1), "");
    let file = std::fs::File::create(a.root.join("f")).unwrap();
    file.set_len(PUSHED).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"not only zeros", PUSHED / 2).unwrap();
    let moved = || {
        let (metrics, name) =
            (a.serving.metrics(), "skyhaul_station_files_copied_bytes_total{direction=\"push\"} ");
        metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok()).unwrap() as u64
    };
    let push = |b: &Files| {
        let destination = format!("Destination: http://{}/exp/d/g", b.address);
        a.ask("COPY /exp/f", &[&destination], b"").expect(202).text()
    };
    let said = std::thread::scope(|scope| {
        let pushing = scope.spawn(|| push(&b));
        wait_for("bytes to arrive", || (arrived(&b) > 16 << 20).then_some(()));
        b.serving.job.signal(Signal::KILL);
        pushing.join().unwrap()
    });
    assert!(said.contains("failure:"), "{said}");
    assert!(!b.root.join("d/g").exists());
    b.serving.kill();
    restart(&mut b);
    let before = moved();
    let said = push(&b);
    assert!(said.contains("success: Created"), "{said}");
    let again = moved() - before;
    assert!(again < PUSHED - (8 << 20), "{again} of {PUSHED} bytes were sent again");
    assert!(std::fs::read(b.root.join("d/g")).unwrap() == std::fs::read(a.root.join("f")).unwrap());
    assert!(b.uploads().is_empty());
}
