//! Peers and paths that mean harm.

use super::super::message::{Direction, Entry, Message, Name, Origin, Request, VERSION, Want, What};
use super::super::{Exists, RangeHead, copy};
use super::{Site, bytes, same, token};
use skyhaul::peer::{Connection, attach, connect};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

pub(super) const SOON: Duration = Duration::from_secs(20);

/// Between client and server: one octet of the first flow is turned.
pub(super) fn damaging(to: SocketAddr) -> SocketAddr {
    const AT: u64 = 1_000_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    let turned = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(to) else { return };
            for (mut from, mut into, damages) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap(), true), (far, near, false)]
            {
                let turned = turned.clone();
                std::thread::spawn(move || {
                    let (mut piece, mut at) = (vec![0; 64 << 10], 0u64);
                    while let Ok(n) = from.read(&mut piece)
                        && n > 0
                    {
                        let inside = (at..at + n as u64).contains(&AT);
                        if damages && inside && !turned.swap(true, std::sync::atomic::Ordering::Relaxed) {
                            piece[(AT - at) as usize] ^= 4;
                        }
                        at += n as u64;
                        if into.write_all(&piece[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    here
}

#[test]
fn a_damaged_range_is_refused_and_comes_again() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(6, 8 << 20)).unwrap();
    let mut options = site.options(&["src"], &["in"], false);
    options.server = vec![damaging(site.server.local())];
    options.tuning.range = 4 << 20;
    let report = copy(&options, &token(), &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.again, report.ranges), (1, 3), "{report:?}");
    same(&site.at("src"), &site.at("root/in/src"));
}

/// A client that knows the token, and means harm.
pub(super) struct Hostile {
    pub(super) connection: Connection,
    flow: TcpStream,
}

impl Hostile {
    pub(super) fn new(site: &Site, way: Direction) -> Self {
        Self::asking(site, way, |_| {})
    }

    fn asking(site: &Site, way: Direction, change: impl FnOnce(&mut Request)) -> Self {
        let mut connection = connect(site.server.local(), &token(), SOON).unwrap();
        let mut request = Request {
            version: VERSION,
            way,
            paths: vec![Name::Text("in".into())],
            to: vec![0],
            exists: Exists::Replace,
            flows: 1,
            encrypt: false,
            range: 64 << 10,
            direct: true,
            window: None,
            congestion: None,
            limit: None,
            measure: None,
            trial: None,
            longer: 0,
            sample: None,
            verify: false,
        };
        change(&mut request);
        connection.ask("copy", &request, &mut |_| true).unwrap();
        let Message::Ready { cookie } = connection.receive(SOON).unwrap() else { panic!() };
        let flow =
            attach(site.server.local(), &token(), &cookie, false, SOON).unwrap().into_sender().unwrap().0;
        Self { connection, flow }
    }

    pub(super) fn says(&mut self, message: &Message) {
        self.connection.send(message).unwrap();
    }

    /// The server's reason to end.
    #[track_caller]
    fn reason(mut self) -> String {
        loop {
            match self.connection.receive(SOON) {
                Ok(Message::Stop { why }) => return why,
                Ok(_) => {}
                Err(error) => panic!("no reason: {error}"),
            }
        }
    }
}

pub(super) fn file(path: &str, size: u64) -> Entry {
    let what = What::File { size, sparse: false };
    Entry {
        to: 0,
        path: Name::Text(path.into()),
        what,
        mode: 0o7777,
        modified: (0, 0),
        origin: Origin::default(),
    }
}

#[test]
fn ranges_of_a_hostile_peer_end_the_copy_and_write_nothing_elsewhere() {
    let site = Site::new();
    let good = RangeHead { size: 100_000, length: 65_536, ..RangeHead::default() };
    for (bad, said) in [
        (RangeHead { file: 7, ..good }.octets(), "an unknown file"),
        (RangeHead { file: u64::MAX, ..good }.octets(), "an unknown file"),
        (RangeHead { size: 1 << 50, ..good }.octets(), "a different size"),
        (RangeHead { length: 4096, ..good }.octets(), "wrong bounds"),
        (RangeHead { offset: 5, ..good }.octets(), "wrong bounds"),
        ([0xAB; 48], "not a range"),
    ] {
        let mut peer = Hostile::new(&site, Direction::Push);
        peer.says(&Message::Entries(vec![file("f", 100_000)]));
        assert!(matches!(peer.connection.receive(SOON), Ok(Message::Wanted(_))));
        peer.flow.write_all(&bad).unwrap();
        let why = peer.reason();
        assert!(why.contains(said), "{said}: {why}");
    }
    assert!(!site.at("root/in/f").exists());
}

#[test]
fn names_of_a_hostile_peer_do_not_leave_the_directory() {
    let site = Site::new();
    std::fs::create_dir_all(site.at("root/in")).unwrap();
    std::os::unix::fs::symlink("..", site.at("root/in/up")).unwrap();
    std::os::unix::fs::symlink(site.at(""), site.at("root/in/out")).unwrap();
    let mut peer = Hostile::new(&site, Direction::Push);
    let names = ["../x", "/tmp/skyhaul-x", "a/../../x", "up/x", "out/x", "", ".", "a/\0b"];
    let entries = names.map(|name| file(name, 0)).to_vec();
    peer.says(&Message::Entries(entries));
    let mut failed = 0;
    while failed < names.len() {
        let Ok(Message::Done(done)) = peer.connection.receive::<Message>(SOON) else { continue };
        assert!(done.iter().all(|done| done.error.is_some()), "{done:?}");
        failed += done.len();
    }
    assert!(!site.at("x").exists() && !site.at("root/x").exists());
    peer.says(&Message::Entries(vec![Entry { to: 9, ..file("f", 1) }]));
    assert!(peer.reason().contains("not requested"));
}

/// The directory that a server serves, and the one that was asked for, keep their permissions.
#[test]
fn a_pushing_peer_does_not_reach_the_directory_itself() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let mode = |path: &str| site.at(path).metadata().unwrap().permissions().mode() & 0o777;
    let before = mode("root");
    for paths in ["in", ""] {
        let mut peer =
            Hostile::asking(&site, Direction::Push, |request| request.paths = vec![Name::Text(paths.into())]);
        let names = ["", ".", "in/.."];
        let entries = names.map(|name| Entry { what: What::Directory, mode: 0, ..file(name, 0) });
        peer.says(&Message::Entries(entries.to_vec()));
        let mut failed = 0;
        while failed < names.len() {
            let Ok(Message::Done(done)) = peer.connection.receive::<Message>(SOON) else { continue };
            assert!(done.iter().all(|done| done.error.is_some()), "{done:?}");
            failed += done.len();
        }
        peer.says(&Message::AllEntries);
        let _ = peer.connection.receive::<Message>(SOON);
        assert_eq!((mode("root"), mode("root/in")), (before, 0o755));
    }
}

/// Ranges of a file that is there, or that is only compared, would be written over it.
#[test]
fn ranges_that_nobody_asked_for_are_refused() {
    for verify in [false, true] {
        let site = Site::new();
        std::fs::create_dir_all(site.at("root/in")).unwrap();
        std::fs::write(site.at("root/in/f"), vec![7; 100_000]).unwrap();
        let mut peer = Hostile::asking(&site, Direction::Push, |request| {
            request.verify = verify;
            request.exists = Exists::Fail;
        });
        let modified = site.at("root/in/f").metadata().unwrap().modified().unwrap();
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        let entry = Entry { modified: (since.as_secs() as i64, since.subsec_nanos()), ..file("f", 100_000) };
        let origin = Origin { changed: (i64::from(u32::MAX), 0), ..Origin::default() };
        peer.says(&Message::Entries(vec![Entry { origin, ..entry }]));
        assert!(matches!(peer.connection.receive(SOON), Ok(Message::Compare(_))));
        let head =
            RangeHead { size: 100_000, length: 65_536, flags: super::super::HOLE, ..RangeHead::default() };
        peer.flow.write_all(&head.octets()).unwrap();
        assert!(peer.reason().contains("sent a range twice"));
        assert_eq!(std::fs::read(site.at("root/in/f")).unwrap(), vec![7; 100_000]);
        assert_eq!(std::fs::read_dir(site.at("root/in")).unwrap().count(), 1);
    }
}

#[test]
fn a_peer_of_another_version_is_told_so() {
    let site = Site::new();
    let mut connection = connect(site.server.local(), &token(), SOON).unwrap();
    let old = serde_json::json!({ "version": 3, "way": "push", "paths": ["in"], "flows": 1, "range": 65536, "direct": true });
    let said = connection.ask("copy", &old, &mut |_| true).unwrap_err().to_string();
    assert!(said.contains("version 3") && said.contains("version 5") && said.contains("hint: "), "{said}");
}

/// As many sessions as are served, and one more.
#[test]
fn sessions_are_bounded_and_free_again() {
    let site = Site::new();
    let peers: Vec<Hostile> =
        (0..super::super::options::MAX_SESSIONS).map(|_| Hostile::new(&site, Direction::Push)).collect();
    std::fs::write(site.at("src"), "x").unwrap();
    let once = || copy(&site.options(&["src"], &["in"], false), &token(), &mut |_| {});
    let said = once().unwrap_err().to_string();
    assert!(said.contains("copies are running") && said.contains("hint: "), "{said}");
    drop(peers);
    let end = std::time::Instant::now() + SOON;
    while once().is_err() {
        assert!(std::time::Instant::now() < end, "sessions that are gone are not free again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_a_hostile_receiver_wants_is_checked() {
    let site = Site::new();
    std::fs::create_dir_all(site.at("root/in")).unwrap();
    std::fs::write(site.at("root/in/f"), [1; 100]).unwrap();
    for ranges in [vec![(1, 1)], vec![(0, u64::MAX)], vec![(u64::MAX, 2)], vec![(0, 0)], vec![]] {
        let mut peer = Hostile::new(&site, Direction::Pull);
        peer.says(&Message::Wanted(vec![Want { file: 1, ranges }]));
        assert!(peer.reason().contains("unexpected message"));
    }
}
