//! COPY between two servers: two stations, and a station with a peer that does what it likes.

pub(crate) mod peer;

use self::peer::{Act, Peer, object};
use crate::device::Mounted;
use crate::site::{Site, wait_for};
use crate::webdav::{Files, Reply, address, adler32, bytes};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Copies may connect to this host, and end when nothing moves for long.
const INSIDE: &str = "[http.copy]\nallow = ['127.0.0.1']\n";
/// The same, soon.
const SOON: &str = "[http.copy]\nallow = ['127.0.0.1']\nstall = '2s'\n";

fn start(more: &str) -> Files {
    Files::of(Site::new(1), more)
}

impl Reply {
    /// The last line of a copy that has begun, and the text before it.
    #[track_caller]
    fn ended(&self) -> (String, String) {
        assert_eq!(self.status, 202, "{}\n{}", self.head, self.text());
        assert_eq!(self.header("Transfer-Encoding"), Some("chunked"), "{}", self.head);
        let (mut text, mut rest) = (String::new(), &self.body[..]);
        while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
            let bytes = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
            text += std::str::from_utf8(&rest[at + 2..at + 2 + bytes]).unwrap();
            rest = &rest[at + 4 + bytes..];
        }
        assert!(text.starts_with("Perf Marker\nTimestamp: ") && text.ends_with('\n'), "{text}");
        let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
        (last.to_owned(), before.to_owned())
    }

    #[track_caller]
    fn succeeded(&self) -> String {
        let (last, before) = self.ended();
        assert_eq!(last, "success: Created", "{before}");
        before
    }

    #[track_caller]
    fn failed(&self, why: &str) {
        let (last, _) = self.ended();
        assert!(last.starts_with("failure: ") && last.contains(why), "{why}: {last}");
    }
}

fn pull(files: &Files, name: &str, from: &str, more: &[&str]) -> Reply {
    let source = format!("Source: {from}");
    let headers = [&[source.as_str()], more].concat();
    files.ask(&format!("COPY /exp/{name}"), &headers, b"")
}

fn push(files: &Files, name: &str, to: &str, more: &[&str]) -> Reply {
    let destination = format!("Destination: {to}");
    let headers = [&[destination.as_str()], more].concat();
    files.ask(&format!("COPY /exp/{name}"), &headers, b"")
}

#[track_caller]
fn nothing_is_left(files: &Files, name: &str) {
    wait_for("the part to be removed", || files.uploads().is_empty().then_some(()));
    assert!(!files.root.join(name).exists());
}

/// A station with a token, and the header that shows it.
pub(crate) fn with_token(more: &str) -> (Files, String) {
    let site = Site::new(1);
    let token = site.disks[0].parent().unwrap().join("token");
    let files = Files::of(site, &format!("token_file = '{}'\n{more}", token.display()));
    let text = std::fs::read_to_string(&token).unwrap().trim().to_owned();
    (files, text)
}

#[test]
fn files_are_pulled_and_pushed_between_two_stations() {
    let ((a, token_a), (b, token_b)) = (with_token(INSIDE), with_token(INSIDE));
    let data = bytes(9_000_017);
    let (right_a, right_b) =
        (format!("Authorization: Bearer {token_a}"), format!("Authorization: Bearer {token_b}"));
    let (pass_a, pass_b) = (format!("TransferHeader{right_a}"), format!("TransferHeader{right_b}"));
    a.ask("PUT /exp/f", &[&right_a], &data).expect(201);
    let from = format!("http://{}/exp/f", a.address);
    let how = [
        "X-Number-Of-Streams: 0",
        "Credential: none",
        "RequireChecksumVerification: true",
        "X-No-Delegate: true",
    ];
    let done = pull(&b, "d/e/g", &from, &[&[right_b.as_str(), &pass_a], &how[..]].concat());
    let said = done.succeeded();
    assert!(said.contains("\nStripe Bytes Transferred: 9000017\nTotal Stripe Count: 1\n"), "{said}");
    assert!(said.contains(&format!("\nRemoteConnections: tcp:{}\nEnd\n", a.address)), "{said}");
    assert!(std::fs::read(b.root.join("d/e/g")).unwrap() == data);
    let head = b.ask("HEAD /exp/d/e/g", &[&right_b, "Want-Digest: adler32"], b"").expect(200);
    assert_eq!(head.header("Digest").unwrap(), format!("adler32={:08x}", adler32(&data)));
    // The other way; schemes of the grid.
    let to = format!("dav://{}/exp/new/p", b.address);
    let said = push(&a, "f", &to, &[&[right_a.as_str(), &pass_b], &how[..]].concat()).succeeded();
    assert!(said.contains("\nStripe Bytes Transferred: 9000017\n"), "{said}");
    assert!(std::fs::read(b.root.join("new/p")).unwrap() == data);
    // Files without a byte.
    a.ask("PUT /exp/empty", &[&right_a], b"").expect(201);
    pull(&b, "empty", &format!("http://{}/exp/empty", a.address), &[&right_b, &pass_a]).succeeded();
    push(&a, "empty", &format!("http://{}/exp/empty2", b.address), &[&right_a, &pass_b]).succeeded();
    assert!(["empty", "empty2"].iter().all(|name| std::fs::read(b.root.join(name)).unwrap().is_empty()));
    refusals_between_stations((&a, &right_a, &pass_a), (&b, &right_b, &pass_b), &from);
    // No token is in what a server says.
    for files in [&a, &b] {
        let said = files.serving.job.stderr();
        assert!(!said.contains(&token_a) && !said.contains(&token_b), "{said}");
    }
}

type Station<'a> = (&'a Files, &'a str, &'a str);

/// What is refused, before 202 and with a reason, has changed nothing.
fn refusals_between_stations(
    (a, right_a, pass_a): Station<'_>,
    (b, right_b, pass_b): Station<'_>,
    from: &str,
) {
    let data = std::fs::read(b.root.join("d/e/g")).unwrap();
    let wrong = "TransferHeaderAuthorization: Bearer 0000000000000000";
    let denied = pull(b, "x", from, &[right_b, wrong]).expect(403).text();
    assert!(denied.contains("Permission denied: the source") && denied.contains("answered 401"), "{denied}");
    let denied = pull(b, "x", from, &[right_b]).expect(403).text();
    assert!(denied.contains("answered 401 Unauthorized"), "{denied}");
    pull(b, "x", from, &[pass_a]).expect(401);
    let none = pull(b, "x", &format!("{from}none"), &[right_b, pass_a]).expect(404).text();
    assert!(none.contains("No such file or directory: the source"), "{none}");
    let exists = pull(b, "d/e/g", from, &[right_b, pass_a, "Overwrite: F"]).expect(412).text();
    assert!(exists.contains("File exists"), "{exists}");
    let to = format!("http://{}/exp/d/e/g", b.address);
    let exists = push(a, "f", &to, &[right_a, pass_b, "Overwrite: F"]).expect(412).text();
    assert!(exists.contains("File exists at the destination"), "{exists}");
    push(a, "none", &to, &[right_a, pass_b]).expect(404);
    push(a, "", &to, &[right_a, pass_b]).expect(404);
    push(a, "f", &to, &[right_a, wrong]).failed("Permission denied: the destination");
    // Below a file: known before for a pull, and from the destination for a push.
    pull(b, "d/e/g/below", from, &[right_b, pass_a]).expect(409);
    push(a, "f", &format!("{to}/below"), &[right_a, pass_b]).failed("answered 409");
    pull(b, "x", from, &[right_b, pass_a, "Digest: adler32=1"]).expect(412);
    for (source, more, status) in [
        (from, "Destination: /exp/y", 400),
        (from, "Credential: gridsite", 400),
        (from, "X-Number-Of-Streams: 1000", 400),
        (from, "Overwrite: maybe", 400),
        (from, "TransferHeaderHost: other", 400),
        ("gsiftp://a.example/f", "X: 1", 400),
        ("https://user:secret@a.example/f", "X: 1", 400),
    ] {
        let refused = pull(b, "x", source, &[right_b, pass_a, more]).expect(status).text();
        assert!(!refused.contains("secret"), "{refused}");
    }
    assert!(!b.root.join("x").exists() && b.uploads().is_empty());
    assert!(std::fs::read(b.root.join("d/e/g")).unwrap() == data);
    // A URL of the server itself is copied inside it.
    let own = format!("http://{}/exp/d/e/g", b.address);
    pull(b, "own", &own, &[right_b]).expect(201);
    assert!(std::fs::read(b.root.join("own")).unwrap() == data);
}

#[test]
fn a_source_that_breaks_its_word_leaves_nothing() {
    // The clocks are short only for what shall stall: the machine may be busy.
    let (files, soon) = (start(INSIDE), start(SOON));
    for files in [&files, &soon] {
        files.ask("PUT /exp/old", &[], b"old").expect(201);
    }
    let body = [7; 1000];
    let length = "Content-Length: 1000\r\n";
    let fake = |answer: fn(&str, &[u8]) -> Act| Peer::start(move |head| answer(head, &[7; 1000]));
    let cases: [(&str, Peer); 12] = [
        (
            "no progress in 2s",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::Hold(object(head, "Content-Length: 1000\r\n", &body[..999])),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
        (
            "no data in 4s",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::Hold(object(head, "Content-Length: 1000\r\n", b"")),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
        (
            "less than 10240 B/s",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::Trickle(object(head, "Content-Length: 1000000\r\n", b"")),
                false => Act::Say(object(head, "Content-Length: 1000000\r\n", body)),
            }),
        ),
        (
            "Remote I/O error: the source: the body ended",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::End(object(head, "Content-Length: 1000\r\n", &body[..999])),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
        // It says another size when it sends; sends fewer bytes than it said, or more.
        (
            "the source changed",
            fake(|head, body| {
                let length = if head.starts_with("GET") { 999 } else { 1000 };
                Act::Say(object(head, &format!("Content-Length: {length}\r\n"), &body[1..]))
            }),
        ),
        (
            "announced 1000 bytes and sent 999",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::End(object(head, "Connection: close\r\n", &body[..999])),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
        (
            "announced 1000 bytes and sent 1001",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::End(object(head, "Connection: close\r\n", &[body, b"x"].concat())),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
        // Another version, in another place of its head.
        (
            "the source changed",
            fake(|head, body| {
                let version = if head.starts_with("GET") { 2 } else { 1 };
                Act::Say(object(head, &format!("ETag: \"{version}\"\r\nContent-Length: 1000\r\n"), body))
            }),
        ),
        (
            "CHECKSUM MISMATCH: adler32",
            fake(|head, body| {
                Act::Say(object(head, "Digest: adler32=00000001\r\nContent-Length: 1000\r\n", body))
            }),
        ),
        (
            "answered 206",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::Say([b"HTTP/1.1 206 Partial\r\nContent-Length: 1000\r\n\r\n", body].concat()),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
        // Nothing says how long it is, and the connection ends: the rest may be missing.
        (
            "neither the length",
            fake(|head, body| Act::End(object(head, "Connection: close\r\n", &body[..999]))),
        ),
        (
            "Remote I/O error: the source 127.0.0.1",
            fake(|head, body| match head.starts_with("GET") {
                true => Act::End(b"this is not HTTP\r\n\r\n".to_vec()),
                false => Act::Say(object(head, "Content-Length: 1000\r\n", body)),
            }),
        ),
    ];
    std::thread::scope(|scope| {
        for (at, (why, peer)) in cases.iter().enumerate() {
            let files = if at < 3 { &soon } else { &files };
            scope.spawn(move || {
                pull(files, &format!("new{at}"), &peer.url(), &[]).failed(why);
                if at % 2 == 0 {
                    pull(files, "old", &peer.url(), &[]).failed(why);
                }
                assert!(!files.root.join(format!("new{at}")).exists(), "{why}");
            });
        }
    });
    // The same bytes, from a source that keeps its word.
    let peer = Peer::start(move |head| Act::Say(object(head, length, &body)));
    for files in [&files, &soon] {
        assert_eq!(std::fs::read(files.root.join("old")).unwrap(), b"old");
    }
    pull(&files, "old", &peer.url(), &[]).succeeded();
    assert_eq!(std::fs::read(files.root.join("old")).unwrap(), body);
    nothing_is_left(&files, "new0");
}

/// The answer of a source that sends ranges of these bytes.
pub(crate) fn ranged(head: &str, data: &[u8], more: &str) -> Vec<u8> {
    let size = data.len();
    let Some(range) = head.split("Range: bytes=").nth(1).filter(|_| head.starts_with("GET")) else {
        return format!("HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\n{more}Content-Length: {size}\r\n\r\n")
            .into_bytes();
    };
    let (from, to) = range.lines().next().unwrap().split_once('-').unwrap();
    // As much of it as there is.
    let to = to.parse::<usize>().unwrap().min(size - 1);
    let part = &data[from.parse().unwrap()..=to];
    let head = format!(
        "HTTP/1.1 206 Partial\r\n{more}Content-Range: bytes {from}-{to}/{size}\r\nContent-Length: {}\r\n\r\n",
        part.len()
    );
    [head.as_bytes(), part].concat()
}

#[test]
fn a_file_comes_in_several_streams_in_order() {
    const SIZE: usize = 41_000_003;
    const STREAMS: &[&str] = &["X-Number-Of-Streams: 3"];
    let (files, soon) = (start(INSIDE), start(SOON));
    let data = bytes(SIZE);
    // Of a station, and of a peer that tells what it was asked for: five parts, on three connections.
    let source = start("");
    source.ask("PUT /exp/f", &[], &data).expect(201);
    let url = format!("http://{}/exp/f", source.address);
    pull(&files, "f", &url, &["X-Number-Of-Streams: 100", "RequireChecksumVerification: true"]).succeeded();
    assert!(std::fs::read(files.root.join("f")).unwrap() == data);
    let all = Arc::new(data);
    let of = Arc::clone(&all);
    let peer = Peer::start(move |head| Act::Say(ranged(head, &of, "ETag: \"1\"\r\n")));
    let said = pull(&files, "g", &peer.url(), STREAMS).succeeded();
    assert!(said.contains(&format!("Stripe Bytes Transferred: {SIZE}\n")), "{said}");
    assert!(std::fs::read(files.root.join("g")).unwrap() == *all);
    let mut ranges: Vec<String> = peer
        .heads()
        .iter()
        .filter(|head| head.starts_with("GET"))
        .map(|head| head.split("Range: bytes=").nth(1).unwrap().lines().next().unwrap().to_owned())
        .collect();
    ranges.sort_by_key(|range| range.split('-').next().unwrap().parse::<usize>().unwrap());
    let starts: Vec<usize> = (0..5).map(|at| at * (8 << 20)).chain([SIZE]).collect();
    let expected: Vec<String> = starts.windows(2).map(|two| format!("{}-{}", two[0], two[1] - 1)).collect();
    assert_eq!(ranges, expected);
    // A source that does something else with the second part.
    type Second = fn(&str, &[u8]) -> Act;
    let cases: [(&str, Second); 6] = [
        ("answered 200", |_, data| {
            Act::Say([format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes(), data].concat())
        }),
        ("does not send the range bytes=8388608-16777215", |head, data| {
            Act::Say(ranged(&head.replace("8388608-16777215", "0-8388607"), data, ""))
        }),
        ("the source changed", |head, data| Act::Say(ranged(head, data, "ETag: \"2\"\r\n"))),
        // It breaks off each time that it is asked again.
        ("Remote I/O error: the source", |head, data| {
            let reply = ranged(head, data, "");
            let body = reply.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            Act::End(reply[..body].to_vec())
        }),
        ("no progress in 2s", |head, data| Act::Hold(ranged(head, data, "")[..1_000_000].to_vec())),
        ("sends less than the range", |_, data| {
            Act::Say([format!("HTTP/1.1 206 Partial\r\nContent-Range: bytes 8388608-16777215/{SIZE}\r\nContent-Length: 1000\r\n\r\n").as_bytes(), &data[..1000]].concat())
        }),
    ];
    for (at, (why, second)) in cases.into_iter().enumerate() {
        let of = Arc::clone(&all);
        let peer = Peer::start(move |head| match head.contains("Range: bytes=8388608-") {
            true => second(head, &of),
            false => Act::Say(ranged(head, &of, "ETag: \"1\"\r\n")),
        });
        let files = if why.contains("no progress") { &soon } else { &files };
        pull(files, &format!("new{at}"), &peer.url(), STREAMS).failed(why);
        nothing_is_left(files, &format!("new{at}"));
    }
}

/// The rest of what a broken connection has not sent is asked for, in one stream and in several, and only of the same file.
#[test]
fn a_pull_whose_connection_breaks_resumes() {
    const SIZE: usize = 20_000_003;
    let files = start(INSIDE);
    let data = Arc::new(bytes(SIZE));
    for (streams, later, why) in [
        ("X-Number-Of-Streams: 1", "ETag: \"1\"\r\n", None),
        ("X-Number-Of-Streams: 3", "ETag: \"1\"\r\n", None),
        ("X-Number-Of-Streams: 1", "ETag: \"2\"\r\n", Some("the source changed")),
        ("X-Number-Of-Streams: 3", "ETag: \"2\"\r\n", Some("the source changed")),
    ] {
        let (of, broken) = (Arc::clone(&data), Mutex::new(0));
        let peer = Peer::start(move |head| {
            let mut broken = broken.lock().unwrap();
            if head.starts_with("HEAD") {
                return Act::Say(ranged(head, &of, "ETag: \"1\"\r\n"));
            }
            // The first three break: after a megabyte, without a byte, and after two.
            let after = [1_000_000, 0, 2_000_000].get(*broken).copied();
            let version = if *broken == 0 { "ETag: \"1\"\r\n" } else { later };
            *broken += 1;
            let whole = match head.contains("Range: bytes=") {
                true => ranged(head, &of, version),
                false => object(head, &format!("{version}Content-Length: {SIZE}\r\n"), &of),
            };
            let body = whole.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            match after {
                Some(after) => Act::End(whole[..whole.len().min(body + after)].to_vec()),
                None => Act::Say(whole),
            }
        });
        let reply = pull(&files, "f", &peer.url(), &[streams]);
        if let Some(why) = why {
            reply.failed(why);
            nothing_is_left(&files, "f");
            continue;
        }
        let said = reply.succeeded();
        assert!(said.contains(&format!("Stripe Bytes Transferred: {SIZE}\n")), "{said}");
        assert!(std::fs::read(files.root.join("f")).unwrap() == *data);
        // It went on where it broke, within a part.
        let heads = peer.heads();
        let starts = heads
            .iter()
            .filter_map(|head| head.split("Range: bytes=").nth(1)?.split('-').next()?.parse::<u64>().ok());
        assert!(starts.filter(|start| start % (8 << 20) > 0).count() >= 2, "{heads:?}");
        std::fs::remove_file(files.root.join("f")).unwrap();
    }
}

/// A server may close a connection whenever nothing is asked, and so while something is.
#[test]
fn what_a_closed_connection_has_not_answered_is_asked_again() {
    let files = start(INSIDE);
    let is_closed = Mutex::new(false);
    let peer = Peer::start(move |head| {
        let closes = head.starts_with("GET") && !std::mem::replace(&mut *is_closed.lock().unwrap(), true);
        if closes {
            return Act::End(Vec::new());
        }
        Act::Say(object(head, "Content-Length: 3\r\n", b"new"))
    });
    pull(&files, "y", &peer.url(), &[]).succeeded();
    assert_eq!((peer.count("GET"), std::fs::read(files.root.join("y")).unwrap()), (2, b"new".to_vec()));
    // One that was new is not: it may never answer.
    let silent = Peer::start(|head| match head.starts_with("GET") {
        true => Act::End(Vec::new()),
        false => Act::End(object(head, "Content-Length: 3\r\nConnection: close\r\n", b"new")),
    });
    pull(&files, "z", &silent.url(), &[]).failed("Remote I/O error: the source");
    assert_eq!(silent.count("GET"), 1);
}

#[test]
fn what_a_source_says_before_is_the_status() {
    let files = start(INSIDE);
    let looping = Peer::start(|_| {
        Act::Say(b"HTTP/1.1 307 Again\r\nLocation: /g\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let text = pull(&files, "x", &looping.url(), &[]).expect(502).text();
    assert!(
        text.contains("Too many redirects") && looping.count("HEAD") == 11,
        "{text} {:?}",
        looping.heads()
    );
    // A body of a refusal is repeated, without what the client passed on and without the query.
    let token = "TransferHeaderAuthorization: Bearer abcdefgh12345678";
    let echo = Peer::start(|head| {
        let token =
            head.lines().find_map(|line| line.strip_prefix("Authorization: ")).unwrap_or("none").to_owned();
        let body = format!("not for {token} or {}", head.lines().next().unwrap());
        Act::Say(format!("HTTP/1.1 403 No\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    });
    let reply = pull(&files, "x", &format!("{}?authz=querysecret", echo.url()), &[token]).expect(403);
    // HEAD has no body to repeat; what is said is the status.
    assert!(!reply.text().contains("abcdefgh") && !reply.text().contains("querysecret"), "{}", reply.text());
    assert!(echo.heads()[0].contains("\r\nAuthorization: Bearer abcdefgh12345678\r\n"), "{:?}", echo.heads());
    assert!(echo.heads()[0].starts_with("HEAD /f?authz=querysecret HTTP/1.1\r\n"), "{:?}", echo.heads());
    let echo = Peer::start(|head| {
        if head.starts_with("HEAD") {
            return Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n".to_vec());
        }
        let body = format!("<p>Not for {}\n{}</p>", head.split("Authorization: ").nth(1).unwrap(), head);
        Act::Say(format!("HTTP/1.1 500 No\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    });
    let reply = pull(&files, "x", &format!("{}?authz=querysecret", echo.url()), &[token]);
    reply.failed("answered 500 Internal Server Error: <p>Not for Bearer … ");
    assert!(!reply.text().contains("abcdefgh") && !reply.text().contains("querysecret"), "{}", reply.text());
    // A token goes to the server that it is for, and to no other.
    let data = bytes(10);
    let end = Peer::start(move |head| Act::Say(object(head, "Content-Length: 10\r\n", &bytes(10))));
    let to = end.url();
    let first = Peer::start(move |_| {
        Act::Say(format!("HTTP/1.1 302 There\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    pull(&files, "led", &first.url(), &[token]).succeeded();
    assert!(std::fs::read(files.root.join("led")).unwrap() == data);
    assert!(first.heads().iter().all(|head| head.contains("Authorization: Bearer")), "{:?}", first.heads());
    assert!(!end.heads().iter().any(|head| head.contains("Authorization")), "{:?}", end.heads());
    // A checksum that must be compared, and none there is.
    pull(&files, "x", &end.url(), &["RequireChecksumVerification: true"]).expect(412);
    // Nobody listens.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = pull(&files, "x", &format!("http://{port}/f"), &[]).expect(502).text();
    assert!(text.contains("Connection refused"), "{text}");
    let text = pull(&files, "x", "http://no.such.host.invalid/f", &[]).expect(502).text();
    assert!(text.contains("Name or service not known"), "{text}");
    // HTTP where TLS is expected.
    let plain = format!("https://{}/exp/f", files.address.replace("127.0.0.1", "localhost"));
    let text = pull(&files, "x", &plain, &[]).expect(502).text();
    assert!(text.contains("TLS"), "{text}");
    nothing_is_left(&files, "x");
}

#[test]
fn addresses_inside_are_not_connected_to() {
    let object = |head: &str| Act::Say(object(head, "Content-Length: 1\r\n", b"x"));
    let (inside, other) = (Peer::start(object), Peer::at(Ipv4Addr::new(127, 0, 0, 2), object));
    let port = inside.address.port();
    let files = start("");
    files.ask("PUT /exp/f", &[], b"f").expect(201);
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "[fd00::1]",
        "[fe80::1]",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let url = format!("http://{host}:{port}/f");
        for reply in [pull(&files, "x", &url, &[]), push(&files, "f", &url, &[])] {
            let text = reply.expect(403).text();
            assert!(
                text.contains("Permission denied") && text.contains("no copies are allowed"),
                "{url}: {text}"
            );
        }
    }
    assert!(inside.heads().is_empty(), "{:?}", inside.heads());
    drop(files);
    // What is allowed does not lead to what is not.
    let files = start(INSIDE);
    pull(&files, "x", &format!("http://localhost:{port}/f"), &[]).succeeded();
    let to = other.url();
    let lead = Peer::start(move |head| match head.contains(" /f ") {
        true => Act::Say(
            format!("HTTP/1.1 307 There\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        ),
        false => {
            Act::Say(b"HTTP/1.1 307 There\r\nLocation: http://[::1]:1/\r\nContent-Length: 0\r\n\r\n".to_vec())
        }
    });
    pull(&files, "y", &lead.url(), &[]).expect(403);
    pull(&files, "y", &lead.url().replace("/f", "/g"), &[]).expect(403);
    assert!(other.heads().is_empty());
    nothing_is_left(&files, "y");
}

/// Reads a reply until it has so many markers.
fn markers(stream: &mut TcpStream, count: usize) -> String {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    while String::from_utf8_lossy(&text).matches("Perf Marker").count() < count {
        let bytes = stream.read(&mut part).unwrap();
        assert!(bytes > 0, "{}", String::from_utf8_lossy(&text));
        text.extend(&part[..bytes]);
    }
    String::from_utf8(text).unwrap()
}

fn ask_and_wait(files: &Files, name: &str, header: &str, count: usize) -> (TcpStream, String) {
    let mut stream = files.connect();
    let head = format!("COPY /exp/{name} HTTP/1.1\r\nHost: {}\r\n{header}\r\n\r\n", files.address);
    stream.write_all(head.as_bytes()).unwrap();
    let text = markers(&mut stream, count);
    (stream, text)
}

#[test]
fn a_copy_ends_with_its_client() {
    let files = start(INSIDE);
    files.ask("PUT /exp/big", &[], &bytes(40 << 20)).expect(201);
    let source = Peer::start(|head| match head.starts_with("GET") {
        true => Act::Hold(object(head, "Content-Length: 9000000\r\n", &bytes(2 << 20))),
        false => Act::Say(object(head, "Content-Length: 9000000\r\n", b"")),
    });
    // A marker comes although nothing moves.
    let (stream, text) = ask_and_wait(&files, "x", &format!("Source: {}", source.url()), 2);
    assert!(text.contains("Stripe Bytes Transferred: 2097152"), "{text}");
    assert_eq!(files.uploads().len(), 1);
    drop(stream);
    wait_for("the source to be left", || source.heads().contains(&"closed".to_owned()).then_some(()));
    nothing_is_left(&files, "x");
    // What a destination has kept of a push is removed.
    let has_begun = Arc::new(Mutex::new(false));
    let begun = Arc::clone(&has_begun);
    let destination = Peer::start(move |head| match head.split(' ').next().unwrap() {
        "PUT" => {
            *begun.lock().unwrap() = true;
            Act::Hold(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())
        }
        "HEAD" if *begun.lock().unwrap() => {
            Act::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec())
        }
        "HEAD" => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
        _ => Act::Say(b"HTTP/1.1 204 Gone\r\n\r\n".to_vec()),
    });
    let (mut stream, _) = ask_and_wait(&files, "big", &format!("Destination: {}", destination.url()), 1);
    wait_for("the body to begin", || (*has_begun.lock().unwrap()).then_some(()));
    // Nothing is removed if none of the body was sent.
    while markers(&mut stream, 1).contains("Stripe Bytes Transferred: 0\n") {}
    drop(stream);
    wait_for("the part to be removed", || (destination.count("DELETE") == 1).then_some(()));
    // A server that is killed leaves nothing of what it pulled, and its client without a result.
    let mut files = files;
    let (mut stream, _) = ask_and_wait(&files, "x", &format!("Source: {}", source.url()), 1);
    wait_for("bytes to be written", || (!files.uploads().is_empty()).then_some(()));
    files.serving.kill_and_restart();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("success"));
    files.address = address(&files.serving);
    nothing_is_left(&files, "x");
    let peer = Peer::start(|head| Act::Say(object(head, "Content-Length: 3\r\n", b"new")));
    pull(&files, "x", &peer.url(), &[]).succeeded();
}

/// The other server is killed while it sends, and while it receives.
#[test]
fn a_peer_that_is_killed_leaves_nothing() {
    let (mut other, files) = (start(""), start(INSIDE));
    for root in [&other.root, &files.root] {
        std::fs::File::create(root.join("big")).unwrap().set_len(2 << 30).unwrap();
    }
    let has_bytes =
        |files: &Files| files.uploads().iter().any(|path| path.metadata().is_ok_and(|of| of.len() > 0));
    for side in ["Source", "Destination"] {
        // Nobody reads the file for a checksum first.
        let header =
            format!("{side}: http://{}/exp/big\r\nRequireChecksumVerification: false", other.address);
        let (mut stream, _) = ask_and_wait(&files, "big", &header, 1);
        let writes = if side == "Source" { &files } else { &other };
        wait_for("bytes to arrive", || has_bytes(writes).then_some(()));
        other.serving.kill_and_restart();
        other.address = address(&other.serving);
        let mut rest = String::new();
        let (mut part, mut is_over) = ([0; 4096], false);
        while !is_over {
            let bytes = stream.read(&mut part).unwrap();
            rest += &String::from_utf8_lossy(&part[..bytes]);
            is_over = bytes == 0 || rest.contains("success") || rest.ends_with("0\r\n\r\n");
        }
        let why = format!("failure: Remote I/O error: the {}", side.to_lowercase());
        assert!(rest.contains(&why), "{rest}");
        assert!(files.uploads().is_empty(), "{side}");
        // What arrived of a push has no name, and waits for the next push of the same bytes.
        assert!(other.uploads().len() <= usize::from(side == "Destination"), "{side}");
        assert_eq!(std::fs::metadata(files.root.join("big")).unwrap().len(), 2 << 30, "{side}");
        assert_eq!(
            other.ask("HEAD /exp/big", &[], b"").expect(200).header("Content-Length"),
            Some("2147483648")
        );
    }
}

#[test]
fn a_destination_that_fails_is_told_and_cleaned() {
    let (files, soon) = (start(INSIDE), start(SOON));
    for files in [&files, &soon] {
        files.ask("PUT /exp/f", &[], &bytes(3 << 20)).expect(201);
    }
    const LEAVE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    const MADE: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    // What it answers to PUT; what it says that it has then; how the copy ends, and whether it is asked to remove something.
    type Case = (fn() -> Act, &'static str, &'static str, usize);
    let cases: [Case; 10] = [
        (
            || Act::Say(b"HTTP/1.1 507 Full\r\nContent-Length: 4\r\n\r\nfull".to_vec()),
            "404 None",
            "No space left on device: the destination",
            0,
        ),
        (
            || Act::Say(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "404 None",
            "Permission denied",
            0,
        ),
        (
            || Act::Take(LEAVE, 1 << 20, ""),
            "200 OK\r\nContent-Length: 1048576",
            "Remote I/O error: the destination",
            1,
        ),
        (|| Act::Take(LEAVE, 1 << 20, ""), "404 None", "Remote I/O error: the destination", 0),
        (
            || Act::Take(LEAVE, 3 << 20, MADE),
            "200 OK\r\nContent-Length: 0",
            "3145728 bytes were sent, and the destination has 0",
            1,
        ),
        (
            || Act::Take(LEAVE, 3 << 20, MADE),
            "200 OK\r\nDigest: adler32=00000001\r\nContent-Length: 3145728",
            "CHECKSUM MISMATCH: adler32=",
            1,
        ),
        (|| Act::Take(LEAVE, 3 << 20, MADE), "404 None", "No such file or directory", 0),
        (|| Act::Hold(LEAVE.into()), "404 None", "no answer in 10s", 0),
        // Another client was faster: what is there is not of this copy.
        (
            || Act::Take(LEAVE, 3 << 20, "HTTP/1.1 412 Not now\r\nContent-Length: 0\r\n\r\n"),
            "200 OK\r\nContent-Length: 3145728",
            "412",
            0,
        ),
        (
            || Act::Take(LEAVE, 1 << 20, ""),
            "200 OK\r\nContent-Length: 3145729",
            "Remote I/O error: the destination",
            0,
        ),
    ];
    std::thread::scope(|scope| {
        for (put, after, why, removed) in cases {
            let files = if why.contains("no answer") { &soon } else { &files };
            scope.spawn(move || {
                let is_put = Mutex::new(false);
                let peer = Peer::start(move |head| match head.split(' ').next().unwrap() {
                    "PUT" => {
                        *is_put.lock().unwrap() = true;
                        put()
                    }
                    "HEAD" if *is_put.lock().unwrap() => {
                        Act::Say(format!("HTTP/1.1 {after}\r\n\r\n").into_bytes())
                    }
                    "HEAD" => Act::Say(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec()),
                    _ => Act::Say(b"HTTP/1.1 204 Gone\r\n\r\n".to_vec()),
                });
                push(files, "f", &peer.url(), &[]).failed(why);
                assert_eq!(peer.count("DELETE"), removed, "{why}: {:?}", peer.heads());
                let put = peer.heads().into_iter().find(|head| head.starts_with("PUT")).unwrap();
                assert!(
                    put.contains("\r\nExpect: 100-continue\r\n")
                        && put.contains("\r\nContent-Length: 3145728\r\n"),
                    "{put}"
                );
            });
        }
    });
}

#[test]
fn copies_are_limited_and_a_full_disk_is_507() {
    let site = Site::new(1);
    let root = site.disks[0].parent().unwrap().join("exp");
    std::fs::create_dir(&root).unwrap();
    let mounted = Mounted::new(Path::new("tmpfs"), &["-t", "tmpfs", "-o", "size=4m"], &root);
    let files = Files::of(site, "[http.copy]\nallow = ['127.0.0.1']\nper_host = 1\n");
    let holding = Peer::start(|head| match head.starts_with("GET") {
        true => Act::Hold(object(head, "Content-Length: 9000\r\n", b"x")),
        false => Act::Say(object(head, "Content-Length: 9000\r\n", b"")),
    });
    let (stream, _) = ask_and_wait(&files, "x", &format!("Source: {}", holding.url()), 1);
    let refused = pull(&files, "y", &holding.url(), &[]).expect(429);
    assert!(refused.text().contains("Too many copies: 1 with 127.0.0.1 run"), "{}", refused.text());
    assert_eq!(refused.header("Retry-After"), Some("10"), "{}", refused.head);
    drop(stream);
    let small = Peer::start(|head| Act::Say(object(head, "Content-Length: 3\r\n", b"new")));
    wait_for("the place to be free", || (pull(&files, "y", &small.url(), &[]).status == 202).then_some(()));
    nothing_is_left(&files, "x");
    if mounted.is_none() {
        // Only root may mount a disk that is soon full.
        return println!("SKIPPED: a small file system (needs root, to mount a tmpfs)");
    }
    // Known before.
    let big = Peer::start(|head| Act::Say(object(head, "Content-Length: 9000000\r\n", &bytes(9_000_000))));
    let refused = pull(&files, "x", &big.url(), &[]).expect(507);
    assert!(refused.text().contains("<D:quota-not-exceeded/>"), "{}", refused.text());
    // Known when it happens.
    let unknown = Peer::start(|head| {
        let chunk = [b"895440\r\n", &bytes(9_000_000)[..], b"\r\n0\r\n\r\n"].concat();
        Act::End(object(head, "Transfer-Encoding: chunked\r\n", &chunk))
    });
    wait_for("the place to be free", || {
        let reply = pull(&files, "x", &unknown.url(), &[]);
        (reply.status == 202).then(|| reply.failed("No space left on device"))
    });
    nothing_is_left(&files, "x");
}
