//! A chain as it is kept: a load balancer elsewhere that sends a part of its events to a reservation.
//!
//! Its tokens are kept as they are, because they have to be shown again: only the database's owner may read it.

use super::store::{Store, StoreError};
use std::collections::BTreeMap;
use std::net::IpAddr;

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
