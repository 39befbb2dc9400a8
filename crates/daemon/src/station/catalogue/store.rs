//! The catalogue's file: an SQLite database on the first disk, written by a thread of its own.
//!
//! ```text
//!   CREATE TABLE scans (name TEXT PRIMARY KEY, crc32c INTEGER, record TEXT)      record: JSON; the checksum is of name, a zero byte and record
//! ```
//!
//! It says nothing that the disks do not say. So whatever is wrong with it, it is moved aside and written anew from memory: another version, damage, a
//! removal while the service runs. A disk that is full or fails is tried again every [`RETRY_INTERVAL`]; meanwhile the catalogue is in memory only.
//! Nothing but this thread waits for its disk.

use super::entry::ScanEntry;
use rusqlite::{Connection, params};
use skyhaul::io::say;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{remove_file, rename};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name of the database, on the first disk.
pub(super) const CATALOGUE_FILE: &str = "station_catalogue.db";
/// Name that one has that could not be used. There is at most one.
pub(super) const SET_ASIDE: &str = "station_catalogue.db.unused";
/// SQLite's application id of this database: "skyc".
const APPLICATION_ID: i64 = 0x736b_7963;
/// Version of its table and of the records in it.
const SCHEMA_VERSION: i64 = 1;
/// When a disk is tried again that did not take it.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// How long another program that reads it may hold it up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Scans that are taken from memory at a time.
const BATCH: usize = 512;
/// Maximum length of a record, bytes: what is longer was not written here.
const MAX_RECORD_BYTES: i64 = 1 << 20;
/// Scans that are read at the start: some 500 bytes each.
pub(super) const MAX_SCANS: usize = 1 << 20;

/// Scans by name.
pub(super) type Entries = BTreeMap<String, Arc<ScanEntry>>;

/// What is to be written.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// Scans that have changed, or are gone.
    pub(super) names: BTreeSet<String>,
    /// Everything: what the file has counts for nothing.
    pub(super) all: bool,
}

/// The file, for its thread.
#[derive(Debug)]
pub(super) struct CatalogueFile {
    path: PathBuf,
    disks: Vec<PathBuf>,
    /// Open, with the number of the file, by which it is known that it is still there.
    open: Option<(Connection, u64)>,
    retry_at: Option<Instant>,
}

impl CatalogueFile {
    pub(super) fn new(disks: &[PathBuf]) -> Self {
        let path = disks.first().map(|disk| disk.join(CATALOGUE_FILE)).unwrap_or_default();
        Self { path, disks: disks.to_vec(), open: None, retry_at: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(super) fn retry_now(&mut self) {
        self.retry_at = None;
    }

    /// The scans that it has; a record that is damaged is left out, and read again. Whether it can be used as it is.
    pub(super) fn load(&mut self) -> (Entries, bool) {
        if std::fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return (Entries::new(), false);
        }
        let disks = self.disks.clone();
        match self.open().and_then(|database| read(database, &disks)) {
            Ok((entries, is_whole)) => (entries, is_whole),
            Err(error) => {
                say!("{}: {error}; the catalogue is made anew from the disks", self.path.display());
                self.open = None;
                (Entries::new(), false)
            }
        }
    }

    /// Writes what has changed, and takes it from `unwritten`; everything, if the file is not what it was. `after` gives scans after a
    /// name, `one` a scan. `None`: there is nothing to do now.
    pub(super) fn write(
        &mut self,
        unwritten: &mut Unwritten,
        after: &dyn Fn(Option<&str>, usize) -> Vec<(String, Arc<ScanEntry>)>,
        one: &dyn Fn(&str) -> Option<Arc<ScanEntry>>,
    ) -> Option<Result<(), String>> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        unwritten.all |= !self.is_there();
        if !unwritten.all && unwritten.names.is_empty() {
            return None;
        }
        let done = match unwritten.all {
            true => self.write_all(after),
            false => self.write_names(&unwritten.names, one),
        };
        match &done {
            Ok(()) => (*unwritten, self.retry_at) = (Unwritten::default(), None),
            Err(_) => {
                // Whatever is there is not trusted any more.
                (self.open, unwritten.all) = (None, true);
                self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            }
        }
        Some(done)
    }

    /// Whether the file that is open is the one of this name.
    fn is_there(&self) -> bool {
        let number = std::fs::symlink_metadata(&self.path).map(|data| data.ino());
        self.open.as_ref().is_some_and(|(_, known)| number.is_ok_and(|number| number == *known))
    }

    /// The database, opened if it is ours.
    fn open(&mut self) -> Result<&Connection, String> {
        if self.open.is_none() {
            let database = opened(&self.path)?;
            let number = std::fs::symlink_metadata(&self.path).map_err(|error| error.to_string())?.ino();
            self.open = Some((database, number));
        }
        self.open.as_ref().map(|(database, _)| database).ok_or_else(|| "it is not open".to_owned())
    }

    fn write_all(
        &mut self,
        after: &dyn Fn(Option<&str>, usize) -> Vec<(String, Arc<ScanEntry>)>,
    ) -> Result<(), String> {
        self.open = None;
        let is_absent =
            std::fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if is_absent && after(None, 1).is_empty() {
            // A station without scans needs no file.
            return Ok(());
        }
        set_aside(&self.path).map_err(|error| error.to_string())?;
        let disks = self.disks.clone();
        let database = self.open()?;
        let write = || -> rusqlite::Result<()> {
            database.execute_batch("BEGIN IMMEDIATE; DELETE FROM scans;")?;
            let mut last: Option<String> = None;
            loop {
                let batch = after(last.as_deref(), BATCH);
                batch.iter().try_for_each(|(name, entry)| insert(database, name, &entry.text(&disks)))?;
                match batch.into_iter().next_back() {
                    Some((name, _)) => last = Some(name),
                    None => return database.execute_batch("COMMIT"),
                }
            }
        };
        write().map_err(|error| error.to_string())
    }

    fn write_names(
        &mut self,
        names: &BTreeSet<String>,
        one: &dyn Fn(&str) -> Option<Arc<ScanEntry>>,
    ) -> Result<(), String> {
        let disks = self.disks.clone();
        let database = self.open()?;
        let write = || -> rusqlite::Result<()> {
            database.execute_batch("BEGIN IMMEDIATE")?;
            for name in names {
                match one(name) {
                    Some(entry) => insert(database, name, &entry.text(&disks))?,
                    None => drop(database.execute("DELETE FROM scans WHERE name = ?1", params![name])?),
                }
            }
            database.execute_batch("COMMIT")
        };
        write().map_err(|error| error.to_string())
    }
}

/// Scans after a name, of a map.
pub(super) fn batch(entries: &Entries, after: Option<&str>, count: usize) -> Vec<(String, Arc<ScanEntry>)> {
    let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
    let range = entries.range::<str, _>((begin, Bound::Unbounded));
    range.take(count).map(|(name, entry)| (name.clone(), Arc::clone(entry))).collect()
}

/// The names of the files that SQLite has beside a database.
fn beside(path: &Path) -> [PathBuf; 3] {
    ["-journal", "-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

/// Moves a file away that cannot be used, in place of the last one; if it is another kind of thing, that is an error.
fn set_aside(path: &Path) -> io::Result<()> {
    let is_gone = |done: io::Result<()>| match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    };
    for name in beside(path) {
        is_gone(remove_file(name))?;
    }
    if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    match opened(path) {
        // What is ours needs no keeping.
        Ok(_) => is_gone(remove_file(path)),
        Err(_) => is_gone(rename(path, path.with_file_name(SET_ASIDE))),
    }
}

/// The database, made if it does not exist.
fn opened(path: &Path) -> Result<Connection, String> {
    let open = || -> rusqlite::Result<Option<Connection>> {
        let database = Connection::open(path)?;
        database.busy_timeout(BUSY_TIMEOUT)?;
        let number = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        match (number("application_id")?, number("user_version")?) {
            (APPLICATION_ID, SCHEMA_VERSION) => {}
            (0, 0) if number("page_count")? == 0 => database.execute_batch(&format!(
                "BEGIN IMMEDIATE;
                 CREATE TABLE scans (name TEXT PRIMARY KEY, crc32c INTEGER NOT NULL, record TEXT NOT NULL) WITHOUT ROWID;
                 PRAGMA application_id = {APPLICATION_ID};
                 PRAGMA user_version = {SCHEMA_VERSION};
                 COMMIT;"
            ))?,
            _ => return Ok(None),
        }
        // No memory is shared with other programs that read it: a failing disk would end this one by a signal.
        database.pragma_update(None, "journal_mode", "TRUNCATE")?;
        database.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(Some(database))
    };
    match open() {
        Ok(database) => database.ok_or_else(|| "it is not a catalogue of this version".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn checksum(name: &str, record: &str) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), &[0]), record.as_bytes())
}

fn insert(database: &Connection, name: &str, record: &str) -> rusqlite::Result<()> {
    let values = params![name, checksum(name, record), record];
    database.execute("INSERT OR REPLACE INTO scans VALUES (?1, ?2, ?3)", values).map(|_| ())
}

/// All that it has, and whether all of it is whole.
fn read(database: &Connection, disks: &[PathBuf]) -> Result<(Entries, bool), String> {
    let (mut entries, mut is_whole) = (Entries::new(), true);
    let mut all = || -> rusqlite::Result<()> {
        let text = format!(
            "SELECT name, crc32c, record FROM scans WHERE length(record) <= {MAX_RECORD_BYTES} LIMIT {MAX_SCANS}"
        );
        let mut query = database.prepare(&text)?;
        let mut rows = query.query(())?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let (crc32c, record): (i64, String) = (row.get(1)?, row.get(2)?);
            let is_sound = i64::from(checksum(&name, &record)) == crc32c;
            match ScanEntry::of_text(&record, disks).filter(|_| is_sound) {
                Some(entry) => drop(entries.insert(name, Arc::new(entry))),
                None => is_whole = false,
            }
        }
        Ok(())
    };
    all().map_err(|error: rusqlite::Error| error.to_string())?;
    Ok((entries, is_whole))
}

/// How the file is, for those who ask.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FileState {
    /// Why it does not have what is known; `None`: it has, or will in a moment.
    pub(super) problem: Option<String>,
}

impl FileState {
    /// Notes how writing ended, and says so once.
    pub(super) fn note(&mut self, path: &Path, done: Result<(), String>) {
        match (done, &self.problem) {
            (Ok(()), Some(_)) => {
                say!("{} is written again", path.display());
                self.problem = None;
            }
            (Ok(()), None) => {}
            (Err(text), known) => {
                if known.as_ref() != Some(&text) {
                    say!("{} cannot be written, and is tried again: {text}", path.display());
                }
                self.problem = Some(text);
            }
        }
    }
}
