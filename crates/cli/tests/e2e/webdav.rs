//! Files and recordings over HTTP and WebDAV: a station that serves them, and a client that writes its heads by hand.

use crate::device::Mounted;
use crate::serve::{Serving, frames};
use crate::site::{Job, Site, number, run, wait_for, words};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A station that serves `/exp/`, which may be written.
pub(crate) struct Files {
    pub(crate) serving: Serving,
    pub(crate) address: String,
    pub(crate) root: PathBuf,
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header, by its name as it was sent.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self
    }
}

impl Files {
    fn start(more: &str) -> Self {
        Self::of(Site::new(2), more)
    }

    pub(crate) fn of(site: Site, more: &str) -> Self {
        let root = site.disks[0].parent().unwrap().join("exp");
        let _ = std::fs::create_dir(&root);
        let shown = root.display();
        let http = format!(
            "[http]\nlisten = '127.0.0.1:0'\nrecordings = true\n{more}\n[[http.root]]\nname = 'exp'\ndirectory = '{shown}'\nwrite = true"
        );
        let serving = Serving::start(site, &http);
        let address = address(&serving);
        Self { serving, address, root }
    }

    /// A request with these lines of its head, and a body with its length.
    pub(crate) fn ask(&self, line: &str, headers: &[&str], body: &[u8]) -> Reply {
        let mut head = format!("{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        headers.iter().for_each(|header| head += &format!("{header}\r\n"));
        if !body.is_empty() || line.starts_with("PUT") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut stream = self.connect();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A server that refuses closes before everything is sent.
        let _ = stream.write_all(body);
        reply(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    pub(crate) fn uploads(&self) -> Vec<PathBuf> {
        let uploads = std::fs::read_dir(self.root.join(".skyhaul-uploads")).unwrap();
        uploads.map(|entry| entry.unwrap().path()).collect()
    }
}

/// Where it serves files.
pub(crate) fn address(serving: &Serving) -> String {
    wait_for("files to be served", || {
        Some(serving.job.stderr().split_once("files on http://")?.1.lines().next()?.to_owned())
    })
}

/// Everything until the connection closes, or the end of the body that the head announces.
fn reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let at = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
    let body = bytes.get(at + 4..).unwrap_or_default().to_vec();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head, body }
}

/// Bytes that do not repeat.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Adler-32 by its definition (RFC 1950, 8.2).
pub(crate) fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (a + b) % 65521)
    });
    (b << 16) | a
}

#[test]
fn files_are_put_read_in_ranges_moved_and_removed() {
    let files = Files::start("");
    let data = bytes(3_000_017);
    // A client that waits for leave to send gets it.
    let mut stream = files.connect();
    let head = format!(
        "PUT /exp/a/b/f HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        files.address,
        data.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut leave = [0; 25];
    stream.read_exact(&mut leave).unwrap();
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&data).unwrap();
    let put = reply(&mut stream).expect(201);
    assert!(std::fs::read(files.root.join("a/b/f")).unwrap() == data);
    let digest = format!("adler32={:08x}", adler32(&data));
    let got = files.ask("GET /exp/a/b/f", &["Want-Digest: ADLER32"], b"").expect(200);
    assert!(got.body == data);
    assert_eq!(got.header("Content-Length"), Some("3000017"), "{}", got.head);
    assert_eq!(
        (got.header("Digest"), got.header("Etag")),
        (Some(&*digest), put.header("Etag")),
        "{}",
        got.head
    );
    let head = files.ask("HEAD /exp/a/b/f", &["Want-Digest: adler32"], b"").expect(200);
    assert_eq!((head.body.len(), head.header("Content-Length")), (0, Some("3000017")));
    let etag = got.header("Etag").unwrap().to_owned();
    for (range, from, to) in
        [("0-0", 0, 1), ("2999990-", 2_999_990, 3_000_017), ("-17", 3_000_000, 3_000_017)]
    {
        let part = files.ask("GET /exp/a/b/f", &[&format!("Range: bytes={range}")], b"").expect(206);
        assert!(part.body == data[from..to], "{range}");
        assert_eq!(part.header("Content-Range").unwrap(), format!("bytes {from}-{}/3000017", to - 1));
    }
    let refused = files.ask("GET /exp/a/b/f", &["Range: bytes=3000017-"], b"").expect(416);
    assert_eq!(refused.header("Content-Range"), Some("bytes */3000017"));
    let many = files.ask("GET /exp/a/b/f", &["Range: bytes=5-6,2000000-2999999"], b"").expect(206);
    let boundary =
        many.header("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let kind = "Content-Type: application/octet-stream";
    let mut expected =
        format!("--{boundary}\r\n{kind}\r\nContent-Range: bytes 5-6/3000017\r\n\r\n").into_bytes();
    expected.extend(&data[5..7]);
    expected.extend(
        format!("\r\n--{boundary}\r\n{kind}\r\nContent-Range: bytes 2000000-2999999/3000017\r\n\r\n").bytes(),
    );
    expected.extend(&data[2_000_000..3_000_000]);
    expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
    assert!(many.body == expected, "{}", many.head);
    files.ask("GET /exp/a/b/f", &[&format!("If-None-Match: {etag}")], b"").expect(304);
    let whole = files.ask("GET /exp/a/b/f", &["Range: bytes=0-0", "If-Range: \"x\""], b"").expect(200);
    assert_eq!(whole.body.len(), data.len());
    directories_and_names(&files, &data);
}

fn directories_and_names(files: &Files, data: &[u8]) {
    files.ask("MKCOL /exp/a", &[], b"").expect(405);
    files.ask("MKCOL /exp/x/y", &[], b"").expect(409);
    files.ask("MKCOL /exp/c", &[], b"").expect(201);
    files.ask("MKCOL /exp/d", &[], b"x").expect(415);
    let to = format!("Destination: http://{}/exp/new/f%20g", files.address);
    files.ask("MOVE /exp/a/b/f", &[&to], b"").expect(201);
    files.ask("GET /exp/a/b/f", &[], b"").expect(404);
    files.ask("COPY /exp/new/f%20g", &["Destination: /exp/c/h"], b"").expect(201);
    files.ask("COPY /exp/new/f%20g", &["Destination: /exp/c/h", "Overwrite: F"], b"").expect(412);
    files.ask("MOVE /exp/new/f%20g", &["Destination: http://other.example/exp/c/h"], b"").expect(502);
    assert!(std::fs::read(files.root.join("c/h")).unwrap() == data);
    // The digest went with the bytes.
    let digest = files.ask("HEAD /exp/c/h", &["Want-Digest: adler32"], b"").expect(200);
    assert_eq!(digest.header("Digest").unwrap(), format!("adler32={:08x}", adler32(data)));
    let body = b"<propfind xmlns='DAV:'><prop><getcontentlength/><resourcetype/><quota-available-bytes/></prop></propfind>";
    let listed = files.ask("PROPFIND /exp/c", &["Depth: 1"], body).expect(207).text();
    let (own, member) = listed.split_once("<D:href>/exp/c/h</D:href>").unwrap();
    assert!(own.contains("<D:href>/exp/c/</D:href>") && own.contains("<D:collection/>"), "{listed}");
    assert!(own.contains("<D:quota-available-bytes>"), "{listed}");
    assert!(member.contains(&format!("<D:getcontentlength>{}</D:getcontentlength>", data.len())), "{listed}");
    files.ask("PROPFIND /exp/c", &["Depth: infinity"], b"").expect(403);
    files.ask("PROPFIND /exp/c/none", &["Depth: 0"], b"").expect(404);
    files.ask("PROPFIND /exp/c", &["Depth: 0"], b"<a").expect(400);
    let top = files.ask("PROPFIND /", &["Depth: 1"], b"").expect(207).text();
    assert!(top.contains("<D:href>/exp/</D:href>") && top.contains("<D:href>/recordings/</D:href>"), "{top}");
    files.ask("HEAD /exp/", &[], b"").expect(200);
    files.ask("DELETE /exp/c", &[], b"").expect(409);
    files.ask("DELETE /exp", &[], b"").expect(403);
    files.ask("DELETE /exp/c/h", &[], b"").expect(204);
    files.ask("DELETE /exp/c/h", &[], b"").expect(404);
    files.ask("DELETE /exp/c", &[], b"").expect(204);
    files.ask("PATCH /exp/c", &[], b"").expect(405);
    let options = files.ask("OPTIONS /exp/", &[], b"").expect(200);
    assert!(
        options.header("Allow").unwrap().contains("PROPFIND") && options.header("Dav") == Some("1"),
        "{}",
        options.head
    );
}

#[test]
fn uploads_are_whole_or_not_there() {
    let files = Files::start("");
    let data = bytes(100_000);
    files.ask("PUT /exp/f", &[&format!("Digest: adler32={:08x}", adler32(&data))], &data).expect(201);
    files.ask("PUT /exp/f", &[], &data).expect(200);
    files.ask("PUT /exp/f", &["If-None-Match: *"], &data).expect(412);
    files.ask("PUT /exp/f", &["Content-Range: bytes 0-99999/200000"], &data).expect(400);
    let wrong = files.ask("PUT /exp/g", &["Digest: adler32=00000001"], &data).expect(412);
    assert!(wrong.text().contains("CHECKSUM MISMATCH: adler32 00000001 was stated"), "{}", wrong.text());
    files.ask("PUT /exp/f/below", &[], &data).expect(409);
    files.ask("PUT /exp", &[], &data).expect(403);
    files.ask("PUT /recordings/x", &[], &data).expect(403);
    // In chunks, of no stated length.
    let mut stream = files.connect();
    let head =
        format!("PUT /exp/chunked HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n", files.address);
    stream.write_all(format!("{head}Want-Digest: md5\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    for part in data.chunks(777) {
        stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).unwrap();
        stream.write_all(part).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let put = reply(&mut stream).expect(201);
    assert!(put.header("Digest").unwrap().starts_with("md5="), "{}", put.head);
    assert!(std::fs::read(files.root.join("chunked")).unwrap() == data);
    // A client that goes in the middle leaves nothing.
    let mut stream = begin(&files, "gone", 50_000_000, &data);
    wait_for("bytes to arrive", || (!files.uploads().is_empty()).then_some(()));
    files.ask("GET /exp/gone", &[], b"").expect(404);
    stream.flush().unwrap();
    drop(stream);
    wait_for("the rest to be removed", || files.uploads().is_empty().then_some(()));
    let names: Vec<_> =
        std::fs::read_dir(&files.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// Begins an upload, and sends only its first bytes.
fn begin(files: &Files, name: &str, size: usize, data: &[u8]) -> TcpStream {
    let mut stream = files.connect();
    let head =
        format!("PUT /exp/{name} HTTP/1.1\r\nHost: {}\r\nContent-Length: {size}\r\n\r\n", files.address);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(data).unwrap();
    stream
}

/// What is refused, or cannot be done, has changed nothing: the destination is there as it was.
#[test]
fn a_destination_stays_when_nothing_takes_its_place() {
    let site = Site::new(1);
    let two = site.disks[0].parent().unwrap().join("two");
    std::fs::create_dir_all(two.join("full")).unwrap();
    std::fs::write(two.join("full/f"), "kept").unwrap();
    let more = format!(
        "[[http.root]]\nname = 'two'\ndirectory = '{}'\nwrite = true\nrules = 'rfc4918'",
        two.display()
    );
    let files = Files::of(site, &more);
    files.ask("PUT /exp/dir/f", &[], b"source").expect(201);
    files.ask("PUT /exp/old", &[], b"old").expect(201);
    std::os::unix::fs::symlink("old", files.root.join("link")).unwrap();
    // Directories are not copied by the rules of this root, nor moved to another; links are nothing at all.
    files.ask("COPY /exp/dir", &["Destination: /exp/old"], b"").expect(403);
    files.ask("MOVE /exp/dir", &["Destination: /two/full"], b"").expect(403);
    files.ask("COPY /exp/link", &["Destination: /two/full"], b"").expect(403);
    // A sparse file, longer than the space on the disk.
    let huge = std::fs::File::create(files.root.join("huge")).unwrap();
    huge.set_len(1 << 43).unwrap();
    files.ask("COPY /exp/huge", &["Destination: /two/full"], b"").expect(507);
    assert_eq!(std::fs::read_to_string(files.root.join("old")).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(two.join("full/f")).unwrap(), "kept");
    // A copy that is a part of its source is none.
    let deep = "d/".repeat(70);
    std::fs::create_dir_all(two.join("deep").join(deep)).unwrap();
    let refused = files.ask("COPY /two/deep", &["Destination: /two/copy"], b"").expect(409);
    assert!(refused.text().contains("nothing was copied: directories are nested"), "{}", refused.text());
    assert!(!two.join("copy").exists());
    // Nor is one that would lack something.
    for (odd, why) in [(&b"caf\xe9"[..], "is no UTF-8"), (b"link", "is a symbolic link")] {
        let odd = two.join("odd").join(std::ffi::OsStr::from_bytes(odd));
        std::fs::create_dir_all(two.join("odd/d")).unwrap();
        if why.contains("link") {
            std::os::unix::fs::symlink("d", &odd).unwrap();
        } else {
            std::fs::write(&odd, "data").unwrap();
        }
        let refused = files.ask("COPY /two/odd", &["Destination: /two/full"], b"").expect(409);
        assert!(refused.text().contains(why), "{}", refused.text());
        assert_eq!(std::fs::read_to_string(two.join("full/f")).unwrap(), "kept");
        std::fs::remove_file(odd).unwrap();
    }
    files.ask("COPY /two/odd", &["Destination: /two/even"], b"").expect(201);
    assert!(two.join("even/d").is_dir());
    // And what is not refused takes the place of what was there.
    files.ask("COPY /exp/old", &["Destination: /two/full"], b"").expect(204);
    assert_eq!(std::fs::read_to_string(two.join("full")).unwrap(), "old");
}

/// A digest that was computed by reading is kept only of a file that nobody has just written: one more write might not be seen.
#[test]
fn the_digest_of_a_file_that_may_still_change_is_not_kept() {
    let files = Files::start("");
    let path = files.root.join("local");
    std::fs::write(&path, "one").unwrap();
    let ask = || {
        let head = files.ask("HEAD /exp/local", &["Want-Digest: adler32"], b"").expect(200);
        head.header("Digest").unwrap().to_owned()
    };
    let file = std::fs::File::open(&path).unwrap();
    let kept = || skyhaul::io::disk::attribute(&file, "user.skyhaul.digests").ok().flatten().is_some();
    assert_eq!(ask(), format!("adler32={:08x}", adler32(b"one")));
    assert!(!kept(), "it was written a moment ago");
    std::fs::write(&path, "two").unwrap();
    assert_eq!(ask(), format!("adler32={:08x}", adler32(b"two")));
    let hour = std::time::SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(hour).unwrap();
    assert_eq!(ask(), format!("adler32={:08x}", adler32(b"two")));
    // A tmpfs, as many machines have at /tmp, may have no user attributes.
    if skyhaul::io::disk::set_attribute(&file, "user.skyhaul.test", b"1").is_err() {
        return println!(
            "SKIPPED: digests beside files (needs a file system with attributes: ext4, XFS or btrfs below $TMPDIR)"
        );
    }
    assert!(kept());
}

/// A version that was changed while a body arrived is not overwritten by a client that knows the one before.
#[test]
fn a_version_is_compared_when_the_body_is_there() {
    let files = Files::start("");
    let old = files.ask("PUT /exp/f", &[], b"one").expect(201);
    let etag = old.header("Etag").unwrap();
    let mut stream = files.connect();
    let head = format!(
        "PUT /exp/f HTTP/1.1\r\nHost: {}\r\nContent-Length: 4\r\nIf-Match: {etag}\r\nConnection: close\r\n\r\n",
        files.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"ab").unwrap();
    wait_for("the upload to begin", || (!files.uploads().is_empty()).then_some(()));
    files.ask("PUT /exp/f", &[], b"other").expect(200);
    stream.write_all(b"cd").unwrap();
    reply(&mut stream).expect(412);
    // Nor is it removed, moved or copied.
    let known = format!("If-Match: {etag}");
    files.ask("DELETE /exp/f", &[&known], b"").expect(412);
    files.ask("MOVE /exp/f", &[&known, "Destination: /exp/g"], b"").expect(412);
    files.ask("COPY /exp/f", &[&known, "Destination: /exp/g"], b"").expect(412);
    assert_eq!(std::fs::read_to_string(files.root.join("f")).unwrap(), "other");
}

#[test]
fn a_killed_server_leaves_no_part_of_a_file() {
    let mut files = Files::start("");
    let old = bytes(1000);
    files.ask("PUT /exp/old", &[], &old).expect(201);
    let data = bytes(6 << 20);
    let streams = [begin(&files, "old", 8 << 20, &data), begin(&files, "new", 8 << 20, &data)];
    wait_for("bytes to be written", || {
        let written =
            files.uploads().iter().filter(|path| path.metadata().is_ok_and(|of| of.len() > 0)).count();
        (written == 2).then_some(())
    });
    files.serving.kill_and_restart();
    drop(streams);
    files.address = address(&files.serving);
    assert!(files.uploads().is_empty());
    assert!(files.ask("GET /exp/old", &[], b"").expect(200).body == old);
    files.ask("GET /exp/new", &[], b"").expect(404);
    files.ask("PUT /exp/new", &[], &data).expect(201);
    assert!(files.ask("GET /exp/new", &[], b"").expect(200).body == data);
    // Two servers cannot have one root.
    let path = files.serving.site.disks[0].parent().unwrap().join("station.toml");
    let second = run(&format!("serve --config {}", path.display())).expect(2);
    assert!(second.stderr.contains("serve directory"), "{}", second.stderr);
}

#[test]
fn a_full_disk_is_507_and_nothing_stays() {
    let site = Site::new(1);
    let root = site.disks[0].parent().unwrap().join("exp");
    std::fs::create_dir(&root).unwrap();
    let Some(_mounted) = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=4m"], &root) else {
        // Only root may mount a disk that is soon full.
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    };
    let files = Files::of(site, "");
    let data = bytes(8 << 20);
    // Known before a byte is taken.
    let refused = files.ask("PUT /exp/f", &["Expect: 100-continue"], &data).expect(507);
    assert!(refused.text().contains("<D:quota-not-exceeded/>"), "{}", refused.text());
    assert_eq!(refused.header("Connection"), Some("close"), "{}", refused.head);
    // Known when it happens. Writing may fail once the server has closed.
    let mut stream = files.connect();
    let head = format!(
        "PUT /exp/f HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        files.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut copy = stream.try_clone().unwrap();
    let sent = data.clone();
    let sender = std::thread::spawn(move || {
        for part in sent.chunks(64 << 10) {
            let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            if copy.write_all(&chunk).is_err() {
                return;
            }
        }
        let _ = copy.write_all(b"0\r\n\r\n");
    });
    let full = reply(&mut stream);
    sender.join().unwrap();
    // The reply is lost where the rest of the body was on its way; what counts is what is there.
    assert!(full.status == 507 || full.status == 0, "{full:?}");
    assert!(files.uploads().is_empty());
    files.ask("GET /exp/f", &[], b"").expect(404);
    files.ask("PUT /exp/f", &[], &data[..1 << 20]).expect(201);
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let files = Files::start("");
    let outside = files.root.parent().unwrap().join("secret");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("f"), "a secret").unwrap();
    std::os::unix::fs::symlink(&outside, files.root.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.join("f"), files.root.join("file")).unwrap();
    files.ask("PUT /exp/inside", &[], b"inside").expect(201);
    let long = format!("/exp/{}", "a".repeat(300));
    let deep = format!("/exp{}", "/a".repeat(100));
    let paths = [
        "/exp/../secret/f",
        "/exp/..%2fsecret/f",
        "/exp/%2e%2e/secret/f",
        "/exp/%2e%2e%2fsecret%2ff",
        "/exp/..%5csecret/f",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/exp/..;/secret/f",
        "/exp/%252e%252e/secret/f",
        "/exp/link/f",
        "/exp/link",
        "/exp/file",
        "/exp/inside%00/f",
        "/exp/f%00",
        "/exp/f%0d%0aX:1",
        "/exp/%c0%ae%c0%ae/secret/f",
        "/exp/%ff",
        "/exp/%",
        "/exp/%zz",
        "/exp/.skyhaul-uploads",
        "/exp/.skyhaul-uploads/f",
        "/exp/%2eskyhaul-uploads/f",
        "/secret/f",
        "/recordings/../secret/f",
        "/recordings/..%2f..%2fsecret%2ff",
        "/recordings/a/b",
        &long,
        &deep,
    ];
    for path in paths {
        for method in ["GET", "HEAD", "PROPFIND", "DELETE"] {
            let reply = files.ask(&format!("{method} {path}"), &["Depth: 0"], b"");
            assert!((400..500).contains(&reply.status), "{method} {path}: {}", reply.head);
            assert!(!reply.text().contains("a secret") && !reply.text().contains("root:"), "{method} {path}");
        }
        let moved = files.ask("MOVE /exp/inside", &[&format!("Destination: {path}")], b"");
        // Names with a backslash, a semicolon or an escaped escape are ordinary; what is above them is made.
        let is_name = ["%5c", "..;", "%25"].iter().any(|odd| path.contains(odd));
        assert!(is_name || (400..500).contains(&moved.status), "MOVE to {path}: {}", moved.head);
        if is_name {
            files.ask(&format!("MOVE {path}"), &["Destination: /exp/inside"], b"").expect(201);
        } else {
            let put = files.ask(&format!("PUT {path}"), &[], b"x");
            assert!((400..500).contains(&put.status), "PUT {path}: {}", put.head);
        }
    }
    assert_eq!(std::fs::read_to_string(outside.join("f")).unwrap(), "a secret");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    let listed = files.ask("PROPFIND /exp", &["Depth: 1"], b"").expect(207).text();
    assert!(
        !listed.contains("link") && !listed.contains("uploads") && !listed.contains("/exp/file"),
        "{listed}"
    );
    assert_eq!(files.ask("GET /exp/inside", &[], b"").expect(200).body, b"inside");
}

#[test]
fn nothing_is_served_without_the_right() {
    let files = Files::start("");
    let foreign = |headers: &str| {
        let mut stream = files.connect();
        stream
            .write_all(format!("GET /exp/ HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").as_bytes())
            .unwrap();
        reply(&mut stream).status
    };
    assert_eq!(foreign("Host: localhost:8089\r\n"), 200);
    assert_eq!(foreign("Host: evil.example\r\n"), 403);
    assert_eq!(foreign("Host: localhost\r\nOrigin: http://evil.example\r\n"), 403);
    assert_eq!(foreign(&format!("Host: localhost\r\nX: {}\r\n", "x".repeat(20_000))), 431);
    drop(files);
    let site = Site::new(1);
    let token = site.disks[0].parent().unwrap().join("token");
    let files = Files::of(site, &format!("token_file = '{}'", token.display()));
    let text = std::fs::read_to_string(&token).unwrap();
    let right = format!("Authorization: Bearer {}", text.trim());
    for (headers, status) in [
        (vec![], 401),
        (vec!["Authorization: Bearer 0000000000000000"], 401),
        (vec!["Authorization: Basic dXNlcjpwYXNz"], 401),
        (vec![right.as_str()], 200),
        (vec![right.as_str(), "Origin: http://evil.example"], 200),
    ] {
        for method in ["GET", "PUT", "OPTIONS"] {
            let path = if method == "PUT" { "/exp/f" } else { "/exp/" };
            let reply = files.ask(&format!("{method} {path}"), &headers, b"x");
            let expected = if method == "PUT" && status == 200 { 200..=201 } else { status..=status };
            assert!(expected.contains(&reply.status), "{method} {headers:?}: {}", reply.head);
            assert_eq!(reply.header("Www-Authenticate"), (status == 401).then_some("Bearer"));
        }
    }
    assert!(!files.serving.job.stderr().contains(text.trim()));
    // Off loopback only with a token.
    let path = files.serving.site.disks[0].parent().unwrap().join("station.toml");
    let config = std::fs::read_to_string(&path).unwrap().replace("token_file", "#token_file");
    std::fs::write(&path, config.replace("[http]\nlisten = '127.0.0.1:0'", "[http]\nlisten = '0.0.0.0:0'"))
        .unwrap();
    let refused = run(&format!("serve --config {}", path.display())).expect(2);
    assert!(refused.stderr.contains("can be reached from other hosts"), "{}", refused.stderr);
}

#[test]
fn the_storage_resource_report_has_the_space_of_what_is_served() {
    let files = Files::start("");
    let reply = files.ask("GET /srr", &[], b"").expect(200);
    assert_eq!(reply.header("Content-Type"), Some("application/json"));
    let report: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let service = &report["storageservice"];
    let space = rustix::fs::statvfs(&files.root).unwrap();
    let online = &service["storagecapacity"]["online"];
    // The root and both disks are on one file system.
    assert_eq!(number(&online["totalsize"]), space.f_blocks * space.f_frsize);
    assert!(number(&online["usedsize"]) > 0 && number(&online["usedsize"]) < number(&online["totalsize"]));
    let shares: Vec<_> = service["storageshares"].as_array().unwrap().iter().collect();
    let names: Vec<_> = shares.iter().map(|share| share["name"].as_str().unwrap()).collect();
    assert_eq!((names, number(&shares[1]["numberoffiles"])), (vec!["exp", "recordings"], 0));
    let url = format!("http://{}/", files.address);
    assert_eq!(service["storageendpoints"][1]["endpointurl"], url);
    let head = files.ask("HEAD /srr", &[], b"").expect(200);
    assert_eq!(head.header("Content-Length"), Some(&*reply.body.len().to_string()));
    for line in ["PUT /srr", "DELETE /srr", "GET /srr/x"] {
        assert!((403..=404).contains(&files.ask(line, &[], b"").status), "{line}");
    }
    // Those who may see what is served, and nobody else.
    let site = Site::new(1);
    let token = site.disks[0].parent().unwrap().join("token");
    let guarded = Files::of(site, &format!("token_file = '{}'", token.display()));
    guarded.ask("GET /srr", &[], b"").expect(401);
    let bearer = format!("Authorization: Bearer {}", std::fs::read_to_string(&token).unwrap().trim());
    guarded.ask("GET /srr", &[&bearer], b"").expect(200);
}

/// Where nobody asks, the station sums up what it has recorded, and knows it without the data since.
#[test]
fn the_adler_32_of_a_recording_is_stored_when_it_is_closed() {
    let mut files = Files::start("");
    let serving = &files.serving;
    serving.call("station start s_a --input a").expect(0);
    let path = frames(&serving.site, "fa", 1, 4000);
    let to = serving.ports[0];
    Job::start(&words(&format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{to}", path.display())))
        .finish()
        .expect(0);
    let sent = std::fs::read(&path).unwrap();
    wait_for("all to arrive", || {
        (number(&serving.recording("s_a")["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    serving.call("station stop s_a").expect(0);
    let kept = format!("adler32={:08x}", adler32(&sent));
    let database = serving.site.disks[0].join("station_digests.db");
    wait_for("the sum to be kept", || {
        let bytes = std::fs::read(&database).ok()?;
        bytes.windows(kept.len()).any(|here| here == kept.as_bytes()).then_some(())
    });
    // The data are gone, and their length and index are not: nobody can read them.
    for disk in &serving.site.disks {
        for entry in std::fs::read_dir(disk.join("s_a")).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension != "index") {
                let bytes = std::fs::metadata(&path).unwrap().len();
                std::fs::write(&path, vec![0; bytes as usize]).unwrap();
            }
        }
    }
    files.ask("HEAD /recordings/s_a", &["Want-Digest: md5"], b"").expect(500);
    for _run in 0..2 {
        let head = files.ask("HEAD /recordings/s_a", &["Want-Digest: adler32"], b"").expect(200);
        assert_eq!(head.header("Digest"), Some(&*kept));
        files.serving.kill_and_restart();
        files.address = address(&files.serving);
    }
}

#[test]
fn recordings_are_files_with_the_bytes_of_cat() {
    let files = Files::start("");
    let serving = &files.serving;
    serving.call("station start s_a --input a").expect(0);
    let path = frames(&serving.site, "fa", 1, 4000);
    let line =
        format!("send --input {} --rate 24Mbps --to udp://127.0.0.1:{}", path.display(), serving.ports[0]);
    Job::start(&words(&line)).finish().expect(0);
    let sent = std::fs::read(&path).unwrap();
    wait_for("all to arrive", || {
        (number(&serving.recording("s_a")["received_bytes"]) >= sent.len() as u64).then_some(())
    });
    // While it is recorded, it is no file.
    files.ask("GET /recordings/s_a", &[], b"").expect(404);
    assert!(!files.ask("GET /recordings", &[], b"").expect(200).text().contains("s_a"));
    serving.call("station stop s_a").expect(0);
    assert!(serving.site.run("cat s_a").expect(0).stdout == sent);
    let want = "Want-Digest: adler32;q=0.5, crc32c";
    let got = files.ask("GET /recordings/s_a", &[want], b"").expect(200);
    assert!(got.body == sent, "{}", got.head);
    // From the checksums of its chunks; by reading.
    let crc = got.header("Digest").unwrap().strip_prefix("crc32c=").unwrap().to_owned();
    files.ask("PUT /exp/copy", &[&format!("Digest: crc32c={crc}")], &sent).expect(201);
    let adler = files.ask("HEAD /recordings/s_a", &["Want-Digest: adler32"], b"").expect(200);
    assert_eq!(adler.header("Digest").unwrap(), format!("adler32={:08x}", adler32(&sent)));
    let size = sent.len();
    for (from, to) in [(0, 1), (1031, 1033), (size / 2 - 7, size / 2 + 100_000), (size - 1, size)] {
        let range = format!("Range: bytes={from}-{}", to - 1);
        let part = files.ask("GET /recordings/s_a", &[&range], b"").expect(206);
        assert!(part.body == sent[from..to], "{range}");
    }
    let many = format!("Range: bytes=0-9,{}-{},5-6", size - 10, size - 1);
    let many = files.ask("GET /recordings/s_a", &[&many], b"").expect(206);
    let positions = [&sent[..10], &sent[size - 10..], &sent[5..7]];
    assert!(positions.iter().all(|part| many.body.windows(part.len()).any(|here| here == *part)));
    let listed = files.ask("PROPFIND /recordings", &["Depth: 1"], b"").expect(207).text();
    assert!(listed.contains("<D:href>/recordings/s_a</D:href>"), "{listed}");
    assert!(listed.contains(&format!("<D:getcontentlength>{size}</D:getcontentlength>")), "{listed}");
    for line in
        ["DELETE /recordings/s_a", "PUT /recordings/s_a", "MKCOL /recordings/x", "MOVE /recordings/s_a"]
    {
        files.ask(line, &["Destination: /exp/moved"], b"").expect(403);
    }
    files.ask("COPY /recordings/s_a", &["Destination: /exp/copied"], b"").expect(201);
    assert!(std::fs::read(files.root.join("copied")).unwrap() == sent);
    files.serving.job.signal(Signal::TERM);
    files.serving.job.finish().expect(0);
}
