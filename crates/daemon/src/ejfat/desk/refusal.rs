//! Why a call is refused.

use super::super::facility::ChangeError;
use skyhaul::balance::BalanceError;
use skyhaul_core::balance::{DemandError, RegisterError, StateError};
use std::fmt;

/// The kinds, each with its code of gRPC and status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What is asked for cannot be.
    Invalid,
    /// It needs a valid token.
    Unauthenticated,
    /// The token does not allow it.
    Denied,
    /// There is no such thing.
    Missing,
    /// There are as many as there may be.
    Exhausted,
    /// Not as things are.
    Unfit,
    /// Another ended what it is about.
    Ended,
    /// Not now: a socket or the database cannot be used.
    Unavailable,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Invalid,
        Kind::Unauthenticated,
        Kind::Denied,
        Kind::Missing,
        Kind::Exhausted,
        Kind::Unfit,
        Kind::Ended,
        Kind::Unavailable,
    ];

    /// As it is counted: the name of gRPC's code.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid_argument",
            Kind::Unauthenticated => "unauthenticated",
            Kind::Denied => "permission_denied",
            Kind::Missing => "not_found",
            Kind::Exhausted => "resource_exhausted",
            Kind::Unfit => "failed_precondition",
            Kind::Ended => "aborted",
            Kind::Unavailable => "unavailable",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: Kind,
    /// The sentence for people.
    pub text: String,
}

impl Refusal {
    /// Of this kind, for this reason.
    pub fn new(kind: Kind, text: impl Into<String>) -> Refusal {
        Refusal { kind, text: text.into() }
    }

    /// What is asked for cannot be.
    pub fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(Kind::Invalid, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Refusal {
        let kind = match error {
            ChangeError::Full(..) | ChangeError::Deep(_) => Kind::Exhausted,
            ChangeError::Gone(..) => Kind::Missing,
            ChangeError::Store(_) => Kind::Unavailable,
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<RegisterError> for Refusal {
    fn from(error: RegisterError) -> Refusal {
        let kind = match error {
            RegisterError::Full => Kind::Exhausted,
            RegisterError::BadWeight(_) | RegisterError::BadFactors { .. } | RegisterError::Unusable(_) => {
                Kind::Invalid
            }
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<DemandError> for Refusal {
    fn from(error: DemandError) -> Refusal {
        let kind = match error {
            DemandError::NoSession => Kind::Missing,
            DemandError::NoSuchSlots(_) => Kind::Invalid,
            DemandError::NoRoom(_) => Kind::Exhausted,
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Refusal {
        let kind = match error {
            StateError::NoSession => Kind::Missing,
            StateError::NotANumber => Kind::Invalid,
        };
        Refusal::new(kind, error.to_string())
    }
}

impl From<BalanceError> for Refusal {
    fn from(error: BalanceError) -> Refusal {
        Refusal::new(Kind::Unavailable, format!("the balancer cannot start: {error}"))
    }
}
