//! The server, and the client that it attacks.

use crate::site::{Done, Job, LIMIT, words};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use skyhaul::core::wire::crc32c::crc32c;
use skyhaul::peer::{
    Admission, Connection, Limits, PeerError, Server, ServerOptions, Service, Session, Token,
};
use skyhaul_transfer::copy::{HOLE, RangeHead};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const TOKEN: &str = "a-token-of-16-or-more";

/// Bytes of the files that a client has.
pub(crate) const KEPT_BYTES: u64 = 1000 + 200;

/// What is left of the file that was asked for, for the next attempt.
const UNFINISHED: &str = "home/exp/.new";

/// A copy that has begun, at the server.
pub(crate) struct Stage<'a> {
    connection: &'a mut Connection,
    pub(crate) flow: TcpStream,
}

impl Stage<'_> {
    pub(crate) fn say(&mut self, message: impl Into<Value>) -> Result<(), PeerError> {
        let message: Value = message.into();
        self.connection.send(&message)
    }

    /// Waits for a message of the client.
    pub(crate) fn until(&mut self, word: &str) -> Result<Value, PeerError> {
        loop {
            let message: Value = self.connection.receive(LIMIT)?;
            if let Some(found) = message.get(word) {
                return Ok(found.clone());
            }
        }
    }
}

/// What a server does when its flow is there.
pub(crate) type Play = Box<dyn Fn(&mut Stage<'_>) -> Result<(), PeerError> + Send + Sync>;

struct Evil(Play);

impl Service for Evil {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::aside(LIMIT))
    }

    fn run(&self, session: &mut Session<'_>, _: Value) -> Result<(), PeerError> {
        let connections = session.data_connections(1, false)?;
        session.connection.send(&json!({ "ready": { "cookie": connections.cookie() } }))?;
        let Some(flow) = connections.next(LIMIT) else { return Ok(()) };
        let mut stage = Stage { connection: session.connection, flow: flow.into_sender()?.0 };
        stage.say(json!({ "clock": [0, 0] }))?;
        (self.0)(&mut stage)?;
        // Until the client is gone, which it says before.
        while stage.connection.receive::<Value>(LIMIT).is_ok() {}
        Ok(())
    }
}

/// What one end did.
pub(crate) fn side() -> Value {
    json!({
        "bytes": 0, "ranges": 0, "holes": 0, "again": 0, "resumed": 0, "seconds": 0.0, "waited_for_disk": 0.0,
        "disk_waited": 0.0, "paced": 0.0, "cpu_seconds": 0.0, "engine": "", "direct": false, "congestion": ""
    })
}

/// A name.
pub(crate) fn named(path: &str, what: impl Into<Value>, mode: u32) -> Value {
    let what: Value = what.into();
    json!({ "to": 0, "path": path, "what": what, "mode": mode, "modified": [1, 0] })
}

pub(crate) fn sized(path: impl Into<Value>, size: u64) -> Value {
    let path: Value = path.into();
    let what = json!({ "file": { "size": size, "sparse": false } });
    json!({ "to": 0, "path": path, "what": what, "mode": 0o644, "modified": [1, 0] })
}

pub(crate) fn file(path: &str, size: u64) -> Value {
    sized(path, size)
}

/// The same with another value.
pub(crate) fn told(mut entry: Value, name: &str, value: impl Into<Value>) -> Value {
    entry[name] = value.into();
    entry
}

/// A range: its head, and its bytes with their checksum.
pub(crate) fn head(of: &RangeHead, bytes: bool) -> Vec<u8> {
    let mut all = of.octets().to_vec();
    if bytes {
        let payload = vec![5; of.length as usize];
        all.extend_from_slice(&payload);
        all.extend_from_slice(&crc32c(&payload).to_be_bytes());
    }
    all
}

fn list(stage: &mut Stage<'_>, entries: &[Value]) -> Result<(), PeerError> {
    for some in entries.chunks(1000) {
        stage.say(json!({ "entries": some }))?;
    }
    stage.say(json!("all_entries"))
}

/// These names, and then what a server does.
pub(crate) fn listed(entries: Vec<Value>) -> Play {
    Box::new(move |stage| {
        list(stage, &entries)?;
        stage.until("finished")?;
        stage.say(json!({ "finished": side() }))
    })
}

/// These names, and a message.
pub(crate) fn said(entries: Vec<Value>, message: Value) -> Play {
    Box::new(move |stage| {
        list(stage, &entries)?;
        stage.say(message.clone())
    })
}

/// One file, and these bytes on the flow once it is wanted.
pub(crate) fn ranged(size: u64, bytes: Vec<u8>) -> Play {
    Box::new(move |stage| {
        list(stage, &[file("exp/new", size)])?;
        stage.until("wanted")?;
        Ok(stage.flow.write_all(&bytes)?)
    })
}

/// The same, and all of it is sent, with this digest.
pub(crate) fn digest(size: u64, bytes: Vec<u8>, digest: u32) -> Play {
    Box::new(move |stage| {
        list(stage, &[file("exp/new", size)])?;
        stage.until("wanted")?;
        stage.flow.write_all(&bytes)?;
        stage.say(json!({ "sent": [{ "file": 0, "digest": digest, "error": null }] }))?;
        stage.until("finished")?;
        stage.say(json!({ "finished": side() }))
    })
}

/// A range as often as this, each time with a wrong checksum.
pub(crate) fn damaged(of: &RangeHead, times: usize) -> Vec<u8> {
    let mut one = head(of, true);
    if let Some(last) = one.last_mut() {
        *last ^= 1;
    }
    one.repeat(times)
}

/// A range of a file that is compared.
pub(crate) fn unwanted(of: RangeHead) -> Play {
    Box::new(move |stage| {
        let entry = told(
            file("exp/earlier", 1000),
            "origin",
            json!({ "device": 0, "inode": 0, "changed": [u32::MAX, 0] }),
        );
        list(stage, &[entry])?;
        stage.until("compare")?;
        let of = RangeHead { size: 1000, length: 1000, ..of };
        Ok(stage.flow.write_all(&head(&of, true))?)
    })
}

/// The flow ends within a range.
pub(crate) fn closed(of: &RangeHead) -> Play {
    let half = head(of, true)[..10_000].to_vec();
    Box::new(move |stage| {
        list(stage, &[file("exp/new", of_size(&half))])?;
        stage.until("wanted")?;
        stage.flow.write_all(&half)?;
        Ok(stage.flow.shutdown(std::net::Shutdown::Both)?)
    })
}

/// The connection ends when one of two ranges is there.
pub(crate) fn closed_between(of: &RangeHead) -> Play {
    let bytes = head(of, true);
    Box::new(move |stage| {
        list(stage, &[file("exp/new", of_size(&bytes))])?;
        stage.until("wanted")?;
        stage.flow.write_all(&bytes)?;
        stage.connection.close();
        Ok(stage.flow.shutdown(std::net::Shutdown::Both)?)
    })
}

fn of_size(range: &[u8]) -> u64 {
    RangeHead::parse(&range[..RangeHead::LEN]).unwrap().size
}

/// A name, as [`file`] has it: a million of these are made in a fraction of the time.
#[derive(Serialize)]
struct OfMany<'a> {
    to: u64,
    path: String,
    what: &'a Value,
    mode: &'a Value,
    modified: &'a Value,
}

/// Names without end.
pub(crate) fn endless() -> Play {
    Box::new(|stage| {
        let like = file("", 1);
        let name = |n: u64| OfMany {
            to: 0,
            path: format!("other/{n:030}"),
            what: &like["what"],
            mode: &like["mode"],
            modified: &like["modified"],
        };
        for n in 0..10_000u64 {
            let entries: Vec<OfMany<'_>> = (0..1000).map(|m| name(n * 1000 + m)).collect();
            stage.connection.send(&BTreeMap::from([("entries", entries)]))?;
            // What it says is read, or it would wait for that.
            while stage.connection.poll::<IgnoredAny>()?.is_some() {}
        }
        Ok(())
    })
}

/// The end of a file that is not there yet, as often as this.
pub(crate) fn sent_again(times: usize) -> Play {
    Box::new(move |stage| {
        list(stage, &[file("exp/new", 100_000)])?;
        stage.until("wanted")?;
        let one = json!({ "file": 0, "digest": null, "error": null });
        stage.say(json!({ "sent": vec![one; times] }))
    })
}

/// All ranges of a file but the first, each a hole.
pub(crate) fn holes(ranges: u64, length: u32) -> Play {
    Box::new(move |stage| {
        let size = ranges * u64::from(length);
        let what = json!({ "file": { "size": size, "sparse": true } });
        list(stage, &[told(file("exp/new", 0), "what", what)])?;
        stage.until("wanted")?;
        for first in (1..ranges).step_by(1024) {
            let head = |range| RangeHead {
                size,
                length,
                offset: range * u64::from(length),
                flags: HOLE,
                ..RangeHead::default()
            };
            let heads = (first..ranges.min(first + 1024)).flat_map(|range| head(range).octets());
            stage.flow.write_all(&heads.collect::<Vec<u8>>())?;
            stage.say(json!("alive"))?;
            while stage.connection.poll::<Value>()?.is_some() {}
        }
        // Later it has taken them.
        while stage.until("moving")?["durable_bytes"] != size - u64::from(length) {
            stage.say(json!("alive"))?;
        }
        stage.say(json!({ "stop": { "why": "enough of it" } }))
    })
}

/// Does this, and nothing more.
pub(crate) fn silent(
    before: impl Fn(&mut Stage<'_>) -> Result<(), PeerError> + Send + Sync + 'static,
) -> Play {
    Box::new(before)
}

/// A client that has some files, beside others that it was not asked to touch.
pub(crate) struct Client(tempfile::TempDir);

/// How it ended.
pub(crate) struct Reply {
    pub(crate) done: Done,
    /// The most memory that it had.
    pub(crate) peak_mib: u64,
}

impl Client {
    pub(crate) fn new() -> Self {
        let client = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        for directory in ["outside", "home/exp/sub"] {
            std::fs::create_dir_all(client.at(directory)).unwrap();
        }
        std::fs::write(client.at("outside/whole"), [1; 500]).unwrap();
        std::fs::write(client.at("home/exp/earlier"), [2; 1000]).unwrap();
        std::fs::write(client.at("home/exp/sub/whole"), [3; 200]).unwrap();
        let earlier = std::fs::File::options().write(true).open(client.at("home/exp/earlier")).unwrap();
        earlier.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        std::os::unix::fs::symlink(client.at("outside"), client.at("home/exp/out")).unwrap();
        std::fs::set_permissions(client.at("home"), PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::set_permissions(client.at("home/exp"), PermissionsExt::from_mode(0o750)).unwrap();
        std::fs::write(client.at("token"), TOKEN).unwrap();
        client
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let names = std::fs::read_dir(self.at(path)).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Everything that is there, but for the unfinished part of the file that was asked for.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        walk(self.0.path(), self.0.path(), &mut all);
        all
    }

    /// Copies from a server that does this.
    pub(crate) fn pull(&self, asked: &str, more: &str, play: Play) -> Reply {
        let token = Token::new(TOKEN).unwrap();
        let limits = Limits { duration: LIMIT, ..Limits::default() };
        let options = ServerOptions { limits, ..ServerOptions::default() };
        let at = "127.0.0.1:0".parse().unwrap();
        let server = Server::start(at, token, options, vec![Box::new(Evil(play))]).unwrap();
        let (home, file, port) = (self.at("home"), self.at("token"), server.local().port());
        let line = format!(
            "copy 127.0.0.1:{asked} {} --token-file {} --port {port} --flows 1 --range 64KiB --json --quiet {more}",
            home.display(),
            file.display()
        );
        let mut job = Job::start(&words(&line));
        let begun = std::time::Instant::now();
        let mut peak_mib = 0;
        while job.is_running() && begun.elapsed() < LIMIT {
            peak_mib = peak(job.pid()).unwrap_or(peak_mib).max(peak_mib);
            std::thread::sleep(Duration::from_millis(3));
        }
        Reply { done: job.finish(), peak_mib }
    }
}

/// The most memory that a process had, in MiB.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
}

fn walk(root: &Path, at: &Path, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        // It may have a size that nothing reads.
        if name.starts_with(UNFINISHED) {
            continue;
        }
        let status = path.symlink_metadata().unwrap();
        let mode = status.mode() & 0o7777;
        if status.is_symlink() {
            all.insert(name, format!("link {}", std::fs::read_link(&path).unwrap().display()));
        } else if status.is_dir() {
            all.insert(name, format!("directory {mode:o}"));
            walk(root, &path, all);
        } else {
            all.insert(name, format!("file {mode:o} {:08x}", crc32c(&std::fs::read(&path).unwrap())));
        }
    }
}
