//! Errors of the fleet's store, with hints. They never contain a password or a token.

use crate::ejfat::client::verifier::{tls_error, wrong_with};
use skyhaul::core::hint::Hint;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};

/// A call to the fleet's store that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetStoreError {
    /// The call.
    pub what: &'static str,
    /// The member that was asked last, or all of them.
    pub at: String,
    /// Why it failed.
    pub why: StoreProblem,
}

/// Why a call to the fleet's store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreProblem {
    /// There is no connection to any member, or it broke, or the members have no leader.
    Unreachable(String),
    /// The certificate of a member is not accepted.
    Untrusted(String),
    /// There was no reply within this time.
    Silent(Duration),
    /// User, password or client certificate are not accepted, or do not permit this.
    NotPermitted(String),
    /// The store has no space left, or has not been freed of its alarm since.
    Full,
    /// The revision that was asked for is compacted.
    Compacted,
    /// The lease has expired.
    LeaseExpired,
    /// There are more keys than the caller accepts.
    TooManyKeys(usize),
    /// The keys with a prefix have more bytes than a list may have.
    TooManyBytes(usize),
    /// The store refused the call for another reason, or is no etcd.
    Refused {
        /// The code of gRPC.
        code: Code,
        /// The message of the server.
        message: String,
    },
    /// The call was not sent.
    Unsent {
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: &'static str,
    },
}

impl FleetStoreError {
    /// Whether the store is away, so that the same call may succeed later.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.why.is_away()
    }
}

impl StoreProblem {
    /// Whether another member, or the same one later, may reply.
    pub(super) fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Untrusted(_) | Self::Silent(_))
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => {
                "check host and port of the endpoints, http:// or https://, that etcd runs there, and that it accepts the client certificate, if it asks for one"
            }
            Self::Untrusted(_) => "give the certificate of the authority that signed those of the members",
            Self::Silent(_) => "the members may have no leader: check that more than half of them run",
            Self::NotPermitted(_) => "check the user file, the role of the user, and the client certificate",
            Self::Full => "compact and defragment the store, then disarm its alarm: etcdctl alarm disarm",
            Self::Compacted => "list the keys again",
            Self::LeaseExpired => "ask for a new lease",
            Self::TooManyKeys(_) | Self::TooManyBytes(_) => "archive and delete old keys",
            Self::Refused { code: Code::Unimplemented, .. } => "expected etcd 3.4 or later at this address",
            Self::Refused { .. } => "the log of etcd may say more",
            Self::Unsent { hint, .. } => hint,
        }
    }
}

impl fmt::Display for FleetStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at, why } = self;
        write!(f, "{what}: the fleet's store at {at}: ")?;
        match why {
            StoreProblem::Unreachable(text) => write!(f, "cannot be reached: {text}")?,
            StoreProblem::Untrusted(text) => f.write_str(text)?,
            StoreProblem::Silent(time) => write!(f, "no answer in {:.1} s", time.as_secs_f64())?,
            StoreProblem::NotPermitted(text) => write!(f, "not permitted: {text}")?,
            StoreProblem::Full => f.write_str("it is full")?,
            StoreProblem::Compacted => f.write_str("the revision is compacted")?,
            StoreProblem::LeaseExpired => f.write_str("the lease has expired")?,
            StoreProblem::TooManyKeys(limit) => write!(f, "more than {limit} keys")?,
            StoreProblem::TooManyBytes(limit) => {
                write!(f, "keys with more than {} MiB of values", limit >> 20)?;
            }
            StoreProblem::Refused { code, message } if message.is_empty() => {
                write!(f, "refused: {}", code.description())?;
            }
            StoreProblem::Refused { message, .. } => write!(f, "refused: {message}")?,
            StoreProblem::Unsent { problem, .. } => f.write_str(problem)?,
        }
        Hint(why.hint()).fmt(f)
    }
}

impl std::error::Error for FleetStoreError {}

/// Maximum length of a text of a server or a library in an error, characters.
const MAX_TEXT: usize = 300;

/// A text of a server or a library, as it may be shown.
fn shown(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The problem behind a connection that failed.
pub(super) fn of_connection(error: &tonic::transport::Error) -> StoreProblem {
    of_causes(error.source(), error.to_string())
}

/// Alerts of TLS by which a server refuses the certificate of a client, or that it has none.
const ALERTS: [&str; 8] = [
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateRevoked",
    "CertificateExpired",
    "CertificateUnknown",
    "CertificateRequired",
    "UnknownCA",
    "AccessDenied",
];

/// The innermost cause of a failed connection, or what TLS says of it.
fn of_causes(mut cause: Option<&(dyn std::error::Error + 'static)>, mut text: String) -> StoreProblem {
    while let Some(inner) = cause {
        if let Some((_, text)) = tls_error(inner).and_then(wrong_with) {
            return StoreProblem::Untrusted(shown(&text));
        }
        text = inner.to_string();
        cause = inner.source();
    }
    // HTTP/2 keeps only the text of what TLS says after the handshake.
    match text.split_once("received fatal alert: ") {
        Some((_, alert)) if ALERTS.iter().any(|name| alert.contains(name)) => StoreProblem::NotPermitted(
            format!("the client certificate is missing or not accepted ({})", shown(alert)),
        ),
        _ => StoreProblem::Unreachable(shown(&text)),
    }
}

/// The problem that a status stands for. Texts are those of etcd's `rpctypes`, the same since 3.0.
pub(super) fn of_status(status: &Status) -> StoreProblem {
    let is_local = status.source().is_some();
    match of_code(status.code(), status.message(), is_local) {
        StoreProblem::Unreachable(text) if is_local => of_causes(status.source(), text),
        problem => problem,
    }
}

/// The same; `is_local`: the connection broke while the reply was awaited.
fn of_code(code: Code, message: &str, is_local: bool) -> StoreProblem {
    let text = shown(message);
    match code {
        Code::Unavailable | Code::DeadlineExceeded => StoreProblem::Unreachable(text),
        Code::Unknown | Code::Internal | Code::Cancelled if is_local => StoreProblem::Unreachable(text),
        Code::ResourceExhausted if message.contains("database space exceeded") => StoreProblem::Full,
        Code::OutOfRange if message.contains("compacted") => StoreProblem::Compacted,
        Code::NotFound if message.contains("lease not found") => StoreProblem::LeaseExpired,
        Code::Unauthenticated | Code::PermissionDenied => StoreProblem::NotPermitted(text),
        Code::InvalidArgument if message.contains("authentication failed") => {
            StoreProblem::NotPermitted(text)
        }
        Code::InvalidArgument if message.contains("user name is empty") => StoreProblem::NotPermitted(text),
        Code::FailedPrecondition if message.contains("authentication is not enabled") => {
            StoreProblem::NotPermitted(text)
        }
        code => StoreProblem::Refused { code, message: text },
    }
}

/// Whether the token of a user has expired, or the rights of users have changed since it was given: a new one may be accepted.
pub(super) fn is_stale_token(status: &Status) -> bool {
    let text = status.message();
    text.contains("invalid auth token") || text.contains("revision of auth store is old")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_etcd_has_its_problem() {
        use StoreProblem as P;
        let permitted = |text: &str| P::NotPermitted(text.to_owned());
        for (code, text, problem) in [
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", P::Full),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", P::Compacted),
            (Code::NotFound, "etcdserver: requested lease not found", P::LeaseExpired),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                permitted("etcdserver: permission denied"),
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                permitted("etcdserver: user name is empty"),
            ),
            (Code::Unavailable, "etcdserver: no leader", P::Unreachable("etcdserver: no leader".to_owned())),
        ] {
            assert_eq!(of_code(code, text, false), problem);
        }
        // What is too long for gRPC has the code of what is compacted.
        let long = of_code(Code::OutOfRange, "decoded message length too large", false);
        assert!(matches!(long, P::Refused { code: Code::OutOfRange, .. }), "{long:?}");
    }

    #[test]
    fn a_text_of_a_server_commands_no_terminal() {
        let problem = of_code(Code::Unavailable, &format!("\x1b[2J{}", "x".repeat(1000)), false);
        let StoreProblem::Unreachable(text) = problem else { panic!("{problem:?}") };
        assert!(text.starts_with(" [2J") && text.len() == MAX_TEXT);
    }
}
