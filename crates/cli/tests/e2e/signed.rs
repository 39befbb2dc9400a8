//! `copy` with URLs that are signed for one request, as S3 gives them: the peer takes the method that is signed, with the query to the letter and
//! without a token, and nothing else.

use crate::site::{Done, Job, words};
use crate::third_party::peer::{Act, Peer, object};
use crate::third_party::{ranged, with_token};
use crate::webdav::bytes;
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
