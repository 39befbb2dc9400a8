//! Digests of closed recordings, as they are kept: in a database on the first disk, by entity tag.
//!
//! A recorder computes CRC-32C only; what else is asked for costs a read of the whole recording. It is done once: by the client that asks
//! first, with an upload, or by [`ScanSums`](super::summing::ScanSums), and found here since. Without a place on the disk, what is known lasts as long
//! as the program.

use crate::remote::digests::{Algorithm, DigestSet};
use rusqlite::{Connection, params};
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, ask_disks};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Name of the database, on the first disk.
const DATABASE_FILE: &str = "station_digests.db";
/// SQLite's application id of this database: "skyd".
const APPLICATION_ID: i64 = 0x736b_7964;
/// Version of its table.
const SCHEMA_VERSION: i64 = 1;
/// Recordings whose digests are in memory and that were not seen on the disks: gone, or not looked for yet. The others are as many as the
/// disks have.
const MAX_ABSENT: usize = 65_536;
/// Recordings whose digests are read at the start: some 100 bytes each.
const MAX_LOADED: usize = 1 << 20;

/// Changes that wait for the disk; those that find no room are lost, and computed again after a restart.
const MAX_WAITING: usize = 1024;
/// How long the end waits for the disk.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// A change of the database.
#[derive(Debug)]
enum Change {
    Keep { etag: String, bytes: u64, digests: String },
    Forget { etag: String },
}

/// What is known of recordings. The database is written by a thread of its own: nobody else waits for its disk.
#[derive(Debug, Default)]
pub(crate) struct SumStore {
    writer: Option<(SyncSender<Change>, JoinHandle<()>)>,
    digests: Mutex<HashMap<String, DigestSet>>,
    presence: Mutex<Presence>,
    /// CRC-32C and Adler-32 of the recordings that were [noted](Self::note), by name.
    noted: Mutex<BTreeMap<String, (u32, u32)>>,
    notes: AtomicU64,
}

/// Which recordings are on the disks, as far as that was looked for.
#[derive(Debug, Default)]
struct Presence {
    /// Entity tags of those that are.
    present: HashSet<String>,
    /// Entity tags of digests whose recordings were not found when they were last looked for. A recording may have come since the disks were
    /// read, so one is forgotten only if it is not found twice.
    missed: HashSet<String>,
}

impl SumStore {
    /// What the database on the first disk has. If there is none, it is made when there is something to keep.
    pub(crate) fn open(disks: &[PathBuf]) -> Self {
        let Some(first) = disks.get(..1) else { return Self::default() };
        let path = first[0].join(DATABASE_FILE);
        let found = ask_disks(first, DISK_ANSWER_TIMEOUT, |_, disk, _| {
            let path = disk.join(DATABASE_FILE);
            path.exists().then(|| read(&path))
        });
        let (database, digests) = match found.into_iter().next().flatten() {
            Some(Some(Ok((database, digests)))) => (Some(database), digests),
            Some(None) => (None, HashMap::new()),
            Some(Some(Err(error))) => {
                say_lost(&error);
                return Self::default();
            }
            None => {
                say_lost(&format_args!("{} does not respond", first[0].display()));
                return Self::default();
            }
        };
        let (changes, waiting) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("scan-digests".into());
        // Without a thread, what is known lasts as long as the program.
        let writer = thread.spawn(move || write_all(&path, database, &waiting)).ok();
        let writer = writer.map(|thread| (changes, thread));
        let (digests, noted, notes) = (Mutex::new(digests), Mutex::default(), AtomicU64::new(0));
        Self { writer, digests, presence: Mutex::default(), noted, notes }
    }

    /// The digests that are known of the recording with this entity tag.
    pub(crate) fn of(&self, etag: &str) -> DigestSet {
        lock(&self.digests).get(etag).cloned().unwrap_or_default()
    }

    /// Keeps digests that were computed of the recording with this entity tag and length.
    pub(crate) fn keep(&self, etag: &str, bytes: u64, digests: &DigestSet) {
        let all = {
            let present = &lock(&self.presence).present;
            let mut known = lock(&self.digests);
            if known.len() >= MAX_ABSENT && !known.contains_key(etag) {
                make_room(&mut known, present);
            }
            let all = known.entry(etag.to_owned()).or_default();
            all.merge(digests);
            all.kept(bytes, SystemTime::UNIX_EPOCH)
        };
        self.change(Change::Keep { etag: etag.to_owned(), bytes, digests: all });
    }

    /// The recordings on the disks are those with these names and entity tags, and no others: forgets what is known of recordings that were
    /// not there the last time, either.
    pub(crate) fn retain(&self, present: HashMap<String, String>) {
        lock(&self.noted).retain(|name, _| present.contains_key(name));
        let present: HashSet<String> = present.into_values().collect();
        let mut presence = lock(&self.presence);
        let mut known = lock(&self.digests);
        let absent: HashSet<String> = known.keys().filter(|etag| !present.contains(*etag)).cloned().collect();
        for etag in absent.intersection(&presence.missed) {
            known.remove(etag);
            self.change(Change::Forget { etag: etag.clone() });
        }
        *presence = Presence { present, missed: absent };
    }

    fn change(&self, change: Change) {
        if let Some((changes, _)) = &self.writer {
            let _ = changes.try_send(change);
        }
    }

    /// Notes that the Adler-32 of the recording with this entity tag, name and CRC-32C is known, if it is.
    pub(super) fn note(&self, etag: &str, (name, crc32c): (&str, Option<u32>)) {
        let adler32 = self.of(etag).get(Algorithm::Adler32).and_then(|value| value.try_into().ok());
        if let (Some(crc32c), Some(adler32)) = (crc32c, adler32.map(u32::from_be_bytes)) {
            lock(&self.noted).insert(name.to_owned(), (crc32c, adler32));
            self.notes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The number of notes so far.
    pub(crate) fn notes(&self) -> u64 {
        self.notes.load(Ordering::SeqCst)
    }

    /// The Adler-32 that was noted of the recording with this name and CRC-32C.
    pub(crate) fn noted(&self, name: &str, crc32c: u32) -> Option<u32> {
        lock(&self.noted).get(name).filter(|(of, _)| *of == crc32c).map(|(_, adler32)| *adler32)
    }
}

impl Drop for SumStore {
    fn drop(&mut self) {
        if let Some((changes, thread)) = self.writer.take() {
            drop(changes);
            let begun = Instant::now();
            // A disk that hangs is not waited for.
            while !thread.is_finished() && begun.elapsed() < END_TIMEOUT {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Writes changes. After a failure it writes no more: a disk that is full, or has failed, is reported by the recordings on it.
fn write_all(path: &Path, mut database: Option<Connection>, changes: &Receiver<Change>) {
    for change in changes {
        let opened = database.take().map_or_else(|| read(path).map(|(opened, _)| opened), Ok);
        match opened.and_then(|opened| write(&opened, &change).map(|_| opened)) {
            Ok(opened) => database = Some(opened),
            Err(error) => return say_lost(&error),
        }
    }
}

fn write(database: &Connection, change: &Change) -> rusqlite::Result<usize> {
    match change {
        Change::Keep { etag, bytes, digests } => database.execute(
            "INSERT OR REPLACE INTO digests VALUES (?1, ?2, ?3)",
            params![etag, i64::try_from(*bytes).unwrap_or(i64::MAX), digests],
        ),
        Change::Forget { etag } => database.execute("DELETE FROM digests WHERE etag = ?1", params![etag]),
    }
}

/// Drops one whose recording was not seen on the disks, if there are too many of those.
fn make_room(known: &mut HashMap<String, DigestSet>, present: &HashSet<String>) {
    let mut absent = known.keys().filter(|etag| !present.contains(*etag));
    let first = absent.next().cloned();
    if absent.count() + 1 >= MAX_ABSENT
        && let Some(first) = first
    {
        known.remove(&first);
    }
}

fn say_lost(error: &dyn Display) {
    say!("{DATABASE_FILE}: {error}; digests of recordings are computed again after a restart");
}

/// The database, made if it does not exist, with what it has.
fn read(path: &Path) -> rusqlite::Result<(Connection, HashMap<String, DigestSet>)> {
    let database = Connection::open(path)?;
    let number = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => {}
        (0, 0) => database.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             CREATE TABLE digests (etag TEXT PRIMARY KEY, bytes INTEGER NOT NULL, digests TEXT NOT NULL);
             PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = {SCHEMA_VERSION};
             COMMIT;"
        ))?,
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    let digests = {
        let mut query =
            database.prepare(&format!("SELECT etag, bytes, digests FROM digests LIMIT {MAX_LOADED}"))?;
        let rows = query.query_map((), |row| {
            let (etag, bytes, digests): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let bytes = u64::try_from(bytes).unwrap_or(0);
            Ok((etag, DigestSet::of_kept(digests.as_bytes(), bytes, SystemTime::UNIX_EPOCH)))
        })?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    Ok((database, digests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::digests::Digester;

    fn sum(bytes: &[u8]) -> DigestSet {
        let mut digester = Digester::new([Algorithm::Adler32]);
        digester.update(bytes);
        digester.finish()
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart_until_its_recording_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let disks = [directory.path().to_owned()];
        let store = SumStore::open(&disks);
        assert_eq!(store.of("\"a\""), DigestSet::default());
        assert!(!directory.path().join(DATABASE_FILE).exists(), "without anything to keep");
        store.keep("\"a\"", 1, &sum(b"a"));
        store.keep("\"b\"", 1, &sum(b"b"));
        drop(store);
        let store = SumStore::open(&disks);
        assert_eq!(store.of("\"a\""), sum(b"a"));
        assert_eq!(store.of("\"c\""), DigestSet::default());
        store.keep("\"c\"", 1, &sum(b"c"));
        let present = HashMap::from([("s".to_owned(), "\"b\"".to_owned())]);
        store.retain(present.clone());
        assert_eq!(store.of("\"a\""), sum(b"a"), "it may have come since the disks were read");
        store.keep("\"d\"", 1, &sum(b"d"));
        store.retain(present);
        drop(store);
        let store = SumStore::open(&disks);
        assert_eq!(store.of("\"a\""), DigestSet::default());
        assert_eq!(store.of("\"b\""), sum(b"b"));
        assert_eq!(store.of("\"c\""), DigestSet::default(), "it was not found, either");
        assert_eq!(store.of("\"d\""), sum(b"d"), "it was not found once");
    }

    #[test]
    fn digests_of_recordings_that_are_there_stay_however_many_are_not() {
        let store = SumStore::default();
        let name = |n: usize| format!("s{n}");
        let present = 100;
        (0..present).for_each(|n| store.keep(&name(n), 1, &sum(b"a")));
        store.retain((0..present).map(|n| (name(n), name(n))).collect());
        for n in present..present + MAX_ABSENT + 10 {
            store.keep(&name(n), 1, &sum(b"a"));
        }
        assert!((0..present).all(|n| store.of(&name(n)) == sum(b"a")));
        assert_eq!(store.of(&name(present + MAX_ABSENT + 9)), sum(b"a"));
        assert_eq!(lock(&store.digests).len(), present + MAX_ABSENT);
    }

    #[test]
    fn a_sum_is_noted_for_the_recording_with_its_crc() {
        let store = SumStore::default();
        store.note("\"a\"", ("s", Some(5)));
        assert_eq!((store.notes(), store.noted("s", 5)), (0, None));
        store.keep("\"a\"", 1, &sum(b"a"));
        store.note("\"a\"", ("s", Some(5)));
        let adler32 = simd_adler32::adler32(&b"a".as_slice());
        assert_eq!((store.notes(), store.noted("s", 5), store.noted("s", 6)), (1, Some(adler32), None));
    }

    #[test]
    fn a_file_that_is_no_database_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(DATABASE_FILE), [7; 8192]).unwrap();
        let store = SumStore::open(&[directory.path().to_owned()]);
        store.keep("\"a\"", 1, &sum(b"a"));
        assert_eq!(store.of("\"a\""), sum(b"a"));
        assert_eq!(std::fs::read(directory.path().join(DATABASE_FILE)).unwrap(), [7; 8192]);
    }
}
