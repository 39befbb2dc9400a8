//! Hosts that bring chunks and files, byte by byte as jive5ab does; and hosts that bring something else.

use super::*;
use skyhaul_core::balance::Prefix;
use skyhaul_core::vsi::VsiExisting;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

pub(super) struct World {
    directory: TempDir,
    arrivals: Arrivals,
    next: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self::from("127.0.0.0/8", 0)
    }

    pub(super) fn from(network: &str, reserve_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disks = ["d0", "d1"].map(|name| directory.path().join(name)).to_vec();
        let files = directory.path().join("files");
        disks.iter().chain([&files]).for_each(|path| fs::create_dir(path).unwrap());
        let from = AllowList::of(&[network.parse::<Prefix>().unwrap()]);
        let options = ArrivalOptions { disks, reserve_bytes, files: vec![files], from };
        Self { directory, arrivals: Arrivals::new(options), next: 0 }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens one; its number and its port.
    pub(super) fn open(&mut self, what: VsiAccepted) -> Result<(u64, u16, u64), String> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        self.next += 1;
        let port = VsiPort { host: "127.0.0.1".into(), port, suffix: String::new() };
        let options = VsiAcceptOptions { id: self.next, port: port.clone(), what };
        match self.arrivals.accept(&options, |name| name == "live") {
            VsiOutcome::Accepting { present_bytes } => Ok((self.next, port.port, present_bytes)),
            VsiOutcome::Failed(_, why) => Err(why),
            VsiOutcome::LabelTaken => Err("taken".into()),
            other => panic!("{other:?}"),
        }
    }

    /// Bytes that have been written of one.
    pub(super) fn written(&self, id: u64) -> u64 {
        self.arrivals.view().into_iter().find(|one| one.id == id).unwrap().written_bytes
    }

    pub(super) fn file(&mut self, name: &str, existing: VsiExisting) -> Result<(u64, u16, u64), String> {
        let path = self.path(name).to_str().unwrap().to_owned();
        self.open(VsiAccepted::File { path, existing })
    }

    #[track_caller]
    pub(super) fn close(&self, id: u64) -> Result<u64, String> {
        let outcome = self.arrivals.end(id);
        let view = self.arrivals.view().into_iter().find(|one| one.id == id).unwrap();
        assert!(!view.is_open);
        match outcome {
            VsiOutcome::Stopped => Ok(view.written_bytes),
            VsiOutcome::Failed(_, why) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    /// A file of a scan, on whichever disk it is.
    fn chunk(&self, name: &str) -> Option<Vec<u8>> {
        let mut found =
            ["d0", "d1"].map(|disk| fs::read(self.path(disk).join(name)).ok()).into_iter().flatten();
        let first = found.next();
        assert!(found.next().is_none(), "{name} is on two disks");
        first
    }
}

/// Sends bytes, and nothing after them; returns what is answered, or that the connection was reset.
pub(super) fn send(port: u16, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn chunk(name: &str, bytes: &[u8]) -> Vec<u8> {
    [format!("fileName: {name}\0fileSize: {}\0\0", bytes.len()).as_bytes(), bytes].concat()
}

fn offer(scan: &str, names: &[&str]) -> Vec<u8> {
    let list: String = names.iter().map(|name| format!("{name}\0")).collect();
    format!("payloadSize: {}\0requestRsync: {scan}\0\0{list}", list.len()).into_bytes()
}

#[test]
fn chunks_arrive_as_jive5ab_sends_them_and_those_that_are_there_are_named() {
    let mut world = World::new();
    let (id, port, _) = world.open(VsiAccepted::Chunks).unwrap();
    let names: Vec<String> = (0..4).map(|n| format!("a_b_c/a_b_c.{n:08}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let answer = send(port, &offer("a_b_c", &names)).unwrap();
    assert_eq!(answer, b"listType: have\0rsyncReplySz: 0\0\0");
    let bytes: Vec<Vec<u8>> = (0..4u8).map(|n| vec![n; 9_000_000 + usize::from(n)]).collect();
    for at in [2, 0, 3] {
        assert_eq!(send(port, &chunk(names[at], &bytes[at])).unwrap(), b"");
    }
    // The shorter list: here of what is needed.
    let answer = send(port, &offer("a_b_c", &names)).unwrap();
    assert_eq!(answer, b"listType: need\0rsyncReplySz: 21\0\0a_b_c/a_b_c.00000001\0");
    for at in [0, 2, 3] {
        assert!(world.chunk(names[at]) == Some(bytes[at].clone()), "{at}");
    }
    // In turns, also where both disks have the same room.
    let on = ["d0", "d1"].map(|disk| fs::read_dir(world.path(disk).join("a_b_c")).unwrap().count());
    assert_eq!(on, [1, 2]);
    assert_eq!(world.close(id), Ok(27_000_005));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn what_arrives_is_seen_from_its_first_connection_to_its_end() {
    let mut world = World::new();
    let (chunks, port, _) = world.open(VsiAccepted::Chunks).unwrap();
    let seen = |world: &World, at: usize| world.arrivals.json()[at].clone();
    let of = |state: &str, connections: u32, written: u64| {
        let listen = format!("127.0.0.1:{port}");
        json!({ "id": chunks, "kind": "chunks", "path": null, "scan": null, "listen": listen, "state": state,
            "connections": connections, "written_bytes": written, "failure": null })
    };
    assert_eq!(seen(&world, 0), of("open", 0, 0));
    let whole = chunk("a/a.00000000", &[7; 100_000]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&whole[..whole.len() - 1]).unwrap();
    until(|| seen(&world, 0)["connections"] == 1);
    // It ends when the connection does.
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| world.close(chunks));
        until(|| seen(&world, 0)["state"] == "closing");
        stream.write_all(&whole[whole.len() - 1..]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(closing.join().unwrap(), Ok(100_000));
    });
    assert_eq!(seen(&world, 0), of("closed", 0, 100_000));
    // What could not be opened is seen with the reason.
    let refused = world.file("outside", VsiExisting::Keep).unwrap_err();
    let file = seen(&world, 1);
    assert_eq!((&file["state"], &file["kind"]), (&json!("closed"), &json!("file")));
    assert_eq!((&file["failure"], &file["written_bytes"]), (&json!(refused), &json!(0)));
    assert!(file["path"].as_str().unwrap().ends_with("/outside"), "{file}");
}

/// Waits for it, up to a minute.
#[track_caller]
fn until(is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_no_whole_chunk_leaves_nothing_and_replaces_nothing() {
    let mut world = World::new();
    let (id, port, _) = world.open(VsiAccepted::Chunks).unwrap();
    let is_refused = |bytes: &[u8]| match send(port, bytes) {
        Err(_) => true,
        Ok(answer) => panic!("{answer:?}"),
    };
    // One that ends too early.
    let whole = chunk("a/a.00000000", &[7; 100_000]);
    assert!(is_refused(&whole[..50_000]));
    assert_eq!((world.chunk("a/a.00000000"), world.chunk("a/a.00000000.part")), (None, None));
    // The same, whole; then another one of this name.
    assert_eq!(send(port, &whole).unwrap(), b"");
    assert!(is_refused(&chunk("a/a.00000000", &[8; 100_000])));
    assert!(world.chunk("a/a.00000000") == Some(vec![7; 100_000]));
    // Names that lead elsewhere, and a scan that is being recorded.
    for name in [
        "../a.00000000",
        "a/../../x.00000000",
        "/etc/etc.00000000",
        "a/a.index",
        "live/live.00000000",
        "live_ds1/live_ds1.00000000",
    ] {
        assert!(is_refused(&chunk(name, b"x")), "{name}");
    }
    assert!(is_refused(&offer("a", &["b/b.00000000"])) && is_refused(b"GET / HTTP/1.1\r\n\r\n"));
    let names = fs::read_dir(world.directory.path()).unwrap().count();
    assert_eq!(names, 3);
    assert!(world.close(id).is_err());
}

#[test]
fn a_link_on_a_disk_leads_nowhere() {
    let mut world = World::new();
    let (outside, d0, d1) = (world.path("outside"), world.path("d0"), world.path("d1"));
    fs::create_dir(&outside).unwrap();
    [d0, d1].iter().for_each(|disk| std::os::unix::fs::symlink(&outside, disk.join("a")).unwrap());
    let (id, port, _) = world.open(VsiAccepted::Chunks).unwrap();
    assert!(send(port, &chunk("a/a.00000000", b"x")).is_err());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(world.close(id).is_err());
}

#[test]
fn who_may_not_send_and_what_has_no_room_is_refused() {
    let mut world = World::from("10.0.0.0/8", 0);
    let (id, port, _) = world.open(VsiAccepted::Chunks).unwrap();
    let answer = send(port, &chunk("a/a.00000000", b"x"));
    assert!(answer.is_err() || answer.unwrap().is_empty());
    // Nor does it make the transfers of those who may fail.
    assert_eq!(world.close(id), Ok(0));
    assert_eq!(world.chunk("a/a.00000000"), None);

    let mut world = World::from("127.0.0.0/8", u64::MAX);
    let (id, port, _) = world.open(VsiAccepted::Chunks).unwrap();
    assert!(send(port, &chunk("a/a.00000000", b"x")).is_err());
    assert_eq!(world.close(id), Err("a/a.00000000 from 127.0.0.1: no disk has room for it".into()));
}

#[test]
fn a_file_arrives_is_continued_and_is_kept_unless_it_is_said_otherwise() {
    let mut world = World::new();
    let (id, port, present) = world.file("files/a.m5a", VsiExisting::Keep).unwrap();
    assert_eq!(present, 0);
    // The byte by which jive5ab says that it has received everything.
    assert_eq!(send(port, &[1; 3_000_000]).unwrap(), [0]);
    assert_eq!(world.close(id), Ok(3_000_000));
    assert_eq!(
        world.file("files/a.m5a", VsiExisting::Keep).unwrap_err().split(": ").last(),
        Some("File exists")
    );
    let (id, port, present) = world.file("files/a.m5a", VsiExisting::Append).unwrap();
    assert_eq!(present, 3_000_000);
    assert_eq!(send(port, &[2; 10]).unwrap(), [0]);
    assert_eq!(world.close(id), Ok(10));
    let whole = fs::read(world.path("files/a.m5a")).unwrap();
    assert!(whole.len() == 3_000_010 && whole[2_999_999..3_000_001] == [1, 2]);
    let (id, port, _) = world.file("files/a.m5a", VsiExisting::Replace).unwrap();
    assert_eq!(send(port, b"new").unwrap(), [0]);
    assert_eq!((world.close(id), fs::read(world.path("files/a.m5a")).unwrap()), (Ok(3), b"new".to_vec()));
    // Nothing came: no empty file stays; one that was there does.
    let (id, ..) = world.file("files/b.m5a", VsiExisting::Keep).unwrap();
    assert_eq!((world.close(id), world.path("files/b.m5a").exists()), (Ok(0), false));
    let (id, ..) = world.file("files/a.m5a", VsiExisting::Append).unwrap();
    assert_eq!((world.close(id), world.path("files/a.m5a").exists()), (Ok(0), true));
    // Nor is what is to be replaced gone before something comes.
    let (id, ..) = world.file("files/a.m5a", VsiExisting::Replace).unwrap();
    assert_eq!((world.close(id), fs::read(world.path("files/a.m5a")).unwrap()), (Ok(0), b"new".to_vec()));
    let (id, port, _) = world.file("files/a.m5a", VsiExisting::Replace).unwrap();
    assert_eq!(send(port, b"").unwrap(), [0]);
    assert_eq!((world.close(id), fs::read(world.path("files/a.m5a")).unwrap()), (Ok(0), Vec::new()));
    for outside in ["d0/a", "files/../d0/a", "files"] {
        assert!(world.file(outside, VsiExisting::Replace).is_err(), "{outside}");
    }
    assert!(!Path::new(&world.path("d0/a")).exists());
}

#[test]
fn what_is_open_can_be_closed_while_data_arrive() {
    let mut world = World::new();
    let (id, port, _) = world.file("files/a", VsiExisting::Keep).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&[1; 1000]).unwrap();
    while world.arrivals.view()[0].written_bytes < 1000 {
        std::thread::sleep(POLL_INTERVAL);
    }
    let begun = Instant::now();
    assert!(world.close(id).unwrap_err().contains("it was closed before the data ended"));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // What arrived can be continued.
    assert_eq!(world.file("files/a", VsiExisting::Append).unwrap().2, 1000);
}
