//! Limits on the number of tokens, and which reservation they count for.
//!
//! ```text
//!   a reservation   its own + one for each worker + 1024 that were made        nobody else's tokens take room of these
//!   the facility    1024: the operator's, and those on more than one reservation
//! ```
//!
//! So a worker that creates tokens as fast as it can takes no room from others, not even in the same reservation.

use super::Facility;
use super::entry::ChangeError;
use super::token::{Permission, Resource, Token};

impl Facility {
    /// Checks that there is room for the token of one more reservation or session.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn room(&self) -> Result<(), ChangeError> {
        let most = self.limits.tokens;
        if self.tokens.len() < most { Ok(()) } else { Err(ChangeError::Full("tokens", most)) }
    }

    /// Checks that `parent` may create one more token with `permissions`.
    pub(super) fn room_to_make(&self, parent: i64, permissions: &[Permission]) -> Result<(), ChangeError> {
        self.room()?;
        let limits = &self.limits;
        let depth = self.tokens.depth(parent);
        if depth >= limits.generations {
            return Err(ChangeError::Deep(limits.generations));
        }
        let of_worker =
            |token: &&Token| token.permissions.iter().all(|has| matches!(has.resource, Resource::Session(_)));
        if let Some(first) = self.tokens.line(parent).filter(of_worker).last()
            && self.tokens.trees([first.id]).len() > limits.of_worker
        {
            return Err(ChangeError::Full("tokens that come from one of a worker", limits.of_worker));
        }
        let home = self.home(permissions);
        let workers = home.map_or(0, |id| 1 + self.sessions(id).count());
        if self.tokens.count_of(home) >= limits.made + workers {
            let of = if home.is_some() { "tokens of the reservation" } else { "tokens of the facility" };
            return Err(ChangeError::Full(of, limits.made));
        }
        let registered = match self.tokens.get(parent).map(|parent| self.home(&parent.permissions)) {
            Some(Some(id)) => self.sessions(id).count(),
            _ => self.sessions.len(),
        };
        if depth > 0 && self.tokens.children(parent).count() >= limits.children + registered {
            return Err(ChangeError::Full("tokens that this one may make", limits.children));
        }
        Ok(())
    }

    /// The reservation of all `permissions`, if it is the same for all.
    pub(super) fn home(&self, permissions: &[Permission]) -> Option<i64> {
        let mut home = None;
        for permission in permissions {
            let of = match permission.resource {
                Resource::All | Resource::Instance(_) => return None,
                Resource::Reservation(id) => id,
                // An ended session belongs to no reservation.
                Resource::Session(id) => match self.session(id) {
                    Some(session) => session.reservation,
                    None => continue,
                },
            };
            if home.is_some_and(|home| home != of) {
                return None;
            }
            home = Some(of);
        }
        home
    }

    pub(super) fn add_token(&mut self, id: i64, token: Token) {
        let home = self.home(&token.permissions);
        self.tokens.add(Token { id, ..token }, home);
    }
}
