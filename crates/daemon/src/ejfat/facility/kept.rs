//! Reservations, sessions and tokens as rows of the database.

use super::entry::{Reservation, Session};
use super::store::{Store, StoreError};
use super::token::{Hash, Level, Permission, Resource, Token};
use rusqlite::{Result, Transaction};
use skyhaul_core::balance::{Prefix, Strategy};
use std::collections::BTreeMap;

/// The contents of the database.
pub(super) struct Kept {
    /// By number, so that each comes after the one that created it.
    pub(super) tokens: Vec<Token>,
    pub(super) reservations: BTreeMap<i64, Reservation>,
    pub(super) sessions: BTreeMap<i64, Session>,
}

/// Reads everything. An invalid row is an error; it is not skipped.
pub(super) fn read(from: &Store) -> std::result::Result<Kept, StoreError> {
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

fn tokens(from: &Store) -> std::result::Result<Vec<Token>, StoreError> {
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
        Ok(Token { id, parent, name, created, permissions, hash: Hash(hash) })
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
        (new.parent, &new.hash.0[..], &new.name, new.created),
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
