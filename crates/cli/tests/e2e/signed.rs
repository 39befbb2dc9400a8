//! `copy` with URLs that are signed for one request, as S3 gives them: the peer takes the method that is signed, with the query to the letter and
//! without a token, and nothing else.

use crate::site::{Done, Job, words};
use crate::third_party::peer::{Act, Peer, object};
use crate::third_party::{ranged, with_token};
use crate::webdav::{Files, bytes};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What stands in the query: encoded characters, and a secret.
const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2f20261130%2Feu&X-Amz-SignedHeaders=host&X-Amz-Signature=5ec7e75ec7e7";
const SECRET: &str = "5ec7e75ec7e7";

/// A bucket with an object, and the URL of it for one method.
fn bucket(method: &'static str, data: Vec<u8>) -> (Peer, String) {
    let peer = Peer::start(move |head| {
        let is_right = head.starts_with(&format!("{method} /bucket/a%20b?{SIGNED} HTTP/1.1\r\n"));
        if !is_right || head.contains("Authorization") {
            return Act::Say(
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 21\r\n\r\nSignatureDoesNotMatch".to_vec(),
            );
        }
        match method {
            "PUT" => Act::Take(
                "HTTP/1.1 100 Continue\r\n\r\n",
                data.len(),
                "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n",
            ),
            _ if !head.contains("Range: ") => {
                Act::Say(object(head, &format!("ETag: \"1\"\r\nContent-Length: {}\r\n", data.len()), &data))
            }
            _ if data.is_empty() => {
                Act::Say(b"HTTP/1.1 416 InvalidRange\r\nContent-Length: 0\r\n\r\n".to_vec())
            }
            _ => Act::Say(ranged(head, &data, "ETag: \"1\"\r\n")),
        }
    });
    let url = format!("http://{}/bucket/a%20b?{SIGNED}", peer.address);
    (peer, url)
}

struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), format!("{text}\n")).unwrap();
        std::fs::set_permissions(self.at(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The command, which says nothing of the signature.
    #[track_caller]
    fn copy(&self, line: &str, code: i32) -> Done {
        let line = line.replace('@', self.0.path().to_str().unwrap());
        let done = Job::start(&words(&format!("copy --json {line}"))).finish().expect(code);
        assert!(
            !done.said().contains(SECRET) && !done.told().contains(SECRET),
            "{}{}",
            done.told(),
            done.said()
        );
        done
    }
}

#[test]
fn a_signed_source_is_only_read() {
    let here = Here::new();
    here.write("token", "a-token-of-somebody-else");
    let data = bytes(1_000_017);
    let (peer, url) = bucket("GET", data.clone());
    let report = here.copy(&format!("{url} @/f --range 256KiB --token-file @/token"), 0).json();
    assert!(std::fs::read(here.at("f")).unwrap() == data, "{report}");
    assert!(peer.heads().iter().all(|head| head.starts_with("GET ")), "{:?}", peer.heads());
    // An object without a byte has no first one.
    let (empty, url) = bucket("GET", Vec::new());
    here.copy(&format!("{url} @/empty"), 0);
    assert!(std::fs::read(here.at("empty")).unwrap().is_empty());
    assert!(empty.heads().iter().all(|head| head.starts_with("GET ")), "{:?}", empty.heads());
    // What the bucket refuses is said without the signature.
    let wrong = url.replace("eu&", "us&");
    assert!(here.copy(&format!("{wrong} @/g"), 2).stderr.contains("Permission denied"));
}

#[test]
fn a_signed_destination_is_only_written() {
    let here = Here::new();
    let data = bytes(300_000);
    std::fs::write(here.at("f"), &data).unwrap();
    let (peer, url) = bucket("PUT", data);
    let report = here.copy(&format!("@/f {url}"), 0).json();
    // The signature permits no request that would tell what the bucket holds.
    assert_eq!(report["unchecked"].as_array().map(Vec::len), Some(1), "{report}");
    assert!(peer.heads().iter().all(|head| head.starts_with("PUT ")), "{:?}", peer.heads());
    let (peer, url) = bucket("PUT", Vec::new());
    here.copy(&format!("@/f {}", url.replace("eu&", "us&")), 1);
    assert!(peer.heads().iter().all(|head| head.starts_with("PUT ")), "{:?}", peer.heads());
}

/// A station pulls from a bucket, when the command asks it to.
#[test]
fn a_station_pulls_from_a_signed_source() {
    let (files, token) = with_token("[http.copy]\nallow = ['127.0.0.1']\n");
    let here = Here::new();
    here.write("token", &token);
    let data = bytes(500_000);
    let (peer, url) = bucket("GET", data.clone());
    here.copy(&format!("--third-party {url} http://{}/exp/f --token-file @/token", files.address), 0);
    assert!(std::fs::read(files.root.join("f")).unwrap() == data);
    assert!(peer.heads().iter().all(|head| head.starts_with("GET ")), "{:?}", peer.heads());
    assert!(!files.serving.job.stderr().contains(SECRET));
}

/// A station sends to a bucket, when the command asks it to: the bucket hears one PUT, and nothing else.
#[test]
fn a_station_pushes_to_a_signed_destination() {
    let (files, token) = with_token("[http.copy]\nallow = ['127.0.0.1']\n");
    let here = Here::new();
    here.write("token", &token);
    let data = bytes(300_000);
    std::fs::write(files.root.join("f"), &data).unwrap();
    std::fs::write(files.root.join("empty"), b"").unwrap();
    let at = |name: &str| format!("http://{}/exp/{name}", files.address);
    for (name, data) in [("f", data), ("empty", Vec::new())] {
        let (peer, url) = bucket("PUT", data);
        let report = here.copy(&format!("--third-party {} {url} --token-file @/token", at(name)), 0).json();
        assert_eq!(report["files"], 1, "{report}");
        assert_eq!(report["unchecked"].as_array().map(Vec::len), Some(1), "{report}");
        let heads = peer.heads();
        assert!(heads.len() == 1 && heads[0].starts_with("PUT "), "{heads:?}");
        // What is there already is not replaced unasked, and no type is sent that was not signed.
        assert!(heads[0].contains("If-None-Match: *") && !heads[0].contains("Content-Type"), "{}", heads[0]);
    }
    let (peer, url) = bucket("PUT", bytes(300_000));
    here.copy(&format!("--third-party {} {url} --token-file @/token --exists replace", at("f")), 0);
    assert!(!peer.heads()[0].contains("If-None-Match"), "{:?}", peer.heads());
    // What the bucket refuses is said without the signature, and nothing is asked of it afterwards.
    let (peer, url) = bucket("PUT", Vec::new());
    let wrong = url.replace("eu&", "us&");
    let done = here.copy(&format!("--third-party {} {wrong} --token-file @/token", at("f")), 1);
    assert!(done.told().contains("Permission denied: the destination"), "{}", done.told());
    assert_eq!(peer.heads().len(), 1, "{:?}", peer.heads());
    assert!(!files.serving.job.stderr().contains(SECRET));
}

/// Servers repeat the URL that they were asked for, with its signature encoded or decoded: the command shows neither.
#[test]
fn what_a_server_says_of_a_signed_destination_is_shown_without_the_signature() {
    let here = Here::new();
    let (_, url) = bucket("PUT", Vec::new());
    let secret = "5ec7+e75/ec7e7==";
    let url = url.replace(SECRET, "5ec7%2Be75%2Fec7e7%3D%3D");
    let said = format!("failure: PUT {url} was refused: the signature is {secret}\n");
    for status in ["202 Accepted", "403 Forbidden"] {
        let said = said.clone();
        let station = Peer::start(move |head| match head.starts_with("COPY") {
            true => {
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", said.len());
                Act::Say((head + &said).into_bytes())
            }
            false => Act::Say(object(head, "Content-Length: 10\r\n", b"0123456789")),
        });
        let done = here.copy(&format!("--third-party {} {url}", station.url()), 1);
        let told = done.told();
        assert!(told.contains("was refused: the signature is …"), "{told}");
        assert!(!told.contains("5ec7") && !done.said().contains("5ec7"), "{told}{}", done.said());
        assert_eq!(station.count("COPY"), 1);
    }
}

/// What a signed URL gives no right to is refused before any server is asked.
#[test]
fn what_a_signature_does_not_permit_is_refused_before_anything_is_asked() {
    let here = Here::new();
    let station = Peer::start(|_| Act::Say(b"HTTP/1.1 500 Asked\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let (peer, url) = bucket("PUT", Vec::new());
    let (plain, covered) = (station.url(), url.replace("Headers=host&", "Headers=host%3Brange%3bx-amz-acl&"));
    for (line, why) in [
        (format!("{url} {url}"), "both URLs are signed"),
        (format!("{url} {plain} --mode push"), "its server cannot be asked to send"),
        (format!("{plain} {url} --mode pull"), "its server cannot be asked to fetch"),
        (format!("{plain}/ {url}"), "no directory can go there"),
        (format!("{plain} {}", url.replace("b?", "b/?")), "no directory can go there"),
        (format!("{plain} {url} --exists skip"), "whether it exists cannot be asked"),
        (format!("{plain} {covered}"), "headers that are not sent with PUT: range, x-amz-acl"),
        (format!("{covered} {plain}"), "headers that are not sent with GET: range, x-amz-acl"),
    ] {
        let said = here.copy(&format!("--third-party {line}"), 2).stderr;
        assert!(said.contains(why) && said.contains("hint: "), "{line}: {said}");
    }
    std::fs::write(here.at("f"), b"x").unwrap();
    for line in [format!("@/f {covered}"), format!("{covered} @/g")] {
        let said = here.copy(&line, 2).stderr;
        assert!(said.contains("range, x-amz-acl"), "{line}: {said}");
    }
    // A source that cannot send is not asked to: a station that does not fetch is the end of it.
    let (source, from) = bucket("GET", bytes(10));
    let station = Peer::start(|head| {
        let status = if head.starts_with("COPY") { "405 No" } else { "404 Not Found" };
        Act::Say(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    here.copy(&format!("--third-party {from} {}", station.url()), 1);
    assert!(source.heads().iter().all(|head| head.starts_with("GET ")), "{:?}", source.heads());
    assert_eq!((peer.heads().len(), station.count("COPY")), (0, 1));
}

/// A station refuses by itself what a signature does not permit, also to clients other than the command.
#[test]
fn a_station_refuses_what_a_signature_does_not_permit() {
    let files = Files::of(crate::site::Site::new(1), "[http.copy]\nallow = ['127.0.0.1']\n");
    std::fs::write(files.root.join("f"), b"x").unwrap();
    let (peer, url) = bucket("PUT", vec![0]);
    let covered = url.replace("Headers=host&", "Headers=host;x-amz-acl&");
    for (head, why) in [
        (format!("Source: {covered}"), "headers that are not sent with GET: x-amz-acl"),
        (format!("Destination: {covered}"), "headers that are not sent with PUT: x-amz-acl"),
        (format!("Destination: {url}\r\nRequireChecksumVerification: true"), "a checksum must be verified"),
    ] {
        let reply = files.ask("COPY /exp/f", &[&head], b"");
        assert!(matches!(reply.status, 400 | 412), "{}", reply.head);
        assert!(reply.text().contains(why) && !reply.text().contains(SECRET), "{head}: {}", reply.text());
    }
    assert!(peer.heads().is_empty(), "{:?}", peer.heads());
    // What the client passes on is sent.
    let passed = [
        format!("Destination: {}", covered.replace("eu&", "us&")),
        "TransferHeaderX-Amz-Acl: private".to_owned(),
    ];
    let reply = files.ask("COPY /exp/f", &passed.each_ref().map(String::as_str), b"");
    assert!(reply.text().contains("failure: Permission denied"), "{}", reply.text());
    assert!(peer.heads()[0].to_ascii_lowercase().contains("x-amz-acl: private"), "{:?}", peer.heads());
}
