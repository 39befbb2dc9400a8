//! The database of a facility: one SQLite file.
//!
//! Every change is one transaction that is on the disk before it takes effect (`synchronous=FULL`), so neither
//! `kill -9` nor a power failure loses an acknowledged change. The database is read once, when it is opened.
//!
//! Limits: one process at a time; another is refused.

use rusqlite::{Connection, ErrorCode, Transaction};
use std::fmt;
use std::path::{Path, PathBuf};

/// `SKYB`, in the file's header.
const APPLICATION_ID: i64 = 0x534b_5942;
const SCHEMA_VERSION: i64 = 2;
/// The version without chains.
const FIRST_SCHEMA_VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE token (
    id INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER, hash BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
    created INTEGER NOT NULL) STRICT;
CREATE TABLE permission (
    token INTEGER NOT NULL REFERENCES token ON DELETE CASCADE, resource INTEGER NOT NULL, number INTEGER NOT NULL,
    level INTEGER NOT NULL) STRICT;
CREATE INDEX permission_token ON permission (token);
CREATE TABLE reservation (
    id INTEGER PRIMARY KEY AUTOINCREMENT, instance INTEGER NOT NULL UNIQUE, name TEXT NOT NULL, family INTEGER NOT NULL,
    strategy INTEGER NOT NULL, created INTEGER NOT NULL, until INTEGER) STRICT;
CREATE TABLE sender (
    reservation INTEGER NOT NULL REFERENCES reservation ON DELETE CASCADE, network TEXT NOT NULL,
    PRIMARY KEY (reservation, network)) STRICT;
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reservation INTEGER NOT NULL REFERENCES reservation ON DELETE CASCADE,
    number INTEGER NOT NULL, name TEXT NOT NULL, ip TEXT NOT NULL, port INTEGER NOT NULL, bits INTEGER NOT NULL,
    keep INTEGER NOT NULL, weight REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL) STRICT;
CREATE INDEX session_reservation ON session (reservation);
CREATE TABLE demand (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE, first INTEGER NOT NULL, length INTEGER NOT NULL) STRICT;
CREATE INDEX demand_session ON demand (session);
";

/// Additions of version 2.
const CHAIN_SCHEMA: &str = "
CREATE TABLE chain (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reservation INTEGER NOT NULL REFERENCES reservation ON DELETE CASCADE,
    uri TEXT NOT NULL, session TEXT NOT NULL, token TEXT NOT NULL, addresses TEXT NOT NULL, ip TEXT NOT NULL,
    port INTEGER NOT NULL, weight REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL) STRICT;
";

/// Why the state cannot be read or written.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// An error of the database.
    Database { verb: &'static str, error: rusqlite::Error },
    /// The database belongs to another application.
    NotOurs,
    /// The database has a later version.
    Newer(i64),
    /// The database has invalid contents.
    Corrupt(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            Kind::Database { verb, error } => {
                write!(f, "{verb} the state in {path}: {error}{}", hint(error.sqlite_error_code()))
            }
            Kind::NotOurs => {
                write!(f, "{path} is a database of something else; hint: name a file of its own with --state")
            }
            Kind::Newer(version) => {
                write!(
                    f,
                    "{path} was written by a newer skyhaul (version {version} of the state); hint: use that one"
                )
            }
            Kind::Corrupt(what) => write!(
                f,
                "the state in {path} is corrupt: {what}; hint: move it away and start again: workers then register anew"
            ),
        }
    }
}

fn hint(code: Option<ErrorCode>) -> &'static str {
    match code {
        Some(ErrorCode::DiskFull) => {
            "; hint: make room on that disk: what was asked for did not happen, packets go on"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; hint: another balancer uses it: stop that, or name another file with --state"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; hint: check that this user may write the file and its directory, or name another with --state"
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "; hint: move it away and start again: workers then register anew"
        }
        _ => "",
    }
}

impl std::error::Error for StoreError {}

/// An open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the database, or creates it. Without a path, it is in memory and is lost when the process ends.
    pub(super) fn open(path: Option<&Path>) -> Result<Store, StoreError> {
        let shown = path.unwrap_or(Path::new("memory"));
        let failed = |kind| StoreError { path: shown.to_owned(), kind };
        let database = |error| failed(Kind::Database { verb: "open", error });
        let mut connection = match path {
            Some(path) => {
                private(path);
                Connection::open(path)
            }
            None => Connection::open_in_memory(),
        }
        .map_err(database)?;
        let number = |connection: &Connection, name: &str| -> rusqlite::Result<i64> {
            connection.pragma_query_value(None, name, |row| row.get(0))
        };
        // Held until the process ends, so that no other process writes.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(database)?;
        let (application, version, tables) = (
            number(&connection, "application_id").map_err(database)?,
            number(&connection, "user_version").map_err(database)?,
            connection
                .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, i64>(0))
                .map_err(database)?,
        );
        match (application, version) {
            (0, 0) if tables == 0 => {}
            (APPLICATION_ID, FIRST_SCHEMA_VERSION | SCHEMA_VERSION) => {}
            (APPLICATION_ID, newer) => return Err(failed(Kind::Newer(newer))),
            _ => return Err(failed(Kind::NotOurs)),
        }
        let sound = check(&connection).map_err(database)?;
        if sound != "ok" {
            return Err(failed(Kind::Corrupt(sound)));
        }
        connection.pragma_update(None, "journal_mode", "WAL").map_err(database)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(database)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(database)?;
        let begin = |connection: &mut Connection| {
            let writing = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            if tables == 0 {
                writing.execute_batch(SCHEMA)?;
                writing.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            if version < SCHEMA_VERSION {
                writing.execute_batch(CHAIN_SCHEMA)?;
                writing.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            writing.commit()
        };
        begin(&mut connection).map_err(database)?;
        Ok(Store { connection, path: shown.to_owned() })
    }

    /// Performs all of `change`, or nothing.
    pub(super) fn write<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let run = || {
            let writing = self.connection.transaction()?;
            let out = change(&writing)?;
            writing.commit()?;
            Ok(out)
        };
        run().map_err(|error| StoreError {
            path: self.path.clone(),
            kind: Kind::Database { verb: "write", error },
        })
    }

    /// Every row of a query.
    pub(super) fn rows<T>(
        &self,
        query: &str,
        each: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let run = || -> rusqlite::Result<Vec<T>> {
            let mut query = self.connection.prepare(query)?;
            query.query_map((), each)?.collect()
        };
        run().map_err(|error| StoreError {
            path: self.path.clone(),
            kind: Kind::Database { verb: "read", error },
        })
    }

    /// Simulates a full disk from now on.
    #[cfg(test)]
    pub(in super::super) fn fill(&self) {
        let pages: i64 = self.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        self.connection.pragma_update(None, "max_page_count", pages).unwrap();
    }

    /// The error for invalid contents.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> StoreError {
        StoreError { path: self.path.clone(), kind: Kind::Corrupt(what.into()) }
    }
}

/// `ok`, or the first problem.
fn check(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
}

/// Only its owner can read the hashes and tokens in it. If the file cannot be created, opening it gives the reason.
fn private(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let _ = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
}
