//! Files sent by the kernel below HTTP: a service with one file, and clients that write their requests by hand.

use super::*;
use crate::http::{Carries, Connection, HttpServer, HttpService};
use crate::tcp_service::Connections;
use crate::webdav::access_log::AccessLogOptions;
use crate::webdav::counted_body::counted_reply;
use crate::webdav::ledger::AccessLedger;
use axum::body::Body;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::{Extension, Router};
use skyhaul::line_log::Retention;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;

const MIB: usize = 1 << 20;
/// Maximum time that a client waits.
const LIMIT: Duration = Duration::from_secs(120);

/// A service that sends ranges of a file: `/FROM-TO`, or several of them with a text before each, `/FROM-TO,FROM-TO`.
struct Service {
    server: Option<HttpServer>,
    directory: TempDir,
    ledger: Arc<AccessLedger>,
}

/// Bytes that do not repeat.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn response(connection: &Connection, file: &Arc<File>, path: &str) -> Response {
    let mut parts = VecDeque::new();
    for range in path.trim_start_matches('/').split(',') {
        let (from, to) = range.split_once('-').unwrap();
        if path.contains(',') {
            parts.push_back(Part::Text(Bytes::from(format!("[{range}]"))));
        }
        parts.push_back(Part::Range(from.parse().unwrap()..to.parse().unwrap()));
    }
    assert!(SentBody::suits(&parts), "{path}");
    let size: u64 = parts.iter().map(Part::bytes).sum();
    let body = SentBody::new(connection.files().unwrap(), file, (parts, size), || {});
    let head = Response::builder().header("Content-Length", size);
    head.body(Body::new(body)).unwrap()
}

impl Service {
    /// With a file of so many bytes.
    fn start(size: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), bytes(size)).unwrap();
        let file = Arc::new(File::open(directory.path().join("file")).unwrap());
        let log = AccessLogOptions {
            file: directory.path().join("log"),
            keep: Retention { bytes: 1 << 20, files: 1, age: None },
        };
        let ledger = AccessLedger::open(Some(&log)).unwrap();
        let entries = Arc::clone(&ledger);
        let answer = move |Extension(connection): Extension<Arc<Connection>>, uri: Uri| {
            let entry = entries.enter(connection.peer, &Method::GET, uri.path());
            let response = response(&connection, &file, uri.path());
            let files = connection.files().cloned();
            async move { counted_reply(response, entry, files) }
        };
        let site = HttpService {
            name: "sent-test",
            carries: Carries::Files,
            router: Router::new().fallback(answer),
            tls: None,
            clients: None,
            peers: None,
            connections: Connections::with(1024, 1024),
            marker: None,
        };
        let server = HttpServer::start(site, "127.0.0.1:0".parse().unwrap(), std::future::pending).unwrap();
        Self { server: Some(server), directory, ledger }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    /// A connection on which these were asked for.
    fn ask(&self, paths: &[&str]) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.as_ref().unwrap().address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let heads: String =
            paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        stream.write_all(heads.as_bytes()).unwrap();
        stream
    }

    /// The lines of the log, when as many requests are over.
    fn lines(&self, count: usize) -> Vec<serde_json::Value> {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            if text.ends_with('\n') && text.lines().count() >= count {
                return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            assert!(begun.elapsed() < LIMIT, "{text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.server.take());
        self.ledger.close();
    }
}

/// The next reply: the length that it announces.
fn head(stream: &mut TcpStream) -> usize {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap()
}

fn body(stream: &mut TcpStream) -> Vec<u8> {
    let mut body = vec![0; head(stream)];
    stream.read_exact(&mut body).unwrap();
    body
}

/// All that comes until the connection ends, in order or not.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), vec![0; MIB]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(bytes) => all.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn requests_in_a_row_have_their_bytes_whatever_their_ranges_are() {
    let data = bytes(21 * MIB + 17);
    let service = Service::start(data.len());
    let whole = format!("/0-{}", data.len());
    let paths =
        [whole.as_str(), "/5-100000", "/70000-140000,1-3000001,9000000-9070001", "/100-70001", &whole];
    // One after the other, and all asked for at once.
    let mut one = service.ask(&[]);
    let mut all = service.ask(&paths);
    for path in paths {
        let mut expected = Vec::new();
        for range in path[1..].split(',') {
            let (from, to) = range.split_once('-').unwrap();
            if path.contains(',') {
                expected.extend(format!("[{range}]").bytes());
            }
            expected.extend_from_slice(&data[from.parse().unwrap()..to.parse().unwrap()]);
        }
        one.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        for stream in [&mut one, &mut all] {
            assert!(body(stream) == expected, "{path}");
        }
    }
    let lines = service.lines(2 * paths.len());
    assert!(lines.iter().all(|line| line["complete"] == true), "{lines:?}");
    let sent: u64 = lines.iter().map(|line| line["sent_bytes"].as_u64().unwrap()).sum();
    let ranges = (2 * data.len() + 99_995 + 70_000 + 3_000_000 + 70_001 + 69_901) as u64;
    let texts = "[70000-140000][1-3000001][9000000-9070001]".len() as u64;
    assert_eq!(sent, 2 * (ranges + texts));
}

#[test]
fn a_file_that_becomes_shorter_ends_the_connection_and_is_never_filled_up() {
    let data = bytes(64 * MIB);
    let service = Service::start(data.len());
    let mut stream = service.ask(&[&format!("/0-{}", data.len())]);
    assert_eq!(head(&mut stream), data.len());
    // The buffers on the way hold less than half of it.
    let mut got = vec![0; MIB];
    stream.read_exact(&mut got).unwrap();
    std::fs::OpenOptions::new().write(true).open(service.path()).unwrap().set_len(48 << 20).unwrap();
    got.extend(rest(&mut stream));
    assert!(got.len() <= 48 * MIB && got == data[..got.len()], "{} bytes", got.len());
    let line = &service.lines(1)[0];
    assert_eq!(line["complete"], false, "{line}");
    assert!(line["sent_bytes"].as_u64().unwrap() <= 48 << 20, "{line}");
}

#[test]
fn a_range_whose_end_is_gone_is_not_complete() {
    let service = Service::start(2 * MIB);
    std::fs::OpenOptions::new().write(true).open(service.path()).unwrap().set_len(100_000).unwrap();
    // Its first byte is there, its last is not.
    let mut stream = service.ask(&["/0-100001"]);
    assert_eq!(head(&mut stream), 100_001);
    assert!(rest(&mut stream) == bytes(100_000));
    let line = &service.lines(1)[0];
    assert_eq!((&line["complete"], &line["sent_bytes"]), (&false.into(), &100_000.into()), "{line}");
}

#[test]
fn clients_that_do_not_read_hold_no_thread() {
    let service = Service::start(16 * MIB);
    // More than there are threads.
    let path = format!("/0-{}", 16 * MIB);
    let mut slow: Vec<TcpStream> = (0..200).map(|_| service.ask(&[&path])).collect();
    slow.iter_mut().for_each(|stream| assert_eq!(head(stream), 16 * MIB));
    let data = bytes(16 * MIB);
    let mut honest = service.ask(&[&path]);
    assert!(body(&mut honest) == data);
    // They get theirs when they read.
    for stream in &mut slow[..3] {
        let mut got = vec![0; data.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == data);
    }
}

#[test]
fn what_a_client_that_leaves_has_got_is_counted() {
    let service = Service::start(64 * MIB);
    for _ in 0..8 {
        let mut stream = service.ask(&[&format!("/0-{}", 64 * MIB)]);
        head(&mut stream);
        stream.read_exact(&mut vec![0; 1_000_000]).unwrap();
    }
    for line in service.lines(8) {
        let sent = line["sent_bytes"].as_u64().unwrap();
        assert!(line["complete"] == false && (1_000_000..64 << 20).contains(&sent), "{line}");
    }
}

#[test]
fn a_service_that_stops_does_not_wait_for_a_client_that_does_not_read() {
    let service = Service::start(32 * MIB);
    let mut stream = service.ask(&[&format!("/0-{}", 32 * MIB)]);
    head(&mut stream);
    let begun = std::time::Instant::now();
    drop(service);
    // A client that takes nothing would be waited for half a minute.
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(rest(&mut stream).len() < 32 * MIB);
}
