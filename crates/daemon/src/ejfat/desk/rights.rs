//! Permissions, which every call checks first.

use super::super::client::SESSION_ENDED;
use super::super::facility::Reservation;
use super::super::facility::token::{Keys, Known, Level, Resource, Token};
use super::{Caller, Desk, Kind, Refusal, State, gone};

impl Desk {
    /// Looks up a token. It waits for no other call, so that the front ends can check the token when they have read
    /// only the head of a request.
    ///
    /// # Errors
    /// The token is missing or not valid.
    pub fn known(&self, token: Option<&str>) -> Result<Known, Refusal> {
        let token = shown(token)?;
        self.keys.find(token).ok_or_else(|| not_valid(&self.keys, token))
    }
}

impl State {
    /// The token of the call.
    pub(super) fn token(&self, caller: &Caller) -> Result<&Token, Refusal> {
        let (token, tokens) = (shown(caller.token.as_deref())?, self.facility.tokens());
        tokens.find(token).ok_or_else(|| not_valid(&tokens.keys(), token))
    }

    /// The token of the call, if it allows this.
    pub(super) fn may(&self, caller: &Caller, resource: Resource, level: Level) -> Result<&Token, Refusal> {
        let token = self.token(caller)?;
        if self.facility.may(token, resource, level) { Ok(token) } else { Err(denied(resource, level)) }
    }

    pub(super) fn reservation(&self, id: i64) -> Result<&Reservation, Refusal> {
        self.facility.reservation(id).ok_or_else(|| gone(id))
    }
}

fn shown(token: Option<&str>) -> Result<&str, Refusal> {
    token.ok_or_else(|| {
        let text = "no token; hint: send `authorization: Bearer TOKEN`, the part of EJFAT_URI before the @";
        Refusal::new(Kind::Unauthenticated, text)
    })
}

fn not_valid(keys: &Keys, token: &str) -> Refusal {
    if keys.is_ended(token) {
        let text = format!("{SESSION_ENDED}; hint: start the worker again if it is to come back");
        return Refusal::new(Kind::Ended, text);
    }
    let text =
        "the token is not valid: wrong, revoked, or of what has ended; hint: reserve or register again";
    Refusal::new(Kind::Unauthenticated, text)
}

pub(super) fn denied(resource: Resource, level: Level) -> Refusal {
    let level = match level {
        Level::ReadOnly => "look at",
        Level::Register => "register workers with",
        Level::Reserve => "reserve",
        Level::Update => "change",
    };
    let resource = match resource {
        Resource::All => "the whole facility".to_owned(),
        Resource::Instance(id) => format!("load balancer {id}"),
        Resource::Reservation(id) => format!("reservation {id}"),
        Resource::Session(id) => format!("session {id}"),
    };
    let text = format!(
        "the token does not allow to {level} {resource}; hint: use one that does, or ask its operator"
    );
    Refusal::new(Kind::Denied, text)
}
