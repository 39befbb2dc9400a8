//! Chains: load balancers elsewhere that send a part of their events to a reservation.
//!
//! Their tokens are kept as they are, because they have to be shown again: only the database's owner may read it.

use super::store::{Store, StoreError};
use super::{ChangeError, Facility};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Chains of a reservation, at most.
const MOST: usize = 16;

/// What of the database is for chains.
pub(super) const SCHEMA: &str = "
CREATE TABLE chain (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reservation INTEGER NOT NULL REFERENCES reservation ON DELETE CASCADE,
    uri TEXT NOT NULL, session TEXT NOT NULL, token TEXT NOT NULL, addresses TEXT NOT NULL, ip TEXT NOT NULL,
    port INTEGER NOT NULL, weight REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL) STRICT;
";

/// A load balancer that sends to a reservation.
#[derive(Clone, PartialEq)]
pub struct Chain {
    /// Its number.
    pub id: i64,
    /// To which reservation.
    pub reservation: i64,
    /// `EJFAT_URI` of the other one, with its token.
    pub uri: String,
    /// The session there.
    pub session: String,
    /// That session's token.
    pub token: String,
    /// Where packets come from.
    pub addresses: Vec<IpAddr>,
    /// Where they are sent to.
    pub ip: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its first share relative to others'.
    pub weight: f32,
    /// At least this part of an even share; 0: no bound.
    pub min_factor: f32,
    /// At most this many even shares; 0: no bound.
    pub max_factor: f32,
}

impl std::fmt::Debug for Chain {
    /// Without tokens.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain").field("id", &self.id).field("session", &self.session).finish_non_exhaustive()
    }
}

/// All that were kept.
pub(super) fn read(from: &Store) -> Result<BTreeMap<i64, Chain>, StoreError> {
    const QUERY: &str =
        "SELECT id, reservation, uri, session, token, addresses, ip, port, weight, least, most FROM chain";
    let rows = from.rows(QUERY, |row| {
        let chain = Chain {
            id: row.get(0)?,
            reservation: row.get(1)?,
            uri: row.get(2)?,
            session: row.get(3)?,
            token: row.get(4)?,
            addresses: Vec::new(),
            ip: std::net::Ipv4Addr::UNSPECIFIED.into(),
            port: row.get(7)?,
            weight: row.get(8)?,
            min_factor: row.get(9)?,
            max_factor: row.get(10)?,
        };
        Ok((chain, row.get::<_, String>(5)?, row.get::<_, String>(6)?))
    })?;
    let whole = |(chain, addresses, ip): (Chain, String, String)| {
        let wrong = || from.corrupt(format!("chain {}", chain.id));
        let addresses = addresses.split_whitespace().map(|ip| ip.parse().map_err(|_| wrong()));
        let addresses = addresses.collect::<Result<_, _>>()?;
        Ok((chain.id, Chain { addresses, ip: ip.parse().map_err(|_| wrong())?, ..chain.clone() }))
    };
    rows.into_iter().map(whole).collect()
}

impl Facility {
    /// The chains of a reservation, by number.
    pub fn chains(&self, reservation: i64) -> impl Iterator<Item = &Chain> {
        self.chains.values().filter(move |chain| chain.reservation == reservation)
    }

    /// Whether there is room for one more chain of a reservation.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn room_for_chain(&self, reservation: i64) -> Result<(), ChangeError> {
        let room = self.chains(reservation).count() < MOST;
        if room { Ok(()) } else { Err(ChangeError::Full("chains of a reservation", MOST)) }
    }

    /// Enter a chain; `wanted.id` does not count. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn chain(&mut self, wanted: &Chain) -> Result<i64, ChangeError> {
        self.room_for_chain(wanted.reservation)?;
        let addresses: Vec<String> = wanted.addresses.iter().map(ToString::to_string).collect();
        let id = self.store.write(|to| {
            to.execute(
                "INSERT INTO chain (reservation, uri, session, token, addresses, ip, port, weight, least, most)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                (
                    wanted.reservation,
                    &wanted.uri,
                    &wanted.session,
                    &wanted.token,
                    addresses.join(" "),
                    wanted.ip.to_string(),
                    wanted.port,
                    wanted.weight,
                    wanted.min_factor,
                    wanted.max_factor,
                ),
            )?;
            Ok(to.last_insert_rowid())
        })?;
        self.chains.insert(id, Chain { id, ..wanted.clone() });
        Ok(id)
    }

    /// A chain has another session.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn rechain(&mut self, id: i64, session: &str, token: &str) -> Result<(), ChangeError> {
        let chain = self.chains.get_mut(&id).ok_or(ChangeError::Gone("chain", id))?;
        self.store.write(|to| {
            to.execute("UPDATE chain SET session = ?2, token = ?3 WHERE id = ?1", (id, session, token))
        })?;
        (chain.session, chain.token) = (session.to_owned(), token.to_owned());
        Ok(())
    }

    /// A chain ends.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn unchain(&mut self, id: i64) -> Result<(), ChangeError> {
        self.store.write(|to| to.execute("DELETE FROM chain WHERE id = ?1", (id,)))?;
        self.chains.remove(&id);
        Ok(())
    }
}
