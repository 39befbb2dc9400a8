//! Who asks, and what they may do.
//!
//! ```text
//!   Authorization ─▶ the token of this server ─▶ everything
//!                └─▶ a token of an issuer ─▶ what its scopes allow at the path of the request
//!   none ─▶ the certificate of the connection ─▶ what the scopes of its subject allow
//! ```
//!
//! A token that is given decides alone: a certificate adds nothing to it, and does not replace one that does not hold.
//!
//! Refusals are noted for the operator, at most ten in ten seconds, without the token.

use super::issuers::Issuers;
use super::log_line::LoggedUser;
use super::subjects::Subjects;
use crate::client_certificates::RefusedCertificate;
use crate::http::Connection;
use crate::notes::Notes;
use crate::remote::failure::{Failure, scope_failure};
use crate::remote::request_path::RequestPath;
use crate::rights::{Denied, Rights, bearer};
use crate::tokens::{Grants, Holder, TokenError, Use};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Method, Uri};
use skyhaul::auth::TokenHash;
use std::sync::Arc;
use std::time::SystemTime;

/// Who may use this server.
pub(super) struct AccessControl {
    rights: Rights,
    issuers: Arc<Issuers>,
    subjects: Option<Subjects>,
    notes: Notes,
}

/// What a request may do.
pub(super) enum Access {
    /// Everything: with the token of this server, which has this hash, or on this host.
    Full(Option<TokenHash>),
    /// What its token says.
    Scoped(Holder),
    /// What the configuration says of the subject of its certificate, as the grid writes it, until the certificate expires.
    Certified(String, Arc<Grants>, SystemTime),
}

impl AccessControl {
    /// `subjects`: what holders of certificates may do, if clients are asked for them.
    pub(super) fn new(rights: Rights, issuers: Arc<Issuers>, subjects: Option<Subjects>) -> Self {
        Self { rights, issuers, subjects, notes: Notes::default() }
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
        if !headers.contains_key(AUTHORIZATION)
            && let Some(access) = self.by_certificate(connection, (method, uri))
        {
            return access;
        }
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

    /// Who asks, for the log.
    pub(super) fn user_of(&self, access: &Access) -> LoggedUser {
        match access {
            Access::Full(_) if self.rights.is_open_to_this_host() => LoggedUser::Host,
            Access::Full(_) => LoggedUser::Token,
            Access::Scoped(Holder { issuer, subject, .. }) => {
                LoggedUser::Issuer { subject: subject.clone(), issuer: issuer.clone() }
            }
            Access::Certified(subject, ..) => LoggedUser::Certificate(subject.clone()),
        }
    }

    /// What the certificate of a connection allows; `None` if it showed none.
    fn by_certificate(
        &self,
        connection: &Connection,
        (method, uri): (&Method, &Uri),
    ) -> Option<Result<Access, Failure>> {
        let (subjects, shown) = (self.subjects.as_ref()?, connection.certificate()?);
        let (claimed, why) = match shown {
            Ok(holder) => match subjects.of(holder) {
                Some(grants) => {
                    return Some(Ok(Access::Certified(holder.subject.slashes(), grants, holder.until)));
                }
                None => (holder.subject.slashes(), "no rights are given to its subject here".to_owned()),
            },
            Err(RefusedCertificate { why, claimed }) => (claimed.clone(), why.to_string()),
        };
        self.notes.note(|| {
            let from = connection.peer.ip();
            format!("refused {method} {} from {from}: the certificate of {claimed}: {why}", uri.path())
        });
        Some(Err(Failure::new(403, format_args!("Permission denied: the certificate of {claimed}: {why}"))))
    }

    /// Notes that a holder of a token or certificate was refused; returns what is said to it.
    pub(super) fn note_refusal(
        &self,
        access: &Access,
        (method, uri): (&Method, &Uri),
        failure: Failure,
    ) -> Failure {
        let (who, failure) = match access {
            _ if !failure.is_scope() => return failure,
            Access::Full(_) => return failure,
            Access::Scoped(Holder { issuer, subject, .. }) => (format!("{subject} ({issuer})"), failure),
            Access::Certified(subject, ..) => (subject.clone(), failure.of_certificate()),
        };
        self.notes.note(|| format!("refused {method} {} of {who}: {}", uri.path(), failure.text()));
        failure
    }
}

fn invalid_token(text: &str, why: &str) -> Failure {
    let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{why}\"");
    Failure::new(401, text).with(WWW_AUTHENTICATE, &challenge)
}

impl Access {
    /// What it is limited to.
    fn grants(&self) -> Option<&Grants> {
        match self {
            Self::Full(_) => None,
            Self::Scoped(holder) => Some(&holder.grants),
            Self::Certified(_, grants, _) => Some(grants),
        }
    }

    /// Whether a path may be used so.
    pub(super) fn may(&self, how: Use, path: &RequestPath) -> bool {
        self.grants().is_none_or(|grants| grants.allow(how, path))
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
        match self.grants() {
            Some(grants) if grants.allow_rename(from, to) => Ok(()),
            _ => self.check(Use::Modify, from),
        }
    }

    /// Whether something that exists at a path may be replaced; refuses if nothing may be put there.
    pub(super) fn check_put(&self, path: &RequestPath) -> Result<bool, Failure> {
        self.check(Use::Create, path)?;
        Ok(self.may(Use::Modify, path))
    }

    /// Whose request it is: all with one token, with tokens of one issuer for one subject, or with certificates of one subject.
    pub(super) fn user(&self) -> Option<TokenHash> {
        match self {
            Self::Full(token) => *token,
            Self::Scoped(holder) => Some(TokenHash::of(&format!("{}\n{}", holder.issuer, holder.subject))),
            Self::Certified(subject, ..) => Some(TokenHash::of(subject)),
        }
    }
}
