//! Who asks, and what they may do.
//!
//! ```text
//!   Authorization ─▶ the token of this server ─▶ everything
//!                └─▶ a token of an issuer ─▶ what its scopes allow at the path of the request
//! ```
//!
//! Refusals are noted for the operator, at most ten in ten seconds, without the token.

use super::issuers::Issuers;
use crate::http::Connection;
use crate::remote::failure::{Failure, scope_failure};
use crate::remote::request_path::RequestPath;
use crate::rights::{Denied, Rights, bearer};
use crate::tokens::{Holder, TokenError, Use};
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderMap, Method, Uri};
use skyhaul::auth::{TokenHash, redacted};
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Refusals that are noted in a time, and that time.
const NOTED_REFUSALS: u32 = 10;
const NOTED_INTERVAL: Duration = Duration::from_secs(10);

/// Who may use this server.
pub(super) struct AccessControl {
    rights: Rights,
    issuers: Arc<Issuers>,
    notes: Notes,
}

/// What a request may do.
pub(super) enum Access {
    /// Everything: with the token of this server, which has this hash, or on this host.
    Full(Option<TokenHash>),
    /// What its token says.
    Scoped(Holder),
}

impl AccessControl {
    pub(super) fn new(rights: Rights, issuers: Arc<Issuers>) -> Self {
        Self { rights, issuers, notes: Notes::default() }
    }

    /// Decides what a request may do.
    pub(super) async fn admit(
        &self,
        connection: &Connection,
        (method, uri): (&Method, &Uri),
        headers: &HeaderMap,
    ) -> Result<Access, Failure> {
        let authority = uri.authority().map(|authority| authority.as_str());
        let denied = match self.rights.check(authority, headers) {
            Ok(()) => return Ok(Access::Full(bearer(headers).map(TokenHash::of))),
            Err(denied @ Denied::ForeignSite) => return Err(Failure::new(403, denied)),
            Err(denied @ Denied::NoToken) => denied,
        };
        let Some(token) = bearer(headers).filter(|_| !self.issuers.is_empty()) else {
            return Err(Failure::new(401, denied).with(WWW_AUTHENTICATE, "Bearer"));
        };
        let why = match self.issuers.judge(token).await {
            Ok(holder) => return Ok(Access::Scoped(holder)),
            Err(why) => why,
        };
        self.notes.note(|| {
            format!("refused {method} {} from {}: the token: {why}", uri.path(), connection.peer.ip())
        });
        Err(match why {
            TokenError::NoKeys => {
                Failure::busy(format_args!("Resource temporarily unavailable: the token: {why}"))
            }
            _ => invalid_token(&format!("Permission denied: the token: {why}"), &why.to_string()),
        })
    }

    /// Notes that a holder of a token was refused.
    pub(super) fn note_refusal(&self, access: &Access, (method, uri): (&Method, &Uri), failure: &Failure) {
        if let Access::Scoped(holder) = access
            && failure.is_scope()
        {
            let Holder { issuer, subject, .. } = holder;
            let why = failure.text();
            self.notes.note(|| format!("refused {method} {} of {subject} ({issuer}): {why}", uri.path()));
        }
    }
}

fn invalid_token(text: &str, why: &str) -> Failure {
    let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{why}\"");
    Failure::new(401, text).with(WWW_AUTHENTICATE, &challenge)
}

impl Access {
    /// Whether a path may be used so.
    pub(super) fn may(&self, how: Use, path: &RequestPath) -> bool {
        match self {
            Self::Full(_) => true,
            Self::Scoped(holder) => holder.grants.allow(how, path),
        }
    }

    /// Refuses what a path may not be used for.
    pub(super) fn check(&self, how: Use, path: &RequestPath) -> Result<(), Failure> {
        let what = match how {
            Use::Stat => "ask for this path",
            Use::List => "list this path",
            Use::Read => "read this path",
            Use::Create => "create this path",
            Use::Modify => "replace or remove this path",
            Use::MakeDirectory => "create this directory",
        };
        if self.may(how, path) { Ok(()) } else { Err(scope_failure(what)) }
    }

    /// Refuses to move something away from a path, unless it may be removed there, or one scope that creates covers both.
    pub(super) fn check_move(&self, from: &RequestPath, to: &RequestPath) -> Result<(), Failure> {
        match self {
            Self::Scoped(holder) if holder.grants.allow_rename(from, to) => Ok(()),
            _ => self.check(Use::Modify, from),
        }
    }

    /// Whether something that exists at a path may be replaced; refuses if nothing may be put there.
    pub(super) fn check_put(&self, path: &RequestPath) -> Result<bool, Failure> {
        self.check(Use::Create, path)?;
        Ok(self.may(Use::Modify, path))
    }

    /// Whose request it is: all with one token, or with tokens of one issuer for one subject.
    pub(super) fn user(&self) -> Option<TokenHash> {
        match self {
            Self::Full(token) => *token,
            Self::Scoped(holder) => Some(TokenHash::of(&format!("{}\n{}", holder.issuer, holder.subject))),
        }
    }
}

/// Notes for the operator, not too many.
#[derive(Default)]
struct Notes(Mutex<NotesState>);

#[derive(Default)]
struct NotesState {
    begun: Option<Instant>,
    count: u32,
}

impl Notes {
    fn note(&self, text: impl FnOnce() -> String) {
        let mut state = lock(&self.0);
        let mut left_out = 0;
        if state.begun.is_none_or(|begun| begun.elapsed() >= NOTED_INTERVAL) {
            left_out = state.count.saturating_sub(NOTED_REFUSALS);
            *state = NotesState { begun: Some(Instant::now()), count: 0 };
        }
        state.count = state.count.saturating_add(1);
        let is_noted = state.count <= NOTED_REFUSALS;
        drop(state);
        if left_out > 0 {
            say!("{left_out} more requests were refused");
        }
        if is_noted {
            say!("{}", redacted(&text(), &[]));
        }
    }
}
