//! The authorities by which certificates of servers are verified.

use skyhaul::core::hint::Hint;
use std::io;
use std::path::Path;
use tokio_rustls::rustls::RootCertStore;

/// Those in a file or a directory, or else those of the system.
pub(super) fn roots(authorities: Option<&Path>) -> io::Result<RootCertStore> {
    let found = match authorities {
        None => rustls_native_certs::load_native_certs(),
        Some(path) if path.is_dir() => rustls_native_certs::load_certs_from_paths(None, Some(path)),
        Some(path) => rustls_native_certs::load_certs_from_paths(Some(path), None),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = authorities
        && roots.is_empty()
    {
        let hint = Hint("give a PEM file, or a directory with hashed names");
        let text = format!("no certificates of authorities in {}{hint}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(roots)
}
