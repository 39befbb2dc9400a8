//! The catalogue's file: an SQLite database on the first disk, written by a thread of its own.
//!
//! ```text
//!   CREATE TABLE scans (name TEXT PRIMARY KEY, crc32c INTEGER, record TEXT)      record: JSON; the checksum is of name, a zero byte and record
//! ```
//!
//! The disks say all that it says, but for copies that the queue has forgotten. So one that does is never removed: it is written in one transaction, in
//! place. One that is damaged or of another version is moved aside, and written anew from memory. One that is locked, or whose disk is full or fails, is
//! tried again every [`RETRY_INTERVAL`]; meanwhile the catalogue is in memory only.
//! Nothing but this thread waits for its disk.

use super::entry::ScanEntry;
use rusqlite::{Connection, ErrorCode, params};
use skyhaul::io::say;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::rename;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Gives so many scans, by name, after a name or from the first.
type ScansAfter<'a> = dyn Fn(Option<&str>, usize) -> Vec<(String, Arc<ScanEntry>)> + 'a;

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

/// Why the file does not do.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is damaged, or not ours.
    Unusable(String),
    /// It may be sound: it is locked, or its disk is full or fails.
    Unavailable(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Unusable(error.to_string()),
            // Not of SQLite: a table or a record of another shape.
            None => Self::Unusable(error.to_string()),
            Some(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
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

    /// The scans that it has; a record that is damaged is left out, and read again. Whether it can be used as it is. What is unusable is moved aside.
    ///
    /// # Errors
    /// It cannot be read now, and may be sound: it is left as it is, and tried again later.
    pub(super) fn load(&mut self) -> Result<(Entries, bool), String> {
        if std::fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            self.open = None;
            return Ok((Entries::new(), false));
        }
        self.open = None;
        let disks = self.disks.clone();
        let text = match self.open().and_then(|database| read(database, &disks)) {
            Ok(found) => return Ok(found),
            Err(Fault::Unusable(text)) => text,
            Err(Fault::Unavailable(text)) => return Err(self.fail(text)),
        };
        say!("{}: {text}; the catalogue is made anew from the disks", self.path.display());
        self.open = None;
        match set_aside(&self.path) {
            Ok(()) => Ok((Entries::new(), false)),
            Err(error) => Err(self.fail(error.to_string())),
        }
    }

    /// Whether what it has is to be taken before it is written: it is not open, or another lies in its place.
    pub(super) fn is_to_be_loaded(&self) -> bool {
        self.retry_at.is_none_or(|at| Instant::now() >= at) && !self.is_there()
    }

    fn fail(&mut self, text: String) -> String {
        self.open = None;
        self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
        text
    }

    /// Writes what has changed, and takes it from `unwritten`; everything, if the file is not what it was. `after` gives scans after a
    /// name, `one` a scan. `None`: there is nothing to do now.
    pub(super) fn write(
        &mut self,
        unwritten: &mut Unwritten,
        after: &ScansAfter<'_>,
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
        Some(match done {
            Ok(()) => {
                (*unwritten, self.retry_at) = (Unwritten::default(), None);
                Ok(())
            }
            Err(fault) => {
                // Closed, its transaction is undone: what it had before stays.
                self.open = None;
                unwritten.all = true;
                Err(match fault {
                    Fault::Unavailable(text) => self.fail(text),
                    Fault::Unusable(text) => match set_aside(&self.path) {
                        Ok(()) => text,
                        Err(error) => self.fail(error.to_string()),
                    },
                })
            }
        })
    }

    /// Whether the file that is open is the one of this name.
    fn is_there(&self) -> bool {
        let number = std::fs::symlink_metadata(&self.path).map(|data| data.ino());
        self.open.as_ref().is_some_and(|(_, known)| number.is_ok_and(|number| number == *known))
    }

    /// The database, opened if it is ours.
    fn open(&mut self) -> Result<&Connection, Fault> {
        if self.open.is_none() {
            let database = opened(&self.path)?;
            let number = std::fs::symlink_metadata(&self.path)?.ino();
            self.open = Some((database, number));
        }
        self.open
            .as_ref()
            .map(|(database, _)| database)
            .ok_or_else(|| Fault::Unavailable("it is not open".to_owned()))
    }

    fn write_all(&mut self, after: &ScansAfter<'_>) -> Result<(), Fault> {
        let is_absent =
            std::fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        if is_absent && after(None, 1).is_empty() {
            // A station without scans needs no file.
            return Ok(());
        }
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
        Ok(write()?)
    }

    fn write_names(
        &mut self,
        names: &BTreeSet<String>,
        one: &dyn Fn(&str) -> Option<Arc<ScanEntry>>,
    ) -> Result<(), Fault> {
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
        Ok(write()?)
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

/// Moves a file away that cannot be used, with what SQLite has beside it, in place of the last one.
fn set_aside(path: &Path) -> io::Result<()> {
    let to = path.with_file_name(SET_ASIDE);
    let pairs = beside(path).into_iter().zip(beside(&to));
    for (from, to) in pairs.chain([(path.to_owned(), to.clone())]) {
        match rename(from, to) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The database, made if it does not exist.
fn opened(path: &Path) -> Result<Connection, Fault> {
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
    open()?.ok_or_else(|| Fault::Unusable("it is not a catalogue of this version".to_owned()))
}

fn checksum(name: &str, record: &str) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), &[0]), record.as_bytes())
}

fn insert(database: &Connection, name: &str, record: &str) -> rusqlite::Result<()> {
    let values = params![name, checksum(name, record), record];
    database.execute("INSERT OR REPLACE INTO scans VALUES (?1, ?2, ?3)", values).map(|_| ())
}

/// All that it has, and whether all of it is whole.
fn read(database: &Connection, disks: &[PathBuf]) -> Result<(Entries, bool), Fault> {
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
    all()?;
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
