//! Why a call is refused.

use super::super::facility::ChangeError;
use skyhaul::balance::BalanceError;
use skyhaul_core::balance::{DemandError, RegisterError, StateError};
use std::fmt;

/// Kinds of refusals, each with its gRPC code and HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The request is invalid.
    Invalid,
    /// The call needs a valid token.
    Unauthenticated,
    /// The token does not allow it.
    Denied,
    /// The object does not exist.
    Missing,
    /// A limit is reached.
    Exhausted,
    /// Not possible in the present state.
    Unfit,
    /// Someone else ended the object of the call.
    Ended,
    /// Temporarily not possible: a socket or the database cannot be used.
    Unavailable,
}

impl Kind {
    /// Every kind.
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

    /// Its name in counters: that of the gRPC code.
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

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: Kind,
    /// The message for the user.
    pub text: String,
}

impl Refusal {
    /// A refusal of this kind with this message.
    pub fn new(kind: Kind, text: impl Into<String>) -> Refusal {
        Refusal { kind, text: text.into() }
    }

    /// The refusal of an invalid request.
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
