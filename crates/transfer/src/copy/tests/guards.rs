//! Peers that break the order of messages, or have the other end keep more than it may.
//!
//! Each test fails if the guard that it names is taken out, and ends soon then, too.

use super::super::message::{Direction, Done, Entry, Found, Message, Name, Origin, Sent, What};
use super::super::options::{Account, MAX_MEMORY_BYTES};
use super::hostile::{Hostile, SOON, file};
use super::{Site, bytes};
use std::time::{Instant, UNIX_EPOCH};

/// Names that a peer has 64 KiB for fit less than 64 times, and their reasons less than 11 times.
const LEFT_BYTES: u64 = 64 << 10;
const FILES: usize = 100;

impl Site {
    /// Takes the memory of all copies but for so many bytes.
    fn leave(&self, bytes: u64) -> Account {
        let account = Account::open(&self.budget, 0).unwrap();
        account.charge(MAX_MEMORY_BYTES - bytes - self.budget.memory()).unwrap();
        account
    }

    /// A file at the destination, named by a peer so that both ends have to read it.
    fn existing(&self, name: &str, size: usize) -> Entry {
        let path = self.at("root/in").join(name);
        std::fs::create_dir_all(self.at("root/in")).unwrap();
        std::fs::write(&path, bytes(1, size)).unwrap();
        let since = path.metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let origin = Origin { changed: (i64::from(u32::MAX), 0), ..Origin::default() };
        let modified = (since.as_secs() as i64, since.subsec_nanos());
        Entry { modified, origin, ..file(name, size as u64) }
    }
}

impl Hostile {
    /// Reads until `is` holds of a message, or the server ends it: then the reason, or that it has done all.
    #[track_caller]
    fn until(&mut self, is: impl Fn(&Message) -> bool) -> Option<String> {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            match self.connection.receive(SOON).unwrap() {
                message if is(&message) => return None,
                Message::Stop { why } => return Some(why),
                Message::Finished(_) => return Some("all is done".to_owned()),
                _ => {}
            }
        }
        panic!("the server does not end it");
    }

    /// What the server says at the end of what was named.
    #[track_caller]
    fn ended(mut self) -> String {
        // A server that has ended it hears this no more.
        let _ = self.connection.send(&Message::AllEntries);
        self.until(|_| false).unwrap_or_default()
    }
}

fn found(file: usize, error: Option<&str>) -> Found {
    Found { file, digest: error.is_none().then_some(1), error: error.map(str::to_owned) }
}

fn sent(file: usize, error: Option<&str>) -> Sent {
    Sent { file, digest: None, error: error.map(str::to_owned) }
}

#[test]
fn names_are_charged() {
    let site = Site::new();
    let mut peer = Hostile::new(&site, Direction::Push);
    peer.says(&Message::Entries(vec![file("..", 0)]));
    assert_eq!(peer.until(|message| matches!(message, Message::Done(_))), None);
    let _others = site.leave(LEFT_BYTES);
    let link = |n| Entry { what: What::Link(Name::Text("x".into())), ..file(&format!("l{n}"), 0) };
    peer.says(&Message::Entries((0..FILES).map(link).collect()));
    let why = peer.ended();
    assert!(why.contains("MiB of memory together"), "{why}");
}

/// The reasons are as long as one may be.
#[test]
fn reasons_are_charged() {
    let reason = "\u{1F4A5}".repeat(600);
    for compared in [false, true] {
        let site = Site::new();
        let mut peer = Hostile::new(&site, Direction::Push);
        let entry = |n| match compared {
            false => file(&format!("f{n}"), 1),
            true => site.existing(&format!("f{n}"), 1),
        };
        peer.says(&Message::Entries((0..FILES).map(entry).collect()));
        let asked = peer.until(|message| matches!(message, Message::Wanted(_) | Message::Compare(_)));
        assert_eq!(asked, None);
        let _others = site.leave(LEFT_BYTES);
        for files in (0..FILES).collect::<Vec<_>>().chunks(20) {
            let files = files.iter();
            let message = match compared {
                false => Message::Sent(files.map(|n| sent(*n, Some(&reason))).collect()),
                true => Message::Digests(files.map(|n| found(*n, Some(&reason))).collect()),
            };
            // The server may have ended it before the last of them.
            let _ = peer.connection.send(&message);
        }
        let why = peer.ended();
        assert!(why.contains("MiB of memory together"), "compared: {compared}: {why}");
    }
}

/// The file is so long that the server still reads it.
#[test]
fn a_second_digest_of_one_file_ends_the_copy() {
    let site = Site::new();
    let entry = site.existing("f", 16 << 20);
    let mut peer = Hostile::new(&site, Direction::Push);
    peer.says(&Message::Entries(vec![entry]));
    peer.says(&Message::Digests(vec![found(0, None), found(0, None)]));
    let why = peer.ended();
    assert!(why.contains("unexpected message"), "{why}");
}

#[test]
fn the_end_of_a_file_that_is_only_compared_ends_the_copy() {
    for error in [None, Some("gone")] {
        let site = Site::new();
        let entry = site.existing("f", 1);
        let mut peer = Hostile::new(&site, Direction::Push);
        peer.says(&Message::Entries(vec![entry]));
        assert_eq!(peer.until(|message| matches!(message, Message::Compare(_))), None);
        peer.says(&Message::Sent(vec![sent(0, error)]));
        let _ = peer.connection.send(&Message::Digests(vec![found(0, Some("unreadable"))]));
        let why = peer.ended();
        assert!(why.contains("unexpected message"), "{error:?}: {why}");
    }
}

/// Of two names, the directory and the file.
#[test]
fn more_results_than_there_are_names_end_the_copy() {
    for messages in [vec![3], vec![2, 1]] {
        let site = Site::new();
        site.existing("f", 1);
        let mut peer = Hostile::new(&site, Direction::Pull);
        assert_eq!(peer.until(|message| matches!(message, Message::AllEntries)), None);
        for &count in &messages {
            let done = (0..count).map(|n| Done::kept(n % 2, None)).collect();
            let _ = peer.connection.send(&Message::Done(done));
        }
        let _ = peer.connection.send(&Message::Finished(Box::default()));
        let why = peer.until(|_| false).unwrap();
        assert!(why.contains("unexpected message"), "{messages:?}: {why}");
    }
}
