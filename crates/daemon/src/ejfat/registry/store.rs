//! The database of a control plane: one SQLite file.
//!
//! Every change is one transaction that is on the disk before it takes effect (`synchronous=FULL`), so neither
//! `kill -9` nor a power failure loses an acknowledged change. The database is read once, when it is opened.
//!
//! Limits: one process at a time; another is refused.

use super::token::{Level, Permission, Resource, Token};
use crate::ejfat::registry::{Reservation, Session};
use rusqlite::{Connection, ErrorCode, Result, Transaction};
use skyhaul::auth::TokenHash;
use skyhaul::core::hint::Hint;
use skyhaul_core::balance::{Prefix, Strategy};
use std::collections::BTreeMap;
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
pub struct DatabaseError {
    path: PathBuf,
    kind: DatabaseErrorKind,
}

#[derive(Debug)]
enum DatabaseErrorKind {
    /// An error of the database.
    Database { verb: &'static str, error: rusqlite::Error },
    /// The database belongs to another application.
    NotOurs,
    /// The database has a later version.
    Newer(i64),
    /// The database has invalid contents.
    Corrupt(String),
}

const MOVE_AWAY: &str = "move the file away and restart; workers then register again";

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            DatabaseErrorKind::Database { verb, error } => {
                write!(f, "{verb} the state in {path}: {error}")?;
                remedy(error.sqlite_error_code()).map_or(Ok(()), |remedy| Hint(remedy).fmt(f))
            }
            DatabaseErrorKind::NotOurs => {
                write!(
                    f,
                    "{path} is the database of another program{}",
                    Hint("give a file of its own with --state")
                )
            }
            DatabaseErrorKind::Newer(version) => {
                write!(
                    f,
                    "{path} was written by a newer skyhaul (state version {version}){}",
                    Hint("use that version")
                )
            }
            DatabaseErrorKind::Corrupt(what) => {
                write!(f, "the state in {path} is corrupt: {what}{}", Hint(MOVE_AWAY))
            }
        }
    }
}

fn remedy(code: Option<ErrorCode>) -> Option<&'static str> {
    Some(match code? {
        ErrorCode::DiskFull => "free space on that disk; the call had no effect, and forwarding continues",
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            "stop the balancer that uses it, or give another file with --state"
        }
        ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            "check that this user may write the file and its directory, or give another file with --state"
        }
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => MOVE_AWAY,
        _ => return None,
    })
}

impl std::error::Error for DatabaseError {}

/// An open database.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    path: PathBuf,
}

impl Database {
    /// Opens the database, or creates it. Without a path, it is in memory and is lost when the process ends.
    pub(super) fn open(path: Option<&Path>) -> Result<Database, DatabaseError> {
        let shown = path.unwrap_or(Path::new("memory"));
        let failed = |kind| DatabaseError { path: shown.to_owned(), kind };
        let database = |error| failed(DatabaseErrorKind::Database { verb: "open", error });
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
            (APPLICATION_ID, newer) => return Err(failed(DatabaseErrorKind::Newer(newer))),
            _ => return Err(failed(DatabaseErrorKind::NotOurs)),
        }
        let sound = check(&connection).map_err(database)?;
        if sound != "ok" {
            return Err(failed(DatabaseErrorKind::Corrupt(sound)));
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
        Ok(Database { connection, path: shown.to_owned() })
    }

    /// Performs all of `change`, or nothing.
    pub(super) fn write<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let run = || {
            let writing = self.connection.transaction()?;
            let out = change(&writing)?;
            writing.commit()?;
            Ok(out)
        };
        run().map_err(|error| DatabaseError {
            path: self.path.clone(),
            kind: DatabaseErrorKind::Database { verb: "write", error },
        })
    }

    /// Every row of a query.
    pub(super) fn rows<T>(
        &self,
        query: &str,
        each: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, DatabaseError> {
        let run = || -> rusqlite::Result<Vec<T>> {
            let mut query = self.connection.prepare(query)?;
            query.query_map((), each)?.collect()
        };
        run().map_err(|error| DatabaseError {
            path: self.path.clone(),
            kind: DatabaseErrorKind::Database { verb: "read", error },
        })
    }

    /// Simulates a full disk from now on.
    #[cfg(test)]
    pub(crate) fn fill(&self) {
        let pages: i64 = self.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        self.connection.pragma_update(None, "max_page_count", pages).unwrap();
    }

    /// The error for invalid contents.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> DatabaseError {
        DatabaseError { path: self.path.clone(), kind: DatabaseErrorKind::Corrupt(what.into()) }
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

/// The contents of the database.
pub(super) struct Kept {
    /// By number, so that each comes after the one that created it.
    pub(super) tokens: Vec<Token>,
    pub(super) reservations: BTreeMap<i64, Reservation>,
    pub(super) sessions: BTreeMap<i64, Session>,
}

/// Reads everything. An invalid row is an error; it is not skipped.
pub(super) fn read(from: &Database) -> std::result::Result<Kept, DatabaseError> {
    let mut reservations = BTreeMap::new();
    for reservation in
        from.rows("SELECT id, instance, name, family, strategy, created, until FROM reservation", |row| {
            Ok(Reservation {
                id: row.get(0)?,
                instance: row.get(1)?,
                name: row.get(2)?,
                family: row.get(3)?,
                strategy: strategy(row.get(4)?),
                created: row.get(5)?,
                until: row.get(6)?,
                senders: Vec::new(),
            })
        })?
    {
        reservations.insert(reservation.id, reservation);
    }
    let senders = from.rows("SELECT reservation, network FROM sender ORDER BY rowid", |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for (id, network) in senders {
        let known = reservations.get_mut(&id).zip(network.parse::<Prefix>().ok());
        let (reservation, network) = known.ok_or_else(|| from.corrupt(format!("the sender {network}")))?;
        reservation.senders.push(network);
    }
    let mut sessions = BTreeMap::new();
    for (session, ip) in from.rows(
        "SELECT id, reservation, number, name, ip, port, bits, keep, weight, least, most FROM session",
        session,
    )? {
        let wrong = || from.corrupt(format!("session {}", session.id));
        if !reservations.contains_key(&session.reservation) {
            return Err(wrong());
        }
        let ip = ip.parse().map_err(|_| wrong())?;
        sessions.insert(session.id, Session { ip, ..session });
    }
    let demands = from.rows("SELECT session, first, length FROM demand ORDER BY rowid", |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?))
    })?;
    for (id, first, length) in demands {
        let session =
            sessions.get_mut(&id).ok_or_else(|| from.corrupt(format!("a demand of session {id}")))?;
        session.demands.push((first, length));
    }
    Ok(Kept { tokens: tokens(from)?, reservations, sessions })
}

/// The strategy with this number; unknown numbers mean the first.
fn strategy(number: i64) -> Strategy {
    match number {
        1 => Strategy::Static,
        2 => Strategy::Explicit,
        _ => Strategy::Dynamic,
    }
}

/// A session without its address, and the address as text.
fn session(row: &rusqlite::Row<'_>) -> Result<(Session, String)> {
    let session = Session {
        id: row.get(0)?,
        reservation: row.get(1)?,
        number: row.get::<_, i64>(2)?.cast_unsigned(),
        name: row.get(3)?,
        ip: std::net::Ipv4Addr::UNSPECIFIED.into(),
        port: row.get(5)?,
        bits: row.get(6)?,
        keep_label: row.get(7)?,
        weight: row.get(8)?,
        min_factor: row.get(9)?,
        max_factor: row.get(10)?,
        demands: Vec::new(),
    };
    Ok((session, row.get(4)?))
}

fn tokens(from: &Database) -> std::result::Result<Vec<Token>, DatabaseError> {
    let mut permissions: BTreeMap<i64, Vec<Permission>> = BTreeMap::new();
    let rows = from.rows("SELECT token, resource, number, level FROM permission ORDER BY rowid", |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    for (token, kind, number, level) in rows {
        let permission = permission(kind, number, level);
        let permission = permission.ok_or_else(|| from.corrupt(format!("a permission of token {token}")))?;
        permissions.entry(token).or_default().push(permission);
    }
    let mut tokens = from.rows("SELECT id, parent, hash, name, created FROM token ORDER BY id", |row| {
        let hash: [u8; 32] = row.get(2)?;
        let permissions = Vec::new();
        let (id, parent, name, created) = (row.get(0)?, row.get(1)?, row.get(3)?, row.get(4)?);
        Ok(Token { id, parent, name, created, permissions, hash: TokenHash::from(hash) })
    })?;
    for token in &mut tokens {
        token.permissions = permissions.remove(&token.id).unwrap_or_default();
    }
    Ok(tokens)
}

fn permission(kind: i64, number: i64, level: i64) -> Option<Permission> {
    let resource = match kind {
        0 => Resource::All,
        1 => Resource::Instance(number),
        2 => Resource::Reservation(number),
        3 => Resource::Session(number),
        _ => return None,
    };
    let level = *Level::ALL.get(usize::try_from(level).ok()?)?;
    Some(Permission { resource, level })
}

/// The resource of a permission as the numbers of the protocol.
fn numbers(resource: Resource) -> (i64, i64) {
    match resource {
        Resource::All => (0, 0),
        Resource::Instance(number) => (1, number),
        Resource::Reservation(number) => (2, number),
        Resource::Session(number) => (3, number),
    }
}

pub(super) fn insert_permissions(to: &Transaction<'_>, token: i64, all: &[Permission]) -> Result<()> {
    let mut insert =
        to.prepare("INSERT INTO permission (token, resource, number, level) VALUES (?1, ?2, ?3, ?4)")?;
    for permission in all {
        let (kind, number) = numbers(permission.resource);
        insert.execute((token, kind, number, permission.level as i64))?;
    }
    Ok(())
}

pub(super) fn insert_token(to: &Transaction<'_>, new: &Token) -> Result<i64> {
    to.execute(
        "INSERT INTO token (parent, hash, name, created) VALUES (?1, ?2, ?3, ?4)",
        (new.parent, &new.hash.bytes()[..], &new.name, new.created),
    )?;
    let id = to.last_insert_rowid();
    insert_permissions(to, id, &new.permissions)?;
    Ok(id)
}

pub(super) fn delete_tokens(to: &Transaction<'_>, ids: &[i64]) -> Result<()> {
    let mut delete = to.prepare("DELETE FROM token WHERE id = ?1")?;
    for id in ids {
        delete.execute((id,))?;
    }
    Ok(())
}

pub(super) fn insert_reservation(to: &Transaction<'_>, wanted: &Reservation) -> Result<i64> {
    let Reservation { id: _, instance, name, family, strategy, created, until, senders } = wanted;
    to.execute(
        "INSERT INTO reservation (instance, name, family, strategy, created, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (instance, name, family, *strategy as i64, created, until),
    )?;
    let id = to.last_insert_rowid();
    insert_senders(to, id, senders)?;
    Ok(id)
}

pub(super) fn insert_senders(to: &Transaction<'_>, reservation: i64, senders: &[Prefix]) -> Result<()> {
    let mut insert = to.prepare("INSERT OR IGNORE INTO sender (reservation, network) VALUES (?1, ?2)")?;
    for sender in senders {
        insert.execute((reservation, sender.to_string()))?;
    }
    Ok(())
}

pub(super) fn insert_session(to: &Transaction<'_>, wanted: &Session) -> Result<i64> {
    to.execute(
        "INSERT INTO session (reservation, number, name, ip, port, bits, keep, weight, least, most)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            wanted.reservation,
            wanted.number.cast_signed(),
            &wanted.name,
            wanted.ip.to_string(),
            wanted.port,
            wanted.bits,
            wanted.keep_label,
            wanted.weight,
            wanted.min_factor,
            wanted.max_factor,
        ),
    )?;
    let id = to.last_insert_rowid();
    insert_demands(to, id, &wanted.demands)?;
    Ok(id)
}

pub(super) fn insert_demands(to: &Transaction<'_>, session: i64, demands: &[(u16, u16)]) -> Result<()> {
    let mut insert = to.prepare("INSERT INTO demand (session, first, length) VALUES (?1, ?2, ?3)")?;
    for (first, length) in demands {
        insert.execute((session, first, length))?;
    }
    Ok(())
}
