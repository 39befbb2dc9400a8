//! The certificate of a service, read from files, and again when they change: certificates are renewed while a service runs.
//!
//! ```text
//!   handshake ─▶ files looked at in this second? ─▶ changed? ─▶ both read, key fits? ─▶ used from now on
//!                                                                         └─ no: said once, the one before stays
//! ```
//!
//! Connections that exist, and clients that resume a session, stay with the certificate that they have seen.

use skyhaul::core::hint::Hint;
use skyhaul::io::file::{SETTINGS, read_small};
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, ServerConfig};

/// How often it is looked whether the files have changed, at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Paths of the certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads the files, for a service that speaks these protocols (RFC 7301), the preferred one first.
    /// Clients are asked for certificates if there is a verifier for them.
    pub(crate) fn acceptor(
        &self,
        protocols: &[&str],
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> io::Result<TlsAcceptor> {
        let renewed = RenewedKey {
            state: Mutex::new(KeyState {
                stamps: self.stamps(),
                looked: Instant::now(),
                key: Arc::new(self.read()?),
            }),
            files: self.clone(),
        };
        let config = || -> Result<ServerConfig, Error> {
            let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_client_cert_verifier(clients.unwrap_or_else(WebPkiClientVerifier::no_client_auth))
                .with_cert_resolver(Arc::new(renewed));
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            Ok(config)
        };
        Ok(TlsAcceptor::from(Arc::new(config().map_err(io::Error::other)?)))
    }

    /// The certificate, with the key that fits it.
    fn read(&self) -> io::Result<CertifiedKey> {
        let pem = read_small(&self.certificate, SETTINGS)?;
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| bad(&self.certificate, "certificate", error))?;
        if chain.is_empty() {
            return Err(bad(&self.certificate, "certificate", "the file contains none"));
        }
        let key = PrivateKeyDer::from_pem_slice(&read_small(&self.key, SETTINGS)?)
            .map_err(|error| bad(&self.key, "private key", error))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| bad(&self.key, "key for the certificate", error))
    }

    /// What tells these files from others of their names.
    fn stamps(&self) -> Stamps {
        [&self.certificate, &self.key].map(|path| {
            let status = std::fs::metadata(path).ok()?;
            Some((status.ino(), status.len(), status.mtime(), status.mtime_nsec()))
        })
    }
}

/// Number, size and time of the certificate and of the key; `None` for one that is not there.
type Stamps = [Option<(u64, u64, i64, i64)>; 2];

/// The certificate of a service as its files have it now.
#[derive(Debug)]
struct RenewedKey {
    files: TlsFiles,
    state: Mutex<KeyState>,
}

#[derive(Debug)]
struct KeyState {
    stamps: Stamps,
    /// When the files were looked at.
    looked: Instant,
    key: Arc<CertifiedKey>,
}

impl ResolvesServerCert for RenewedKey {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut state = lock(&self.state);
        if state.looked.elapsed() >= LOOK_INTERVAL {
            state.looked = Instant::now();
            // Before they are read: what changes meanwhile is seen the next time.
            let stamps = self.files.stamps();
            if stamps != state.stamps {
                state.stamps = stamps;
                match self.files.read() {
                    Ok(key) => {
                        state.key = Arc::new(key);
                        say!("the certificate was read again: {}", self.files.certificate.display());
                    }
                    Err(error) => say!("the certificate that was read before stays in use: {error}"),
                }
            }
        }
        Some(Arc::clone(&state.key))
    }
}

fn bad(path: &Path, what: &str, error: impl Display) -> io::Error {
    let text = format!("{} is not a valid {what}: {error}{}", path.display(), Hint("give a PEM file"));
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
