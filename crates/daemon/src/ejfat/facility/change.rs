//! Changes of a facility: each is planned, then written, and then takes effect.
//!
//! ```text
//!   plan (may it be?) ─▶ Change ─ write (the disk takes its time) ─▶ Written ─ hold ─▶ Facility
//! ```
//!
//! Only writing is slow, and it needs only the store. The planner of a change holds the store until the change takes
//! effect, so that no other change can come between.

use super::entry::{ChangeError, Millis, NewToken, Reservation, Session};
use super::store::{Store, StoreError};
use super::token::{Permission, Resource};
use super::{Facility, kept};
use rusqlite::Transaction;
use skyhaul_core::balance::Prefix;
use std::collections::{BTreeMap, BTreeSet};

/// Applies a written change to the facility.
type Hold<T> = Box<dyn FnOnce(&mut Facility) -> T>;

/// Writes a change, and returns how to apply it.
type Write<T> = Box<dyn FnOnce(&mut Store) -> Result<Hold<T>, StoreError>>;

/// A change that is allowed. Its result is a `T`.
#[must_use = "it has to be written"]
pub struct Change<T>(Write<T>);

/// A change that is written, but not yet in effect.
#[must_use = "it has to hold"]
pub struct Written<T>(Hold<T>);

impl<T> Change<T> {
    pub(super) fn new<W: 'static>(
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<W> + 'static,
        hold: impl FnOnce(&mut Facility, W) -> T + 'static,
    ) -> Change<T> {
        Change(Box::new(move |store| {
            let written = store.write(write)?;
            Ok(Box::new(move |facility| hold(facility, written)))
        }))
    }

    /// The same change with another result.
    pub fn map<U>(self, other: impl FnOnce(T) -> U + 'static) -> Change<U>
    where
        T: 'static,
    {
        Change(Box::new(move |store| {
            let hold = (self.0)(store)?;
            Ok(Box::new(move |facility| other(hold(facility))))
        }))
    }

    /// Writes the change, which takes as long as the disk does.
    ///
    /// # Errors
    /// It cannot be written: nothing has changed.
    pub fn write(self, store: &mut Store) -> Result<Written<T>, StoreError> {
        (self.0)(store).map(Written)
    }
}

impl<T> Written<T> {
    /// Applies the change.
    pub fn hold(self, facility: &mut Facility) -> T {
        (self.0)(facility)
    }
}

impl Facility {
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
            move |to| kept::insert_token(to, &kept),
            |facility, id| {
                facility.add_token(id, token);
                id
            },
        ))
    }

    /// Revokes a token and all tokens derived from it. Returns their number.
    pub fn revoke(&self, id: i64) -> Change<usize> {
        let gone = self.tokens.trees([id]);
        let kept = gone.clone();
        Change::new(
            move |to| kept::delete_tokens(to, &kept),
            move |facility, ()| {
                facility.tokens.remove(&gone);
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
                let id = kept::insert_reservation(to, &kept)?;
                let token = token.of(Resource::Reservation(id), id);
                Ok((id, kept::insert_token(to, &token)?, token))
            },
            move |facility, (id, token_id, token)| {
                facility.reservations.insert(id, Reservation { id, ..wanted });
                facility.add_token(token_id, token);
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
                kept::delete_tokens(to, &kept)
            },
            move |facility, ()| {
                facility.tokens.remove(&tokens);
                facility.sessions.retain(|_, session| session.reservation != id);
                facility.seats.retain(|(reservation, _)| *reservation != id);
                facility.chains.retain(|_, chain| chain.reservation != id);
                facility.reservations.remove(&id);
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
            move |facility, _| {
                if let Some(reservation) = facility.reservations.get_mut(&id) {
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
                kept::insert_senders(to, id, &kept)
            },
            move |facility, ()| {
                if let Some(reservation) = facility.reservations.get_mut(&id) {
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
                let id = kept::insert_session(to, &kept)?;
                let token = token.of(Resource::Session(id), id);
                Ok((id, kept::insert_token(to, &token)?, token))
            },
            move |facility, (id, token_id, token)| {
                facility.seats.insert((wanted.reservation, id));
                facility.sessions.insert(id, Session { id, ..wanted });
                facility.add_token(token_id, token);
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
                    kept::insert_demands(to, *session, demands)?;
                }
                Ok(())
            },
            |facility, ()| {
                for (session, demands) in all {
                    if let Some(session) = facility.sessions.get_mut(&session) {
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
                kept::delete_tokens(to, &kept.0)
            },
            move |facility, ()| {
                facility.tokens.remove(&tokens);
                for session in sessions.iter().filter_map(|id| facility.sessions.remove(id)) {
                    facility.seats.remove(&(session.reservation, session.id));
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
