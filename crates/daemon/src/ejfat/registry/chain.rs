//! A chain of a reservation, as it is stored.
//!
//! The tokens of a [`Chain`] are stored in plain text, because they have to be presented again; only the owner of the
//! database can read them.

use super::store::{Database, DatabaseError};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A load balancer that sends to a reservation.
#[derive(Clone, PartialEq)]
pub struct Chain {
    /// Its number.
    pub id: i64,
    /// The reservation that it feeds.
    pub reservation: i64,
    /// `EJFAT_URI` of the other load balancer, with its token.
    pub uri: String,
    /// The session there.
    pub session: String,
    /// That session's token.
    pub token: String,
    /// Source addresses of its packets.
    pub addresses: Vec<IpAddr>,
    /// The address to which they are sent.
    pub ip: IpAddr,
    /// The port to which they are sent.
    pub port: u16,
    /// Its initial share, relative to the other workers.
    pub weight: f32,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f32,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f32,
}

impl fmt::Debug for Chain {
    /// Without tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("id", &self.id).field("session", &self.session).finish_non_exhaustive()
    }
}

/// Reads all stored chains.
pub(super) fn read_chains(from: &Database) -> Result<BTreeMap<i64, Chain>, DatabaseError> {
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
            ip: Ipv4Addr::UNSPECIFIED.into(),
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
