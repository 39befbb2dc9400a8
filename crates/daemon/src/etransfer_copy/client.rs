//! A client of one server, and its limits.

use super::session::Session;
use super::url::EtransferUrl;
use skyhaul::io::lock::lock;
use skyhaul_transfer::copy::{FetchError, back_off};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Mutex;
use std::time::Duration;

/// Names that the lists of a copy have at most.
pub const MAX_LISTED: usize = 1_000_000;
/// Maximum depth of directories.
pub const MAX_DEPTH: usize = 64;
/// Transfers at a time. `etd` closes the descriptor of a file twice when its transfer is removed: if another transfer opens a file between, the
/// two read or write each other's bytes, and nothing in the protocol shows it. One at a time, as `etc` has, cannot meet that.
pub(super) const TRANSFERS: usize = 1;

/// A client of one server.
pub struct EtransferClient {
    host: String,
    addresses: Vec<SocketAddr>,
    patience: Duration,
    /// Sessions whose command channels wait for the next request.
    pub(super) idle: Mutex<Vec<Session>>,
}

impl EtransferClient {
    /// A client of the server of this URL. `patience` is the longest time in which it may send nothing.
    ///
    /// # Errors
    /// Its name has no address.
    pub fn new(of: &EtransferUrl, patience: Duration) -> io::Result<Self> {
        let found = (of.host.as_str(), of.port).to_socket_addrs();
        let found =
            found.map_err(|error| io::Error::new(error.kind(), format!("find {}: {error}", of.host)))?;
        let addresses: Vec<SocketAddr> = found.collect();
        if addresses.is_empty() {
            let text = format!("find {}: it has no address", of.host);
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(Self { host: of.host.clone(), addresses, patience, idle: Mutex::default() })
    }

    /// A session: one that waits, or a new one.
    pub(super) fn session(&self, is_over: &dyn Fn() -> bool) -> Result<Session, FetchError> {
        match lock(&self.idle).pop() {
            Some(session) => Ok(session),
            None => Session::open(&self.host, &self.addresses, self.patience, is_over),
        }
    }

    pub(super) fn put_back(&self, session: Session) {
        lock(&self.idle).push(session);
    }

    /// Does `work` with a session, again while the connection breaks.
    pub(super) fn with_session<T>(
        &self,
        is_over: &dyn Fn() -> bool,
        work: &mut dyn FnMut(&mut Session) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let mut tries = 0;
        loop {
            let done = self.session(is_over).and_then(|mut session| {
                let done = work(&mut session)?;
                self.put_back(session);
                Ok(done)
            });
            let error = match done {
                Err(error @ FetchError::Broken(_)) => error,
                other => return other,
            };
            // The others are of the same server.
            lock(&self.idle).clear();
            tries += 1;
            let Some(wait) = back_off(tries, None) else { return Err(error) };
            crate::web_copy::pause(wait, is_over)?;
        }
    }
}
