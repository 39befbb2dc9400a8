//! The connection to a control plane, with TLS and trust. It is made when needed, and again after it broke.

use super::error::{ControlError, Why, unreachable};
use super::verifier;
use skyhaul::core::wire::ejfat::Uri;
use skyhaul::io::file::{SETTINGS, read_small};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

/// Interval between attempts to connect: the first, then doubled up to the second value.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Which certificates are accepted if the URI requires TLS (`ejfats://`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by an authority of this system.
    #[default]
    System,
    /// Those in this file (PEM), and those signed by one of them.
    File(PathBuf),
    /// Any: the connection is encrypted, but the server is not authenticated.
    Anyone,
}

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) at: String,
    endpoint: Endpoint,
    kept: Mutex<Option<Channel>>,
}

impl Connection {
    pub(super) fn new(uri: &Uri, trust: &Trust) -> Result<Self, ControlError> {
        let host = if uri.host.contains(':') { format!("[{}]", uri.host) } else { uri.host.clone() };
        let at = format!("{host}:{}", uri.port);
        let unsent = |problem: String, hint| ControlError {
            what: "connect",
            at: at.clone(),
            why: Why::Unsent { problem, hint },
        };
        let scheme = if uri.tls { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{at}"))
            .map_err(|_| unsent("is no address".to_owned(), "check host and port in EJFAT_URI"))?
            // Detects dead peers and paths while there are no calls.
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5));
        let tls = ClientTlsConfig::new().domain_name(uri.host.clone());
        let no_tls = |()| {
            unsent("the certificates cannot be used".to_owned(), "give a file with certificates in PEM form")
        };
        let endpoint = match (uri.tls, trust) {
            (false, _) => endpoint,
            (true, Trust::System) => endpoint.tls_config(tls.with_native_roots()).map_err(|_| no_tls(()))?,
            (true, Trust::File(path)) => {
                let pem = read_small(path, SETTINGS)
                    .map_err(|error| unsent(error.to_string(), "give the file of a certificate (PEM)"))?;
                let pinned = verifier::Pinned::new(&pem).ok_or_else(|| no_tls(()))?;
                endpoint.tls_config_with_verifier(tls, Arc::new(pinned)).map_err(|_| no_tls(()))?
            }
            (true, Trust::Anyone) => {
                let anyone = Arc::new(verifier::Anyone::default());
                endpoint.tls_config_with_verifier(tls, anyone).map_err(|_| no_tls(()))?
            }
        };
        Ok(Self { at, endpoint, kept: Mutex::new(None) })
    }

    /// Returns the channel; connecting is retried for `patience`.
    pub(super) async fn channel(&self, deadline: Duration, patience: Duration) -> Result<Channel, Why> {
        if let Some(channel) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(channel);
        }
        let begun = Instant::now();
        let mut pause = MIN_RETRY_DELAY;
        loop {
            let why = match tokio::time::timeout(deadline, self.endpoint.connect()).await {
                Ok(Ok(channel)) => {
                    let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                    return Ok(kept.insert(channel).clone());
                }
                Ok(Err(error)) => unreachable(&error, &[]),
                Err(_) => Why::Unreachable(format!("no connection in {:.1} s", deadline.as_secs_f64())),
            };
            if begun.elapsed() + pause > patience {
                return Err(why);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// The connection broke or does not respond: the next call makes a new one.
    pub(super) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
