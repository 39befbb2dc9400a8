//! Digests of closed recordings, as they are kept: in a database on the first disk, by entity tag.
//!
//! A recorder computes CRC-32C only; what else is asked for costs a read of the whole recording. It is done once: by the client that asks
//! first, with an upload, or by [`ScanSums`](super::summing::ScanSums), and found here since. Without a place on the disk, what is known lasts as long
//! as the program.

use crate::remote::digests::{Algorithm, DigestSet};
use crate::served::recordings::RecordingFile;
use rusqlite::{Connection, params};
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Name of the database, on the first disk.
const DATABASE_FILE: &str = "station_digests.db";
/// SQLite's application id of this database: "skyd".
const APPLICATION_ID: i64 = 0x736b_7964;
/// Version of its table.
const SCHEMA_VERSION: i64 = 1;
/// Recordings of which digests are in memory.
const MAX_KNOWN: usize = 65_536;

/// What is known of recordings.
#[derive(Debug, Default)]
pub(crate) struct SumStore {
    database: Mutex<Option<Connection>>,
    digests: Mutex<HashMap<String, DigestSet>>,
    /// Entity tags that the database had at the start.
    loaded: HashSet<String>,
    /// CRC-32C and Adler-32 of recordings of which [`note`](Self::note) was called, by name.
    noted: Mutex<BTreeMap<String, (u32, u32)>>,
    notes: AtomicU64,
}

impl SumStore {
    /// Opens the database on the first disk, or makes it.
    pub(crate) fn open(disks: &[PathBuf]) -> Self {
        let Some(path) = disks.first().map(|disk| disk.join(DATABASE_FILE)) else { return Self::default() };
        match read(&path) {
            Ok((database, digests)) => Self {
                loaded: digests.keys().cloned().collect(),
                database: Mutex::new(Some(database)),
                digests: Mutex::new(digests),
                ..Self::default()
            },
            Err(error) => {
                say!("{}: {error}; digests of recordings are computed again after a restart", path.display());
                Self::default()
            }
        }
    }

    /// The digests that are known of a recording.
    pub(crate) fn of(&self, file: &RecordingFile) -> DigestSet {
        lock(&self.digests).get(&file.etag).cloned().unwrap_or_default()
    }

    /// Keeps digests that were computed.
    pub(crate) fn keep(&self, file: &RecordingFile, digests: &DigestSet) {
        let all = {
            let mut known = lock(&self.digests);
            if known.len() >= MAX_KNOWN && !known.contains_key(&file.etag) {
                known.clear();
            }
            let all = known.entry(file.etag.clone()).or_default();
            all.merge(digests);
            all.kept(file.bytes, SystemTime::UNIX_EPOCH)
        };
        let write = |database: &Connection| {
            database.execute(
                "INSERT OR REPLACE INTO digests VALUES (?1, ?2, ?3)",
                params![file.etag, i64::try_from(file.bytes).unwrap_or(i64::MAX), all],
            )
        };
        self.change(write);
    }

    /// Forgets what the database had at the start, except for recordings with these entity tags.
    pub(crate) fn retain(&self, etags: &HashSet<String>) {
        for etag in self.loaded.difference(etags) {
            lock(&self.digests).remove(etag);
            self.change(|database| database.execute("DELETE FROM digests WHERE etag = ?1", params![etag]));
        }
    }

    /// Changes the database. After a failure it is not used any more: a disk that is full, or has failed, is reported by the recordings on it.
    fn change(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<usize>) {
        let mut database = lock(&self.database);
        if let Some(Err(error)) = database.as_ref().map(change) {
            say!("{DATABASE_FILE}: {error}; digests of recordings are computed again after a restart");
            *database = None;
        }
    }

    /// Notes that the Adler-32 of a recording is known.
    pub(super) fn note(&self, file: &RecordingFile) {
        let adler32 = self.of(file).get(Algorithm::Adler32).and_then(|value| value.try_into().ok());
        if let (Some(crc32c), Some(adler32)) = (file.crc32c, adler32.map(u32::from_be_bytes)) {
            lock(&self.noted).insert(file.name.clone(), (crc32c, adler32));
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

/// The database with what it has.
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
            database.prepare(&format!("SELECT etag, bytes, digests FROM digests LIMIT {MAX_KNOWN}"))?;
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

    fn file(etag: &str) -> RecordingFile {
        RecordingFile::example("s", etag, Some(5))
    }

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
        assert_eq!(store.of(&file("\"a\"")), DigestSet::default());
        store.keep(&file("\"a\""), &sum(b"a"));
        store.keep(&file("\"b\""), &sum(b"b"));
        drop(store);
        let store = SumStore::open(&disks);
        assert_eq!(store.of(&file("\"a\"")), sum(b"a"));
        assert_eq!(store.of(&file("\"c\"")), DigestSet::default());
        store.keep(&file("\"c\""), &sum(b"c"));
        store.retain(&HashSet::from(["\"b\"".to_owned()]));
        drop(store);
        let store = SumStore::open(&disks);
        assert_eq!(store.of(&file("\"a\"")), DigestSet::default());
        assert_eq!(store.of(&file("\"b\"")), sum(b"b"));
        assert_eq!(store.of(&file("\"c\"")), sum(b"c"), "it came after the start");
    }

    #[test]
    fn a_sum_is_noted_for_the_recording_with_its_crc() {
        let store = SumStore::default();
        store.note(&file("\"a\""));
        assert_eq!((store.notes(), store.noted("s", 5)), (0, None));
        store.keep(&file("\"a\""), &sum(b"a"));
        store.note(&file("\"a\""));
        let adler32 = simd_adler32::adler32(&b"a".as_slice());
        assert_eq!((store.notes(), store.noted("s", 5), store.noted("s", 6)), (1, Some(adler32), None));
    }

    #[test]
    fn a_file_that_is_no_database_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(DATABASE_FILE), [7; 8192]).unwrap();
        let store = SumStore::open(&[directory.path().to_owned()]);
        store.keep(&file("\"a\""), &sum(b"a"));
        assert_eq!(store.of(&file("\"a\"")), sum(b"a"));
        assert_eq!(std::fs::read(directory.path().join(DATABASE_FILE)).unwrap(), [7; 8192]);
    }
}
