//! Changes of a facility: each is written first, and holds then.

use super::entry::{ChangeError, Millis, NewToken, Reservation, Session};
use super::token::{Level, Permission, Resource, Token};
use super::{Facility, kept};
use skyhaul_core::balance::Prefix;
use std::collections::BTreeMap;

impl Facility {
    /// Make a token that allows `permissions`. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn create_token(
        &mut self,
        new: &NewToken<'_>,
        permissions: &[Permission],
    ) -> Result<i64, ChangeError> {
        self.room()?;
        let id = self.store.write(|to| kept::insert_token(to, new, permissions))?;
        self.add_token(id, new, permissions.to_vec());
        Ok(id)
    }

    /// Revoke a token and all that come from it. Returns how many.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn revoke(&mut self, id: i64) -> Result<usize, ChangeError> {
        let gone = self.tokens.tree(id);
        self.store.write(|to| kept::delete_tokens(to, &gone))?;
        self.tokens.remove(&gone);
        Ok(gone.len())
    }

    /// Enter a reservation, with a token for it; `wanted.id` does not count. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn reserve(&mut self, wanted: &Reservation, new: &NewToken<'_>) -> Result<i64, ChangeError> {
        self.room()?;
        let level = Level::Update;
        let (id, token) = self.store.write(|to| {
            let id = kept::insert_reservation(to, wanted)?;
            let resource = Resource::Reservation(id);
            let name = format!("{}-{id}", new.name);
            let named = NewToken { name: &name, ..new.clone() };
            Ok((id, kept::insert_token(to, &named, &[Permission { resource, level }])?))
        })?;
        let name = format!("{}-{id}", new.name);
        let resource = Resource::Reservation(id);
        self.add_token(token, &NewToken { name: &name, ..new.clone() }, vec![Permission { resource, level }]);
        self.reservations.insert(id, Reservation { id, ..wanted.clone() });
        Ok(id)
    }

    /// A reservation ends, with its sessions and all tokens that were for these only.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn free(&mut self, id: i64) -> Result<(), ChangeError> {
        self.reservations.get(&id).ok_or(ChangeError::Gone("reservation", id))?;
        let sessions: Vec<i64> = self.sessions(id).map(|session| session.id).collect();
        let tokens = self.tokens_for(|resource| match resource {
            Resource::Reservation(of) => of == id,
            Resource::Session(of) => sessions.binary_search(&of).is_ok(),
            Resource::All | Resource::Instance(_) => false,
        });
        self.store.write(|to| {
            to.execute("DELETE FROM reservation WHERE id = ?1", (id,))?;
            kept::delete_tokens(to, &tokens)
        })?;
        self.tokens.remove(&tokens);
        self.sessions.retain(|_, session| session.reservation != id);
        self.chains.retain(|_, chain| chain.reservation != id);
        self.reservations.remove(&id);
        Ok(())
    }

    /// A reservation ends at another time.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn extend(&mut self, id: i64, until: Option<Millis>) -> Result<(), ChangeError> {
        let reservation = self.reservations.get_mut(&id).ok_or(ChangeError::Gone("reservation", id))?;
        self.store.write(|to| to.execute("UPDATE reservation SET until = ?2 WHERE id = ?1", (id, until)))?;
        reservation.until = until;
        Ok(())
    }

    /// Only these may send to a reservation from now on.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn set_senders(&mut self, id: i64, senders: &[Prefix]) -> Result<(), ChangeError> {
        let most = self.limits.senders;
        if senders.len() > most {
            return Err(ChangeError::Full("senders of a reservation", most));
        }
        let reservation = self.reservations.get_mut(&id).ok_or(ChangeError::Gone("reservation", id))?;
        self.store.write(|to| {
            to.execute("DELETE FROM sender WHERE reservation = ?1", (id,))?;
            kept::insert_senders(to, id, senders)
        })?;
        reservation.senders = senders.to_vec();
        Ok(())
    }

    /// Whether there is room for one more token.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn room(&self) -> Result<(), ChangeError> {
        let most = self.limits.tokens;
        if self.tokens.len() < most { Ok(()) } else { Err(ChangeError::Full("tokens", most)) }
    }

    /// Enter a session, with a token for it; `wanted.id` does not count. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn register(&mut self, wanted: &Session, new: &NewToken<'_>) -> Result<i64, ChangeError> {
        self.room()?;
        let level = Level::Update;
        let (id, token) = self.store.write(|to| {
            let id = kept::insert_session(to, wanted)?;
            let name = format!("{}-{id}", new.name);
            let named = NewToken { name: &name, ..new.clone() };
            Ok((
                id,
                kept::insert_token(to, &named, &[Permission { resource: Resource::Session(id), level }])?,
            ))
        })?;
        let name = format!("{}-{id}", new.name);
        let permission = Permission { resource: Resource::Session(id), level };
        self.add_token(token, &NewToken { name: &name, ..new.clone() }, vec![permission]);
        self.sessions.insert(id, Session { id, ..wanted.clone() });
        Ok(id)
    }

    /// These sessions demand these slots, and no others of the reservation demand any.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn set_demands(
        &mut self,
        id: i64,
        demands: &BTreeMap<i64, Vec<(u16, u16)>>,
    ) -> Result<(), ChangeError> {
        let sessions: Vec<i64> = self.sessions(id).map(|session| session.id).collect();
        let of = |session: &i64| demands.get(session).cloned().unwrap_or_default();
        self.store.write(|to| {
            for session in &sessions {
                to.execute("DELETE FROM demand WHERE session = ?1", (session,))?;
                kept::insert_demands(to, *session, &of(session))?;
            }
            Ok(())
        })?;
        for session in self.sessions.values_mut().filter(|session| session.reservation == id) {
            session.demands = of(&session.id);
        }
        Ok(())
    }

    /// Sessions end, with all tokens that were for them only.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn deregister(&mut self, ids: &[i64]) -> Result<(), ChangeError> {
        let tokens =
            self.tokens_for(|resource| matches!(resource, Resource::Session(of) if ids.contains(&of)));
        self.store.write(|to| {
            for id in ids {
                to.execute("DELETE FROM session WHERE id = ?1", (id,))?;
            }
            kept::delete_tokens(to, &tokens)
        })?;
        self.tokens.remove(&tokens);
        self.sessions.retain(|id, _| !ids.contains(id));
        Ok(())
    }

    /// Reservations whose time is over.
    #[must_use]
    pub fn over(&self, now: Millis) -> Vec<i64> {
        let over = |r: &&Reservation| r.until.is_some_and(|until| until <= now);
        self.reservations.values().filter(over).map(|r| r.id).collect()
    }

    /// Tokens all of whose permissions are on what is `gone`, and all that come from them.
    fn tokens_for(&self, gone: impl Fn(Resource) -> bool) -> Vec<i64> {
        let only = |token: &&Token| token.permissions.iter().all(|permission| gone(permission.resource));
        let mut all: Vec<i64> =
            self.tokens.iter().filter(only).flat_map(|token| self.tokens.tree(token.id)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn add_token(&mut self, id: i64, new: &NewToken<'_>, permissions: Vec<Permission>) {
        let NewToken { parent, hash, name, now } = *new;
        self.tokens.add(Token {
            id,
            parent: Some(parent),
            name: name.to_owned(),
            created: now,
            permissions,
            hash,
        });
    }
}
