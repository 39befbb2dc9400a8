//! Changes of chains.

use super::Facility;
use super::chain::Chain;
use super::change::Change;
use super::entry::ChangeError;
use rusqlite::Transaction;

/// Maximum number of chains of a reservation.
const MAX_CHAINS: usize = 16;

impl Facility {
    /// The chains of a reservation, by number.
    pub fn chains(&self, reservation: i64) -> impl Iterator<Item = &Chain> {
        self.chains.values().filter(move |chain| chain.reservation == reservation)
    }

    /// Checks that there is room for one more chain of a reservation.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn room_for_chain(&self, reservation: i64) -> Result<(), ChangeError> {
        let room = self.chains(reservation).count() < MAX_CHAINS;
        if room { Ok(()) } else { Err(ChangeError::Full("chains of a reservation", MAX_CHAINS)) }
    }

    /// Adds a chain; `wanted.id` is ignored. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn chain(&self, wanted: Chain) -> Result<Change<i64>, ChangeError> {
        self.room_for_chain(wanted.reservation)?;
        let chain = wanted.clone();
        let write = move |to: &Transaction<'_>| {
            let addresses: Vec<String> = wanted.addresses.iter().map(ToString::to_string).collect();
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
        };
        Ok(Change::new(write, move |facility, id| {
            facility.chains.insert(id, Chain { id, ..chain });
            id
        }))
    }

    /// Stores another session of a chain.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn rechain(&self, id: i64, session: &str, token: &str) -> Result<Change<()>, ChangeError> {
        self.chains.get(&id).ok_or(ChangeError::Gone("chain", id))?;
        let now = (session.to_owned(), token.to_owned());
        let kept = now.clone();
        Ok(Change::new(
            move |to| {
                let update = "UPDATE chain SET session = ?2, token = ?3 WHERE id = ?1";
                to.execute(update, (id, &kept.0, &kept.1))
            },
            move |facility, _| {
                if let Some(chain) = facility.chains.get_mut(&id) {
                    (chain.session, chain.token) = now;
                }
            },
        ))
    }

    /// Removes a chain.
    pub fn unchain(&self, id: i64) -> Change<()> {
        Change::new(
            move |to| to.execute("DELETE FROM chain WHERE id = ?1", (id,)),
            move |facility, _| drop(facility.chains.remove(&id)),
        )
    }
}
