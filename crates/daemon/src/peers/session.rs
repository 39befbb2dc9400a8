//! A service of a client: its sessions are counted, and those of measurements yield to recordings.

use super::ledger::{PeerRequest, SessionAccount, SessionEnd};
use serde_json::Value;
use skyhaul::core::hint::Hint;
use skyhaul::peer::{Admission, Limits, PeerError, RequestSubject, Service, Session};
use std::net::SocketAddr;
use std::sync::Arc;

/// A service with the account of a client.
pub(super) struct CountedService {
    service: Box<dyn Service>,
    account: Arc<SessionAccount>,
    /// Whether it is refused while something is recorded, and ends when a recording begins.
    yields: bool,
}

impl CountedService {
    pub(super) fn new(service: Box<dyn Service>, account: Arc<SessionAccount>, yields: bool) -> Self {
        Self { service, account, yields }
    }

    fn request(&self, from: SocketAddr, body: &Value) -> PeerRequest {
        PeerRequest { from, service: self.name(), subject: self.service.subject(body) }
    }

    fn yields_now(&self) -> bool {
        self.yields && self.account.is_recording()
    }
}

fn while_recording() -> String {
    let hint = Hint("try again when nothing is recorded; the operator may set probe = \"always\"");
    format!("the station is recording, and measures nothing meanwhile{hint}")
}

impl Service for CountedService {
    fn name(&self) -> &'static str {
        self.service.name()
    }

    fn admit(&self, body: &Value, limits: &Limits) -> Result<Admission, String> {
        match self.yields_now() {
            true => Err(while_recording()),
            false => self.service.admit(body, limits),
        }
    }

    fn subject(&self, body: &Value) -> RequestSubject {
        self.service.subject(body)
    }

    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError> {
        let request = self.request(session.connection.peer(), &body);
        let mut running = self.account.begin(request, session.tally);
        let ran = match self.yields {
            true => self.service.run(&mut session.revocable(&self.account.signs.recording), body),
            false => self.service.run(session, body),
        };
        running.end = match &ran {
            Ok(()) if session.tally.is_cut() => SessionEnd::Failed,
            Ok(()) => SessionEnd::Done,
            Err(_) if self.yields_now() => SessionEnd::Yielded,
            Err(error) => {
                running.reason = Some(error.to_string());
                SessionEnd::Failed
            }
        };
        ran
    }
}
