//! Scans that are uploaded, and become recordings again.

use crate::serve::{FPS, SECOND, frames};
use crate::site::{Site, number, vdif, wait_for};
use crate::webdav::{Files, address, adler32, bytes};
use rustix::process::Signal;
use std::io::Write;

/// What lies on the disks, but for the directory in which scans arrive.
fn names(site: &Site) -> Vec<String> {
    let mut names = Vec::new();
    for disk in &site.disks {
        let stage = std::fs::read_dir(disk.join(".skyhaul-intake")).into_iter().flatten();
        let all = std::fs::read_dir(disk).unwrap().chain(stage);
        names.extend(all.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    }
    names.retain(|name| name != ".skyhaul-intake");
    names
}

fn start() -> Files {
    Files::of(Site::new(2), "record_uploads = true")
}

#[test]
fn an_uploaded_scan_is_a_recording_like_others() {
    let files = start();
    let (serving, site) = (&files.serving, &files.serving.site);
    // More than a chunk.
    let sent: Vec<u8> = (0..4500).flat_map(|n| vdif(SECOND + i64::from(n / FPS), n % FPS, 1, 8000)).collect();
    let adler = format!("adler32={:08x}", adler32(&sent));
    let put = files
        .ask("PUT /recordings/up_1", &[&format!("Digest: {adler}"), "Want-Digest: crc32c"], &sent)
        .expect(201);
    assert!(files.ask("GET /recordings/up_1", &[], b"").expect(200).body == sent);
    for want in ["adler32", "crc32c"] {
        let head = files.ask("HEAD /recordings/up_1", &[&format!("Want-Digest: {want}")], b"").expect(200);
        let expected = if want == "adler32" { Some(&*adler) } else { put.header("Digest") };
        assert_eq!(
            (head.header("Digest"), head.header("Etag")),
            (expected, put.header("Etag")),
            "{}",
            head.head
        );
    }
    assert!(site.run("cat up_1").expect(0).stdout == sent);
    let check = site.run("check up_1 --json").expect(0).json();
    assert_eq!(number(&check["ledger"]["received"]), 4500, "{check}");
    assert_eq!(
        (number(&check["ledger"]["never_received"]), number(&check["findings_total"])),
        (0, 0),
        "{check}"
    );
    assert!(number(&check["datastreams"][0]["chunks"]) > 1, "{check}");
    assert!(site.run("ls").expect(0).told().contains("up_1"));
    let scans = serving.call("status").expect(0).told();
    assert!(!scans.contains("skyhaul-intake"), "{scans}");
    let listed = files.ask("PROPFIND /recordings", &["Depth: 1"], b"").expect(207).text();
    assert!(listed.contains(&format!("<D:getcontentlength>{}</D:getcontentlength>", sent.len())), "{listed}");
    // What exists is not replaced, and what is there can be copied to become one.
    files.ask("PUT /recordings/up_1", &[], &sent).expect(409);
    files.ask("PUT /recordings/up_1", &["If-None-Match: *"], &sent).expect(412);
    files.ask("PUT /exp/f.vdif", &[], &sent).expect(201);
    files.ask("COPY /exp/f.vdif", &["Destination: /recordings/up_2"], b"").expect(201);
    assert!(site.run("cat up_2").expect(0).stdout == sent);
    files.ask("MOVE /exp/f.vdif", &["Destination: /recordings/up_3"], b"").expect(403);
    files.ask("COPY /exp/f.vdif", &["Destination: /recordings/up_2"], b"").expect(409);
    // From another server, with several streams.
    let source = start_source(&sent);
    let order = [&*format!("Source: http://{}/exp/f", source.address), "X-Number-Of-Streams: 3"];
    let files = Files::of(Site::new(2), "record_uploads = true\n[http.copy]\nallow = ['127.0.0.0/8']");
    let copied = files.ask("COPY /recordings/up_4", &order, b"").expect(202);
    assert!(copied.text().contains("success: Created"), "{}", copied.text());
    assert!(files.serving.site.run("cat up_4").expect(0).stdout == sent);
    files.serving.site.run("check up_4").expect(0);
}

fn start_source(bytes: &[u8]) -> Files {
    let files = Files::of(Site::new(1), "");
    std::fs::write(files.root.join("f"), bytes).unwrap();
    files
}

#[test]
fn what_does_not_become_a_recording_leaves_nothing() {
    let mut files = start();
    let site = &files.serving.site;
    let path = frames(site, "f", 1, 4000);
    let whole = std::fs::read(&path).unwrap();
    let text = files.ask("PUT /recordings/s", &[], &bytes(100_000)).expect(422).text();
    assert!(text.contains("it does not begin with frames of a known format"), "{text}");
    let text = files.ask("PUT /recordings/s", &[], &whole[..whole.len() - 5]).expect(422).text();
    assert!(text.contains("it ends within a frame"), "{text}");
    let text = files.ask("PUT /recordings/s", &["Digest: adler32=00000001"], &whole).expect(412).text();
    assert!(text.contains("CHECKSUM MISMATCH"), "{text}");
    for name in ["s.vdif", "%2Df"] {
        files.ask(&format!("PUT /recordings/{name}"), &[], &whole).expect(403);
    }
    files.ask("PUT /recordings/a/b", &[], &whole).expect(404);
    // A client that goes.
    let mut stream = files.connect();
    let head = format!(
        "PUT /recordings/s HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
        files.address,
        whole.len() * 2
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&whole).unwrap();
    wait_for("the scan to begin", || (!names(site).is_empty()).then_some(()));
    files.ask("GET /recordings/s", &[], b"").expect(404);
    assert!(!files.ask("GET /recordings", &[], b"").expect(200).text().contains('s'));
    assert!(!site.run("ls").told().contains("skyhaul-intake"));
    drop(stream);
    wait_for("nothing to be left", || names(site).is_empty().then_some(()));
    // A server that is killed.
    let mut stream = files.connect();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&whole).unwrap();
    wait_for("the scan to begin", || (!names(site).is_empty()).then_some(()));
    files.serving.kill();
    let site = &files.serving.site;
    assert!(!names(site).is_empty());
    assert!(!site.run("ls").told().contains("skyhaul-intake"));
    files.serving.restart();
    files.address = address(&files.serving);
    assert_eq!(names(&files.serving.site), [""; 0]);
    files.ask("PUT /recordings/s", &[], &whole).expect(201);
    files.serving.job.signal(Signal::TERM);
    files.serving.job.finish().expect(0);
}
