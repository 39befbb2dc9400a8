//! Errors of calls, with hints. They never contain a token.

use super::verifier::{self, CertificateProblem};
use skyhaul::auth::redacted;
use skyhaul::core::hint::{Hint, split};
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};

/// Metadata of the reply to a worker's report: packets for it may still be sent.
pub(crate) const AWAITED: &str = "skyhaul-awaited";
/// How a control plane says that an operator ended a session.
pub(crate) const SESSION_ENDED: &str = "the session was ended by an operator";

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// The call.
    pub what: &'static str,
    /// The control plane: `host:port`.
    pub at: String,
    /// Why it failed.
    pub why: Why,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no connection, or it broke.
    Unreachable(String),
    /// The server's certificate is not accepted.
    Untrusted {
        /// What is wrong with it.
        problem: CertificateProblem,
        /// The same in words.
        text: String,
    },
    /// There was no reply within this time.
    Silent(Duration),
    /// The server refused the call.
    Refused {
        /// The code of the protocol.
        code: Code,
        /// The server's message.
        message: String,
    },
    /// The call was not sent, because options or `EJFAT_URI` do not allow it.
    Unsent {
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: &'static str,
    },
}

impl ControlError {
    /// Whether the control plane is unavailable, so that the same call may succeed later.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self.why, Why::Unreachable(_) | Why::Untrusted { .. } | Why::Silent(_))
    }

    /// Whether the server does not know the token or the session: after a restart without its state, it knows no
    /// session and no token of one.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let unknown =
            [Code::NotFound, Code::Unauthenticated, Code::PermissionDenied, Code::FailedPrecondition];
        matches!(&self.why, Why::Refused { code, .. } if unknown.contains(code))
    }

    /// Whether an operator ended the session that the call is about. A server may refuse as aborted what may be tried again, too:
    /// two calls at a time that change the same.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(&self.why, Why::Refused { code: Code::Aborted, message } if message.contains(SESSION_ENDED))
    }

    fn hint(&self) -> &'static str {
        match &self.why {
            Why::Untrusted { problem: CertificateProblem::Expired, .. } => {
                "renew it and give the new file, or accept any certificate"
            }
            Why::Untrusted { problem: CertificateProblem::NotYetValid, .. } => {
                "compare the clocks of both hosts, or accept any certificate"
            }
            Why::Untrusted { problem: CertificateProblem::NotTrusted, .. } => {
                "give the file of the certificate that signed the server's, or accept any certificate"
            }
            Why::Unreachable(_) => {
                "check host and port in EJFAT_URI, that the control plane runs, and ejfat:// or, for TLS, ejfats://"
            }
            Why::Silent(_) => "it accepts connections but does not answer; check its log",
            Why::Refused { code, .. } => match code {
                Code::Unauthenticated => {
                    "the token in EJFAT_URI is missing, wrong or expired: take the URI that reserving printed"
                }
                Code::PermissionDenied => {
                    "the token in EJFAT_URI does not permit this: take that of the reservation, or the administrator's"
                }
                Code::NotFound => "the reservation may have ended: reserve again, and take its new EJFAT_URI",
                Code::ResourceExhausted => "free reservations that are no longer needed",
                Code::Unimplemented => "this control plane does not have this call",
                _ => "the control plane's log may say more",
            },
            Why::Unsent { hint, .. } => hint,
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at, why } = self;
        write!(f, "{what}: control plane {at}: ")?;
        let said = match why {
            Why::Unreachable(why) | Why::Untrusted { text: why, .. } => format!("cannot be reached: {why}"),
            Why::Silent(time) => format!("no answer in {:.1} s", time.as_secs_f64()),
            Why::Refused { message, code } if message.is_empty() => {
                format!("refused: {}", code.description())
            }
            Why::Refused { message, .. } => format!("refused: {message}"),
            Why::Unsent { problem, .. } => problem.clone(),
        };
        // Prefer a hint from the server.
        f.write_str(&said)?;
        if split(&said).1.next().is_none() { Hint(self.hint()).fmt(f) } else { Ok(()) }
    }
}

impl std::error::Error for ControlError {}

/// The innermost cause of a failed connection.
pub(super) fn unreachable(error: &tonic::transport::Error, secrets: &[&str]) -> Why {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        if let Some((problem, text)) = verifier::tls_error(inner).and_then(verifier::wrong_with) {
            return Why::Untrusted { problem, text: redacted(&text, secrets) };
        }
        text = inner.to_string();
        cause = inner.source();
    }
    Why::Unreachable(redacted(&text, secrets))
}

/// The error for a status. Some are not from the server, but from the connection.
pub(super) fn of_status(status: &Status, secrets: &[&str]) -> Why {
    let message = redacted(status.message(), secrets);
    let is_local = status.source().is_some();
    match status.code() {
        Code::Unavailable => Why::Unreachable(message),
        // The connection broke while waiting for the reply.
        Code::Unknown | Code::Internal | Code::Cancelled if is_local => Why::Unreachable(message),
        code => Why::Refused { code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_aborted_may_go_on() {
        for (message, is_ended) in [
            (
                "the session was ended by an operator; hint: start the worker again if it is to come back",
                true,
            ),
            ("the transaction conflicts with another one", false),
        ] {
            let why = of_status(&Status::new(Code::Aborted, message), &[]);
            let error = ControlError { what: "send_state", at: String::new(), why };
            assert_eq!((error.is_ended(), error.is_unknown(), error.is_away()), (is_ended, false, false));
        }
    }
}
