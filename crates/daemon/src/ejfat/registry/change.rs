//! Changes of a control plane: each is planned, then written, and then takes effect.
//!
//! ```text
//!   plan (may it be?) ─▶ Change ─ write (the disk takes its time) ─▶ Written ─ hold ─▶ Registry
//! ```
//!
//! Only writing is slow, and it needs only the database. The planner of a change holds the database until the change takes
//! effect, so that no other change can come between.

use super::store::{Database, DatabaseError};
use super::token::{Permission, Resource};
use super::{ChangeError, NewToken, Registry, store};
use crate::ejfat::registry::{Chain, Millis, Reservation, Session};
use rusqlite::Transaction;
use skyhaul_core::balance::Prefix;
use std::collections::{BTreeMap, BTreeSet};

/// Applies a written change to the control plane.
type Hold<T> = Box<dyn FnOnce(&mut Registry) -> T>;

/// Writes a change, and returns how to apply it.
type Write<T> = Box<dyn FnOnce(&mut Database) -> Result<Hold<T>, DatabaseError>>;

/// A change that is allowed. Its result is a `T`.
#[must_use = "it has to be written"]
pub struct Change<T>(Write<T>);

/// A change that is written, but not yet in effect.
#[must_use = "it has to hold"]
pub struct Written<T>(Hold<T>);

impl<T> Change<T> {
    pub(super) fn new<W: 'static>(
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<W> + 'static,
        hold: impl FnOnce(&mut Registry, W) -> T + 'static,
    ) -> Change<T> {
        Change(Box::new(move |store| {
            let written = store.write(write)?;
            Ok(Box::new(move |registry| hold(registry, written)))
        }))
    }

    /// The same change with another result.
    pub fn map<U>(self, other: impl FnOnce(T) -> U + 'static) -> Change<U>
    where
        T: 'static,
    {
        Change(Box::new(move |store| {
            let hold = (self.0)(store)?;
            Ok(Box::new(move |registry| other(hold(registry))))
        }))
    }

    /// Writes the change, which takes as long as the disk does.
    ///
    /// # Errors
    /// It cannot be written: nothing has changed.
    pub fn write(self, store: &mut Database) -> Result<Written<T>, DatabaseError> {
        (self.0)(store).map(Written)
    }
}

impl<T> Written<T> {
    /// Applies the change.
    pub fn hold(self, registry: &mut Registry) -> T {
        (self.0)(registry)
    }
}

impl Registry {
    /// Creates a token with these `permissions`. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn create_token(
        &self,
        new: &NewToken<'_>,
        permissions: &[Permission],
    ) -> Result<Change<i64>, ChangeError> {
        self.room_to_make(new.parent, permissions)?;
        let token = new.token(new.name.to_owned(), permissions.to_vec());
        let kept = token.clone();
        Ok(Change::new(
            move |to| store::insert_token(to, &kept),
            |registry, id| {
                registry.add_token(id, token);
                id
            },
        ))
    }

    /// Revokes a token and all tokens derived from it. Returns their number.
    pub fn revoke(&self, id: i64) -> Change<usize> {
        let gone = self.tokens.trees([id]);
        let kept = gone.clone();
        Change::new(
            move |to| store::delete_tokens(to, &kept),
            move |registry, ()| {
                registry.tokens.remove(&gone);
                gone.len()
            },
        )
    }

    /// Adds a reservation, with a token for it; `wanted.id` is ignored. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn reserve(&self, wanted: &Reservation, new: &NewToken<'_>) -> Result<Change<i64>, ChangeError> {
        self.room()?;
        let (token, wanted) = (new.token(new.name.to_owned(), Vec::new()), wanted.clone());
        let kept = wanted.clone();
        Ok(Change::new(
            move |to| {
                let id = store::insert_reservation(to, &kept)?;
                let token = token.of(Resource::Reservation(id), id);
                Ok((id, store::insert_token(to, &token)?, token))
            },
            move |registry, (id, token_id, token)| {
                registry.reservations.insert(id, Reservation { id, ..wanted });
                registry.add_token(token_id, token);
                id
            },
        ))
    }

    /// Ends a reservation, with its sessions and all tokens that were only for these.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn free(&self, id: i64) -> Result<Change<()>, ChangeError> {
        self.reservations.get(&id).ok_or(ChangeError::Gone("reservation", id))?;
        let mut gone: BTreeSet<Resource> =
            self.sessions(id).map(|session| Resource::Session(session.id)).collect();
        gone.insert(Resource::Reservation(id));
        let tokens = self.tokens_for(&gone);
        let kept = tokens.clone();
        Ok(Change::new(
            move |to| {
                to.execute("DELETE FROM reservation WHERE id = ?1", (id,))?;
                store::delete_tokens(to, &kept)
            },
            move |registry, ()| {
                registry.tokens.remove(&tokens);
                registry.sessions.retain(|_, session| session.reservation != id);
                registry.seats.retain(|(reservation, _)| *reservation != id);
                registry.chains.retain(|_, chain| chain.reservation != id);
                registry.reservations.remove(&id);
            },
        ))
    }

    /// Changes the end of a reservation.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn extend(&self, id: i64, until: Option<Millis>) -> Result<Change<()>, ChangeError> {
        self.reservations.get(&id).ok_or(ChangeError::Gone("reservation", id))?;
        Ok(Change::new(
            move |to| to.execute("UPDATE reservation SET until = ?2 WHERE id = ?1", (id, until)),
            move |registry, _| {
                if let Some(reservation) = registry.reservations.get_mut(&id) {
                    reservation.until = until;
                }
            },
        ))
    }

    /// Sets the senders of a reservation.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn set_senders(&self, id: i64, senders: Vec<Prefix>) -> Result<Change<()>, ChangeError> {
        let most = self.limits.senders;
        if senders.len() > most {
            return Err(ChangeError::Full("senders of a reservation", most));
        }
        self.reservations.get(&id).ok_or(ChangeError::Gone("reservation", id))?;
        let kept = senders.clone();
        Ok(Change::new(
            move |to| {
                to.execute("DELETE FROM sender WHERE reservation = ?1", (id,))?;
                store::insert_senders(to, id, &kept)
            },
            move |registry, ()| {
                if let Some(reservation) = registry.reservations.get_mut(&id) {
                    reservation.senders = senders;
                }
            },
        ))
    }

    /// Adds a session, with a token for it; `wanted.id` is ignored. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn register(&self, wanted: &Session, new: &NewToken<'_>) -> Result<Change<i64>, ChangeError> {
        self.room()?;
        let (token, wanted) = (new.token(new.name.to_owned(), Vec::new()), wanted.clone());
        let kept = wanted.clone();
        Ok(Change::new(
            move |to| {
                let id = store::insert_session(to, &kept)?;
                let token = token.of(Resource::Session(id), id);
                Ok((id, store::insert_token(to, &token)?, token))
            },
            move |registry, (id, token_id, token)| {
                registry.seats.insert((wanted.reservation, id));
                registry.sessions.insert(id, Session { id, ..wanted });
                registry.add_token(token_id, token);
                id
            },
        ))
    }

    /// Sets the slots that all sessions of a reservation demand.
    pub fn set_demands(&self, id: i64, demands: &BTreeMap<i64, Vec<(u16, u16)>>) -> Change<()> {
        let of = |session: &Session| (session.id, demands.get(&session.id).cloned().unwrap_or_default());
        let all: Vec<(i64, Vec<(u16, u16)>)> = self.sessions(id).map(of).collect();
        let kept = all.clone();
        Change::new(
            move |to| {
                let mut delete = to.prepare("DELETE FROM demand WHERE session = ?1")?;
                for (session, demands) in &kept {
                    delete.execute((session,))?;
                    store::insert_demands(to, *session, demands)?;
                }
                Ok(())
            },
            |registry, ()| {
                for (session, demands) in all {
                    if let Some(session) = registry.sessions.get_mut(&session) {
                        session.demands = demands;
                    }
                }
            },
        )
    }

    /// Ends sessions, with all tokens that were only for them.
    pub fn deregister(&self, ids: &[i64]) -> Change<()> {
        let gone: BTreeSet<Resource> = ids.iter().map(|id| Resource::Session(*id)).collect();
        let (tokens, sessions) = (self.tokens_for(&gone), ids.to_vec());
        let kept = (tokens.clone(), sessions.clone());
        Change::new(
            move |to| {
                let mut delete = to.prepare("DELETE FROM session WHERE id = ?1")?;
                for id in &kept.1 {
                    delete.execute((id,))?;
                }
                store::delete_tokens(to, &kept.0)
            },
            move |registry, ()| {
                registry.tokens.remove(&tokens);
                for session in sessions.iter().filter_map(|id| registry.sessions.remove(id)) {
                    registry.seats.remove(&(session.reservation, session.id));
                }
            },
        )
    }

    /// Reservations whose time is over.
    #[must_use]
    pub fn over(&self, now: Millis) -> Vec<i64> {
        let over = |r: &&Reservation| r.until.is_some_and(|until| until <= now);
        self.reservations.values().filter(over).map(|r| r.id).collect()
    }

    /// Tokens all of whose permissions are on resources in `gone`, and all tokens derived from them.
    fn tokens_for(&self, gone: &BTreeSet<Resource>) -> Vec<i64> {
        let on = gone.iter().flat_map(|resource| self.tokens.on(*resource));
        let only = on.filter(|token| token.permissions.iter().all(|has| gone.contains(&has.resource)));
        self.tokens.trees(only.map(|token| token.id))
    }
}

/// Maximum number of chains of a reservation.
const MAX_CHAINS: usize = 16;

impl Registry {
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
        Ok(Change::new(write, move |registry, id| {
            registry.chains.insert(id, Chain { id, ..chain });
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
            move |registry, _| {
                if let Some(chain) = registry.chains.get_mut(&id) {
                    (chain.session, chain.token) = now;
                }
            },
        ))
    }

    /// Removes a chain.
    pub fn unchain(&self, id: i64) -> Change<()> {
        Change::new(
            move |to| to.execute("DELETE FROM chain WHERE id = ?1", (id,)),
            move |registry, _| drop(registry.chains.remove(&id)),
        )
    }
}
