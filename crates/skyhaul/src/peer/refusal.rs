//! What a server refuses, for a log: connections whose peer proves no token, those beyond the limits, and requests.

use super::{PeerError, RequestSubject, VERSION};
use std::net::SocketAddr;
use std::sync::OnceLock;

/// A connection or a request that a [`Server`](super::Server) refused.
#[derive(Debug)]
pub struct PeerRefusal<'a> {
    /// Address of the client.
    pub from: SocketAddr,
    /// Which token it proved, by its place among the [`TokenHolders`](super::TokenHolders); `None` before the proof.
    pub held: Option<usize>,
    /// The service that it asked for, in its own words.
    pub service: Option<&'a str>,
    /// What the request was about.
    pub subject: RequestSubject,
    /// The reason, without a secret. It may quote the client.
    pub reason: &'a str,
}

/// Takes refusals. It is called on the thread that refuses, and must not wait.
pub type RefusalObserver = Box<dyn Fn(&PeerRefusal<'_>) + Send + Sync>;

/// Who takes them, once there is somebody.
#[derive(Default)]
pub(super) struct Refusals(OnceLock<RefusalObserver>);

impl Refusals {
    pub(super) fn observe(&self, observer: RefusalObserver) {
        let _ = self.0.set(observer);
    }

    pub(super) fn note(&self, refusal: &PeerRefusal<'_>) {
        self.0.get().inspect(|observer| observer(refusal));
    }

    /// A connection, for this reason.
    pub(super) fn connection(&self, from: SocketAddr, held: Option<usize>, reason: &str) {
        let subject = RequestSubject::default();
        self.note(&PeerRefusal { from, held, service: None, subject, reason });
    }

    /// A connection whose peer proved no token.
    pub(super) fn unproven(&self, from: SocketAddr, error: &PeerError) {
        let reason = match error {
            PeerError::Token(_) => "its token is that of no client".to_owned(),
            PeerError::Version { theirs, .. } => {
                format!("its control connection has version {theirs}, this server version {VERSION}")
            }
            PeerError::Late { .. } => "it proved no token in time".to_owned(),
            PeerError::Closed(_) | PeerError::Truncated(_) => {
                "it ended, or was closed for another, before it proved a token".to_owned()
            }
            PeerError::Io(error) => format!("it failed before it proved a token: {error}"),
            _ => "it sent no valid greeting".to_owned(),
        };
        self.connection(from, None, &reason);
    }
}
