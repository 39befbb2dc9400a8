//! The chains of a facility: entered, changed, ended.

use super::Facility;
use super::chain::Chain;
use super::entry::ChangeError;

/// Chains of a reservation, at most.
const MOST: usize = 16;

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
