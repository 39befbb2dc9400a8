//! What went wrong with a call, and what to do. No token is ever part of it.

use super::redact::plain;
use super::verifier;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// What was asked for.
    pub what: &'static str,
    /// Of whom: `host:port`.
    pub at: String,
    /// Why it failed.
    pub why: Why,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no connection, or it broke.
    Unreachable(String),
    /// No answer within this time.
    Silent(Duration),
    /// The server said no.
    Refused {
        /// In the protocol's terms.
        code: Code,
        /// In its own words.
        message: String,
    },
    /// It was not even sent: options or `EJFAT_URI` do not allow it.
    Unsent {
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: &'static str,
    },
}

impl ControlError {
    /// Whether the control plane is away: the same call may succeed later.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self.why, Why::Unreachable(_) | Why::Silent(_))
    }

    /// Whether the server does not know who asks, or what about: after a restart without its state it knows no session
    /// and no token of one.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let unknown =
            [Code::NotFound, Code::Unauthenticated, Code::PermissionDenied, Code::FailedPrecondition];
        matches!(&self.why, Why::Refused { code, .. } if unknown.contains(code))
    }

    /// Whether another ended what the call is about, as an operator who removes a worker.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(&self.why, Why::Refused { code: Code::Aborted, .. })
    }

    fn hint(&self) -> &'static str {
        match &self.why {
            Why::Unreachable(why) if why.contains("certificate expired") => {
                "renew it, and give the file of the new one, or accept any certificate"
            }
            Why::Unreachable(why) if why.contains("certificate is not valid before") => {
                "compare the clocks of both hosts, or accept any certificate"
            }
            Why::Unreachable(why) if why.contains("certificate") || why.contains("Certificate") => {
                "give the file of the certificate that signed the server's, or accept any certificate"
            }
            Why::Unreachable(_) => {
                "check host and port in EJFAT_URI, that the control plane runs, and ejfat:// or, for TLS, ejfats://"
            }
            Why::Silent(_) => "it accepts connections, but does not answer: look at its log",
            Why::Refused { code, .. } => match code {
                Code::Unauthenticated => {
                    "the token in EJFAT_URI is missing, wrong or expired: take the URI that reserving printed"
                }
                Code::PermissionDenied => {
                    "the token in EJFAT_URI does not permit this: take that of the reservation, or the administrator's"
                }
                Code::NotFound => "the reservation may have ended: reserve again, and take its new EJFAT_URI",
                Code::ResourceExhausted => "free what is not needed any more",
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
            Why::Unreachable(why) => format!("cannot be reached: {why}"),
            Why::Silent(time) => format!("no answer in {:.1} s", time.as_secs_f64()),
            Why::Refused { message, code } if message.is_empty() => {
                format!("refused: {}", code.description())
            }
            Why::Refused { message, .. } => format!("refused: {message}"),
            Why::Unsent { problem, .. } => problem.clone(),
        };
        // A server that says what to do knows best.
        if said.contains("hint: ") { f.write_str(&said) } else { write!(f, "{said}; hint: {}", self.hint()) }
    }
}

impl std::error::Error for ControlError {}

/// The innermost cause of a failed connection.
pub(super) fn unreachable(error: &tonic::transport::Error, secrets: &[&str]) -> Why {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        // What TLS says is inside of an error of the transport, whose source is that of what it contains.
        let of_tls = inner.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref()?.downcast_ref());
        if let Some(why) = of_tls.or(inner.downcast_ref()).and_then(verifier::wrong_with) {
            text = why;
            break;
        }
        text = inner.to_string();
        cause = inner.source();
    }
    Why::Unreachable(plain(&text, secrets))
}

/// What a status means: some are not of the server, but of the connection.
pub(super) fn of_status(status: &Status, secrets: &[&str]) -> Why {
    let message = plain(status.message(), secrets);
    let is_local = status.source().is_some();
    match status.code() {
        Code::Unavailable => Why::Unreachable(message),
        // A connection that broke while the answer was awaited.
        Code::Unknown | Code::Internal | Code::Cancelled if is_local => Why::Unreachable(message),
        code => Why::Refused { code, message },
    }
}
