//! The certificate of a service, read from files.

use skyhaul::core::hint::Hint;
use skyhaul::io::file::{SETTINGS, read_small};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};

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
    pub(crate) fn acceptor(&self, protocols: &[&str]) -> io::Result<TlsAcceptor> {
        let pem = read_small(&self.certificate, SETTINGS)?;
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| bad(&self.certificate, "certificate", error))?;
        if chain.is_empty() {
            return Err(bad(&self.certificate, "certificate", "the file contains none"));
        }
        let key = PrivateKeyDer::from_pem_slice(&read_small(&self.key, SETTINGS)?)
            .map_err(|error| bad(&self.key, "private key", error))?;
        let config = || -> Result<ServerConfig, Error> {
            let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(chain, key)?;
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            Ok(config)
        };
        let config = config().map_err(|error| bad(&self.key, "key for the certificate", error))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn bad(path: &Path, what: &str, error: impl Display) -> io::Error {
    let text = format!("{} is not a valid {what}: {error}{}", path.display(), Hint("give a PEM file"));
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
